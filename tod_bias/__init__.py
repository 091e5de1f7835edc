"""tod-bias: finds which component of a modular task-oriented dialogue system treats people differently."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tod_bias.audit.analysis import attribute
    from tod_bias.audit.comparison import compare
    from tod_bias.config import AuditConfig
    from tod_bias.dialogues.corpora import load_corpus
    from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
    from tod_bias.pipelines import load_pipeline
    from tod_bias.results import AuditResult
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
    "AuditResult": "results",
    "Dialogue": "dialogues.dialogue",
    "Pipeline": "systems.pipeline",
    "StageInput": "systems.stage",
    "Step": "dialogues.dialogue",
    "Turn": "dialogues.dialogue",
    "Twin": "systems.twin",
    "attribute": "audit.analysis",
    "compare": "audit.comparison",
    "load_corpus": "dialogues.corpora",
    "load_pipeline": "pipelines",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
