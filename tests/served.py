"""A real server with OpenAI's chat API for tests: a small chat model of ours behind ``transformers serve``."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tod_bias import Dialogue, Turn
from tod_bias.dialogues.chat import to_messages

SYSTEM = "You help travellers."
TOOL = {
    "type": "function",
    "function": {"name": "find_train", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}},
}
TRAINS = {"Leeds": ("noon", "three"), "York": ("midnight", "seven")}
"""Where to, when, and from which track."""


def question(city: str) -> str:
    """What the user asks; the model answers with a call."""
    return f"When is the next train to {city}?"


def result(city: str) -> dict[str, Any]:
    """What the call finds."""
    return {"time": TRAINS[city][0], "track": TRAINS[city][1]}


def answer(city: str) -> str:
    """What the model makes of it."""
    return f"At {TRAINS[city][0]}, from track {TRAINS[city][1]}."


def timetable() -> list[Dialogue]:
    """All that the model knows: two questions, each with its call and its answer, and what is said to thanks."""
    return [
        Dialogue(
            city,
            "Trains",
            (
                Turn.with_call(question(city), {"api_name": "find_train", "to": city}, result(city), answer(city)),
                Turn("Thank you!", response="Have a good journey."),
            ),
            system=SYSTEM,
        )
        for city in TRAINS
    ]


def chat_model(folder: Path) -> Path:
    """A Llama of two layers that knows the timetable by heart; it takes some seconds."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    from tod_bias.models.from_scratch import new_tokenizer

    chat_template, chats, lora = (recipe(name) for name in ("chat_template", "chats", "lora"))
    first, last = chat_template.CHATML_MARKS
    source = chat_template.template_source(chat_template.CHATML, None, "")
    template = chat_template.ChatTemplate(source, "chatml", {"bos_token": first, "eos_token": last})
    texts = [template.render(list(chat_template.with_read_arguments(to_messages(one))), [TOOL]) for one in timetable()]
    set_seed(0)
    tokenizer = new_tokenizer(texts, 400, causal=True)
    tokenizer.add_special_tokens({"additional_special_tokens": [first, last]})
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=1024, tie_word_embeddings=True, bos_token_id=None, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    lora.keep_template(source, tokenizer, model)
    sequences = chats.chat_sequences(timetable(), tokenizer, template, tools=chats.OfferedTools((TOOL,))).sequences
    how = lora.Learning(learning_rate=5e-3, epochs=16, batch=4, accumulate=1, evaluations=1)
    lora.fit(model, tokenizer, sequences * 32, sequences, folder, how)
    shutil.rmtree(folder / "checkpoints")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def recipe(name: str) -> ModuleType:
    """A module of projects/lora."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "projects" / "lora"))
    try:
        return importlib.import_module(name)
    finally:
        del sys.path[0]


def free_port() -> int:
    """A port that nobody listened on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], health: str, log: Path, timeout: float = 120) -> Iterator[int]:
    """A server in a process group of its own, from when it is up; its process id.

    Raises:
        RuntimeError: it ended, or was not up in time; with the end of what it wrote.
    """
    hub = log.parent / "hub"  # /v1/models of transformers serve fails where there is no such folder
    hub.mkdir(exist_ok=True)
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(hub)}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + timeout
        while not _is_up(health):
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}: {_tail(log)}")
            if time.monotonic() > end:
                raise RuntimeError(f"the server was not up after {timeout:.0f} seconds: {_tail(log)}")
            time.sleep(0.1)
        yield process.pid
    finally:
        for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            try:
                os.killpg(process.pid, number)
                process.wait(patience)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        process.wait()


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]


@contextmanager
def served(folder: Path, log: Path) -> Iterator[str]:
    """``transformers serve`` with a model; the base URL of its API."""
    port = free_port()
    command = [
        sys.executable, "-c", "from transformers.cli.transformers import main; main()",
        "serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu",
    ]  # fmt: skip
    with running(command, f"http://127.0.0.1:{port}/health", log):
        yield f"http://127.0.0.1:{port}/v1"
