"""Audits of recommenders."""
