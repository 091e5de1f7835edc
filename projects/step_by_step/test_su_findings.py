"""The verdicts on Su's findings: how often they are wrong where the truth is known."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path

import numpy as np
import pytest

from tod_bias import attribute, load_corpus, load_pipeline
from tod_bias.results import AuditResult, AxisResult

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent)
    su, verdicts, study = map(importlib.import_module, ("findings", "verdicts", "study"))

HOLDS, DOES_NOT, UNTOLD = verdicts.HOLDS, verdicts.DOES_NOT, verdicts.UNTOLD
MARGIN = 0.02
WORLDS = 300
AT_MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / WORLDS)
"""How often a test at the level 0.05 rejects in so many worlds, three standard errors added."""


def number(value, error=0.01, dialogues=100, these_words=False, *freedom):
    return verdicts.Number(float(value), error, dialogues, these_words, *freedom)


def apart(pair, errors, counts=(100, 100), **options):
    """A case: is one size above the other?"""
    sizes = (number(*rest) for rest in zip(pair, errors, counts, strict=True))
    return verdicts.Case("", (verdicts.apart(*sizes, **options),))


def above(values, error, dialogues=100):
    """A case for each value: is it above 0?"""
    return [verdicts.Case("", (verdicts.Above(number(one, error, dialogues)),)) for one in values]


def dialogues_needed(finding):
    return int(re.search(r"([\d,]+) dialogues", finding.needed).group(1).replace(",", ""))


def judged(truths, covariance, *, dialogues=100):
    """How often each verdict is reached on independent cases, each of two sizes with a joint distribution."""
    covariance = np.asarray(covariance)
    errors, total = np.sqrt(np.diag(covariance)), math.sqrt(covariance.sum())
    seen = np.random.default_rng(0).multivariate_normal([0, 0], covariance, size=(WORLDS, len(truths))) + truths
    counts = dict.fromkeys((HOLDS, DOES_NOT, UNTOLD), 0)
    for world in seen:
        cases = [apart(pair, errors, (dialogues, dialogues), total=total) for pair in world]
        counts[verdicts.mostly("", cases, MARGIN).verdict] += 1
    return {name: count / WORLDS for name, count in counts.items()}


def share(verdict, ask, truth, error, dialogues=100):
    """How often ``ask`` reaches a verdict on estimates with this error."""
    seen = np.random.default_rng(0).normal(truth, error, size=(WORLDS, len(truth)))
    return np.mean([ask("", above(one, error, dialogues), MARGIN).verdict == verdict for one in seen])


INDEPENDENT = [[1e-4, 0], [0, 1e-4]]
COVARIANCES = {
    "independent": INDEPENDENT,
    "together": [[1e-4, 0.8e-4], [0.8e-4, 1e-4]],
    "against each other": [[1e-4, -0.8e-4], [-0.8e-4, 1e-4]],
    "one is hardly known": [[25e-4, 0], [0, 1e-6]],
    "the other is hardly known": [[1e-6, 0], [0, 25e-4]],
}


@pytest.mark.parametrize("covariance", COVARIANCES.values(), ids=COVARIANCES)
@pytest.mark.parametrize(
    ("wrong", "truths"),
    [
        (HOLDS, [(0.0, 0.0), (0.05, 0.05), (0.05, -0.05), (0.03, 0.05), (0.0, -0.04)]),
        (DOES_NOT, [(0.02, 0.0), (-0.02, 0.0), (0.07, 0.05), (0.07, -0.05), (-0.10, 0.05)]),
    ],
)
def test_what_is_not_larger_is_seldom_said_to_be_and_what_is_larger_by_the_margin_seldom_denied(
    covariance, wrong, truths
):
    for truth in truths:
        assert judged([truth] * 3, covariance)[wrong] <= AT_MOST, truth


def test_most_is_more_than_half():
    clear, none, near = (0.2, 0.0), (0.0, 0.2), (0.05, 0.05)
    assert judged([clear, clear, none], INDEPENDENT)[HOLDS] >= 0.99
    assert judged([clear, none, none], INDEPENDENT)[DOES_NOT] >= 0.99
    assert judged([clear, none], INDEPENDENT)[DOES_NOT] >= 0.99  # one half is not most
    assert judged([clear, near, near], INDEPENDENT)[HOLDS] <= 0.05
    assert judged([(0.02, 0.02)] * 3, [[9e-6, 0], [0, 9e-6]])[DOES_NOT] >= 0.95  # equal


@pytest.mark.parametrize("cases", [1, 4, 7])
def test_so_many_dialogues_tell_it_in_four_of_five_studies(cases):
    found = verdicts.mostly("", [apart((0, 0), (0.02, 0.02))] * cases, MARGIN)
    assert found.verdict == UNTOLD
    needed = dialogues_needed(found)
    error = 0.02**2 * 100 / needed
    told = judged([(MARGIN, 0.0)] * cases, [[error, 0], [0, error]], dialogues=needed)
    assert told[HOLDS] >= 0.74
    assert cases > 1 or told[HOLDS] <= 0.87  # several may be alike, and are not here


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_so_many_dialogues_are_enough_however_many_there_were_of_each_and_alike_the_cases(alike):
    rng = np.random.default_rng(0)
    spreads, counts, cases = (0.0155, 0.013), (135, 54), 8
    needed = dialogues_needed(verdicts.mostly("", [apart((0, 0), spreads, counts)] * cases, MARGIN))
    errors = [spread * math.sqrt(count / needed) for spread, count in zip(spreads, counts, strict=True)]
    held = 0
    for _ in range(WORLDS):
        common, own = rng.normal(size=(1, 2)), rng.normal(size=(cases, 2))
        noise = np.where(alike, common, own) * errors
        told = [apart((MARGIN + one, other), errors, (needed, needed)) for one, other in noise]
        held += verdicts.mostly("", told, MARGIN).verdict == HOLDS
    assert held / WORLDS >= 0.74


def test_a_case_needs_all_of_its_contrasts_and_what_is_seen_counts_the_cases():
    size, smaller, larger = (number(value, 0.005) for value in (0.05, 0.01, 0.1))
    contrasts = verdicts.apart(size, smaller), verdicts.apart(size, larger)
    assert verdicts.mostly("", [verdicts.Case("", contrasts[:1])], MARGIN).verdict == HOLDS
    assert verdicts.mostly("", [verdicts.Case("", contrasts)], MARGIN).verdict == DOES_NOT
    told = [(0.1, 0.0, 0.01), (0.01, 0.0, 0.03), (0.001, 0.0, 0.004), (0.0, 0.1, 0.01)]
    found = verdicts.mostly("", [apart((one, other), (error, error)) for one, other, error in told], MARGIN)
    assert (found.verdict, re.findall(r"\d", found.seen)) == (DOES_NOT, ["3", "4", "1", "2"])  # significant, refuted


def test_what_does_not_vary_tells_nothing():
    for value in (0.0, 0.5):
        found = verdicts.mostly("", [apart((value, 0.0), (0.0, 0.0))], MARGIN)
        assert (found.verdict, found.needed) == (UNTOLD, "runs in which more varies")
    assert verdicts.equal("", [apart((0.0, 0.0), (0.0, 0.0))], MARGIN).verdict == UNTOLD
    assert verdicts.some_below("", [apart((-1.0, 0.0), (0.0, 0.0))], MARGIN).verdict == UNTOLD


def test_equality_is_claimed_within_the_margin_alone():
    assert share(HOLDS, verdicts.equal, (0.0, 0.021), 0.003) <= AT_MOST
    assert share(DOES_NOT, verdicts.equal, (0.0, 0.0, 0.0), 0.01) <= AT_MOST
    assert share(HOLDS, verdicts.equal, (0.0, 0.0, 0.0), 0.003) >= 0.95
    needed = dialogues_needed(verdicts.equal("", above([0.0] * 12, 0.02), MARGIN))
    assert 0.74 <= share(HOLDS, verdicts.equal, [0.0] * 12, 0.02 * math.sqrt(100 / needed), needed) <= 0.87


def test_parts_below_0_are_adjusted_for_how_many_are_looked_at():
    assert share(HOLDS, verdicts.some_below, [0.0] * 20, 0.01) <= AT_MOST
    needed = dialogues_needed(verdicts.some_below("", above([0.0] * 20, 0.02), MARGIN))
    truth = [-MARGIN] + [0.1] * 19
    assert 0.74 <= share(HOLDS, verdicts.some_below, truth, 0.02 * math.sqrt(100 / needed), needed) <= 0.87


def test_numbers_of_few_dialogues_are_judged_by_their_t():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(WORLDS):
        drawn = rng.normal(0, 1, size=(26, 15))
        numbers = [number(one.mean(), one.std(ddof=1) / math.sqrt(15), 15, False, 14) for one in drawn]
        cases = [verdicts.Case("", (verdicts.Above(one),)) for one in numbers]
        held += verdicts.some_below("", cases, MARGIN).verdict == HOLDS
    assert held / WORLDS <= AT_MOST


def test_every_finding_is_answered_also_without_runs():
    for found in su.findings([], {}, 0.02):
        assert (found.verdict, bool(found.seen), bool(found.needed)) == (UNTOLD, True, True)
    assert "1,100 dialogues" in verdicts.mostly("", [], 0.02, usual=number(0.1, 0.02, 100, True)).needed


def test_the_errors_of_two_parts_are_those_of_their_joint_distribution():
    rng = np.random.default_rng(1)
    for covariance, go in (([[1.0, -0.5], [-0.5, 2.0]], 0.0), (np.eye(2), -0.4), (np.eye(2), 0.4)):
        parts = rng.multivariate_normal([0, 0], covariance, size=200_000)
        further = go * parts.sum(axis=1)  # with further parts both errors are at their largest
        errors = {name: number(0, one.std(), 9) for name, one in zip("abd", (*parts.T, further), strict=True)}
        found = su.two_parts(number(0, (parts.sum(axis=1) + further).std(), 9), errors, "a", "b")
        expected = [(parts[:, 0] - parts[:, 1]).std(), parts.sum(axis=1).std()]
        errors_found = [found.difference.error, found.total.error]
        if go:
            assert all(one >= least - 0.01 for one, least in zip(errors_found, expected, strict=True))
        else:
            assert errors_found == pytest.approx(expected, rel=0.01)


def test_fairscores_by_source_and_target_are_compared_between_sources():
    values = {"man>woman": 0.5, "man>non-binary": 0.4, "woman>man": 0.1, "woman>non-binary": 0.1}
    pairs = {
        name: {"value": value, "ci": [value - 0.04, value + 0.04], "dialogues": 100} for name, value in values.items()
    }
    few = {"non-binary>man": {"value": 2.0, "ci": [0.0, 4.0], "dialogues": 3}}
    record = {
        "disparity": {"value": 0.1, "ci": [0.0, 0.2]},
        "dialogues": 203,
        "su": {"fairscore": {}, "attribution": {}, "pairs": pairs | few},
    }
    result = AuditResult.model_validate({"axes": {"gender": {"corpus_bleu": record}}})
    run = su.StudyRun("m", "plain", "c", {"gender": result.axes["gender"]["corpus_bleu"]})
    (sources,) = su._sources([run], "man")
    assert [one.number.value for one in sources.contrasts] == pytest.approx([0.35])
    (either_way,) = su._pairs([run], "woman", "non-binary")
    assert [one.number.value for one in either_way.contrasts] == pytest.approx([-0.4, -0.3])  # both of man
    found = {one.claim: one.verdict for one in su.findings([run] * 5, {}, 0.02)}
    assert found["fairscores are larger where the source is man (Fig. 5)"] == HOLDS
    assert found["woman > non-binary and back have the largest fairscores (Fig. 5)"] != HOLDS


def counted(men, women, dialogues):
    """So many mentions of men and of women, each in a dialogue with one more like it."""

    def both(mentions):
        part = mentions / (men + women)
        spread = 2 * math.sqrt(part * (1 - part) / dialogues)
        bounds = [part - spread, part + spread] if 0 < part < 1 else None
        found = {"mentions": mentions, "dialogues": min(mentions, dialogues)}
        return {"both": found | {"share_of_mentions": part, "share_of_mentions_ci": bounds}}

    return {"corpus": {"dialogues": 2000}, "axes": {"gender": {"man": both(men), "woman": both(women)}}}


MEN, WOMEN, EVEN, FEW, MANY_OF_FEW = (500, 100, 300), (100, 500, 300), (300, 310, 300), (20, 0, 5), (20, 0, 20)


@pytest.mark.parametrize(
    ("corpora", "verdict", "needed"),
    [
        ([MEN] * 4, UNTOLD, "1 more of them"),
        ([MEN] * 5, HOLDS, ""),
        ([WOMEN] * 4, DOES_NOT, ""),
        ([FEW] * 8, UNTOLD, None),  # a dialogue may say it twenty times
        ([MANY_OF_FEW] * 8, HOLDS, ""),
        ([MEN] * 2 + [EVEN] * 5, UNTOLD, "more dialogues of them"),
    ],
)
def test_most_corpora_are_most_of_those_of_the_paper(corpora, verdict, needed):
    elsewhere = {"star": counted(100, 110, 100)}
    found = su._counts(dict(zip(su.CORPORA, (counted(*one) for one in corpora), strict=False)) | elsewhere)
    assert found.verdict == verdict
    assert needed is None or found.needed == needed
    assert found.seen.endswith("star 48%")


def test_axes_of_a_few_dialogues_are_in_no_test():
    sizes = {"gender": (40, [0.05, 0.15]), "age": (4, None), "race": (90, [0.09, 0.11])}
    axes = {
        name: AxisResult(disparity={"value": 0.1, "ci": bounds}, dialogues=dialogues, verdict="inconclusive")
        for name, (dialogues, bounds) in sizes.items()
    }
    run = su.StudyRun("GPT-2", "plain", "star", axes)
    least = next(found for found in su.findings([run], {}, 0.02) if found.claim == "gender is least biased")
    (case,) = least.cases
    (contrast,) = case.contrasts
    assert (case.name, contrast.difference.value) == ("GPT-2, plain, star", 0.0)
    assert su.too_few(run) == {"age": 4}


def run_of(beginning, value, training=600):
    estimate = {"value": value, "ci": [value - 0.098, value + 0.098]}
    axes = {"gender": AxisResult(verdict="inconclusive", disparity=estimate, dialogues=20)}
    return su.StudyRun("GPT-2", beginning, "google_sgd", axes, training, beginning)


def test_beginnings_are_compared_after_equal_trainings_and_paired_where_that_is_known():
    runs = [run_of("plain", 0.03), run_of("crossed", 0.05), run_of("longer", 0.9, 3000)]
    (alone,) = su._beginnings(runs, {})
    assert alone.name == "GPT-2, crossed, google_sgd (600) − plain, gender"
    assert alone.contrasts[0].number.value == pytest.approx(0.02)
    assert alone.contrasts[0].number.error == pytest.approx(math.hypot(0.0468, 0.0468), rel=1e-3)  # t with 19
    known = number(0.021, 0.003, 20)
    (paired,) = su._beginnings(runs, {("plain", "crossed"): {"gender": known}})
    assert paired.contrasts[0].number == known


def test_turns_whose_score_changes_most_are_shown(tmp_path, unpainted, capsys):
    corpus = load_corpus("demo", max_dialogues=12)
    attribute(load_pipeline("demo"), corpus, axes=["gender"], metrics=("corpus_bleu",), bootstrap=5).save(tmp_path)
    study.examples(tmp_path)
    shown = capsys.readouterr().out
    assert re.search(r"^gender: \S+ > \S+; dialogue \S+, turn \d+$", shown, re.M)
    assert re.search(r"^  user before: .*\*\*.*\n  user after:  .*\*\*", shown, re.M)
