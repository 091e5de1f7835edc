"""Greedy decoding that computes a prefix which several prompts share only once, and reads it only once.

The prompts of an attribution form trees: the turns of one dialogue extend each other, and arms and draws branch off
where a word, a call or a result first differs. A tree is flattened: one forward pass computes keys and values of all
its nodes, with an attention mask that lets a node see its ancestors only and with positions counted along its path.
Every step of decoding then adds one node to each prompt that goes on. So keys and values of a shared prefix lie in
memory once, and a step reads them once for all prompts of the tree; several trees are decoded side by side. The tokens
are those that decoding each prompt alone would give (up to rounding in the last bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from tod_bias.models.decoders.attention import attending, parts_of
from tod_bias.models.settings import GenerationSettings

SUPPORTED = ("gpt2", "llama", "qwen2")
"""Model types whose attention takes a ready-made mask and whose cache holds plain keys and values."""
_MOVING_ROPE = ("dynamic", "longrope")
"""Rotary embeddings that change with the longest position of a batch, so that prompts are not alone."""

_MOST_ROWS = 256
"""Prompts that are decoded side by side at the most."""
_FEWEST_BATCHES = 32
"""There are not fewer than so many, where they need not be smaller than a quarter of the largest for it."""
_CROWDED = 0.7
"""Finished prompts, and what they generated, are dropped when less than this share goes on."""
_PAIRS = 6
"""A token's way through a layer costs as much as attending to so many times the width: 24 width² operations (four
square matrices of attention, eight of the perceptron) against 4 width a pair (Kaplan et al. 2020, table 1)."""


def _stored_heads(config: Any) -> int:
    """Heads whose keys and values are held, which several others may share."""
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


class _RoomyLayer(DynamicLayer):
    """Keys and values of one layer: of the trees' nodes, and room behind them for what will be generated.

    Args:
        trees: each tree's keys and values, of shape (1, heads, its nodes, head size).
        nodes: nodes of the largest tree; smaller ones are filled up with zeros, which nothing sees.
        room: what will be generated in one tree at the most.
    """

    def __init__(self, trees: Sequence[tuple[torch.Tensor, torch.Tensor]], nodes: int, room: int) -> None:
        super().__init__()
        self.lazy_initialization(*trees[0])
        self._nodes = self._length = nodes
        _, heads, _, size = trees[0][0].shape
        self._stores = []
        for parts in zip(*trees, strict=True):
            store = parts[0].new_empty(len(trees), heads, nodes + room, size)
            for number, part in enumerate(parts):
                store[number, :, : part.shape[2]] = part[0]
                store[number, :, part.shape[2] : nodes] = 0  # a number, for what nothing sees is still multiplied by 0
            self._stores.append(store)
        self._view()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add states at the end; returns all keys and values so far."""
        start, self._length = self._length, self._length + key_states.shape[2]
        for store, states in zip(self._stores, (key_states, value_states), strict=True):
            store[:, :, start : self._length] = states
        return self._view()

    def keep(self, trees: torch.Tensor, columns: torch.Tensor) -> None:
        """Keep these trees, in ascending order, and of what was generated in each these columns, counted from 0.

        They move in their places, as a copy of all would be new memory each time.

        Args:
            trees: (kept trees,) numbers.
            columns: (kept trees, kept columns) numbers.
        """
        self._length = self._nodes + columns.shape[1]
        for number, store in enumerate(self._stores):
            for place, tree in enumerate(trees.tolist()):
                if place != tree:
                    store[place] = store[tree]
            fewer = self._stores[number] = store[: len(trees)]
            index = columns[:, None, :, None].expand(-1, fewer.shape[1], -1, fewer.shape[3])
            fewer[:, :, self._nodes : self._length] = fewer[:, :, self._nodes :].gather(2, index)
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
            shared = common(previous, sequence)
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


def common(left: Sequence[int], right: Sequence[int]) -> int:
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


def supports(config: Any) -> bool:
    """Whether models of this configuration decode in a tree as they do alone."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    layers = getattr(config, "layer_types", None) or ()
    return (
        config.model_type in SUPPORTED
        and not getattr(config, "use_sliding_window", False)
        and all(layer == "full_attention" for layer in layers)
        and str(rope.get("rope_type", "default")) not in _MOVING_ROPE
    )


def token_bytes(config: Any, number_bytes: int) -> int:
    """What the keys and values of one token take."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(config.num_hidden_layers) * _stored_heads(config) * int(size) * number_bytes


@dataclass
class _Side:
    """What is decoded side by side: a slot for each prompt, as many in every tree; a free slot's prompt is -1."""

    prompts: torch.Tensor  # (trees, slots)
    last: torch.Tensor  # (trees, slots), the newest token
    positions: torch.Tensor  # (trees, slots), where it stands
    seen: torch.Tensor  # (trees, slots, nodes), added to attention scores
    owners: torch.Tensor  # (trees, generated), whose each generated token is

    def mask(self) -> torch.Tensor:
        """Added to attention scores: (trees, 1, slots, nodes + generated)."""
        own = self.seen.new_zeros(*self.prompts.shape, self.owners.shape[1])
        own.masked_fill_(self.owners[:, None, :] != self.prompts[:, :, None], torch.finfo(own.dtype).min)
        return torch.cat([self.seen, own], dim=2)[:, None]

    def compact(self, layers: Sequence[_RoomyLayer]) -> None:
        """Drop finished prompts, what they generated, and trees without any left, where that makes a step cheaper."""
        going = self.prompts >= 0
        slots = int(going.sum(1).max())
        trees = going.any(1).nonzero().squeeze(1)
        if len(trees) * slots >= _CROWDED * going.numel():
            return
        order = (~going[trees]).to(torch.uint8).argsort(dim=1, stable=True)[:, :slots]  # (kept trees, kept slots)
        self.prompts, self.last, self.positions = (
            part[trees].gather(1, order) for part in (self.prompts, self.last, self.positions)
        )
        self.seen = self.seen[trees].gather(1, order[:, :, None].expand(-1, -1, self.seen.shape[2]))
        owners = self.owners[trees]
        alive = (owners[:, :, None] == self.prompts[:, None, :]).any(2) & (owners >= 0)
        columns = (~alive).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(alive.sum(1).max())]
        self.owners = owners.masked_fill(~alive, -1).gather(1, columns)
        for layer in layers:
            layer.keep(trees, columns)


class PrefixTreeDecoder:
    """The ``tree`` back end of :class:`tod_bias.models.generator.Generator`.

    Args:
        model: gives the causal model; called when the first batch is decoded.
        stop_tokens: tokens that end an output.
        settings: ``max_new_tokens``, and ``batch_tokens`` as the most nodes of one tree.
        width: the model's hidden size.
        token_bytes: what the keys and values of one token take.
        most_bytes: what the keys and values of one batch may take.
    """

    def __init__(
        self,
        model: Callable[[], Any],
        stop_tokens: Sequence[int],
        settings: GenerationSettings,
        *,
        width: int,
        token_bytes: int,
        most_bytes: int,
    ) -> None:
        self._model = model
        self._worth = _PAIRS * width
        self._stops = stop_tokens
        self._settings = settings
        self._most = most_bytes // token_bytes

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Trees of neighbours in sorted order; a batch is trees with about as many prompts each.

        Where there is little to do batches are smaller, down to a quarter, so that several processes have some each.
        """
        batches: list[list[int]] = []
        trees = rows = nodes = 0
        groups = sorted(self._groups(sequences), key=lambda tree: (len(tree[0]), tree[1]))
        share = sum(self._size(1, len(group), size) for group, size in groups) // _FEWEST_BATCHES
        most = min(max(share, self._most // 4), self._most)
        for group, size in groups:
            trees, rows, nodes = trees + 1, max(rows, len(group)), max(nodes, size)
            if not batches or trees * rows > _MOST_ROWS or self._size(trees, rows, nodes) > most:
                batches.append([])
                trees, rows, nodes = 1, len(group), size
            batches[-1] += group
        return batches

    def _size(self, trees: int, rows: int, nodes: int) -> int:
        """Tokens whose keys and values are held, for trees of at most so many prompts and nodes each."""
        return trees * (nodes + rows * self._settings.max_new_tokens)

    def _groups(self, sequences: Sequence[Sequence[int]]) -> list[tuple[list[int], int]]:
        """Sequences that make one tree, as indices in sorted order, and how many nodes it has.

        A sequence joins its predecessor's tree where that costs less than a tree of its own: every node of a tree
        attends to every other, seen or hidden.
        """
        groups: list[tuple[list[int], int]] = []
        previous: Sequence[int] = ()
        for index in sorted(range(len(sequences)), key=lambda i: (list(sequences[i]), i)):
            sequence = sequences[index]
            shared = common(previous, sequence)
            group, nodes = groups[-1] if groups else ([], 0)
            before, nodes = nodes, nodes + len(sequence) - shared
            related = self._cost(nodes) - self._cost(before) < self._cost(len(sequence))
            fits = len(group) < _MOST_ROWS and self._size(1, len(group) + 1, nodes) <= self._most
            if group and related and fits and nodes <= self._settings.batch_tokens:
                groups[-1] = ([*group, index], nodes)
            else:
                groups.append(([index], len(sequence)))
            previous = sequence
        return groups

    def _cost(self, nodes: int) -> float:
        """What reading a tree costs, in tokens' ways through the layers."""
        return nodes + nodes**2 / self._worth

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        with attending(self._model()) as ours:
            return self._decoded(sequences, in_parts=ours)

    def _decoded(self, sequences: Sequence[Sequence[int]], *, in_parts: bool) -> list[list[int]]:
        outputs: list[list[int]] = [[] for _ in sequences]
        side, layers = self._prefill(sequences, in_parts=in_parts)
        stops = torch.tensor(self._stops, device=side.last.device)
        for step in range(self._settings.max_new_tokens):
            side.prompts = side.prompts.masked_fill(torch.isin(side.last, stops), -1)
            for prompt, token in zip(side.prompts.flatten().tolist(), side.last.flatten().tolist(), strict=True):
                if prompt >= 0:
                    outputs[prompt].append(token)
            if not bool((side.prompts >= 0).any()) or step + 1 == self._settings.max_new_tokens:
                break
            side.compact(layers)
            side.owners = torch.cat([side.owners, side.prompts], dim=1)
            output = self._model()(
                input_ids=side.last,
                attention_mask=side.mask(),
                position_ids=side.positions,
                past_key_values=Cache(layers=layers),
                use_cache=True,
            )
            side.last = output.logits.argmax(-1)
            side.positions = side.positions + 1
        return outputs

    def _prefill(self, sequences: Sequence[Sequence[int]], *, in_parts: bool) -> tuple[_Side, list[_RoomyLayer]]:
        """All prompts in their slots, with their first new tokens, and the keys and values of their trees."""
        groups = self._groups(sequences)
        slots, nodes = max(len(group) for group, _ in groups), max(size for _, size in groups)
        device, dtype = self._model().device, self._model().dtype
        free = torch.full((len(groups), slots), -1, device=device)
        hidden = torch.full((len(groups), slots, nodes), torch.finfo(dtype).min, dtype=dtype, device=device)
        side = _Side(free, torch.zeros_like(free), torch.zeros_like(free), hidden, free[:, :0])
        states: list[list[tuple[torch.Tensor, torch.Tensor]]] = []
        for number, (group, _) in enumerate(groups):
            tree = Tree([list(sequences[index]) for index in group])
            cache, seen, first = self._forward(tree, in_parts=in_parts)
            states.append([(layer.keys, layer.values) for layer in cache.layers])
            side.prompts[number, : len(group)] = torch.tensor(group, device=device)
            side.last[number, : len(group)] = first
            side.positions[number, : len(group)] = torch.tensor([len(path) for path in tree.paths], device=device)
            side.seen[number, : len(group), : len(tree.tokens)] = seen
        room = slots * self._settings.max_new_tokens
        return side, [_RoomyLayer(trees, nodes, room) for trees in zip(*states, strict=True)]

    def _forward(self, tree: Tree, *, in_parts: bool) -> tuple[Any, torch.Tensor, torch.Tensor]:
        """Keys and values of a tree's nodes, which of them each prompt sees, and each prompt's first new token."""
        model = self._model()
        seen = tree.visible()
        parts = {"parts": parts_of(seen, model.dtype)} if in_parts else {}
        hidden = torch.zeros(seen.shape, dtype=model.dtype, device=model.device)  # (nodes, nodes)
        hidden.masked_fill_(torch.from_numpy(~seen).to(model.device), torch.finfo(model.dtype).min)
        ends = torch.tensor([path[-1] for path in tree.paths], device=model.device)
        output = model(
            input_ids=torch.tensor([tree.tokens], device=model.device),
            position_ids=torch.tensor([tree.depths()], device=model.device),
            attention_mask=hidden[None, None],
            past_key_values=DynamicCache(),
            use_cache=True,
            logits_to_keep=ends,
            **parts,
        )
        return output.past_key_values, hidden[ends], output.logits[0].argmax(-1)
