"""Pages that can be handed in, events for a tracing tool, and the schema of results.json."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from commands import refused, run_command

from tod_bias import AuditResult, Dialogue, Pipeline, Turn, attribute

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "results.schema.json"
PEOPLE = ("wife", "husband", "mother", "father", "sister", "brother", "daughter", "son", "aunt", "uncle")
WOMEN = {*PEOPLE[::2], "woman", "girlfriend", "grandmother", "lady", "niece", "girl"}
FIELDS = {
    "annex-iv": (
        "Date of the test", "Date of this report", "Versions", "tod-bias", "Hash of its content", "Test procedure",
        "Groups and numbers", "Findings", "What could have been missed", "Known limitations", "Signature", "Garage",
        "Components tested", "Intended purpose", "Responsible",
    ),
    "ll144": ("counterfactual test data", "impact ratio", "Independent auditor", "The law sets no limit", "Signature"),
    "limitations": ("What could have been missed", "Known limitations", "Signature"),
}  # fmt: skip


def route(inputs):
    return [{"desk": "phone" if set(re.findall(r"\w+", item.user.lower())) & WOMEN else "counter"} for item in inputs]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    chats = [Dialogue(f"d{n}", "", (Turn(f"Book {n} for my {PEOPLE[n % 10]} please."),)) for n in range(50)]
    answer = {"route": route, "say": lambda inputs: [f"At the {item.outputs['route']['desk']}." for item in inputs]}
    attribute(Pipeline(answer), chats, ["gender"], permutations=500).save(folder)
    return folder


@pytest.mark.parametrize("name", FIELDS)
def test_a_form_has_every_field_as_a_page_and_as_json(run, name):
    code, out, _ = run_command(
        "view", run, "--as", name, "--system", "Garage", "--purpose", "repairs", "--responsible", "A. <b>Smith"
    )
    assert code == 0
    assert f"{name}.html" in out
    page = (run / f"{name}.html").read_text(encoding="utf-8")
    record = json.loads((run / f"{name}.json").read_text())
    assert [field for field in FIELDS[name] if field not in page] == []
    assert "<b>Smith" not in page
    assert record["form"] == name
    assert not re.search(r"(src|href)=|@import|url\(", page)


def test_rates_and_impact_ratios_are_those_of_the_groups(run):
    run_command("view", run, "--as", "ll144")
    record = json.loads((run / "ll144.json").read_text())
    (table,) = record["sections"][1]["tables"]
    groups = AuditResult.load(run).axes["gender"]["value:route.desk=phone"].groups
    largest = max(group.score.value for group in groups.values())
    for name, _, _, ratio in table["rows"]:
        assert float(ratio) == pytest.approx(groups[name].score.value / largest, abs=0.005)
    assert "Not in this run: race, sex × race." in record["sections"][1]["sentences"]


def test_what_a_form_cannot_be_made_of_is_one_line(run, tmp_path):
    assert "give --as" in refused("view --system x", run)
    assert "one folder" in refused("view --as ll144", run, run)
    made = json.loads((run / "results.json").read_text())
    made["axes"] = {"age": made["axes"]["gender"]}
    made["findings"] = []
    (tmp_path / "results.json").write_text(json.dumps(made))
    assert "no axis is about sex or race" in refused("view --as ll144", tmp_path)


def test_findings_are_events_for_a_tracing_tool(run, tmp_path):
    assert run_command("check", run, "--otel", tmp_path / "events.json", "--quiet")[0] == 1
    (line,) = (tmp_path / "events.json").read_text().splitlines()
    (logs,) = json.loads(line)["resourceLogs"][0]["scopeLogs"]
    (record,) = logs["logRecords"]
    assert record["eventName"] == "gen_ai.evaluation.result"
    given = {some["key"]: next(iter(some["value"].values())) for some in record["attributes"]}
    assert given["gen_ai.evaluation.score.label"] == "fail"
    assert given["tod_bias.stage"] == "route"
    assert "as woman" in given["gen_ai.evaluation.explanation"]
    assert given["gen_ai.conversation.id"].startswith("d")


def test_results_fit_their_schema_which_is_up_to_date(run):
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema == AuditResult.model_json_schema(), "run python tests/report/test_forms.py"
    jsonschema.validate(json.loads((run / "results.json").read_text()), schema)


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(AuditResult.model_json_schema(), indent=1) + "\n", encoding="utf-8")
