"""A result in a notebook: what it shows, and its scores as Fairlearn's MetricFrame."""

import json
import re
import sys

import pytest
from builders import hurt

from tod_bias import AuditResult, Dialogue, Pipeline, Turn, attribute, load_corpus
from tod_bias.audit.evaluation import evaluate
from tod_bias.metrics.responses import Length
from tod_bias.report.answer import what_happens
from tod_bias.report.terminal import evaluation_table
from tod_bias.results import RunError
from tod_bias.stages import Tools
from tod_bias.systems.flow import tool_loop


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A run of which nothing but its folder is left."""
    people, ages = ("wife", "husband", "sister", "brother"), ("elderly", "young", "adult")
    said = [f"My {people[n % 4]} wants room {n} for {ages[n % 3]} guests." for n in range(24)]
    dialogues = [Dialogue(text, "Rooms", (Turn(text, response=f"Fine: {text}"),)) for text in said]
    harmed = hurt(lambda inputs: [f"Fine: {item.user}" for item in inputs], "Sorry.", ("wife", "sister", "elderly"))
    pipeline = Pipeline({"response": harmed})
    folder = tmp_path_factory.mktemp("run")
    metrics = ["corpus_bleu", "length"]
    attribute(pipeline, dialogues, axes=["gender", "age"], metrics=metrics, bootstrap=0, permutations=0).save(folder)
    return AuditResult.load(folder)


@pytest.mark.parametrize("axis", ["gender", "age"])
@pytest.mark.parametrize("metric", ["corpus_bleu", "length"])
def test_a_metric_frame_has_the_scores_of_the_groups(result, axis, metric):
    """BLEU is of a corpus, length a mean; some dialogues are of a group already, and are not rewritten for it."""
    frame = result.metric_frame(axis, metric)
    scores = {name: group.score.value for name, group in result.axes[axis][metric].groups.items()}
    assert frame.by_group[metric].to_dict() == pytest.approx(scores, rel=1e-9)
    assert frame.difference()[metric] == pytest.approx(max(scores.values()) - min(scores.values()), rel=1e-9)
    assert frame.ratio()[metric] == pytest.approx(min(scores.values()) / max(scores.values()), rel=1e-9)
    assert min(scores.values()) < frame.overall[metric] < max(scores.values())


def test_a_frame_takes_a_metric_of_the_users_and_refuses_what_was_not_measured(result, monkeypatch):
    assert result.metric_frame("gender", Length()).by_group.equals(result.metric_frame("gender", "length").by_group)
    with pytest.raises(RunError, match="gender, corpus_bleu; gender, length; age, corpus_bleu"):
        result.metric_frame("race", "corpus_bleu")
    with pytest.raises(RunError, match="by my_metrics:Polite that"):
        result.metric_frame("gender", "my_metrics:Polite")
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", None)
    monkeypatch.delitem(sys.modules, "tod_bias.metrics.metric_frame", raising=False)
    with pytest.raises(RunError, match="pip install fairlearn"):
        result.metric_frame("gender", "corpus_bleu")


def test_a_notebook_shows_every_axis_in_words_and_its_groups(make_record):
    record = make_record(axes=("gender", "age", "placebo"), metrics=("corpus_bleu", "refusal"))
    text = json.dumps(record).replace('"age"', '"<script>"')
    result = AuditResult.model_validate_json(text)
    shown = result._repr_html_()
    (found,) = (finding for finding in result.findings if finding.is_difference)
    (seen,) = (finding for finding in result.findings if finding.verdict == "inconclusive")
    assert f"<strong>gender: served worse as {found.group}.</strong>" in shown
    assert what_happens(found, result) in shown
    assert f"<code>{found.stage}</code>" in shown
    assert "<script" not in shown
    assert f"<strong>&lt;script&gt;: not proven; seen: as {seen.group}.</strong>" in shown
    assert what_happens(seen, result) in shown
    assert "style" not in shown
    assert re.findall("<td>([^<]*)</td>", shown) == ["woman", "man", "non-binary", "child", "young", "senior"]
    assert re.findall('"finding">([^<]*)</td>', shown) == ["", "", "served worse", "", "", ""]


def test_a_notebook_shows_an_evaluation_and_the_tools_that_a_model_made_up():
    tools = {"policy": lambda inputs: [None if item.steps else {"api_name": "<b>search"} for item in inputs]}
    tools |= {"tools": Tools({"find": lambda: None}), "answer": lambda inputs: ["Yes."] * len(inputs)}
    result = evaluate(Pipeline(tools, flow=tool_loop), load_corpus("demo", max_dialogues=3), metrics="length")
    (number,) = result.cost.outcomes["tools"].values()
    shown = result._repr_html_()
    assert shown.startswith("<p>3 dialogues, ")
    assert "<td>length</td>\n      <td>1.0000</td>\n      <td>[1.0000, 1.0000]</td>" in shown
    cells = [*evaluation_table(result).columns[0].cells]
    assert str(cells[-1]) == f"tools: unknown function in {number} (<b>search {number})"
