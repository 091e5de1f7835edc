import dataclasses
import json

import pytest
from builders import small_corpus

from tod_bias.dialogues.dialogue import context_text
from tod_bias.models.examples import IGNORED, api_call_prompt, causal_sequences, described_prompt
from tod_bias.models.from_scratch import new_tokenizer
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings, TrainConfig
from tod_bias.models.training import train
from tod_bias.stages import ApiCall, Response
from tod_bias.testing import inputs_of

TINY = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 400, "dropout": 0.0, "max_length": 256}
SYSTEM = "FindRestaurants (city*, dish*): Find a place to eat\ncity: The city of it\ndish: What is eaten there"
CORPUS = [dataclasses.replace(dialogue, system=SYSTEM) for dialogue in small_corpus()]
GENERATION = {"max_new_tokens": 8}


@pytest.fixture(scope="module")
def tokenizer():
    return new_tokenizer((turn.text for d in small_corpus() for turn in d.turns), 400, causal=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("described")
    record = train(CORPUS, CORPUS[:2], folder, TrainConfig(**TINY, epochs=1, loss="targets"))
    record["settings"]["described"] = True  # as projects/lora records it
    (folder / "training.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize("loss", ["all", "targets"])
@pytest.mark.parametrize("length", [128, 160, 1024])
def test_every_window_begins_with_the_system_message_which_never_counts(tokenizer, length, loss):
    (plain,) = causal_sequences(CORPUS[1:2], tokenizer, loss=loss)
    windows = causal_sequences(CORPUS[1:2], tokenizer, loss=loss, max_length=length, described=True)
    head = tokenizer(SYSTEM + "\n", add_special_tokens=False)["input_ids"][: length // 2]
    assert all(list(window.input_ids[: len(head)]) == head for window in windows)
    assert all(set(window.labels[: len(head)]) == {IGNORED} for window in windows)
    assert all(len(window.input_ids) == len(window.labels) <= length for window in windows)
    counted = lambda labels: [label for label in labels if label != IGNORED]  # noqa: E731
    assert [label for window in windows for label in counted(window.labels)] == counted(plain.labels)
    assert (len(windows) > 1) == (length < 1024)


def read_by(stage, monkeypatch, inputs):
    seen = []
    monkeypatch.setattr(Generator, "generate", lambda self, prompts: seen.extend(prompts) or [""] * len(prompts))
    stage(inputs)
    return seen


def test_a_model_that_was_trained_so_reads_the_system_message_first(model, gpt2, monkeypatch):
    inputs = inputs_of(CORPUS[1:2])
    for kind in (ApiCall, Response):
        described, plain = (read_by(kind(str(one), **GENERATION), monkeypatch, inputs) for one in (model, gpt2))
        assert all(prompt.startswith("USER:") for prompt in plain)
        assert described == [described_prompt(SYSTEM, prompt) for prompt in plain]
        without = inputs_of(small_corpus()[1:2])
        assert read_by(kind(str(model), **GENERATION), monkeypatch, without) == plain
    settings = GenerationSettings(**GENERATION)
    assert Generator(model, settings).signature.endswith("|described")
    assert "described" not in Generator(gpt2, settings).signature


def test_the_oldest_turns_give_way_and_the_system_message_stays(model, monkeypatch):
    (first, second), turns = inputs_of(CORPUS[1:2]), CORPUS[1].turns
    item = dataclasses.replace(second, history=turns * 3)
    (prompt,) = read_by(ApiCall(str(model), **GENERATION), monkeypatch, [item])
    assert prompt in [
        described_prompt(SYSTEM, api_call_prompt(context_text(item.history[number:], item.user)))
        for number in range(1, 7)
    ]
    assert Generator(model, GenerationSettings(**GENERATION)).fits(prompt)
    huge = dataclasses.replace(first, system="word " * 400)
    assert read_by(ApiCall(str(model), **GENERATION), monkeypatch, [huge]) == [api_call_prompt(huge.context)]
