"""Turns of a finished run that show its findings, as regression cases.

The turns are chosen from ``turns.parquet``. The dialogues are read from the corpus and rewritten as in the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tod_bias.audit.comparison import MismatchError
from tod_bias.audit.design import design_counterfactuals
from tod_bias.audit.examples import frames_of, showing, what_differs
from tod_bias.audit.record import check_turns, corpus_hash
from tod_bias.audit.turns import Turns
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, TodBiasError
from tod_bias.metrics.events import Event, event_of
from tod_bias.perturb.axis import PLACEBO, Axis, Candidate
from tod_bias.perturb.loading import check_shipped, load_axis
from tod_bias.perturb.records import recorded
from tod_bias.results import TURNS, AuditResult, Finding, RunError
from tod_bias.testing.cases import ORIGINAL, REWRITTEN, Case, rewritten_turns

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ChosenCases:
    """The cases of a run."""

    cases: tuple[Case, ...]
    """Finding by finding."""
    left_out: Mapping[str, int]
    """Axis to counterfactuals that would be among them, but cannot be made again from a file."""


def cases_of(
    run: str | Path,
    dialogues: Sequence[Dialogue],
    *,
    most: int = 50,
    axes: Sequence[str | Axis] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    only: Collection[str] = (),
) -> ChosenCases:
    """Return turns that show the findings of a run, at most one per dialogue and finding, spread evenly over findings.

    A turn shows a finding if the finding's event happens in the counterfactual and not in the original, or the other
    way round. All turns up to that turn are kept.

    Args:
        run: its folder.
        dialogues: those that were audited, in their order.
        most: cases, over all findings.
        axes: names or axes; by default all of the run but the placebo.
        options: axis to what it was loaded with, so that a case loads it alike.
        only: ids of turns; cases of those, whether they show a finding or not.

    Raises:
        MismatchError: the dialogues or an axis' terms are not those of the run; names what differs.
        RunError: the run cannot be read, or lacks an axis.
        TodBiasError: a number that makes no sense, or an id of no turn that differs.
    """
    if most < 1:
        raise TodBiasError(f"most must be at least 1, got {most}")
    result = AuditResult.load(run)
    here = corpus_hash(dialogues)
    if here != result.corpus.hash:
        raise MismatchError(
            f"{run}: audited other dialogues ({result.corpus.dialogues}, hash "
            f"{result.corpus.hash}; here {len(dialogues)}, hash {here}); give --corpus, --split and "
            "--datapath as the run had them"
        )
    by_finding: list[list[Case]] = []
    left_out: dict[str, int] = {}
    for name, axis in _axes(result, axes).items():
        given = {option: value for option, value in (options or {}).get(name, {}).items() if value is not None}
        maker = _CaseMaker(result, axis, dialogues, {"axis": name, **given})
        if only:
            by_finding.append(maker.only(only))
        else:
            findings = [some for some in result.findings if some.axis == name and some.is_difference]
            by_finding += [maker.cases(finding, most) for finding in findings]
            left_out[name] = maker.lost
    if only:
        return ChosenCases(_all_of(only, by_finding, result.name), {})
    return ChosenCases(_spread(by_finding, most), {axis: count for axis, count in left_out.items() if count})


def _spread(by_finding: Sequence[Sequence[Case]], most: int) -> tuple[Case, ...]:
    """Return some cases of each finding, finding by finding.

    A turn that shows two findings is a case of each; the id of the second ends with its event.
    """
    named: list[list[Case]] = []
    taken: set[str] = set()
    for cases in by_finding:
        ids = [f"{case.id} {case.event}" if case.id in taken else case.id for case in cases]
        taken |= {case.id for case in cases}
        named.append([case.model_copy(update={"id": id_}) for case, id_ in zip(cases, ids, strict=True)])
    ranks = range(max(map(len, named), default=0))
    ranked = [cases[rank].id for rank in ranks for cases in named if rank < len(cases)]
    chosen = set(ranked[:most])
    return tuple(case for cases in named for case in cases if case.id in chosen)


def _all_of(ids: Collection[str], cases: Sequence[Sequence[Case]], run: str) -> tuple[Case, ...]:
    """Return the cases with these ids; raise TodBiasError if one is missing."""
    chosen = tuple(case for some in cases for case in some)
    if unknown := set(ids) - {case.id for case in chosen}:
        raise TodBiasError(
            f"{run}: cannot make a case of {min(unknown)}: no such turn, nothing differs in it, or a file cannot hold "
            "how it is rewritten"
        )
    return chosen


def _axes(result: AuditResult, axes: Sequence[str | Axis] | None) -> dict[str, Axis]:
    run = result.name
    known = [axis for axis in result.axes if axis != PLACEBO]
    loaded: dict[str, Axis] = {}
    for entry in known if axes is None else axes:
        if axes is None:
            check_shipped(str(entry), run)
        try:
            axis = load_axis(entry) if isinstance(entry, str) else entry
        except AxisError as error:
            raise AxisError(f"{error}; give --axes (and --lexicon) as the run had them") from error
        if axis.name not in known:
            raise RunError(f"{run}: has no axis {axis.name}; it has {', '.join(known) or 'none but the placebo'}")
        name = f"axis {axis.name}"
        wanted, here = result.signature.get(name), axis.signature
        if wanted != here:
            raise MismatchError(
                f"{run}: {name} was rewritten by {wanted}, here it is {here}; give the run's "
                "--lexicon and --introductions, or its axis file"
            )
        loaded[axis.name] = axis
    return loaded


class _CaseMaker:
    """Makes the cases of one axis."""

    def __init__(
        self, result: AuditResult, axis: Axis, dialogues: Sequence[Dialogue], options: Mapping[str, Any]
    ) -> None:
        assert result.folder is not None
        self._path = result.folder / TURNS
        if not check_turns(self._path):
            raise RunError(f"{self._path}: is not there; repeat the run")
        self._result = result
        self._axis = axis
        self._options = options
        self._turns = Turns.of(result)
        self._by_variant = self._variants(dialogues)
        self.lost = 0
        """Number of turns that a file cannot hold."""

    def cases(self, finding: Finding, most: int) -> list[Case]:
        """Return the cases of one finding, turns with a rewritten message and short ones first."""
        event = event_of(finding.metric)
        row = self._result.axes[finding.axis][finding.metric]
        made: dict[str, Case] = {}
        for frame in frames_of(self._turns, row, finding.group):
            for number in showing(frame, row, finding.group):
                name = str(frame.at[number, "dialogue"])
                if name not in made and len(made) < most:
                    case = self._case(frame, number, finding, event)
                    if case is None:
                        self.lost += 1
                    else:
                        made[name] = case
        return list(made.values())

    def only(self, ids: Collection[str]) -> list[Case]:
        """Return the cases of some turns: by the first finding whose event differs there, or by the response."""
        findings = [some for some in self._result.findings if some.axis == self._axis.name and some.is_difference]
        made: dict[str, Case] = {}
        for frame in self._turns.system_rows(self._axis.name):
            frame = frame.reset_index(drop=True)
            for number in np.flatnonzero((frame["role"] == "group").to_numpy()):
                name = self._id(frame.iloc[number])
                if name in ids and name not in made:
                    case = self._of_turn(frame, int(number), findings)
                    made |= {} if case is None else {name: case}
        return list(made.values())

    def _of_turn(self, frame: pd.DataFrame, number: int, findings: Sequence[Finding]) -> Case | None:
        for finding in findings:
            row = self._result.axes[finding.axis][finding.metric]
            if event_of(finding.metric) is not None and number in showing(frame, row, finding.group):
                return self._case(frame, number, finding, event_of(finding.metric))
        case = self._case(frame, number, Finding(axis=self._axis.name, verdict=""), None)
        return case if case is not None and case.shown[ORIGINAL] != case.shown[REWRITTEN] else None

    def _variants(self, dialogues: Sequence[Dialogue]) -> dict[str, dict[str, tuple[Dialogue, Candidate]]]:
        """Map (dialogue id, variant) to the dialogue and its rewrite."""
        config = self._result.config
        design = design_counterfactuals(dialogues, [self._axis], config.design, seed=config.seed)
        selections = design.selected[self._axis.name]
        made = self._axis.variants(selections)
        return {
            selection.dialogue.id: {
                counterfactual.variant: (selection.dialogue, candidate)
                for counterfactual, candidate in zip(variants.groups, selection.candidates, strict=True)
            }
            for selection, variants in zip(selections, made, strict=True)
        }

    def _id(self, row: Mapping[Any, Any] | pd.Series) -> str:
        return f"{self._axis.name}/{row['dialogue']}/{row['source']}>{row['group']}/{int(row['turn']) + 1}"

    def _case(self, frame: pd.DataFrame, number: int, finding: Finding, event: Event | None) -> Case | None:
        """Return a case of one row; None if a file cannot hold how it is rewritten."""
        row = frame.iloc[number]
        name, variant, last = str(row["dialogue"]), str(row["variant"]), int(row["turn"])
        known = self._by_variant.get(name, {}).get(variant)
        if known is None:
            raise MismatchError(f"{self._path}: dialogue {name} is rewritten otherwise here; repeat the run")
        dialogue, candidate = known
        same = frame[(frame["role"] == "original") & (frame["dialogue"] == name) & (frame["turn"] == last)]
        whole = recorded(self._axis, dialogue, candidate)
        if whole is None or same.empty:
            return None
        original = same.iloc[0]
        rewritten = whole.rewrite(self._axis)(whole.dialogue)
        short = whole.cut(range(last + 1))
        if short is not None and rewritten_turns(short, self._axis) != rewritten.turns[: last + 1]:
            short = None  # what comes later says who is spoken of
        if short is None and last + 1 < len(dialogue.turns):
            return None
        shown = what_differs(original, row, event)
        marked, gold = rewritten.turns[last], dialogue.turns[last]
        responses = (str(some["response"] or "") for some in (original, row))
        return Case(
            id=self._id(row),
            axis=self._axis.name,
            source=candidate.source,
            target=candidate.target,
            term=candidate.term,
            stage=finding.stage,
            event="" if event is None else event.name,
            what=finding.what if event is not None else "another response",
            shown=dict(zip((ORIGINAL, REWRITTEN), shown, strict=True)),
            history="gold" if self._result.is_recorded else self._result.config.run.history,
            turn=last + 1,
            turns=tuple(range(1, last + 2)),
            user={ORIGINAL: str(gold.user), REWRITTEN: str(marked.user)},
            reference={ORIGINAL: str(gold.response), REWRITTEN: str(marked.response)},
            response=dict(zip((ORIGINAL, REWRITTEN), responses, strict=True)),
            rewritten=rewritten.turns[: last + 1],
            counterfactual=short or whole,
            signature=self._axis.signature,
            corpus=(self._result.corpus.name, self._result.corpus.split or "test"),
            axis_options=dict(self._options),
        )
