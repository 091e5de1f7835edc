import hashlib
import math
import multiprocessing
import pickle
import time

import numpy as np
import pytest
import torch
from builders import small_corpus

import tod_bias.models.training as training
from tod_bias.errors import DivergedError, ModelError
from tod_bias.models.settings import TrainConfig
from tod_bias.models.training import train
from tod_bias.models.trees import read_tree, write_tree

SETTINGS = TrainConfig(
    layers=1, width=16, heads=2, vocabulary=300, epochs=2, batch_tokens=512, evaluations=2, patience=9, dropout=0.3
)


class StoppedError(Exception):
    pass


def weights(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """The folder of a training that was stopped behind its second checkpoint."""
    save, calls = training.save_checkpoint, []

    def stop_after_two(*arguments):
        save(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise StoppedError

    monkeypatch.setattr(training, "save_checkpoint", stop_after_two)
    with pytest.raises(StoppedError):
        train(small_corpus(), small_corpus()[:4], tmp_path / "cut", SETTINGS)
    monkeypatch.setattr(training, "save_checkpoint", save)
    return tmp_path / "cut"


def go_on(folder, settings=SETTINGS, **options):
    return train(small_corpus(), small_corpus()[:4], folder, settings, **options)


def test_a_tree_comes_back_with_all_types_and_values(tmp_path):
    tied = torch.arange(6.0).reshape(2, 3)
    tree = {
        "state": {0: {"step": torch.tensor(3.0), "tied": tied, "same": tied, "turned": tied.T}},
        "plain": [1, 0.1 + 0.2, math.inf, "ü", None, True, (1, (2,)), np.float64(0.5), np.int64(4)],
        "random": np.random.get_state(),
        "bits": torch.get_rng_state(),
    }
    write_tree(tmp_path / "t", tree)
    found = read_tree(tmp_path / "t")
    assert found["plain"] == [1, 0.1 + 0.2, math.inf, "ü", None, True, (1, (2,)), 0.5, 4]
    state = found["state"][0]
    assert torch.equal(state["tied"], tied)
    assert torch.equal(state["same"], tied)
    assert torch.equal(state["turned"], tied.T)
    assert (found["random"][1] == tree["random"][1]).all()
    assert found["random"][1].dtype == np.uint32
    assert torch.equal(found["bits"], tree["bits"])


def test_what_is_neither_plain_nor_a_tensor_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="a state holds a set"):
        write_tree(tmp_path / "t", {"x": {1}})


def test_a_resumed_training_gives_the_very_weights_of_a_whole_one(tmp_path, stopped):
    whole = go_on(tmp_path / "whole")
    assert go_on(stopped) == whole
    assert weights(stopped) == weights(tmp_path / "whole")
    assert not (stopped / "checkpoint").exists()


def test_a_training_is_saved_between_validations_too(tmp_path, monkeypatch):
    whole = go_on(tmp_path / "whole")
    marks = {entry["step"] for entry in whole["losses"]}
    between = next(step for step in range(2, whole["steps"]) if step not in marks and step - 1 not in marks)
    save = training.save_checkpoint

    def stop_between(state, *arguments):
        save(state, *arguments)
        if state.progress.step == between:
            raise StoppedError

    monkeypatch.setattr(training, "SECONDS", 0.0)
    monkeypatch.setattr(training, "save_checkpoint", stop_between)
    with pytest.raises(StoppedError):
        train(small_corpus(), small_corpus()[:4], tmp_path / "cut", SETTINGS)
    monkeypatch.setattr(training, "save_checkpoint", save)
    assert go_on(tmp_path / "cut") == whole  # training losses too, which are means since the last validation
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_a_checkpoint_holds_safetensors_and_json_alone(stopped):
    names = sorted(path.relative_to(stopped / "checkpoint").as_posix() for path in (stopped / "checkpoint").rglob("*"))
    assert names == [
        "settings.json",
        "state",
        *(
            f"state/{name}"
            for name in ("random_0.json", "random_0.safetensors", "sums.json", "training.json", "training.safetensors")
        ),
    ]


def _remove(path):
    path.unlink()


def _empty(path):
    path.write_bytes(b"")


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-2])


@pytest.mark.parametrize(
    "name",
    [
        "settings.json",
        *(
            f"state/{name}"
            for name in ("random_0.json", "random_0.safetensors", "sums.json", "training.json", "training.safetensors")
        ),
    ],
)
def test_whatever_is_damaged_is_named_in_one_line_that_says_what_to_do(stopped, name):
    path = stopped / "checkpoint" / name
    whole = path.read_bytes()
    before = weights(stopped)
    for damage in (_remove, _empty, _flip, _cut):
        damage(path)
        with pytest.raises(ModelError, match=r"(remove it, or train anew with --no-resume|other settings)") as error:
            go_on(stopped)
        assert "\n" not in str(error.value)
        assert path.name in str(error.value)
        path.write_bytes(whole)
    assert weights(stopped) == before


def test_a_file_too_many_is_named(stopped):
    (stopped / "checkpoint" / "state" / "custom_checkpoint_0.pkl").write_bytes(b"")
    with pytest.raises(ModelError, match=r"custom_checkpoint_0\.pkl: does not belong to the checkpoint; remove it, or"):
        go_on(stopped)


class Touch:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_a_checkpoint_of_an_earlier_version_is_refused_and_its_pickles_are_not_opened(tmp_path, stopped):
    state = stopped / "checkpoint" / "state"
    for path in state.iterdir():
        path.unlink()
    for name in ("custom_checkpoint_0.pkl", "optimizer.bin", "random_states_0.pkl", "scheduler.bin"):
        (state / name).write_bytes(pickle.dumps(Touch(tmp_path / "ran")))
    with pytest.raises(ModelError, match=r"custom_checkpoint_0.pkl, a pickle, as .* earlier versions .*--no-resume$"):
        go_on(stopped)
    assert not (tmp_path / "ran").exists()
    assert go_on(stopped, resume=False)["steps"]


def test_the_former_state_is_gone_on_from_where_a_kill_left_no_other(tmp_path, stopped):
    (stopped / "checkpoint" / "state").rename(stopped / "checkpoint" / "former")
    (stopped / "checkpoint" / "new").mkdir()
    go_on(tmp_path / "whole")
    go_on(stopped)
    assert weights(stopped) == weights(tmp_path / "whole")


def test_a_training_that_diverges_keeps_the_last_good_weights_and_says_at_which_step(tmp_path, monkeypatch):
    check, steps = training.check_step, []

    def poisoned(state, loss, norm, out):
        steps.append(1)
        check(state, loss, norm * (math.nan if len(steps) == 20 else 1), out)

    monkeypatch.setattr(training, "check_step", poisoned)
    with pytest.raises(DivergedError) as error:
        go_on(tmp_path / "m")
    assert "diverged at step 20 (loss " in str(error.value)
    assert "/m holds the model of step " in str(error.value)
    assert (tmp_path / "m" / "model.safetensors").exists()
    assert not (tmp_path / "m" / "training.json").exists()


def test_a_training_whose_loss_is_never_finite_leaves_no_model_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(
        training, "_loss", lambda model, *_: (next(model.parameters()).sum() * math.inf, torch.ones(()))
    )
    with pytest.raises(DivergedError, match=r"diverged at step 1 .*no model was saved in .*--learning-rate"):
        go_on(tmp_path / "m")
    assert not list((tmp_path / "m").glob("*"))


@pytest.mark.parametrize("rate", [math.nan, math.inf, -1.0, 0.0])
def test_a_learning_rate_that_is_none_is_refused(tmp_path, rate):
    with pytest.raises(ValueError, match="learning_rate"):
        go_on(tmp_path / "m", TrainConfig(learning_rate=rate))


def test_killed_again_and_again_a_training_ends_with_the_weights_of_a_whole_one(tmp_path):
    whole = go_on(tmp_path / "whole")
    settings = tmp_path / "cut" / "checkpoint" / "settings.json"
    for kills in range(6):
        before = settings.stat().st_mtime_ns if settings.exists() else 0
        process = multiprocessing.get_context("fork").Process(target=go_on, args=(tmp_path / "cut",))
        process.start()
        while process.is_alive() and (not settings.exists() or settings.stat().st_mtime_ns == before):
            time.sleep(0.001)  # until one more checkpoint is being written
        time.sleep(0.003 * kills)
        process.kill()
        process.join()
    assert go_on(tmp_path / "cut") == whole
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")
