"""Attribution, evaluation, words: each computes a result."""
