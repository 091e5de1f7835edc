"""Audits of a served assistant: planted biases, failures, killed runs, batch files, samples."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from assistant import TOOLS, WOMEN, assistant, corpus, find_fewer_for_women, find_hotels
from chat_server import ChatServer, completion

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.dialogues.chat import write_chat
from tod_bias.errors import IncompleteError, PendingError, StageError, TodBiasError, UnansweredError
from tod_bias.stages import Answer, ToolCalls, Tools
from tod_bias.studies.evaluation import evaluate
from tod_bias.systems.flow import tool_loop

OPTIONS = {"axes": ("gender",), "bootstrap": 100, "permutations": 1000, "metrics": ("corpus_bleu", "call_disagreement")}
BLEU = OPTIONS | {"metrics": "corpus_bleu"}
ROLES = {"policy": ToolCalls, "answer": Answer}


def system(url, *, tools=find_hotels, answer=None, **settings):
    given = {"model": "m", "tools": TOOLS, "system": "You book hotels.", "concurrency": 8, "retries": 8, **settings}
    return Pipeline(
        {
            "policy": ToolCalls(base_url=url, **given),
            "tools": Tools({"find_hotels": tools}, TOOLS),
            "answer": Answer(base_url=answer or url, **given),
        },
        flow=tool_loop,
    )


def without_cost(result):
    return json.loads(json.dumps({name: value for name, value in result.items() if name != "cost"}))


def comparable(result):
    """A result without what names the server's port."""
    found = without_cost(result)
    found["signature"] = {name: text for name, text in found["signature"].items() if not name.startswith("stage ")}
    return found


# where a bias enters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", ["policy", "tools", "answer", None])
def test_a_planted_bias_is_attributed_to_its_component_alone(planted):
    biased = {"policy": {"policy_bias": True}, "answer": {"answer_bias": True}}.get(planted, {})
    tools = find_fewer_for_women if planted == "tools" else find_hotels
    with ChatServer(functools.partial(assistant, **biased)) as server:
        result = attribute(system(server.url, tools=tools), corpus(), **OPTIONS)
    for metric in OPTIONS["metrics"]:
        found = result["axes"]["gender"][metric]
        shows = planted is not None and (metric == "corpus_bleu" or planted == "policy")
        woman = found["groups"]["woman"]["gap"]["value"] if metric == "corpus_bleu" else found["disparity"]["value"]
        assert woman == (pytest.approx(woman) if shows else 0)
        assert not shows or abs(woman) > 0.1
        for name in ("policy", "tools", "answer"):
            part = found["contributions"][name]["value"]
            assert part == (pytest.approx(found["disparity"]["value"]) if name == planted else pytest.approx(0))
    assert (result["axes"]["gender"]["corpus_bleu"]["verdict"] == "disparity") == (planted is not None)


def test_a_changed_argument_shows_in_calls_where_the_answers_stay_the_same():
    def rule(body):
        message = assistant(body, policy_bias=True)
        return message if isinstance(message, dict) else "Here are your hotels, have a nice stay!"

    with ChatServer(rule) as server:
        axis = attribute(system(server.url), corpus(), **OPTIONS)["axes"]["gender"]
    assert axis["corpus_bleu"]["disparity"]["value"] == 0
    assert axis["call_disagreement"]["contributions"]["policy"]["value"] > 0.3


def test_one_model_in_both_roles_is_asked_once():
    with ChatServer(assistant) as server:
        result = attribute(system(server.url), corpus(16), **OPTIONS)
    assert len(server.asked) == len({json.dumps(body, sort_keys=True) for body in server.asked})
    cost = result["cost"]
    assert cost["kept"]["answer"] > 0
    assert len(server.asked) == sum(cost["distinct"][name] - cost["kept"][name] for name in ROLES)
    assert cost["tokens"] == {"read": 7 * len(server.asked), "written": 3 * len(server.asked)}


# failures --------------------------------------------------------------------------------------------------------


def test_a_server_that_fails_now_and_then_changes_nothing(tmp_path):
    kinds = [429, 500, "cut", "garbage", {"nonsense": 1}, (503, {"retry-after": "0"})]
    faults = random.Random(0)

    def fault(number, body):
        return faults.choice(kinds) if faults.random() < 0.05 else None

    with ChatServer(assistant) as server:
        steady = attribute(system(server.url), corpus(24), **OPTIONS)
    with ChatServer(assistant, fault=fault) as server:
        shaky = attribute(system(server.url), corpus(24), **OPTIONS, cache=tmp_path / "answers.sqlite")
        assert len(server.asked) > sum(server.answered.values())
        assert set(server.answered.values()) == {1}
    assert comparable(shaky) == comparable(steady)


def refusing(number):
    """A server that refuses everything that is said of one trip."""
    return lambda _, body: 400 if f"number {number}," in json.dumps(body) else None


def test_a_question_without_answer_takes_its_dialogue_out():
    with ChatServer(assistant, fault=refusing(3)) as server:
        result = attribute(system(server.url), corpus(24), **OPTIONS, max_failures=0.2)
    with ChatServer(assistant) as server:
        others = attribute(system(server.url), [it for it in corpus(24) if it.id != "t003"], **OPTIONS)
    assert result["corpus"]["lost"]["dialogues"] == 1
    assert result["corpus"]["lost"]["told_as"].keys() == {
        "original",
        "gender: woman",
        "gender: man",
        "gender: non-binary",
    } - {"gender: woman"}
    assert result["cost"]["failed"]["policy"] >= 3
    assert result["corpus"]["audited"] == {"gender": 23}
    assert result["axes"] == others["axes"]
    assert set(result.turns["dialogue"]) == {it.id for it in corpus(24)} - {"t003"}


def test_too_many_failures_stop_the_run(tmp_path):
    with ChatServer(assistant, fault=refusing(3)) as server:
        cache = tmp_path / "answers.sqlite"
        with pytest.raises(
            StageError, match=r"questions got no answer \(status 400.*more than --max-failures 0\.01"
        ) as error:
            attribute(system(server.url), corpus(24), **OPTIONS, cache=cache)
        assert "\n" not in str(error.value)
        attribute(system(server.url), corpus(24), **OPTIONS, cache=cache, max_failures=0.2)
        assert set(server.answered.values()) == {1}  # what was answered is not asked again


def test_a_server_that_answers_nothing_is_not_asked_on():
    with ChatServer(assistant, fault=lambda number, body: 400) as server:
        with pytest.raises(StageError, match="questions got no answer"):
            attribute(system(server.url), corpus(24), **OPTIONS)
        assert len(server.asked) < 40


def test_a_component_of_python_may_leave_a_question_unanswered():
    def fragile(inputs):
        if any("number 3," in item.user for item in inputs):
            raise UnansweredError("I do not like this one")
        return [item.user for item in inputs]

    result = attribute(Pipeline({"answer": fragile}), corpus(24), **BLEU, max_failures=0.2)
    assert result["corpus"]["lost"]["dialogues"] == 1
    assert result["corpus"]["lost"]["reasons"] == {"I do not like this one": 1}
    with pytest.raises(StageError, match=r"1 of 25 questions got no answer \(I do not like this one\)"):
        evaluate(Pipeline({"answer": fragile}), corpus(24), bootstrap=0)


def test_an_axis_without_a_dialogue_left_is_named():
    def fragile(inputs):
        if any("number 3," in item.user for item in inputs):
            raise UnansweredError("no")
        return [item.user for item in inputs]

    young = Turn("To Oslo, trip number 3, the hotel is for my young friend, please.", response="Yes.")
    some = [*corpus(3), Dialogue("y", "Hotels", (young,))]
    with pytest.raises(IncompleteError, match="axis age: every dialogue lacks an answer"):
        attribute(Pipeline({"answer": fragile}), some, **BLEU | {"axes": ("gender", "age")}, max_failures=0.9)


def test_an_interrupt_ends_what_waits_for_a_server():
    wait = (429, {"retry-after": "60"})
    with ChatServer(assistant, fault=lambda number, body: wait if number > 20 else None) as server:
        timer = threading.Timer(4, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            attribute(system(server.url), corpus(24), **OPTIONS)
        assert time.monotonic() - begun < 30
        timer.cancel()


def test_a_text_that_is_cut_in_a_character_is_kept(tmp_path):
    with ChatServer(lambda body: "half \ud83d") as server:
        cache = tmp_path / "answers.sqlite"
        first = attribute(system(server.url), corpus(8), **OPTIONS, cache=cache)
        asked = len(server.asked)
        assert without_cost(attribute(system(server.url), corpus(8), **OPTIONS, cache=cache)) == without_cost(first)
        assert len(server.asked) == asked


# batch files -----------------------------------------------------------------------------------------------------


def answer_batches(files, out, skip=()):
    """Another program: reads batch files, and writes what a provider would."""
    for file in files:
        lines = []
        for line in file.read_text(encoding="utf-8").splitlines():
            request = json.loads(line)
            assert request.keys() == {"custom_id", "method", "url", "body"}
            assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
            if request["custom_id"] in skip:
                continue
            reply = completion(assistant(request["body"], policy_bias=True), request["body"])
            response = {"status_code": 200, "request_id": "r", "body": reply}
            lines.append({"id": "b", "custom_id": request["custom_id"], "response": response, "error": None})
        random.Random(0).shuffle(lines)  # in no order
        out.mkdir(exist_ok=True)
        (out / file.name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_batches_of_several_waves_give_what_a_server_gives(tmp_path):
    with ChatServer(functools.partial(assistant, policy_bias=True)) as server:
        online = attribute(system(server.url), corpus(24), **OPTIONS)
    nobody = "http://127.0.0.1:9/v1"
    asked, out = tmp_path / "asked", tmp_path / "answered"
    options = {**OPTIONS, "cache": tmp_path / "answers.sqlite", "batch_out": asked}
    # which tool to call; that none is left; what to say where the policy was asked otherwise
    for number, component in enumerate(["policy", "policy", "answer"], start=1):
        with pytest.raises(PendingError) as waiting:
            attribute(system(nobody), corpus(24), **options)
        assert [file.name for file in waiting.value.files] == [f"wave{number:03d}_{component}.jsonl"]
        answer_batches(waiting.value.files, out)
        options["batch_in"] = [out]
    assert comparable(attribute(system(nobody), corpus(24), **options)) == comparable(online)


def test_what_a_batch_left_out_is_asked_once_more(tmp_path):
    def run(**batch):
        return attribute(system("http://h/v1"), corpus(4), **OPTIONS, cache=tmp_path / "a.sqlite", **batch)

    with pytest.raises(PendingError) as first:
        run(batch_out=tmp_path / "asked")
    with pytest.raises(PendingError) as again:
        run(batch_out=tmp_path / "asked")
    assert again.value.files == first.value.files  # nothing new is to be asked, nothing is written
    keys = [json.loads(line)["custom_id"] for line in first.value.files[0].read_text().splitlines()]
    answer_batches(first.value.files, tmp_path / "out", skip=keys[:1])
    with pytest.raises(PendingError) as second:
        run(batch_out=tmp_path / "asked", batch_in=[tmp_path / "out"])
    lines = [json.loads(line)["custom_id"] for file in second.value.files for line in file.read_text().splitlines()]
    assert keys[0] in lines
    assert not set(keys[1:]) & set(lines)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "line 1: no JSON"),
        ("[1]", "line 1: expected an object, got list"),
        ('{"custom_id": "x", "response": {}}', "line 1: custom_id 'x' is of no question of ours"),
        ('{"custom_id": "x", "method": "POST", "body": {}}', "holds no answer"),
    ],
)
def test_batch_files_that_cannot_be_read(tmp_path, line, said):
    (tmp_path / "out.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(TodBiasError, match=said):
        attribute(system("http://h/v1"), corpus(4), **OPTIONS, batch_in=[tmp_path / "out.jsonl"])


def test_a_refusal_in_a_batch_is_for_good_and_a_full_server_is_not(tmp_path):
    def run(**batch):
        return attribute(system("http://h/v1"), corpus(12), **OPTIONS, cache=tmp_path / "a.sqlite", **batch)

    with pytest.raises(PendingError) as first:
        run(batch_out=tmp_path / "asked")
    keys = [json.loads(line)["custom_id"] for line in first.value.files[0].read_text().splitlines()]
    for status, again in ((429, True), (400, False), (200, False)):  # {} is no chat completion
        line = {"custom_id": keys[0], "response": {"status_code": status, "body": {}}, "error": None}
        (tmp_path / "out.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
        with pytest.raises(PendingError) as second:
            run(batch_out=tmp_path / f"asked{status}", batch_in=[tmp_path / "out.jsonl"], max_failures=1)
        assert (keys[0] in second.value.files[0].read_text()) == again


# samples ---------------------------------------------------------------------------------------------------------


def moody(seed=0, harm=0.0):
    """An assistant that is curt at random; more often, by ``harm``, to women."""
    chance = random.Random(seed)

    def rule(body):
        said = json.dumps(body["messages"][-3:])
        curt = 0.3 + (harm if any(f"my {person}," in said for person in WOMEN) else 0)
        message = assistant(body)
        return "No idea." if isinstance(message, str) and chance.random() < curt else message

    return rule


def test_samples_are_repeated_measurements_with_a_floor_of_their_own(tmp_path):
    with ChatServer(moody()) as server:
        cache = tmp_path / "answers.sqlite"
        result = attribute(system(server.url, temperature=1.0), corpus(32), **OPTIONS, samples=3, cache=cache)
        asked = len(server.asked)
        again = attribute(system(server.url, temperature=1.0), corpus(32), **OPTIONS, samples=3, cache=cache)
        assert len(server.asked) == asked
    assert without_cost(again) == without_cost(result)
    bleu = result["axes"]["gender"]["corpus_bleu"]
    assert bleu["sampling"]["samples"] == result["samples"] == 3
    low, high = bleu["sampling"]["floor"]["ci"]
    assert low < 0 < high
    assert bleu["sampling"]["share_of_variance"] > 0.5  # nothing else differs
    assert bleu["verdict"] == "inconclusive"
    calls = result["axes"]["gender"]["call_disagreement"]
    assert calls["disparity"]["value"] == calls["sampling"]["floor"]["value"] == 0  # calls are not drawn
    assert set(result.turns["sample"]) == {0, 1, 2}


def test_one_sample_has_an_a_a_run_too():
    with ChatServer(moody()) as server:
        result = attribute(system(server.url, temperature=1.0), corpus(16), **OPTIONS)
    assert result["axes"]["gender"]["corpus_bleu"]["sampling"]["floor"]["ci"] is not None
    with ChatServer(assistant) as server:
        result = attribute(system(server.url), corpus(16), **OPTIONS)
    assert "sampling" not in result["axes"]["gender"]["corpus_bleu"]  # nothing is drawn at temperature 0


def test_samples_of_what_is_not_drawn_are_refused():
    def parrot(inputs):
        return [item.user for item in inputs]

    with pytest.raises(TodBiasError, match="2 samples: no component draws its answers"):
        attribute(Pipeline({"answer": parrot}), corpus(8), **OPTIONS, samples=2)
    with ChatServer(assistant) as server, pytest.raises(TodBiasError, match="no component draws"):
        attribute(system(server.url), corpus(8), **OPTIONS, samples=2)  # temperature 0


def test_the_share_of_sampling_is_told_where_it_is_known():
    with ChatServer(moody()) as server:
        axis = attribute(system(server.url, temperature=1.0), corpus(16), **OPTIONS)["axes"]["gender"]
    assert axis["corpus_bleu"]["sampling"]["floor"]["draws"] == 2
    assert axis["call_disagreement"]["sampling"]["share_of_variance"] is None


# the command -----------------------------------------------------------------------------------------------------

YAML = """\
flow: tool_loop
stages:
  policy: &model
    stage: tod_bias.stages:ToolCalls
    base_url: {url}
    model: m
    api_key_env: MY_KEY
    system: You book hotels.
    tools: tools.json
    concurrency: 8
  tools: {{stage: "tod_bias.stages:Tools", functions: hotels.py, schemas: tools.json}}
  answer: {{<<: *model, stage: "tod_bias.stages:Answer"}}
"""
HOTELS = """\
def find_hotels(city: str, limit: int, guest: str = "") -> list:
    names = ("Fjord House", "Harbour Inn", "The Old Mill")
    return [{"name": f"{name} {city}", "city": city, "price": 80 + 10 * n} for n, name in enumerate(names)][:limit]
"""
KEY = "sk-test-0123456789"


def files_of_a_user(folder, url, count=24):
    (folder / "assistant.yaml").write_text(YAML.format(url=url), encoding="utf-8")
    (folder / "hotels.py").write_text(HOTELS, encoding="utf-8")
    (folder / "tools.json").write_text(json.dumps(TOOLS), encoding="utf-8")
    write_chat(corpus(count), folder / "chats.jsonl")


def command(folder, *options, **environment):
    arguments = ["--corpus", "chats.jsonl", "--pipeline", "assistant.yaml", "--axes", "gender", "--bootstrap", "50"]
    return subprocess.Popen(
        [sys.executable, "-m", "tod_bias.attribute", *arguments, "--permutations", "200", "--out", "run", *options],
        cwd=folder, env={**os.environ, "MY_KEY": KEY, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_a_killed_run_asks_nothing_twice_and_the_key_is_nowhere(tmp_path):
    with ChatServer(functools.partial(assistant, policy_bias=True), latency=0.1, key=KEY) as server:
        files_of_a_user(tmp_path, server.url)
        process = command(tmp_path, OPENAI_LOG="debug")
        deadline = time.monotonic() + 120
        while len(server.asked) < 60 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        time.sleep(0.3)  # what is under way ends
        under_way = len(server.asked)
        process = command(tmp_path, OPENAI_LOG="debug")
        text, _ = process.communicate(timeout=300)
        assert process.returncode == 0, text
        asked = [json.dumps(body, sort_keys=True) for body in server.asked]
    twice = len(asked) - len(set(asked))
    assert under_way >= 60
    assert twice <= 8  # those that were under way when it was killed
    assert KEY not in text
    for file in Path(tmp_path).rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    answered = json.loads((tmp_path / "run" / "results.json").read_text())
    assert answered["axes"]["gender"]["corpus_bleu"]["verdict"] == "disparity"
    assert sum(1 for line in YAML.splitlines() if line.strip()) <= 20


@pytest.mark.slow
def test_the_command_goes_on_with_batches(tmp_path):
    files_of_a_user(tmp_path, "http://127.0.0.1:9/v1", 16)
    options = ["--batch-out", "asked"]
    for _ in range(4):
        process = command(tmp_path, *options)
        text, _ = process.communicate(timeout=300)
        if process.returncode == 0:
            break
        assert process.returncode == 3, text
        assert "questions wait in " in text
        waiting = sorted((tmp_path / "asked").iterdir())[-1:]
        answer_batches(waiting, tmp_path / "out")
        options = ["--batch-in", "out"]  # where the files go is known from the first round
    assert process.returncode == 0, text
    assert (tmp_path / "run" / "results.json").exists()
