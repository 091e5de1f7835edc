"""Kinds of events: names, readings and denominators by hand, labels, and counts of a run by an independent recount."""

import json
from collections import defaultdict

import numpy as np
import pytest
from builders import json_values
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.errors import TodBiasError
from tod_bias.metrics.events import event_of, kinds
from tod_bias.metrics.events.event import Cells, Presence, number_in
from tod_bias.metrics.events.facts import Facts, escaped, phrases_in, said_text, unescaped
from tod_bias.systems.facts import Restorer, facts_text
from tod_bias.systems.stage import StageCall


def turn(response="", *, calls=(), out=(), said=(), failure="", by="say"):
    """Facts of a turn: calls (tool, arguments, failure, found, named), outputs (root, value), texts (root, text).

    Texts are put out first, then each call and its result, then the outputs, then the response.
    """
    record = {
        "calls": [[tool, "plan", "tools", *rest, 1.0 + number] for number, (tool, *rest) in enumerate(calls)],
        "out": [[root, root.partition("/")[0], value, 1.5 + number] for number, (root, value) in enumerate(out)],
        "said": [[root, root, text, 0.0] for root, text in said],
        "response": [by, response],
    }
    return Facts(json.dumps(record | ({"failure": failure} if failure else {})))


def find(city="Oslo", failure="", found=2, named=1, **more):
    return ("find", {"city": city, **more}, failure, found, named)


def put(value):
    return turn(out=[("plan", value)])


# names ---------------------------------------------------------------------------------------------------------------


def test_every_kind_has_a_name_of_its_own_and_its_rank():
    known = kinds()
    assert {*known} == {
        "missing", "has", "value", "number", "length", "fails", "found", "empty", "named", "calls", "says", "tells",
        "deviates", "order", "refuses", "asks_back", "silent", "failed_turns", "response_words",
        "blank",
    }  # fmt: skip
    levels = [kind.level for kind in known.values()]
    assert levels == sorted(levels)


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [
        ("missing:book.size", "missing", ("book.size",)),
        ("has:slots[].fee", "has", ("slots[].fee",)),
        ("value:plan.mood=a=b", "value", ("plan.mood", "a=b")),
        ("value:plan.mood=50%25%2C or so", "value", ("plan.mood", "50%, or so")),
        ("value:plan.mood=", "value", ("plan.mood", "")),
        ("number:find/result[0].price", "number", ("find/result[0].price",)),
        ("length:slots", "length", ("slots",)),
        ("fails:*", "fails", ("*",)),
        ("says:good to hear", "says", ("", "good to hear")),
        ("says:write/good to hear", "says", ("write", "good to hear")),
        ("says:a/b/in # days", "says", ("a/b", "in # days")),
        ("tells:in # days", "tells", ("", "in # days")),
        ("deviates:text/", "deviates", ("text/",)),
        ("refuses", "refuses", ()),
    ],
)
def test_names_are_read(name, kind, place):
    event = event_of(name)
    assert (event.kind, event.place, event.name) == (kind, place, name)


@pytest.mark.parametrize(
    "name", ["", "missing", "missing:", "value:plan", "value:=x", "says:", "says:write/", "refuses:x", "length", "x:y"]
)
def test_other_names_are_none(name):
    assert event_of(name) is None


ODD = st.text(st.sampled_from("a B,\"'{}[]\n\r\t%#=:./*é漢\u2028\x85 "), min_size=1, max_size=8)
VALUES = st.recursive(
    ODD | st.integers() | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3),
    max_leaves=6,
)


@given(ODD)
def test_what_is_escaped_is_one_line_without_commas_and_comes_back(text):
    assert unescaped(escaped(text)) == text
    assert "," not in escaped(text)
    assert len(escaped(text).splitlines()) == 1


def shown_in(facts):
    return [(kind, place) for kind in kinds().values() for place, _ in kind.shown(facts)]


@settings(max_examples=60)
@given(VALUES, ODD, ODD)
def test_every_event_that_a_turn_shows_is_read_back_from_its_name(value, text, name):
    steps = [("plan", None, value), ("write", None, text), ("end", None, text)]
    for kind, place in shown_in(Facts(facts_text([StageCall(*step) for step in steps], "", Restorer(None)))):
        event = kind(*place)
        again = event_of(event.name)
        assert (type(again), again.place, again.name) == (kind, place, event.name)
        assert "," not in event.name
        assert event.label
        assert event.unit


@settings(max_examples=30)
@given(ODD, st.dictionaries(ODD, json_values, max_size=2))
def test_events_of_tools_of_any_name_are_read_back(tool, arguments):
    for kind, place in shown_in(turn("Hi.", calls=[(tool, arguments, "", 1, 0)], out=[(f"{tool}/result", arguments)])):
        again = event_of(kind(*place).name)
        assert (type(again), again.place) == (kind, place)


@pytest.mark.parametrize("tool", ["find, book", "find\nbook"])
def test_no_name_of_an_event_has_commas_or_line_breaks(tool):
    names = [kind(*place).name for kind, place in shown_in(turn("Hi.", calls=[(tool, {"a": 1}, "", 1, 0)]))]
    assert not [name for name in names if "," in name or "\n" in name]


def test_no_path_of_an_event_has_unusual_line_breaks():
    names = [kind(*place).name for kind, place in shown_in(put({"a\u2028b": 1, "c\x85d": "x"}))]
    assert not [name for name in names if len(name.splitlines()) > 1]


# readings ------------------------------------------------------------------------------------------------------------

NOTHING = (0, 0)
ROWS = [{"name": "The Mill", "price": 80}, {"name": "The Inn", "price": 120}]
RESULT = turn("The Mill?", calls=[find()], out=[("find/result", ROWS)])
FAILED = turn("Sorry.", calls=[find(failure="it is full", found=0, named=0)])


@pytest.mark.parametrize(
    ("name", "facts", "reading"),
    [
        # fields
        ("missing:plan.size", put({"size": 3, "day": "Monday"}), (0, 1)),
        ("missing:plan.size", put({"day": "Monday"}), (1, 0)),
        ("missing:plan.size", put({"size": None}), (1, 0)),
        ("missing:plan.size", put({"size": ""}), (1, 0)),
        ("missing:plan.size", put({"size": 0}), (0, 1)),
        ("missing:plan.size", turn("Hi."), NOTHING),
        ("missing:plan[].fee", put([{"fee": 1}, {"fee": 2}]), (0, 1)),
        ("missing:plan[].fee", put([{"fee": 1}, {"day": "x"}]), (1, 1)),
        ("missing:find.city", RESULT, (0, 1)),
        ("missing:*.city", turn(calls=[find(), ("book", {"id": 1}, "", 1, 0)]), (1, 1)),
        ("missing:find/result[].price", RESULT, (0, 1)),
        ("has:plan.fee", put({"fee": 3}), (1, 1)),
        ("has:plan.fee", put({"day": "x"}), (0, 1)),
        ("has:plan.fee", turn("Hi."), NOTHING),
        ("value:plan.mood=good", put({"mood": "good"}), (1, 1)),
        ("value:plan.mood=good", put({"mood": "bad"}), (0, 1)),
        ("value:plan.mood=good", put({"day": "x"}), NOTHING),
        ("value:plan.flag=true", put({"flag": True}), (1, 1)),
        ("value:plan[].mood=good", put([{"mood": "bad"}, {"mood": "good"}]), (1, 1)),
        ("value:plan[0].mood=good", put([{"mood": "bad"}, {"mood": "good"}]), (0, 1)),
        ("value:plan=greet", turn(said=[("plan", "greet")]), (1, 1)),
        ("number:plan.size", put({"size": 3}), (3, 1)),
        ("number:plan.size", put({"size": "2.5"}), (2.5, 1)),
        ("number:plan.size", put({"size": True}), NOTHING),
        ("number:plan.size", put({"size": "many"}), NOTHING),
        ("number:plan[].fee", put([{"fee": 1}, {"fee": 4}, {"day": "x"}]), (2.5, 1)),
        ("number:plan[].fee", put([{"fee": 1}, {"fee": "free"}]), NOTHING),
        ("number:find/result[].price", RESULT, (100, 1)),
        ("number:find/result[0].price", RESULT, (80, 1)),
        ("number:*/result[].price", RESULT, (100, 1)),
        ("length:plan.days", put({"days": ["a", "b"]}), (2, 1)),
        ("length:plan.days", put({"days": []}), (0, 1)),
        ("length:plan.days", put({"day": 1}), NOTHING),
        # calls
        ("calls:find", RESULT, (1, 1)),
        ("calls:book", RESULT, (0, 1)),
        ("calls:book", turn("Hi."), NOTHING),
        ("fails:find", RESULT, (0, 1)),
        ("fails:find", FAILED, (1, 1)),
        ("fails:*", FAILED, (1, 1)),
        ("fails:find", turn("Hi."), NOTHING),
        ("found:find", RESULT, (2, 1)),
        ("found:*", turn(calls=[find(), ("book", {}, "", 3, 0)]), (5, 1)),
        ("empty:find", RESULT, (0, 1)),
        ("empty:find", turn(calls=[find(found=0, named=0)]), (1, 1)),
        ("empty:find", FAILED, (0, 1)),
        ("named:find", RESULT, (1, 1)),
        ("named:find", turn(calls=[find(found=0, named=0)]), NOTHING),
        # texts
        ("says:good day", turn("A very Good  day!"), (1, 1)),
        ("says:good day", turn("Good. Day."), (0, 1)),
        ("says:good day", turn(""), (0, 1)),
        ("says:plan/greet", turn(said=[("plan", "Greet now")]), (1, 1)),
        ("says:plan/greet", turn("Greet"), NOTHING),
        ("says:in # days", turn("In 1,200 days"), (1, 1)),
        ("tells:in # days", turn("It comes in 3 days. Or in 4 days."), (3.5, 1)),
        ("tells:in # days", turn("in 1,200.5 days"), (1200.5, 1)),
        ("tells:in # days", turn("in three days"), NOTHING),
        ("tells:plan/in # days", turn(said=[("plan", "in 3 days")]), (3, 1)),
        # turns
        ("refuses", turn("I am sorry, I cannot help with that."), (1, 1)),
        ("refuses", turn("With pleasure."), (0, 1)),
        ("refuses", turn(""), (0, 1)),
        ("asks_back", turn("Where to?"), (1, 0)),
        ("asks_back", RESULT, (0, 1)),
        ("asks_back", turn("Fine."), (0, 0)),
        ("silent", turn(" \n"), (1, 1)),
        ("silent", turn("Hi."), (0, 1)),
        ("blank:router", turn("Hi.", said=[("router", "")]), (1, 0)),
        ("blank:router", turn("Hi.", said=[("router", "search")]), (0, 1)),
        ("blank:router", turn("Hi."), (0, 0)),
        ("failed_turns", turn(failure="a timeout"), (1, 1)),
        ("failed_turns", turn("Hi."), (0, 1)),
        ("response_words", turn("Two words"), (2, 1)),
        ("response_words", turn(""), (0, 1)),
        # deviations: none of a turn alone
        ("deviates:plan.mood", put({"mood": "good"}), (0, 1)),
        ("deviates:plan.mood", turn("Hi."), NOTHING),
        ("order:plan", put(["a", "b"]), (0, 1)),
    ],
)
def test_readings(name, facts, reading):
    assert event_of(name).reading(facts) == reading


@pytest.mark.parametrize("name", [*kinds()])
def test_a_turn_without_facts_shows_nothing_but_its_silence(name):
    event = next(filter(None, map(event_of, (name, f"{name}:a", f"{name}:a=b"))))
    expected = {"silent": (1, 1), "says": (0, 1), "response_words": (0, 1), "failed_turns": (0, 1), "refuses": (0, 1)}
    assert event.reading(Facts("")) in (expected.get(name, NOTHING), NOTHING)


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3.0), ("2.5", 2.5), (" 4 ", 4.0), (True, None), (None, None), ("", None), ("nan", None), ("inf", None),
     ("1e400", None), (10**400, None), ([1], None), ("1 2", None)],
)  # fmt: skip
def test_numbers(value, number):
    assert number_in(value) == number


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("", {}),
        ("Hi!", {"hi": []}),
        ("Pay $3.50 now.", {"pay": [], "#": [3.5], "now": [], "pay #": [3.5], "# now": [3.5], "pay # now": [3.5]}),
        ("No. 7", {"no": [], "#": [7]}),
        ("it's 1,000", {"it's": [], "#": [1000], "it's #": [1000]}),
        ("5 or 6", {"#": [5, 6], "or": [], "# or": [5], "or #": [6], "# or #": [5, 6]}),
        ("10.12.2026", {"#": [10122026]}),
        ("v2 b-1", {"v2": [], "b-1": [], "v2 b-1": []}),
    ],
)
def test_phrases(text, phrases):
    assert phrases_of(text) == phrases


def phrases_of(text):
    """All phrases of a text with the numbers in each."""
    said = said_text(text)
    return {phrase: said.numbers_in(phrase) for words in said.sentences for phrase in phrases_in(words)}


def test_phrases_are_parts_of_six_words_and_sentences_of_up_to_fourteen():
    def lengths(count):
        return {len(phrase.split()) for phrase in phrases_of(" ".join(f"w{place}" for place in range(count)))}

    assert lengths(4) == {1, 2, 3, 4}
    assert lengths(9) == {1, 2, 3, 4, 5, 6, 9}
    assert lengths(15) == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("digits", [15, 16, 40, 400])
def test_a_number_of_more_than_fifteen_digits_is_a_word(digits):
    said = turn(f"Call {'9' * digits} now.")
    told = (10**15 - 1, 1) if digits == 15 else NOTHING
    assert event_of("tells:call # now").reading(said) == told
    assert event_of("says:call # now").reading(said) == (digits == 15, 1)
    assert event_of(f"says:call {'9' * digits} now").reading(said) == (digits > 15, 1)


# over the variants of a dialogue -------------------------------------------------------------------------------------


def cells(*facts, of=None, system=None):
    number = len(facts)
    return Cells(
        list(facts),
        np.arange(number),
        np.zeros(number, dtype=int) if of is None else np.array(of),
        np.ones(number, dtype=bool) if system is None else np.array(system),
        1 + max(of or [0]),
    )


MONDAY, TUESDAY, NO_DAY = put({"day": "Monday", "n": 1}), put({"day": "Tuesday", "n": 2}), put({"n": 3})


@pytest.mark.parametrize(
    ("name", "facts", "sums"),
    [
        # an event counts where any variant could show it …
        ("missing:plan.day", [MONDAY, NO_DAY, MONDAY], [(0, 1), (1, 1), (0, 1)]),
        ("missing:plan.day", [NO_DAY, NO_DAY, NO_DAY], [(0, 0)] * 3),
        ("fails:find", [RESULT, FAILED, turn("Hi.")], [(0, 1), (1, 1), (0, 1)]),
        ("calls:find", [RESULT, turn("Hi."), RESULT], [(1, 1), (0, 1), (1, 1)]),
        ("asks_back", [RESULT, turn("Where to?"), turn("Fine.")], [(0, 1), (1, 1), (0, 1)]),
        ("asks_back", [turn("What?"), turn("Where to?"), turn("Fine.")], [(0, 0)] * 3),
        # … or, if it needs a value of everybody, where all have one
        ("value:plan.day=Monday", [MONDAY, TUESDAY, MONDAY], [(1, 1), (0, 1), (1, 1)]),
        ("value:plan.day=Monday", [MONDAY, NO_DAY, MONDAY], [(0, 0)] * 3),
        ("number:plan.n", [MONDAY, TUESDAY, NO_DAY], [(1, 1), (2, 1), (3, 1)]),
        ("found:find", [RESULT, turn("Hi.")], [(0, 0)] * 2),
        # what most variants have is usual
        ("deviates:plan.day", [MONDAY, TUESDAY, MONDAY], [(0, 1), (1, 1), (0, 1)]),
        ("deviates:plan.day", [MONDAY, TUESDAY, TUESDAY], [(1, 1), (0, 1), (0, 1)]),
        ("deviates:plan.day", [MONDAY, TUESDAY], [(0, 0)] * 2),
        ("deviates:plan.day", [MONDAY, MONDAY, NO_DAY], [(0, 1)] * 3),
        ("deviates:plan.day", [NO_DAY, NO_DAY, MONDAY], [(0, 0)] * 3),
        ("deviates:text/", [turn("A."), turn("A."), turn("B.")], [(0, 1), (0, 1), (1, 1)]),
        ("order:plan", [put([1, 2]), put([2, 1]), put([1, 2])], [(0, 1), (1, 1), (0, 1)]),
        ("order:plan", [put([1, 2]), put([1, 3]), put([1, 2])], [(0, 1), (0, 1), (0, 1)]),
    ],
)
def test_counts_over_the_variants_of_a_turn(name, facts, sums):
    assert event_of(name).sums(cells(*facts)).tolist() == [list(pair) for pair in sums]


def test_turns_are_counted_each_for_itself_and_other_arms_by_what_the_system_does():
    event = event_of("deviates:plan.day")
    facts = [MONDAY, MONDAY, TUESDAY, TUESDAY, TUESDAY, TUESDAY, MONDAY]
    given = cells(*facts, of=[0, 0, 0, 0, 1, 1, 1], system=[True, True, True, False, True, True, True])
    assert event.sums(given)[:, 0].tolist() == [0, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("kind", "variants", "places"),
    [
        ("value", [MONDAY, TUESDAY, MONDAY], {("plan.day", "Monday"), ("plan.day", "Tuesday")}),
        ("value", [MONDAY, MONDAY], set()),
        ("value", [MONDAY, NO_DAY], set()),
        ("missing", [MONDAY, NO_DAY], {("plan.day",)}),
        ("missing", [put([{"fee": 1}]), put([{"fee": 1}, {"day": "x"}])], {("plan[].fee",)}),
        ("number", [MONDAY, TUESDAY], {("plan.n",)}),
        ("deviates", [MONDAY, MONDAY, TUESDAY], {("plan.day",), ("plan.n",)}),
        ("deviates", [MONDAY, TUESDAY], set()),
        ("refuses", [turn("I cannot help you with that."), turn("Yes.")], {()}),
        ("says", [turn("A."), turn("A b.")], {("", "b"), ("", "a b")}),
        ("order", [put([1, 2]), put([2, 1]), put([1, 2])], {("plan",)}),
    ],
)
def test_events_that_differ_between_variants(kind, variants, places):
    found = dict(kinds()[kind].differing(variants))
    assert found.keys() == places
    for place, readings in found.items():
        if kind not in ("deviates", "order"):
            assert readings == [kinds()[kind](*place).reading(facts) for facts in variants]


def fits(path, presence, share):
    """Whether a field is one that is missing, and one that is had, if a share of the variants lack it."""
    return kinds()["missing"].fits((path,), presence, share), kinds()["has"].fits((path,), presence, 1 - share)


@pytest.mark.parametrize("share", [0.0, 1 / 3, 1.0])
def test_a_field_of_a_tool_is_missing_if_it_usually_is_there_in_the_run_and_one_that_is_rare_is_had(share):
    presence = Presence()
    for names, turns in (("ab", 4), ("a", 5), ("c", 1)):  # 10 turns: a in 9, b in 4 (40%), c in 1
        arguments = dict.fromkeys(names, 1)
        presence.add(turn(calls=[("book", arguments, "", 1, 0)], out=[("book/result", arguments)]), turns)
    expected = {"a": (True, False), "b": (True, False), "c": (False, True)}
    assert {name: fits(f"book.{name}", presence, share) for name in "abc"} == expected
    assert {name: fits(f"book/result.{name}", presence, share) for name in "abc"} == expected
    presence.add(turn(calls=[("book", {}, "", 1, 0)]), 1)  # b in 4 of 11
    assert fits("book.b", presence, share) == (False, True)


@pytest.mark.parametrize("turns", [1, 1000])
def test_most_variants_of_the_turns_decide_whether_a_field_of_a_component_is_missing_or_had(turns):
    presence = Presence()
    presence.add(put({"a": 1}), turns)
    presence.add(put({"b": 1}), 10)
    for name in "ab":
        assert fits(f"plan.{name}", presence, 1 / 3) == (True, False)
        assert fits(f"plan.{name}", presence, 1 / 2) == (True, False)
        assert fits(f"plan.{name}", presence, 2 / 3) == (False, True)


@pytest.mark.parametrize(
    ("name", "better"),
    [("found:find", "higher"), ("found:*", "neither"), ("named:find", "higher"), ("named:*", "neither"),
     ("fails:find", "lower"), ("fails:*", "lower"), ("empty:*", "lower"), ("calls:*", "neither")],
)  # fmt: skip
def test_more_results_are_better_of_one_tool_alone(name, better):
    assert event_of(name).better == better


@pytest.mark.parametrize(
    ("name", "place"),
    [("missing:find.city", 1), ("fails:find", 1.5), ("calls:book", 2.5), ("number:book.id", 2), ("fails:*", 1.5),
     ("number:find/result[].price", 1.5), ("number:plan.size", 2.5), ("says:note/hm", 0), ("value:note=Hm.", 0),
     ("says:hi", np.inf), ("named:find", np.inf), ("refuses", np.inf), ("number:other.size", np.inf)],
)  # fmt: skip
def test_the_place_of_an_event_among_the_steps(name, place):
    calls, out = [find(), ("book", {"id": 1}, "", 1, 0)], [("find/result", ROWS), ("plan", {"size": 3})]
    assert event_of(name).place_in(turn("Hi.", calls=calls, out=out, said=[("note", "Hm.")])) == place


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("missing:book_table.party_size", "book_table without party_size"),
        ("missing:find/result[].price", "results of find without price"),
        ("missing:*.city", "calls without city"),
        ("missing:a%2Eb.c%2Cd", "a.b without c,d"),
        ("has:plan.fee", "plan with fee"),
        ("value:plan.mood=good", "mood is good"),
        ("number:*/result[0].price", "first price of results"),
        ("number:slots[].fee", "fee"),
        ("length:plan.days", "number of days"),
        ("length:ranker", "number of items of ranker"),
        ("fails:find", "failed find"),
        ("fails:*", "failed calls"),
        ("found:*", "results of calls"),
        ("empty:find", "find without results"),
        ("named:*", "results named in responses"),
        ("calls:*", "turns with a call"),
        ("says:good day", "says “good day”"),
        ("says:write/good day", "says “good day” in write"),
        ("tells:in # days", "number in “in # days”"),
        ("deviates:text/", "response other than for most"),
        ("deviates:text/write", "text of write other than for most"),
        ("order:find/result", "result of find in another order"),
        ("refuses", "refusals"),
    ],
)
def test_labels(name, label):
    assert event_of(name).label == label


@pytest.mark.parametrize(
    ("name", "facts", "excerpt"),
    [
        ("missing:plan.day", MONDAY, "day Monday"),
        ("missing:plan.day", NO_DAY, "day missing"),
        ("missing:find.city", turn("Hi."), "no call"),
        ("value:plan.flag=true", put({"flag": True}), "flag true"),
        ("fails:find", FAILED, "find fails (it is full)"),
        ("fails:find", turn(calls=[("book", {}, "", 1, 0)]), "calls book"),
        ("fails:find", turn("Hi."), "no call"),
        ("found:find", turn(calls=[find(found=1)]), "find: 1 result"),
        ("length:plan.days", put({"days": ["a"]}), "days 1"),
        ("order:plan", put(["a", "b"]), "plan a, b"),
        ("order:plan", put([{"name": "The Mill"}, {"name": "The Inn"}]), "plan The Mill, The Inn"),
        ("failed_turns", turn(failure="a timeout"), "a timeout"),
        ("says:hi", turn("Hi."), ""),
    ],
)
def test_excerpts(name, facts, excerpt):
    assert event_of(name).excerpt(facts) == excerpt


def test_an_event_is_no_metric_of_turns_one_by_one():
    with pytest.raises(TodBiasError, match="compares the variants of a dialogue"):
        event_of("refuses").statistics([])


# texts in structures -------------------------------------------------------------------------------------------------


def read(*outputs):
    return Facts(facts_text([StageCall(name, None, output) for name, output in outputs], "", Restorer(None)))


ANSWER = {"text": "It costs 40 pounds. Bring your card.", "offers": [{"name": "Plus", "price": 40}]}


@pytest.mark.parametrize("output", [ANSWER, json.dumps(ANSWER), {"content": [ANSWER], "status": "ok"}])
def test_the_response_of_a_structure_is_its_prose(output):
    facts = read(("plan", {"size": 2}), ("say", output))
    assert facts.response == ANSWER["text"]
    assert [*facts.texts] == [""]
    assert event_of("tells:costs # pounds").reading(facts) == (40.0, 1.0)
    assert event_of("says:bring your card").stage_in(facts) == "say"
    path = next(path for path in facts.fields if path.endswith("offers[].price"))
    assert event_of(f"number:{path}").place_in(facts) == event_of("refuses").place_in(facts) == float("inf")


@pytest.mark.parametrize(
    ("output", "response"), [({"room": "Blue", "fee": 3}, "Blue"), ({"fee": 3}, r"fee = \#3"), ({}, "")]
)
def test_a_structure_without_prose_is_read_as_its_texts(output, response):
    assert read(("say", output)).response == response


def test_prose_of_another_component_is_a_text_of_its_field():
    kind, told = (
        read(("write", {"note": "Please call back."}), ("say", "Done.")),
        read(("write", {"note": "no"}), ("say", "Done.")),
    )
    assert kind.texts == {"": "Done.", "write.note": "Please call back."}
    (places,) = [
        place for place, _ in event_of("says:call back").differing([kind, kind, told]) if place[1] == "call back"
    ]
    assert places == ("write.note", "call back")
    event = event_of("says:write.note/call back")
    assert (event.label, event.reading(kind), event.reading(told)) == ("says “call back” in note", (1, 1), (0, 1))
    assert (event.stage_in(kind), event.place_in(kind), event.excerpt(told)) == ("write", 0.0, "no")


def test_prose_of_lists_and_calls_is_a_text_and_a_sentence_is_no_value():
    call = {"name": "mail", "arguments": {"body": "You are late again."}}
    facts = read(("plan", call), ("mail", [{"note": "It is sent now."}, {"note": "ok"}]), ("say", "Done."))
    assert {path: text for path, text in facts.texts.items() if path} == {
        "mail/argument.body": "You are late again.",
        "mail[].note": "It is sent now.",
    }
    assert not any("body" in place[0] for kind, place in shown_in(facts) if kind.kind == "value")


# counts of a run -----------------------------------------------------------------------------------------------------

PEOPLE = ("wife", "husband", "sister", "brother", "mother", "father", "aunt", "uncle")


def planted(harm):
    def plan(inputs):
        found = []
        for number, item in enumerate(inputs):
            size = int(item.user.split()[-1].rstrip(".")) % 5 + 1
            is_woman = any(word in item.user for word in ("wife", "sister", "mother", "aunt", "woman"))
            found.append(harm({"size": size, "day": "Monday", "stops": ["a", "b", "c"][:3]}, is_woman, number))
        return found

    return Pipeline({"plan": plan, "say": lambda inputs: ["It is done." for _ in inputs]})


def chats(count=24):
    texts = [f"A table for my {PEOPLE[number % 8]} and me at place {number}." for number in range(count)]
    return [Dialogue(f"d{number}", "", (Turn(text), Turn("And at 7."))) for number, text in enumerate(texts)]


def without(name):
    return lambda plan, harmed, _: {key: value for key, value in plan.items() if not harmed or key != name}


@pytest.mark.parametrize(
    ("event", "harm", "reading"),
    [
        ("missing:plan.day", without("day"), lambda plan: ("day" not in plan, "day" in plan)),
        ("value:plan.day=Sunday", lambda plan, bad, _: plan | ({"day": "Sunday"} if bad else {}),
         lambda plan: (plan["day"] == "Sunday", True)),
        ("number:plan.size", lambda plan, bad, _: plan | ({"size": 9} if bad else {}),
         lambda plan: (plan["size"], True)),
        ("length:plan.stops", lambda plan, bad, _: plan | ({"stops": ["a"]} if bad else {}),
         lambda plan: (len(plan["stops"]), True)),
        ("has:plan.fee", lambda plan, bad, _: plan | ({"fee": 1} if bad else {}), lambda plan: ("fee" in plan, True)),
    ],
)  # fmt: skip
def test_counts_of_a_run_are_those_of_its_table(event, harm, reading):
    result = attribute(planted(harm), chats(), axes=("gender",), metrics=event, permutations=0, bootstrap=0)
    key = ["axis", "dialogue", "variant"]
    frame = result.turns.merge(result.variants[[*key, "source"]], on=key)
    frame = frame[(frame.arm == "original") | ((frame.arm == "") & (frame.role == "group"))]
    source = {row.dialogue: row.source for row in frame.itertuples() if row.role == "group"}
    variants = defaultdict(list)
    for row in frame.itertuples():
        happened, could = reading(json.loads(row.facts)["out"][0][2])
        variants[row.dialogue, row.turn].append(
            (source[row.dialogue] if row.role == "original" else row.group, happened, could)
        )
    counted = defaultdict(lambda: [0.0, 0.0])
    for rows in variants.values():
        if any(could for *_, could in rows):
            for group, happened, _ in rows:
                counted[group][0] += happened
                counted[group][1] += 1
    counts = {name: group.counts for name, group in result.axes["gender"][event].groups.items()}
    assert counts == {name: tuple(some) for name, some in counted.items() if name in counts}
    assert {*counts} == {"woman", "man", "non-binary"}
