"""A two-tower recommender with sampled softmax and importance weights, after Beattie section 5.1.3.

The user tower takes the user's own vector and, if asked to, a vector of the value of an attribute; the item tower takes
the item's vector. A score is the product of the two towers' outputs. Each interaction is a positive; items drawn by
popularity are the negatives of a batch, and scores are corrected for how likely each was to be drawn. Interactions
with popular items weigh less (importance weights).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from tod_bias.errors import InteractionsError
from tod_bias.io.progress import progress_bar
from tod_bias.recommenders.embeddings.interactions import Interactions
from tod_bias.recommenders.embeddings.vectors import Embeddings, Entities

START = 0.1
"""Standard deviation of the embeddings before training."""


@dataclass(frozen=True)
class TwoTowerConfig:
    """Settings of a training, in addition to the interactions."""

    attribute: str | None = None
    """Attribute of the users that the user tower sees; none by default."""
    dimensions: int = 32
    """Length of the embeddings."""
    hidden: int = 64
    """Width of the hidden layers."""
    epochs: int = 8
    """Passes over the interactions."""
    batch: int = 512
    """Interactions in a batch."""
    learning_rate: float = 5e-3
    """Learning rate of AdamW."""
    weight_decay: float = 1e-5
    """Weight decay of AdamW."""
    negatives: int = 128
    """Items drawn per batch."""
    sampling: float = 0.75
    """Negatives are drawn with probability proportional to popularity to this power."""
    importance: float = 0.3
    """The weight of an interaction is its item's popularity to minus this power; 0 for equal weights."""
    seed: int = 0
    """Seed of the initial weights, the held-out interactions and the batches."""


class TwoTower(nn.Module):
    """Users, with the value of an attribute where the model sees it, and items in one latent space."""

    def __init__(self, users: int, items: int, values: int, settings: TwoTowerConfig) -> None:
        super().__init__()
        size = settings.dimensions
        self.user_embedding = nn.Embedding(users, size)
        self.attribute_embedding = nn.Embedding(values, size) if settings.attribute else None
        nn.init.normal_(self.user_embedding.weight, std=START)
        width = size * (2 if settings.attribute else 1)
        self.layers = nn.Sequential(nn.Linear(width, settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, size))
        self.item_embedding = nn.Embedding(items, size)
        self.item_bias = nn.Embedding(items, 1)
        nn.init.normal_(self.item_embedding.weight, std=START)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, user: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """(batch,) users and attribute values to (batch, dimensions), the output of the user tower."""
        vectors = self.user_embedding(user)
        parts = [vectors] if self.attribute_embedding is None else [vectors, self.attribute_embedding(value)]
        return vectors + self.layers(torch.cat(parts, dim=-1))  # the sum keeps the tower from collapsing to one vector

    def loss(
        self,
        users: torch.Tensor,
        positives: torch.Tensor,
        negatives: torch.Tensor,
        correction: torch.Tensor,
        importance: torch.Tensor,
    ) -> torch.Tensor:
        """Sampled softmax over each positive and the negatives, weighted by importance.

        Args:
            users: (batch, dimensions).
            positives: (batch,) items.
            negatives: (negatives,) items.
            correction: (items,) logarithm of how often an item is expected among the negatives.
            importance: (items,) weight of an interaction with the item.
        """
        right = (users * self.item_embedding(positives)).sum(dim=-1) + self.item_bias(positives)[:, 0]
        right = right - correction[positives]
        others = users @ self.item_embedding(negatives).T + self.item_bias(negatives)[:, 0] - correction[negatives]
        others = others.masked_fill(negatives[None, :] == positives[:, None], -math.inf)  # the positive is no negative
        losses = torch.logsumexp(torch.cat([right[:, None], others], dim=1), dim=1) - right
        return (losses * importance[positives]).mean()


def train_two_tower(
    interactions: Interactions, settings: TwoTowerConfig | None = None, *, show_progress: bool = False
) -> tuple[Embeddings, dict[str, Any]]:
    """Train a two-tower network and take its output vectors as the embeddings of users and items.

    One interaction of every user with three or more is held out; ``recall_at_50`` is the share of them among the 50
    best-scored items that the user was not trained on (chance: about 50 / items).

    Args:
        interactions: to train on.
        settings: usual ones if not given.
        show_progress: on stderr.

    Returns:
        The embeddings, and how training went: settings, mean loss an epoch (nats), recall of the held-out interactions.

    Raises:
        InteractionsError: the users have no such attribute, or the loss is no longer finite.
    """
    chosen = settings or TwoTowerConfig()
    values, codes = _attribute_codes(interactions, chosen.attribute)
    rng = np.random.default_rng(chosen.seed)
    held = _held_out(interactions, rng)
    trained_on = np.setdiff1d(np.arange(len(interactions)), held)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(chosen.seed)
        model = TwoTower(len(interactions.user_ids), len(interactions.item_ids), len(values), chosen)
        losses = _fit(model, interactions, codes, trained_on, chosen, rng, show_progress)
        with torch.no_grad():
            user_vectors = model(torch.arange(len(codes)), codes).numpy()
            item_vectors = model.item_embedding.weight.numpy().copy()
            bias = model.item_bias.weight[:, 0].numpy().copy()
            exchanged = _exchanged(model, codes, values, interactions, chosen.attribute)
    name = f"the two-tower model {'with ' + chosen.attribute if chosen.attribute else 'without an attribute'}"
    tables = {} if exchanged is None else {"counterfactual_users": exchanged}
    embeddings = Embeddings(
        tables
        | {
            "users": Entities("users", user_vectors, interactions.user_ids, interactions.users, name),
            "items": Entities("items", item_vectors, interactions.item_ids, interactions.items, name),
        },
        name,
    )
    record = {
        "settings": asdict(chosen),
        "users": len(interactions.user_ids),
        "items": len(interactions.item_ids),
        "interactions": len(trained_on),
        "held_out": len(held),
        "loss": [round(loss, 4) for loss in losses],
        "recall_at_50": _recall(interactions, held, user_vectors @ item_vectors.T + bias, 50),
    }
    return embeddings, record


def _exchanged(
    model: TwoTower, codes: torch.Tensor, values: list[str], interactions: Interactions, attribute: str | None
) -> Entities | None:
    """Every user under each value of the attribute that the tower reads, with ids such as ``u1 as female``."""
    known = [number for number, value in enumerate(values) if value]
    if attribute is None:
        return None
    users = torch.arange(len(codes))
    vectors = [model(users, torch.full_like(codes, number)).numpy() for number in known]
    ids = [f"{user} as {values[number]}" for number in known for user in interactions.user_ids]
    frame = pd.DataFrame({"id": ids, attribute: [values[number] for number in known for _ in interactions.user_ids]})
    return Entities("counterfactual_users", np.concatenate(vectors), tuple(ids), frame, "counterfactual users")


def _fit(
    model: TwoTower,
    interactions: Interactions,
    codes: torch.Tensor,
    trained_on: np.ndarray,
    chosen: TwoTowerConfig,
    rng: np.random.Generator,
    show_progress: bool,
) -> list[float]:
    """Train, and return the mean loss of every epoch."""
    popularity = np.maximum(np.bincount(interactions.item[trained_on], minlength=len(interactions.item_ids)), 1)
    draw = popularity**chosen.sampling / (popularity**chosen.sampling).sum()
    weights = popularity ** (-chosen.importance)
    weights = weights / weights[interactions.item[trained_on]].mean()  # the mean interaction weighs 1
    importance = torch.as_tensor(weights, dtype=torch.float32)
    correction = torch.as_tensor(np.log(draw * chosen.negatives), dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.learning_rate, weight_decay=chosen.weight_decay)
    user_all, item_all = torch.tensor(interactions.user), torch.tensor(interactions.item)
    losses: list[float] = []
    steps = math.ceil(len(trained_on) / chosen.batch)
    with progress_bar(chosen.epochs * steps, "training", show=show_progress) as bar:
        for epoch in range(chosen.epochs):
            total = 0.0
            for number, rows in enumerate(np.array_split(rng.permutation(trained_on), steps), start=1):
                at = torch.as_tensor(rows)
                negatives = torch.as_tensor(rng.choice(len(draw), size=chosen.negatives, p=draw))
                users = model(user_all[at], codes[user_all[at]])  # (batch, dimensions)
                loss = model.loss(users, item_all[at], negatives, correction, importance)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                finite = all(torch.isfinite(part).all() for part in (loss.detach(), *model.parameters()))
                if not finite:
                    raise InteractionsError(
                        f"the training diverged at step {epoch * steps + number}; no embeddings were written; give a "
                        "lower learning_rate, or interactions with smaller weights"
                    )
                total += float(loss.detach()) * len(rows)
                bar.advance()
            losses.append(total / len(trained_on))
    return losses


def _attribute_codes(interactions: Interactions, attribute: str | None) -> tuple[list[str], torch.Tensor]:
    """Return the values of the attribute, and each user's number among them; unknown values are a separate value."""
    if attribute is None:
        return [""], torch.zeros(len(interactions.user_ids), dtype=torch.int64)
    if attribute not in interactions.users:
        known = ", ".join(map(str, interactions.users.columns[1:])) or "none"
        raise InteractionsError(f"users have no attribute {attribute!r} to train with; known: {known}")
    column = interactions.users[attribute]
    texts = column.astype(str).where(column.notna(), "")
    values = sorted(set(texts))
    return values, torch.tensor([values.index(text) for text in texts])


def _held_out(interactions: Interactions, rng: np.random.Generator) -> np.ndarray:
    """One interaction of every user with three or more."""
    order = rng.permutation(len(interactions))
    _, first = np.unique(interactions.user[order], return_index=True)
    picked = order[first]
    counts = np.bincount(interactions.user, minlength=len(interactions.user_ids))
    return np.sort(picked[counts[interactions.user[picked]] >= 3])


def _recall(interactions: Interactions, held: np.ndarray, scores: np.ndarray, size: int) -> float | None:
    if not len(held):
        return None
    seen = np.zeros(scores.shape, dtype=bool)
    seen[interactions.user, interactions.item] = True
    seen[interactions.user[held], interactions.item[held]] = False
    users, items = interactions.user[held], interactions.item[held]
    open_scores = np.where(seen[users], -np.inf, scores[users])
    rank = (open_scores > scores[users, items][:, None]).sum(axis=1)
    return float((rank < size).mean())
