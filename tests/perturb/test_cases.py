"""Hand-written cases: tables of inputs, groups and what a careful person makes of them (``=``: nothing changes)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb import Candidate, load_axis, perturb_text


def table(name: str) -> list[tuple[str, ...]]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines if not line.startswith("#")]


TERMS, NAMES = table("cases.tsv"), table("name_cases.tsv")


@pytest.mark.parametrize(("axis", "source", "target", "text", "accepted"), TERMS)
def test_rewrites_as_a_careful_person_would(axis, source, target, text, accepted) -> None:
    outputs = [text if output == "=" else output for output in accepted.split(" || ")]
    assert perturb_text(text, axis, source, target) in outputs


@pytest.mark.parametrize(("axis", "source", "target", "name", "slots", "text", "expected"), NAMES)
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


@pytest.mark.parametrize(("cases", "most", "unchanged"), [(TERMS, 200, 60), (NAMES, 200, 60)])
def test_the_tables_are_large_and_test_restraint(cases, most, unchanged) -> None:
    assert len(set(cases)) == len(cases) >= most
    assert sum(case[-1] == "=" for case in cases) >= unchanged
