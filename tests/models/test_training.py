import json

import pytest
import torch
from builders import small_corpus
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from tod_bias import Dialogue, Step, Turn
from tod_bias.dialogues.sampling import hold_out
from tod_bias.errors import ModelError
from tod_bias.models.examples import (
    IGNORED,
    api_call_prompt,
    causal_sequences,
    dialogue_segments,
    encode_prompts,
    exchanged_sequences,
    seq2seq_sequences,
)
from tod_bias.models.from_scratch import new_model, new_tokenizer
from tod_bias.models.settings import TrainConfig
from tod_bias.models.training import train
from tod_bias.testing import inputs_of

TINY = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 400, "dropout": 0.0, "max_length": 256}


def tokenizer_of(dialogues, *, causal=False):
    return new_tokenizer((turn.text for d in dialogues for turn in d.turns), 400, causal=causal)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(small_corpus(), causal=True)


def test_whole_dialogue_holds_every_prompt_and_target(tokenizer):
    dialogue = small_corpus()[1]
    sequence = causal_sequences([dialogue], tokenizer, loss="targets")[0]
    text = tokenizer.decode(list(sequence.input_ids[:-1]))
    assert text == "\n".join(turn.text for turn in dialogue.turns) + "\n"
    assert sequence.input_ids[-1] == tokenizer.eos_token_id
    for item in inputs_of([dialogue]):
        prompt = tokenizer(api_call_prompt(item.context))["input_ids"]
        assert list(sequence.input_ids[: len(prompt)]) == prompt  # as the model is asked, so it was trained
        assert sequence.labels[len(prompt) - 1] == IGNORED
        assert sequence.labels[len(prompt)] == sequence.input_ids[len(prompt)]
    targets = tokenizer.decode([token for token in sequence.labels if token != IGNORED])
    lines = [line for turn in dialogue.turns for line in turn.text.split("\n")[1::2]]
    assert targets == "".join(line.split(":", 1)[1] + "\n" for line in lines)


@pytest.mark.parametrize("length", [32, 50, 1024])
def test_windows_of_a_long_dialogue_train_every_token_once(tokenizer, length):
    dialogue = small_corpus()[1]
    whole = causal_sequences([dialogue], tokenizer)[0]
    windows = causal_sequences([dialogue], tokenizer, max_length=length)
    trained = [label for window in windows for label in window.labels if label != IGNORED]
    assert trained == list(whole.labels)
    assert all(len(window) <= length for window in windows)


STEPS = (
    Step({"api_name": "find", "seats": 2}, ({"id": "a"}, {"id": "b"}), "One moment."),
    Step({"api_name": "book", "id": "a"}),
    Step({"api_name": "tell"}, ({"ok": True},), "Nearly done."),
)
SEVERAL = Dialogue("d", "", (Turn("Two seats.", steps=STEPS, response="Done."), Turn("Thanks.", response="Bye.")))
CALLS = [r"api_name = find ; seats = \#2", "api_name = book ; id = a", "api_name = tell", ""]


def test_every_call_of_a_turn_is_a_target():
    segments = list(dialogue_segments(SEVERAL, ("api_call", "response")))
    assert "".join(text for text, _ in segments) == "\n".join(turn.text for turn in SEVERAL.turns) + "\n"
    texts = [f" {text}\n" for text in (*CALLS[:3], "Done.", CALLS[3], "Bye.")]
    assert [text for text, is_target in segments if is_target] == texts
    calls = [text for text, is_target in dialogue_segments(SEVERAL, ("api_call",)) if is_target]
    assert calls == [f" {text}\n" for text in CALLS]


def test_seq2seq_examples_are_one_a_call_and_one_a_response():
    tokenizer = tokenizer_of([SEVERAL])
    sequences = seq2seq_sequences([SEVERAL], tokenizer)
    assert all(sequence.labels[-1] == tokenizer.eos_token_id for sequence in sequences)
    read = [
        tuple(tokenizer.decode(list(ids), skip_special_tokens=True) for ids in (sequence.input_ids, sequence.labels))
        for sequence in sequences
    ]
    context = "USER: Two seats.\nSYSTEM: One moment."
    first = f"{context}\nAPICALL: {CALLS[0]}\nAPIRESP: id = a"
    second = f"{first}\nAPICALL: {CALLS[1]}\nAPIRESP: \nSYSTEM: Nearly done."
    assert read[:4] == [
        (f"{context}\nAPICALL:", CALLS[0]),
        (f"{first}\nAPICALL:", CALLS[1]),
        (f"{second}\nAPICALL:", CALLS[2]),
        (f"{second}\nAPICALL: {CALLS[2]}\nAPIRESP: ok = \\#true\nSYSTEM:", "Done."),
    ]
    assert [target for _, target in read[4:]] == ["", "Bye."]


def test_targets_of_every_dialogue_are_cut_on_the_same_side():
    tokenizer = tokenizer_of([SEVERAL])
    sequences = seq2seq_sequences([SEVERAL, SEVERAL], tokenizer, max_length=5)
    assert sequences[: len(sequences) // 2] == sequences[len(sequences) // 2 :]


@pytest.mark.parametrize("causal", [False, True])
def test_prompts_are_encoded_in_parts_as_they_are_alone(causal):
    tokenizer = tokenizer_of([SEVERAL], causal=causal)
    prompts = [f"Seats for {number} and {number + 1}" for number in range(1200)]
    encoded = encode_prompts(tokenizer, prompts, 7, causal=causal)
    assert encoded == [encode_prompts(tokenizer, [prompt], 7, causal=causal)[0] for prompt in prompts]
    assert {len(ids) for ids in encoded} == {7}


def test_exchanged_sequences_are_the_same_targets_with_the_prompts_of_other_dialogues():
    corpus = small_corpus(3)
    tokenizer = tokenizer_of(corpus)
    read = lambda ids: tokenizer.decode(list(ids), skip_special_tokens=True)  # noqa: E731
    exchanged = exchanged_sequences(corpus, tokenizer)
    for part, mark in (("api_call", "APICALL:"), ("response", "SYSTEM:")):
        own = seq2seq_sequences(corpus, tokenizer, parts=[part])
        other, exchanged = exchanged[: len(own)], exchanged[len(own) :]
        assert [one.labels for one in other] == [one.labels for one in own]
        assert sorted(read(one.input_ids) for one in other) == sorted(read(one.input_ids) for one in own)
        assert all(read(one.input_ids).endswith(mark) for one in other)
        assert not any(one.input_ids == two.input_ids for one, two in zip(own, other, strict=True))
    assert not exchanged
    alone = Dialogue("alone", "", (Turn("Hello.", response="Good morning."),))
    assert exchanged_sequences([alone], tokenizer) == exchanged_sequences([alone] * 3, tokenizer) == []


def test_a_model_that_has_learnt_reads_and_one_that_begins_does_not(t5, bart, gpt2, tmp_path):
    for folder in (t5, bart):
        record = json.loads((folder / "training.json").read_text())
        assert record["exchanged"] > 1.1 * record["validation_loss"]
    assert "exchanged" not in json.loads((gpt2 / "training.json").read_text())
    corpus = small_corpus(8)
    settings = TrainConfig(**TINY, arch="bart", max_steps=1, learning_rate=1e-6)
    record = train(corpus, corpus[:4], tmp_path / "new", settings)
    assert record["exchanged"] == pytest.approx(record["validation_loss"], rel=0.01)


@pytest.mark.parametrize("width", [64, 256])
def test_a_new_bart_passes_on_what_its_layers_are_given_whatever_its_width(width):
    tokenizer = tokenizer_of(small_corpus())
    encoder = new_model(TrainConfig(arch="bart", width=width, heads=4, layers=1), tokenizer).get_encoder()
    states = torch.randn(512, width, generator=torch.Generator().manual_seed(0))
    layer = encoder.layers[0]
    for linear in (layer.self_attn.q_proj, layer.self_attn.v_proj, layer.self_attn.out_proj):
        assert float(linear(states).detach().std()) == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize(
    ("arch", "auto"), [("gpt2", AutoModelForCausalLM), ("t5", AutoModelForSeq2SeqLM), ("bart", AutoModelForSeq2SeqLM)]
)
def test_trained_folder_loads_and_has_learnt(request, arch, auto):
    folder = request.getfixturevalue(arch)
    assert {"config.json", "model.safetensors", "tokenizer.json", "training.json"} <= {f.name for f in folder.iterdir()}
    model, tokenizer = auto.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.config.model_type == arch
    assert tokenizer("x")["input_ids"]
    losses = [entry["validation"] for entry in json.loads((folder / "training.json").read_text())["losses"]]
    assert losses[-1] < losses[0] - 0.3
    assert not (folder / "checkpoint").exists()


def test_fine_tuning_starts_from_the_checkpoint(tmp_path, gpt2):
    corpus = small_corpus()
    before = json.loads((gpt2 / "training.json").read_text())["validation_loss"]
    settings = TrainConfig(init=str(gpt2), epochs=1, learning_rate=1e-5, batch=8, evaluations=1)
    record = train(corpus, corpus[:4], tmp_path / "tuned", settings)
    assert record["losses"][0]["validation"] == pytest.approx(before, abs=0.1)


def test_training_stops_where_validation_gets_worse(tmp_path):
    corpus = small_corpus()
    settings = TrainConfig(**TINY, epochs=40, batch=4, evaluations=1, learning_rate=0.3, patience=2)
    record = train(corpus, corpus[:4], tmp_path / "m", settings)
    assert record["best_step"] < record["steps"]
    assert len(record["losses"]) < 40


def test_held_out_dialogues_are_seeded_and_disjoint():
    corpus = small_corpus()
    kept, held = hold_out(corpus, 5, seed=1)
    assert len(held) == 5
    assert {d.id for d in kept} | {d.id for d in held} == {d.id for d in corpus}
    assert hold_out(corpus, 5, seed=1) == (kept, held)
    assert hold_out(corpus, 5, seed=2)[1] != held
    with pytest.raises(ModelError, match="cannot hold out 24 of 24"):
        hold_out(corpus, 24)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": "lstm"}, "arch"),
        ({"parts": ("db",)}, "parts"),
        ({"width": 30, "heads": 4}, "width 30 is not a multiple of 4 heads"),
        ({"arch": "bart", "loss": "targets"}, "loss is for causal models; bart learns targets only"),
        ({"dropout": 2}, "dropout"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"init": "./no/such/folder"}, "no such folder"),
    ],
)
def test_unusable_settings_say_why(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        train(small_corpus(), small_corpus(4), tmp_path, TrainConfig(**changes))


@pytest.mark.parametrize(("settings", "rate"), [({"arch": "bart"}, 3e-4), ({}, 1e-3)])
def test_the_usual_learning_rate_is_that_of_the_architecture(tmp_path, settings, rate):
    corpus = small_corpus(8)
    record = train(corpus, corpus[:4], tmp_path / "new", TrainConfig(**TINY, **settings, max_steps=1))
    assert record["settings"]["learning_rate"] == rate
    more = train(corpus, corpus[:4], tmp_path / "more", TrainConfig(init=str(tmp_path / "new"), max_steps=1))
    assert more["settings"]["learning_rate"] == 5e-5


def test_a_new_t5_begins_with_embeddings_that_adam_can_turn_and_logits_of_usual_size():
    tokenizer = tokenizer_of(small_corpus())
    model = new_model(TrainConfig(arch="t5", width=64, layers=2, dropout=0.0), tokenizer).eval()
    ids = torch.randint(2, len(tokenizer), (4, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = model(input_ids=ids, labels=ids).logits
    assert float(model.get_input_embeddings().weight.detach().std()) == pytest.approx(0.05, rel=0.1)
    assert 0.1 < float(logits.std()) < 2
