import numpy as np
import pytest
import sacrebleu
from scipy import stats

from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.statistics.intervals import interval, interval_of_absolute
from tod_bias.statistics.jackknife import jackknife
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


def test_a_jackknife_of_means_is_the_usual_t_interval():
    values = np.array([[0.2], [0.5], [0.1], [0.9]])
    found = jackknife(np.stack([values, np.ones((4, 1))], axis=-1), lambda sums: sums[..., 0] / sums[..., 1], 0.9)
    expected = stats.t.interval(0.9, 3, loc=values.mean(), scale=stats.sem(values[:, 0]))
    assert [found.low[0], found.high[0]] == pytest.approx(expected)
    assert found.p_value[0] == pytest.approx(stats.ttest_1samp(values[:, 0], 0).pvalue)
