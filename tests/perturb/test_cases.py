"""Hand-written cases: tables of inputs, groups and what a careful person makes of them (``=``: nothing changes)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb import Candidate, load_axis, perturb_text
from tod_bias.perturb.dialect.rules import load_dialect
from tod_bias.perturb.dialect.speaker import speak


def table(name: str) -> list[tuple[str, ...]]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines if not line.startswith("#")]


TERMS, NAMES, DIALECTS = table("cases.tsv"), table("name_cases.tsv"), table("dialect_cases.tsv")


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


@pytest.mark.parametrize(("dialect", "text", "expected"), DIALECTS)
def test_speaks_as_the_dialect_does(dialect, text, expected) -> None:
    said, counts = speak(load_dialect(f"dialect:{dialect}"), text)
    assert said == (text if expected == "=" else expected)
    assert bool(counts) == (said != text)


@pytest.mark.parametrize(("cases", "most", "unchanged"), [(TERMS, 200, 60), (NAMES, 200, 60), (DIALECTS, 60, 20)])
def test_the_tables_are_large_and_test_restraint(cases, most, unchanged) -> None:
    assert len(set(cases)) == len(cases) >= most
    assert sum(case[-1] == "=" for case in cases) >= unchanged


@pytest.mark.parametrize("axis", ["dialect:aae", "dialect:nonnative"])
def test_every_rule_of_a_dialect_has_a_case(axis: str) -> None:
    dialect = load_dialect(axis)
    applied = {rule for case in DIALECTS if axis.endswith(case[0]) for rule in speak(dialect, case[1])[1]}
    rare = {"wasnt", "indirect_has", "negative_none", "article_for", "agreement_there", "article_more", "prep_look",
            "prep_discuss", "prep_arrive", "infinitive_gerund", "no_do_yes", "there_aint", "person_that"}  # fmt: skip
    assert {rule.id for rule in dialect.rules} - applied <= rare
