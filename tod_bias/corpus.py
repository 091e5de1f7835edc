"""Corpora: the bundled demo, JSONL files, and real ones as they are distributed (no ParlAI needed).

Real corpora are read from ParlAI's datapath layout, for Google SGD
``DATAPATH/google_sgd/{train,dev,test}/dialogues_*.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from tod_bias.datapath import corpus_folder, joined, read_json
from tod_bias.dialogue import API_NAME, Dialogue, Turn, read_jsonl
from tod_bias.errors import CorpusError
from tod_bias.hub import absence
from tod_bias.multiwoz import read_multiwoz_v22
from tod_bias.taskmaster import read_taskmaster2

DEMO = Path(__file__).parent / "data" / "demo"
SPLITS = ("train", "valid", "test")


def load_corpus(
    name: str | Path,
    *,
    datapath: str | Path | None = None,
    split: str = "test",
    max_dialogues: int | None = None,
) -> list[Dialogue]:
    """Load a corpus by name, or a JSONL file by path.

    Args:
        name: one of :data:`CORPORA`; the path of a ``.jsonl`` file (one dialogue a line); or ``hf:`` and the name or
            folder of a Hugging Face dataset whose rows have the fields of :meth:`Dialogue.to_json`.
        datapath: folder in ParlAI's layout; corpora other than the demo need it.
        split: ``train``, ``valid`` or ``test``; a JSONL file has only one.
        max_dialogues: keep the first so many.

    Raises:
        CorpusError: no such corpus, split, folder or file; a malformed record (file and line are named).
    """
    if split not in SPLITS:
        raise CorpusError(f"unknown split {split!r}; expected one of {', '.join(SPLITS)}")
    if max_dialogues is not None and max_dialogues < 1:
        raise CorpusError(f"max_dialogues must be at least 1, got {max_dialogues}")
    text = str(name)
    if text in CORPORA:
        dialogues: Iterable[Dialogue] = CORPORA[text](Path(datapath) if datapath is not None else None, split)
    elif text.endswith(".jsonl"):
        dialogues = read_jsonl(text)
    elif text.startswith("hf:"):
        dialogues = _hugging_face(text.removeprefix("hf:"), split)
    else:
        raise CorpusError(
            f"no corpus {text!r}; expected one of {', '.join(CORPORA)}, the path of a .jsonl file, or hf:DATASET"
        )
    found = list(islice(dialogues, max_dialogues))
    if not found:
        raise CorpusError(f"{text}: holds no dialogue")
    return found


def _hugging_face(name: str, split: str) -> Iterable[Dialogue]:
    import datasets

    own = {"train": "train", "valid": "validation", "test": "test"}[split]
    cached = Path(datasets.config.HF_DATASETS_CACHE) / name.replace("/", "___")  # as that library lays it out
    if not Path(name).is_dir() and not cached.is_dir() and (reason := absence(name, "dataset")):
        raise CorpusError(f"hf:{name}: {reason}; expected the name or folder of a dataset")
    try:
        found = datasets.load_from_disk(name) if Path(name).is_dir() else datasets.load_dataset(name, split=own)
        if isinstance(found, datasets.DatasetDict):
            found = found[own]
    except (OSError, ValueError, KeyError) as error:
        raise CorpusError(f"hf:{name}: its split {own!r} cannot be loaded: {' '.join(str(error).split())}") from error
    for number, record in enumerate(found, start=1):
        try:
            yield Dialogue.from_json(_without_none(record))
        except ValueError as error:
            raise CorpusError(f"hf:{name}, row {number}: {error}") from error


def _without_none(value: Any) -> Any:
    """Arrow gives every row all slots that any row has; those that a row lacks are None."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _demo(datapath: Path | None, split: str) -> Iterable[Dialogue]:
    return read_jsonl(DEMO / f"{split}.jsonl")


def _google_sgd(datapath: Path | None, split: str) -> Iterable[Dialogue]:
    folder = corpus_folder(datapath, "google_sgd", "google_sgd")
    names = {"train": "train", "valid": "dev", "test": "test"}
    files = sorted((folder / names[split]).glob("dialogues_*.json"))
    if not files:
        there = [ours for ours, theirs in names.items() if any((folder / theirs).glob("dialogues_*.json"))]
        raise CorpusError(
            f"{folder / names[split]}: no dialogues_*.json there; "
            + (f"say --split {' or '.join(there)}" if there else "no split found, is this Google SGD?")
        )
    for file in files:
        yield from read_sgd_file(file)


def read_sgd_file(path: str | Path) -> Iterable[Dialogue]:
    """Read one ``dialogues_*.json`` of Google SGD (Rastogi et al. 2020).

    A turn is a user and the following system utterance. The system frame's ``service_call`` becomes the API call
    (empty parameters left out, as ParlAI does), *all* its ``service_results`` are kept.

    Raises:
        CorpusError: not SGD's format; names the file and the dialogue.
    """
    path = Path(path)
    records = read_json(path, list)
    for number, record in enumerate(records, start=1):
        try:
            yield _sgd_dialogue(record)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorpusError(f"{path}, dialogue {number}: not in Google SGD's format ({error!r})") from error


def _sgd_dialogue(record: Mapping[str, Any]) -> Dialogue:
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
        turns.append(
            Turn(user["utterance"], call, results[0] if results else {}, system["utterance"], tuple(results[1:]))
        )
    domains = sorted({service.split("_")[0].strip() for service in record["services"]})
    return Dialogue(record["dialogue_id"], ", ".join(domains), tuple(turns))


Reader = Callable[[Path | None, str], Iterable[Dialogue]]
CORPORA: dict[str, Reader] = {
    "demo": _demo,
    "google_sgd": _google_sgd,
    "multiwoz_v22": read_multiwoz_v22,
    "taskmaster2": read_taskmaster2,
}
"""Corpus name to reader; a reader takes the datapath and the split and yields dialogues."""
