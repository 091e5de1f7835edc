"""Kinds of folders that commands write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tod_bias.io.folder import WITH_REPORT


@dataclass(frozen=True)
class Kind:
    """A kind of folder that a command writes."""

    file: str
    """The file that identifies it."""
    command: str
    """The command that writes it."""
    otherwise: str = "repeat the command to write its page again"
    """File to look at if there is no page."""


_REPORTED = {file: Kind(file, command) for file, command in WITH_REPORT.items()}
COMPARISON, AUDIT = _REPORTED["compare.json"], _REPORTED["audit.json"]
KINDS = (
    *_REPORTED.values(),
    Kind("comparison.json", "compare (of embeddings)", "its numbers are in comparison.json"),
    Kind("mitigation.json", "mitigate", "its trials are in mitigation.json"),
    Kind("evaluation.json", "evaluate", "its scores are in evaluation.json"),
    Kind("plan.json", "attribute --dry-run", "run attribute with the same options"),
    Kind("cases.jsonl", "cases", "check them with `tod-bias check --cases`"),
    Kind("quality.json", "recommend evaluate", "its scores are in quality.json"),
    Kind("bias.csv", "recommend mitigate", "look at bias.csv, quality.csv and mitigation.svg"),
    Kind("check.json", "check", "its results are in check.json"),
    Kind("counterfactuals.jsonl", "export", "the dialogues are in counterfactuals.jsonl"),
    Kind("config.json", "train or recommend train", "a model: audit it with attribute or recommend audit, --model"),
)
"""Kinds of folders; the first whose file is present counts, because an attribution may hold files of others."""


def kind_of(folder: Path) -> Kind | None:
    """Return the kind of a folder; None if no command wrote it."""
    return next((kind for kind in KINDS if (folder / kind.file).is_file()), None)
