"""ParlAI agents that repeat what they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message


class EchoAgent(Agent):
    """Repeats what it read, one at a time; it has no batch_act and no self_observe.

    It writes no equals sign, so that nothing it says is a call.
    """

    def __init__(self, opt: Any, shared: Any = None) -> None:
        super().__init__(opt, shared)
        self.heard: list[str] = []

    def observe(self, observation: Message) -> Message:
        self.heard.append(observation["text"])
        return super().observe(observation)

    def reset(self) -> None:
        super().reset()
        self.heard = []

    def act(self) -> Message:
        return Message({"text": "\n".join(self.heard).replace("=", ":"), "id": "echo"})


class LabelAgent(Agent):
    """Says the answers that it was shown as its own, as agents with a history of labels know them."""

    def __init__(self, opt: Any, shared: Any = None) -> None:
        super().__init__(opt, shared)
        self.said: list[str] = []

    def observe(self, observation: Message) -> Message:
        self.said += observation.get("eval_labels", [])
        observation.force_set("said", list(self.said))
        return super().observe(observation)

    def self_observe(self, reply: Message) -> None:
        assert self.observation["eval_labels"] == [reply["text"]]

    def reset(self) -> None:
        super().reset()
        self.said = []

    def batch_act(self, observations: Sequence[Message]) -> list[Message]:
        return [
            Message({"text": "\n".join(["SYSTEM:", *observation["said"]]), "id": "l"}) for observation in observations
        ]
