"""A served model and agents as processes: time against the ideal, and what is claimed of answers that are drawn.

``python tests/benchmarks/served.py`` prints all; ``--audits 400`` for the simulation, ``--conversations 2048`` for the
agents.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from assistant import WOMEN, corpus
from chat_server import ChatServer, calling

from tod_bias import Dialogue, Pipeline, Turn, attribute, load_pipeline
from tod_bias.stages import Answer
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.stage import StageInput


def _rule(body: Any) -> Any:
    """Calls a tool first, where it has some."""
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        return calling("find_place", {"seats": 2, "guest": "friend"})
    return "Yes."


def _serve(latency: float, address: Any) -> None:
    with ChatServer(_rule, latency=latency) as server:
        address.send(server.url)
        address.recv()


def asking(questions: int = 1000, concurrency: int = 32, latency: float = 0.3) -> float:
    """How many times the ideal it takes to ask a server, in a process of its own, distinct questions."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(latency, theirs), daemon=True)
    server.start()
    stage = Answer(model="m", base_url=ours.recv(), concurrency=concurrency)
    stage([StageInput((), "Are you there?")])
    runs = [Run(Dialogue(str(number), "", (Turn(f"Question {number}"),))) for number in range(questions)]
    start = time.perf_counter()
    Execution(Pipeline({"answer": stage}))(runs)
    seconds = time.perf_counter() - start
    ours.send("stop")
    ideal = questions / concurrency * latency
    print(f"{questions} questions, {latency * 1000:.0f} ms each, {concurrency} at once: {seconds:.2f} s")
    rounds = math.ceil(questions / concurrency) * latency
    print(f"  ideal {ideal:.2f} s (in whole rounds {rounds:.2f})   ratio {seconds / ideal:.2f}x")
    return seconds / ideal


def agents(command: str, conversations: int, concurrency: int = 32, latency: float = 1.0) -> float:
    """How many times the ideal agents as processes take, their start included, with two calls a conversation."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(latency, theirs), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agent.yaml"
        agent = {"command": command, "concurrency": concurrency}
        stages = {"model": {"match": {"kind": "model"}}}
        file.write_text(json.dumps({"agent": agent, "stages": stages, "upstream": {"base_url": ours.recv()}}))
        turns = [Turn(f"A table for {number}") for number in range(conversations)]
        runs = [Run(Dialogue(str(number), "", (turn,))) for number, turn in enumerate(turns)]
        pipeline = load_pipeline(file)
        start = time.perf_counter()
        Execution(pipeline)(runs)
        seconds = time.perf_counter() - start
    ours.send("stop")
    ideal = 2 * conversations / concurrency * latency
    print(
        f"{command.split()[0]}: {conversations} conversations, {concurrency} at once: {seconds:.1f} s, "
        f"ideal {ideal:.1f} s   ratio {seconds / ideal:.2f}x",
        flush=True,
    )
    return seconds / ideal


class Moody:
    """Answers curtly in three of ten draws; more often, by ``harm``, where a woman is mentioned."""

    is_random = True

    def __init__(self, seed: int, harm: float) -> None:
        self.signature = f"{seed}|{harm}"
        self._seed, self._harm = seed, harm

    def __call__(self, inputs: Sequence[StageInput]) -> list[str]:
        return [self._reply(item) for item in inputs]

    def _reply(self, item: StageInput) -> str:
        text = f"{self._seed}|{item.draw}|{item.user}|{len(item.history)}"
        drawn = int(hashlib.md5(text.encode()).hexdigest()[:8], 16) / 2**32
        is_woman = any(f"my {word}," in item.user for word in WOMEN)
        if drawn < 0.3 + self._harm * is_woman:
            return "No idea at all, sorry, bye."
        return "For your friend I found Fjord House and Harbour Inn in a nice place, shall I book it for you now?"


def audits(count: int, dialogues: int, samples: int, harm: float) -> dict[str, float]:
    """Shares over audits: verdicts, coverage of a true disparity of 0 and of an A/A difference of 0, the rest means."""
    verdicts: Counter[str] = Counter()
    rows = []
    for seed in range(count):
        result = attribute(
            Pipeline({"answer": Moody(seed, harm)}), corpus(dialogues), axes=("gender",), samples=samples, seed=seed,
            bootstrap=300, permutations=1000,
        )  # fmt: skip
        axis = result.model_dump(mode="json")["axes"]["gender"]["corpus_bleu"]
        verdicts[axis["verdict"]] += 1
        low, high = axis["disparity"]["ci"]
        a_low, a_high = axis["sampling"]["noise"]["ci"]
        rows.append([low <= 0 <= high, a_low <= 0 <= a_high, axis["sampling"]["share_of_variance"]])
    means = np.mean(np.array(rows, dtype=float), axis=0)
    return {
        "disparity": verdicts["disparity"] / count,
        "these terms only": verdicts["these terms only"] / count,
        "covers": means[0],
        "A/A covers": means[1],
        "share of sampling": means[2],
    }


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--conversations", type=int, default=2048)
    parser.add_argument("--questions", type=int, default=1000)
    options = parser.parse_args()
    asking(options.questions)
    tests = Path(__file__).parent.parent
    for command in (f"node {tests / 'proxy_agent.mjs'} chat", f"{sys.executable} {tests / 'proxy_agent.py'} chat"):
        agents(command, options.conversations)
    print("| world | dialogues | samples | disparity | these terms only | covers | A/A covers | share of sampling |")
    print("|---|---|---|---|---|---|---|---|")
    for harm in (0.0, 0.3):
        for dialogues, samples in ((32, 1), (32, 3), (96, 2)):
            found = audits(options.audits, dialogues, samples, harm)
            world = f"women are answered curtly .{harm * 10:.0f} more often" if harm else "all alike"
            if harm:
                found["covers"] = math.nan  # the truth is not 0
            shown = " | ".join("–" if math.isnan(value) else f"{value:.3f}" for value in found.values())
            print(f"| {world} | {dialogues} | {samples} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
