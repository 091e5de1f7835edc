"""The stock ``parlai`` command, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest

pytestmark = [pytest.mark.parlai, pytest.mark.slow]

TEACHER = "tod_bias.agents:PerturbedGoogleSgdTeacher"
FAIRSCORE = "tod_bias.agents:FairscoreGoogleSgdTeacher"
AGENT = "tod_bias.agents:PipelineAgent"


def parlai(*arguments: str | Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    return forked.parlai([*map(str, arguments)], typed)


def test_display_data_shows_rewritten_dialogues(datapath):
    options = ["-t", TEACHER, "--axis", "gender", "--target", "man", "-dp", str(datapath), "-dt", "valid"]
    run = subprocess.run(
        [sys.executable, "-m", "parlai", "display_data", *options],
        capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "USER: My husband wants tacos." in run.stdout
    assert re.search(r"axis gender, seed 0, draw 0: 2 of 4 dialogues rewritten, 2 without", run.stdout + run.stderr)


def test_eval_model_runs_an_agent_with_a_guard_on_a_teacher_in_batches(datapath, strict_pipeline):
    options = ["--pipeline", strict_pipeline, "--axis", "gender", "--guard", "response=canonical:gender,age"]
    run = parlai("eval_model", "-t", TEACHER, "-m", AGENT, *options, "-dp", datapath, "-dt", "valid", "-bs", "16")
    assert run.returncode == 0, run.stderr
    assert "nlg_bleu" in run.stdout


@pytest.mark.parametrize(
    ("teacher", "asked"), [(TEACHER, ()), (FAIRSCORE, ()), (FAIRSCORE, ("--api-jga-record", "true"))]
)
def test_the_table_has_a_row_per_api_only_where_it_is_asked_for(datapath, tmp_path, teacher, asked):
    report = tmp_path / "report.json"
    run = parlai(
        "eval_model", "-t", teacher, "--axis", "gender", "-m", "fixed_response", "--fixed-response", "APICALL: ", "-dp",
        datapath, "-dt", "valid", "-rf", report, *asked,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    rows = [name for name in json.loads(report.read_text())["report"] if name.startswith("api-")]
    assert bool(rows) is bool(asked)


def test_eval_model_reports_bias_beside_parlais_own_metrics(datapath, tmp_path):
    report = tmp_path / "report.json"
    run = parlai(
        "eval_model", "-t", FAIRSCORE, "--axis", "gender", "-m", "fixed_response", "--fixed-response",
        "SYSTEM: House of tacos would suit your wife.", "-dp", datapath, "-dt", "valid", "-bs", "3", "-rf", report,
        "--bias-report", "full",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert re.search(r"axis gender, seed 0: 3 of 4 dialogues rewritten, 6 counterfactuals", run.stdout + run.stderr)
    assert re.search(r"\bdisparity\b.*", run.stdout)
    bias = json.loads(report.read_text())["report"]
    assert bias["exs"] == sum(2 * turns + 3 for turns in (2, 3, 1, 1))  # the originals', with ParlAI's own lines
    assert (bias["rewritten_dialogues"], bias["variants"]) == (3, 6)
    assert bias["corpus_bleu/woman/score"] > bias["corpus_bleu/man/score"] > 0
    assert bias["corpus_bleu/disparity"] > 0
    assert bias["jga/disparity"] == 0


def test_interactive_answers_a_typed_line_by_the_response(strict_pipeline):
    run = parlai("interactive", "-m", AGENT, "--pipeline", strict_pipeline, typed="I want tacos\n[EXIT]\n")
    assert run.returncode == 0, run.stderr
    assert re.search(r"\[PipelineAgent\]:\S* *[0-9a-f]{8} \\ ; = \|", re.sub(r"\x1b\[[0-9;]*m", "", run.stdout))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (f"display_data -t {TEACHER} --axis height -dt valid", "unknown axis 'height'"),
        (f"eval_model -t {FAIRSCORE} --axis race -m repeat_label", "google_sgd, valid: none of 4 dialogues has a word"),
        (f"eval_model -t google_sgd -m {AGENT} --pipeline no.yaml", "no.yaml: cannot be read"),
        (f"eval_model -t google_sgd -m {AGENT} -bs -1", "--batchsize is -1; expected a whole number of at least 1"),
        (f"eval_model -t google_sgd -m {AGENT} --max-new-tokens 0", "--max-new-tokens is 0; expected a whole number"),
        (f"train_model -t google_sgd -m {AGENT} -mf OUT", "PipelineAgent cannot be trained; train its models"),
    ],
)
def test_a_users_mistake_ends_in_one_line_and_exit_code_2(datapath, tmp_path, arguments, expected):
    run = parlai(*arguments.replace("OUT", str(tmp_path / "model")).split(), "-dp", datapath)
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].startswith(f"error: {expected}")
    assert "Traceback" not in run.stderr
