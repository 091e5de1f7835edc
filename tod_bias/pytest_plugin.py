"""Regression cases as tests: ``pytest --tod-bias cases.jsonl --pipeline demo``.

Every case of the file is a test, ``cases.jsonl::gender/d17/man>woman/3``, which fails while the system shows its
event for one group alone. With the option alone only the cases run. pytest loads this module in every run, so it
imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--tod-bias``."""
    described = "A file that tod-bias cases wrote; each case is a test. May be repeated. Needs --pipeline."
    group = parser.getgroup("tod-bias", "regression cases of tod-bias")
    group.addoption("--tod-bias", action="append", default=[], metavar="CASES", dest="tod_bias", help=described)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Add the other options only if cases are given: a project may have options with these names."""
    if any(name == "--tod-bias" or name.startswith("--tod-bias=") for name in args):
        group = parser.getgroup("tod-bias")
        group.addoption("--pipeline", dest="tod_bias_pipeline", help="The system: 'demo' or a YAML file.")
        group.addoption("--axes", default="", dest="tod_bias_axes", help="Your own axes in the cases.")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the files of cases, and nothing else unless a file or folder is named."""
    files = _files(config)
    if not files:
        return
    if config.getoption("tod_bias_pipeline") is None:
        raise pytest.UsageError("--tod-bias: name the system with --pipeline ('demo' or a YAML file)")
    if missing := [path for path in files if not path.is_file()]:
        raise pytest.UsageError(f"--tod-bias: {missing[0]} is not there; write it with tod-bias cases RUN --out FILE")
    named = list(config.args) if config.args_source is pytest.Config.ArgsSource.ARGS else []
    inside = {Path(name.partition("::")[0]).resolve() for name in named}
    config.args = named + [str(path) for path in files if path not in inside]


def _files(config: pytest.Config) -> list[Path]:
    return [Path(name).resolve() for name in config.getoption("tod_bias")]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file of cases."""
    if file_path not in _files(parent.config):
        return None
    from tod_bias.pytest_cases import CaseFile

    return CaseFile.from_parent(parent, path=file_path)
