"""Stages: the components of a system, what one of them is called with, and what may be declared of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tod_bias.dialogues.dialogue import Turn, context_text
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import FOREIGN, StageError, TodBiasError, described, shortened
from tod_bias.io.canonical import canonical, digest, is_portable, problem_of
from tod_bias.io.signatures import derived_signature
from tod_bias.systems.outputs import latest_calls

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator


class StageCall(NamedTuple):
    """One call of a stage within a turn, with its output."""

    name: str
    """Name of the called stage."""
    argument: Any
    """Argument of the call; None for none."""
    output: Any
    """Returned value."""


class FlowReply(StageCall):
    """Response that a flow or an agent gives itself, as the last step of a turn; a stage may have its name too."""

    __slots__ = ()


@dataclass(frozen=True)
class Failure:
    """Placeholder for the output of a failed call."""

    reason: str
    """Reason for which there is no output."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """Input of one call of a stage. Stages never change it."""

    history: tuple[Turn, ...]
    """The turns before this one: gold in teacher-forced mode, the system's own in free-running mode."""
    user: str
    """The user's utterance."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Outputs of the stages called before in this turn, by name: the latest of each, the last one called at the end."""
    steps: tuple[StageCall, ...] = ()
    """Earlier calls of this turn, in order."""
    argument: Any = None
    """Argument of the flow's call; None in a straight pipeline."""
    system: str = ""
    """System message of the dialogue, if there is one."""
    sample: int = 0
    """Number of the sample, for a stage that draws its outputs (``is_random``); 0 for every other."""
    draw: str = ""
    """Identifies the draw of a stage that draws its outputs (the dialogue and the sample); empty for other stages."""
    task: Task | None = None
    """Task of a world, for its tools; None of a dialogue that belongs to no world."""

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """The calls that it holds: of its argument, or else of the latest output that has some."""
        outputs = [step.output for step in self.steps] or list(self.outputs.values())
        return latest_calls(outputs if self.argument is None else [self.argument])

    @property
    def tool(self) -> str:
        """Name of the tool of the first call; empty if nothing is called."""
        return next((str(call[API_NAME]) for call in self.calls), "")

    @property
    def context(self) -> str:
        """History and utterance as ParlAI's task-oriented text, the latest ``USER:`` line last."""
        return context_text(self.history, self.user)


class Stage:
    """A component of a system: called with a batch of inputs, it returns one output per input, in the same order.

    Stages must not change their inputs. Equal inputs must give equal outputs in every batch: equal calls are made once
    and share the output. A plain callable can be used too: :func:`as_stage` wraps it and reads the attributes below if
    it has them.
    """

    signature: str = ""
    """Identifies everything that determines the outputs: cached outputs are reused only under the same signature. If it
    is empty, it is derived from the source and from plain attributes."""
    concurrency: int = 1
    """Number of concurrent calls, each on its own thread; 1 calls the stage in batches."""
    remote: bool = False
    """True if calls are slow or cost money; such a stage is never called for a plan."""
    is_random: bool = False
    """True if the stage draws its outputs. It should use :attr:`StageInput.draw` as the seed."""
    use_cache: bool = True
    """True if outputs may be kept on disk for later runs."""
    generator: Generator | None = None
    """The language model of this package behind it, which caches its texts itself."""
    replaces_system: bool = False
    """True if the stage uses its own system prompt instead of the one of a recorded dialogue."""
    system: str = ""
    """Text of the system prompt."""
    tools: Sequence[Mapping[str, Any]] = ()
    """OpenAI's function schemas of the tools that it offers to a model."""
    runs_tools: bool = False
    """True if the stage runs the functions that a model calls."""
    reads_only_argument: bool = False
    """True if the stage reads nothing but :attr:`StageInput.argument`: calls with equal arguments are then equal."""
    names_no_file: frozenset[str] = frozenset()
    """Arguments in a pipeline file that are never paths, even if a file of that name exists."""

    def __call__(self, inputs: Sequence[StageInput], /) -> Sequence[Any]:
        """One output per input, in the same order."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """``module:name`` of its class."""
        return place_of(self)

    def outcome(self, output: Any) -> str:
        """Return what is wrong with an output, to be counted; empty if nothing is."""
        return ""

    def tool(self, item: StageInput, output: Any) -> str:
        """Name of the tool that :meth:`outcome` is about; empty if it is about none."""
        return ""

    def check_access(self) -> None:
        """Raise StageError where calls cannot be made, before anything slow begins."""

    def check_offered(self, schemas: Sequence[Mapping[str, Any]], by: str) -> None:
        """Raise StageError where a model is offered tools that this stage does not run.

        Args:
            schemas: OpenAI's function schemas.
            by: the stage that offers them.
        """

    def derived_signature(self) -> str:
        """Derive the signature of a stage that declares none.

        Raises:
            NotPlainError: the stage has attributes that are not plain.
        """
        return derived_signature(self)


class CallableStage(Stage):
    """A plain callable as a stage, with what it declares."""

    def __init__(self, function: Callable[[list[StageInput]], Sequence[Any]]) -> None:
        self.function = function
        for name in ("signature", "concurrency", "remote", "is_random", "use_cache", "generator"):
            declared = getattr(function, name, None)
            if declared is not None:
                setattr(self, name, declared)
        if type(self.signature) is not str:
            self.signature = ""
        self._outcome: Callable[[Any], str] | None = getattr(function, "outcome", None)
        self._check_access: Callable[[], None] | None = getattr(function, "check_access", None)

    def __call__(self, inputs: Sequence[StageInput], /) -> Sequence[Any]:
        """Return the outputs of the callable."""
        return self.function(list(inputs))

    @property
    def place(self) -> str:
        """``module:name`` of the callable."""
        return place_of(self.function)

    def outcome(self, output: Any) -> str:
        """Return the result of the callable's ``outcome``, if it has one."""
        return "" if self._outcome is None else self._outcome(output)

    def check_access(self) -> None:
        """Call the callable's ``check_access``, if it has one."""
        if self._check_access is not None:
            self._check_access()

    def derived_signature(self) -> str:
        """Return the signature of the callable."""
        return derived_signature(self.function)


def as_stage(stage: Stage | Callable[..., Any]) -> Stage:
    """A stage as it is, or a callable as a stage.

    Raises:
        StageError: it is neither.
    """
    if isinstance(stage, Stage):
        return stage
    if isinstance(stage, type):
        raise StageError(f"expected a stage, got the class {stage.__name__}: make one of it first")
    if not callable(stage):
        raise StageError(f"expected a callable, got {type(stage).__name__}")
    return CallableStage(stage)


class Wrapper(Stage):
    """A stage around another one; what it does not decide itself is declared as of the inner stage."""

    def __init__(self, inner: Stage | Callable[..., Any]) -> None:
        self.inner = as_stage(inner)
        for name in ("concurrency", "remote", "is_random", "use_cache", "generator"):
            setattr(self, name, getattr(self.inner, name))

    def outcome(self, output: Any) -> str:
        """Return what the inner stage finds wrong with an output."""
        return self.inner.outcome(output)

    def tool(self, item: StageInput, output: Any) -> str:
        """The tool that the inner stage names."""
        return self.inner.tool(item, output)

    def check_access(self) -> None:
        """Raise what keeps the inner stage from being called."""
        self.inner.check_access()


class InnerCalls(NamedTuple):
    """Computation of one output of a wrapper: calls of the inner stage, and a function of their outputs."""

    items: tuple[StageInput, ...]
    """Inputs with which the inner stage is called, one or several."""
    combine: Callable[[Sequence[Any]], Any]
    """Makes the wrapper's output of the inner stage's outputs, one per item."""


class InputWrapper(Wrapper):
    """Wrapper (a guard, for example) that yields the inputs of its inner stage, so that the engine makes these calls.

    So requests of a chat stage are sent, counted, cached and collected for batches as they are without the wrapper.
    """

    def inner_calls(self, item: StageInput) -> InnerCalls:
        """The calls that make the output for one input."""
        raise NotImplementedError

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """Return one output per input; equal inputs of the inner stage are one call."""
        made = [self.inner_calls(item) for item in inputs]
        keys = [[TurnInput.of(item).key(item.argument, is_random=True) for item in calls.items] for calls in made]
        distinct = {
            key: item for calls, of in zip(made, keys, strict=True) for key, item in zip(of, calls.items, strict=True)
        }
        outputs = dict(zip(distinct, call_stage(self.place, self.inner, list(distinct.values())), strict=True))
        return [calls.combine([outputs[key] for key in of]) for calls, of in zip(made, keys, strict=True)]


class RemoteStage(Stage):
    """A stage whose calls are requests to a server: equal requests are one, whichever stage makes them."""

    remote = True
    client: Any
    """Its ``ask`` sends one request and returns the reply, a JSON value; after ``halt`` it retries nothing, until
    ``resume``."""
    price: tuple[float, float] | None = None
    """Price of a million tokens read and written, in any one currency; None if unknown."""

    def request(self, item: StageInput) -> dict[str, Any]:
        """The request for one input."""
        raise NotImplementedError

    def key(self, body: Mapping[str, Any], draw: str = "") -> str:
        """A request's name in the cache."""
        raise NotImplementedError

    def output(self, reply: Mapping[str, Any]) -> Any:
        """The stage's output for a reply."""
        raise NotImplementedError


def innermost(stage: Stage) -> Stage:
    """Return the stage inside all wrappers, or the stage itself if it is not a wrapper."""
    while isinstance(stage, Wrapper):
        stage = stage.inner
    return stage


def cache_signature(stage: Stage | Callable[..., Any]) -> str:
    """Under which name a stage's outputs are cached.

    Raises:
        NotPlainError: it has no signature, and none can be derived.
    """
    stage = as_stage(stage)
    return f"{stage.place}|{stage.signature or stage.derived_signature()}"


def place_of(called: Any) -> str:
    """``module:name`` of a function, or of an object's class."""
    kind = called if hasattr(called, "__qualname__") else type(called)
    return f"{kind.__module__}:{kind.__qualname__}"


class TurnInput:
    """Everything that stages read of one turn, growing output by output: as it is, or after T⁻¹.

    The canonical form of the values that determine outputs is kept too, so that no value is serialised twice.

    Args:
        history: the turns before.
        user: the user's utterance.
        system: the dialogue's system message.
        sample: number of the sample, and
        dialogue: the dialogue's id; only stages that draw their outputs read them. Counterfactuals of a dialogue share
            a draw, dialogues do not, so that they stay independent.
        task: task of a world.
    """

    __slots__ = ("_parts", "draw", "history", "outputs", "sample", "steps", "system", "task", "user")

    def __init__(
        self,
        history: tuple[Turn, ...],
        user: str,
        system: str = "",
        sample: int = 0,
        dialogue: str = "",
        task: Task | None = None,
    ) -> None:
        self.history = history
        self.user = user
        self.system = system
        self.sample = sample
        self.draw = f"{sample}|{dialogue}"
        self.outputs: dict[str, Any] = {}
        self.steps: tuple[StageCall, ...] = ()
        turns = b"".join([turn.digest for turn in history]).hex()
        self.task = task
        parts = (turns, canonical(str(user)), canonical(str(system)))
        self._parts: tuple[str, ...] = parts if task is None else (*parts, task.digest)

    @classmethod
    def of(cls, item: StageInput) -> TurnInput:
        """Return the parts of an input that are read: equal inputs have equal keys."""
        made = cls(item.history, item.user, item.system, item.sample, task=item.task)
        for call in item.steps:
            made = made.after(call, canonical(call.output))
        made.draw = item.draw
        if given := {name: output for name, output in item.outputs.items() if name not in made.outputs}:
            made.outputs = {**given, **made.outputs}
            made._parts = (*made._parts, canonical(given))
        return made

    def after(self, call: StageCall, key: str) -> TurnInput:
        """The same with one more call, whose output has this canonical form."""
        made = object.__new__(TurnInput)
        made.history, made.user, made.system = self.history, self.user, self.system
        made.sample, made.draw, made.task = self.sample, self.draw, self.task
        made.outputs = dict(self.outputs)
        made.outputs.pop(call.name, None)  # the latest stands last
        made.outputs[call.name] = call.output
        made.steps = (*self.steps, call)
        made._parts = (*self._parts, canonical(call.name), canonical(call.argument), key)
        return made

    @property
    def without_turn(self) -> TurnInput:
        """The same without history, utterance and calls."""
        made = TurnInput((), "", sample=self.sample)
        made.draw = self.draw
        return made

    def stage_input(self, argument: Any, *, is_random: bool = False) -> StageInput:
        """Return the input of a stage, with the draw if the stage draws its outputs."""
        draw = (self.sample, self.draw) if is_random else (0, "")
        return StageInput(self.history, self.user, self.outputs, self.steps, argument, self.system, *draw, self.task)

    def key(self, argument: Any, *, is_random: bool = False) -> str:
        """Return a digest of everything that determines a stage's output; equal inputs have equal digests.

        The digest is the same in every process, or begins with :data:`LOCAL`.
        """
        text = "\n".join((*self._parts, canonical(argument), self.draw if is_random else ""))
        return digest(text) if is_portable(text) else LOCAL + digest(text)


LOCAL = "local-"
"""Prefix of keys that are valid in this process only."""
_ADVICE = "fix the stage and run again, what was computed is kept in the run's folder"


def call_stage(name: str, stage: Stage | Callable[..., Any], inputs: Sequence[StageInput]) -> list[Any]:
    """Call a stage and check that it kept its contract.

    Raises:
        StageError: it raised something else than an error of this package; it did not return one output per input, or
            one that is too large or too deeply nested; it changed what it was given.
    """
    stage = as_stage(stage)
    where = f"stage {name!r} ({stage.place})"
    before = _state_of(inputs)
    try:
        outputs = stage(list(inputs))
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes, Mapping)):
            outputs = list(islice(outputs, len(inputs) + 1))  # here, since a generator raises only when it is read
    except TodBiasError:
        raise
    except FOREIGN as error:
        raise StageError(f"{where}: {described(error)}, {_named(inputs)}; {_ADVICE}") from error
    if inspect.iscoroutine(outputs):
        cast("Any", outputs).close()  # not run; Python would warn of it, too
        raise StageError(f"{where}: is async; give a function that runs it: asyncio.run(…)")
    if not isinstance(outputs, list):
        raise StageError(
            f"{where}: expected a sequence with one output per input, got {type(outputs).__name__}; "
            "a stage is called with a list of inputs, not with one"
        )
    if len(outputs) != len(inputs):
        got = "more" if len(outputs) > len(inputs) else len(outputs)
        raise StageError(f"{where}: expected {len(inputs)} outputs (one per input), got {got}, {_named(inputs)}")
    for output in outputs:
        if problem := problem_of(output):
            raise StageError(f"{where}: an output cannot be used: {problem}; {_ADVICE}")
    if _state_of(inputs) != before:
        raise StageError(
            f"{where}: it changed what it was given, which others read too; let it work on a copy; {_ADVICE}"
        )
    return outputs


def _named(inputs: Sequence[StageInput]) -> str:
    """Return the turns that a stage was called with, by what the user says in the first."""
    if not inputs:
        return "called without any input"
    first = f"begins {shortened(inputs[0].user, 48)!r}"
    return f"in the turn that {first}" if len(inputs) == 1 else f"called with {len(inputs)} turns, the first {first}"


def _state_of(inputs: Sequence[StageInput]) -> list[str]:
    """Return the parts of inputs that a stage must not change: outputs, arguments, calls and results."""
    turns = {id(turn): turn for item in inputs for turn in item.history if turn.steps}
    values = [canonical((item.outputs, item.argument)) for item in inputs if item.outputs or item.argument is not None]
    return [*values, *(repr(turn.steps) for turn in turns.values())]
