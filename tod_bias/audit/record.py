"""Runs as a report takes them: read from their folders, under distinct names, with their turns and signatures.

A signature of stages, axes and versions determines a result.
"""

from __future__ import annotations

import logging
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tod_bias.audit.variants import read_variants, with_variants
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError, described
from tod_bias.models.cost import GenerationCost
from tod_bias.results import TURNS, VARIANTS, AuditResult, Cost, Precision, RunError
from tod_bias.stages import HOMES
from tod_bias.systems.caller import CallCost
from tod_bias.systems.stage import Stage
from tod_bias.systems.twin import untwinned

if TYPE_CHECKING:
    import pandas as pd

    from tod_bias.models.generator import Generator


_NUMBERS = ("turn", "sample")
"""Columns of a table of turns that hold whole numbers."""


@dataclass(frozen=True)
class ReportedRun:
    """A run as read from its folder, with the name that a report gives it."""

    folder: Path
    name: str
    """The name it goes by in a report; unique among the runs that are compared."""
    result: AuditResult


def read_runs(folders: Sequence[str | Path]) -> list[ReportedRun]:
    """Read run folders, each once, under distinct names (the last parts of their paths).

    Raises:
        RunError: no folder is given, or one of them cannot be read.
    """
    unique = list(dict.fromkeys(Path(folder).resolve() for folder in folders))
    if not unique:
        raise RunError("no run folder given; name at least one, for example runs/demo")
    results = [AuditResult.load(folder) for folder in unique]
    return [ReportedRun(*row) for row in zip(unique, _names(unique), results, strict=True)]


def _names(folders: Sequence[Path]) -> list[str]:
    depth = 1
    while True:
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
        depth += 1


def check_turns(path: Path) -> bool:
    """True if there is a table of turns.

    Raises:
        RunError: the path is not a regular file.
    """
    if os.path.lexists(path) and not path.is_file():
        raise RunError(f"{path}: is not a regular file; remove it, or repeat the run's command")
    if not path.is_file():
        return False

    try:
        fields = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return True  # said by what reads it
    for name in (name for name in _NUMBERS if name in fields.names):
        if not (pa.types.is_integer(kind := fields.field(name).type) or pa.types.is_null(kind)):
            raise RunError(f"{path}: column {name!r} holds no whole numbers; repeat the run's command")
    return True


def read_turns(folder: str | Path, arms: Sequence[str], about: Sequence[str] = ()) -> pd.DataFrame | None:
    """Read the turns of some arms of a run; ``None`` where the run saved no ``turns.parquet``.

    Args:
        folder: the run folder.
        arms: arm keys as in ``results.json``; :data:`~tod_bias.statistics.arms.ORIGINAL_ARM` for the run on the
            original dialogues.
        about: columns of ``variants.parquet`` that are wanted beside each turn.

    Raises:
        RunError: a file is not a regular file, no Parquet file, or lacks a column.
    """
    path = Path(folder) / TURNS
    if not check_turns(path):
        return None
    try:
        frame = pq.read_table(path, filters=[("arm", "in", list(arms))]).to_pandas()
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{path}: cannot be read as a run's turns ({reason}); delete it or repeat the run") from error
    if not about:
        return frame

    return with_variants(frame, read_variants(path.with_name(VARIANTS)), about)


log = logging.getLogger(__name__)

_MOST_TOOLS = 3
"""Tools that are named of one outcome."""


def generator_of(stage: Stage) -> Generator | None:
    """The language model behind a stage, if there is one."""
    return stage.generator


def generators_of(stages: Mapping[str, Stage]) -> list[Generator]:
    """The distinct generators behind some stages."""
    generators = [generator for stage in stages.values() if (generator := generator_of(stage))]
    return list({id(generator): generator for generator in generators}.values())


def total_cost(generators: Iterable[Generator]) -> GenerationCost:
    """Return the total cost of several generators."""
    total = GenerationCost()
    for generator in generators:
        total.distinct_prompts += generator.cost.distinct_prompts
        total.cached += generator.cost.cached
        total.read += generator.cost.read
        total.written += generator.cost.written
    return total


def agreements_of(stages: Mapping[str, Stage]) -> list[Precision]:
    """Return the effect of the precision of each local model below float32; models that cannot be loaded again are left
    out."""
    records = []
    for generator in generators_of(stages):
        try:
            agreement = generator.agreement()
        except (ModelError, RuntimeError, MemoryError) as error:
            log.warning("what %s changes was not measured: %s", generator.settings.dtype, described(error))
            continue
        if agreement is not None:
            names = [name for name, stage in stages.items() if generator_of(stage) is generator]
            records.append(Precision(stages=names, **asdict(agreement)))
    return records


def signature_of(stages: Mapping[str, Stage]) -> dict[str, str]:
    """Return everything that determines the outputs of some stages: their signatures, and versions."""
    signature = {}
    for name, stage in stages.items():
        stage = untwinned(stage)
        signature[f"stage {name}"] = _stage_name(stage) + (f"|{stage.signature}" if stage.signature else "")
    for package in ("tod-bias", "sacrebleu", "transformers", "torch", "numpy"):
        try:
            signature[package] = version(package)
        except PackageNotFoundError:
            signature[package] = "not installed"
    return signature | {"python": platform.python_version()}


def _stage_name(stage: Stage) -> str:
    module, _, name = stage.place.partition(":")
    shipped = module == f"tod_bias.{HOMES.get(name)}"  # wherever it lives, it is named as in YAML
    return f"tod_bias.stages:{name}" if shipped else f"{module}:{name}"


def corpus_hash(dialogues: Iterable[Dialogue]) -> str:
    """Return a hash of everything in the dialogues and their order."""
    digest = blake2b(digest_size=8)
    for dialogue in dialogues:
        digest.update(repr((dialogue.id, dialogue.domain, len(dialogue.turns))).encode("utf-8", "surrogatepass"))
        digest.update(b"".join(turn.digest for turn in dialogue.turns))
        digest.update(dialogue.system.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _tools(outcomes: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return what was wrong with calls, and how often by tool, the most frequent ones."""
    tools: dict[str, dict[str, int]] = {}
    for (what, tool), number in sorted(outcomes.items(), key=lambda entry: (-entry[1], entry[0])):
        if tool and len(tools.setdefault(what, {})) < _MOST_TOOLS:
            tools[what][tool] = number
    return tools


def cost_of(costs: Mapping[str, CallCost], read: int, written: int, *, seconds: float) -> Cost:
    """Return the cost of a run by stage: calls, distinct, cached and failed ones; seconds, outcomes, tokens.

    Args:
        costs: by stage.
        read: tokens that local models read.
        written: tokens that they wrote; tokens that servers report are added to both.
        seconds: of the whole run.
    """
    return Cost(
        calls={name: cost.calls for name, cost in costs.items()},
        distinct={name: cost.distinct for name, cost in costs.items()},
        cached={name: cost.cached for name, cost in costs.items()},
        failed={name: cost.failed for name, cost in costs.items()},
        outcomes={name: cost.wrong for name, cost in costs.items() if cost.outcomes},
        tools={name: tools for name, cost in costs.items() if (tools := _tools(cost.outcomes))},
        tokens={
            "read": read + sum(cost.read for cost in costs.values()),
            "written": written + sum(cost.written for cost in costs.values()),
        },
        seconds_by_stage={name: round(cost.seconds, 3) for name, cost in costs.items()},
        seconds=round(seconds, 3),
    )
