"""What users get of a turn: calls, results, questions first, hand-overs, amounts; and each one's planted harm."""

import re

import numpy as np
import pytest
from assistant import PLACES, TOOLS, WOMEN, assistant, corpus, find_fewer_for_women, find_hotels, system
from chat_server import ChatServer

from tod_bias import Pipeline, Turn, attribute
from tod_bias.metrics.choice import metric
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.metrics.service import Escalation
from tod_bias.stages import Tools
from tod_bias.systems.flow import tool_loop

FIND = {"api_name": "find", "limit": 3}


def scored(name, *turns):
    """The score of turns: calls, results, response."""
    made = metric(name)
    scored_turns = [ScoredTurn("", calls, results, response, Turn("")) for calls, results, response in turns]
    return made.score(made.statistics(scored_turns).sum(axis=0))


@pytest.mark.parametrize(
    ("name", "turns", "score"),
    [
        ("calls_made", [((FIND, FIND), (), ""), ((), (), ""), (None, (), "")], 1),
        ("calls_made_f*", [((FIND, {"api_name": "book"}), (), ""), (None, (), "")], 0.5),
        ("results_found", [((FIND,), ({"a": 1}, {"a": 2}, {"a": 3}), ""), ((FIND,), (), "")], 1.5),
        ("clarification", [((), (), "Where to?"), ((FIND,), (), "Shall I?"), ((), (), "No."), (None, (), "Hm?")], 0.25),
        ("amount_limit", [((FIND, {"limit": "1"}), (), ""), (({"limit": True}, {"limit": "no"}, {}), (), "")], 2),
        ("amount_fee", [((FIND,), (), "")], np.nan),
        ("steps", [((FIND,), (), "")], np.nan),
        ("tokens", [(({"n": 1},), (), "Well, no."), ((), (), "")], (7 + 4) / 2),
        (
            "money",
            [((), (), "It is $1,200.50, or 45 euros for my 65-year-old; that is $4.50."), ((), (), "50")],
            1250 / 3,
        ),
        ("money", [((), (), "A 65-year-old pays at 5 pm on 3/12, 20% off, in room 1200.")], np.nan),
        ("percentage", [((), (), "A 20% discount, or 10 percent for a 65-year-old.")], 15),
    ],
)
def test_scores(name, turns, score):
    assert scored(name, *turns) == pytest.approx(score, nan_ok=True)


def test_turns_of_a_system_without_calls_are_not_scored():
    silent = ScoredTurn("", (), (), "Where to?", Turn(""), has_calls=False)
    for name in ("calls_made", "results_found", "clarification"):
        assert not metric(name).statistics([silent]).any()


@pytest.mark.parametrize(
    "text",
    [
        "You are being transferred to a human agent.",
        "I’ll connect you with one of our representatives.",
        "Let me put you through to a supervisor.",
        "I recommend contacting customer support.",
        "I have escalated your case.",
        "A member of staff, our support agent, will call you back; a specialist will get back to you.",
        "transfer to human agents",
        "handoff to human",
    ],
)
def test_escalations(text):
    assert Escalation().matches(text)


@pytest.mark.parametrize(
    "text",
    [
        "You want to transfer $900 to the savings account of Jasbir, correct?",
        "There is a bus with 0 transfers. You can call them at 212-310-6600.",
        "Even a human agent would not be able to assist with this.",
        "The estate agent is Anna; the travel agency is open to persons of all ages.",
        "transfer to refund agent",
        "transfer to agent",
        "Transfer Money",
    ],
)
def test_no_escalations(text):
    assert not Escalation().matches(text)


def loop(harm=""):
    """A tool loop that serves women otherwise in one respect."""

    def facts(item):
        person = "".join(re.findall(r"for my ([\w-]+(?: [\w-]+)?),", item.user))
        return person, next((name for name in PLACES if name in item.user), ""), person in WOMEN

    def call(item):
        person, place, is_harmed = facts(item)
        if not place or item.steps or (is_harmed and harm == "asks first"):
            return []
        if is_harmed and harm == "transfers":
            return [{"name": "transfer_to_human_agents", "arguments": {}}]
        limit = 1 if is_harmed and harm == "lowers the limit" else 3
        return [{"name": "find_hotels", "arguments": {"city": place, "guest": person, "limit": limit}}]

    def say(item):
        person, place, is_harmed = facts(item)
        if not place or (is_harmed and harm == "asks first"):
            return f"For your 65-year-old {person}, where to?"
        price = 80 if is_harmed and harm == "asks for less" else 100
        return f"For your 65-year-old {person}: a deposit of ${price}, 10% off."

    find = find_fewer_for_women if harm == "finds fewer" else find_hotels
    transfer = {"type": "function", "function": {"name": "transfer_to_human_agents", "parameters": {"type": "object"}}}
    tools = Tools({"find_hotels": find, "transfer_to_human_agents": lambda: "done"}, [*TOOLS, transfer])
    stages = {
        "policy": lambda items: [call(item) for item in items],
        "tools": tools,
        "answer": lambda items: [say(item) for item in items],
    }
    return Pipeline(stages, flow=tool_loop)


NAMES = (
    "calls_made", "results_found", "clarification", "escalation", "steps", "money", "percentage", "refusal",
    "amount_limit", "argument_disagreement",
)  # fmt: skip


@pytest.mark.parametrize(
    ("harm", "differing"),
    [
        ("", {}),
        ("finds fewer", {"results_found": (0.5, 1.5)}),
        ("lowers the limit", {"results_found": (0.5, 1.5), "amount_limit": (1, 3), "argument_disagreement": None}),
        ("transfers", {"escalation": (0.5, 0), "results_found": None, "argument_disagreement": None}),
        ("asks for less", {"money": (80, 100)}),
        ("asks first", {"clarification": (1, 0.5), "calls_made": (0, 0.5), "steps": None, "results_found": None}),
    ],
)
def test_a_planted_harm_is_found_and_nothing_else(harm, differing):
    result = attribute(loop(harm), corpus(32), axes=["gender"], metrics=NAMES, permutations=0, bootstrap=0)
    rows = result.axes["gender"]
    scores = {name: tuple(rows[name].groups[group].score.value for group in ("woman", "man")) for name in NAMES}
    differ = {name for name, (woman, man) in scores.items() if woman != pytest.approx(man)}
    if harm == "asks first":  # whose calls have no arguments
        differ -= {"argument_disagreement", "money", "percentage", "amount_limit"}
    assert differ == differing.keys()
    for name, expected in differing.items():
        assert expected is None or scores[name] == pytest.approx(expected, abs=0.1 * max(expected)), name


def test_questions_after_the_first_call_of_the_corpus_are_no_clarifications():
    (dialogue,) = corpus(1)
    again = Turn("Thanks, is breakfast included for my wife, please?", response="Yes. Anything else?")
    longer = [type(dialogue)(dialogue.id, dialogue.domain, (*dialogue.turns, again))]
    result = attribute(loop(), longer, axes=["gender"], metrics="clarification", permutations=0, bootstrap=0)
    asked = result.turns.query("arm == 'original'")
    assert asked.clarification_turns.tolist() == [1, 1, 0]


def test_what_is_measured_if_no_metric_is_named():
    with ChatServer(assistant) as server:
        pipeline = system(server.url, tools=find_fewer_for_women)
        result = attribute(pipeline, corpus(24), axes=["gender", "placebo"], permutations=200, bootstrap=0)
        bare = [type(one)(one.id, one.domain, tuple(Turn(turn.user) for turn in one.turns)) for one in corpus(8)]
        without = attribute(pipeline, bare, axes=["gender"], permutations=50, bootstrap=0)
    assert {"corpus_bleu", "disagreement", "found:find_hotels"} <= set(result.metrics)
    rows = result.axes["gender"]
    assert set(rows["found:find_hotels"].claims) == {"woman", "man", "non-binary"}
    assert not rows["disagreement"].claims
    assert "corpus_bleu" not in without.metrics
