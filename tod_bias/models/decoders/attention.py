"""Attention over prefix trees on processors: keys and values are read where they lie, and only those that are seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

_PART = 256
"""Nodes of one part: a tree's neighbours have most of their ancestors in common."""


@dataclass(frozen=True)
class Part:
    """Some neighbours of a tree, and the nodes that any of them sees."""

    rows: slice
    columns: torch.Tensor
    """(columns,) numbers of nodes, ascending."""
    mask: torch.Tensor
    """Added to scores: (1, 1, rows, columns)."""


def parts_of(seen: np.ndarray, dtype: torch.dtype) -> list[Part]:
    """A tree in parts, each of which attends to few nodes beside its own; empty for a small tree.

    Args:
        seen: which node (row) sees which (column), bool of shape (nodes, nodes).
        dtype: of scores.
    """
    if len(seen) <= 2 * _PART:
        return []
    parts = []
    for start in range(0, len(seen), _PART):
        rows = slice(start, min(start + _PART, len(seen)))
        columns = np.flatnonzero(seen[rows].any(axis=0))
        mask = torch.zeros(1, 1, rows.stop - start, len(columns), dtype=dtype)
        mask.masked_fill_(torch.from_numpy(~seen[rows, columns]), torch.finfo(dtype).min)
        parts.append(Part(rows, torch.from_numpy(columns), mask))
    return parts


def _attended(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None,
    *args: Any, scaling: float | None = None, parts: Sequence[Part] = (), **kwargs: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attention in which heads that share keys and values read them where they are, and no copy for each of them.

    Args:
        module: of the layer.
        query: (trees, heads, slots, head size).
        key: (trees, groups of heads, nodes, head size), and so ``value``.
        attention_mask: added to scores, (trees, 1, slots, nodes); not read where there are parts.
        args: nothing that counts when there is no training, nor in ``kwargs``.
        scaling: of the scores.
        parts: of one tree, whose nodes are the slots.

    Returns:
        (trees, slots, heads, head size), and no weights.
    """
    trees, heads, slots, size = query.shape
    groups = key.shape[1]
    shared = heads != groups
    if not parts:
        if shared and attention_mask is not None:  # heads that share are further slots
            query = query.reshape(trees, groups, -1, size)
            attention_mask = attention_mask.repeat(1, 1, heads // groups, 1)
        out = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
        return out.view(trees, heads, slots, size).transpose(1, 2).contiguous(), None
    seen = query.new_empty(trees, slots, heads, size)
    for part in parts:
        keys, values = (of.index_select(2, part.columns) for of in (key, value))
        rows = query[:, :, part.rows]
        out = scaled_dot_product_attention(rows, keys, values, attn_mask=part.mask, scale=scaling, enable_gqa=shared)
        seen[:, part.rows] = out.transpose(1, 2)
    return seen, None


_NAME = "tod_bias_tree"
AttentionInterface.register(_NAME, _attended)


@contextmanager
def attending(model: Any) -> Iterator[bool]:
    """The model with this attention, where it is on a processor; GPUs have kernels.

    Yields:
        Whether it takes :class:`Part`\\ s, as ``parts``.
    """
    config, usual = model.config, model.config._attn_implementation
    ours = model.device.type == "cpu" and usual == "sdpa"
    if ours:
        config._attn_implementation = _NAME
    try:
        yield ours
    finally:
        config._attn_implementation = usual
