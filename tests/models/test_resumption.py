"""Trainings that are stopped, killed or diverge, and what is gone on from."""

import hashlib
import math
import multiprocessing
import os
import pickle
import shutil
import time
from pathlib import Path

import pytest
import torch
from builders import Touch, small_corpus, stopping_at

from tod_bias.errors import DivergedError, ModelError
from tod_bias.models import trainer
from tod_bias.models.settings import TrainConfig
from tod_bias.models.training import train

SETTINGS = TrainConfig(
    layers=1, width=16, heads=2, vocabulary=300, epochs=2, batch=4, evaluations=2, patience=9, dropout=0.3
)
LATER = SETTINGS.model_copy(update={"epochs": 3})
PER_EPOCH = 6
"""Steps."""


def go_on(folder, settings=SETTINGS, **options):
    return train(small_corpus(), small_corpus()[:4], folder, settings, **options)


def weights(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def stopped_at(folder, checkpoint):
    with stopping_at(checkpoint):
        go_on(folder)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a training that nothing stopped, and its record."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, go_on(folder)


@pytest.fixture(scope="module")
def at_third_checkpoint(tmp_path_factory):
    return stopped_at(tmp_path_factory.mktemp("third") / "cut", 3)


@pytest.fixture
def stopped(tmp_path, at_third_checkpoint):
    return Path(shutil.copytree(at_third_checkpoint, tmp_path / "cut"))


def test_a_resumed_training_gives_the_very_weights_of_a_whole_one(stopped, whole):
    folder, record = whole
    assert go_on(stopped) == record
    assert weights(stopped) == weights(folder)
    assert not (stopped / "checkpoint").exists()


def checkpoints(folder):
    """The names of the checkpoints in a folder whose training another process may be moving on with."""
    try:
        return set(os.listdir(folder / "checkpoint"))
    except FileNotFoundError:
        return set()


def test_killed_again_and_again_a_training_ends_with_the_weights_of_a_whole_one(tmp_path, whole):
    for kills in range(2):
        process = multiprocessing.get_context("fork").Process(target=go_on, args=(tmp_path / "cut",))
        process.start()
        before = checkpoints(tmp_path / "cut")
        while process.is_alive() and not checkpoints(tmp_path / "cut") - before:
            time.sleep(0.001)  # until one more checkpoint is being written
        time.sleep(0.003 * kills)
        process.kill()
        process.join()
    go_on(tmp_path / "cut")
    assert weights(tmp_path / "cut") == weights(whole[0])


def test_a_training_that_was_killed_when_all_was_done_trains_no_more(tmp_path, monkeypatch, whole):
    with monkeypatch.context() as patch:
        patch.setattr("tod_bias.models.training.finish", lambda folder: None)
        go_on(tmp_path / "m")
        patch.setattr(trainer.Trainer, "training_step", None)
        assert go_on(tmp_path / "m") == whole[1]
    trainer.finish(tmp_path / "m")


def test_a_checkpoint_of_other_settings_is_left_alone(stopped):
    with pytest.raises(ModelError, match="belongs to a training with other settings"):
        go_on(stopped, LATER)
    assert go_on(stopped, LATER, resume=False)["steps"] == 3 * PER_EPOCH


@pytest.mark.parametrize(
    ("name", "content"), [("optimizer.pt", None), ("scheduler.pt", b"0" * 50), ("model.safetensors", b"0" * 50)]
)
def test_a_damaged_checkpoint_is_named_in_one_line_that_says_what_to_do(stopped, name, content):
    (path,) = (stopped / "checkpoint" / "checkpoint-6").glob(name)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"^[^\n]*checkpoint-6[^\n]*remove it, or train anew with --no-resume[^\n]*$"):
        go_on(stopped)


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_checkpoint_of_a_stranger_runs_nothing(tmp_path, stopped, name):
    path = stopped / "checkpoint" / "checkpoint-6" / name
    for content in (pickle.dumps(Touch(tmp_path / "ran"), protocol=2), None):
        if content is None:
            torch.save(Touch(tmp_path / "ran"), path)
        else:
            path.write_bytes(content)
        with pytest.raises(ModelError, match="checkpoint-6"):
            go_on(stopped)
    assert not (tmp_path / "ran").exists()


def poison(monkeypatch, step):
    """Let the loss of a step be infinite."""
    compute, calls = trainer.Trainer.compute_loss, []

    def poisoned(self, model, inputs, *arguments, **options):
        calls.append(model.training)
        loss = compute(self, model, inputs, *arguments, **options)
        return loss * math.inf if model.training and sum(calls) == step else loss

    monkeypatch.setattr(trainer.Trainer, "compute_loss", poisoned)


def test_a_training_that_diverges_leaves_no_model_and_says_so(tmp_path, monkeypatch):
    poison(monkeypatch, 5)
    with pytest.raises(DivergedError, match=r"before step \d+ \(loss (inf|nan)\); no model.*--learning-rate"):
        go_on(tmp_path / "m")
    assert not list((tmp_path / "m").glob("*.safetensors"))
