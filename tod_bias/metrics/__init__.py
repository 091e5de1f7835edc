"""Metrics of responses and calls."""
