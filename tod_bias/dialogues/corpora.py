"""Corpora: the bundled demo, JSONL files, and real ones as they are distributed (no ParlAI needed).

Real corpora are read from ParlAI's datapath layout, for Google SGD
``DATAPATH/google_sgd/{train,dev,test}/dialogues_*.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.jsonl import read_jsonl
from tod_bias.dialogues.multiwoz import read_multiwoz_v22
from tod_bias.dialogues.sgd import read_google_sgd
from tod_bias.dialogues.taskmaster import read_taskmaster2
from tod_bias.errors import CorpusError
from tod_bias.hub import absence

DEMO = Path(__file__).parent.parent / "data" / "demo"
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


Reader = Callable[[Path | None, str], Iterable[Dialogue]]
CORPORA: dict[str, Reader] = {
    "demo": _demo,
    "google_sgd": read_google_sgd,
    "multiwoz_v22": read_multiwoz_v22,
    "taskmaster2": read_taskmaster2,
}
"""Corpus name to reader; a reader takes the datapath and the split and yields dialogues."""
