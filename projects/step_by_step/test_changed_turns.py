"""Which turns the study of Su's paper shows."""

import importlib
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

STAGES = ["api_call", "response"]


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent)
    changed = importlib.import_module("changed_turns").changed_turns

VARIANTS = {"original": "original", "gender:man": "group", "placebo:gender": "placebo"}


@pytest.fixture
def turns():
    """Eight dialogues of two turns, as man and as the placebo; odd turns of the counterfactual go wrong."""
    rows = pd.DataFrame(product(range(8), range(2), VARIANTS), columns=["dialogue", "turn", "variant"])
    role = rows["variant"].map(VARIANTS)
    wrong = (role != "original") & (rows["turn"] == 1)
    return rows.assign(
        dialogue="d" + rows["dialogue"].astype(str), axis="gender", role=role, sample=0, source="woman", jga_turns=1.0,
        arm=np.where(role == "original", "original", ""), group=np.where(role == "group", "man", None),
        user=np.where(role == "group", "for my dad", "for my mom"), api_call="find", jga_right=1.0 - wrong,
        response=np.where(wrong, "Sorry.", "Found."),
    )  # fmt: skip


def test_each_dialogue_is_shown_once_and_each_pair_of_groups_twice(turns):
    found = changed(turns, STAGES, ["bleu", "jga"], 3)
    assert [(one.dialogue, one.turn) for one in found] == [("d0", 2), ("d1", 2)]
    assert {(one.source, one.target, one.before, one.after) for one in found} == {("woman", "man", 1.0, 0.0)}
    assert list(found[0].texts) == ["user", "response"]
    assert ("dad", True) in found[0].texts["user"][1]


def test_the_placebo_and_turns_without_a_score_are_left_out(turns):
    assert changed(turns[turns["role"] != "group"], STAGES, ["jga"], 3) == []
    silent = turns.assign(jga_turns=(turns["turn"] == 0).astype(float))
    assert changed(silent, STAGES, ["jga"], 3) == []
    assert changed(turns, STAGES, ["my_metrics:Polite"], 3) == []
