"""The reports in a browser: readable without scripts, on a phone, in the dark, on paper, by keyboard and by ear."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from browser import CONTRAST, browser, program
from builders import fair_pipeline, polite_tone, rude_tone
from commands import run_command

from tod_bias import Pipeline, attribute, compare, load_corpus
from tod_bias.report.answer import what_happens
from tod_bias.report.changes import write_changes
from tod_bias.report.page import write_report
from tod_bias.results import AuditResult

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="no Chromium: install the package chromium"),
]
KINDS = ("attribute", "several", "recommend", "associate", "compare")

WIDE = """
[...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1
  && !one.closest(".scroll, svg")).map((one) => `${one.tagName}.${one.className}`).slice(0, 5)
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


def every(selector, condition):
    return f"[...document.querySelectorAll(`{selector}`)].every((one) => {condition})"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of every kind."""
    place = tmp_path_factory.mktemp("pages")
    dialogues = load_corpus("demo", max_dialogues=60)
    fair = fair_pipeline(dialogues).stages
    runs = [place / "curt", place / "same"]
    for folder, tone in zip(runs, (rude_tone, polite_tone), strict=True):
        attribute(
            Pipeline({**fair, "tone": tone}), dialogues, axes=["gender", "age", "placebo"],
            metrics=["corpus_bleu", "length"], bootstrap=40, permutations=100,
        ).save(folder)  # fmt: skip
    found = {"attribute": write_report(runs[:1]), "several": write_report(runs, place)}
    found["compare"] = write_changes(compare(*runs, margin=0.02, permutations=100), place / "compare")

    draw = random.Random(0)
    lines = ["query,rank,label,price,categories,substitution"]
    for label, names in (("female", "Ann Mary Jane Sue Eve Liz"), ("male", "Tom Bob Jim Al Max Sam")):
        for name in names.split():
            for template in ("a restaurant for {}", "where can {} eat", "dinner with {}"):
                for rank in (1, 2, 3):
                    kind = draw.choice(["bars", "pizza", "cafes"])
                    lines.append(f"{template.format(name)},{rank},{label},{draw.randint(1, 4)},{kind},{name}")
    (place / "lists.csv").write_text("\n".join(lines) + "\n")
    numbers = np.random.default_rng(0)
    np.savez(place / "model.npz", users=numbers.normal(size=(40, 8)), items=numbers.normal(size=(30, 8)))
    sets = {"A": list(range(20)), "B": list(range(20, 40)), "E": list(range(15)), "P": list(range(15, 30))}
    (place / "sets.json").write_text(json.dumps(sets))
    quick = ("--permutations", "50", "--bootstrap", "20", "--quiet")
    for kind, words in {
        "recommend": ("recommend", "audit", "--recommendations", str(place / "lists.csv")),
        "associate": ("associate", "--embeddings", str(place / "model.npz"), "--sets", str(place / "sets.json")),
    }.items():
        assert run_command(*words, *quick, "--out", place / kind)[0] == 0
        found[kind] = place / kind / "report.html"
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("look", ["light", "dark", "print"])
def test_text_stands_out_from_its_ground(chromium, pages, kind, look):
    """WCAG 2 AA: 4.5 to 1, of large text 3 to 1, as the browser has computed the colours."""
    chromium.open(pages[kind], media="print" if look == "print" else "", dark=look == "dark")
    ground = chromium.value("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(21, 24, 28)" if look == "dark" else "rgb(255, 255, 255)")
    assert chromium.value(CONTRAST) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_shows_all_of_it_without_moving_sideways(chromium, pages, kind):
    chromium.open(pages[kind], width=360)
    chromium.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert chromium.value("document.documentElement.scrollWidth") <= 360, chromium.value(WIDE)


@pytest.mark.parametrize("kind", KINDS)
def test_no_table_moves_sideways(chromium, pages, kind):
    for width in (1280, 390):
        chromium.open(pages[kind], width=width)
        chromium.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        cut = (
            "[...document.querySelectorAll('.scroll')].filter((one) => "
            "one.scrollWidth > one.clientWidth + 1).map((one) => `${one.ariaLabel}: ${one.scrollWidth}`)"
        )
        assert chromium.value("document.documentElement.scrollWidth") <= width, chromium.value(WIDE)
        assert chromium.value(cut) == []


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example of `tod-bias init stages`, in which `understand` asks for one hotel instead of three for women."""
    place = tmp_path_factory.mktemp("example") / "example"
    assert run_command("init", "stages", "--out", place, "--quiet")[0] == 0
    run = ("attribute", "--pipeline", place / "pipeline.yaml", "--corpus", place / "chats.jsonl", "--quiet")
    quick = ("--bootstrap", "40", "--permutations", "1000", "--out", place / "run")
    assert run_command(*run, "--axes", "gender,placebo", *quick)[0] == 0
    return place / "run"


SEEN = """
[...document.querySelectorAll('h1, p, dt, dd, summary, td, th')].filter((one) => one.checkVisibility()
  && one.getBoundingClientRect().bottom <= 800).map((one) => one.innerText).join('\\n')
"""


def test_the_first_screen_says_who_how_much_where_and_shows_a_turn(chromium, example):
    result = AuditResult.load(example)
    found = [finding for finding in result.findings if finding.is_difference]
    assert [finding.group for finding in found] == ["woman"]
    chromium.open(example / "report.html", width=1280, height=800)
    seen = chromium.value(SEEN)
    for finding in found:
        shown = finding.example
        assert shown.user != shown.user_original
        for text in (
            f"{finding.axis}: served differently as {finding.group}",
            f"in component {finding.stage}",
            what_happens(finding, result),
            shown.user_original, shown.user, shown.original, shown.counterfactual, f"as {finding.group}",
        ):  # fmt: skip
            assert text in seen
    beside = "(one) => one.children[1].getBoundingClientRect().left > one.children[0].getBoundingClientRect().right"
    assert chromium.value(f"[...document.querySelectorAll('.with-example')].every({beside})")
    assert chromium.value("[...document.querySelectorAll('details')].filter((one) => one.open).length") == 0
    headings = chromium.value("[...document.querySelectorAll('h2')].map((one) => one.innerText.split(':')[0])")
    assert headings == ["Groups", "Components", "Terms", "Placebo and power", "Su's numbers", "Record of the run"]


def test_a_phone_shows_each_finding_with_its_example_below(chromium, example):
    chromium.open(example / "report.html", width=400, height=800)
    assert chromium.value("document.documentElement.scrollWidth") <= 400, chromium.value(WIDE)
    assert "served differently as woman" in chromium.value(SEEN)
    below = "(one) => one.children[1].getBoundingClientRect().top >= one.children[0].getBoundingClientRect().bottom"
    assert chromium.value(f"[...document.querySelectorAll('.with-example')].every({below})")


@pytest.mark.parametrize("kind", KINDS)
def test_paper_cuts_nothing_off_and_shows_what_is_folded(chromium, pages, kind):
    chromium.open(pages[kind], width=720, media="print")  # A4 without its margins
    assert chromium.value("document.documentElement.scrollWidth") <= 720, chromium.value(WIDE)
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert chromium.value(cut) == 0
    folded = chromium.value(
        "[...document.querySelectorAll('details > :not(summary)')]"
        ".filter((one) => !one.checkVisibility({contentVisibilityAuto: true})).length"
    )
    assert folded == 0
    assert chromium.value(every("nav", "getComputedStyle(one).display === 'none'"))


@pytest.mark.parametrize("kind", KINDS)
def test_headings_and_landmarks_are_in_order(chromium, pages, kind):
    chromium.open(pages[kind])
    levels = chromium.value("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map((one) => +one.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert not [(one, other) for one, other in pairwise(levels) if other > one + 1]
    assert chromium.value("document.querySelectorAll('main').length") == 1
    assert chromium.value("document.documentElement.lang") == "en"
    assert chromium.value("document.title.length") > 10
    assert chromium.value(every("nav", "one.ariaLabel"))


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_and_tables_can_be_heard(chromium, pages, kind):
    chromium.open(pages[kind])
    assert chromium.value(every("svg", "one.getAttribute('role') === 'img' && one.ariaLabel.length > 9"))
    assert chromium.value(every("table", "one.querySelector('th')"))
    assert chromium.value(every("th", "one.scope && one.textContent.trim()"))
    ids = chromium.value("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    links = chromium.value("[...document.querySelectorAll('a[href^=\"#\"]')].map((one) => one.getAttribute('href'))")
    assert {link[1:] for link in links} <= set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_the_keyboard_reaches_links_folds_and_what_scrolls(chromium, pages, kind):
    chromium.open(pages[kind], width=360)
    wanted = chromium.value(
        "[...document.querySelectorAll('a[href], summary, .scroll')].filter((one) => one.checkVisibility() && "
        "(!one.matches('.scroll') || one.scrollWidth > one.clientWidth + 1)).length"
    )
    reached = []
    for _ in range(min(wanted, 12)):
        chromium.press("Tab")
        assert chromium.value("document.activeElement.matches('a, summary, .scroll')")
        reached.append(chromium.value("document.activeElement.getBoundingClientRect().bottom + scrollY"))
    assert reached == sorted(reached)
    assert chromium.value(
        every(".scroll", "one.tabIndex === 0 && one.ariaLabel && one.getAttribute('role') === 'group'")
    )
    assert chromium.value(every("[tabindex]", "one.tabIndex < 1"))


def test_pages_hold_no_script(pages):
    for path in pages.values():
        assert "<script" not in path.read_text(encoding="utf-8")
