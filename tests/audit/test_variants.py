"""The table of counterfactuals: a row for each, which its turns are joined to."""

import os

import pandas as pd
import pytest
from builders import numbered, small_corpus

from tod_bias import Pipeline, attribute
from tod_bias.audit.turns import Turns
from tod_bias.errors import TodBiasError
from tod_bias.metrics.choice import known_metric
from tod_bias.results import AuditResult, RunError

KEY = ["axis", "dialogue", "variant"]
METRICS = [known_metric("corpus_bleu")]


def answer(inputs):
    return [f"Fine, {item.user}" for item in inputs]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    options = {"axes": ["gender", "placebo"], "metrics": ["corpus_bleu"], "cluster": "domain", "bootstrap": 20}
    attribute(Pipeline({"answer": answer}), numbered(small_corpus()), permutations=50, **options).save(folder)
    return folder


def test_every_counterfactual_has_one_row_and_its_turns_do_not_repeat_it(run):
    turns, variants = (pd.read_parquet(run / f"{name}.parquet") for name in ("turns", "variants"))
    assert not variants.duplicated(KEY).any()
    assert set(map(tuple, turns[KEY].to_numpy())) == set(map(tuple, variants[KEY].to_numpy()))
    assert not {"source", "term", "clusters", "draw", "edits", "system_prompt"} & set(turns.columns)
    rewritten = variants[variants["role"] == "group"]
    assert all(len(terms) for column in ("terms", "source_terms") for terms in rewritten[column])
    assert rewritten["cluster domain"].notna().all()
    assert set(variants["role"]) == {"original", "group", "placebo"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows[rows["variant"] != rows["variant"].iloc[1]], "are not of one run"),
        (lambda rows: rows.assign(dialogue=rows["dialogue"] + "_"), "are not of one run"),
        (lambda rows: pd.concat([rows, rows.iloc[:1].assign(variant="gender:nobody")]), "are not of one run"),
        (lambda rows: pd.concat([rows, rows.iloc[:1]]), "a counterfactual is in it twice"),
        (lambda rows: rows.assign(terms=None), "a counterfactual has no terms"),
        (lambda rows: rows.assign(terms="[]"), "no column 'terms' of list"),
        (lambda rows: rows.drop(columns="draw"), "no column 'draw'"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_one_line(run, tmp_path, spoil, message):
    for name in ("results.json", "turns.parquet"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    spoil(pd.read_parquet(run / "variants.parquet")).to_parquet(tmp_path / "variants.parquet")
    with pytest.raises(RunError, match=message) as error:
        Turns.of(AuditResult.load(tmp_path)).sums("gender", METRICS)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("written", range(4))
def test_a_run_that_is_killed_while_it_is_saved_looks_unfinished(run, tmp_path, monkeypatch, written):
    result = AuditResult.load(run)
    result.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    replace = os.replace
    left = [written]

    def killed(*paths):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        replace(*paths)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        result.save(tmp_path)
    with pytest.raises(TodBiasError, match=r"holds no results\.json; the run did not finish"):
        AuditResult.load(tmp_path)
    monkeypatch.undo()
    result.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
