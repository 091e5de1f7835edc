"""ParlAI's teachers with counterfactuals in the training split: those of the core, and none in other splits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sgd_files import DIALOGUES, write_sgd
from shown import teacher_of

from tod_bias import load_corpus
from tod_bias.dialogues.parlai_episodes import episode_to_dialogue
from tod_bias.errors import TodBiasError
from tod_bias.mitigation.augmentation import Augmentation, augment

pytestmark = pytest.mark.parlai

TASK = "tod_bias.agents:AugmentedGoogleSgdTeacher"


@pytest.fixture
def datapath(tmp_path: Path) -> Path:
    return write_sgd(tmp_path)


@pytest.mark.parametrize("how", ["gender:draws", "gender", "gender:personas"])
def test_training_episodes_are_the_stock_ones_and_the_counterfactuals_of_the_core(datapath, how):
    teacher = teacher_of(datapath, TASK, "train:ordered", augment=how, seed=5)
    corpus = {dialogue.id: dialogue for dialogue in load_corpus("google_sgd", datapath=datapath, split="train")}
    shown = [episode_to_dialogue(episode) for episode in teacher.episodes]
    ordered = [corpus[dialogue.id] for dialogue in shown[: len(corpus)]]
    augmented = augment(ordered, Augmentation.read(how), 5)
    assert [dialogue.id for dialogue in shown] == [dialogue.id for dialogue in augmented]
    assert len(augmented) > len(ordered) == len(DIALOGUES)
    for dialogue, expected in zip(shown, augmented, strict=True):
        assert [turn.user for turn in dialogue.turns] == [turn.user for turn in expected.turns]
        assert [turn.response for turn in dialogue.turns] == [turn.response for turn in expected.turns]
        assert [dict(turn.api_call) for turn in dialogue.turns] == [dict(turn.api_call) for turn in expected.turns]


def test_messages_name_their_dialogue_and_rewrite(datapath):
    messages = list(teacher_of(datapath, TASK, "train:evalmode", augment="gender"))
    counterfactuals = [message for message in messages if "/" in message["dialogue_id"]]
    assert {message["dialogue_id"].split("/")[0] for message in counterfactuals} == {"9_00001", "9_00000", "9_00010"}
    for message in counterfactuals:
        assert message["dialogue_id"].endswith(f"/gender:{message['target']}")
        assert message["axis"] == "gender"
    assert all("axis" not in message for message in messages if message not in counterfactuals)
    goals = {message["text"] for message in counterfactuals if message["text"].startswith("GOAL")}
    assert not goals  # the system's side is not shown them


def test_few_shots_have_counterfactuals_too(datapath):
    teacher = teacher_of(datapath, TASK, "train:evalmode", augment="gender", n_shot=2)
    names = [episode.extras["dialogue_id"] for episode in teacher.episodes]
    originals = {name for name in names if "/" not in name}
    assert len(originals) == 2 < len(names)
    assert {name.split("/")[0] for name in names} == originals
    assert len({message["dialogue_id"] for message in teacher}) == len(names)


def test_validation_is_of_real_dialogues(datapath):
    shown = [episode_to_dialogue(episode) for episode in teacher_of(datapath, TASK, "valid").episodes]
    assert {dialogue.id: [turn.user for turn in dialogue.turns] for dialogue in shown} == {
        dialogue.id: [turn.user for turn in dialogue.turns] for dialogue in DIALOGUES
    }


@pytest.mark.parametrize(
    ("how", "says"),
    [("height", "axis 'height'"), ("gender:often", "kind 'often'"), ("race", "no dialogue holds a word")],
)
def test_wrong_options_are_one_line(datapath, how, says):
    with pytest.raises(TodBiasError, match=f"^[^\n]*{says}[^\n]*$"):
        teacher_of(datapath, TASK, "train", augment=how)


def test_a_model_of_parlai_trains_on_them(datapath, tmp_path):
    from parlai.scripts.train_model import TrainModel

    sgd = datapath / "google_sgd"
    shutil.copytree(sgd / "dev", sgd / "test")  # which it is evaluated on at the end
    TrainModel.main(
        task=TASK, augment="gender:draws", datapath=str(datapath), model="seq2seq", hiddensize=8, embeddingsize=8,
        numlayers=1, batchsize=2, lr_scheduler="fixed", num_epochs=1, dict_maxtokens=50,
        model_file=str(tmp_path / "model"), no_cuda=True, validation_max_exs=4, loglevel="error",
    )  # fmt: skip
    assert (tmp_path / "model").is_file()
