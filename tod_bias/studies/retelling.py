"""The tellings of an audit as records: what a system that cannot be called from here is to answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import NothingToPerturbError
from tod_bias.perturb.algorithm import PLACEBO
from tod_bias.perturb.candidates import Perturber
from tod_bias.perturb.crossed import words_in
from tod_bias.studies.tellings import (
    Design,
    check_design,
    chosen_from,
    drawn_for,
    matched_placebo,
    perturbers_of,
    runs_of,
)
from tod_bias.systems.execution import Run


def tellings_of(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Perturber],
    *,
    design: Design = "crossed",
    draws: int = 3,
    seed: int = 0,
    max_per_axis: int | None = None,
    chat: bool = False,
) -> Iterator[dict[str, Any]]:
    """Every telling that ``attribute`` would run with the same arguments, the originals among them, as JSON.

    A record has the dialogue's fields (with ``chat`` its messages instead of turns) and ``original``, the original
    dialogue's id; ``telling``, its name (``original``, ``gender:woman``, ``placebo:gender``); ``axis``, ``source`` and
    ``target``; and ``words``, those that the rewrite rests on. ``id`` is ``original#telling``.

    Args:
        dialogues: the corpus; those that no axis rewrites are left out.
        axes: names or perturbers; ``placebo`` beside others is matched to each of them.
        design: ``crossed`` or ``draws``.
        draws: for ``draws`` only.
        seed: of the tellings.
        max_per_axis: dialogues an axis at the most.
        chat: OpenAI messages.

    Raises:
        NothingToPerturbError: no dialogue can be told otherwise along any axis.
    """
    check_design(design)
    perturbers = perturbers_of(axes)
    matched = matched_placebo(perturbers, dialogues)
    told: set[str] = set()
    failure: NothingToPerturbError | None = None
    for axis, perturber in perturbers.items():
        if matched is not None and axis == PLACEBO:
            continue
        try:
            drawn = chosen_from(drawn_for(perturber, dialogues, design, draws, seed), max_per_axis, seed)
        except NothingToPerturbError as error:
            failure = error
            continue
        for (dialogue, candidates), retold in zip(drawn, runs_of(perturber, drawn, matched, seed), strict=True):
            if dialogue.id not in told:
                told.add(dialogue.id)
                yield _record(retold.original, [], chat)
            words = words_in(perturber, dialogue, candidates)
            for run, names in zip(retold.copies, words, strict=True):
                yield _record(run, sorted(names), chat)
            if retold.placebo is not None:
                yield _record(retold.placebo, [str(getattr(retold.placebo.rewrite, "word", ""))], chat)
    if not told and failure is not None:
        raise failure


def _record(run: Run, words: Sequence[str], chat: bool) -> dict[str, Any]:
    dialogue, rewrite = run.rewritten, run.rewrite
    record: dict[str, Any] = dialogue.to_json()
    if chat:
        record = {"id": dialogue.id, "domain": dialogue.domain, "messages": to_messages(dialogue)}
    record["id"] = f"{dialogue.id}#{run.telling}"
    facts = (None, None, None) if rewrite is None else (rewrite.axis, rewrite.source, rewrite.target)
    return record | {
        "original": dialogue.id,
        "telling": run.telling,
        **dict(zip(("axis", "source", "target"), facts, strict=True)),
        "words": list(words),
    }
