import json
import os
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest
import yaml
from commands import refused

from tod_bias import load_corpus
from tod_bias.errors import TodBiasError, shortened
from tod_bias.io import documents
from tod_bias.io.documents import loads, read_json, read_text, read_yaml, text_lines
from tod_bias.recommenders.files import csv_rows, read_frame

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
IN_KEYS = "? &a [x, x]\n: 1\n? [*a, *a]\n: 2\n"
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 150))

HOSTILE_YAML = {
    "nested aliases": (BOMB, "more than 50000 values"),
    "nested merges": (MERGED, "more than 50000 values"),
    "an alias of itself": ("a: &a [*a]", "holds itself"),
    "a chain of aliases": (CHAIN, "nested more than 100 deep"),
    "deep lists": ("[" * 100_000, "nested more than 100 deep"),
    "deep blocks": ("- " * 5000 + "x", "nested more than 100 deep"),
    "keys that are lists": (IN_KEYS, "unhashable"),
    "a key twice": ("a: 1\na: 2", "'a' on line 2 is already on line 1"),
    "a tag that would run": ("!!python/object/apply:os.system [touch x]", "could not determine a constructor"),
    "a number without end": ("a: " + "9" * 5000, "more than 100 digits"),
    "a number in sixties": ("a: 1" + ":59" * 4000, "more than 100 digits"),
    "no date": ("a: 2020-13-45", "month must be in"),
    "two documents": ("a: 1\n---\nb: 2", "expected a single document"),
}


@pytest.mark.parametrize("case", HOSTILE_YAML)
def test_hostile_yaml_is_an_error_at_once_and_takes_no_memory(tmp_path, case):
    content, message = HOSTILE_YAML[case]
    (tmp_path / "f.yaml").write_text(content)
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(yaml.YAMLError, match=message):
        read_yaml(tmp_path / "f.yaml")
    assert time.process_time() - started < 10
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_ordinary_yaml_is_read(tmp_path):
    text = (
        "common: &common {model: m, max_new_tokens: 60}\n"
        "stages:\n  api_call:\n    <<: *common\n    stage: a:B\n  response: {<<: *common, stage: c:D, top_p: 0.9}\n"
        "when: 2026-01-02\nnames: [1, yes, null, ~, 0x10, 1e3, 'é']\n"
    )
    (tmp_path / "f.yaml").write_text(text)
    assert read_yaml(tmp_path / "f.yaml") == yaml.safe_load(text)


HOSTILE_JSON = {
    "deep lists": ("[" * 100_000, "nested more than 100 deep"),
    "deep lists, closed": ("[" * 101 + "]" * 101, "nested more than 100 deep"),
    "deep behind closing brackets in texts": ('["]]]]", ' * 150 + "1" + "]" * 150, "nested more than 100 deep"),
    "NaN": ('{"a": NaN}', "NaN is not a number in JSON"),
    "too large": ("[1e999]", "1e999 is not a number in JSON"),
    "a number without end": ("9" * 5000, "thousands of digits"),
    "no JSON": ("{bad", "Expecting property name"),
}


@pytest.mark.parametrize("case", HOSTILE_JSON)
def test_hostile_json_is_a_decoding_error(tmp_path, case):
    content, message = HOSTILE_JSON[case]
    (tmp_path / "f.json").write_text(content)
    with pytest.raises(json.JSONDecodeError, match=message):
        read_json(tmp_path / "f.json")
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**9)  # as some libraries do
    try:
        with pytest.raises(json.JSONDecodeError, match=message):
            loads(content)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "text", ["[" * 100 + "]" * 100, '{"a": [1, 2.5, "[[[{", null, true, {"b": []}]}', '"' + "[" * 1000 + '"', "1e5"]
)
def test_json_within_the_bounds_is_read(text):
    assert loads(text) == json.loads(text)


def test_files_and_lines_are_bounded_before_they_are_read(tmp_path, monkeypatch):
    (tmp_path / "f").write_text("aaaa\n\nb\n" + "c" * 30)
    assert list(text_lines(tmp_path / "f")) == [(1, "aaaa\n"), (3, "b\n"), (4, "c" * 30)]
    monkeypatch.setattr(documents, "LONGEST", 20)
    with pytest.raises(OSError, match="line 4 is longer than 20"):
        list(text_lines(tmp_path / "f"))
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_text(tmp_path / "f", largest=10)
    with pytest.raises(OSError, match="larger than 1,048,576 bytes"):
        read_yaml("/dev/zero")


DEEP, WIDE = "[" * 3000 + "]" * 3000, "[" + ", ".join(["'x'"] * 20_000) + "]"
COMMANDS = {
    "pipeline, aliases": ("attribute", "--pipeline", BOMB),
    "pipeline, deep": ("attribute", "--pipeline", DEEP),
    "pipeline, wide": ("attribute", "--pipeline", f"stages: {WIDE}"),
    "pipeline, long name": ("attribute", "--pipeline", f"stages: {{{'a' * 1000}: {'b' * 50_000}}}"),
    "corpus, deep": ("words", "--corpus", DEEP),
    "results, deep": ("report", DEEP),
    "results, long": ("report", json.dumps({"schema": "x" * 10_000, "axes": {}})),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_no_command_is_stopped_by_a_document_or_shows_more_than_a_screen_of_it(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    *arguments, content = COMMANDS[case]
    name = {"words": "c.jsonl", "report": "results.json"}.get(arguments[0], "f.yaml")
    (tmp_path / name).write_text(content)
    assert len(refused(*arguments, "." if arguments[0] == "report" else name)) < 650


# pipes -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    return tmp_path / "pipe.jsonl"


def test_a_pipe_is_read_from_a_late_and_slow_writer(pipe):
    def write():
        time.sleep(0.2)
        with pipe.open("w") as stream:
            for line in ("one\n", "two\n"):
                time.sleep(0.1)
                stream.write(line)
                stream.flush()

    writer = threading.Thread(target=write)
    writer.start()
    assert [line for _, line in text_lines(pipe)] == ["one\n", "two\n"]
    writer.join()


@pytest.mark.parametrize(
    "command",
    ["recommend audit --recommendations {}.csv", "recommend audit --recommendations {}.parquet",
     "associate --embeddings e.npz --attribute a --users {}.csv", "recommend train --reviews {}.csv"],
)  # fmt: skip
def test_what_is_read_twice_is_no_pipe(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for name in ("p.csv", "p.parquet"):
        os.mkfifo(name)
    np.savez("e.npz", users=np.eye(3), items=np.eye(3))
    assert "it is a pipe or a device, which is read once" in refused(command.format("p"), "--out", "out")
    assert not os.path.exists("out")


def test_a_long_error_keeps_its_beginning_and_its_end():
    assert shortened("short\n one") == "short one"
    assert shortened("a" * 50 + " then b", 20) == "aaaaaaaaaaa … then b"
    assert shortened("says “please have proof of purchase ready”", 30) == "says “please have … ready”"
    long = shortened("begin " + "x " * 10_000_000 + "end")
    assert len(long) <= 600
    assert (long[:5], long[-3:]) == ("begin", "end")


READERS = {"jsonl": load_corpus, "json": load_corpus, "csv": read_frame, "txt": lambda path: list(csv_rows(path))}


@pytest.mark.parametrize("ending", READERS)
@pytest.mark.parametrize(
    ("encoding", "said"), [("latin-1", "not UTF-8 (line 2, byte 0xe9); save"), ("utf-16", "not UTF-8 but UTF-16; save")]
)
def test_a_text_that_is_no_utf8_is_refused_with_its_line_and_what_to_do(ending, encoding, said, tmp_path):
    path = tmp_path / f"a.{ending}"
    path.write_bytes("id,name\n1,Café\n".encode(encoding))
    with pytest.raises(TodBiasError) as refusal:
        READERS[ending](path)
    assert f"{said} it as UTF-8" in str(refusal.value)
    assert "codec" not in str(refusal.value)
