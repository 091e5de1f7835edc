from collections.abc import Sequence

import pytest
from builders import gender, small_corpus

from tod_bias import Dialogue, Pipeline, StageInput, Turn, Twin
from tod_bias.errors import StageError
from tod_bias.perturb import draw_rewrites
from tod_bias.stages import LookupDb, Outcome, Replay
from tod_bias.testing import StageContract, inputs_of


def shout(inputs: Sequence[StageInput]) -> list[str]:
    return [item.user.upper() for item in inputs]


def rewritten_input():
    dialogue = small_corpus()[1]
    rewrite = draw_rewrites(gender(), dialogue, 1)[0]
    copy = rewrite(dialogue)
    return dialogue, rewrite, StageInput(copy.turns[:1], copy.turns[1].user)


def test_twin_rewrites_what_the_stage_says_to_the_original():
    dialogue, rewrite, item = rewritten_input()
    echo = lambda inputs: [item.history[0].user for item in inputs]  # noqa: E731
    assert echo([item]) == [rewrite(dialogue).turns[0].user]
    seen = []

    def spy(inputs):
        seen.extend(inputs)
        return echo(inputs)

    assert Twin(spy).under(rewrite)([item]) == [rewrite(dialogue.turns[0].user)]
    assert seen == [StageInput(dialogue.turns[:1], dialogue.turns[1].user)]


def test_pipeline_hands_outputs_on_and_swap_leaves_the_original_alone():
    pipeline = Pipeline({"first": shout, "second": lambda inputs: [item.outputs["first"] + "!" for item in inputs]})
    item = StageInput((), "hello")
    assert pipeline([item])[0].outputs == {"first": "HELLO", "second": "HELLO!"}
    swapped = pipeline.swap(["second"])
    assert isinstance(swapped.stages["second"], Twin)
    assert swapped.stages["first"] is pipeline.stages["first"]
    assert pipeline.swap([]).stages == pipeline.stages
    assert item.outputs == {}
    assert swapped([item])[0].outputs == {"first": "HELLO", "second": "HELLO!"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pipeline({}), "at least one stage"),
        (lambda: Pipeline({"residual": shout}), "stage name 'residual': is taken by a column of the results"),
        (lambda: Pipeline({"a": 3}), "stage 'a': expected a callable, got int"),
        (lambda: Pipeline({"a,b": shout}), "without a comma"),
        (lambda: Pipeline({"a": shout}).swap(["b"]), "no stage 'b' in this pipeline; it has a"),
        (lambda: Pipeline({"a": shout}, concurrency={"b": 2}), "concurrency of 'b': no such stage"),
        (lambda: Pipeline({"a": shout}, concurrency={"a": 0}), "concurrency of 'a': .* above 0, got 0"),
        (lambda: Pipeline({"a": shout}, flow="tool_loop"), "flow: expected a generator function of the turn, got str"),
    ],
)
def test_broken_pipelines_say_what_is_wrong(make, message):
    with pytest.raises(StageError, match=message):
        make()


class TestLookupKeepsTheContract(StageContract):
    @pytest.fixture
    def stage(self):
        return LookupDb.from_dialogues(small_corpus())

    @pytest.fixture
    def inputs(self):
        return inputs_of(small_corpus(4))


TABLE = {
    (("api_name", "Find"), ("city", "Davis")): ({"name": "A"}, {"name": "B"}),
    (("api_name", "Find"), ("city", "Fremont")): (),
}


@pytest.mark.parametrize(
    ("call", "outcome"),
    [
        ("city = Davis ; api_name = Find", Outcome.ROWS),
        ("api_name = Find ; city = Fremont", Outcome.EMPTY),
        ("api_name = Find ; city = Oakland", Outcome.NO_ROW),
        ("find Davis", Outcome.MALFORMED),
        ("", Outcome.NO_CALL),
    ],
)
def test_lookup_tells_its_outcomes_apart(tmp_path, call, outcome):
    LookupDb(TABLE).save(tmp_path / "db.jsonl")
    for database in (LookupDb(TABLE), LookupDb(tmp_path / "db.jsonl")):
        inputs = [StageInput((), "hello", {"api_call": call}), StageInput((), "hello", {}, argument=call)]
        for found in database(inputs):
            assert (found.outcome, found.result) == (outcome, {"name": "A"} if outcome is Outcome.ROWS else {})


def test_lookup_counts_calls_with_conflicting_results():
    dialogues = small_corpus(40)
    database = LookupDb.from_dialogues(dialogues)
    calls = {tuple(sorted(turn.api_call.items())) for d in dialogues for turn in d.turns if turn.api_call}
    assert len(database) == len(calls)
    assert database.conflicts > 0  # the same call names other places there


@pytest.mark.parametrize("line", ["{", '{"call": {}}', '{"call": 3, "results": []}'])
def test_broken_database_names_file_and_line(tmp_path, line):
    (tmp_path / "db.jsonl").write_text('{"call": {"a": "b"}, "results": []}\n' + line)
    with pytest.raises(StageError, match=r"db\.jsonl, line 2: expected"):
        LookupDb(tmp_path / "db.jsonl")


def test_replay_refuses_what_it_has_not_seen():
    replay = Replay.gold(small_corpus(2), "response")
    with pytest.raises(StageError, match="nothing was recorded for the context that ends in 'Hi'"):
        replay([StageInput((), "Hi")])
    assert Replay({}, missing="")([StageInput((), "Hi")]) == [""]


def test_gold_results_need_no_call():
    turns = (
        Turn.with_call("Hi", {}, {}, "Yes?"),
        Turn.with_call("So?", {}, {"name": "Nico"}, "Nico."),
        Turn.with_call("And?", {"city": "Oslo"}, {}, "No."),
    )
    replay = Replay.gold([Dialogue("d", "", turns)], "api_result")
    found = replay([StageInput(turns[:number], turn.user) for number, turn in enumerate(turns)])
    assert [(one.outcome, one.result) for one in found] == [
        (Outcome.NO_CALL, {}), (Outcome.ROWS, {"name": "Nico"}), (Outcome.EMPTY, {}),
    ]  # fmt: skip
