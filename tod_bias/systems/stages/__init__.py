"""The shipped components."""
