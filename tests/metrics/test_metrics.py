import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias.metrics.calls import CALL_COLUMNS, call_statistics
from tod_bias.metrics.fairscore import fairscore
from tod_bias.metrics.text import CorpusBleu, SentenceBleu, text_metric

words = st.sampled_from(["the", "cat", "sat", "on", "a", "mat", ".", ",", "dog"])
sentences = st.lists(words, max_size=8).map(" ".join)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6))
@settings(max_examples=200)
def test_corpus_bleu_is_sacrebleus(pairs):
    hypotheses, references = zip(*pairs, strict=True)
    metric = CorpusBleu()
    ours = metric.score(metric.statistics(hypotheses, references).sum(axis=0))
    theirs = sacrebleu.corpus_bleu(list(hypotheses), [list(references)]).score / 100
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_bleu_scores_many_sums_at_once_and_nothing_as_zero():
    metric = CorpusBleu()
    statistics = metric.statistics(["a b c d e", "", "x"], ["a b c d e", "a", "y z"])
    assert metric.score(statistics).tolist() == [1.0, 0.0, 0.0]
    assert metric.score(np.zeros((2, 3, 10))).tolist() == [[0.0] * 3] * 2
    assert metric.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


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
    assert metric.score(metric.statistics([hypothesis], [reference]).sum(axis=0)) == pytest.approx(expected, abs=1e-9)


def test_sentence_bleu_of_nothing_is_zero():
    assert SentenceBleu().score(np.zeros(2)) == 0.0


def test_unknown_metric_names_the_known_ones():
    with pytest.raises(ValueError, match="unknown metric 'x'; expected one of corpus_bleu, sentence_bleu"):
        text_metric("x")


@pytest.mark.parametrize(
    ("original", "rewritten", "expected"), [(0.2, 0.2, 0.0), (0.2, 0.1, 0.5), (0.2, 0.3, -0.5), (0.2, 0.0, 1.0)]
)
def test_signed_fairscore(original, rewritten, expected):
    assert fairscore(original, rewritten) == pytest.approx(expected)


def test_fairscore_without_original_bleu_is_undefined():
    assert np.isnan(fairscore(0.0, 0.3))


CALL = {"api_name": "Find", "city": "Davis"}


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        (CALL, CALL, {"correct": 1, "correct_parlai": 1, "call_correct": 1, "slots_gold_right": 2}),
        ({}, {}, {"correct": 1, "correct_parlai": 1, "call_turns": 0, "call_correct": 0}),
        ({**CALL, "city": "Oakland"}, CALL, {"correct": 0, "slots_predicted": 2, "slots_predicted_right": 1}),
        ("find it", {}, {"correct": 0, "correct_parlai": 1, "malformed": 1}),
        ("api_name = Find ; city", CALL, {"correct": 0, "correct_parlai": 0, "malformed": 1}),
        ({"a": "x, y"}, {"a": "x, y"}, {"correct": 1, "correct_parlai": 0}),  # ParlAI reads a set there
    ],
)
def test_call_statistics(predicted, gold, expected):
    row = dict(zip(CALL_COLUMNS, call_statistics([predicted], [gold])[0], strict=True))
    assert {name: row[name] for name in expected} == expected


BOOK = {"api_name": "Book", "id": 7}


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([CALL, BOOK], (CALL, BOOK), {"correct": 1, "correct_parlai": 0, "slots_predicted": 4, "slots_gold_right": 4}),
        ([BOOK, CALL], (CALL, BOOK), {"correct": 0, "slots_predicted": 4, "slots_gold": 4, "slots_gold_right": 0}),
        (CALL, [CALL, BOOK], {"correct": 0, "slots_predicted": 2, "slots_gold": 4, "slots_predicted_right": 2}),
        ([CALL, BOOK], CALL, {"correct": 0, "slots_predicted": 4, "slots_gold": 2, "slots_predicted_right": 2}),
        ([{"name": "Book", "arguments": '{"id": 7}'}], BOOK, {"correct": 1, "slots_gold_right": 2}),
        ([CALL, "book it"], [CALL, BOOK], {"correct": 0, "malformed": 1, "slots_predicted": 0, "slots_gold": 4}),
        (None, (), {"correct": 1, "correct_parlai": 1, "malformed": 0, "call_turns": 0}),
        ([], {}, {"correct": 1, "call_turns": 0}),
        ({"a": None}, {"b": "x"}, {"slots_predicted_right": 0}),
        ([CALL], CALL, {"correct": 1, "correct_parlai": 1, "call_correct_parlai": 1}),
    ],
)
def test_several_calls_are_compared_in_order(predicted, gold, expected):
    row = dict(zip(CALL_COLUMNS, call_statistics([predicted], [gold])[0], strict=True))
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parlai
@pytest.mark.filterwarnings("ignore")
@given(
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "x, y", "{x, y"]), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "x, y"]), max_size=2),
)
def test_parlai_counts_as_its_slot_metrics_do(predicted, gold):
    pytest.importorskip("parlai")
    from parlai.core.tod.teacher_metrics import SlotMetrics
    from parlai.core.tod.tod_core import SerializationHelpers as Text

    theirs = SlotMetrics(gold, Text.str_to_api_dict(Text.api_dict_to_str(predicted))).report()["jga"]
    row = dict(zip(CALL_COLUMNS, call_statistics([predicted], [gold])[0], strict=True))
    assert row["correct_parlai"] == float(theirs)
