"""Audits the assistant in every framework: the same dialogues, the same model, the same numbers.

    python run.py DATAPATH OUT NUMBER     # NUMBER: dialogues per axis

writes OUT/NAME/ for each framework and OUT/frameworks.json with gaps, requests and seconds.
"""

import json
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import assistant

from tod_bias import Pipeline, attribute, load_corpus, load_pipeline
from tod_bias.audit.record import signature_of
from tod_bias.integrations import pipeline_of
from tod_bias.results import Group

HERE = Path(__file__).parent
PIPELINES: dict[str, Callable[[], Pipeline]] = {
    "function": lambda: pipeline_of(assistant.function(), "model+tools", signature="1"),
    "openai-agents": lambda: pipeline_of(assistant.openai_agents(), "model+tools", signature="1"),
    "PydanticAI": lambda: pipeline_of(assistant.pydantic_ai(), "model+tools", signature="1"),
    "LangChain": lambda: pipeline_of(assistant.langchain(), "model+tools", signature="1"),
    "Node process": lambda: load_pipeline(HERE / "process.yaml"),
}
METRICS = ("disagreement", "call_disagreement", "corpus_bleu")


def counts() -> dict[str, int]:
    """Requests so far, and distinct ones, of the model's server."""
    with urllib.request.urlopen(assistant.URL) as response:
        return json.load(response)


def numbers(group: Group) -> dict[str, Any]:
    """Return the numbers of a group's gap that must be equal in all frameworks."""
    shares = {name: share.value for name, share in group.all_shares.items()}
    return {"gap": group.gap.value, "ci": group.gap.ci, "p": group.gap.p, "shares": shares}


def main() -> None:
    datapath, out, number = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    corpus = load_corpus("star_dialogues:named", datapath=datapath, split="test")
    rows = {}
    for name, made in PIPELINES.items():
        before, begun = counts(), time.monotonic()
        result = attribute(
            made(),
            corpus,
            axes=("names_gender", "placebo"),
            metrics=METRICS,
            max_per_axis=number,
            seed=0,
            bootstrap=1000,
            out=out / name.replace(" ", "_"),
        )
        seconds, after = time.monotonic() - begun, counts()
        woman = {metric: row.groups["woman"] for metric, row in result.axes["names_gender"].items()}
        rows[name] = {
            "seconds": round(seconds, 1),
            "requests": after["requests"] - before["requests"],
            "new_requests": after["distinct"] - before["distinct"],
            "calls": result.cost.calls,
            "distinct": result.cost.distinct,
            "failed": result.cost.failed,
            "woman": {metric: numbers(group) for metric, group in woman.items()},
        }
        made = {"frameworks": rows, "signature": signature_of({})}
        (out / "frameworks.json").write_text(json.dumps(made, indent=1))
        print(name, json.dumps(rows[name]))


if __name__ == "__main__":
    main()
