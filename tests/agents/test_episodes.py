"""ParlAI's episodes as dialogues, and back."""

from __future__ import annotations

import dataclasses

import pytest
from parlai.core.tod.tod_core import TodStructuredEpisode, TodStructuredRound
from sgd_files import DIALOGUES

from tod_bias.agents.episodes import dialogue_to_episode, rewritten_episode
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.parlai_episodes import episode_to_dialogue
from tod_bias.perturb import draw_rewrites, load_axis

pytestmark = pytest.mark.parlai


def first_results(dialogue: Dialogue) -> Dialogue:
    """The dialogue as ParlAI knows it."""
    turns = tuple(Turn.with_call(turn.user, turn.api_call, turn.api_result, turn.response) for turn in dialogue.turns)
    return dataclasses.replace(dialogue, turns=turns)


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda dialogue: dialogue.id)
def test_a_dialogue_becomes_an_episode_and_back(dialogue):
    episode = dialogue_to_episode(dialogue)
    assert [spoken.user_utt for spoken in episode.rounds][-1] == "[DONE]"
    assert len(episode.rounds) == len(dialogue.turns) + 1
    assert episode.goal_calls_machine == [turn.api_call for turn in dialogue.turns if turn.api_call]
    assert episode_to_dialogue(episode) == first_results(dialogue)


def test_values_that_are_no_strings_become_parlais_text():
    call = {"api_name": "find", "areas": ["west", "east "]}
    result = {"COUNT": 3, "price": {"single": "60"}, "rooms": {"b", "a"}}
    spoken = TodStructuredRound(user_utt="a", api_call_machine=call, api_resp_machine=result, sys_utt="b")
    episode = TodStructuredEpisode(domain="hotel", rounds=[spoken])
    call = {"api_name": "find", "areas": "east, west"}
    result = {"COUNT": "3", "price": "{'single': '60'}", "rooms": "a, b"}
    assert episode_to_dialogue(episode, "h1") == Dialogue("h1", "hotel", (Turn.with_call("a", call, result, "b"),))


def test_a_rewritten_episode_is_the_rewritten_dialogue_with_its_goals():
    turn = Turn.with_call(
        "For my mom.", {"api_name": "Send", "recipient_name": "Mom"}, {"recipient_name": "Mom"}, "Her turn."
    )
    dialogue = Dialogue("d", "Bank", (turn,))
    episode = dialogue_to_episode(dialogue)
    episode.api_schemas_machine = [{"api_name": "Send", "reqArg": ["recipient_name"]}]
    perturber = load_axis("gender", targets=["man"])
    rewrite = draw_rewrites(perturber, dialogue)[0]
    rewritten = rewritten_episode(episode, rewrite(episode_to_dialogue(episode)), rewrite)
    assert episode_to_dialogue(rewritten) == rewrite(dialogue)
    assert rewritten.goal_calls_machine == [{"api_name": "Send", "recipient_name": "Dad"}]
    assert rewritten.goal_calls_utt == "api_name = Send ; recipient_name = Dad"
    assert rewritten.api_schemas_machine == episode.api_schemas_machine
    assert rewritten.extras["rewrite"] == {"axis": "gender", "source": "woman", "target": "man", "term": rewrite.word}
    texts = [rewritten.rounds[0].user_utt, *rewritten.rounds[0].api_call_machine.values()]
    assert {type(text) for text in texts} == {str}
    assert episode_to_dialogue(episode) == dialogue
