"""The counterfactuals of an audit as records: what a system that cannot be called from here is to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tod_bias.audit.design import design_counterfactuals
from tod_bias.config import DesignOptions
from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.perturb.axis import Axis, Counterfactual


def export_counterfactuals(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis],
    options: DesignOptions | None = None,
    *,
    seed: int = 0,
    chat: bool = False,
    left_out: Callable[[str], object] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield every counterfactual that ``attribute`` would run with the same arguments, and the originals, as JSON.

    A record has the dialogue's fields (with ``chat`` its messages instead of turns) and ``original``, the original
    dialogue's id; ``variant``, its name (``original``, ``gender:woman``, ``placebo:gender``); ``axis``, ``source`` and
    ``target``; and ``terms``, the terms of the rewrite. ``id`` is ``original#variant``.

    Args:
        dialogues: the corpus; those that no axis rewrites are left out.
        axes: names or axis objects; ``placebo`` among others is matched to each of them.
        options: crossed or draws, and how many.
        seed: of everything that is drawn.
        chat: OpenAI messages.
        left_out: is called with the reason for every axis along which no dialogue can be rewritten.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
    """
    design = design_counterfactuals(dialogues, axes, options, seed=seed)
    if left_out is not None:
        for failure in design.failures.values():
            left_out(str(failure))
    seen: set[tuple[str, str]] = set()
    for axis, selections in design.selected.items():
        for variants in design.counterfactuals.of(axis, selections):
            placebo = () if variants.placebo is None else (variants.placebo,)
            for counterfactual in (variants.original, *variants.references, *variants.groups, *placebo):
                name = counterfactual.source_id, counterfactual.variant
                if name not in seen:
                    seen.add(name)
                    yield _record(counterfactual, chat)


def _record(counterfactual: Counterfactual, chat: bool) -> dict[str, Any]:
    dialogue, rewrite = counterfactual.rewritten, counterfactual.rewrite
    record: dict[str, Any] = dialogue.to_json()
    if chat:
        record = {"id": dialogue.id, "domain": dialogue.domain, "messages": to_messages(dialogue)}
    record["id"] = f"{dialogue.id}#{counterfactual.variant}"
    facts = (None, None, None) if rewrite is None else (rewrite.axis, rewrite.source, rewrite.target)
    terms = () if counterfactual.role == "original" else counterfactual.clusters.get("term", ())
    return record | {
        "original": dialogue.id,
        "variant": counterfactual.variant,
        **dict(zip(("axis", "source", "target"), facts, strict=True)),
        "terms": sorted(terms),
    }
