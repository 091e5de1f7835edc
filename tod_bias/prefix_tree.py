"""Greedy decoding that computes a prefix which several prompts share only once.

The prompts of an attribution form trees: the turns of one dialogue extend each other, and arms and draws branch off
where a word, a call or a result first differs. A batch is such a tree, flattened: one forward pass computes keys and
values of all its nodes, with an attention mask that lets a node see its ancestors only and with positions counted
along its path. Each prompt then continues from the keys and values of its own path, so its tokens are those that
decoding it alone would give (up to rounding in the last bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import DynamicCache

if TYPE_CHECKING:
    from tod_bias.generation import GenerationSettings

SUPPORTED = ("gpt2", "llama", "qwen2")
"""Model types whose attention takes a ready-made mask and whose cache holds plain keys and values."""

_MOST_ROWS = 64
"""Prompts that are decoded side by side: more rows make one step slower but need fewer steps."""


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
        """Neighbours in sorted order share the most; a batch is a run of them within the node and row budgets."""
        batches: list[list[int]] = []
        nodes = 0
        previous: Sequence[int] = ()
        for index in sorted(range(len(sequences)), key=lambda i: (list(sequences[i]), i)):
            sequence = sequences[index]
            extra = len(sequence) - _common(previous, sequence)
            if not batches or nodes + extra > self._settings.batch_tokens or len(batches[-1]) == _MOST_ROWS:
                batches.append([])
                nodes, extra = 0, len(sequence)
            batches[-1].append(index)
            nodes += extra
            previous = sequence
        return batches

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        order = sorted(range(len(sequences)), key=lambda i: list(sequences[i]))
        cache, lengths, last = self._prefill(Tree([list(sequences[i]) for i in order]))
        outputs: list[list[int]] = [[] for _ in sequences]
        stops = torch.tensor(self._stops, device=last.device)
        width = int(lengths.max())
        columns = torch.arange(width, device=last.device)
        mask = (columns[None, :] >= width - lengths[:, None]).long()  # (rows, width), padded on the left
        rows = torch.arange(len(order), device=last.device)
        for step in range(self._settings.max_new_tokens):
            going = ~torch.isin(last, stops)
            if not going.all():
                keep = going.nonzero().squeeze(1)
                rows, last, lengths, mask = rows[keep], last[keep], lengths[keep], mask[keep]
                if len(rows) == 0:
                    break
                cache.batch_select_indices(keep)
            for row, token in zip(rows.tolist(), last.tolist(), strict=True):
                outputs[order[row]].append(token)
            if step + 1 == self._settings.max_new_tokens:
                break
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

    def _prefill(self, tree: Tree) -> tuple[DynamicCache, torch.Tensor, torch.Tensor]:
        """Keys and values a prompt (padded on the left), prompt lengths, and each prompt's first new token."""
        model = self._model()
        device = model.device
        seen = torch.from_numpy(tree.visible()).to(device)
        hidden = torch.zeros(seen.shape, dtype=model.dtype, device=device)
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
        lengths = torch.tensor([len(path) for path in tree.paths], device=device)
        width = int(lengths.max())
        index = torch.tensor([[0] * (width - len(path)) + path for path in tree.paths], device=device)  # (rows, width)
        cache = DynamicCache()
        for number, layer in enumerate(output.past_key_values.layers):
            keys, values = (states[0][:, index].transpose(0, 1) for states in (layer.keys, layer.values))
            cache.update(keys.contiguous(), values.contiguous(), number)  # (rows, heads, width, head size)
        return cache, lengths, output.logits[0].argmax(-1)
