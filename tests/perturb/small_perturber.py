"""A small perturber: a BART that learns from what the lexicon rewriter makes of short sentences."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

SUBJECTS = ("my mom", "my wife", "her sister", "my aunt", "the waitress", "my dad", "my husband", "his brother")
VERBS = ("wants", "likes", "needs", "books", "orders", "asks for")
THINGS = ("a table", "two tickets", "some noodles", "a quiet hotel", "the late flight", "spicy tacos", "a red car")
ENDS = ("in Davis", "for tonight", "today please", "and she is happy", "and he is late", "with her", "near me")


def sentences() -> list[str]:
    """All sentences of a small grammar, in a drawn order."""
    made = [f"{' '.join(words)} ." for words in itertools.product(SUBJECTS, VERBS, THINGS, ENDS)]
    random.Random(0).shuffle(made)
    return made


def pairs_of(texts: list[str]) -> list[tuple[str, str]]:
    """Qian's input for every text and what the lexicon rewriter makes of it."""
    from tod_bias.perturb.lexicon import load_lexicon
    from tod_bias.perturb.neural import SEPARATOR
    from tod_bias.perturb.rewriter import TextRewriter

    rewriters = [TextRewriter(load_lexicon("gender"), *pair) for pair in (("woman", "man"), ("man", "woman"))]
    pairs = []
    for text in texts:
        for rewriter in rewriters:
            first = next((text[m.start : m.end] for m, _ in rewriter.mentions(text)), None)
            if first is not None:
                pairs.append((f"{first}, {rewriter.target} {SEPARATOR} {text}", rewriter(text)))
    return pairs


HELD_OUT = 200


def train_perturber(folder: Path) -> Path:
    """Train it in about ten seconds; the last ``HELD_OUT`` sentences have no part in that."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    from tod_bias.models.checkpoints import END, PAD
    from tod_bias.models.from_scratch import new_model
    from tod_bias.models.settings import TrainConfig
    from tod_bias.perturb.neural import SEPARATOR

    torch.manual_seed(0)
    pairs = pairs_of(sentences()[:-HELD_OUT])
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=[PAD, END, "<unk>", SEPARATOR], show_progress=False)
    tokenizer.train_from_iterator((text.replace(SEPARATOR, "") for pair in pairs for text in pair), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, 1)])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token="<unk>",
        additional_special_tokens=[SEPARATOR],
    )
    settings = TrainConfig(arch="bart", layers=1, width=64, heads=4, dropout=0.0, max_length=32)
    model = new_model(settings, wrapped)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    steps = 400
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    rng = random.Random(0)
    for _ in range(steps):
        batch = rng.sample(pairs, 32)
        source = wrapped([text for text, _ in batch], padding=True, return_tensors="pt")
        labels = wrapped([text for _, text in batch], padding=True, return_tensors="pt")["input_ids"]
        loss = model(
            input_ids=source["input_ids"],
            attention_mask=source["attention_mask"],
            labels=labels.masked_fill(labels == wrapped.pad_token_id, -100),
        ).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return folder
