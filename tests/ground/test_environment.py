import json
import threading
import tomllib
import urllib.request
from importlib import metadata
from pathlib import Path

import pytest
from commands import run_command

from tod_bias.cli.work import doctor_machine


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def without(monkeypatch):
    """Makes packages look as if they were not installed."""

    def hide(*names):
        found = metadata.distribution

        def distribution(name):
            if name.lower() in names:
                raise metadata.PackageNotFoundError(name)
            return found(name)

        monkeypatch.setattr(metadata, "distribution", distribution)

    return hide


def by_name(found):
    return {check.name: check for check in found.checks}


def test_what_is_installed_is_said_with_its_version():
    found = doctor_machine.examined()
    assert found.ready
    needed = by_name(found)["needed"]
    assert (needed.state, needed.command) == ("ok", "")
    assert f"numpy {metadata.version('numpy')}" in needed.said


def test_the_command_installs_what_an_extra_lacks_and_no_more(without):
    without("torch", "accelerate")
    models = by_name(doctor_machine.examined())["models"]
    assert models.state == "missing"
    command = models.command.split()
    assert command[-2:] == ["'accelerate>=1.15'", "'torch>=2.11'"]
    assert "install" in command


def test_parlai_is_installed_last_and_without_its_pins(without):
    without("parlai")
    parlai = by_name(doctor_machine.examined())["parlai"]
    assert parlai.state == "missing"
    assert parlai.command.endswith("install --no-deps parlai==1.7.2")


def test_audits_do_not_run_without_what_is_needed(without):
    without("scipy")
    found = doctor_machine.examined()
    assert not found.ready
    assert by_name(found)["needed"].said.startswith("lacking scipy")


def test_offline_means_no_request(monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: pytest.fail("asked"))
    assert by_name(doctor_machine.examined())["hub"].said == "not asked: HF_HUB_OFFLINE is set"


def test_a_hub_that_does_not_answer_is_not_waited_for(monkeypatch):
    at_last = threading.Event()

    def wait(*_, **__):
        assert at_last.wait(60), "somebody waits for the hub"
        raise TimeoutError

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(urllib.request, "urlopen", wait)
    hub = by_name(doctor_machine.examined(seconds=0.2))["hub"]
    at_last.set()
    assert hub.state == "note"
    assert "no answer" in hub.said


def test_every_extra_says_what_it_is_for():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(doctor_machine.GIVES) == set(project["optional-dependencies"])


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_doctor_prints_and_ends_with_0(options):
    code, out, err = run_command("doctor", *options)
    assert (code, err) == (0, "")
    if options:
        assert json.loads(out)["ready"]
        assert set(json.loads(out)["checks"][0]) == {"area", "name", "state", "said", "command"}
    else:
        assert "Audits run here" in out
