"""The examples of the page on agents run as they stand, each with an agent of its framework as ``my_app``."""

import sys
from types import SimpleNamespace

import framework_agents
import pytest
import yaml
from commands import run_command
from fences import ROOT, fences
from flows import about_people, number_in
from framework_agents import World
from model_server import KEY, serving

from tod_bias import attribute, load_corpus, load_pipeline
from tod_bias.dialogues.chat import write_chat
from tod_bias.errors import StageError

MADE = {
    "agents": lambda: framework_agents.openai_agent(World("model"), handoff=True),
    "pydantic_ai": lambda: framework_agents.pydantic_agent(World()),
    "langgraph": lambda: framework_agents.langgraph_agent(World()),
    "openai": lambda: None,
}
EXAMPLES = [fence for fence in fences(ROOT / "docs/how-to/agents.md") if fence.language == "python"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_app", raising=False)
    write_chat(about_people(6), "chats.jsonl")
    return tmp_path


@pytest.mark.parametrize(("package", "example"), list(zip(MADE, EXAMPLES, strict=True)), ids=list(MADE))
def test_example_runs(package, example, folder, monkeypatch, capsys):
    pytest.importorskip(package, reason="not installed: pip install -e '.[agents]'")
    lines = [line for line in example.code.splitlines() if line]
    assert len(lines) <= 10
    monkeypatch.setattr(framework_agents, "agent", MADE[package](), raising=False)
    monkeypatch.setitem(sys.modules, "my_app", framework_agents)
    exec(compile(example.code, example.place, "exec"), {"__name__": "page"})
    said = capsys.readouterr().out
    assert {"agents": "booking", "openai": "Try the Ritz."}.get(package, "") in said


def example(language, words=""):
    page = fences(ROOT / "docs/how-to/agents.md")
    return next(fence.code for fence in page if fence.language == language and words in fence.code)


def test_a_program_in_another_language(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (folder / "agent.mjs").write_text(example("js"))

    def decide(user, results):
        seats = number_in(user)
        text = f"I found place {seats} with {seats} seats, and it is free on day {seats % 7}."
        return SimpleNamespace(calls=[], text=text)

    with serving(SimpleNamespace(decide=decide)) as server:
        text = example("yaml", "command: ").replace("https://api.openai.com/v1", server.url)
        (folder / "agent.yaml").write_text(text)
        asked, audit = (line.partition(" #")[0].strip() for line in example("sh", "doctor").splitlines())
        code, said, _ = run_command(asked.removeprefix("tod-bias "))
        assert code == 0
        assert yaml.safe_load(said) == {"stages": yaml.safe_load(text)["stages"]}
        code, said, errors = run_command(f"{audit.removeprefix('tod-bias ')} --bootstrap 0 --permutations 0")
        assert code == 0, errors
        (results,) = folder.glob("runs/*/results.json")
        assert "model" in yaml.safe_load(results.read_text())["stages"]


APP = """
import framework_agents

agent = framework_agents.openai_agent(framework_agents.World("find_place"))
answer = framework_agents.function_agent(framework_agents.World("find_place"))
"""
FILES = {
    "agent": 'agent: {python: "my_app:agent"}\nstages: {find_place: {match: {tool: "find_*"}}}',
    "function": 'agent: {python: "my_app:answer", timeout: 5}\nstages: {model: {}, find_place: {}, free_day: {}}',
}


@pytest.mark.parametrize("name", FILES)
def test_an_agent_is_named_in_a_pipeline_file(name, folder):
    pytest.importorskip("agents", reason="not installed: pip install -e '.[agents]'")
    (folder / "my_app.py").write_text(APP)
    (folder / "agent.yaml").write_text(FILES[name])
    result = attribute(load_pipeline("agent.yaml"), load_corpus("chats.jsonl"), axes=["gender"], metrics="corpus_bleu")
    woman = result.axes["gender"]["corpus_bleu"].groups["woman"]
    assert woman.contributions["find_place"].shapley.value == pytest.approx(woman.gap.value)
    assert woman.gap.value > 0.1


def test_a_mistake_in_a_file_is_told_with_its_agent(folder):
    pytest.importorskip("agents", reason="not installed: pip install -e '.[agents]'")
    (folder / "my_app.py").write_text(APP)
    (folder / "agent.yaml").write_text('agent: {python: "my_app:agent"}\nstages: {a: {match: {tool: x}}}')
    with pytest.raises(StageError, match=r"^[^\n]*agent 'my_app:agent'[^\n]*no tool 'x'; there are find_place[^\n]*$"):
        load_pipeline("agent.yaml")
