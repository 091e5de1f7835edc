"""Facts of turns: what is recorded of the components' outputs, and that a rewrite alone is no difference."""

import json
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from builders import gender, json_values
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tod_bias import Dialogue, Turn
from tod_bias.metrics.events.facts import Facts
from tod_bias.stages import Lookup, Outcome
from tod_bias.systems.facts import Restorer, facts_text
from tod_bias.systems.raised import Raised
from tod_bias.systems.stage import FlowReply, StageCall


def record(*steps, failure="", restore=Restorer(None)):  # noqa: B008
    return json.loads(
        facts_text([step if isinstance(step, StageCall) else StageCall(*step) for step in steps], failure, restore)
    )


def rewriting(text, target="woman"):
    dialogue, axis = Dialogue("d", "", (Turn(text),)), gender()
    return axis.rewrite(dialogue, next(one for one in axis.candidates(dialogue) if one.target == target))


@dataclass
class Plan:
    intent: str
    guest: str = ""


class Row(NamedTuple):
    name: str
    price: int


class Order(BaseModel):
    dish: str
    people: int = 2


# what the rewrite changes is no difference ---------------------------------------------------------------------------

SAID = "A table for my husband, please."


def who(text):
    return text.rstrip(".").split(" my ")[1].split(",")[0]


SYSTEMS = {
    "constant": lambda text: [("answer", None, "Ladies and gentlemen, the queen and her husband are here.")],
    "echo": lambda text: [("answer", None, f"You said: {text}")],
    "shouted echo": lambda text: [("answer", None, f"{text.upper()} IS THAT RIGHT?")],
    "echoed word": lambda text: [("policy", None, {"guest": who(text)}), ("answer", None, f"For your {who(text)}.")],
    "mixed sentences": lambda text: [
        ("answer", None, f"Ask the lady at the desk. Is your {who(text)} tall? Your wife's drink is free! So be it.")
    ],
    "mixed in a sentence": lambda text: [("answer", None, f"Ask the lady at the desk about your {who(text)}.")],
    "constant beside a rewritten field": lambda text: [
        ("x", None, {"guest": who(text), "host": "Mrs. Jones, the queen"}),
        ("y", None, "Done."),
    ],
    "dataclass": lambda text: [("x", None, Plan("seat", who(text))), ("y", None, "Done.")],
    "named tuple": lambda text: [("x", None, Row(who(text), 2)), ("y", None, "Done.")],
    "text of JSON": lambda text: [("x", None, json.dumps({"guest": who(text)})), ("y", None, "Done.")],
    "list": lambda text: [("x", None, [{"guest": who(text)}, {"guest": "aunt"}]), ("y", None, "Done.")],
    "flow": lambda text: [
        ("policy", None, {"api_name": "book", "guest": who(text)}),
        ("tools", {"api_name": "book", "guest": who(text)}, {"booked": who(text), "by": "Lady Ann"}),
        ("answer", None, f"It is booked for your {who(text)} by Lady Ann."),
    ],
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("target", ["woman", "non-binary"])
def test_a_fair_system_has_the_same_facts_of_a_rewritten_turn(name, target):
    rewrite = rewriting(SAID, target)
    assert rewrite(SAID) != SAID
    original = [StageCall(*step) for step in SYSTEMS[name](SAID)]
    variant = [StageCall(*step) for step in SYSTEMS[name](rewrite(SAID))]
    undone = facts_text(variant, "", Restorer(rewrite, original))
    assert undone == facts_text(original, "", Restorer(None))


@pytest.mark.xfail(
    strict=True, reason="a constant of two groups' words becomes twice the first: T⁻¹ of it is known too"
)
@pytest.mark.parametrize("output", [{"rooms": ["men", "women"]}, {"guest": "husband", "host": "wife"}])
def test_a_constant_that_names_both_groups_is_no_difference(output):
    steps = [StageCall("x", None, output), StageCall("y", None, "Done.")]
    for said in (SAID, "We are two men, and my husband."):
        assert facts_text(steps, "", Restorer(rewriting(said), steps)) == facts_text(steps, "", Restorer(None))


def test_pydantic_models_with_a_rewritten_word_are_no_difference():
    rewrite = rewriting(SAID)
    original, variant = (
        [StageCall("x", None, Order(dish=text)), StageCall("y", None, "Done.")] for text in (SAID, rewrite(SAID))
    )
    assert facts_text(variant, "", Restorer(rewrite, original)) == facts_text(original, "", Restorer(None))


@pytest.mark.parametrize(
    ("original", "variant", "recorded"),
    [
        ("Done.", "Sorry.", "Sorry."),
        ("For your husband.", "For your wife. Bring a card.", "For your husband. Bring a card."),
        ("Ask the lady. Hello.", "Ask the lady. Bye, wife.", "Ask the lady. Bye, husband."),
        ("For your husband.", "For your husband.", "For your husband."),
    ],
)
def test_what_a_system_does_otherwise_is_left(original, variant, recorded):
    rewrite = rewriting(SAID)
    restore = Restorer(rewrite, [StageCall("answer", None, original)])
    assert record(("answer", None, variant), restore=restore)["response"] == ["answer", recorded]


def test_an_original_is_recorded_as_it_is():
    assert Restorer(None)({"a": ["his wife", 3]}) == {"a": ["his wife", 3]}


# what is recorded ----------------------------------------------------------------------------------------------------

FIND = {"api_name": "find", "city": "Oslo"}
BOOK = {"api_name": "book", "id": "a"}
CHAT = {"tool_calls": [{"type": "function", "function": {"name": "find", "arguments": '{"city": "Oslo"}'}}]}
ROWS = [{"name": "The Mill"}, {"name": "The Inn"}]
NOTHING = {"calls": [], "out": [], "said": [], "response": ["", ""]}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], {}),
        ([("only", None, "Hi.")], {"response": ["only", "Hi."]}),
        ([("a b", None, "greets"), ("say", None, "Hi.")],
         {"said": [["a b", "a b", "greets", 0]], "response": ["say", "Hi."]}),
        ([("x", None, {"n": 1, "of": [True, None, 2.5]}), ("y", None, "Hi.")],
         {"out": [["x", "x", {"n": 1, "of": [True, None, 2.5]}, 0]], "response": ["y", "Hi."]}),
        ([("x", None, '{"n": 1}'), ("y", None, "Hi.")], {"out": [["x", "x", {"n": 1}, 0]], "response": ["y", "Hi."]}),
        ([("x", None, "{n: 1}"), ("y", None, "Hi.")], {"said": [["x", "x", "{n: 1}", 0]], "response": ["y", "Hi."]}),
        ([("x", None, Plan("seat")), ("y", None, "Hi.")],
         {"out": [["x", "x", {"intent": "seat", "guest": ""}, 0]], "response": ["y", "Hi."]}),
        ([("x", None, Row("a", 2)), ("y", None, "Hi.")],
         {"out": [["x", "x", {"name": "a", "price": 2}, 0]], "response": ["y", "Hi."]}),
        ([("x", None, Order(dish="a")), ("y", None, "Hi.")],
         {"out": [["x", "x", {"dish": "a", "people": 2}, 0]], "response": ["y", "Hi."]}),
        ([("x", None, [Row("a", 2), Plan("b")]), ("y", None, "Hi.")],
         {"out": [["x", "x", [{"name": "a", "price": 2}, {"intent": "b", "guest": ""}], 0]], "response": ["y", "Hi."]}),
        ([("x", None, None), ("y", None, "Hi.")], {"response": ["y", "Hi."]}),
        ([("x", None, {"n": float("nan"), "m": float("inf")}), ("y", None, "Hi.")],
         {"out": [["x", "x", {"n": "nan", "m": "inf"}, 0]], "response": ["y", "Hi."]}),
        ([("x", None, {"role": "a", "content": "c"}), ("y", None, None)],
         {"out": [["x", "x", {"role": "a", "content": "c"}, 0]], "response": ["y", ""]}),
        # calls in a straight line
        ([("plan", None, FIND), ("look", None, ROWS), ("say", None, "THE MILL is free.")],
         {"calls": [["find", "plan", "look", {"city": "Oslo"}, "", 2, 1, 0]],
          "out": [["find/result", "look", ROWS, 0.5]], "response": ["say", "THE MILL is free."]}),
        ([("plan", None, FIND), ("look", None, Lookup(Outcome.NO_ROW)), ("say", None, "Sorry.")],
         {"calls": [["find", "plan", "look", {"city": "Oslo"}, "no such row", 0, 0, 0]],
          "response": ["say", "Sorry."]}),
        ([("plan", None, FIND), ("look", None, Lookup(Outcome.EMPTY)), ("say", None, "Sorry.")],
         {"calls": [["find", "plan", "look", {"city": "Oslo"}, "", 0, 0, 0]], "out": [["find/result", "look", [], 0.5]],
          "response": ["say", "Sorry."]}),
        ([("plan", None, CHAT), ("say", None, "Hi.")],
         {"calls": [["find", "plan", "plan", {"city": "Oslo"}, "", 0, 0, 0]], "response": ["say", "Hi."]}),
        ([("plan", None, {"calls": [FIND, BOOK]}), ("look", None, {"ok": True}), ("say", None, "Hi.")],
         {"calls": [["find", "plan", "plan", {"city": "Oslo"}, "", 0, 0, 0],
                    ["book", "plan", "look", {"id": "a"}, "", 1, 0, 0]],
          "out": [["book/result", "look", {"ok": True}, 0.5]], "response": ["say", "Hi."]}),
        # calls in a flow
        ([("p", None, FIND), ("t", FIND, ROWS), ("p", None, BOOK), ("t", BOOK, {"error": "it is full"}),
          ("p", None, ""), ("s", None, "The Inn and The Mill.")],
         {"calls": [["find", "p", "t", {"city": "Oslo"}, "", 2, 2, 0.5],
                    ["book", "p", "t", {"id": "a"}, "it is full", 0, 0, 2.5]],
          "out": [["find/result", "t", ROWS, 1]], "response": ["s", "The Inn and The Mill."]}),
        ([("p", None, "?"), ("t", {"name": "find", "arguments": "{"}, {}), ("s", None, "Hi.")],
         {"calls": [["api_call", "p", "t", {"malformed_arguments": "arguments = { ; name = find"}, "", 0, 0, 0.5]],
          "said": [["p", "p", "?", 0]], "out": [["api_call/result", "t", {}, 1]], "response": ["s", "Hi."]}),
        # a tool that is a stage
        ([("p", None, "go"), ("find", {"api_name": "find", "city": "Oslo"}, ROWS), ("s", None, "Hi.")],
         {"calls": [["find", "p", "find", {"city": "Oslo"}, "", 2, 0, 0.5]], "out": [["find", "find", ROWS, 1]],
          "said": [["p", "p", "go", 0]], "response": ["s", "Hi."]}),
    ],
)  # fmt: skip
def test_what_is_recorded_of_a_turn(steps, expected):
    assert record(*steps) == NOTHING | expected


def test_a_list_of_calls_is_calls():
    several = [FIND, BOOK]
    listed, held = (
        record(("plan", None, calls), ("look", None, {"ok": True}), ("say", None, "Hi."))
        for calls in (several, {"calls": several})
    )
    assert listed == held


@pytest.mark.parametrize(
    "end",
    [
        None,
        "",
        pytest.param(
            [], marks=pytest.mark.xfail(strict=True, reason="a list without calls is recorded as an output beside them")
        ),
    ],
)
def test_a_list_of_calls_in_a_flow_is_recorded_once(end):
    steps = [("p", None, [FIND]), ("t", FIND, ROWS), ("p", None, end), ("s", None, "Hi.")]
    assert [root for root, *_ in record(*steps)["out"]] == ["find/result"]


def test_the_reason_of_a_failed_turn_is_kept_and_cut():
    assert record(("x", None, "Hi."), failure="e" * 500)["failure"] == "e" * 200
    assert "failure" not in record(("x", None, "Hi."))


def test_a_stage_that_a_flow_calls_with_fields_is_a_tool_of_its_own_name():
    title = {"title": "atlas"}
    found = record(("reader", None, title), ("catalogue", title, {"loan_days": 21}), ("desk", None, "Ok."))
    (call,) = found["calls"]
    assert call[:4] == ["catalogue", "reader", "catalogue", {"title": "atlas"}]
    assert ["catalogue", "catalogue", {"loan_days": 21}, 1.0] in found["out"]
    assert Facts(json.dumps(found)).fields["catalogue.loan_days"] == [21]


def test_what_a_flow_says_itself_belongs_to_the_stage_that_put_it_out():
    written = ("write", None, "Hi.")
    assert record(written, FlowReply("reply", None, "Hi."))["response"] == ["write", "Hi."]
    assert record(written, FlowReply("reply", None, "Ho."))["response"] == ["", "Ho."]
    assert record(written, ("reply", None, {"text": "Ho ho."}))["response"] == ["reply", "Ho ho."]


@pytest.mark.parametrize(
    ("error", "reason"), [(RuntimeError("the desk is shut"), "the desk is shut"), (KeyError(), "KeyError")]
)
def test_a_tool_that_raises_fails(error, reason):
    found = record(("book", {"day": "Monday"}, Raised.of(error)), ("say", None, "No."))
    assert found["calls"][0][4:6] == [reason, 0]
    assert found["out"] == []


def test_the_caller_is_the_step_that_decides_or_makes_the_arguments():
    both = [{"name": "log", "arguments": {"note": "x"}}, {"name": "mail", "arguments": {"body": "Hello there."}}]
    log, mail = ("log", {"note": "x"}, {"ok": True}), ("mail", {"body": "Hello there."}, "sent")

    def callers(*steps):
        return {tool: by for tool, by, *_ in record(*steps, ("say", None, "Done."))["calls"]}

    assert callers(("model", None, both), log, mail) == {"log": "model", "mail": "model"}
    assert callers(log, mail) == {"log": "log", "mail": "mail"}
    plan = ("plan", {"text": "a room in York"}, {"city": "York"})
    assert callers(plan, log, ("find", {"city": "York"}, [])) == {"plan": "plan", "log": "log", "find": "plan"}


# whatever a component puts out ---------------------------------------------------------------------------------------


def nested(levels):
    value = "end"
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "output",
    [
        "word " * 100_000,
        ["word " * 10] * 10_000,
        {str(number): number for number in range(10_000)},
        {"rows": [{"text": "x" * 30_000}]},
        nested(49),
        json.dumps(nested(49)),
        {"error": "e" * 100_000},
        {"calls": [{"api_name": "find", "city": "x" * 100}] * 2_000},
    ],
    ids=["text", "list", "mapping", "text inside", "deep", "deep text", "error", "calls"],
)  # fmt: skip
def test_large_outputs_are_bounded(output):
    for steps in ([("x", None, output), ("y", None, "Hi.")], [("p", None, FIND), ("t", FIND, output), ("s", None, "")]):
        assert len(facts_text([StageCall(*step) for step in steps], "", Restorer(None))) < 50_000


def test_lone_surrogates_are_replaced_everywhere():
    odd = "\ud800 and \udfff"
    call = {"api_name": f"find{odd}", f"city{odd}": odd}
    text = facts_text(
        [
            StageCall("x", None, {odd: odd, "list": [odd]}),
            StageCall("z", None, odd),
            StageCall("t", call, [{"name": odd}]),
            StageCall("y", None, odd),
        ],
        odd,
        Restorer(None),
    )
    text.encode("utf-8")
    assert json.loads(text)["response"] == ["y", "\ufffd and \ufffd"]


outputs = json_values | st.sampled_from([Plan("a"), Row("b", 2), Order(dish="c"), Lookup(Outcome.EMPTY), b"x", {1, 2}])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["a", "tools", "api_call"]), st.none() | json_values, outputs), max_size=4))
def test_any_outputs_give_facts_that_can_be_read(steps):
    text = facts_text([step if isinstance(step, StageCall) else StageCall(*step) for step in steps], "", Restorer(None))
    text.encode("utf-8")
    assert Facts(text).response == json.loads(text)["response"][1]
