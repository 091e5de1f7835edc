import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import estimate_ci

from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import interval, interval_of_absolute
from tod_bias.statistics.permutation import swap_test
from tod_bias.statistics.resampling import resample, resample_counts
from tod_bias.statistics.settings import Inference
from tod_bias.studies.estimates import AxisEstimate, AxisStatistics


class Share:
    """Hits over trials: a metric whose true value a simulation knows."""

    name = "share"
    columns = ("hits", "trials")
    signature = "share"

    def statistics(self, hypotheses, references):
        raise NotImplementedError

    def score(self, sums):
        return sums[..., 0] / sums[..., 1]


def simulated(rng, dialogues, theta, draws):
    """Two stages, 70% of the true fairscore theta in the first; the twin of both is exact."""
    trials = rng.integers(5, 12, dialogues).astype(float)
    rate = np.clip(rng.normal(0.5, 0.15, dialogues), 0.05, 0.95)
    noise = rng.normal(0, 0.15, dialogues)
    left = (1.0, 0.3, 0.7, 0.0)  # of theta, in the arms "", a, b, ab
    arms = [
        [np.stack([trials * (rate * (1 - theta * part) + noise * (part > 0)), trials], -1)] * draws for part in left
    ]
    return AxisStatistics(("a", "b"), np.stack([trials * rate, trials], -1), np.array(arms), {})


@pytest.mark.parametrize("theta", [0.0, 0.05, 0.3])
def test_intervals_cover_the_truth_at_their_nominal_rate(theta):
    rng = np.random.default_rng(7)
    repeats = 300
    covered = np.zeros(3)
    for number in range(repeats):
        statistics = simulated(rng, 60, theta, 3)
        report = AxisEstimate(
            statistics, Share(), ("a", "b"), [("a", "b")], Inference(resamples=400, permutations=0, seed=number)
        ).report()
        for place, (low, high), truth in (
            (0, report["signed_ci"], theta),
            (1, report["fairscore"]["ci"], theta),
            (2, report["attribution"]["a"]["ci"], 0.7 * theta),
        ):
            covered[place] += low - 1e-12 <= truth <= high + 1e-12
    # 0.95 less three standard errors of 300 repeats; near 0 the folded interval covers more than it promises.
    assert (covered / repeats > 0.91).all(), covered / repeats
    if theta == 0.3:
        assert (covered[:2] / repeats < 0.985).all(), covered / repeats


def noisy_draws(rng, dialogues, effect, draws):
    """Stage a breaks a share of the answers; stage b adds noise of its own to every draw, and no bias."""
    right = 5.0 * (rng.random(dialogues) < 0.6)
    broken = np.where(rng.random((draws, dialogues)) < effect, 0.0, right)
    clean = np.broadcast_to(right, broken.shape)
    noise = rng.normal(0, 0.6, broken.shape)
    trials = np.full_like(noise, 5.0)
    arms = [np.stack([hits, trials], -1) for hits in (broken + noise, clean + noise, broken, clean)]  # "", a, b, ab
    return AxisStatistics(("a", "b"), np.stack([right, trials[0]], -1), np.array(arms), {})


@pytest.mark.parametrize("draws", [1, 3, 10])
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_noise_of_draws_gives_no_stage_a_share(draws, effect):
    rng = np.random.default_rng(1)
    repeats = 150
    covered = {"fairscore": 0, "a": 0, "b": 0, "shapley b": 0}
    for number in range(repeats):
        statistics = noisy_draws(rng, 100, effect, draws)
        orders = [("a", "b"), ("b", "a")]
        report = AxisEstimate(
            statistics, Share(), ("a", "b"), orders, Inference(resamples=300, permutations=0, seed=number)
        ).report()
        truth = {"fairscore": effect, "a": effect, "b": 0.0, "shapley b": 0.0}
        shown = {"fairscore": report["fairscore"], "shapley b": report["shapley"]["b"]}
        shown |= {name: report["attribution"][name] for name in ("a", "b")}
        for name, share in shown.items():
            low, high = share["ci"]
            covered[name] += low - 1e-12 <= truth[name] <= high + 1e-12
    # 0.95 less about three standard errors of 150 repeats
    assert min(covered.values()) / repeats > 0.9, covered


def test_p_values_are_uniform_where_nothing_differs():
    rng = np.random.default_rng(3)
    p_values = []
    for number in range(300):
        statistics = simulated(rng, 40, 0.0, 1)
        estimate = AxisEstimate(
            statistics, Share(), ("a", "b"), [("a", "b")], Inference(resamples=0, permutations=199, seed=number)
        )
        p_values.append(estimate.report()["fairscore"]["p_value"])
    rates = [np.mean(np.array(p_values) <= level) for level in (0.05, 0.2, 0.5)]
    assert rates == pytest.approx([0.05, 0.2, 0.5], abs=0.08)
    assert rates[0] < 0.1


def test_resampling_is_scoring_resampled_texts():
    hypotheses = ["the cat sat on the mat", "a dog barks loudly at night", "hello there my friend", "no"] * 3
    references = ["the cat lay on the mat", "a dog barked loudly at night", "hello there dear friend", "yes no"] * 3
    metric = CorpusBleu()
    statistics = metric.of_texts(hypotheses, references)
    scores = resample(statistics, metric.score, 20, seed=5)
    counts = resample_counts(np.random.default_rng(5), 20, 12)
    assert (counts.sum(axis=1) == 12).all()
    for row, score in zip(counts, scores, strict=True):
        drawn = np.repeat(np.arange(12), row)
        texts = [[side[i] for i in drawn] for side in (hypotheses, references)]
        assert score == pytest.approx(sacrebleu.corpus_bleu(texts[0], [texts[1]]).score / 100, abs=1e-12)


def test_bootstrap_agrees_with_sacrebleus():
    rng = np.random.default_rng(0)
    words = ["the", "a", "cat", "dog", "sat", "ran", "on", "in", "mat", "hat", "red", "big"]
    references = [" ".join(rng.choice(words, 8)) for _ in range(150)]
    hypotheses = [" ".join(w if rng.random() < 0.7 else rng.choice(words) for w in r.split()) for r in references]
    metric = CorpusBleu()
    low, high = interval(resample(metric.of_texts(hypotheses, references), metric.score, 4000, 1), 150)
    scores = sacrebleu.BLEU().corpus_score(hypotheses, [references], n_bootstrap=4000)
    mean, half = estimate_ci(np.array([scores._mean - scores._ci, scores._mean + scores._ci]))
    assert mean == pytest.approx(scores._mean)
    assert half > 0
    assert ((high - low) / 2) == pytest.approx(scores._ci / 100, rel=0.1)
    assert (low + high) / 2 == pytest.approx(scores._mean / 100, abs=0.01)


def test_interval_needs_two_dialogues_and_skips_undefined_resamples():
    samples = np.array([[1.0], [np.nan], [2.0], [3.0]])
    assert np.isnan(interval(samples, 1)).all()
    low, high = interval(samples, 10)[:, 0]
    assert 1.0 <= low < high <= 3.0
    assert np.isnan(interval(np.full((4, 1), np.nan), 10)).all()


def test_interval_of_an_absolute_value_is_folded():
    rng = np.random.default_rng(0)
    around = rng.normal(0, 1, (4000, 1))
    low, high = interval_of_absolute(around, 1000)
    assert low == 0
    assert high == pytest.approx(1.96, abs=0.15)
    assert interval_of_absolute(around - 5, 1000) == pytest.approx([3.04, 6.96], abs=0.2)
    together = interval_of_absolute(np.repeat(around - 5, 3, axis=1), 1000)
    assert together == pytest.approx(interval_of_absolute(around - 5, 1000), abs=0.1)


def test_swap_test_enumerates_where_it_can():
    original = np.array([[[4.0]], [[3.0]], [[5.0]], [[6.0]]])  # (dialogues, values, statistics)
    difference = lambda first, second: np.abs(first - second)[..., 0, 0]  # noqa: E731
    # All four differences point one way: only the two extremes of 16 sign patterns are as far.
    assert swap_test(original, original - 1, difference, 1000, 0) == 2 / 16
    assert swap_test(original, original, difference, 1000, 0) == 1.0
    many = np.repeat(original, 10, axis=0)
    assert swap_test(many, many - 1, difference, 999, 0) == 1 / 1000


@pytest.mark.parametrize(
    ("p_values", "expected"),
    # As R's p.adjust(p, "holm") gives them.
    [
        ({"a": 0.01, "b": 0.04, "c": 0.03}, {"a": 0.03, "b": 0.06, "c": 0.06}),
        ({"a": 0.5, "b": 0.9}, {"a": 1.0, "b": 1.0}),
        ({"a": 0.02}, {"a": 0.02}),
    ],
)
def test_holm(p_values, expected):
    assert holm(p_values) == pytest.approx(expected)
