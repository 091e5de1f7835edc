"""Regression cases as tests: ``pytest --tod-bias cases.jsonl --pipeline demo``.

Every case of the file is a test, ``cases.jsonl::gender/d17/man>woman/3``, which fails while the system shows its
event for one group alone. With the option alone only the cases run. pytest loads this module in every run, so it
imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_SYSTEM = pytest.StashKey[dict[str, Any]]()
"""Arguments of ``check_cases`` besides the cases, loaded once per process."""


class NotFixedError(Exception):
    """A case that is not fixed; its text is the failure's."""


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
    return CaseFile.from_parent(parent, path=file_path) if file_path in _files(parent.config) else None


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test per case."""
        from tod_bias.errors import TodBiasError
        from tod_bias.testing.cases import read_cases

        try:
            cases = read_cases(self.path)
        except TodBiasError as error:
            raise self.CollectError(_shown(error)) from None
        for case in cases:
            item = CaseItem.from_parent(self, name=case.id)
            item.case = case
            yield item


class CaseItem(pytest.Item):
    """One case."""

    case: Any

    def runtest(self) -> None:
        """Run the case again.

        Raises:
            NotFixedError: the event still depends on the group, or all groups are served as badly.
        """
        from tod_bias.report.cases import FIXED, text
        from tod_bias.testing.case_check import check_cases

        stash = self.session.stash
        if _SYSTEM not in stash:
            stash[_SYSTEM] = self._system()
        (checked,) = check_cases([self.case], **stash[_SYSTEM]).checked
        if checked.state != FIXED:
            raise NotFixedError(text(checked.record))

    def _system(self) -> dict[str, Any]:
        from tod_bias.pipelines import load_pipeline
        from tod_bias.testing.case_check import user_axes

        names = str(self.config.getoption("tod_bias_axes")).split(",")
        axes = user_axes([name.strip() for name in names if name.strip()])
        return {"pipeline": load_pipeline(self.config.getoption("tod_bias_pipeline")), "axes": axes}

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the case as text, or one line about what is wrong with the system or the file."""
        from tod_bias.errors import TodBiasError

        if isinstance(excinfo.value, NotFixedError | TodBiasError):
            return _shown(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file and the name of the case."""
        return self.path, None, self.name


def _shown(error: BaseException) -> str:
    from tod_bias.report.console import shown

    return shown(str(error))
