"""Registers the mutator with ParlAI, which imports every module of ``parlai_internal.mutators``."""

from tod_bias.agents.mutator import DemographicRewrite

__all__ = ["DemographicRewrite"]
