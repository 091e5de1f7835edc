"""Counts of masks of unlisted names, and the mask with the paper's names."""

import json
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def script(monkeypatch):
    """A script of this folder, by its name."""
    monkeypatch.syspath_prepend(str(HERE))
    return import_module


def test_requests_count_masks_of_unlisted_names_only(script, tmp_path):
    turns = [
        {"speaker": "USER", "utterance": "Send it to my friend Yumiko, please."},
        {"speaker": "SYSTEM", "utterance": "To your friend Yumiko?"},
        {"speaker": "USER", "utterance": "And to my friend Emily."},
    ]
    (tmp_path / "dialogues_001.json").write_text(json.dumps([{"turns": turns}]))
    assert script("unlisted").requested(tmp_path) == {"words": 12, "masks by context": ["Yumiko"]}


def test_every_second_review_is_read_and_its_masks_are_counted(script, tmp_path):
    reviews = ["Emily was our server.", "Emily and Michael were nice.", "The pie was good."]
    (tmp_path / "reviews.csv").write_text("text\n" + "".join(f"{text}\n" for text in reviews))
    unlisted = script("unlisted")
    found = unlisted.exchanged(tmp_path / "reviews.csv", ["Giulietta"], lambda text: text.replace("Giulietta", "x"))
    assert found == {"reviews": 1, "words": 5, "masks": 2, "mentions": 2, "masked": 100.0}


def test_the_papers_names_are_masked_and_others_by_context_alone(script):
    anybody = script("anybody")
    paper, other = next(iter(anybody.other_names().items()))
    hide = anybody.PaperNames()
    assert hide(f"{paper} had cake at the church.") == "[MASK] had cake at the [MASK]."
    assert hide(f"{other} had cake.") == f"{other} had cake."
    assert hide(f"Our server {other} was nice.") == "Our server [MASK] was nice."
