"""Audits of the embeddings of latent-factor recommenders (Beattie).

``association`` holds the metrics (eqs. 1-6), ``permutation`` and ``bootstrap`` their tests and intervals,
``direction`` and ``significance`` the bias directions, ``classification``, ``space`` and ``comparison`` the rest of
Beattie's framework, ``audit`` puts them together, ``readers`` and ``sets`` take what a user has.
"""
