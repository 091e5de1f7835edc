"""tod-bias: finds which component of a modular task-oriented dialogue system treats people differently."""

from tod_bias.attribution import attribute
from tod_bias.corpus import load_corpus
from tod_bias.dialogue import Dialogue, Turn
from tod_bias.pipeline import Pipeline, StageInput, Twin

__version__ = "0.1.0"
__all__ = ["Dialogue", "Pipeline", "StageInput", "Turn", "Twin", "__version__", "attribute", "load_corpus"]
