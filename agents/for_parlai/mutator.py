"""The mutator ``demographic_rewrite``: any stock task of ParlAI with its episodes rewritten by Su's Algorithm 1.

    PYTHONPATH=$(python -m tod_bias.agents.plugin) parlai display_data -t google_sgd --mutators demographic_rewrite

ParlAI looks for other people's mutators in a package ``parlai_internal.mutators``; :mod:`tod_bias.agents.plugin` prints
a folder with such a package. If you have a ``parlai_internal``, add a module with this line to its ``mutators``::

    from tod_bias.agents.mutator import DemographicRewrite
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parlai.core.message import Message
from parlai.core.mutators import ManyEpisodeMutator, register_mutator
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from tod_bias.agents.episodes import rewrite_fields
from tod_bias.agents.options import DRAW_OPTIONS, add_options, axis_of
from tod_bias.agents.protocol import GOAL, SCHEMAS, slots_from_parlai, slots_to_parlai, split_prefix
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.text import API_CALL, API_RESULT, SYSTEM, USER
from tod_bias.perturb.axis import draw_rewrites
from tod_bias.systems.twin import Rewrite

LABELS = ("labels", "eval_labels", "label_candidates")
_DEPTH = 100_000


@register_mutator("demographic_rewrite")
class DemographicRewrite(ManyEpisodeMutator):
    """Rewrites texts, labels, candidates and ``slots`` of an episode; slot and API names stay.

    Episodes with nothing to rewrite are left out, or with ``--unperturbed keep`` left as they are. Every message has
    in ``axis``, ``source``, ``target`` and ``term`` the rewrite that was drawn. Draws depend on seed, axis and the
    episode's ``dialogue_id``, or on its texts where the task has no ids.

    In a task-oriented episode the candidates are the words in ``USER:`` and ``SYSTEM:`` lines, and the names in calls
    and results are protected, as everywhere in tod-bias; other tasks' texts and labels all count.
    """

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the options of the perturbation."""
        unperturbed = {
            "default": "drop",
            "choices": ("drop", "keep"),
            "help": "leave out episodes that cannot be rewritten, or keep them as they are",
        }
        add_options(parser, "perturbation", {**DRAW_OPTIONS, "--unperturbed": unperturbed})
        return parser

    def __init__(self, opt: Opt) -> None:
        super().__init__(opt)
        self._axis = axis_of(opt)
        self._draw, self._seed = opt.get("draw") or 0, opt.get("seed") or 0
        self._keeps = opt.get("unperturbed") == "keep"
        if not self._keeps:  # ParlAI calls itself once more for every episode in a row that is left out
            sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEPTH))

    def many_episode_mutation(self, episode: list[Message]) -> list[list[Message]]:
        """Return the rewritten episode; empty if nothing can be rewritten."""
        rewrites = draw_rewrites(self._axis, episode_of(episode), self._draw + 1, self._seed)
        if not rewrites:
            return [episode] if self._keeps else []
        return [[_rewritten(message, rewrites[self._draw]) for message in episode]]


def episode_of(messages: Sequence[Mapping[str, Any]]) -> Dialogue:
    """Return the parts of an episode that an axis reads: its lines, and the names in its calls and results."""
    lines = [line for message in messages for line in _lines(message)]
    digest = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
    turns = []
    for line in lines:
        prefix, content = split_prefix(line)
        if prefix in (API_CALL, API_RESULT):
            slots = slots_from_parlai(content)
            turns.append(Turn.with_call("", slots if isinstance(slots, Mapping) else {}))
        elif prefix in (USER, SYSTEM, None):
            turns.append(Turn(content))
    return Dialogue(str(messages[0].get("dialogue_id") or digest[:16]) if messages else "", "", tuple(turns))


def _lines(message: Mapping[str, Any]) -> Iterator[str]:
    labels = message.get("labels") or message.get("eval_labels") or ()
    for text in (message.get("text"), *labels):
        if isinstance(text, str):
            yield from text.split("\n")


def _rewritten(message: Mapping[str, Any], rewrite: Rewrite) -> Message:
    fields = dict(message)
    if isinstance(fields.get("text"), str):
        fields["text"] = rewrite_lines(fields["text"], rewrite)
    for name in LABELS:
        if isinstance(fields.get(name), (list, tuple)):
            fields[name] = type(fields[name])(
                [rewrite_lines(text, rewrite) if isinstance(text, str) else text for text in fields[name]]
            )
    if isinstance(fields.get("slots"), Mapping):
        fields["slots"] = _plain(rewrite(dict(fields["slots"])))
    return Message({**fields, **rewrite_fields(rewrite)})


def rewrite_lines(text: str, rewrite: Rewrite) -> str:
    """T of a text of ParlAI, line by line: in calls and results only the values change, API schemas stay."""
    return "\n".join(_rewrite_line(line, rewrite) for line in text.split("\n"))


def _rewrite_line(line: str, rewrite: Rewrite) -> str:
    prefix, content = split_prefix(line)
    if prefix is None:
        return str(rewrite(line))
    if prefix == SCHEMAS:
        return line
    if prefix == GOAL:
        calls = [_rewrite_slots(call, rewrite) for call in content.split(" | ")]
        return f"{prefix} {' | '.join(calls)}"
    return f"{prefix} {_rewrite_slots(content, rewrite) if prefix in (API_CALL, API_RESULT) else rewrite(content)}"


def _rewrite_slots(text: str, rewrite: Rewrite) -> str:
    slots = slots_from_parlai(text)
    return slots_to_parlai(rewrite(slots)) if isinstance(slots, Mapping) else str(rewrite(slots))


def _plain(value: Any) -> Any:
    """Replace strings that remember their origin by plain ones, because ParlAI copies and stores them."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return type(value)(_plain(item) for item in value) if isinstance(value, (list, tuple)) else value
