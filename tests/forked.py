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
    scripts = pkgutil.iter_modules(find_spec("parlai.scripts").submodule_search_locations)
    context.set_forkserver_preload(["parlai.core.script", "tod_bias.agents", *_named(scripts)])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "stdin").write_text(typed, encoding="utf-8")
        colours = os.environ.get("NO_COLOR")
        os.environ["NO_COLOR"] = "1"
        try:
            process = context.Process(target=_main, args=("parlai", tuple(arguments), folder))
            process.start()
        finally:
            os.environ.pop("NO_COLOR") if colours is None else os.environ.update(NO_COLOR=colours)
        process.join(seconds)
        if process.is_alive():
            process.kill()
            raise subprocess.TimeoutExpired(["parlai", *arguments], seconds)
        out, err = (Path(folder, name).read_text(encoding="utf-8") for name in _STREAMS[1:])
        return subprocess.CompletedProcess(["parlai", *arguments], process.exitcode, out, err)


def _named(scripts) -> list[str]:
    return [f"parlai.scripts.{script.name}" for script in scripts]


def _main(module: str, arguments: Sequence[str], folder: str) -> None:
    for number, name in enumerate(_STREAMS):
        file = os.open(Path(folder, name), os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # multiprocessing closes it
    sys.argv = [module, *arguments]
    warnings.simplefilter("ignore")
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Exception:  # noqa: BLE001  # as the interpreter does at its end, and multiprocessing does not
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
