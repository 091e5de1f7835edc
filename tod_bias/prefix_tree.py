"""Greedy decoding that computes a prefix which several prompts share only once.

The prompts of an attribution form trees: the turns of one dialogue extend each other, and arms and draws branch off
where a word, a call or a result first differs. A batch is such a tree, flattened: one forward pass computes keys and
values of all its nodes, with an attention mask that lets a node see its ancestors only and with positions counted
along its path. Each prompt then continues from the keys and values of its own path, so its tokens are those that
decoding it alone would give (up to rounding in the last bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

if TYPE_CHECKING:
    from tod_bias.generation import GenerationSettings

SUPPORTED = ("gpt2", "llama", "qwen2")
"""Model types whose attention takes a ready-made mask and whose cache holds plain keys and values."""

_MOST_ROWS = 256
"""Prompts that are decoded side by side at the most: more rows make one step slower but need fewer steps."""
_MOST_CACHE = 96 * 2**20
"""Bytes of keys and values that are decoded side by side at the most: every step reads and copies them."""
_CROWDED = 0.7
"""Finished prompts are dropped from the batch when less than this share goes on."""


class _RoomyLayer(DynamicLayer):
    """Keys and values of one layer, with room for what will be generated, so that a step copies nothing."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, room: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self._length = 0
        shape = (*keys.shape[:2], keys.shape[2] + room, keys.shape[3])  # (rows, heads, width + room, head size)
        self._stores = [keys.new_zeros(shape), values.new_zeros(shape)]
        self.update(keys, values)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add states at the end; returns all keys and values so far."""
        start, self._length = self._length, self._length + key_states.shape[2]
        for store, states in zip(self._stores, (key_states, value_states), strict=True):
            store[:, :, start : self._length] = states
        return self._view()

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows only."""
        self._stores = [store[indices] for store in self._stores]
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
        token_bytes: what the keys and values of one token take.
    """

    def __init__(
        self, model: Callable[[], Any], stop_tokens: Sequence[int], settings: GenerationSettings, token_bytes: int
    ) -> None:
        self._model = model
        self._stops = stop_tokens
        self._settings = settings
        self._token_bytes = token_bytes

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Neighbours in sorted order share the most; a batch is a run of them that is decoded side by side."""
        batches: list[list[int]] = []
        longest = 0
        for index in sorted(range(len(sequences)), key=lambda i: (list(sequences[i]), i)):
            longest = max(longest, len(sequences[index]))
            rows = len(batches[-1]) + 1 if batches else 0
            size = rows * (longest + self._settings.max_new_tokens) * self._token_bytes
            if not batches or rows > _MOST_ROWS or size > _MOST_CACHE:
                batches.append([])
                longest = len(sequences[index])
            batches[-1].append(index)
        return batches

    def _trees(self, sequences: Sequence[list[int]]) -> Iterator[Tree]:
        """Sorted sequences as trees within the node budget (or of one sequence)."""
        group: list[list[int]] = []
        nodes = 0
        for sequence in sequences:
            extra = len(sequence) - (_common(group[-1], sequence) if group else 0)
            if group and nodes + extra > self._settings.batch_tokens:
                yield Tree(group)
                group, nodes, extra = [], 0, len(sequence)
            group.append(sequence)
            nodes += extra
        yield Tree(group)

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        order = sorted(range(len(sequences)), key=lambda i: list(sequences[i]))
        cache, lengths, last = self._prefill([list(sequences[i]) for i in order])
        outputs: list[list[int]] = [[] for _ in sequences]
        stops = torch.tensor(self._stops, device=last.device)
        width = int(lengths.max())
        columns = torch.arange(width, device=last.device)
        mask = (columns[None, :] >= width - lengths[:, None]).long()  # (rows, width), padded on the left
        rows = torch.arange(len(order), device=last.device)
        going = torch.ones(len(order), dtype=torch.bool, device=last.device)
        for step in range(self._settings.max_new_tokens):
            going &= ~torch.isin(last, stops)
            for row, token, goes in zip(rows.tolist(), last.tolist(), going.tolist(), strict=True):
                if goes:
                    outputs[order[row]].append(token)
            count = int(going.sum())
            if count == 0 or step + 1 == self._settings.max_new_tokens:
                break
            if count < _CROWDED * len(rows):  # copying what goes on costs about as much as a step
                keep = going.nonzero().squeeze(1)
                rows, last, lengths, mask, going = (part[keep] for part in (rows, last, lengths, mask, going))
                cache.batch_select_indices(keep)
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            logits = self._model()(
                input_ids=last[:, None],
                attention_mask=mask,
                position_ids=(lengths + step)[:, None],
                past_key_values=cache,
                use_cache=True,
            ).logits
            last = logits[:, -1].argmax(-1)
        return outputs

    def _prefill(self, sequences: Sequence[list[int]]) -> tuple[Cache, torch.Tensor, torch.Tensor]:
        """Keys and values a prompt (padded on the left), prompt lengths, and each prompt's first new token."""
        width = max(map(len, sequences))
        keys: list[list[torch.Tensor]] = []
        values: list[list[torch.Tensor]] = []
        first = []
        for tree in self._trees(sequences):
            output = self._forward(tree)
            paths = [[0] * (width - len(path)) + path for path in tree.paths]
            index = torch.tensor(paths, device=output.logits.device)  # (rows, width)
            for states, kind in ((keys, "keys"), (values, "values")):
                layers = [
                    getattr(layer, kind)[0] for layer in output.past_key_values.layers
                ]  # (heads, nodes, head size)
                states.append([layer[:, index].transpose(0, 1) for layer in layers])  # (rows, heads, width, head size)
            first.append(output.logits[0].argmax(-1))
        layers = []
        for number in range(len(keys[0])):
            own_keys, own_values = (torch.cat([part[number] for part in states]) for states in (keys, values))
            layers.append(_RoomyLayer(own_keys, own_values, self._settings.max_new_tokens))
        cache = Cache(layers=layers)
        last = torch.cat(first)
        return cache, torch.tensor([len(sequence) for sequence in sequences], device=last.device), last

    def _forward(self, tree: Tree) -> Any:
        """One pass over a tree's nodes; logits are those of the prompts' ends."""
        model = self._model()
        device = model.device
        seen = torch.from_numpy(tree.visible()).to(device)
        hidden = torch.zeros(seen.shape, dtype=model.dtype, device=device)
        hidden.masked_fill_(~seen, torch.finfo(model.dtype).min)
        return model(
            input_ids=torch.tensor([tree.tokens], device=device),
            position_ids=torch.tensor([tree.depths()], device=device),
            attention_mask=hidden[None, None],
            past_key_values=DynamicCache(),
            use_cache=True,
            logits_to_keep=torch.tensor([path[-1] for path in tree.paths], device=device),
        )
