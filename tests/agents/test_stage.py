"""Any ParlAI agent as a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sgd_files import DIALOGUES

from tod_bias.agents.stage import ParlaiStage
from tod_bias.dialogues.dialogue import Turn
from tod_bias.errors import StageError
from tod_bias.pipelines import load_pipeline
from tod_bias.systems.outputs import Lookup, Outcome
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import StageInput
from tod_bias.testing import StageContract, inputs_of

pytestmark = pytest.mark.parlai


HISTORY = (Turn.with_call("hi", {"api_name": "F", "a": "b"}, {"r": "1"}, "hello"), Turn.with_call("so", {}, {}, "yes"))
ITEM = StageInput(HISTORY, "more", {"api_call": {"api_name": "G"}, "db": Lookup(Outcome.ROWS, ({"r": "2"},))})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"output": "api_call"}, ["APIS: ", "USER: hi", "APIRESP: r = 1", "USER: so", "APIRESP: ", "USER: more"]),
        (
            {"output": "response"},
            ["APIS: ", "USER: hi", "APIRESP: r = 1", "USER: so", "APIRESP: ", "USER: more", "APIRESP: r = 2"],
        ),
        ({"output": "response", "speaks": "plain"}, ["hi", "so", "more"]),
        ({"output": "db"}, ["APICALL: api_name = G"]),
    ],
)
def test_an_agent_hears_the_dialogue_as_parlais_teachers_show_it(options, expected):
    stage = ParlaiStage("parlai_agents:EchoAgent", **options)  # type: ignore[arg-type]
    assert stage([ITEM, ITEM]) == ["\n".join(expected).replace("=", ":")] * 2


def test_what_was_answered_before_is_shown_as_labels_and_the_call_of_the_turn_is_its_own():
    stage = ParlaiStage("parlai_agents:LabelAgent")
    labels = ["APIS: ", "APICALL: a = b ; api_name = F", "SYSTEM: hello", "APICALL: ", "SYSTEM: yes"]
    assert stage([ITEM]) == ["\n".join(["SYSTEM:", *labels, "APICALL: api_name = G"])]


@pytest.mark.parametrize(
    ("said", "output", "expected"),
    [
        ("APICALL: b = 1 ; a = x\\y", "api_call", {"a": "x\\y", "b": "1"}),
        ("b = 1", "api_call", {"b": "1"}),
        ("APICALL: who knows", "api_call", "who knows"),
        ("APIRESP: r = 1", "db", {"r": "1"}),
        ("SYSTEM: Sure.", "response", "Sure."),
        ("Sure.", "response", "Sure."),
    ],
)
def test_outputs_are_read_without_prefix_and_malformed_ones_stay_text(said, output, expected):
    assert ParlaiStage("fixed_response", output=output, options={"fixed_response": said})([ITEM]) == [expected]


@pytest.mark.parametrize("history", ["gold", "system"])
def test_our_own_agent_as_a_stage_is_the_stage_that_it_wraps(strict_pipeline, history):
    options = {"pipeline": str(strict_pipeline), "history": history}
    inner = load_pipeline(strict_pipeline).stages["api_call"]
    stage = ParlaiStage("tod_bias.agents:PipelineAgent", output="api_call", options=options)
    inputs = [item for item in inputs_of(DIALOGUES) if " ; " not in "".join(item.outputs["api_call"].values())]
    assert stage(inputs) == [_as_read_back(output) for output in inner(inputs)]


def _as_read_back(output: Any) -> Any:
    """ParlAI's text does not carry a value that holds `` ; a = `` whole."""
    if isinstance(output, dict) and "note" in output:
        first, second = output["note"].split(" ; a = ")
        return {**output, "note": first, "a": second}
    return output


def test_a_stage_can_be_named_in_a_pipeline_file(tmp_path):
    path = tmp_path / "chat.yaml"
    path.write_text(
        'stages: {response: {stage: "tod_bias.agents:ParlaiStage", agent: fixed_response, speaks: plain, '
        "options: {fixed_response: Hm.}}}"
    )
    pipeline = load_pipeline(path)
    assert isinstance(pipeline, Pipeline)
    assert pipeline([StageInput((), "hello")])[0].outputs == {"response": "Hm."}


@pytest.fixture(scope="module")
def generator_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of ParlAI's own models, with random weights, as a model file."""
    import torch
    from parlai.core.agents import create_agent
    from parlai.core.dict import DictionaryAgent
    from parlai.core.params import ParlaiParser

    folder = tmp_path_factory.mktemp("parlai_model")
    dictionary = DictionaryAgent({"dict_file": str(folder / "model.dict"), "dict_loaded": False})
    for dialogue in DIALOGUES:
        for turn in dialogue.turns:
            dictionary.add_to_dict(dictionary.tokenize(f"USER: {turn.user} APICALL: SYSTEM: {turn.response}"))
    dictionary.save(str(folder / "model.dict"))
    torch.manual_seed(0)
    opt = ParlaiParser(True, True).parse_kwargs(
        model="transformer/generator", dict_file=str(folder / "model.dict"), embedding_size=8, ffn_size=8, n_layers=1,
        n_heads=1, n_positions=256, truncate=128, label_truncate=8, no_cuda=True, datatype="valid",
    )  # fmt: skip
    agent = create_agent(opt)
    agent.save(str(folder / "model"))
    return folder / "model"


class TestStageOfParlaiModel(StageContract):
    @pytest.fixture
    def stage(self, generator_model: Path) -> ParlaiStage:
        return ParlaiStage(str(generator_model), batch_size=4, options={"no_cuda": True, "inference": "greedy"})

    @pytest.fixture
    def inputs(self) -> list[StageInput]:
        return inputs_of(DIALOGUES)

    def test_says_something(self, stage, inputs):
        assert len(set(stage(inputs))) > 1


@pytest.mark.parametrize(
    ("agent", "options", "expected"),
    [
        ("no.such.module:Agent", {}, "cannot be made: No module named 'no'"),
        ("tod_bias.agents:Nobody", {}, "has no attribute 'Nobody'"),
        ("fixed_response", {"options": {"no_such_option": 1}}, "no_such_option"),
        ("fixed_response", {"output": "price"}, "output must be one of api_call, db, response"),
        ("fixed_response", {"output": "api_call", "speaks": "plain"}, "speaks must be"),
        ("fixed_response", {"batch_size": 0}, "batch_size must be at least 1"),
        ("tod_bias.agents:PipelineAgent", {"options": {"pipeline": "none.yaml"}}, "none.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_made_is_one_clear_error(agent, options, expected):
    with pytest.raises(StageError, match=f"^[^\n]*{expected}[^\n]*$"):
        ParlaiStage(agent, **options)
