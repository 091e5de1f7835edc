"""`tod-bias init`: the example of every kind runs as it stands, and its audit finds what was planted in it."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import refused, run_command

from tod_bias.results import AuditResult

PLANTED = {"assistant": "policy", "agent": "model", "stages": "understand", "responses": ""}


def answers(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def background():
    """Runs a script until the test ends."""
    processes = []

    def start(script):
        processes.append(subprocess.Popen([sys.executable, script]))
        while not answers(8765):
            assert processes[-1].poll() is None
            time.sleep(0.05)

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", PLANTED)
def test_an_example_runs_as_it_stands(kind, tmp_path, monkeypatch, background):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_command("init", kind)
    assert (code, err) == (0, "")
    _, folder, *commands = [line.strip() for line in out.splitlines()]
    assert folder == f"cd {kind}"
    monkeypatch.chdir(kind)
    for line in commands:
        program, *arguments = line.split()
        if arguments[-1] == "&":
            background(arguments[0])
        elif program == "python":
            subprocess.run([sys.executable, *arguments], check=True)
        else:
            assert run_command(*arguments)[0] == 0
    if kind != "responses":
        code, out, err = run_command("doctor", next(Path().glob("*.yaml")), "--corpus", "chats.jsonl")
        assert (code, err) == (0, "")
        assert f"  ok {PLANTED[kind]}: calls: " in out
        assert "recorded responses: 1" in out
    result = AuditResult.load(Path("run"))
    (finding,) = result.findings
    assert (finding.group, finding.stage) == ("woman", PLANTED[kind])
    assert finding.effect.is_shown
    assert finding.effect.excludes_zero
    assert finding.consequence is None or finding.consequence.stage
    woman = result.axes["gender"]["corpus_bleu"].groups["woman"]
    assert woman.gap.value > 0.4
    assert woman.gap.p < 0.001
    assert {name: share.value for name, share in woman.shares.items() if share.value} == (
        {PLANTED[kind]: pytest.approx(woman.gap.value)} if PLANTED[kind] else {}
    )
    assert "is there already" in refused("init", kind, "--out", ".")
