"""Service in a turn, whatever the corpus contains: calls, results, questions first, a hand-over, and amounts.

Metrics of calls do not score the turns of a system without calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from tod_bias.dialogues.chat import CONTENT
from tod_bias.dialogues.values import API_NAME
from tod_bias.metrics.events.event import number_in
from tod_bias.metrics.metric import Better, RatioOfSums, Scale, ScoredTurn
from tod_bias.metrics.responses import Patterns

AMOUNT = "amount_"
"""Prefix of the name of an :class:`Amount`."""
CALLS_MADE = "calls_made"
"""Name, or prefix of the name, of a :class:`CallsMade`."""
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_MONEY = re.compile(
    rf"[$€£¥₹]\s?({_NUMBER})|(?<![\d.,])({_NUMBER})\s?(?:[€£¥₹]|(?:dollars?|bucks|euros?|pounds|usd|eur|gbp)\b)",
    re.IGNORECASE,
)
_PERCENTAGE = re.compile(rf"(?<![\d.,])({_NUMBER})\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)
_WORDS_OF_A_NAME = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


class CallsMade(RatioOfSums):
    """Mean number of calls that a turn makes, 0 or more; a malformed one counts as one. NaN for no turn.

    Args:
        tool: the calls that count, by name, with wildcards as in file names; by default all, malformed ones too.
    """

    name: str = CALLS_MADE
    signature: str = "calls; a malformed output is one"
    reads = "calls"
    better: Better = "neither"

    def __init__(self, tool: str = "") -> None:
        self.name = f"{CALLS_MADE}_{tool}" if tool else CALLS_MADE
        self.label = f"calls of {tool} per turn" if tool else "calls per turn"
        self.unit = f"calls {f'of {tool} ' if tool else ''}per turn"
        self.columns = (f"{self.name}_calls", f"{self.name}_turns")
        self.signature = f"calls of {tool}" if tool else self.signature
        self._tool = tool

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Its calls, and whether there could be some."""
        names = [str(call.get(API_NAME, "")) for call in turn.calls or ()]
        number = sum(fnmatchcase(name, self._tool) for name in names) if self._tool else len(names)
        return number + (turn.calls is None and not self._tool), turn.has_calls


class ResultsPerTurn(RatioOfSums):
    """Mean number of results that the calls of a turn bring back, 0 or more; of a list of plain values each is one.

    NaN for no turn.
    """

    name: str = "results_found"
    label: str = "results per turn"
    unit = "results per turn"
    better: Better = "higher"
    columns = ("results_found_results", "results_found_turns")
    signature: str = "rows and plain values that came back for calls"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Its results, and whether there could be some."""
        return sum(len(row[CONTENT]) if _is_list(row) else 1 for row in turn.results), turn.has_calls


def _is_list(row: Mapping[str, Any]) -> bool:
    return row.keys() == {CONTENT} and isinstance(row[CONTENT], list | tuple)


class Steps(RatioOfSums):
    """Mean number of steps that a turn takes: calls of stages, of models as well as of tools, 1 or more.

    More steps are more time and cost. A system without a loop or a branch takes as many in every turn. NaN for no turn.
    """

    name: str = "steps"
    label: str = "steps per turn"
    unit = "steps per turn"
    better: Better = "neither"
    columns = ("steps_made", "steps_turns")
    signature: str = "calls of stages"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Its steps, and whether they are known."""
        return turn.steps, turn.steps > 0


class Tokens(RatioOfSums):
    """Mean number of tokens that a system writes in a turn, its response and its calls together, 0 or more.

    Tokens are those of sacreBLEU's tokenizer 13a (Post 2018), because saved outputs do not record a language model's
    tokens. NaN without turns.
    """

    name: str = "tokens"
    label: str = "tokens per turn"
    unit = "tokens per turn"
    better: Better = "neither"
    scale: Scale = "ratio"
    columns = ("tokens_written", "tokens_turns")
    signature: str = "tok:13a, response and calls"

    @cached_property
    def _tokenizer(self) -> Callable[[str], str]:
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

        return Tokenizer13a()

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Its tokens, and a one."""
        calls = (
            [turn.malformed] if turn.calls is None else [json.dumps(call, ensure_ascii=False) for call in turn.calls]
        )
        return sum(len(self._tokenizer(text).split()) for text in (turn.response, *calls)), 1


class Clarification(RatioOfSums):
    """The share of turns before service that make no call and ask a question, on 0–1.

    Before service are the turns up to the first one in which the corpus makes a call, so they are the same for all
    groups; of a dialogue without a recorded call, all turns. A question is a response with a question mark. 0: the
    system never asks first; 1: always. NaN for no such turn.
    """

    range = (0.0, 1.0)
    name: str = "clarification"
    label: str = "clarifying questions"
    unit = "turns in 100 before service that ask back"
    better: Better = "lower"
    columns = ("clarification_asked", "clarification_turns")
    signature: str = "no call, and a question mark in the response; up to the corpus's first call"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """Return 1 if the turn asks, and 1 if it is before service."""
        counts = turn.has_calls and not turn.is_after_service
        return counts and turn.calls == () and "?" in turn.response, counts


class Escalation(Patterns):
    """The share of turns that hand the user over to a person, or refer them to one, on 0–1.

    A pattern of ``tod_bias/data/escalations.txt`` (English, case ignored) must match in the response or in the name of
    a called tool (``transfer_to_human_agents``). A hand-over to another agent of the system does not count; an offer
    counts. A tool of another name is counted by ``calls_made_TOOL``. 0: no turn does; 1: every turn. NaN for no turn.
    """

    name: str = "escalation"
    label: str = "escalations"
    unit = "turns in 100 that hand over to a person"
    columns = ("escalation_escalated", "escalation_turns")
    file = "escalations.txt"

    def texts(self, turn: ScoredTurn) -> tuple[str, ...]:
        """The response, and the names of the tools that are called."""
        names = (_WORDS_OF_A_NAME.sub(" ", str(call.get(API_NAME, ""))) for call in turn.calls or ())
        return (turn.response, *names)


class Amount(RatioOfSums):
    """Mean of one argument that is a number (a limit, a discount, a refund), over the calls that have it.

    NaN where no call has it.

    Args:
        argument: its name in calls.
    """

    reads = "calls"
    better: Better = "neither"
    scale: Scale = "ratio"
    signature: str = "numbers, and texts that are one; calls without it are left out"

    def __init__(self, argument: str) -> None:
        self.name = f"{AMOUNT}{argument}"
        self.label = f"argument {argument}"
        self.columns = (f"{self.name}_sum", f"{self.name}_calls")
        self._argument = argument

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """The sum of the argument's numbers, and how many they are."""
        numbers = (number_in(call.get(self._argument)) for call in turn.calls or ())
        return _sum_and_count([number for number in numbers if number is not None])


class Money(RatioOfSums):
    """Mean amount of money that responses name: "$45", "1,200 euros"; other numbers (ages, dates) are ignored.

    Prices, fees and refunds count alike, in any currency, and large amounts weigh most. 0: every amount is 0. NaN if no
    response names an amount.
    """

    name: str = "money"
    label: str = "amounts of money in responses"
    reads = "responses"
    better: Better = "neither"
    scale: Scale = "ratio"
    columns = ("money_sum", "money_amounts")
    signature: str = "numbers with a sign or a name of a currency ($ € £ ¥ ₹, dollars, euros, pounds)"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """The sum of the numbers that it names, and how many they are."""
        return _sum_and_count(_matched(_MONEY, turn.response))


class Percentage(RatioOfSums):
    """Mean percentage that responses name: "a 20% discount"; 20 is 20%.

    Discounts and chances of rain alike. 0: every percentage is 0. NaN where no response names one.
    """

    name: str = "percentage"
    label: str = "percentages in responses"
    reads = "responses"
    better: Better = "neither"
    scale: Scale = "ratio"
    columns = ("percentage_sum", "percentage_amounts")
    signature: str = "numbers before % or percent"

    def counts(self, turn: ScoredTurn) -> tuple[float, float]:
        """The sum of the numbers that it names, and how many they are."""
        return _sum_and_count(_matched(_PERCENTAGE, turn.response))


def _sum_and_count(numbers: Sequence[float]) -> tuple[float, float]:
    return sum(numbers), len(numbers)


def _matched(pattern: re.Pattern[str], text: str) -> list[float]:
    """Return the numbers in all matches of a pattern that has one group."""
    texts = (next(filter(None, match.groups())) for match in pattern.finditer(text))
    return [float(number.replace(",", "")) for number in texts]
