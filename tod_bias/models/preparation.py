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
    is_chat, is_new = settings.format == "chat", settings.init == "scratch"
    causal, arch = _kind(settings)
    if is_chat and not causal:
        raise ModelError(f"--format chat needs a causal model, and {arch} is none; use --format text")
    check_loss(arch, settings.loss, causal=causal)
    check_described(settings, None if causal else arch)
    if settings.described:
        dialogues = _described(dialogues, settings)
    tools = read_tools(settings.tools)
    if is_new:
        source = template_source(settings.chat_template or CHATML, None, "scratch") if is_chat else ""
        tokenizer = _new_tokenizer(settings, source, tools, dialogues, causal)
        model = new_model(settings.model_copy(update={"arch": arch}), tokenizer)
    else:
        tokenizer, model = load_tokenizer(settings.init), load_model(settings.init, causal=causal)
        source = template_source(settings.chat_template, tokenizer, settings.init) if is_chat else ""
    record: dict[str, Any] = {"arch": arch} | ({} if is_new else {"init_hash": fingerprint(settings.init)})
    if is_chat:
        _fit_to_template(settings, source, tokenizer, model)
        record["chat_template"] = hashlib.sha256(source.encode()).hexdigest()[:16]
        record["tools"] = hashlib.sha256(repr(tools).encode()).hexdigest()[:16]
    sides = (positions(model.config), None if causal else positions(model.config, decoder=True))
    length = min([settings.max_length, *(side for side in sides if side is not None)])
    made, cut = [], []
    for part in (dialogues, validation):
        if is_chat:
            template = ChatTemplate(source, settings.init, dict(tokenizer.special_tokens_map))
            loss = settings.loss or "targets"
            found = chat_sequences(
                part, tokenizer, template, tools=tools, system=settings.system, parts=settings.parts, loss=loss,
                max_length=length,
            )  # fmt: skip
            made.append(found.sequences)
            cut.append({"dialogues_split": found.split, "turns_left_out": found.left_out})
        elif causal:
            loss = settings.loss or "all"
            made.append(
                causal_sequences(
                    part, tokenizer, parts=settings.parts, loss=loss, max_length=length, described=settings.described
                )
            )
        else:
            made.append(seq2seq_sequences(part, tokenizer, parts=settings.parts, max_length=length))
    rows = (row for sequences in made for one in sequences for row in (one.input_ids, one.labels))
    check_tokens(rows, model.get_input_embeddings().num_embeddings, settings.init)
    for sequences, name in zip(made, ("train on", "validate on"), strict=True):
        if not sequences:
            raise ModelError(f"there is nothing to {name} in sequences of {length} tokens; raise --max-length")
    record["sequences"] = [
        {"sequences": len(sequences), "tokens": sum(len(sequence.input_ids) for sequence in sequences), **more}
        for sequences, more in zip(made, cut or ({}, {}), strict=True)
    ]
    if settings.lora is not None:
        model = adapters.with_adapter(model, settings.lora, settings.init)
    exchanged = []
    if not causal:
        exchanged = exchanged_sequences(validation, tokenizer, parts=settings.parts, max_length=length)
    return Prepared(tokenizer, model, causal, made[0], made[1], exchanged, record)


def _kind(settings: TrainConfig) -> tuple[bool, str]:
    """Whether the model is causal, and its architecture."""
    if settings.init == "scratch":
        arch = settings.arch or "gpt2"
        return arch not in READERS, arch
    causal = is_causal(settings.init)
    arch = load_configuration(settings.init).model_type
    check_arch(settings.init, arch, settings.arch)
    return causal, arch


def _described(dialogues: Sequence[Dialogue], settings: TrainConfig) -> list[Dialogue]:
    """The training dialogues with their descriptions told anew, as often as they are to be.

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
        texts = chain((dialogue.system for dialogue in read), (turn.text for one in dialogues for turn in one.turns))
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
