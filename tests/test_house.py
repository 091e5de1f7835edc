"""The house: rooms on floors, imports downwards, small files, tests beside what they test."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINKED = ("perturb", "recommenders", "agents")
"""Top folders that are linked into the package."""
FLOORS = (
    # the doors: what users import and type, each looked up when it is asked for
    ("tod_bias", "__main__", "attribute"),
    ("cli",),
    ("demo", "testing", "pytest_plugin"),
    ("agents",),  # everything ParlAI; reached by name alone
    ("recommenders",),
    ("studies",),
    ("audit",),
    ("stages",),  # the names of shipped components
    ("perturb",),  # rewrites dialogues for a system's twins, whose protocol is systems'
    ("systems",),
    ("models",),
    ("report",),
    ("metrics",),
    ("dialogues",),
    ("config",),
    ("statistics",),
    ("answers", "documents", "environment", "folder", "hub", "imports", "progress"),
    ("files", "sqlite"),
    ("errors",),
)
"""From top to bottom; the names of one line share a floor."""
LAZY = {"stages": "it looks components up in their rooms when they are asked for; its imports are for types alone"}
"""Modules that may name what stands above them, and why."""
NOT_ROOMS = {
    "benchmarks": "measured ratios",
    "golden": "results of fourteen configurations as they were recorded",
    "projects": "the studies' own scripts",
    "ground": "the modules of the lowest three floors",
    "docs": "the documentation site",
}
"""Folders of tests that have no room of their name."""


def python_files() -> Iterator[Path]:
    for top in ("tod_bias", *LINKED, "projects", "tests"):
        for folder, _, names in os.walk(ROOT / top):  # does not follow links
            if "__pycache__" not in folder:
                yield from (Path(folder, name) for name in names if name.endswith(".py"))


def modules() -> dict[str, Path]:
    """Every module of the package by its full name."""
    found = {}
    for path in python_files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] in LINKED:
            parts = ("tod_bias", *parts)
        if parts[0] == "tod_bias":
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports() -> dict[str, dict[str, int]]:
    """Module to the modules of the package that it imports, anywhere in it and for types alone too, with the line."""
    known = modules()
    found: dict[str, dict[str, int]] = {}
    for name, path in known.items():
        found[name] = {}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for target in imported:
                while target and target not in known:
                    target = target.rpartition(".")[0]
                if target and target != name:
                    found[name].setdefault(target, node.lineno)
    return found


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_every_module_stands_on_a_floor():
    assert {room(module) for module in modules()} == {name for floor in FLOORS for name in floor}


def test_imports_point_down():
    """A room imports what stands on a lower floor, and itself; never a room above or beside it.

    So a room can be read, tested and changed knowing only what lies below it. Imports inside functions count (they are
    late, not upward), and so do those for types alone. What is meant for every floor goes to the ground; where a lower
    room needs something of a higher one, it takes it as an argument that follows a protocol of its own.
    """
    level = {name: number for number, floor in enumerate(FLOORS) for name in floor}
    upward = [
        f"{module}:{line} imports {target}"
        for module, targets in imports().items()
        for target, line in targets.items()
        if room(module) != room(target)
        and room(module) not in LAZY
        and level[room(module)] >= level[room(target)]
        and not level[room(module)] == level[room(target)] == 0  # the doors are one package
    ]
    assert not upward


def test_nothing_imports_the_agents():
    assert not [
        module
        for module, targets in imports().items()
        if room(module) != "agents" and any(room(target) == "agents" for target in targets)
    ]


def test_no_circle_of_imports():
    """No two files import each other, not even by way of others."""
    graph = imports()
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        if module in way:
            pytest.fail(" -> ".join((*way[way.index(module) :], module)))
        if module not in done:
            for target in graph[module]:
                visit(target, (*way, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_tests_mirror_the_rooms():
    rooms = {name for floor in FLOORS for name in floor}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - set(NOT_ROOMS) <= rooms
    assert {"agents", "cli", "dialogues", "metrics", "models", "perturb", "recommenders"} <= folders
    assert {"report", "statistics", "studies", "systems"} <= folders
