import numpy as np
import pytest

from tod_bias import Turn
from tod_bias.errors import TodBiasError
from tod_bias.metrics.choice import METRICS, checked, metric
from tod_bias.metrics.metric import ScoredTurn

CODE = """
class Polite:
    name, label, better, scale = "polite", "polite responses", "higher", "difference"
    columns = ("polite_turns", "turns")
    signature = "please"

    def statistics(self, turns):
        return [["please" in turn.response, 1] for turn in turns]

    def score(self, sums):
        return sums[..., 0] / sums[..., 1]


class Bare:
    name, label = "bare", "bare"

    def statistics(self, turns): ...
    def score(self, sums): ...


class Own(Polite):
    def turn_scores(self, rows):
        return 0 * rows[..., 0] + 7


class Better(Polite):
    better = "up"


class Reads(Polite):
    reads = "response"
"""


@pytest.fixture(autouse=True)
def user_metrics(tmp_path, monkeypatch):
    (tmp_path / "user_metrics.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [*METRICS, "amount_limit", "calls_made_find_*"])
def test_shipped_metrics_keep_the_protocol(name):
    if name == "sentiment":
        pytest.importorskip("vaderSentiment")
    found = checked(metric(name))
    assert found.name == name
    assert found.label
    assert found.signature
    gold = Turn.with_call("hi", {"api_name": "Find"}, {"name": "Nando's"}, "Nando's")
    twin = ScoredTurn("hi", None, (), "no", gold)
    turns = [
        ScoredTurn("hi", ({"api_name": "Find"},), (), "Nando's is it", gold, twin),
        twin,
        ScoredTurn("", (), (), "", Turn("")),
    ]
    rows = found.statistics(turns)
    assert rows.dtype == np.float64
    assert rows.shape == (3, len(found.columns))
    assert np.isfinite(rows).all()
    for turn, row in zip(turns, rows, strict=True):  # a turn's statistics depend on that turn alone
        assert found.statistics([turn]).tolist() == [row.tolist()]
    many = found.score(np.stack([rows, 2 * rows]))
    assert many.shape == (2, 3)
    assert found.score(rows.sum(axis=0)).shape == ()
    assert found.statistics([]).shape == (0, len(found.columns))
    nothing = found.score(np.zeros(len(found.columns)))
    assert np.isnan(nothing) or nothing == 0


def test_no_two_metrics_share_a_column():
    pytest.importorskip("vaderSentiment")
    columns = [column for name in METRICS for column in metric(name).columns]
    assert len(columns) == len(set(columns))


def test_a_metric_of_the_user_has_defaults_and_may_score_single_turns_in_its_own_way():
    rows = np.array([[1.0, 4.0], [0.0, 2.0]])
    polite, own = metric("user_metrics:Polite"), metric("user_metrics:Own")
    assert polite.score(rows[0]) == 0.25
    assert polite.turn_scores(rows).tolist() == [0.25, 0]
    assert own.turn_scores(rows).tolist() == [7, 7]
    assert (own.reads, own.needs, own.unit, own.counterfactual) == ("", "", "", False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x", "unknown metric 'x'; expected one of corpus_bleu, .* or module:Class$"),
        ("user_metrics:Bare", "Bare lacks better, scale, columns, signature"),
        ("user_metrics:Better", "better of Better: expected one of .*, got 'up'"),
        ("user_metrics:Reads", "reads of Reads: expected one of .*, got 'response'"),
        ("user_metrics:Nobody", "has no 'Nobody'"),
    ],
)
def test_what_is_no_metric_is_one_line(name, message):
    with pytest.raises(TodBiasError, match=message) as caught:
        metric(name)
    assert "\n" not in str(caught.value)
