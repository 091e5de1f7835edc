"""Fixes for a gap: guards, missing rows, and training on counterfactuals."""
