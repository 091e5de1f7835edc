"""Hand-written renamings: ``name_cases.tsv`` says who is told as whom, and what a careful person makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb import Candidate, load_axis

LINES = (Path(__file__).parent / "name_cases.tsv").read_text(encoding="utf-8").splitlines()
CASES = [tuple(line.split("\t")) for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize(("axis", "source", "target", "name", "slots", "text", "expected"), CASES)
def test_renames_as_a_careful_person_would(axis, source, target, name, slots, text, expected) -> None:
    result = dict(pair.split("=", 1) for pair in slots.split("; ") if pair)
    dialogue = Dialogue("d", "", (Turn.with_call(text, {"api_name": "find"} if result else {}, result),))
    perturber = load_axis(axis)
    words = {one.term: None for one in perturber.candidates(dialogue) if (one.source, one.target) == (source, target)}
    assert words or not slots
    made = text
    for word in list(words)[:1]:
        change = perturber.rewrite(dialogue, Candidate(word, source, target, name))
        made = str(change(text))
        assert change.inverse(change(dialogue)) == dialogue
    assert made == (text if expected == "=" else expected)


def test_the_table_is_large_and_tests_restraint() -> None:
    assert len(CASES) >= 200
    assert sum(case[-1] == "=" for case in CASES) >= 60
    assert len(set(CASES)) == len(CASES)
