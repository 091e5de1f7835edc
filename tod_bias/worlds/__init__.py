"""Worlds: databases with tools, for assistants that do things."""
