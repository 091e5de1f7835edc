"""Language models: loading, training, decoding."""
