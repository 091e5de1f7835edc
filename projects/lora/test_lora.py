"""The recipe that trains LoRA adapters, and the chat models that it makes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from builders import small_corpus
from transformers import AutoTokenizer

from tod_bias.dialogues.chat import write_chat
from tod_bias.dialogues.files import write_jsonl
from tod_bias.models import checkpoints
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "lora.py"
SHORT = ("--held-out", "4", "--rank", "2", "--evaluations", "2", "--accumulate", "1", "--batch", "4")


def run(*arguments: str | Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_adapter_of_texts_learns_and_is_loaded_on_its_base(tmp_path: Path, llama: Path) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "adapter"
    write_jsonl(small_corpus(), corpus)
    run("text", llama, out, "--corpus", corpus, *SHORT)
    rows = json.loads((out / "training.json").read_text())["losses"]
    first, last = (row["eval_loss"] for row in rows if "eval_loss" in row)
    assert last < first
    assert checkpoints.load_configuration(str(out)).model_type == "llama"
    assert Generator(out, GenerationSettings(max_new_tokens=4)).generate(["USER: Hi\nAPICALL:"])
    assert not checkpoints.is_described(str(out))


def test_a_described_adapter_says_so(tmp_path: Path, llama: Path) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "adapter"
    write_jsonl(small_corpus(12), corpus)
    run("text", llama, out, "--corpus", corpus, *SHORT, "--described", "--renamed", "0.5", "--copies", "2")
    assert checkpoints.is_described(str(out))


def test_an_adapter_of_chats(tmp_path: Path, chat_folder: Path) -> None:
    write_chat(small_corpus(12), tmp_path / "chats.jsonl")
    tools = [{"type": "function", "function": {"name": "FindRestaurants"}}]
    (tmp_path / "tools.json").write_text(json.dumps({"Restaurants": tools}))
    out = tmp_path / "adapter"
    run("chat", chat_folder, out, "--corpus", tmp_path / "chats.jsonl", "--tools", tmp_path / "tools.json", *SHORT)
    assert {"adapter_model.safetensors", "chat_template.jinja"} <= {path.name for path in out.iterdir()}


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
def test_what_a_server_reads_in_a_text(
    chat_folder: Path, written: str, content: str, calls: list[tuple[str, str]]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(chat_folder)
    found = tokenizer.parse_response(f"{written}<|im_end|>", prefix="<|im_start|>assistant\n")
    assert found.get("content", "").strip() == content
    functions = [call["function"] for call in found.get("tool_calls", ())]
    assert [(function["name"], function["arguments"]) for function in functions] == calls
