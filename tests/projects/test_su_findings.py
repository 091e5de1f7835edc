"""The verdicts on Su's findings: how often they are wrong where the truth is known."""

from __future__ import annotations

import importlib
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tod_bias import attribute, load_corpus, load_pipeline
from tod_bias.results import AuditResult, AxisResult

FOLDER = Path(__file__).parent.parent.parent / "projects" / "step_by_step"


@pytest.fixture(scope="module")
def su() -> ModuleType:
    return _module("findings")


@pytest.fixture(scope="module")
def verdicts() -> ModuleType:
    return _module("verdicts")


def _module(name):
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


MARGIN = 0.02
WORLDS = 300
AT_MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / WORLDS)
"""How often a test at the level 0.05 rejects in so many worlds, three standard errors added."""


def numbers(verdicts, values, error, dialogues=100):
    return [verdicts.Number(float(value), error, dialogues, False) for value in values]


def judged(verdicts, truths, covariance, *, dialogues=100, worlds=WORLDS):
    """How often each verdict is reached on independent cases, each of two sizes with a joint distribution."""
    rng = np.random.default_rng(0)
    covariance = np.asarray(covariance)
    errors = np.sqrt(np.diag(covariance))
    total = math.sqrt(covariance.sum())
    seen = rng.multivariate_normal([0, 0], covariance, size=(worlds, len(truths))) + np.asarray(truths)
    counts = dict.fromkeys((verdicts.HOLDS, verdicts.DOES_NOT, verdicts.UNTOLD), 0)
    for world in seen:
        cases = []
        for pair in world:
            one, other = (
                verdicts.Number(value, error, dialogues, False) for value, error in zip(pair, errors, strict=True)
            )
            cases.append(verdicts.Case("", (verdicts.apart(one, other, total=total),)))
        counts[verdicts.mostly("", cases, MARGIN).verdict] += 1
    return {name: count / worlds for name, count in counts.items()}


COVARIANCES = {
    "independent": [[1e-4, 0], [0, 1e-4]],
    "together": [[1e-4, 0.8e-4], [0.8e-4, 1e-4]],
    "against each other": [[1e-4, -0.8e-4], [-0.8e-4, 1e-4]],
    "one is hardly known": [[25e-4, 0], [0, 1e-6]],
    "the other is hardly known": [[1e-6, 0], [0, 25e-4]],
}


@pytest.mark.parametrize("covariance", COVARIANCES.values(), ids=COVARIANCES)
@pytest.mark.parametrize("truth", [(0.0, 0.0), (0.05, 0.05), (0.05, -0.05), (0.03, 0.05), (0.0, -0.04)])
def test_what_is_not_larger_is_seldom_said_to_be(verdicts, truth, covariance):
    assert judged(verdicts, [truth] * 3, covariance)[verdicts.HOLDS] <= AT_MOST


@pytest.mark.parametrize("covariance", COVARIANCES.values(), ids=COVARIANCES)
@pytest.mark.parametrize("truth", [(0.02, 0.0), (-0.02, 0.0), (0.07, 0.05), (0.07, -0.05), (-0.10, 0.05)])
def test_what_is_larger_by_the_margin_is_seldom_denied(verdicts, truth, covariance):
    assert judged(verdicts, [truth] * 3, covariance)[verdicts.DOES_NOT] <= AT_MOST


def test_most_is_more_than_half(verdicts):
    clear, none, near = (0.2, 0.0), (0.0, 0.2), (0.05, 0.05)
    independent = COVARIANCES["independent"]
    assert judged(verdicts, [clear, clear, none], independent)[verdicts.HOLDS] >= 0.99
    assert judged(verdicts, [clear, none, none], independent)[verdicts.DOES_NOT] >= 0.99
    assert judged(verdicts, [clear, none], independent)[verdicts.DOES_NOT] >= 0.99  # one half is not most
    assert judged(verdicts, [clear, near, near], independent)[verdicts.HOLDS] <= 0.05
    assert judged(verdicts, [(0.02, 0.02)] * 3, [[9e-6, 0], [0, 9e-6]])[verdicts.DOES_NOT] >= 0.95  # equal


@pytest.mark.parametrize("cases", [1, 4, 7])
def test_so_many_dialogues_tell_it_in_four_of_five_studies(verdicts, cases):
    found = verdicts.mostly("", [_case(verdicts, 0.0, 0.0, 0.02)] * cases, MARGIN)
    assert found.verdict == verdicts.UNTOLD
    needed = int(re.search(r"([\d,]+) dialogues per axis", found.needed).group(1).replace(",", ""))
    error = 0.02**2 * 100 / needed
    told = judged(verdicts, [(MARGIN, 0.0)] * cases, [[error, 0], [0, error]], dialogues=needed)
    assert told[verdicts.HOLDS] >= 0.74
    assert cases > 1 or told[verdicts.HOLDS] <= 0.87  # several may be alike, and are not here


def _case(verdicts, one, other, error, these_words=False):
    sizes = (verdicts.Number(value, error, 100, these_words) for value in (one, other))
    return verdicts.Case("", (verdicts.apart(*sizes),))


def test_a_case_needs_all_of_its_contrasts(verdicts):
    size, smaller, larger = numbers(verdicts, (0.05, 0.01, 0.1), 0.005)
    both = verdicts.Case("", (verdicts.apart(size, smaller), verdicts.apart(size, larger)))
    assert verdicts.mostly("", [verdicts.Case("", both.contrasts[:1])], MARGIN).verdict == verdicts.HOLDS
    assert verdicts.mostly("", [both], MARGIN).verdict == verdicts.DOES_NOT


def test_what_is_seen_says_in_how_many_cases(verdicts):
    told = [(0.1, 0.0, 0.01), (0.01, 0.0, 0.03), (0.001, 0.0, 0.004), (0.0, 0.1, 0.01)]
    found = verdicts.mostly("", [_case(verdicts, *one) for one in told], MARGIN)
    assert (found.verdict, found.seen) == (
        verdicts.DOES_NOT,
        "estimates agree in 3 of 4 cases; significant in 1, refuted in 2",
    )
    few = verdicts.mostly("", [_case(verdicts, 0.001, 0.0, 0.02, these_words=True)], MARGIN)
    assert few.seen == "estimates agree in 1 of 1 case; significant in 0, refuted in 0"
    assert few.needed.endswith(" dialogues per axis‡")


def test_what_does_not_vary_tells_nothing(verdicts):
    found = verdicts.mostly("", [_case(verdicts, 0.0, 0.0, 0.0)], MARGIN)
    assert (found.verdict, found.needed) == (verdicts.UNTOLD, "runs in which more varies")
    assert verdicts.mostly("", [_case(verdicts, 0.5, 0.0, 0.0)], MARGIN).verdict == verdicts.UNTOLD
    assert verdicts.equal("", [_case(verdicts, 0.0, 0.0, 0.0)], MARGIN).verdict == verdicts.UNTOLD
    assert verdicts.some_below("", [_case(verdicts, -1.0, 0.0, 0.0)], MARGIN).verdict == verdicts.UNTOLD


def _changes(verdicts, values, error, dialogues=100):
    return [verdicts.Case("", (verdicts.Above(one),)) for one in numbers(verdicts, values, error, dialogues)]


def test_equality_is_claimed_within_the_margin_alone(verdicts):
    rng = np.random.default_rng(0)

    def share(verdict, truth, error, dialogues=100):
        seen = rng.normal(truth, error, size=(WORLDS, len(truth)))
        found = [verdicts.equal("", _changes(verdicts, one, error, dialogues), MARGIN).verdict for one in seen]
        return found.count(verdict) / WORLDS

    assert share(verdicts.HOLDS, (0.0, 0.021), 0.003) <= AT_MOST
    assert share(verdicts.DOES_NOT, (0.0, 0.0, 0.0), 0.01) <= AT_MOST
    assert share(verdicts.HOLDS, (0.0, 0.0, 0.0), 0.003) >= 0.95
    found = verdicts.equal("", _changes(verdicts, [0.0] * 12, 0.02), MARGIN)
    needed = int(re.search(r"([\d,]+) dialogues", found.needed).group(1).replace(",", ""))
    assert 0.74 <= share(verdicts.HOLDS, [0.0] * 12, 0.02 * math.sqrt(100 / needed), needed) <= 0.87


def test_parts_below_0_are_adjusted_for_how_many_are_looked_at(verdicts):
    rng = np.random.default_rng(0)

    def share(truth, error, dialogues=100):
        seen = rng.normal(truth, error, size=(WORLDS, len(truth)))
        found = [verdicts.some_below("", _changes(verdicts, one, error, dialogues), MARGIN).verdict for one in seen]
        return found.count(verdicts.HOLDS) / WORLDS

    assert share([0.0] * 20, 0.01) <= AT_MOST
    found = verdicts.some_below("", _changes(verdicts, [0.0] * 20, 0.02), MARGIN)
    needed = int(re.search(r"([\d,]+) dialogues", found.needed).group(1).replace(",", ""))
    assert 0.74 <= share([-MARGIN] + [0.1] * 19, 0.02 * math.sqrt(100 / needed), needed) <= 0.87


def test_every_finding_is_answered_also_without_runs(su, verdicts):
    for found in su.findings([], {}, 0.02):
        assert found.verdict == "cannot be told here"
        assert found.seen
        assert found.needed
    known = verdicts.Number(0.1, 0.02, 100, True)
    unasked = verdicts.mostly("", [], 0.02, usual=known)
    assert unasked.needed == "runs of these models, with 1,100 dialogues per axis if they vary as those here do"


def test_the_errors_of_two_parts_are_those_of_their_joint_distribution(su):
    rng = np.random.default_rng(1)
    parts = rng.multivariate_normal([0, 0], [[1.0, -0.5], [-0.5, 2.0]], size=200_000)
    errors = dict(zip("ab", (su.Number(0, parts[:, place].std(), 9, False) for place in (0, 1)), strict=True))
    whole = su.Number(0, parts.sum(axis=1).std(), 9, False)
    found = su.two_parts(whole, errors, "a", "b")
    assert found.difference.error == pytest.approx((parts[:, 0] - parts[:, 1]).std(), rel=0.01)
    assert found.total.error == pytest.approx(parts.sum(axis=1).std())


def test_fairscores_by_source_and_target_are_compared_between_sources(su):
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
    (contrast,) = sources.contrasts
    assert contrast.number.value == pytest.approx(0.35)
    (either_way,) = su._pairs([run], "woman", "non-binary")
    assert [one.number.value for one in either_way.contrasts] == pytest.approx([-0.4, -0.3])  # both of man
    found = {one.claim: one.verdict for one in su.findings([run] * 5, {}, 0.02)}
    assert found["fairscores are larger where the source is man (Fig. 5)"] == "holds"
    assert found["woman > non-binary and back have the largest fairscores (Fig. 5)"] != "holds"


def counted(men, others, dialogues):
    """So many mentions of men and of women, each in a dialogue with one more like it."""

    def both(mentions):
        share = mentions / (men + others)
        spread = 2 * math.sqrt(share * (1 - share) / dialogues)
        bounds = [share - spread, share + spread] if 0 < share < 1 else None
        found = {"mentions": mentions, "dialogues": min(mentions, dialogues)}
        return {"both": found | {"share_of_mentions": share, "share_of_mentions_ci": bounds}}

    return {"corpus": {"dialogues": 2000}, "axes": {"gender": {"man": both(men), "woman": both(others)}}}


def test_most_corpora_are_most_of_those_of_the_paper(su):
    here = {name: counted(500, 100, 300) for name in su.CORPORA[:4]}
    found = su._counts({**here, "star": counted(100, 110, 100)})
    assert (found.verdict, found.seen, found.needed) == (
        "cannot be told here",
        "true of 4 of the 4 of Su's 8 corpora that are here; men's share elsewhere: star 48%",
        "1 more of them",
    )
    assert su._counts(here | {su.CORPORA[4]: counted(500, 100, 300)}).verdict == "holds"
    assert su._counts({name: counted(100, 500, 300) for name in su.CORPORA[:4]}).verdict == "does not"
    assert su._counts({name: counted(100, 500, 300) for name in su.CORPORA[:4]} | {"metalwoz": counted(1, 1, 1)}).cases
    few = su._counts({name: counted(20, 0, 5) for name in su.CORPORA})  # a dialogue may say it twenty times
    assert (few.verdict, few.cases) == ("cannot be told here", ())
    one_sided = su._counts({name: counted(20, 0, 20) for name in su.CORPORA})
    assert one_sided.verdict == "holds"
    lost = su._counts(
        {name: counted(*((500, 100) if number < 2 else (300, 310)), 300) for number, name in enumerate(su.CORPORA[:7])}
    )
    assert lost.seen == "true of 2 of the 7 of Su's 8 corpora that are here"
    assert lost.needed == "more dialogues of them"


def test_numbers_of_few_dialogues_are_judged_by_their_t(verdicts):
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(WORLDS):
        cases = []
        for _ in range(26):
            drawn = rng.normal(0, 1, size=15)
            one = verdicts.Number(drawn.mean(), drawn.std(ddof=1) / math.sqrt(15), 15, False, 14)
            cases.append(verdicts.Case("", (verdicts.Above(one),)))
        held += verdicts.some_below("", cases, MARGIN).verdict == verdicts.HOLDS
    assert held / WORLDS <= AT_MOST


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_so_many_dialogues_are_enough_however_many_there_were_of_each_and_alike_the_cases(verdicts, alike):
    rng = np.random.default_rng(0)
    spreads, dialogues, cases = (0.0155, 0.013), (135, 54), 8

    def case(values, errors, counts):
        one, other = (verdicts.Number(*rest, False) for rest in zip(values, errors, counts, strict=True))
        return verdicts.Case("", (verdicts.apart(one, other),))

    found = verdicts.mostly("", [case((0, 0), spreads, dialogues)] * cases, MARGIN)
    needed = int(re.search(r"([\d,]+) dialogues", found.needed).group(1).replace(",", ""))
    errors = [spread * math.sqrt(count / needed) for spread, count in zip(spreads, dialogues, strict=True)]
    held = 0
    for _ in range(WORLDS):
        common, own = rng.normal(size=(1, 2)), rng.normal(size=(cases, 2))
        noise = np.where(alike, common, own) * errors
        told = [case((MARGIN + one, other), errors, (needed, needed)) for one, other in noise]
        held += verdicts.mostly("", told, MARGIN).verdict == verdicts.HOLDS
    assert held / WORLDS >= 0.74


def test_further_parts_leave_both_errors_at_their_largest(su):
    rng = np.random.default_rng(1)
    parts = rng.multivariate_normal([0, 0], np.eye(2), size=100_000)
    for go in (-0.4, 0.4):
        further = go * parts.sum(axis=1)
        errors = {name: su.Number(0, one.std(), 9, False) for name, one in zip("abd", (*parts.T, further), strict=True)}
        found = su.two_parts(su.Number(0, (parts.sum(axis=1) + further).std(), 9, False), errors, "a", "b")
        assert found.total.error >= parts.sum(axis=1).std() - 0.01
        assert found.difference.error >= (parts[:, 0] - parts[:, 1]).std() - 0.01


def test_axes_of_a_few_dialogues_are_in_no_test(su):
    def axis(dialogues, bounds):
        disparity = {"value": 0.1, "ci": bounds}
        return AxisResult(disparity=disparity, dialogues=dialogues, verdict="inconclusive")

    axes = {"gender": axis(40, [0.05, 0.15]), "age": axis(4, None), "race": axis(90, [0.09, 0.11])}
    run = su.StudyRun("GPT-2", "plain", "star", axes)
    least = next(found for found in su.findings([run], {}, 0.02) if found.claim == "gender is least biased")
    (case,) = least.cases
    (contrast,) = case.contrasts
    assert (case.name, contrast.difference.value) == ("GPT-2, plain, star", 0.0)
    assert su.too_few(run) == {"age": 4}


def run_of(su, beginning, value, *, training=600):
    estimate = {"value": value, "ci": [value - 0.098, value + 0.098]}
    axes = {"gender": AxisResult(verdict="inconclusive", disparity=estimate, dialogues=20)}
    return su.StudyRun("GPT-2", beginning, "google_sgd", axes, training, beginning)


def test_beginnings_are_compared_after_equal_trainings_and_paired_where_that_is_known(su):
    runs = [run_of(su, "plain", 0.03), run_of(su, "crossed", 0.05), run_of(su, "longer", 0.9, training=3000)]
    (alone,) = su._beginnings(runs, {})
    assert alone.name == "GPT-2, crossed, google_sgd (600) − plain, gender"
    assert alone.contrasts[0].number.value == pytest.approx(0.02)
    assert alone.contrasts[0].number.error == pytest.approx(math.hypot(0.0468, 0.0468), rel=1e-3)  # t with 19
    known = su.Number(0.021, 0.003, 20, False)
    (paired,) = su._beginnings(runs, {("plain", "crossed"): {"gender": known}})
    assert paired.contrasts[0].number == known


def test_turns_whose_score_changes_most_are_shown(tmp_path, unpainted, capsys):
    corpus = load_corpus("demo", max_dialogues=12)
    attribute(load_pipeline("demo"), corpus, axes=["gender"], metrics=("corpus_bleu",), bootstrap=5).save(tmp_path)
    _module("study").examples(tmp_path)
    shown = capsys.readouterr().out
    assert re.search(r"^gender: (man|woman|non-binary) > (man|woman|non-binary); dialogue \S+, turn \d+$", shown, re.M)
    assert re.search(r"^  user before: .*\*\*.*\n  user after:  .*\*\*", shown, re.M)
