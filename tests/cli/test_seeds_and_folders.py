"""Every command takes ``--seed`` and ``--quiet``, and writes into ``--out``."""

import json

import pytest
import typer
from typer.testing import CliRunner

from tod_bias.cli.application import app, main


def commands(group, prefix=()):
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from commands(command, (*prefix, name))
        yield (*prefix, name), command


@pytest.mark.parametrize("names", [name for name, _ in commands(typer.main.get_command(app))], ids=" ".join)
def test_every_command_takes_seed_out_and_quiet(names):
    command = dict(commands(typer.main.get_command(app)))[names]
    options = {text for parameter in command.params for text in parameter.opts}
    if options - {"--help"}:  # a group of commands alone takes none
        assert {"--seed", "--out", "--quiet"} <= options


def test_doctor_and_pilot_write_into_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = CliRunner().invoke(app, ["doctor", "--out", "found", "--quiet"])
    assert (result.exit_code, result.output) == (0, "")
    assert json.loads((tmp_path / "found/doctor.json").read_text())["checks"]
    run = ("attribute", "--axes", "gender", "--max-dialogues", "12", "--corpus", "demo", "--bootstrap", "0", "--quiet")
    for command in ((*run, "--out", "run"), ("plan", "--pilot", "run", "--detect", "0.1", "--out", "told", "--quiet")):
        with pytest.raises(SystemExit) as end:
            main(list(command))
        assert not end.value.code
    told = json.loads((tmp_path / "told/power.json").read_text())
    assert (told["schema"], told["detect"], told["axes"][0]["axis"]) == (1, 0.1, "gender")
