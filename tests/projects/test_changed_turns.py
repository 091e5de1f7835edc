"""Which turns the study of Su's paper shows."""

import importlib
import sys
from pathlib import Path

import pandas as pd
import pytest

FOLDER = Path(__file__).parents[2] / "projects" / "step_by_step"
STAGES = ["api_call", "response"]


@pytest.fixture
def changed(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("changed_turns").changed_turns
    sys.modules.pop("changed_turns", None)


@pytest.fixture
def turns():
    """Eight dialogues of two turns, as man and as the placebo; odd turns of the counterfactual go wrong."""
    rows = []
    for dialogue in range(8):
        for turn in range(2):
            for variant, role, arm in (
                ("original", "original", "original"), ("gender:man", "group", ""), ("placebo:gender", "placebo", ""),
            ):  # fmt: skip
                wrong = role != "original" and turn == 1
                rows.append({
                    "axis": "gender", "dialogue": f"d{dialogue}", "turn": turn, "variant": variant, "role": role,
                    "sample": 0, "arm": arm, "source": "woman", "group": "man" if role == "group" else None,
                    "user": "for my dad" if role == "group" else "for my mom", "api_call": "find",
                    "response": "Sorry." if wrong else "Found.", "jga_right": float(not wrong), "jga_turns": 1.0,
                })  # fmt: skip
    return pd.DataFrame(rows)


def test_each_dialogue_is_shown_once_and_each_pair_of_groups_twice(changed, turns):
    found = changed(turns, STAGES, ["bleu", "jga"], 3)
    assert [(one.dialogue, one.turn) for one in found] == [("d0", 2), ("d1", 2)]
    assert {(one.source, one.target, one.before, one.after) for one in found} == {("woman", "man", 1.0, 0.0)}
    assert list(found[0].texts) == ["user", "response"]
    assert ("dad", True) in found[0].texts["user"][1]


def test_the_placebo_and_turns_without_a_score_are_left_out(changed, turns):
    assert changed(turns[turns["role"] != "group"], STAGES, ["jga"], 3) == []
    silent = turns.assign(jga_turns=(turns["turn"] == 0).astype(float))
    assert changed(silent, STAGES, ["jga"], 3) == []
    assert changed(turns, STAGES, ["my_metrics:Polite"], 3) == []
