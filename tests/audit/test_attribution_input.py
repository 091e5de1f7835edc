from dataclasses import replace

import pandas as pd
import pytest
from builders import fair_pipeline, small_corpus

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.audit.evaluation import evaluate
from tod_bias.audit.turns import Turns
from tod_bias.errors import AxisError, CorpusError, IncompleteError, NothingToPerturbError, StageError, TodBiasError


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"axes": ["height"]}, AxisError, "unknown axis 'height'"),
        ({"axes": []}, AxisError, "no axis"),
        ({"axes": ["race"]}, NothingToPerturbError, "axis race: no dialogue holds a word"),
        ({"order": ["db"]}, StageError, "must name every stage once"),
        ({"history": "own"}, ValueError, "history must be 'gold' or 'system'"),
        ({"metrics": "rouge"}, ValueError, "unknown metric 'rouge'"),
        ({"metrics": ["jga", "jga"]}, ValueError, "'jga' is given twice"),
        ({"metrics": []}, ValueError, "no metric"),
        ({"design": "square"}, ValueError, "design must be 'crossed' or 'draws'"),
        ({"margin": 0}, ValueError, "margin must be above 0, got 0"),
        ({"cluster": "city"}, ValueError, "unknown cluster 'city'; expected domain, module:function"),
        ({"draws": 0}, ValueError, "draws must be at least 1"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"bootstrap": 10**9}, ValueError, "bootstrap must be at most"),
    ],
)
def test_wrong_input_is_refused(corpus, options, error, message):
    with pytest.raises(error, match=message):
        attribute(**{"pipeline": fair_pipeline(corpus), "dialogues": corpus} | options)


def test_duplicate_ids_are_refused(corpus):
    with pytest.raises(CorpusError, match="'d000' is repeated"):
        attribute(fair_pipeline(corpus), [*corpus, corpus[0]])


def echo(inputs):
    return [f"{item.user} \ud800" for item in inputs]


ONE_DRAW = {"design": "draws", "draws": 1, "bootstrap": 0, "permutations": 0}


def test_dialogues_may_come_one_by_one_and_the_order_as_text():
    corpus = small_corpus(8)
    pipeline = Pipeline({"a": echo, "b": echo})
    expected = attribute(pipeline, corpus, order=["b", "a"], metrics="corpus_bleu", **ONE_DRAW)
    found = attribute(pipeline, (dialogue for dialogue in corpus), order="b, a", metrics="corpus_bleu", **ONE_DRAW)
    assert found.axes == expected.axes
    assert found.axes["gender"]["corpus_bleu"].su.attribution["order"] == ["b", "a"]


def test_lone_surrogates_are_saved_as_replacement_marks(tmp_path):
    corpus = [replace(dialogue, turns=(Turn("\udc00 my wife", response="\udfff"),)) for dialogue in small_corpus(4)]
    result = attribute(Pipeline({"response": echo}), corpus, metrics="sentence_bleu", **ONE_DRAW)
    result.save(tmp_path)
    evaluate(Pipeline({"response": echo}), corpus, bootstrap=0).save(tmp_path)
    frame = pd.read_parquet(tmp_path / "turns.parquet")
    assert frame["response"].str.endswith("\ufffd").all()
    assert set(frame["reference"]) == {"\ufffd"}
    assert frame["user"].str.startswith("\ufffd my").all()
    assert frame["sample"].dtype == result.turns["sample"].dtype


def test_lone_surrogates_in_the_names_of_dialogues_are_replaced_too(tmp_path):
    corpus = [replace(one, id=f"\udce9{number}", domain="\ud800") for number, one in enumerate(small_corpus(4))]
    assert corpus[1].id == "\ufffd1"
    result = attribute(Pipeline({"response": echo}), corpus, axes="persona_gender", **ONE_DRAW)
    result.save(tmp_path)
    assert set(pd.read_parquet(tmp_path / "turns.parquet")["dialogue"]) == {f"\ufffd{number}" for number in range(4)}


def test_a_save_that_fails_leaves_the_former_run_whole(tmp_path, monkeypatch):
    result = attribute(Pipeline({"response": echo}), small_corpus(4), **ONE_DRAW)
    result.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def half(table, path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Turns, "write", half)
    with pytest.raises(TodBiasError, match=r"turns\.parquet: cannot be written \(disk full\)"):
        result.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_axes_that_cannot_be_attributed_are_named_and_the_others_are_in_the_result():
    def unhelpful(inputs):
        return ["zzz" if "Asian" in item.user else "Of course" for item in inputs]

    corpus = [
        Dialogue("a", "", (Turn("My wife", response="Of course"),)),
        Dialogue("b", "", (Turn("Is that Asian food?", response="no"),)),
    ]
    pipeline = Pipeline({"response": unhelpful})
    options = {"metrics": "sentence_bleu", **ONE_DRAW}
    with pytest.raises(IncompleteError, match=r"axis age: no dialogue holds a word") as caught:
        attribute(pipeline, corpus, axes=["age", "gender"], **options)
    alone = attribute(pipeline, corpus, axes=["gender"], **options)
    assert caught.value.result.axes == alone.axes
    assert list(caught.value.result.left_out) == ["age"]
    assert set(caught.value.result.turns["axis"]) == {"gender"}
    with pytest.raises(NothingToPerturbError):
        attribute(pipeline, corpus, axes=["age"], **options)
