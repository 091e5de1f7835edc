"""Tools for tests: the contract of a stage, regression cases, and the gate of a release."""

from tod_bias.testing.contract import StageContract, inputs_of

__all__ = ["StageContract", "inputs_of"]
