"""Resampling, intervals, tests: the only such code in the project."""
