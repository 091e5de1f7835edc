"""A real server with OpenAI's chat API and a chat model of ours, called by the openai client."""

import json

import pytest
from served import SYSTEM, TOOL, TRAINS, answer, question, result, timetable

from tod_bias import Pipeline
from tod_bias.stages import Answer, ToolCalls, Tools
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import tool_loop

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ask(chat_url, chat_folder):
    """Asks the model with a list of messages; gives its message."""
    with openai.OpenAI(base_url=chat_url, api_key="none", max_retries=0) as client:

        def reply(messages, **options):
            options = {"model": str(chat_folder), "tools": [TOOL], "temperature": 0, "max_tokens": 60} | options
            return client.chat.completions.create(messages=messages, **options).choices[0]

        yield reply


def begun(city):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question(city)}]


def called(city, name):
    function = {"name": "find_train", "arguments": json.dumps({"to": city})}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": name, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": name, "content": json.dumps(result(city))},
    ]


@pytest.mark.parametrize("city", TRAINS)
def test_a_question_becomes_a_call_and_its_result_an_answer(ask, city):
    choice = ask(begun(city))
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("find_train", {"to": city})
    messages = [*begun(city), choice.message.model_dump(exclude_none=True)]
    choice = ask([*messages, {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result(city))}])
    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
    assert choice.message.content == answer(city)


def test_a_second_turn_reads_the_calls_of_the_first(ask):
    history = [*begun("York"), *called("York", "call_0_0"), {"role": "assistant", "content": answer("York")}]
    choice = ask([*history, {"role": "user", "content": "Thank you!"}])
    assert choice.message.content == "Have a good journey."
    assert choice.message.tool_calls is None


def test_an_assistant_made_of_stages_speaks_with_a_real_server(chat_url, chat_folder):
    def find_train(to: str = ""):
        return result(to)

    given = {"model": str(chat_folder), "base_url": chat_url, "tools": [TOOL], "max_tokens": 60, "concurrency": 2}
    parts = {
        "policy": ToolCalls(**given),
        "tools": Tools({"find_train": find_train}, [TOOL]),
        "answer": Answer(**given),
    }
    execution = Execution(Pipeline(parts, flow=tool_loop))
    traces = execution([Run(dialogue) for dialogue in timetable()])
    said = [[course.response for (course,) in trace] for trace in traces]
    assert said == [[turn.response for turn in dialogue.turns] for dialogue in timetable()]
    assert [trace[0][0].calls[1].argument for trace in traces] == [
        {"api_name": "find_train", "to": to} for to in TRAINS
    ]
    assert execution.callers["answer"].cost.cached == 4  # its requests are the last ones of the policy
    assert execution.callers["policy"].cost.written > 0
