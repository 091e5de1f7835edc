"""A pipeline's file with fixes: what ``tod-bias mitigate`` leaves to be run from then on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tod_bias.dialogues.corpora import DEMO
from tod_bias.documents import read_yaml
from tod_bias.errors import StageError
from tod_bias.files import check_plain_file, write_text
from tod_bias.mitigation.fixes import ROWS, Fix
from tod_bias.perturb.guards.guard import Guard, guarded_axis
from tod_bias.pipelines import resolved
from tod_bias.report.sections import slug, unique
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import innermost
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.twin import untwinned

FILE = "mitigated.yaml"
TABLE = "mitigated_{}.jsonl"
"""A lookup table with the rows that it lacked."""
_SHIPPED = "tod_bias.stages:"


def write_pipeline(
    folder: Path, system: Pipeline, fixes: Sequence[Fix], spec: str | None, standard: Mapping[str, Any]
) -> tuple[Path, list[str]]:
    """Write the fixed pipeline's file into a folder, with the tables that changed.

    Args:
        folder: that holds the mitigation.
        system: with the fixes.
        fixes: what was changed.
        spec: ``demo`` or the path of the pipeline's file; None for the standard one of trained models.
        standard: of the latter: stage to the entry of a pipeline's file, without the database.

    Returns:
        The file, and modules beside the old file that it needs too.

    Raises:
        StageError: a stage has a guard of another kind already, or one whose terms a file cannot name.
    """
    path = DEMO / "pipeline.yaml" if spec == "demo" else Path(spec) if spec is not None else None
    content = {"stages": dict(standard)} if path is None else dict(read_yaml(path))
    beside = folder if path is None else path.parent
    stages = {name: _entry(entry, beside) for name, entry in content["stages"].items()}
    if path is None:
        stages = {name: stages.get(name, {"stage": f"{_SHIPPED}LookupDb"}) for name in system.names}
    changed = system.names if path is None else {fix.stage for fix in fixes if fix.kind == ROWS}
    for name, file in _saved_tables(folder, system, changed).items():
        stages[name]["table"] = file
    for fix in fixes:
        if fix.kind != ROWS:
            _check_axes(system.stages[fix.stage], fix)
            _add_guard(stages[fix.stage], fix)
    write_text(folder / FILE, yaml.safe_dump({**content, "stages": stages}, sort_keys=False, allow_unicode=True))
    modules = {str(entry["stage"]).partition(":")[0].partition(".")[0] for entry in stages.values()}
    return folder / FILE, sorted(f"{name}.py" for name in modules if (beside / f"{name}.py").is_file())


def _saved_tables(folder: Path, system: Pipeline, names: Collection[str]) -> dict[str, str]:
    """Save the lookup tables of some stages; returns the names of their files."""
    files: dict[str, str] = {}
    taken: set[str] = set()
    for name, stage in system.stages.items():
        table = _table(stage)
        if name in names and table is not None:
            files[name] = TABLE.format(unique(slug(name), taken))
            check_plain_file(folder / files[name])
            table.save(folder / files[name])
    return files


def _entry(entry: Any, folder: Path) -> dict[str, Any]:
    if isinstance(entry, str):
        return {"stage": entry}
    if "stage" not in entry:
        raise StageError("the system is an agent, whose file has no place for a guard; put it into the agent's code")
    return {name: value if name == "stage" else resolved(value, folder) for name, value in entry.items()}


def _table(stage: Any) -> LookupDb | None:
    """The lookup table behind guards and twins."""
    inner = innermost(stage)
    return inner if isinstance(inner, LookupDb) else None


def _add_guard(entry: dict[str, Any], fix: Fix) -> None:
    present = entry.get("guard")
    if present is not None and present != fix.kind:
        raise StageError(
            f"{fix.stage} has a guard {present!r} already, and the fix is {fix.kind!r}; write the file by hand"
        )
    old = entry.get("axes", [])
    known = [axis.strip() for axis in old.split(",")] if isinstance(old, str) else list(old)
    entry["guard"] = fix.kind
    entry["axes"] = ", ".join(dict.fromkeys([*fix.axes, *known]))  # the new guard is the outer one, as measured


def _check_axes(stage: Any, fix: Fix) -> None:
    """See to it that the axes that a file names have the terms that were measured."""
    guard = untwinned(stage)
    while isinstance(guard, Guard):
        axis = guard.axis
        if axis.name in fix.axes and axis.signature != guarded_axis(axis.name).signature:
            raise StageError(
                f"{fix.stage} is fixed by a guard on {axis.name} with terms of your own (--lexicon, --protect, "
                "--name-slots), which a pipeline's file cannot name; write it in Python: tod_bias.stages.Canonical"
            )
        guard = guard.inner
