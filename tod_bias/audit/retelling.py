"""The tellings of an audit as records: what a system that cannot be called from here is to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tod_bias.audit.tellings import Design, Retelling
from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.candidates import Perturber
from tod_bias.perturb.crossed import words_in
from tod_bias.systems.execution import Run


def tellings_of(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Perturber],
    *,
    design: Design = "crossed",
    draws: int = 3,
    seed: int = 0,
    tellings: int | None = None,
    max_per_axis: int | None = None,
    chat: bool = False,
    left_out: Callable[[str], object] | None = None,
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
        tellings: rewritten tellings a dialogue and axis; by default one for every other attribute.
        max_per_axis: dialogues an axis at the most.
        chat: OpenAI messages.
        left_out: told the reason for every axis along which no dialogue can be told otherwise.

    Raises:
        NothingToPerturbError: no dialogue can be told otherwise along any axis.
    """
    retelling = Retelling(
        dialogues, axes, design=design, draws=draws, seed=seed, tellings=tellings, max_per_axis=max_per_axis
    )
    if left_out is not None:
        for failure in retelling.failures.values():
            left_out(str(failure))
    told: set[tuple[str, str]] = set()

    for axis, drawn in retelling.drawn.items():
        for (dialogue, candidates), retold in zip(drawn, retelling.teller.runs(axis, drawn), strict=True):
            words = words_in(retelling.teller.perturbers[axis], dialogue, candidates)
            placebo = () if retold.placebo is None else (retold.placebo,)
            changed = [str(getattr(run.rewrite, "word", "")) for run in placebo]
            runs: list[tuple[Run, Sequence[str]]] = [(retold.original, ()), *((run, ()) for run in retold.references)]
            runs += [(run, sorted(names)) for run, names in zip(retold.copies, words, strict=True)]
            runs += [(run, [word]) for run, word in zip(placebo, changed, strict=True)]
            for run, names in runs:
                name = run.dialogue.id, run.telling
                if name not in told:
                    told.add(name)
                    yield _record(run, names, chat)


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
