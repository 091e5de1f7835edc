"""Results, turns and calls are what they were, through whatever was restructured in between.

``python tests/golden/test_golden.py`` records them anew (only where a change of results is meant).
"""

from __future__ import annotations

import json
import lzma
import os
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from configurations import CONFIGURATIONS, prepared  # noqa: E402
from facts import differences, facts_of  # noqa: E402

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
    return HERE / "data" / f"{name}.json.xz"


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_results_turns_and_calls_are_what_they_were(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = differences(json.loads(lzma.decompress(golden(name).read_bytes())), ran(name, tmp_path))
    assert not found, "\n".join([f"{len(found)} differences", *found[:20]])


if __name__ == "__main__":
    (HERE / "data").mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or CONFIGURATIONS:
        with tempfile.TemporaryDirectory() as made:
            facts = ran(chosen, Path(made))
            os.chdir(HERE)
        golden(chosen).write_bytes(lzma.compress(json.dumps(facts, sort_keys=True).encode()))
        print(chosen, len(facts), golden(chosen).stat().st_size)
