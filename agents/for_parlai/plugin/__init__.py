"""A folder for ``PYTHONPATH`` in which ParlAI finds the mutator ``demographic_rewrite``; run it to print its path."""
