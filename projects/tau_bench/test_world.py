"""Worlds of documents: copies, arithmetic, files."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from tod_bias.errors import StageError
from tod_bias.stages import Tools
from tod_bias.systems.functions import module_of

PROJECT = Path(__file__).parent
worlds = module_of(PROJECT / "world.py")
World = worlds.World


@pytest.fixture
def world() -> World:
    cats = {"a": {"name": "Ada", "city": "Rome"}, "b": {"name": "Bo", "city": "Oslo"}, "c": {"city": "Rome"}}
    return World(worlds.Base({"cats": cats, "dogs": {"a": {"name": "Rex"}}}, {"cats": ("city",)}))


def test_a_copy_does_not_see_what_the_other_writes_and_a_document_is_its_readers_own(world):
    other = copy.deepcopy(world)
    other.put("cats", "a", {"name": "Ann"})
    other.put("cats", "d", {"name": "Dan"})
    assert [world.get("cats", name) for name in "ad"] == [{"name": "Ada", "city": "Rome"}, None]
    assert [other.get("cats", name) for name in "ad"] == [{"name": "Ann"}, {"name": "Dan"}]
    assert other.base is world.base
    world.get("cats", "a")["name"] = "X"
    written = {"tags": [1]}
    world.put("cats", "b", written)
    written["tags"].append(2)
    assert world.get("cats", "a")["name"] == "Ada"
    assert world.get("cats", "b") == {"tags": [1]}
    assert world.get("dogs", "a") == {"name": "Rex"}
    assert world.get("cats", 3) is None


def test_documents_are_found_by_an_indexed_field(world):
    assert world.base.ids("cats", "city", "Rome") == ["a", "c"]
    assert world.base.ids("cats", "city", "' OR 1=1 --") == []


@pytest.mark.parametrize(
    ("expression", "value"),
    [("2 + 2", 4), (" (1 + 2) * 3 / 4 - -1", 3.25), ("0.1 + 0.2", 0.1 + 0.2), ("7", 7), ("+3", 3)],
)
def test_arithmetic(expression, value):
    assert worlds.arithmetic(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["", "1 / 0", "9 ** 9 ** 9", "__import__('os')", "x", "'a' * 3", "1" * 2000, "(" * 300 + "1" + ")" * 300, "1e999"],
)
def test_what_is_no_arithmetic(expression):
    with pytest.raises(ValueError, match=r"invalid expression|division by zero|too long|too large"):
        worlds.arithmetic(expression)


@pytest.mark.parametrize("name", ["airline", "retail"])
def test_a_world_without_its_files_says_what_to_do(name, tmp_path):
    module = PROJECT / f"{name}.py"
    with pytest.raises(StageError, match="needs its database; add data: PATH"):
        Tools(module)
    with pytest.raises(StageError, match=r"tools\.json: cannot be read as JSON"):
        Tools(module, data=tmp_path)
