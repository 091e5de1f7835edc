"""Asking a server that fails, and what is never shown of a key."""

import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from chat_server import ChatServer, calling, completion

from tod_bias import StageInput
from tod_bias.dialogues.calls import MALFORMED
from tod_bias.errors import StageError, UnansweredError
from tod_bias.io.canonical import LONGEST
from tod_bias.stages import Answer, ToolCalls
from tod_bias.systems.chat.client import retry_after
from tod_bias.systems.chat.replies import TOO_LONG, TOO_MANY


def client(server, **settings):
    return Answer(model="m", base_url=server.url, **{"retries": 3, "timeout": 5, **settings})


@pytest.mark.parametrize(
    "fault",
    [
        *(429, 500, 503, 408, "cut", "garbage", [], {"choices": []}, {"choices": [{}]}),
        *({"choices": [{"message": one}]} for one in ({"content": 7}, {"tool_calls": {}}, {"tool_calls": [{}]})),
    ],
    ids=str,
)
def test_a_failure_that_passes_is_tried_again(fault):
    with ChatServer(lambda body: "Hello.", fault=lambda number, body: fault if number == 1 else None) as server:
        assert client(server)([StageInput((), "Hi")]) == ["Hello."]
    assert len(server.received) == 2


def test_retry_after_is_waited_for():
    wait = (429, {"retry-after": "1"})
    with ChatServer(lambda body: "Hello.", fault=lambda number, body: wait if number == 1 else None) as server:
        begun = time.monotonic()
        client(server)([StageInput((), "Hi")])
        assert time.monotonic() - begun >= 1


@pytest.mark.parametrize(
    ("given", "seconds"),
    [({}, None), ({"retry-after": "2"}, 2), ({"retry-after": "-1"}, 0), ({"retry-after": "1e9"}, 600),
     ({"retry-after": "soon"}, None), ({"retry-after": "nan"}, None),
     ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0)],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_or_a_date(given, seconds):
    assert retry_after(given) == seconds


@pytest.mark.parametrize("fault", ["drip", "drip headers"])
def test_an_answer_that_does_not_end_is_given_up(fault):
    timeout = 0.5
    with ChatServer(lambda body: "Hello.", fault=lambda number, body: fault if number < 3 else None) as server:
        begun = time.monotonic()
        with pytest.raises(UnansweredError, match=r"no answer within 0\.5 seconds"):
            client(server, retries=0, timeout=timeout)([StageInput((), "Hi")])
        assert time.monotonic() - begun < 5
        assert client(server, retries=3, timeout=timeout)([StageInput((), "Hi")]) == ["Hello."]


@pytest.mark.parametrize(
    ("fault", "kind", "message", "calls"),
    [
        *((fault, UnansweredError, r"\(tried 2 times\)$", 2) for fault in (500, "cut", {"nonsense": 1})),
        # what will not pass is not tried again
        (401, StageError, "refuses the key", 1),
        (403, StageError, "refuses to answer", 1),
        (404, StageError, "no model 'm', or no chat API", 1),
        (400, UnansweredError, "status 400: fault 400", 1),
        ("endless failure", UnansweredError, "status 400", 1),
    ],
    ids=str,
)
def test_failures_are_tried_as_often_as_they_may_pass(fault, kind, message, calls):
    with ChatServer(lambda body: "Hello.", fault=lambda number, body: fault) as server:
        with pytest.raises(kind, match=message):
            client(server, retries=1)([StageInput((), "Hi")])
        assert server.sent < 100_000_000  # of an endless answer the beginning is read
    assert len(server.received) == calls


def test_a_slow_server_is_given_up():
    late = pytest.raises(UnansweredError, match=r"no answer within 0\.3 seconds")
    with ChatServer(lambda body: "Hello.", latency=2) as server, late:
        client(server, retries=0, timeout=0.3)([StageInput((), "Hi")])


def test_what_is_under_way_can_be_given_up_at_once():
    with ChatServer(lambda body: "Hello.", latency=5) as server, ThreadPoolExecutor(1) as pool:
        stage = client(server, timeout=20)
        begun = time.monotonic()
        answer = pool.submit(stage.client.ask, stage.request(StageInput((), "Hi")))
        while not server.received:
            time.sleep(0.01)
        stage.client.halt(at_once=True)
        assert "the request was interrupted" in str(answer.exception())
        assert time.monotonic() - begun < 4


def test_no_server_is_an_error_at_once():
    begun = time.monotonic()
    with pytest.raises(StageError, match=r"no server answers at http://127\.0\.0\.1:9/v1"):
        Answer(model="m", base_url="http://127.0.0.1:9/v1")([StageInput((), "Hi")])
    assert time.monotonic() - begun < 5


def test_the_key_is_in_no_message_and_no_log(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", "sk-test-wrong")
    with ChatServer(lambda body: f"Your key is {body['model']}", key="sk-test-right") as server:
        stage = client(server, api_key_env="MY_KEY")
        with pytest.raises(StageError, match=r"refuses the key.*Bearer \*\*\*.*the variable MY_KEY") as error:
            stage([StageInput((), "Hi")])
        assert "sk-test-wrong" not in str(error.value) + repr(stage) + stage.signature
    with ChatServer(lambda body: "You said sk-test-wrong", key="sk-test-wrong") as server:
        assert client(server, api_key_env="MY_KEY")([StageInput((), "Hi")]) == ["You said ***"]  # also in an answer
    assert "sk-test-wrong" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MY_KEY", "sk-secret\nsk-other", "MY_KEY holds can be no key"),
        ("MY_KEY", "sk-sécret", "MY_KEY holds can be no key"),
        ("gsk_secret1", None, "that it names .* is not set"),
    ],
)
def test_what_can_be_no_key_is_not_shown(monkeypatch, name, value, said):
    if value is not None:
        monkeypatch.setenv(name, value)
    with pytest.raises(StageError, match=said) as error:
        ToolCalls(model="m", api_key_env=name)([StageInput((), "Hi")])
    assert "secret" not in str(error.value)


def test_a_key_that_is_written_with_escapes_in_arguments_is_cleaned(monkeypatch):
    key = "sk-test-right-and-long"
    monkeypatch.setenv("MY_KEY", key)
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in key)
    arguments = f'{{"{escaped}": {{"{escaped}": ["say {escaped}"]}}}}'
    with ChatServer(lambda body: calling("find", arguments), key=key) as server:
        stage = ToolCalls(model="m", base_url=server.url, api_key_env="MY_KEY")
        (output,) = stage([StageInput((), "Hi")])
    assert output["tool_calls"] == [{"api_name": "find", "***": {"***": ["say ***"]}}]


@pytest.mark.parametrize(
    ("message", "output", "outcome"),
    [
        ({"tool_calls": 129 * calling("find", {})["tool_calls"]}, [{"api_name": "find", MALFORMED: TOO_MANY}], "calls"),
        (calling("find", {"text": "x" * LONGEST}), [{"api_name": "find", MALFORMED: TOO_LONG}], "text"),
        (calling("f" * LONGEST, {}), [{"api_name": "f" * 64, MALFORMED: TOO_LONG}], "text"),
        ({"content": None, "refusal": "x" * (LONGEST + 1)}, TOO_LONG, "text"),
        ({"content": [{"text": "x" * LONGEST}, {"text": "y"}]}, TOO_LONG, "text"),
        ("x" * 5 * LONGEST, TOO_LONG, "text"),  # more than is read at all
    ],
    ids=["calls", "arguments", "name", "refusal", "parts", "reply"],
)
def test_what_is_too_much_is_counted_and_nothing_large_is_stored(message, output, outcome):
    with ChatServer(lambda body: message) as server:
        stage = ToolCalls(model="m", base_url=server.url)
        reply = stage.client.ask(stage.request(StageInput((), "Hi")))
    assert len(server.received) == 1
    assert len(json.dumps(reply)) < 1000
    for given in (reply, completion(message, {})):  # the same where an earlier version has kept all of it
        found = stage.output(given)
        assert (found["tool_calls"] or found["content"]) == output
        assert stage.outcome(found) == {"calls": "too many calls", "text": "text too long"}[outcome]


def test_unused_parts_of_a_large_reply_are_left_out():
    reply = completion("Hello.", {}) | {"logprobs": [-0.5] * 300_000}
    with ChatServer(lambda body: "", fault=lambda number, body: reply) as server:
        stage = Answer(model="m", base_url=server.url)
        kept = stage.client.ask(stage.request(StageInput((), "Hi")))
    assert stage.output(kept) == "Hello."
    assert kept["usage"] == {"prompt_tokens": 7, "completion_tokens": 3}
    assert "logprobs" not in kept


def test_a_short_key_is_a_word_that_answers_may_hold(monkeypatch):
    monkeypatch.setenv("MY_KEY", "local")
    with ChatServer(lambda body: "The local hotel.", key="local") as server:
        assert client(server, api_key_env="MY_KEY")([StageInput((), "Hi")]) == ["The local hotel."]


def test_requests_are_sent_nowhere_else(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    with ChatServer(lambda body: "Hello.") as other:
        moved = (307, {"location": f"{other.url}/chat/completions"})
        with ChatServer(lambda body: "Hello.", fault=lambda number, body: moved) as server:
            with pytest.raises(StageError, match="redirects requests"):
                client(server)([StageInput((), "Hi")])
            assert "org-secret" not in str(server.headers)
    assert not other.received


def test_not_more_requests_a_minute_than_allowed():
    with ChatServer(lambda body: "Hello.") as server:
        begun = time.monotonic()
        client(server, requests_per_minute=600)([StageInput((), f"Hi {number}") for number in range(6)])
    assert 0.5 <= time.monotonic() - begun < 3
