"""What is added to the pages of the site when it is built.

- ``<!-- from: FILE -->``, with a link to it on the next line for who reads the page in the repository, stands for a
  Markdown file without its title (the changelog, the benchmarks); links in it lead to the page of the site that they
  name, or else become plain text. So do links of any page that lead out of ``docs``.
- a fence ``math`` is LaTeX, which becomes MathML: formulas are text, and need no script.
- ``reference/cli.md`` is made from the commands themselves.
- ``<!-- run: NAME -->`` stands for what a run of ``gallery/systems.py`` found, which is made with the site.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"^<!-- from: (\S+) -->\nSee \[.+\]\(.+\)\.$", re.MULTILINE)
RUN = re.compile(r"^<!-- run: (\w+) -->$", re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
HOMES = {"CHANGELOG.md": "reference/changes.md", "tests/benchmarks/README.md": "simulations.md"}
"""Files of the repository that are pages of the site."""
gallery = Path(tempfile.mkdtemp(prefix="tod-bias-gallery-"))
"""The folders of the gallery's runs, while the site is built."""


def on_config(config: Any) -> Any:
    """Formulas."""
    fence = {"name": "math", "class": "math", "format": formula}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def on_files(files: Any, config: Any) -> Any:
    """The page of commands, and the pages of the gallery's runs."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/cli.md", content=commands()))
    run_gallery()
    for page in sorted(gallery.rglob("*.html")):
        name = page.relative_to(gallery).as_posix()
        files.append(File.generated(config, f"gallery/{name}", abs_src_path=str(page)))
    return files


def on_post_build(**_: Any) -> None:
    """Clear away what the runs left."""
    shutil.rmtree(gallery)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in files of the repository, and make links that leave the site plain text."""
    name = page.file.src_uri
    if include := INCLUDE.search(markdown):
        file = include[1]
        text = (ROOT / file).read_text(encoding="utf-8").split("\n", 1)[1].strip()
        return INCLUDE.sub(lambda _: LINK.sub(lambda link: linked(link, file, name), text), markdown)
    markdown = RUN.sub(lambda run: found(run[1]), markdown)
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


def run_gallery() -> None:
    """Audit the gallery's systems, each into a folder with its report and its explorer."""
    sys.path.insert(0, str(ROOT / "docs" / "gallery"))
    from systems import SYSTEMS

    from tod_bias.report.explorer import write_explorer
    from tod_bias.report.page import write_report

    for system in SYSTEMS:
        folder = gallery / system.__name__
        system().save(folder)
        write_report([folder])
        write_explorer([folder])


def found(name: str) -> str:
    """What a run of the gallery found, as a terminal shows it, with links to its report and explorer."""
    from rich.console import Console

    from tod_bias.report.page import leading_rows
    from tod_bias.report.terminal import attributed, component_table, group_table, print_answer
    from tod_bias.results import AuditResult

    result = AuditResult.load(gallery / name)
    axes = leading_rows(result)
    with Console(width=80, record=True, file=io.StringIO()) as console:
        print_answer(result, console)
        console.print(group_table(axes, wide=False, padding=0))
        if attributed(axes):
            console.print(component_table(axes, wide=False, padding=0))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    links = f"[Report](gallery/{name}/report.html), [explorer](gallery/{name}/explorer/index.html)"
    return "\n".join(["```text", *lines, "```", "", links])


def commands() -> str:
    """Every command with its options, as Markdown."""
    from tod_bias.cli.application import app
    from tod_bias.cli.options import show_all

    intro = (
        "# Commands\n\nThis page lists every option, as `tod-bias COMMAND --help-all` does. `tod-bias COMMAND --help` "
        "shows those that most users need. Every command also runs as `python -m tod_bias COMMAND`.\n\n"
    )
    groups = [app]
    while groups:
        group = groups.pop()
        groups += [group[name] for name in group if not name.startswith("-")]
        show_all(group)
    return intro + app.generate_docs(heading_level=1).partition("\n")[2]
