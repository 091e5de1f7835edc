"""tod-bias: finds which component of a modular task-oriented dialogue system treats people differently."""

from __future__ import annotations

import os
import sys

# The command can be stopped from here on; at "-m" the interpreter looks for the module that it is to run.
if getattr(sys, "argv", [])[:1] == ["-m"] or os.path.basename(getattr(sys, "argv", [""])[0]) == "tod-bias":
    from tod_bias.cli import signals

    signals.watch(raising=False)

# Threads that wait for each other sleep, which has to be said before torch loads its own: where other work keeps the
# cores busy, waiting awake made the demo seven times slower (83 s of 12), and on idle ones it gains nothing.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tod_bias.audit.attribute import attribute
    from tod_bias.audit.comparison import compare
    from tod_bias.config import AuditConfig
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
    from tod_bias.pipelines import load_pipeline
    from tod_bias.report.notebook import AuditResult
    from tod_bias.systems.pipeline import Pipeline
    from tod_bias.systems.stage import StageInput
    from tod_bias.systems.twin import Twin

__version__ = "0.1.0"
__all__ = [
    "AuditConfig",
    "AuditResult",
    "Dialogue",
    "Pipeline",
    "StageInput",
    "Step",
    "Turn",
    "Twin",
    "__version__",
    "attribute",
    "compare",
    "load_corpus",
    "load_pipeline",
]


_HOMES = {
    "AuditConfig": "config",
    "AuditResult": "report.notebook",
    "Dialogue": "dialogues.dialogue",
    "Pipeline": "systems.pipeline",
    "StageInput": "systems.stage",
    "Step": "dialogues.dialogue",
    "Turn": "dialogues.dialogue",
    "Twin": "systems.twin",
    "attribute": "audit.attribute",
    "compare": "audit.comparison",
    "load_corpus": "dialogues.corpora",
    "load_pipeline": "pipelines",
}


def __getattr__(name: str) -> Any:
    """Load a name's room when it is first asked for: the command can be stopped from its first moments on."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
