"""Signatures of stages, axes and versions, which together determine a result."""

from __future__ import annotations

import logging
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError, described
from tod_bias.models.cost import GenerationCost
from tod_bias.results import Cost, Precision
from tod_bias.stages import HOMES
from tod_bias.systems.caller import StageCaller
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import Stage
from tod_bias.systems.twin import untwinned

if TYPE_CHECKING:
    from tod_bias.models.generator import Generator

log = logging.getLogger(__name__)

_MOST_TOOLS = 3
"""Tools that are named of one outcome."""


def generator_of(stage: Stage) -> Generator | None:
    """The language model behind a stage, if there is one."""
    return stage.generator


def generators_of(pipeline: Pipeline) -> list[Generator]:
    """The distinct generators behind a pipeline's stages."""
    generators = [generator for stage in pipeline.stages.values() if (generator := generator_of(stage))]
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


def agreements_of(pipeline: Pipeline) -> list[Precision]:
    """Return the effect of the precision of each local model below float32; models that cannot be loaded again are left
    out."""
    records = []
    for generator in generators_of(pipeline):
        try:
            agreement = generator.agreement()
        except (ModelError, RuntimeError, MemoryError) as error:
            log.warning("what %s changes was not measured: %s", generator.settings.dtype, described(error))
            continue
        if agreement is not None:
            names = [name for name, stage in pipeline.stages.items() if generator_of(stage) is generator]
            records.append(Precision(stages=names, **asdict(agreement)))
    return records


def signature_of(pipeline: Pipeline) -> dict[str, str]:
    """Return everything that determines a pipeline's outputs: every stage's signature, and versions."""
    signature = {}
    for name, stage in pipeline.stages.items():
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


def cost_of(callers: Mapping[str, StageCaller], read: int, written: int, *, seconds: float) -> Cost:
    """Return the cost of a run by stage: calls, distinct, cached and failed ones; seconds, outcomes, tokens.

    Args:
        callers: by name.
        read: tokens that local models read.
        written: tokens that they wrote; tokens that servers report are added to both.
        seconds: of the whole run.
    """
    costs = {name: caller.cost for name, caller in callers.items()}
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
