import io

import pytest
from rich.console import Console

from tod_bias.io import progress
from tod_bias.io.progress import progress_bar


def test_log_file_gets_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress_bar(4, "generating", show=True) as bar:
        bar.advance(3)
        bar.describe("loss 1.5")
        bar.advance()
    captured = capsys.readouterr()
    assert captured.err == "generating: 3 of 4 after 0:00:00\nloss 1.5: 4 of 4 after 0:00:00\n"
    assert captured.out == ""


def test_quiet_work_says_nothing(capsys):
    with progress_bar(4, "generating", show=False) as bar:
        bar.advance(4)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("after", "is_shown"), [(0.0, True), (1e-9, True), (60.0, False)])
def test_a_terminal_gets_a_bar_at_once_or_once_the_work_takes_long(monkeypatch, after, is_shown):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(progress, "Console", lambda **options: terminal)
    with progress_bar(4, "generating", show=True, after=after) as bar:
        bar.advance(3)
    assert ("generating" in terminal.file.getvalue()) == is_shown
