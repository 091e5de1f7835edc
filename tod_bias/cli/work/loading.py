"""Dialogues, metrics and systems that options name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tod_bias.cli.checks import check_datapath
from tod_bias.config import DEMO, AuditedDialogues, AuditedSystem, CorpusOptions, SystemOptions
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.sampling import sample
from tod_bias.pipelines import check_pipeline, load_pipeline
from tod_bias.report.console import echo
from tod_bias.systems.pipeline import STANDARD


def load_dialogues(options: CorpusOptions, seed: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return all dialogues of the corpus that options name, and the sample of them that is used."""
    check_datapath(options)
    whole: Sequence[Any]
    if isinstance(options, AuditedDialogues) and options.world is not None:
        from tod_bias.worlds.loading import load_world

        world = load_world(options.world)
        whole = world.dialogues
        for reason, number in world.left_out.items():
            echo(f"({number} of {len(whole) + number} tasks of {options.world} {reason} and are left out)", err=True)
    else:
        whole = load_corpus(options.corpus, datapath=options.datapath, split=options.split)
    return whole, sample(whole, options.max_dialogues, seed)


def load_system(
    corpus: str, system: SystemOptions, dialogues: Sequence[Any], world: str | None = None, *, offline: bool = False
) -> Any:
    """Load the pipeline that options name.

    Args:
        corpus: name of the corpus.
        system: the options.
        dialogues: of the corpus.
        world: name of the world that the system acts in.
        offline: True if no server may be asked for anything.
    """
    if world is not None:
        from tod_bias.worlds.systems import world_pipeline

        url = system.model_url if isinstance(system, AuditedSystem) else None
        return world_pipeline(world, system.pipeline, url=url, model=system.model, offline=offline)
    spec, models = _named(corpus, system)
    return load_pipeline(spec, dialogues=dialogues, device=system.device, generation=system.generation, **models)


def check_system(corpus: str, system: SystemOptions, world: str | None = None) -> tuple[str, ...]:
    """Raise for wrong options of :func:`load_system`, before anything heavy is loaded.

    Returns:
        The names of its stages.
    """
    if world is not None:
        from tod_bias.worlds.systems import check_world_system

        return check_world_system(
            world, system.pipeline, system.model_url if isinstance(system, AuditedSystem) else None
        )
    spec, models = _named(corpus, system)
    file = check_pipeline(spec, device=system.device, generation=system.generation, **models)
    return STANDARD if file is None else tuple(file.stages)


def _named(corpus: str, system: SystemOptions) -> tuple[str | None, dict[str, str | None]]:
    """Return the pipeline, by default the demo's, and the models by their parameters."""
    spec = DEMO if not system.is_named and corpus == DEMO else system.pipeline
    models = dict(zip(("model", "api_call_model", "response_model"), system.models, strict=True))
    return None if system.is_folder else spec, models
