"""Back ends and precisions: what is said is what one prompt at a time says, or the signature says otherwise."""

import sys

import pytest
import torch

from tod_bias.errors import ModelError
from tod_bias.models.decoders import timing
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings

pytest.importorskip("ctranslate2", reason="no CTranslate2: pip install 'tod-bias[fast]'")
PROMPTS = [
    f"USER: I need a table for my {who} at {hour}\n{part}"
    for who in ("wife", "husband", "dad")
    for hour in (6, 7)
    for part in ("APICALL:", "SYSTEM:")
]


@pytest.mark.parametrize("arch", ["gpt2", "t5", "bart"])
def test_ctranslate2_says_what_one_prompt_at_a_time_says(request, arch):
    model = request.getfixturevalue(arch)
    alone = Generator(model, GenerationSettings(max_new_tokens=16, backend="batch", batch_tokens=1))
    other = Generator(model, GenerationSettings(max_new_tokens=16, backend="ctranslate2"))
    assert other.generate(PROMPTS) == alone.generate(PROMPTS)
    assert other.signature.endswith("|float32|cpu|backend:ctranslate2")
    assert other.signature != alone.signature


@pytest.mark.parametrize("backend", ["tree", "batch", "ctranslate2"])
def test_eight_bits_answer_and_are_signed(gpt2, backend):
    whole = Generator(gpt2, GenerationSettings(max_new_tokens=16))
    coarse = Generator(gpt2, GenerationSettings(max_new_tokens=16, dtype="int8", backend=backend))
    said, expected = coarse.generate(PROMPTS), whole.generate(PROMPTS)
    assert sum(one == other for one, other in zip(said, expected, strict=True)) > len(PROMPTS) / 2
    assert f"|int8|cpu|backend:{backend}" in coarse.signature


def test_eight_bits_leave_the_weights_of_others_alone(gpt2):
    before = Generator(gpt2, GenerationSettings(max_new_tokens=16)).generate(PROMPTS)
    Generator(gpt2, GenerationSettings(max_new_tokens=16, dtype="int8")).generate(PROMPTS)
    assert Generator(gpt2, GenerationSettings(max_new_tokens=16)).generate(PROMPTS) == before


@pytest.mark.parametrize("arch", ["gpt2", "t5"])
def test_the_fastest_is_what_was_the_fastest_and_says_so(request, arch, monkeypatch):
    model = request.getfixturevalue(arch)
    tried = []

    def chosen(decoders, rows):
        tried.extend(decoders)
        assert {len(row) for row in rows} == {40 * turn for turn in range(1, 7)}
        return "ctranslate2"

    monkeypatch.setattr(timing, "fastest", chosen)
    generator = Generator(model, GenerationSettings(max_new_tokens=16, backend="fastest"))
    assert tried == (["tree", "batch", "ctranslate2"] if arch == "gpt2" else ["batch", "ctranslate2"])
    assert generator.signature.endswith("backend:ctranslate2")
    assert generator.settings.batch_tokens == 4096


def test_the_timing_takes_the_one_that_takes_the_least_time(monkeypatch):
    class Decoder:
        def __init__(self, seconds):
            self.seconds = seconds

        def plan(self, sequences):
            return [list(range(len(sequences)))]

        def decode(self, sequences):
            clock[0] += self.seconds
            return [[] for _ in sequences]

    clock = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    rows = timing.prompts(100, (3,), 1000)
    assert all(3 not in row for row in rows)
    assert timing.fastest({"slow": Decoder(2.0), "fast": Decoder(1.0)}, rows) == "fast"


def test_real_timing_chooses_one_that_can(gpt2):
    generator = Generator(gpt2, GenerationSettings(max_new_tokens=4, backend="fastest"))
    assert generator.settings.backend in ("tree", "batch", "ctranslate2")
    assert generator.generate(PROMPTS) == Generator(gpt2, GenerationSettings(max_new_tokens=4)).generate(PROMPTS)


def test_what_cannot_be_is_said_in_one_line(gpt2, monkeypatch):
    cuda = torch.device("cuda")
    from tod_bias.models import checkpoints
    from tod_bias.models.decoders.choice import resolved

    config = checkpoints.load_configuration(str(gpt2))
    for settings, message in (
        (GenerationSettings(dtype="int8"), "int8 is for the processor, got the device cuda"),
        (GenerationSettings(backend="ctranslate2"), "'ctranslate2' is for the processor, got the device cuda"),
    ):
        with pytest.raises(ModelError, match=message):
            resolved("m", config, settings, causal=True, device=cuda)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModelError, match=r"pip install 'tod-bias\[fast\]'"):
        Generator(gpt2, GenerationSettings(backend="ctranslate2"))
