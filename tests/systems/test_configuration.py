import textwrap

import pytest
from builders import small_corpus

from tod_bias import attribute, load_pipeline
from tod_bias.errors import StageError
from tod_bias.stages import LookupDb

STAGE = """
class Echo:
    def __init__(self, words, shout=False):
        self.words, self.shout = words, shout

    def __call__(self, inputs):
        said = [f"{self.words} {item.user}" for item in inputs]
        return [text.upper() for text in said] if self.shout else said


def nothing(inputs):
    return [{} for _ in inputs]


class Table:
    def __init__(self, path):
        self.rows = open(path).readlines()
"""


def write(folder, pipeline: str, stage: str = STAGE):
    (folder / "my_echo_stages.py").write_text(stage)
    (folder / "pipeline.yaml").write_text(textwrap.dedent(pipeline))
    return folder / "pipeline.yaml"


def test_stages_beside_the_file_are_loaded_and_attributed(tmp_path):
    path = write(
        tmp_path,
        """
        stages:
          api_call: my_echo_stages:nothing
          response: {stage: "my_echo_stages:Echo", words: "Of course, in which city,", shout: false}
        """,
    )
    pipeline = load_pipeline(path)
    assert pipeline.names == ("api_call", "response")
    result = attribute(pipeline, small_corpus(), bootstrap=0, permutations=0)
    axis = result.axes["gender"]["corpus_bleu"]
    assert set(axis.contributions) == {"api_call", "response"}
    assert result.signature["stage response"] == "my_echo_stages:Echo"
    assert axis.disparity.value is not None


def test_arguments_that_name_files_are_taken_from_beside_the_file(tmp_path, monkeypatch, gpt2):
    LookupDb.from_dialogues(small_corpus()).save(tmp_path / "db.jsonl")
    (tmp_path / "model").symlink_to(gpt2)
    path = write(
        tmp_path,
        """
        stages:
          api_call: {stage: "tod_bias.stages:ApiCall", model: model, max_new_tokens: 8}
          db: {stage: "tod_bias.stages:LookupDb", table: db.jsonl}
        """,
    )
    monkeypatch.chdir("/")
    pipeline = load_pipeline(path)
    assert len(pipeline.stages["db"]) == len(LookupDb.from_dialogues(small_corpus()))
    assert pipeline.stages["api_call"].generator.settings.max_new_tokens == 8


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("stages: {}", r"pipeline\.yaml: stages: names no stage"),
        ("stages: {a: 'json'}", "stage 'a': expected 'module:Class', got 'json'"),
        ("stages: {a: {stage: 'my_echo_stages:Echo'}}", "stage 'a': my_echo_stages:Echo: missing a required argument"),
        (
            "stages: {a: {stage: 'my_echo_stages:Table', path: gone.txt}}",
            r"stage 'a': my_echo_stages:Table cannot be made: FileNotFoundError: .*gone\.txt.* at .*stages\.py:17$",
        ),
        ("stages: {a: 'my_syntax_stages:x'}", "cannot import 'my_syntax_stages': SyntaxError: .*my_syntax_stages.py"),
        ("stages:\n  a: x:y\n  b: x:y\n  a: x:z", "not YAML: 'a' on line 4 is already on line 2"),
        ("stages: {a: {stage: x}}", r"stages\.a\.stage: is not of the form module:Class"),
        ("steps: {}", r"pipeline\.yaml: stages: is missing"),
        ("stages: {a: {stage: 'x:y', concurrency: many}}", r"got 'many'; expected a whole number from 1"),
        (
            "stages: {a: {stage: 'my_echo_stages:nothing', guards: canonical, axes: gender}}",
            r"stage 'a': guards: is unknown; did you mean 'guard'\?; my_echo_stages:nothing is not a class",
        ),
        ("stages: {a: {stage: 'my_echo_stages:Echo', words: x, guards: canonical}}", "'guards'; did you mean 'guard'"),
        ("stages: {a: 'my_echo_stage:nothing'}", "No module .* in .*, nor installed; did you mean 'my_echo_stages'"),
        ("stages: {a: 'my_echo_stages:Ecko'}", "has no 'Ecko'; did you mean 'Echo'"),
        (
            "stages: {policy: 'tod_bias.stages:ToolCalls', tools: 'tod_bias.stages:Tools'}",
            "flow: is missing, and no stage would ask policy, tools .*flow: tool_loop",
        ),
        ("just text", r"pipeline\.yaml: the file: .*expected stages"),
    ],
)
def test_broken_files_say_where_and_what(tmp_path, pipeline, message):
    (tmp_path / "my_syntax_stages.py").write_text("def x(:\n")
    with pytest.raises(StageError, match=message):
        load_pipeline(write(tmp_path, pipeline))


def test_models_make_the_standard_pipeline(gpt2, t5):
    corpus = small_corpus()
    pipeline = load_pipeline(model=gpt2, response_model=t5, dialogues=corpus)
    assert pipeline.names == ("api_call", "db", "response")
    assert pipeline.stages["response"].generator.name == str(t5)
    assert len(pipeline.stages["db"]) == len(LookupDb.from_dialogues(corpus))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no pipeline"),
        ({"api_call_model": "x"}, "--response-model"),
        ({"spec": "demo", "model": "x"}, "either a pipeline or models"),
    ],
)
def test_missing_parts_are_named(options, message):
    with pytest.raises(StageError, match=message):
        load_pipeline(**options)
