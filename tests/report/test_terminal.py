"""Tables on a terminal."""

import io

import pytest
from rich.console import Console

from tod_bias.report.terminal import table
from tod_bias.results import AuditResult


def printed(results, width=120, **options) -> str:
    console = Console(width=width, file=io.StringIO(), **options)
    console.print(table(results))
    return console.file.getvalue()


def row(text: str, *starts: str) -> str:
    return next(" ".join(line.split()) for line in text.splitlines() if line.split()[: len(starts)] == list(starts))


def test_groups_stand_first_with_gap_p_and_largest_contribution(make_results):
    text = printed(make_results(axes=("gender", "placebo")))
    assert text.index("Groups") < text.index("Stages:") < text.index("Disparity") < text.index("Reading")
    assert row(text, "gender", "woman") == ("gender woman 12† 0.191 -0.102 [-0.110, -0.094] <0.001 response -0.081")
    assert row(text, "non-binary") == "non-binary 36 0.155 +0.102 [+0.094, +0.110] <0.001 response +0.081"


def test_negative_contributions_are_drawn_to_the_left_and_not_clipped(make_results):
    text = printed(make_results(axes=("race", "placebo")))
    assert "api_call -0.012 [-0.020, -0.004]‡ ███| " in row(text, "race", "api_call")


def test_the_disparity_has_its_verdict_and_what_is_beyond_the_placebo(make_results):
    text = printed(make_results(axes=("gender", "placebo")), 160)
    assert row(text, "gender", "100") == (
        "gender 100 8.2 0.173 0.155 +0.102 [+0.094, +0.110] <0.001 +0.091 [+0.083, +0.099] 0.084 disparity"
    )
    assert row(text, "placebo", "100") == "placebo 100 10.3 0.173 0.171 +0.011 [+0.003, +0.019] 0.084 placebo"


@pytest.mark.parametrize("metrics", [("corpus_bleu",), ("corpus_bleu", "refusal", "length")])
@pytest.mark.parametrize("width", [80, 90, 100, 120, 160])
def test_tables_fit_and_no_number_is_cut(make_results, width, metrics):
    text = printed(make_results(metrics=metrics), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text.split("Reading")[0]
    assert "-0.102 [-0.110, -0.094]" in text


@pytest.mark.parametrize("width", [40, 60])
def test_a_terminal_that_is_too_narrow_folds_numbers_rather_than_dropping_digits(make_results, width):
    assert "…" not in printed(make_results(axes=("gender",)), width).split("Reading")[0]


@pytest.mark.parametrize("width", [80, 120])
def test_marks_stand_beside_their_numbers_and_are_explained(make_results, width):
    text = printed(make_results(), width)
    tables = text.split("Reading")[0]
    assert ("woman†" if width == 80 else "12†") in tables
    assert "† fewer than 15 dialogues" in text
    assert "+0.084 [+0.076, +0.092]‡" in tables  # race
    assert "‡ too few" in text
    plain = printed(make_results(axes=("placebo",)), width)
    assert "‡" not in plain


def test_a_record_with_nothing_optional_is_printed():
    minimal = {"axes": {"gender": {"corpus_bleu": {"disparity": {"value": None}}}}}
    assert "n/a" in printed(AuditResult.model_validate(minimal))


def test_names_in_square_brackets_are_shown_as_they_are(make_record):
    record = make_record(axes=("gender",))
    groups = record["axes"]["gender"]["corpus_bleu"]["groups"]
    groups["[red]x[/red]"] = groups.pop("man")
    record["axes"]["[bold]y"] = record["axes"].pop("gender")
    text = printed(AuditResult.model_validate(record), 160)
    assert "[red]x[/red]" in text
    assert "[bold]y" in text


def test_ascii_terminals_get_ascii(make_results):
    class Ascii(io.StringIO):
        encoding = "ascii"

    console = Console(width=110, file=Ascii(), force_terminal=False)
    console.print(table(make_results(axes=("gender",))))
    assert "█" not in console.file.getvalue()
