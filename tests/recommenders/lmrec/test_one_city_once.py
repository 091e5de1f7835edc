"""What is counted twice, or tested on what was trained on, is refused or never done."""

from __future__ import annotations

import csv
import json
import logging

import pytest
from commands import refused

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.recommendations import read_recommendations
from tod_bias.recommenders.lmrec.reviews import Reviews, read_csv

LISTS = "query,rank,label,price,item\nq,1,female,1,a\nr,1,male,2,b\n"


def test_the_same_lists_are_no_two_cities(tmp_path):
    for name, text in (("one", LISTS), ("same", LISTS), ("other", LISTS.replace("2,b", "3,b"))):
        (tmp_path / f"{name}.csv").write_text(text)
    entry, same, other = (tmp_path / f"{name}.csv" for name in ("one", "same", "other"))
    for files in ([("A", entry), ("B", entry)], [("A", entry), ("B", same)], [(None, entry), (None, same)]):
        with pytest.raises(RecommenderError, match="hold the same lists"):
            read_recommendations(files)
    assert read_recommendations([("A", entry), ("B", other)]).cities == ["A", "B"]


def test_rows_that_contradict_their_venue_are_logged(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    with open(tmp_path / "c.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["business_id", "review_text", "name", "price", "categories"])
        for number in range(8):
            rows.writerow(["v", f"Review {number}", "Bar", 3 if number == 5 else 2, "Bars"])
    result = Reviews(read_csv(tmp_path / "c.csv"), city="C", fewest=1)
    assert result.venues[0].price == 2
    (record,) = caplog.records
    assert record.getMessage().startswith("C: 1 rows have another name, price or categories than the first of their")
    assert record.getMessage().endswith("c.csv, line 7)")


def test_a_folder_with_another_commands_report_is_not_written_into(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists.csv").write_text(LISTS)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text(json.dumps({"schema": 2}))
    said = refused("recommend audit --recommendations lists.csv --out run")
    assert "run: holds what attribute wrote, and its report would be lost" in said
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["results.json"]
    assert "is no SQLite file" in refused("database --out lists.csv")
    assert (tmp_path / "lists.csv").read_text() == LISTS
