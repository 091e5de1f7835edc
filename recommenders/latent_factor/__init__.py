"""A reference latent-factor recommender: a two-tower network, and interactions to train it on."""
