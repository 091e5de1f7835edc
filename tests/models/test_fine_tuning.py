"""Fine-tuning what AutoModel loads: Llama, chats, adapters; and what cannot be fine-tuned."""

import hashlib
import json
import shutil
import sys

import peft
import pytest
import torch
from builders import small_corpus, stopping_at
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

from tod_bias.errors import ModelError
from tod_bias.models import checkpoints
from tod_bias.models.chat_template import RESPONSE_TEMPLATE
from tod_bias.models.examples import IGNORED, api_call_prompt, causal_sequences, encode_prompts
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings, TrainConfig
from tod_bias.models.training import train
from tod_bias.testing import inputs_of

TINY = {"layers": 2, "width": 32, "heads": 2, "vocabulary": 400, "dropout": 0.0, "patience": 99}
SHORT = {"epochs": 2, "batch_tokens": 512, "evaluations": 2, "learning_rate": 1e-3, "patience": 99}
FIND = {
    "type": "function",
    "function": {"name": "FindRestaurants", "parameters": {"type": "object", "properties": {"city": {}, "dish": {}}}},
}


def trained(folder, settings=None, **options):
    """The record of a training on the small corpus."""
    return train(small_corpus(), small_corpus(4), folder, settings or TrainConfig(**options))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    path = tmp_path_factory.mktemp("tools") / "tools.json"
    path.write_text(json.dumps([FIND]))
    return str(path)


@pytest.fixture(scope="module")
def chat(tmp_path_factory, tools):
    """A Llama that has read the small corpus as chats."""
    folder = tmp_path_factory.mktemp("models") / "chat"
    settings = TrainConfig(
        arch="llama", format="chat", tools=tools, epochs=4, batch_tokens=1024, learning_rate=1e-2, evaluations=1, **TINY
    )
    trained(folder, settings)
    return folder


def test_a_llama_is_trained_and_decoded_like_the_others(llama):
    config = json.loads((llama / "config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"], config["hidden_size"]) == ("llama", 1, 32)
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


def test_a_chat_model_brings_its_template(chat, tools):
    tokenizer = AutoTokenizer.from_pretrained(chat)
    assert tokenizer.eos_token == "<|im_end|>"
    assert json.loads((chat / "generation_config.json").read_text())["eos_token_id"] == tokenizer.eos_token_id
    assert tokenizer.response_template == RESPONSE_TEMPLATE
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tools=[FIND], tokenize=False)
    assert '{"name": "FindRestaurants", "parameters"' in prompt
    record = json.loads((chat / "training.json").read_text())
    assert record["settings"]["format"] == "chat"
    assert record["sequences"][0]["sequences"] == 24
    assert record["sequences"][0]["turns_left_out"] == record["sequences"][0]["dialogues_split"] == 0


@pytest.mark.parametrize(
    ("written", "content", "calls"),
    [
        ('<tool_call>{"name": "f", "arguments": {"a": "}"}}</tool_call>', "", [("f", '{"a": "}"}')]),
        (
            'One moment.\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\n'
            '<tool_call>{"name": "g", "arguments": {"b": [1]}}</tool_call>',
            "One moment.",
            [("f", "{}"), ("g", '{"b": [1]}')],
        ),
        ('<tool_call>{"name": "f", "arguments": {"a": oops}}</tool_call>', "", [("f", '{"a": oops}')]),
        ("Hello {there}.", "Hello {there}.", []),
    ],
)
def test_what_a_server_reads_in_a_text(chat, written, content, calls):
    tokenizer = AutoTokenizer.from_pretrained(chat)
    found = tokenizer.parse_response(f"{written}<|im_end|>", prefix="<|im_start|>assistant\n")
    assert found.get("content", "").strip() == content
    functions = [call["function"] for call in found.get("tool_calls", ())]
    assert [(function["name"], function["arguments"]) for function in functions] == calls


def test_a_chat_model_is_fine_tuned_with_the_template_that_it_has(tmp_path, chat, tools):
    settings = TrainConfig(init=str(chat), format="chat", tools=tools, **SHORT)
    record = trained(tmp_path / "m", settings)
    losses = [entry["validation"] for entry in record["losses"]]
    assert losses[-1] < losses[0]
    assert (tmp_path / "m" / "chat_template.jinja").read_text() == (chat / "chat_template.jinja").read_text()


def test_a_model_without_the_templates_marks_learns_them(tmp_path, gpt2):
    settings = TrainConfig(init=str(gpt2), format="chat", chat_template="chatml", max_length=250, **SHORT)
    trained(tmp_path / "m", settings)
    tokenizer, model = (
        AutoTokenizer.from_pretrained(tmp_path / "m"),
        AutoModelForCausalLM.from_pretrained(tmp_path / "m"),
    )
    assert tokenizer("<|im_end|>")["input_ids"] == [tokenizer.eos_token_id]
    assert model.get_input_embeddings().num_embeddings == len(tokenizer)
    with pytest.raises(ModelError, match="adapters train no new tokens; fine-tune without --lora"):
        train(
            small_corpus(), small_corpus(4), tmp_path / "n",
            TrainConfig(init=str(gpt2), format="chat", chat_template="chatml", lora=2, **SHORT),
        )  # fmt: skip


def test_an_interrupted_fine_tuning_ends_with_the_weights_of_a_whole_one(tmp_path, chat, tools):
    settings = TrainConfig(init=str(chat), format="chat", tools=tools, lora=2, **SHORT)
    whole = trained(tmp_path / "whole", settings)
    with stopping_at(3):
        trained(tmp_path / "cut", settings)
    assert trained(tmp_path / "cut", settings) == whole
    cut, kept = (digest(tmp_path / name / "adapter_model.safetensors") for name in ("cut", "whole"))
    assert cut == kept
    assert not (tmp_path / "cut" / "checkpoint").exists()


def test_another_template_or_other_tools_are_another_training(tmp_path, chat):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([FIND]))
    settings = TrainConfig(init=str(chat), format="chat", tools=str(path), **SHORT)
    with stopping_at(2):
        trained(tmp_path / "m", settings)
    path.write_text(json.dumps([FIND, {"type": "function", "function": {"name": "other"}}]))
    with pytest.raises(ModelError, match="belongs to a training with other settings"):
        trained(tmp_path / "m", settings)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory, llama):
    folder = tmp_path_factory.mktemp("models") / "adapter"
    trained(folder, init=str(llama), lora=4, **SHORT)
    return folder


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.tensor([[5, 6, 7, 8]])).logits


def test_an_adapter_is_saved_alone_and_loads_on_its_base(llama, adapter):
    names = {path.name for path in adapter.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "training.json"} <= names
    assert not {"model.safetensors", "config.json", "README.md"} & names
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


def test_a_merged_adapter_is_an_ordinary_checkpoint(tmp_path, llama, adapter):
    settings = TrainConfig(init=str(llama), lora=4, merge=True, **SHORT)
    trained(tmp_path / "m", settings)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    assert type(plain).__name__ == "LlamaForCausalLM"
    assert torch.allclose(logits(plain), logits(checkpoints.load_model(str(adapter), causal=True)), atol=1e-5)
    again = trained(tmp_path / "n", init=str(adapter), **SHORT)
    assert again["arch"] == "llama"


def test_an_adapter_and_a_whole_model_never_lie_in_one_folder(tmp_path, llama):
    for options, there, gone in (
        ({}, "model.safetensors", "adapter_model.safetensors"),
        ({"lora": 2}, "adapter_model.safetensors", "model.safetensors"),
        ({}, "model.safetensors", "adapter_config.json"),
    ):
        trained(tmp_path / "m", init=str(llama), **SHORT, **options)
        assert (tmp_path / "m" / there).exists()
        assert not (tmp_path / "m" / gone).exists()
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
    with pytest.raises(ModelError, match=message) as error:
        checkpoints.load_model(str(tmp_path), causal=True)
    assert "\n" not in str(error.value)


def test_what_writes_no_text_is_refused(tmp_path, llama):
    bert, odd = tmp_path / "bert", tmp_path / "odd"
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    BertModel(config).save_pretrained(bert)
    AutoTokenizer.from_pretrained(llama).save_pretrained(bert)
    for use in (lambda: trained(tmp_path / "m", init=str(bert)),
                lambda: Generator(bert)):  # fmt: skip
        with pytest.raises(
            ModelError, match=r"is a bert checkpoint, which writes no text; expected a causal model"
        ) as e:
            use()
        assert "\n" not in str(e.value)
    odd.mkdir()
    (odd / "config.json").write_text('{"model_type": "no_such_type"}')
    with pytest.raises(ModelError, match=r"its configuration cannot be loaded: .*no_such_type") as error:
        trained(tmp_path / "m", init=str(odd))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "chat", "arch": "t5"}, "--format chat needs a causal model, and t5 is none"),
        ({"format": "chat", "init": "GPT2"}, "its tokenizer has no chat template; give another template with"),
        ({"format": "chat", "max_length": 20}, "nothing to train on in sequences of 20 tokens; raise --max-length"),
        ({"lora": 4}, "--lora 4: adapters need a base"),
    ],
)
def test_settings_that_do_not_go_together_say_why(tmp_path, gpt2, options, message):
    options = {name: str(gpt2) if value == "GPT2" else value for name, value in options.items()}
    with pytest.raises(ValueError, match=message):
        trained(tmp_path / "m", **options)


def test_without_peft_one_line_says_what_to_install(tmp_path, monkeypatch, llama, adapter):
    monkeypatch.setitem(sys.modules, "peft", None)
    settings = TrainConfig(init=str(llama), lora=2)
    for use in (lambda: trained(tmp_path / "m", settings),
                lambda: checkpoints.load_model(str(adapter), causal=True)):  # fmt: skip
        with pytest.raises(ModelError, match=r"need the package peft: pip install 'tod-bias\[lora\]'"):
            use()


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
    tokenizer = spaced_tokenizer()
    (whole,) = encode_prompts(tokenizer, ["a long prompt about noodles in Oakland"], 100, causal=True)
    (short,) = encode_prompts(tokenizer, ["a long prompt about noodles in Oakland"], 6, causal=True)
    assert short == [whole[0], *whole[-5:]]
