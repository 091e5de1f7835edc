"""What the package says of itself: the same in all places."""

import tomllib
from pathlib import Path

import yaml

import tod_bias

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_citation_and_project_say_the_same():
    assert CITATION["version"] == tod_bias.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["title"] == PROJECT["name"]
    assert set(CITATION["keywords"]) == set(PROJECT["keywords"])
    assert [one["name"] for one in CITATION["authors"]] == [one["name"] for one in PROJECT["authors"]]
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)


def test_constraints_are_sorted_and_exact():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(line.count("==") == 1 for line in lines)
    assert lines == sorted(lines, key=str.lower)


def test_every_package_of_the_tree_is_installed():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    here = {
        ".".join((*name.split("."), *path.parent.relative_to(ROOT / folder).parts))
        for name, folder in {"tod_bias": "tod_bias", **setuptools["package-dir"]}.items()
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert {name for name in here if "parlai_internal" not in name} == set(setuptools["packages"])
