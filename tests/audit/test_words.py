"""Word statistics: counted by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tod_bias import Dialogue, Turn
from tod_bias.audit.mentions import word_statistics
from tod_bias.perturb import load_axis
from tod_bias.report.words import write_shares

CALL = {"api_name": "Find", "guest": "my mother", "artist": "Lady Gaga"}
DIALOGUES = [
    Dialogue(
        "1",
        "",
        (
            Turn.with_call("My mother likes Lady Gaga.", CALL, {}, "Does she like it?"),
            Turn.with_call("Yes", {}, {}, "Ok"),
        ),
    ),
    Dialogue("2", "", (Turn.with_call("A table for my mother-in-law and my son.", {}, {}, "Done for her and him."),)),
    Dialogue("3", "", (Turn.with_call("Hello", {}, {}, "Hello you"),)),
]
"""User: 5 + 1 + 8 + 1 = 15 words; system: 4 + 1 + 5 + 2 = 12."""


def test_mentions_are_counted_speaker_by_speaker() -> None:
    result = word_statistics(DIALOGUES, ["gender"], bootstrap=0)
    assert result["words"] == {"user": 15, "system": 12, "both": 27}
    woman = result["axes"]["gender"]["woman"]
    assert woman["user"] == {
        "mentions": 2,
        "share_of_words": pytest.approx(2 / 15),
        "share_of_mentions": pytest.approx(2 / 3),
        "dialogues": 2,
        "share_of_dialogues": pytest.approx(2 / 3),
        "share_of_words_ci": None,
        "share_of_dialogues_ci": None,
        "share_of_mentions_ci": None,
    }
    assert (woman["system"]["mentions"], woman["system"]["dialogues"]) == (2, 2)
    assert (woman["both"]["mentions"], woman["both"]["dialogues"]) == (4, 2)
    assert woman["both"]["share_of_words"] == pytest.approx(4 / 27)
    assert result["axes"]["gender"]["man"]["both"]["share_of_mentions"] == pytest.approx(2 / 6)
    assert result["axes"]["gender"]["non-binary"]["user"]["share_of_words"] == 0


def test_an_axis_without_mentions_has_no_share_and_no_interval() -> None:
    both = word_statistics(DIALOGUES, ["race"], bootstrap=50)["axes"]["race"]["black"]["both"]
    assert both["share_of_mentions"] is None
    assert (both["share_of_words"], both["share_of_words_ci"]) == (0, None)


def test_intervals_hold_their_share_and_depend_on_the_seed_only() -> None:
    first, again, other = (word_statistics(DIALOGUES * 4, ["gender"], bootstrap=99, seed=seed) for seed in (1, 1, 2))
    woman = first["axes"]["gender"]["woman"]["both"]
    low, high = woman["share_of_words_ci"]
    assert low < woman["share_of_words"] < high
    assert first == again
    assert first["axes"] != other["axes"]


def test_protected_phrases_do_not_count() -> None:
    axis = load_axis("gender", protected=["my mother likes"])
    assert word_statistics(DIALOGUES, [axis], bootstrap=0)["axes"]["gender"]["woman"]["user"]["mentions"] == 1


def test_a_record_a_table_and_a_figure_are_written(tmp_path: Path) -> None:
    result = word_statistics(DIALOGUES, ["gender", "age"], bootstrap=50)
    result.save(tmp_path)
    write_shares(result, tmp_path)
    with (tmp_path / "words.csv").open() as file:
        rows = {(row["axis"], row["group"], row["speaker"]): row for row in csv.DictReader(file)}
    assert len(rows) == 3 * (3 + 5)
    assert float(rows["gender", "woman", "user"]["share_of_words"]) == pytest.approx(2 / 15)
    record = json.loads((tmp_path / "words.json").read_text())
    assert record["signature"]["axis gender"].startswith("lexicon:gender|")
    assert "<svg" in (tmp_path / "figures" / "words.svg").read_text()
