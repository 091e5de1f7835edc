"""The picture of the latent space (Beattie sections 4.2.1 and 5.2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tod_bias.recommenders.embeddings.directions import centroid_direction, most_biased
from tod_bias.recommenders.embeddings.vectors import unit

MOST_BIASED = 200
"""Entities a side that the components are fitted on (Beattie section 5.2.1)."""


@dataclass(frozen=True)
class Picture:
    """Entities on the first two principal components of the most biased entities of A and B."""

    a: np.ndarray
    """(entities, 2) the most biased of A, that the components were fitted on."""
    b: np.ndarray
    groups: dict[str, np.ndarray]
    """Name of a set to its (entities, 2)."""
    explained: tuple[float, float]
    """Share of the variance a component."""
    cosine: float
    """Cosine of the first component with the centroid difference of A and B, in [0, 1]: the component points to A."""

    def record(self) -> dict[str, Any]:
        """Return the record in ``associations.json``."""
        return {
            "fitted_on": {"A": len(self.a), "B": len(self.b)},
            "explained_variance": list(self.explained),
            "first_component_cosine_to_centroid": self.cosine,
        }


def picture(a: np.ndarray, b: np.ndarray, groups: dict[str, np.ndarray], *, size: int = MOST_BIASED) -> Picture | None:
    """Fit PCA on the ``size`` most biased entities a side and project the groups on it.

    Args:
        a: (|A|, dimensions).
        b: (|B|, dimensions).
        groups: name of a set to its (entities, dimensions).
        size: at the most half of a set is taken.

    Returns:
        None where fewer than three entities or two dimensions leave nothing to fit.
    """
    rows = most_biased(a, b, max(1, min(size, len(a) // 2, len(b) // 2)))
    fitted = unit(np.concatenate([a[rows[0]], b[rows[1]]]))
    if len(fitted) < 3 or fitted.shape[1] < 2:
        return None
    middle = fitted.mean(axis=0)
    _, sizes, components = np.linalg.svd(fitted - middle, full_matrices=False)
    shares, components = sizes**2 / (sizes**2).sum(), components[:2]
    largest = np.abs(components).argmax(axis=1)  # decides the signs, which are arbitrary
    components = components * np.sign(components[[0, 1], largest])[:, None]
    cosine = float(components[0] @ centroid_direction(a, b).vector)
    flip = np.array([-1.0 if cosine < 0 else 1.0, 1.0])

    def project(vectors: np.ndarray) -> np.ndarray:
        return np.asarray((unit(vectors) - middle) @ components.T * flip)

    return Picture(
        project(a[rows[0]]),
        project(b[rows[1]]),
        {name: project(vectors) for name, vectors in groups.items()},
        (float(shares[0]), float(shares[1])),
        abs(cosine),
    )
