"""A gate: three made cases for three exit codes, what too few terms can show, and files that other readers take."""

import json
from pathlib import Path

import pytest
from commands import run_command

from tod_bias.report import gate as pages
from tod_bias.results import AuditResult
from tod_bias.testing.gate import Limits, gate


def estimate(value, error=0.01, **more):
    return {"value": value, "se": error, "df": 60.0, "ci": [value - 2 * error, value + 2 * error], **more}


def record(woman=0.0, man=0.0, *, terms=20.0, p=0.001, axis="gender", affected=None, **options):
    """``results.json`` of a made run of one axis and metric."""
    scope = {"scope": "terms"} if terms < 3 else {}

    def parts(value):
        return {name: {"shapley": estimate(part, **options)} for name, part in (("db", 0.0), ("response", value))}

    groups = {
        name: {
            "dialogues": 100,
            "terms": {"effective": terms},
            "gap": estimate(value, p=p, **options, **scope),
            "terms_only": estimate(value, p=p, **options, scope="terms"),
            "affected": affected,
            "contributions": parts(value),
        }
        for name, value in (("woman", woman), ("man", man))
    }
    row = {
        "verdict": "inconclusive",
        "dialogues": 100,
        "original": {"value": 0.9},
        "disparity": estimate(0.0),
        "groups": groups,
    }
    metrics = {"corpus_bleu": {"label": "BLEU", "better": "higher"}, "length": {"label": "words", "better": "neither"}}
    axes = {axis: {"corpus_bleu": row}, "placebo": {"corpus_bleu": row | {"verdict": "placebo"}}}
    return {"schema": 3, "stages": ["db", "response"], "metrics": metrics, "axes": axes}


def results(*values, **options):
    """The same as a result."""
    return AuditResult.model_validate(record(*values, **options))


FAIR = results(0.01, -0.01)
HARMED = results(0.3, -0.3)
UNCLEAR = results(0.03, -0.03, error=0.05)


@pytest.mark.parametrize(("made", "code"), [(FAIR, 0), (HARMED, 1), (UNCLEAR, 3)])
def test_three_cases_three_exit_codes(made, code):
    found = gate(made, 0.05)
    assert found.code == code
    assert [one.checked.name for one in found.verdicts] == ["gap of woman", "gap of man"]


def test_one_group_beyond_the_limit_fails():
    found = gate(results(0.2, 0.0), 0.05)
    assert (found.code, [verdict.state for verdict in found.verdicts]) == (1, ["above", "within"])
    assert "gap of woman +0.200" in pages.headline(found.record)


def test_being_served_better_counts_only_where_it_is_asked_for():
    favoured = results(-0.2, 0.0)
    assert gate(favoured, Limits(0.05)).code == 0
    assert gate(favoured, Limits(0.05, both_sides=True)).code == 1


def test_above_0_is_not_above_the_limit():
    """A gap that is significant, but may be below the limit."""
    assert gate(results(0.06, -0.06, error=0.01), 0.05).code == 3


def test_a_gap_that_the_run_does_not_claim_does_not_fail():
    assert gate(results(0.3, -0.3, p=0.4), 0.05).code == 3


def test_the_interval_beside_a_verdict_decides_it():
    for made in (FAIR, HARMED, UNCLEAR, results(0.06, 0.0), results(0.2, 0.0, error=0.07)):
        for verdict in gate(made, 0.05).verdicts:
            low, high = verdict.interval
            assert (verdict.state == "within") == (high <= 0.05)
            assert verdict.state != "above" or low > 0.05


def test_too_few_terms_show_nothing_of_a_group():
    for made in (results(terms=2.0), results(0.3, -0.3, terms=2.0)):
        found = gate(made, 0.05)
        assert found.code == 3
        assert "2.0 effective terms" in pages.why(found.record["values"][0])
    assert gate(results(terms=2.0), Limits(0.05, terms_only=True)).code == 0
    assert gate(results(0.3, -0.3, terms=2.0), Limits(0.05, terms_only=True)).code == 1


def test_rare_events_are_held_to_exact_bounds_of_dialogues_and_terms():
    """No dialogue of 50 differs, so one in 17 may; no term of 12, so one in five may."""
    assert gate(results(error=0.0, affected=[[0, 50]]), 0.05).code == 3
    assert gate(results(error=0.0, affected=[[0, 59]]), 0.05).code == 0
    found = gate(results(error=0.0, affected=[[0, 400], [0, 12]]), 0.05)
    assert found.code == 3
    assert "59 terms" in pages.why(found.record["values"][0])
    assert gate(results(error=0.0, affected=[[0, 400], [0, 59]]), 0.05).code == 0
    half = gate(results(error=0.0, affected=[[20, 400], [6, 12]]), 0.05)
    assert "about 289 terms" in pages.why(half.record["values"][0])  # one of which half differ would not tell


def test_an_unclear_result_says_how_many_dialogues_it_takes():
    """(0.05 - 0.03) / (1.645 + 0.842) = 0.00804 is the error that is needed, where 100 dialogues have 0.05."""
    found = gate(UNCLEAR, 0.05)
    assert found.verdicts[0].needed == pytest.approx(100 * (0.05 / 0.00804) ** 2, rel=0.01)
    assert "dialogues would be enough" in pages.why(found.record["values"][0])


def test_a_margin_below_the_limit_is_harder_to_pass():
    assert gate(FAIR, Limits(0.05, margin=0.01)).code == 3
    assert gate(HARMED, Limits(0.05, margin=0.01)).code == 1


def test_one_stage_can_be_checked():
    assert gate(HARMED, 0.05, stage="response").code == 1
    found = gate(HARMED, 0.05, stage="db")
    assert found.code == 0
    assert found.verdicts[0].checked.name == "gap of woman, db"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"axes": ["age"]}, "has no axis age; it has gender"),
        ({"axes": ["placebo"]}, "has no axis placebo"),
        ({"metrics": ["chrf"]}, "has no metric chrf; it has corpus_bleu, length"),
        ({"metrics": ["length"]}, "has no length on axis gender"),
        ({"stage": "nlu"}, "has no stage nlu; it has db, response"),
    ],
)
def test_what_the_run_does_not_have_is_named(options, named):
    with pytest.raises(ValueError, match=named):
        gate(FAIR, 0.05, **options)


def test_other_readers_take_the_junit_file(tmp_path):
    junitparser = pytest.importorskip("junitparser", reason="no junitparser: pip install -e '.[test]'")
    made = results(0.4, 0.045, axis="gend<er\x00")
    path = tmp_path / "junit.xml"
    record = gate(made, 0.05).record
    for allowed, counts, kind in ((True, (2, 1, 0, 1), "Skipped"), (False, (2, 1, 1, 0), "Error")):
        path.write_text(pages.junit(record | {"allow_undecided": allowed}), encoding="utf-8")
        (suite,) = junitparser.JUnitXml.fromfile(str(path))
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == counts
        kinds = [type(case.result[0]).__name__ if case.result else "" for case in suite]
        assert kinds == ["Failure", kind]
    assert "+0.400" in next(iter(next(iter(suite)).result)).message


def test_the_summary_is_a_table_of_markdown():
    text = pages.markdown(gate(results(0.4, 0.045, axis="a|b_c"), 0.05).record)
    assert text.startswith("## ❌ tod-bias check: failed\n\nthis run: shown above 0.05")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 2
    assert all(line.replace("\\|", "").count("|") == 6 for line in table)


def test_the_terminal_shows_the_verdict_first_then_what_decided_it(tmp_path):
    made = record(0.3, -0.3)
    made["axes"]["age"] = record(0.03, -0.03, error=0.05)["axes"]["gender"]
    (tmp_path / "results.json").write_text(json.dumps(made))
    _, out, _ = run_command("check --max-gap 0.05", tmp_path)
    text = " ".join(out.split())
    assert text.startswith(f"failed: {tmp_path}, 4 values: 1 above 0.05, 2 undecided, 1 within 0.05")
    assert [line.split()[0] for line in out.splitlines() if "gap of" in line] == ["gender"]
    assert "undecided: age corpus_bleu (" in text
    _, out, _ = run_command("check --max-gap 0.05 --axes age", tmp_path)
    assert out.count("gap of woman, man") == 1
    assert "dialogues would be enough" in " ".join(out.split())


def test_the_exit_code_of_the_command_is_the_verdict(tmp_path):
    for made, code, said in ((FAIR, 0, "passed"), (HARMED, 1, "failed"), (UNCLEAR, 3, "cannot tell")):
        Path(tmp_path / "results.json").write_text(made.text())
        ended, out, _ = run_command("check --max-gap 0.05", tmp_path, "--out", tmp_path)
        assert (ended, f"{said}: " in out) == (code, True)
        assert json.loads((tmp_path / "check.json").read_text())["state"] in ("within", "above", "cannot tell")


def test_where_nobody_is_served_nothing_passes():
    """Every answer is a refusal: no gap, and no service."""
    made = record(error=0.0, affected=[[0, 400]])
    made["metrics"] = {"refusal": {"label": "refusals", "better": "lower", "scale": "difference", "range": [0, 1]}}
    row = made["axes"]["gender"]["corpus_bleu"] | {"original": {"value": 1.0}, "rewritten": {"value": 1.0}}
    made["axes"] = {"gender": {"refusal": row}}
    found = gate(AuditResult.model_validate(made), 0.05)
    assert found.code == 3
    assert "no group is served" in pages.why(found.record["values"][0])


def test_a_metric_of_which_no_score_is_better_is_named_where_it_is_not_checked_and_fails_on_either_side_where_it_is():
    made = record(0.01, -0.01)
    made["axes"]["gender"]["length"] = record(-0.3, 0.02)["axes"]["gender"]["corpus_bleu"] | {"verdict": "disparity"}
    result = AuditResult.model_validate(made)
    by_default = gate(result, 0.05)
    assert by_default.state == "within"
    assert by_default.record["left_out"] == {"length": ["gender"]}
    for text in (pages.left_out(by_default.record), pages.markdown(by_default.record)):
        assert "not checked" in text.lower()
        assert "length (shows a gap in gender)" in text
    chosen = gate(result, 0.05, metrics=["length"])
    assert (chosen.state, chosen.record["left_out"]) == ("above", {})
    assert "gap of woman -0.300" in pages.headline(chosen.record)
    assert "either sign" in pages.markdown(chosen.record)
    both = pages.left_out({"left_out": {"length": ["gender"], "money": ["gender"]}})
    assert "length (shows a gap in gender), money (shows a gap in gender)" in both


def test_a_gap_that_is_not_told_from_rewording_neither_passes_nor_fails():
    def checked(made, **group):
        row = made["axes"]["gender"]["corpus_bleu"]
        row["needs_placebo"] = True
        row["groups"]["woman"] |= group
        row["groups"]["man"] |= group and {"beyond_placebo": estimate(0.0)}
        return gate(AuditResult.model_validate(made), 0.05)

    for values in ((0.01, -0.01), (0.3, -0.3)):
        alone = checked(record(*values))
        assert (alone.state, "placebo" in alone.verdicts[0].reason) == ("cannot tell", True)
    small, large = estimate(0.01, p=0.001), estimate(0.3, p=0.001)
    assert checked(record(0.3, -0.3), beyond_placebo=small).state == "cannot tell"
    assert checked(record(0.01, -0.01), beyond_placebo=large).state == "cannot tell"
    assert checked(record(0.01, -0.01), beyond_placebo=small).state == "within"
    assert checked(record(0.3, -0.3), beyond_placebo=large).state == "above"


def test_where_few_differ_the_bound_takes_effects_as_large_as_scores_are():
    made = record(0.0, 0.0, affected=[[0, 100], [0, 60]], error=1e-9)
    assert gate(AuditResult.model_validate(made), 0.1).state == "within"
    made["axes"]["gender"]["corpus_bleu"]["largest_effect"] = 50.0
    assert gate(AuditResult.model_validate(made), 0.1).state == "cannot tell"
