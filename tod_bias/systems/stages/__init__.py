"""The shipped stages."""
