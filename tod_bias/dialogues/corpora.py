"""Corpora: the bundled demo, files of dialogues and chats, real ones as they are distributed (without ParlAI).

Real corpora are read from ParlAI's datapath layout, for Google SGD
``DATAPATH/google_sgd/{train,dev,test}/dialogues_*.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tod_bias.dialogues.chat import dialogue_of
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.files import SUFFIXES, read_files
from tod_bias.dialogues.multiwoz import read_multiwoz_v22
from tod_bias.dialogues.parlai import PREFIX, read_parlai
from tod_bias.dialogues.sampling import sample
from tod_bias.dialogues.sgd import read_google_sgd, read_google_sgd_described
from tod_bias.dialogues.taskmaster import read_taskmaster, read_taskmaster2, read_taskmaster3
from tod_bias.errors import CorpusError
from tod_bias.io.documents import LONGEST
from tod_bias.io.hub import absence
from tod_bias.io.imports import guarded, import_object, is_import

DEMO = Path(__file__).parent.parent / "data" / "demo"
SPLITS = ("train", "valid", "test")
TURNS = 10_000
"""Turns of one dialogue at the most; its characters are bounded by :data:`tod_bias.io.documents.LONGEST`."""


def load_corpus(
    name: str | Path,
    *,
    datapath: str | Path | None = None,
    split: str = "test",
    max_dialogues: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
) -> list[Dialogue]:
    """Load a corpus by name, or dialogues from files by path.

    Args:
        name: one of :data:`CORPORA`; the path of a ``.jsonl`` or ``.json`` file of dialogues or OpenAI chats
            (:mod:`tod_bias.dialogues.files`), or of a folder of them; ``parlai:`` and a task-oriented task of ParlAI
            (:mod:`tod_bias.dialogues.parlai`); ``hf:`` and the name or folder of a Hugging Face
            dataset whose rows have the fields of :meth:`Dialogue.to_json`; or ``module:function``, a reader of your
            own: it takes the datapath and the split and yields dialogues.
        datapath: folder in ParlAI's layout; corpora other than the demo need it.
        split: ``train``, ``valid`` or ``test``; files have only one.
        max_dialogues: keep a sample of so many, over the whole corpus, with every domain's share
            (:func:`~tod_bias.dialogues.sampling.sample`).
        seed: of that sample.
        folder: where the module of ``module:function`` is looked for, beside the current folder.

    Raises:
        CorpusError: no such corpus, split, folder, file, module or function; a malformed record (file and line are
            named), or a dialogue of more than :data:`TURNS` turns.
    """
    if split not in SPLITS:
        raise CorpusError(f"unknown split {split!r}; expected one of {', '.join(SPLITS)}")
    if max_dialogues is not None and max_dialogues < 1:
        raise CorpusError(f"max_dialogues must be at least 1, got {max_dialogues}")
    text = str(name)
    if text in CORPORA:
        dialogues: Iterable[Dialogue] = CORPORA[text](Path(datapath) if datapath is not None else None, split)
    elif text.startswith(PREFIX):
        dialogues = read_parlai(text.removeprefix(PREFIX), Path(datapath) if datapath is not None else None, split)
    elif text.startswith("hf:"):
        dialogues = _hugging_face(text.removeprefix("hf:"), split)
    elif text.endswith(SUFFIXES) or Path(text).is_dir():
        dialogues = read_files(text)
    elif is_import(text):
        dialogues = _imported(text, datapath, split, folder)
    else:
        raise CorpusError(
            f"no corpus {text!r}; expected one of {', '.join(CORPORA)}, parlai:TASK, the path of a .jsonl or .json "
            "file or of a folder of them, hf:DATASET, or module:function"
        )
    loaded = list(_bounded(dialogues, text))
    if not loaded:
        where = f" in its split {split!r}" if text in CORPORA else ""
        raise CorpusError(f"{text}: holds no dialogue{where}")
    return sample(loaded, max_dialogues, seed)


def corpus_of_task(task: str) -> str:
    """Return the name of the corpus of one of ParlAI's tasks: the package's own reader, or ``parlai:TASK``."""
    return task if task in CORPORA else PREFIX + task


def check_shipped(name: str, where: str) -> None:
    """Raise if a corpus named in a file is neither shipped nor a file; such files may be untrusted.

    Raises:
        CorpusError: the corpus would be imported, or fetched from a hub.
    """
    if name not in CORPORA and not name.startswith(PREFIX) and (is_import(name) or name.startswith("hf:")):
        raise CorpusError(
            f"{where}: names corpus {name!r:.80}, which is not shipped; give it again with --corpus {name:.80}"
        )


def has_splits(name: str) -> bool:
    """True if a corpus of this name has splits; files have only one."""
    return name in CORPORA or not (name.endswith(SUFFIXES) or Path(name).is_dir())


def split_of(name: str, split: str) -> str:
    """The split that results name; empty of a corpus that has none."""
    return split if has_splits(name) else ""


def _bounded(dialogues: Iterable[Dialogue], name: str) -> Iterator[Dialogue]:
    for dialogue in dialogues:
        characters = sum(len(turn.user) + len(turn.response) for turn in dialogue.turns)
        for size, most, what in ((len(dialogue.turns), TURNS, "turns"), (characters, LONGEST, "characters")):
            if size > most:
                raise CorpusError(
                    f"{name}: dialogue {dialogue.id!r} has {size:,} {what}; one has {most:,} at the most: cut it up"
                )
        yield dialogue


_END: Any = object()


def _imported(name: str, datapath: str | Path | None, split: str, folder: str | Path | None) -> Iterator[Dialogue]:
    where = f"corpus {name!r}"
    reader = import_object(name, where, None if folder is None else Path(folder), CorpusError)
    if not callable(reader):
        raise CorpusError(f"{where}: expected a function of a datapath and a split, got {type(reader).__name__}")
    with guarded(f"{where}: cannot be read", CorpusError):
        records = iter(reader(Path(datapath) if datapath is not None else None, split))
    for number in count(1):
        with guarded(f"{where}, dialogue {number}: cannot be read", CorpusError):
            dialogue = next(records, _END)
        if dialogue is _END:
            return
        if not isinstance(dialogue, Dialogue):
            raise CorpusError(f"{where}, dialogue {number}: expected a Dialogue, got {type(dialogue).__name__}")
        yield dialogue


def _hugging_face(name: str, split: str) -> Iterable[Dialogue]:
    import datasets

    split_name = {"train": "train", "valid": "validation", "test": "test"}[split]
    cached = Path(datasets.config.HF_DATASETS_CACHE) / name.replace("/", "___")  # as that library lays it out
    if not Path(name).is_dir() and not cached.is_dir() and (reason := absence(name, "dataset")):
        raise CorpusError(f"hf:{name}: {reason}; expected the name or folder of a dataset")
    try:
        dataset = (
            datasets.load_from_disk(name) if Path(name).is_dir() else datasets.load_dataset(name, split=split_name)
        )
        if isinstance(dataset, datasets.DatasetDict):
            dataset = dataset[split_name]
    except (OSError, ValueError, KeyError) as error:
        raise CorpusError(
            f"hf:{name}: its split {split_name!r} cannot be loaded: {' '.join(str(error).split())}"
        ) from error
    for number, record in enumerate(dataset, start=1):
        try:
            yield dialogue_of(_without_none(record), f"{Path(name).name}_{number}")
        except ValueError as error:
            raise CorpusError(f"hf:{name}, row {number}: {error}") from error


def _without_none(value: Any) -> Any:
    """Arrow gives every row all slots that any row has; those that a row lacks are None."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _demo(datapath: Path | None, split: str) -> Iterable[Dialogue]:
    return read_files(DEMO / f"{split}.jsonl")


Reader = Callable[[Path | None, str], Iterable[Dialogue]]
CORPORA: dict[str, Reader] = {
    "demo": _demo,
    "google_sgd": read_google_sgd,
    "google_sgd_described": read_google_sgd_described,
    "multiwoz_v22": read_multiwoz_v22,
    "taskmaster": read_taskmaster,
    "taskmaster2": read_taskmaster2,
    "taskmaster3": read_taskmaster3,
}
"""Corpus name to reader; a reader takes the datapath and the split and yields dialogues."""
