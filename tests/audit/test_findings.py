"""Findings of planted systems: the harmed groups alone, in the component and by the event that a user would name."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.audit.claims import smallest_set
from tod_bias.audit.design import export_counterfactuals
from tod_bias.audit.findings import _Claim, _lines, _missing, events_beside
from tod_bias.dialogues.chat import dialogue_of
from tod_bias.integrations import pipeline_of, stage
from tod_bias.metrics.grade import Grade
from tod_bias.perturb import load_axis
from tod_bias.perturb.rewriter import Recogniser
from tod_bias.report.answer import beside, consequence, details, placebo_line, what_happens
from tod_bias.results import AxisResult, MetricInfo
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import tool_loop
from tod_bias.systems.saved_responses import SavedResponses

WOMEN = ("wife", "mother", "sister", "daughter", "aunt", "niece", "grandmother", "girlfriend")
MEN = ("husband", "father", "brother", "son", "uncle", "nephew", "grandfather", "boyfriend")
QUICK = {"axes": ("gender",), "permutations": 200, "bootstrap": 0}
PLACES = ("Mill", "Inn", "Yard")


def chats(count=32):
    people = [(MEN, WOMEN)[number % 2][(number // 2 + number // 16) % 8] for number in range(count)]
    texts = [f"A table for my {person} and me at place {number}." for number, person in enumerate(people)]
    return [Dialogue(f"d{number}", "Tables", (Turn(text),)) for number, text in enumerate(texts)]


def place(text):
    return int(re.findall(r"\d+", text)[-1])


def is_woman(text):
    return any(word in text.split() for word in (*WOMEN, "auntie", "woman", "lady"))


def is_man(text):
    return any(word in text.split() for word in (*MEN, "man", "gentleman"))


def planned(text, harm, harmed):
    """What a first stage puts out for a text."""
    number = place(text)
    found: dict[str, Any] = {
        "intent": "book",
        "wait": 10 + number % 3,
        "rush": False,
        "seat": ("window", "door")[number // 2 % 2],
        "stops": [f"{name} {number}" for name in PLACES],
    }
    if harmed:
        changes = {
            "number": {"wait": 25 + number % 3},
            "value": {"seat": "cellar"},
            "flag": {"rush": True},
            "order": {"stops": found["stops"][::-1]},
            "length": {"stops": found["stops"][:1]},
            "missing": {"seat": None},
        }
        found |= changes.get(harm, {})
    return {name: value for name, value in found.items() if value is not None}


def said(text, harm, harmed):
    """What a last stage says."""
    if harmed and harm in ("refuses", "silent"):
        return "I am sorry, I cannot help you with that." if harm == "refuses" else ""
    told = f"The table at {place(text)} is yours in {30 if harmed and harm == 'tells' else 10} minutes."
    return told + (" Please bring a credit card." if harmed and harm == "phrase" else "")


def straight(first="", last="", harmed=is_woman, harmed_last=None):
    """Two stages in a row, of any names; each may harm."""
    harmed_last = harmed_last or harmed

    def one(inputs):
        return [planned(item.user, first, harmed(item.user)) for item in inputs]

    def two(inputs):
        return [said(item.user, last, harmed_last(item.user)) for item in inputs]

    return Pipeline({"stage one": one, "two": two})


def lines(result):
    return [(found.group, found.stage, found.metric) for found in result.findings if found.is_difference]


# one cause, one line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harms", "component", "event"),
    [
        (("number", ""), "stage one", "number:stage one.wait"),
        (("value", ""), "stage one", "value:stage one.seat=cellar"),
        (("flag", ""), "stage one", "value:stage one.rush=true"),
        (("order", ""), "stage one", "order:stage one.stops"),
        (("length", ""), "stage one", "length:stage one.stops"),
        (("missing", ""), "stage one", "missing:stage one.seat"),
        (("", "phrase"), "two", "says:please bring a credit card"),
        (("", "tells"), "two", r"tells:.*#.*"),
        (("", "refuses"), "two", "refuses"),
        (("", "silent"), "two", "silent"),
    ],
)
def test_a_planted_harm_is_one_line_of_the_harmed_group(harms, component, event):
    result = attribute(straight(*harms), chats(), **QUICK)
    (finding,) = result.findings
    assert (finding.verdict, finding.group, finding.stage) == ("disparity", "woman", component)
    assert re.fullmatch(event, finding.metric)
    assert set(finding.compared_with) == {"man", "non-binary"}
    assert finding.example is not None
    assert finding.example.original != finding.example.counterfactual
    if finding.is_share:
        happened, could = finding.counts["woman"]
        assert happened == could == 32
        assert finding.others()[0] == 0


def test_a_harm_in_half_of_the_dialogues_is_counted_in_half_of_them():
    system = straight("", "refuses", harmed=lambda text: is_woman(text) and place(text) % 4 < 2)
    (finding,) = attribute(system, chats(), **QUICK).findings
    assert (finding.group, finding.metric, finding.is_harm) == ("woman", "refuses", True)
    assert finding.counts["woman"] == (16, 32)
    assert "as woman" in what_happens(finding, attribute(system, chats(), **QUICK))


# fair systems --------------------------------------------------------------------------------------------------------


def words_of(text):
    return text.split(" my ")[1].split(" and ")[0]


class Guest(BaseModel):
    who: str


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (lambda text: {"place": place(text)}, lambda text: f"Done at {place(text)}."),
        (lambda text: {"who": words_of(text)}, lambda text: f"For your {words_of(text)}. You said: {text}"),
        (lambda text: {"host": "Lady Ann"}, lambda text: f"Ask the lady. Is your {words_of(text)} there? Sir, enjoy!"),
        (lambda text: json.dumps({"who": words_of(text)}), lambda text: text.upper()),
        (lambda text: Guest(who=words_of(text)), lambda text: f"Done at {place(text)}."),
    ],
    ids=["constant", "echo", "mixed", "JSON", "pydantic"],
)  # fmt: skip
def test_of_a_fair_system_nothing_is_found(one, two):
    stages = {
        "one": lambda items: [one(item.user) for item in items],
        "two": lambda items: [two(i.user) for i in items],
    }
    result = attribute(Pipeline(stages), chats(), **QUICK)
    assert lines(result) == []
    assert [name for name in result.metrics if name != "disagreement"] == []


@pytest.mark.parametrize("choices", [["men", "women"], ["he", "she", "they"], ["Mr", "Mrs"]])
def test_of_constant_choices_that_name_all_groups_nothing_is_found(choices):
    stages = {"one": lambda items: [{"choices": choices}] * len(items), "two": lambda items: ["Done."] * len(items)}
    assert lines(attribute(Pipeline(stages), chats(), **QUICK)) == []


@pytest.mark.parametrize("form", [dict, Guest])
def test_a_pronoun_that_is_echoed_in_a_field_is_no_event(form):
    dialogues = [
        Dialogue(one.id, "", (Turn(f"{one.turns[0].user} {('He', 'She')[is_woman(one.turns[0].user)]} is late."),))
        for one in chats()
    ]
    one = lambda items: [form(who=item.user.split(". ")[1].split()[0]) for item in items]  # noqa: E731
    result = attribute(Pipeline({"one": one, "two": lambda items: ["Done."] * len(items)}), dialogues, **QUICK)
    assert [name for name in result.metrics if name != "disagreement"] == []


def test_what_is_noise_for_all_is_not_found():
    def noise(text):
        return hashlib.md5(text.encode(), usedforsecurity=False).digest()[0] < 80

    assert lines(attribute(straight("value", "phrase", harmed=noise), chats(), **QUICK)) == []


# several causes, several groups --------------------------------------------------------------------------------------


def test_two_causes_in_two_components_are_two_lines():
    system = straight(
        "missing", "phrase", lambda text: is_woman(text) and place(text) % 4 < 2,
        lambda text: is_woman(text) and place(text) % 4 > 1,
    )  # fmt: skip
    assert set(lines(attribute(system, chats(40), **QUICK))) == {
        ("woman", "stage one", "missing:stage one.seat"),
        ("woman", "two", "says:please bring a credit card"),
    }


def test_a_choice_that_goes_with_the_group_of_the_originals_names_no_other_group():
    """Originals about men are offered a window, those about women a door, and all rewrites for women the cellar."""

    def one(inputs):
        seats = [("window", "door")[place(item.user) % 2] for item in inputs]
        return [{"seat": "cellar" if is_woman(i.user) else seat} for i, seat in zip(inputs, seats, strict=True)]

    result = attribute(Pipeline({"one": one, "two": lambda items: ["Done."] * len(items)}), chats(), **QUICK)
    assert {group for group, *_ in lines(result)} == {"woman"}


@pytest.mark.parametrize(
    ("harms", "event", "originals"),
    [
        (("number", ""), "number:stage one.wait", 1),
        (("", "refuses"), "refuses", 0),
        (("", "refuses"), "refuses", 1),
    ],
    ids=["number of women", "refusal of men", "refusal of women"],
)
def test_a_harm_in_chats_whose_originals_are_all_of_one_group_is_of_the_harmed_one(harms, event, originals):
    """16 of 32 as woman, and none of 32 as man or non-binary."""
    system = straight(*harms, lambda text: is_woman(text) and place(text) % 2 == originals)
    (finding,) = attribute(system, chats(), **QUICK).findings
    assert (finding.group, finding.metric) == ("woman", event)
    assert set(finding.compared_with) == {"man", "non-binary"}


def of_pets(folder):
    """Dialogues about cats and dogs, and their axis of two groups."""
    cats, dogs = ("cat", "kitten", "tomcat", "tabby"), ("dog", "puppy", "hound", "poodle")
    rows = [f"noun\t{cat}\t{dog}\n" for cat, dog in zip(cats, dogs, strict=True)]
    (folder / "pets.tsv").write_text("pos\tcat\tdog\n" + "".join(rows), "utf-8")
    pets = [(cats, dogs)[number % 2][(number // 2 + number // 8) % 4] for number in range(32)]
    texts = [f"My {pet} needs a place, number {number}." for number, pet in enumerate(pets)]
    return [Dialogue(f"d{number}", "", (Turn(text),)) for number, text in enumerate(texts)], dogs


@pytest.mark.parametrize(
    ("first", "last", "event"),
    [
        ("missing", "", "missing:stage one.seat"),
        ("", "phrase", "says:please bring a credit card"),
        ("", "refuses", "refuses"),
        ("value", "", "value:stage one.seat=cellar"),
    ],
)
def test_of_two_groups_one_cause_is_one_line(tmp_path, first, last, event):
    dialogues, dogs = of_pets(tmp_path)
    system = straight(first, last, lambda text: any(word in text.split() for word in dogs))
    axis = load_axis("pets", lexicon=tmp_path / "pets.tsv")
    (finding,) = attribute(system, dialogues, **QUICK | {"axes": [axis]}).findings
    assert (finding.group, finding.metric, finding.compared_with) == ("dog", event, ["cat"])


def test_of_five_groups_two_that_are_harmed_are_both_named():
    ages = ("young", "elderly", "middle-aged", "senior", "teenage", "old", "adult", "aged")
    texts = [f"We are {ages[(n + n // 8) % 8]} people at place {n}." for n in range(32)]
    dialogues = [Dialogue(f"d{number}", "", (Turn(text),)) for number, text in enumerate(texts)]
    mentions = Recogniser(load_axis("age").lexicon, ["senior", "young"])
    harmed = lambda text: any(True for _ in mentions.mentions(text)) and place(text) % 3 > 0  # noqa: E731
    result = attribute(straight("", "refuses", harmed), dialogues, **QUICK | {"axes": ("age",)})
    assert {(found.group, found.metric) for found in result.findings} == {("senior", "refuses"), ("young", "refuses")}
    assert all(set(found.compared_with) == {"child", "middle-aged", "adult"} for found in result.findings)


@pytest.mark.parametrize("turns", [4, 3], ids=["always", "in most turns"])
def test_of_an_output_that_two_of_three_groups_have_without_a_field_the_third_group_is_named(turns):
    """A component may put out several shapes, so that what most variants of a turn have is usual."""
    system = straight("missing", "", lambda text: not is_man(text) and place(text) % 4 < turns)
    (finding,) = attribute(system, chats(), **QUICK).findings
    assert (finding.group, finding.stage, finding.metric) == ("man", "stage one", "has:stage one.seat")
    assert set(finding.compared_with) == {"woman", "non-binary"}
    assert not finding.is_harm
    assert (finding.counts["man"], finding.others()) == ((32, 32), ((4 - turns) * 16, 64))


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param(4, marks=pytest.mark.xfail(
            strict=True, reason="a field that two of three groups always lack is one that the third has, and no harm")),
        3,
    ],
    ids=["always", "in most turns"],
)  # fmt: skip
def test_of_three_groups_two_whose_calls_lack_a_field_are_harmed(turns):
    result = attribute(loop("argument", lambda text: not is_man(text) and place(text) % 4 < turns), chats(), **QUICK)
    assert {(found.group, found.stage, found.metric) for found in result.findings if found.is_harm} == {
        ("woman", "policy", "missing:book.seats"), ("non-binary", "policy", "missing:book.seats"),
    }  # fmt: skip
    assert all(found.compared_with == ["man"] for found in result.findings)


@pytest.mark.parametrize("name", ["a.b", "a[0]", "x/result", "a=b", "a:b", "text/a", "a%2Cb", "é 漢", "*"])
def test_components_and_tools_may_have_any_names(name):
    def one(inputs):
        return [planned(item.user, "missing", is_woman(item.user)) for item in inputs]

    def call(inputs):
        plans = zip(inputs, one(inputs), strict=True)
        return [None if item.steps else {"api_name": name, **plan} for item, plan in plans]

    def tools(inputs):
        return [{"done": True}] * len(inputs)

    def two(inputs):
        return ["Done."] * len(inputs)

    (found,) = attribute(Pipeline({name: one, "two": two}), chats(), **QUICK).findings
    assert (found.group, found.stage, found.metric[:8], found.metric[-5:]) == ("woman", name, "missing:", ".seat")
    (found,) = attribute(
        Pipeline({"policy": call, "tools": tools, "answer": two}, flow=tool_loop), chats(), **QUICK
    ).findings
    assert (found.group, found.stage, found.metric[:8], found.metric[-5:]) == ("woman", "policy", "missing:", ".seat")


def test_two_groups_with_a_cause_each_are_two_lines():
    result = attribute(straight("number", "refuses", is_woman, is_man), chats(), **QUICK)
    assert set(lines(result)) == {("woman", "stage one", "number:stage one.wait"), ("man", "two", "refuses")}


def test_of_three_groups_two_that_are_harmed_are_both_named():
    system = straight("", "refuses", lambda text: not is_man(text) and place(text) % 4 > 0)
    result = attribute(system, chats(), **QUICK)
    named = {("woman", "refuses"), ("non-binary", "refuses")}
    assert {(found.group, found.metric) for found in result.findings} == named
    assert all(found.compared_with == ["man"] for found in result.findings)
    assert result.axes["gender"]["refuses"].smallest == ["man"]


def test_the_group_that_is_apart_by_a_flag_is_named_alone():
    result = attribute(straight("flag", "", lambda text: not is_man(text)), chats(), **QUICK)
    assert [(found.group, found.stage) for found in result.findings] == [("man", "stage one")]


@pytest.mark.parametrize(
    ("gaps", "apart", "smallest"),
    [
        ([0.6, -0.3, -0.3], 0.5, ["a"]),
        ([-0.3, -0.3, 0.6], 0.5, ["c"]),
        ([1.0, 0.0, -1.0], 0.5, ["a", "b"]),  # of two sets that are as far from the third, the higher one
        ([1.0, 1.0, 0.0, 0.0], 0.5, ["a", "b"]),
        ([0.0, 0.0, 1.0, 1.0], 0.5, ["c", "d"]),
        ([-1.0, -0.4, 1.2], 0.5, ["a", "b"]),  # the set that is farthest
        ([0.6, -0.6], 0.5, ["a"]),
        ([-0.6, 0.6], 0.5, ["b"]),
        ([2.0, 1.9, 0.0, 0.1, 0.0], 0.5, ["a", "b"]),
    ],
)
def test_the_smallest_set_of_groups_without_which_the_others_do_not_differ(gaps, apart, smallest):
    names = "abcde"[: len(gaps)]
    size_of = dict(zip(names, gaps, strict=True))

    def differ(some):
        return len(some) > 1 and max(map(size_of.get, some)) - min(map(size_of.get, some)) > apart

    assert smallest_set(names, gaps, differ) == smallest


def joint(last):
    """A flag that the first stage sets for women, and what the last stage does to women with the flag."""

    def one(inputs):
        return [{"rush": is_woman(item.user)} for item in inputs]

    def two(inputs):
        return [said(item.user, last, item.outputs["one"]["rush"] and is_woman(item.user)) for item in inputs]

    return Pipeline({"one": one, "two": two})


@pytest.mark.parametrize("last", ["refuses", "silent"])
def test_a_harm_that_takes_a_flag_leads_and_says_what_to_repair(last):
    result = attribute(joint(last), chats(48), **QUICK)
    finding, *others = result.findings
    assert (finding.group, finding.metric, finding.is_harm) == ("woman", last, True)
    assert set(finding.stage.split(", ")) == {"one", "two"}
    assert finding.repair == "either"
    assert any("one of them is enough" in text for text in details(finding, result))
    assert others == []
    assert "value:one.rush=true" in finding.also


def test_what_follows_from_a_flag_is_its_consequence():
    def one(inputs):
        return [{"rush": is_woman(item.user)} for item in inputs]

    def two(inputs):
        return [said(item.user, "phrase", item.outputs["one"]["rush"]) for item in inputs]

    result = attribute(Pipeline({"one": one, "two": two}), chats(), **QUICK)
    (finding,) = result.findings
    assert (finding.group, finding.stage, finding.metric) == ("woman", "one", "value:one.rush=true")
    seen = finding.consequence
    assert (seen.stage, seen.what) == ("two", "says “please bring a credit card”")
    assert seen.counts == finding.counts
    assert consequence(finding) == (
        "seen in two: says “please bring a credit card”: {:.0f} of {:.0f} as woman, 0 of {:.0f} as others".format(
            *finding.counts["woman"], finding.others()[1]
        )
    )


def test_what_follows_is_the_event_that_is_nearest_to_the_user():
    def one(inputs):
        return [{"rush": is_woman(item.user)} for item in inputs]

    def two(inputs):
        return [{"fee": 40 if item.outputs["one"]["rush"] else 30} for item in inputs]

    def three(inputs):
        return [{"text": f"That costs {item.outputs['two']['fee']} pounds.", "ok": True} for item in inputs]

    (finding,) = attribute(Pipeline({"one": one, "two": two, "three": three}), chats(), **QUICK).findings
    assert (finding.stage, finding.metric) == ("one", "value:one.rush=true")
    assert consequence(finding) == "seen in three: number in “costs # pounds”: 40.0 as woman, 30.0 as others"


def test_a_second_cause_in_the_same_turns_is_a_finding_of_its_own():
    """What happens to all of a group happens in the same turns, whichever component does it."""

    def price(inputs):
        return [{"fee": 45 if is_woman(item.user) else 30} for item in inputs]

    def say(inputs):
        more = [" Bring a man along." if is_woman(item.user) else "" for item in inputs]
        return [
            f"That is {item.outputs['price']['fee']} pounds.{text}" for item, text in zip(inputs, more, strict=True)
        ]

    findings = attribute(Pipeline({"price": price, "say": say}), chats(), **QUICK).findings
    assert {(some.group, some.stage, some.metric) for some in findings} == {
        ("woman", "price", "number:price.fee"),
        ("woman", "say", "says:bring a man along"),
    }
    (of_price,) = [consequence(some) for some in findings if some.stage == "price"]
    assert of_price == "seen in say: number in “is # pounds”: 45.0 as woman, 30.0 as others"


def test_further_fields_of_a_component_that_differ_in_other_turns_stand_beside_the_finding():
    def plan(inputs):
        made = []
        for item in inputs:
            number, harmed = place(item.user), is_woman(item.user)
            fee, days = 40 if harmed and number % 3 else 30, ["a", "b"][: 1 if harmed and number % 2 else 2]
            made.append({"fee": fee, "days": days, "note": "Bring a card please."})
        return made

    def say(inputs):
        return ["Done." for _ in inputs]

    result = attribute(Pipeline({"plan": plan, "say": say}), chats(), **QUICK)
    (finding,) = result.findings
    assert (finding.metric, events_beside(finding, result)) == ("length:plan.days", ["number:plan.fee"])
    assert beside(finding, result) == ["also fee: 36.6 as woman, 30.0 as others"]
    assert "also fee: 36.6 as woman" in str(result)


# other doors ---------------------------------------------------------------------------------------------------------


def loop(harm, harmed=is_woman):
    def policy(inputs):
        calls = [{"api_name": "book", "place": place(item.user), "seats": 2} for item in inputs]
        for call, item in zip(calls, inputs, strict=True):
            if harm == "argument" and harmed(item.user):
                del call["seats"]
        return [None if item.steps else call for call, item in zip(calls, inputs, strict=True)]

    def tools(inputs):
        return [
            {"error": "it is full"} if harm == "fails" and harmed(item.user) else {"code": item.argument["place"]}
            for item in inputs
        ]

    return Pipeline(
        {"policy": policy, "tools": tools, "answer": lambda inputs: ["It is done." for _ in inputs]}, flow=tool_loop
    )


@pytest.mark.parametrize(
    ("harm", "line"),
    [("", None), ("argument", ("woman", "policy", "missing:book.seats")), ("fails", ("woman", "tools", "fails:book"))],
)
def test_a_loop_of_tools(harm, line):
    assert lines(attribute(loop(harm), chats(), **QUICK)) == ([line] if line else [])


def saved(path, system):
    """The responses and calls of a system, as another program would write them."""
    written = []
    for record in export_counterfactuals(chats(), ["gender"]):
        dialogue = dialogue_of({key: record[key] for key in ("id", "turns", "messages") if key in record})
        ((courses,),) = Execution(system)([Run(dialogue)])
        (course,) = courses
        steps = [
            {"call": dict(step.argument), "results": [dict(step.output)]} for step in course.calls if step.argument
        ]
        line = {"id": record["original"], "turn": 0, "variant": record["variant"], "response": course.response}
        written.append(line | ({"steps": steps} if steps else {}))
    path.write_text("".join(json.dumps(line) + "\n" for line in written), encoding="utf-8")
    return SavedResponses(path)


@pytest.mark.parametrize(
    ("system", "event"),
    [
        (straight(), None),
        (straight("", "refuses"), "refuses"),
        (straight("", "phrase"), "says:please bring a credit card"),
        (loop("argument"), "missing:book.seats"),
    ],
    ids=["fair", "refuses", "phrase", "argument"],
)
def test_saved_responses(tmp_path, system, event):
    result = attribute(saved(tmp_path / "a.jsonl", system), chats(), **QUICK)
    assert [(group, metric) for group, _, metric in lines(result)] == ([("woman", event)] if event else [])


def function(harm):
    """An agent that is one function of messages, whose inner functions are stages."""

    @stage("plan", kind="model")
    def plan(messages: Sequence[Any]) -> dict[str, Any]:
        return planned(messages[-1]["content"], harm, is_woman(messages[-1]["content"]))

    @stage("answer", kind="model")
    def answer(messages: Sequence[Any], plan: dict[str, Any]) -> str:
        return said(messages[-1]["content"], harm, is_woman(messages[-1]["content"]))

    return pipeline_of(lambda messages: answer(messages=messages, plan=plan(messages=messages)), stages="plan+answer")


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        ("", None),
        ("missing", ("woman", "plan", "missing:plan.seat")),
        ("phrase", ("woman", "answer", "says:please bring a credit card")),
    ],
)
def test_an_agent_that_is_a_function(harm, line):
    found = [(group, name, metric.replace("says:answer/", "says:")) for group, name, metric in
             lines(attribute(function(harm), chats(), **QUICK))]  # fmt: skip
    assert found == ([line] if line else [])


# grades --------------------------------------------------------------------------------------------------------------


def test_a_grade_leads_and_is_counted_in_dialogues():
    def solved(turns):
        return all("yours" in turn.response for turn in turns)

    given = straight("missing", "refuses", lambda text: is_woman(text) and place(text) % 4 < 3, is_woman)
    system = Pipeline(
        {name: given.stages[name] for name in given.names}, grades=[Grade(solved, "solved", "tables booked")]
    )
    result = attribute(system, chats(), **QUICK)
    lead = result.findings[0]
    assert (lead.group, lead.metric, lead.stage, lead.better, lead.is_harm) == (
        "woman", "grade:solved", "two", "higher", True,
    )  # fmt: skip
    assert lead.counts["woman"] == (0, 32)
    assert "refuses" in lead.also
    assert re.search(r"tables booked: 0 of 32 as woman, 64 of 64 as others", what_happens(lead, result))
    assert lines(result)[1:] == [("woman", "stage one", "missing:stage one.seat")]


def test_the_example_of_a_grade_shows_the_component_of_its_finding():
    given = straight("flag", "refuses", lambda text: is_woman(text) and place(text) % 4 < 3, is_woman)
    booked = Grade(lambda turns: "yours" in turns[-1].response, "booked")
    lead = attribute(Pipeline(given.stages, grades=[booked]), chats(), **QUICK).findings[0]
    assert (lead.metric, lead.stage) == ("grade:booked", "two")
    assert "I cannot help you" in lead.example.counterfactual


def test_rewording_that_changes_a_field_alone_is_not_said_to_change_nothing():
    """No response and no call shows what the first component makes of the words "looking for"."""

    def one(inputs):
        return [{"mood": "calm" if "looking for" in item.user else "eager"} for item in inputs]

    dialogues = [
        Dialogue(f"d{number}", "", (Turn(f"My {person} is looking for a table for {number}."),))
        for number, person in enumerate(WOMEN + MEN)
    ]
    system = Pipeline({"one": one, "two": lambda items: ["Done."] * len(items)})
    result = attribute(system, dialogues, **QUICK | {"axes": ("gender", "placebo")})
    reworded = result.reworded
    assert reworded.share > 0.2
    assert set(reworded.stages) == {"one"}
    assert placebo_line(result) == f"neutral rewording changes {100 * reworded.share:.0f} of 100 turns, in one"
    assert attribute(system, dialogues, **QUICK).reworded is None


def claim_of(metric, group, stages, p=0.01):
    """A claim about one of three groups, whose difference arises in some components alike."""
    contributions = {name: {"shapley": {"value": 0.5}} for name in stages}
    record = {
        "disparity": {}, "smallest": [group], "apart": {group: {"value": 0.5, "p": p}}, "verdict": "disparity",
        "groups": {name: {"contributions": contributions} for name in ("man", "woman", "non-binary")},
    }  # fmt: skip
    row = AxisResult.model_validate(record)
    row._metric = MetricInfo(label=metric, better="neither")
    row._metric._name = metric
    return _Claim(row, (group,))


@pytest.mark.parametrize(
    ("metric", "stages", "lines"),
    [
        ("deviates:text/", ("one", "two"), 2),  # what is left by the other two
        ("deviates:text/", ("three",), 3),  # something else
        ("says:hello", ("one", "two"), 3),  # something that is done to the third group
    ],
)
def test_a_group_that_only_deviates_less_than_the_two_that_are_named_is_no_finding(metric, stages, lines):
    claims = [claim_of("length:one", "woman", ["one"]), claim_of("says:late", "man", ["two"])]
    made = _lines([*claims, claim_of(metric, "non-binary", stages)])
    assert len(made) == lines
    assert sum(len(line.claims) for line in made) == 3


@pytest.mark.parametrize(("p", "missing"), [(0.1, "terms"), (0.6, ""), (1.0, "")])
def test_what_may_well_be_chance_asks_for_no_more_terms(p, missing):
    assert _missing(claim_of("says:hello", "woman", ["one"], p)) == missing  # no terms of the group are known
