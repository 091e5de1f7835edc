"""The executor of a system that cannot be run: its responses to all variants, from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tod_bias.audit.executor import Chunk, ChunkResult, ChunkRunner, Chunks, Executor, Work
from tod_bias.dialogues.dialogue import ORIGINAL_VARIANT
from tod_bias.errors import StageError
from tod_bias.perturb.axis import Variants
from tod_bias.results import Attributed, AxisResult, LostInfo, Responses
from tod_bias.statistics.arms import ArmDesign
from tod_bias.systems.caller import CallCost
from tod_bias.systems.execution import Run, Trace, TurnTrace
from tod_bias.systems.saved_responses import SYSTEM, SavedResponses, SavedTurn
from tod_bias.systems.stage import StageCall

A = TypeVar("A", bound=Attributed)
FEW_MISSING = 0.01
"""Share of turns that may be without a saved response by default: their dialogues are left out."""
_REASONS = 3
"""Reasons why dialogues are left out that are shown."""


class SavedExecutor(Executor):
    """Looks the responses to all variants up.

    Args:
        saved: the responses.
        max_failures: share of turns that may be without a response; None for :data:`FEW_MISSING`.
    """

    names = (SYSTEM,)

    def __init__(self, saved: SavedResponses, max_failures: float | None) -> None:
        self.arms = ArmDesign(self.names)
        self._saved = saved
        self._max_failures = FEW_MISSING if max_failures is None else max_failures
        self._lookup = _Lookup(saved)
        self._left_out: dict[str, str] = {}
        self._variants: Counter[str] = Counter()

    @property
    def costs(self) -> Mapping[str, CallCost]:
        """Responses that were looked up."""
        return {SYSTEM: self._lookup.cost}

    def signature(self) -> dict[str, str]:
        """Return everything that determines the outputs."""
        return {f"stage {SYSTEM}": self._saved.signature, **super().signature()}

    def __call__(self, work: Work, chunks: Chunks) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Score all chunks, without the dialogues that lack a response.

        Raises:
            StageError: more than ``max_failures`` of the turns lack one, or every dialogue does.
        """
        score = ChunkRunner(work, self._lookup)
        calls = is_any = False
        for (chunk,) in chunks(1):
            by_axis = work.variants(chunk)
            self._leave_out(by_axis)
            complete = {
                axis: [entry for entry in selections if entry.dialogue.id not in self._left_out]
                for axis, selections in chunk.items()
            }
            by_axis = {
                axis: [some for some in of_axis if some.original.dialogue.id not in self._left_out]
                for axis, of_axis in by_axis.items()
            }
            result = score.scored(complete, by_axis, dict.fromkeys(chunk, calls))
            calls = calls or any(rows.has_calls for rows in result.rows.values())
            is_any = is_any or bool(result.rows)
            yield chunk, result
        self._check()
        if not is_any:
            raise StageError(f"no dialogue has responses to all its turns ({self._lookup.missing})")
        self.responses = self._lookup.used()
        if self._left_out:
            reasons = Counter(self._left_out.values()).most_common(_REASONS)
            self.lost = LostInfo(dialogues=len(self._left_out), variants=dict(self._variants), reasons=dict(reasons))

    def _leave_out(self, by_axis: Mapping[str, Sequence[Variants]]) -> None:
        """Note the dialogues of a chunk that lack a response to any of their variants, along any axis.

        A dialogue is left out of all axes, so that they are compared on the same dialogues.
        """
        runs: dict[tuple[str, str], Run] = {}
        for variants in (variants for of_axis in by_axis.values() for variants in of_axis):
            for variant in (variants.original, *variants.rewritten):
                runs.setdefault((variant.dialogue.id, variant.variant), variant)
        for run in runs.values():
            is_lacking = not self._lookup.has(run, run.variant)
            is_base_lacking = run.rewrite is not None and not self._lookup.has(run, run.base)
            if is_lacking or is_base_lacking:
                self._left_out.setdefault(run.dialogue.id, self._lookup.missing)
            if is_lacking:
                self._variants[
                    ORIGINAL_VARIANT if run.rewrite is None else f"{run.rewrite.axis}: {run.rewrite.target}"
                ] += 1

    def _check(self) -> None:
        """Raise if too many turns have no response.

        Raises:
            StageError: there are more than ``max_failures``.
        """
        cost = self._lookup.cost
        if cost.failed <= self._max_failures * cost.distinct:
            return
        path, ids = self._saved.path, {name for name, _, _ in self._saved.responses}
        if not ids & {name for name, _, _ in self._lookup.wanted}:
            raise StageError(
                f"{path}: no response has the id of a dialogue; the responses have {min(ids)!r} …, the corpus has "
                f"{min(self._lookup.wanted)[0]!r} …; 'id' is what export writes as 'original'"
            )
        variants = self._saved.variants
        shown = ", ".join(map(repr, variants[:4])) + (", …" if len(variants) > 4 else "")
        raise StageError(
            f"{path}: {cost.failed} turns lack a response (the first: {self._lookup.missing}), more than "
            f"--max-failures {self._max_failures:g} of {cost.distinct} turns; it has "
            f"{shown}{self._idle()}; write the counterfactuals with tod-bias export and the same --corpus, --axes, "
            "--design and --seed"
        )

    def _idle(self) -> str:
        unused = self._lookup.used().unused
        first = next(iter(unused.values()), None)
        if first is None:
            return ""
        number = sum(int(reason["number"]) for reason in unused.values())
        counted = ", and turns count from 0" if min(turn for *_, turn in self._saved.responses) > 0 else ""
        return f"; {number} of its responses belong to nothing here (the first: {first['first']}){counted}"


class _Lookup:
    """Responses that were looked up: the runner of saved responses.

    Args:
        saved: the responses.
    """

    is_sampled = False
    whole_arm = None

    def __init__(self, saved: SavedResponses) -> None:
        self._saved = saved
        self.parted: set[str] = set()
        self.cost = CallCost()
        self.missing = ""
        """The first turn that has no response."""
        self.wanted: set[tuple[str, str, int]] = set()
        """Turns whose responses were looked up."""
        self._lacking: set[tuple[str, str, int]] = set()

    def __call__(self, runs: Sequence[Run]) -> list[Trace]:
        """Return the traces of runs that have all responses."""
        return [self._trace(run) for run in runs]

    def _trace(self, run: Run) -> Trace:
        saved = [self._steps(run, run.variant, number) for number in range(len(run.rewritten.turns))]
        if run.rewrite is None:
            return [(TurnTrace((0,), steps),) for steps in saved]
        of_twin = [run.rewrite(self._steps(run, run.base, number)) for number in range(len(run.dialogue.turns))]
        return [(TurnTrace((0,), steps), TurnTrace((1,), twin)) for steps, twin in zip(saved, of_twin, strict=True)]

    def _steps(self, run: Run, variant: str, turn: int) -> tuple[StageCall, ...]:
        return _steps_of(self._saved.responses[run.dialogue.id, variant, turn])

    def has(self, run: Run, variant: str) -> bool:
        """Return whether every turn of a dialogue has a response, and count those that are missing.

        Raises:
            StageError: a response is to another message.
        """
        dialogue = run.rewritten if variant != run.base else run.dialogue
        is_complete = True
        for number, turn in enumerate(dialogue.turns):
            key = run.dialogue.id, variant, number
            saved = self._saved.responses.get(key)
            self.wanted.add(key)
            if saved is None:
                self._lacking.add(key)
                self.missing = self.missing or f"dialogue {key[0]!r}, turn {number}, variant {variant!r}"
                is_complete = False
            elif saved.user is not None and saved.user != turn.user:
                raise StageError(
                    f"{self._saved.path}: turn {number} of {key[0]!r} as {variant!r} is a response to "
                    f"{saved.user[:60]!r}, but here it is {str(turn.user)[:60]!r}; "
                    "use the same --corpus, --axes, --design, --seed and lexicons"
                )
        self.cost.calls += len(dialogue.turns)
        self.cost.distinct, self.cost.failed = len(self.wanted), len(self._lacking)
        return is_complete

    def used(self) -> Responses:
        """Count the responses, and by reason those that belong to nothing in this run, with the first of each."""
        known = {(name, variant) for name, variant, _ in self.wanted}
        names, variants = {name for name, _ in known}, {variant for _, variant in known}
        unused: dict[str, Any] = {}
        for name, variant, turn in self._saved.responses:
            if (name, variant, turn) in self.wanted:
                continue
            reason, first = "turn", f"turn {turn} of {name!r} as {variant!r}"
            if name not in names:
                reason, first = "dialogue", repr(name)
            elif variant not in variants:
                reason, first = "variant", repr(variant)
            elif (name, variant) not in known:
                reason, first = "pair", f"{name!r} as {variant!r}"
            unused.setdefault(reason, {"number": 0, "first": first})["number"] += 1
        saved = self._saved.responses.values()
        unchecked = sum(response.user is None for response in saved)
        return Responses(number=len(saved), unchecked=unchecked, unused=unused)


def _steps_of(saved: SavedTurn) -> tuple[StageCall, ...]:
    calls = tuple(StageCall("tools", step.call, list(step.results)) for step in saved.steps if step.call)
    return (*calls, StageCall(SYSTEM, None, saved.response))


def unattributed(row: AxisResult) -> AxisResult:
    """An axis and metric without what cannot be known of saved responses: the share of the system as a whole is
    attributed to no stage, and Su's numbers are left out."""

    def bare(part: A) -> A:
        whole = part.contributions.get(SYSTEM)
        return part.model_copy(update={"contributions": {}, "unattributed": whole and whole.shapley})

    groups, references = ({name: bare(part) for name, part in rows.items()} for rows in (row.groups, row.references))
    update = {"interactions": {}, "su": None, "groups": groups, "references": references}
    return bare(row).model_copy(update=update | {"widest": row.widest and bare(row.widest)})
