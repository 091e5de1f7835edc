"""Every script of tests/benchmarks runs, in a small form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("benchmarks")
SMALL = {
    "audited_worlds": None,
    "cluster": None,
    "cluster_worlds": "--samples 1 --only five",
    "corpus": None,
    "detectable_worlds": "--samples 1 --only 6",
    "embeddings": "",
    "event_worlds": "--samples 1 --chats 8 --planted-chats 8",
    "families": "--runs 2",
    "gate_worlds": "--samples 1 --only fair",
    "group_worlds": None,
    "lexicons": "--runs 2 --axes gender --units terms --metrics length",
    "many_stages": "--runs 2",
    "outage_worlds": "--samples 1",
    "paired_worlds": "--runs 10",
    "people": "--runs 1 --only effect-race",
    "planted": "--small --forms straight",
    "processes": None,
    "rare": "--samples 2",
    "recount": None,
    "run": "--dialogues 2 --sample 4 --segments 100 --only bootstrap",
    "served": "--audits 1 --conversations 4 --questions 64",
    "startup": None,
    "stopping": "--runs 50",
    "validity": "--runs 1 --only groups",
    "validity_recommenders": "--runs 1",
}
"""Script to the arguments of its small form; None if a module is imported by others or tested elsewhere, or needs an
idle machine."""


def test_every_script_has_a_small_form():
    assert set(SMALL) == {path.stem for path in FOLDER.glob("*.py")}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, arguments in SMALL.items() if arguments is not None])
def test_a_script_runs(name, tmp_path):
    command = [sys.executable, FOLDER / f"{name}.py", *SMALL[name].split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()
