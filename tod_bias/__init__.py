"""tod-bias: finds which component of a modular task-oriented dialogue system treats people differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tod_bias import former_names
from tod_bias.dialogues.corpora import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import StageInput
from tod_bias.systems.twin import Twin

if TYPE_CHECKING:
    from tod_bias.studies.attribution import attribute
    from tod_bias.studies.comparison import compare
    from tod_bias.systems.configuration import load_pipeline

former_names.install()

__version__ = "0.1.0"
__all__ = [
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


def __getattr__(name: str) -> Any:
    """Load what needs PyTorch when it is first asked for, so that reading and rewriting dialogues starts at once."""
    if name == "attribute":
        from tod_bias.studies.attribution import attribute

        return attribute
    if name == "compare":
        from tod_bias.studies.comparison import compare

        return compare
    if name == "load_pipeline":
        from tod_bias.systems.configuration import load_pipeline

        return load_pipeline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
