"""What is added to the pages of the site when it is built.

- ``<!-- from: FILE -->``, with a link to it on the next line for who reads the page in the repository, stands for a
  Markdown file without its title (the changelog, the benchmarks); links in it lead to the page of the site that they
  name, or else become plain text. So do links of any page that lead out of ``docs``.
- a fence ``math`` is LaTeX, which becomes MathML: formulas are text, and need no script.
- ``reference/cli.md`` is made from the commands themselves.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"^<!-- from: (\S+) -->\nSee \[.+\]\(.+\)\.$", re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
HOMES = {"CHANGELOG.md": "reference/changes.md", "tests/benchmarks/README.md": "simulations.md"}
"""Files of the repository that are pages of the site."""


def on_config(config: Any) -> Any:
    """Formulas."""
    fence = {"name": "math", "class": "math", "format": formula}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def on_files(files: Any, config: Any) -> Any:
    """The page of commands."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/cli.md", content=commands()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in files of the repository, and make links that leave the site plain text."""
    name = page.file.src_uri
    if include := INCLUDE.search(markdown):
        file = include[1]
        text = (ROOT / file).read_text(encoding="utf-8").split("\n", 1)[1].strip()
        return INCLUDE.sub(lambda _: LINK.sub(lambda link: linked(link, file, name), text), markdown)
    return LINK.sub(lambda link: linked(link, f"docs/{name}", name), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Names in docstrings, which are written for another tool's roles, as code."""
    return re.sub(r":(?:class|func|mod|meth|attr|data|exc|obj):<code>~?([^<]*)</code>", r"<code>\1</code>", content)


def formula(source: str, language: str, class_name: str, options: Any, md: Any, **_: Any) -> str:
    """A fence of LaTeX as MathML; scrolls where it is wider than the page."""
    return f'<div class="math" style="overflow-x:auto">{convert(source.strip(), display="block")}</div>'


def linked(link: re.Match[str], file: str, page: str) -> str:
    """A link of a file of the repository, for a page of the site."""
    picture, text, target = link.groups()
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    place = os.path.normpath(os.path.join(os.path.dirname(file), path))
    home = place.removeprefix("docs/") if place.startswith("docs/") else HOMES.get(place)
    if home is None:
        return "" if picture else f"{text} (`{place}`)"
    target = os.path.relpath(home, os.path.dirname(page) or ".")
    return f"{picture}[{text}]({target}{'#' + anchor if anchor else ''})"


def commands() -> str:
    """Every command with its options, as Markdown."""
    from tod_bias.cli.application import app

    intro = (
        "# Commands\n\nMade from the commands themselves; `tod-bias COMMAND --help` says the same, with an example. "
        "Every command also runs as `python -m tod_bias COMMAND`.\n\n"
    )
    return intro + app.generate_docs(heading_level=1).partition("\n")[2]
