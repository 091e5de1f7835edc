"""Worst-served counterfactuals of a finished run, as regression cases.

The turns are chosen from ``turns.parquet``. The dialogues are read from the corpus and rewritten as in the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from tod_bias.audit.checks import scored_by
from tod_bias.audit.comparison import MismatchError
from tod_bias.audit.design import design_counterfactuals
from tod_bias.audit.record import check_turns, corpus_hash
from tod_bias.audit.running import FIRST_DIFFERENCE, in_column
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, TodBiasError
from tod_bias.metrics.choice import shipped
from tod_bias.metrics.events import event_of
from tod_bias.metrics.metric import Metric
from tod_bias.perturb.axis import PLACEBO, Axis, Candidate
from tod_bias.perturb.loading import check_shipped, load_axis
from tod_bias.perturb.records import recorded
from tod_bias.results import TURNS, AuditResult, AxisResult, RunError, Verdict
from tod_bias.statistics.arms import arm_key
from tod_bias.testing.case_runs import harm_of, sign_of
from tod_bias.testing.cases import EXPECTED, ORIGINAL, REWRITTEN, TOLERANCE, Case, rewritten_turns

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["dialogue", "variant", "turn"]
_FACTS = [*_KEYS, "sample", "arm", "clusters"]


@dataclass(frozen=True)
class WorstCases:
    """The cases of a run."""

    cases: tuple[Case, ...]
    """Axis by axis, the largest harm first."""
    left_out: Mapping[str, int]
    """Axis to counterfactuals that would be among them, but cannot be made again from a file."""


def worst_cases(
    run: str | Path,
    dialogues: Sequence[Dialogue],
    *,
    most: int = 50,
    axes: Sequence[str | Axis] | None = None,
    metric: str | Metric | None = None,
    stage: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    only: Collection[str] = (),
) -> WorstCases:
    """Return the worst-served counterfactuals of a run: at most one per dialogue and axis, spread evenly over axes.

    The ranking is by the share of the harm that enters at one stage, in its worst turn. All turns up to that turn are
    kept.

    Args:
        run: its folder.
        dialogues: those that were audited, in their order.
        most: cases, over all axes.
        axes: names or axes; by default all of the run but the placebo.
        metric: by whose scores of single turns harm is measured; by default the run's first that has a better side.
        stage: only harm that enters at it.
        options: axis to what it was loaded with, so that a case loads it alike.
        only: ids of cases; those instead of the worst.

    Raises:
        MismatchError: the dialogues or an axis' terms are not those of the run; names what differs.
        RunError: the run cannot be read, lacks an axis or stage.
        MetricError: it was not measured, or has no better side.
        TodBiasError: a number that makes no sense, or an id of no case.
    """
    if most < 1:
        raise TodBiasError(f"most must be at least 1, got {most}")
    result = AuditResult.load(run)
    stages = tuple(result.stages)
    if stage is not None and stage not in stages:
        raise RunError(f"{run}: has no stage {stage}; it has {', '.join(stages)}")
    here = corpus_hash(dialogues)
    if here != result.corpus.hash:
        raise MismatchError(
            f"{run}: audited other dialogues ({result.corpus.dialogues}, hash "
            f"{result.corpus.hash}; here {len(dialogues)}, hash {here}); give --corpus, --split and "
            "--datapath as the run had them"
        )
    scored, spec = _metric(result, metric)
    by_axis: dict[str, list[Case]] = {}
    left_out: dict[str, int] = {}
    for name, axis in _axes(result, axes).items():
        given = {option: value for option, value in (options or {}).get(name, {}).items() if value is not None}
        maker = _CaseMaker(result, axis, scored, spec, {"axis": name, **given})
        by_axis[name], left_out[name] = maker.cases(dialogues, most, stage, only)
    if only:
        return _only(result, by_axis, only, spec)
    ranked: list[Case] = []
    for rank in range(max(map(len, by_axis.values()), default=0)):  # every axis its share
        ranked += [cases[rank] for cases in by_axis.values() if rank < len(cases)]
    ids = {case.id for case in ranked[:most]}
    ordered = tuple(case for cases in by_axis.values() for case in cases if case.id in ids)
    return WorstCases(ordered, {axis: count for axis, count in left_out.items() if count})


def _only(result: AuditResult, cases: Mapping[str, Sequence[Case]], ids: Collection[str], metric: str) -> WorstCases:
    """Return the cases with these ids; raise TodBiasError if one is missing."""
    chosen = tuple(case for some in cases.values() for case in some)
    if unknown := set(ids) - {case.id for case in chosen}:
        raise TodBiasError(
            f"{result.name}: cannot make a case of {min(unknown)}: no such turn, no harm by {metric} above {TOLERANCE} "
            "in it, or a file cannot hold how it is rewritten"
        )
    return WorstCases(chosen, {})


def _metric(result: AuditResult, given: str | Metric | None) -> tuple[Metric, str]:
    """The metric and what it is called in a case: by default the one that claims most."""
    if given is not None:
        (scored,) = scored_by(result, [given])
        sign_of(scored)
        return scored, given if isinstance(given, str) else scored.name
    # A case is run alone, without the other variants that decide in which turns an event could show.
    rows = [row for row in result.rows if not row.is_placebo and event_of(row.metric.name) is None]
    sided = [row for row in rows if row.metric.better != "neither"]
    if not sided:
        raise TodBiasError(f"{result.name}: none of its metrics has a better side, so nothing is harm")
    name = min(sided, key=_prominence).metric.name
    return shipped(name, result.name, "--metric"), name


def _prominence(row: AxisResult) -> tuple[int, bool]:
    """Return the place of a metric: claims first, metrics that only compare with the original last."""
    return get_args(Verdict).index(row.verdict), row.metric.counterfactual


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
                f"{run}: {name} was rewritten by {wanted}, here it is {here}; give --lexicon, --protect, "
                "--name-slots and --introductions as the run had them"
            )
        loaded[axis.name] = axis
    return loaded


class _CaseMaker:
    """Makes the cases of one axis."""

    def __init__(
        self,
        result: AuditResult,
        axis: Axis,
        metric: Metric,
        spec: str,
        options: Mapping[str, Any],
    ) -> None:
        assert result.folder is not None
        self._path = result.folder / TURNS
        self._result = result
        self._axis = axis
        self._metric = metric
        self._spec = spec
        self._options = options
        self._stages: tuple[str, ...] = tuple(result.stages)
        self._arms = result.arm_design

    def cases(
        self, dialogues: Sequence[Dialogue], most: int, stage: str | None, only: Collection[str]
    ) -> tuple[list[Case], int]:
        """The worst or those of some ids, and how many cannot be cases."""
        by_variant = self._by_variant(dialogues)
        chosen: list[tuple[Case, str]] = []
        seen: set[str] = set()
        lost = 0
        for row in self._ranked(stage).to_dict("records"):
            name, variant = str(row["dialogue"]), str(row["variant"])
            if not only and (name in seen or len(chosen) == most):
                continue
            candidates = by_variant.get(name, {})
            if variant not in candidates:
                raise MismatchError(f"{self._path}: dialogue {name} is rewritten otherwise here; repeat the run")
            if only and self._id(row, candidates[variant][1]) not in only:
                continue
            seen.add(name)
            case = self._case(row, *candidates[variant])
            if case is None:
                lost += 1
            else:
                chosen.append((case, variant))
        return self._with_texts(chosen), lost

    def _id(self, row: Mapping[Any, Any], candidate: Candidate) -> str:
        return f"{self._axis.name}/{row['dialogue']}/{candidate.source}>{candidate.target}/{int(row['turn']) + 1}"

    def _by_variant(self, dialogues: Sequence[Dialogue]) -> dict[str, dict[str, tuple[Dialogue, Candidate]]]:
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

    def _read(self, columns: Sequence[str], *filters: tuple[str, str, Any]) -> pd.DataFrame:
        import pyarrow as pa
        import pyarrow.parquet as pq

        chosen = [("axis", "=", self._axis.name), *filters]
        if not check_turns(self._path):
            raise RunError(f"{self._path}: is not there; repeat the run")
        try:
            return pq.read_table(self._path, columns=list(columns), filters=chosen).to_pandas()
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{self._path}: cannot be read as a run's turns ({reason}); repeat the run") from error

    def _ranked(self, stage: str | None) -> pd.DataFrame:
        """Turns that are served worse, the worst first: keys, harm, the stage and its share."""
        frame = self._read([*_FACTS, *self._metric.columns])
        try:
            statistics = frame[list(self._metric.columns)].to_numpy(dtype=float)
        except (ValueError, TypeError) as error:
            raise RunError(f"{self._path}: columns of {self._metric.name} hold no numbers; repeat the run") from error
        frame = frame.assign(score=self._metric.turn_scores(statistics))
        copies = frame[frame["clusters"].notna() & (frame["arm"] != ORIGINAL)]
        mean = copies.groupby([*_KEYS, "arm"], observed=True)["score"].mean().unstack("arm")
        names = self._arms.keys()
        harm, shares = harm_of(self._metric, mean.reindex(columns=names).to_numpy(), self._arms)
        wanted = self._stages if stage is None else (stage,)
        table = np.stack([shares[name] for name in wanted], axis=-1)
        filled = np.nan_to_num(table, nan=-np.inf)
        ranked = mean.index.to_frame(index=False).assign(
            harm=harm,
            stage=np.array(wanted)[filled.argmax(axis=-1)],
            share=filled.max(axis=-1).round(9),  # else rounding noise decides between equal ones
            expected=mean.reindex(columns=names).to_numpy()[:, -1],
            rewritten=mean.reindex(columns=names).to_numpy()[:, 0],
            **{f"share {name}": share for name, share in shares.items()},
        )
        original = frame[frame["arm"] == ORIGINAL].groupby(["dialogue", "turn"], observed=True)["score"].mean()
        ranked = ranked.merge(original.rename("original").reset_index(), on=["dialogue", "turn"], how="left")
        ranked = ranked[(ranked["harm"] > TOLERANCE) & (ranked["share"] > TOLERANCE)]
        return ranked.sort_values(["share", *_KEYS], ascending=[False, True, True, True])

    def _case(self, row: Mapping[Any, Any], dialogue: Dialogue, candidate: Candidate) -> Case | None:
        whole = recorded(self._axis, dialogue, candidate)
        if whole is None:
            return None
        last = int(row["turn"])
        rewritten = whole.rewrite(self._axis)(whole.dialogue)
        short = whole.cut(range(last + 1))
        if short is not None and rewritten_turns(short, self._axis) != rewritten.turns[: last + 1]:
            short = None  # what comes later says who is spoken of
        if short is None and last + 1 < len(dialogue.turns):
            return None
        marked, gold = rewritten.turns[last], dialogue.turns[last]
        return Case(
            id=self._id(row, candidate),
            axis=self._axis.name,
            source=candidate.source,
            target=candidate.target,
            term=candidate.term,
            stage=str(row["stage"]),
            metric=self._spec,
            history="gold" if self._result.is_recorded else self._result.config.run.history,
            harm=float(row["harm"]),
            contributions={name: float(row[f"share {name}"]) for name in self._stages},
            scores={name: float(row[name]) for name in (ORIGINAL, EXPECTED, REWRITTEN)},
            turn=last + 1,
            turns=tuple(range(1, last + 2)),
            user={ORIGINAL: str(gold.user), REWRITTEN: str(marked.user)},
            reference={ORIGINAL: str(gold.response), REWRITTEN: str(marked.response)},
            outputs={},
            rewritten=rewritten.turns[: last + 1],
            counterfactual=short or whole,
            signature=self._axis.signature,
            corpus=(self._result.corpus.name, self._result.corpus.split or "test"),
            axis_options=dict(self._options),
        )

    def _with_texts(self, chosen: Sequence[tuple[Case, str]]) -> list[Case]:
        """The cases, each given with its variant, with what the stages put out."""
        if not chosen:
            return []
        names = sorted({case.counterfactual.dialogue.id for case, _ in chosen})
        arms = {arm_key(frozenset(self._stages)): EXPECTED, "": REWRITTEN, ORIGINAL: ORIGINAL}
        columns = [*_KEYS, "arm", "sample", *self._stages, FIRST_DIFFERENCE]
        frame = self._read(columns, ("dialogue", "in", names), ("arm", "in", list(arms)))
        frame = frame[frame["sample"] == 0]
        texts: dict[tuple[str, int, str, str], Mapping[str, str]] = {}
        differences: dict[tuple[str, int, str], Any] = {}
        for row in frame.to_dict("records"):
            variant = "" if row["arm"] == ORIGINAL else str(row["variant"])
            place = str(row["dialogue"]), int(row["turn"])
            texts[*place, arms[row["arm"]], variant] = {
                name: row[name] if isinstance(row[name], str) else "" for name in self._stages
            }
            if row["arm"] == "":
                differences[*place, variant] = in_column(row[FIRST_DIFFERENCE])
        complete = []
        for case, variant in chosen:
            place = case.counterfactual.dialogue.id, case.turn - 1
            by_which = {
                which: texts.get((*place, which, "" if which == ORIGINAL else variant), {})
                for which in (ORIGINAL, EXPECTED, REWRITTEN)
            }
            outputs = {name: {which: some.get(name, "") for which, some in by_which.items()} for name in self._stages}
            difference = differences.get((*place, variant))
            complete.append(case.model_copy(update={"outputs": outputs, "first_difference": difference}))
        return complete
