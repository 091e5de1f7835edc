"""Regression cases as tests: ``pytest --tod-bias cases.jsonl --pipeline demo``.

Every case of the file is a test, ``cases.jsonl::gender/d17/man>woman/3``, which fails as long as its counterfactual is
served worse. Files, folders and ``-k`` choose as ever; with the option alone only the cases run. pytest finds this
module by its entry point, so it imports nothing of weight before cases are run.
"""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_PIPELINE = pytest.StashKey[Any]()
"""The system, loaded once a process."""

_USER_OBJECTS = pytest.StashKey[tuple[dict[str, Any], dict[str, Any]]]()
"""Axes and metrics of one's own, likewise."""


class NotFixedError(Exception):
    """A case that is not fixed; its text is what people read."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--tod-bias`` and what belongs to it."""
    group = parser.getgroup("tod-bias", "regression cases of tod-bias")
    group.addoption(
        "--tod-bias",
        action="append",
        default=[],
        metavar="CASES",
        dest="tod_bias",
        help="A file that tod-bias cases wrote; each case is a test. May be repeated.",
    )
    group.addoption(
        "--tod-bias-pipeline",
        default=None,
        metavar="PIPELINE",
        dest="tod_bias_pipeline",
        help="The system that the cases are run on: 'demo' or a YAML file; with --tod-bias --pipeline means the same.",
    )
    for what, form in (("axes", "module:name"), ("metrics", "module:Class")):
        group.addoption(
            f"--tod-bias-{what}",
            default="",
            metavar=what.upper(),
            dest=f"tod_bias_{what}",
            help=f"Own {what} that the cases name, as {form}, joined by commas; else none is imported.",
        )
    group.addoption(
        "--tod-bias-tolerance",
        type=float,
        default=0.01,
        metavar="HARM",
        dest="tod_bias_tolerance",
        help="Harm of a turn up to it is none, in the metric's own units.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """``--pipeline``, ``--axes``, ``--metrics``, where cases are asked for: a project may have its own."""
    if any(name == "--tod-bias" or name.startswith("--tod-bias=") for name in args):
        group = parser.getgroup("tod-bias")
        group.addoption("--pipeline", default=None, metavar="PIPELINE", dest="tod_bias_pipeline", help=SUPPRESS)
        for what in ("axes", "metrics"):
            group.addoption(f"--{what}", default="", dest=f"tod_bias_{what}", help=SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """Files of cases are collected too, and nothing else where no file or folder is named."""
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
    """A file of cases."""
    if file_path in _files(parent.config):
        return CaseFile.from_parent(parent, path=file_path)
    return None


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test a case."""
        from tod_bias.errors import TodBiasError
        from tod_bias.report.console import shown
        from tod_bias.testing.cases import read_cases

        try:
            cases = read_cases(self.path)
        except TodBiasError as error:
            raise self.CollectError(shown(str(error))) from None
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
            NotFixedError: somebody is still served worse, or all are served as badly.
        """
        from tod_bias.report.cases import FIXED, text
        from tod_bias.testing.case_check import check_cases

        tolerance = self.config.getoption("tod_bias_tolerance")
        axes, metrics = self._user_objects()
        (checked,) = check_cases([self.case], self._pipeline(), tolerance=tolerance, axes=axes, metrics=metrics).checked
        if checked.state != FIXED:
            raise NotFixedError(text(checked.record))

    def _pipeline(self) -> Any:
        from tod_bias.pipelines import load_pipeline

        stash = self.session.stash
        if _PIPELINE not in stash:
            stash[_PIPELINE] = load_pipeline(self.config.getoption("tod_bias_pipeline"))
        return stash[_PIPELINE]

    def _user_objects(self) -> tuple[dict[str, Any], dict[str, Any]]:
        from tod_bias.testing.case_check import user_objects

        stash = self.session.stash
        if _USER_OBJECTS not in stash:
            given = (str(self.config.getoption(f"tod_bias_{what}")).split(",") for what in ("axes", "metrics"))
            stash[_USER_OBJECTS] = user_objects(*([name.strip() for name in names if name.strip()] for names in given))
        return stash[_USER_OBJECTS]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What people read: the case, or one line of what is wrong with the system or the file."""
        from tod_bias.errors import TodBiasError
        from tod_bias.report.console import shown

        if isinstance(excinfo.value, NotFixedError | TodBiasError):
            return shown(str(excinfo.value))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands, and what it is called."""
        return self.path, None, self.name
