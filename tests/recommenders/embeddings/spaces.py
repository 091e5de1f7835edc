"""Latent spaces for tests: random ones, and ones with a planted association."""

import numpy as np


def planted(strength, *, people=120, things=40, dimensions=16, seed=0):
    """Users of A and B and items of E and P; E is moved towards A and P towards B by ``strength``."""
    rng = np.random.default_rng(seed)
    axis = np.zeros(dimensions)
    axis[0] = 1
    a, b = rng.normal(size=(2, people, dimensions)) + np.array([axis, -axis])[:, None, :] * 1.0
    e, p = rng.normal(size=(2, things, dimensions)) + np.array([axis, -axis])[:, None, :] * strength
    return a, b, e, p
