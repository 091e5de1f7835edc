"""Rewriting dialogues along demographic axes: counterfactuals, reference variants and placebos.

An :class:`Axis` is a demographic dimension with its groups. ``axis.counterfactuals(dialogues)`` rewrites every dialogue
that mentions a group for every other group; each :class:`Counterfactual` carries its rewrite T and T⁻¹.

* ``axis`` is the base class, the design of a corpus and what comes out;
* ``loading`` makes axes by name: of terms (``lexicon_axis``), of ``names``, introductions (``personas``)
  and two of them crossed (``product``);
* ``rewriter`` rewrites one text with a ``lexicon``; ``pronouns``, ``english`` and ``context`` are the English it needs;
* ``rewrite`` carries a rewrite over a whole dialogue and back;
* ``placebo`` makes the matched placebo, ``dealing`` deals terms out evenly, ``records`` writes counterfactuals down;
* ``guard`` wraps a stage so that it cannot tell groups apart.
"""

from tod_bias.perturb.axis import Axis, Candidate, Counterfactual, Variants, draw_rewrites
from tod_bias.perturb.loading import axes, load_axis, perturb_text

__all__ = ["Axis", "Candidate", "Counterfactual", "Variants", "axes", "draw_rewrites", "load_axis", "perturb_text"]
