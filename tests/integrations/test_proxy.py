"""Agents that are processes or servers in any language: their requests go through the proxy to a server with a key."""

import json
import logging
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace

import httpx2
import openai
import proxy_agent
import pytest
import yaml
from commands import run_command
from flows import about_people, failures_of
from framework_agents import World, function_agent
from model_server import KEY, serving

from tod_bias import Dialogue, StageInput, Turn, attribute, load_pipeline
from tod_bias.dialogues.chat import write_chat
from tod_bias.errors import StageError, UnansweredError
from tod_bias.integrations import pipeline_of
from tod_bias.integrations.model_apis import request_of, with_ids
from tod_bias.integrations.seen_calls import SeenCalls, stages_as_yaml
from tod_bias.report.circumstances import circumstances
from tod_bias.systems.execution import Execution, Run

TESTS = Path(__file__).parent.parent
PYTHON = f"{sys.executable} {TESTS}/proxy_agent.py"
NODE = f"node {TESTS}/proxy_agent.mjs"
COMMANDS = {
    "process": f"{PYTHON} chat",
    "node": f"{NODE} chat",
    "node, anthropic": f"{NODE} anthropic",
    "node, anthropic+stream": f"{NODE} anthropic+stream",
}
SERVERS = {f"server, {api}": api for api in ("chat+stream", "responses", "responses+stream")}


CLIENT = httpx2.Client(timeout=20)


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("UPSTREAM_KEY", KEY)
    monkeypatch.setenv("SAME_KEY", f"Bearer {KEY}")
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1/v1")


def agent_file(folder, server, command="", stages="{model: {match: {kind: model}}}", **agent):
    place = {**({"command": command} if command else {}), "concurrency": 1, **agent}
    upstream = {"base_url": server.url, "api_key_env": "UPSTREAM_KEY"}
    path = folder / "agent.yaml"
    path.write_text(f"agent: {json.dumps(place)}\nupstream: {json.dumps(upstream)}\nstages: {stages}\n")
    return path


def audited(pipeline, **options):
    given = {"axes": ["gender"], "metrics": "corpus_bleu", "bootstrap": 0, "permutations": 0, **options}
    return attribute(pipeline, about_people(4), **given)


def gap_of(result):
    woman = result.axes["gender"]["corpus_bleu"].groups["woman"]
    return woman.gap.value, {name: part.shapley.value for name, part in woman.contributions.items()}, woman


@pytest.fixture(scope="module")
def gap():
    """Of the assistant as a function."""
    return gap_of(audited(pipeline_of(function_agent(World("model")), "model+find_place+free_day")))[0]


@pytest.mark.parametrize("kind", [*COMMANDS, *SERVERS])
def test_a_bias_of_the_model_is_found_as_in_a_function(kind, gap, url_agent, key, tmp_path):
    def respond(given):
        client = openai.OpenAI(base_url=given["base_url"], api_key=given["api_key"], http_client=CLIENT)
        return proxy_agent.answer(client, SERVERS[kind], given["messages"])

    url_agent.respond = respond
    place = {"command": COMMANDS[kind]} if kind in COMMANDS else {"url": url_agent.url}
    with serving(World("model")) as server:
        result = audited(load_pipeline(agent_file(tmp_path, server, **place)))
    assert gap_of(result)[:2] == (gap, {"model": pytest.approx(gap, abs=1e-12)})
    assert gap > 0.1


def test_a_tool_within_the_process_is_unattributed(key, tmp_path):
    with serving(World()) as server:
        pipeline = load_pipeline(agent_file(tmp_path, server, f"{COMMANDS['node']} find_place"))
        gap, parts, woman = gap_of(audited(pipeline))
    assert gap > 0.1
    assert parts == {"model": pytest.approx(0, abs=1e-12)}
    assert woman.unattributed.value == pytest.approx(gap)


def test_requests_of_no_stage_go_to_the_server_all_the_same(key, tmp_path):
    stages = (
        '{other: {match: {model: "gpt-*"}}, notes: {match: {offers: "note*"}}, triage: {match: {system: "Triage*"}}}'
    )
    with serving(World("model")) as server:
        result = audited(load_pipeline(agent_file(tmp_path, server, COMMANDS["node"], stages)))
    gap, parts, woman = gap_of(result)
    assert gap > 0.1
    assert set(parts.values()) == {0}
    assert "`other`, `notes`, `triage`: never called" in circumstances(result)[0]
    assert woman.unattributed.value == pytest.approx(gap)


@pytest.mark.parametrize(
    "stages", ["{kind: model, model: m}", "{system: 'You book*'}", "{offers: find_*}", "{offers: nothing}"]
)
def test_stages_match_requests(stages, key, tmp_path):
    with serving(World()) as server:
        made = load_pipeline(agent_file(tmp_path, server, COMMANDS["node"], f"{{model: {{match: {stages}}}}}"))
        (item,) = made([StageInput((), "My wife wants a table for 4 in Davis")])
    caught = [] if "nothing" in stages else ["model", "model"]
    assert [step.name for step in item.steps] == [*caught, "reply"]
    assert item.outputs["reply"] == "I found place 4 with 4 seats, and it is free on day 4."


def test_the_error_of_a_node_process_is_said_and_not_what_follows_it(key, tmp_path):
    code = "const error = new TypeError('no table'); error.detail = {seats: 3}; await null; throw error;"
    (tmp_path / "fails.mjs").write_text(
        f"import {{ stdin }} from 'node:process';\nfor await (const _ of stdin) {{ {code} }}"
    )
    with serving(World()) as server, pytest.raises(UnansweredError, match=r"exit code 1 .* turn: TypeError: no table$"):
        load_pipeline(agent_file(tmp_path, server, "node fails.mjs"))([StageInput((), "A table for 4")])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raises", "ended with exit code 1 in the middle of a turn: KeyError: 'table 3'"),
        ("hangs", "neither called a stage nor came to its end within 3 s"),
        ("misspeaks", """of the line that it wrote: expected {"content": "…"}, got '{"text": "Hello."}'"""),
    ],
)
def test_a_process_that_fails_fails_its_turn_and_is_replaced(how, message, key, tmp_path):
    with serving(World()) as server:
        path = agent_file(tmp_path, server, f"{PYTHON} none {how}", timeout=3)
        execution = Execution(load_pipeline(path))
        traces = execution([Run(dialogue) for dialogue in about_people(6)])
    assert list(failures := failures_of(traces)) == [3]
    assert message in failures[3]
    assert len((tmp_path / "environment.jsonl").read_text().splitlines()) == 2  # processes


def test_lines_that_are_no_json_are_logs(key, tmp_path, caplog):
    with serving(World()) as server:
        execution = Execution(load_pipeline(agent_file(tmp_path, server, f"{PYTHON} none mumbles")))
        assert all(execution([Run(dialogue) for dialogue in about_people(12)]))
    assert "wrote 'I am thinking.', which is no" in caplog.text


def test_every_request_of_a_turn_gets_another_id():
    """The state of a LangGraph graph replaces a message by another of the same id."""
    first = {"messages": [{"role": "user", "content": "Hello."}]}
    second = {"messages": [*first["messages"], {"role": "tool", "content": "3"}]}
    ids = [with_ids("/chat/completions", request, {})["id"] for request in (first, second, first)]
    assert ids[0] == ids[2] != ids[1]


@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/messages"])
def test_labels_of_a_session_do_not_make_another_request(path):
    name = "input" if path == "/responses" else "messages"
    body = {"model": "m", name: [{"role": "user", "content": "Hello."}]}
    labels = {"metadata": {"user_id": "a1"}, "user": "u", "safety_identifier": "s", "prompt_cache_key": "k"}
    assert request_of(path, body | labels) == request_of(path, body)
    assert request_of(path, body | {"temperature": 1}) != request_of(path, body)


def test_the_key_of_the_server_is_nowhere(key, tmp_path, caplog, capfd):
    dialogues = about_people(4)
    bad = Dialogue("bad", "Restaurants", (Turn("My wife has a bad request for 3 in Davis.", response="No."),))
    caplog.set_level(logging.DEBUG)
    with serving(World()) as server:
        pipeline = load_pipeline(agent_file(tmp_path, server, COMMANDS["process"], concurrency=2))
        options = {"axes": ["gender"], "metrics": "length", "bootstrap": 0, "permutations": 0, "max_failures": 0.5}
        result = attribute(pipeline, [*dialogues, bad], out=tmp_path / "run", **options)
    reasons = str(result.failed["gender"]["original"].reasons)
    assert "HTTP 400" in reasons
    assert "***" in reasons
    environments = [json.loads(line) for line in (tmp_path / "environment.jsonl").read_text().splitlines()]
    for environment in environments:
        assert environment["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
        assert environment["OPENAI_API_BASE"] == environment["OPENAI_BASE_URL"]  # and not the user's
        assert environment["OPENAI_API_KEY"] == environment["ANTHROPIC_API_KEY"]
        assert not {"UPSTREAM_KEY", "SAME_KEY"} & set(environment)
    assert len({environment["OPENAI_API_KEY"] for environment in environments}) == len(environments)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    said = capfd.readouterr()
    for text in (written, caplog.text.encode(), repr(result).encode(), repr(pipeline).encode(), *map(str.encode, said)):
        assert KEY.encode() not in text


@pytest.fixture
def url_agent(json_server):
    """A server of the user's, each of whose requests does what a test says with the proxy's address and key."""

    def reply(path, headers, given):
        assert headers["authorization"] == f"Bearer {given['api_key']}"
        return 200, {"content": made.respond(given)}

    made = SimpleNamespace(url=f"{json_server(reply)}/turn", respond=lambda given: "Hello.")
    return made


def asks(given, path="/chat/completions", key=None, **body):
    headers = {"authorization": f"Bearer {key or given['api_key']}"}
    return CLIENT.post(given["base_url"] + path, json=body, headers=headers)


@contextmanager
def raw_server(answer):
    """A server that answers every connection with bytes as they are, and then closes it; None: keeps it open."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    connection.recv(1 << 16)
                    if answer is None:
                        held.append(connection)
                    else:
                        connection.sendall(answer)
                        connection.close()

        held: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)  # which ends the wait for a connection
        for connection in held:
            connection.close()


def raw(status, body, length=None):
    return f"HTTP/1.1 {status}\r\nContent-Length: {length or len(body)}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (raw("500 Server Error", '{"detail": "KeyError"}'), 'http://{}/turn: HTTP 500: {{"detail": "KeyError"}}'),
        (raw("307 Temporary Redirect", ""), "http://{}/turn: HTTP 307"),
        (raw("200 OK", "<html>Hi</html>"), 'http://{}/turn: expected {{"content": "…"}}, got \'<html>Hi</html>\''),
        (raw("200 OK", '{"content": null}'), "got '{{\"content\": null}}'"),
        (raw("200 OK", '{"content"', 99), "{}: Response payload is not completed"),
        (b"", "{}: Server disconnected"),
        (b"I am no HTTP server\r\n", "{}: 400"),
        (None, "agent http://{}/turn: neither called a stage nor came to its end within 1 s"),
    ],
)
def test_a_server_that_answers_wrongly_or_not_at_all_is_told(answer, error, key, tmp_path):
    with serving(World()) as server, raw_server(answer) as address:
        pipeline = load_pipeline(agent_file(tmp_path, server, url=f"http://{address}/turn", timeout=1))
        with pytest.raises(UnansweredError) as caught:
            pipeline([StageInput((), "hello")])
    assert error.format(address) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there_is_told(key, tmp_path):
    with raw_server(b"") as address:
        pass
    with serving(World()) as server, pytest.raises(UnansweredError, match=f"^{address}: cannot be reached"):
        load_pipeline(agent_file(tmp_path, server, url=f"http://{address}/turn"))([StageInput((), "hello")])


def test_what_the_proxy_does_not_serve_is_told(url_agent, key, tmp_path):
    def respond(given):
        replies = [
            asks(given, key="sk-other", messages=[]),
            asks(given, "/images", input="x"),
            asks(given, messages=[], model="x" * (9 << 20)),
            CLIENT.post(given["base_url"] + "/messages", content=b"[", headers={"x-api-key": given["api_key"]}),
        ]
        said.update({reply.status_code: reply.json()["error"]["message"] for reply in replies})
        return asks(given, "/responses", input="x", previous_response_id="r").text

    said = {}
    url_agent.respond = respond
    with serving(World()) as server:
        pipeline = load_pipeline(agent_file(tmp_path, server, url=url_agent.url))
        with pytest.raises(StageError, match="has its history on the server: send all messages with each request"):
            pipeline([StageInput((), "hello")])
    assert {status: text[:29] for status, text in said.items()} == {
        401: "the key is of no turn that an", 404: "POST /v1/images: the proxy se",
        413: "the request is longer than 8 ", 400: "the request is no JSON object",
    }  # fmt: skip
    assert not server.asked


_KILLED = """
import os, signal, sys, threading, time
sys.path[:0] = {paths!r}
from flows import about_people
from tod_bias import attribute, load_pipeline
def watch():
    while len(open("asked").read().splitlines()) < 20:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
if os.fork() == 0:
    threading.Thread(target=watch, daemon=True).start()
else:
    assert os.WTERMSIG(os.wait()[1]) == signal.SIGKILL
pipeline = load_pipeline("agent.yaml")
attribute(pipeline, about_people(12), axes=["gender"], metrics="length", bootstrap=0, permutations=0, out="run")
"""


def test_a_killed_run_asks_nothing_twice(key, tmp_path):
    (tmp_path / "asked").touch()
    with serving(World("model"), note=tmp_path / "asked") as server:
        agent_file(tmp_path, server, COMMANDS["node"], concurrency=2)
        code = _KILLED.format(paths=[str(TESTS.parent), str(TESTS)])
        subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, check=True)
    assert len(server.asked) > 40
    assert len(server.asked) - len(set(server.asked)) <= 2  # those that were under way, or made and not yet written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent: {command: nothing-there}", "command 'nothing-there': unknown program 'nothing-there'"),
        ("agent: {command: node, url: 'http://x'}", "agent: names command and url; expected agent: "),
        ("agent: {url: localhost}", "url: expected an address such as http"),
        ("agent: {command: node}\nupstream: {base_url: x}", "upstream: base_url: expected an address such as"),
        ("agent: {command: node}\nupstream: {base_url: 'http://x', api_key_env: NO_SUCH}", "api_key_env: .* not set"),
        ("agent: {command: node}\nstages: {a: {match: {agent: x}}}", "expected some of kind, model, system, .*, got"),
        ("agent: {command: node}\nstages: {a: {match: {kind: tool}}}", "'a': no kind 'tool'; there are embedding"),
        ("agent: {command: node}\nstages: {}", "names no stage, .*; with upstream:, tod-bias doctor"),
        ("agent: {python: 'a:b'}\nupstream: {base_url: 'http://x'}", "upstream: goes with a command or url"),
        ("agent: {command: node}\ntimeout: 9", r"timeout: belongs in agent: \{…, timeout: …\};"),
    ],
)
def test_a_mistake_in_a_file_is_told_in_one_line(text, message, tmp_path):
    upstream = "" if "upstream" in text else "\nupstream: {base_url: 'http://x'}"
    stages = "" if "stages" in text else "\nstages: {model: {match: {kind: model}}}"
    (tmp_path / "agent.yaml").write_text(text + upstream + stages)
    with pytest.raises(StageError, match=message) as caught:
        load_pipeline(tmp_path / "agent.yaml")
    assert "\n" not in str(caught.value)


def test_a_command_that_ends_after_its_first_turn_is_told_what_it_has_to_do(key, tmp_path):
    (tmp_path / "once.py").write_text('import json\ninput()\nprint(json.dumps({"content": "Hello."}))\n')
    (tmp_path / "never.py").write_text("input()\n")
    with serving(World()) as server:
        (item,) = load_pipeline(agent_file(tmp_path, server, f"{sys.executable} once.py"))([StageInput((), "hello")])
        assert item.outputs["reply"] == "Hello."
        with pytest.raises(UnansweredError, match=r"exit code 0 .*: it has to read line by line until its input ends"):
            load_pipeline(agent_file(tmp_path, server, f"{sys.executable} never.py"))([StageInput((), "hello")])


def test_doctor_lists_the_requests_as_stages(key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_chat(about_people(2), "chats.jsonl")
    with serving(World()) as server:
        agent_file(tmp_path, server, COMMANDS["node"], "{}")
        code, said, _ = run_command("doctor agent.yaml --corpus chats.jsonl")
    assert code == 0
    assert said == (
        "# conversation 'p0', turns: 1\n"
        "stages:\n"
        '  # requests: 2; model: m; "You book tables."; tools: find_place, free_day\n'
        "  model: {match: {kind: model}}\n"
    )


def test_doctor_says_what_a_server_that_made_no_request_has_to_read(url_agent, key, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_chat(about_people(2), "chats.jsonl")
    with serving(World()) as server:
        agent_file(tmp_path, server, "", "{}", url=url_agent.url)
        code, said, _ = run_command("doctor agent.yaml --corpus chats.jsonl")
    assert code == 0
    assert "no request to the proxy: does it read the base_url and the api_key that come with each turn?" in said


def test_stages_tell_models_and_prompts_apart():
    seen = [
        SeenCalls("model", model, system, [], 1)
        for model, system in (("a", "You are [x]."), ("b", "You are y."), ("b", ""))
    ]
    stages = yaml.safe_load(stages_as_yaml(seen))["stages"]
    assert list(stages) == ["model_1", "model_2", "model_3"]
    for stage, calls in zip(stages.values(), seen, strict=True):
        for other in seen:
            fits = fnmatchcase(other.model, stage["match"]["model"])
            fits = fits and fnmatchcase(other.system, stage["match"]["system"])
            assert fits == (other is calls)
