"""The configurations of the golden harness: what is run, through the public commands, in an empty folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from assistant import TOOLS, assistant, corpus
from builders import small_corpus
from chat_server import ChatServer

from tod_bias import Dialogue, Turn
from tod_bias.dialogues.chat import write_chat
from tod_bias.dialogues.files import write_jsonl

HERE = Path(__file__).parent
Command = Callable[..., int]
"""Runs ``tod-bias`` with arguments and returns the exit code."""
QUICK = ("--bootstrap", 100, "--permutations", 200, "--quiet")
PIPELINES = {
    "straight": """
        stages: {api_call: "golden_stages:ApiCall", db: "golden_stages:Database", response: "golden_stages:Response"}
    """,
    "loop": """
        flow: tool_loop
        stages:
          policy: "golden_stages:Policy"
          tools: {stage: "tod_bias.stages:Tools", functions: golden_tools}
          answer: "golden_stages:Answer"
    """,
    "router": """
        flow: golden_stages:route
        stages: {router: "golden_stages:Router", first: "golden_stages:First", second: "golden_stages:Second"}
    """,
    "draws": 'stages: {draws: "golden_stages:Draws"}',
}
AGES = ("young", "elderly", "adult", "old")
NAMES = ("Emily", "Jamal", "Anne", "Greg", "Lakisha", "Brad")


def prepared() -> None:
    """Write corpora, stages and pipelines into the current folder."""
    for name in ("golden_stages.py", "golden_tools.py"):
        shutil.copy(HERE / name, name)
    for name, text in PIPELINES.items():
        Path(f"{name}.yaml").write_text("\n".join(line.removeprefix("        ") for line in text.split("\n")))
    dialogues = [
        _extended(dialogue, f"Somebody {AGES[number % 4]} comes along, my name is {NAMES[number % 6]} Baker.")
        for number, dialogue in enumerate(small_corpus(36))
    ]
    write_jsonl(dialogues, "corpus.jsonl")
    write_chat(corpus(16), "chats.jsonl")
    Path("tools.json").write_text(json.dumps(TOOLS))


def _extended(dialogue: Dialogue, text: str) -> Dialogue:
    first = dialogue.turns[0]
    domain = "Restaurants" if int(dialogue.id[1:]) % 3 else "Hotels"
    turn = Turn(f"{first.user} {text}", steps=first.steps, response=first.response)
    return replace(dialogue, domain=domain, turns=(turn, *dialogue.turns[1:]))


def audit(command: Command, axes: str, pipeline: str, *options: object, out: str = "run") -> int:
    return command(
        "attribute", "--corpus", "corpus.jsonl", "--axes", axes, "--pipeline", f"{pipeline}.yaml", "--out", out,
        *QUICK, *options,
    )  # fmt: skip


def crossed(command: Command) -> None:
    metrics = "corpus_bleu,jga,slot_f1,disagreement,refusal"
    audit(command, "gender,age,placebo", "straight", "--metrics", metrics, "--cluster", "domain", "--margin", 0.1)


def draws(command: Command) -> None:
    audit(command, "gender", "straight", "--design", "draws", "--draws", 2, "--metrics", "sentence_bleu,success")


def tool_loop(command: Command) -> None:
    metrics = "corpus_bleu,call_disagreement,length"
    audit(command, "gender,placebo", "loop", "--metrics", metrics, "--history", "system", "--variants", 1)


def router(command: Command) -> None:
    audit(command, "gender", "router", "--max-per-axis", 20, "--order", "second,first,router")


def persona_by_gender(command: Command) -> None:
    audit(command, "persona_age×gender", "straight", "--variants", 3)


def persona(command: Command) -> None:
    audit(command, "persona_gender,placebo", "router", "--variants", 2)


def names(command: Command) -> None:
    audit(command, "names_gender,names_race", "router", "--metrics", "corpus_bleu,golden_stages:Vowels")


def samples(command: Command) -> None:
    audit(command, "gender,placebo", "draws", "--samples", 2)


def responses(command: Command) -> None:
    """What another program would do: answer what ``export`` writes, and have the responses audited."""
    options = ("--corpus", "corpus.jsonl", "--axes", "gender,placebo")
    command("export", *options, "--out", "told")
    lines = []
    for record in map(json.loads, Path("told/counterfactuals.jsonl").read_text().splitlines()):
        for number, turn in enumerate(record["turns"]):
            response = turn["response"] if "wife" not in turn["user"] else "No idea."
            name = {"id": record["original"], "turn": number, "variant": record["variant"]}
            lines.append(name | {"response": response, "steps": [{"call": {"api_name": "find", "n": len(response)}}]})
    Path("answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    metrics = ("--metrics", "corpus_bleu,call_disagreement")
    command("attribute", *options, "--responses", "answers.jsonl", "--out", "run", *QUICK, *metrics)


def served(command: Command) -> None:
    """A served assistant in a tool loop, two axes and an answer that is biased."""
    with ChatServer(lambda body: assistant(body, answer_bias=True)) as server:
        chat = f"{{model: m, base_url: '{server.url}', tools: tools.json"
        Path("served.yaml").write_text(
            f"flow: tool_loop\nstages:\n  policy: {chat}, stage: 'tod_bias.stages:ToolCalls'}}\n"
            "  tools: {stage: 'tod_bias.stages:Tools', functions: {find_hotels: 'assistant:find_hotels'}, "
            f"schemas: tools.json}}\n  answer: {chat}, stage: 'tod_bias.stages:Answer'}}\n"
        )
        options = ("--corpus", "chats.jsonl", "--axes", "gender,placebo", "--pipeline", "served.yaml", "--out", "run")
        command("attribute", *options, *QUICK)
        with Path("calls.jsonl").open("a") as notes:
            notes.writelines(json.dumps(["server", body["messages"]]) + "\n" for body in server.received)


def after(command: Command) -> None:
    """Everything that takes a run's folder: the gate, cases, mitigation, a comparison, a plan, an evaluation."""
    source = ("--corpus", "corpus.jsonl", "--pipeline", "straight.yaml")
    audit(command, "gender,placebo", "straight", "--metrics", "corpus_bleu,jga")
    for number, options in enumerate(((), ("--max-gap", 0.05), ("--max-gap", 0.5, "--terms-only"))):
        command("check", "run", *options, "--out", f"check{number}", "--quiet")
    command("cases", "run", "--worst", 6, "--out", "cases.jsonl", "--quiet")
    command("check", "--cases", "cases.jsonl", "--pipeline", "straight.yaml", "--out", "checked", "--quiet")
    command("mitigate", "run", *source, "--out", "mitigation", "--quiet")
    audit(command, "gender,placebo", "straight", "--metrics", "corpus_bleu,jga", "--seed", 0, out="again")
    Path("golden_stages.py").write_text(
        Path("golden_stages.py").read_text().replace('{"wife", "sister"}', '{"sister"}')
    )
    command(
        "attribute", "--corpus", "corpus.jsonl", "--axes", "gender,placebo", "--metrics", "corpus_bleu,jga",
        "--pipeline", "loop.yaml", "--out", "changed", *QUICK,
    )  # fmt: skip
    command("compare", "run", "changed", "--permutations", 200, "--out", "compared", "--quiet")
    command("attribute", "--dry-run", *source, "--axes", "gender,placebo", "--sample", 0, "--out", "plan", "--quiet")
    command("evaluate", *source, "--bootstrap", 100, "--out", "evaluation", "--quiet")
    command("report", "run")


def recommenders(command: Command) -> None:
    """Both audits of recommenders, of saved lists and of embeddings."""
    import numpy as np
    from recommender_files import saved_lists

    saved_lists("lists.csv")
    command(
        "recommend", "audit", "--city", "Springfield=lists.csv", "--bootstrap", 50, "--permutations", 100,
        "--no-figures", "--out", "lists", "--quiet",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    direction = rng.normal(size=8)
    sets = {name: [f"{name}{n}" for n in range(12)] for name in "ABEP"}
    side = {"A": 1.0, "B": -1.0, "E": 0.5, "P": -0.2}
    ids = [one for some in sets.values() for one in some]
    vectors = np.array([side[one[0]] * direction + rng.normal(size=8) for one in ids])
    np.savez("space.npz", ids=np.array(ids), vectors=vectors)
    Path("sets.json").write_text(json.dumps(sets))
    command(
        "associate", "--embeddings", "space.npz", "--sets", "sets.json", "--permutations", 500, "--bootstrap", 100,
        "--out", "associations", "--quiet",
    )  # fmt: skip


CONFIGURATIONS = {
    one.__name__: one
    for one in (
        crossed, draws, tool_loop, router, persona_by_gender, persona, names, samples, responses, served,
        after, recommenders,
    )
}  # fmt: skip
