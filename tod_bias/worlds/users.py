"""Worlds in which the user is a part of the system: the conversation as a flow, its messages, and users."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from tod_bias.dialogues.calls import calls_of
from tod_bias.dialogues.values import API_NAME
from tod_bias.systems.chat.components import ToolCalls
from tod_bias.systems.flow import FlowTurn, Reply
from tod_bias.systems.stage import Stage, StageInput
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.messages import POLICY, TOOLS, USER, message, messages_for, task_of
from tod_bias.worlds.world import identity

ENDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""Marks with which a user of τ²-bench ends a conversation."""
MOST_MESSAGES = 30
"""Maximum number of messages of the user in a conversation."""
_MOST_ANSWERS = 4
"""Answers of the scripted user after which it ends the conversation."""
THANKS = f"Thank you, that is all. {ENDS[0]}"
"""Last message of the scripted user."""


def conversation(turn: FlowTurn) -> Generator[Any, Any, Any]:
    """Let user and policy speak in turn until the user ends the conversation; either calls tools before it speaks.

    The response of the turn is everything that the policy has said.
    """
    said: list[str] = []
    for _ in range(MOST_MESSAGES):
        words = yield from _spoken(USER)
        if any(end in words for end in ENDS):
            break
        said.append((yield from _spoken(POLICY)))
    return Reply("\n".join(said))


def _spoken(stage: str) -> Generator[Any, Any, str]:
    """Carry out the calls of a stage until it says something; return its words."""
    while True:
        output = yield stage
        calls = calls_of(output)
        if not calls:
            return str(output.get("content") or "") if isinstance(output, dict) else str(output or "")
        for call in calls:
            yield TOOLS, call


class ScriptedUser(Stage):
    """Opens with the facts of the task, answers questions, and carries out the user's own recorded actions.

    Args:
        world: its name, ``tau2:retail``.
    """

    def __init__(self, world: str) -> None:
        self.world = load_world(world)
        self.signature = identity(self, f"scripted user: {self.world.signature}")

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return the user's message, or a call of one of the user's tools."""
        return [self._output(item) for item in inputs]

    def _output(self, item: StageInput) -> dict[str, Any]:
        content = task_of(item).content
        if not item.steps:
            return message(str(item.user))
        is_after_policy = item.steps[-1].name == POLICY
        if action := _next_action(content, item, is_after_policy=is_after_policy):
            return message(calls=[action])
        return self._answer(item, str(content["later"])) if is_after_policy else message("I have done that.")

    def _answer(self, item: StageInput, later: str) -> dict[str, Any]:
        """Return the answer to the policy's words: what is left of the facts if it asks, else a farewell."""
        said = [str(step.output["content"]) for step in item.steps if step.name == USER and step.argument is None]
        if "?" not in str(item.steps[-1].output["content"]) or len(said) > _MOST_ANSWERS:
            return message(THANKS)
        return message(later if later and later not in said else "Yes, please.")


def _next_action(content: Mapping[str, Any], item: StageInput, *, is_after_policy: bool) -> dict[str, Any]:
    """Return the user's next recorded action, when it is asked for or follows another one; empty if there is none."""
    of_user = [place for place, by in enumerate(content["by"]) if by == "user"]
    names = {str(content["gold"][place][API_NAME]) for place in of_user}
    made = [step for step in item.steps if step.argument is not None and step.argument[API_NAME] in names]
    left = of_user[len(made) :]
    if not left or not (is_after_policy or (made and left[0] - 1 in of_user)):
        return {}
    return dict(content["gold"][left[0]])


class ServedUser(ToolCalls):
    """A model behind a server that plays the user by the package's own guidelines.

    Args:
        world: its name, ``tau2:retail``.
        settings: fields of :class:`~tod_bias.systems.chat.settings.ChatSettings`.
    """

    def __init__(self, world: str, **settings: Any) -> None:
        self.world = load_world(world)
        super().__init__(system="", tools=self.world.user_tools() or None, **settings)
        name = "simulation_guidelines_tools.md" if self.tools else "simulation_guidelines.md"
        path = files("tau2").joinpath("data", "tau2", "user_simulator", name)
        self._guidelines = path.read_text(encoding="utf-8")

    def request(self, item: StageInput) -> dict[str, Any]:
        """Return the body of the request for one input."""
        scenario = f"{self._guidelines}\n\n<scenario>\n{task_of(item).content['scenario']}\n</scenario>"
        # An introduction is in the opening words, which the model says with its first message.
        scenario += f"\n\nOpen the conversation with these facts about yourself:\n{item.user}"
        messages = messages_for(USER, item, self.world.users_tools, scenario)
        if len(messages) == 1:
            messages.append({"role": "user", "content": "Hi! How can I help you today?"})
        body = self.settings.fields() | {"messages": messages}
        return body | ({"tools": self.tools} if self.tools else {})
