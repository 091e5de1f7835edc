"""Placeholder."""


class SqlDb:
    """Placeholder."""
