"""Files that are missing or damaged: one line that names the file and the place and says how to get the corpus."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_corpora import (
    BOOK,
    TASKS,
    said,
    write_lines,
    write_metalwoz,
    write_msr_e2e,
    write_multidogo,
    write_taskmaster,
    write_taskmaster3,
)

from tod_bias import load_corpus
from tod_bias.errors import CorpusError

ADVICE = r"; get it from .+, or by `parlai display_data -t \S+ -dp FOLDER` into a new folder$"


def fails(corpus: str, datapath: Path, message: str, split: str = "train") -> None:
    with pytest.raises(CorpusError, match=message + ".*" + ADVICE) as caught:
        load_corpus(corpus, datapath=datapath, split=split)
    assert "\n" not in str(caught.value)


SELF, DATA = r"(self|woz)-dialogs\.json, dialogue '?dlg-\d+'?: not in Taskmaster-1's format: ", r"data_0\d\.json, "
SEGMENT = {"text": "a", "annotations": [{"name": "a.b"}]}


@pytest.mark.parametrize(
    ("utterances", "message"),
    [
        (None, "'utterances': expected a list, got null"),
        ({"0": "hi"}, "'utterances': expected a list, got a mapping"),
        ([None], "utterance 1: expected a mapping, got null"),
        ([["hi"]], "utterance 1: expected a mapping, got a list"),
        ([said("USER", None)], "utterance 1: 'text': expected text, got null"),  # type: ignore[arg-type]
        ([said("USER", "a"), {"speaker": "ASSISTANT"}], "utterance 2: has no 'text'"),
        ([{**said("USER", "a"), "segments": None}], "utterance 1: 'segments': expected a list, got null"),
        ([{**said("USER", "a"), "segments": {"text": "a"}}], "'segments': expected a list, got a mapping"),
        ([{**said("USER", "a"), "segments": ["a"]}], "segment 1: expected a mapping with 'annotations', got text"),
        ([{**said("USER", "a"), "segments": [SEGMENT, {"text": "a"}]}], "segment 2: has no 'annotations'"),
        ([{**said("USER", "a"), "segments": [{**SEGMENT, "annotations": []}]}], "segment 1: has no annotation"),
        ([{**said("USER", "a"), "segments": [{**SEGMENT, "text": 5}]}], "'text': expected text, got a number"),
        ([{**said("USER", "a"), "segments": [{**SEGMENT, "annotations": [{"name": None}]}]}], "'name': expected text"),
    ],
)
def test_taskmaster_1(tmp_path: Path, utterances: Any, message: str) -> None:
    fails("taskmaster", write_taskmaster(tmp_path, [utterances]), SELF + ".*" + message)


@pytest.mark.parametrize(
    ("utterances", "message"),
    [
        (None, "'utterances': expected a list, got null"),
        ([said("USER", "Hi")], "utterance 1: unknown speaker 'USER'"),
        ([{"text": "Hi"}], "utterance 1: has no 'speaker'"),
        ([said("user", None)], "utterance 1: 'text': expected text, got null"),  # type: ignore[arg-type]
        ([said("user", "a", apis=None)], "'apis': expected a list, got null"),
        ([said("user", "a", apis=[[]])], "API call 1: expected a mapping with 'name', got a list"),
        ([said("user", "a", apis=[{**BOOK, "args": []}])], "API call 1: 'args': expected a mapping, got a list"),
        ([said("user", "a", apis=[BOOK, {"name": "a", "args": {}}])], "API call 2: has no 'response'"),
        ([said("user", "a", apis=[{**BOOK, "args": {"a": None}}])], "args 'a': expected a value, got null"),
    ],
)
def test_taskmaster_3(tmp_path: Path, utterances: Any, message: str) -> None:
    fails("taskmaster3", write_taskmaster3(tmp_path, [utterances]), DATA + "dialogue 'dlg-.*" + message)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (None, "dialogue 1: .*expected a mapping with 'conversation_id', got null"),
        ({"conversation_id": 5}, "dialogue 1: .*'conversation_id': expected text, got a number"),
        ({"conversation_id": "a"}, "dialogue 'a': .*has no 'utterances'"),
        ({"conversation_id": "a", "utterances": []}, "dialogue 'a': .*has no 'instruction_id'"),
    ],
)
def test_records_of_taskmaster(tmp_path: Path, record: Any, message: str) -> None:
    write_taskmaster(tmp_path, count=0)
    (tmp_path / "taskmaster-1" / "self-dialogs.json").write_text(json.dumps([record]))
    fails("taskmaster", tmp_path, r"self-dialogs\.json, " + message, split="test")


MADE = {"id": "d", "domain": "BUS", "task_id": "t0", "turns": ["Hello", "Hi"]}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (None, "expected a mapping with 'id', got null"),
        ([], "expected a mapping with 'id', got a list"),
        ({**MADE, "id": None}, "'id': expected text, got null"),
        ({**MADE, "task_id": 5}, "'task_id': expected text, got a number"),
        ({**MADE, "turns": None}, "'turns': expected a list, got null"),
        ({**MADE, "turns": {"0": "Hello"}}, "'turns': expected a list, got a mapping"),
        ({**MADE, "turns": ["Hello", None]}, "turn 2: expected text, got null"),
        ({name: MADE[name] for name in ("id", "task_id", "turns")}, "has no 'domain'"),
    ],
)
def test_metalwoz(tmp_path: Path, record: Any, message: str) -> None:
    write_metalwoz(tmp_path)
    write_lines(tmp_path / "metalwoz" / "train" / "dialogues" / "BUS_BOT.txt", [MADE, record])
    fails("metalwoz", tmp_path, r"BUS_BOT\.txt, line 2: not in MetaLWOZ's format: " + message)


@pytest.mark.parametrize(
    ("task", "message"),
    [({**TASKS[0], "bot_role": None}, "'bot_role': expected text, got null"), ({"bot_role": "x"}, "has no 'task_id'")],
)
def test_tasks_of_metalwoz(tmp_path: Path, task: Any, message: str) -> None:
    write_metalwoz(tmp_path)
    write_lines(tmp_path / "metalwoz" / "test" / "tasks.txt", [*TASKS, task])
    fails("metalwoz", tmp_path, r"test/tasks\.txt, line 4: not in MetaLWOZ's format: " + message, split="test")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1\t1\t2016\tuser", r"line 2: .*expected 5 columns or more, divided by tabs, got 4"),
        ("1\t1\t2016\tuser\thi\n\n", r"line 3: .*expected 5 columns or more, divided by tabs, got 0"),
        ("1,1,2016,user,hi", r"line 2: .*got 1"),
        ("1\t1\t2016\tbot\thi", r"line 2: .*unknown speaker 'bot'; expected user or agent"),
        ("1\t1\t2016\t\thi", r"line 2: .*unknown speaker ''"),
        ("1\t1\t2016\tuser\t" + "a" * 140_000, r"line 2: .*field larger than field limit"),
        ("", "holds no utterance"),
    ],
)
def test_msr_e2e(tmp_path: Path, rows: str, message: str) -> None:
    path = write_msr_e2e(tmp_path) / "msr_e2e" / "restaurant_all.tsv"
    path.write_text("id\tnumber\ttime\tfrom\ttext\n" + rows)
    fails("msr_e2e", tmp_path, r"restaurant_all\.tsv(, |: )" + message)


FINE = {"text": "hi", "role": "customer"}


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        (None, "its utterances: expected a mapping, got null"),
        ([FINE], "its utterances: expected a mapping, got a list"),
        ({"0": None}, "utterance '0': expected a mapping, got null"),
        ({"0": FINE, "2": FINE}, "has no '1'"),
        ({"0": {"role": "agent"}}, "utterance 0: has no 'text'"),
        ({"0": {**FINE, "text": None}}, "utterance 0: 'text': expected text, got null"),
        ({"0": {**FINE, "role": 3}}, "utterance 0: 'role': expected text, got a number"),
        ({"0": {**FINE, "slots": []}}, "utterance 0: 'slots': expected a mapping, got a list"),
        ({"0": {**FINE, "slots": {"a": None}}}, "utterance 0, slot 'a': expected a value, got null"),
    ],
)
def test_multidogo(tmp_path: Path, conversation: Any, message: str) -> None:
    folder = write_multidogo(tmp_path) / "multidogo" / "processed" / "finance" / "turn" / "train"
    folder.mkdir(parents=True)
    (folder / "0.json").write_text(json.dumps({"c-1": conversation}))
    fails("multidogo", tmp_path, r"0\.json, dialogue 'c-1': not in MultiDoGO's format: " + message)


@pytest.mark.parametrize(
    ("file", "row", "message"),
    [
        ("paper_splits/splits_annotated_at_turn_level/media/train.tsv", "a\tb", "line 2: .*expected 6 columns, got 2"),
        (
            "paper_splits/splits_annotated_at_turn_level/media/train.tsv",
            "media-train-a\tx\tu\thi\tO\ti",
            "line 2: .*could not convert string to float: 'x'",
        ),
        (
            "paper_splits/splits_annotated_at_turn_level/media/train.tsv",
            "media-train-a\tinf\tu\thi\tO\ti",
            "line 2: .*infinity",
        ),
        (
            "paper_splits/splits_annotated_at_turn_level/media/train.tsv",
            "media-train-a\t0\tu\thi there\tO\ti",
            "line 2: .*2 words but 1 labels",
        ),
        ("unannotated/media.tsv", "acs-a-1,x,u,hi,agent", "line 2: .*invalid literal for int.*'x'"),
        ("unannotated/media.tsv", "acs-a-1,0,u,hi", "line 2: .*expected 5 columns, got 4"),
    ],
)
def test_tables_of_multidogo(tmp_path: Path, file: str, row: str, message: str) -> None:
    folder = write_multidogo(tmp_path) / "multidogo" / "multi-domain-goal-oriented-dialogues-dataset-master" / "data"
    (folder / file).write_text(f"header\n{row}\n")
    fails("multidogo", tmp_path, f"{Path(file).name}, {message}")


def test_a_conversation_of_multidogo_without_a_name_is_one_like_others(tmp_path: Path) -> None:
    before = load_corpus("multidogo", datapath=write_multidogo(tmp_path), split="train")
    path = tmp_path / "multidogo" / "multi-domain-goal-oriented-dialogues-dataset-master" / "data" / "unannotated"
    lines = (path / "media.tsv").read_text().splitlines()
    (path / "media.tsv").write_text("\n".join([lines[0], "acs-,0,u,hello,customer", *lines[1:]]) + "\n")
    assert load_corpus("multidogo", datapath=tmp_path, split="train") == before


RAW = "multidogo/multi-domain-goal-oriented-dialogues-dataset-master/data"
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
def test_bytes_that_are_no_text(tmp_path: Path, corpus: str, writer: Writer, file: str) -> None:
    (writer(tmp_path) / file).write_bytes(b"\xff\xfe{")
    fails(corpus, tmp_path, Path(file).name)


@pytest.mark.parametrize(("corpus", "writer", "file"), [row for row in FILES if row[2][-4:] != ".tsv"])
@pytest.mark.parametrize("content", ["", "{", "5", '"text"', "null", "NaN", "[" * 200])
def test_content_that_is_not_the_corpus(tmp_path: Path, corpus: str, writer: Writer, file: str, content: str) -> None:
    (writer(tmp_path) / file).write_text(content)
    fails(corpus, tmp_path, Path(file).name)


@pytest.mark.parametrize(("corpus", "writer", "file"), [row for row in FILES if "TEA_BOT" not in row[2]])
def test_a_missing_file(tmp_path: Path, corpus: str, writer: Writer, file: str) -> None:
    (writer(tmp_path) / file).unlink()
    fails(corpus, tmp_path, Path(file).name)


@pytest.mark.parametrize(
    ("corpus", "folder"),
    [
        ("taskmaster", "taskmaster-1"),
        ("taskmaster3", "taskmaster-3"),
        ("metalwoz", "metalwoz"),
        ("msr_e2e", "msr_e2e"),
        ("multidogo", "multidogo"),
    ],
)
def test_a_missing_or_empty_folder(tmp_path: Path, corpus: str, folder: str) -> None:
    with pytest.raises(CorpusError, match=f"corpus '{corpus}' needs --datapath, a folder that holds {folder}/"):
        load_corpus(corpus)
    fails(corpus, tmp_path, f"{folder}: no such folder")
    (tmp_path / folder).mkdir()
    fails(corpus, tmp_path, folder)


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    fails("taskmaster", write_taskmaster(tmp_path, count=0), "self-dialogs.json, woz-dialogs.json hold no dialogue")


def test_a_split_without_dialogues_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^taskmaster3: holds no dialogue in its split 'valid'$"):
        load_corpus("taskmaster3", datapath=write_taskmaster3(tmp_path, count=6), split="valid")
