"""Models and tokenizers: loading them from a folder or hub name, and making new ones."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)
from transformers.utils import cached_file
from transformers.utils import logging as transformers_logging

from tod_bias.errors import ModelError
from tod_bias.io.documents import read_json
from tod_bias.io.hub import absence
from tod_bias.models import adapters

transformers_logging.disable_progress_bar()  # progress is ours to show

PAD, END = "<pad>", "</s>"
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "spiece.model", "tokenizer.model")
_CONFIGURATIONS = ("config.json", "tokenizer_config.json", "generation_config.json", "processor_config.json")


def is_causal(name: str) -> bool:
    """True if a checkpoint is a causal model, False if it is sequence to sequence.

    Raises:
        ModelError: its configuration cannot be loaded, or it is an encoder such as BERT.
    """
    config = load_configuration(name)
    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        if kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
            return False
    elif kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_encoder(config):
        return True
    raise ModelError(
        f"{name}: is a {kind} checkpoint, which writes no text; expected a causal model (gpt2, llama, qwen2 …) or one "
        "from sequence to sequence (bart, t5 …)"
    )


def is_encoder(config: Any) -> bool:
    """True if a model is an encoder such as BERT, which writes no text, by its configuration."""
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False):
        return False
    kind = config.model_type
    return kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def load_configuration(name: str) -> Any:
    """Load a checkpoint's configuration; of an adapter, its base's.

    Raises:
        ModelError: there is none.
    """
    return from_pretrained(AutoConfig, adapters.chain(name)[-1], "configuration")


def is_described(name: str) -> bool:
    """True if a checkpoint was trained to read descriptions of services first (``training.json``)."""
    try:
        content = read_json(Path(name) / "training.json")
        return content["settings"]["described"] is True
    except (OSError, ValueError, LookupError, TypeError):
        return False


def load_generation_config(name: str) -> Any:
    """Load a checkpoint's generation defaults, or those of the library."""
    root = adapters.chain(name)[-1]
    try:
        return _local_first(GenerationConfig, root)
    except (OSError, ModelError):
        return GenerationConfig()


def load_tokenizer(name: str) -> Any:
    """Load a tokenizer from a folder or hub name.

    Raises:
        ModelError: there is none.
    """
    *adapted, root = adapters.chain(name)
    name = next((folder for folder in adapted if _has_tokenizer(folder)), root)
    if Path(name).is_dir() and not _has_tokenizer(name):
        raise ModelError(f"{name}: holds no tokenizer (tokenizer.json); save it with tokenizer.save_pretrained")
    return from_pretrained(AutoTokenizer, name, "tokenizer")


def _has_tokenizer(folder: str) -> bool:
    return any((Path(folder) / file).exists() for file in _TOKENIZER_FILES)


def load_model(name: str, *, causal: bool, dtype: torch.dtype = torch.float32) -> Any:
    """Load a model's weights from a folder or hub name; those of an adapter are added to its base's.

    Raises:
        ModelError: there are none, or not all that the model has.
    """
    _, *below = adapters.chain(name)
    if below:
        return adapters.merged(load_model(below[0], causal=causal, dtype=dtype), name)
    options: dict[str, Any] = {"dtype": dtype, "output_loading_info": True}
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # what is missing is ours to say
    try:
        kind = AutoModelForCausalLM if causal else AutoModelForSeq2SeqLM
        model, loaded = from_pretrained(kind, name, "model", **options)
    finally:
        transformers_logging.set_verbosity(verbosity)
    trained = {parameter for parameter, _ in model.named_parameters()}
    if lacks := sorted(trained & set(loaded["missing_keys"])):
        others = f" and {len(lacks) - 1} others" if len(lacks) > 1 else ""
        raise ModelError(f"{name}: has no weights for {lacks[0]}{others}; they would be drawn at random")
    return model


def positions(config: Any, *, decoder: bool = False) -> int | None:
    """Return the number of positions that a model reads, or that its decoder writes, by its configuration.

    Returns:
        None without a limit, as in models with relative positions.
    """
    side = "max_decoder_position_embeddings" if decoder else "max_encoder_position_embeddings"
    for name in (side, "max_position_embeddings", "max_seq_len"):
        value = getattr(config, name, None) or getattr(config.get_text_config(), name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def weights(name: str, *, causal: bool) -> int:
    """Count the weights of a checkpoint's model by its configuration; an adapter's are added to its base's."""
    with torch.device("meta"):
        model = (AutoModelForCausalLM if causal else AutoModelForSeq2SeqLM).from_config(load_configuration(name))
    return sum(weight.numel() for weight in model.parameters())


def refuse_custom_code(name: str | Path) -> None:
    """Refuse a model folder with custom code; code in a folder of data is never run.

    Raises:
        ModelError: one of its configurations has an ``auto_map``.
    """
    for file in _CONFIGURATIONS:
        try:
            content = read_json(Path(name) / file)
        except (OSError, ValueError):  # there is none, or the library says what is wrong with it
            continue
        if isinstance(content, dict) and content.get("auto_map"):
            raise ModelError(
                f"{name}: its {file} has custom code (auto_map), which is not run; "
                "expected a model of an architecture in transformers"
            )


def from_pretrained(kind: Any, name: str, what: str, **options: Any) -> Any:
    """Load with one of the library's classes, from a folder or by a name on the hub; ``what`` names it in messages.

    Raises:
        ModelError: the checkpoint is missing, damaged, or has custom code.
    """
    refuse_custom_code(name)
    try:
        return _local_first(kind, name, trust_remote_code=False, **options)
    except ModelError:
        raise
    except Exception as error:  # a damaged file can raise anything, down to the error classes of its format
        first = str(error).strip().split("\n")[0] or type(error).__name__
        raise ModelError(f"{name}: its {what} cannot be loaded: {first}") from error


def _local_first(kind: Any, name: str, **options: Any) -> Any:
    """Load from a folder, from what the hub's own cache holds, or else from the hub, in this order."""
    if Path(name).is_dir():
        return kind.from_pretrained(name, **options)
    local: dict[str, Any] = {"local_files_only": True}
    if kind in (AutoModelForCausalLM, AutoModelForSeq2SeqLM):  # which look for adapters on the hub all the same
        local["adapter_kwargs"] = dict(local)
    with suppress(OSError, ValueError):  # not, or not wholly, in the cache
        return kind.from_pretrained(name, **local, **options)
    if reason := absence(name, "model"):
        raise ModelError(f"{name}: {reason}; expected a model folder (config.json, model.safetensors, tokenizer)")
    return kind.from_pretrained(name, **options)


def fingerprint(name: str) -> str:
    """A hash of everything that decides a checkpoint's output: configuration, weights and tokenizer.

    For a folder, of its files; for a hub name, of the files that the hub's own cache holds.
    """
    folder, base = Path(name), next(iter(adapters.chain(name)[1:]), None)
    if not folder.is_dir():
        file = cached_file(name, "config.json", local_files_only=True)  # it was loaded from there
        folder = Path(file).parent
    names = {
        "config.json",
        adapters.CONFIGURATION,
        "generation_config.json",
        "merges.txt",
        "vocab.txt",
        "added_tokens.json",
        "special_tokens_map.json",
        *_TOKENIZER_FILES,
    }
    digest = hashlib.sha256(fingerprint(base).encode() if base else b"")
    for file in sorted(folder.iterdir()):
        if file.name in names or file.suffix in (".safetensors", ".bin", ".model", ".spm"):
            digest.update(file.name.encode())
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]
