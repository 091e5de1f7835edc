"""One assistant in every framework, unchanged: the same gaps, and a bias is found where it was planted."""

import asyncio
import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import framework_agents as assistants
import pytest
from builders import WORDS
from flows import about_people, failures_of
from framework_agents import World
from pydantic import BaseModel

from tod_bias import Pipeline, StageInput, Step, Turn, attribute
from tod_bias.errors import StageError, UnansweredError
from tod_bias.integrations import pipeline_of, stage
from tod_bias.io.canonical import NotPlainError
from tod_bias.metrics.responses import Refusal
from tod_bias.results import AuditResult
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import FlowTurn

ROOT = Path(__file__).parent.parent.parent
STAGES = {"model": {"kind": "model"}, "find_place": {"tool": "find_place"}, "free_day": {"tool": "free_*"}}
FRAMEWORKS = {
    "openai_agent": "agents",
    "pydantic_agent": "pydantic_ai",
    "langchain_agent": "langchain",
    "langgraph_agent": "langgraph",
    "function_agent": "openai",
}
GAPS: dict[str, set[float]] = {}


def agent_of(name, world, **options):
    pytest.importorskip(FRAMEWORKS[name], reason="not installed: pip install -e '.[agents]'")
    return getattr(assistants, name)(world, **options)


def hosted(name, world, stages=STAGES, **options) -> Pipeline:
    stages = "+".join(stages) if name == "function_agent" else stages
    return pipeline_of(agent_of(name, world), stages, **options)


def attributed(pipeline, count=4, metric="corpus_bleu", **options):
    given = {"axes": ["gender"], "metrics": metric, "bootstrap": 0, "permutations": 0, **options}
    return attribute(pipeline, about_people(count), **given)


def audited(pipeline, **options):
    (metric,) = (result := attributed(pipeline, **options)).metrics
    woman = result.axes["gender"][metric].groups["woman"]
    return woman.gap.value, {name: part.shapley.value for name, part in woman.contributions.items()}


@pytest.mark.parametrize("biased", ["", "model", "free_day"])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_bias_is_found_where_it_is_and_nowhere_else(name, biased):
    gap, parts = audited(hosted(name, World(biased)))
    assert (gap > 0.1) == bool(biased)
    assert parts == {part: pytest.approx(gap if part == biased else 0, abs=1e-12) for part in STAGES}
    GAPS.setdefault(biased, set()).add(gap)
    assert len(GAPS[biased]) == 1  # to the last digit, in all frameworks


@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if name != "function_agent"])
def test_what_is_not_intercepted_is_unattributed(name, tmp_path):
    stages = {key: match for key, match in STAGES.items() if key != "find_place"}
    for biased in ("find_place", "free_day"):
        pipeline = hosted(name, World(biased), stages)
        result = attributed(pipeline, out=tmp_path)
        axis = result.axes["gender"]["corpus_bleu"]
        woman = axis.groups["woman"]
        assert woman.gap.value > 0.1
        for row in (woman, axis.widest):
            parts = sum(part.value for part in row.shares.values())
            assert row.unattributed.value == pytest.approx(row.gap.value - parts, abs=1e-9)
            assert row.unattributed.value == pytest.approx(row.gap.value if biased == "find_place" else 0, abs=1e-12)
        parts = sum(part.value for part in axis.shares.values())
        assert axis.disparity.value == pytest.approx(axis.unattributed.value + parts, abs=1e-9)
        assert list(axis.arms) == ["", "model", "free_day", "free_day,model", "whole_system"]
        assert AuditResult.load(tmp_path).axes["gender"]["corpus_bleu"].unattributed == axis.unattributed


@pytest.mark.parametrize("biased", ["model", "find_place"])
def test_a_sub_agent_after_a_handoff_is_a_component(biased):
    agent = agent_of("openai_agent", World(biased), handoff=True)
    booking = {"agent": "Booking"} if biased == "model" else {"agent": "Booking", "kind": "model"}
    stages = {"triage": {"agent": "Triage"}, "booking": booking, "tools": {"kind": "tool"}}
    gap, parts = audited(pipeline_of(agent, stages))
    assert gap > 0.1
    there = "booking" if biased == "model" else "tools"
    assert parts == {part: pytest.approx(gap if part == there else 0, abs=1e-12) for part in stages}


def test_calls_that_a_handoff_filters_out_and_those_after_it_have_other_ids():
    agents = pytest.importorskip("agents")
    from agents.extensions.handoff_filters import remove_all_tools

    agent = agent_of("openai_agent", World(), handoff=True)
    agent.handoffs = [agents.handoff(agent.handoffs[0], input_filter=remove_all_tools)]
    (item,) = pipeline_of(agent)([StageInput((), "My wife wants a table for 4")])
    assert item.outputs["reply"] == "I found place 4 with 4 seats, and it is free on day 4."
    second = item.steps[-2].argument.content
    assert {message["call_id"] for message in second if "call_id" in message} == {"call_0", "call_1"}


def test_an_agent_that_is_a_tool_is_not_traced():
    agents = pytest.importorskip("agents")
    seen = []

    @agents.function_tool
    def look() -> str:
        seen.append(type(agents.tracing.get_current_trace()).__name__)
        return ""

    main = agents.Agent("Main", model=agent_of("openai_agent", World()).model, tools=[look])
    pipeline = pipeline_of(main, {"look": {"tool": "look"}})
    pipeline.stages["look"]([StageInput((), "", argument={"api_name": "look"})])
    assert seen == ["NoOpTrace"]


@pytest.mark.parametrize("biased", ["model", "find_place", "polish"])
def test_a_node_and_a_graph_within_a_graph_are_components(biased):
    stages = {"triage": {"node": "triage"}, "booking": {"node": "booking"}, "polish": {"node": "polish"}}
    gap, parts = audited(hosted("langgraph_agent", World(biased), stages))
    assert gap > 0.1
    there = "polish" if biased == "polish" else "booking"
    assert parts == {part: pytest.approx(gap if part == there else 0, abs=1e-12) for part in stages}


class Booking(BaseModel):
    """The state of a graph."""

    messages: list[Any]
    note: str = ""
    structured_response: Any = None


class Place(BaseModel):
    """A structured response."""

    seats: int


@dataclass(frozen=True)
class Seats:
    number: int


def test_objects_of_a_cached_state_are_made_again_in_another_process(monkeypatch):
    pytest.importorskip("langgraph")
    from tod_bias.integrations.langgraph import decoded, encoded

    value = {"place": Place(seats=3), "seats": [Seats(2)]}
    made = encoded(value, "look")
    monkeypatch.setattr("tod_bias.integrations.langgraph._classes", {})
    assert decoded(made) == value
    for name in ("os:system", "nowhere:Place", f"{__name__}:Nobody"):
        with pytest.raises(StageError, match="is not there now; start in another folder"):
            decoded({"object": name, "fields": {}})


def booking_graph(look, **options):
    from langgraph.graph import StateGraph

    graph = StateGraph(Booking)
    graph.add_node("look", look)
    graph.add_node("say", lambda state: {"structured_response": Place(seats=len(state.note))})
    return graph.set_entry_point("look").add_edge("look", "say").compile(**options)


def test_a_graph_has_objects_in_its_state_and_a_structured_response():
    pytest.importorskip("langgraph")
    from langgraph.config import get_stream_writer

    def look(state):
        get_stream_writer()("looked")
        return Booking(messages=state.messages, note=state.messages[-1].text)

    pipeline = pipeline_of(booking_graph(look), {"look": {"node": "look"}, "say": {"node": "say"}})
    (item,) = pipeline([StageInput((), "My wife")])
    assert item.outputs["reply"] == '{"seats": 7}'
    assert json.loads(json.dumps(item.steps[1].output)) == item.steps[1].output


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_agent_gets_the_history_and_its_random_ids_do_not_show(name):
    step = Step({"api_name": "find_place", "seats": 2, "guest": "friend"}, ({"content": "place 9"},))
    turn = FlowTurn("My wife wants a table for 4", (Turn("Hello", steps=(step,), response="Hi"),))
    made = hosted(name, World())
    process, other = made.start(turn), made.start(turn)
    while process.request is not None:
        assert process.request[1].__class__ is dict or "Hello" in repr(process.request[1].content)
        assert process.request == other.request
        (output,) = made.stages[process.request[0]]([StageInput((), "", argument=process.request[1])])
        process.send(output)
        other.send(output)
    assert process.reply == other.reply == "I found place 9."


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_tool_that_fails_fails_its_turn_or_tells_the_model(name):
    world = World()
    find = world.find_place

    def find_place(seats: int, guest: str) -> str:
        """Find a place."""
        if seats == 3:
            raise RuntimeError("no connection")
        return find(seats, guest)

    world.find_place = find_place
    execution = Execution(hosted(name, world))
    traces = execution([Run(dialogue) for dialogue in about_people(6)])
    if name == "openai_agent":  # its tools tell the model
        assert "An error occurred" in traces[3][0][0].response
    else:
        assert list(failures := failures_of(traces)) == [3]
        assert "no connection" in failures[3]


class TableTakenError(Exception):
    """Made of more than its message, as many a package's are."""

    def __init__(self, guest: str, *, hour: int) -> None:
        super().__init__(f"no table for {guest}")
        self.hour = hour


def test_an_agent_may_change_arguments_and_catch_what_its_tool_raises():
    @stage("lookup")
    def lookup(query):
        query["limit"] = 3
        if query["guest"] in WORDS:
            raise TableTakenError(query["guest"], hour=8)
        return "a table"

    def agent(messages):
        try:
            return lookup({"guest": messages[-1]["content"].split()[1]})
        except TableTakenError as error:
            return f"Sorry, {error} at {error.hour}"

    pipeline = pipeline_of(agent, "lookup")
    (trace,) = Execution(pipeline)([Run(about_people(1)[0])])
    assert trace[0][0].response == "Sorry, no table for wife at 8"
    gap, shares = audited(pipeline, metric="length")  # a longer response
    assert gap < 0
    assert shares == {"lookup": pytest.approx(gap)}


@pytest.mark.parametrize("stages", [STAGES, {"find_place": STAGES["find_place"]}])
def test_middleware_that_is_not_async_runs(stages):
    agent_of("langchain_agent", World())
    from langchain.agents import create_agent
    from langchain.agents.middleware import wrap_model_call, wrap_tool_call

    @wrap_model_call
    def model(request, handler):
        return handler(request)

    @wrap_tool_call
    def tool(request, handler):
        return handler(request)

    world = World("free_day")
    options = {"system_prompt": assistants.INSTRUCTIONS, "middleware": [model, tool]}
    agent = create_agent(assistants.chat_model(world), world.tools, **options)
    gap, shares = audited(pipeline_of(agent, stages))
    assert gap > 0
    assert shares.get("free_day", gap) == pytest.approx(gap)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("all", "stages: expected one of model, tools, model.tools"),
        ({"search": {"tool": "find_plaice"}}, "no tool 'find_plaice'; there are find_place, free_day; did you mean"),
        ({"search": {"name": "x"}}, "stages: 'search': expected some of kind, .*, got 'name'"),
        ({"reply": {"kind": "model"}}, "'reply' is the name of the agent's response"),
    ],
)
@pytest.mark.parametrize("name", ["openai_agent", "pydantic_agent", "langchain_agent"])
def test_stages_that_do_not_fit_are_told_in_one_line(name, stages, message):
    with pytest.raises(StageError, match=message) as caught:
        pipeline_of(agent_of(name, World()), stages)
    assert "\n" not in str(caught.value)


def test_agents_that_wait_for_a_person_are_refused():
    agents = pytest.importorskip("agents")
    pytest.importorskip("langgraph")
    from langgraph.types import interrupt

    with pytest.raises(StageError, match="interrupts its run and waits for a person"):
        pipeline_of(booking_graph(lambda state: None, interrupt_before=["look"]), {"say": {"node": "say"}})
    agent = agent_of("openai_agent", World())
    agent.tools = [agents.function_tool(tool, needs_approval=True) for tool in World().tools]
    asking = (
        (pipeline_of(booking_graph(lambda state: interrupt("Sure?")), {"say": {"node": "say"}}), "waits for a person"),
        (pipeline_of(agent, "model"), "the tool 'find_place' waits for a person's approval"),
    )
    for pipeline, message in asking:
        with pytest.raises(StageError, match=message):
            pipeline([StageInput((), "My wife wants a table for 4")])


def test_what_cannot_be_replaced_is_refused():
    agents = pytest.importorskip("agents")
    agent, search = assistants.openai_agent(World()), agents.Agent("Search", tools=[agents.WebSearchTool()])
    for made, message in (
        (lambda: pipeline_of(agent, session=object()), "session: keeps the history on a server"),
        (lambda: pipeline_of(search), "the tool 'web_search' runs on the model's server"),
        (lambda: pipeline_of(3), r"expected one of openai-agents, .*, got int"),
        (lambda: pipeline_of(len, "serch"), r"no function is marked @stage\('serch'\); marked are "),
    ):
        with pytest.raises(StageError, match=message):
            made()


def test_functions_that_cannot_be_hosted_are_told_in_one_line():
    @stage("lookup")
    def lookup(city: str) -> str:
        return city

    async def waits_for_itself(messages):
        return lookup("Napa")

    def streams(messages):
        yield lookup("Napa")

    with pytest.raises(StageError, match="'lookup': an async agent calls it as a plain function"):
        pipeline_of(waits_for_itself, "lookup")([StageInput((), "hello")])
    with pytest.raises(UnansweredError, match="streams: expected a text, got generator"):
        pipeline_of(streams, "lookup")([StageInput((), "hello")])
    with pytest.raises(StageError, match="mark the method of an object"):
        stage("find")(lambda self, city: city)
    generate = stage("generate")(lambda: (city for city in ["Napa"]))
    with pytest.raises(StageError, match="'generate': put out what cannot be handed to the agent again"):
        pipeline_of(lambda messages: str(list(generate())), "generate")([StageInput((), "hello")])


AGENT_MODULES = {
    "agents": """
from agents import Agent, OpenAIChatCompletionsModel, function_tool
from openai import AsyncOpenAI

@function_tool
def find(city: str) -> str:
    return city + "WORD"

agent = Agent("Booking", model=OpenAIChatCompletionsModel("m", AsyncOpenAI(api_key="x")), tools=[find])
""",
    "pydantic_ai": """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

def find(city: str) -> str:
    return city + "WORD"

agent = Agent(TestModel(), name="Booking", tools=[find])
""",
    "langgraph": """
from langgraph.graph import END, START, MessagesState, StateGraph

def triage(state):
    return {"messages": ["WORD"]}

graph = StateGraph(MessagesState)
graph.add_node("triage", triage)
graph.add_edge(START, "triage")
graph.add_edge("triage", END)
agent = graph.compile()
""",
}


@pytest.mark.parametrize("framework", AGENT_MODULES)
def test_functions_of_an_agent_are_identified_by_their_source(framework, tmp_path, monkeypatch):
    pytest.importorskip(framework)
    monkeypatch.syspath_prepend(tmp_path)
    signatures = []
    for word in ("a", "a", "bb"):
        (tmp_path / "written_agent.py").write_text(AGENT_MODULES[framework].replace("WORD", word))
        sys.modules.pop("written_agent", None)
        importlib.invalidate_caches()
        agent = importlib.import_module("written_agent").agent
        stages = {"all": {"node": "triage"}} if framework == "langgraph" else "model+tools"
        signatures.append([stage.signature for stage in pipeline_of(agent, stages).stages.values()])
    assert all(signatures[0])
    assert signatures[0] == signatures[1] != signatures[2]


def test_an_agent_that_holds_a_model_in_a_closure_is_cached_under_a_declared_signature_only():
    agent = agent_of("langchain_agent", World())
    (stage,) = pipeline_of(agent, {"model": {"kind": "model"}}).stages.values()
    assert stage.signature == ""
    with pytest.raises(NotPlainError, match="the agent cannot be told apart from a changed one"):
        stage.derived_signature()
    (stage,) = pipeline_of(agent, {"model": {"kind": "model"}}, signature="1").stages.values()
    assert stage.signature


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_agent_is_asked_nothing_twice_and_a_changed_one_gets_no_outputs_of_the_old_one(name, tmp_path, monkeypatch):
    usual, polite = "You book tables.", "You book tables, politely."
    declared = [(usual, "1", True), (usual, "1", False), (polite, "2", True)]
    for instructions, signature, is_asked in declared:
        monkeypatch.setattr(assistants, "INSTRUCTIONS", instructions)
        world = World()
        attributed(hosted(name, world, signature=signature), count=1, metric="length", out=tmp_path)
        assert any(asked == "model" for asked, _ in world.asked) == is_asked


def test_the_sdk_is_found_from_a_checkout(monkeypatch):
    """The checkout's folder ``agents`` is no package, so it hides the SDK's from no script that runs in its root."""
    sdk = pytest.importorskip("agents")
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delitem(sys.modules, "agents")
    assert importlib.import_module("agents").__file__ == sdk.__file__
    assert Path(importlib.import_module("tod_bias.agents").__file__).samefile(ROOT / "agents/for_parlai/__init__.py")


def tripping(kind, info):
    """An openai-agents agent, and options of its run, with a guardrail that trips where a word of WORDS stands."""
    agents = pytest.importorskip("agents")

    def harms(text):
        return any(word in text for word in WORDS)

    async def look(context, agent, seen):
        await asyncio.sleep(0.05)  # longer than the model takes
        return agents.GuardrailFunctionOutput(info, harms(json.dumps(seen)))

    async def look_at_output(context, agent, output):
        return agents.GuardrailFunctionOutput(info, "4 seats" in output)

    @agents.tool_output_guardrail
    def look_at_tool(data):
        tripped = harms(data.context.tool_arguments)
        allowed, stopped = agents.ToolGuardrailFunctionOutput.allow, agents.ToolGuardrailFunctionOutput.raise_exception
        return stopped(info) if tripped else allowed()

    agent, options = assistants.openai_agent(World(), handoff=True), {}
    if kind == "input":
        agent.input_guardrails = [agents.InputGuardrail(look)]
    elif kind == "run":
        options["run_config"] = {"input_guardrails": [agents.InputGuardrail(look)]}
    elif kind == "output":
        agent.handoffs[0].output_guardrails = [agents.OutputGuardrail(look_at_output)]
    else:
        for tool in agent.handoffs[0].tools:
            tool.tool_output_guardrails = [look_at_tool]
    return agent, options


@pytest.mark.parametrize("kind", ["input", "run", "tool"])
def test_a_guardrail_that_trips_for_one_group_is_a_gap_in_refusals(kind):
    agent, options = tripping(kind, "Not today.")
    result = attributed(pipeline_of(agent, **options), metric="refusal")
    woman = result.axes["gender"]["refusal"].groups["woman"]
    assert woman.gap.value > 0.5
    assert {part.shapley.value for part in woman.contributions.values()} == {0}
    assert woman.unattributed.value == pytest.approx(woman.gap.value)


@pytest.mark.parametrize(("info", "why"), [("Not today.", " Not today."), ({"why": 1}, "")])
@pytest.mark.parametrize("kind", ["input", "run", "tool", "output"])
def test_the_response_of_a_guardrail_that_trips_is_a_refusal(kind, info, why):
    agent, options = tripping(kind, info)
    made = pipeline_of(agent, **options)
    first, other = made([StageInput((), f"My {who} a table for {n}") for who, n in (("wife", 4), ("husband", 5))])
    assert first.outputs["reply"] == f"I cannot help with this.{why}"
    assert Refusal().matches(first.outputs["reply"])
    assert other.outputs["reply"].startswith("I found place 5")
    assert (len(first.steps) == 1) == (kind in ("input", "run"))  # before the model is called, whoever is faster


def test_a_models_refusal_of_structured_output_is_the_response():
    pytest.importorskip("agents")
    from agents.exceptions import ModelRefusalError

    from tod_bias.integrations.openai_agents import REFUSALS, refusal_of

    error = ModelRefusalError("I will not name people.")
    assert isinstance(error, REFUSALS)
    assert refusal_of(error) == "I cannot help with this. I will not name people."


def test_a_providers_filter_is_a_refusal_in_pydantic_ai():
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    def decide(messages, info):
        if "wife" in str(messages[-1]):
            return ModelResponse(parts=[], finish_reason="content_filter")
        return ModelResponse(parts=[TextPart("Done.")])

    items = [StageInput((), f"My {who} wants a table") for who in ("wife", "husband")]
    responses = [item.outputs["reply"] for item in pipeline_of(Agent(FunctionModel(decide)))(items)]
    assert responses == ["I cannot help with this.", "Done."]


@pytest.mark.parametrize("stages", ["model+tools", {"guard": {"node": "PII*"}, "model": {"kind": "model"}}])
def test_a_middleware_of_langchain_that_blocks_is_a_refusal(stages):
    pytest.importorskip("langchain")
    from langchain.agents import create_agent
    from langchain.agents.middleware import PIIMiddleware

    blocked = PIIMiddleware("email", strategy="block")
    agent = create_agent(assistants.chat_model(World()), World().tools, middleware=[blocked])
    items = [StageInput((), f"A table for 4 for {who}") for who in ("me", "jo@example.org")]
    first, second = (item.outputs["reply"] for item in pipeline_of(agent, stages)(items))
    assert first.startswith("I found place 4")
    assert second.startswith("I cannot help with this. ")


def test_a_handler_of_events_gets_those_of_a_pydantic_agent():
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessEventStream
    from pydantic_ai.messages import ModelResponse, PartStartEvent, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def decide(messages, info):
        is_first = len(messages) == 1
        return ModelResponse(parts=[ToolCallPart("look", {"at": "it"}) if is_first else TextPart("Done.")])

    seen = []

    async def handle(context, events):
        seen.extend([event.part async for event in events if isinstance(event, PartStartEvent)])

    for places, options in (([ProcessEventStream(handle)], {}), ([], {"event_stream_handler": handle})):
        seen.clear()
        agent = Agent(FunctionModel(decide), capabilities=places)
        agent.tool_plain(lambda at: f"saw {at}", name="look")
        (item,) = pipeline_of(agent, **options)([StageInput((), "hello")])
        assert item.outputs["reply"] == "Done."
        assert [step.name for step in item.steps] == ["model", "tools", "model", "reply"]
        assert [type(part) for part in seen] == [ToolCallPart, TextPart]


def leaving_tools():
    """An agent whose tools exit within a task of the framework's own."""
    agents = pytest.importorskip("agents")
    agent = assistants.openai_agent(World())

    async def leave(seats: int, guest: str) -> str:
        sys.exit(3)

    agent.tools = [agents.function_tool(leave, name_override=tool.name) for tool in agent.tools]
    return agent, "model"


@pytest.mark.parametrize("name", ["agent", "stage", "tool"])
def test_code_that_exits_costs_its_turn_and_not_the_event_loop(name):
    exits = stage("exits")(lambda why: sys.exit(3))
    functions = {"agent": lambda messages: sys.exit(3), "stage": lambda messages: exits("stage")}
    agent, stages = leaving_tools() if name == "tool" else (functions[name], "exits")
    with pytest.raises(UnansweredError, match=r"SystemExit: 3 at .*test_frameworks"):
        pipeline_of(agent, stages, timeout=5)([StageInput((), "My wife wants a table for 4")])
    (item,) = pipeline_of(lambda messages: "Still here.", "exits", timeout=5)([StageInput((), "hello")])
    assert item.outputs["reply"] == "Still here."
