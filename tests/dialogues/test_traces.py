"""Dialogues from traces of OpenTelemetry and OpenInference and from logs of Inspect."""

import json
import logging

import pytest
from commands import refused, run_command

from tod_bias import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Step, Turn
from tod_bias.dialogues.files import read_traces
from tod_bias.errors import CorpusError

FOUND = '[{"name":"Luigi\'s"}]'
TURNS = (
    Turn(
        "A table for my wife and me in Napa.",
        steps=(
            Step({"api_name": "find", "city": "Napa", "seats": 2}, ({"name": "Luigi's"},), "Let me look.", FOUND),
            Step({"api_name": "opening_hours", "name": "Luigi's"}, ({"content": "closed on Mondays"},)),
        ),
        response="Luigi's has one.",
    ),
    Turn("And on Monday?", response="It is closed then."),
)
FIND, HOURS = {"city": "Napa", "seats": 2}, {"name": "Luigi's"}


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def call(name, arguments, id):
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}


def result(response, id):
    return {"type": "tool_call_response", "id": id, "response": response}


GENAI = [
    text("user", TURNS[0].user),
    {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "Hm."},
            {"type": "text", "content": "Let me look."},
            call("find", FIND, "a"),
            call("opening_hours", HOURS, "b"),
        ],
    },
    {"role": "tool", "parts": [result("closed on Mondays", "b"), result(FOUND, "a")]},
    text("assistant", "Luigi's has one."),
    text("user", "And on Monday?"),
    text("assistant", "It is closed then."),
]


def genai_call(told, said, **other):
    """A model call's attributes."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "small-model",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": json.dumps(told),
        "gen_ai.output.messages": json.dumps([said]),
        **other,
    }


def span(trace, id, attributes, parent=None, name="span"):
    """A span as SDKs write it, one a line."""
    context = {"trace_id": trace, "span_id": id}
    return {"name": name, "context": context, "parent_id": parent, "attributes": attributes, "events": []}


def wrapped(value):
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": wrapped(item)} for key, item in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [wrapped(item) for item in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value} if value is not None else {}


def attributes_of(attributes):
    return [{"key": key, "value": wrapped(value)} for key, value in attributes.items()]


def otlp(*spans):
    """The same spans as an export of OTLP."""
    written = [
        {
            "traceId": one["context"]["trace_id"],
            "spanId": one["context"]["span_id"],
            **({"parentSpanId": one["parent_id"]} if one["parent_id"] else {}),
            "name": one["name"],
            "attributes": attributes_of(one["attributes"]),
            "events": [{**event, "attributes": attributes_of(event["attributes"])} for event in one["events"]],
        }
        for one in spans
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "app"}, "spans": written}]}]}


def otlp_logs(*records):
    """Log records as an export of OTLP."""
    written = [
        {
            "traceId": record["trace_id"],
            "spanId": record["span_id"],
            "eventName": record["event_name"],
            "body": wrapped(record["body"]),
            "attributes": attributes_of(record["attributes"]),
        }
        for record in records
    ]
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {"name": "app"}, "logRecords": written}]}]}


def saved(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


BARE = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small-model"}
INSTRUCTED = {"gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}]}
DETAILS = "gen_ai.client.inference.operation.details"
CALLS = [genai_call(GENAI[:1], GENAI[1]), genai_call(GENAI[:3], GENAI[3]), genai_call(GENAI[:5], GENAI[5])]


def conversation(name="c1", calls=CALLS):
    """Two traces, one a turn, that a conversation's id joins."""
    one = {"gen_ai.conversation.id": name}
    return [span(f"{name}-{n // 2}", f"s{n}", {**attributes, **one}) for n, attributes in enumerate(calls)]


def evented(span):
    """A span whose messages are in an event of it."""
    held = {name: value for name, value in span["attributes"].items() if name.endswith("messages")}
    event = {"name": DETAILS, "attributes": held}
    attributes = {name: value for name, value in span["attributes"].items() if name not in held}
    return {**span, "attributes": attributes, "events": [event]}


def forms():
    spans = conversation()
    structured = [
        {**attributes, "gen_ai.input.messages": told, "gen_ai.output.messages": [GENAI[len(told)]]}
        for attributes, told in zip(CALLS, (GENAI[:1], GENAI[:3], GENAI[:5]), strict=True)
    ]
    yield "otlp.json", [otlp(*spans)]
    yield "otlp.jsonl", [otlp(spans[2]), otlp(*spans[:2])]
    yield "events.jsonl", map(evented, spans)
    yield "structured.jsonl", [otlp(*conversation(calls=structured))]
    yield "spans.jsonl", spans
    yield "spans.json", [spans]
    yield "otlp_spans.jsonl", otlp(*spans)["resourceSpans"][0]["scopeSpans"][0]["spans"]


OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": TURNS[0].user},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "find", "arguments": json.dumps(FIND)}},
            {"id": "b", "type": "function", "function": {"name": "opening_hours", "arguments": json.dumps(HOURS)}},
        ],
    },
    {"role": "tool", "tool_call_id": "b", "content": "closed on Mondays"},
    {"role": "tool", "tool_call_id": "a", "content": FOUND},
    {"role": "assistant", "content": "Luigi's has one."},
    {"role": "user", "content": "And on Monday?"},
    {"role": "assistant", "content": "It is closed then."},
]


def named(message):
    return f"gen_ai.{message['role']}.message"


def azure(message):
    """An event of Azure's SDKs: the message as JSON."""
    return named(message), {"gen_ai.system": "az.ai.inference", "gen_ai.event.content": json.dumps(message)}, None


def azure_choice(message):
    choice = {"message": message, "finish_reason": "stop", "index": 0}
    return "gen_ai.choice", {"gen_ai.event.content": json.dumps(choice)}, None


def blocks(message):
    """The content in Bedrock's form."""
    calls = [
        {"toolUse": {"toolUseId": called["id"], "name": of["name"], "input": json.loads(of["arguments"])}}
        for called in message.get("tool_calls", ())
        for of in [called["function"]]
    ]
    if message["role"] == "tool":
        texts = [{"text": message["content"]}]
        return json.dumps([{"toolResult": {"toolUseId": message["tool_call_id"], "content": texts}}])
    return json.dumps([{"text": message["content"]}, {"reasoningContent": {"text": "Hm."}}, *calls])


def strands(message):
    """An event of Strands: content in Bedrock's form, as JSON."""
    return named(message), {"content": blocks(message)}, None


def strands_choice(message):
    return "gen_ai.choice", {"finish_reason": "end_turn", "message": blocks(message)}, None


def livekit(message):
    """An event of LiveKit: fields as attributes, calls as a list of JSON."""
    fields = {name: value for name, value in message.items() if name != "tool_call_id"}
    if "tool_calls" in message:
        fields["tool_calls"] = [json.dumps(entry) for entry in message["tool_calls"]]
    if "tool_call_id" in message:
        fields["id"] = message["tool_call_id"]
    return named(message), fields, None


def livekit_choice(message):
    return "gen_ai.choice", livekit(message)[1], None


def openai_v2(message):
    """A log record of OpenTelemetry's instrumentation of OpenAI."""
    body = {name: value for name, value in message.items() if name not in ("role", "tool_call_id")}
    body |= {"id": message["tool_call_id"]} if "tool_call_id" in message else {}
    return named(message), {"gen_ai.system": "openai"}, body


def openai_v2_choice(message):
    return "gen_ai.choice", {"gen_ai.system": "openai"}, {"index": 0, "finish_reason": "stop", "message": message}


def semantic_kernel(message):
    """A log record of Semantic Kernel: the body is JSON."""
    return named(message), {"event.name": named(message)}, json.dumps(message)


def semantic_kernel_choice(message):
    body = json.dumps({"message": message, "finish_reason": "stop"})
    return "gen_ai.choice", {"event.name": "gen_ai.choice"}, body


OTHER = ("gen_ai.choice", {}, {"index": 1, "message": {"role": "assistant", "content": "No."}})
EVENTS = {
    "azure": (azure, azure_choice),
    "strands": (strands, strands_choice),
    "livekit": (livekit, livekit_choice),
    "openai_v2": (openai_v2, openai_v2_choice),
    "semantic_kernel": (semantic_kernel, semantic_kernel_choice),
}


def message_events(of_message, of_choice):
    """The model calls of the conversation without their messages, and the events that hold these."""
    for number, end in enumerate((2, 5, 7)):
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.conversation.id": "c1"}
        events = [*map(of_message, OPENAI[:end]), of_choice(OPENAI[end])]
        yield span(f"t{number // 2}", f"s{number}", attributes), events


def within(made):
    """Spans that have their events in them."""
    return [
        {**one, "events": [{"name": name, "attributes": attributes} for name, attributes, _ in events]}
        for one, events in made
    ]


def beside(made):
    """The events as log records, one a line as SDKs write them."""
    return [
        {"trace_id": one["context"]["trace_id"], "span_id": one["context"]["span_id"], "severity_number": None}
        | {"event_name": name, "attributes": attributes, "body": body}
        for one, events in made
        for name, attributes, body in events
    ]


def event_forms():
    for name, form in EVENTS.items():
        made = [(one, [*events, OTHER]) for one, events in message_events(*form)]
        spans, logs = [one for one, _ in made], beside(made)
        if any(body for _, events in made for *_, body in events[:-1]):
            yield f"{name} logs first", [*logs, *spans]
            yield f"{name} otlp", [otlp(*spans), otlp_logs(*logs[:9]), otlp_logs(*logs[9:])]
        else:
            yield f"{name} spans", within([(one, events[:-1]) for one, events in made])
            yield f"{name} otlp", [otlp(*within([(one, events[:-1]) for one, events in made]))]
    made = list(message_events(openai_v2, openai_v2_choice))
    listed = [[{"event.name": name, **body} for name, _, body in events] for _, events in made]
    yield (
        "attribute",
        [
            {**one, "attributes": {**one["attributes"], "events": json.dumps(entries)}}
            for (one, _), entries in zip(made, listed, strict=True)
        ],
    )
    details = [
        {"trace_id": one["context"]["trace_id"], "span_id": one["context"]["span_id"], "body": None}
        | {"event_name": DETAILS, "attributes": {**one["attributes"], "gen_ai.input.messages": told}}
        | {"attributes": {**one["attributes"], "gen_ai.input.messages": told, "gen_ai.output.messages": [said]}}
        for one, told, said in zip(
            conversation(calls=[BARE, BARE, BARE]), (GENAI[:1], GENAI[:3], GENAI[:5]), GENAI[1::2], strict=True
        )
    ]
    yield "details alone", [{**one, "attributes": {**one["attributes"], **INSTRUCTED}} for one in details]
    yield (
        "details otlp",
        [otlp_logs(*({**one, "attributes": {**one["attributes"], **INSTRUCTED}} for one in details))],
    )


@pytest.mark.parametrize(
    ("name", "records"), list(event_forms()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_messages_in_events_of_spans_and_in_log_records(tmp_path, caplog, name, records):
    with caplog.at_level(logging.WARNING):
        assert load_corpus(saved(tmp_path / "t.jsonl", *records)) == [Dialogue("c1", "", TURNS, system="Be brief.")]
    assert caplog.text == ""


def indexed(place, messages):
    """Messages as attributes of OpenLLMetry, a field each."""
    for number, message in enumerate(messages):
        fields = {**message, "content": json.dumps([{"type": "text", "text": message["content"]}])}
        for of, called in enumerate(fields.pop("tool_calls", ())):
            fields |= {f"tool_calls.{of}.{name}": value for name, value in called["function"].items()}
            fields[f"tool_calls.{of}.id"] = called["id"]
        yield from ((f"{place}.{number}.{name}", value) for name, value in fields.items())


def openllmetry(told, said):
    attributes = {"llm.request.type": "chat", "traceloop.association.properties.session_id": "c1"}
    return {**attributes, **dict(indexed("gen_ai.prompt", told)), **dict(indexed("gen_ai.completion", [said]))}


def ai_sdk_parts(message):
    """A message in the form of the AI SDK."""
    text = message["content"]
    if message["role"] == "tool":
        output = {"type": "text" if text == FOUND else "json", "value": text}
        part = {"type": "tool-result", "toolCallId": message["tool_call_id"], "toolName": "?", "output": output}
        return {"role": "tool", "content": [part]}
    calls = [
        {"type": "tool-call", "toolCallId": called["id"], "toolName": of["name"], "input": json.loads(of["arguments"])}
        for called in message.get("tool_calls", ())
        for of in [called["function"]]
    ]
    content = text if message["role"] == "system" else [{"type": "text", "text": text}, *calls]
    return {"role": message["role"], "content": content}


def ai_sdk(told, said):
    attributes = {"ai.operationId": "ai.streamText.doStream", "ai.telemetry.metadata.sessionId": "c1"}
    calls = [
        {"toolCallId": called["id"], "toolName": called["function"]["name"], "input": called["function"]["arguments"]}
        for called in said.get("tool_calls", ())
    ]
    made = {"ai.response.text": said["content"], **({"ai.response.toolCalls": json.dumps(calls)} if calls else {})}
    return {**attributes, "ai.prompt.messages": json.dumps([*map(ai_sdk_parts, told)]), **made}


@pytest.mark.parametrize("form", [openllmetry, ai_sdk])
@pytest.mark.parametrize("calls", [3, 1])
def test_messages_in_attributes_of_openllmetry_and_the_ai_sdk(tmp_path, form, calls):
    ends = (2, 5, 7)[:calls]
    spans = [span(f"t{end}", "s", form(OPENAI[:end], OPENAI[end]), name="openai.chat") for end in ends]
    (dialogue,) = load_corpus(saved(tmp_path / "t.jsonl", *spans))
    assert (dialogue.id, dialogue.system) == ("c1", "Be brief.")
    if calls == 3:
        assert dialogue.turns == TURNS
    else:
        assert [step.call for step in dialogue.turns[0].steps] == [step.call for step in TURNS[0].steps]


def test_a_tool_that_returned_an_empty_list_did_so(tmp_path):
    (one, _), *_ = message_events(azure, azure_choice)
    found = {"role": "tool", "tool_call_id": "a", "content": "[]"}
    messages = [*OPENAI[:2], {**OPENAI[2], "tool_calls": OPENAI[2]["tool_calls"][:1]}, found]
    made = within([(one, [*map(azure, messages), azure_choice(OPENAI[5])])])
    (dialogue,) = load_corpus(saved(tmp_path / "t.jsonl", *made))
    (step,) = dialogue.turns[0].steps
    assert step.results == ()


@pytest.mark.parametrize(("name", "records"), list(forms()), ids=lambda value: value if isinstance(value, str) else "")
def test_the_longest_call_of_a_conversation_is_its_dialogue(tmp_path, name, records):
    assert load_corpus(saved(tmp_path / name, *records)) == [Dialogue("c1", "", TURNS, system="Be brief.")]


def test_a_conversation_may_be_spread_over_the_files_of_a_folder_that_also_holds_chats(tmp_path):
    first, second, third = conversation()
    saved(tmp_path / "a.jsonl", first, third)
    saved(tmp_path / "b.json", otlp(second))
    saved(tmp_path / "c.jsonl", {"id": "chat", "trace_id": "t", "messages": [{"role": "user", "content": "Hello."}]})
    assert [dialogue.id for dialogue in load_corpus(tmp_path)] == ["chat", "c1"]


OPENINFERENCE = [
    {"message.role": "system", "message.content": "Be brief."},
    {"message.role": "user", "message.content": TURNS[0].user},
    {
        "message.role": "assistant",
        "message.contents": [{"message_content.type": "text", "message_content.text": "Let me look."}],
        "message.tool_calls": [
            {"tool_call.id": "a", "tool_call.function.name": "find", "tool_call.function.arguments": json.dumps(FIND)},
            {"tool_call.function.name": "opening_hours", "tool_call.function.arguments": json.dumps(HOURS)},
        ],
    },
    {"message.role": "tool", "message.name": "opening_hours", "message.content": "closed on Mondays"},
    {"message.role": "tool", "message.tool_call_id": "a", "message.content": FOUND},
    {"message.role": "assistant", "message.content": "Luigi's has one."},
    {"message.role": "user", "message.content": "And on Monday?"},
    {"message.role": "assistant", "message.content": "It is closed then."},
]


def flat(prefix, value):
    """Attributes with the indices of lists in their names."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: leaf for key, item in items for name, leaf in flat(f"{prefix}.{key}", item).items()}
    return {prefix: value}


def llm(told, said, form=flat):
    kind = {"openinference.span.kind": "LLM", "llm.model_name": "small-model"}
    return {**kind, **form("llm.input_messages", told), **form("llm.output_messages", said)}


@pytest.mark.parametrize("form", [flat, lambda prefix, value: {prefix: value}], ids=["flat", "lists"])
def test_openinference_by_session(tmp_path, form):
    one = {"session.id": "s1"}
    spans = [
        span("t1", "1", {"openinference.span.kind": "AGENT", **one}),
        span("t1", "2", llm(OPENINFERENCE[:2], OPENINFERENCE[2:3], form), "1"),  # by its trace
        span("t2", "3", {**llm(OPENINFERENCE[:7], OPENINFERENCE[7:], form), **one}),
    ]
    expected = [Dialogue("s1", "", TURNS, system="Be brief.")]
    assert load_corpus(saved(tmp_path / "a.jsonl", *spans)) == expected
    columns = [
        {
            "name": one["name"],
            "parent_id": one["parent_id"],
            **{f"context.{key}": value for key, value in one["context"].items()},
            **{f"attributes.{key}": value for key, value in one["attributes"].items()},
        }
        for one in spans
    ]  # a data frame of Phoenix
    assert load_corpus(saved(tmp_path / "b.json", columns)) == expected


def test_inspect_logs(tmp_path):
    calls = [
        {"id": "a", "function": "find", "arguments": FIND, "type": "function"},
        {"id": "b", "function": "opening_hours", "arguments": HOURS, "type": "function"},
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": TURNS[0].user, "source": "input"},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Let me look."}],
            "tool_calls": calls,
            "model": "mock/small",
        },
        {"role": "tool", "tool_call_id": "a", "function": "find", "content": FOUND},
        {
            "role": "tool",
            "tool_call_id": "b",
            "function": "opening_hours",
            "content": "",
            "error": {"type": "unknown", "message": "closed on Mondays"},
        },
        {"role": "assistant", "content": "Luigi's has one."},
        {"role": "user", "content": "And on Monday?"},
        {"role": "assistant", "content": "It is closed then."},
    ]
    log = {
        "version": 2,
        "eval": {"task": "tables", "model": "mock/small"},
        "samples": [{"id": 7, "epoch": 2, "messages": messages}],
    }
    path = saved(tmp_path / "log.json", log)
    assert load_corpus(path) == [Dialogue("tables_7_2", "", TURNS, system="Be brief.")]
    assert read_traces(path).components() == {
        ("model", "mock/small", ""): 3,
        ("tool", "find", ""): 1,
        ("tool", "opening_hours", ""): 1,
    }
    saved(tmp_path / "log2.json", log)
    with pytest.raises(CorpusError, match=r"log2\.json, dialogue 1: sample 'tables_7_2' stands in two logs"):
        load_corpus(tmp_path)


def test_calls_within_a_tool_are_no_conversation_of_their_own(tmp_path):
    long = [text("user" if n % 2 else "assistant", f"Thought {n}.") for n in range(20)]
    spans = [
        *conversation()[:2],
        span("c1-0", "tool", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask"}, "s0"),
        span("c1-0", "agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "expert"}, "tool"),
        span("c1-0", "inner", genai_call(long, text("assistant", "Yes.")), "agent"),
        span("c1-0", "other", {**genai_call(long, text("assistant", "No.")), "gen_ai.conversation.id": "c2"}, "agent"),
    ]
    assert load_corpus(saved(tmp_path / "t.jsonl", *spans)) == [Dialogue("c1", "", TURNS[:1], system="Be brief.")]
    alone = saved(tmp_path / "alone.jsonl", *spans[2:5])  # a server's own trace, whose root is the tool
    assert len(load_corpus(alone)[0].turns) == 11


def test_traces_that_repeat_the_beginning_of_another_are_left_out(tmp_path, caplog):
    spans = [span(f"t{n}", "1", attributes) for n, attributes in enumerate((CALLS[1], CALLS[2]))]
    with caplog.at_level(logging.WARNING):
        assert [d.turns for d in load_corpus(saved(tmp_path / "t.jsonl", *spans))] == [TURNS]
    assert "1 of 2 conversations are the beginning of another one and are left out" in caplog.text
    named = [{**s, "attributes": {**s["attributes"], "session.id": f"s{n}"}} for n, s in enumerate(spans)]
    assert len(load_corpus(saved(tmp_path / "named.jsonl", *named))) == 2


def test_parts_that_are_no_text_are_left_out_and_said(tmp_path, caplog):
    image, file = {"type": "blob", "modality": "image", "content": "aaaa"}, {"type": "file", "file_id": "f"}
    asked = {"role": "user", "parts": [image, {"type": "text", "content": "What is this?"}, image]}
    spans = [
        *conversation(),
        *conversation("c2", [genai_call([asked], text("assistant", "A table."))]),
        *conversation("c3", [genai_call([{"role": "user", "parts": [file]}, text("user", "Hi.")], GENAI[3])]),
        *conversation("c4", [llm([{"message.role": "user", "message.contents": PICTURED}], OPENINFERENCE[7:])]),
    ]
    with caplog.at_level(logging.WARNING):
        read = {dialogue.id: dialogue for dialogue in load_corpus(saved(tmp_path / "t.jsonl", *spans))}
    assert read["c1"].turns == TURNS
    assert read["c2"].turns == (Turn("What is this?", response="A table."),)
    assert read["c3"].turns == (Turn(""), Turn("Hi.", response="Luigi's has one."))
    assert read["c4"].turns == (Turn("And this?", response="It is closed then."),)
    assert (
        "in 3 of 4 conversations messages have parts that are no text; they are read without these: "
        "2 'blob', 1 'file', 1 'image'" in caplog.text
    )


PICTURED = [
    {"message_content.type": "text", "message_content.text": "And this?"},
    {"message_content.type": "image", "message_content.image.image.url": "data:image/png;base64,aaaa"},
]


def test_what_a_tool_returned_as_a_list_of_objects_is_no_list_of_parts(tmp_path):
    rows = [{"type": "restaurant", "text": "Luigi's"}]
    made = list(message_events(openai_v2, openai_v2_choice))[1:2]
    made[0][1][4] = ("gen_ai.tool.message", {}, {"id": "a", "content": rows})
    made[0][1][3] = ("gen_ai.tool.message", {}, {"id": "b", "content": json.dumps([{"text": "as it stands"}])})
    found, hours = load_corpus(saved(tmp_path / "t.jsonl", made[0][0], *beside(made)))[0].turns[0].steps
    assert found.results == tuple(rows)
    assert hours.results == ({"text": "as it stands"},)


def test_messages_that_an_exporter_writes_into_a_span_and_beside_it_are_read_once(tmp_path):
    made = list(message_events(azure, azure_choice))
    path = saved(tmp_path / "t.jsonl", *within(made), *beside(made))
    assert load_corpus(path) == [Dialogue("c1", "", TURNS, system="Be brief.")]


def test_an_agents_span_counts_where_no_model_call_holds_messages(tmp_path):
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": json.dumps([GENAI[0], GENAI[3], GENAI[4]]),
    }
    agent["gen_ai.output.messages"] = json.dumps([GENAI[5]])
    spans = [span("c1-0", "a", agent), span("c1-0", "b", BARE, "a"), span("c1-0", "t", {**TOOL, **agent, **TOOL}, "a")]
    assert [turn.response for turn in load_corpus(saved(tmp_path / "t.jsonl", *spans))[0].turns] == [
        "Luigi's has one.",
        "It is closed then.",
    ]
    assert load_corpus(saved(tmp_path / "u.jsonl", *spans, *conversation()[:1]))[0].turns[0].steps


TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}


def test_log_records_that_name_no_span_are_said(tmp_path, caplog):
    made = list(message_events(openai_v2, openai_v2_choice))
    loose = [{**record, "span_id": "", "trace_id": ""} for record in beside(made[:1])]
    other = {"trace_id": "t9", "span_id": "s9", "body": "started", "severity_number": 9, "attributes": {}}
    with caplog.at_level(logging.WARNING):
        assert len(load_corpus(saved(tmp_path / "t.jsonl", other, *loose, *conversation()))) == 1
    assert "3 messages in log records that name no span are left out" in caplog.text
    with pytest.raises(CorpusError, match=r"l\.jsonl: 3 messages in log records that name no span"):
        load_corpus(saved(tmp_path / "l.jsonl", *loose))
    with pytest.raises(CorpusError, match=r"o\.jsonl"):
        load_corpus(saved(tmp_path / "o.jsonl", other))


def test_what_the_longest_call_does_not_repeat_is_said(tmp_path, caplog):
    calls = [CALLS[1], genai_call([text("user", "And on Monday?")], GENAI[5])]  # history that stays on the server
    with caplog.at_level(logging.WARNING):
        assert load_corpus(saved(tmp_path / "t.jsonl", *conversation(calls=calls)))[0].turns == TURNS[:1]
    assert "in 1 of 1 conversations other model calls hold messages of users that the longest" in caplog.text


EMPTY = genai_call([{"role": "user", "parts": [{"type": "text"}]}], {"role": "assistant", "parts": [{"type": "text"}]})
HIDDEN = llm([{"message.role": "user", "message.content": "__REDACTED__"}], [])


EVENTED = {**BARE, "events": json.dumps([{"event.name": "gen_ai.user.message"}, {"event.name": "gen_ai.choice"}])}


@pytest.mark.parametrize("attributes", [BARE, EMPTY, HIDDEN, EVENTED], ids=["bare", "empty", "hidden", "events"])
def test_content_that_was_not_recorded_is_said(tmp_path, caplog, attributes):
    unrecorded = span("t2", "1", attributes)
    error = refused("words --corpus", saved(tmp_path / "t.jsonl", unrecorded), "--out", tmp_path / "out")
    assert "t.jsonl: 1 of 1 conversations were recorded without their messages" in error
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in error
    with caplog.at_level(logging.WARNING):
        assert len(load_corpus(saved(tmp_path / "some.jsonl", unrecorded, *conversation()))) == 1
    assert "some.jsonl: 1 of 2 conversations were recorded without their messages and are left out" in caplog.text


UNREADABLE = {
    "cut off": ({**BARE, "gen_ai.input.messages": json.dumps(GENAI)[:100]}, "is no JSON|are no JSON"),
    "an image": (
        genai_call([{"role": "user", "parts": [{"type": "uri", "uri": "a.png"}]}], GENAI[5]),
        "no message of a user has a text; parts that are none: 1 'uri'",
    ),
    "a result alone": (genai_call([GENAI[0], GENAI[2]], GENAI[3]), "the result of 'b' follows no call of it"),
    "many calls": (
        genai_call(
            [
                text("user", "All."),
                {"role": "assistant", "parts": [call("find", FIND, f"{n}") for n in range(2000)]},
                {"role": "tool", "parts": [result("", f"{n}") for n in reversed(range(2000))]},
            ],
            GENAI[5],
        ),
        "more than 1,000 calls have no result",
    ),
    "deep": ({**BARE, "gen_ai.input.messages": "[" * 500 + "]" * 500}, "nested more than 100 deep"),
    "role": (genai_call([text("user", "Hi."), text("narrator", "Later.")], GENAI[5]), "unknown role 'narrator'"),
}


@pytest.mark.parametrize(("attributes", "error"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_conversation_that_cannot_be_read_is_left_out_and_said(tmp_path, caplog, attributes, error):
    bad = span("t2", "1", attributes)
    with pytest.raises(CorpusError, match=rf"1 of 1 conversations cannot be read .*'t2': .*({error})"):
        load_corpus(saved(tmp_path / "t.jsonl", bad))
    with caplog.at_level(logging.WARNING):
        assert len(load_corpus(saved(tmp_path / "some.jsonl", bad, *conversation()))) == 1
    assert "1 of 2 conversations cannot be read and are left out; the first is 't2'" in caplog.text


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ({"resourceSpans": {"scopeSpans": []}}, "'resourceSpans' must be a list of objects"),
        ({"eval": {"task": "t"}, "samples": "none"}, "'samples' must be a list of objects"),
    ],
)
def test_malformed_traces_are_one_line_with_the_place(tmp_path, record, error):
    with pytest.raises(CorpusError, match=rf"t\.jsonl, line 2: {error}"):
        load_corpus(saved(tmp_path / "t.jsonl", *conversation()[:1], record))


def test_spans_that_name_each_other_as_parent_end(tmp_path):
    spans = [span("t", "1", CALLS[2], "2"), span("t", "2", {"x." * 5000 + "y": 1, "x": 2}, "1")]
    assert len(load_corpus(saved(tmp_path / "t.jsonl", *spans))) == 1


def test_exports_may_be_longer_than_a_dialogue(tmp_path, monkeypatch):
    monkeypatch.setattr("tod_bias.dialogues.files.LONGEST", 100)
    for name in ("t.json", "t.jsonl"):
        assert load_corpus(saved(tmp_path / name, otlp(*conversation())))[0].turns == TURNS
    for name, error in (("c.json", "one has 100 at the most"), ("c.jsonl", "line 1 is longer than 100 characters")):
        with pytest.raises(CorpusError, match=error):
            load_corpus(saved(tmp_path / name, {"messages": [{"role": "user", "content": "Hello. " * 20}]}))


def test_spans_without_a_model_call_are_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"t\.jsonl: no span there is a model call"):
        load_corpus(saved(tmp_path / "t.jsonl", span("t", "1", {"http.method": "GET"})))


def test_doctor_lists_what_works_in_traces(tmp_path):
    spans = [
        span("c1-0", "a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "waiter"}),
        *({**one, "parent_id": "a"} for one in conversation()[:2]),
        span("c1-0", "t", {"openinference.span.kind": "TOOL", "tool.name": "find\x1b[31m"}, "a"),
        span("c1-0", "r", {"gen_ai.operation.name": "retrieval"}, "t", name="retrieval menus"),
        span("c1-0", "h", {"http.method": "GET"}, "t", name="GET"),
    ]
    path = saved(tmp_path / "t.jsonl", *spans)
    code, out, err = run_command("doctor", path)
    assert (code, err) == (0, "")
    assert [" ".join(line.split()) for line in out.splitlines() if line] == [
        "agent",
        "1 waiter",
        "model",
        "2 small-model (agent waiter)",
        "retriever",
        "1 retrieval menus (agent waiter)",
        "tool",
        "1 find␛[31m (agent waiter)",
    ]
    listed = json.loads(run_command("doctor --json --out", tmp_path / "out", path)[1])
    assert {"kind": "model", "name": "small-model", "agent": "waiter", "spans": 2} in listed["components"]
    assert json.loads((tmp_path / "out" / "doctor.json").read_text()) == listed
    file = tmp_path / "agent.yaml"
    file.write_text("agent: {python: 'my_app:agent'}\nstages: {search: {match: {tool: 'find*'}}}\n")
    marked = json.loads(run_command("doctor --json --pipeline", file, path)[1])["components"]
    marks = {component["name"]: component["stage"] for component in marked if "stage" in component}
    assert marks == {"small-model": False, "find\x1b[31m": True}
    assert "no spans of OpenTelemetry" in refused("doctor", saved(tmp_path / "chat.json", {"messages": []}))
