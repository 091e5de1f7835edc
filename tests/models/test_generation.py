from types import SimpleNamespace

import numpy as np
import pytest
import torch
from builders import StoppedError, small_corpus
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from tod_bias.dialogues.text import slots_to_text
from tod_bias.errors import ModelError, StageError, TodBiasError
from tod_bias.io.cache import Cache
from tod_bias.models.decoders import attention, branches, tree
from tod_bias.models.decoders.drafts import Drafts
from tod_bias.models.decoders.tree import PrefixTreeDecoder, Tree, supports
from tod_bias.models.examples import api_call_prompt, response_prompt
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings
from tod_bias.stages import ApiCall, Response
from tod_bias.testing import inputs_of


def prompts() -> list[str]:
    found = []
    for item in inputs_of(small_corpus(6)):
        found.append(api_call_prompt(item.context))
        call, result = (slots_to_text(item.outputs[name]) for name in ("api_call", "db"))
        found.append(response_prompt(item.context, call, result))
    return found


def naively(model, prompts: list[str], *, causal: bool, most: int = 16) -> list[str]:
    """One prompt at a time, with the library's own generate."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = (AutoModelForCausalLM if causal else AutoModelForSeq2SeqLM).from_pretrained(model).eval()
    texts = []
    for prompt in prompts:
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        output = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, do_sample=False)
        new = output[0, ids.shape[1] :] if causal else output[0]
        texts.append(tokenizer.decode(new, skip_special_tokens=True).split("\n")[0].strip())
    return texts


@pytest.mark.parametrize("backend", ["tree", "batch"])
def test_causal_backends_say_what_one_prompt_at_a_time_says(gpt2, backend):
    settings = GenerationSettings(max_new_tokens=16, backend=backend)
    expected = naively(gpt2, prompts(), causal=True)
    assert Generator(gpt2, settings).generate(prompts()) == expected
    assert len(set(expected)) > 3


@pytest.mark.parametrize("arch", ["t5", "bart"])
def test_sequence_to_sequence_batches_say_what_one_prompt_at_a_time_says(request, arch):
    model = request.getfixturevalue(arch)
    generator = Generator(model, GenerationSettings(max_new_tokens=16))
    assert generator.settings.backend == "batch"
    assert generator.generate(prompts()) == naively(model, prompts(), causal=False)


@pytest.mark.parametrize("tokens", [300, 100_000])
def test_budget_of_a_batch_does_not_change_what_is_said(gpt2, tokens):
    texts = [
        Generator(gpt2, GenerationSettings(max_new_tokens=12, backend=backend, batch_tokens=tokens)).generate(prompts())
        for backend in ("tree", "batch")
    ]
    assert texts[0] == texts[1]


def grouped_heads():
    """A model whose four heads share two heads' keys and values, with random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=200, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=0.3,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def alone(model, sequence, stops, most):
    """What follows a prompt, a token at a time."""
    tokens = list(sequence)
    while len(tokens) - len(sequence) < most:
        token = int(model(torch.tensor([tokens])).logits[0, -1].argmax())
        if token in stops:
            break
        tokens.append(token)
    return tokens[len(sequence) :]


def heads_innermost(*args, **options):
    """Attention whose output lies in memory as it does on a GPU: token by token, not head by head."""
    return scaled_dot_product_attention(*args, **options).transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("attend", [scaled_dot_product_attention, heads_innermost])
@pytest.mark.parametrize("part", [16, 256])
@pytest.mark.parametrize("has_groups", [False, True])
def test_prompts_that_stop_at_different_steps_go_on_alone(gpt2, has_groups, part, attend, monkeypatch):
    monkeypatch.setattr(attention, "_PART", part)
    monkeypatch.setattr(attention, "scaled_dot_product_attention", attend)
    model = grouped_heads() if has_groups else AutoModelForCausalLM.from_pretrained(gpt2).eval()
    usual = model.config._attn_implementation
    rng = np.random.default_rng(0)
    stops = rng.choice(model.config.vocab_size, model.config.vocab_size // 8, replace=False).tolist()
    trunks = [rng.integers(0, model.config.vocab_size, 12).tolist() for _ in range(5)]
    sequences = [
        [*trunk[:cut], *rng.integers(0, model.config.vocab_size, 3).tolist()]
        for number, trunk in enumerate(trunks)
        for cut in rng.integers(2, 12, 2 * number + 1).tolist()
    ]
    settings = GenerationSettings(max_new_tokens=20, batch_tokens=64)
    decoder = PrefixTreeDecoder(lambda: model, stops, settings, width=4, token_bytes=1, most_bytes=100_000)
    with torch.inference_mode():
        expected = [alone(model, sequence, stops, 20) for sequence in sequences]
        assert decoder.decode(sequences) == expected
        planned = {}
        for batch in decoder.plan(sequences):
            outputs = decoder.decode([sequences[index] for index in batch])
            planned |= dict(zip(batch, outputs, strict=True))
    assert [planned[index] for index in range(len(sequences))] == expected
    trees = [Tree(sorted(sequences[index] for index in group)) for group, _ in decoder._groups(sequences)]
    assert max(len(one.tokens) for one in trees) > 16
    assert len({len(tokens) for tokens in expected}) > 4  # else nothing was dropped on the way
    assert model.config._attn_implementation == usual


@pytest.mark.parametrize("most_bytes", [100_000, 60])
@pytest.mark.parametrize("guesses", ["right", "wrong", "none"])
def test_guesses_and_memory_do_not_change_what_is_said(gpt2, guesses, most_bytes, monkeypatch):
    model = AutoModelForCausalLM.from_pretrained(gpt2).eval()
    rng = np.random.default_rng(1)
    stops = rng.choice(model.config.vocab_size, model.config.vocab_size // 20, replace=False).tolist()
    trunk = rng.integers(0, model.config.vocab_size, 12).tolist()
    sequences = [[*trunk[:cut], *rng.integers(0, model.config.vocab_size, 3).tolist()] for cut in (2, 4, 4, 9, 12)]
    steps, finished, truth = [], [], {}  # truth: what follows each prompt

    def after(self, text, most):
        length = next(len(key) for key in truth if tuple(text[: len(key)]) == key)
        done = len(text) - length
        right = truth[tuple(text[:length])][done : done + most]
        return {"right": right, "wrong": [(token + 1) % 7 for token in right], "none": []}[guesses]

    forward, finish = branches.Side._forward, branches.Side.finish
    monkeypatch.setattr(Drafts, "after", after)
    monkeypatch.setattr(branches.Side, "_forward", lambda *a: steps.append(1) or forward(*a))
    monkeypatch.setattr(branches.Side, "finish", lambda *a: finished.append(1) or finish(*a))
    settings = GenerationSettings(max_new_tokens=20)
    decoder = PrefixTreeDecoder(lambda: model, stops, settings, width=4, token_bytes=1, most_bytes=most_bytes)
    monkeypatch.setattr(tree, "_PAIRS", 10**6)
    with torch.inference_mode():
        expected = [alone(model, sequence, stops, 20) for sequence in sequences]
        truth |= {tuple(s): e for s, e in zip(sequences, expected, strict=True)}
        assert decoder.decode(sequences) == expected
    longest = max(map(len, expected))
    assert longest > 10
    assert (len(finished) > 2) == (most_bytes == 60)
    if most_bytes > 60:
        assert (len(steps) < longest - 1) == (guesses == "right")


def test_tree_is_for_models_whose_prompts_are_alone():
    def config(**changes):
        return SimpleNamespace(**{"model_type": "qwen2", "layer_types": ["full_attention"] * 2} | changes)

    assert supports(config())
    assert not supports(config(layer_types=["full_attention", "sliding_attention"]))
    assert not supports(config(use_sliding_window=True))
    assert not supports(config(rope_parameters={"rope_type": "dynamic", "factor": 2.0}))
    assert not supports(config(model_type="mamba"))


def test_equal_prompts_are_computed_once_and_counted(gpt2):
    generator = Generator(gpt2, GenerationSettings(max_new_tokens=4))
    first = generator.generate(["a", "b", "a"])
    assert first[0] == first[2]
    generator.generate(["b", "c"])
    cost = generator.cost
    assert (cost.prompts, cost.distinct_prompts, cost.computed, cost.cached) == (5, 3, 3, 0)


def test_cache_survives_the_process_and_knows_model_and_settings(tmp_path, gpt2, t5):
    def run(model, most):
        generator = Generator(model, GenerationSettings(max_new_tokens=most))
        generator.keep_in(Cache(tmp_path / "cache.sqlite"))
        return generator.generate(prompts()), generator.cost.computed

    texts, computed = run(gpt2, 4)
    assert computed == len(set(prompts()))
    assert run(gpt2, 4) == (texts, 0)
    assert run(gpt2, 5)[1] > 0
    assert run(t5, 4)[1] > 0


def test_a_prompt_that_is_too_long_loses_its_beginning(gpt2):
    generator = Generator(gpt2, GenerationSettings(max_new_tokens=8))
    end = prompts()[3]
    assert generator.max_prompt == 256 - 8
    long = ["word " * 400 + end, "other " * 400 + end]
    tokenizer = generator.tokenizer
    assert all(len(tokenizer(text)["input_ids"]) > 256 for text in long)
    assert len(generator.generate(long)) == 2


def test_stages_parse_calls_and_read_results(gpt2):
    inputs = inputs_of(small_corpus(3))
    call, response = (kind(gpt2, max_new_tokens=16) for kind in (ApiCall, Response))
    assert all(isinstance(one, (dict, str)) for one in call(inputs))
    assert all(isinstance(text, str) for text in response(inputs))
    assert call.generator is response.generator


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: Generator("/nowhere/at/all"), ModelError, "/nowhere/at/all: no such folder"),
        (lambda m: ApiCall(m, dtype="int4"), TodBiasError, "dtype"),
        (lambda m: ApiCall(m, max_new_tokens=0), TodBiasError, "max_new_tokens"),
        (lambda m: Generator(m, GenerationSettings(max_new_tokens=300)).max_prompt, ModelError, "no room for 300"),
        (lambda m: ApiCall(m, temperature=1), TodBiasError, "temperature"),
        (
            lambda m: ApiCall(AutoModelForCausalLM.from_pretrained(m)),
            StageError,
            "model must be the name of a checkpoint",
        ),
    ],
)
def test_unusable_models_and_settings_say_why(gpt2, make, error, message):
    with pytest.raises(error, match=message):
        make(gpt2)


@pytest.mark.parametrize(
    ("lost", "message"),
    [("tokenizer", r"holds no tokenizer \(tokenizer\.json\)"), (".safetensors", "cannot be loaded")],
)
def test_a_folder_that_lacks_a_file_says_so(tmp_path, gpt2, lost, message):
    for file in gpt2.iterdir():
        if file.is_file() and lost not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ModelError, match=message):
        Generator(tmp_path).generate(["a"])


def test_an_interrupted_run_resumes_and_computes_nothing_twice(tmp_path, gpt2, monkeypatch):
    def run(cache):
        generator = Generator(gpt2, GenerationSettings(max_new_tokens=8))
        generator.keep_in(Cache(tmp_path / cache))
        return generator.generate(prompts()), generator.cost.computed

    kept = []

    def put(self, texts):
        put_all(self, texts)
        kept.extend(texts)
        if len(kept) > 4:
            raise StoppedError

    put_all = Cache.put
    with monkeypatch.context() as patched:
        patched.setattr(tree, "_MOST_PROMPTS", 4)  # many small batches, so that there is a middle to be stopped in
        patched.setattr(Cache, "put", put)
        with pytest.raises(StoppedError):
            run("stopped")
    distinct = len(set(prompts()))
    assert 0 < len(kept) < distinct
    (resumed, resumed_count), (whole, whole_count) = run("stopped"), run("whole")
    assert (resumed_count, whole_count) == (distinct - len(kept), distinct)
    assert resumed == whole


@pytest.mark.parametrize("backend", ["tree", "batch"])
def test_empty_prompts_and_lone_surrogates_have_outputs(gpt2, t5, backend):
    generator = Generator(gpt2, GenerationSettings(max_new_tokens=4, backend=backend))
    said = generator.generate(["", "USER: a \ud800\nAPICALL:", "USER: a \ufffd\nAPICALL:"])
    assert said[0] == generator.generate([generator.tokenizer.eos_token])[0]
    assert said[1] == said[2]
    assert len(Generator(t5, GenerationSettings(max_new_tokens=4)).generate(["", "\udfff"])) == 2
