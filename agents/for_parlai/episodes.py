"""ParlAI's episodes as dialogues, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parlai.core.tod.tod_core import SerializationHelpers, TodStructuredEpisode, TodStructuredRound

from tod_bias.agents.protocol import value_to_parlai
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.parlai_episodes import DIALOGUE_ID, episode_to_dialogue, slot_texts
from tod_bias.systems.twin import Rewrite


def dialogue_to_episode(dialogue: Dialogue, template: TodStructuredEpisode | None = None) -> TodStructuredEpisode:
    """A dialogue as an episode, to which ParlAI adds its ``[DONE]`` round.

    A round of ParlAI holds one call: of a turn with several steps it is the first.

    Args:
        template: where API schemas, goals and extras are taken from; without it the goals are the dialogue's calls.
    """
    rounds = [
        TodStructuredRound(
            user_utt=value_to_parlai(turn.user),
            api_call_machine=_plain_slots(turn.api_call),
            api_resp_machine=_plain_slots(turn.api_result),
            sys_utt=value_to_parlai(turn.response),
            extras=dict(template.rounds[number].extras) if template else {},
        )
        for number, turn in enumerate(dialogue.turns)
    ]
    goals = [_plain_slots(turn.api_call) for turn in dialogue.turns if turn.api_call]
    return TodStructuredEpisode(
        domain=dialogue.domain,
        api_schemas_machine=template.api_schemas_machine if template else [],
        goal_calls_machine=template.goal_calls_machine if template else goals,
        rounds=rounds,
        extras={**(template.extras if template else {}), DIALOGUE_ID: dialogue.id},
    )


def as_shown(dialogue: Dialogue, episode: TodStructuredEpisode) -> Dialogue:
    """The dialogue, with all of its results, where the episode has its texts; else what the episode has.

    Options of a task change texts (``--delex``), and the texts that are shown are those to rewrite.
    """
    is_shown = _texts(dialogue_to_episode(dialogue)) == _texts(episode)
    return dialogue if is_shown else episode_to_dialogue(episode, dialogue.id)


def _texts(episode: TodStructuredEpisode) -> list[tuple[str, ...]]:
    return [(turn.user_utt, turn.api_call_utt, turn.api_resp_utt, turn.sys_utt) for turn in episode.rounds]


def rewritten_episode(
    episode: TodStructuredEpisode, dialogue: Dialogue, rewrite: Rewrite | None
) -> TodStructuredEpisode:
    """The episode of a rewritten dialogue; ``extras["rewrite"]`` names T.

    Args:
        episode: the dialogue as it was; its API schemas stay, its user's goals are rewritten.
        dialogue: rewritten.
        rewrite: T; None for an introduction without one.
    """
    rewritten = dialogue_to_episode(dialogue, episode)
    if rewrite is not None:
        goals = [_plain_slots(rewrite(slot_texts(goal))) for goal in episode.goal_calls_machine]
        rewritten.goal_calls_machine = goals
        rewritten.goal_calls_utt = SerializationHelpers.list_of_maps_to_str(goals)
        rewritten.extras["rewrite"] = rewrite_fields(rewrite)
    return rewritten


def rewrite_fields(rewrite: Rewrite) -> dict[str, str]:
    """The fields of every message that name its dialogue's rewrite."""
    return {"axis": rewrite.axis, "source": rewrite.source, "target": rewrite.target, "term": rewrite.word}


def _plain_slots(slots: Mapping[str, Any]) -> dict[str, str]:
    return {name: value_to_parlai(value) for name, value in slots.items()}
