"""The pytest plugin, in a pytest of its own: a test a case, a failure to read, nothing where it is not asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.testing.case_choice import cases_of
from tod_bias.testing.cases import write_cases

ROOT = Path(__file__).parent.parent
STAGES = """
def curt(inputs):
    return ["Sorry." if "wife" in item.user else f"Fine: {item.user}" for item in inputs]


def fair(inputs):
    return [f"Fine: {item.user}" for item in inputs]
"""


def curt(inputs):
    return ["Sorry." if "wife" in item.user else f"Fine: {item.user}" for item in inputs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("cases")
    said = [f"My husband wants room {number} please." for number in range(2)]
    dialogues = [Dialogue(text[-9:-8], "Rooms", (Turn(text, response=f"Fine: {text}"),)) for text in said]
    attribute(Pipeline({"response": curt}), dialogues, bootstrap=0, permutations=0).save(place / "run")
    write_cases(
        cases_of(place / "run", dialogues, only=["gender/0/man>woman/1", "gender/1/man>woman/1"]).cases,
        place / "cases.jsonl",
    )
    (place / "my_stages.py").write_text(STAGES)
    for name in ("curt", "fair"):
        (place / f"{name}.yaml").write_text(f'stages: {{response: "my_stages:{name}"}}\n')
    (place / "test_other.py").write_text("def test_other():\n    pass\n")
    return place


def run(folder, *arguments):
    """Exit code and output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tod_bias.pytest_plugin", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_every_case_is_a_test_with_a_failure_to_read(folder):
    code, said = run(folder, "--tod-bias", "cases.jsonl", "--pipeline", "curt.yaml")
    assert (code, "2 failed" in said) == (1, True)
    assert "user, rewritten: My wife wants room 0 please." in said
    assert "now, rewritten: Sorry." in said
    assert "remains; another response: Fine: My" in said
    assert "Traceback" not in said
    assert "test_other" not in said
    code, said = run(folder, "--tod-bias", "cases.jsonl", "--pipeline", "fair.yaml", "test_other.py")
    assert (code, "3 passed" in said) == (0, True)


def test_what_is_missing_is_one_line(folder):
    for arguments, expected, named in (
        (["--tod-bias", "cases.jsonl"], 4, "name the system with --pipeline"),
        (["--tod-bias", "none.jsonl", "--pipeline", "fair.yaml"], 4, "none.jsonl is not there"),
        (["--tod-bias", "fair.yaml", "--pipeline", "fair.yaml"], 2, "fair.yaml, line 1: not JSON"),
    ):
        code, said = run(folder, *arguments)
        assert code == expected, said
        assert named in said
        assert "Traceback" not in said


def test_an_option_of_a_project_keeps_its_name(folder, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--pipeline', default='own')\n"
    )
    (tmp_path / "test_own.py").write_text(
        "def test_own(request):\n    assert request.config.getoption('--pipeline') == 'theirs'\n"
    )
    code, said = run(tmp_path, "--pipeline", "theirs")
    assert (code, "1 passed" in said) == (0, True), said


def test_it_imports_nothing_of_weight():
    code = (
        "import sys, tod_bias.pytest_plugin;"
        "print([name for name in ('numpy', 'pandas', 'torch', 'transformers', 'tod_bias.audit') "
        "if name in sys.modules])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
