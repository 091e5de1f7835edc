"""One-page reports of the audits: their own template in the style of the run's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from tod_bias.report.notation import count, p_cell

_STYLE = Path(__file__).parent / "templates" / "report.css"


def render_page(template: Path, **content: Any) -> str:
    """HTML of a template; it is given ``css`` and the filters ``p`` (p-values) and ``count``, and escapes all else.

    Args:
        template: a Jinja file.
        content: its variables; a missing one is an error.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"p": p_cell, "count": count}
    style = Markup(_STYLE.read_text(encoding="utf-8"))
    return environment.from_string(template.read_text(encoding="utf-8")).render(css=style, **content)
