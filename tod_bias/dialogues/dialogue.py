"""Dialogues: turns of a user's message, steps of a call and its results, and a response; and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from tod_bias.dialogues.task import Task
from tod_bias.dialogues.text import (
    API_CALL,
    API_RESULT,
    SYSTEM,
    USER,
    Slots,
    escape,
    results_to_text,
    slots_to_text,
    well_formed,
)
from tod_bias.dialogues.values import API_NAME, checked, plain, read_each, strings

Content = str | tuple[Slots, ...]
"""The content of a chat message: a text, or its parts, ``{"type": "text", "text": …}``."""

ORIGINAL_VARIANT = "original"
"""Name, among the variants of a dialogue, of the dialogue as it is."""
_FUNCTION = {"name", "arguments"}


@dataclass(frozen=True, slots=True)
class Step:
    """Call of an API with its results."""

    call: Slots
    """Argument to JSON value, with the API's name under ``api_name``; OpenAI's ``{"name": …, "arguments": {…}}`` is
    taken as well."""
    results: tuple[Slots, ...] = ()
    """Results of the call, in order; empty results are left out."""
    said: str = ""
    """Text of the system in the same message as the call."""
    content: Content | None = None
    """Content of the tool's message, passed to a chat model byte for byte: a text, or OpenAI's list of text parts; None
    if no tool has written the results."""

    def __post_init__(self) -> None:
        if len(self.call) == 2 and self.call.keys() == _FUNCTION and isinstance(self.call["arguments"], Mapping):
            object.__setattr__(self, "call", flat_call(self.call["name"], self.call["arguments"]))
        checked(self.call, "call argument")
        if isinstance(self.results, (str, Mapping)):
            raise ValueError(f"results: expected several mappings, got one {type(self.results).__name__}; write (it,)")
        for result in self.results:
            checked(result, "result field")
        if self.results.__class__ is not tuple or not all(self.results):
            object.__setattr__(self, "results", tuple(result for result in self.results if result))
        if self.content is not None and not isinstance(self.content, str):
            object.__setattr__(self, "content", tuple(self.content))

    def __bool__(self) -> bool:
        return bool(self.call or self.results or self.said) or self.content is not None

    def mapped(self, change: Callable[[Any], Any]) -> Step:
        """Return the step with ``change`` applied to the call, each result and the text."""
        image = object.__new__(Step)
        object.__setattr__(image, "call", change(self.call))
        object.__setattr__(image, "results", tuple([change(result) for result in self.results]))
        object.__setattr__(image, "said", change(self.said))
        content = self.content
        if content is not None and not isinstance(content, str):
            content = tuple([{**part, part["type"]: change(part[part["type"]])} for part in content])
        object.__setattr__(image, "content", change(content) if isinstance(content, str) else content)
        return image

    @property
    def name(self) -> str:
        """The API's name; empty where the call has none."""
        return str(self.call.get(API_NAME, ""))

    @property
    def arguments(self) -> dict[str, Any]:
        """The call without the API's name."""
        return arguments_of(self.call)

    def to_json(self) -> dict[str, Any]:
        """Return the step as plain JSON types; ``said`` and ``content`` only if they are set."""
        record: dict[str, Any] = {"call": plain(self.call), "results": [plain(result) for result in self.results]}
        if self.said:
            record["said"] = self.said
        if self.content is not None:
            record["content"] = self.content if isinstance(self.content, str) else plain(list(self.content))
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Step:
        """Read what :meth:`to_json` wrote; only ``call`` is required.

        Raises:
            ValueError: a field is missing, unknown or of the wrong type; names it.
        """
        _only(record, ("call", "results", "said", "content"), "step")
        said, content = record.get("said", ""), record.get("content")
        if not isinstance(said, str):
            raise ValueError(f"step field 'said' must be a string, got {said!r}")
        if content is not None and not isinstance(content, str):
            content = content_parts(content)
        results = _results(record.get("results") or [], "results")
        return cls(_slots(record.get("call"), "call"), results, said, content)


PART_TYPES = ("text", "refusal")
"""Types of parts of a message's content; each has its text under its own name."""


def content_parts(content: Any) -> tuple[dict[str, Any], ...]:
    """The parts of a message's content.

    Raises:
        ValueError: the content is not a list, or a part is not a text; names the part.
    """
    if not isinstance(content, list):
        raise ValueError(f"'content' must be a text, null or a list of text parts, got {type(content).__name__}")
    for number, part in enumerate(content, start=1):
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        if kind not in PART_TYPES or not isinstance(part.get(kind), str):
            raise ValueError(f'content part {number}: only {{"type": "text", "text": "…"}} is read, got {kind!r}')
    return tuple(map(dict, content))


def flat_call(name: Any, arguments: Slots) -> dict[str, Any]:
    """A call of OpenAI's form as one mapping.

    Raises:
        ValueError: an argument has the name under which the API's name is kept.
    """
    if API_NAME in arguments:
        raise ValueError(f"call argument {API_NAME!r}: this name is kept for the API's own; rename the argument")
    return {API_NAME: name, **arguments}


def arguments_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call that is one mapping, without the API's name."""
    return {name: value for name, value in call.items() if name != API_NAME}


@dataclass(frozen=True, init=False)
class Turn:
    """One exchange: what the user said, the gold calls with their results, and the gold response.

    ``Turn(user, steps=(Step(call, results), …), response=…)``; :meth:`with_call` makes one with a single step.
    """

    __slots__ = ("_digest", "response", "steps", "user")

    user: str
    """The user's utterance."""
    steps: tuple[Step, ...]
    """The calls in order; a step without a call, result and words is left out."""
    response: str
    """The system's utterance."""

    def __init__(self, user: str, *, steps: Iterable[Step] = (), response: str = "") -> None:
        given_steps = tuple(steps)
        for number, step in enumerate(given_steps):
            if not isinstance(step, Step):
                raise ValueError(f"steps [{number}]: expected a Step, got {type(step).__name__}")
        given = (("user", user), ("steps", tuple(filter(None, given_steps))), ("response", response), ("_digest", None))
        for name, value in given:
            object.__setattr__(self, name, value)

    @classmethod
    def with_call(
        cls,
        user: str,
        call: Slots | None = None,
        result: Slots | None = None,
        response: str = "",
    ) -> Turn:
        """A turn with one call and its result, or with none."""
        return cls(user, steps=(Step(call or {}, (result,) if result else ()),), response=response)

    def __getstate__(self) -> tuple[str, tuple[Step, ...], str]:
        return self.user, self.steps, self.response

    def __setstate__(self, state: tuple[str, tuple[Step, ...], str]) -> None:
        for name, value in zip(("user", "steps", "response", "_digest"), (*state, None), strict=True):
            object.__setattr__(self, name, value)

    @property
    def calls(self) -> tuple[Slots, ...]:
        """Calls of the turn, in order."""
        return tuple(step.call for step in self.steps if step.call)

    @property
    def api_call(self) -> Slots:
        """The first step's call; empty for none."""
        return self.steps[0].call if self.steps else {}

    @property
    def api_result(self) -> Slots:
        """The first result of the first step, as ParlAI's tasks show it to the response model; empty for none."""
        results = self.api_results
        return results[0] if results else {}

    @property
    def api_results(self) -> tuple[Slots, ...]:
        """Results of the first step, in order."""
        return self.steps[0].results if self.steps else ()

    @property
    def utterances(self) -> Iterator[tuple[str, str]]:
        """Yield the utterances in order: the speaker (``user``, ``system``) and the text."""
        yield "user", self.user
        for step in self.steps:
            if step.said:
                yield "system", step.said
        yield "system", self.response

    @property
    def values(self) -> Iterator[tuple[str, str]]:
        """Yield every string in calls and results, at any depth, with its innermost slot; names of APIs are
        left out."""
        for step in self.steps:
            for slots in (step.call, *step.results):
                yield from strings(slots)

    @property
    def text(self) -> str:
        """The turn as a model reads it: four lines, more with several steps, with the first result of each call."""
        return self._text(all_results=False)

    @property
    def digest(self) -> bytes:
        """A hash of everything in the turn, so that long histories are compared quickly; the same in every process."""
        digest: bytes | None = self._digest  # type: ignore[attr-defined]  # a slot, and no field
        if digest is None:
            text = self.to_text()
            if contents := [
                [number, step.content] for number, step in enumerate(self.steps) if step.content is not None
            ]:
                text = f"{text}\n{json.dumps(contents, default=dict)}"
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            object.__setattr__(self, "_digest", digest)
        return digest

    def to_text(self) -> str:
        """The turn with all results, joined by ``|``."""
        return self._text(all_results=True)

    def _text(self, all_results: bool) -> str:
        lines = [f"{USER} {escape(self.user)}"]
        for step in self.steps or (Step({}),):
            results = step.results if all_results else step.results[:1]
            lines += [f"{SYSTEM} {escape(step.said)}"] if step.said else []
            lines += [f"{API_CALL} {slots_to_text(step.call)}", f"{API_RESULT} {results_to_text(results)}"]
        return "\n".join([*lines, f"{SYSTEM} {escape(self.response)}"])

    def to_json(self) -> dict[str, Any]:
        """The turn as plain JSON types."""
        return {"user": self.user, "steps": [step.to_json() for step in self.steps], "response": self.response}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Turn:
        """Read what :meth:`to_json` wrote; ``steps`` may be left out.

        Raises:
            ValueError: a field is missing, unknown or of the wrong type; names it.
        """
        _only(record, ("response", "steps", "user"), "turn")
        for name in ("user", "response"):
            if not isinstance(record.get(name), str):
                raise ValueError(f"turn field {name!r} must be a string, got {record.get(name)!r}")
        rows = record.get("steps", [])
        if not isinstance(rows, list):
            raise ValueError(f"turn field 'steps' must be a list of objects, got {rows!r}")
        return cls(record["user"], steps=read_each("step", rows, Step.from_json), response=record["response"])


def _only(record: Any, known: Sequence[str], what: str) -> None:
    if not isinstance(record, Mapping):
        raise ValueError(f"a {what} must be an object, got {type(record).__name__}")
    if unknown := sorted(set(record) - set(known)):
        raise ValueError(f"unknown {what} field {unknown[0]!r}; a {what} has {', '.join(known)}")


def _slots(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"field {name!r} must map slot names to values, got {value!r}")
    return dict(value)


def _results(value: Any, name: str) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list):
        raise ValueError(f"field {name!r} must be a list of objects, got {value!r}")
    return tuple(_slots(row, name) for row in value)


@dataclass(frozen=True)
class Dialogue:
    """A whole dialogue; ``id`` is unique in its corpus."""

    id: str = field(metadata={"rewrite": False})
    """Unique in its corpus; draws are seeded with it."""
    domain: str = field(metadata={"rewrite": False})
    """Domains, joined by a comma if there are several."""
    turns: tuple[Turn, ...]
    """Turns in order of time."""
    system: str = field(default="", metadata={"rewrite": False})
    """The instructions that the system had (a chat's system message)."""
    task: Task | None = None
    """Task of a world, which tools and grades read; None of a dialogue that belongs to no world."""

    def __post_init__(self) -> None:
        for name in ("id", "domain"):  # they name rows of files
            text = getattr(self, name)
            if isinstance(text, str) and not text.isascii():
                object.__setattr__(self, name, well_formed(text))

    def to_json(self) -> dict[str, Any]:
        """Return the dialogue as plain JSON types; ``system`` only if it is set."""
        system = {"system": self.system} if self.system else {}
        return {"id": self.id, "domain": self.domain, **system, "turns": [turn.to_json() for turn in self.turns]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Dialogue:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: a field is missing or of the wrong type; names the field and the turn.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"a dialogue must be an object, got {type(record).__name__}")
        for name, kind in (("id", str), ("turns", list)):
            if not isinstance(record.get(name), kind):
                raise ValueError(f"dialogue field {name!r} must be a {kind.__name__}, got {record.get(name)!r}")
        texts = {name: record.get(name, "") for name in ("domain", "system")}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ValueError(f"dialogue field {name!r} must be a str, got {text!r}")
        return cls(id=record["id"], turns=tuple(read_each("turn", record["turns"], Turn.from_json)), **texts)


def context_text(history: Sequence[Turn], user: str) -> str:
    """Return the text that a model reads after the user's message: the earlier turns, then ``USER: …``."""
    return "\n".join([*(turn.text for turn in history), f"{USER} {escape(user)}"])
