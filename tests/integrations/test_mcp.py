"""MCP servers: their tools are stages, and a call gets a session that has seen the calls before it and no others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import framework_agents
import pytest
import yaml
from commands import run_command
from flows import about_people
from framework_agents import World

from tod_bias import attribute, load_pipeline
from tod_bias.dialogues.chat import write_chat
from tod_bias.errors import StageError
from tod_bias.integrations import pipeline_of
from tod_bias.integrations.proxied import STDIO
from tod_bias.systems.hosted import EventLoop

pytest.importorskip("agents", reason="not installed: pip install -e '.[agents]'")
pytest.importorskip("mcp", reason="not installed: pip install -e '.[agents]'")
from agents.mcp import MCPServerStdio
from mcp import StdioServerParameters

from tod_bias.integrations.mcp import McpServer

HERE = Path(framework_agents.__file__).parent
SERVER = HERE / "mcp_places.py"
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(sys.path)}
STAGES = {"model": {"kind": "model"}, "find_place": {"tool": "find_place"}, "free_day": {"tool": "free_*"}}


def stdio(biased=""):
    params = {"command": sys.executable, "args": [str(SERVER), biased], "env": ENVIRONMENT}
    return MCPServerStdio(params=params, name="places")


def places(*options) -> McpServer:
    params = StdioServerParameters(command=sys.executable, args=[str(SERVER), "", *options], env=ENVIRONMENT)
    return McpServer("places", lambda: params)


def called(server, name, arguments, before=()):
    output = EventLoop.current().run(server.call(name, arguments, before))
    return output["content"][0]["text"]


def woman_in(pipeline):
    """What was found of women, for whom the system is biased."""
    options = {"metrics": "corpus_bleu", "bootstrap": 0, "permutations": 0}
    result = attribute(pipeline, about_people(3), axes=["gender"], **options)
    woman = result.axes["gender"]["corpus_bleu"].groups["woman"]
    assert woman.gap.value > 0.1
    return woman


@pytest.mark.parametrize("biased", ["model", "find_place"])
def test_a_bias_is_found_in_a_tool_of_a_server(biased):
    world = World(biased if biased == "model" else "")
    pipeline = pipeline_of(framework_agents.openai_agent(world, servers=[stdio(biased)]), STAGES, concurrency=2)
    plain = pipeline_of(framework_agents.openai_agent(World(biased)), STAGES)
    gaps = []
    for audited in (pipeline, plain):
        woman = woman_in(audited)
        assert woman.contributions[biased].shapley.value == pytest.approx(woman.gap.value)
        gaps.append(woman.gap.value)
    assert gaps[0] == gaps[1]


def test_a_tool_of_a_server_that_is_no_stage_is_unattributed():
    agent = framework_agents.openai_agent(World(), servers=[stdio("find_place")])
    woman = woman_in(pipeline_of(agent, "model"))
    assert woman.unattributed.value == pytest.approx(woman.gap.value)


def test_a_session_has_seen_the_calls_before_and_no_others():
    server = places()
    assert server.writers == {"note"}
    first, second = ({"api_name": "note", "text": text} for text in "ab")
    assert called(server, "note", {"text": "a"}) == "1 noted"
    assert called(server, "note", {"text": "b"}, [first]) == "2 noted"
    assert called(server, "note", {"text": "c"}, [first, "a model's", second]) == "3 noted"
    assert called(server, "note", {"text": "b"}) == "1 noted"
    assert called(server, "find_place", {"seats": 2, "guest": "friend"}, [first]) == "place 2 with 2 seats"


def test_stages_must_not_part_tools_that_change_what_others_return():
    agent = framework_agents.openai_agent(World(), servers=[stdio()])
    assert pipeline_of(agent, {"places": {"server": "places"}}).stages["places"].reads_only_argument is False
    server = places()
    server.writers = frozenset(server.tools)
    message = "'find_place' is in a stage and 'free_day' is not, .* such as {'server': 'places'}"
    with pytest.raises(StageError, match=message):
        server.check({"find_place": "search", "free_day": None, "note": None})


def test_a_server_that_is_unknown_is_told():
    with pytest.raises(StageError, match="no server 'plaices'; there are places; did you mean"):
        pipeline_of(framework_agents.openai_agent(World(), servers=[stdio()]), {"search": {"server": "plaices"}})


AGENT = """
import asyncio, json, os, shlex, sys

from mcp import Client, StdioServerParameters


async def main():
    program, *arguments = shlex.split(os.environ["MCP_PLACES_COMMAND"])
    command = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with Client(command if sys.argv[1] == "stdio" else os.environ["MCP_PLACES_URL"]) as client:
        for line in sys.stdin:
            user = json.loads(line)["messages"][-1]["content"]
            given = {"seats": next(int(word) for word in user.split() if word.isdigit()), "guest": user.split()[1]}
            place, day = [(await client.call_tool(tool, given)).content[0].text for tool in ("find_place", "free_day")]
            print(json.dumps({"content": f"I found {place}, and it is free on {day}."}), flush=True)


asyncio.run(main())
"""


def agent_file(folder, transport, stages):
    (folder / "agent.py").write_text(AGENT)
    (folder / "agent.yaml").write_text(
        f'agent: {{command: "{sys.executable} agent.py {transport}", concurrency: 2}}\n'
        f'mcp: {{places: {{command: "{sys.executable} {SERVER} find_place"}}}}\n'
        f'upstream: {{base_url: "http://localhost:1/v1"}}\nstages: {stages}\n'
    )
    return folder / "agent.yaml"


@pytest.mark.parametrize(("transport", "declared"), [("http", True), ("stdio", False)])
def test_an_agent_elsewhere_reaches_servers_over_the_proxy(transport, declared, tmp_path, monkeypatch):
    """A process gets its own clients' servers; the gap is that of the same tools in a function."""
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    stages = "{places: {match: {server: places}}}" if declared else "{model: {match: {kind: model}}}"
    woman = woman_in(load_pipeline(agent_file(tmp_path, transport, stages)))
    part = woman.contributions["places"].shapley if declared else woman.unattributed
    assert part.value == pytest.approx(woman.gap.value)


def test_replies_come_over_stdio_byte_for_byte(json_server):
    reply = {"jsonrpc": "2.0", "id": 1, "result": {"text": "Zoë\u2028\x85!"}}
    asked = []

    def answer(path, headers, body):
        asked.append(body)
        return 200, json.dumps(reply, ensure_ascii=False).replace(", ", ",\n").encode()

    line = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "guest": "Zoë"}
    given = f"{json.dumps(line, ensure_ascii=False)}\n".encode()
    command = [*STDIO, f"{json_server(answer)}/mcp/key/places"]
    done = subprocess.run(command, input=given, capture_output=True, env={"LC_ALL": "C"}, check=True)
    assert asked == [line]
    assert done.stdout.count(b"\n") == 1
    assert json.loads(done.stdout) == reply


def test_doctor_lists_a_server_that_an_agent_calls_as_a_stage(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    write_chat(about_people(1), tmp_path / "chats.jsonl")
    agent_file(tmp_path, "http", "{model: {match: {kind: model}}}")
    code, said, _ = run_command(f"doctor {tmp_path / 'agent.yaml'} --corpus {tmp_path / 'chats.jsonl'}")
    assert code == 0
    assert "# calls: 2; MCP server: places; tools: find_place, free_day\n" in said
    assert yaml.safe_load(said) == {"stages": {"places": {"match": {"server": "places"}}}}


@pytest.mark.parametrize(
    ("server", "message"), [("{}", "expected NAME: {command: …} or NAME: {url: …}"), ("{command: no_such_program}", "")]
)
def test_mistakes_in_servers_are_told_in_one_line(server, message, tmp_path):
    text = 'agent: {command: "python agent.py"}\nupstream: {base_url: "http://localhost:1/v1"}\n'
    (tmp_path / "agent.yaml").write_text(f"{text}mcp: {{places: {server}}}\nstages: {{a: {{match: {{kind: tool}}}}}}\n")
    with pytest.raises(StageError, match=f"^[^\n]*'places': {message}[^\n]*$"):
        load_pipeline(tmp_path / "agent.yaml")
