"""Checkpoints in one GGUF file: weights, tokenizer, what is refused."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from builders import small_corpus

from tod_bias.errors import ModelError
from tod_bias.models import checkpoints
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings, TrainConfig
from tod_bias.models.training import train

gguf = pytest.importorskip("gguf", reason="no GGUF: pip install 'tod-bias[gguf]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's readers


@pytest.fixture(scope="module")
def packed(llama, tmp_path_factory):
    """The same model as llama.cpp's converter writes it: heads' halves interleaved, a byte-level BPE tokenizer."""
    model = checkpoints.load_model(str(llama), causal=True)
    tokenizer = checkpoints.load_tokenizer(str(llama))
    config, state = model.config, model.state_dict()
    path = tmp_path_factory.mktemp("packed") / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    pieces = tokenizer.backend_tokenizer.to_str()
    content = json.loads(pieces)["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    special = set(tokenizer.all_special_tokens)
    kinds = gguf.TokenType
    writer.add_token_types([kinds.CONTROL if token in special else kinds.NORMAL for token in tokens])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in content["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weights in state.items():
        if name == "lm_head.weight":
            continue
        if "q_proj" in name or "k_proj" in name:
            rows, columns = weights.shape
            heads = config.num_attention_heads
            weights = weights.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        stem = name.removesuffix(".weight")
        writer.add_tensor(f"{names.get_name(stem)}.weight", np.ascontiguousarray(weights.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_weights_are_those_that_were_packed(llama, packed):
    assert checkpoints.is_causal(str(packed))
    model = checkpoints.load_model(str(packed), causal=True)
    ids = torch.tensor([[5, 17, 40, 2, 9]])
    with torch.no_grad():
        expected = checkpoints.load_model(str(llama), causal=True)(ids).logits
        torch.testing.assert_close(model(ids).logits, expected, rtol=1e-4, atol=1e-4)
    assert not hasattr(model.config, "quantization_config")


def test_it_writes_what_the_folder_writes(llama, packed):
    prompts = ["USER: I need a table for my wife\nAPICALL:", "USER: he said\nAPICALL:"]
    answers = [Generator(path, GenerationSettings(max_new_tokens=8)).generate(prompts) for path in (llama, packed)]
    assert answers[0] == answers[1]


def test_a_training_goes_on_from_it_and_its_adapter_finds_it(packed, tmp_path):
    pytest.importorskip("peft")
    settings = TrainConfig(init=str(packed), epochs=1, lora=2, max_length=128, batch_tokens=512, evaluations=1)
    train(small_corpus(), small_corpus()[:4], tmp_path / "adapter", settings)
    model = checkpoints.load_model(str(tmp_path / "adapter"), causal=True)
    assert model.config.model_type == "llama"
    assert checkpoints.fingerprint(str(tmp_path / "adapter")) != checkpoints.fingerprint(str(packed))


def test_a_folder_with_one_such_file_is_that_file(packed, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(packed, folder / "model.gguf")
    assert checkpoints.fingerprint(str(folder)) == checkpoints.fingerprint(str(packed))
    prompts = ["USER: I need a table for my wife\nAPICALL:"]
    answers = [Generator(path, GenerationSettings(max_new_tokens=8)).generate(prompts) for path in (folder, packed)]
    assert answers[0] == answers[1]
    shutil.copy(packed, folder / "other.gguf")
    with pytest.raises(ModelError, match=r"holds model\.gguf and 1 more GGUF files; name one of them"):
        checkpoints.is_causal(str(folder))


def test_what_is_no_such_file_is_refused_in_one_line(packed, tmp_path, monkeypatch):
    with pytest.raises(ModelError, match=r"nothing\.gguf: there is no such file"):
        checkpoints.is_causal(str(tmp_path / "nothing.gguf"))
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(packed.read_bytes()[:300])
    with pytest.raises(ModelError, match=r"damaged\.gguf: its configuration cannot be loaded"):
        checkpoints.is_causal(str(damaged))
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModelError, match=r"pip install 'tod-bias\[gguf\]'"):
        checkpoints.is_causal(str(packed))
