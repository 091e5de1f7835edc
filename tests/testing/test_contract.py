"""Contract tests: their inputs, that what is shipped passes them, and what each of them catches."""

from dataclasses import replace
from itertools import count

import pytest

from tod_bias import Dialogue, Pipeline, Turn, load_corpus
from tod_bias.errors import StageError
from tod_bias.metrics.events import kinds
from tod_bias.metrics.events.facts import Facts
from tod_bias.metrics.events.turns import TurnEvent
from tod_bias.perturb import Axis, Candidate, load_axis
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.systems.facts import Restorer, facts_text
from tod_bias.systems.stage import StageCall
from tod_bias.testing import AxisContract, CorpusContract, EventContract, StageContract, inputs_of

DIALOGUES = load_corpus("demo", max_dialogues=3)


def response(inputs):
    return [f"You said: {item.user}" for item in inputs]


def tone(inputs):
    return [f"{item.outputs['response']} Have a nice day." for item in inputs]


def check(inputs):
    return [len(item.outputs["tone"]) for item in inputs]


STRAIGHT = Pipeline({"response": response, "tone": tone, "check": check})


class TestStageAfterTheResponse(StageContract):
    @pytest.fixture
    def stage(self):
        return STRAIGHT.stages["check"]

    @pytest.fixture
    def inputs(self):
        return inputs_of(DIALOGUES, STRAIGHT, "check")

    def test_inputs_are_those_of_the_turns_and_hold_what_was_put_out_before(self, inputs):
        users = [turn.user for dialogue in DIALOGUES for turn in dialogue.turns]
        assert [item.user for item in inputs] == users
        assert [item.outputs for item in inputs] == [
            {"response": f"You said: {user}", "tone": f"You said: {user} Have a nice day."} for user in users
        ]


def looping(turn):
    for number in range(2):
        yield "tools", {"number": number}
    yield "answer"


def tools(inputs):
    return [item.argument["number"] for item in inputs]


LOOP = Pipeline({"tools": tools, "answer": lambda inputs: ["Done." for _ in inputs], "spare": tools}, flow=looping)


def test_every_call_of_a_loop_is_an_input_with_its_argument():
    inputs = inputs_of(DIALOGUES, LOOP, "tools")
    turns = sum(len(dialogue.turns) for dialogue in DIALOGUES)
    assert sorted(item.argument["number"] for item in inputs) == [0] * turns + [1] * turns
    assert {tuple(item.outputs.values()) for item in inputs if item.argument["number"] == 1} == {(0,)}


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("smalltalk", "no stage 'smalltalk' in this pipeline; it has tools, answer, spare"),
        ("spare", "stage 'spare': the pipeline does not call it in these 3 dialogues"),
    ],
)
def test_a_stage_without_inputs_is_named(stage, message):
    with pytest.raises(StageError, match=message):
        inputs_of(DIALOGUES, LOOP, stage)


# the contracts of an axis, a kind of events and a corpus: what shipped ones keep, and what each test catches


def failing(contract, *given):
    """The tests of a contract that fail, called with their fixtures in order."""
    failed = set()
    for name in [name for name in vars(contract) if name.startswith("test_")]:
        try:
            getattr(contract(), name)(*given)
        except (AssertionError, ValueError):
            failed.add(name)
    return failed


NAMED = [
    Dialogue(str(number), "", (Turn(f"My name is {name}, and I need a table.", response=f"Thanks, {name}."),))
    for number, name in enumerate(("Emily Baker", "Greg Miller", "Lakisha Jones"))
]


@pytest.mark.parametrize("name", ["gender", "age", "placebo", "persona_gender", "names_gender"])
class TestShippedAxes(AxisContract):
    @pytest.fixture
    def axis(self, name):
        return load_axis(name)

    @pytest.fixture
    def dialogues(self, name):
        return NAMED if name.startswith("names") else load_corpus("demo", max_dialogues=20)


class Tone(Axis):
    """An axis that keeps the contract."""

    name, groups = "tone", ("please", "no please")

    def candidates(self, dialogue):
        return [Candidate("please", "please", "no please")] if "please" in dialogue.turns[0].user else []

    def rewrite(self, dialogue, candidate):
        forward = self.forward
        return DialogueRewrite("tone", candidate.source, candidate.target, candidate.term, forward, lambda text: text)

    def forward(self, text):
        return text.replace(", please", "")


class OfNobody(Tone):
    def candidates(self, dialogue):
        return []


class Unsorted(Tone):
    def candidates(self, dialogue):
        return [*super().candidates(dialogue), *super().candidates(dialogue)]


class OtherGroups(Tone):
    groups = ("polite", "no please")


class ChangesNothing(Tone):
    def forward(self, text):
        return text


class Counts(Tone):
    number = 0

    def forward(self, text):
        self.number += 1
        return f"{text.replace(', please', '')} {self.number}"


class Shortens(Tone):
    def rewrite(self, dialogue, candidate):
        made = super().rewrite(dialogue, candidate)

        def shorter(value):
            return replace(made(value), turns=made(value).turns[:1])

        for name in ("axis", "source", "target"):
            setattr(shorter, name, getattr(made, name))
        shorter.inverse = made.inverse
        return shorter


POLITE = [Dialogue("1", "", (Turn("A table, please.", response="Done."), Turn("Thanks.", response="Welcome.")))]


@pytest.mark.parametrize(
    ("axis", "failed"),
    [
        (Tone, set()),
        (OfNobody, {"test_admits_the_same_rewrites_every_time"}),
        (Unsorted, {"test_admits_the_same_rewrites_every_time"}),
        (OtherGroups, {"test_rewrites_one_of_its_groups_for_another"}),
        (ChangesNothing, {"test_changes_texts_and_nothing_else"}),
        (Counts, {"test_a_rewrite_does_not_depend_on_those_before"}),
        (Shortens, {"test_changes_texts_and_nothing_else", "test_every_rewrite_can_be_undone"}),
    ],
)
def test_what_the_contract_of_an_axis_catches(axis, failed):
    assert failing(AxisContract, axis(), POLITE) == failed


def facts(*steps, failure=""):
    return Facts(facts_text([StageCall(*step) for step in steps], failure, Restorer(None)))


FIND = {"api_name": "find", "city": "Oslo"}
VARIANTS = [
    facts(("plan", None, {"risk": True, "fee": 3}), ("say", None, "I found The Mill in 3 days. Bring a card.")),
    facts(("plan", None, {"risk": False}), ("say", None, "Sorry, I cannot help you with that.")),
    facts(("plan", None, {"risk": False, "fee": 4, "list": ["a"]}), ("say", None, "Which city?")),
    facts(("plan", None, {"list": ["b", "a"]}), ("say", None, "")),
    facts(("plan", None, FIND), ("tools", FIND, [{"name": "Mill", "fee": 3}]), ("say", None, "The Mill.")),
    facts(("plan", None, FIND), ("tools", FIND, [{"name": "Mill", "fee": 3}, {"name": "Inn"}]), ("say", None, "Two.")),
    facts(("plan", None, {"risk": True}), ("write", None, ""), ("say", None, "Ok."), failure="broken"),
    facts(("plan", None, FIND), ("tools", FIND, []), ("write", None, "Hi"), ("say", None, "None.")),
    facts(("plan", None, FIND), ("tools", FIND, {"error": "no such city"}), ("say", None, "An error.")),
]
OF_OTHERS = {"order", "deviates", "tells"}
"""Kinds that compare with most variants, or with the words around."""


@pytest.mark.parametrize("name", sorted(kinds().keys() - OF_OTHERS))
class TestShippedKinds(EventContract):
    @pytest.fixture
    def kind(self, name):
        return kinds()[name]

    @pytest.fixture
    def turns(self):
        return VARIANTS


class Shouts(TurnEvent):
    """A kind that keeps the contract."""

    kind, words, doing = "shouts", "responses in capitals", "shout"

    @classmethod
    def of_turn(cls, facts):
        return float(facts.response.isupper())


class Never(Shouts):
    @classmethod
    def of_turn(cls, facts):
        return 0.0


class Mute(Shouts):
    words, doing = "", ""


class Percent(Shouts):
    @classmethod
    def of_turn(cls, facts):
        return 100.0 * facts.response.isupper()


class HidesIt(Shouts):
    @classmethod
    def shown(cls, facts):
        yield (), 0.0


class Nameless(Shouts):
    @classmethod
    def parsed(cls, place):
        return None


LOUD = [facts(("say", None, "NO.")), facts(("say", None, "No."))]


@pytest.mark.parametrize(
    ("kind", "failed"),
    [
        (Shouts, set()),
        (Never, {"test_turns_differ_in_an_event"}),
        (HidesIt, {"test_turns_differ_in_an_event", "test_turns_that_show_the_same_are_read_alike"}),
        (Nameless, {"test_a_name_is_one_line_and_names_one_event"}),
        (Percent, {"test_readings_are_within_its_range"}),
        (Mute, {"test_says_what_happens"}),
    ],
)
def test_what_the_contract_of_a_kind_of_events_catches(kind, failed):
    assert failing(EventContract, kind, LOUD) == failed


class TestDemo(CorpusContract):
    @pytest.fixture
    def read(self):
        return lambda: load_corpus("demo", max_dialogues=20)


GREETING = Dialogue("1", "Small talk", (Turn("Hello!", response="Hello to you."),))


@pytest.mark.parametrize(
    ("dialogues", "failed"),
    [
        ([GREETING], set()),
        ([], {"test_dialogues_have_different_ids"}),
        ([GREETING, GREETING], {"test_dialogues_have_different_ids"}),
        ([replace(GREETING, id=1)], {"test_dialogues_survive_a_file"}),
        ([replace(GREETING, domain=None)], {"test_dialogues_survive_a_file"}),
        ([replace(GREETING, turns=(Turn("", response="Hello."),))], {"test_every_user_says_something"}),
    ],
)
def test_what_the_contract_of_a_corpus_catches(dialogues, failed):
    assert failing(CorpusContract, lambda: dialogues) == failed


def test_a_reader_that_never_reads_the_same_is_caught():
    ids = map(str, count())
    assert failing(CorpusContract, lambda: [replace(GREETING, id=next(ids))]) == {"test_reads_the_same_every_time"}
