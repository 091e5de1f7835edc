"""The Python snippets of README, CONTRIBUTING and of the pages that no other test runs are run as they stand."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tod_bias.config import AuditConfig
from tod_bias.dialogues import corpora

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/how-to/python-stages.md", "docs/reference/rewriting.md")
SNIPPETS = {
    f"{name}-{number}": code
    for name in DOCUMENTS
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    )
}
CONTRACTS = {name for name, code in SNIPPETS.items() if "Contract)" in code}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SNIPPETS.keys() - CONTRACTS))
def test_snippet_runs(tmp_path, monkeypatch, capsys, name):
    (tmp_path / "snippet.py").write_text(SNIPPETS[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(corpora, "CORPORA", dict(corpora.CORPORA))
    runpy.run_path("snippet.py", run_name="__main__")
    assert capsys.readouterr().out


def test_snippets_of_tests_pass(tmp_path):
    for number, name in enumerate(CONTRACTS):
        (tmp_path / f"test_snippet{number}.py").write_text(SNIPPETS[name])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 4 * len(CONTRACTS) >= 16


def test_types_of_contributing_are_classes_of_their_files_and_as_many_as_are_said():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## From a file to a line")[2]
    lines = re.findall(r"^ (.+?) +((?:tod_bias|perturb)/[\w/]+\.py)$", text.partition("## ")[0], re.MULTILINE)
    types = 0
    for names, file in lines:
        for name in re.findall(r"\b_?[A-Z]\w+", names):
            imported = rf"^(?:class {name}\b|from [\w.]+ import .*\b{name}\b)"
            assert re.search(imported, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), f"{name} in {file}"
        types += len(re.findall(r"\b_?[A-Z]\w+", re.sub(r"\(.*?\)", "", names)))
    assert f"these {types} types" in text


def test_readme_fits_a_reading_of_five_minutes():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 150
    assert text.index("docs/pictures/demo.svg") < 400
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len([line for line in code.split("\n") if line.strip()]) <= 15


def test_drawing_of_contributing_fits_a_screen():
    drawing = re.search(r"```text\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    lines = drawing.split("\n")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_questions_of_contributing_name_at_most_four_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z].*\?) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) == 7
    for question, files in rows:
        named = re.findall(r"`((?:tod_bias|perturb)/[\w/]+\.py)`", files)
        assert 1 <= len(named) <= 4, question
        assert all((ROOT / file).is_file() for file in named), question


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda path: os.path.relpath(path, ROOT),
)
def test_links_lead_somewhere(path):
    """Also to a heading of another file, where one is named."""
    prose = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        name, _, anchor = target.partition("#")
        if "://" in target or name.endswith("cli.md"):  # that page is made when the site is built
            continue
        file = path.parent / name if name else path
        assert file.exists(), target
        if anchor and "simulations.md" not in name:  # that page is another file when the site is built
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
            assert anchor in anchors, target


def test_the_configuration_of_the_reference_is_one(tmp_path):
    text = (ROOT / "docs/reference/results.md").read_text(encoding="utf-8")
    (tmp_path / "audit.yaml").write_text(re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1])
    assert AuditConfig.read(tmp_path / "audit.yaml").given()["max_dialogues"] == 200
