"""A chat component behind guards: tokens, failures, kept answers and batch files as without them."""

import functools
import json

import pytest
from assistant import OPTIONS, answer_batches, assistant, comparable, corpus, system
from chat_server import ChatServer

from tod_bias import attribute
from tod_bias.errors import PendingError
from tod_bias.perturb.guards.guard import with_guards

BIASED = functools.partial(assistant, policy_bias=True)
GUARDS = ("policy=canonical:gender", "policy=vote:gender")


def guarded(url, guards=GUARDS[0], **settings):
    return with_guards(system(url, **settings), guards)


def disparity(result):
    return result["axes"]["gender"]["corpus_bleu"]["disparity"]["value"]


@pytest.mark.parametrize("guards", GUARDS)
def test_requests_tokens_and_failures_are_those_of_the_stage(guards):
    with ChatServer(BIASED) as server:
        before = attribute(system(server.url), corpus(12), **OPTIONS)
        plain = len(server.received)
        after = attribute(guarded(server.url, guards), corpus(12), **OPTIONS)
        requests = len(server.received) - plain
    assert (disparity(before) != 0, disparity(after)) == (True, 0)
    assert after["cost"]["tokens"] == {"read": 7 * requests, "written": 3 * requests}
    assert requests < plain
    assert after["cost"]["calls"] == before["cost"]["calls"]


def test_batch_files_through_a_guard_give_what_a_server_gives(tmp_path):
    with ChatServer(BIASED) as server:
        online = attribute(guarded(server.url), corpus(12), **OPTIONS)
    nobody, out = "http://127.0.0.1:9/v1", tmp_path / "answered"
    options = {**OPTIONS, "cache": tmp_path / "cache.sqlite", "batch_out": tmp_path / "requests"}
    for component in ("policy", "policy", "answer"):
        with pytest.raises(PendingError) as waiting:
            attribute(guarded(nobody), corpus(12), **options)
        assert [file.stem.split("_")[1] for file in waiting.value.files] == [component]
        answer_batches(waiting.value.files, out)
        options["batch_in"] = [out]
    assert comparable(attribute(guarded(nobody), corpus(12), **options)) == comparable(online)


def test_outputs_cached_without_a_guard_are_used_behind_it(tmp_path):
    with ChatServer(BIASED) as server:
        fresh = attribute(guarded(server.url), corpus(6), **OPTIONS)
        requests = len(server.received)
        kept = {**OPTIONS, "cache": tmp_path / "cache.sqlite"}
        attribute(system(server.url), corpus(6), **kept)
        before = len(server.received)
        after = attribute(guarded(server.url), corpus(6), **kept)
        assert len(server.received) - before < requests / 2  # the rewriting as "spouse" is in the cache
        attribute(guarded(server.url), corpus(6), **kept)
        assert after["cost"]["cached"]["policy"] > 0
    assert comparable(after)["axes"] == comparable(fresh)["axes"]


def test_a_failed_call_behind_a_guard_takes_its_dialogue_out():
    def refuse(number, body):
        return 400 if "trip number 3" in json.dumps(body) else None

    with ChatServer(BIASED, fault=refuse) as server:
        result = attribute(guarded(server.url), corpus(12), **OPTIONS, max_failures=0.5)
    assert result["cost"]["failed"]["policy"] == 1  # one rewriting for all
    assert result["axes"]["gender"]["corpus_bleu"]["dialogues"] == 11
