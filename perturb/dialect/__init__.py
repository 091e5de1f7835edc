"""Dialects and learners' English in what the user says, by rules that are data (``rules/*.tsv``)."""
