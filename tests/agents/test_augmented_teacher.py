"""ParlAI's teachers with counterfactuals in the training split: those of the core, and none in other splits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sgd_files import DIALOGUES, write_sgd
from shown import teacher_of

from tod_bias import load_corpus
from tod_bias.dialogues.parlai import episode_to_dialogue
from tod_bias.errors import AxisError, TodBiasError
from tod_bias.mitigation.augmentation import Augmentation, augment

pytestmark = pytest.mark.parlai

TASK = "tod_bias.agents:AugmentedGoogleSgdTeacher"


@pytest.fixture
def datapath(tmp_path: Path) -> Path:
    return write_sgd(tmp_path)


@pytest.mark.parametrize("how", ["gender:draws", "gender", "gender:personas"])
def test_training_episodes_are_the_stock_ones_and_the_counterfactuals_of_the_core(datapath: Path, how: str) -> None:
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


def test_messages_name_their_dialogue_and_rewrite(datapath: Path) -> None:
    messages = list(teacher_of(datapath, TASK, "train:evalmode", augment="gender"))
    counterfactuals = [message for message in messages if "/" in message["dialogue_id"]]
    assert {message["dialogue_id"].split("/")[0] for message in counterfactuals} == {"9_00001", "9_00000", "9_00010"}
    for message in counterfactuals:
        assert message["dialogue_id"].endswith(f"/gender:{message['target']}")
        assert message["axis"] == "gender"
    assert all("axis" not in message for message in messages if message not in counterfactuals)
    goals = {message["text"] for message in counterfactuals if message["text"].startswith("GOAL")}
    assert not goals  # the system's side is not shown them


def test_few_shots_have_counterfactuals_too(datapath: Path) -> None:
    teacher = teacher_of(datapath, TASK, "train:evalmode", augment="gender", n_shot=2)
    names = [episode.extras["dialogue_id"] for episode in teacher.episodes]
    originals = {name for name in names if "/" not in name}
    assert len(originals) == 2 < len(names)
    assert {name.split("/")[0] for name in names} == originals
    assert len({message["dialogue_id"] for message in teacher}) == len(names)


@pytest.mark.parametrize("how", ["gender", "gender:personas"])
def test_counterfactuals_have_the_texts_that_a_task_s_options_make(datapath: Path, how: str) -> None:
    stock: dict[str, list[int]] = {}
    for episode in teacher_of(datapath, TASK, "train:ordered", augment=how, delex=True).episodes:
        name, _, variant = episode.extras["dialogue_id"].partition("/")
        places = [spoken.sys_utt.count("[") for spoken in episode.rounds]
        assert stock.setdefault(name, places) == places, variant
    assert max(map(max, stock.values())) > 0


def test_validation_is_of_real_dialogues(datapath: Path) -> None:
    shown = [episode_to_dialogue(episode) for episode in teacher_of(datapath, TASK, "valid").episodes]
    assert {dialogue.id: [turn.user for turn in dialogue.turns] for dialogue in shown} == {
        dialogue.id: [turn.user for turn in dialogue.turns] for dialogue in DIALOGUES
    }


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("height", AxisError, "unknown axis 'height'"),
        ("gender:often", TodBiasError, "unknown kind 'often'"),
        ("race", TodBiasError, "axis race: no dialogue holds a word"),
    ],
)
def test_wrong_options_are_one_line(datapath: Path, how: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        teacher_of(datapath, TASK, "train", augment=how)
    assert "\n" not in str(caught.value)


def test_a_model_of_parlai_trains_on_them(datapath: Path, tmp_path: Path) -> None:
    from parlai.scripts.train_model import TrainModel

    sgd = datapath / "google_sgd"
    shutil.copytree(sgd / "dev", sgd / "test")  # which it is evaluated on at the end
    TrainModel.main(
        task=TASK, augment="gender:draws", datapath=str(datapath), model="seq2seq", hiddensize=8, embeddingsize=8,
        numlayers=1, batchsize=2, lr_scheduler="fixed", num_epochs=1, dict_maxtokens=50,
        model_file=str(tmp_path / "model"), no_cuda=True, validation_max_exs=4, loglevel="error",
    )  # fmt: skip
    assert (tmp_path / "model").is_file()
