"""Tables on a terminal."""

import io

import pytest
from rich.console import Console

from tod_bias.report.record import RunError
from tod_bias.report.terminal import table


def printed(results, width=110, **options) -> str:
    console = Console(width=width, file=io.StringIO(), **options)
    console.print(table(results))
    return console.file.getvalue()


def row(text: str, *starts: str) -> list[str]:
    return next(line for line in text.splitlines() if line.split()[: len(starts)] == list(starts)).split()


def test_every_number_of_an_axis_is_shown_with_its_interval(make_results):
    text = printed(make_results())
    assert " ".join(row(text, "gender", "100")) == (
        "gender 100 0.1731 0.1553 +0.103 0.103 [0.095, 0.111] 0.001 0.129 [0.120, 0.137]"
    )
    assert " ".join(row(text, "response")).startswith("response 0.081 [0.073, 0.089] 79% |████████████ 0.081")


def test_negative_parts_are_drawn_to_the_left_and_not_clipped(make_results):
    line = " ".join(row(printed(make_results(axes=("race", "placebo"))), "api_call"))
    assert line.startswith("api_call -0.012 [-0.020, -0.004] -14% ███| -0.004")


def test_the_placebo_is_the_last_row_of_every_table(make_results):
    text = printed(make_results(axes=("placebo", "gender")))
    fairscores, parts = text.split("Contributions")
    assert fairscores.index("gender") < fairscores.index("placebo")
    assert parts.index("gender") < parts.index("placebo")


def test_shares_of_what_is_not_told_apart_from_zero_are_left_out(make_results):
    text = printed(make_results(axes=("age", "placebo")))
    assert "%" not in text.split("Reading")[0].split("Contributions")[1].replace("[95%]", "")


@pytest.mark.parametrize("width", [80, 90, 100, 110, 120, 160])
def test_tables_fit_and_no_number_is_cut(make_results, width):
    text = printed(make_results(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.count("[0.095, 0.111]") == 1
    assert ("█" in text) == (width >= 100)


@pytest.mark.parametrize("width", [40, 60])
def test_a_terminal_that_is_too_narrow_folds_numbers_rather_than_dropping_digits(make_results, width):
    assert "…" not in printed(make_results(axes=("gender",)), width)


def test_the_reading_stands_below_the_tables(make_results):
    text = " ".join(printed(make_results()).split())
    assert "- age: no difference is supported (fairscore 0.014, p=0.630)" in text
    assert "only what is above this floor can be read as demographic." in text


def test_a_record_with_nothing_optional_is_printed():
    minimal = {"schema": 1, "axes": {"gender": {"fairscore": {"value": None}}}}
    assert "n/a" in printed(minimal)


def test_ascii_terminals_get_ascii(make_results):
    class Ascii(io.StringIO):
        encoding = "ascii"

    console = Console(width=110, file=Ascii(), force_terminal=False)
    console.print(table(make_results()))
    console.file.getvalue().encode("ascii")


def test_p_values_that_are_not_adjusted_are_not_called_holm(make_results):
    results = make_results(axes=("gender",))
    del results["axes"]["gender"]["fairscore"]["p_holm"]
    assert "(Holm)" not in printed(results)


def test_a_malformed_record_is_a_user_error(make_results):
    with pytest.raises(RunError, match=r"axes\.gender"):
        table({"axes": {"gender": 3}})


def test_at_80_columns_an_axis_is_one_line(make_results):
    text = printed(make_results(), 80)
    assert " ".join(row(text, "gender", "100")) == ("gender 100 +0.103 0.103 [0.095, 0.111] 0.001 0.129 [0.120, 0.137]")
    assert row(text, "gender", "0.1731") == ["gender", "0.1731", "0.1553"]


def test_a_part_too_small_for_a_bar_has_no_mark(make_results):
    results = make_results(axes=("gender",))
    results["axes"]["gender"]["attribution"]["db"] = 0.0
    results["axes"]["gender"]["attribution"]["api_call"] = None
    text = printed(results)
    assert "|" not in " ".join(row(text, "api_call")) + " ".join(row(text, "gender", "db"))
    assert "|████████████" in text
