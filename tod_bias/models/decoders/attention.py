"""Attention over prefix trees: keys and values are read without copying, and only those that are seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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


def parts_of(seen: np.ndarray, dtype: torch.dtype, device: torch.device | str = "cpu") -> list[Part]:
    """Split a tree into parts that each attend to few other nodes; empty for a small tree.

    Args:
        seen: which node (row) sees which (column), bool of shape (nodes, nodes).
        dtype: of scores.
        device: of the scores.
    """
    if len(seen) <= 2 * _PART:
        return []
    parts = []
    for start in range(0, len(seen), _PART):
        rows = slice(start, min(start + _PART, len(seen)))
        columns = np.flatnonzero(seen[rows].any(axis=0))
        mask = added(seen[rows, columns], dtype, device)
        parts.append(Part(rows, torch.from_numpy(columns).to(device), mask))
    return parts


@dataclass(frozen=True)
class Rows:
    """Tokens of a step that share keys and values."""

    rows: slice
    """Rows of the step that belong to the part."""
    columns: int
    """Keys and values before them."""
    mask: torch.Tensor
    """Added to scores; heads that share keys and values are further rows: (1, 1, rows, columns and rows)."""
    stores: Sequence[tuple[torch.Tensor, torch.Tensor]]
    """Each layer's keys and values, with room behind for those of the rows: (1, groups of heads, room, head size)."""


def added(seen: np.ndarray, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    """Convert a bool mask (rows, columns) to an additive one (1, 1, rows, columns)."""
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.from_numpy(~seen), torch.finfo(dtype).min)
    return mask.to(device)[None, None]


UNREAD = torch.zeros(1, 1, 1, 1)
"""Mask of models that would make one without it, if the mask of the parts or of the step is used."""


def _attended(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *args: Any,
    scaling: float | None = None,
    parts: Sequence[Part] = (),
    step: Sequence[Rows] = (),
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention in which heads that share keys and values read them without a copy per head.

    Args:
        module: of the layer.
        query: (1, heads, tokens, head size).
        key: (1, groups of heads, tokens, head size), and so ``value``.
        attention_mask: added to scores, (1, 1, tokens, tokens); not read if there are parts or a step.
        args: ignored, as ``kwargs`` are, because they only matter in training.
        scaling: of the scores.
        parts: of a large tree whose nodes are the tokens.
        step: given if the tokens are those of a step; keys and values are added to its stores.

    Returns:
        (1, tokens, heads, head size), and no weights.
    """
    _, heads, tokens, size = query.shape
    groups = key.shape[1]
    seen = query.new_empty(1, tokens, heads, size)
    grouped = partial(scaled_dot_product_attention, scale=scaling, enable_gqa=heads != groups)
    if not (parts or step):
        return grouped(query, key, value, attn_mask=attention_mask).transpose(1, 2), None
    for part in parts:
        keys, values = (of.index_select(2, part.columns) for of in (key, value))
        seen[:, part.rows] = grouped(query[:, :, part.rows], keys, values, attn_mask=part.mask).transpose(1, 2)
    for rows in step:
        columns = rows.mask.shape[3]
        for store, states in zip(rows.stores[module.layer_idx], (key, value), strict=True):
            store[:, :, rows.columns : columns] = states[:, :, rows.rows]
        keys, values = (store[:, :, :columns] for store in rows.stores[module.layer_idx])
        packed = query[:, :, rows.rows].reshape(1, groups, -1, size)  # heads that share are further rows
        out = scaled_dot_product_attention(packed, keys, values, attn_mask=rows.mask, scale=scaling)
        seen[:, rows.rows] = out.reshape(1, heads, -1, size).transpose(1, 2)
    return seen, None


_NAME = "tod_bias_tree"
AttentionInterface.register(_NAME, _attended)


def stored_heads(config: Any) -> int:
    """Heads whose keys and values are held, which several others may share."""
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


@contextmanager
def attending(model: Any) -> Iterator[None]:
    """The model with this attention."""
    config, usual = model.config, model.config._attn_implementation
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = usual
