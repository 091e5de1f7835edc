"""T of one dialogue by a pair of text rewriters: which words it introduced, and so may turn back on unseen text."""

from __future__ import annotations

from collections.abc import Mapping

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.candidates import Candidate
from tod_bias.perturb.pronouns import SUBJECT
from tod_bias.perturb.rewrite import DialogueRewrite
from tod_bias.perturb.rewriter import TextRewriter, plain_form


def dialogue_rewrite(
    dialogue: Dialogue,
    candidate: Candidate,
    forward: TextRewriter,
    backward: TextRewriter,
    names: tuple[str, ...],
    rows: frozenset[int] | None,
    made: Mapping[str, str] | None = None,
) -> DialogueRewrite:
    """The rewriting T of one dialogue by a pair of text rewriters.

    Args:
        dialogue: the original.
        candidate: which T.
        forward: rewrites a text.
        backward: its inverse on unseen text.
        names: phrases of the dialogue that are no mentions.
        rows: the paradigms that change; None for all.
        made: texts of the dialogue that something else has rewritten.
    """
    made = made or {}
    restorable: dict[str, str | None] | None = None

    def undo(text: str) -> str:
        nonlocal restorable
        if not backward.recogniser.may_mention(text):
            return text
        if restorable is None:
            restorable = _restorable(dialogue, forward, backward, names, rows)
        return backward(text, names, only=restorable)

    return DialogueRewrite(
        axis=forward.lexicon.axis,
        source=candidate.source,
        target=candidate.target,
        word=candidate.word,
        forward=lambda text: made[text] if text in made else forward(text, names, rows=rows),
        backward=undo,
    )


def _restorable(
    dialogue: Dialogue,
    forward: TextRewriter,
    backward: TextRewriter,
    names: tuple[str, ...],
    rows: frozenset[int] | None,
) -> dict[str, str | None]:
    """The words that T introduced, each to the word it stands for, with the other forms of their paradigms.

    A word that the original dialogue holds too is left out: on a string that T did not make nobody can tell which of
    the two it is. Pronouns of the target join in as soon as anything was introduced, as they refer to it; "they",
    which refers to anything, does so only where T introduced it.
    """
    introduced: dict[str, str | None] = {}
    native: set[str] = set()
    paradigms: set[int] = set()
    for text in _texts(dialogue):
        for mention, form in forward.mentions(text, names):
            if rows is None or mention.row in rows:
                introduced.setdefault(form.lower(), mention.lexical)
                paradigms.add(mention.row)
        native.update(text[found.start : found.end].lower() for found, _ in backward.mentions(text, names))
    for row, paradigm in enumerate(forward.lexicon.paradigms):
        cell = paradigm.cells.get(forward.target)
        if cell is None or forward.source not in paradigm.cells:
            continue
        is_pronoun = paradigm.pos == "pronoun" and introduced and rows is None and cell[0][SUBJECT].text != "they"
        if row in paradigms or is_pronoun:
            for written in cell[0]:
                introduced.setdefault(written.text.lower(), None)
    return {form: source for form, source in introduced.items() if form not in native}


def distinct_forms(
    dialogue: Dialogue, forward: TextRewriter, backward: TextRewriter, names: tuple[str, ...]
) -> dict[str, str]:
    """A form of the target for every adjective that the dialogue holds, each another one while there are some left.

    "Indian or Chinese?" must not become "American or American?", nor "Mexican or American?". The first word gets the
    first form that the dialogue does not hold already, or the first of all where none is left.
    """
    texts = list(_texts(dialogue))
    taken = {plain_form(mention.lexical) for text in texts for mention, _ in backward.mentions(text, names)}
    forms: dict[str, str] = {}
    for text in texts:
        for mention, _ in forward.mentions(text, names):
            word, paradigm = plain_form(mention.lexical), forward.lexicon.paradigms[mention.row]
            if word in forms or paradigm.pos != "adj":
                continue
            choices = [alternative[0].text for alternative in paradigm.cells[forward.target]]
            form = next((choice for choice in choices if plain_form(choice) not in taken), choices[0])
            taken.add(plain_form(form))
            forms[word] = form
    return forms


def _texts(dialogue: Dialogue) -> dict[str, None]:
    """Every text of a dialogue once, in order."""
    return dict.fromkeys(
        text for turn in dialogue.turns for pairs in (turn.utterances, turn.values) for _, text in pairs
    )
