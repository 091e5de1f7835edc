"""Commands in processes forked from one that has loaded its libraries: loading them takes seconds each time."""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

from tod_bias.errors import TodBiasError

_STREAMS = ("stdin", "stdout", "stderr")


def parlai(arguments: Sequence[str], typed: str = "", seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """What ``python -W ignore -m parlai ARGUMENTS`` does, without colours.

    Args:
        arguments: of the command.
        typed: on its standard input.
        seconds: after which it is killed.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    context = multiprocessing.get_context("forkserver")
    scripts = pkgutil.iter_modules(find_spec("parlai.scripts").submodule_search_locations, "parlai.scripts.")
    context.set_forkserver_preload(["parlai.core.script", "tod_bias.agents", *(script.name for script in scripts)])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "stdin").write_text(typed, encoding="utf-8")
        process = context.Process(target=_main, args=(tuple(arguments), folder))
        with patch.dict(os.environ, NO_COLOR="1"):  # for the process that all are forked from
            process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(["parlai", *arguments], seconds)
        out, err = (Path(folder, name).read_text(encoding="utf-8") for name in _STREAMS[1:])
        return subprocess.CompletedProcess(["parlai", *arguments], process.exitcode, out, err)


def _main(arguments: Sequence[str], folder: str) -> None:
    for number, name in enumerate(_STREAMS):
        file = os.open(Path(folder, name), os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # multiprocessing closes it
    sys.argv = ["parlai", *arguments]
    warnings.simplefilter("ignore")
    try:
        runpy.run_module("parlai", run_name="__main__", alter_sys=True)
    except TodBiasError:  # its line is the hook's, which the interpreter asks at its end and multiprocessing does not
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
