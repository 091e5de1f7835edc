"""Pages: every report is one self-contained HTML file; all share one layout and one style.

A report's template extends ``page.html.j2`` (blocks ``title`` and ``main``) and may import ``parts.html.j2`` (lists of
sentences, notes, figures, tables); it is in :mod:`tod_bias.report` or in the folder of the code that uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tod_bias.io.files import write_text
from tod_bias.report.console import shown
from tod_bias.report.notation import count, p_cell
from tod_bias.report.palette import inline, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "report.html"
"""Name of a report's file."""
FIGURES = "figures"
"""Name of the folder of a page's figures as SVG."""
TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: Path, filters: Mapping[str, Callable[..., Any]] | None = None, **content: Any) -> str:
    """HTML of a template; the filters ``p`` (p-values) and ``count`` are available, and everything else is escaped.

    Args:
        template: a Jinja file; templates of its folder and of :mod:`tod_bias.report` can be imported and extended.
        filters: further ones.
        content: its variables; a missing one is an error.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"p": p_cell, "count": count, **(filters or {})}
    return shown(accessible_page(environment.get_template(template.name).render(content)))


_PARTS = re.compile(
    r"<(h[1-6])\b[^>]*>(?P<heading>.*?)</\1>|<(?P<head>/?)thead>|<(?P<row>table|tr)\b"
    r"|<(?P<cell>t[hd])(?P<how>(?:\s[^>]*)?)>(?P<text>.*?)</(?P=cell)>"
    r'|<(?P<kind>div|figure) class="scroll">',
    re.DOTALL,
)


def accessible_page(html: str) -> str:
    """A page for screen readers, keyboards and phones: header cells have a scope, what scrolls can be focused, and
    cells know their column, as a phone shows a row as a list."""
    heading, in_head, place = "", False, 0
    columns: list[str] = []

    def accessible(match: re.Match[str]) -> str:
        nonlocal heading, in_head, place
        if match["heading"] is not None:
            heading = _in_quotes(match["heading"])
        elif match["head"] is not None:
            in_head = not match["head"]
        elif match["row"] is not None:
            place = 0
            if match["row"] == "table":
                columns.clear()
        elif match["kind"] is not None:
            return f'<{match["kind"]} class="scroll" role="group" tabindex="0" aria-label="{heading}">'
        else:
            how, text = match["how"], match["text"]
            if in_head:
                columns.append(_in_quotes(text))
            elif place < len(columns) and place and columns[place]:
                how += f' data-label="{columns[place]}"'
            place += 1
            if match["cell"] == "td" or not text.strip():
                return f"<td{how}>{text.strip()}</td>"  # an empty cell heads nothing
            return f'<th scope="{"col" if in_head else "row"}"{how}>{text}</th>'
        return match[0]

    return _PARTS.sub(accessible, html)


def _in_quotes(html: str) -> str:
    """The text of an element as the value of an attribute."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split()).replace('"', "&quot;")


def write_page(path: Path, template: Path, **content: Any) -> Path:
    """Write what :func:`render_page` gives, and return the path."""
    write_text(path, render_page(template, **content))
    return path


def draw(figure: Figure, path: Path, label: str, name: str | None = None, narrow: Figure | None = None) -> Markup:
    """Write a figure as SVG, and return it for a page.

    Args:
        figure: what to write.
        path: of the SVG file; its folder is made.
        label: what the figure shows, in words.
        name: put before its ids, so that the figures of one page do not clash; by default the file's.
        narrow: the same figure for phones.
    """
    svg, name = to_svg(figure), name or path.stem
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, svg)
    wide = inline(svg, name, label)  # matplotlib escapes its text, `inline` the label
    if narrow is None:
        return Markup(wide)
    phone = inline(to_svg(narrow), f"{name}-phone", label)
    return Markup(f'<div class="wide">{wide}</div><div class="phone">{phone}</div>')
