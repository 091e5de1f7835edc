"""Prompts decoded side by side: who sees what, what is guessed, and how much is held at once."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tod_bias.models.decoders import branches, tree
from tod_bias.models.decoders.branches import Branch, forked
from tod_bias.models.decoders.drafts import Drafts
from tod_bias.models.decoders.tree import PrefixTreeDecoder
from tod_bias.models.settings import GenerationSettings

CPU = torch.device("cpu")


def test_guesses_are_what_followed_last():
    drafts = Drafts([0])
    text = [1, 2, 3, 4, 5, 0, 6]
    drafts.learn(text, 0)
    assert drafts.after([9, 1, 2, 3], 8) == [4, 5]  # 0 ends an output
    assert drafts.after([9, 1, 2, 3], 1) == [4]
    assert drafts.after([1, 2, 3], 0) == []
    assert drafts.after([2, 3], 8) == []
    assert drafts.after([3, 2, 1], 8) == []
    drafts.learn([1, 2, 3, 7], 0)
    assert drafts.after([1, 2, 3], 8) == [7]
    text += [8, 9]
    drafts.learn(text, 7)
    assert drafts.after([0, 6, 8], 8) == [9]


def test_prompts_with_little_in_common_fork():
    seen = np.zeros((5, 300), dtype=bool)
    seen[:, :20] = True
    for prompt in range(4):
        seen[prompt, 20 : 90 + prompt] = True  # nearly all in common
    seen[4, 150:300] = True
    (first, nodes), (second, others) = forked(seen, CPU)
    assert (first, second) == (slice(0, 4), slice(4, 5))
    assert nodes.tolist() == list(range(93))
    assert others.tolist() == [*range(20), *range(150, 300)]


def test_what_nobody_sees_is_dropped_and_all_else_stays():
    rng = np.random.default_rng(0)
    seen = np.zeros((2, 40), dtype=bool)
    seen[0, :30], seen[1, :5], seen[1, 30:] = True, True, True
    keys = torch.from_numpy(rng.normal(size=(1, 2, 40, 4)))
    branch = Branch([7, 8], iter([(keys, -keys)]), seen, 3)
    branch.compact(2)
    assert branch.columns == 40
    branch.drop(0)
    branch.compact(1)
    assert branch.prompts == [8]
    assert branch.columns == 15
    kept = torch.cat([keys[:, :, :5], keys[:, :, 30:]], dim=2)
    [(stored, negative)] = branch.stores
    assert torch.equal(stored[:, :, :15], kept)
    assert torch.equal(negative[:, :, :15], -kept)
    assert branch.visible([0, 0]).astype(int).tolist() == [[1] * 16 + [0], [1] * 17]


def test_room_is_made_when_guesses_were_wrong():
    branch = Branch([0], iter([(torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2))]), np.ones((1, 4), dtype=bool), 2)
    for _ in range(20):  # steps whose one new token is seen first, and whose guesses all were wrong
        branch.compact(branches._CHEAP)
        assert branch.columns + branches._CHEAP <= branch.room
        branch.columns += branches._CHEAP
    assert branch.visible([0]).sum() == 5


def alone(model, sequence, stops, most):
    tokens = list(sequence)
    while len(tokens) - len(sequence) < most:
        token = int(model(torch.tensor([tokens])).logits[0, -1].argmax())
        if token in stops:
            break
        tokens.append(token)
    return tokens[len(sequence) :]


@pytest.mark.parametrize("most_bytes", [100_000, 60])
@pytest.mark.parametrize("guesses", ["right", "wrong", "none"])
def test_guesses_and_memory_do_not_change_what_is_said(gpt2, guesses, most_bytes, monkeypatch):
    model = AutoModelForCausalLM.from_pretrained(gpt2).eval()
    rng = np.random.default_rng(1)
    stops = rng.choice(model.config.vocab_size, model.config.vocab_size // 20, replace=False).tolist()
    trunk = rng.integers(0, model.config.vocab_size, 12).tolist()
    sequences = [[*trunk[:cut], *rng.integers(0, model.config.vocab_size, 3).tolist()] for cut in (2, 4, 4, 9, 12)]
    steps, finished, truth = [], [], {}  # truth: what follows each prompt

    def after(self, text, most):
        length = next(len(key) for key in truth if tuple(text[: len(key)]) == key)
        done = len(text) - length
        right = truth[tuple(text[:length])][done : done + most]
        return {"right": right, "wrong": [(token + 1) % 7 for token in right], "none": []}[guesses]

    forward, finish = branches.Side._forward, branches.Side.finish
    monkeypatch.setattr(Drafts, "after", after)
    monkeypatch.setattr(branches.Side, "_forward", lambda *a: steps.append(1) or forward(*a))
    monkeypatch.setattr(branches.Side, "finish", lambda *a: finished.append(1) or finish(*a))
    settings = GenerationSettings(max_new_tokens=20)
    decoder = PrefixTreeDecoder(lambda: model, stops, settings, width=4, token_bytes=1, most_bytes=most_bytes)
    monkeypatch.setattr(tree, "_PAIRS", 10**6)
    with torch.inference_mode():
        expected = [alone(model, sequence, stops, 20) for sequence in sequences]
        truth |= {tuple(s): e for s, e in zip(sequences, expected, strict=True)}
        assert decoder.decode(sequences) == expected
    longest = max(map(len, expected))
    assert longest > 10
    assert (len(finished) > 2) == (most_bytes == 60)
    if most_bytes > 60:
        assert (len(steps) < longest - 1) == (guesses == "right")
