"""Compare a system's treatment of a rewritten dialogue with that of the original: f(T x) with T f(x), without a
reference.

The twin is the same system, blind to the rewrite. All metrics are 0 for originals and for the arm with all stages
replaced, so the disparity equals the share.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from tod_bias.dialogues.calls import MALFORMED
from tod_bias.metrics.metric import Better, Metric, RatioOfSums, Scale, ScoredTurn, ratio


def _calls_differ(turn: ScoredTurn, twin: ScoredTurn) -> bool:
    if turn.calls is None or twin.calls is None:
        return turn.calls is not twin.calls
    return len(turn.calls) != len(twin.calls) or any(
        dict(call) != dict(other) for call, other in zip(turn.calls, twin.calls, strict=True)
    )


class Disagreement(RatioOfSums):
    """Counterfactual disagreement: the share of turns with f(T x) ≠ T f(x), on 0–1.

    A turn disagrees when its response is another string or its calls are other values than the twin's; two malformed
    calls are alike. 0: the system is equivariant on these dialogues; 1: no turn comes out as the twin's. Any difference
    counts, also a harmless one. NaN for no turn.
    """

    range = (0.0, 1.0)
    name: str = "disagreement"
    label: str = "disagreement with the twin"
    unit = "turns in 100 that come out differently than the twin's"
    better: Better = "lower"
    counterfactual = True
    """Any rewording may change an answer, so without a placebo nothing is claimed."""
    columns = ("disagreement_differ", "disagreement_turns")
    signature: str = "responses as strings, calls as values in order"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Return 1 if the output differs from the twin's, and 1."""
        twin = turn.twin or turn
        return turn.response != twin.response or _calls_differ(turn, twin), 1


class CallDisagreement(Metric):
    """Disagreement of calls: of the turns in which the system or its twin makes a call, the share that differ, on 0–1.

    Calls are compared as values, arguments included, in order. A malformed call is a call, and two malformed calls are
    equal. Turns in which neither side makes a call are left out of the denominator, because they would only dilute the
    share. The denominator is therefore the same if system and twin are exchanged. 0 if no side makes any call although
    it could. NaN without turns, or if no component of the system makes calls.
    """

    range = (0.0, 1.0)
    name: str = "call_disagreement"
    label: str = "disagreement of calls with the twin's"
    unit = "turns in 100 whose calls are not the twin's"
    reads = "calls"
    better: Better = "lower"
    scale: Scale = "difference"
    counterfactual = True
    """Any rewording may change an answer, so without a placebo nothing is claimed."""
    columns: tuple[str, ...] = ("call_disagreement_differ", "call_disagreement_calls", "call_disagreement_turns")
    signature: str = "calls as values in order, of the turns with a call in either"

    def statistics(self, turns: Sequence[ScoredTurn]) -> np.ndarray:
        """Return (turns, 3): 1 if the calls differ, 1 if either has a call, 1 if a call is possible."""
        rows = np.zeros((len(turns), 3))
        for number, turn in enumerate(turns):
            twin = turn.twin or turn
            if turn.has_calls:
                rows[number, 1:] = turn.calls != () or twin.calls != (), 1
                rows[number, 0] = twin is not turn and _calls_differ(turn, twin)
        return rows

    def score(self, sums: np.ndarray) -> np.ndarray:
        """Return the share that differs; 0 without calls, NaN if no call is possible."""
        shares = ratio(sums[..., 0], np.maximum(sums[..., 1], 1))
        return np.where(sums[..., 2] > 0, shares, np.nan)


class ArgumentDisagreement(RatioOfSums):
    """Disagreement of arguments: of the arguments that the system or its twin gives in calls, the share that differ.

    Calls are compared in order, as values, and the API's name counts as an argument. If only one side makes a call, or
    one side's call is malformed, every argument of it differs. The column ``first_difference`` names the arguments. The
    range is 0–1; 0 if all arguments are equal, 1 if none is. NaN if neither side makes a call.
    """

    range = (0.0, 1.0)
    name: str = "argument_disagreement"
    label: str = "disagreement of arguments with the twin's"
    unit = "arguments in 100 that are not the twin's"
    reads = "calls"
    better: Better = "lower"
    counterfactual = True
    """Any rewording may change an answer, so without a placebo nothing is claimed."""
    columns = ("argument_disagreement_differ", "argument_disagreement_arguments")
    signature: str = "arguments of calls in order, as values, API name included"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Return the number of arguments that differ, and the number of arguments on either side."""
        differ = total = 0
        malformed = ({MALFORMED: True},)
        sides = (malformed if side.calls is None else side.calls for side in (turn, turn.twin or turn))
        for call, other in zip_longest(*sides, fillvalue={}):
            names = call.keys() | other.keys()
            total += len(names)
            differ += sum(name not in call or name not in other or call[name] != other[name] for name in names)
        return differ, total
