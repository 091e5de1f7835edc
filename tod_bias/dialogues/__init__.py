"""Dialogues: their text, JSON and chat forms, and readers of corpora."""
