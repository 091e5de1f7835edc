"""The numbers of a first screen, counted again from the table of turns by a script without tod_bias."""

import hashlib
import sys
from pathlib import Path

import pytest

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.report.page import write_report

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from recount import main, printed

PEOPLE = ("wife", "husband", "mother", "father", "sister", "brother", "daughter", "son", "aunt", "uncle")
WOMEN = {"wife", "mother", "sister", "daughter", "aunt", "niece", "grandmother", "girlfriend"}


def share(text):
    return hashlib.md5(text.encode()).digest()[0] / 256


def garage(inputs):
    late = [bool(WOMEN & set(item.user.split())) and share(item.user) < 0.8 for item in inputs]
    return [{"urgency": "low" if some else "high", "bays": ["North", "South"]} for some in late]


def desk(inputs):
    return [f"We have {len(item.outputs['garage']['bays'])} bays." for item in inputs]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "garage"
    texts = [f"My {person} is looking for {n + 2} new tyres." for n in range(4) for person in PEOPLE]
    dialogues = [Dialogue(f"d{number}", "", (Turn(text),)) for number, text in enumerate(texts)]
    system = Pipeline({"garage": garage, "desk": desk})
    attribute(system, dialogues, axes=("gender", "placebo"), permutations=400, bootstrap=0, out=folder)
    write_report([folder])
    (folder / "screen.txt").write_text(printed(folder), encoding="utf-8")
    return folder


def test_every_number_of_a_screen_is_what_the_turns_give(run, capsys):
    assert main([str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ", 0 wrong, 0 not counted" in lines[-2]
    for what in ("dialogues of gender", "turns as woman", "turns as others", "placebo: turns of 100", ": n", ": terms"):
        assert any(what in line for line in lines), what


@pytest.mark.parametrize(
    ("shown", "instead"),
    [
        (" of 40 as woman", " of 41 as woman"),
        ("0 of 80 as others", "1 of 80 as others"),
        ("40 mention gender", "39 mention gender"),
        ("\nman         40 ", "\nman         39 "),
        ("✗ gender", "✓ gender"),
        ("  0.0", "  0.1"),
    ],
)
def test_a_wrong_number_is_found(run, tmp_path, capsys, shown, instead):
    for file in run.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    screen = tmp_path / "screen.txt"
    text = screen.read_text(encoding="utf-8")
    assert shown in text
    screen.write_text(text.replace(shown, instead), encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    assert "WRONG" in capsys.readouterr().out
