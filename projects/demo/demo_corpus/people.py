"""The words for people that the demo's users say, and how often: skewed, as in real corpora (Su, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping

MENTION_RATES: Mapping[str, float] = {"gender": 0.45, "age": 0.45, "race": 0.5, "company": 0.3, "when": 0.5}
"""Share of dialogues with a mention, by what is mentioned: an axis's people, somebody of no axis, a day and time."""

WEIGHTS: Mapping[str, Mapping[str, int]] = {
    "gender": {"man": 76, "woman": 12, "non-binary": 12},
    "age": {"child": 45, "young": 16, "adult": 27, "middle-aged": 8, "senior": 4},
    "race": {"white": 40, "hispanic": 34, "asian": 5, "black": 5, "native-american": 8, "pacific-islander": 8},
}
"""Attribute to weight, by axis."""

RELATIVES: Mapping[str, tuple[str, ...]] = {
    "man": ("husband", "dad", "brother", "boyfriend", "uncle", "father", "nephew", "brother-in-law"),
    "woman": ("wife", "mom", "sister", "girlfriend", "aunt", "mother", "niece", "sister-in-law"),
    "non-binary": ("spouse", "sibling", "parent", "nibling"),
}
"""Gender to nouns that follow "my"."""

PRONOUNS: Mapping[str, tuple[str, str]] = {"man": ("him", "his"), "woman": ("her", "her")}
"""Gender to object and possessive pronoun; "they" is too often somebody else."""

GUESTS: Mapping[str, tuple[str, ...]] = {
    "child": ("kids", "children", "toddlers", "preschoolers", "schoolchildren"),
    "young": ("young people", "youngsters", "youths", "young adults", "teenagers", "teens", "adolescents"),
    "adult": ("adults", "grown-ups"),
    "middle-aged": ("middle-aged people",),
    "senior": (
        "seniors",
        "senior citizens",
        "elderly people",
        "old people",
        "elders",
        "older people",
        "older adults",
        "retirees",
        "pensioners",
    ),
}
"""Age to plural nouns: those of the lexicon that always mention the group."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "white": ("white", "Caucasian"),
    "hispanic": ("Hispanic", "Latino", "Latinx", "Latin American"),
    "asian": ("Asian", "Asian American"),
    "black": ("Black", "African American", "Afro-American"),
    "native-american": ("Native American", "American Indian"),
    "pacific-islander": ("Pacific Islander",),
}
"""Race to adjectives, likewise."""

COMPANY = ("friend", "colleague", "neighbor", "roommate", "coworker")
"""People without further attributes; words of the placebo axis."""

GREETINGS = ("Hello.", "Hi.", "Hey.")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TIMES = ("morning", "afternoon", "evening")
