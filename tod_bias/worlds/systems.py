"""Systems that act in a world: the recorded right actions, a served model, a function, or a pipeline file."""

from __future__ import annotations

import inspect
import os
from typing import Any

from tod_bias.errors import StageError, TodBiasError
from tod_bias.io.imports import import_object, is_import
from tod_bias.metrics.grade import Grade
from tod_bias.pipelines import load_pipeline
from tod_bias.systems.chat.settings import ChatSettings
from tod_bias.systems.flow import policy_loop
from tod_bias.systems.pipeline import Pipeline
from tod_bias.worlds.loading import load_world
from tod_bias.worlds.messages import POLICY, TOOLS, USER
from tod_bias.worlds.policies import AgentPolicy, FunctionPolicy, GoldPolicy, ServedPolicy
from tod_bias.worlds.tools import WorldTools
from tod_bias.worlds.users import ScriptedUser, ServedUser, conversation
from tod_bias.worlds.world import SOLVED

GOLD = "gold"
"""Name of the pipeline that replays the recorded right actions."""
KEY = "OPENAI_API_KEY"
"""Environment variable with the key of a served model; without it, none is sent."""


def world_pipeline(
    world: str, spec: str | None = None, *, url: str | None = None, model: str | None = None, offline: bool = False
) -> Pipeline:
    """Return a system in a world: a policy, the world's tools, and its grade.

    Args:
        world: its name.
        spec: ``gold``, a pipeline file with a stage ``policy``, or ``module:function`` of messages and tools,
            which also takes ``call`` if it is an agent with a loop of its own.
        url: address of a server with OpenAI's chat API, instead of ``spec``.
        model: name of the model there; by default the first one that the server lists.
        offline: True if the server is not asked for its models.

    Raises:
        StageError: none or several of them are given, or one cannot be used.
    """
    if (spec is None) == (url is None):
        raise StageError(f"--world {world}: give --pipeline gold, --pipeline FILE.yaml, or --model-url URL")
    if url is not None:
        key = KEY if os.environ.get(KEY) else None
        name = model or ("unknown" if offline else served_model(url, key))
        settings: dict[str, Any] = {"base_url": url, "model": name, "api_key_env": key}
        user = ServedUser(world, **settings) if load_world(world).has_user else None
        return pipeline_in(world, ServedPolicy(world, **settings), user=user)
    if model is not None:
        raise StageError("--model names a model behind --model-url; with --pipeline, write it into the file")
    if spec == GOLD:
        return pipeline_in(world, GoldPolicy(world))
    if is_import(str(spec)):
        function = import_object(str(spec), f"--pipeline {spec}", None, StageError)
        if not callable(function):
            raise StageError(f"--pipeline {spec}: expected a function of messages and tools")
        return pipeline_in(world, (AgentPolicy if _has_loop(function) else FunctionPolicy)(world, function))
    return _of_file(world, load_pipeline(spec), str(spec))


def _has_loop(function: Any) -> bool:
    """Return True if a function takes a third argument, by which it calls tools itself."""
    try:
        inspect.signature(function).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def pipeline_in(world: str, policy: Any, tools: Any = None, user: Any = None) -> Pipeline:
    """Return a policy with the tools and the grade of a world.

    Args:
        world: its name.
        policy: a stage that reads the dialogue and the results, and calls tools or none.
        tools: stage that carries the calls out; by default the world's own.
        user: stage that is the user, in a world that has one; by default a scripted one.
    """
    stages = {POLICY: policy, TOOLS: WorldTools(world) if tools is None else tools}
    if not load_world(world).has_user:
        return Pipeline(stages, policy_loop, grades=[world_grade(world)])
    stages = {USER: ScriptedUser(world) if user is None else user, **stages}
    return Pipeline(stages, conversation, grades=[world_grade(world)])


def right_actions(world: str) -> Pipeline | None:
    """Return the system that replays the recorded right actions of a world with a user, whose conversations are not
    recorded; None for other worlds."""
    return pipeline_in(world, GoldPolicy(world)) if load_world(world).has_user else None


def _of_file(world: str, given: Pipeline, path: str) -> Pipeline:
    """Return the system of a file, with the world's tools if the file has none."""
    if POLICY not in given.stages:
        raise StageError(f"{path}: --world {world} needs a stage {POLICY!r}; there are {', '.join(given.stages)}")
    has_user = load_world(world).has_user
    stages = ({USER: ScriptedUser(world)} if has_user else {}) | dict(given.stages)
    if TOOLS not in stages:
        stages[TOOLS] = WorldTools(world)
    flow = given.flow or (conversation if has_user else policy_loop)
    return Pipeline(stages, flow, given.concurrency, given.groups, [*given.grades, world_grade(world)])


def world_grade(world: str) -> Grade:
    """Return the grade of a world: whether its task was solved."""
    loaded = load_world(world)
    grade = Grade(loaded.grade, "solved", SOLVED)
    grade.signature = f"own judgement of {loaded.signature}"
    return grade


def served_model(url: str, key_variable: str | None) -> str:
    """Return the name of the first model that a server lists.

    Raises:
        StageError: the server lists none, or cannot be asked.
    """
    settings = ChatSettings.of({"model": "unknown", "base_url": url, "api_key_env": key_variable})
    remedy = "give its name with --model NAME"
    import openai

    try:
        client = openai.OpenAI(base_url=settings.base_url, api_key=settings.key or "none", timeout=20, max_retries=1)
        listed = next(iter(client.models.list()), None)
    except (openai.OpenAIError, ValueError) as error:
        kind = type(error).__name__
        raise StageError(f"--model-url {settings.shown_url}: its models cannot be listed ({kind}); {remedy}") from None
    if listed is None:
        raise StageError(f"--model-url {settings.shown_url}: lists no model; {remedy}")
    return str(listed.id)


def check_world_system(world: str, spec: str | None, url: str | None) -> tuple[str, ...]:
    """Return the names of a system's stages after a check of its options.

    Raises:
        TodBiasError: the world is unknown, its package is missing, or no system is named.
    """
    load_world(world)
    if (spec is None) == (url is None):
        raise TodBiasError(f"--world {world}: give --pipeline gold, --pipeline FILE.yaml, or --model-url URL")
    stages = (USER, POLICY, TOOLS) if load_world(world).has_user else (POLICY, TOOLS)
    if spec is None or spec == GOLD or is_import(spec):
        return stages
    return tuple(dict.fromkeys((*load_pipeline(spec).stages, *stages)))
