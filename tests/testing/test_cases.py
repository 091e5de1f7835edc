"""Regression cases: the worst counterfactuals name the planted stage, run from a file alone, and are fixed or not."""

import json

import pytest
from builders import fair_pipeline, small_corpus
from commands import run_command

from tod_bias import Dialogue, Pipeline, Turn, attribute, load_corpus, load_pipeline
from tod_bias.audit.comparison import MismatchError
from tod_bias.audit.design import design_counterfactuals
from tod_bias.audit.record import RunError
from tod_bias.dialogues.corpora import DEMO
from tod_bias.errors import MetricError
from tod_bias.metrics.choice import metric
from tod_bias.mitigation.missing_rows import check_database
from tod_bias.perturb import load_axis
from tod_bias.perturb.names.axis import NamesAxis
from tod_bias.perturb.records import CounterfactualRecord, recorded
from tod_bias.report import cases as pages
from tod_bias.stages import Guard, LookupDb
from tod_bias.testing.case_check import check_cases
from tod_bias.testing.case_runs import CaseRunner
from tod_bias.testing.cases import CaseError, axes_of_cases, read_cases, write_cases
from tod_bias.testing.worst import worst_cases

PLANTED = {"gender": "response", "age": "api_call", "race": "db"}


@pytest.fixture(scope="module")
def demo():
    return load_corpus("demo", max_dialogues=16)


@pytest.fixture(scope="module")
def run(demo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    attribute(load_pipeline("demo"), demo, list(PLANTED), bootstrap=0, permutations=0, corpus="demo").save(folder)
    return folder


@pytest.fixture(scope="module")
def system():
    return load_pipeline("demo")


@pytest.fixture(scope="module")
def cases(run, demo, tmp_path_factory):
    """As a file has them."""
    found = list(worst_cases(run, demo, most=12).cases)
    path = tmp_path_factory.mktemp("cases") / "cases.jsonl"
    write_cases(found, path)
    read = read_cases(path)
    assert read == found
    return read


def states(found):
    return {(one.case.axis, one.state) for one in found.checked}


def guarded(system, axis, **options):
    stages = {PLANTED[axis]: Guard(system.stages[PLANTED[axis]], axis, **options)}
    return Pipeline({**system.stages, **stages})


def test_the_worst_cases_of_an_axis_name_the_planted_stage(cases):
    assert len(cases) == 12
    assert {case.axis for case in cases} == set(PLANTED)
    for case in cases:
        assert case.stage == PLANTED[case.axis]
        assert case.contributions[case.stage] == pytest.approx(case.harm, abs=0.1)
        assert case.target in {"gender": ("woman",), "age": ("senior",), "race": ("black", "asian")}[case.axis]
        assert case.scores["expected"] - case.scores["rewritten"] == pytest.approx(case.harm)


def test_they_remain_on_the_system_that_they_are_of(cases, system):
    found = check_cases(cases, system)
    assert found.code == 1
    assert states(found) == {(axis, "remains") for axis in PLANTED}
    for one in found.checked:
        assert one.now.harm == pytest.approx(one.case.harm)
        assert one.stage == PLANTED[one.case.axis]


@pytest.mark.parametrize("axis", ["gender", "age"])
def test_a_guard_on_the_stage_fixes_them(cases, system, axis):
    own = [case for case in cases if case.axis == axis]
    found = check_cases(own, guarded(system, axis))
    assert (found.code, states(found)) == (0, {(axis, "fixed")})


def test_a_guard_that_serves_all_as_badly_fixes_nothing(cases, system):
    """Where the rows of a group are missing, nobody finds any once all are rewritten as one."""
    own = [case for case in cases if case.axis == "race"]
    found = check_cases(own, guarded(system, "race", reference={"race": "asian"}))
    assert (found.code, states(found)) == (1, {("race", "levelled down")})
    assert "all are served as badly" in pages.line(found.record["cases"][0])


def test_the_missing_rows_fix_them(cases, system, demo, tmp_path):
    lacks = check_database(system.stages["db"], demo, ["race"], name="db", call="api_call").missing
    rows = [json.dumps(one.record) for one in lacks]
    written = [*rows, *(row.replace('"black', '"Black').replace('"asian', '"Asian') for row in rows)]  # as models do
    table = (DEMO / "database.jsonl").read_text(encoding="utf-8")
    (tmp_path / "whole.jsonl").write_text(table + "\n".join(written) + "\n", encoding="utf-8")
    own = [case for case in cases if case.axis == "race"]
    found = check_cases(own, Pipeline({**system.stages, "db": LookupDb(tmp_path / "whole.jsonl")}))
    assert states(found) == {("race", "fixed")}


def test_cases_of_a_stage_or_an_axis_alone(run, demo):
    found = worst_cases(run, demo, most=5, axes=["gender"], stage="db").cases
    assert all(case.stage == "db" for case in found)
    assert len(worst_cases(run, demo, most=5, axes=["age"]).cases) == 5


def test_what_does_not_match_is_named(run, demo, cases):
    with pytest.raises(MismatchError, match="audited other dialogues"):
        worst_cases(run, demo[1:])
    with pytest.raises(MismatchError, match="axis gender was rewritten by lexicon:gender"):
        worst_cases(run, demo, axes=[load_axis("gender", protected=["my wife"])])
    with pytest.raises(RunError, match="has no stage nlu"):
        worst_cases(run, demo, stage="nlu")
    with pytest.raises(RunError, match="has no axis placebo; it has gender, age, race"):
        worst_cases(run, demo, axes=["placebo"])
    (first,) = [case for case in cases if case.axis == "gender"][:1]
    with pytest.raises(CaseError, match="here it is lexicon:gender"):
        check_cases([first.model_copy(update={"signature": "lexicon:other"})], fair_pipeline(small_corpus()))
    other = first.model_copy(update={"rewritten": (*first.rewritten[:-1], Turn("Hello."))})
    with pytest.raises(CaseError, match="rewritten otherwise than it was"):
        check_cases([other], fair_pipeline(small_corpus()))
    with pytest.raises(MetricError, match="no side of it is the better one"):
        CaseRunner(fair_pipeline(small_corpus()), metric("length"))


# --- how few turns a case takes


def long_dialogues(person):
    """Six turns; the second says for whom it is, the fifth books."""
    said = ("Hello.", f"It is for my {person}.", "It may rain.", "Is it far?", "Please book it.", "Thank you.")
    return [
        Dialogue(
            str(number), "Rooms", tuple(Turn(f"{text} {number}", response=f"Well: {text} {number}") for text in said)
        )
        for number in range(4)
    ]


def forgetful(inputs):
    """Books nothing for women."""
    return [
        "Sorry." if "book" in item.user and any("wife" in turn.user for turn in item.history) else f"Well: {item.user}"
        for item in inputs
    ]


def saved(folder, pipeline, dialogues, **options):
    attribute(pipeline, dialogues, bootstrap=0, permutations=0, **options).save(folder)
    return folder


@pytest.mark.parametrize("history", ["gold", "system"])
def test_a_case_holds_the_turns_up_to_the_harmed_one(tmp_path, history):
    dialogues = long_dialogues("husband")
    pipeline = Pipeline({"response": forgetful})
    folder = saved(tmp_path / "run", pipeline, dialogues, history=history)
    found = worst_cases(folder, dialogues)
    assert {case.turns for case in found.cases} == {(1, 2, 3, 4, 5)}
    assert "It is for my wife. 0" in [one["rewritten"] for one in found.cases[0].earlier]
    case = check_cases(found.cases, pipeline).record["cases"][0]
    text = pages.text(case)
    assert "user in turn 2, rewritten: It is for my wife. 0" in text
    assert "response, rewritten: Sorry." in text
    case["now"]["outputs"] = {"call": {"expected": "price = \\#35", "rewritten": "price = \\#40"}}
    assert "call, rewritten: price = 40\n" in pages.text(case)


def test_a_fair_system_has_no_cases(tmp_path, corpus):
    assert worst_cases(saved(tmp_path / "run", fair_pipeline(corpus), corpus), corpus).cases == ()


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
        ('{"schema": 3}', "line 1: no case: field id is missing"),
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
            if record[name] == wrong or (name, wrong) in (("harm", 3), ("turn", 3), ("first_difference", None)):
                continue
            if name in ("scores", "user", "reference", "contributions", "outputs") and wrong == {"a": 1}:
                continue
            path.write_text(json.dumps(record | {name: wrong}) + "\n")
            with pytest.raises(CaseError) as caught:
                axes_of_cases(read_cases(path))
            assert len(str(caught.value).splitlines()) == 1


def test_commands_write_cases_and_exit_with_what_becomes_of_them(tmp_path, run):
    junitparser = pytest.importorskip("junitparser", reason="no junitparser: pip install -e '.[test]'")
    path = tmp_path / "cases.jsonl"
    code, out, _ = run_command("cases", run, "--worst", 4, "--out", path, "--axes", "gender,age")
    assert (code, "4 cases" in out) == (0, True)
    files = ["--junit", tmp_path / "junit.xml", "--summary", tmp_path / "s.md", "--out", tmp_path / "out"]
    code, out, _ = run_command("check", "--cases", path, "--pipeline", "demo", *files)
    assert (code, "0 of 4 cases fixed, 4 remain" in out) == (1, True)
    suites = junitparser.JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert [(suite.name, suite.tests, suite.failures) for suite in suites] == [("gender", 2, 2), ("age", 2, 2)]
    assert json.loads((tmp_path / "out" / "check.json").read_text())["state"] == "remains"
    assert (tmp_path / "s.md").read_text().startswith("## ❌ tod-bias check: 0 of 4 cases fixed")
    fixed = tmp_path / "fixed.yaml"
    settings = (("api_call", "age"), ("response", "gender"))
    call, response = (
        f'{{stage: "{stage}", model: {DEMO / name}, max_new_tokens: 48, guard: canonical, axes: {axis}}}'
        for stage, (name, axis) in zip(("tod_bias.stages:ApiCall", "tod_bias.stages:Response"), settings, strict=True)
    )
    db = f'{{stage: "tod_bias.stages:LookupDb", table: {DEMO / "database.jsonl"}}}'
    fixed.write_text(f"stages:\n  api_call: {call}\n  db: {db}\n  response: {response}\n")
    code, out, _ = run_command("check", "--cases", path, "--pipeline", fixed, "--junit", tmp_path / "junit.xml")
    assert (code, "4 of 4 cases fixed" in out) == (0, True)
    assert sum(suite.failures for suite in junitparser.JUnitXml.fromfile(str(tmp_path / "junit.xml"))) == 0


def test_commands_name_what_cannot_be_used(tmp_path, run, cases):
    path, lists = tmp_path / "cases.jsonl", tmp_path / "lists.csv"
    write_cases(cases[:1], path)
    lists.write_text("query,rank\n")
    for arguments, named in (
        (["check", "--cases", path], "no pipeline"),
        (["cases", run, "--out", lists], "lists.csv: is there and holds no cases; choose another --out"),
        (["cases", run, "--out", path, "--metric", "chrf"], "has not measured chrf"),
        (["cases", run, "--out", path, "--corpus", DEMO / "valid.jsonl"], "audited other dialogues"),
    ):
        code, _, err = run_command(*arguments)
        assert (code, len(err.strip().splitlines()), named in err) == (2, 1, True), err
