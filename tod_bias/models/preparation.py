"""What a training starts from: a tokenizer, a model, and token sequences, made or loaded as the settings say."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any

from tod_bias.dialogues.chat import to_messages
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.schemas import described_anew
from tod_bias.errors import ModelError
from tod_bias.models import adapters
from tod_bias.models.chat_template import (
    CHATML,
    CHATML_MARKS,
    RESPONSE_TEMPLATE,
    ChatTemplate,
    template_source,
    with_read_arguments,
)
from tod_bias.models.chats import OfferedTools, chat_sequences, read_tools
from tod_bias.models.checkpoints import (
    fingerprint,
    is_causal,
    load_configuration,
    load_model,
    load_tokenizer,
    positions,
)
from tod_bias.models.examples import (
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
    check_described,
    check_loss,
)


@dataclass(frozen=True)
class Prepared:
    """All that a training needs beside its settings."""

    tokenizer: Any
    model: Any
    causal: bool
    train: list[TokenSequence]
    validation: list[TokenSequence]
    exchanged: list[TokenSequence]
    """Validation's targets with others' prompts; none of a causal model, which reads prompts and targets as one."""
    record: dict[str, Any]
    """What the settings do not say by themselves: architecture, hashes of files, counts of sequences."""


def prepare(settings: TrainConfig, dialogues: Sequence[Dialogue], validation: Sequence[Dialogue]) -> Prepared:
    """Make or load what is trained, and turn dialogues into token sequences.

    Raises:
        ModelError: unusable settings, checkpoint, chat template or tools, or nothing to train on.
    """
    is_chat = settings.format == "chat"
    causal, arch = _kind(settings)
    if settings.described:
        dialogues = _described(dialogues, settings)
    tools = read_tools(settings.tools)
    tokenizer, model, source = _start(settings, arch, tools, dialogues, causal)
    record: dict[str, Any] = {"arch": arch}
    if settings.init != "scratch":
        record["init_hash"] = fingerprint(settings.init)
    if is_chat:
        _fit_to_template(settings, source, tokenizer, model)
        record["chat_template"] = hashlib.sha256(source.encode()).hexdigest()[:16]
        record["tools"] = hashlib.sha256(repr(tools).encode()).hexdigest()[:16]
    sides = (positions(model.config), None if causal else positions(model.config, decoder=True))
    length = min([settings.max_length, *(side for side in sides if side is not None)])
    parts: list[list[TokenSequence]] = []
    record["sequences"] = []
    for part, name in ((dialogues, "train on"), (validation, "validate on")):
        sequences, left_out = _sequences(part, settings, tokenizer, source, tools, causal, length)
        rows = (row for sequence in sequences for row in (sequence.input_ids, sequence.labels))
        check_tokens(rows, model.get_input_embeddings().num_embeddings, settings.init)
        if not sequences:
            raise ModelError(f"there is nothing to {name} in sequences of {length} tokens; raise --max-length")
        parts.append(sequences)
        tokens = sum(len(sequence.input_ids) for sequence in sequences)
        record["sequences"].append({"sequences": len(sequences), "tokens": tokens, **left_out})
    if settings.lora is not None:
        model = adapters.with_adapter(model, settings.lora, settings.init)
    exchanged = []
    if not causal:
        exchanged = exchanged_sequences(validation, tokenizer, parts=settings.parts, max_length=length)
    return Prepared(tokenizer, model, causal, parts[0], parts[1], exchanged, record)


def _start(
    settings: TrainConfig, arch: str, tools: OfferedTools, dialogues: Sequence[Dialogue], causal: bool
) -> tuple[Any, Any, str]:
    """Tokenizer, model and, of chats, the source of the chat template: new ones, or the checkpoint's."""
    is_chat, init = settings.format == "chat", settings.init
    if init == "scratch":
        source = template_source(settings.chat_template or CHATML, None, init) if is_chat else ""
        tokenizer = _new_tokenizer(settings, source, tools, dialogues, causal)
        return tokenizer, new_model(settings.model_copy(update={"arch": arch}), tokenizer), source
    tokenizer, model = load_tokenizer(init), load_model(init, causal=causal)
    return tokenizer, model, template_source(settings.chat_template, tokenizer, init) if is_chat else ""


def _sequences(
    dialogues: Sequence[Dialogue],
    settings: TrainConfig,
    tokenizer: Any,
    source: str,
    tools: OfferedTools,
    causal: bool,
    length: int,
) -> tuple[list[TokenSequence], dict[str, int]]:
    """Dialogues as sequences of so many tokens at most; of chats also what was split or left out."""
    parts = settings.parts
    if settings.format == "chat":
        made = chat_sequences(
            dialogues,
            tokenizer,
            ChatTemplate(source, settings.init, dict(tokenizer.special_tokens_map)),
            tools=tools,
            system=settings.system,
            parts=parts,
            loss=settings.loss or "targets",
            max_length=length,
        )
        return made.sequences, {"dialogues_split": made.split, "turns_left_out": made.left_out}
    if causal:
        loss, described = settings.loss or "all", settings.described
        sequences = causal_sequences(
            dialogues, tokenizer, parts=parts, loss=loss, max_length=length, described=described
        )
        return sequences, {}
    return seq2seq_sequences(dialogues, tokenizer, parts=parts, max_length=length), {}


def _kind(settings: TrainConfig) -> tuple[bool, str]:
    """Whether the model is causal, and its architecture.

    Raises:
        ModelError: it is not the one that was given, or the settings do not go with it.
    """
    if settings.init == "scratch":
        arch: str = settings.arch or "gpt2"
        causal = arch not in READERS
    else:
        causal, arch = is_causal(settings.init), load_configuration(settings.init).model_type
        check_arch(settings.init, arch, settings.arch)
    if settings.format == "chat" and not causal:
        raise ModelError(f"--format chat needs a causal model, and {arch} is none; use --format text")
    check_loss(arch, settings.loss, causal=causal)
    check_described(settings, None if causal else arch)
    return causal, arch


def _described(dialogues: Sequence[Dialogue], settings: TrainConfig) -> list[Dialogue]:
    """The training dialogues with their descriptions written anew, as often as the settings say.

    Raises:
        ModelError: none has a description.
    """
    if not any(dialogue.system for dialogue in dialogues):
        raise ModelError(
            "--described: no training dialogue has a system message; choose a corpus that describes its services, such "
            "as google_sgd_described"
        )
    return [
        described_anew(dialogue, Random(f"{settings.seed}|{number}|{dialogue.id}"), settings.renamed)
        for number in range(settings.copies)
        for dialogue in dialogues
    ]


def _new_tokenizer(
    settings: TrainConfig, source: str, tools: OfferedTools, dialogues: Sequence[Dialogue], causal: bool
) -> Any:
    if settings.format == "text":
        read = dialogues if settings.described else ()
        texts = chain(
            (dialogue.system for dialogue in read), (turn.text for dialogue in dialogues for turn in dialogue.turns)
        )
        return new_tokenizer(texts, settings.vocabulary, causal=causal)
    template = ChatTemplate(source, "scratch", {"eos_token": CHATML_MARKS[1], "bos_token": CHATML_MARKS[0]})
    chats = (
        template.render(list(with_read_arguments(to_messages(dialogue))), tools.of(dialogue)) for dialogue in dialogues
    )
    return new_tokenizer(chats, settings.vocabulary, causal=True, marks=CHATML_MARKS)


def _fit_to_template(settings: TrainConfig, source: str, tokenizer: Any, model: Any) -> None:
    """Give tokenizer and model what a template that is not their own needs, and keep it with them."""
    if settings.init != "scratch" and settings.chat_template is None:
        return
    tokenizer.chat_template = source
    if source != template_source(CHATML, None, ""):
        return
    tokenizer.response_template = RESPONSE_TEMPLATE
    known = tokenizer.get_vocab()
    if missing := [mark for mark in CHATML_MARKS if mark not in known]:
        if settings.lora is not None:
            raise ModelError(
                f"{settings.init}: {missing[0]} of the template {CHATML} is no token of its tokenizer, and adapters "
                "train no new tokens; fine-tune without --lora"
            )
        tokenizer.add_special_tokens({"additional_special_tokens": missing}, replace_extra_special_tokens=False)
        if len(tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(tokenizer))
    tokenizer.eos_token = CHATML_MARKS[1]
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
