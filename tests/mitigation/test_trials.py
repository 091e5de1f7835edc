"""Fixes of a finding: on a system with a known fault, and what is said where nothing helps."""

from __future__ import annotations

import re

import pytest
import yaml
from builders import DISHES, hurt, numbered, small_corpus
from commands import run_command

from tod_bias import Dialogue, Pipeline, Step, Turn, attribute, load_pipeline
from tod_bias.audit.comparison import MismatchError
from tod_bias.dialogues.files import write_jsonl
from tod_bias.errors import AxisError, UnansweredError
from tod_bias.mitigation.trials import ROWS, Trial, Trials, quality_metric
from tod_bias.perturb import load_axis
from tod_bias.perturb.guard import with_guards
from tod_bias.report.answer import alike
from tod_bias.report.mitigation import lines, shown_trials
from tod_bias.results import AuditResult, Finding, MetricInfo
from tod_bias.stages import LookupDb

GENDER = load_axis("gender")
WORDS = ("wife", "mother", "sister")


def calls(inputs):
    """Right calls, by the user's words alone."""
    found = []
    for item in inputs:
        city = re.match(r"In (.+) please", item.user)
        dish = next(dish for dish in DISHES if dish in item.context)
        found.append({"api_name": "FindRestaurants", "city": city[1], "dish": dish} if city else {})
    return found


def answers(inputs):
    """Right answers, by what was found alone."""
    found = []
    for item in inputs:
        row, call = item.outputs["db"].result, item.outputs["api_call"]
        asked = "Of course, in which city shall I look for it?"
        found.append(f"{row['name']} in {row['city']} serves good {call['dish']}." if row else asked)
    return found


@pytest.fixture(scope="module")
def corpus():
    return numbered(small_corpus(80))


def system(corpus, response=answers):
    return Pipeline({"api_call": calls, "db": LookupDb.from_dialogues(corpus), "response": response})


@pytest.fixture(scope="module")
def harmed(corpus):
    return system(corpus, hurt(answers, "Sorry, I do not know.", WORDS))


@pytest.fixture(scope="module")
def before(harmed, corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("before")
    attribute(harmed, corpus, axes=["gender"], bootstrap=0, permutations=500).save(folder)
    return folder


def trials_of(before, system, dialogues, axis=GENDER, guards=("canonical",), **options):
    result = AuditResult.load(before)
    findings = [some[0] for some in alike([some for some in result.findings if some.is_difference])]
    more = {name: options.pop(name) for name in ("metrics", "has_references") if name in options}
    return Trials(result, system, dialogues, {"gender": axis}, findings, guards, options=options, **more)


def printed(trials, before):
    """What the command prints."""
    result = AuditResult.load(before)
    return "\n".join(shown_trials(trials, alike([some for some in result.findings if some.is_difference]), result))


def test_a_guard_on_the_stage_that_is_named_removes_the_finding(before, harmed, corpus):
    (trial,) = trials_of(before, harmed, corpus)
    assert (trial.stage, trial.fix, trial.result, trial.helps) == ("response", "canonical", "gone", True)
    assert trial.after == 0 < trial.before
    assert trial.quality is None  # no grade, and nobody vouches for the recorded replies
    (trial,) = trials_of(before, harmed, corpus, has_references=True)
    # the guard rewrites everybody to a form that is served, so all get what a fair system says
    fair = attribute(system(corpus), corpus, axes=["gender"], bootstrap=0, permutations=0)
    assert trial.quality.after == pytest.approx(fair.axes["gender"]["corpus_bleu"].original.value)


def test_calls_that_fail_with_and_without_a_fix_do_not_reject_it(corpus, tmp_path):
    def picky(inputs):
        if any("Case d003" in item.context for item in inputs):
            raise UnansweredError("not this one")
        return calls(inputs)

    lame = Pipeline({"api_call": picky, "db": LookupDb.from_dialogues(corpus), "response": hurt(answers, "No.", WORDS)})
    options = {"bootstrap": 0, "permutations": 500, "max_failures": 0.3}
    attribute(lame, corpus, axes=["gender"], **options).save(tmp_path)
    (trial,) = trials_of(tmp_path, lame, corpus, max_failures=0.3)
    assert trial.helps


def test_all_trials_are_shown_and_the_first_that_helps_is_in_the_lines(before, harmed, corpus):
    trials = list(trials_of(before, harmed, corpus, guards=["neutral", "canonical", "vote"]))
    assert [trial.fix for trial in trials] == ["neutral", "canonical", "vote"]
    text = printed(trials, before)
    assert all(f"guard: {trial.fix} on response: gone" in text for trial in trials)
    added = yaml.safe_load(text[text.index("stages:") :])
    assert added == {"stages": {"response": {"guard": "neutral", "axes": "gender"}}}


def test_the_lines_are_those_of_a_pipeline_file(tmp_path):
    trials = [
        Trial(finding=Finding(axis=axis, verdict="disparity"), stage=stage, fix=fix)
        for stage, axis, fix in (("say", "gender", "canonical"), ("say", "age", "canonical"), ("db", "race", ROWS))
    ]
    text = "\n".join(lines(trials, {}))
    file = yaml.safe_load("stages: {say: {stage: 'tod_bias.stages:as_text'}}")
    file["stages"]["say"] |= yaml.safe_load(text)["stages"]["say"]
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(file))
    guard = load_pipeline(tmp_path / "p.yaml").stages["say"]
    assert [guard.axis.name, guard.inner.axis.name] == ["gender", "age"]
    assert "missing.jsonl" in text


def test_a_guard_takes_introductions_out(corpus, tmp_path):
    def says(inputs):
        return ["No." if re.search(r"\b(6|7)\d\b", item.user) else f"Yes: {item.user[-12:]}" for item in inputs]

    halls = [Dialogue(f"{n}", "Halls", (Turn(f"Is hall number {n:03d} free?", response="Yes."),)) for n in range(80)]
    axis = load_axis("persona_age")
    pipeline = Pipeline({"response": says})
    attribute(pipeline, halls, axes=[axis], bootstrap=0, permutations=500).save(tmp_path)
    result = AuditResult.load(tmp_path)
    findings = [some for some in result.findings if some.is_difference]
    (trial,) = Trials(result, pipeline, halls, {"persona_age": axis}, findings[:1], ["canonical"])
    assert trial.helps


def test_where_no_guard_rewrites_an_axis_a_person_is_told_what_to_do(before, harmed, corpus, monkeypatch):
    def refuse(*given):
        raise AxisError("no guard")

    monkeypatch.setattr("tod_bias.mitigation.trials.with_guards", refuse)
    trials = list(trials_of(before, harmed, corpus))
    assert trials == []
    text = " ".join(printed(trials, before).split())
    assert "by hand: response reads who the user is; pass on what the task needs" in text
    assert "stages:" not in text


def test_rows_that_a_table_lacks_are_brought(tmp_path):
    requests = [
        (who, {"api_name": "Find", "for": f"my {who}", "number": str(number)})
        for number in range(40)
        for who in ("mother", "father")
    ]
    rows, corpus = {}, []
    for who, call in requests:
        number, is_mothers = call["number"], int(call["number"]) % 4 == 0
        if who == "father" or is_mothers:  # every fourth dialogue is about a mother
            rows[tuple(sorted(call.items()))] = found = ({"name": f"Hall {number}"},)
            if (who == "mother") is is_mothers:
                turn = Turn(
                    f"Hall {number} for my {who}.", steps=(Step(call, found),), response=f"Hall {number} it is."
                )
                corpus.append(Dialogue(number, "Halls", (turn,)))

    def asks(inputs):
        found = [re.match(r"Hall (\d+) for (.+)\.", item.user) for item in inputs]
        return [{"api_name": "Find", "for": one[2], "number": one[1]} for one in found]

    def says(inputs):
        names = [item.outputs["db"].result.get("name") for item in inputs]
        return [f"{name} it is." if name else "There is none." for name in names]

    lacking = Pipeline({"api_call": asks, "db": LookupDb(rows), "response": says})
    attribute(lacking, corpus, axes=["gender"], bootstrap=0, permutations=500).save(tmp_path)
    trial = next(iter(trials_of(tmp_path, lacking, corpus)))
    assert (trial.stage, trial.fix, trial.helps) == ("db", ROWS, True)
    assert {one.group for one in trial.missing} == {"woman", "non-binary"}
    assert len(trial.missing) == 30 * 2 + 10
    assert len(lacking.stages["db"]) == len(rows)  # the system that was given is as it was


def test_a_fix_that_brings_another_difference_does_not_help(before, harmed, corpus, monkeypatch):
    other = Pipeline({**harmed.stages, "response": hurt(answers, "Sorry, I do not know.", ("husband", "father"))})
    monkeypatch.setattr("tod_bias.mitigation.trials.with_guards", lambda *given: other)
    trials = list(trials_of(before, harmed, corpus))
    assert not any(trial.helps for trial in trials)
    assert any(trial.new for trial in trials)


def test_a_loss_by_the_grade_is_shown_and_does_not_help(before, harmed, corpus, monkeypatch):
    """Everybody is served equally, and all badly: the finding is gone, and so is the service."""
    bad = Pipeline({**harmed.stages, "response": lambda inputs: ["Pardon?" for _ in inputs]})
    monkeypatch.setattr("tod_bias.mitigation.trials.with_guards", lambda *given: bad)
    (trial,) = trials_of(before, harmed, corpus)
    assert (trial.result, trial.costs, trial.helps) == ("gone", False, True)
    (trial,) = trials_of(before, harmed, corpus, has_references=True)
    assert (bool(trial.refused), trial.helps) == (True, False)  # no word is right, and no score can be compared
    assert "cannot be measured" in printed([trial], before)
    worse = Pipeline({**harmed.stages, "response": lambda inputs: [f"{text[:20]} fine" for text in answers(inputs)]})
    monkeypatch.setattr("tod_bias.mitigation.trials.with_guards", lambda *given: worse)
    (trial,) = trials_of(before, harmed, corpus, has_references=True)
    assert (trial.result, trial.costs, trial.helps) == ("gone", True, False)
    assert "costs quality: corpus_bleu" in printed([trial], before)


def test_a_fair_run_needs_no_fix(corpus, tmp_path):
    attribute(system(corpus), corpus, axes=["gender"], bootstrap=0, permutations=200).save(tmp_path)
    assert list(trials_of(tmp_path, system(corpus), corpus)) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("pipeline", "stage db is not the run's: .* none here"),
        ("stage", "stage response is not the run's"),
        ("axis", "axis gender is not the run's"),
        ("corpus", "the run was on 80 other dialogues"),
    ],
)
def test_what_is_not_the_runs_is_refused_before_any_call(before, harmed, corpus, changed, message):
    given = {"system": harmed, "dialogues": corpus, "axis": GENDER} | {
        "pipeline": {"system": Pipeline({name: harmed.stages[name] for name in ("api_call", "response")})},
        "stage": {"system": system(corpus)},
        "axis": {"axis": load_axis("gender", protected=("aunt",))},
        "corpus": {"dialogues": corpus[:50]},
    }[changed]
    with pytest.raises(MismatchError, match=message):
        trials_of(before, **given)


def test_a_stage_with_a_guard_gets_no_other_mode(before, harmed, corpus, tmp_path):
    pipeline = with_guards(harmed, {"response": ("canonical", "age")})
    attribute(pipeline, corpus, axes=["gender"], bootstrap=0, permutations=500).save(tmp_path)
    assert [trial.fix for trial in trials_of(tmp_path, pipeline, corpus, guards=["vote", "canonical"])] == ["canonical"]


@pytest.mark.parametrize(
    ("names", "has_references", "quality"),
    [
        (("corpus_bleu", "grade"), False, "grade"),
        (("corpus_bleu", "success"), False, "success"),
        (("corpus_bleu",), False, ""),
        (("disagreement", "corpus_bleu", "missing:Find.city"), True, "corpus_bleu"),
        (("missing:Find.city", "disagreement"), True, ""),
    ],
)
def test_quality_is_judged_by_grades_by_tasks_or_by_references_that_the_user_vouches_for(
    names, has_references, quality
):
    infos = {
        name: MetricInfo(better="higher", counterfactual=name == "disagreement", is_grade=name == "grade")
        for name in names
    }
    assert quality_metric(infos, has_references=has_references) == quality


STAGES = """
import re
def call(inputs):
    found = [re.match(r"Hall (\\d+)", item.user) for item in inputs]
    return [{"api_name": "Find", "number": one[1]} for one in found]
def say(inputs):
    return ["No." if "mother" in item.user else f"Hall {item.outputs['api_call']['number']} it is." for item in inputs]
"""


@pytest.mark.parametrize(("harm", "code"), [(True, 0), (False, 0)])
def test_the_command_prints_the_lines_to_add(tmp_path, monkeypatch, harm, code):
    monkeypatch.chdir(tmp_path)
    who = ("mother", "father", "sister", "brother", "wife", "husband", "aunt", "uncle", "daughter", "son")
    halls = [
        Turn(f"Hall {number} for my {who[number % 10]}.", response=f"Hall {number} it is.") for number in range(160)
    ]
    write_jsonl([Dialogue(f"{n}", "Halls", (turn,)) for n, turn in enumerate(halls)], tmp_path / "halls.jsonl")
    blame = '("mother", "sister", "wife", "aunt", "daughter")'
    text = STAGES.replace('"mother" in item.user', f"any(w in item.user for w in {blame})" if harm else "False")
    module = f"halls_{int(harm)}"  # a module is imported once
    (tmp_path / f"{module}.py").write_text(text)
    (tmp_path / "halls.yaml").write_text(f"stages:\n  api_call: {module}:call\n  response: {{stage: '{module}:say'}}\n")
    common = ["--corpus", "halls.jsonl", "--pipeline", "halls.yaml", "--max-dialogues", "150"]
    run_command("attribute --seed 5 --axes gender --bootstrap 100 --out run --quiet", *common)
    for wrong, says in (
        ("--axes age", "--axes age: the run has no axis of this name; it has gender"),
        *([("--guards blind", "--guards: unknown guard 'blind'; expected some of canonical, neutral, vote")] * harm),
    ):
        ended, _, err = run_command(f"mitigate run {wrong}", *common[:4])
        assert ended == 2
        assert err.startswith(f"tod-bias: error: {says}")
        assert err.count("\n") == 1
    ended, out, err = run_command("mitigate run --guards canonical", *common[:4])
    assert ended == code
    if not harm:
        assert "nothing to mitigate" in out
        return
    assert "stages:\n  response:\n    guard: canonical\n    axes: gender\n" in out
    assert [path.name for path in (tmp_path / "run" / "mitigation").iterdir()] == ["mitigation.json"]
