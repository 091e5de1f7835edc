"""Hand-written rewrites: ``cases.tsv`` holds inputs, attributes and every output that a careful person accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tod_bias.perturb import perturb_text

LINES = (Path(__file__).parent / "cases.tsv").read_text(encoding="utf-8").splitlines()
CASES = [tuple(line.split("\t")) for line in LINES if not line.startswith("#")]


@pytest.mark.parametrize(("axis", "source", "target", "text", "accepted"), CASES)
def test_rewrites_as_a_careful_person_would(axis: str, source: str, target: str, text: str, accepted: str) -> None:
    outputs = [text if output == "=" else output for output in accepted.split(" || ")]
    assert perturb_text(text, axis, source, target) in outputs


def test_the_table_is_large_and_tests_restraint() -> None:
    assert len(CASES) >= 200
    assert sum(case[4] == "=" for case in CASES) >= 60
    assert len(set(CASES)) == len(CASES)
