"""The HTML report."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tod_bias.report.answer import TerminalAnswer, what_happens
from tod_bias.report.page import write_report
from tod_bias.results import AuditResult, RunError

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
    return write_report([write_run(tmp_path_factory.mktemp("report") / "demo", metrics=("corpus_bleu", "refusal"))])


def part(text: str, start: str, end: str) -> str:
    return text.split(start)[1].split(end)[0]


def test_one_run_writes_its_report_and_figures_into_its_own_folder(report):
    assert report.name == "report.html"
    assert report.parent.name == "demo"
    drawn = {path.name for path in (report.parent / "figures").iterdir()}
    assert drawn == {f"groups-{axis}.svg" for axis in ("gender", "age", "race")}


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


SECTIONS = ("groups", "components", "terms", "placebo", "su", "record")


def test_below_the_cards_are_six_closed_sections_with_one_table_each(report):
    before, *sections = report.read_text(encoding="utf-8").split('<details class="section" id="demo-')
    assert "<table" not in before
    assert before.index('class="readings"') < before.index("results.json")
    assert [section.partition('"')[0] for section in sections] == list(SECTIONS)
    for section in sections:
        assert section.startswith(f'{section.partition(chr(34))[0]}">')  # not open
        assert section.count("<table") == 1


def test_sections_show_each_axis_by_the_metric_of_its_finding_and_name_all_findings(report):
    text = report.read_text(encoding="utf-8")
    result = AuditResult.load(report.parent)
    leads = {finding.axis: finding.metric for finding in reversed(result.findings)}
    groups, components = (part(text, f'id="demo-{name}"', "</details>") for name in ("groups", "components"))
    for axis, metric in leads.items():
        named = f"{axis}<br><small>{result.metrics[metric].label}</small>"
        assert groups.count(named) == 1
        assert components.count(named) == sum(finding.axis == axis for finding in result.findings)
    rows = [row for row in groups.split("<tr>") if "served worse</td>" in row or "these terms</td>" in row]
    named = [re.search(r'<td class="name"[^>]*>([^<]+)', row)[1] for row in rows]
    assert sorted(named) == sorted(finding.group for finding in result.findings if finding.is_difference)


UNKNOWN = ("inconclusive", "Shapley", "artefact", "pooled", "eff. terms", "simultaneous", "p=", "Owen", "arm ")
"""Words and notation that neither the glossary nor a first course in statistics explains."""


def test_a_reader_needs_the_glossary_and_a_first_course_in_statistics_only(report):
    body = report.read_text(encoding="utf-8").split("</style>")[1]
    text = re.sub(r"<svg.*?</svg>|<[^>]*>", " ", body.split('id="demo-record"')[0], flags=re.DOTALL)
    assert [word for word in UNKNOWN if word in text] == []
    glossary = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    for word in ("twin", "placebo", "gap", "share", "effective terms", "replaced alone", "left alone"):
        assert word in text.lower()
        assert word in glossary


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize(
    ("axis", "badge", "is_found"),
    [
        ("gender", '<span class="badge claim">difference</span>', True),
        ("age", '<span class="badge open">not enough data</span>', False),
        ("race", '<span class="badge terms">difference, with these terms</span>', True),
        ("placebo", '<span class="badge open">not enough data</span>', False),
    ],
)
def test_only_a_claim_is_shown_as_one(make_folder, axis, badge, is_found):
    text = write_report([make_folder(axes=(axis,))]).read_text(encoding="utf-8")
    assert badge in text
    is_claimed = "badge claim" in text or "badge terms" in text
    assert ('class="supported"' in text) == is_claimed == is_found
    assert ("‡ holds for the terms of this run only" in text) == (axis == "race")


@pytest.mark.usefixtures("unpainted")
def test_texts_of_dialogues_are_escaped(make_folder):
    folder = make_folder()
    record = json.loads((folder / "results.json").read_text())
    for finding in record["findings"]:
        for name in ("user", "user_original", "original", "counterfactual", "variant", "dialogue"):
            finding["example"][name] += " <script>alert(1)</script> & co"
    (folder / "results.json").write_text(json.dumps(record))
    text, _ = parsed(write_report([folder]))
    assert "<script" not in text
    assert "&lt;" in text


@pytest.mark.usefixtures("unpainted")
def test_terminal_page_and_results_name_the_same_group_component_and_event(make_folder):
    folder = make_folder()
    result = AuditResult.load(folder)
    terminal = " ".join(" ".join(line.plain for line in TerminalAnswer(result).lines()).split())
    text = write_report([folder]).read_text(encoding="utf-8")
    page = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part(text, 'class="readings"', "</ul>"))).split())
    found = [finding for finding in result.findings if finding.is_difference]
    assert [finding.axis for finding in found][:2] == ["gender", "race"]
    for finding in found:
        for shown in (terminal, page):
            assert f"served worse as {finding.group}" in shown
            assert finding.stage.split(",")[0] in shown
            assert what_happens(finding, result) in shown


@pytest.mark.usefixtures("unpainted")
def test_each_kind_of_answer_has_words_and_looks_of_its_own(make_folder):
    folder = make_folder(axes=("age",))
    record = json.loads((folder / "results.json").read_text())
    unproven = record["findings"][0]
    nothing = {"axis": "age", "verdict": "no difference", "turns": 300, "bound": 0.01}
    record["findings"] = [unproven, nothing, {"axis": "age", "verdict": "equivalent"}]
    record["config"] = {"analysis": {"margin": 0.05}}
    (folder / "results.json").write_text(json.dumps(record))
    page = part(write_report([folder]).read_text(encoding="utf-8"), 'class="readings"', "</ul>")
    cards = page.split("<li")[1:]
    for card, look, words in zip(
        cards,
        ("open", "good", "same"),
        (f"not proven; seen: as {unproven['group']}", "up to 1.0% of dialogues could have been missed", "within 0.05"),
        strict=True,
    ):
        assert f'class="badge {look}"' in card
        assert words in card


HOSTILE = "<script>alert('x')</script>\"><b title=\"y"


def test_hostile_names_of_anything_are_escaped_in_page_and_figures(make_record, tmp_path, request):
    text = json.dumps(make_record(axes=("gender",), metrics=("corpus_bleu", "refusal")))
    quoted = json.dumps(HOSTILE)[1:-1].replace("\\", "\\\\")
    for name in ("gender", "woman", "api_call", "BLEU", "mom/dad/parent", "made_up", "dtype", "refusal"):
        text = re.sub(rf"(?<![\w-]){name}(?![\w-])", f"{name}{quoted}", text)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "results.json").write_text(text)
    for folders in ([tmp_path / "one"], [tmp_path / "one", tmp_path / "two"]):
        page, checker = parsed(write_report(folders))
        assert "<script" not in page
        assert "<b title" not in page
        assert len(set(checker.ids)) == len(checker.ids)
        assert [name for name in checker.ids if not re.fullmatch(r"[\w.-]+", name)] == []
        request.getfixturevalue("unpainted")  # those of a single run are there
    for path in (tmp_path / "one" / "figures").iterdir():
        assert "<script" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("dialogues", [12, 100])
def test_only_sus_numbers_are_marked_where_dialogues_are_few(make_folder, dialogues):
    folder = make_folder(axes=("gender",))
    record = json.loads((folder / "results.json").read_text())
    for row in record["axes"]["gender"].values():
        row["dialogues"] = dialogues
    (folder / "results.json").write_text(json.dumps(record))
    text = write_report([folder]).read_text(encoding="utf-8")
    assert ("gender†<br>" in text) == ("fewer than 15 dialogues" in text) == (dialogues < 15)
    assert "12†" not in text


def test_the_barest_record_gives_a_page(tmp_path):
    record = {"schema": 3, "axes": {"gender": {"corpus_bleu": {"disparity": {"value": None}}}}}
    (tmp_path / "results.json").write_text(json.dumps(record))
    text, _ = parsed(write_report([tmp_path]))
    assert "for two groups" in text
    assert "attributed nothing" in text
    assert text.count("<table") <= 2
    assert "svg" not in text.split("</style>")[1]


def test_several_runs_are_compared_in_the_folder_that_holds_them(make_folder):
    folders = [
        make_folder("gpt2", keep_turns=False, axes=("gender",), metrics=("corpus_bleu", "refusal")),
        make_folder("bart", axes=("gender", "placebo"), config={"seed": 1}),
    ]
    path = write_report(folders)
    text, checker = parsed(path)
    assert path == folders[0].parent / "report.html"
    assert checker.headings[0] == "Runs side by side"
    assert len(set(checker.ids)) == len(checker.ids)
    assert (path.parent / "figures" / "comparison-corpus_bleu.svg").is_file()
    assert (path.parent / "figures" / "bart" / "groups-gender.svg").is_file()
    warning = part(text, 'class="warning"', "</table>")
    assert re.findall(r'<th scope="row" class="text">([^<]+)</th>', warning) == [
        "config / seed", "metrics", "corpus / audited / placebo",
    ]  # fmt: skip
    assert '<td class="text" data-label="gpt2">corpus_bleu, refusal</td>' in warning
    assert "not compared: refusals." in text


@pytest.mark.usefixtures("unpainted")
def test_disparities_and_gaps_stand_side_by_side(make_folder, make_record):
    folders = [make_folder(name, keep_turns=False, axes=("gender",)) for name in ("gpt2", "bart")]
    results = make_record(axes=("gender",))
    record = results["axes"]["gender"]["corpus_bleu"]
    record["verdict"] = "inconclusive"
    record["groups"]["other"] = record["groups"].pop("man")
    (folders[1] / "results.json").write_text(json.dumps(results))
    compared = part(write_report(folders).read_text(encoding="utf-8"), 'id="comparison"', "<article")
    compared = re.sub(' data-label="[^"]*"', "", compared)
    assert compared.count('<td class="supported">+0.102*') == 1  # the gap of non-binary, of gpt2 alone
    assert re.search(r'<td class="name">man</td>.*<td></td><td></td></tr>', compared)
    assert re.search(r'<td class="name">other</td><td></td><td></td>', compared)
    assert "badge claim" in compared
    assert "inconclusive" in compared


@pytest.mark.usefixtures("unpainted")
def test_runs_that_share_their_settings_are_compared_without_a_warning(make_folder):
    changes = {"keep_turns": False, "axes": ("gender",)}
    folders = [make_folder(name, signature={"stage response": name}, **changes) for name in ("gpt2", "bart")]
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


@pytest.mark.usefixtures("unpainted")
def test_components_that_cancel_are_named_though_no_gap_is_found(make_folder):
    folder = make_folder(axes=("age",))
    record = json.loads((folder / "results.json").read_text())
    record["findings"] = [{"axis": "age", "verdict": "inconclusive"}]
    shares = record["axes"]["age"]["corpus_bleu"]["groups"]["senior"]["contributions"]
    for stage, value in (("api_call", 0.3), ("response", -0.3)):
        shares[stage]["shapley"] |= {"value": value, "p": 0.0001}
    (folder / "results.json").write_text(json.dumps(record))
    components = part(write_report([folder]).read_text(encoding="utf-8"), 'id="run-components"', "</details>")
    found = "age: for senior, <code>api_call</code> (+0.300) and <code>response</code> (−0.300) work against each other"
    assert found in components
    assert components.count("<small>BLEU</small>") == 1  # the group's own shares


def test_an_error_of_one_of_several_runs_names_its_folder(make_folder):
    good, bad = make_folder("good"), make_folder("bad")
    (bad / "results.json").write_text('{"schema": 3, "axes": {"gender": {"corpus_bleu": {}}}}')
    with pytest.raises(RunError, match=r"/bad/results\.json, axes\.gender\.corpus_bleu\.disparity"):
        write_report([good, bad])
