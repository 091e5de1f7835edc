"""Modules by the names they had before the rooms: ``from tod_bias.corpus import CORPORA`` goes on working."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

FORMER = {
    "arms": ("systems.execution",),
    "attribution": ("studies.attribution",),
    "cache": ("answers",),
    "checkpoints": ("models.checkpoints", "models.from_scratch"),
    "configuration": ("systems.configuration",),
    "corpus": ("dialogues.corpora", "dialogues.sgd"),
    "datapath": ("dialogues.datapath",),
    "dialogue": ("dialogues.dialogue", "dialogues.text", "dialogues.jsonl"),
    "estimates": ("studies.estimates", "studies.su", "statistics.settings"),
    "evaluation": ("studies.evaluation",),
    "examples": ("models.examples",),
    "generation": ("models.generator", "models.settings"),
    "inference": ("statistics.intervals", "statistics.resampling", "statistics.permutation", "statistics.adjustment"),
    "multiwoz": ("dialogues.multiwoz",),
    "options": ("cli.options",),
    "pipeline": ("systems.pipeline", "systems.stage", "systems.twin"),
    "prefix_tree": ("models.decoders.tree",),
    "processes": ("models.processes",),
    "results": ("studies.results",),
    "resumption": ("models.resumption",),
    "taskmaster": ("dialogues.taskmaster",),
    "training": ("models.training", "models.settings"),
    "words": ("studies.words",),
}
"""Former name below ``tod_bias`` to the modules that hold what it held."""


class _Former:
    def __init__(self, homes: Sequence[str]) -> None:
        self._homes = homes

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual one."""

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs here: names are looked up in their new homes when they are asked for."""

        def look_up(name: str) -> object:
            for home in self._homes:
                found = import_module(f"tod_bias.{home}")
                if hasattr(found, name):
                    return getattr(found, name)
            raise AttributeError(
                f"module {module.__name__!r} (now tod_bias.{self._homes[0]}) has no attribute {name!r}"
            )

        module.__doc__ = f"Now :mod:`tod_bias.{self._homes[0]}`."
        module.__dict__["__getattr__"] = look_up


class _Finder:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a former module; None for every other."""
        package, _, name = fullname.rpartition(".")
        if package != "tod_bias" or name not in FORMER:
            return None
        return ModuleSpec(fullname, _Former(FORMER[name]))  # type: ignore[arg-type]  # a loader by its methods


def install() -> None:
    """Make the former names importable; they are asked last."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
