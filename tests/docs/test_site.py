"""The documentation site: it builds offline and without warnings, and no link on it is dead."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


class Page(HTMLParser):
    """Links, ids, and what is loaded of one page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.loaded = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in {"script", "img", "iframe", "source", "link"} and given.get("rel") != "canonical":
            self.loaded += [given[name] for name in ("src", "href") if given.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Every page by its path; ``SITE`` is the folder of a site that has just been built."""
    built = os.environ.get("SITE") or build(tmp_path_factory.mktemp("site"))
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(Path(built).rglob("*.html"))}


def build(out):
    for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(package, reason="no site: pip install -e '.[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


def test_no_link_is_dead(site):
    dead = []
    for path, page in site.items():
        if path.name == "404.html":  # its links start at the site's root, wherever that is
            continue
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = link.partition("#")
            there = (path.parent / unquote(target)).resolve() if target else path
            if not there.exists() or (anchor and there in site and unquote(anchor) not in site[there].ids):
                dead.append((path.name, link))
    assert not dead


def test_nothing_is_loaded_from_elsewhere(site):
    assert not {(path.name, source) for path, page in site.items() for source in page.loaded if "//" in source}


def test_formulas_are_text(site):
    method = next(path for path in site if path.name == "method.html").read_text(encoding="utf-8")
    assert method.count("<math") == method.count('display="block"') >= 5
    assert "\\underbrace" not in method


def test_every_command_is_on_its_page(site):
    from tod_bias.cli.application import app

    text = next(path for path in site if path.name == "cli.html").read_text(encoding="utf-8")
    for name in app:
        assert name.startswith("-") or f"tod-bias {name}" in text


@pytest.mark.parametrize("name", ["simulations", "reference/changes"])
def test_pages_that_include_a_file_link_to_it(name):
    """Such a page would be empty to who opens it in the repository."""
    path = ROOT / "docs" / f"{name}.md"
    file, target = re.search(r"^<!-- from: (\S+) -->\nSee \[.+\]\((.+)\)\.$", path.read_text(), re.MULTILINE).groups()
    assert (path.parent / target).resolve() == ROOT / file


@pytest.mark.parametrize(
    ("heading", "found"),
    [
        (
            "A disparity",
            "served differently as woman, true of these chats +understand limit: 1.1 as woman, 3.0 as others",
        ),
        ("These terms only", "served differently as woman, with these terms"),
        ("The placebo is as large", "not proven; seen: as man .* neutral rewording does as much"),
        ("Unattributed", "served differently as woman.* no declared stage accounts for it"),
        ("Parts that cancel", "not enough data two components work against each other for woman"),
        ("Equivalent", "equivalent every gap is shown to be within"),
    ],
)
def test_the_gallery_shows_what_its_headings_say(site, heading, found):
    (page,) = (path for path in site if path.name == "gallery.html")
    text = " ".join(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")).split())
    section = text[text.rindex(f"{heading}&para;") :].split("Report, explorer")[0]
    assert re.search(r"gender " + found, section)
