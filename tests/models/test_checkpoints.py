"""Checkpoints as people have them: adapters on adapters, missing weights, other configurations, other tokenizers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import small_corpus, tiny_adapter
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaConfig, RwkvConfig

from tod_bias.errors import ModelError
from tod_bias.models import checkpoints
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings, TrainConfig
from tod_bias.models.training import train

SHORT = {"epochs": 1, "batch": 4, "max_length": 96, "evaluations": 1, "learning_rate": 1e-3, "patience": 99}
PROMPTS = [f"USER: I need a table for my {who}\nAPICALL:" for who in ("wife", "husband", "dad and my mother")]


def trained(out: Path, init: Path, **more: Any) -> Path:
    train(small_corpus(), small_corpus(4), out, TrainConfig(init=str(init), **SHORT, **more))
    return out


def copied(folder: Path, out: Path, **changes: Any) -> Path:
    """A copy of a model, its generation defaults changed."""
    shutil.copytree(folder, out)
    said = json.loads((out / "generation_config.json").read_text())
    (out / "generation_config.json").write_text(json.dumps(said | changes))
    return out


def test_what_a_training_starts_from_is_not_written_over(tmp_path, gpt2):
    base = copied(gpt2, tmp_path / "base")
    kept = (base / "model.safetensors").read_bytes()
    with pytest.raises(ModelError, match=r"is what the training starts from .* which would be lost"):
        trained(base, base)
    adapter = tiny_adapter(tmp_path / "adapter", base)
    with pytest.raises(ModelError, match="is what the training starts from"):
        trained(base, adapter)  # on which the adapter rests
    assert (base / "model.safetensors").read_bytes() == kept


def test_an_adapter_rests_on_an_adapter(tmp_path, gpt2):
    first = tiny_adapter(tmp_path / "first", gpt2)
    second = tiny_adapter(tmp_path / "second", first)
    whole = tmp_path / "whole"
    checkpoints.load_model(str(second), causal=True).save_pretrained(whole)
    checkpoints.load_tokenizer(str(second)).save_pretrained(whole)
    assert checkpoints.load_configuration(str(second)).model_type == "gpt2"
    assert checkpoints.load_tokenizer(str(second)).get_vocab() == checkpoints.load_tokenizer(str(gpt2)).get_vocab()
    said = [Generator(one, GenerationSettings(max_new_tokens=8)).generate(PROMPTS) for one in (second, whole)]
    assert said[0] == said[1]


def test_an_adapter_whose_base_is_gone_or_itself_says_so(tmp_path, gpt2):
    adapter = tiny_adapter(tmp_path / "adapter", gpt2)
    content = json.loads((adapter / "adapter_config.json").read_text())
    for base, says in ((tmp_path / "gone", "names the base .*gone, which is"), (adapter, "an adapter on itself")):
        (adapter / "adapter_config.json").write_text(json.dumps(content | {"base_model_name_or_path": str(base)}))
        with pytest.raises(ModelError, match=f"^[^\n]*{says}[^\n]*$"):
            checkpoints.load_configuration(str(adapter))


def test_weights_that_are_missing_are_not_drawn(tmp_path, gpt2, capfd):
    folder = copied(gpt2, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    lost = next(name for name in weights if "attn.c_attn.weight" in name)
    save_file(
        {name: one for name, one in weights.items() if name != lost}, folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(ModelError, match=r"has no weights for transformer\.h\.0\.attn\.c_attn\.weight; they would"):
        checkpoints.load_model(str(folder), causal=True)
    assert capfd.readouterr().err == ""
    adapter = tiny_adapter(tmp_path / "adapter", gpt2)
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file(dict(list(weights.items())[1:]), adapter / "adapter_model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"its adapter has no weights for .* and 0 others"):
        checkpoints.load_model(str(adapter), causal=True)


@pytest.mark.parametrize("arch", ["gpt2", "bart"])
def test_what_a_checkpoint_prefers_to_the_likeliest_token_is_left_out(request, tmp_path, arch):
    plain = request.getfixturevalue(arch)
    odd = copied(plain, tmp_path / "odd", repetition_penalty=4.0, no_repeat_ngram_size=1, suppress_tokens=[5, 6, 7])
    backends = ["batch", *(["tree"] if arch == "gpt2" else [])]
    said = {
        tuple(Generator(one, GenerationSettings(max_new_tokens=16, backend=backend)).generate(PROMPTS))
        for one in (plain, odd)
        for backend in backends
    }
    assert len(said) == 1


def test_forced_beginnings_and_ends_are_those_of_the_model(tmp_path, bart):
    forced = copied(bart, tmp_path / "forced", forced_bos_token_id=77, forced_eos_token_id=88)
    generator = Generator(forced, GenerationSettings(max_new_tokens=6))
    rows = [generator.tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
    decoded = generator._decoder.decode(rows)
    assert all(row[0] == 77 for row in decoded)
    assert {row[-1] for row in decoded if len(row) == 6} <= {88}


def made(folder: Path, config: Any, tokenizer: Path) -> Path:
    """A model with random weights, and a tokenizer that is another's."""
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
    return folder


def llama(vocabulary: int = 400, **more: Any) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.3, **more,
    )  # fmt: skip


def test_a_model_that_pays_no_heed_to_the_mask_gets_a_row_at_a_time(tmp_path, gpt2):
    config = RwkvConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, intermediate_size=64,
        context_length=128,
    )  # fmt: skip
    folder = made(tmp_path / "model", config, gpt2)
    together = Generator(folder, GenerationSettings(max_new_tokens=12))
    alone = Generator(folder, GenerationSettings(max_new_tokens=12, batch_tokens=1))
    assert together.generate(PROMPTS) == alone.generate(PROMPTS)
    assert Generator(gpt2, GenerationSettings(max_new_tokens=4, backend="batch"))._decoder._heeds_the_mask  # type: ignore[attr-defined]


def test_a_tokenizer_of_another_model_is_said_to_be_one(tmp_path, gpt2):
    folder = made(tmp_path / "model", llama(60), gpt2)
    generator = Generator(folder, GenerationSettings(max_new_tokens=4))
    for use in (lambda: trained(tmp_path / "out", folder), lambda: generator.generate(PROMPTS)):
        with pytest.raises(ModelError, match=r"its tokenizer gives token .*, and the model has 60"):
            use()


def test_a_tokenizer_without_marks_is_taken(tmp_path, gpt2):
    folder = made(tmp_path / "model", llama(), gpt2)
    content = json.loads((folder / "tokenizer_config.json").read_text())
    marks = {name: None for name in content if name.endswith("_token")}
    (folder / "tokenizer_config.json").write_text(json.dumps(content | marks))
    assert checkpoints.load_tokenizer(str(folder)).eos_token_id is None
    out = trained(tmp_path / "out", folder)
    for backend in ("batch", "tree"):
        assert len(Generator(out, GenerationSettings(max_new_tokens=4, backend=backend)).generate(PROMPTS)) == 3


def test_a_training_records_which_base_it_started_from(tmp_path, gpt2):
    base = copied(gpt2, tmp_path / "base")
    corpus, settings = small_corpus(), TrainConfig(init=str(base), **SHORT)
    first = train(corpus, corpus[:4], tmp_path / "a", settings)["init_hash"]
    assert first == checkpoints.fingerprint(str(base))
    (base / "generation_config.json").write_text("{}")
    assert train(corpus, corpus[:4], tmp_path / "b", settings)["init_hash"] != first


@pytest.mark.parametrize(
    ("kind", "more", "reads", "writes"),
    [
        ("gpt2", {"n_positions": 77}, 77, 77),
        ("led", {"max_encoder_position_embeddings": 99, "max_decoder_position_embeddings": 55}, 99, 55),
        ("mpt", {"max_seq_len": 66}, 66, 66),
        ("t5", {}, None, None),
        ("bart", {"max_position_embeddings": 12}, 12, 12),
    ],
)
def test_positions_are_known_by_any_of_their_names(kind, more, reads, writes):
    config = AutoConfig.for_model(kind, **more)
    assert (checkpoints.positions(config), checkpoints.positions(config, decoder=True)) == (reads, writes)


def test_an_answer_is_no_longer_than_a_decoder_can_write(bart):
    most = checkpoints.positions(checkpoints.load_configuration(str(bart)), decoder=True)
    assert most is not None
    generator = Generator(bart, GenerationSettings(max_new_tokens=most + 9))
    assert f"|max:{most}|" in generator.signature
    assert generator.generate(PROMPTS) == Generator(bart, GenerationSettings(max_new_tokens=most)).generate(PROMPTS)
