"""Rewriting dialogues along demographic axes: lexicons, rewriters, and Su's Algorithm 1."""
