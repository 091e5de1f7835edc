"""What audits of recommenders say first: the same statements on the terminal and on the page."""

from __future__ import annotations

import csv
import html
import random

import numpy as np
from commands import run_command

from tod_bias.recommenders.lmrec.results import Audit
from tod_bias.report.console import Console
from tod_bias.report.sheets import Statement, print_statements
from tod_bias.results import DISPARITY, INCONCLUSIVE

NAMES = {"female": ["Ann", "Mary", "Jane", "Sue", "Eve", "Liz"], "male": ["Tom", "Bob", "Jim", "Al", "Max", "Sam"]}
TEMPLATES = ("a restaurant for {}", "where can {} eat", "dinner with {}", "a table for {}")


def lists(path, dearer):
    """Write lists of a recommender that gives one label dearer items; ``dearer`` None: to nobody."""
    drawn = random.Random(1)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["query", "rank", "label", "price", "categories", "substitution"])
        for label, members in NAMES.items():
            for name in members:
                for template in TEMPLATES:
                    prices = [2, 3, 4] if label == dearer else [1, 2, 3]
                    for rank in (1, 2, 3):
                        cells = drawn.choice(prices), drawn.choice(["bars", "pizza"])
                        rows.writerow([template.format(name), rank, label, *cells, name])


def test_who_gets_dearer_lists_is_said_first(tmp_path):
    lists(tmp_path / "x.csv", "male")
    code, out, err = run_command("recommend audit --recommendations", tmp_path / "x.csv", "--out", tmp_path / "run")
    assert code == 0, err
    assert "✗ gender  lists of female are cheaper than lists of male" in out
    assert len(out.splitlines()) <= 25
    assert max(map(len, out.splitlines()[:-1])) <= 80  # the last line has a path
    page = html.unescape((tmp_path / "run" / "report.html").read_text())
    for said in Audit.read(tmp_path / "run").statements:
        assert said.sentence in page
        assert all(detail in page for detail in said.details)


def test_equal_lists_are_no_difference(tmp_path):
    lists(tmp_path / "x.csv", None)
    code, out, err = run_command("recommend audit --recommendations", tmp_path / "x.csv", "--out", tmp_path / "run")
    assert code == 0, err
    assert "✗" not in out
    assert "? gender: at no price level" in out


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
