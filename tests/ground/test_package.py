"""What is built holds everything, also from a copy without symbolic links (a zip file, a file system that has none)."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LINKED = {"agents": "agents/for_parlai", "perturb": "perturb", "recommenders": "recommenders"}
"""Names in the package, and the folders that they link to."""


def without_links(place):
    """A copy of the sources; links are small files that hold their target, as git leaves them then."""
    skipped = shutil.ignore_patterns("__pycache__", *LINKED)
    shutil.copytree(ROOT / "tod_bias", place / "tod_bias", ignore=skipped)
    for name, folder in LINKED.items():
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))
        (place / "tod_bias" / name).write_text(f"../{folder}")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("sources")
    without_links(place)
    code = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-W", "ignore", "-c", code, str(place)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return place / done.stdout.split()[-1]


@pytest.mark.slow
def test_a_wheel_built_without_links_holds_every_module_and_its_files(wheel):
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if name.startswith("tod_bias/")}
    places = {"tod_bias": "tod_bias"} | {f"tod_bias/{name}": folder for name, folder in LINKED.items()}
    there = {
        (Path(place) / path.relative_to(ROOT / top)).as_posix()
        for place, top in places.items()
        for folder, _, names in os.walk(ROOT / top)
        if "__pycache__" not in folder
        for path in (Path(folder, name) for name in names)
        if not path.is_symlink()
    }
    missing = {name for name in there - held if not name.endswith((".md", ".sqlite"))}
    assert not missing
    assert not held & {f"tod_bias/{name}" for name in LINKED}


@pytest.mark.slow
def test_what_is_installed_from_it_runs_without_the_checkout(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "HF_HUB_OFFLINE": "1"}
    options = ("--max-dialogues", "12", "--axes", "gender", "--bootstrap", "20", "--permutations", "20", "--quiet")
    (tmp_path / "own.py").write_text("def answer(inputs):\n    return ['Yes.' for _ in inputs]\n")
    (tmp_path / "own.yaml").write_text("stages: {answer: 'own:answer'}\n")
    for words in (
        ("attribute", "--pipeline", "own.yaml", "--corpus", "demo", "--out", "run", "--allow-unmeasured", *options),
        ("report", "run"),
        ("view", "run", "--build"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tod_bias", *words],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    said = subprocess.run(
        [sys.executable, "-c", "import tod_bias.agents.plugin as p; print(p.__file__)"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.stdout.startswith(str(tmp_path / "installed")), said.stderr
