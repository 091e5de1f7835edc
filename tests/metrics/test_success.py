import pytest

from tod_bias import Step, Turn
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.metrics.success import Success, offered

NANDO = {"restaurant_name": "Nando's", "city": "Napa", "rating": 4.5, "price": "12", "open": "True"}
PIER = {"restaurant_name": "Pier 39", "city": "Napa"}
WEATHER = {"city": "Napa", "humidity": "31", "sky": "clear", "day": "Mo"}


def turn(response, *results):
    return Turn("Where?", steps=[Step({"api_name": "Find"}, results)], response=response)


@pytest.mark.parametrize(
    ("gold", "offer"),
    [
        (turn("Nando's in Napa is rated 4.5.", NANDO, PIER), ["nando s"]),
        (turn("NANDO’S or Pier 39, both in Napa?", NANDO, PIER), ["nando s", "pier 39"]),
        (turn("There is one in Napa for 12, true.", NANDO), []),  # it has a name, which is not said
        (turn("It is clear in Napa on Mo, 31 percent.", WEATHER), ["napa", "clear"]),
        (turn("It is unclear in Napoli.", WEATHER), []),
        (turn("Paid to Nando's.", {"recipient_account_name": "Nando's"}), ["nando s"]),
        (turn("Dune, by Villeneuve.", {"found": [{"title": "Dune", "by": "Villeneuve"}]}), ["dune"]),
        (turn("Yes, none.", {"open": "yes", "left": "none"}), []),
        (Turn("Where?", response="Nando's."), []),
    ],
)
def test_what_gold_offers(gold, offer):
    assert [words.strip() for words in offered(gold)] == offer


ONE = turn("Nando's is good.", NANDO)
TWO = turn("Nando's or Pier 39?", NANDO, PIER)
NONE = turn("Anything else?", NANDO)


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ([(ONE, "How about nando's?")], 1),
        ([(ONE, "How about Nandos?"), (ONE, "Pier 39, Nando's!"), (NONE, "")], 1 / 2),
        ([(TWO, "Nando's?"), (TWO, "Pier 39, or Nando's?")], 1 / 2),
        ([(ONE, "Nando, so?")], 0),
        ([(NONE, "Nando's")], None),
        ([], None),
    ],
)
def test_success_by_hand(responses, expected):
    metric = Success()
    rows = metric.statistics([ScoredTurn("", (), (), response, gold) for gold, response in responses])
    score = metric.score(rows.sum(axis=0))
    assert rows.shape == (len(responses), 2)
    assert score == expected if expected is not None else score != score
