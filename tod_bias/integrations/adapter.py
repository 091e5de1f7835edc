"""Base class of the adapters of all frameworks: the stage of a call, and the pipeline of an agent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue, Turn, arguments_of, flat_call
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import StageError, TodBiasError, meant
from tod_bias.io.canonical import NotPlainError, canonical, digest
from tod_bias.io.signatures import derived_signature
from tod_bias.statistics.arms import MOST_PLAYERS
from tod_bias.systems.flow import REPLY, FlowTurn
from tod_bias.systems.hosted import TIMEOUT, AgentRequest, AgentStage, HostedFlow, ask
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.raised import Raised
from tod_bias.systems.stage import place_of

if TYPE_CHECKING:
    from tod_bias.integrations.mcp import McpServer

Match = Mapping[str, str]
"""Pattern of the calls that belong to a stage: file-name patterns (``find_*``) of ``agent``, ``tool``, ``node``,
``server`` (of MCP), or a ``kind`` (``model``, ``tool``, ``node``); all must fit."""
SETS: Mapping[str, Mapping[str, Match]] = {
    "model": {"model": {"kind": "model"}},
    "tools": {"tools": {"kind": "tool"}},
    "model+tools": {"model": {"kind": "model"}, "tools": {"kind": "tool"}},
}
"""Stages by a word."""
_OF_MODELS = ("model", "system", "offers")
"""Keys that match only requests to models."""
_KINDS = ("tool", "server", "node", "agent")
"""Kinds of calls of a stage, by the key that matches them."""
_GROUPS = {kind: f"{kind}s" for kind in ("model", *_KINDS)} | {"server": "tools"}
"""The kind of a stage's calls to the name of its group."""


@dataclass(frozen=True)
class AgentSettings:
    """Settings for running an agent."""

    signature: str = ""
    """Identifies everything that determines the outputs of models and tools; by default derived from their source."""
    concurrency: int = 16
    """Calls of a stage at once."""
    timeout: float = TIMEOUT
    """Seconds that it may take from one call to the next, else its dialogue is left out."""
    is_random: bool = False
    """True if models draw their outputs, so that equal requests get different replies in different samples."""


class Adapter:
    """An agent of a framework: how it is run, and how its calls are carried out.

    Args:
        agent: the agent.
        stages: the name of a set (:data:`SETS`), or stage to the calls that belong to it; the first that fits counts.
        options: further arguments of the framework's own function that runs the agent.

    Raises:
        StageError: the stages are malformed, or one names an unknown agent, tool or node.
    """

    framework = ""
    facts: Sequence[str] = ("kind", "agent", "tool", "node", "server")
    """Facts that the patterns of stages can match."""
    known: Mapping[str, list[str]] = {}
    """Kinds, agents, tools, nodes and MCP servers by fact; ``*`` if only calls show them. Empty if stages have no
    patterns."""
    settle = 0.0
    """See :class:`~tod_bias.systems.hosted.HostedFlow`."""
    servers: Mapping[str, McpServer] = {}
    """Tools of MCP servers."""

    def __init__(self, agent: Any, stages: str | Mapping[str, Match], options: Mapping[str, Any]) -> None:
        self.agent, self.options = agent, options
        self.stages = self.read_stages(stages)
        self.fixed: dict[str, Any] = {}
        """Parts of a request that are not JSON (a model, its settings), by the request's ``fixed``."""
        for stage, match in self.stages.items():
            if unknown := sorted(set(match) - set(self.facts)):
                raise StageError(f"stages: {stage!r}: expected some of {', '.join(self.facts)}, got {unknown[0]!r}")
            for fact, pattern in match.items():
                known_names = sorted(set(self.known.get(fact, ())))
                if "*" not in known_names and not any(fnmatchcase(name, pattern) for name in known_names):
                    known = f"; there are {', '.join(known_names)}" if known_names else ""
                    raise StageError(f"stages: {stage!r}: no {fact} {pattern!r}{known}{meant(pattern, known_names)}")

    def read_stages(self, stages: str | Mapping[str, Match]) -> dict[str, Match]:
        """Stages by name.

        Raises:
            StageError: they are neither a set's name nor a mapping.
        """
        matches = SETS.get(stages) if isinstance(stages, str) else stages
        if not isinstance(matches, Mapping) or not all(isinstance(match, Mapping) for match in matches.values()):
            raise StageError(
                f"stages: expected one of {', '.join(SETS)}, or a mapping such as "
                f'{{"search": {{"tool": "find_*"}}, "model": {{"kind": "model"}}}}, got {stages!r:.100}'
            )
        if REPLY in matches:
            raise StageError(f"stages: {REPLY!r} is the name of the agent's response; choose another name")
        return dict(matches)

    def stage_of(self, **facts: str) -> str | None:
        """Return the first stage that a call fits, or None."""
        for stage, match in self.stages.items():
            if all(fact in facts and fnmatchcase(facts[fact], pattern) for fact, pattern in match.items()):
                return stage
        return None

    def parts(self) -> Sequence[Any]:
        """The functions and classes that decide what models and tools put out."""
        raise NotImplementedError

    async def run(self, messages: list[dict[str, Any]]) -> str:
        """Return the agent's response to OpenAI messages that end with the user's."""
        raise NotImplementedError

    async def call_model(self, request: AgentRequest) -> Any:
        """Return the output of a model or node, as JSON."""
        raise NotImplementedError

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a tool, as JSON."""
        raise NotImplementedError

    async def ask_model(self, stage: str | None, content: Any, fixed: Any, held: Any) -> Any:
        """Call a model's stage from within the agent.

        Args:
            stage: its name; None if the model belongs to no stage and is called directly.
            content: messages as JSON; rewritten in counterfactuals.
            fixed: JSON that is not rewritten: instructions, schemas, settings.
            held: further objects that :meth:`call_model` needs.
        """
        key = digest(canonical(fixed))
        self.fixed.setdefault(key, held)
        request = AgentRequest(content, key)
        return await (self.call_model(request) if stage is None else ask(stage, request))

    def pipeline(self, name: str, settings: AgentSettings) -> Pipeline:
        """The agent as a pipeline, which messages call by a name."""

        async def call(argument: Any, before: Sequence[Any]) -> Any:
            if isinstance(argument, AgentRequest):
                return await self.call_model(argument)
            name, arguments = argument[API_NAME], arguments_of(argument)
            if name in self.servers:
                return await self.servers[name].call(name, arguments, before)
            try:
                return await self.call_tool(name, arguments)
            except TodBiasError:
                raise
            except Exception as error:  # noqa: BLE001  # the agent may see to it
                return Raised.of(error)

        async def answer(turn: FlowTurn) -> str:
            dialogue = Dialogue("", "", (*turn.history, Turn(turn.user)))
            return await self.run(to_messages(dialogue, answered=True))

        derived, unsigned = settings.signature, ""
        if not derived:
            try:
                derived = self._signature()
            except NotPlainError as error:
                unsigned = str(error)
        has_state = any(server.writers for server in self.servers.values())
        stages = {}
        for stage, match in self.stages.items():
            kind = self.kind_of(stage, match)
            stages[stage] = AgentStage(
                call,
                settings.signature if self.servers and kind != "model" else derived,
                settings.concurrency,
                reads_calls=has_state and kind != "model",
                is_random=settings.is_random and kind not in ("tool", "server"),
                unsigned=unsigned,
            )
        return Pipeline(stages, HostedFlow(answer, name, settings.timeout, self.settle), groups=self.groups())

    def groups(self) -> dict[str, list[str]]:
        """Stages by kind, if they are too many for one level of contributions."""
        groups: dict[str, list[str]] = {}
        for stage, match in self.stages.items() if len(self.stages) > MOST_PLAYERS else ():
            groups.setdefault(_GROUPS.get(self.kind_of(stage, match), stage), []).append(stage)
        return groups

    def kind_of(self, stage: str, match: Match) -> str:
        """Return the kind of a stage's calls; empty if there are several kinds."""
        if any(fact in match for fact in _OF_MODELS):
            return "model"
        return next((kind for kind in _KINDS if kind in match), match.get("kind", ""))

    def _signature(self) -> str:
        """Under which outputs are cached: the parts, and the options where these are plain.

        Raises:
            NotPlainError: a part's source or state cannot be read; names it.
        """
        signatures = [self.framework]
        for part in self.parts():
            try:
                signatures.append(derived_signature(part))
            except NotPlainError as error:
                raise NotPlainError(f"{place(part)}: {error}") from None
        with suppress(NotPlainError):
            signatures.append(derived_signature(self.options))
        return digest("\n".join(signatures))


def identity_of(model: Any) -> Any:
    """Return the identity of a model in the cache: the class of a framework's model, whose name and settings are in
    requests, or the user's own model itself, because its attributes count too."""
    return type(model) if type(model).__module__.partition(".")[0] in ("agents", "pydantic_ai") else model


def tool_call(name: str, arguments: str | Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the argument of a tool's stage; None if the arguments are not a JSON object."""
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
        return flat_call(name, given) if isinstance(given, Mapping) else None
    except ValueError:
        return None


def text_of_output(output: Any) -> str:
    """An agent's final output as its response: a text as it is, anything else as JSON."""
    return output if isinstance(output, str) else json.dumps(to_jsonable_python(output), ensure_ascii=False)


_REFUSED = "I cannot help with this."


def refused(reason: Any) -> str:
    """Return the response if a guardrail or a provider's filter ended the run: a refusal with its reason.

    Args:
        reason: reason of the guardrail; ignored if it is not a text.
    """
    return f"{_REFUSED} {reason}" if isinstance(reason, str) and reason.strip() else _REFUSED


def place(agent: Any) -> str:
    """Return the name of an agent for messages."""
    name = getattr(agent, "name", None)
    return name if isinstance(name, str) and name else place_of(agent)


__all__ = [
    "TIMEOUT",
    "Adapter",
    "Match",
    "identity_of",
    "place",
    "refused",
    "text_of_output",
    "tool_call",
]
