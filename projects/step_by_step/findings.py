"""Su's findings, each as a test on finished runs: confirmed, refuted, or undecided with the number of dialogues that
would decide.

Su speaks of what is usually or in most cases so; here that is more than half of the cases (:mod:`verdicts`), a case
being a model, its beginning, a corpus and an axis, as far as a finding tells them apart. Axes of which a run has fewer
than 15 dialogues are in no test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import Any

from verdicts import (
    UNTOLD,
    Above,
    Case,
    Contrast,
    Finding,
    Larger,
    Number,
    apart,
    equal,
    mostly,
    rejected,
    some_below,
)

from tod_bias.report.notation import FEW
from tod_bias.results import AxisResult, Estimate
from tod_bias.statistics.distributions import t_quantile

AXES = ("gender", "age", "race")
CORPORA = (
    "google_sgd", "multiwoz_v22", "taskmaster", "taskmaster2", "taskmaster3", "metalwoz", "multidogo", "msr_e2e",
)  # fmt: skip
"""Su's Fig. 2."""


@dataclass(frozen=True)
class StudyRun:
    """One model on one corpus."""

    model: str
    beginning: str
    corpus: str
    axes: Mapping[str, AxisResult]
    """Axis to its result by BLEU."""
    training: int = 0
    """Dialogues of the corpus in training; beginnings are compared if it is equal."""
    folder: str = ""
    """Folder of the results."""

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.model}, {self.beginning}, {self.corpus}" + (f" ({self.training:,})" if self.training else "")


def enough(run: StudyRun) -> StudyRun:
    """Return the run without the axes with too few dialogues for an interval."""
    few = too_few(run)
    return replace(run, axes={axis: result for axis, result in run.axes.items() if axis not in few})


def too_few(run: StudyRun) -> dict[str, int]:
    """Axes that are in no test, with how many dialogues they have."""
    counts = {axis: result.dialogues or 0 for axis, result in run.axes.items()}
    return {axis: count for axis, count in counts.items() if count < FEW}


def number(estimate: Estimate, dialogues: int) -> Number:
    """An estimate of a run: its error is half its 95% interval, over the quantile that made it."""
    assert estimate.ci is not None
    assert estimate.value is not None
    low, high = estimate.ci
    of_terms_only = estimate.is_of_terms_only
    freedom = max(1.0, (None if of_terms_only else estimate.df) or dialogues - 1)
    return Number(estimate.value, (high - low) / 2 / t_quantile(0.975, freedom), dialogues, of_terms_only, freedom)


def findings(
    runs: Sequence[StudyRun],
    words: Mapping[str, Mapping[str, Any]],
    margin: float,
    changes: Mapping[tuple[str, str], Mapping[str, Number]] = MappingProxyType({}),
) -> list[Finding]:
    """Judge all of Su's findings by the runs that exist.

    Args:
        runs: of any models and corpora.
        words: a corpus to what ``mentions.py`` wrote of it.
        margin: what is as good as no difference, in parts of the originals' score.
        changes: the folders of two runs on the same dialogues to how much larger the disparity of the second is on each
            axis, paired by dialogue, as ``tod-bias compare`` has it; runs that are not here are taken as independent.
    """
    runs = [enough(run) for run in runs]
    usual = _usual(runs)
    claims: dict[str, list[Case]] = {
        "gender is least biased": _axes(runs, "gender", least=True),
        "race is most biased": _axes(runs, "race", least=False),
        "on Google SGD the response model more than the API-call model": _stages(
            runs, "google_sgd", "response", "api_call"
        ),
        "on real people's dialogues the API-call model more (Su: Taskmaster-2; here: STAR)": _stages(
            runs, "star", "api_call", "response"
        ),
        "BART is least biased": _models(runs, "bart", least=True),
        "T5 is more biased than GPT-2": _models(runs, "t5", least=False, against="gpt"),
        "woman > non-binary and back have the largest fairscores (Fig. 5)": _pairs(runs, "woman", "non-binary"),
        "fairscores are larger where the source is man (Fig. 5)": _sources(runs, "man"),
    }
    return [
        _counts(words),
        *(mostly(claim, cases, margin, usual=usual) for claim, cases in claims.items()),
        equal("beginnings do not matter", _beginnings(runs, changes), margin, usual=usual),
        some_below("API-call parts below 0 occur", _api_calls(runs), margin),
    ]


def _axes(runs: Sequence[StudyRun], axis: str, *, least: bool) -> list[Case]:
    """Compare the axis with all others in every run."""
    cases = []
    for run in runs:
        sizes = {name: _disparity(run.axes[name]) for name in AXES if name in run.axes}
        others = [size for name, size in sizes.items() if name != axis]
        if axis in sizes and others:
            contrasts = (apart(other, sizes[axis]) if least else apart(sizes[axis], other) for other in others)
            cases.append(Case(run.name, tuple(contrasts)))
    return cases


def _disparity(result: AxisResult) -> Number:
    return number(result.disparity, result.dialogues or 0)


def _demographic(run: StudyRun) -> dict[str, AxisResult]:
    return {axis: result for axis, result in run.axes.items() if not result.is_placebo}


def _usual(runs: Sequence[StudyRun]) -> Number | None:
    """Return a typical contrast of two disparities of different runs: the median of those that vary."""
    known = [_disparity(result) for run in runs for result in _demographic(run).values()]
    ordered = sorted((one for one in known if one.error > 0), key=lambda one: one.error_of(1))
    if not ordered:
        return None
    middle = ordered[len(ordered) // 2]
    return replace(middle, value=0.0, error=math.hypot(middle.error, middle.error))


def _stages(runs: Sequence[StudyRun], corpus: str, more: str, less: str) -> list[Case]:
    """Compare one component's part with the other's, for every run on a corpus and every axis."""
    cases = []
    for run in runs:
        for axis, result in _demographic(run).items() if run.corpus == corpus else ():
            whole = _disparity(result)
            parts = {name: number(part, whole.dialogues) for name, part in result.shares.items()}
            if {more, less} <= set(parts):
                cases.append(Case(f"{run.name}, {axis}", (two_parts(whole, parts, more, less),)))
    return cases


def two_parts(whole: Number, parts: Mapping[str, Number], more: str, less: str) -> Larger:
    """Test if one part of a whole is larger than another: their sum is the whole, except for further parts.

    The dependence of further parts and the whole is unknown, so both errors are upper bounds.
    """
    one, other = parts[more], parts[less]
    further = sum(part.error for name, part in parts.items() if name not in (more, less))
    least = max(0.0, whole.error - further)
    difference = math.sqrt(max(2 * (one.error**2 + other.error**2) - least**2, 0.0))
    return apart(one, other, difference=difference, total=whole.error + further)


def _models(runs: Sequence[StudyRun], model: str, *, least: bool, against: str = "") -> list[Case]:
    """Compare a model with all others on the same corpus from the same beginning, in every run."""
    cases = []
    for own in (run for run in runs if _is(run, model)):
        for axis, result in _demographic(own).items():
            others = [
                _disparity(run.axes[axis])
                for run in runs
                if (run.corpus, run.beginning) == (own.corpus, own.beginning)
                and not _is(run, model) and _is(run, against) and axis in _demographic(run)
            ]  # fmt: skip
            size = _disparity(result)
            contrasts = tuple(_alike(other, size) if least else _alike(size, other) for other in others)
            if contrasts:
                cases.append(Case(f"{own.name}, {axis}", contrasts))
    return cases


def _alike(one: Number, other: Number) -> Larger:
    """Test if one number is larger than another on the same dialogues, with upper bounds of the errors."""
    return apart(one, other, difference=one.error + other.error, total=one.error + other.error)


def _is(run: StudyRun, model: str) -> bool:
    return run.model.lower().replace("-", "").startswith(model)


def _beginnings(runs: Sequence[StudyRun], changes: Mapping[tuple[str, str], Mapping[str, Number]]) -> list[Case]:
    """Compare different beginnings of one model after the same training on the same corpus."""
    found = []
    for one, other in combinations(runs, 2):
        same = (one.model, one.corpus, one.training) == (other.model, other.corpus, other.training)
        if same and one.beginning != other.beginning:
            paired = changes.get((one.folder, other.folder), {})
            for axis in _demographic(one):
                if axis in other.axes:
                    independent = apart(_disparity(other.axes[axis]), _disparity(one.axes[axis])).difference
                    change: Contrast = Above(paired.get(axis) or independent)
                    found.append(Case(f"{other.name} − {one.beginning}, {axis}", (change,)))
    return found


def _api_calls(runs: Sequence[StudyRun]) -> list[Case]:
    return [
        Case(f"{run.name}, {axis}", (Above(number(result.shares["api_call"], _disparity(result).dialogues)),))
        for run in runs
        for axis, result in _demographic(run).items()
        if "api_call" in result.shares
    ]


def _eq1(run: StudyRun) -> dict[tuple[str, str], Number]:
    """Return source and target to eq. 1 of a run's gender axis, for sources with enough dialogues."""
    su = run.axes["gender"].su if "gender" in run.axes else None
    known = {}
    for pair in () if su is None else su.pairs.values():
        if pair.ci is not None and pair.value is not None and (pair.dialogues or 0) >= FEW:
            # an absolute value's interval ends at 0, and its error is that of the other side
            error = max(pair.ci[1] - pair.value, pair.value - pair.ci[0]) / t_quantile(0.975, pair.dialogues - 1)
            known[pair.source, pair.target] = Number(pair.value, error, pair.dialogues, True, pair.dialogues - 1)
    return known


def _pairs(runs: Sequence[StudyRun], *own: str) -> list[Case]:
    """Compare the pair of two groups, in both directions, with all pairs of other sources, in every run."""
    cases = []
    for run in runs:
        known = _eq1(run)
        contrasts = tuple(
            apart(number, other)
            for pair, number in known.items()
            for elsewhere, other in known.items()
            if set(pair) == set(own) and set(elsewhere) != set(own) and elsewhere[0] != pair[0]
        )
        cases += [Case(run.name, contrasts)] if contrasts else []
    return cases


def _sources(runs: Sequence[StudyRun], source: str) -> list[Case]:
    """Compare the mean over targets from one source with that from each other source, in every run."""
    cases = []
    for run in runs:
        known = _eq1(run)
        rows = {row: _mean([one for (name, _), one in known.items() if name == row]) for row, _ in known}
        contrasts = tuple(
            apart(rows[source], other) for name, other in rows.items() if source in rows and name != source
        )
        cases += [Case(run.name, contrasts)] if contrasts else []
    return cases


def _mean(numbers: Sequence[Number]) -> Number:
    """Return the mean of numbers on the same dialogues; its error is at most the mean of theirs."""
    value, error = (sum(getattr(one, name) for one in numbers) / len(numbers) for name in ("value", "error"))
    return replace(numbers[0], value=value, error=error)


def _counts(words: Mapping[str, Mapping[str, Any]]) -> Finding:
    """Words for men are more of a corpus' mentions than those of all others, in most of Su's corpora. The margin is
    0.05 of the mentions."""
    claim = "words for men outnumber all others, in most corpora (Fig. 2)"
    cases = {corpus: case for corpus, counted in words.items() if (case := _men(corpus, counted)) is not None}
    unknown = Case("", (Above(Number(0.0, 0.0, 0, False)),))
    found = mostly(claim, [cases.get(name, unknown) for name in CORPORA], 0.05)
    own = [case for name, case in cases.items() if name in CORPORA]
    leans = sum(case.leans for case in own)
    seen = f"true of {leans} of the {len(own)} of Su's {len(CORPORA)} corpora that are here"
    beside = [
        f"{name} {100 * (case.contrasts[0].number.value + 0.5):.0f}%" for name, case in cases.items() if case not in own
    ]
    seen += f"; men's share elsewhere: {', '.join(beside)}" if beside else ""
    needed = ""
    if found.verdict == UNTOLD:
        wanted = len(CORPORA) // 2 + 1 - sum(rejected([case.above() for case in own]))
        left = len(CORPORA) - len(own)
        needed = f"{wanted} more of them" if wanted <= left else "more dialogues of them"
    return Finding(claim, found.verdict, seen, tuple(cases.values()), needed)


def _men(corpus: str, counted: Mapping[str, Any]) -> Case | None:
    """Return the share of men minus one half, with dialogues as the sample; None if a corpus hardly mentions people."""
    gender = {attribute: one["both"] for attribute, one in counted["axes"]["gender"].items()}
    dialogues = max(one["dialogues"] for one in gender.values())
    if dialogues < FEW:
        return None
    share, bounds = gender["man"]["share_of_mentions"], gender["man"]["share_of_mentions_ci"]
    error = (bounds[1] - bounds[0]) / 2 / t_quantile(0.975, dialogues - 1) if bounds else 0.0
    if error == 0:  # nothing but men, or none: the error that one half would have
        error = 0.5 / math.sqrt(dialogues)
    return Case(corpus, (Above(Number(share - 0.5, error, dialogues, False, dialogues - 1)),))
