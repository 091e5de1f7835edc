"""Start of a training: a tokenizer, a model and token sequences, made or loaded by the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import ModelError
from tod_bias.models.checkpoints import (
    fingerprint,
    is_causal,
    load_configuration,
    load_model,
    load_tokenizer,
    positions,
)
from tod_bias.models.examples import (
    IGNORED,
    TokenSequence,
    causal_sequences,
    check_tokens,
    exchanged_sequences,
    seq2seq_sequences,
)
from tod_bias.models.from_scratch import new_model, new_tokenizer
from tod_bias.models.settings import (
    READERS,
    TrainConfig,
    check_arch,
    check_loss,
)


@dataclass(frozen=True)
class Prepared:
    """Input of a training, in addition to its settings."""

    tokenizer: Any
    model: Any
    causal: bool
    train: list[TokenSequence]
    validation: list[TokenSequence]
    exchanged: list[TokenSequence]
    """Validation's targets with others' prompts; none of a causal model, which reads prompts and targets as one."""
    record: dict[str, Any]
    """Facts that the settings do not contain: architecture, hashes of files, counts of sequences."""


def prepare(settings: TrainConfig, dialogues: Sequence[Dialogue], validation: Sequence[Dialogue]) -> Prepared:
    """Make or load what is trained, and turn dialogues into token sequences.

    Raises:
        ModelError: unusable settings or checkpoint, or nothing to train on.
    """
    causal, arch = _kind(settings)
    record: dict[str, Any] = {"arch": arch}
    if settings.init == "scratch":
        texts = (turn.text for dialogue in dialogues for turn in dialogue.turns)
        tokenizer = new_tokenizer(texts, settings.vocabulary, causal=causal)
        model = new_model(settings.model_copy(update={"arch": arch}), tokenizer)
    else:
        tokenizer, model = load_tokenizer(settings.init), load_model(settings.init, causal=causal)
        record["init_hash"] = fingerprint(settings.init)
    sides = (positions(model.config), None if causal else positions(model.config, decoder=True))
    length = min([settings.max_length, *(side for side in sides if side is not None)])
    parts: list[list[TokenSequence]] = []
    record["sequences"] = []
    for part, name in ((dialogues, "train on"), (validation, "validate on")):
        sequences = _sequences(part, settings, tokenizer, causal, length)
        rows = (row for sequence in sequences for row in (sequence.input_ids, sequence.labels))
        check_tokens(rows, model.get_input_embeddings().num_embeddings, settings.init)
        if not sequences:
            raise ModelError(f"there is nothing to {name} in sequences of {length} tokens; raise --max-length")
        parts.append(sequences)
        tokens = sum(len(sequence.input_ids) for sequence in sequences)
        record["sequences"].append({"sequences": len(sequences), "tokens": tokens})
    exchanged = []
    if not causal:
        exchanged = exchanged_sequences(validation, tokenizer, parts=settings.parts, max_length=length)
    return Prepared(tokenizer, model, causal, parts[0], parts[1], exchanged, record)


def _sequences(
    dialogues: Sequence[Dialogue], settings: TrainConfig, tokenizer: Any, causal: bool, length: int
) -> list[TokenSequence]:
    """Return the dialogues as sequences of at most ``length`` tokens."""
    if causal:
        loss = settings.loss or "all"
        made = causal_sequences(dialogues, tokenizer, parts=settings.parts, loss=loss, max_length=length)
        # a sequence without a target has no loss
        return [sequence for sequence in made if any(label != IGNORED for label in sequence.labels[1:])]
    return seq2seq_sequences(dialogues, tokenizer, parts=settings.parts, max_length=length)


def _kind(settings: TrainConfig) -> tuple[bool, str]:
    """Return whether the model is causal, and its architecture.

    Raises:
        ModelError: the architecture is not the one that was given, or the settings do not go with it.
    """
    if settings.init == "scratch":
        arch: str = settings.arch or "gpt2"
        causal = arch not in READERS
    else:
        causal, arch = is_causal(settings.init), load_configuration(settings.init).model_type
        check_arch(settings.init, arch, settings.arch)
    check_loss(arch, settings.loss, causal=causal)
    return causal, arch
