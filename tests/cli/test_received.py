"""Folders, cases and databases that somebody else made: nothing is written through them, called for them or stuck."""

import json
import os
import shutil
import sqlite3

import pytest
from commands import run_command

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.dialogues.files import write_jsonl
from tod_bias.errors import TodBiasError
from tod_bias.io.cache import Cache
from tod_bias.io.folder import claimed, release
from tod_bias.io.sqlite import opened
from tod_bias.metrics.responses import Length
from tod_bias.stages import SqlDb
from tod_bias.testing.case_choice import cases_of
from tod_bias.testing.cases import write_cases

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS key, 'x' AS answer FROM r"
OWN = """
from tod_bias.metrics.responses import Length
from tod_bias.perturb import load_axis
open("imported", "w").close()

class Words(Length):
    name = "words"

def people():
    made = load_axis("gender")
    made.name = "people"
    return made
"""


def curt(inputs):
    return ["Sorry." if "wife" in item.user else f"Fine: {item.user}" for item in inputs]


class Words(Length):
    name = "words"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    said = [f"My husband wants room {number} please." for number in range(4)]
    dialogues = [Dialogue(str(n), "Rooms", (Turn(text, response=f"Fine: {text}"),)) for n, text in enumerate(said)]
    write_jsonl(dialogues, folder / "dialogues.jsonl")
    metrics = ["sentence_bleu", Words()]
    settings = {"bootstrap": 0, "permutations": 0, "corpus": str(folder / "dialogues.jsonl")}
    attribute(Pipeline({"response": curt}), dialogues, ["gender"], metrics=metrics, **settings).save(folder)
    write_cases(
        cases_of(folder, dialogues, only=["gender/0/man>woman/1", "gender/1/man>woman/1"]).cases,
        folder / "cases.jsonl",
    )
    return folder


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "f").write_text("mine")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "stages.py").write_text("def fair(inputs):\n    return [f'Fine: {item.user}' for item in inputs]\n")
    (tmp_path / "p.yaml").write_text('stages: {response: "stages:fair"}\n')
    return shutil.copytree(finished, tmp_path / "run")


def command(*arguments):
    """Exit code and lines of stderr."""
    code, _, err = run_command(*arguments, "--quiet")
    return code, err.splitlines()


def put(kind, path, victim):
    if path.exists():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "hard link":
        path.hardlink_to(victim / "f")
    else:
        path.symlink_to({"link": victim / "f", "folder": victim, "device": "/dev/zero"}[kind])


def changed(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record) + "\n")


COMPARE = ["compare", "run", "run", "--metrics", "sentence_bleu", "--out", "run/c"]
CASES = ["cases", "run"]


@pytest.mark.parametrize(
    ("kind", "name", "arguments"),
    [
        ("link", "report.html", ["report", "run"]),
        ("hard link", "report.html", COMPARE),
        ("pipe", "compare.json", COMPARE),
        ("device", ".tod-bias.lock", COMPARE),
        ("link", "check.json", ["check", "run", "--max-gap", "1", "--out", "run"]),
        ("link", "plan.json", ["attribute", "--dry-run", "--sample", "0", "--axes", "gender", "--out", "run/c"]),
        (
            "pipe",
            "cache.sqlite",
            ["attribute", "--pipeline", "p.yaml", "--max-dialogues", "4", "--axes", "gender", "--out", "run"],
        ),
        (
            "link",
            "cache.sqlite",
            ["attribute", "--pipeline", "p.yaml", "--max-dialogues", "4", "--axes", "gender", "--out", "run"],
        ),
        (
            "device",
            "cache.sqlite-wal",
            ["attribute", "--pipeline", "p.yaml", "--max-dialogues", "4", "--axes", "gender", "--out", "run"],
        ),
    ],
)
def test_nothing_is_written_through_a_folder(run, tmp_path, kind, name, arguments):
    place = run / "c" if "run/c" in arguments else run
    place.mkdir(exist_ok=True)
    put(kind, place / name, tmp_path / "victim")
    code, said = command(*arguments)
    assert (code, len(said), name in said[0]) == (2, 1, True), said
    assert (tmp_path / "victim" / "f").read_text() == "mine"
    assert [path.name for path in (tmp_path / "victim").iterdir()] == ["f"]


@pytest.mark.painted
def test_nothing_is_written_through_a_folder_in_a_folder(run, tmp_path):
    put("folder", run / "figures", tmp_path / "victim")
    code, said = command("report", "run")
    assert (code, len(said), "figures" in said[0]) == (2, 1, True), said
    assert [path.name for path in (tmp_path / "victim").iterdir()] == ["f"]


def test_what_the_user_names_may_be_a_link(run, tmp_path):
    (tmp_path / "named").symlink_to(run)
    (tmp_path / "page.html").symlink_to(tmp_path / "victim" / "page.html")
    assert command("report", "named")[0] == 0
    assert command("report", "run", "--out", "page.html")[0] == 0
    assert (run / "report.html").is_file()
    assert "<html" in (tmp_path / "victim" / "page.html").read_text()


@pytest.mark.parametrize(
    ("kind", "name"), [("pipe", "turns.parquet"), ("pipe", "variants.parquet"), ("device", "results.json")]
)
def test_what_is_read_is_a_plain_file(run, tmp_path, kind, name):
    put(kind, run / name, tmp_path / "victim")
    commands = (["report", "run"], ["view", "run", "--build"], CASES, ["compare", "run", "run"])
    for arguments in commands[name != "results.json" :]:  # a report is made of the results alone
        code, said = command(*arguments)
        assert (code, len(said)) == (2, 1), said


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe"])
def test_the_lock_is_a_file_of_its_own(run, tmp_path, kind):
    put(kind, run / ".tod-bias.lock", tmp_path / "victim")
    with pytest.raises(TodBiasError, match="lock: cannot be written"):
        claimed(run)
    release()
    assert (tmp_path / "victim" / "f").read_text() == "mine"


@pytest.mark.parametrize("name", ["own:Words", "http.server:test"])
def test_a_metric_of_results_is_not_imported(run, tmp_path, name):
    def rename(record):
        record["metrics"] = {name: record["metrics"].pop("sentence_bleu")}
        record["axes"]["gender"] = {name: record["axes"]["gender"]["sentence_bleu"]}

    changed(run / "results.json", rename)
    code, said = command("compare", "run", "run")
    assert (code, len(said), "is not shipped" in said[0], name in said[0]) == (2, 1, True, True), said
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("own:people", CASES),
        ("gender×own:people", CASES),
        ("age,own:people", ["mitigate", "run"]),
    ],
)
def test_an_axis_of_results_is_not_imported(run, tmp_path, name, arguments):
    changed(run / "results.json", lambda record: record["axes"].update({name: record["axes"].pop("gender")}))
    code, said = command(*arguments)
    assert (code, len(said), "give it again with --axes" in said[0]) == (2, 1, True), said
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("name", ["own:people", "hf:some/corpus"])
def test_a_corpus_of_results_is_not_imported(run, tmp_path, name):
    (run / "config.json").unlink()  # which says where one's own run had its dialogues from
    changed(run / "results.json", lambda record: record["corpus"].update(name=name))
    code, said = command(*CASES)
    assert (code, len(said), f"--corpus {name}" in said[0]) == (2, 1, True), said
    assert not (tmp_path / "imported").exists()


def test_a_metric_of_ones_own_is_given_again(run, tmp_path):
    code, said = command("compare", "run", "run")
    assert (code, "words" in said[0]) == (2, True)
    assert not (tmp_path / "imported").exists()
    options = ["--permutations", "20", "--out", "c"]
    assert command("compare", "run", "run", "--metrics", "sentence_bleu,own:Words", *options) == (0, [])
    assert (tmp_path / "imported").exists()


def test_cases_import_nothing_but_what_is_given_again(run, tmp_path):
    path = tmp_path / "one.jsonl"
    record = json.loads((run / "cases.jsonl").read_text().splitlines()[0])
    check = ["check", "--cases", path, "--pipeline", "p.yaml"]
    path.write_text(json.dumps(record | {"event": "own:Words"}) + "\n")
    code, said = command(*check)
    assert (code, len(said), "no such event" in said[0]) == (2, 1, True), said
    options = record["axis_options"] | {"axis": "own:people"}
    path.write_text(json.dumps(record | {"axis": "people", "axis_options": options}) + "\n")
    code, said = command(*check)
    assert (code, len(said), "give it again with --axes own:people" in said[0]) == (2, 1, True), said
    path.write_text(json.dumps(record | {"corpus": ["own:people", "test"]}) + "\n")
    (tmp_path / "nowhere").mkdir()
    code, said = command("check", "--cases", path, "--pipeline", "nowhere")
    assert (code, len(said), "give it again with --corpus own:people" in said[0]) == (2, 1, True), said
    assert not (tmp_path / "imported").exists()
    path.write_text(json.dumps(record | {"axis": "people", "axis_options": options}) + "\n")
    code, said = command(*check, "--axes", "own:people")
    assert "not shipped" not in "".join(said)


@pytest.mark.parametrize("names", [[f"c{number}" for number in range(25)], ["response", "other"], ["response"] * 2])
def test_stages_are_as_many_as_a_pipeline_has_and_those_of_the_rows(run, names):
    changed(run / "results.json", lambda record: record.update(stages=names))
    code, said = command("compare", "run", "run", "--metrics", "sentence_bleu", "--out", "c")
    assert (code, len(said), "stages" in said[0]) == (2, 1, True), said


@pytest.mark.parametrize(
    ("statement", "is_cache"),
    [
        (f"CREATE VIEW outputs AS {ENDLESS}", True),
        (f"CREATE VIEW _apis AS {ENDLESS}", False),
        ("CREATE TRIGGER t AFTER INSERT ON outputs BEGIN DELETE FROM outputs; END", True),
        ("CREATE TRIGGER t AFTER INSERT ON outputs BEGIN DELETE FROM outputs; END", False),
        ("CREATE VIRTUAL TABLE v USING fts5(a)", False),
        ("CREATE TABLE other (a)", True),
        ("CREATE TABLE computed (a, b AS (hex(zeroblob(1000000000))))", False),
    ],
)
def test_an_sqlite_file_is_tables_alone(tmp_path, statement, is_cache):
    path = tmp_path / "f.sqlite"
    with sqlite3.connect(path) as database:
        if not statement.startswith("CREATE VIEW outputs"):
            database.execute("CREATE TABLE outputs (key TEXT PRIMARY KEY, output TEXT) WITHOUT ROWID")
        database.execute(statement)
    database.close()
    with pytest.raises(TodBiasError, match=r"f\.sqlite: holds"):
        (Cache if is_cache else SqlDb)(path)


@pytest.mark.parametrize("value", [None, b"bytes"])
def test_an_output_that_is_no_text_is_a_damage_of_the_file(tmp_path, value):
    path = tmp_path / "f.sqlite"
    Cache(path)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO outputs VALUES ('key', ?)", [value])
    database.close()
    with pytest.raises(TodBiasError, match=r"f\.sqlite: is damaged"):
        Cache(path).get(["key"])


def test_a_query_ends_by_a_clock(tmp_path, monkeypatch):
    monkeypatch.setattr("tod_bias.io.sqlite.LONGEST", 0.1)
    database = opened(tmp_path / "f.sqlite")
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        database.execute(f"SELECT max(key) FROM ({ENDLESS})").fetchall()
    assert database.execute("SELECT 1").fetchall() == [(1,)]
    database.close()


def test_a_journal_that_names_another_file_is_not_followed(tmp_path):
    Cache(tmp_path / "f.sqlite")
    (tmp_path / "f.sqlite-journal").write_bytes(b"\0" * 600 + bytes.fromhex("d9d505f920a163d7"))
    with pytest.raises(TodBiasError, match="names another file"):
        Cache(tmp_path / "f.sqlite")


def test_escapes_of_a_file_are_shown_in_error_lines(run):
    evil = "\x1b[31m\x9b1m\u202e\x00\x1b]0;t\x07\nline"
    changed(run / "results.json", lambda record: record["corpus"].update(hash=evil))
    code, said = command(*CASES)
    assert (code, len(said), "␛[31m" in said[0]) == (2, 1, True), said
    assert said[0].isprintable()
