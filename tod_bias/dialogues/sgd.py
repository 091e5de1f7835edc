"""Google SGD (Rastogi et al. 2020), as it is distributed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.distribution import Distribution, joined
from tod_bias.dialogues.schemas import describe
from tod_bias.dialogues.values import API_NAME

GOOGLE_SGD = Distribution(
    "google_sgd",
    "Google SGD",
    "google_sgd",
    "google-research-datasets/dstc8-schema-guided-dialogue on GitHub",
    "google_sgd",
)


def read_google_sgd(datapath: Path | None, split: str) -> Iterable[Dialogue]:
    """The dialogues of one split (``train``, ``valid``, ``test``) below ``datapath``, file by file.

    Raises:
        CorpusError: no such folder or split, or a file that is not in SGD's format.
    """
    for file in GOOGLE_SGD.split_files(datapath, split):
        yield from read_sgd_file(file)


def read_google_sgd_described(datapath: Path | None, split: str) -> Iterable[Dialogue]:
    """The same dialogues, each with its services described in its system message (:mod:`tod_bias.dialogues.schemas`).

    Raises:
        CorpusError: as :func:`read_google_sgd`, and where the split's ``schema.json`` is not there or lacks a service.
    """
    files = GOOGLE_SGD.split_files(datapath, split)
    path = files[0].with_name("schema.json")
    with GOOGLE_SGD.reading(path):
        services = {service["service_name"].strip(): describe([service]) for service in GOOGLE_SGD.records(path, list)}
    for file in files:
        yield from read_sgd_file(file, services)


def read_sgd_file(path: str | Path, services: Mapping[str, str] | None = None) -> Iterable[Dialogue]:
    """Read one ``dialogues_*.json`` of Google SGD (Rastogi et al. 2020).

    A turn is a user and the following system utterance. The system frame's ``service_call`` becomes the API call
    (empty parameters left out, as ParlAI does), *all* its ``service_results`` are kept.

    Args:
        path: the file.
        services: service to its description, for the dialogues' system messages; none where left out.

    Raises:
        CorpusError: not SGD's format; names the file and the dialogue.
    """
    for number, record in enumerate(GOOGLE_SGD.records(Path(path), list), start=1):
        with GOOGLE_SGD.reading(Path(path), f"dialogue {number}"):
            dialogue = _sgd_dialogue(record, services)
        yield dialogue


def _sgd_dialogue(record: Mapping[str, Any], descriptions: Mapping[str, str] | None) -> Dialogue:
    turns = []
    spoken = record["turns"]
    for user, system in zip(spoken[::2], spoken[1::2], strict=True):
        if (user["speaker"], system["speaker"]) != ("USER", "SYSTEM"):
            raise ValueError("turns do not alternate between USER and SYSTEM")
        call: dict[str, str] = {}
        results: list[dict[str, str]] = []
        for frame in system["frames"]:
            if "service_call" in frame:
                parameters = frame["service_call"]["parameters"]
                call.update({slot.strip(): joined(value) for slot, value in parameters.items() if value})
                call[API_NAME] = frame["service_call"]["method"]
                results = [{slot: joined(value) for slot, value in row.items()} for row in frame["service_results"]]
        turns.append(Turn(user["utterance"], steps=(Step(call, tuple(results)),), response=system["utterance"]))
    domains = sorted({service.split("_")[0].strip() for service in record["services"]})
    system = "" if descriptions is None else "\n\n".join(descriptions[name.strip()] for name in record["services"])
    return Dialogue(record["dialogue_id"], ", ".join(domains), tuple(turns), system)
