"""Files of regression cases and their cases, as pytest collects and runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tod_bias.errors import TodBiasError
from tod_bias.pipelines import load_pipeline
from tod_bias.report.cases import FIXED, text
from tod_bias.report.console import shown
from tod_bias.testing.case_check import check_cases, user_axes
from tod_bias.testing.cases import read_cases

_SYSTEM = pytest.StashKey[dict[str, Any]]()
"""Arguments of ``check_cases`` besides the cases, loaded once per process."""


class NotFixedError(Exception):
    """A case that is not fixed; its text is the failure's."""


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test per case."""
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
        stash = self.session.stash
        if _SYSTEM not in stash:
            stash[_SYSTEM] = self._system()
        (checked,) = check_cases([self.case], **stash[_SYSTEM]).checked
        if checked.state != FIXED:
            raise NotFixedError(text(checked.record))

    def _system(self) -> dict[str, Any]:
        names = str(self.config.getoption("tod_bias_axes")).split(",")
        axes = user_axes([name.strip() for name in names if name.strip()])
        return {"pipeline": load_pipeline(self.config.getoption("tod_bias_pipeline")), "axes": axes}

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the case as text, or one line about what is wrong with the system or the file."""
        if isinstance(excinfo.value, NotFixedError | TodBiasError):
            return _shown(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file and the name of the case."""
        return self.path, None, self.name


def _shown(error: BaseException) -> str:
    return shown(str(error))
