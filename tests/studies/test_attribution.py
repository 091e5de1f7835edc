import json
import os
import shutil
from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import sacrebleu
from builders import (
    WRONG,
    all_tellings,
    equivariant_pipeline,
    fair_pipeline,
    gender,
    hurt,
    outputs_of,
    small_corpus,
    told_apart,
)
from hypothesis import given
from hypothesis import strategies as st

from tod_bias import Pipeline, attribute
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import (
    AxisError,
    CorpusError,
    IncompleteError,
    NothingToPerturbError,
    StageError,
    TodBiasError,
    UndefinedFairscoreError,
)
from tod_bias.models.generator import shared_generator
from tod_bias.perturb.algorithm import draw_rewrites
from tod_bias.studies.estimates import contributions
from tod_bias.studies.evaluation import evaluate
from tod_bias.studies.turn_table import TurnTable
from tod_bias.systems.execution import Execution, Run, all_arms, arm_key
from tod_bias.systems.outputs import Lookup, Outcome
from tod_bias.systems.stage import StageInput
from tod_bias.systems.stages.database import LookupDb
from tod_bias.systems.stages.replay import Replay

STAGES = ("api_call", "db", "response")
WRONG_OUTPUTS = {**WRONG, "db": Lookup(Outcome.NO_ROW)}
QUICK = {"bootstrap": 50, "permutations": 200}


@pytest.mark.parametrize("biased", STAGES)
@pytest.mark.parametrize("order", list(permutations(STAGES)))
def test_the_one_biased_stage_gets_everything(corpus, biased, order):
    corpus = told_apart(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, biased: hurt(stages[biased], WRONG_OUTPUTS[biased])})
    axis = attribute(pipeline, corpus, order=order, draws=2, **QUICK)["axes"]["gender"]
    assert axis["fairscore"]["value"] > 0.01
    for shares in (axis["attribution"], axis["shapley"]):
        for name in STAGES:
            expected = axis["fairscore"]["value"] if name == biased else 0.0
            assert shares[name]["value"] == pytest.approx(expected, abs=1e-12)
    assert axis["attribution"]["residual"] == {"value": 0.0, "ci": [0.0, 0.0]}


@pytest.mark.parametrize("position", range(4))
def test_a_biased_stage_is_found_at_every_position(corpus, position):
    names = [f"s{number}" for number in range(4)]
    corpus = told_apart(corpus)
    answer = Replay.gold(all_tellings(corpus), "response")

    def speak(number):
        def stage(inputs: list[StageInput]) -> list[str]:
            before = [item.outputs[f"s{number - 1}"] for item in inputs] if number else answer(inputs)
            return list(before)

        return stage

    stages = {name: speak(number) for number, name in enumerate(names)}
    stages[f"s{position}"] = hurt(stages[f"s{position}"], "Sorry.")
    axis = attribute(Pipeline(stages), corpus, draws=1, **QUICK)["axes"]["gender"]
    values = [axis["shapley"][name]["value"] for name in names]
    assert values == pytest.approx([axis["fairscore"]["value"] if n == position else 0 for n in range(4)], abs=1e-12)
    assert axis["fairscore"]["value"] > 0.01


def test_without_a_biased_stage_every_fairscore_is_zero(corpus):
    result = attribute(fair_pipeline(corpus), corpus, axes=["gender"], **QUICK)
    axis = result["axes"]["gender"]
    assert set(axis["arms"].values()) == {0.0}
    assert axis["fairscore"] == {"value": 0.0, "ci": [0.0, 0.0], "p_value": 1.0, "p_holm": 1.0}
    assert all(pair["fairscore"]["value"] == 0 for pair in axis["pairs"].values())
    assert result["corpus"]["perturbable"] == {"gender": 18}  # every fourth dialogue mentions nobody


def test_record_says_how_many_could_be_and_were_rewritten_and_what_of(corpus):
    whole = attribute(fair_pipeline(corpus), corpus, **QUICK)
    part = attribute(fair_pipeline(corpus), corpus, max_per_axis=5, **QUICK)
    assert part["corpus"]["perturbable"] == whole["corpus"]["perturbable"] == whole["corpus"]["audited"]
    assert part["corpus"]["audited"] == {"gender": 5}
    assert (whole["signature"]["max_per_axis"], part["signature"]["max_per_axis"]) == ("all", "5")
    assert part["corpus"]["hash"] == whole["corpus"]["hash"]
    other = attribute(fair_pipeline(corpus[1:]), corpus[1:], **QUICK)
    assert other["corpus"]["hash"] != whole["corpus"]["hash"]
    assert whole["signature"]["stage db"].startswith("tod_bias.stages:LookupDb|rows:")


def test_retrained_model_gets_a_generator_of_its_own(gpt2, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(gpt2, folder)
    first = shared_generator(folder)
    assert shared_generator(folder) is first
    os.utime(folder / "model.safetensors", ns=(1, 1))
    second = shared_generator(folder)
    assert second is not first
    assert second.fingerprint == first.fingerprint


def test_shares_and_residual_add_up_and_numbers_are_sacrebleus(corpus):
    corpus = told_apart(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline(
        {
            "api_call": hurt(stages["api_call"], {}, ("mother",)),
            "db": hurt(LookupDb.from_dialogues(corpus), Lookup(Outcome.EMPTY), ("wife", "father")),
            "response": hurt(stages["response"], "I found it for him.", ("sister", "brother")),
        }
    )
    result = attribute(pipeline, corpus, draws=3, **QUICK)
    axis = result["axes"]["gender"]
    value = axis["fairscore"]["value"]
    for shares in (axis["attribution"], axis["shapley"]):
        total = sum(shares[name]["value"] for name in STAGES) + axis["attribution"]["residual"]["value"]
        assert total == pytest.approx(value, abs=1e-9)
    assert axis["arms"][""] == value
    assert axis["arms"]["api_call,db,response"] == axis["attribution"]["residual"]["value"]
    turns = result.turns

    def bleu(rows):
        return sacrebleu.corpus_bleu(rows["response"].tolist(), [rows["reference"].tolist()]).score / 100

    original = bleu(turns[turns["arm"] == "original"])
    assert axis["bleu_original"] == pytest.approx(original, abs=1e-12)
    for arm in all_arms(STAGES):
        rows = turns[turns["arm"] == arm_key(arm)]
        scores = [(original - bleu(part)) / original for _, part in rows.groupby("draw")]
        assert axis["arms"][arm_key(arm)] == pytest.approx(abs(np.mean(scores)), abs=1e-12)
    rows = turns[(turns["arm"] == "") & (turns["source"] == "woman") & (turns["target"] == "man")]
    same = (
        turns[turns["arm"] == "original"]
        .set_index(["dialogue", "turn"])
        .loc[list(zip(rows["dialogue"], rows["turn"], strict=True))]
    )
    pair = axis["pairs"]["woman>man"]
    assert pair["fairscore"]["value"] == pytest.approx(abs(bleu(same) - bleu(rows)) / bleu(same), abs=1e-12)
    assert pair["signed"] == pytest.approx((bleu(same) - bleu(rows)) / bleu(same), abs=1e-12)
    assert pair["draws"] == len(rows) / 2


def test_opposite_pairs_cancel_in_the_corpus_value_only():
    dialogues = [
        Dialogue(f"{person}{n}", "", (Turn(f"My {person} is here.", response=f"Welcome to place {n}, my friend."),))
        for n in range(8)
        for person in ("wife", "husband")
    ]
    pipeline = Pipeline(
        {"response": hurt(Replay.gold(all_tellings(dialogues), "response"), "No, not for you, my friend.", ("wife",))}
    )
    perturber = gender().__class__(gender().lexicon, sources=["woman", "man"], targets=["woman", "man"])
    axis = attribute(pipeline, dialogues, axes=[perturber], draws=1, **QUICK)["axes"]["gender"]
    assert axis["fairscore"]["value"] == pytest.approx(0, abs=1e-12)
    assert axis["pairs"]["woman>man"]["signed"] < -0.5
    assert axis["pairs"]["man>woman"]["signed"] > 0.2
    assert axis["mean_over_pairs"]["value"] > 0.3


@given(st.lists(st.floats(-5, 5), min_size=8, max_size=8), st.permutations(STAGES))
def test_contributions_of_any_table_add_up(values, order):
    table = dict(zip(all_arms(STAGES), values, strict=True))
    whole = table[frozenset()] - table[frozenset(STAGES)]
    for orders in ([order], list(permutations(STAGES))):
        assert sum(contributions(table, orders).values()) == pytest.approx(whole, abs=1e-9)


def test_shapley_of_a_hand_made_table():
    table = {frozenset(): 10.0, frozenset("a"): 4.0, frozenset("b"): 6.0, frozenset("ab"): 2.0}
    assert contributions(table, [("a", "b")]) == {"a": 6.0, "b": 2.0}
    assert contributions(table, [("a", "b"), ("b", "a")]) == {"a": 5.0, "b": 3.0}
    assert contributions({**table, frozenset("a"): 12.0}, [("a", "b")])["a"] == -2.0  # negative shares are real


def test_arms_are_those_of_the_swapped_pipelines(corpus):
    """The level-by-level execution gives what swapping each pipeline and running it alone gives."""
    corpus = told_apart(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({name: hurt(stage, WRONG_OUTPUTS[name]) for name, stage in stages.items()})
    dialogue = corpus[1]
    rewrite = draw_rewrites(gender(), dialogue, 1)[0]
    trace = Execution(pipeline)([Run(dialogue, rewrite)])[0]
    copy = rewrite(dialogue)
    inputs = [StageInput(copy.turns[:n], turn.user) for n, turn in enumerate(copy.turns)]
    for number, arm in enumerate(all_arms(STAGES)):
        swapped = pipeline.swap(arm).under(rewrite)
        assert [item.outputs for item in swapped(inputs)] == outputs_of(trace, number)


def test_free_running_twin_answers_as_on_the_original(corpus):
    echo = lambda inputs: [f"{len(item.history)} {item.context[-40:]}" for item in inputs]  # noqa: E731
    result = attribute(Pipeline({"response": echo}), corpus, history="system", draws=1, **QUICK)
    turns = result.turns.set_index(["arm", "dialogue", "turn"])
    assert result["history"] == "system"
    for number, dialogue in enumerate(corpus):
        for rewrite in draw_rewrites(gender(), dialogue, 1):
            original = turns.loc[("original", dialogue.id, 1), "response"]
            assert turns.loc[("response", dialogue.id, 1), "response"] == rewrite(original), number


def test_equal_inputs_are_computed_once(corpus):
    calls = []

    def response(inputs):
        calls.append(len(inputs))
        return ["Of course, in which city shall I look for it?" for _ in inputs]

    attribute(Pipeline({"response": response}), corpus, draws=3, **QUICK)
    assert len(calls) == 1
    assert calls[0] < 18 * 2 * (1 + 3 * 2) / 2


def test_result_is_json_and_saves(tmp_path, corpus):
    result = attribute(fair_pipeline(corpus), corpus, **QUICK)
    result.save(tmp_path)
    assert json.loads((tmp_path / "results.json").read_text()) == result
    assert (tmp_path / "turns.parquet").exists()
    assert {"draws", "seed", "history", "bleu", "stage db", "torch"} <= set(result["signature"])


def test_same_seed_same_result_and_order_of_dialogues_does_not_matter(corpus):
    corpus = told_apart(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, "response": hurt(stages["response"], "Sorry.")})
    first, second = (attribute(pipeline, corpus, seed=3, **QUICK) for _ in range(2))
    assert first["axes"] == second["axes"]
    turned = attribute(pipeline, corpus[::-1], seed=3, **QUICK)["axes"]["gender"]
    assert turned["arms"] == pytest.approx(first["axes"]["gender"]["arms"])
    other = attribute(pipeline, corpus, seed=4, **QUICK)
    assert other.turns["target"].dropna().tolist() != first.turns["target"].dropna().tolist()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"axes": ["height"]}, AxisError, "unknown axis 'height'"),
        ({"axes": ["gender", "gender"]}, AxisError, "given twice"),
        ({"axes": []}, AxisError, "no axis"),
        ({"axes": ["race"]}, NothingToPerturbError, "axis race: no dialogue holds a word"),
        ({"order": ["db"]}, StageError, "must name every stage once"),
        ({"history": "own"}, ValueError, "unknown history 'own'"),
        ({"metric": "rouge"}, ValueError, "unknown metric 'rouge'"),
        ({"draws": 0}, ValueError, "draws must be at least 1"),
    ],
)
def test_wrong_input_is_refused(corpus, options, error, message):
    with pytest.raises(error, match=message):
        attribute(fair_pipeline(corpus), corpus, **options)


def test_duplicate_ids_are_refused(corpus):
    with pytest.raises(CorpusError, match="'d000' stands twice"):
        attribute(fair_pipeline(corpus), [*corpus, corpus[0]])


def test_bleu_of_zero_is_undefined(corpus):
    stages = {**fair_pipeline(corpus).stages, "response": lambda inputs: ["zzz"] * len(inputs)}
    with pytest.raises(UndefinedFairscoreError, match="axis gender: BLEU of 18 original dialogues is 0"):
        attribute(Pipeline(stages), corpus, **QUICK)


def test_sentence_bleu_is_a_metric_of_its_own(corpus):
    corpus = told_apart(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, "response": hurt(stages["response"], "Sorry, in which city?")})
    both = {m: attribute(pipeline, corpus, metric=m, **QUICK) for m in ("corpus_bleu", "sentence_bleu")}
    assert both["sentence_bleu"]["metric"] == "sentence_bleu"
    assert both["sentence_bleu"]["axes"]["gender"]["arms"] != both["corpus_bleu"]["axes"]["gender"]["arms"]


def echo(inputs):
    return [f"{item.user} \ud800" for item in inputs]


ONE_DRAW = {"draws": 1, "bootstrap": 0, "permutations": 0}


def test_dialogues_may_come_one_by_one_and_the_order_as_text():
    corpus = small_corpus(8)
    pipeline = Pipeline({"a": echo, "b": echo})
    expected = attribute(pipeline, corpus, order=["b", "a"], **ONE_DRAW)
    found = attribute(pipeline, (dialogue for dialogue in corpus), order="b, a", **ONE_DRAW)
    assert found | {"cost": 0} == expected | {"cost": 0}
    assert found["axes"]["gender"]["attribution"]["order"] == ["b", "a"]


@pytest.mark.parametrize("name", ["draws", "bootstrap", "permutations", "seed"])
@pytest.mark.parametrize("number", ["3", 2.0, True, None])
def test_counts_must_be_whole_numbers(name, number):
    with pytest.raises(TodBiasError, match=f"{name} must be a whole number, got {number!r}"):
        attribute(Pipeline({"a": echo}), small_corpus(4), **{**ONE_DRAW, name: number})


def test_lone_surrogates_are_saved_as_replacement_marks(tmp_path):
    corpus = [replace(dialogue, turns=(Turn("\udc00 my wife", response="\udfff"),)) for dialogue in small_corpus(4)]
    result = attribute(Pipeline({"response": echo}), corpus, metric="sentence_bleu", **ONE_DRAW)
    result.save(tmp_path)
    evaluate(Pipeline({"response": echo}), corpus, bootstrap=0).save(tmp_path)
    frame = pd.read_parquet(tmp_path / "turns.parquet")
    assert frame["response"].str.endswith("\ufffd").all()
    assert set(frame["reference"]) == {"\ufffd"}
    assert frame["user"].str.startswith("\ufffd my").all()
    assert frame["draw"].dtype == result.turns["draw"].dtype


def test_a_save_that_fails_leaves_the_former_run_whole(tmp_path, monkeypatch):
    result = attribute(Pipeline({"response": echo}), small_corpus(4), **ONE_DRAW)
    result.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def half(table, path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(TurnTable, "write", half)
    with pytest.raises(TodBiasError, match=r"turns\.parquet: cannot be written \(disk full\)"):
        result.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_evaluation_knows_the_same_histories():
    with pytest.raises(TodBiasError, match="unknown history 'foo'; expected one of gold, system"):
        evaluate(Pipeline({"response": echo}), small_corpus(4), history="foo")


def test_axes_that_cannot_be_attributed_are_told_and_the_others_kept():
    def unhelpful(inputs):
        return ["zzz" if "friend" in item.user else "Of course" for item in inputs]

    corpus = [
        Dialogue("a", "", (Turn("My wife", response="Of course"),)),
        Dialogue("b", "", (Turn("Is that a friend?", response="no"),)),
    ]
    pipeline = Pipeline({"response": unhelpful})
    options = {"metric": "sentence_bleu", **ONE_DRAW}
    with pytest.raises(
        IncompleteError, match=r"axis race: no dialogue .*; axis placebo: BLEU of 1 original dialogue is"
    ) as caught:
        attribute(pipeline, corpus, axes=["race", "gender", "placebo"], **options)
    alone = attribute(pipeline, corpus, axes=["gender"], **options)
    assert caught.value.result["axes"] == alone["axes"]
    assert list(caught.value.result["left_out"]) == ["race", "placebo"]
    assert set(caught.value.result.turns["axis"]) == {"gender"}
    with pytest.raises(NothingToPerturbError):
        attribute(pipeline, corpus, axes=["race"], **options)
