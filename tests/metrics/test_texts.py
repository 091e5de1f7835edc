import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias import Turn
from tod_bias.audit.estimates import fairscore
from tod_bias.metrics.bleu import CorpusBleu, SentenceBleu
from tod_bias.metrics.chrf import ChrF
from tod_bias.metrics.metric import ScoredTurn

words = st.sampled_from(["the", "cat", "sat", "on", "a", "mat", ".", ",", "dog", "ß", "\u2003", "  "])
sentences = st.lists(words, max_size=8).map(" ".join)
PAIRS = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


@pytest.mark.parametrize(("metric", "theirs"), [(CorpusBleu(), sacrebleu.corpus_bleu), (ChrF(), sacrebleu.corpus_chrf)])
@given(pairs=PAIRS)
@settings(max_examples=200)
def test_corpus_bleu_and_chrf_are_sacrebleus(metric, theirs, pairs):
    hypotheses, references = zip(*pairs, strict=True)
    ours = metric.score(metric.of_texts(hypotheses, references).sum(axis=0))
    assert ours == pytest.approx(theirs(list(hypotheses), [list(references)]).score / 100, abs=1e-10)


@given(sentences, sentences)
@settings(max_examples=200)
def test_bleu_of_single_turns_is_sacrebleus_with_one_added(hypothesis, reference):
    metric = CorpusBleu()
    (ours,) = metric.turn_scores(metric.of_texts([hypothesis], [reference]))
    theirs = sacrebleu.BLEU(smooth_method="add-k", smooth_value=1).sentence_score(hypothesis, [reference])
    assert ours == pytest.approx(theirs.score / 100, abs=1e-9)


def test_chrf_by_hand():
    """ "abc" for "abd": 2 of 3 letters, 1 of 2 pairs, no triple; mean 7/18 on both sides."""
    metric = ChrF()
    statistics = metric.of_texts(["a bc", "", "x"], ["abd", "a", "x"])
    assert metric.score(statistics) == pytest.approx([7 / 18, 0, 1], abs=1e-12)
    assert metric.score(np.zeros((2, 3, 18))).tolist() == [[0.0] * 3] * 2
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2")


def test_responses_of_turns_are_compared_with_the_gold_ones():
    turns = [
        ScoredTurn("hi", (), (), said, Turn("hi", response=gold))
        for said, gold in [("a b", "a b"), ("a", "c"), ("a", "c")]
    ]
    for metric in (CorpusBleu(), SentenceBleu(), ChrF()):
        rows = metric.statistics(turns)
        assert rows.shape == (3, len(metric.columns))
        assert rows.tolist() == metric.of_texts(["a b", "a", "a"], ["a b", "c", "c"]).tolist()
        assert metric.statistics([]).shape == (0, len(metric.columns))


def test_bleu_scores_many_sums_at_once_and_nothing_as_zero():
    metric = CorpusBleu()
    statistics = metric.of_texts(["a b c d e", "", "x"], ["a b c d e", "a", "y z"])
    assert metric.score(statistics).tolist() == [1.0, 0.0, 0.0]
    assert metric.score(np.zeros((2, 3, 10))).tolist() == [[0.0] * 3] * 2
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


@pytest.mark.parametrize(
    ("original", "rewritten", "expected"),
    [(0.2, 0.2, 0.0), (0.2, 0.1, 0.5), (0.2, 0.3, -0.5), (0.2, 0.0, 1.0), (0.0, 0.3, np.nan)],
)
def test_signed_fairscore(original, rewritten, expected):
    assert fairscore(original, rewritten) == pytest.approx(expected, nan_ok=True)


# By hand: the geometric mean of the n-gram precisions, where no match counts 1e-12 matches (NLTK's method1).
@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("The cat sat on the mat.", "cat sat on mat", 1.0),
        ("a dog", "cat sat on mat", 0.0),
        ("cat sat on rug today", "cat sat on mat today", (4 / 5 * 2 / 4 * 1 / 3 * 1e-12 / 2) ** 0.25),
    ],
)
def test_sentence_bleu_is_nltks_on_normalised_text(hypothesis, reference, expected):
    metric = SentenceBleu()
    assert metric.score(metric.of_texts([hypothesis], [reference]).sum(axis=0)) == pytest.approx(expected, abs=1e-9)
    assert metric.score(np.zeros(2)) == 0
