"""Su's findings, each as a test on finished runs: it holds, it does not, or it cannot be told here and what that takes.

A claim is a set of contrasts that should all be above 0. It *holds* where every one is (two-sided level 0.05 each: an
intersection-union test, Berger 1982). It *does not* hold where one of them is below 0, or is within the margin of 0
(Schuirmann 1987), after Holm's correction for their number. Claims that two things are equal hold where every contrast
is within the margin, and do not where one differs from 0. Else it cannot be told, and the number of dialogues is that
with which a difference as large as the margin is found with a probability of 80%, the spread being what it is here.

Errors are those of the runs' intervals. Where words are too few for an interval over words, the verdict is one of these
words, and no number of dialogues helps: other words do. Axes of which a run has fewer than 15 dialogues are in no test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from types import MappingProxyType
from typing import Any

from scipy import stats

from tod_bias.report.reading import FEW
from tod_bias.statistics.power import units_needed

Z = float(stats.norm.ppf(0.975))
ENOUGH_MENTIONS = 20
HOLDS, DOES_NOT, UNTOLD = "holds", "does not", "cannot be told here"


@dataclass(frozen=True)
class Number:
    """An estimate with its standard error."""

    value: float
    error: float
    dialogues: int
    of_these_words: bool
    """Whether there are too few words for an error over words."""


@dataclass(frozen=True)
class Contrast:
    """What a claim says to be above 0 (or, of two equal things, to be 0)."""

    name: str
    number: Number


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what is seen of it here."""

    claim: str
    verdict: str
    seen: str
    """Of these words only, needs so many dialogues, nothing of the kind has been run."""
    contrasts: tuple[Contrast, ...]


@dataclass(frozen=True)
class StudyRun:
    """One model on one corpus."""

    model: str
    beginning: str
    corpus: str
    axes: Mapping[str, Mapping[str, Any]]
    """Axis to its record by BLEU."""
    training: int = 0
    """Dialogues of the corpus that it learnt; beginnings are compared where that is the same."""
    folder: str = ""
    """Of its results."""

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.model}, {self.beginning}, {self.corpus}" + (f" ({self.training:,})" if self.training else "")


def enough(run: StudyRun) -> StudyRun:
    """The run without the axes of which it has too few dialogues for an interval."""
    few = too_few(run)
    return replace(run, axes={axis: record for axis, record in run.axes.items() if axis not in few})


def too_few(run: StudyRun) -> dict[str, int]:
    """Axes that are in no test, with how many dialogues they have."""
    counts = {axis: record["disparity"]["clusters"]["dialogues"] for axis, record in run.axes.items()}
    return {axis: count for axis, count in counts.items() if count < FEW}


def number(estimate: Mapping[str, Any], dialogues: int) -> Number:
    """An estimate of ``results.json``: its error is half its 95% interval over 1.96."""
    over = estimate.get("ci")
    low, high = over or estimate["ci_these_words"]
    return Number(float(estimate["value"]), (high - low) / 2 / Z, dialogues, over is None)


def larger(one: Number, other: Number, error: float | None = None) -> Number:
    """How much larger one is than the other in size, signs left aside; errors of separate dialogues add in squares."""
    spread = math.hypot(one.error, other.error) if error is None else error
    return Number(
        abs(one.value) - abs(other.value), spread,
        min(one.dialogues, other.dialogues), one.of_these_words or other.of_these_words,
    )  # fmt: skip


def parts_apart(whole: Number, one: Number, other: Number) -> float:
    """Standard error of a difference of two parts of one whole, by the parallelogram law, or of their independence.

    var(a - b) = 2 var(a) + 2 var(b) - var(a + b); the larger of it and var(a) + var(b), as the whole has further parts.
    """
    squares = one.error**2 + other.error**2
    return math.sqrt(max(2 * squares - whole.error**2, squares))


def judged(
    claim: str, contrasts: Sequence[Contrast], margin: float, *, equal: bool = False, usual: Number | None = None
) -> Finding:
    """The verdict on a claim by its contrasts; where there are none, what they would need if they spread as usual."""
    if not contrasts:
        return Finding(claim, UNTOLD, _without_runs(usual, margin), ())
    numbers = [contrast.number for contrast in contrasts]
    if any(one.error == 0 for one in numbers):
        return Finding(claim, UNTOLD, "nothing varies in one of the runs", tuple(contrasts))
    within = [abs(one.value) + stats.norm.ppf(0.95) * one.error < margin for one in numbers]
    differs = _holm([float(2 * stats.norm.sf(abs(one.value) / one.error)) for one in numbers])
    if equal:
        against = differs
        verdict = HOLDS if all(within) else DOES_NOT if any(differs) else UNTOLD
    else:
        near = _holm([_tost(one, margin) for one in numbers])
        against = [(apart and one.value < 0) or same for one, apart, same in zip(numbers, differs, near, strict=True)]
        above = all(one.value > Z * one.error for one in numbers)
        verdict = HOLDS if above else DOES_NOT if any(against) else UNTOLD
    these = any(one.of_these_words for one in numbers)
    seen = "of these words only: other words may show otherwise" if these else ""
    if verdict == DOES_NOT:
        failing = [one.name for one, fails in zip(contrasts, against, strict=True) if fails]
        seen = "; ".join(part for part in (f"not so: {', '.join(failing)}", seen) if part)
    if verdict == UNTOLD:
        wanted = max(_needed(one, margin) for one in numbers)
        seen = f"needs {wanted:,.0f} dialogues an axis"
        seen += " for these words, and other words to speak of groups" if these else ""
    return Finding(claim, verdict, seen, tuple(contrasts))


def _without_runs(usual: Number | None, margin: float) -> str:
    if usual is None:
        return "no run here speaks of it"
    wanted = _needed(usual, margin)
    return f"no run here speaks of it; where runs spread as these do, needs {wanted:,.0f} dialogues an axis"


def _needed(one: Number, margin: float) -> float:
    return units_needed(margin, one.dialogues, one.error)


def _usual(runs: Sequence[StudyRun]) -> Number | None:
    """What a contrast of two disparities of different runs is like, by the one that is known least well."""
    known = [_disparity(record) for run in runs for record in _demographic(run).values()]
    twice = [Number(0.0, math.hypot(one.error, one.error), one.dialogues, one.of_these_words) for one in known]
    return max((one for one in twice if one.error > 0), key=lambda one: _needed(one, 1.0), default=None)


def _tost(one: Number, margin: float) -> float:
    return float(stats.norm.sf((margin - abs(one.value)) / one.error))


def _holm(p_values: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which are rejected."""
    rejected = [False] * len(p_values)
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda number: p_values[number])):
        if p_values[place] > level / (len(p_values) - rank):
            break
        rejected[place] = True
    return rejected


# the claims -----------------------------------------------------------------------------------------------------------


def findings(
    runs: Sequence[StudyRun],
    words: Mapping[str, Mapping[str, Any]],
    margin: float,
    changes: Mapping[tuple[str, str], Mapping[str, Number]] = MappingProxyType({}),
) -> list[Finding]:
    """All of Su's findings on the runs there are.

    Args:
        runs: of any models and corpora.
        words: a corpus to what ``tod-bias words`` wrote of it.
        margin: what is as good as no difference, in parts of the originals' score.
        changes: the folders of two runs on the same dialogues to how much larger the disparity of the second is on each
            axis, paired by dialogue, as ``tod-bias compare`` has it; runs that are not here are taken as independent.
    """
    runs = [enough(run) for run in runs]
    claims: dict[str, list[Contrast]] = {
        "gender is least biased": _axes(runs, "gender", least=True),
        "race is most biased": _axes(runs, "race", least=False),
        "on Google SGD the response model more than the API-call model": _stages(runs, "google_sgd", 1),
        "on real people's dialogues the API-call model more (Su: Taskmaster-2; here: STAR)": _stages(runs, "star", -1),
        "BART is least biased": _models(runs, "bart", least=True),
        "T5 is more biased than GPT-2": _models(runs, "t5", least=False, against="gpt"),
        "woman > non-binary and back are told apart most": _pairs(runs, {"woman", "non-binary"}),
        "man as the source is told apart more than others": _sources(runs, "man"),
    }
    usual = _usual(runs)
    return [
        _counts(words),
        *(judged(claim, contrasts, margin, usual=usual) for claim, contrasts in claims.items()),
        judged("beginnings do not matter", _beginnings(runs, changes), margin, equal=True, usual=usual),
        _negative(runs, margin),
    ]


def _axes(runs: Sequence[StudyRun], axis: str, *, least: bool) -> list[Contrast]:
    found = []
    for run in runs:
        sizes = {name: _disparity(run.axes[name]) for name in ("gender", "age", "race") if name in run.axes}
        for other in (name for name in sizes if name != axis and axis in sizes):
            more, less = (other, axis) if least else (axis, other)
            found.append(Contrast(f"{run.name}: {more} − {less}", larger(sizes[more], sizes[less])))
    return found


def _disparity(record: Mapping[str, Any]) -> Number:
    return number(record["disparity"], record["disparity"]["clusters"]["dialogues"])


def _demographic(run: StudyRun) -> dict[str, Mapping[str, Any]]:
    return {axis: record for axis, record in run.axes.items() if record["verdict"] != "floor"}


def _stages(runs: Sequence[StudyRun], corpus: str, sign: int) -> list[Contrast]:
    found = []
    for run in runs:
        for axis, record in _demographic(run).items() if run.corpus == corpus else ():
            whole = _disparity(record)
            parts = record["contributions"]
            if {"response", "api_call"} <= set(parts):
                one, other = (number(parts[name], whole.dialogues) for name in ("response", "api_call"))
                if sign < 0:
                    one, other = other, one
                found.append(Contrast(f"{run.name}, {axis}", larger(one, other, parts_apart(whole, one, other))))
    return found


def _models(runs: Sequence[StudyRun], model: str, *, least: bool, against: str = "") -> list[Contrast]:
    """Of a model and each of the others, on the same corpus, from the same beginning."""
    found = []
    for own, other in permutations(runs, 2):
        same = (own.corpus, own.beginning) == (other.corpus, other.beginning)
        if same and _is(own, model) and not _is(other, model) and (not against or _is(other, against)):
            more, less = (other, own) if least else (own, other)
            for axis in set(_demographic(own)) & set(_demographic(other)):
                sizes = _disparity(more.axes[axis]), _disparity(less.axes[axis])
                found.append(Contrast(f"{more.name} − {less.name}, {axis}", larger(*sizes)))
    return sorted(found, key=lambda contrast: contrast.name)


def _is(run: StudyRun, model: str) -> bool:
    return run.model.lower().replace("-", "").startswith(model)


def _beginnings(runs: Sequence[StudyRun], changes: Mapping[tuple[str, str], Mapping[str, Number]]) -> list[Contrast]:
    """Of one model after the same training on the same corpus, from different beginnings."""
    found = []
    for one, other in combinations(runs, 2):
        same = (one.model, one.corpus, one.training) == (other.model, other.corpus, other.training)
        if same and one.beginning != other.beginning:
            paired = changes.get((one.folder, other.folder), {})
            for axis in _demographic(one):
                if axis in other.axes:
                    sizes = _disparity(other.axes[axis]), _disparity(one.axes[axis])
                    larger_by = paired.get(axis) or Number(
                        sizes[0].value - sizes[1].value, math.hypot(sizes[0].error, sizes[1].error),
                        min(size.dialogues for size in sizes), any(size.of_these_words for size in sizes),
                    )  # fmt: skip
                    found.append(Contrast(f"{other.name} − {one.beginning}, {axis}", larger_by))
    return found


def _negative(runs: Sequence[StudyRun], margin: float) -> Finding:
    """Parts of the API-call model below 0, each with its test, adjusted for all of them."""
    claim = "API-call parts below 0 occur"
    parts = [
        Contrast(f"{run.name}, {axis}", number(record["contributions"]["api_call"], _disparity(record).dialogues))
        for run in runs
        for axis, record in _demographic(run).items()
        if "api_call" in record["contributions"]
    ]
    varied = [part for part in parts if part.number.error > 0]
    if not varied:
        return Finding(claim, UNTOLD, "no run here speaks of it", tuple(parts))
    below = _holm([float(stats.norm.cdf(part.number.value / part.number.error)) for part in varied])
    some = [part for part, is_below in zip(varied, below, strict=True) if is_below]
    negative = sum(part.number.value < 0 for part in varied)
    count = f"{negative} of {len(varied)} are below 0, {len(some)} of them beyond chance"
    if some:
        these = all(part.number.of_these_words for part in some)
        return Finding(claim, HOLDS, count + ("; of these words only" if these else ""), tuple(parts))
    wanted = max(_needed(part.number, margin) for part in varied)
    return Finding(claim, UNTOLD, f"{count}; one of {margin:g} needs {wanted:,.0f} dialogues", tuple(parts))


def _pairs(runs: Sequence[StudyRun], attributes: set[str]) -> list[Contrast]:
    """Pairs between two attributes of gender against each of the others."""
    return _among_pairs(runs, lambda pair: set(pair.split(">")) == attributes)


def _sources(runs: Sequence[StudyRun], source: str) -> list[Contrast]:
    return _among_pairs(runs, lambda pair: pair.split(">")[0] == source)


def _among_pairs(runs: Sequence[StudyRun], is_own: Callable[[str], bool]) -> list[Contrast]:
    found = []
    for run in runs:
        pairs = run.axes.get("gender", {}).get("pairs", {})
        numbers = {
            name: number(pair, pair["dialogues"]) for name, pair in pairs.items() if pair.get("value") is not None
        }
        for own, other in permutations(numbers, 2):
            if is_own(own) and not is_own(other):
                found.append(Contrast(f"{run.name}: {own} − {other}", larger(numbers[own], numbers[other])))
    return found


def _counts(words: Mapping[str, Mapping[str, Any]]) -> Finding:
    """Words for men dominate: more of a corpus' mentions than those of all others, dialogues as the sample."""
    contrasts = []
    for corpus, counted in words.items():
        gender = counted["axes"]["gender"]
        men, total = gender["man"]["both"], sum(one["both"]["mentions"] for one in gender.values())
        if total >= ENOUGH_MENTIONS:
            dialogues = sum(one["both"]["dialogues"] for one in gender.values())
            share = men["mentions"] / total
            each = total / max(1, dialogues)  # mentions of a dialogue go together: as if they all said the same
            error = math.sqrt(max(share * (1 - share), 1e-9) * each / total)
            contrasts.append(Contrast(corpus, Number(share - 0.5, error, counted["corpus"]["dialogues"], False)))
    return judged("words for men outnumber all others (Fig. 2)", contrasts, 0.05)
