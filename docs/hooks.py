"""What is added to the pages of the site when it is built.

- ``<!-- from: FILE -->``, with a link to it on the next line for who reads the page in the repository, stands for a
  Markdown file without its title (the changelog, the benchmarks); links in it lead to the page of the site that they
  name, or else become plain text. So do links of any page that lead out of ``docs``.
- a fence ``math`` is LaTeX, which becomes MathML: formulas are text, and need no script.
- ``reference/cli.md`` is made from the commands themselves.
- ``<!-- run: NAME -->`` stands for what a run of ``gallery/systems.py`` found, which is made with the site;
  ``<!-- kinds -->`` for a finding per kind of event, of ``gallery/kinds_of_events.py``; ``<!-- demo -->`` for links to
  the report of the bundled demo.
- Notebooks are pages with the outputs of their cells.
- ``llms.txt`` names the pages for language models, and ``llms-full.txt`` holds them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

sys.path.insert(0, os.path.dirname(__file__))

from cells import run_cell

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"^<!-- from: (\S+) -->\nSee \[.+\]\(.+\)\.$", re.MULTILINE)
KINDS = "<!-- kinds -->"
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
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=rendered(notebook)))
    run_gallery()
    for page in sorted(gallery.rglob("*.html")):
        name = page.relative_to(gallery).as_posix()
        files.append(File.generated(config, f"gallery/{name}", abs_src_path=str(page)))
    return files


def on_post_build(config: Any, **_: Any) -> None:
    """Write what language models read, and clear away what the runs left."""
    write_llms(config, Path(config.site_dir))
    shutil.rmtree(gallery)


def write_llms(config: Any, site: Path) -> None:
    """Write ``llms.txt``, an index of the pages, and ``llms-full.txt``, their text (https://llmstxt.org)."""
    index, texts = [f"# {config.site_name}", "", f"> {config.site_description}", ""], []
    for section in config.nav:
        for heading, pages in section.items():
            entries = pages if isinstance(pages, list) else [{heading: pages}]
            index += [f"## {heading}", ""]
            for title, name in (pair for entry in entries for pair in entry.items()):
                text = page_text(name)
                index.append(f"- [{title}]({name.removesuffix('.md')}.html): {first_sentence(text)}")
                texts += [f"<!-- {name} -->", text, ""]
            index.append("")
    skill = (ROOT / "skills" / "audit-an-assistant" / "SKILL.md").read_text(encoding="utf-8")
    index += [
        "## Skill",
        "",
        "- [Audit an assistant](skill.md): steps for a coding agent, from a system to a repair",
        "",
    ]
    (site / "skill.md").write_text(skill, encoding="utf-8")
    (site / "llms.txt").write_text("\n".join(index), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join([*texts, skill]), encoding="utf-8")


def page_text(name: str) -> str:
    """The Markdown of a page, with the file that it includes."""
    if name == "reference/cli.md":
        return commands()
    path = ROOT / "docs" / name
    if not path.exists():  # a notebook
        return rendered(path.with_suffix(".ipynb"))
    text = path.read_text(encoding="utf-8")
    if include := INCLUDE.search(text):
        body = (ROOT / include[1]).read_text(encoding="utf-8").split("\n", 1)[1].strip()
        return INCLUDE.sub(lambda _: body, text)
    return text


def first_sentence(text: str) -> str:
    """The first sentence of a page's text, on one line."""
    prose = re.sub(r"```.*?```|<!--.*?-->|!\[[^\]]*\]\([^)]*\)", "", text.partition("\n")[2], flags=re.DOTALL)
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`]", r"\1", prose)
    parts = (" ".join(part.split()) for part in prose.split("\n\n"))
    paragraph = next((part for part in parts if part and part[0] not in "#|-"), "")
    return re.split(r"(?<=[.?!]) ", paragraph)[0][:200]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put in files of the repository, and make links that leave the site plain text."""
    name = page.file.src_uri
    if include := INCLUDE.search(markdown):
        file = include[1]
        text = (ROOT / file).read_text(encoding="utf-8").split("\n", 1)[1].strip()
        return INCLUDE.sub(lambda _: LINK.sub(lambda link: linked(link, file, name), text), markdown)
    markdown = RUN.sub(lambda run: found(run[1]), markdown)
    links = (
        "[The page](gallery/demo/report.html) and [the explorer](gallery/demo/explorer/index.html) of the bundled demo."
    )
    markdown = markdown.replace("<!-- demo -->", links)
    if KINDS in markdown:
        markdown = markdown.replace(KINDS, kinds())
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


def rendered(path: Path) -> str:
    """A notebook as Markdown, with the outputs of its cells, which are run now."""
    parts, namespace = [], {"__name__": "notebook"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            parts += [source, ""]
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            shown = run_cell(source, namespace, f"{path.name}, cell {number}")
            if shown is not None:
                print(shown)
        parts += ["```python", source, "```", ""]
        if text := printed.getvalue().rstrip():
            parts += ["```text", text, "```", ""]
    return "\n".join([*parts, f"[The notebook]({path.name})", ""])


def run_gallery() -> None:
    """Audit the gallery's systems, each into a folder with its report and its explorer."""
    sys.path.insert(0, str(ROOT / "docs" / "gallery"))
    from systems import SYSTEMS

    from tod_bias.report.explorer import write_explorer
    from tod_bias.report.page import write_report

    for system in (*SYSTEMS, demo):
        folder = gallery / system.__name__
        system().save(folder)
        write_report([folder])
        write_explorer([folder])


def demo() -> Any:
    """Audit the bundled demo."""
    from tod_bias import attribute, load_corpus, load_pipeline

    axes = ["gender", "age", "race", "placebo"]
    return attribute(load_pipeline("demo"), load_corpus("demo"), axes=axes, corpus="demo")


def kinds() -> str:
    """A finding per kind of event: what is wrong, and the answer of the run."""
    import kinds_of_events

    from tod_bias.report.answer import TerminalAnswer

    parts = []
    for kind, (wrong, _) in kinds_of_events.KINDS.items():
        lines = [line.plain for line in TerminalAnswer(kinds_of_events.audited(kind)).lines()]
        finding = [line for line in lines[2:] if not line.startswith(("✓ placebo", "! placebo"))]
        parts += [f"**`{kind}`**: {wrong}", "", "```text", *finding, "```", ""]
    return "\n".join(parts)


def found(name: str) -> str:
    """What a run of the gallery found, as a terminal shows it, with links to its report and explorer."""
    from rich.console import Console

    from tod_bias.report.leading import leading_rows
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
