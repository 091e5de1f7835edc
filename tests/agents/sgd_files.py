"""A tiny Google SGD on disk, in ParlAI's datapath layout, and ParlAI runs on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tod_bias.agents.protocol import slots_to_parlai
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.values import API_NAME

CALL = {API_NAME: "FindRestaurants", "city": "Fremont", "dish": "tacos"}
RESULTS = ({"name": "House of tacos", "price": "cheap"}, {"name": "My Father's House", "price": "high"})

DIALOGUES = (
    Dialogue(
        "9_00001",
        "Restaurants",
        (
            Turn.with_call("My wife wants tacos.", {}, {}, "In which city does she want them?"),
            Turn("In Fremont, please.", steps=(Step(CALL, RESULTS),), response="House of tacos would suit your wife."),
        ),
    ),
    Dialogue(
        "9_00000",
        "Restaurants",
        (
            Turn.with_call("My father is hungry = very ; so am I", {}, {}, "What \\ does he like?"),
            Turn.with_call("Noodles", {**CALL, "dish": "noodles"}, {}, "There is none for him."),
            Turn("Then tacos", steps=(Step(CALL, RESULTS),), response="House of tacos, sir."),
        ),
    ),
    Dialogue("10_00002", "Restaurants", (Turn.with_call("What is the weather like?", {}, {}, "Mild."),)),
    Dialogue(
        "9_00010",
        "Restaurants",
        (
            Turn.with_call(
                "My sister and my son want tacos.",
                {**CALL, "note": "a ; b = c", "dish": "tacos, noodles"},
                {"name": "a ; b"},
                "Done for her and him.",
            ),
        ),
    ),
)
"""Dialogues that between them hold all that the reader of an unescaped text could get wrong."""


def write_sgd(datapath: Path, dialogues: Sequence[Dialogue] = DIALOGUES) -> Path:
    """Write dialogues as the dev and train splits; one dialogue a file, as ParlAI reads files in any order."""
    for split in ("train", "dev"):
        folder = datapath / "google_sgd" / split
        folder.mkdir(parents=True)
        (folder / "schema.json").write_text(json.dumps([{"service_name": "Restaurants_1", "intents": []}]))
        for number, dialogue in enumerate(dialogues, start=1):
            (folder / f"dialogues_{number:03d}.json").write_text(json.dumps([_record(dialogue)]))
    (datapath / "google_sgd" / ".built").write_text("2026-01-01\n1.0")
    return datapath


def _record(dialogue: Dialogue) -> dict[str, Any]:
    turns = []
    for turn in dialogue.turns:
        frame: dict[str, Any] = {"service": "Restaurants_1"}
        if turn.api_call:
            parameters = {name: value for name, value in turn.api_call.items() if name != API_NAME}
            frame["service_call"] = {"method": turn.api_call[API_NAME], "parameters": parameters}
            frame["service_results"] = [dict(row) for row in turn.api_results]
        turns.append({"speaker": "USER", "utterance": turn.user, "frames": []})
        turns.append({"speaker": "SYSTEM", "utterance": turn.response, "frames": [frame]})
    return {"dialogue_id": dialogue.id, "services": ["Restaurants_1"], "turns": turns}


STRICT_STAGES = '''
"""Stages whose outputs change with every character of their input."""

from hashlib import sha256

from tod_bias.systems.outputs import as_text

batches = []


def _digest(*texts):
    return sha256("\\x1f".join(texts).encode()).hexdigest()[:8]


def call(inputs):
    batches.append(("api_call", len(inputs)))
    made = []
    for item in inputs:
        digest = _digest(item.context)
        slots = {"note": "b ; a = " + digest, "api_name": "Find"}
        made.append({} if digest[0] < "5" else "malformed " + digest if digest[0] < "a" else slots)
    return made


def db(inputs):
    calls = [as_text(item.outputs["api_call"]) for item in inputs]
    return [{"row": _digest(call), "b": "x = y"} if call else {} for call in calls]


def response(inputs):
    batches.append(("response", len(inputs)))
    return [
        _digest(item.context, as_text(item.outputs["api_call"]), as_text(item.outputs["db"])) + " \\\\ ; = |"
        for item in inputs
    ]
'''


def write_strict_pipeline(folder: Path, module: str = "strict_stages", source: str = STRICT_STAGES) -> Path:
    """A pipeline file whose stages betray any difference in what they are shown."""
    (folder / f"{module}.py").write_text(source)
    path = folder / f"{module}.yaml"
    path.write_text(f'stages: {{api_call: "{module}:call", db: "{module}:db", response: "{module}:response"}}\n')
    return path


def evaluate_with_parlai(log: Path, **options: Any) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Run ParlAI's ``eval_model``; the answers to every dialogue (:func:`lines_of` it), and the report."""
    from parlai.scripts.eval_model import EvalModel

    report = EvalModel.main(**{"datatype": "valid", "world_logs": str(log), "loglevel": "error", **options})
    answers = {}
    for line in log.read_text().splitlines():
        pairs = [[message.get("text") for message in pair] for pair in json.loads(line)["dialog"]]
        answers["\n".join(said for said, _ in pairs)] = [answer for _, answer in pairs]
    return answers, {name: float(value) for name, value in report.items()}


def lines_of(dialogue: Dialogue) -> str:
    """What a system teacher of ParlAI says in a dialogue."""
    lines = ["APIS: "]
    for turn in dialogue.turns:
        lines += [f"USER: {turn.user}", f"APIRESP: {slots_to_parlai(turn.api_result)}"]
    return "\n".join([*lines, "USER: [DONE]", "APIRESP: "])
