"""Which events of a run are measured: chosen without looking at groups, one of those that happen in the same turns."""

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.audit import events as module
from tod_bias.audit.events import FEWEST_DIALOGUES, PART_COLUMNS, EventSearch, TablePart, most_events
from tod_bias.audit.screening import FEWEST_IN_FULL, MOST_IN_FULL
from tod_bias.perturb import load_axis
from tod_bias.results import RunError
from tod_bias.systems.facts import Restorer, facts_text
from tod_bias.systems.stage import StageCall


def facts(*steps):
    return facts_text([StageCall(*step) for step in steps], "", Restorer(None))


def turn(response="Hi.", plan=None):
    return facts(*([("plan", None, plan)] if plan is not None else []), ("say", None, response))


def part(dialogues):
    """A part of the table; each dialogue has one turn, and the facts of its variants, the original first."""
    rows = []
    for number, variants in enumerate(dialogues):
        for place, text in enumerate(variants):
            kind = ("original", "original") if not place else ("", "group")
            rows.append(("gender", f"d{number}", 0, *kind, text))
    return TablePart.of(pa.table(dict(zip(PART_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))))


def chosen(dialogues, **options):
    search = EventSearch()
    search.add("gender", part(dialogues))
    return search.chosen(**options)


def names(dialogues, **options):
    return [event.name for event in chosen(dialogues, **options).events]


def harmed(usual, other, count=6, unharmed=2):
    """Dialogues of three variants, the second of which is otherwise."""
    return [(usual, other, usual)] * count + [(usual,) * 3] * unharmed


# one name ------------------------------------------------------------------------------------------------------------

FLAG, NO_FLAG = {"risk": True}, {"risk": False}
PLACES = [{"name": "The Mill"}, {"name": "The Inn"}]
FIND = {"api_name": "find", "city": "Oslo"}
CALL = ("plan", None, FIND), ("tools", FIND, PLACES)


@pytest.mark.parametrize(
    ("usual", "other", "expected"),
    [
        (turn(), turn(), []),
        # the rarer of two values
        (turn(plan=NO_FLAG), turn(plan=FLAG), ["value:plan.risk=true"]),
        (turn(plan=FLAG), turn(plan=NO_FLAG), ["value:plan.risk=false"]),
        # the earliest component
        (turn(plan=NO_FLAG), turn("Bring a card.", plan=FLAG), ["value:plan.risk=true"]),
        # and a harm that goes with it
        (turn(plan=NO_FLAG), turn("I cannot help you with that.", plan=FLAG), ["value:plan.risk=true", "refuses"]),
        (turn(plan=NO_FLAG), turn("", plan=FLAG), ["value:plan.risk=true", "silent"]),
        # a harm that is a field names itself
        (turn(plan={"size": 3}), turn("Bring a card.", plan={"day": 1, "size": ""}),
         ["has:plan.day", "missing:plan.size"]),
        (turn(plan={"size": 3}), turn("Bring a card.", plan={"size": ""}), ["missing:plan.size"]),
        # the longest phrase
        (turn("It is done."), turn("It is done. Please bring a credit card."), ["says:please bring a credit card"]),
        (turn("In 3 days."), turn("In 9 days."), ["tells:in # days"]),
        # one tool before all tools
        (facts(*CALL, ("say", None, "Hi.")),
         facts(CALL[0], ("tools", FIND, {"error": "full"}), ("say", None, "Hi.")), ["fails:find"]),
        (facts(*CALL, ("say", None, "Hi.")), facts(CALL[0], ("tools", FIND, PLACES[:1]), ("say", None, "Hi.")),
         ["found:find"]),
    ],
)  # fmt: skip
def test_events_of_the_same_turns_have_one_name(usual, other, expected):
    assert names(harmed(usual, other)) == expected


def test_a_list_in_another_order_is_one_event_of_many_values():
    lists = [[f"{name} {number}" for name in ("Mill", "Inn", "Yard")] for number in range(8)]
    assert names([(turn(plan=some), turn(plan=some[::-1]), turn(plan=some)) for some in lists]) == ["order:plan"]


def test_what_an_earlier_component_does_names_an_event_before_a_failure_that_follows():
    def call(risk, result):
        return facts(
            ("plan", None, {"risk": risk}), ("plan", None, FIND), ("tools", FIND, result), ("say", None, "Hi.")
        )

    assert names(harmed(call(False, PLACES), call(True, {"error": "full"}))) == ["value:plan.risk=true", "fails:find"]


def test_the_others_are_kept_beside_the_name():
    found = chosen(harmed(turn(plan=NO_FLAG), turn("Hi. Bring a card.", plan=FLAG)))
    (name,) = found.merged
    merged = {event.name: event.stage for event in found.merged[name]}
    assert name == "value:plan.risk=true"
    assert merged["says:bring a card"] == "say"
    assert merged["value:plan.risk=false"] == "plan"
    assert "says:bring" in merged
    assert name not in merged


def test_events_of_other_turns_are_hypotheses_of_their_own():
    usual, flagged, said = turn(plan=NO_FLAG), turn(plan=FLAG), turn("Hi. Bring a card.", plan=NO_FLAG)
    dialogues = [(usual, flagged, usual)] * 5 + [(usual, said, usual)] * 4
    assert names(dialogues) == ["value:plan.risk=true", "says:bring a card"]
    together = [(usual, flagged, said)] * 5
    assert set(names(together)) == {"value:plan.risk=true", "says:bring a card"}


def test_two_tools_that_fail_are_each_an_event_and_both_together():
    def call(tool, result):
        given = {"api_name": tool, "city": "Oslo"}
        return facts(("plan", None, given), ("tools", given, result), ("say", None, "Hi."))

    dialogues = [
        (call(tool, PLACES), call(tool, {"error": "full"}), call(tool, PLACES)) for tool in ("find", "book") * 3
    ]
    assert names(dialogues)[0] == "fails:*"
    assert set(names(dialogues)) == {"fails:*", "fails:book", "fails:find"}


# which are enough ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [FEWEST_DIALOGUES - 1, FEWEST_DIALOGUES])
def test_an_event_differs_in_enough_dialogues(count):
    assert bool(names(harmed(turn(plan=NO_FLAG), turn(plan=FLAG), count))) == (count == FEWEST_DIALOGUES)


def test_a_field_of_many_values_is_no_choice():
    dialogues = [(turn(plan={"id": f"a{n}"}), turn(plan={"id": f"b{n}"}), turn(plan={"id": f"a{n}"})) for n in range(9)]
    assert names(dialogues) == ["deviates:plan.id"]


def test_of_too_many_hypotheses_those_that_differ_in_most_dialogues_are_measured_texts_last():
    usual = turn(plan=NO_FLAG)
    dialogues = [(usual, turn("Hi. Bring a card.", plan=NO_FLAG), usual)] * 9 + [(usual, turn(plan=FLAG), usual)] * 4
    assert names(dialogues) == ["says:bring a card", "value:plan.risk=true"]
    found = chosen(dialogues, most=1)
    assert ([event.name for event in found.events], found.left_out) == (["value:plan.risk=true"], 1)


@pytest.mark.parametrize(("variants", "arms", "number"), [(10, 4, 600), (10**6, 4, 24), (320_000, 2, 100), (0, 0, 600)])
def test_large_runs_measure_fewer_events(variants, arms, number):
    assert most_events(variants, arms) == number


def test_turns_with_a_stage_replaced_are_not_looked_at():
    arms = (("original", "original", NO_FLAG), ("", "group", NO_FLAG), ("plan", "group", FLAG))
    rows = [("gender", f"d{number}", 0, *arm, turn(plan=plan)) for number in range(5) for *arm, plan in arms]
    search = EventSearch()
    table = pa.table(dict(zip(PART_COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))
    search.add("gender", TablePart.of(table))
    assert search.chosen().events == []


def test_phrases_are_looked_for_in_the_first_turns_alone(monkeypatch):
    monkeypatch.setattr(module, "MOST_PHRASES", 2)
    usual = turn(plan=NO_FLAG)
    assert names([(usual, turn("Bring a card.", plan=NO_FLAG), usual)] * 9) == ["deviates:text/"]


def test_facts_that_cannot_be_read_are_told():
    with pytest.raises(RunError, match="column facts cannot be read"):
        part([("{", "{")])


# groups are not looked at --------------------------------------------------------------------------------------------

SAID = ("Hi.", "", "Bring a card.", "Hi. In 3 days.")
SOME = [turn(said, plan=plan) for said in SAID for plan in (None, FLAG, NO_FLAG)]


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(SOME), min_size=3, max_size=3), min_size=4, max_size=8), st.randoms())
def test_the_order_of_the_variants_of_a_dialogue_changes_nothing(dialogues, rng):
    before, after = chosen(dialogues), chosen([rng.sample(variants, 3) for variants in dialogues])
    assert [event.name for event in after.events] == [event.name for event in before.events]
    assert {name: {one.name for one in some} for name, some in after.merged.items()} == {
        name: {one.name for one in some} for name, some in before.merged.items()
    }


PETS = ("cat", "dog", "bird")
LEXICON = "pos\t{}\t{}\t{}\nnoun\tcat\tdog\tbird\n"


def of_pets(folder, groups):
    """Results of an axis whose groups have these names, and whose words stay."""
    (folder / "pets.tsv").write_text(LEXICON.format(*groups), "utf-8")

    def plan(inputs):
        return [{"risk": "dog" in item.user, "size": 3} for item in inputs]

    def say(inputs):
        return ["I cannot help you with that." if "bird" in item.user else "It is done." for item in inputs]

    texts = [f"My {PETS[number % 3]} needs a place, number {number}." for number in range(24)]
    chats = [Dialogue(f"d{number}", "", (Turn(text),)) for number, text in enumerate(texts)]
    axis = load_axis("pets", lexicon=folder / "pets.tsv")
    return attribute(Pipeline({"plan": plan, "say": say}), chats, axes=[axis], permutations=200, bootstrap=0)


@pytest.mark.parametrize("names", [("zebra", "a", "dog"), ("dog", "bird", "cat"), ("bird", "cat", "dog")])
def test_other_names_of_groups_have_the_same_events_and_exchange_the_answer(tmp_path, names):
    first, second = (of_pets(tmp_path, groups) for groups in (PETS, names))
    assert [*first.metrics] == [*second.metrics]
    assert {(f.group, f.metric, f.stage) for f in first.findings} == {
        ("dog", "value:plan.risk=true", "plan"), ("bird", "refuses", "say")
    }  # fmt: skip
    renamed = dict(zip(PETS, names, strict=True))
    assert {(renamed[f.group], f.metric, f.stage) for f in first.findings} == {
        (f.group, f.metric, f.stage) for f in second.findings
    }
    for metric, row in first.axes["pets"].items():
        again = second.axes["pets"][metric]
        assert again.verdict == row.verdict
        for name, group in row.groups.items():
            other = again.groups[renamed[name]]
            assert other.counts == group.counts
            assert [other.gap.value, other.gap.se] == pytest.approx([group.gap.value, group.gap.se], abs=1e-9)
    assert np.isfinite([finding.effect.value for finding in first.findings]).all()


def test_of_many_fields_of_noise_the_one_with_a_direction_is_measured_and_found(tmp_path):
    """Forty fields depend on the words of the message, one on the group."""
    (tmp_path / "pets.tsv").write_text(LEXICON.format(*PETS), "utf-8")

    def drawn(text, number):
        return blake2b(f"{number} {text}".encode(), digest_size=1).digest()[0] < 50

    def plan(inputs):
        return [
            {f"noise_{n}": drawn(item.user, n) for n in range(40)} | {"risk": "dog" in item.user} for item in inputs
        ]

    texts = [f"My {PETS[number % 3]} needs a place, number {number}." for number in range(24)]
    chats = [Dialogue(f"d{number}", "", (Turn(text),)) for number, text in enumerate(texts)]
    axis = load_axis("pets", lexicon=tmp_path / "pets.tsv")
    system = Pipeline({"plan": plan, "say": lambda items: ["It is done."] * len(items)})
    result = attribute(system, chats, axes=[axis], permutations=200, bootstrap=0)
    assert FEWEST_IN_FULL <= len({*result.metrics} - {"disagreement"}) <= MOST_IN_FULL
    assert [(found.group, found.metric) for found in result.findings] == [("dog", "value:plan.risk=true")]
