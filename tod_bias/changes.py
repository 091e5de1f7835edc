"""Results of a comparison of two runs: the types of compare.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    Field,
    ValidationError,
)

from tod_bias.errors import invalid
from tod_bias.io.documents import read_json
from tod_bias.io.files import write_text
from tod_bias.io.folder import writable
from tod_bias.results import CorpusInfo, Estimate, Finding, MetricInfo, Record, RunError, Value, record_text

COMPARISON = "compare.json"
"""Name of the file of a comparison."""
ChangeVerdict = Literal["better", "worse", "changed", "equivalent", "inconclusive", ""]


class Change(Record):
    """Change of one value from one run to another, and its verdict."""

    before: Value = None
    after: Value = None
    change: Estimate = Estimate()
    equivalent_within: Value = None
    """Smallest margin within which the change is shown to be."""
    verdict: ChangeVerdict = ""


class GroupChange(Record):
    """Changes of one group."""

    dialogues: int
    score: Change
    gap: Change
    contributions: dict[str, Change] = {}


class AxisChange(Record):
    """Changes on one axis by one metric."""

    scale: str = "ratio"
    dialogues: int
    original: Change
    rewritten: Change
    disparity: Change
    contributions: dict[str, Change] = {}
    beyond_placebo: Change | None = None
    groups: dict[str, GroupChange] = {}


FindingState = Literal["gone", "smaller", "larger", "remains", "not shown any more", "new"]
"""Fate of a finding from one run to another."""


class FindingChange(Record):
    """A finding of either of two runs, before and after."""

    finding: Finding
    """Of the first run; of the second one if it is new."""
    state: FindingState
    score: Change = Change()
    """Change of the group's score by the finding's event."""
    others: Change = Change()
    """The same of the groups that it is compared with, without an interval."""
    gap: Change = Change()
    """Change of the group's gap by the finding's event."""


class OtherChange(Record):
    """A change that no finding is about."""

    axis: str = ""
    """Empty for the score of the originals."""
    metric: str
    group: str = ""
    """Group whose gap changed; empty for the score of the originals."""
    change: Change


class Systems(Record):
    """The stages of both systems, and those that both have."""

    before: list[str] = []
    after: list[str] = []
    common: list[str] = []


class Comparison(Record):
    """The content of ``compare.json``: how two runs on the same dialogues differ."""

    version: Literal[3] = Field(3, alias="schema")
    before: str
    """Folder of the first run."""
    after: str
    corpus: CorpusInfo = CorpusInfo()
    margin: Value = None
    """Changes of disparities, gaps and contributions up to it are equivalent."""
    quality_margin: Value = None
    """The same for scores."""
    stages: Systems = Systems()
    differences: dict[str, tuple[str | None, str | None]] = {}
    """Settings and versions that the runs do not share."""
    same: bool = False
    """True if every counterfactual of every arm is scored alike in both runs."""
    left_out: dict[str, int] = {}
    """Axis to dialogues that one of the runs lacks."""
    metrics: dict[str, MetricInfo] = {}
    findings: list[FindingChange] = []
    """Findings of the first run, then those that only the second run has."""
    others: list[OtherChange] = []
    """The clearest changes beside the findings, ten at the most."""
    quality: dict[str, Change] = {}
    """Metric to the change of the originals' score."""
    axes: dict[str, dict[str, AxisChange]] = {}
    signature: dict[str, str] = {}

    def model_post_init(self, context: Any) -> None:
        """Let every metric know its name."""
        for name, metric in self.metrics.items():
            metric._name = name

    def save(self, folder: str | Path) -> Path:
        """Write it; returns the path.

        Raises:
            TodBiasError: the folder cannot be written to.
        """
        path = writable(folder) / COMPARISON
        write_text(path, record_text(self))
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it.

        Raises:
            RunError: the file cannot be read as a comparison; names it and the place in it.
        """
        try:
            return cls.model_validate(read_json(path))
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error.strerror or error})") from error
        except ValidationError as error:
            raise RunError(f"{path}: not what compare writes ({invalid(error)}); repeat it") from None
        except ValueError as error:
            raise RunError(f"{path}: not what compare writes ({error}); repeat it") from error
