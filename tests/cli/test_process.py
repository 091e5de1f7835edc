"""The command as a process: stopped at any moment, its streams closed or of another encoding."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLOW = ["attribute", "--pipeline", "slow.yaml", "--max-dialogues", "4", "--axes", "gender", "--out", "out"]
STAGES = """import sys, threading, time

class Slow:
    def __call__(self, inputs):
        print("asked", file=sys.stderr, flush=True)
        time.sleep(60)
"""


def started(*arguments, **options):
    command = [sys.executable, "-m", "tod_bias", *arguments]
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in the background
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "its terminal is gone"),
    ],
)
def test_a_command_that_is_stopped_says_what_is_kept(tmp_path, number, code, word):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("ignored here, and so by what is started: nohup does that to SIGHUP")
    (tmp_path / "slow_stages.py").write_text(STAGES)
    (tmp_path / "slow.yaml").write_text('stages: {a: "slow_stages:Slow"}\n')
    with started(*SLOW, cwd=tmp_path) as process:
        while "asked" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        assert process.stderr.read().splitlines()[-1].startswith(f"tod-bias: {word}; what was finished is kept in out")
    assert process.returncode == code
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize(
    ("line", "said", "shows"), [("1 / 0", "ZeroDivisionError: ", False), ("sys.exit(3)", "SystemExit: 3 ", True)]
)
def test_what_a_component_raises_is_one_line_that_names_it(tmp_path, line, said, shows):
    (tmp_path / "own_stages.py").write_text(f"import sys\ndef stage(inputs):\n    print('asked')\n    {line}\n")
    (tmp_path / "stages.yaml").write_text('stages: {a: "own_stages:stage"}\n')
    environment = {**os.environ, **({"TOD_BIAS_TRACEBACK": "1"} if shows else {})}
    command = ["attribute", "--pipeline", "stages.yaml", "--max-dialogues", "9", "--axes", "gender", "--quiet"]
    with started(*command, cwd=tmp_path, env=environment) as process:
        printed, errors = process.communicate()
    lines = errors.splitlines()
    assert (process.returncode, printed, "Traceback (most recent call last):" in errors) == (2, "", shows)
    assert lines[-1].startswith(f"tod-bias: error: stage 'a' (own_stages:stage): {said}")
    assert f"at {tmp_path / 'own_stages.py'}:4" in lines[-1]
    assert shows or lines == ["asked", lines[-1]]


def handles(process: subprocess.Popen, number: int) -> bool:
    """Whether a process has a handler of its own for a signal, as the kernel tells."""
    caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> number - 1 & 1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize(
    ("number", "code", "seconds"), [(signal.SIGINT, 130, 0), (signal.SIGINT, 130, 0.2), (signal.SIGTERM, 143, 0.1)]
)
def test_so_does_one_that_has_hardly_begun(seconds, number, code):
    """Before its first line runs Python itself starts, which knows no more than to end with a traceback."""
    with started("export", "--out", os.devnull) as process:
        while not handles(process, signal.SIGTERM):
            assert process.poll() is None
        time.sleep(seconds)
        process.send_signal(number)
        said = process.stderr.read()
    assert (said, process.returncode) == (f"tod-bias: {said[10:]}", code)
    assert said.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_so_does_one_whose_command_has_not_begun_to_listen(number, code):
    """The signal comes when it is raised already and no command handles it yet."""
    program = (
        "import os, signal\nfrom tod_bias.cli import application, process\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"  # ignored where the tests run in the background
        f"application.main = lambda arguments: os.kill(os.getpid(), {int(number)})\nprocess.run([])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (code, 1)
    assert ended.stderr.startswith("tod-bias: ")


@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("{} --help | head -1", 0, ""),
        ("PYTHONIOENCODING=ascii {} --help", 0, ""),
        ("{} report nowhere 2>&- <&-", 2, ""),
    ],
)
def test_streams(shell, code, said):
    command = shell.format(f"{sys.executable} -m tod_bias")
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_windows_for_figures_are_not_looked_for(tmp_path):
    options = ["--axes", "gender", "--max-dialogues", "20", "--bootstrap", "0", "--permutations", "0", "--out", "out"]
    command = [sys.executable, "-m", "tod_bias", "attribute", *options]
    subprocess.run(
        command, env={**os.environ, "MPLBACKEND": "module://nowhere"}, cwd=tmp_path, check=True, capture_output=True
    )
    assert list((tmp_path / "out" / "figures").glob("*.svg"))
