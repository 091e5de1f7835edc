"""The house: rooms on floors, imports downwards, small files, tests beside what they test."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINKED = {"perturb": "perturb", "recommenders": "recommenders", "agents/for_parlai": "agents"}
"""Folders that are linked into the package, and what they are called there."""
FLOORS = (
    # the doors: what users import and type, each looked up when it is asked for
    ("tod_bias", "__main__", "attribute"),
    ("cli",),
    ("pytest_plugin",),
    ("pytest_cases",),
    ("agents",),  # everything ParlAI; reached by name alone
    ("recommenders",),
    ("report",),  # renders what is below, and decides nothing
    ("mitigation",),
    ("testing",),
    ("audit",),
    ("worlds",),  # benchmarks with tools and a judgement of their own, from packages
    ("pipelines",),  # systems from files: they name shipped stages and guards
    ("integrations",),  # agents of other frameworks
    ("stages",),  # the names of shipped components
    ("perturb",),  # rewrites dialogues for a system's twins, whose protocol is systems'
    ("systems",),
    ("models",),
    ("changes",),  # results of a comparison
    ("results",),
    ("metrics",),
    ("dialogues",),
    ("config",),
    ("statistics",),
    ("io",),  # the border: files, folders, caches, documents
    ("errors",),
)
"""From top to bottom; the names of one line share a floor."""
LAZY = {
    "stages": "it looks components up in their rooms when they are asked for; its imports are for types alone",
}
"""Modules that may name what stands above them, and why."""
NOT_ROOMS = {
    "benchmarks": "measured ratios",
    "golden": "results of twelve configurations as they were recorded",
    "ground": "the border and the errors",
    "docs": "the documentation site",
}
"""Folders of tests that have no room of their name."""


EXAMPLES = tuple(f"data/init/{kind}" for kind in ("agent", "assistant", "responses", "stages"))
"""Folders of what tod-bias init writes: not the package's own code."""


def python_files() -> Iterator[Path]:
    for top in ("tod_bias", *LINKED, "projects", "tests"):
        for folder, _, names in os.walk(ROOT / top):  # does not follow links
            if "__pycache__" not in folder and not folder.endswith(EXAMPLES):
                yield from (Path(folder, name) for name in names if name.endswith(".py"))


def modules() -> dict[str, Path]:
    """Every module of the package by its full name."""
    found = {}
    for path in python_files():
        place = path.relative_to(ROOT).with_suffix("").as_posix()
        for folder, name in LINKED.items():
            if place.startswith(f"{folder}/"):
                place = f"tod_bias/{name}{place.removeprefix(folder)}"
        if place.startswith("tod_bias/"):
            found[place.replace("/", ".").removesuffix(".__init__")] = path
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


@pytest.mark.parametrize("path", sorted((ROOT / "tod_bias" / "report").glob("*.py")), ids=lambda path: path.name)
def test_renderers_decide_nothing(path):
    """No file of the report compares a p-value, a level or an interval."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    decided = {"p", "ci", "is_shown", "excludes_zero"}
    for node in ast.walk(tree):
        names = {some.id for some in ast.walk(node) if isinstance(some, ast.Name)}
        if isinstance(node, ast.Compare):
            parts = {some.attr for some in ast.walk(node) if isinstance(some, ast.Attribute)}
            is_presence = all(isinstance(some, ast.Is | ast.IsNot) for some in node.ops)
            assert is_presence or not (parts & decided or "ALPHA" in names), f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("is_shown", "excludes_zero"), f"{path.name}:{node.lineno}"


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
    """The tests of a room are in a folder of its name; those of a study are beside it, in ``projects/``."""
    rooms = {name for floor in FLOORS for name in floor}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - set(NOT_ROOMS) <= rooms
    assert {"agents", "cli", "dialogues", "metrics", "models", "perturb", "recommenders"} <= folders
    assert {"audit", "report", "statistics", "systems"} <= folders


MOST = {"lines": 60, "parameters": 8, "complexity": 15}
"""Of a function."""


def shipped() -> Iterator[tuple[Path, ast.Module, str]]:
    for path in python_files():
        if path.relative_to(ROOT).as_posix().startswith(("tod_bias/", *(f"{folder}/" for folder in LINKED))):
            text = path.read_text(encoding="utf-8")
            yield path, ast.parse(text), text


def test_functions_stay_small_and_class_names_stand_once():
    over: list[tuple[str, str, str]] = []
    classes: dict[str, list[str]] = {}
    for path, tree, text in shipped():
        place = path.relative_to(ROOT).as_posix()
        assert not re.search(r"#\s*fmt:\s*skip", text), place
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(place)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sizes = {"lines": _lines(node), "parameters": _parameters(node), "complexity": _paths(node)}
                over += [(place, node.name, what) for what, size in sizes.items() if size > MOST[what]]
    assert over == []
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = node.args
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return len([one for one in named if one.arg not in ("self", "cls")])


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Of a function's body, without its docstring."""
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    begin = first.end_lineno + 1 if is_text else first.lineno
    return node.end_lineno - begin + 1


_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.match_case)


def _paths(node: ast.AST) -> int:
    """Cyclomatic complexity (McCabe 1976): branches, loops, handlers and further operands of and/or, plus one."""
    count = 1
    for one in ast.walk(node):
        if isinstance(one, ast.BoolOp):
            count += len(one.values) - 1
        elif isinstance(one, _BRANCHES):
            count += 1
    return count
