"""The names of the shipped metrics, for those who need no more than these."""

METRIC_NAMES = (
    "corpus_bleu",
    "sentence_bleu",
    "chrf",
    "jga",
    "slot_f1",
    "success",
    "refusal",
    "length",
    "sentiment",
    "disagreement",
    "call_disagreement",
)
COUNTERFACTUAL = ("disagreement", "call_disagreement")
"""Those among them that compare counterfactuals with originals."""
