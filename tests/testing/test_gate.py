"""The gate: findings decide, a limit asks for bounds, and files that other readers take."""

import json
from pathlib import Path

import pytest
from commands import run_command
from random_systems import audited, random_system

from tod_bias.report import gate as pages
from tod_bias.results import AuditResult, Finding
from tod_bias.testing.gate import GateError, Known, check, read_known

EVENT = "value:router.seen_by=nurse"


def estimate(value, error=0.01, **more):
    return {"value": value, "se": error, "df": 60.0, "ci": [value - 2 * error, value + 2 * error], "p": 0.5, **more}


def record(
    woman=0.0, man=0.0, *, terms=20.0, axis="gender", affected=None, verdict="inconclusive", better="neither", **options
):
    """``results.json`` of a made run of one axis and event."""
    scope = {"scope": "terms"} if terms < 3 else {}
    groups = {
        name: {
            "dialogues": 100,
            "terms": {"number": 8, "effective": terms},
            "gap": estimate(value, **options, **scope),
            "terms_only": estimate(value, **options, scope="terms"),
            "affected": affected,
            "counts": [max(0.0, 100 * value), 100],
        }
        for name, value in (("woman", woman), ("man", man))
    }
    row = {
        "verdict": verdict,
        "dialogues": 100,
        "scale": "difference",
        "original": {"value": 0.5},
        "disparity": estimate(0.0),
        "groups": groups,
        "apart": {"woman": estimate(woman, p=0.001)} if verdict == "disparity" else {},
    }
    finding = {"axis": axis, "verdict": verdict, "dialogues": 100}
    if verdict == "disparity":
        counts = {name: group["counts"] for name, group in groups.items()}
        finding |= {"group": "woman", "compared_with": ["man"], "metric": EVENT, "better": better, "stage": "router"}
        finding |= {"effect": row["apart"]["woman"], "what": "seen_by is nurse", "counts": counts}
    metrics = {EVENT: {"label": "seen_by is nurse", "better": better, "range": [0, 1]}}
    placebo = row | {"verdict": "placebo", "apart": {}}
    axes = {axis: {EVENT: row}, "placebo": {EVENT: placebo}}
    return {"schema": 3, "stages": ["router"], "metrics": metrics, "axes": axes, "findings": [finding]}


def results(*values, **options):
    """The same as a result."""
    return AuditResult.model_validate(record(*values, **options))


FAIR = results(0.01, -0.01)
HARMED = results(0.3, -0.3, verdict="disparity")
UNCLEAR = results(0.03, -0.03, error=0.05)


@pytest.mark.parametrize(("made", "code"), [(FAIR, 0), (HARMED, 1), (UNCLEAR, 0)])
def test_a_finding_decides(made, code):
    assert check(made).code == code


@pytest.mark.parametrize(("seed", "harms", "rate"), [(1, 0, 1.0), (2, 1, 1.0), (3, 2, 1.0), (4, 1, 0.3), (5, 2, 0.3)])
def test_the_command_fails_exactly_if_a_finding_of_the_record_stands(tmp_path, seed, harms, rate):
    audited(random_system(seed, harms=harms, rate=rate)).save(tmp_path)
    record = json.loads((tmp_path / "results.json").read_text())
    standing = [found for found in record["findings"] if found["verdict"] in ("disparity", "these terms only")]
    assert rate < 1 or bool(standing) == bool(harms)
    code, _, _ = run_command("check --quiet", tmp_path)
    assert code == (1 if standing else 0)
    accepted = [{"axis": f["axis"], "group": f["group"], "event": f["metric"], "reason": "known"} for f in standing]
    (tmp_path / "known.yaml").write_text(json.dumps(accepted))
    assert run_command("check --quiet", tmp_path, "--known", tmp_path / "known.yaml")[0] == 0
    (tmp_path / "known.yaml").write_text(json.dumps(accepted[1:]))
    assert run_command("check --quiet", tmp_path, "--known", tmp_path / "known.yaml")[0] == code


@pytest.mark.parametrize(("made", "limit", "code"), [(FAIR, 0.05, 0), (FAIR, 0.02, 3), (UNCLEAR, 0.05, 3)])
def test_a_limit_takes_the_upper_bound_of_every_gap(made, limit, code):
    found = check(made, max_gap=limit)
    assert found.code == code
    (axis,) = found.axes
    assert (max(bound.upper for bound in axis.bounds) <= limit and axis.unseen <= limit) == (code == 0)
    for bound in axis.bounds:
        error = 0.01 if made is FAIR else 0.05
        assert bound.upper == pytest.approx(bound.gap + 1.6706 * error, abs=1e-3)


@pytest.mark.parametrize("limit", [None, 0.05, 0.5, 5.0])
def test_a_claimed_difference_is_never_green(limit):
    assert check(HARMED, max_gap=limit).code == 1
    unnamed = HARMED.model_copy(update={"findings": []})
    assert check(unnamed, max_gap=limit).code == 1


def test_without_a_finding_the_largest_gap_that_could_have_been_missed_is_said():
    (axis,) = check(UNCLEAR).axes
    assert axis.missed == pytest.approx(0.03 + 1.6706 * 0.05, abs=1e-3)
    assert f"{axis.missed:.2f} could have been missed" in pages.markdown(check(UNCLEAR))


def test_a_gap_of_either_sign_counts_if_neither_side_is_better():
    favoured = results(-0.2, -0.2)
    assert check(favoured, max_gap=0.1).code == 3
    assert check(results(-0.2, -0.2, better="lower"), max_gap=0.1).code == 0


def test_too_few_terms_show_nothing_of_a_group_unless_they_are_fixed():
    made = results(terms=2.0)
    found = check(made, max_gap=0.1)
    assert found.code == 3
    assert "2.0 effective terms" in " ".join(pages.undecided(found))
    assert check(made, max_gap=0.1, terms_only=True).code == 0


def test_rare_events_are_held_to_exact_bounds_of_dialogues_and_terms():
    """No dialogue of 50 differs, so one in 17 may; no term of 12, so one in five may."""
    assert check(results(error=0.0, affected=[[0, 50]]), max_gap=0.055).code == 3
    assert check(results(error=0.0, affected=[[0, 59]]), max_gap=0.055).code == 0
    assert check(results(error=0.0, affected=[[0, 400], [0, 12]]), max_gap=0.2).code == 3
    assert check(results(error=0.0, affected=[[0, 400], [0, 14]]), max_gap=0.2).code == 0


def test_an_event_that_is_not_measured_may_be_as_large_as_its_bound():
    """An event in two of 100 dialogues may be in 6.2% of all; of two groups half of it is a gap."""
    (axis,) = check(results(error=1e-4)).axes
    assert axis.unseen == pytest.approx(0.0616 / 2, abs=1e-3)
    assert check(results(error=1e-4), max_gap=0.02).code == 3


def test_an_axis_without_any_difference_is_bounded_by_its_terms_too():
    """None of 8 terms differs, so a third of all terms may: of three groups two thirds of that is a gap."""
    finding = Finding(axis="gender", verdict="no difference", dialogues=60, turns=120, bound=0.05)
    made = results(0.0, 0.0, error=0.0)
    made = made.model_copy(update={"findings": [finding]})
    terms = min(group.terms.number for row in made.axes["gender"].values() for group in row.groups.values())
    groups = len(next(iter(made.axes["gender"].values())).groups)
    (axis,) = check(made, max_gap=0.01).axes
    assert axis.unseen == pytest.approx((1 - 0.05 ** (1 / terms)) * (1 - 1 / groups))
    assert f"none of {terms} terms differs" in " ".join(pages.undecided(check(made, max_gap=0.01)))
    (axis,) = check(made, max_gap=0.01, terms_only=True).axes
    assert axis.unseen == pytest.approx((1 - 0.05 ** (1 / 60)) * (1 - 1 / groups))


def test_an_unclear_result_says_how_many_dialogues_it_takes():
    found = check(UNCLEAR, max_gap=0.05)
    (bound, _) = found.axes[0].bounds
    assert bound.needed(0.05) == pytest.approx(100 * ((bound.upper - 0.03) / 0.02) ** 2, abs=1)
    assert "dialogues would tell" in pages.undecided(found)[0]
    assert len(pages.undecided(found)) <= 4


def test_a_gap_that_is_not_told_from_rewording_is_not_within():
    made = record(0.01, -0.01)
    row = made["axes"]["gender"][EVENT]
    row["needs_placebo"] = True
    found = check(AuditResult.model_validate(made), max_gap=0.05)
    assert (found.code, "placebo" in pages.undecided(found)[0]) == (3, True)
    for beyond, code in ((0.01, 0), (0.3, 3)):
        for group in row["groups"].values():
            group["beyond_placebo"] = estimate(beyond)
        assert check(AuditResult.model_validate(made), max_gap=0.05).code == code


def test_where_nobody_is_served_nothing_passes():
    made = record(error=0.0, affected=[[0, 400]], better="lower")
    row = made["axes"]["gender"][EVENT]
    row |= {"original": {"value": 1.0}, "rewritten": {"value": 1.0}}
    found = check(AuditResult.model_validate(made))
    assert found.code == 3
    assert "no group is served" in pages.markdown(found)


def test_a_baseline_leaves_what_is_new_or_larger():
    assert check(HARMED, baseline=HARMED).code == 0
    assert check(HARMED, baseline=FAIR).code == 1
    larger = results(0.6, -0.6, verdict="disparity")
    found = check(larger, baseline=HARMED)
    assert (found.code, found.findings[0].reason) == (1, "was 0.30, is 0.60")
    assert check(HARMED, baseline=larger).code == 0
    other_side = results(-0.3, 0.3, verdict="disparity")
    assert check(HARMED, baseline=other_side).code == 1


def with_consequence(woman):
    """A run whose finding goes with refusals of another component."""
    made = record(0.3, -0.3, verdict="disparity")
    row = json.loads(json.dumps(made["axes"]["gender"][EVENT]))
    for name, sign in (("woman", 1.0), ("man", -1.0)):
        row["groups"][name]["gap"] = estimate(sign * woman)
    made["axes"]["gender"]["refuses"] = row
    made["metrics"][EVENT]["stage"] = "router"
    made["metrics"]["refuses"] = {"label": "refusals", "better": "lower", "range": [0, 1], "stage": "answer"}
    made["findings"][0]["also"] = ["refuses"]
    return AuditResult.model_validate(made)


def test_a_baseline_does_not_excuse_a_new_harm_behind_the_same_first_event():
    harmful = with_consequence(0.2)
    found = check(harmful, baseline=HARMED)
    assert (found.code, found.findings[0].reason) == (1, "new: answer: refusals")
    assert check(harmful, baseline=with_consequence(0.05)).code == 1
    assert check(harmful, baseline=with_consequence(0.2)).code == 0


def test_accepted_findings_pass_with_their_reason(tmp_path):
    path = tmp_path / "known.yaml"
    path.write_text(
        f"- {{axis: gender, group: woman, event: '{EVENT}', reason: ticket 12}}\n"
        "- {axis: age, group: senior, event: refuses, reason: old}\n"
    )
    known = read_known(path)
    assert known[0] == Known(axis="gender", group="woman", event=EVENT, reason="ticket 12")
    found = check(HARMED, known=known)
    assert found.code == 0
    assert [entry.axis for entry in found.unused] == ["age"]
    assert "ticket 12" in pages.markdown(found)
    assert 'skipped="1"' in pages.junit(found)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("- {axis: gender}", "entry 0.group"),
        ("- {axis: a, group: b, event: c, reason: d, until: e}", "entry 0.until"),
        ("{", "cannot be read"),
        ("5", "expected a list"),
    ],
)
def test_a_malformed_file_of_accepted_findings_is_one_line(tmp_path, text, named):
    (tmp_path / "known.yaml").write_text(text)
    with pytest.raises(GateError, match=named) as caught:
        read_known(tmp_path / "known.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"axes": ["age"]}, "has no axis age; it has gender"), ({"axes": ["placebo"]}, "has no axis placebo")],
)
def test_what_the_run_does_not_have_is_named(options, named):
    with pytest.raises(GateError, match=named):
        check(FAIR, **options)


def test_other_readers_take_the_junit_file(tmp_path):
    junitparser = pytest.importorskip("junitparser", reason="no junitparser: pip install -e '.[test]'")
    made = record(0.4, -0.4, axis="gend<er\x00", verdict="disparity")
    made["axes"]["age"] = record(0.03, -0.03, error=0.05)["axes"]["gender"]
    path = tmp_path / "junit.xml"
    path.write_text(pages.junit(check(AuditResult.model_validate(made), max_gap=0.05)), encoding="utf-8")
    first, second = junitparser.JUnitXml.fromfile(str(path))
    assert (first.tests, first.failures, second.tests, second.errors) == (1, 1, 1, 1)
    (case,) = first
    assert "40 of 100 as woman" in case.result[0].message
    assert EVENT in case.name


def test_the_comment_names_findings_and_fits_in_40_lines():
    made = record(0.4, -0.4, axis="a|b_c", verdict="disparity")
    finding = made["findings"][0]
    made["findings"] = [finding | {"stage": stage, "what": f"{stage} *x*"} for stage in ("router", "answer")]
    text = pages.markdown(check(AuditResult.model_validate(made)))
    assert text.startswith("## ❌ tod-bias failed: this run has 2 findings\n")
    assert "- **a\\|b\\_c**: " in text
    assert len(text.splitlines()) <= 40


def test_the_exit_code_of_the_command_is_the_verdict(tmp_path):
    for made, options, code, said in (
        (FAIR, "", 0, "passed"),
        (HARMED, "", 1, "failed"),
        (UNCLEAR, "--max-gap 0.05", 3, "cannot tell"),
    ):
        Path(tmp_path / "results.json").write_text(made.text())
        ended, out, _ = run_command(f"check {options}", tmp_path, "--out", tmp_path)
        assert (ended, out.startswith(f"{said}: ")) == (code, True)
        assert json.loads((tmp_path / "check.json").read_text())["state"] == said
        assert len(out.splitlines()) <= 12
        assert max(map(len, out.splitlines()[1:])) <= 80
