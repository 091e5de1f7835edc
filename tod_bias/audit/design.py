"""Which counterfactuals an audit makes: the first of its three steps."""

from __future__ import annotations

from collections.abc import Sequence

from tod_bias.audit.tellings import Retelling
from tod_bias.config import DesignOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import CorpusError
from tod_bias.perturb.candidates import Perturber


def design_counterfactuals(
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Perturber] | str,
    options: DesignOptions | None = None,
    *,
    seed: int = 0,
) -> Retelling:
    """Decide which dialogues are rewritten, for which groups and with which terms; nothing is run.

    Args:
        dialogues: the corpus.
        axes: names or axes of one's own; ``placebo`` beside others is matched to each of them.
        options: crossed or draws, and how many.
        seed: of everything that is drawn.

    Raises:
        CorpusError: two dialogues have one id.
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        AxisError: an unknown axis, one given twice, or none.
    """
    options = DesignOptions() if options is None else options
    dialogues = list(dialogues)
    seen: set[str] = set()
    for dialogue in dialogues:
        if dialogue.id in seen:
            raise CorpusError(f"dialogue id {dialogue.id!r} stands twice in the corpus; ids must be unique")
        seen.add(dialogue.id)
    return Retelling(
        dialogues,
        axes,
        design=options.design,
        draws=options.draws,
        seed=seed,
        tellings=options.variants,
        max_per_axis=options.max_per_axis,
    )
