"""The explorer: what the page holds, and what it does in a browser."""

import base64
import hashlib
import http.client
import json
import os
import re
import shutil
from dataclasses import replace
from threading import Thread

import pandas as pd
import pytest
from browser import CONTRAST, browser, program
from commands import run_command
from flows import Decision, Loop, about_people

from tod_bias import attribute
from tod_bias.audit.record import read_runs
from tod_bias.cli.application import main
from tod_bias.errors import TodBiasError
from tod_bias.report.explorer import run_data, server_of, write_explorer
from tod_bias.results import AuditResult
from tod_bias.testing.case_choice import cases_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u2028\u202e"
PLANTED = "find_hotels.limit 3 → 1"


class Hotels(Loop):
    """Looks for three hotels, and for one where the user mentions a woman."""

    def decide(self, item):
        limit = 1 if self.harms("policy", item) else 3
        return Decision(() if item.steps[:-1] else ({"name": "find_hotels", "arguments": {"limit": limit}},))

    def run(self, item):
        return {"hotels": [f"Hotel {HOSTILE} {n}" for n in range(item.argument["arguments"]["limit"])]}

    def say(self, item):
        return f"I found {' and '.join(item.outputs['tools']['hotels'])}."


@pytest.fixture(scope="module")
def dialogues():
    people = about_people()
    response = "I found " + " and ".join(f"Hotel {HOSTILE} {n}" for n in range(3)) + "."
    return [
        replace(
            one, id=f"{one.id} {HOSTILE[:-2]}", system="Find hotels.", turns=(replace(one.turns[0], response=response),)
        )
        for one in people
    ]


@pytest.fixture(scope="module")
def runs(dialogues, tmp_path_factory):
    """Before and after a fix."""
    place = tmp_path_factory.mktemp("runs")
    for name, biased in (("before", "policy"), ("after", "")):
        attribute(
            Hotels(biased).pipeline, dialogues, axes=["gender"], metrics=["corpus_bleu", "disagreement"],
            bootstrap=0, permutations=50,
        ).save(place / name)  # fmt: skip
    return [place / "before", place / "after"]


@pytest.fixture(scope="module")
def page(runs):
    return write_explorer(runs)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if program() is None:
        pytest.skip("no Chromium: install the package chromium")
    with browser(tmp_path_factory.mktemp("profile")) as running:
        watch = "window.alerts = 0; window.alert = () => { window.alerts += 1; };"
        running.call("Page.addScriptToEvaluateOnNewDocument", {"source": watch})
        yield running


def test_the_page_runs_its_own_script_alone(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search("[\u2028\u202e]|<img|</script><script>", text)
    allowed = re.findall(r"'sha256-([^']*)'", text)
    for kind, given in zip(("style", "script"), allowed, strict=True):
        (content,) = re.findall(f"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        assert base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() == given
    data = [json.loads(found) for found in re.findall(r'class="run"[^>]*>(.*?)</script>', text, re.DOTALL)]
    assert [run["name"] for run in data] == ["before", "after"]


def test_a_run_holds_every_counterfactual_turn_with_the_outcome_of_every_arm(runs):
    data = run_data(read_runs(runs[:1])[0])
    rows = pd.read_parquet(runs[0] / "turns.parquet")
    assert len(data["turns"]) == (rows["arm"] == "").sum()
    assert data["arms"] == AuditResult.load(runs[0]).arm_design.keys(whole=True)
    text = dict(enumerate(data["texts"]))
    for turn in data["turns"]:
        ways, outcomes = data["ways"][turn[11]], turn[13:]
        for arm, way in zip(data["arms"], ways, strict=True):
            here = rows[(rows["arm"] == arm) & (rows["variant"] == text[turn[2]])]
            answers = {answer.replace("\u2028", "\ufffd").replace("\u202e", "\ufffd") for answer in here["response"]}
            assert len(here) == 0 if way < 0 else text[data["records"][outcomes[way][0]][1]] in answers
        assert text[turn[8]] == "Find hotels."
    firsts = {text[turn[10]] for turn in data["turns"] if turn[10] >= 0}
    assert firsts == {"`policy`: `find_hotels.limit` 3 → 1", "`policy`: `find_hotels.limit` 1 → 3"}


def test_a_page_of_two_runs_says_that_it_replaces_one(runs, tmp_path):
    shutil.copytree(runs[0], tmp_path / "before", ignore=shutil.ignore_patterns("explorer"))
    told = [
        run_command("view --build", tmp_path / "before", *others)[1].partition("(")[2]
        for others in ([], [], runs[1:], runs[1:])
    ]
    assert told[:2] == ["", ""]
    replaced = f"replaces the earlier page; for one run alone: tod-bias view {tmp_path / 'before'})"
    assert [" ".join(text.split()) for text in told[2:]] == [replaced] * 2


@pytest.mark.parametrize("name", ["explorer", "explorer/index.html"])
def test_nothing_is_written_through_a_link(runs, tmp_path, name):
    folder = tmp_path / "received"
    folder.mkdir()
    for file in ("results.json", "turns.parquet", "variants.parquet"):
        (folder / file).write_bytes((runs[0] / file).read_bytes())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "index.html").write_text("mine")
    (folder / name).parent.mkdir(exist_ok=True)
    os.symlink(tmp_path / "elsewhere" / ("" if name == "explorer" else "index.html"), folder / name)
    with pytest.raises(TodBiasError, match="a symbolic link"):
        write_explorer([folder])
    assert (tmp_path / "elsewhere" / "index.html").read_text() == "mine"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (None, "holds no turns.parquet"),
        (lambda rows: rows.drop(columns="first_difference"), "has no column 'first_difference'"),
        (lambda rows: rows.assign(steps="[[1]]"), "column 'steps' holds no steps"),
        (lambda rows: rows[rows["arm"] == "original"], "holds no turn of a counterfactual"),
    ],
)
def test_a_folder_without_usable_turns_is_named_in_one_line(runs, tmp_path, capsys, spoil, message):
    (tmp_path / "results.json").write_bytes((runs[0] / "results.json").read_bytes())
    if spoil is not None:
        shutil.copy(runs[0] / "variants.parquet", tmp_path)
        spoil(pd.read_parquet(runs[0] / "turns.parquet")).to_parquet(tmp_path / "turns.parquet")
    with pytest.raises(SystemExit) as end:
        main(["view", str(tmp_path), "--build"])
    (line,) = capsys.readouterr().err.splitlines()
    assert (end.value.code, message in line, "turns.parquet" in line) == (2, True, True)


def test_the_server_hands_out_the_page_and_nothing_else(page):
    with server_of(page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        assert server.server_address[0] == "127.0.0.1"
        here = f"127.0.0.1:{server.server_port}"
        for path, host, status in (
            ("/", here, 200), ("/index.html", here, 200), ("/../results.json", here, 404), ("/", "evil.example", 404),
        ):  # fmt: skip
            connection = http.client.HTTPConnection(here)
            connection.request("GET", path, headers={"Host": host})
            found = connection.getresponse()
            assert (found.status, found.read() == page.read_bytes()) == (status, status == 200)
            connection.close()
        server.shutdown()


def shown(chromium, selector):
    return chromium.value(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")


def push(chromium, word):
    buttons = "[...document.querySelectorAll('main button')]"
    chromium.value(f"{buttons}.find((one) => one.textContent.startsWith('{word}')).click()")


def test_the_turn_that_harms_most_is_one_click_away(chromium, page, runs, dialogues):
    chromium.open(page.as_uri(), 1280, 800)
    assert PLANTED in shown(chromium, ".row")
    chromium.value("document.querySelector('.row').click()")
    assert PLANTED in shown(chromium, "main .first")
    assert "policy: differs first" in shown(chromium, ".pair.differs")
    marked = "[...document.querySelectorAll('.pair.differs mark')].map((one) => one.textContent)"
    assert chromium.value(marked) == ["3", "1"]
    assert HOSTILE[:60] in shown(chromium, "main")
    assert chromium.value("[alerts, document.images.length, document.scripts.length]") == [0, 0, 4]
    push(chromium, "policy")
    assert "With policy replaced: the system does the same" in shown(chromium, "main .first")
    push(chromium, "Make")
    (name,) = re.findall("--only '([^']*)'", shown(chromium, ".command code"))
    (case,) = cases_of(runs[0], dialogues, only=[name]).cases
    assert case.id == name
    with pytest.raises(TodBiasError, match="cannot make a case of gender/p0"):
        cases_of(runs[0], dialogues, only=[name, "gender/p0/woman>dragon/1"])


def test_keys_filters_and_links_lead_to_turns(chromium, page):
    chromium.open(page.as_uri(), 1280, 800)
    for key in "jjk":
        chromium.press(key)
    first = chromium.value("location.hash")
    assert chromium.value("document.querySelector('.row[aria-selected=true]').id") == "row0"
    chromium.press("/")
    chromium.press("7")
    assert chromium.value("document.activeElement.value") == "7"
    assert 0 < chromium.value("shown.length") < chromium.value("run.turns.length")
    chromium.press("Escape")
    chromium.press("j")
    other = chromium.value("location.hash")
    assert other != first
    chromium.open("about:blank")
    chromium.open(page.as_uri() + other, 1280, 800)
    assert chromium.value("[location.hash, link(run, chosen)]") == [other, other]
    chromium.value(
        "(() => { const runs = $('run'); runs.selectedIndex = 1; runs.dispatchEvent(new Event('change')); })()"
    )
    assert chromium.value("location.hash") == other.replace("#before", "#after")
    assert "Nothing differs" in shown(chromium, "main .first")
    chromium.value("$('least').value = '0.1'; $('least').dispatchEvent(new Event('input'))")
    assert chromium.value("shown.length") == 0


@pytest.mark.parametrize("look", ["light", "dark"])
def test_a_phone_shows_the_list_or_the_turn(chromium, page, look):
    chromium.open("about:blank")
    chromium.open(page.as_uri(), 390, 800, dark=look == "dark")
    for selector, hidden in (("list", "turn"), ("turn", "list")):
        assert chromium.value(f"[$('{selector}'), $('{hidden}')].map((one) => one.checkVisibility())") == [True, False]
        assert chromium.value("document.documentElement.scrollWidth") <= 390
        assert chromium.value(CONTRAST) == []
        chromium.value("document.querySelector('.row')?.click()")
    chromium.press("Escape")
    assert chromium.value("$('list').checkVisibility()")
