"""Multi-turn tasks of the Berkeley Function-Calling Leaderboard (Patil et al. 2025), package ``bfcl-eval``.

Turns of the user are fixed texts. Tools are stateful Python objects of the package. Its checker carries out the
recorded and the given calls side by side and compares the states after every turn.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn, arguments_of
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.values import API_NAME
from tod_bias.errors import FOREIGN
from tod_bias.systems.outputs import ERROR
from tod_bias.worlds.state import closed, opened, plain, small_numbers
from tod_bias.worlds.world import Call, World

_PACKAGE = "bfcl_eval"
_BACKEND = f"{_PACKAGE}.constants.executable_backend_config"
_CHECKER = f"{_PACKAGE}.eval_checker.multi_turn_eval.multi_turn_checker"
_INSTANCES = f"{_PACKAGE}.eval_checker.multi_turn_eval.multi_turn_utils"
_JUDGED = 50_000
"""Judgements in memory; most arms of a dialogue make the same calls."""


class Bfcl(World):
    """One category of multi-turn tasks."""

    package = "bfcl-eval"
    parts = ("multi_turn_base", "multi_turn_miss_param", "multi_turn_miss_func", "multi_turn_long_context")

    def __init__(self, name: str) -> None:
        kind, _, part = name.partition(":")
        super().__init__(f"{kind}:{part if part.startswith('multi_turn_') else f'multi_turn_{part}'}")
        self._numbers = itertools.count()
        self._judged: OrderedDict[tuple[str, str], bool] = OrderedDict()

    @cached_property
    def dialogues(self) -> Sequence[Dialogue]:
        """The users' turns of every task."""
        answers = {record["id"]: record["ground_truth"] for record in self._records("possible_answer")}
        return [self._dialogue(record, answers[record["id"]]) for record in self._records()]

    def _records(self, *folders: str) -> list[dict[str, Any]]:
        path = files(_PACKAGE).joinpath("data", *folders, f"BFCL_v4_{self.part}.json")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

    def _dialogue(self, record: Mapping[str, Any], gold: Sequence[Sequence[str]]) -> Dialogue:
        # A turn without a message is the one in which the functions that were missing are handed in.
        more = import_module(f"{_PACKAGE}.constants.default_prompts").DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
        users = ["\n".join(message["content"] for message in turn) or more for turn in record["question"]]
        classes = record["involved_classes"]
        content = {
            "classes": classes,
            "missing": dict(record.get("missed_function", {})),
            "state": {name: opened(state) for name, state in record["initial_config"].items()},
            "gold": [[parsed_call(text, classes) for text in turn] for turn in gold],
        }
        if self._is_long:  # the package adds texts to the database, with numbers that are no ages
            content["numbers"] = _numbers_of_long_texts()
        turns = tuple(Turn(user) for user in users)
        return Dialogue(record["id"], ", ".join(classes), turns, task=Task(record["id"], content))

    # tools -----------------------------------------------------------------------------------------------------------

    def tools(self, task: Task, turn: int) -> list[dict[str, Any]]:
        """OpenAI's function schemas of the tools that a model is offered in a turn."""
        hidden = {name for later, names in task.content["missing"].items() if turn < int(later) for name in names}
        schemas = [schema for name in task.content["classes"] for schema in _schemas(str(name))]
        return [schema for schema in schemas if schema["function"]["name"] not in hidden]

    @cached_property
    def every_tool(self) -> list[dict[str, Any]]:
        """OpenAI's function schemas of all tools of the world."""
        classes = dict.fromkeys(str(name) for dialogue in self.dialogues for name in dialogue.domain.split(", "))
        return list({schema["function"]["name"]: schema for name in classes for schema in _schemas(name)}.values())

    def start(self, task: Task) -> dict[str, Any]:
        """Return the tools' objects at the beginning of a dialogue, by their classes' names."""
        states, objects = _states(task), {}
        stateless = import_module(_BACKEND).STATELESS_CLASSES
        for name in map(str, task.content["classes"]):
            objects[name] = _class(name)()
            if name not in stateless:
                objects[name]._load_scenario(states.get(name, {}), long_context=self._is_long)
        return objects

    @property
    def _is_long(self) -> bool:
        return "long_context" in self.part

    def call(self, state: Mapping[str, Any], call: Call) -> Any:
        """Carry out a call on the tools' objects; what they raise becomes an error that the model reads."""
        name = str(call[API_NAME])
        # The last class with a method of this name counts, as in the package.
        holder = next((held for held in reversed(list(state.values())) if name in methods_of(held.__class__)), None)
        if holder is None:
            return {ERROR: f"unknown tool {name!r:.100}"}
        try:
            result = getattr(holder, name)(**plain(arguments_of(call)))
        except FOREIGN as error:
            return {ERROR: f"Error during execution: {error}"}
        if not isinstance(result, Mapping):
            return str(result)
        try:
            return json.loads(json.dumps(result, allow_nan=False))
        except (TypeError, ValueError):
            return str(result)

    # grade -----------------------------------------------------------------------------------------------------------

    def gold(self, task: Task, turn: int) -> list[dict[str, Any]]:
        """Recorded right calls of a turn."""
        return [dict(call) for call in task.content["gold"][turn]]

    def is_solved(self, task: Task, turns: Sequence[Sequence[Call]]) -> bool:
        """Return the judgement of the package's multi-turn checker."""
        known = {name for held in map(str, task.content["classes"]) for name in methods_of(_class(held))}
        sources = [[source_of(call) for call in calls if call.get(API_NAME) in known] for calls in turns]
        key = (task.digest, json.dumps(sources, ensure_ascii=False))
        if key not in self._judged:
            self._judged[key] = self._check(task, sources)
            if len(self._judged) > _JUDGED:
                self._judged.popitem(last=False)
        return self._judged[key]

    def _check(self, task: Task, sources: Sequence[Sequence[str]]) -> bool:
        classes = [str(name) for name in task.content["classes"]]
        entry = {"id": task.id, "initial_config": _states(task), "involved_classes": classes}
        gold = [[source_of(call) for call in calls] for calls in task.content["gold"]]
        model = f"tod_bias_{next(self._numbers)}"
        steps = [[[source] for source in turn] for turn in sources]
        try:
            checked = import_module(_CHECKER).multi_turn_checker(steps, gold, entry, self.part, model)
        finally:  # the package keeps the tools' objects as globals, under the model's name
            held = vars(import_module(_INSTANCES))
            for name in [name for name in held if name.startswith(f"{model}_")]:
                del held[name]
        return bool(checked["valid"])


def parsed_call(source: str, classes: Sequence[str]) -> dict[str, Any]:
    """Return a recorded call, Python source, as a mapping; positional arguments get the names of their parameters."""
    call = ast.parse(source.strip(), mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    name = call.func.id
    holder = next(held for held in map(_class, reversed(list(classes))) if name in methods_of(held))
    parameters = list(inspect.signature(getattr(holder, name)).parameters)[1:]
    arguments = dict(zip(parameters, map(ast.literal_eval, call.args), strict=False))
    arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return {API_NAME: name, **plain(arguments)}


def source_of(call: Call) -> str:
    """Return a call as the Python source that the package's checker carries out."""
    arguments = plain(arguments_of(call))
    return f"{call[API_NAME]}({', '.join(f'{name}={value!r}' for name, value in arguments.items() if _is_name(name))})"


def _is_name(text: str) -> bool:
    return text.isidentifier()


@cache
def _numbers_of_long_texts() -> list[str]:
    """Return the small numbers in the texts that make databases of the part with long contexts long."""
    constants = vars(import_module(f"{_PACKAGE}.eval_checker.multi_turn_eval.func_source_code.long_context"))
    return small_numbers(repr(value) for name, value in constants.items() if name.isupper())


def _states(task: Task) -> dict[str, Any]:
    return {str(name): closed(state) for name, state in task.content["state"].items()}


@cache
def _class(name: str) -> Callable[[], Any]:
    kind: Callable[[], Any] = getattr(import_module(import_module(_BACKEND).CLASS_FILE_PATH_MAPPING[name]), name)
    return kind


@cache
def methods_of(kind: Callable[[], Any]) -> frozenset[str]:
    """Return the names of the public methods of a class of tools."""
    return frozenset(name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_"))


@cache
def _schemas(name: str) -> tuple[dict[str, Any], ...]:
    """Return OpenAI's function schemas of a class of tools, of the package's own descriptions."""
    file = import_module(_BACKEND).MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]
    text = files(_PACKAGE).joinpath("data", "multi_turn_func_doc", file).read_text(encoding="utf-8")
    types = import_module(f"{_PACKAGE}.constants.type_mappings").GORILLA_TO_OPENAPI
    schemas = []
    for record in map(json.loads, filter(str.strip, text.splitlines())):
        function = {"name": record["name"], "description": record["description"]}
        schemas.append(
            {"type": "function", "function": function | {"parameters": _schema(record["parameters"], types)}}
        )
    return tuple(schemas)


def _schema(given: Any, types: Mapping[str, str]) -> Any:
    """Return a schema with the types of JSON."""
    if not isinstance(given, Mapping):
        return given
    schema = {
        key: _schema(value, types)
        if key == "items"
        else {name: _schema(item, types) for name, item in value.items()}
        if key == "properties"
        else value
        for key, value in given.items()
    }
    kind = schema.get("type")
    return schema | {"type": types.get(kind, "string")} if isinstance(kind, str) else schema
