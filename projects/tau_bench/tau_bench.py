"""τ-bench (Yao et al. 2024) from ``DATAPATH/tau_bench/``: runs of tool-calling models on airline and retail tasks.

``tau_bench:read_tau_bench`` is the 200 runs of GPT-4o on the airline's 50 tasks, four trials each, with the agent's
policy as the dialogues' system message. ``tau_bench:read_few_shot`` is the shorter runs of both domains, 88 in all,
that are kept as text: their calls are lost, what came back is there.

**Splits are by task**: all trials of a task, and all tasks of a user, are in one. Users go, in the order of the tasks,
three to ``train``, one to ``valid``, one to ``test``, and again. Short runs in which no user of a task is named are in
``train``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tod_bias.dialogues.chat import answered_step, dialogue_of
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.distribution import Distribution
from tod_bias.errors import CorpusError

TAU_BENCH = Distribution("tau_bench", "τ-bench", "tau_bench", "sierra-research/tau-bench on GitHub")
DOMAINS = ("airline", "retail")
_TASKS = {"airline": ("tasks.json",), "retail": ("tasks_train.json", "tasks_dev.json", "tasks_test.json")}
_TURNS = ("train", "train", "train", "valid", "test")


def read_tau_bench(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The recorded runs on a split's tasks; the id is ``{task}_{trial}``.

    Raises:
        CorpusError: no such folder, or a file that is not in τ-bench's format; names it and the run.
    """
    folder = TAU_BENCH.lies_in(datapath)
    splits = user_splits(folder, "airline")
    path = folder / "trajectories" / "gpt-4o-airline.json"
    for number, record in enumerate(TAU_BENCH.records(path, list), start=1):
        with TAU_BENCH.reading(path, f"run {number}"):
            if splits[record["info"]["task"]["user_id"]] != split:
                continue
            dialogue = dialogue_of({**record, "domain": "airline"})
        yield dialogue


def user_splits(folder: Path, domain: str) -> dict[str, str]:
    """The split of every user of a domain's tasks.

    Raises:
        CorpusError: the tasks cannot be read.
    """
    users: dict[str, str] = {}
    for name in _TASKS[domain]:
        for number, task in enumerate(TAU_BENCH.records(folder / domain / name, list), start=1):
            with TAU_BENCH.reading(folder / domain / name, f"task {number}"):
                users.setdefault(str(task["user_id"]), _TURNS[len(users) % len(_TURNS)])
    return users


def read_few_shot(datapath: Path | None, split: str) -> Iterator[Dialogue]:
    """The short runs of both domains; the id is ``{domain}_{line}``.

    Raises:
        CorpusError: no such folder, or a file that is not in τ-bench's format; names it and the line.
    """
    folder = TAU_BENCH.lies_in(datapath)
    for domain in DOMAINS:
        splits = user_splits(folder, domain)
        path = folder / "trajectories" / f"few_shot_{domain}.jsonl"
        system = policy(folder, domain)
        for number, record in TAU_BENCH.lines(path):
            with TAU_BENCH.reading(path, f"line {number}"):
                text = record["messages_display"]
                named = (splits[user] for user in re.findall(r"[a-z]+_[a-z]+_\d{4}", text) if user in splits)
                if next(named, "train") != split:
                    continue
                dialogue = Dialogue(f"{domain}_{number}", domain, tuple(_displayed(text)), system)
            yield dialogue


_SPEAKER = re.compile(r"^(user|assistant|tool): ", re.MULTILINE)


def _displayed(text: str) -> Iterator[Turn]:
    """The turns of messages written one after the other; ``assistant: None`` is where a call stood."""
    parts = _SPEAKER.split(text)
    if parts[0].strip():
        raise ValueError(f"expected a line that begins with user:, assistant: or tool:, got {parts[0][:40]!r}")
    user, steps, said = "", list[Step](), list[str]()
    for speaker, words in zip(parts[1::2], parts[2::2], strict=True):
        words = words.strip()
        if speaker == "user":
            if user or steps or said:
                yield Turn(user, steps=steps, response="\n".join(said))
            user, steps, said = words, [], []
        elif speaker == "tool":
            steps.append(answered_step(Step({}), words))
        elif words != "None":
            said.append(words)
    yield Turn(user, steps=steps, response="\n".join(said))


def policy(folder: Path, domain: str) -> str:
    """The agent's system prompt of a domain.

    Raises:
        CorpusError: it cannot be read.
    """
    return TAU_BENCH.text(folder / domain / "policy.md")


def tau_bench_functions(datapath: str | Path, domain: str) -> list[dict[str, Any]]:
    """The tools of ``airline`` or ``retail`` as OpenAI's function schemas.

    Raises:
        CorpusError: no such domain or folder, or the file cannot be read.
    """
    if domain not in DOMAINS:
        raise CorpusError(f"τ-bench has no domain {domain!r}; it has {', '.join(DOMAINS)}")
    folder = TAU_BENCH.lies_in(Path(datapath))
    schemas: list[dict[str, Any]] = TAU_BENCH.records(folder / domain / "tools.json", list)
    return schemas
