"""Train a LoRA adapter (Hu et al. 2021) of a causal checkpoint on a corpus, with peft and transformers' Trainer.

    python projects/lora/lora.py text MODEL OUT --corpus google_sgd --datapath .data      # lines of text (SimpleTOD)
    python projects/lora/lora.py chat MODEL OUT --corpus chats.jsonl --tools tools.json   # messages and tool calls

The targets (calls and responses, or the assistant's messages) count in the loss. An interrupted training continues from
its last checkpoint. OUT holds the adapter, the tokenizer and training.json; `tod-bias … --model OUT` loads it on MODEL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from chat_template import CHATML, CHATML_MARKS, RESPONSE_TEMPLATE, ChatTemplate, template_source
from chats import chat_sequences, read_tools
from cyclopts import App, Parameter
from renaming import described_anew

from tod_bias import Dialogue, load_corpus
from tod_bias.dialogues.sampling import hold_out
from tod_bias.io.files import write_json
from tod_bias.models.checkpoints import load_model, load_tokenizer
from tod_bias.models.examples import IGNORED, TokenSequence, causal_sequences


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """Dialogues to learn from."""

    corpus: str
    """Corpus, as for ``tod-bias train``."""
    datapath: Path | None = None
    """Folder of published corpora, in ParlAI's layout."""
    max_dialogues: int | None = None
    """Size of a seeded sample of the training split."""
    held_out: int = 100
    """Dialogues of it for validation."""


@Parameter(name="*")
@dataclass(frozen=True)
class Learning:
    """Options of the training."""

    rank: int = 16
    """Rank of the adapters of all linear layers but the last; lora_alpha is twice the rank."""
    learning_rate: float = 2e-3
    """Peak of a cosine schedule."""
    epochs: int = 1
    batch: int = 1
    """Sequences per device and forward pass."""
    accumulate: int = 4
    """Forward passes per step."""
    max_length: int = 1024
    """Tokens in a sequence at most."""
    evaluations: int = 4
    """Validations; the checkpoint with the lowest loss is kept."""
    bf16: bool = False
    seed: int = 0


def split(source: Source, seed: int) -> tuple[list[Dialogue], list[Dialogue]]:
    """Return the dialogues to train and to validate on."""
    dialogues = load_corpus(
        source.corpus, datapath=source.datapath, split="train", max_dialogues=source.max_dialogues, seed=seed
    )
    return hold_out(dialogues, source.held_out, seed)


def fit(
    model: Any,
    tokenizer: Any,
    training: Sequence[TokenSequence],
    validation: Sequence[TokenSequence],
    out: Path,
    how: Learning,
) -> list[dict[str, float]]:
    """Train a model with transformers' Trainer, and leave it with the weights of the lowest validation loss.

    Returns:
        The Trainer's log: losses in nats per token.
    """
    import torch
    from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    checkpoints = out / "checkpoints"
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        learning_rate=how.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=0.05,  # a share of all steps
        num_train_epochs=how.epochs,
        per_device_train_batch_size=how.batch,
        per_device_eval_batch_size=how.batch,
        gradient_accumulation_steps=how.accumulate,
        train_sampling_strategy="group_by_length",
        eval_strategy="steps",
        eval_steps=1 / how.evaluations,
        save_steps=1 / how.evaluations,
        logging_steps=1 / how.evaluations,
        save_total_limit=2,
        load_best_model_at_end=True,
        bf16=how.bf16,
        dataloader_pin_memory=torch.accelerator.is_available(),
        seed=how.seed,
        report_to="none",
    )
    trainer = Trainer(
        model,
        arguments,
        data_collator=DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=IGNORED),
        train_dataset=_rows(training),
        eval_dataset=_rows(validation),
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None)
    return trainer.state.log_history


def _rows(sequences: Sequence[TokenSequence]) -> Any:
    return [{"input_ids": list(one.input_ids), "labels": list(one.labels)} for one in sequences]


def train_adapter(
    name: str,
    tokenizer: Any,
    model: Any,
    sequences: tuple[Sequence[TokenSequence], Sequence[TokenSequence]],
    out: Path,
    how: Learning,
    settings: dict[str, Any],
) -> None:
    """Train an adapter of the checkpoint ``name`` and save it."""
    import peft
    from transformers import set_seed

    set_seed(how.seed)
    config = peft.LoraConfig(
        r=how.rank, lora_alpha=2 * how.rank, target_modules="all-linear", task_type="CAUSAL_LM",
        base_model_name_or_path=name,
    )  # fmt: skip
    adapted = peft.get_peft_model(model, config)
    adapted.peft_config["default"].base_model_name_or_path = str(Path(name).resolve()) if Path(name).exists() else name
    losses = fit(adapted, tokenizer, *sequences, out, how)
    adapted.save_pretrained(out, save_embedding_layers=False)
    tokenizer.save_pretrained(out)
    write_json(out / "training.json", {"settings": {**asdict(how), **settings}, "losses": losses})


app = App()


@app.command
def text(
    model: str,
    out: Path,
    source: Source,
    how: Learning | None = None,
    *,
    described: bool = False,
    renamed: float = 0.0,
    copies: int = 1,
) -> None:
    """Train on lines of text (SimpleTOD).

    Args:
        described: begin with the system message, which describes the services (corpus google_sgd_described).
        renamed: with --described, the share of services that get other names.
        copies: with --described, copies of each dialogue, each with different orders and names.
    """
    how = how or Learning()
    tokenizer = load_tokenizer(model)
    training, validation = split(source, how.seed)
    if described:
        training = [
            described_anew(dialogue, Random(f"{how.seed}|{number}|{dialogue.id}"), renamed)
            for number in range(copies)
            for dialogue in training
        ]
    options = {"loss": "targets", "max_length": how.max_length, "described": described}
    sequences = (causal_sequences(training, tokenizer, **options), causal_sequences(validation, tokenizer, **options))
    loaded = load_model(model, causal=True)
    train_adapter(model, tokenizer, loaded, sequences, out, how, {"described": described, "renamed": renamed})


@app.command
def chat(
    model: str,
    out: Path,
    source: Source,
    how: Learning | None = None,
    *,
    tools: Path | None = None,
    system: str = "",
    chat_template: str | None = None,
) -> None:
    """Train on messages and tool calls in the tokenizer's chat template.

    Args:
        tools: a JSON file of OpenAI's function schemas, or of such lists by domain.
        system: the system message of dialogues that have none.
        chat_template: a file, or chatml, the template of this folder; by default the tokenizer's own.
    """
    how = how or Learning()
    tokenizer, loaded = load_tokenizer(model), load_model(model, causal=True)
    template = template_source(chat_template, tokenizer, model)
    if chat_template is not None:
        keep_template(template, tokenizer, loaded)
    writer = ChatTemplate(template, model, dict(tokenizer.special_tokens_map))
    options: dict[str, Any] = {"tools": read_tools(tools), "system": system, "max_length": how.max_length}
    sequences = []
    for part, name in zip(split(source, how.seed), ("training", "validation"), strict=True):
        made = chat_sequences(part, tokenizer, writer, **options)
        if made.left_out:
            print(f"{made.left_out} turns of the {name} dialogues are longer than --max-length and were left out.")
        sequences.append(made.sequences)
    train_adapter(model, tokenizer, loaded, (sequences[0], sequences[1]), out, how, {"chat_template": chat_template})


def keep_template(template: str, tokenizer: Any, model: Any) -> None:
    """Save a chat template with the tokenizer, and what a server needs to read its calls.

    Raises:
        SystemExit: the tokenizer lacks the marks of the template, and adapters train no new tokens.
    """
    tokenizer.chat_template = template
    if template != template_source(CHATML, None, ""):
        return
    if missing := [mark for mark in CHATML_MARKS if mark not in tokenizer.get_vocab()]:
        raise SystemExit(
            f"{missing[0]} of the template {CHATML} is not a token of the tokenizer; choose another template"
        )
    tokenizer.response_template = RESPONSE_TEMPLATE
    tokenizer.eos_token = CHATML_MARKS[1]
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id


if __name__ == "__main__":
    app()
