"""Faster kernels give the same numbers, and processes share the work evenly."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.pytorch_utils import Conv1D

from tod_bias.models import kernels
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings

has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
needs_onednn = pytest.mark.skipif(not has_onednn, reason="PyTorch without oneDNN")


@pytest.fixture
def processor(monkeypatch, tmp_path):
    """Makes the processor one of a vendor's."""

    def of(vendor):
        monkeypatch.setattr(kernels, "_PROCESSOR", tmp_path / "cpuinfo")
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
        kernels._prefers_onednn.cache_clear()

    yield of
    kernels._prefers_onednn.cache_clear()


def layers(model):
    return {type(module) for module in model.modules()} & {torch.nn.Linear, Conv1D, kernels.OneDnnLinear}


@pytest.mark.parametrize("vendor", ["GenuineIntel", pytest.param("AuthenticAMD", marks=needs_onednn)])
def test_a_quickened_gpt2_says_what_the_library_says(gpt2, processor, vendor):
    processor(vendor)
    plain = AutoModelForCausalLM.from_pretrained(gpt2).eval()
    quick = Generator(gpt2).model
    tokens = torch.arange(40)[None]
    with torch.inference_mode():
        torch.testing.assert_close(quick(tokens).logits, plain(tokens).logits, rtol=1e-5, atol=2e-6)
    assert {type(layer.mlp.act) for layer in quick.transformer.h} == {torch.nn.GELU}
    assert plain.transformer.h[0].mlp.act is not quick.transformer.h[0].mlp.act
    assert layers(quick) == ({kernels.OneDnnLinear} if vendor == "AuthenticAMD" else {torch.nn.Linear, Conv1D})
    assert layers(plain) == {torch.nn.Linear, Conv1D}


@needs_onednn
def test_a_quickened_sequence_to_sequence_model_says_what_the_library_says(bart, processor):
    processor("AuthenticAMD")
    plain, quick = AutoModelForSeq2SeqLM.from_pretrained(bart).eval(), Generator(bart).model
    assert layers(quick) == {kernels.OneDnnLinear}
    tokens = torch.arange(5, 30)[None]
    with torch.inference_mode():
        expected = plain(input_ids=tokens, decoder_input_ids=tokens[:, :7]).logits
        torch.testing.assert_close(quick(input_ids=tokens, decoder_input_ids=tokens[:, :7]).logits, expected)


def test_reduced_precision_keeps_its_layers(gpt2, processor):
    processor("AuthenticAMD")
    assert layers(Generator(gpt2, GenerationSettings(dtype="bfloat16")).model) == {torch.nn.Linear, Conv1D}
