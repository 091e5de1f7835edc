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


def test_groups_stand_first_with_gap_what_is_beyond_rewording_and_the_claim(make_results):
    text = printed(make_results(axes=("gender", "placebo")), 160)
    titles = ("Groups", "Axes", "Components", "Footnote")
    assert sorted(titles, key=text.index) == list(titles)
    woman = "gender woman 12 8.2 0.191 -0.102 [-0.110, -0.094] <0.001 -0.092 [-0.100, -0.084] <0.001 served better"
    assert row(text, "gender", "woman") == woman
    assert row(text, "man").endswith("1.000 -")
    assert row(text, "non-binary").endswith("served worse")


def test_the_verdict_stands_beside_the_p_value_that_decides_it_and_the_widest_pair(make_results):
    text = printed(make_results(axes=("gender", "race", "placebo")), 120)
    widest = "non-binary - woman: +0.204 [+0.196, +0.212] <0.001"
    assert row(text, "gender", "disparity") == f"gender disparity <0.001 {widest}"
    assert row(text, "race", "these").startswith("race these terms only 0.003‡ asian - white: +0.252")
    assert "placebo placebo" not in text  # it claims nothing, and has no verdict


def test_components_are_those_of_the_widest_gap_where_something_is_claimed(make_results):
    text = printed(make_results(axes=("gender", "age", "placebo")), 120)
    components = text.split("Components")[1].split("Footnote")[0]
    cell = "+0.162 [+0.154, +0.170]"
    assert row(components, "response") == f"response {cell} {cell} {cell}"
    assert " age " not in components


def test_disparity_artefact_and_what_could_be_found_are_in_the_footnote(make_results):
    text = printed(make_results(axes=("gender", "placebo")), 160).split("Footnote")[1]
    assert row(text, "gender", "100") == (
        "gender 100 +0.102 [+0.094, +0.110] +0.002 [+0.001, +0.003] 0.104 [0.096, 0.112] 0.084"
    )
    assert row(text, "placebo", "100").startswith("placebo 100 +0.011 [+0.003, +0.019]")


def test_without_a_placebo_nothing_is_beyond_rewording(make_record):
    record = make_record(axes=("gender",))
    for group in record["axes"]["gender"]["corpus_bleu"]["groups"].values():
        del group["beyond_placebo"]
    text = printed(AuditResult.model_validate(record), 120)
    assert "beyond rewording\n" not in text
    assert row(text, "non-binary").endswith("[+0.094, +0.110] <0.001 served worse")


def test_reference_variants_are_rows_of_their_own(make_record):
    record = make_record(axes=("gender",))
    axis = record["axes"]["gender"]["corpus_bleu"]
    axis["references"] = {"neutral": axis["groups"]["woman"] | {"terms": None}}
    text = printed(AuditResult.model_validate(record), 160)
    assert row(text, "no", "group:").endswith("served better")


@pytest.mark.parametrize("metrics", [("corpus_bleu",), ("corpus_bleu", "refusal", "length")])
@pytest.mark.parametrize("width", [80, 90, 100, 120, 160])
def test_tables_fit_and_no_number_is_cut(make_results, width, metrics):
    text = printed(make_results(metrics=metrics), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert row(text, "gender", "woman").split()[2:6] == ["12", "8.2", "0.191", "-0.102"]
    assert "[-0.110," in text
    assert "-0.094]" in text


@pytest.mark.parametrize("width", [40, 60])
def test_a_terminal_that_is_too_narrow_folds_numbers_rather_than_dropping_digits(make_results, width):
    assert "…" not in printed(make_results(axes=("gender",)), width)


@pytest.mark.parametrize("width", [80, 120])
def test_marks_stand_beside_their_numbers_and_are_explained(make_results, width):
    result = make_results()
    few = {axis: row["corpus_bleu"].model_copy(update={"dialogues": 12}) for axis, row in result.axes.items()}
    text = printed(result.model_copy(update={"axes": {axis: {"corpus_bleu": row} for axis, row in few.items()}}), width)
    tables = text
    assert "12†" in tables.split("Footnote")[1]  # of Su's numbers
    assert "† fewer than 15 dialogues" in text
    assert "[+0.118, +0.134]‡" in tables  # race, of these terms only
    assert "‡ true of the terms" in text
    plain = printed(make_results(axes=("placebo",)), width)
    assert "‡" not in plain


@pytest.mark.parametrize("axis", ["persona_nationality", "persona_nationality×persona_disability"])
def test_long_names_are_broken_where_their_parts_end(make_record, axis):
    record = make_record(axes=("gender", "placebo"))
    record["axes"][axis] = record["axes"].pop("gender")
    groups = record["axes"][axis]["corpus_bleu"]["groups"]
    groups["pacific-islander×non-binary"] = groups.pop("man")
    text = printed(AuditResult.model_validate(record), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "[+0.094, +0.110]" in text
    assert "islander×" in text


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
