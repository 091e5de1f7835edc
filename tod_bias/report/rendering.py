"""Pages from templates: every report is one self-contained HTML file.

A report's template extends ``page.html.j2`` (blocks ``title`` and ``main``) and may import ``parts.html.j2`` (lists of
sentences, notes, figures, tables). Templates are in :mod:`tod_bias.report`, or in the folder of the code that uses
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2

from tod_bias.io.files import write_text
from tod_bias.report.console import shown
from tod_bias.report.notation import count, p_cell
from tod_bias.report.page_tables import name_row, page_table

REPORT = "report.html"
"""Name of a report's file."""
FIGURES = "figures"
"""Name of the folder of a page's figures as SVG."""
TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: Path, filters: Mapping[str, Callable[..., Any]] | None = None, **content: Any) -> str:
    """HTML of a template, in which everything is escaped.

    The filters ``p`` (p-values) and ``count`` are available, and ``table`` and ``name_row`` for tables
    (:mod:`tod_bias.report.page_tables`).

    Args:
        template: a Jinja file; templates of its folder and of :mod:`tod_bias.report` can be imported and extended.
        filters: further ones.
        content: its variables; a missing one is an error.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"p": p_cell, "count": count, **(filters or {})}
    environment.globals |= {"table": page_table, "name_row": name_row}
    return shown(environment.get_template(template.name).render(content))


def write_page(path: Path, template: Path, **content: Any) -> Path:
    """Write what :func:`render_page` gives, and return the path."""
    write_text(path, render_page(template, **content))
    return path
