import pytest

from tod_bias import Turn
from tod_bias.stages import Lookup, Outcome
from tod_bias.systems.stage import StageCall
from tod_bias.systems.turns import scored_turn

FIND = {"api_name": "Find", "seats": 2}
BOOK = {"api_name": "Book", "id": "a"}
GOLD = Turn.with_call("Two seats", FIND, {"id": "a"}, "Table a.")
FOUND = Lookup(Outcome.ROWS, ({"id": "a"}, {"id": "b"}))
STRAIGHT = ("api_call", "db", "response")
LOOP = ("policy", "tools", "answer")


@pytest.mark.parametrize(
    ("names", "steps", "calls", "results", "has_calls"),
    [
        (STRAIGHT, [("api_call", None, FIND), ("db", None, FOUND), ("response", None, "ok")],
         (FIND,), FOUND.rows, True),
        (STRAIGHT, [("api_call", None, {}), ("db", None, {}), ("response", None, "ok")], (), (), True),
        (STRAIGHT, [("api_call", None, "Find it"), ("db", None, None), ("response", None, "ok")], None, (), True),
        (STRAIGHT, [("response", None, "ok")], (), (), True),
        (("response",), [("response", None, "ok")], (), (), False),
        (("db", "response"), [("db", None, [{"id": 1}]), ("response", None, "ok")], (), ({"id": 1},), False),
        (LOOP, [("policy", None, [FIND]), ("tools", FIND, {"id": "a"}), ("policy", None, [BOOK]),
                ("tools", BOOK, "done"), ("policy", None, []), ("answer", None, "ok")],
         (FIND, BOOK), ({"id": "a"}, {"content": "done"}), True),
        (LOOP, [("policy", None, []), ("answer", None, "ok")], (), (), True),
        (LOOP, [("policy", None, "?"), ("tools", {"name": "Find", "arguments": "{"}, {}), ("answer", None, "ok")],
         None, (), True),
        (("plan", "run", "say"), [("plan", None, FIND), ("run", FIND, {}), ("say", None, "ok")], (FIND,), (), True),
        (("plan", "run", "say"), [("plan", None, None), ("say", None, "ok")], (), (), False),
        (("route", "say"), [("route", "which?", "say"), ("say", None, "ok")], (), (), False),
    ],
)  # fmt: skip
def test_calls_and_results_of_a_system(names, steps, calls, results, has_calls):
    turn = scored_turn(GOLD, [StageCall(*step) for step in steps], "ok", names)
    assert (turn.calls, turn.results, turn.has_calls) == (calls, results, has_calls)
    assert turn.steps == len(steps)
    assert (turn.user, turn.response, turn.gold, turn.twin) == ("Two seats", "ok", GOLD, None)
