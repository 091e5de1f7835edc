"""Pipelines from YAML files and from model folders.

A pipeline file names its stages in order; each is ``module:Class`` with its arguments, or ``module:function``::

    stages:
      api_call: {stage: "tod_bias.stages:ApiCall", model: models/api_call}
      db: {stage: "tod_bias.stages:LookupDb", table: database.jsonl}
      response: {stage: "my_stages:Polite", base: models/response}

Modules are also searched in the folder of the file and in the current folder. An argument that names a file or folder
in the folder of the pipeline file becomes that path. ``flow:`` names the generator function that calls the stages,
``module:name`` or a shipped one (``tool_loop``); without it each stage is called once, in order. ``concurrency: 16``
beside a stage makes so many calls of it at once, each on a thread of its own. ``group: tools`` beside stages puts them
into a group, to which contributions are shared out as a whole first. ``rewritten: true`` beside a stage says that its
data belong to the dialogue and are rewritten with it: where a user has another name, the records have it too. It is
then its own twin in every arm, and has no part in a disparity. ``guard: canonical`` and ``axes: gender, age`` beside a
stage put it under a guard (``canonical``, ``neutral`` or ``vote``), which makes it blind to these axes.

``grade: {python: "my_app:solved", label: "tasks solved"}`` names a function of the turns of a dialogue. It returns how
well the dialogue went, from 0 to 1, and is the first event of a finding.

An agent that exists is named in place of a flow, with the calls that belong to each stage
(:func:`tod_bias.integrations.pipeline_of`)::

    agent: {python: "my_app:agent"}
    stages:
      model: {match: {kind: model}}
      search: {match: {tool: "find_*"}}

An agent in any other framework or language is a command or a server of one's own, whose requests to models go through a
proxy to ``upstream`` (:mod:`tod_bias.integrations.proxied`)::

    agent: {command: "node agent.mjs"}     # or {url: "http://localhost:8000/turn"}
    upstream: {base_url: "https://api.openai.com/v1", api_key_env: OPENAI_API_KEY}
    stages:
      model: {match: {kind: model}}
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tod_bias.dialogues.corpora import DEMO
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import FOREIGN, StageError, TodBiasError, described, meant
from tod_bias.io.documents import read_yaml
from tod_bias.io.hub import check_model
from tod_bias.io.imports import PATTERN, import_object, importable
from tod_bias.metrics.grade import Grade
from tod_bias.systems.flow import FLOWS, Flow
from tod_bias.systems.hosted import TIMEOUT
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import Stage
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.twin import Twin

if TYPE_CHECKING:
    from tod_bias.integrations.mcp import McpServer
    from tod_bias.integrations.proxied import ProxyAdapter

_SHIPPED = "tod_bias.stages"
_OF_GUARD = ("axes", "reference")
_SHAPE = 'stages: {name: {stage: "module:Class", …}, …} or stages: {name: "module:Class", …}'
_AGENT_SHAPE = (
    'agent: {python: "module:name"}, {command: "…"} or {url: "…"}; and stages: {name: {match: {kind: model}}, …}'
)
_EXPECTED = {
    "concurrency": "a whole number from 1: calls at once",
    "rewritten": "true or false",
    "guard": "the name of a guard",
    "group": "the name of a group of stages",
}
"""Descriptions of the fields of a stage, for values of another shape."""
_PROBLEMS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "too_short": "names no stage, there must be at least 1",
    "string_pattern_mismatch": "is not of the form module:Class",
}


class StageEntry(BaseModel):
    """One stage of a pipeline file: where its class is, and its arguments."""

    model_config = ConfigDict(extra="allow")
    stage: str = Field(pattern=PATTERN)
    concurrency: int | None = Field(default=None, ge=1, strict=True)
    rewritten: bool = Field(default=False, strict=True)
    group: str | None = None
    guard: str | None = None


class MatchEntry(BaseModel):
    """One stage of an agent's file: which calls belong to it."""

    model_config = ConfigDict(extra="forbid")
    match: dict[str, str] = {}
    group: str | None = None
    guard: str | None = None
    axes: str | None = None
    """Axes of the guard, joined by commas."""


class AgentEntry(BaseModel):
    """Location and settings of an agent."""

    model_config = ConfigDict(extra="forbid")
    python: str | None = Field(default=None, pattern=PATTERN)
    command: str | None = None
    url: str | None = None
    timeout: float = Field(default=TIMEOUT, gt=0)
    concurrency: int = Field(default=16, ge=1, strict=True)
    signature: str = ""
    is_random: bool = Field(default=False, strict=True)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the agent."""
        return self.model_dump(include={"timeout", "concurrency", "signature", "is_random"})


class ServerEntry(BaseModel):
    """An MCP server that an agent elsewhere reaches over the proxy."""

    model_config = ConfigDict(extra="forbid")
    command: str | None = None
    url: str | None = None


class AddressEntry(BaseModel):
    """Address for requests to models."""

    model_config = ConfigDict(extra="forbid")
    base_url: str
    api_key_env: str | None = None


class UpstreamEntry(AddressEntry):
    """Address for the requests of an agent that is a command or a server."""

    anthropic: AddressEntry | None = None
    """Address for requests in Anthropic's form, if another server takes them."""


class GradeEntry(BaseModel):
    """A judgement of whole dialogues."""

    model_config = ConfigDict(extra="forbid")
    python: str
    """``module:function`` of the turns of a dialogue."""
    label: str = ""
    """The grade in sentences: "tasks solved"."""


class AgentFile(BaseModel):
    """A pipeline file whose flow is an agent."""

    model_config = ConfigDict(extra="forbid")
    description: str = ""
    agent: AgentEntry
    upstream: UpstreamEntry | None = None
    mcp: dict[str, ServerEntry] = {}
    stages: dict[str, MatchEntry] = {}
    grade: GradeEntry | None = None


class PipelineFile(BaseModel):
    """A pipeline file."""

    model_config = ConfigDict(extra="forbid")
    description: str = ""
    stages: dict[str, StageEntry | str] = Field(min_length=1)
    flow: str | None = None
    grade: GradeEntry | None = None


def load_pipeline(
    spec: str | Path | None = None,
    *,
    dialogues: Sequence[Dialogue] = (),
    model: str | Path | None = None,
    api_call_model: str | Path | None = None,
    response_model: str | Path | None = None,
    device: str | None = None,
    generation: Mapping[str, Any] | None = None,
) -> Pipeline:
    """Build a pipeline from a file, or the standard one from trained models.

    Args:
        spec: ``demo``, or the path of a YAML file.
        dialogues: the corpus whose gold calls and results make the database of the standard pipeline.
        model: checkpoint of both language-model stages of the standard pipeline.
        api_call_model: checkpoint of its API-call stage, instead of ``model``.
        response_model: checkpoint of its response stage, instead of ``model``.
        device: device of the standard pipeline's models; a file has it per stage.
        generation: fields of :class:`~tod_bias.models.settings.GenerationSettings` for the standard pipeline, None
            for the usual value; a file says it a stage.

    Raises:
        StageError: the file or a stage in it is unusable.
        ModelError: a checkpoint cannot be loaded.
    """
    file = check_pipeline(
        spec,
        model=model,
        api_call_model=api_call_model,
        response_model=response_model,
        device=device,
        generation=generation,
    )
    if file is None:
        from tod_bias.systems.stages.language_model import ApiCall, Response

        call, response = api_call_model or model, response_model or model
        assert call is not None
        assert response is not None
        chosen = {name: value for name, value in (generation or {}).items() if value is not None}
        options = {"device": device, **chosen}
        return Pipeline(
            {
                "api_call": ApiCall(call, **options),
                "db": LookupDb.from_dialogues(dialogues),
                "response": Response(response, **options),
            }
        )
    path = _path(spec)
    return _agent_pipeline(file, path) if isinstance(file, AgentFile) else _file_pipeline(file, path)


def check_pipeline(
    spec: str | Path | None,
    *,
    model: str | Path | None = None,
    api_call_model: str | Path | None = None,
    response_model: str | Path | None = None,
    device: str | None = None,
    generation: Mapping[str, Any] | None = None,
) -> PipelineFile | AgentFile | None:
    """Check the arguments of :func:`load_pipeline` before anything is loaded.

    Returns:
        The content of the pipeline file; None for the standard pipeline.

    Raises:
        StageError: the arguments contradict each other, or the file is unusable.
    """
    call, response = api_call_model or model, response_model or model
    if call or response:
        if spec is not None:
            raise StageError("give either a pipeline or models, not both")
        if not (call and response):
            missing = "--response-model" if call else "--api-call-model"
            raise StageError(f"a pipeline needs a model for both stages: add {missing}, or give --model")
        for name in (str(call), str(response)):
            check_model(name)
        return None
    if spec is None:
        raise StageError("no pipeline: give --pipeline demo, --pipeline FILE.yaml or --model DIR")
    if given := [name for name, value in {"device": device, **(generation or {})}.items() if value is not None]:
        option = f"--{given[0].replace('_', '-')}"
        raise StageError(
            f"{option} is for models given with --model; with --pipeline FILE write it into the file, next to a "
            f"stage's model: {{stage: …, model: …, {given[0]}: …}}"
        )
    return _read(_path(spec))


def _path(spec: str | Path | None) -> Path:
    return DEMO / "pipeline.yaml" if str(spec) == "demo" else Path(str(spec))


def _check_loop(file: PipelineFile, path: Path) -> None:
    """Raise StageError where a model's calls would be run once, in a straight line, and count for no metric."""
    classes = {name: entry if isinstance(entry, str) else entry.stage for name, entry in file.stages.items()}
    if file.flow is None and {f"{_SHIPPED}:ToolCalls", f"{_SHIPPED}:Tools"} <= set(classes.values()):
        raise StageError(
            f"{path}: flow: is missing, and no stage would ask {', '.join(classes)} as often as the model calls; add "
            "the line flow: tool_loop, or a flow of your own, module:name"
        )


def _file_pipeline(file: PipelineFile, path: Path) -> Pipeline:
    _check_loop(file, path)
    stages = {name: _guarded(name, entry, path) for name, entry in file.stages.items()}
    for name, entry in file.stages.items():
        if isinstance(entry, StageEntry) and entry.rewritten:
            stages[name] = Twin(stages[name])
    concurrency = {
        name: entry.concurrency
        for name, entry in file.stages.items()
        if isinstance(entry, StageEntry) and entry.concurrency is not None
    }
    flow = None if file.flow is None else _flow(file.flow, path)
    return Pipeline(stages, flow, concurrency, _groups(file), _grades(file.grade, path))


def _grades(entry: GradeEntry | None, path: Path) -> list[Grade]:
    """Return the judgement of dialogues that a file names.

    Raises:
        StageError: there is no such function.
    """
    if entry is None:
        return []
    where = f"{path}: grade {entry.python!r}"
    judge = import_object(entry.python, where, path.parent, StageError)
    if not callable(judge):
        raise StageError(f"{where}: expected a function of the turns of a dialogue, got {judge!r:.80}")
    return [Grade(judge, entry.python.rpartition(":")[2], entry.label)]


def _groups(file: PipelineFile | AgentFile) -> dict[str, list[str]]:
    """Group to the stages that name it."""
    groups: dict[str, list[str]] = {}
    for name, entry in file.stages.items():
        if not isinstance(entry, str) and entry.group is not None:
            groups.setdefault(entry.group, []).append(name)
    return groups


def _agent_pipeline(file: AgentFile, path: Path) -> Pipeline:
    if not file.stages:
        how = (
            "of a plain function, mark its parts with @stage and name them; of a framework, match its calls "
            "({kind: model}, {tool: NAME})"
            if file.agent.python is not None
            else f"with upstream:, tod-bias doctor {path} lists the calls"
        )
        raise StageError(f"{path}: stages: names no stage, there must be at least 1; {how}")
    pipeline = _python_agent(file, path) if file.agent.python is not None else _elsewhere(file, path)
    pipeline = replace(pipeline, groups=_groups(file), grades=_grades(file.grade, path))
    guards = {name: entry for name, entry in file.stages.items() if entry.guard is not None or entry.axes is not None}
    return _under_guards(pipeline, guards, path) if guards else pipeline


def _under_guards(pipeline: Pipeline, entries: Mapping[str, MatchEntry], path: Path) -> Pipeline:
    """Return an agent with some stages under guards."""
    from tod_bias.perturb.guard import with_guards

    for name, entry in entries.items():
        where = f"{path}: stage {name!r}"
        if entry.guard is None or entry.axes is None:
            raise StageError(f"{where}: a guard takes both, e.g. guard: canonical and axes: gender")
        try:
            pipeline = with_guards(pipeline, {name: (entry.guard, entry.axes)})
        except TodBiasError as error:
            raise type(error)(f"{where}: {error}") from error
    return pipeline


def _python_agent(file: AgentFile, path: Path) -> Pipeline:
    from tod_bias.integrations import pipeline_of

    entry = file.agent
    where = f"{path}: agent {entry.python!r}"
    agent = import_object(str(entry.python), where, path.parent, StageError)
    matches = {name: stage.match for name, stage in file.stages.items()}
    try:
        return pipeline_of(agent, matches, **entry.settings)
    except TodBiasError as error:
        raise type(error)(f"{where}: {error}") from error
    except FOREIGN as error:
        raise StageError(f"{where}: {described(error)}") from error


def _elsewhere(file: AgentFile, path: Path) -> Pipeline:
    from tod_bias.integrations.adapter import AgentSettings

    name = file.agent.command or str(file.agent.url)
    return proxied_agent(file, path).pipeline(name, AgentSettings(**file.agent.settings))


def proxied_agent(file: AgentFile, path: Path) -> ProxyAdapter:
    """Return the agent of a file that is a command or a server.

    Raises:
        StageError: the command does not exist, the key is not set, or a stage matches nothing that requests contain.
    """
    from tod_bias.integrations.proxied import CommandAgent, ProxyAdapter, UrlAgent
    from tod_bias.integrations.upstream import Upstream

    assert file.upstream is not None
    try:
        other = file.upstream.anthropic
        anthropic = None if other is None else Upstream(other.base_url, other.api_key_env)
        upstream = Upstream(file.upstream.base_url, file.upstream.api_key_env, anthropic)
        servers = {name: _mcp_server(name, entry, path.parent) for name, entry in file.mcp.items()}
        command, url = file.agent.command, str(file.agent.url)
        agent = UrlAgent(url) if command is None else CommandAgent(command, path.parent, upstream)
        matches = {name: entry.match for name, entry in file.stages.items()}
        return ProxyAdapter(agent, matches, upstream, servers)
    except TodBiasError as error:
        raise type(error)(f"{path}: {error}") from None


def _mcp_server(name: str, entry: ServerEntry, folder: Path) -> McpServer:
    from tod_bias.integrations.mcp import McpServer, command_target

    if not re.fullmatch(r"[A-Za-z]\w*", name) or (entry.command is None) == (entry.url is None):
        raise StageError(f"mcp: {name!r}: expected NAME: {{command: …}} or NAME: {{url: …}}, the name a word")
    target = entry.url if entry.command is None else command_target(entry.command, folder)
    return McpServer(name, lambda: target)


def _flow(name: str, path: Path) -> Flow:
    if name in FLOWS:
        return FLOWS[name]
    if not re.match(PATTERN, name):
        raise StageError(f"{path}: flow {name!r}: expected module:name or one of {', '.join(FLOWS)}")
    flow: Flow = import_object(name, f"{path}: flow {name!r}", path.parent, StageError)
    return flow


def _read(path: Path) -> PipelineFile | AgentFile:
    try:
        content = read_yaml(path)
    except (OSError, UnicodeDecodeError) as error:
        raise StageError(
            f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}); expected 'demo' or a YAML file"
        ) from error
    except yaml.YAMLError as error:
        raise StageError(f"{path}: not YAML: {_fault(error)}; expected 'demo' or a YAML file") from error
    try:
        is_agent = isinstance(content, Mapping) and "agent" in content
        file = (AgentFile if is_agent else PipelineFile).model_validate(content)
        if isinstance(file, AgentFile):
            _check_agent(file, path)
        return file
    except ValidationError as error:
        first = error.errors()[0]
        places = [str(part) for part in first["loc"] if part not in ("[key]", "str", "StageEntry")]
        where = ".".join(places) or "the file"
        expected = _EXPECTED.get(places[-1] if len(places) > 2 else "", _AGENT_SHAPE if is_agent else _SHAPE)
        raise StageError(f"{path}: {where}: {_problem(first)}; expected {expected}") from error


def _check_agent(file: AgentFile, path: Path) -> None:
    """Raise StageError where an agent is in no place or in several, or has no server to ask."""
    places = {"python": file.agent.python, "command": file.agent.command, "url": file.agent.url}
    named = [name for name, place in places.items() if place is not None]
    if len(named) != 1:
        raise StageError(f"{path}: agent: names {' and '.join(named) or 'no place'}; expected {_AGENT_SHAPE}")
    if (file.upstream is None) != (named == ["python"]):
        raise StageError(
            f"{path}: upstream: goes with a command or url, and with these it says where requests are sent: "
            'upstream: {base_url: "https://api.openai.com/v1", api_key_env: OPENAI_API_KEY}'
        )


def _fault(error: yaml.YAMLError) -> str:
    """Describe what is wrong and in which line, without the line itself, which may contain a key."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(error).split())
    return f"{problem}, line {mark.line + 1}, column {mark.column + 1}"


def _problem(error: Any) -> str:
    """Describe what is wrong with one entry of a pipeline file, in this project's words."""
    given = error["input"]
    shown = "nothing" if given is None else repr(given)[:200]
    if error["loc"][-1:] == ("[key]",):
        return f"the name {shown} is not a text, write it in quotes"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1 and error["loc"][0] in AgentEntry.model_fields:
        return f"belongs in agent: {{…, {error['loc'][0]}: …}}"
    return _PROBLEMS.get(error["type"], f"got {shown:.60}")


def _guarded(name: str, entry: StageEntry | str, path: Path) -> Any:
    """Return the stage of an entry, under its guard if it has one."""
    if isinstance(entry, str) or entry.guard is None:
        return _build(name, entry, path)
    from tod_bias.perturb.guard import MODES, Guard

    where = f"{path}: stage {name!r}: guard {entry.guard!r}"
    if entry.guard not in MODES:
        raise StageError(f"{where}: unknown; expected one of {', '.join(MODES)}")
    given = dict(entry.model_extra or {})
    options = {key: given.pop(key) for key in _OF_GUARD if key in given}
    if "axes" not in options:
        raise StageError(f"{where}: names no axis; add axes: gender (several joined by commas)")
    bare = StageEntry(stage=entry.stage, concurrency=entry.concurrency, **given)
    stage = _build(name, bare, path)
    try:
        return Guard(stage, mode=entry.guard, **options)
    except TodBiasError as error:
        raise type(error)(f"{where}: {error}") from error


def _build(name: str, entry: StageEntry | str, path: Path) -> Any:
    if isinstance(entry, str):
        try:
            entry = StageEntry(stage=entry)
        except ValidationError as error:
            raise StageError(f"{path}: stage {name!r}: expected 'module:Class', got {entry!r}") from error
    target = import_object(entry.stage, f"{path}: stage {name!r}", path.parent, StageError)
    is_shipped = inspect.isclass(target) and issubclass(target, Stage)
    literal = target.names_no_file if is_shipped else frozenset()
    arguments = {
        key: value if key in literal else resolved(value, path.parent)
        for key, value in (entry.model_extra or {}).items()
    }
    if entry.concurrency is not None and inspect.isclass(target) and "concurrency" in _parameters(target):
        arguments["concurrency"] = entry.concurrency
    if not inspect.isclass(target):
        if arguments:
            unknown = next(iter(arguments))
            raise StageError(
                f"{path}: stage {name!r}: {unknown}: is unknown{_meant(arguments, ())}; "
                f"{entry.stage} is not a class, so it takes no arguments"
            )
        return target
    return _called(target, arguments, f"{path}: stage {name!r}", entry.stage, path.parent)


def _called(target: Any, arguments: Mapping[str, Any], where: str, spec: str, folder: Path) -> Any:
    """A stage's class, called with the arguments that a file gives."""
    try:
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        hint = "; axes and reference go with guard" if set(arguments) & set(_OF_GUARD) else ""
        hint = hint or (_meant(arguments, _parameters(target)) if "unexpected" in str(error) else "")
        raise StageError(f"{where}: {spec}: {error}{hint}") from error
    try:
        with importable(folder):  # a stage may name modules too
            return target(**arguments)
    except TodBiasError as error:
        raise type(error)(f"{where}: {error}") from error
    except FOREIGN as error:
        raise StageError(f"{where}: {spec} cannot be made: {described(error)}") from error


def _meant(arguments: Iterable[str], parameters: Iterable[str]) -> str:
    """Return the parameter that an unknown argument may have meant."""
    known = {*StageEntry.model_fields, *parameters}
    return next(filter(None, (meant(name, known) for name in arguments if name not in known)), "")


def _parameters(target: type) -> Mapping[str, Any]:
    try:
        return inspect.signature(target).parameters
    except ValueError:  # a class of C that does not say
        return {}


def resolved(value: Any, folder: Path) -> Any:
    """Return an argument of a pipeline file, or the whole path of a file or folder that is in the same folder."""
    if not isinstance(value, str) or not value:
        return value
    try:
        return str((folder / value).resolve()) if (folder / value).exists() else value
    except (OSError, ValueError):  # too long for a name, or with characters that none has
        return value
