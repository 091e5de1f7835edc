"""Files that are missing or damaged: one line that names the file and the place and says how to get the corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_corpora import (
    write_metalwoz,
    write_msr_e2e,
    write_multidogo,
    write_taskmaster,
    write_taskmaster3,
)

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


def write_processed(datapath: Path) -> Path:
    """MultiDoGO as ParlAI's builder leaves it."""
    spoken = {"0": {"text": "hi", "role": "customer", "slots": {"name": "a"}}, "1": {"text": "Yes?", "role": "agent"}}
    path = write_multidogo(datapath) / PROCESSED
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"c-1": spoken}))
    return datapath


PROCESSED = "multidogo/processed/finance/turn/train/0.json"
RECORDS = [
    ("taskmaster", write_taskmaster, "taskmaster-1/self-dialogs.json", "dialogue ", 158),
    ("taskmaster3", write_taskmaster3, "taskmaster-3/data_00.json", "dialogue ", 190),
    ("metalwoz", write_metalwoz, "metalwoz/train/dialogues/BUS_BOT.txt", "line 1: ", 38),
    ("metalwoz", write_metalwoz, "metalwoz/train/tasks.txt", "line 1: ", 13),
    ("multidogo", write_processed, PROCESSED, "0.json", 35),
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
    is_lines = path.suffix == ".txt"
    content = [json.loads(line) for line in path.read_text().splitlines()] if is_lines else json.loads(path.read_text())
    first, others = (content[0], content[1:3]) if isinstance(content, list) else (content, [])
    said = []
    for record in damages(first):
        changed = [record, *others] if others else record
        path.write_text("\n".join(map(json.dumps, changed)) if is_lines else json.dumps(changed))
        said.append(refusal(corpus, tmp_path, file))
    assert all(place in one for one in said if one)
    assert len([one for one in said if one]) >= least  # of the others some are not read, some may stand there


RAW = "multidogo/multi-domain-goal-oriented-dialogues-dataset-master/data"
LABELS = f"{RAW}/paper_splits/splits_annotated_at_turn_level/media/train.tsv"
SPOKEN = f"{RAW}/unannotated/media.tsv"
ROWS = [
    ("msr_e2e", "msr_e2e/restaurant_all.tsv", "1\t1\t2016\tuser", "line 2: .*got 4"),
    ("msr_e2e", "msr_e2e/restaurant_all.tsv", "1\t1\t2016\tuser\thi\n\n", "line 3: .*got 0"),
    ("msr_e2e", "msr_e2e/restaurant_all.tsv", "1\t1\t2016\tbot\thi", "line 2: .*'bot'"),
    ("msr_e2e", "msr_e2e/restaurant_all.tsv", "", "holds no utterance"),
    ("multidogo", LABELS, "a\tb", "line 2: .*got 2"),
    ("multidogo", LABELS, "media-train-a\tx\tu\thi\tO\ti", "line 2: .*'x'"),
    ("multidogo", LABELS, "media-train-a\t0\tu\thi there\tO\ti", "line 2: .*2 words but 1 labels"),
    ("multidogo", SPOKEN, "acs-a-1,x,u,hi,agent", "line 2: .*'x'"),
    ("multidogo", SPOKEN, "acs-a-1,0,u,hi", "line 2: .*got 4"),
]


@pytest.mark.parametrize(("corpus", "file", "rows", "message"), ROWS)
def test_a_row_of_another_format_is_named(tmp_path: Path, corpus: str, file: str, rows: str, message: str) -> None:
    path = {"msr_e2e": write_msr_e2e, "multidogo": write_multidogo}[corpus](tmp_path) / file
    path.write_text(f"header\n{rows}" + ("\n" if corpus == "multidogo" else ""))
    assert re.search(message, refusal(corpus, tmp_path, file))


FILES = [
    ("taskmaster", write_taskmaster, "taskmaster-1/woz-dialogs.json"),
    ("taskmaster3", write_taskmaster3, "taskmaster-3/data_07.json"),
    ("metalwoz", write_metalwoz, "metalwoz/train/tasks.txt"),
    ("metalwoz", write_metalwoz, "metalwoz/train/dialogues/TEA_BOT.txt"),
    ("msr_e2e", write_msr_e2e, "msr_e2e/taxi_all.tsv"),
    ("multidogo", write_multidogo, f"{RAW}/unannotated/insurance.tsv"),
    ("multidogo", write_multidogo, f"{RAW}/paper_splits/splits_annotated_at_turn_level/insurance/train.tsv"),
]
Writer = Callable[[Path], Path]


@pytest.mark.parametrize(("corpus", "writer", "file"), FILES)
def test_content_that_is_not_the_corpus(tmp_path: Path, corpus: str, writer: Writer, file: str) -> None:
    """What else may stand there: tests/ground/test_any_file.py."""
    path = writer(tmp_path) / file
    for content in (b"\xff\xfe{", *((b"", b"{", b"5", b"[" * 200) if path.suffix != ".tsv" else ())):
        path.write_bytes(content)
        assert refusal(corpus, tmp_path, file)


@pytest.mark.parametrize(("corpus", "writer", "file"), [row for row in FILES if "TEA_BOT" not in row[2]])
def test_a_missing_file(tmp_path: Path, corpus: str, writer: Writer, file: str) -> None:
    (writer(tmp_path) / file).unlink()
    assert refusal(corpus, tmp_path, file)


@pytest.mark.parametrize(
    ("corpus", "folder"), [("taskmaster", "taskmaster-1"), ("taskmaster3", "taskmaster-3"), ("multidogo", "multidogo")]
)
def test_a_missing_or_empty_folder(tmp_path: Path, corpus: str, folder: str) -> None:
    with pytest.raises(CorpusError, match=f"corpus '{corpus}' needs --datapath, a folder that holds {folder}/"):
        load_corpus(corpus)
    assert "no such folder" in refusal(corpus, tmp_path, folder)
    (tmp_path / folder).mkdir()
    assert refusal(corpus, tmp_path, folder)


def test_a_split_without_dialogues_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^taskmaster3: holds no dialogue in its split 'valid'$"):
        load_corpus("taskmaster3", datapath=write_taskmaster3(tmp_path, count=6), split="valid")
