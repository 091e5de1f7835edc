"""Greedy decoding that computes a prefix which several prompts share only once, and reads it only once.

The prompts of an attribution form trees: the turns of one dialogue extend each other, and arms and draws branch off
where a word, a call or a result first differs. A batch is such a tree, flattened: one forward pass computes keys and
values of all its nodes, with an attention mask that lets a node see its ancestors only and with positions counted
along its path. Every step of decoding then adds one node to each prompt that goes on, all in one sequence: keys and
values of a shared prefix lie in memory once, and a step reads them once for all prompts. The tokens are those that
decoding each prompt alone would give (up to rounding in the last bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

if TYPE_CHECKING:
    from tod_bias.generation import GenerationSettings

SUPPORTED = ("gpt2", "llama", "qwen2")
"""Model types whose attention takes a ready-made mask and whose cache holds plain keys and values."""

_MOST_ROWS = 128
"""Prompts that are decoded side by side at the most."""
_CROWDED = 0.7
"""What finished prompts have generated is dropped when less than this share goes on."""


class _RoomyLayer(DynamicLayer):
    """Keys and values of one layer, with room for what will be generated, so that a step copies nothing."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, room: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self._length = 0
        shape = (*keys.shape[:2], keys.shape[2] + room, keys.shape[3])  # (1, heads, nodes + room, head size)
        self._stores = [keys.new_empty(shape), values.new_empty(shape)]
        self.update(keys, values)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add states at the end; returns all keys and values so far."""
        start, self._length = self._length, self._length + key_states.shape[2]
        for store, states in zip(self._stores, (key_states, value_states), strict=True):
            store[:, :, start : self._length] = states
        return self._view()

    def keep(self, start: int, columns: torch.Tensor) -> None:
        """From ``start`` on, keep these columns only."""
        self._length = start + len(columns)
        for store in self._stores:
            store[:, :, start : self._length] = store[:, :, columns]
        self._view()

    def _view(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys, self.values = (store[:, :, : self._length] for store in self._stores)
        return self.keys, self.values


class Tree:
    """Token sequences, sorted, as a prefix tree in depth-first order."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.paths: list[list[int]] = []
        previous: Sequence[int] = ()
        path: list[int] = []
        for sequence in sequences:
            shared = _common(previous, sequence)
            path = path[:shared]
            for token in sequence[shared:]:
                self.parents.append(path[-1] if path else -1)
                path.append(len(self.tokens))
                self.tokens.append(token)
            self.paths.append(list(path))
            previous = sequence

    def visible(self) -> np.ndarray:
        """Which node (row) sees which (column): its ancestors and itself."""
        seen = np.zeros((len(self.tokens), len(self.tokens)), dtype=bool)  # (nodes, nodes)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                seen[node] = seen[parent]
            seen[node, node] = True
        return seen

    def depths(self) -> list[int]:
        """Each node's position in its sequence."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return depths


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    shortest = min(len(left), len(right))
    if left[:shortest] == right[:shortest]:
        return shortest
    low, high = 0, shortest  # left[:low] == right[:low], left[:high] != right[:high]
    while high - low > 1:
        middle = (low + high) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle
    return low


class PrefixTreeDecoder:
    """The ``tree`` back end of :class:`tod_bias.generation.Generator`.

    Args:
        model: gives the causal model; called when the first batch is decoded.
        stop_tokens: tokens that end an output.
        settings: ``max_new_tokens``, and ``batch_tokens`` as the most nodes of one tree.
    """

    def __init__(self, model: Callable[[], Any], stop_tokens: Sequence[int], settings: GenerationSettings) -> None:
        self._model = model
        self._stops = stop_tokens
        self._settings = settings

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Neighbours in sorted order share the most; a batch is a run of them that makes one tree."""
        batches: list[list[int]] = []
        nodes = 0
        previous: Sequence[int] = ()
        for index in sorted(range(len(sequences)), key=lambda i: (list(sequences[i]), i)):
            sequence = sequences[index]
            nodes += len(sequence) - _common(previous, sequence)
            if not batches or nodes > self._settings.batch_tokens or len(batches[-1]) == _MOST_ROWS:
                batches.append([])
                nodes = len(sequence)
            batches[-1].append(index)
            previous = sequence
        return batches

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        order = sorted(range(len(sequences)), key=lambda i: list(sequences[i]))
        tree = Tree([list(sequences[i]) for i in order])
        outputs: list[list[int]] = [[] for _ in sequences]
        cache, seen, last = self._prefill(tree)
        device, nodes = last.device, len(tree.tokens)
        positions = torch.tensor([len(path) for path in tree.paths], device=device)
        stops = torch.tensor(self._stops, device=device)
        rows = torch.arange(len(order), device=device)
        owners = rows.new_empty(0)  # whose each generated column is
        for step in range(self._settings.max_new_tokens):
            goes_on = (~torch.isin(last, stops)).nonzero().squeeze(1)
            rows, last, positions, seen = (part[goes_on] for part in (rows, last, positions, seen))
            for row, token in zip(rows.tolist(), last.tolist(), strict=True):
                outputs[order[row]].append(token)
            if not len(rows) or step + 1 == self._settings.max_new_tokens:
                break
            alive = torch.isin(owners, rows)
            if int(alive.sum()) < _CROWDED * len(owners):
                kept = alive.nonzero().squeeze(1)
                owners = owners[kept]
                for layer in cache.layers:
                    layer.keep(nodes, nodes + kept)
            owners = torch.cat([owners, rows])
            own = torch.zeros(len(rows), len(owners), dtype=seen.dtype, device=device)
            own.masked_fill_(owners != rows[:, None], torch.finfo(seen.dtype).min)
            output = self._model()(
                input_ids=last[None],
                attention_mask=torch.cat([seen, own], dim=1)[None, None],  # (1, 1, rows, nodes + generated)
                position_ids=positions[None],
                past_key_values=cache,
                use_cache=True,
            )
            last = output.logits[0].argmax(-1)
            positions = positions + 1
        return outputs

    def _prefill(self, tree: Tree) -> tuple[Cache, torch.Tensor, torch.Tensor]:
        """Keys and values of the tree's nodes, which of them each prompt sees, and each prompt's first new token."""
        model = self._model()
        device = model.device
        seen = torch.from_numpy(tree.visible()).to(device)
        hidden = torch.zeros(seen.shape, dtype=model.dtype, device=device)  # (nodes, nodes), added to the scores
        hidden.masked_fill_(~seen, torch.finfo(model.dtype).min)
        ends = torch.tensor([path[-1] for path in tree.paths], device=device)
        output = model(
            input_ids=torch.tensor([tree.tokens], device=device),
            position_ids=torch.tensor([tree.depths()], device=device),
            attention_mask=hidden[None, None],
            past_key_values=DynamicCache(),
            use_cache=True,
            logits_to_keep=ends,
        )
        room = len(ends) * self._settings.max_new_tokens
        layers = [_RoomyLayer(layer.keys, layer.values, room) for layer in output.past_key_values.layers]
        return Cache(layers=layers), hidden[ends], output.logits[0].argmax(-1)
