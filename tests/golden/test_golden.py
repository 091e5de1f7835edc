"""Results, turns and calls are what they were, through whatever was restructured in between.

``cd tests/golden && python test_golden.py NAME`` records a configuration anew, if a change of results is meant. The
diff of ``data/NAME.json`` shows what changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from configurations import CONFIGURATIONS, prepared  # noqa: E402
from facts import differences, facts_of, read, written  # noqa: E402

from tod_bias.cli import main  # noqa: E402


def command(*arguments: object) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def ran(name: str, folder: Path) -> dict[str, object]:
    """The facts of one configuration, run in an empty folder."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    prepared()
    try:
        CONFIGURATIONS[name](command)
    finally:
        sys.path.remove(str(folder))
        for module in ("golden_stages", "golden_tools"):
            sys.modules.pop(module, None)
    return facts_of(folder)


def golden(name: str) -> Path:
    return HERE / "data" / f"{name}.json"


GAP = {"run/results.json": {"findings": [{"effect": [0.1234567891, 0.2]}], "verdict": "disparity"}}


@pytest.mark.parametrize(
    ("today", "line"),
    [
        ({"effect": [0.1234567891001, 0.2]}, None),  # rounding
        ({"effect": [0.123456788, 0.2]}, "/findings/0/effect/0: 0.123456788, was 0.1234567891"),  # the ninth digit
        ({"effect": [0.1234567891, None]}, "/findings/0/effect/1: None, was 0.2"),
        ({"effect": [0.1234567891, 0.2], "p": 1}, "/findings/0/p: 1, was 'nothing'"),
        ({}, "/findings/0/effect: 'nothing', was [0.1234567891, 0.2]"),
    ],
)
def test_a_difference_is_one_line(today, line):
    found = differences(GAP, {"run/results.json": {"findings": [today], "verdict": "disparity"}})
    assert found == ([f"/run/results.json{line}"] if line else [])


def test_a_finding_more_is_a_difference():
    (one,) = GAP["run/results.json"]["findings"]
    assert differences(GAP, {"run/results.json": {"findings": [one, one], "verdict": "disparity"}})


def test_golden_files_are_read_as_they_were_written():
    again = GAP | {"again/results.json": GAP["run/results.json"], "empty.json": {}}
    text = written(again)
    assert text.count("0.1234567891") == 1
    assert read(text) == again


def test_golden_files_are_short_enough_for_a_diff():
    assert {name for name in CONFIGURATIONS if golden(name).stat().st_size > 75_000} == set()
    assert {path.stem for path in (HERE / "data").iterdir()} == set(CONFIGURATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_results_turns_and_calls_are_what_they_were(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = differences(read(golden(name).read_text(encoding="utf-8")), ran(name, tmp_path))
    assert not found, "\n".join([f"{len(found)} differences", *found[:20]])


if __name__ == "__main__":
    (HERE / "data").mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or CONFIGURATIONS:
        with tempfile.TemporaryDirectory() as made:
            facts = ran(chosen, Path(made))
            os.chdir(HERE)
        golden(chosen).write_text(written(facts), encoding="utf-8")
        print(chosen, len(facts), golden(chosen).stat().st_size)
