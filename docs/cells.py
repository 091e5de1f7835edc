"""Cells of notebooks, run as a kernel runs them; for the site and for the tests."""

from __future__ import annotations

import ast
from typing import Any


def run_cell(source: str, namespace: dict[str, Any], place: str) -> Any:
    """Run the code of a cell; return the value of its last line if that is an expression, else None.

    Args:
        source: the code of a notebook of this repository.
        namespace: of the notebook, which the cell changes.
        place: of the cell, for tracebacks.
    """
    body = ast.parse(source)
    last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
    exec(compile(body, place, "exec"), namespace)
    return None if last is None else eval(compile(ast.Expression(last.value), place, "eval"), namespace)
