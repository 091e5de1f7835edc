"""STAR in the layout of its archive."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tod_bias import Dialogue, Step, Turn, load_corpus
from tod_bias.errors import CorpusError
from tod_bias.systems.functions import module_of

STEP_BY_STEP = Path(__file__).parent
reader = module_of(STEP_BY_STEP / "star.py")


def read(datapath: Path, split: str = "test") -> list[Dialogue]:
    """The dialogues of ``--corpus star:read_star``."""
    return load_corpus("star:read_star", datapath=datapath, split=split, folder=STEP_BY_STEP)


def event(agent: str, action: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"Agent": agent, "Action": action, **({"Text": text} if text else {}), **more}


def query(api: str, *constraints: dict[str, str]) -> dict[str, Any]:
    return event("Wizard", "query", APIName=api, Constraints=list(constraints))


def item(api: str, total: int = -1, **slots: Any) -> dict[str, Any]:
    found = {"Item": {"APIName": api, **slots}} if slots else {}
    return event("KnowledgeBase", "return_item", APIName=api, TotalItems=total, **found)


EVENTS = [
    event("UserGuide", "instruct", "Be short."),
    event("User", "utter", "Hello."),
    event("User", "utter", "A room for Ann."),
    event("Wizard", "select_task", Task="hotel_search"),
    query(
        "hotel_search",
        {"Cost": 'api.is_one_of(["Cheap","Moderate"])'},
        {"Rating": "api.is_at_least(3)"},
        {"Rating": "api.is_at_most(5)"},
    ),
    item("hotel_search", 0),
    query("hotel_search", {"Cost": '"Cheap"'}, {"Name": "null"}),
    item("hotel_search", 2, Name="Old Mill", Stars=4),
    event("Wizard", "request_suggestions", "A draft."),
    event("Wizard", "pick_suggestion", "The Old Mill."),
    event("User", "utter", "Bye."),
    event("Wizard", "utter", "Goodbye."),
    event("User", "complete"),
]


def write(datapath: Path, number: int, tasks: tuple[str, ...], events: Any = EVENTS) -> None:
    folder = datapath / "star" / "dialogues"
    folder.mkdir(parents=True, exist_ok=True)
    capabilities = [{"Domain": task.split("_")[0], "Task": task} for task in tasks]
    scenario = {"WizardTask": "Help.\n", "WizardCapabilities": capabilities}
    (folder / f"{number}.json").write_text(json.dumps({"DialogueID": number, "Scenario": scenario, "Events": events}))


def test_turns_hold_queries_results_and_what_was_said(tmp_path):
    write(tmp_path, 7, ("hotel_search",))
    (dialogue,) = read(tmp_path, "valid")
    assert (dialogue.id, dialogue.domain, dialogue.system) == ("7", "hotel_search", "Help.")
    first = {"api_name": "hotel_search", "Cost": ["Cheap", "Moderate"], "Rating": {"min": 3, "max": 5}}
    second = {"api_name": "hotel_search", "Cost": "Cheap"}
    steps = (Step(first), Step(second, ({"Name": "Old Mill", "Stars": 4},)))
    assert dialogue.turns == (
        Turn("Hello.\nA room for Ann.", steps=steps, response="The Old Mill."),
        Turn("Bye.", response="Goodbye."),
    )


def test_a_query_after_the_wizard_spoke_begins_a_turn(tmp_path):
    events = [*EVENTS[1:3], event("Wizard", "utter", "Wait."), query("weather"), event("Wizard", "utter", "Sunny.")]
    write(tmp_path, 1, ("weather",), events)
    (dialogue,) = read(tmp_path, "train")
    assert [(turn.user, len(turn.steps), turn.response) for turn in dialogue.turns] == [
        ("Hello.\nA room for Ann.", 0, "Wait."),
        ("", 1, "Sunny."),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('api.is_equal_to("Dr. Lee")', "Dr. Lee"),
        ("api.is_equal_to()", None),
        (" 12 ", 12),
        ("0314", "0314"),
        ("True", True),
        ("", None),
        ('api.is_one_of("a")', ["a"]),
        ("api.is_less_than(9)", {"below": 9}),
        ("api.is_greater_than(9)", {"above": 9}),
        ('api.contains("Park")', {"contains": "Park"}),
        ('api.contains_not("Park")', {"not_contains": "Park"}),
        ("api.is_not(3)", {"not": 3}),
        ('"she said "no" to me"', 'she said "no" to me'),
        ('"api.is_equal_to(1)"', "api.is_equal_to(1)"),
    ],
)
def test_constraints_are_json_values(text, value):
    assert reader.constraint_value(text) == value


def test_splits_are_by_task(tmp_path):
    write(tmp_path, 1, ("weather", "trivia"))
    write(tmp_path, 2, ("doctor_schedule",))
    write(tmp_path, 3, ("hotel_book", "weather"))
    write(tmp_path, 10, ("weather",))
    assert [d.id for d in read(tmp_path, "train")] == ["1", "10"]
    assert [d.id for d in read(tmp_path, "test")] == ["2"]
    with pytest.raises(CorpusError, match="star: holds no dialogue"):
        read(tmp_path, "valid")
    assert [d.id for d in reader.read_star_folder(tmp_path / "star")] == ["1", "2", "3", "10"]


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([item("weather", Day="Monday")], r"4\.json: .* event 1: a result without its query"),
        ([query("weather", {"Day": "api.looks_like(3)"})], r"4\.json: .* event 1: unknown comparison 'looks_like'"),
        ([{"Agent": "User", "Action": "utter"}], r"4\.json: .* event 1: KeyError\('Text'\)"),
        ("no events", r"4\.json: not in STAR's format"),
        (None, r"star/dialogues: no \.json file there"),
    ],
)
def test_errors_name_the_file_and_the_event(tmp_path, events, problem):
    (tmp_path / "star").mkdir()
    if events:
        write(tmp_path, 4, ("weather",), events)
    with pytest.raises(CorpusError, match=problem):
        read(tmp_path, "train")


def test_apis_are_function_schemas(tmp_path):
    folder = tmp_path / "star" / "apis" / "apis"
    folder.mkdir(parents=True)
    slots = [
        {"Name": "City", "Type": "Categorical", "Categories": ["Davis"], "ReadableName": "The city"},
        {"Name": "Level", "Type": "Integer", "Min": 0, "Max": 9},
        {"Name": "UserName", "Type": "ShortString"},
    ]
    (folder / "weather.json").write_text(json.dumps({"input": slots}))
    (function,) = reader.star_functions(tmp_path)
    assert function["function"]["name"] == "weather"
    properties = function["function"]["parameters"]["properties"]
    assert list(properties) == ["City", "Level", "UserName"]
    assert properties["City"]["anyOf"][0] == {"type": "string", "enum": ["Davis"]}
    assert properties["UserName"] == {"type": ["string", "integer"], "description": "UserName"}


@pytest.mark.real_data
def test_all_of_star_is_read_and_its_queries_keep_to_the_schemas(star):
    import jsonschema

    dialogues = list(reader.read_star_folder(star))
    assert len({dialogue.id for dialogue in dialogues}) == 6652
    turns = [turn for dialogue in dialogues for turn in dialogue.turns]
    assert sum(turn.user.count("\n") for turn in turns) + len(turns) == 54_214  # four follow each other
    assert sum(len(turn.steps) for turn in turns) == 22_169
    tasks = {task for dialogue in dialogues for task in dialogue.domain.split(", ")}
    assert len(tasks) == 24
    assert tasks > {task for held in reader.HELD_OUT.values() for task in held}
    splits = Counter(reader.split_of(dialogue.domain.split(", ")) for dialogue in dialogues)
    assert splits == {"train": 4424, "valid": 836, "test": 832, "": 560}
    names = Counter(name for turn in turns for call in turn.calls for name in call)
    assert {"HostName", "FullName", "RenterName", "CustomerName", "PatientName"} < set(names)
    schemas = {function["function"]["name"]: function["function"] for function in reader.star_functions(star.parent)}
    checks = {name: jsonschema.Draft202012Validator(schema["parameters"]) for name, schema in schemas.items()}
    for step in (step for turn in turns for step in turn.steps):
        assert checks[step.name].is_valid(step.arguments), step.call
