"""The options of every command and the lines that mistakes end in, as recorded: ``options.txt`` and ``errors.txt``.

``python tests/cli/test_commands.py`` records both anew; what changed is read in the diff.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tod_bias.cli.application import app
from tod_bias.config import _GROUPS, Options
from tod_bias.models.settings import GenerationSettings

RECORDED, ERRORS = Path(__file__).with_name("options.txt"), Path(__file__).with_name("errors.txt")
FLAGS = {80: "--help", 100: "--help-all"}
"""Width of the terminal to the flag that is recorded at this width."""
PRINTS = """
import json, sys
from tod_bias.cli.application import main
for words in json.load(sys.stdin):
    try:
        main([*words, FLAG])
    except SystemExit:
        print(end="\\0")
"""
"""Prints a help per command, each with a NUL after it."""
OPTION = re.compile(r"^│ (?:\* {2}| {3})?--([\w-]+)", re.MULTILINE)
HEAVY = ("accelerate", "matplotlib", "pandas", "parlai", "pyarrow", "scipy", "sklearn", "torch", "transformers")
"""Libraries that take longer to load than anybody waits for the word that an option is wrong."""
FORKS = r"""
import json, os, sys

import tod_bias.cli.application
import tod_bias.dialogues.corpora
import tod_bias.perturb.axis  # what all commands need, once
from tod_bias.cli.application import app
from tod_bias.cli.process import run

for name in app:
    app[name]

heavy, commands, ends = json.loads(sys.stdin.read())
for arguments in commands:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(ends + ".said", os.O_CREAT | os.O_TRUNC | os.O_RDWR), 2)
        try:
            run(arguments)
        except SystemExit as end:
            loaded = [name for name in heavy if name in sys.modules]
            with open(ends + ".said") as said, open(ends, "a") as ended:
                ended.write(json.dumps([end.code, said.read(), loaded]) + "\n")
        os._exit(0)
    os.waitpid(child, 0)
"""
FILES = {
    "broken.yaml": "stages: [",
    "keyless.yaml": 'stages: {answer: {stage: "tod_bias.stages:Answer", model: m, base_url: "http://127.0.0.1:9/v1", '
    "api_key_env: NO_SUCH_KEY}}",
    "misspelt.yaml": 'stages: {call: {stage: "tod_bias.stages:ApiCall", model: m, max_new_token: 7}}',
    "numbered.yaml": 'stages: {call: {stage: "tod_bias.stages:ApiCall", model: 7}}',
    "wrong.json": '{"design": {"drawz": 3}}',
    "flat.yaml": "corpus: chats.jsonl",
    "ungrouped.yaml": "metrics: jga",
    "workers.yaml": "run: {workers: 2}",
    "named.yaml": "{axis: names_gender, name_slots: missing.tsv}",
    "slots.yaml": "{axis: gender, name_slots: missing.tsv}",
    "sizes.yaml": "{layers: 9, width: 64}",
    "many.yaml": "held_out: 9999",
    "typo.yaml": "layer: 9",
    "head.yaml": "{head_layers: 1, hidden: 9}",
    "typed.yaml": "system: {dtype: bfloat16}",
    "broken.jsonl": '{"id": \n',
    "empty.jsonl": "",
}


def every_command(group=app, before=()):
    for name in group:
        if not name.startswith("-"):
            yield (*before, name), group[name]
            yield from every_command(group[name], (*before, name))


@cache
def helps_of(width):
    """What every command prints as its help, in a process of their own: a help keeps the lines of its first width."""
    commands = [(), *(words for words, _ in every_command())]
    environment = {**os.environ, "COLUMNS": str(width)}
    done = subprocess.run(
        [sys.executable, "-c", PRINTS.replace("FLAG", repr(FLAGS[width]))],
        env=environment,
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(commands, done.stdout.split("\0")[:-1], strict=True))


def options():
    """A line per command with its options; those that only --help-all shows stand in brackets."""
    shown, every = ({words: OPTION.findall(printed) for words, printed in helps_of(width).items()} for width in FLAGS)
    lines = {
        " ".join(words): [name if name in shown[words] else f"({name})" for name in sorted(every[words])]
        for words, command in every_command()
        if command.default_command is not None
    }
    return "".join(f"{command}: {' '.join(names)}\n" for command, names in sorted(lines.items()))


def recorded_errors():
    """Command to the line that it ends in."""
    lines = ERRORS.read_text(encoding="utf-8").splitlines()
    return dict(zip((line.removeprefix("$ tod-bias ") for line in lines[::2]), lines[1::2], strict=True))


def ended(commands, folder):
    """How each command ends in a folder, all of them children of one process: code, stderr, heavy libraries."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place) / "ends"
        given = json.dumps([HEAVY, [command.split() for command in commands], str(kept)])
        subprocess.run(
            [sys.executable, "-c", FORKS], cwd=folder, input=given, capture_output=True, text=True, check=True
        )
        found = kept.read_text().replace(str(folder), "FOLDER")
        return dict(zip(commands, map(json.loads, found.splitlines()), strict=True))


def test_options_are_as_recorded():
    assert options() == RECORDED.read_text(encoding="utf-8")


def test_every_help_has_an_example_and_fits():
    for words in [words for words, command in every_command() if command.default_command is not None]:
        printed = helps_of(80)[words]
        assert f"Example: tod-bias {' '.join(words)}" in " ".join(printed.split()), words
        assert "--quiet" in printed
        assert max(map(len, printed.splitlines())) <= 80


def test_help_shows_what_most_users_need_and_help_all_the_rest():
    shown, every = ({words: OPTION.findall(printed) for words, printed in helps_of(width).items()} for width in FLAGS)
    assert all(set(options) <= set(every[words]) for words, options in shown.items())
    assert len(shown["attribute",]) <= 25 < len(every["attribute",])
    assert sum(len(options) for words, options in shown.items() if words) <= 200
    hidden = {words: len(every[words]) - len(options) for words, options in shown.items()}
    for words, printed in helps_of(80).items():
        assert (f"{hidden[words]} more options" in " ".join(printed.split())) == (hidden[words] > 0), words


def test_help_all_lists_the_options_of_files():
    for words, printed in helps_of(100).items():
        assert ("In a file for --config:" in printed) == ("in a file for --config: see" in helps_of(80)[words]), words
    assert "layers: Number of layers" in helps_of(100)["train",]
    assert "dtype: Number format" in helps_of(100)["attribute",]
    assert "layers" not in helps_of(100)["check",]


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    return ended(list(recorded_errors()), folder), sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("command", recorded_errors())
def test_a_mistake_ends_in_one_line_before_heavy_libraries_are_loaded(ends, command):
    code, said, loaded = ends[0][command]
    assert (code, said) == (2, recorded_errors()[command] + "\n")
    assert loaded == []


def test_nothing_is_left_behind(ends):
    assert ends[1] == sorted(FILES)


def declared(kind=Options):
    """Every group of options with the options that it adds to its bases'."""
    for group in kind.__subclasses__():
        if group is GenerationSettings:  # what a stage makes of its options
            continue
        yield group, set(group.__annotations__) - {name for base in group.__bases__ for name in fields_of(base)}
        yield from declared(group)


def is_group(kind, name):
    annotation = kind.model_fields[name].annotation
    return isinstance(annotation, type) and issubclass(annotation, Options)


def fields_of(base):
    return base.model_fields if issubclass(base, Options) else ()


def test_an_option_of_audits_is_declared_once():
    assert list(every_command())  # loads all of them
    added = {(group, name) for group, names in declared() for name in names if name in fields_of(group)}
    homes = {
        name: {group.__name__ for group, other in added if other == name and not is_group(group, name)}
        for _, name in added
    }
    options = {name for group in _GROUPS.values() for name in group.model_fields}
    assert {name for name in options if len(homes[name]) > 1} <= OTHERWISE


OTHERWISE = {"corpus", "pipeline", "config", "model", "device", "bootstrap", "permutations"}
"""Options of audits that are something else for recommenders, or that later commands take as well."""


if __name__ == "__main__":
    RECORDED.write_text(options(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        found = ended(list(recorded_errors()), Path(made))
    ERRORS.write_text(
        "".join(f"$ tod-bias {command}\n{said}" for command, (_, said, _) in found.items()), encoding="utf-8"
    )
