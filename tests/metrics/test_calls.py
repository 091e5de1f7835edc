import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tod_bias import Step, Turn
from tod_bias.metrics.calls import CALL_COLUMNS, JointGoalAccuracy, SlotF1, call_statistics
from tod_bias.metrics.metric import ScoredTurn

CALL = {"api_name": "Find", "city": "Davis"}
BOOK = {"api_name": "Book", "id": 7}


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        (CALL, CALL, {"correct": 1, "correct_parlai": 1, "call_correct": 1, "slots_gold_right": 2}),
        ({}, {}, {"correct": 1, "correct_parlai": 1, "call_turns": 0, "call_correct": 0}),
        ({**CALL, "city": "Oakland"}, CALL, {"correct": 0, "slots_predicted": 2, "slots_predicted_right": 1}),
        ("find it", {}, {"correct": 0, "correct_parlai": 1, "malformed": 1}),
        ("api_name = Find ; city", CALL, {"correct": 0, "correct_parlai": 0, "malformed": 1}),
        ({"a": "x, y"}, {"a": "x, y"}, {"correct": 1, "correct_parlai": 0}),  # ParlAI reads a set there
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
def test_call_statistics(predicted, gold, expected):
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


def scored(calls, gold=(), **more):
    return ScoredTurn("", calls, (), "", Turn("", steps=[Step(call) for call in gold]), **more)


OTHER = {**CALL, "city": "Oakland"}


@pytest.mark.parametrize(
    ("turns", "jga", "f1"),
    [
        ([scored((CALL,), [CALL]), scored(())], 1, 1),
        ([scored((CALL,), [CALL]), scored((OTHER,), [CALL])], 1 / 2, 3 / 4),
        ([scored((CALL, BOOK), [CALL]), scored((), [BOOK]), scored(None, [CALL]), scored(())], 1 / 4, 2 * 2 / (4 + 6)),
        ([scored((BOOK, CALL), [CALL, BOOK])], 0, 0),
        ([scored(None)], 0, np.nan),
        ([scored(())], 1, np.nan),
        ([scored((), [CALL], has_calls=False)], np.nan, np.nan),
        ([], np.nan, np.nan),
    ],
)
def test_joint_goal_accuracy_and_slot_f1_by_hand(turns, jga, f1):
    for metric, expected in ((JointGoalAccuracy(), jga), (SlotF1(), f1)):
        rows = metric.statistics(turns)
        assert rows.shape == (len(turns), len(metric.columns))
        assert float(metric.score(rows.sum(axis=0))) == pytest.approx(expected, nan_ok=True)


SLOTS = st.dictionaries(st.sampled_from(["api_name", "b"]), st.sampled_from(["x", "y", 1]), min_size=1, max_size=2)
CALLS = st.lists(SLOTS, max_size=2)


@given(st.lists(st.tuples(st.none() | CALLS, CALLS), min_size=1, max_size=5))
def test_they_are_what_call_statistics_counts(pairs):
    predicted, gold = zip(*(("?" if made is None else made, gold) for made, gold in pairs), strict=True)
    sums = dict(zip(CALL_COLUMNS, call_statistics(predicted, gold).sum(axis=0), strict=True))
    turns = [scored(None if made is None else tuple(made), gold) for made, gold in pairs]
    jga, slots = JointGoalAccuracy().statistics(turns).sum(axis=0), SlotF1().statistics(turns).sum(axis=0)
    assert jga.tolist() == [sums["correct"], sums["turns"]]
    assert slots.tolist() == [sums["slots_gold_right"], sums["slots_predicted"], sums["slots_gold"]]
