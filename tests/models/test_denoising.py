import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from builders import small_corpus
from transformers import AutoTokenizer

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import ModelError
from tod_bias.models.denoising import cut, denoising_sequences, marks_of
from tod_bias.models.from_scratch import new_model, new_tokenizer
from tod_bias.models.settings import TrainingSettings
from tod_bias.models.training import train

TINY = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 500, "dropout": 0.0, "max_length": 64, "arch": "bart"}


def texts():
    return (turn.text for d in small_corpus() for turn in d.turns)


@pytest.fixture(scope="module")
def tokenizer():
    return new_tokenizer(texts(), 500, causal=False, gaps=True)


@pytest.fixture(scope="module")
def masking():
    """As BART's: one mask for all gaps."""
    made = new_tokenizer(texts(), 400, causal=False)
    made.add_special_tokens({"mask_token": "<mask>"})
    return made


@pytest.mark.parametrize("share", [0.15, 0.3])
@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 64, 500])
def test_pieces_together_are_the_text_and_gaps_do_not_touch(tokens, share):
    pieces = list(cut(range(tokens), share, np.random.default_rng(3)))
    assert [token for text, _ in pieces for token in text] == list(range(tokens))
    gaps = [text for text, is_gap in pieces if is_gap]
    assert sum(map(len, gaps)) == max(round(share * tokens), 1)
    assert all(gaps)
    assert all(not (one[1] and other[1]) for one, other in pairwise(piece for piece in pieces if piece[0]))


def test_gaps_are_three_tokens_long_on_average():
    gaps = sum(is_gap for _, is_gap in cut(range(30_000), 0.3, np.random.default_rng(0)))
    assert 9_000 / gaps == pytest.approx(3, rel=0.05)


def filled(sequence, marks):
    """The source with its gaps filled from the target."""
    told = {}
    for token in sequence.labels[:-1]:
        if token in marks:
            gap = told[token] = []
        else:
            gap.append(token)
    return [other for token in sequence.input_ids[:-1] for other in told.get(token, [token])]


@pytest.mark.parametrize("length", [16, 50, 100])
def test_gaps_filled_from_the_target_are_the_dialogue(tokenizer, length):
    dialogue = small_corpus()[1]
    sequences = denoising_sequences([dialogue], tokenizer, max_length=length)
    marks = set(marks_of(tokenizer))
    assert len(marks) == 100
    assert all(len(s.input_ids) <= length and s.labels[-1] == tokenizer.eos_token_id for s in sequences)
    assert all(s.input_ids[-1] == tokenizer.eos_token_id and s.labels[0] in marks for s in sequences)
    text = tokenizer.decode([token for s in sequences for token in filled(s, marks)])
    assert text == "\n".join(turn.text for turn in dialogue.turns)


def test_with_a_mask_alone_the_text_is_written_whole(masking):
    dialogue = small_corpus()[1]
    for length in (16, 50, 1024):
        sequences = denoising_sequences([dialogue], masking, max_length=length)
        whole = "".join(masking.decode(list(s.labels), skip_special_tokens=True) for s in sequences)
        assert whole == "\n".join(turn.text for turn in dialogue.turns)
        assert all(masking.mask_token_id in s.input_ids and masking.mask_token_id not in s.labels for s in sequences)


def test_gaps_are_drawn_by_the_seed(masking):
    first, again, other = (denoising_sequences(small_corpus(), masking, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert [s.labels for s in first] == [s.labels for s in other]
    assert [s.input_ids for s in first] != [s.input_ids for s in other]


def test_dialogues_of_one_turn_and_of_none_are_taken(tokenizer):
    short = Dialogue("d", "", (Turn("a", response=""),))
    assert len(denoising_sequences([short, Dialogue("e", "", ())], tokenizer)) == 1


def test_a_model_restores_and_then_learns_calls(tmp_path):
    corpus = small_corpus()
    first = TrainingSettings(**TINY, objective="denoising", epochs=2, batch_tokens=512, evaluations=1)
    record = train(corpus, corpus[:4], tmp_path / "restores", first)
    assert record["losses"][-1]["validation"] < record["losses"][0]["validation"]
    assert "<extra_id_99>" in AutoTokenizer.from_pretrained(tmp_path / "restores").get_vocab()
    assert json.loads((tmp_path / "restores/training.json").read_text())["settings"]["objective"] == "denoising"
    assert record["settings"]["learning_rate"] == 3e-4  # a new BART's, from Python too
    second = TrainingSettings(init=str(tmp_path / "restores"), epochs=1, batch_tokens=512, evaluations=1)
    record = train(corpus, corpus[:4], tmp_path / "calls", second)
    assert record["arch"] == "bart"
    assert record["settings"]["learning_rate"] == 5e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": "cloze"}, "objective is 'cloze'; expected one of task, denoising"),
        ({"arch": "gpt2"}, "is for models that read and write apart; give --arch bart"),
        ({"arch": None}, "is for models that read and write apart; give --arch bart"),
        ({"loss": "targets"}, "has no --loss and no --parts"),
        ({"parts": ("response",)}, "has no --loss and no --parts"),
        ({"objective": "task", "loss": "targets"}, "--loss is for causal models; bart learns targets only"),
        ({"objective": "task", "dropout": 2}, "dropout is 2, warmup 0.05; expected shares"),
        ({"objective": "task", "warmup": 1.5}, "dropout is 0, warmup 1.5; expected shares"),
        ({"objective": "task", "epochs": 1.5}, "epochs is 1.5; expected a whole number"),
        ({"objective": "task", "learning_rate": "a"}, "learning_rate is 'a'; expected one above 0"),
        ({"format": "chat"}, "leave --format chat out"),
    ],
)
def test_what_cannot_be_restored_is_refused(tmp_path, changes, message):
    settings = TrainingSettings(**{**TINY, "objective": "denoising", **changes})
    with pytest.raises(ModelError, match=message):
        train(small_corpus(), small_corpus(4), tmp_path, settings)


def test_a_checkpoint_without_a_mask_is_refused(tmp_path):
    corpus = small_corpus()
    train(corpus, corpus[:4], tmp_path / "m", TrainingSettings(**TINY, epochs=1, max_steps=1, evaluations=1))
    with pytest.raises(ModelError, match="neither T5's sentinels nor a mask token"):
        train(corpus, corpus[:4], tmp_path / "n", TrainingSettings(init=str(tmp_path / "m"), objective="denoising"))


def test_a_new_t5_begins_with_embeddings_that_adam_can_turn_and_logits_of_usual_size(tokenizer):
    model = new_model(TrainingSettings(arch="t5", width=64, layers=2, dropout=0.0), tokenizer).eval()
    ids = torch.randint(2, len(tokenizer), (4, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = model(input_ids=ids, labels=ids).logits
    assert float(model.get_input_embeddings().weight.detach().std()) == pytest.approx(0.05, rel=0.1)
    assert 0.1 < float(logits.std()) < 2
