"""ParlAI's teachers with rewritten dialogues: the ones that the core makes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from sgd_files import DIALOGUES, write_sgd
from shown import teacher_of

from tod_bias import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.parlai_episodes import episode_to_dialogue
from tod_bias.errors import AxisError, CorpusError, NothingToPerturbError
from tod_bias.perturb import draw_rewrites, load_axis

pytestmark = pytest.mark.parlai

TASK = "tod_bias.agents:PerturbedGoogleSgdTeacher"


def core_dialogues(dialogues: list[Dialogue], axis: str, seed: int, draw: int, **only: Any) -> list[Dialogue]:
    """What the core makes of a corpus, as far as ParlAI shows it: first results only, in order of ids."""
    perturber = load_axis(axis, **only)
    rewritten = []
    for dialogue in sorted(dialogues, key=lambda dialogue: dialogue.id):
        for rewrite in draw_rewrites(perturber, dialogue, 3, seed)[draw : draw + 1]:
            twin = rewrite(dialogue)
            turns = tuple(
                Turn.with_call(turn.user, turn.api_call, turn.api_result, turn.response) for turn in twin.turns
            )
            rewritten.append(dataclasses.replace(twin, turns=turns))
    return rewritten


@pytest.mark.parametrize(
    ("axis", "seed", "draw", "source", "target"),
    [
        ("gender", 0, 0, None, None),
        ("gender", 0, 2, None, None),
        ("gender", 7, 1, None, None),
        ("gender", 0, 0, None, "man"),
        ("gender", 0, 1, "man", "woman"),
    ],
)
def test_dialogues_are_those_of_the_core(datapath, axis, seed, draw, source, target):
    options = {name: value for name, value in (("source", source), ("target", target)) if value}
    teacher = teacher_of(datapath, TASK, axis=axis, seed=seed, draw=draw, **options)
    only = {f"{name}s": [value] for name, value in options.items()}
    expected = core_dialogues(list(DIALOGUES), axis, seed, draw, **only)
    assert [episode_to_dialogue(episode) for episode in teacher.episodes] == expected
    assert all(dialogue.id != "10_00002" for dialogue in expected)  # nobody is mentioned there


def test_messages_say_which_dialogue_and_rewrite_they_are_of(datapath):
    teacher = teacher_of(datapath, TASK, target="man")
    messages = list(teacher)
    assert len(messages) == teacher.num_examples() == sum(2 * len(episode.rounds) + 1 for episode in teacher.episodes)
    first = messages[0]
    assert (first["text"], first["dialogue_id"], first["axis"]) == ("APIS: ", "9_00001", "gender")
    assert (first["source"], first["target"]) == ("woman", "man")
    assert first["term"] in ("wife", "she")
    assert messages[1]["text"] == "USER: My husband wants tacos."
    assert messages[2]["eval_labels"] == ("SYSTEM: In which city does he want them?",)
    assert {message["dialogue_id"] for message in messages} == {"9_00001", "9_00010"}
    assert next(iter(teacher_of(datapath, TASK, "train:ordered")))["labels"] == ("APIS: ",)


def test_a_corpus_that_cannot_be_read_is_one_clear_error(tmp_path, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("Connection broken too many times.")

    monkeypatch.setattr("parlai.core.build_data.download", fails)
    with pytest.raises(CorpusError, match=r"google_sgd: not under the datapath .*Connection broken"):
        teacher_of(tmp_path / "empty", TASK)
    folder = write_sgd(tmp_path / "damaged")
    (folder / "google_sgd" / "dev" / "dialogues_001.json").write_text("[{")
    with pytest.raises(CorpusError, match=r"google_sgd.*cannot read it"):
        teacher_of(folder, TASK)


def test_the_option_seed_of_another_script_is_left_to_it(datapath):
    from parlai.scripts.train_model import setup_args

    opt = setup_args().parse_kwargs(task=TASK, datapath=str(datapath), model="repeat_label", axis="age", draw=2)
    assert (opt["axis"], opt["draw"], opt["seed"], opt["target"]) == ("age", 2, None, None)


@pytest.mark.parametrize(
    ("options", "error", "expected"),
    [
        ({"axis": "height"}, AxisError, "unknown axis 'height'"),
        ({"target": "tall"}, AxisError, "has no group 'tall'"),
        ({"draw": -1}, AxisError, "--draw must be 0 or more, got -1"),
        ({"axis": "age", "source": "senior"}, NothingToPerturbError, "none of 4 dialogues"),
        ({"datatype": "test"}, CorpusError, "google_sgd.*cannot read it"),
    ],
)
def test_wrong_input_is_one_clear_error(datapath, options, error, expected):
    with pytest.raises(error, match=expected) as caught:
        teacher_of(datapath, TASK, **options)
    assert "\n" not in str(caught.value)


def test_taskmaster_2_keeps_its_ids(tmp_path):
    folder = tmp_path / "taskmaster-2"
    folder.mkdir()
    (folder / ".built").write_text("2026-01-01\n1.1")
    said = ("My mother wants music.", "What does she like?")
    spoken = [
        {"index": number, "speaker": speaker, "text": text}
        for number, (speaker, text) in enumerate(zip(("USER", "ASSISTANT"), said, strict=True))
    ]
    rows = [{"conversation_id": f"dlg-{n}", "instruction_id": "i", "utterances": spoken} for n in range(20)]
    (folder / "music.json").write_text(json.dumps(rows))
    (folder / "music.onto.json").write_text(json.dumps({"music": []}))
    task = "tod_bias.agents:PerturbedTaskmaster2Teacher"
    teacher = teacher_of(tmp_path, task, taskmaster2_domains=["music"], target="man")
    stock = {row["conversation_id"] for row in rows}
    dialogues = [episode_to_dialogue(episode) for episode in teacher.episodes]
    assert [dialogue.turns[0].user for dialogue in dialogues] == ["My father wants music."] * 2
    assert len({dialogue.id for dialogue in dialogues} & stock) == 2


@pytest.mark.real_data
@pytest.mark.slow
def test_real_dialogues_are_those_of_the_core(sgd_datapath):
    teacher = teacher_of(sgd_datapath, TASK, axis="age", seed=1, draw=1)
    dialogues = load_corpus("google_sgd", datapath=sgd_datapath, split="valid")
    assert [episode_to_dialogue(episode) for episode in teacher.episodes] == core_dialogues(dialogues, "age", 1, 1)
    assert 50 < len(teacher.episodes) < len(dialogues)
