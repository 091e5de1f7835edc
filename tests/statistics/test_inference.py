import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import estimate_ci

from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import interval, interval_of_absolute
from tod_bias.statistics.resampling import resample, resample_counts


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
