"""The HTML report."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tod_bias.report.html import facts, prose, write_report
from tod_bias.report.record import RunError

VOID = {"meta", "br", "path", "use", "link", "hr", "img"}


class Checker(HTMLParser):
    """Collects ids, links and text, and fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag, attrs):
        self._note(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self._note(attrs)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == "h2":
            self.headings.append(text)

    def _note(self, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "xlink:href"):
                self.links.append(value)
            elif name in ("src", "srcset", "data"):
                self.sources.append(value)


def parsed(path: Path) -> tuple[str, Checker]:
    text = path.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return text, checker


@pytest.fixture(scope="module")
def report(tmp_path_factory, write_run) -> Path:
    return write_report([write_run(tmp_path_factory.mktemp("report") / "demo")])


@pytest.fixture
def unpainted(monkeypatch) -> None:
    """Leaves out the figures of single runs, which take most of the time."""
    monkeypatch.setattr("tod_bias.report.html.figures", lambda results: {})


def test_one_run_writes_its_report_and_figures_into_its_own_folder(report):
    assert report.name == "report.html"
    assert report.parent.name == "demo"
    assert {path.name for path in (report.parent / "figures").iterdir()} == {
        "arms.svg", "contributions.svg", "pairs_age.svg", "pairs_gender.svg", "pairs_placebo.svg", "pairs_race.svg",
    }  # fmt: skip


def test_the_page_is_well_formed_and_needs_nothing_else(report):
    text, checker = parsed(report)
    assert checker.sources == []
    inside = [link for link in checker.links if not link.startswith("data:image/png;base64,")]
    assert {link[:1] for link in inside} == {"#"}
    assert {link[1:] for link in inside} <= set(checker.ids)
    assert len(set(checker.ids)) == len(checker.ids)
    assert "<script" not in text
    assert "@import" not in text
    assert "url(http" not in text
    outside = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert outside == {"http://www.w3.org/1999/xlink"}  # a name, not an address that is fetched


def test_the_pairs_come_before_the_axes(report):
    _, checker = parsed(report)
    assert [heading.split(":")[0] for heading in checker.headings] == [
        "Pairs", "Axes", "Stages", "Arms", "Examples", "Record of the run", "What these numbers can and cannot show",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "<strong>gender:</strong> rewritten dialogues are answered worse (BLEU 10% lower, p=0.001,",
        "<strong>age:</strong> no difference is supported (fairscore 0.014, p=0.630)",
        "woman → man",
        "−0.015 <small>[−0.045, 0.015]</small>",  # a negative part, not clipped
        "<mark>mom</mark>",
        "signature / tokeniser",
        "api_call + db",
        "0.8123",
        "prefers-color-scheme: dark",
    ],
)
def test_the_page_shows(report, words):
    assert words in report.read_text(encoding="utf-8")


@pytest.mark.usefixtures("unpainted")
def test_the_same_run_gives_the_same_page(make_folder):
    folder = make_folder()
    before = write_report([folder]).read_bytes()
    assert write_report([folder]).read_bytes() == before


@pytest.mark.usefixtures("unpainted")
def test_texts_of_dialogues_are_escaped(make_folder, turns):
    folder = make_folder()
    hostile = turns.assign(user=turns["user"] + " <script>alert(1)</script> & co")
    hostile.to_parquet(folder / "turns.parquet")
    text, _ = parsed(write_report([folder]))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.usefixtures("unpainted")
def test_names_in_the_record_are_escaped(make_folder):
    folder = make_folder(corpus={"name": "<b>x</b>", "split": "test", "dialogues": 3, "perturbable": {}})
    text, _ = parsed(write_report([folder]))
    assert "<b>x" not in text


@pytest.mark.usefixtures("unpainted")
def test_a_run_without_turns_says_so(make_folder):
    assert "There are no turns to show" in write_report([make_folder(keep_turns=False)]).read_text(encoding="utf-8")


@pytest.mark.usefixtures("unpainted")
def test_the_barest_record_gives_a_page(tmp_path):
    record = {"schema": 1, "axes": {"gender": {"fairscore": {"value": None}}}}
    (tmp_path / "results.json").write_text(json.dumps(record))
    text, _ = parsed(write_report([tmp_path]))
    assert "no fairscore, because BLEU of the original dialogues is 0" in text
    assert "svg" not in text.split("</style>")[1]


def test_several_runs_are_compared_in_the_folder_that_holds_them(make_folder):
    folders = [make_folder("gpt2", keep_turns=False, axes=("gender",)), make_folder("bart", draws=1, axes=("gender",))]
    path = write_report(folders)
    text, checker = parsed(path)
    assert path == folders[0].parent / "report.html"
    assert checker.headings[0] == "Runs side by side"
    assert len(set(checker.ids)) == len(checker.ids)
    assert (path.parent / "figures" / "comparison.svg").is_file()
    assert (path.parent / "figures" / "bart" / "arms.svg").is_file()
    warning = text.split('class="warning"')[1].split("</table>")[0]
    assert re.findall(r'<th class="text">([^<]+)</th>', warning)[-1] == "draws"


@pytest.mark.usefixtures("unpainted")
def test_runs_that_share_their_settings_are_compared_without_a_warning(make_folder):
    folders = [make_folder(name, keep_turns=False, signature={"stage response": name}) for name in ("gpt2", "bart")]
    path = write_report(folders)
    assert 'class="warning"' not in path.read_text(encoding="utf-8")


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(("out", "written"), [("shown", "shown/report.html"), ("board.html", "board.html")])
def test_out_is_a_folder_or_an_html_file(make_folder, tmp_path, out, written):
    assert write_report([make_folder()], tmp_path / out) == tmp_path / written
    assert (tmp_path / written).is_file()


@pytest.mark.usefixtures("unpainted")
def test_a_place_that_cannot_be_written_is_a_user_error(make_folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_report([make_folder()], tmp_path / "file")


def test_readings_become_html():
    assert prose("`db`: woman>man (-0.1) & non-binary") == (
        "<code>db</code>: woman&nbsp;→&nbsp;man (−0.1) &amp; non-binary"
    )


@pytest.mark.parametrize(
    ("record", "rows"),
    [
        ({"a": {"b": 1200, "c": None}}, [("a / b", "1,200")]),
        ({"jga": {"value": 0.5, "ci": [0.4, 0.6]}}, [("jga", "0.500 [0.400, 0.600]")]),
        ({"pipeline": ["a", "b"], "seed": 12345}, [("pipeline", "a, b"), ("seed", "12345")]),
        ({"done": True, "seconds": 73.4219}, [("done", "True"), ("seconds", "73.4219")]),
    ],
)
def test_any_record_becomes_rows(record, rows):
    assert facts(record) == rows


def test_an_error_of_one_of_several_runs_names_its_folder(make_folder):
    good, bad = make_folder("good"), make_folder("bad")
    (bad / "results.json").write_text('{"schema": 1, "axes": {"gender": {}}}')
    with pytest.raises(RunError, match=r"/bad/results\.json, axes\.gender: holds no fairscore"):
        write_report([good, bad])


def test_pairs_of_few_dialogues_are_marked(make_folder):
    page = write_report([make_folder()]).read_text(encoding="utf-8")
    assert "<td>12†</td>" in page
    assert "<td>24</td>" in page
    assert "† fewer than 15 dialogues: intervals are too narrow." in page
