"""Tables of pages: scopes, columns by name, what is escaped."""

import pytest
from markupsafe import Markup

from tod_bias.report.page_tables import name_row, page_table

TABLE = page_table([("axis", "text"), "gap\n[95%]", "a & b", ""])


def test_header_cells_have_a_scope_and_an_empty_one_heads_nothing():
    assert TABLE.head == (
        '<thead><tr><th scope="col" class="text">axis</th><th scope="col">gap<br>[95%]</th>'
        '<th scope="col">a &amp; b</th><td></td></tr></thead>'
    )


def test_cells_name_their_columns_and_the_first_names_the_row():
    assert TABLE.row(["gender", Markup("<b>1</b>"), ("<2>", "supported"), 3], "placebo") == (
        '<tr class="placebo"><th scope="row" class="text">gender</th><td data-label="gap [95%]"><b>1</b></td>'
        '<td class="supported" data-label="a &amp; b">&lt;2&gt;</td><td>3</td></tr>\n'
    )


@pytest.mark.parametrize(("first", "is_named"), [("", True), ("  ", True), ("gender", False)])
def test_a_first_cell_that_names_nothing_is_no_header(first, is_named):
    assert TABLE.row([first, 1, 2, 3], is_named=is_named).startswith(
        f'<tr><td class="text">{first.strip()}</td><td data-label="gap [95%]">1</td>'
    )


def test_a_row_has_a_cell_for_every_column():
    with pytest.raises(ValueError, match="shorter"):
        TABLE.row(["gender", 1, 2])


def test_markup_in_a_header_is_a_plain_label():
    table = page_table(["", Markup("<code>{}</code>\n[95%]").format('a"b')])
    assert table.row(["x", 1]) == '<tr><th scope="row">x</th><td data-label="a&#34;b [95%]">1</td></tr>\n'
    assert "<code>a&#34;b</code><br>[95%]" in table.head


def test_a_name_and_what_it_names():
    assert name_row("seed", "<1>", "text") == (
        '<tr><th scope="row" class="text">seed</th><td class="text">&lt;1&gt;</td></tr>\n'
    )
