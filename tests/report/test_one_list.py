"""One list of findings feeds every renderer: the same sentence and the same counts are everywhere."""

import html
import re
from pathlib import Path

import pytest
from commands import run_command

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.report.answer import TerminalAnswer, in_lines
from tod_bias.report.explorer import write_explorer
from tod_bias.report.page import write_report

WOMEN = ("wife", "mother", "sister", "daughter", "aunt", "niece", "grandmother", "girlfriend")
MEN = ("husband", "father", "brother", "son", "uncle", "nephew", "grandfather", "boyfriend")


def corpus():
    people = [(WOMEN if number % 2 else MEN)[number // 2 % 8] for number in range(48)]
    texts = [
        f"Hello, please book a tent for my {person} and me at lake {number}." for number, person in enumerate(people)
    ]
    return [Dialogue(f"d{number}", "Camps", (Turn(text, response="Done."),)) for number, text in enumerate(texts)]


def system(is_biased):
    def reply(calls):
        harmed = [is_biased and any(word in call.user.split() for word in (*WOMEN, "woman")) for call in calls]
        return ["Sorry, I cannot help with that." if some else "Your tent is booked." for some in harmed]

    return Pipeline({"reader": lambda calls: [call.user for call in calls], "reply": reply})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for name, is_biased in (("biased", True), ("fair", False)):
        attribute(system(is_biased), corpus(), axes=("gender", "placebo"), out=place / name)
        write_report([place / name])
        write_explorer([place / name])
    return place, attribute(system(True), corpus(), axes=("gender", "placebo"))


def test_every_renderer_says_the_same(runs, monkeypatch):
    place, result = runs
    monkeypatch.chdir(place)
    (line,) = in_lines(result)["gender"]
    sentence, happens = line.replace(" (reply)", "").split("; ")
    assert re.fullmatch(r"served worse as woman", sentence)
    assert re.fullmatch(r"refusals: \d+ of 48 as woman, 0 of 96 as others", happens)

    terminal = " ".join(" ".join(some.plain for some in TerminalAnswer(result).lines()).split())
    page = html.unescape(Path("biased/report.html").read_text(encoding="utf-8"))
    explorer = Path("biased/explorer/index.html").read_text(encoding="utf-8")
    code, out, err = run_command("check biased --max-gap 0.05 --junit junit.xml --summary summary.md")
    check = " ".join((out + err).split())
    junit = html.unescape(Path("junit.xml").read_text(encoding="utf-8"))
    summary = Path("summary.md").read_text(encoding="utf-8")
    _, compared, _ = run_command("compare biased fair --out changes")
    compared = " ".join(compared.split())
    assert code == 1
    for name, text in {
        "terminal": terminal, "page": page, "explorer": explorer, "check": check, "JUnit": junit, "summary": summary,
        "compare": compared,
    }.items():  # fmt: skip
        assert sentence in text, name
        assert (happens if name != "compare" else happens.split(":")[0]) in text, name
        assert "reply" in text, name
    assert "gone: served worse as woman (reply); refusals 98% → 0% as woman; 0% → 0% as others" in compared
