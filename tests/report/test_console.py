"""Names from files steer neither a terminal nor a page."""

import csv
import io

import pytest
from commands import run_command
from rich.table import Table
from rich.text import Text

from tod_bias import attribute, load_corpus, load_pipeline
from tod_bias.audit.mentions import word_statistics
from tod_bias.perturb import load_axis
from tod_bias.report.console import Console, shown
from tod_bias.report.words import table

ESCAPE, BELL, TURN = chr(27), chr(7), chr(0x202E)
NAME = f"a{ESCAPE}[31mred{BELL}{TURN}[bold]x $x_1$ <script>y"


LEXICON = f"pos\t{NAME}\tother\nnoun\tman\twoman\nkin\thusband\twife\nkin\tbrother\tsister\nkin\tdad\tmom\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\n\ttext, na\u00efve, \u0645\u06cc\u200c\u062e, \U0001f600", None),
        (NAME, "a\u241b[31mred\u2407\ufffd[bold]x $x_1$ <script>y"),
        ("\r\x7f\x9b\u2066", "\u240d\ufffd\ufffd\ufffd"),
    ],
)
def test_what_steers_is_shown(text, expected):
    assert shown(text) == (text if expected is None else expected)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_table_on_a_terminal(terminal):
    stream = io.StringIO()
    table = Table(title=Text(NAME))
    table.add_column(Text(NAME, style="bold"))
    table.add_row(Text(NAME, style="red"))
    Console(file=stream, force_terminal=terminal, width=100, color_system="standard" if terminal else None).print(table)
    text = stream.getvalue()
    assert text.count("\u241b[31mred") == 3
    assert f"{ESCAPE}[31mred" not in text  # its own styles are there, where there are any
    assert (ESCAPE in text) == terminal
    assert BELL not in text
    assert TURN not in text


def test_groups_of_a_lexicon_in_terminal_page_and_figures(tmp_path):
    (tmp_path / "l.tsv").write_text(LEXICON, encoding="utf-8")
    axis = load_axis("mine", lexicon=tmp_path / "l.tsv")
    corpus = load_corpus("demo", max_dialogues=30)
    attribute(load_pipeline("demo"), corpus, axes=[axis], bootstrap=5, permutations=20).save(tmp_path / "run")
    assert run_command("report", tmp_path / "run")[0] == 0
    files = [tmp_path / "run" / "report.html", *(tmp_path / "run" / "figures").glob("*.svg")]
    assert len(files) == 2
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not {ESCAPE, BELL, TURN} & set(text)
        assert "<script>y" not in text
    assert "[31mred" in files[0].read_text(encoding="utf-8")


def test_words_of_that_lexicon(tmp_path, capsys):
    (tmp_path / "l.tsv").write_text(LEXICON, encoding="utf-8")
    counted = word_statistics(load_corpus("demo")[:30], [load_axis("mine", lexicon=tmp_path / "l.tsv")], bootstrap=5)
    Console().print(table(counted))
    assert not {ESCAPE, BELL, TURN} & set(capsys.readouterr().out)
    counted.save(tmp_path)
    with (tmp_path / "words.csv").open(encoding="utf-8", newline="") as file:
        assert any(NAME in row for row in csv.reader(file))  # data stay what they are
