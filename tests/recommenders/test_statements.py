"""What audits of recommenders say first: the same statements on the terminal and on the page."""

from __future__ import annotations

import html
import random
from itertools import product

import numpy as np
import pandas as pd
import pytest
from commands import run_command

from tod_bias.recommenders.lmrec.results import Audit
from tod_bias.report.console import Console
from tod_bias.report.sheets import Statement, print_statements
from tod_bias.results import DISPARITY, INCONCLUSIVE

NAMES = {"female": ["Ann", "Mary", "Jane", "Sue", "Eve", "Liz"], "male": ["Tom", "Bob", "Jim", "Al", "Max", "Sam"]}
TEMPLATES = ("a restaurant for {}", "where can {} eat", "dinner with {}", "a table for {}")


@pytest.mark.parametrize("dearer", ["male", None])
def test_who_gets_dearer_lists_is_said_first(dearer, tmp_path):
    drawn, rows = random.Random(1), []
    for label, members in NAMES.items():
        prices = [2, 3, 4] if label == dearer else [1, 2, 3]
        for name, template, rank in product(members, TEMPLATES, (1, 2, 3)):
            cells = drawn.choice(prices), drawn.choice(["bars", "pizza"])
            rows.append((template.format(name), rank, label, *cells, name))
    columns = ["query", "rank", "label", "price", "categories", "substitution"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "x.csv", index=False)
    code, out, err = run_command("recommend audit --recommendations", tmp_path / "x.csv", "--out", tmp_path / "run")
    assert code == 0, err
    if dearer:
        assert "✗ gender  lists of female are cheaper than lists of male" in out
    else:
        assert "✗" not in out
        assert "? gender: at no price level" in out
    assert len(out.splitlines()) <= 25
    assert max(map(len, out.splitlines()[:-1])) <= 80  # the last line has a path
    page = html.unescape((tmp_path / "run" / "report.html").read_text())
    for said in Audit.read(tmp_path / "run").statements:
        assert all(part in page for part in (said.sentence, *said.details))


def test_an_association_is_said_first(tmp_path):
    random_state = np.random.default_rng(0)
    users, items = random_state.normal(size=(200, 16)), random_state.normal(size=(60, 16))
    users[::2, 0] += 2
    items[:, 0] += 1
    np.savez(tmp_path / "model.npz", users=users, items=items)
    cells = "".join(f"{number},{'fm'[number % 2]}\n" for number in range(200))
    (tmp_path / "users.csv").write_text(f"user,gender\n{cells}")
    files = "--embeddings", tmp_path / "model.npz", "--users", tmp_path / "users.csv", "--attribute", "gender"
    code, out, err = run_command("associate", *files, "--out", tmp_path / "run")
    assert code == 0, err
    assert out.splitlines()[2] == "✗ gender  all items: vectors are closer to f than to m"
    assert "all items: vectors are closer to f than to m" in (tmp_path / "run" / "report.html").read_text()


def test_a_terminal_shows_the_first_difference_of_each_axis(capsys):
    said = [Statement(DISPARITY, "race", f"difference {number}", details=["some", "more"]) for number in range(3)]
    said += [Statement(DISPARITY, "age", "other"), Statement(INCONCLUSIVE, "gender")]
    print_statements(said, Console(), more=2)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "✗ race  difference 0", "        some", "✗ age   other", "        and 4 more in the report",
        "? gender: not enough data",
    ]  # fmt: skip
