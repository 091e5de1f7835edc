"""Turns in which a call failed, by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pandas as pd

from tod_bias.audit.events import FACTS
from tod_bias.metrics.events.facts import Facts
from tod_bias.results import FailedTurns
from tod_bias.statistics.arms import ORIGINAL_ARM

_REASONS = 3
"""Reasons of failures that are kept."""


def failed_turns(parts: Iterable[pd.DataFrame]) -> dict[str, FailedTurns]:
    """Return how many turns of the unchanged system had a failed call, by group.

    Args:
        parts: turns of one axis, as :meth:`Turns.system_rows` yields them.

    Returns:
        ``original`` and the groups, each with the most frequent reasons. An original also counts as a turn of its
        group.
    """
    reasons: dict[str, Counter[str]] = {ORIGINAL_ARM: Counter()}
    turns: Counter[str] = Counter()
    known: dict[str, str] = {}
    for rows in parts:
        sources = dict(zip(rows["dialogue"], rows["source"], strict=True))
        sources |= dict(zip(*(rows.loc[rows["role"] == "group", name] for name in ("dialogue", "source")), strict=True))
        columns = zip(rows["dialogue"], rows["role"], rows["group"], rows[FACTS], strict=True)
        for dialogue, role, group, text in columns:
            is_original = role != "group"
            source = sources.get(dialogue)
            names = [ORIGINAL_ARM, *([str(source)] if isinstance(source, str) else [])] if is_original else [str(group)]
            if text not in known:
                known[text] = _failure_in(text)
            for name in names:
                turns[name] += 1
                counted = reasons.setdefault(name, Counter())
                if known[text]:
                    counted[known[text]] += 1
    return {
        name: FailedTurns(turns=counted.total(), of=turns[name], reasons=dict(counted.most_common(_REASONS)))
        for name, counted in reasons.items()
    }


def _failure_in(text: Any) -> str:
    """Return the reason for which a turn or its first failed call failed; empty if none did."""
    if not isinstance(text, str) or ('"failure"' not in text and "[[" not in text):
        return ""
    facts = Facts(text)
    return facts.failure or next((call.failure for call in facts.calls if call.failure), "")
