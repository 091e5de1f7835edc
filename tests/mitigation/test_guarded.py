"""A chat component behind guards: tokens, failures, and kept answers as without them."""

import functools
import json

import pytest
from assistant import OPTIONS, assistant, comparable, corpus, system
from chat_server import ChatServer

from tod_bias import attribute
from tod_bias.perturb.guard import with_guards

BIASED = functools.partial(assistant, policy_bias=True)
GUARDS = ({"policy": ("canonical", "gender")}, {"policy": ("vote", "gender")})


def guarded(url, guards=GUARDS[0], **settings):
    return with_guards(system(url, **settings), guards)


def disparity(result):
    return result.axes["gender"]["corpus_bleu"].disparity.value


@pytest.mark.parametrize("guards", GUARDS)
def test_requests_tokens_and_failures_are_those_of_the_stage(guards):
    with ChatServer(BIASED) as server:
        before = attribute(system(server.url), corpus(12), **OPTIONS)
        plain = len(server.received)
        after = attribute(guarded(server.url, guards), corpus(12), **OPTIONS)
        requests = len(server.received) - plain
    assert (disparity(before) != 0, disparity(after)) == (True, 0)
    assert after.cost.tokens == {"read": 7 * requests, "written": 3 * requests}
    assert requests < plain
    assert after.cost.calls == before.cost.calls


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
        assert after.cost.cached["policy"] > 0
    assert comparable(after)["axes"] == comparable(fresh)["axes"]


def test_a_failed_call_behind_a_guard_fails_its_turn():
    def refuse(number, body):
        return 400 if "trip number 3" in json.dumps(body) else None

    with ChatServer(BIASED, fault=refuse) as server:
        result = attribute(guarded(server.url), corpus(12), **OPTIONS)
    assert result.cost.failed["policy"] == 1  # one rewriting for all
    assert {failed.turns for failed in result.failed["gender"].values()} == {1}
