"""Greedy decoding that computes a prefix which several prompts share only once, and reads it only once.

The prompts of an attribution form trees: the turns of one dialogue extend each other, and arms and draws branch off
where a word, a call or a result first differs. A tree is flattened: one forward pass computes keys and values of all
its nodes, with an attention mask that lets a node see its ancestors only and with positions counted along its path.
Prompts whose first token is not the end are then decoded together, across many trees: a step adds nodes to each, its
newest token and guesses of the next (:mod:`~tod_bias.models.decoders.drafts`); so keys and values of a shared prefix
are computed once, and a step reads them once for all prompts that share most of theirs. The tokens are those that
decoding each prompt alone would give (up to rounding in the last bits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from tod_bias.models.decoders.attention import UNREAD, added, attending, parts_of, stored_heads
from tod_bias.models.decoders.branches import Branch, Side, forked
from tod_bias.models.decoders.drafts import Drafts
from tod_bias.models.settings import GenerationSettings

SUPPORTED = ("gpt2", "llama", "qwen2")
"""Model types whose attention takes a ready-made mask and whose cache holds plain keys and values."""
_MOVING_ROPE = ("dynamic", "longrope")
"""Rotary embeddings that change with the longest position of a batch, so that prompts are not alone."""

_MOST_PROMPTS = 256
"""Prompts of one batch, whose outputs are kept when it is done."""
_FEWEST_PROMPTS = 128
"""Fewest prompts of one batch, if there are enough: a step reads all weights, for few prompts as for many."""
_FEWEST_BATCHES = 8
"""Minimum number of batches, as long as none becomes smaller than :data:`_FEWEST_PROMPTS`."""
_PAIRS = 6
"""Cost of a token's way through a layer, in units of attending to ``width`` tokens: 24 width² operations (four
square matrices of attention, eight of the perceptron) against 4 width a pair (Kaplan et al. 2020, table 1)."""


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
        """Mask of nodes: each row sees its ancestors and itself."""
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
    """True if models of this configuration decode alike in a tree and alone."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    layers = getattr(config, "layer_types", None) or ()
    return (
        config.model_type in SUPPORTED
        and not getattr(config, "use_sliding_window", False)
        and all(layer == "full_attention" for layer in layers)
        and str(rope.get("rope_type", "default")) not in _MOVING_ROPE
    )


def token_bytes(config: Any, number_bytes: int) -> int:
    """Bytes of the keys and values of one token."""
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * int(config.num_hidden_layers) * stored_heads(config) * int(size) * number_bytes


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
        self._stops = frozenset(stop_tokens)
        self._settings = settings
        self._most = most_bytes // token_bytes

    def plan(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """Trees of neighbours in sorted order; a batch is a few trees.

        Where there is little to do batches are smaller, so that several processes have some each.
        """
        most = min(max(len(sequences) // _FEWEST_BATCHES, _FEWEST_PROMPTS), _MOST_PROMPTS)
        batches: list[list[int]] = []
        for group, _ in self._ordered(sequences):
            if not batches or len(batches[-1]) + len(group) > most:
                batches.append([])
            batches[-1] += group
        return batches

    def _ordered(self, sequences: Sequence[Sequence[int]]) -> list[tuple[list[int], int]]:
        """Return trees by their number of prompts and nodes: small trees fill batches, and large ones take similar
        time."""
        return sorted(self._groups(sequences), key=lambda tree: (len(tree[0]), tree[1]))

    def _size(self, prompts: int, nodes: int) -> int:
        """Tokens whose keys and values are held, for a tree of this size."""
        return nodes + prompts * self._settings.max_new_tokens

    def _groups(self, sequences: Sequence[Sequence[int]]) -> list[tuple[list[int], int]]:
        """Sequences that make one tree, as indices in sorted order, and how many nodes it has.

        A sequence joins its predecessor's tree if this costs less than a separate tree, assuming that every node
        attends to all nodes of its tree.
        """
        groups: list[tuple[list[int], int]] = []
        previous: Sequence[int] = ()
        for index in sorted(range(len(sequences)), key=lambda i: (list(sequences[i]), i)):
            sequence = sequences[index]
            shared = common(previous, sequence)
            group, nodes = groups[-1] if groups else ([], 0)
            before, nodes = nodes, nodes + len(sequence) - shared
            related = self._cost(nodes) - self._cost(before) < self._cost(len(sequence))
            fits = len(group) < _MOST_PROMPTS and self._size(len(group) + 1, nodes) <= self._most
            if group and related and fits and nodes <= self._settings.batch_tokens:
                groups[-1] = ([*group, index], nodes)
            else:
                groups.append(([index], len(sequence)))
            previous = sequence
        return groups

    def _cost(self, nodes: int) -> float:
        """Return the cost of reading a tree, in tokens' ways through the layers."""
        return nodes + nodes**2 / self._worth

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        """New token ids for each sequence, up to and without the first stop token."""
        with attending(self._model()):
            return self._decoded(sequences)

    def _decoded(self, sequences: Sequence[Sequence[int]]) -> list[list[int]]:
        texts = [list(sequence) for sequence in sequences]
        ends = [len(sequence) + self._settings.max_new_tokens for sequence in sequences]
        drafts = Drafts(self._stops)
        waiting: list[Branch] = []
        for group, _ in self._ordered(sequences):
            for branch in self._read(group, texts, drafts):
                if sum(other.room for other in waiting) + branch.room > self._most:
                    Side(waiting, texts, ends, self._stops, drafts).finish(self._model())
                    waiting = []
                waiting.append(branch)
        Side(waiting, texts, ends, self._stops, drafts).finish(self._model())
        return [text[len(sequence) :] for text, sequence in zip(texts, sequences, strict=True)]

    def _read(self, group: Sequence[int], texts: list[list[int]], drafts: Drafts) -> Iterator[Branch]:
        """Yield the branches of a tree's unfinished prompts after their first new tokens, which are appended to their
        texts. Branches are yielded one by one, because all of a tree may exceed the memory."""
        tree = Tree([texts[prompt] for prompt in group])
        model = self._model()
        seen = tree.visible()
        parts = parts_of(seen, model.dtype, model.device)
        ends = np.asarray([path[-1] for path in tree.paths])
        output = model(
            input_ids=torch.tensor([tree.tokens], device=model.device),
            position_ids=torch.tensor([tree.depths()], device=model.device),
            attention_mask=UNREAD if parts else added(seen, model.dtype, model.device),
            past_key_values=DynamicCache(),
            use_cache=True,
            logits_to_keep=torch.from_numpy(ends).to(model.device),
            parts=parts,
        )
        firsts = output.logits[0].argmax(-1).tolist()
        going = [number for number, first in enumerate(firsts) if first not in self._stops]
        for number in going:
            texts[group[number]].append(firsts[number])
        for prompt in group:
            drafts.learn(texts[prompt], 0)
        if self._settings.max_new_tokens == 1:
            return
        seen = seen[ends[going]]  # (prompts that go on, nodes)
        for members, nodes in forked(seen, model.device):
            index = torch.from_numpy(nodes).to(model.device)
            layers = output.past_key_values.layers
            states = ((layer.keys.index_select(2, index), layer.values.index_select(2, index)) for layer in layers)
            prompts = [group[number] for number in going[members]]
            yield Branch(prompts, states, seen[members, nodes], self._settings.max_new_tokens)
