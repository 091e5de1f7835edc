"""Statistics of review data as a script prints and writes them."""

import csv
import json
import subprocess
import sys
from pathlib import Path

ROWS = [
    ["business_id", "review_stars", "review_text", "name", "price", "categories"],
    ["a", "5", "Lovely, said Emily and Jamal", "Twin Fox", "$$", "Bars, Thai"],
    ["a", "4", "Again, with Emily", "Twin Fox", "$$", "Bars, Thai"],
    ["b", "3", "Good pho for Keisha", "Pho 24", "1.0", "Vietnamese"],
    ["b", "3", "Good pho", "Pho 24", "1.0", "Vietnamese"],
]


def test_statistics_are_printed_and_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Path("City.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(ROWS)
    script = Path(__file__).with_name("review_statistics.py")
    command = [sys.executable, script, "City.csv", "--min-reviews", "2", "--out", "s"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "most rated" in done.stdout
    assert json.loads((tmp_path / "s" / "statistics.json").read_text())[0]["city"] == "City"
    assert (tmp_path / "s" / "name_statistics.csv").exists()
