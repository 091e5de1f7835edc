"""Agents that are processes or servers in any language: their requests go through the proxy to a server with a key."""

import json
import sys
from pathlib import Path

import pytest
from flows import about_people
from framework_agents import World, function_agent
from model_server import KEY, serving

from tod_bias import attribute, load_pipeline
from tod_bias.integrations import pipeline_of

TESTS = Path(__file__).parent.parent
PYTHON = f"{sys.executable} {TESTS}/proxy_agent.py"
NODE = f"node {TESTS}/proxy_agent.mjs"
KINDS = {
    "chat": f"{PYTHON} chat",
    "chat streamed": f"{PYTHON} chat+stream",
    "responses": f"{PYTHON} responses",
    "responses streamed": f"{PYTHON} responses+stream",
    "node": f"{NODE} chat",
    "node anthropic": f"{NODE} anthropic",
    "node anthropic streamed": f"{NODE} anthropic+stream",
}


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("UPSTREAM_KEY", KEY)
    monkeypatch.setenv("SAME_KEY", f"Bearer {KEY}")


def agent_file(folder, server, command="", stages="{model: {match: {kind: model}}}", **agent):
    place = {**({"command": command} if command else {}), "concurrency": 2, **agent}
    upstream = {"base_url": server.url, "api_key_env": "UPSTREAM_KEY"}
    path = folder / "agent.yaml"
    path.write_text(f"agent: {json.dumps(place)}\nupstream: {json.dumps(upstream)}\nstages: {stages}\n")
    return path


def audited(pipeline, **options):
    return attribute(pipeline, about_people(18), axes=["gender"], bootstrap=20, permutations=20, **options)


def gap_of(result):
    woman = result.axes["gender"]["corpus_bleu"].groups["woman"]
    return woman.gap.value, {name: part.shapley.value for name, part in woman.contributions.items()}, woman


@pytest.mark.parametrize("kind", KINDS)
def test_a_bias_of_the_model_is_found_as_in_a_function(kind, key, tmp_path):
    gap, _, _ = gap_of(audited(pipeline_of(function_agent(World("model")), "model+find_place+free_day")))
    with serving(World("model")) as server:
        result = audited(load_pipeline(agent_file(tmp_path, server, f"{KINDS[kind]} ''")))
    assert gap_of(result)[:2] == (gap, {"model": pytest.approx(gap, abs=1e-12)})
    assert gap > 0.1
