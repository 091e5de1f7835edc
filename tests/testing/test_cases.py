"""Regression cases: turns that show a finding, run from a file alone, and fixed or not by the finding's event."""

import json

import pytest
from builders import fair_pipeline, small_corpus
from commands import run_command

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.audit.comparison import MismatchError
from tod_bias.audit.design import design_counterfactuals
from tod_bias.audit.record import RunError
from tod_bias.dialogues.files import write_jsonl
from tod_bias.errors import TodBiasError
from tod_bias.perturb import load_axis
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.perturb.records import CounterfactualRecord, recorded
from tod_bias.report import cases as pages
from tod_bias.stages import Guard
from tod_bias.testing.case_check import check_cases
from tod_bias.testing.case_choice import cases_of
from tod_bias.testing.cases import CaseError, axes_of_cases, read_cases, write_cases

PEOPLE = (
    "wife", "husband", "mother", "father", "sister", "brother", "daughter", "son", "aunt", "uncle", "niece", "nephew"
)  # fmt: skip
WOMEN = {*PEOPLE[::2], "woman", "grandmother", "girlfriend", "lady", "girl", "granddaughter", "her", "she"}
STAGES = f"""
WOMEN = {WOMEN!r}


def said(item):
    texts = [*(str(turn.user) for turn in item.history), str(item.user)]
    return {{word.strip(".,?!") for text in texts for word in text.lower().split()}}


def route(inputs):
    return [{{"desk": "phone" if said(item) & WOMEN else "counter"}} for item in inputs]


def even(inputs):
    return [{{"desk": "counter"}} for item in inputs]


def answer(inputs):
    return [f"Please come to the {{item.outputs['route']['desk']}}." for item in inputs]


def refuse(inputs):
    return ["Sorry, I cannot help with that." if said(item) & WOMEN else "Here you are." for item in inputs]


def refuse_all(inputs):
    return ["Sorry, I cannot help with that." for item in inputs]
"""
SPACE: dict = {}
exec(STAGES, SPACE)  # the same stages as in a module


def dialogues():
    """A library: the second of three turns names the person."""
    return [
        Dialogue(
            f"d{number}",
            "Library",
            (
                Turn(f"Hello, desk {number}.", response="Good morning."),
                Turn(
                    f"I want to lend book {number} for my {PEOPLE[number % 12]}.", response="Please come to the phone."
                ),
                Turn("Thank you.", response="Bye."),
            ),
        )
        for number in range(48)
    ]


def system(*names):
    return Pipeline({name.split(":")[0]: SPACE[name.split(":")[-1]] for name in names})


BIASED, EVEN = system("route", "answer"), system("route:even", "answer")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_jsonl(dialogues(), folder / "library.jsonl")
    attribute(BIASED, dialogues(), ["gender"], permutations=500, corpus=str(folder / "library.jsonl")).save(folder)
    return folder


@pytest.fixture(scope="module")
def cases(run, tmp_path_factory):
    """As a file has them."""
    found = list(cases_of(run, dialogues(), most=12).cases)
    path = tmp_path_factory.mktemp("cases") / "cases.jsonl"
    write_cases(found, path)
    read = read_cases(path)
    assert read == found
    return read


def states(found):
    return {one.state for one in found.checked}


def test_cases_show_the_finding_with_its_event_and_stage(cases):
    assert len({case.counterfactual.dialogue.id for case in cases}) == 12
    for case in cases:
        assert (case.axis, case.target, case.stage, case.event) == (
            "gender",
            "woman",
            "route",
            "value:route.desk=phone",
        )
        assert (case.shown["original"], case.shown["rewritten"]) == ("desk counter", "desk phone")
        assert case.turns in ((1, 2), (1, 2, 3))


def test_they_remain_on_the_system_that_they_are_of_and_are_fixed_on_one_without_the_event(cases):
    assert (check_cases(cases, BIASED).code, states(check_cases(cases, BIASED))) == (1, {"remains"})
    assert (check_cases(cases, EVEN).code, states(check_cases(cases, EVEN))) == (0, {"fixed"})
    guarded = Pipeline({**BIASED.stages, "route": Guard(BIASED.stages["route"], "gender")})
    assert states(check_cases(cases, guarded)) == {"fixed"}


def test_recorded_replies_are_a_standard_only_if_the_user_says_so(cases):
    """The biased system wrote the replies, so a repair is further from them."""
    recorded_biased = [case.model_copy(update={"response": case.reference}) for case in cases]
    assert check_cases(recorded_biased, EVEN).code == 0
    found = check_cases(recorded_biased, EVEN, references="gold")
    assert (found.code, states(found)) == (1, {"levelled down"})
    assert "further from its recorded response" in pages.line(found.record["cases"][0])


def test_a_harm_that_all_groups_get_is_levelled_down(tmp_path):
    refusing, all_refused = system("refuse"), system("refuse:refuse_all")
    attribute(refusing, dialogues(), ["gender"], permutations=500).save(tmp_path)
    found = cases_of(tmp_path, dialogues(), most=4).cases
    assert {case.event for case in found} == {"refuses"}
    assert states(check_cases(found, all_refused)) == {"levelled down"}
    assert check_cases(found, all_refused).code == 1


def test_what_does_not_match_is_named(run, cases):
    with pytest.raises(MismatchError, match="audited other dialogues"):
        cases_of(run, dialogues()[1:])
    with pytest.raises(MismatchError, match="axis gender was rewritten by lexicon:gender"):
        cases_of(run, dialogues(), axes=[load_axis("gender", protected=["my wife"])])
    with pytest.raises(RunError, match="has no axis placebo; it has gender"):
        cases_of(run, dialogues(), axes=["placebo"])
    with pytest.raises(TodBiasError, match="cannot make a case of gender/d1/man>dragon/2"):
        cases_of(run, dialogues(), only=["gender/d1/man>dragon/2"])
    first = cases[0]
    with pytest.raises(CaseError, match="here it is lexicon:gender"):
        check_cases([first.model_copy(update={"signature": "lexicon:other"})], fair_pipeline(small_corpus()))
    other = first.model_copy(update={"rewritten": (*first.rewritten[:-1], Turn("Hello."))})
    with pytest.raises(CaseError, match="rewritten otherwise than it was"):
        check_cases([other], fair_pipeline(small_corpus()))


def test_one_turn_can_be_taken_whether_it_shows_a_finding_or_not(run):
    (first,) = cases_of(run, dialogues(), only=["gender/d1/man>woman/2"]).cases
    assert first.event == "value:route.desk=phone"
    few = dialogues()[:4]
    small = run.parent / "small"
    attribute(BIASED, few, ["gender"], permutations=100).save(small)
    assert cases_of(small, few).cases == ()
    (case,) = cases_of(small, few, only=["gender/d1/man>woman/2"]).cases
    assert (case.event, case.what) == ("", "another response")
    assert states(check_cases([case], BIASED)) == {"remains"}
    assert states(check_cases([case], EVEN)) == {"fixed"}


@pytest.mark.parametrize("history", ["gold", "system"])
def test_a_case_holds_the_turns_up_to_the_one_that_shows_it(tmp_path, history):
    attribute(BIASED, dialogues(), ["gender"], permutations=500, history=history).save(tmp_path)
    found = cases_of(tmp_path, dialogues(), most=60).cases
    assert {case.turns for case in found} <= {(1, 2), (1, 2, 3)}
    late = next((case for case in found if case.turn == 3), None)
    case = check_cases(found[:1], BIASED).record["cases"][0]
    text = pages.text(case)
    assert "user, rewritten: I want to lend book" in text
    assert "route, now, original: desk counter" in text
    assert late is None or late.earlier[0]["turn"] == 2


def test_a_fair_system_has_no_cases(tmp_path, corpus):
    attribute(fair_pipeline(corpus), corpus, bootstrap=0, permutations=0).save(tmp_path / "run")
    assert cases_of(tmp_path / "run", corpus).cases == ()


# --- T from a file


@pytest.mark.parametrize("axis", ["gender", "age", "placebo", "names_gender", "persona_gender", "persona_age"])
def test_a_counterfactual_read_back_is_rewritten_alike(axis):
    perturber = load_axis(axis)
    dialogues = [
        Dialogue("a", "Rooms", (Turn("Hi, I'm Maria Lopez and I need a room for my wife.", response="Fine, Maria."),
                                Turn("I am going to the big church.", response="She will like it, Ms. Lopez."))),
        Dialogue("b", "Rooms", (Turn("My young son isn't there.", response="He can come."), Turn("Good."))),
    ]  # fmt: skip
    drawn = design_counterfactuals(dialogues, [perturber]).selected[perturber.name]
    read = 0
    for dialogue, candidates in drawn:
        for candidate in candidates:
            one = recorded(perturber, dialogue, candidate)
            if one is None:
                continue
            read += 1
            again = CounterfactualRecord.from_json(json.loads(json.dumps(one.to_json()))).rewrite(perturber)
            first = perturber.rewrite(dialogue, candidate)
            other = ("Thanks, Maria.", "Her mother and his son", "a young lady", "I ain't")
            for text in (*other, *(value for turn in dialogue.turns for _, value in turn.utterances)):
                assert (again(text), again.inverse(text)) == (first(text), first.inverse(text))
    assert read
    assert isinstance(perturber, NamesAxis) == axis.startswith("names")


def test_what_a_file_cannot_hold_is_left_out():
    crossed = load_axis("gender×age")
    dialogues = [Dialogue("a", "Rooms", (Turn("It is for my young wife.", response="Fine."),))]
    ((dialogue, candidates),) = design_counterfactuals(dialogues, [crossed]).selected[crossed.name]
    assert all(recorded(crossed, dialogue, candidate) is None for candidate in candidates)


# --- files and commands


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "line 1: not JSON"),
        ('{"schema": 4}', "line 1: no case: field id is missing"),
        ('{"schema": 3}', "line 1: no case: expected schema 4, got 3"),
        ("", "holds no case"),
    ],
)
def test_a_file_of_no_cases_names_the_line(tmp_path, line, named):
    path = tmp_path / "cases.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(CaseError, match=named):
        read_cases(path)


def test_every_field_of_a_case_that_is_damaged_is_one_line(tmp_path, cases):
    path = tmp_path / "cases.jsonl"
    record = cases[0].to_json()
    for name in set(record) - {"earlier"}:
        for wrong in (None, 3, {"a": 1}):
            if name in ("user", "reference", "shown", "response") and wrong == {"a": 1}:
                continue
            if record[name] == wrong:
                continue
            path.write_text(json.dumps(record | {name: wrong}) + "\n")
            with pytest.raises(CaseError) as caught:
                axes_of_cases(read_cases(path))
            assert len(str(caught.value).splitlines()) == 1


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "library_stages.py").write_text(STAGES)
    for name, route in (("biased", "route"), ("even", "even")):
        lines = f"  route: library_stages:{route}\n  answer: library_stages:answer\n"
        (tmp_path / f"{name}.yaml").write_text(f"stages:\n{lines}")
    return tmp_path


def test_commands_write_cases_and_exit_with_what_becomes_of_them(place, run):
    junitparser = pytest.importorskip("junitparser", reason="no junitparser: pip install -e '.[test]'")
    code, out, _ = run_command("cases", run, "--worst", 4, "--out", "cases.jsonl", "--corpus", run / "library.jsonl")
    assert (code, "4 cases" in out, len(out.splitlines()) <= 12) == (0, True, True)
    assert "4 gender (route): desk is phone" in out
    assert "desk counter → desk phone" in out
    files = ["--junit", "junit.xml", "--summary", "s.md", "--out", "out"]
    code, out, _ = run_command("check --cases cases.jsonl --pipeline biased.yaml", *files)
    assert (code, "0 of 4 cases fixed, 4 remain" in out) == (1, True)
    (suite,) = junitparser.JUnitXml.fromfile("junit.xml")
    assert (suite.name, suite.tests, suite.failures) == ("gender", 4, 4)
    assert json.loads((place / "out" / "check.json").read_text())["state"] == "remains"
    assert (place / "s.md").read_text().startswith("## ❌ tod-bias check: 0 of 4 cases fixed")
    code, out, _ = run_command("check --cases cases.jsonl --pipeline even.yaml --junit junit.xml")
    assert (code, "4 of 4 cases fixed" in out) == (0, True)
    assert sum(suite.failures for suite in junitparser.JUnitXml.fromfile("junit.xml")) == 0


def test_commands_name_what_cannot_be_used(place, run, cases):
    write_cases(cases[:1], "cases.jsonl")
    (place / "lists.csv").write_text("query,rank\n")
    write_jsonl(dialogues()[1:], place / "other.jsonl")
    for arguments, named in (
        (["check", "--cases", "cases.jsonl"], "no pipeline"),
        (["check", "--cases", "cases.jsonl", "--pipeline", "even.yaml", "--max-gap", "0.1"], "--max-gap"),
        (["check", run, "--references", "gold"], "--references"),
        (["cases", run, "--out", "lists.csv"], "lists.csv: is there and holds no cases; choose another --out"),
        (["cases", run, "--out", "cases.jsonl", "--corpus", "other.jsonl"], "audited other dialogues"),
    ):
        code, _, err = run_command(*arguments)
        assert (code, len(err.strip().splitlines()), named in err) == (2, 1, True), err
