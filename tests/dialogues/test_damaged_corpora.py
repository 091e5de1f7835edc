"""Files that are missing or damaged: one line that names the file and the place and says how to get the corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_corpora import write_taskmaster, write_taskmaster3

from tod_bias import load_corpus
from tod_bias.errors import CorpusError

ADVICE = r"; get it from .+, or by `parlai display_data -t \S+ -dp FOLDER` into a new folder"


def refusal(corpus: str, datapath: Path, file: str, split: str = "train") -> str:
    """What is said of a file; empty where the corpus is read."""
    text = ""
    try:
        load_corpus(corpus, datapath=datapath, split=split)
    except CorpusError as error:
        text = str(error)
    assert not text or re.fullmatch(".*" + re.escape(Path(file).name) + ".*" + ADVICE, text)
    return text


RECORDS = [
    ("taskmaster", write_taskmaster, "taskmaster-1/self-dialogs.json", "dialogue ", 158),
    ("taskmaster3", write_taskmaster3, "taskmaster-3/data_00.json", "dialogue ", 190),
]


def damages(record: Any) -> Iterator[Any]:
    """The record with each of its parts gone or of another type, one at a time."""
    whole = [record]
    places: list[tuple[Any, Any]] = [(whole, 0)]
    for holder, key in places:
        inner = holder[key]
        if isinstance(inner, dict | list):
            places += [(inner, part) for part in (inner if isinstance(inner, dict) else range(len(inner)))]
    for holder, key in places:
        before = holder[key]
        for other in (None, [], {}, 5):
            if type(other) is not type(before):
                holder[key] = other
                yield whole[0]
        holder[key] = before
        if isinstance(holder, dict):
            rest = dict(holder)
            del holder[key]
            yield whole[0]
            holder.clear()
            holder.update(rest)


@pytest.mark.parametrize(("corpus", "write", "file", "place", "least"), RECORDS)
def test_a_record_of_another_format_is_named(
    tmp_path: Path, corpus: str, write: Any, file: str, place: str, least: int
) -> None:
    path = write(tmp_path) / file
    first, *others = json.loads(path.read_text())[:3]
    said = []
    for record in damages(first):
        path.write_text(json.dumps([record, *others]))
        said.append(refusal(corpus, tmp_path, file))
    assert all(place in one for one in said if one)
    assert len([one for one in said if one]) >= least  # of the others some are not read, some may stand there


FILES = [
    ("taskmaster", write_taskmaster, "taskmaster-1/woz-dialogs.json"),
    ("taskmaster3", write_taskmaster3, "taskmaster-3/data_07.json"),
]
Writer = Callable[[Path], Path]


@pytest.mark.parametrize(("corpus", "writer", "file"), FILES)
def test_content_that_is_not_the_corpus(tmp_path: Path, corpus: str, writer: Writer, file: str) -> None:
    """What else may stand there: tests/ground/test_any_file.py."""
    path = writer(tmp_path) / file
    for content in (b"\xff\xfe{", b"", b"{", b"5", b"[" * 200):
        path.write_bytes(content)
        assert refusal(corpus, tmp_path, file)


@pytest.mark.parametrize(("corpus", "writer", "file"), FILES)
def test_a_missing_file(tmp_path: Path, corpus: str, writer: Writer, file: str) -> None:
    (writer(tmp_path) / file).unlink()
    assert refusal(corpus, tmp_path, file)


@pytest.mark.parametrize(("corpus", "folder"), [("taskmaster", "taskmaster-1"), ("taskmaster3", "taskmaster-3")])
def test_a_missing_or_empty_folder(tmp_path: Path, corpus: str, folder: str) -> None:
    with pytest.raises(CorpusError, match=f"corpus '{corpus}' needs --datapath, a folder that holds {folder}/"):
        load_corpus(corpus)
    assert "no such folder" in refusal(corpus, tmp_path, folder)
    (tmp_path / folder).mkdir()
    assert refusal(corpus, tmp_path, folder)


def test_a_split_without_dialogues_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^taskmaster3: holds no dialogue in its split 'valid'$"):
        load_corpus("taskmaster3", datapath=write_taskmaster3(tmp_path, count=6), split="valid")
