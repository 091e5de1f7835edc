"""Fine-tuning what AutoModel loads; loading adapters; and what cannot be fine-tuned."""

import json
import shutil
import sys

import peft
import pytest
import torch
from builders import small_corpus, tiny_adapter
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from tod_bias.errors import ModelError
from tod_bias.models import checkpoints
from tod_bias.models.examples import IGNORED, api_call_prompt, causal_sequences, encode_prompts
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings, TrainConfig
from tod_bias.models.training import train
from tod_bias.testing import inputs_of

TINY = {"layers": 2, "width": 32, "heads": 2, "vocabulary": 400, "dropout": 0.0, "patience": 99}
SHORT = {"epochs": 2, "batch": 4, "evaluations": 2, "learning_rate": 1e-3, "patience": 99}


def trained(folder, settings=None, **options):
    """The record of a training on the small corpus."""
    return train(small_corpus(), small_corpus(4), folder, settings or TrainConfig(**options))


def test_a_llama_is_trained_and_decoded_like_the_others(llama):
    prompts = [api_call_prompt(item.context) for item in inputs_of(small_corpus(8))]
    tree, batch = (
        Generator(llama, GenerationSettings(max_new_tokens=24, backend=backend)) for backend in ("tree", "batch")
    )
    assert Generator(llama).settings.backend == "tree"
    assert tree.generate(prompts) == batch.generate(prompts)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(llama), AutoTokenizer.from_pretrained(llama)
    ids = torch.tensor([tokenizer(prompts[1])["input_ids"]])
    with torch.no_grad():
        output = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
    alone = tokenizer.decode(output[0, ids.shape[1] :]).split("\n")[0].strip()
    assert tree.generate(prompts)[1] == alone
    assert alone.startswith("api_name = FindRestaurants")


def test_the_architecture_of_a_checkpoint_is_read_from_it(tmp_path, llama):
    record = trained(tmp_path / "m", init=str(llama), **SHORT)
    assert record["arch"] == "llama"
    assert json.loads((tmp_path / "m" / "config.json").read_text())["model_type"] == "llama"
    with pytest.raises(ModelError, match="is a llama checkpoint, but --arch is gpt2; leave --arch out"):
        trained(tmp_path / "n", arch="gpt2", init=str(llama))


@pytest.fixture(scope="module")
def adapter(tmp_path_factory, llama):
    return tiny_adapter(tmp_path_factory.mktemp("models") / "adapter", llama)


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.tensor([[5, 6, 7, 8]])).logits


def test_an_adapter_loads_on_its_base(llama, adapter):
    base = checkpoints.load_model(str(llama), causal=True)
    loaded = checkpoints.load_model(str(adapter), causal=True)
    with pytest.warns(FutureWarning):
        theirs = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(llama), str(adapter)).eval()
    assert torch.allclose(logits(loaded), logits(theirs), atol=1e-5)
    assert not torch.allclose(logits(loaded), logits(base), atol=1e-3)
    assert checkpoints.load_configuration(str(adapter)).model_type == "llama"
    prompts = [api_call_prompt(item.context) for item in inputs_of(small_corpus(4))]
    assert len(Generator(adapter).generate(prompts)) == 8


def test_an_adapter_is_known_by_its_base_and_its_files(tmp_path, llama, adapter):
    base, copy = tmp_path / "base", tmp_path / "adapter"
    shutil.copytree(llama, base)
    shutil.copytree(adapter, copy)
    config = json.loads((copy / "adapter_config.json").read_text())
    (copy / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": str(base)}))
    first = checkpoints.fingerprint(str(copy))
    (base / "generation_config.json").write_text("{}")
    second = checkpoints.fingerprint(str(copy))
    (copy / "adapter_model.safetensors").write_bytes(b"")
    assert len({first, second, checkpoints.fingerprint(str(copy))}) == 3
    with pytest.raises(ModelError, match="its adapter cannot be loaded on its base"):
        checkpoints.load_model(str(copy), causal=True)


def test_a_training_starts_from_a_model_with_its_adapter(tmp_path, adapter):
    assert trained(tmp_path / "n", init=str(adapter), **SHORT)["arch"] == "llama"
    assert type(AutoModelForCausalLM.from_pretrained(tmp_path / "n")).__name__ == "LlamaForCausalLM"


def test_an_adapter_and_a_whole_model_never_lie_in_one_folder(tmp_path, llama):
    tiny_adapter(tmp_path / "m", llama)
    trained(tmp_path / "m", init=str(llama), **SHORT)
    assert (tmp_path / "m" / "model.safetensors").exists()
    assert not list((tmp_path / "m").glob("adapter_*"))
    checkpoints.load_model(str(tmp_path / "m"), causal=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"peft_type": "IA3", "base_model_name_or_path": "x"}', "expected a LoRA adapter .*got 'IA3'"),
        ('{"peft_type": "LORA"}', "does not name the adapter's base"),
        ('{"peft_type": "LORA", "base_model_name_or_path": "x"}', "has no adapter_model.safetensors"),
        ("[", "cannot be read"),
    ],
)
def test_a_folder_that_is_no_adapter_says_why(tmp_path, content, message):
    (tmp_path / "adapter_config.json").write_text(content)
    with pytest.raises(ModelError, match=f"^[^\n]*{message}[^\n]*$"):
        checkpoints.load_model(str(tmp_path), causal=True)


def test_what_writes_no_text_is_refused(tmp_path, llama):
    bert, odd = tmp_path / "bert", tmp_path / "odd"
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    BertModel(config).save_pretrained(bert)
    AutoTokenizer.from_pretrained(llama).save_pretrained(bert)
    odd.mkdir()
    (odd / "config.json").write_text('{"model_type": "no_such_type"}')
    for use, message in (
        (lambda: trained(tmp_path / "m", init=str(bert)), "is a bert checkpoint, which writes no text"),
        (lambda: Generator(bert), "is a bert checkpoint, which writes no text"),
        (lambda: trained(tmp_path / "m", init=str(odd)), "its configuration cannot be loaded: .*no_such_type"),
    ):
        with pytest.raises(ModelError, match=f"^[^\n]*{message}[^\n]*$"):
            use()


def test_without_peft_one_line_says_what_to_install(monkeypatch, adapter):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModelError, match="need the package peft: pip install peft"):
        checkpoints.load_model(str(adapter), causal=True)


def spaced_tokenizer():
    """As Llama 2 has it: a space before each text, and a mark at its beginning."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    texts = [turn.text for d in small_corpus() for turn in d.turns]
    special = ["<unk>", "<s>", "</s>", "<0x0A>"]
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>", unk_token="<unk>")


def test_a_tokenizer_with_marks_and_spaces_trains_on_the_prompts():
    tokenizer, dialogue = spaced_tokenizer(), small_corpus()[1]
    (sequence,) = causal_sequences([dialogue], tokenizer, loss="targets")
    for item in inputs_of([dialogue]):
        (prompt,) = encode_prompts(tokenizer, [api_call_prompt(item.context)], 500, causal=True)
        assert prompt[0] == tokenizer.bos_token_id
        assert list(sequence.input_ids[: len(prompt)]) == prompt
        assert sequence.labels[len(prompt) - 1] == IGNORED
        assert sequence.labels[len(prompt)] == sequence.input_ids[len(prompt)]


def test_marks_stay_where_a_long_prompt_loses_its_beginning():
    tokenizer, prompt = spaced_tokenizer(), "a long prompt about noodles in Oakland"
    (whole,), (short,) = (encode_prompts(tokenizer, [prompt], most, causal=True) for most in (100, 6))
    assert short == [whole[0], *whole[-5:]]
