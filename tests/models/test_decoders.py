"""Back ends and precisions: what is said is what one prompt at a time says, or the signature says otherwise."""

import json
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tod_bias import Dialogue, Turn
from tod_bias.errors import ModelError
from tod_bias.models import generator as generators
from tod_bias.models.agreement import SIZE
from tod_bias.models.decoders import timing
from tod_bias.models.decoders.ctranslate import CTranslateDecoder
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings, TrainingSettings
from tod_bias.models.training import train

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


@pytest.mark.parametrize("arch", ["gpt2", "t5", "bart"])
def test_ctranslate2_says_nothing_where_there_is_nothing_to_say(request, arch):
    model = request.getfixturevalue(arch)
    odd = ["", "a", "\n", "I want noodles tonight\nAPICALL:", "USER: thanks, bye\nAPICALL:", *PROMPTS[:3], "\udc00"]
    expected = Generator(model, GenerationSettings(max_new_tokens=16, backend="batch")).generate(odd)
    assert Generator(model, GenerationSettings(max_new_tokens=16, backend="ctranslate2")).generate(odd) == expected


def test_sequence_to_sequence_answers_may_be_empty(tmp_path):
    silent = [
        Dialogue(f"d{number}", "x", (Turn(f"{word} {number}", response=""),))
        for number, word in enumerate(("hello", "noodles", "thanks", "bye") * 4)
    ]
    settings = TrainingSettings(
        arch="t5", epochs=20, layers=1, width=32, heads=2, vocabulary=300, dropout=0.0, batch_tokens=256, max_length=64,
        learning_rate=1e-2, evaluations=1, patience=99,
    )  # fmt: skip
    train(silent, silent[:4], tmp_path, settings)
    prompts = [f"USER: {word}\nAPICALL:" for word in ("hello", "noodles", "thanks")]
    for backend in ("batch", "ctranslate2"):
        said = Generator(tmp_path, GenerationSettings(max_new_tokens=8, backend=backend)).generate(prompts)
        assert said == ["", "", ""]


def test_rows_without_a_token_and_tokens_without_a_name_are_no_matter(tmp_path, gpt2):
    model = AutoModelForCausalLM.from_pretrained(gpt2)
    tokenizer = AutoTokenizer.from_pretrained(gpt2)
    expected = Generator(gpt2, GenerationSettings(max_new_tokens=16)).generate(PROMPTS)
    model.resize_token_embeddings(len(tokenizer) + 7)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    del content["model"]["vocab"]["Ä"]  # in no prompt
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    for backend in ("ctranslate2", "fastest"):
        assert Generator(tmp_path, GenerationSettings(max_new_tokens=16, backend=backend)).generate(PROMPTS) == expected


def test_eight_bits_answer_and_are_signed(gpt2):
    whole = Generator(gpt2, GenerationSettings(max_new_tokens=16))
    coarse = Generator(gpt2, GenerationSettings(max_new_tokens=16, dtype="int8"))
    said, expected = coarse.generate(PROMPTS), whole.generate(PROMPTS)
    assert sum(one == other for one, other in zip(said, expected, strict=True)) > len(PROMPTS) / 2
    assert "|int8|cpu|backend:ctranslate2" in coarse.signature
    alone = Generator(gpt2, GenerationSettings(max_new_tokens=16, dtype="int8"))
    assert [alone.generate([prompt])[0] for prompt in PROMPTS] == said


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


def test_the_timing_passes_over_what_cannot_run(monkeypatch):
    class Broken:
        def plan(self, sequences):
            return [list(range(len(sequences)))]

        def decode(self, sequences):
            raise IndexError("index out of range in self")

    class Sound(Broken):
        def decode(self, sequences):
            return [[] for _ in sequences]

    rows = timing.prompts(100, (3,), 1000)
    assert timing.fastest({"broken": Broken(), "sound": Sound()}, rows) == "sound"
    assert timing.fastest({"broken": Broken()}, rows) is None


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
        (GenerationSettings(dtype="int8"), "'ctranslate2' is for the processor, got the device cuda"),
        (GenerationSettings(backend="ctranslate2"), "'ctranslate2' is for the processor, got the device cuda"),
    ):
        with pytest.raises(ModelError, match=message):
            resolved("m", config, settings, causal=True, device=cuda)
    for settings, message in (
        (GenerationSettings(dtype="int8", backend="tree"), "dtype int8 needs backend 'ctranslate2', got 'tree'"),
        (GenerationSettings(backend="ctranslate2", num_beams=3), "decodes greedily, got 3 beams"),
        (GenerationSettings(backend="ctranslate2", dtype="bfloat16"), "bfloat16 is not to be had here"),
    ):
        monkeypatch.setattr("tod_bias.models.decoders.ctranslate.precisions", lambda: {"float32", "int8"})
        with pytest.raises(ModelError, match=message):
            Generator(gpt2, settings)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModelError, match=r"pip install 'tod-bias\[fast\]'"):
        Generator(gpt2, GenerationSettings(backend="ctranslate2"))


def test_what_a_precision_changes_is_counted_on_a_sample_of_the_prompts(gpt2):
    prompts = [f"{prompt} {number}" for prompt in PROMPTS for number in range(8)]
    exact = Generator(gpt2, GenerationSettings(max_new_tokens=6))
    quick = Generator(gpt2, GenerationSettings(max_new_tokens=6, dtype="int8"))
    assert (exact.agreement(), quick.agreement()) == (None, None)
    told = dict(zip(prompts, quick.generate(prompts), strict=True))
    right = dict(zip(prompts, exact.generate(prompts), strict=True))
    found = quick.agreement()
    chosen = [prompt for prompt, _ in quick._sample.kept.values()]
    assert (found.dtype, found.prompts, len(set(chosen))) == ("int8", SIZE, SIZE)
    assert found.differ == sum(told[prompt] != right[prompt] for prompt in chosen)
    assert exact.agreement() is None


def test_the_sample_of_prompts_is_the_same_in_any_order_and_begins_anew_with_a_run(gpt2):
    prompts = [f"{prompt} {number}" for prompt in PROMPTS for number in range(8)]
    one, other = (Generator(gpt2, GenerationSettings(max_new_tokens=2, dtype="bfloat16")) for _ in range(2))
    one.generate(prompts)
    for start in range(0, len(prompts), 24):
        other.generate(prompts[::-1][start : start + 24])
    assert sorted(one._sample.kept) == sorted(other._sample.kept)
    assert len(one._sample.kept) == SIZE < len(prompts)
    one.keep_in(None)
    assert one.agreement() is None


def test_a_model_that_is_too_large_is_not_loaded_once_more(gpt2, monkeypatch):
    generator = Generator(gpt2, GenerationSettings(max_new_tokens=2, dtype="int8"))
    generator.generate(PROMPTS)
    monkeypatch.setattr(generators, "MOST_WEIGHTS", 1000)
    assert generator.agreement() is None


def test_a_model_is_converted_once_for_timing_and_use(gpt2, monkeypatch):
    converted = []
    convert = CTranslateDecoder._convert

    def counted(self, *places):
        converted.append(places)
        return convert(self, *places)

    monkeypatch.setattr(CTranslateDecoder, "_convert", counted)

    def ours(decoders, rows):
        for decoder in decoders.values():
            decoder.decode(rows[:1])
        return "ctranslate2"

    monkeypatch.setattr(timing, "fastest", ours)
    chosen = Generator(gpt2, GenerationSettings(max_new_tokens=40, backend="fastest"))
    alone = Generator(gpt2, GenerationSettings(max_new_tokens=40, backend="batch"))
    assert chosen.generate(PROMPTS) == alone.generate(PROMPTS)
    assert len(converted) == 1
