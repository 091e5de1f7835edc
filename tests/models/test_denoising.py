import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from builders import small_corpus
from transformers import AutoTokenizer

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import ModelError
from tod_bias.models.denoising import denoising_sequences, with_gaps
from tod_bias.models.from_scratch import new_model, new_tokenizer
from tod_bias.models.settings import TrainingSettings
from tod_bias.models.training import train

MASK = -1
TINY = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 400, "dropout": 0.0, "max_length": 64, "arch": "bart"}


@pytest.fixture(scope="module")
def tokenizer():
    return new_tokenizer((turn.text for d in small_corpus() for turn in d.turns), 400, causal=False, mask=True)


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 64, 500])
def test_a_gap_is_one_mask_and_what_is_kept_stays_in_order(tokens):
    ids = list(range(tokens))
    gapped = with_gaps(ids, MASK, np.random.default_rng(3))
    kept = [token for token in gapped if token != MASK]
    assert kept == sorted(kept)
    assert tokens - len(kept) == max(round(0.3 * tokens), 1)
    assert all(MASK not in pair or pair[0] != pair[1] for pair in pairwise(gapped))


def test_gaps_are_three_tokens_long_on_average():
    gapped = with_gaps(range(30_000), MASK, np.random.default_rng(0))
    assert 9_000 / gapped.count(MASK) == pytest.approx(3, rel=0.05)


def test_windows_together_are_the_dialogue(tokenizer):
    dialogue = small_corpus()[1]
    text = "\n".join(turn.text for turn in dialogue.turns)
    for length in (16, 50, 1024):
        sequences = denoising_sequences([dialogue], tokenizer, max_length=length)
        assert "".join(tokenizer.decode(list(s.labels), skip_special_tokens=True) for s in sequences) == text
        assert all(len(s) <= length and s.labels[-1] == s.input_ids[-1] == tokenizer.eos_token_id for s in sequences)
        assert all(tokenizer.mask_token_id in s.input_ids for s in sequences)


def test_gaps_are_drawn_by_the_seed(tokenizer):
    first, again, other = (denoising_sequences(small_corpus(), tokenizer, seed=seed) for seed in (0, 0, 1))
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
    assert AutoTokenizer.from_pretrained(tmp_path / "restores").mask_token == "<mask>"
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
    with pytest.raises(ModelError, match="neither a mask token nor T5's sentinels"):
        train(corpus, corpus[:4], tmp_path / "n", TrainingSettings(init=str(tmp_path / "m"), objective="denoising"))


def test_t5s_sentinels_stand_for_gaps(tokenizer):
    class Sentinels:
        mask_token_id = None
        get_vocab = staticmethod(lambda: {"<extra_id_0>": 77})

    from tod_bias.models.denoising import mask_of

    assert mask_of(Sentinels()) == 77
    assert mask_of(tokenizer) == tokenizer.mask_token_id


def test_a_new_t5_begins_with_embeddings_that_adam_can_turn_and_logits_of_usual_size(tokenizer):
    model = new_model(TrainingSettings(arch="t5", width=64, layers=2, dropout=0.0), tokenizer).eval()
    ids = torch.randint(2, len(tokenizer), (4, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = model(input_ids=ids, labels=ids).logits
    assert float(model.get_input_embeddings().weight.detach().std()) == pytest.approx(0.05, rel=0.1)
    assert 0.1 < float(logits.std()) < 2
