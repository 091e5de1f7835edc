"""The smallest fix of a finding: on a system with a known fault, and what is said where nothing helps."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from builders import DISHES, hurt, numbered, small_corpus
from commands import run_command

from tod_bias import Dialogue, Pipeline, Step, Turn, attribute, load_pipeline
from tod_bias.audit.matching import MismatchError
from tod_bias.dialogues.files import write_jsonl
from tod_bias.errors import StageError, TodBiasError, UnansweredError
from tod_bias.mitigation.fixes import ROWS, Fix, Goal
from tod_bias.mitigation.pipeline_file import write_pipeline
from tod_bias.mitigation.search import MitigationSearch
from tod_bias.perturb import load_axis
from tod_bias.perturb.guards.guard import with_guards
from tod_bias.report.mitigation import name_of, notes, picture, table
from tod_bias.results import AuditResult
from tod_bias.stages import LookupDb
from tod_bias.testing.gate import Limits, gate

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


THESE_TERMS = Goal(terms_only=True)


def search_of(before, system, corpus, goal=THESE_TERMS, **options):
    return MitigationSearch(AuditResult.load(before), system, corpus, [GENDER], goal=goal, **options)


def test_a_guard_on_the_stage_that_is_named_closes_the_gap(before, harmed, corpus):
    search = search_of(before, harmed, corpus)
    assert list(search.stages("gender")) == ["response"]
    found = search.search(["canonical"])
    assert found.chosen is not None
    assert found.chosen.fixes == (Fix("response", "canonical", ("gender",)),)
    record = found.record
    value = record["chosen"]["scores_after"]["gender"]["corpus_bleu"]
    assert value["disparity"]["value"] == 0
    # what comes out is what a fair system says: the guard tells everybody as somebody who is served
    fair = attribute(system(corpus), corpus, axes=["gender"], bootstrap=0, permutations=0)
    assert value["original"]["value"] == pytest.approx(fair["axes"]["gender"]["corpus_bleu"]["original"]["value"])


def test_calls_that_fail_with_and_without_a_fix_do_not_reject_it(corpus, tmp_path):
    def picky(inputs):
        if any("Case d003" in item.context for item in inputs):
            raise UnansweredError("not this one")
        return calls(inputs)

    lame = Pipeline({"api_call": picky, "db": LookupDb.from_dialogues(corpus), "response": hurt(answers, "No.", WORDS)})
    options = {"bootstrap": 0, "permutations": 500, "max_failures": 0.3}
    attribute(lame, corpus, axes=["gender"], **options).save(tmp_path)
    found = search_of(tmp_path, lame, corpus, max_failures=0.3).search(["canonical"])
    assert found.chosen.name == "response: canonical (gender)"


def test_a_guard_on_another_stage_changes_nothing(before, harmed, corpus):
    attempt = search_of(before, harmed, corpus).attempt([Fix("api_call", "canonical", ("gender",))], ["gender"])
    assert not attempt.is_sufficient
    assert attempt.comparison["same"] is True


def test_all_attempts_are_in_the_record_the_table_and_the_figure(before, harmed, corpus):
    found = search_of(before, harmed, corpus).search(["neutral", "canonical", "vote"])
    record = found.record
    names = [name_of(one) for one in record["attempts"]]
    assert (names[0], len(names)) == ("response: neutral (gender)", 3)  # equal in all, and it asks least
    assert {one["sufficient"] for one in record["attempts"]} == {True}
    assert table(record).row_count == 3
    shown = [text.get_text() for text in picture(record, "BLEU").axes[1].get_legend().get_texts()]
    assert shown[0] == "as it is"
    assert len(shown) == 4


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
    found = search_of(tmp_path, lacking, corpus).search(["canonical"])
    assert found.chosen is not None
    assert found.chosen.fixes == (Fix("db", ROWS, ("gender",)),)
    assert {one.group for one in found.missing_rows} == {"woman", "non-binary"}
    assert len(found.missing_rows) == 30 * 2 + 10
    assert len(found.pipeline.stages["db"]) == 3 * len(corpus)
    assert len(lacking.stages["db"]) == len(rows)  # the system that was given is as it was


@pytest.mark.parametrize("says", ["Of course, in which city shall I look for it?", "Pardon?"])
def test_where_nothing_helps_that_is_said(before, harmed, corpus, says, monkeypatch):
    """Everybody is served equally, and all badly: a disparity of 0, and no fix."""
    bad = Pipeline({**harmed.stages, "response": lambda inputs: [says for _ in inputs]})
    search = search_of(before, harmed, corpus)
    monkeypatch.setattr(search, "fixed", lambda changes: bad)
    found = search.search(["canonical", "vote"])
    assert found.chosen is None
    assert found.record["chosen"] is None
    if says == "Pardon?":  # no word is right, and no score can be compared
        assert len(search.refused) == 2
        assert found.attempts == ()
    else:
        assert [one.reason.split(" by ")[0] for one in found.attempts] == ["named:FindRestaurants may fall"] * 2


def test_a_fair_run_needs_no_fix(corpus, tmp_path):
    attribute(system(corpus), corpus, axes=["gender"], bootstrap=0, permutations=200).save(tmp_path)
    with pytest.raises(TodBiasError, match="claims no disparity"):
        search_of(tmp_path, system(corpus), corpus).search()


@pytest.mark.parametrize(
    ("options", "says"),
    [({"goal": Goal("chrf")}, "metric chrf: the run has none"), ({}, "unknown guard 'blind'")],
)
def test_wrong_wishes_are_one_line(before, harmed, corpus, options, says):
    with pytest.raises(TodBiasError, match=says):
        search_of(before, harmed, corpus, **options).search(["blind"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("pipeline", "other stages"),
        ("stage", "stage response is not the run's"),
        ("axis", "gender was rewritten by .*, here by "),
        ("corpus", "the run was on 80 other dialogues"),
    ],
)
def test_what_is_not_the_runs_is_refused_before_any_call(before, harmed, corpus, changed, message):
    given = {"system": harmed, "dialogues": corpus, "axes": [GENDER]} | {
        "pipeline": {"system": Pipeline({name: harmed.stages[name] for name in ("api_call", "response")})},
        "stage": {"system": system(corpus)},
        "axis": {"axes": [load_axis("gender", protected=("aunt",))]},
        "corpus": {"dialogues": corpus[:50]},
    }[changed]
    with pytest.raises(MismatchError, match=message):
        MitigationSearch(AuditResult.load(before), *given.values())


def test_only_the_metric_that_decides_is_fixed_and_others_are_named(before, harmed, corpus):
    record = json.loads((before / "results.json").read_text())
    own = record["axes"]["gender"]["corpus_bleu"]
    record["axes"]["gender"]["chrf"] = {**own, "verdict": "inconclusive"}
    record["metrics"]["chrf"] = {**record["metrics"]["corpus_bleu"]}
    result = AuditResult.model_validate(record)
    search = MitigationSearch(result, harmed, corpus, [GENDER], goal=Goal("chrf", terms_only=True))
    assert search.claimed == []
    with pytest.raises(TodBiasError, match=r"by chrf .* other metrics do: gender by corpus_bleu"):
        search.search()


def test_what_is_chosen_among_many_is_judged_again_at_a_part_of_the_level(before, harmed, corpus):
    search = search_of(before, harmed, corpus)
    found = search.search(["canonical", "vote"])
    assert found.tried == 2
    assert found.record["terms_only"] is True
    results = AuditResult.load(before)
    margin = results["axes"]["gender"]["corpus_bleu"]["equivalent_within"] or 1.0
    largest = Limits(10 * margin, both_sides=True, terms_only=True)
    just = max(abs(one.checked.value) + one.checked.half(0.036) for one in gate(results, largest).verdicts)
    limits = [Limits(just, both_sides=True, terms_only=True, tried=tried) for tried in (1, 2)]
    assert [gate(results, limit).state == "within" for limit in limits] == [True, False]


def test_a_stage_with_a_guard_gets_no_other_kind(before, harmed, corpus, tmp_path):
    pipeline = with_guards(harmed, "response=canonical:age")
    attribute(pipeline, corpus, axes=["gender"], bootstrap=0, permutations=500).save(tmp_path)
    search = search_of(tmp_path, pipeline, corpus)
    assert [one[0].kind for one in search.fixes("gender", ["vote", "canonical"])] == ["canonical"]


def test_quality_that_was_not_measured_is_said(corpus, tmp_path):
    """Disagreement with the twin is 0 of the originals whatever they say, so it tells nothing of their quality."""
    harmed = system(corpus, hurt(answers, "Sorry, I do not know.", WORDS))
    attribute(harmed, corpus, axes=["gender"], metrics=["disagreement"], bootstrap=0, permutations=500).save(tmp_path)
    record = json.loads((tmp_path / "results.json").read_text())
    record["axes"]["gender"]["disagreement"]["verdict"] = "these terms only"
    (tmp_path / "results.json").write_text(json.dumps(record))
    record = search_of(tmp_path, harmed, corpus).search(["neutral"]).record
    assert record["chosen"]["quality_metrics"] == []
    assert any("Quality was not measured" in note for note in notes(record))


def test_a_file_that_cannot_name_the_words_is_not_written(harmed, tmp_path):
    (tmp_path / "mine.tsv").write_text("pos\tman\twoman\nkin\tfather\tmother\n")
    (tmp_path / "p.yaml").write_text("stages:\n  response: my:say\n")
    own = load_axis("gender", lexicon=tmp_path / "mine.tsv")
    change = Fix("response", "canonical", ("gender",))
    fixed = with_guards(harmed, {"response": ("canonical", [own])})
    with pytest.raises(StageError, match="terms of your own"):
        write_pipeline(tmp_path, fixed, [change], str(tmp_path / "p.yaml"), {})


def test_the_fixed_file_is_the_fixed_system(tmp_path):
    changes = (Fix("response", "canonical", ("gender",)), Fix("db", ROWS, ("race",)))
    demo = load_pipeline("demo")
    call = {"api_name": "FindBook", "city": "Nowhere"}
    fixed = Pipeline({**demo.stages, "db": demo.stages["db"].with_rows([(call, ({"title": "New"},))])})
    file, modules = write_pipeline(tmp_path, fixed, changes, "demo", {})
    read = load_pipeline(file)
    assert modules == []
    assert read.stages["db"].look_up(call).rows == ({"title": "New"},)
    assert read.stages["response"].axis.name == "gender"
    twice = (*changes, Fix("response", "vote", ("age",)))
    with pytest.raises(StageError, match="has a guard 'canonical' already"):
        write_pipeline(tmp_path, fixed, twice, "demo", {})
    assert yaml.safe_load(file.read_text())["stages"]["response"]["axes"] == "gender"


STAGES = """
import re
def call(inputs):
    found = [re.match(r"Hall (\\d+)", item.user) for item in inputs]
    return [{"api_name": "Find", "number": one[1]} for one in found]
def say(inputs):
    return ["No." if "mother" in item.user else f"Hall {item.outputs['api_call']['number']} it is." for item in inputs]
"""


@pytest.mark.parametrize(("harm", "code"), [(True, 0), (False, 2)])
def test_the_command_writes_what_is_to_be_used_from_then_on(tmp_path, monkeypatch, harm, code):
    monkeypatch.chdir(tmp_path)
    who = ("mother", "father", "sister", "brother", "wife", "husband", "aunt", "uncle", "daughter", "son")
    halls = [
        Turn(f"Hall {number} for my {who[number % 10]}.", response=f"Hall {number} it is.") for number in range(160)
    ]
    write_jsonl([Dialogue(f"{n}", "Halls", (turn,)) for n, turn in enumerate(halls)], tmp_path / "halls.jsonl")
    blame = '("mother", "sister", "wife", "aunt", "daughter")'
    text = STAGES.replace('"mother" in item.user', f"any(w in item.user for w in {blame})" if harm else "False")
    module = f"halls_{code}"  # a module is imported once
    (tmp_path / f"{module}.py").write_text(text)
    (tmp_path / "halls.yaml").write_text(f"stages:\n  api_call: {module}:call\n  response: {{stage: '{module}:say'}}\n")
    common = ["--corpus", "halls.jsonl", "--pipeline", "halls.yaml", "--max-dialogues", "150"]
    run_command("attribute --seed 5 --axes gender --bootstrap 100 --out run --quiet", *common)
    ended, out, err = run_command("mitigate run --guards canonical --terms-only", *common)
    assert ended == code
    if not harm:
        assert "nothing to mitigate" in err
        return
    assert "Mitigated by: response: canonical (gender)" in out
    assert "it needs halls_0.py beside it" in out.replace("\n", " ")
    assert {path.name for path in (tmp_path / "run" / "mitigation").iterdir()} == {
        "mitigation.json",
        "mitigation.svg",
        "mitigated.yaml",
    }
