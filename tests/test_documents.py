"""The documents' Python snippets run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SNIPPETS = [
    pytest.param(code, id=f"{name}-{number}")
    for name in ("README.md", "CONTRIBUTING.md")
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.slow
@pytest.mark.parametrize("code", SNIPPETS)
def test_snippet_runs(tmp_path, code):
    file = tmp_path / "test_snippet.py"
    file.write_text(code)
    command = [sys.executable, file.name]
    if "StageContract" in code:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout


def test_own_stage_of_the_readme_is_fifteen_lines_or_less():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    assert len([line for line in code.split("\n") if line.strip()]) <= 15


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (ROOT / target).exists(), target
