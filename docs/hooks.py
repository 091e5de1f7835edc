"""What the site takes from the repository when it is built, so that nothing is told twice.

- ``<!-- from: FILE -->`` or ``<!-- from: FILE#Heading -->``, with a link to it on the next line for who reads the file
  itself, stands for a Markdown file, or a section of it without its heading; links in it lead to the page of the site
  that holds their target, or else become plain text.
- a fence ``math`` is LaTeX, which becomes MathML: formulas are text, and need no script.
- ``reference/cli.md`` is made from the commands themselves.
- a page in ``PAGES_IF_THERE`` stands in the navigation when its file exists.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"^<!-- from: ([^#\n]+?)(?:#(.+?))? -->\nSee \[.+\]\((.+)\)\.$", re.MULTILINE)
HOMES = {
    "CHANGELOG.md": "reference/changes.md",
    "perturb/README.md": "reference/perturb.md",
    "recommenders/embeddings/README.md": "reference/embeddings.md",
    "tests/benchmarks/README.md": "simulations.md",
}
"""Files of the repository that are pages of the site."""
SECTIONS = {
    "CONTRIBUTING.md#a-corpus": "how-to/corpus.md",
    "CONTRIBUTING.md#a-metric": "how-to/axis.md#a-metric",
    "CONTRIBUTING.md#a-stage": "how-to/stage.md",
    "README.md#embeddings-of-a-recommender": "how-to/saved-answers.md#embeddings-of-a-recommender",
    "README.md#everybody-in-the-data": "how-to/axis.md",
    "README.md#how-it-works": "method.md",
    "README.md#recommenders": "how-to/saved-answers.md#lists-of-recommendations",
    "README.md#your-assistant": "how-to/assistant.md",
}
"""Sections that are pages of the site, or parts of one."""
PAGES_IF_THERE = {"How to": [("On many machines", "how-to/scale.md")]}


def on_config(config: Any) -> Any:
    """Formulas, and pages that are only there in some checkouts."""
    fence = {"name": "math", "class": "math", "format": formula}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    for section in config.nav:
        for title, pages in section.items():
            for name, page in PAGES_IF_THERE.get(title, ()):
                if (Path(config.docs_dir) / page).is_file() and {name: page} not in pages:
                    pages.append({name: page})
    return config


def on_files(files: Any, config: Any) -> Any:
    """The page of commands."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/cli.md", content=commands()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in what is taken from elsewhere."""
    return INCLUDE.sub(lambda found: included(found[1], found[2], page.file.src_uri), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Names in docstrings, which are written for another tool's roles, as code."""
    return re.sub(r":(?:class|func|mod|meth|attr|data|exc|obj):<code>~?([^<]*)</code>", r"<code>\1</code>", content)


def formula(source: str, language: str, class_name: str, options: Any, md: Any, **_: Any) -> str:
    """A fence of LaTeX as MathML; scrolls where it is wider than the page."""
    return f'<div class="math" style="overflow-x:auto">{convert(source.strip(), display="block")}</div>'


def included(file: str, heading: str | None, page: str) -> str:
    """A Markdown file, or one section of it, fit for a page of the site."""
    text = (ROOT / file).read_text(encoding="utf-8")
    text = section(text, heading) if heading else text.split("\n", 1)[1]
    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", lambda found: _link(found, file, page), text).strip()


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next of its level or above.

    Raises:
        ValueError: there is no such heading.
    """
    lines, inside, level, found = [], False, 0, False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("```"):
            inside = not inside  # what begins with # in a fence is a comment
        head = None if inside else re.match(r"(#+) (.*)", line)
        if found and head and len(head[1]) <= level:
            break
        if found:
            lines.append(line)
        elif head and head[2].strip() == heading:
            found, level = True, len(head[1])
    if not found:
        raise ValueError(f"no heading {heading!r}")
    return "".join(lines)


def _link(found: re.Match[str], file: str, page: str) -> str:
    picture, text, target = found.groups()
    path, _, anchor = target.partition("#")
    if "://" in target:
        return found[0]
    place = os.path.normpath(os.path.join(os.path.dirname(file), path)) if path else file
    if f"{place}#{anchor}" in SECTIONS:
        home, _, anchor = SECTIONS[f"{place}#{anchor}"].partition("#")
    elif not path:
        return found[0]
    elif place.startswith("docs/"):
        home = place.removeprefix("docs/")
    elif place in HOMES:
        home = HOMES[place]
    else:
        return f"{text} (`{place}`)" if not picture else ""
    there = os.path.relpath(home, os.path.dirname(page) or ".")
    return f"{picture}[{text}]({there}{'#' + anchor if anchor else ''})"


def commands() -> str:
    """Every command with its options, as Markdown."""
    from tod_bias.cli.application import app

    intro = (
        "# Commands\n\nMade from the commands themselves; `tod-bias COMMAND --help` says the same, with an example. "
        "Every command also runs as `python -m tod_bias COMMAND`.\n\n"
    )
    return intro + app.generate_docs(heading_level=1).partition("\n")[2]
