"""Audits of the embeddings of latent-factor recommenders (Beattie)."""
