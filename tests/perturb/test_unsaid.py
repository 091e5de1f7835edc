"""Phrases that nobody says: no term of any cell makes one in a generic sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.perturb import load_axis
from tod_bias.perturb.english import takes_an
from tod_bias.perturb.lexicon import Lexicon, Paradigm

AGE = r"(?:elderly|aged|senior|middle-aged|retired|fortyish|fiftyish|fiftysomething)"
CHILD = r"(?:preteen|underage|school-age)"
UNSAID = {
    "an old age with a young noun": rf"\b{AGE} (?:lass(?:es)?|gals?|lads?|girls?|boys?|toddlers?|teens?)\b",
    "people as a species": r"\bhuman beings?\b",
    "the genitive of a name in -s": r"(?<!s)s's\b",
    "an article before another sound": r"\b[Aa] [aeio]|\b[Aa]n [bcdfgjklmnpqrstvwxyz]",
    "the same word twice": r"\b(\w+) \1\b",
    "a full word as an abbreviation": r"\b(?:[Mm]iss|[Mm]ister)\. ",
    "a department of people": r"\b(?:people|individual|person|gal|guy|adult)s?'?s? (?:haircut|shoes|restroom)",
    "a plural after one": r"\b(?:[Oo]ne|[Ee]very) (?:men|women|people|children|\w+ies|kids)\b(?!')",
    "a child with a profession or children": rf"\b(?:{CHILD}|very young) (?:mother|parent|doctor|couple)",
    "a child as a man or a woman": rf"\b(?:little|teenage|{CHILD}) (?:m[ae]n|wom[ae]n|lady|gentleman)\b",
    "a noun as an adjective": r"\b(?:child|kid|tot|minor|young person|youngster|grown-up person) (?:wom|m)[ae]n\b",
    "a homonym": r"\bsewers?\b|\bsenior (?:child|kid|cousin|son)|\bmonarches\b",
    "a state as an adjective": r"\bam (?:aged|adolescent|midlife adult|adult|teen|child|senior)\b",
}
THEIRS = re.compile(
    r"\b[Mm]y (?:[\w-]+ )?(?:person|people|individual|senior citizen|senior|retiree|pensioner|adult|grown-up)s?\b"
    r"(?! (?:grand)?(?:kid|child))"
)
"""Somebody's child at another age."""
NOUN = ("{1} {0} is here.", "The {0}'s phone is off.", "One nice {0} and every {0}.")
NOUNS = ("Two {0} are here.", "The {0} phones are off.", "{0} like it.")
AGED = ("Is that {0} an elderly {0}?", "Some old {0} and middle-aged {0}.")
ADJECTIVE = (
    "{1} {0} man, two {0} women and my {0} lady.",
    "Is the {0} girl or boy here? The {0} girls and the {0} boys.",
    "My {0} mother, my {0} doctor, the {0} couple.",
    "{1} {0} person and two {0} friends of my {0} cousin.",
    "I am {0}.",
)
BEFORE_NAMES = ("{0} Jenny is here.", "{0}. Jenny is here.")
AXES = ("gender", "age", "race", "race_people")


def frames(row: Paradigm, form: str, slot: int, *, is_age: bool) -> Iterator[str]:
    article = "An" if takes_an(form) else "A"
    if row.pos in ("noun", "kin"):
        genitive = form + ("'" if form.endswith("s") else "'s")
        for frame in NOUNS if slot else NOUN:
            yield frame.format(genitive if "phones" in frame else form, article)
        yield f"My {form} and your {form}, not our friend's {form}."
        if not is_age:
            yield AGED[slot].format(form)
    elif row.pos == "adj":
        yield from (frame.format(form, article) for frame in ADJECTIVE)
    elif row.pos == "word":
        following = [word for condition in row.context if condition.name == "next" for word in sorted(condition.words)]
        yield from (f"{article} {form} {word}, please." for word in following)
        yield f"Is it {form}? {article} {form} place."
    if row.pos in ("title", "kin"):
        yield from (frame.format(form) for frame in BEFORE_NAMES)


def texts(lexicon: Lexicon) -> dict[str, None]:
    made: dict[str, None] = {}
    for row in lexicon.paradigms:
        for alternatives in row.cells.values():
            for forms in alternatives:
                for slot, form in enumerate(forms):
                    if form.mention:
                        made |= dict.fromkeys(frames(row, form.text, slot, is_age=lexicon.axis == "age"))
    return made


@cache
def outputs(axis: str) -> list[tuple[str, str]]:
    """Every sentence, rewritten to every group with every term."""
    perturber, pairs = load_axis(axis), []
    for text in texts(perturber.lexicon):
        if found(text):
            continue  # the frame does not suit the source term
        dialogue = Dialogue("d", "", (Turn(text),))
        for _, candidates in perturber.select([dialogue], variants=60):
            for candidate in candidates:
                rewrite = perturber.rewrite(dialogue, candidate)
                pairs.append((text, str(rewrite(text))))
                assert rewrite.inverse(rewrite(dialogue)) == dialogue
    return pairs


def found(text: str) -> list[str]:
    return [name for name, pattern in UNSAID.items() if re.search(pattern, text)]


@pytest.mark.parametrize("axis", AXES)
def test_no_term_makes_a_phrase_that_nobody_says(axis: str) -> None:
    pairs = outputs(axis)
    assert len(pairs) > 1000
    wrong = [f"{source} > {made}: {', '.join(names)}" for source, made in pairs if (names := found(made))]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(pairs)}", *wrong[:40]])


@pytest.mark.parametrize("term", ["toddlers", "teens", "kids", "newborns", "grandkids", "children"])
def test_a_child_of_somebody_stays_one_at_every_age(term: str) -> None:
    perturber = load_axis("age")
    text = f"My {term} like it."
    dialogue = Dialogue("d", "", (Turn(text),))
    rewrites = [
        perturber.rewrite(dialogue, one) for _, some in perturber.select([dialogue], variants=60) for one in some
    ]
    assert {rewrite.target for rewrite in rewrites} >= {"middle-aged", "adult"}
    assert not [made for rewrite in rewrites if THEIRS.search(made := str(rewrite(text)))]
