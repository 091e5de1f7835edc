"""Prompts of prefix trees that are decoded side by side, after their prefixes were read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from tod_bias.models.decoders.attention import UNREAD, Rows, added, stored_heads
from tod_bias.models.decoders.drafts import Drafts

_CROWDED = 0.7
"""Keys and values that no prompt sees any more are dropped when less than this share is seen."""
_CHEAP = 64
"""Tokens of a step that cost little: it takes its time to read the weights (SmolLM2-135M in float32: 18 ms for one,
41 for 16, 69 for 64)."""
_TRUST = 4
"""Guesses at first, and after any step for each token that it gave."""
_READING = {"cpu": 7.0}
"""Cost of reading keys and values, in prompts that attend to them."""
_LAUNCHING = 100.0
"""The same on a GPU, where another branch of a tree costs more than a few more columns."""


def forked(seen: np.ndarray, device: torch.device) -> list[tuple[slice, np.ndarray]]:
    """Split the prompts of a tree into branches, if several branches that see few nodes each cost less than one.

    Args:
        seen: which prompt sees which node, bool of shape (prompts, nodes).
        device: of the attention.

    Returns:
        Of each branch: its prompts, which are neighbours, and the numbers of the nodes that any prompt sees.
    """
    reading = _READING.get(device.type, _LAUNCHING)
    branches: list[tuple[slice, np.ndarray]] = []
    for number, visible in enumerate(seen):
        if branches:
            before, union = branches[-1]
            both = union | visible
            prompts = number - before.start
            more = (prompts + 1 + reading) * both.sum() - (prompts + reading) * union.sum()
            if more <= (1 + reading) * visible.sum():
                branches[-1] = slice(before.start, number + 1), both
                continue
        branches.append((slice(number, number + 1), visible))
    return [(prompts, np.flatnonzero(union)) for prompts, union in branches]


class Branch:
    """Prompts that share keys and values, with room for those of their outputs.

    Args:
        prompts: their numbers.
        states: each layer's keys and values, (1, heads, nodes, head size); copied.
        seen: which prompt sees which node, bool of shape (prompts, nodes).
        most_new: tokens that a prompt may get.
    """

    def __init__(
        self,
        prompts: Sequence[int],
        states: Iterator[tuple[torch.Tensor, torch.Tensor]],
        seen: np.ndarray,
        most_new: int,
    ) -> None:
        self.prompts = list(prompts)
        self.columns = seen.shape[1]
        self.room = self.columns + len(self.prompts) * (most_new + 1) + _CHEAP
        self._seen = np.zeros((len(self.prompts), self.room), dtype=bool)
        self._seen[:, : self.columns] = seen
        self.stores = [(self._store(keys), self._store(values)) for keys, values in states]

    def _store(self, states: torch.Tensor) -> torch.Tensor:
        store = states.new_empty(*states.shape[:2], self.room, states.shape[3])
        store[:, :, : self.columns] = states
        return store

    def visible(self, owners: Sequence[int]) -> np.ndarray:
        """Return the mask of a step, (tokens, columns so far and tokens), for tokens of these prompts by place."""
        places = np.asarray(owners)
        order = np.arange(len(places))
        among = (places[:, None] == places) & (order[:, None] >= order)
        return np.concatenate([self._seen[places, : self.columns], among], axis=1)

    def see(self, place: int, start: int, tokens: int) -> None:
        """Let the prompt at this place see a number of tokens from a column on."""
        self._seen[place, start : start + tokens] = True

    def drop(self, place: int) -> None:
        """Stop the prompt at this place."""
        del self.prompts[place]
        self._seen = np.delete(self._seen, place, axis=0)

    def compact(self, rows: int) -> None:
        """Drop the columns that no prompt sees if this saves time, or makes room for more columns."""
        seen = self._seen[:, : self.columns].any(axis=0)
        alive = np.flatnonzero(seen)
        if len(alive) >= _CROWDED * self.columns and self.columns + rows <= self.room:
            return
        index = torch.from_numpy(alive).to(self.stores[0][0].device)
        for stores in self.stores:
            for store in stores:
                store[:, :, : len(alive)] = store.index_select(2, index)
        self._seen[:, : len(alive)] = self._seen[:, alive]
        self._seen[:, len(alive) :] = False
        self.columns = len(alive)


class Side:
    """Prompts that are decoded together, each from its first new token.

    Args:
        branches: of the prompts.
        texts: every prompt's tokens with the first new one; outputs are appended.
        ends: how many tokens a prompt's text may have.
        stops: tokens that end an output.
        drafts: guesses of the next tokens.
    """

    def __init__(
        self,
        branches: Sequence[Branch],
        texts: list[list[int]],
        ends: Sequence[int],
        stops: Collection[int],
        drafts: Drafts,
    ) -> None:
        self._branches = list(branches)
        self._texts, self._ends, self._stops, self._drafts = texts, ends, stops, drafts
        self._trust = {prompt: _TRUST for branch in branches for prompt in branch.prompts}

    def finish(self, model: Any) -> None:
        """Decode until all are done."""
        while self._branches:
            step = self._guessed()
            said = self._forward(model, step)
            for branch, tokens in zip(self._branches, step, strict=True):
                self._grow(branch, tokens, said)
            self._branches = [branch for branch in self._branches if branch.prompts]

    def _guessed(self) -> list[list[list[int]]]:
        """Each branch's tokens of a step: of each prompt the newest, and guesses of the next."""
        going = sum(len(branch.prompts) for branch in self._branches)
        free = max(going, _CHEAP) - going
        step = []
        for branch in self._branches:
            tokens = []
            for prompt in branch.prompts:
                text = self._texts[prompt]
                most = min(-(-free // going), self._trust[prompt], self._ends[prompt] - len(text) - 1)
                guessed = self._drafts.after(text, most)
                tokens.append([text[-1], *guessed])
                free, going = free - len(guessed), going - 1
            step.append(tokens)
        return step

    def _forward(self, model: Any, guessed: Sequence[Sequence[Sequence[int]]]) -> Iterator[int]:
        """Yield the model's next token after each token."""
        tokens: list[int] = []
        positions: list[int] = []
        rows = []
        sharing = model.config.num_attention_heads // stored_heads(model.config)
        for branch, texts in zip(self._branches, guessed, strict=True):
            start = len(tokens)
            owners = [place for place, text in enumerate(texts) for _ in text]
            branch.compact(len(owners))
            mask = added(branch.visible(owners), model.dtype, model.device).repeat(1, 1, sharing, 1)
            for prompt, text in zip(branch.prompts, texts, strict=True):
                first = len(self._texts[prompt]) - 1
                positions += range(first, first + len(text))
                tokens += text
            rows.append(Rows(slice(start, len(tokens)), branch.columns, mask, branch.stores))
            branch.columns += len(owners)
        output = model(
            input_ids=torch.tensor([tokens], device=model.device),
            attention_mask=UNREAD,
            position_ids=torch.tensor([positions], device=model.device),
            use_cache=False,
            step=rows,
        )
        return iter(output.logits[0].argmax(-1).tolist())

    def _grow(self, branch: Branch, guessed: Sequence[Sequence[int]], said: Iterator[int]) -> None:
        """Append outputs to the texts, and correct tokens to the columns that their prompts see."""
        start = branch.columns - sum(map(len, guessed))
        ended = []
        for place, (prompt, tokens) in enumerate(zip(branch.prompts, guessed, strict=True)):
            outputs = [next(said) for _ in tokens]
            right = 0
            while right + 1 < len(outputs) and tokens[right + 1] == outputs[right]:
                right += 1
            text = self._texts[prompt]
            known = len(text)
            branch.see(place, start, right + 1)
            start += len(tokens)
            self._trust[prompt] = _TRUST * (right + 1)
            text += outputs[: right + 1]
            ends = text[-1] in self._stops
            if ends:
                text.pop()
            self._drafts.learn(text, known)
            if ends or len(text) >= self._ends[prompt]:
                ended.append(place)
        for place in reversed(ended):
            branch.drop(place)
