"""Back ends and precisions: what is said is what one prompt at a time says, or the signature says otherwise."""

import json

from transformers import AutoModelForCausalLM, AutoTokenizer

from tod_bias.models import generator as generators
from tod_bias.models.generator import SAMPLE_SIZE, Generator
from tod_bias.models.settings import GenerationSettings

PROMPTS = [
    f"USER: I need a table for my {who} at {hour}\n{part}"
    for who in ("wife", "husband", "dad")
    for hour in (6, 7)
    for part in ("APICALL:", "SYSTEM:")
]


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
    for backend in ("batch", "tree"):
        assert Generator(tmp_path, GenerationSettings(max_new_tokens=16, backend=backend)).generate(PROMPTS) == expected


def test_what_a_precision_changes_is_counted_on_a_sample_of_the_prompts(gpt2):
    prompts = [f"{prompt} {number}" for prompt in PROMPTS for number in range(8)]
    exact = Generator(gpt2, GenerationSettings(max_new_tokens=6))
    quick = Generator(gpt2, GenerationSettings(max_new_tokens=6, dtype="bfloat16"))
    assert (exact.agreement(), quick.agreement()) == (None, None)
    rounded = dict(zip(prompts, quick.generate(prompts), strict=True))
    right = dict(zip(prompts, exact.generate(prompts), strict=True))
    found = quick.agreement()
    chosen = [prompt for prompt, _ in quick._sample.prompts.values()]
    assert (found.dtype, found.prompts, len(set(chosen))) == ("bfloat16", SAMPLE_SIZE, SAMPLE_SIZE)
    assert found.differ == sum(rounded[prompt] != right[prompt] for prompt in chosen)
    assert exact.agreement() is None


def test_the_sample_of_prompts_is_the_same_in_any_order_and_begins_anew_with_a_run(gpt2, monkeypatch):
    prompts = [f"{prompt} {number}" for prompt in PROMPTS for number in range(8)]
    one, other = (Generator(gpt2, GenerationSettings(max_new_tokens=2, dtype="bfloat16")) for _ in range(2))
    one.generate(prompts)
    for start in range(0, len(prompts), 24):
        other.generate(prompts[::-1][start : start + 24])
    assert sorted(one._sample.prompts) == sorted(other._sample.prompts)
    assert len(one._sample.prompts) == SAMPLE_SIZE < len(prompts)
    one.keep_in(None)
    assert one.agreement() is None
    monkeypatch.setattr(generators, "MOST_WEIGHTS", 1000)  # a model that is too large is not loaded once more
    assert other.agreement() is None
