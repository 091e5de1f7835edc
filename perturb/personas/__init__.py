"""Introductions: the user of any dialogue says who they are."""
