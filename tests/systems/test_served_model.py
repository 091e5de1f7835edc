"""A real server with OpenAI's chat API and a chat model of ours, called by the openai client."""

import pytest
from served import TOOL, TRAINS, result, timetable

from tod_bias import Pipeline
from tod_bias.stages import Answer, ToolCalls, Tools
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import tool_loop

pytestmark = pytest.mark.slow


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
