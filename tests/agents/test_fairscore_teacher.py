"""Teachers that report bias: their numbers are those of attribute."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import parlai.core.teachers
import pytest
from builders import small_corpus
from made_corpora import write_msr_e2e, write_multidogo
from parlai.core.metrics import aggregate_unnamed_reports
from parlai.core.opt import Opt
from sgd_files import write_sgd, write_strict_pipeline
from shown import files_left_open, teacher_of

from tod_bias import attribute, load_corpus, load_pipeline
from tod_bias.agents import FairscoreGoogleSgdTeacher, fairscore_teacher, teacher_pipeline
from tod_bias.audit.checks import why_noise
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import AxisError, NothingToPerturbError, TodBiasError
from tod_bias.metrics.choice import metric

pytestmark = pytest.mark.parlai

TASK = "tod_bias.agents:FairscoreGoogleSgdTeacher"
METRICS = ("corpus_bleu", "jga", "slot_f1")
FULL = {"bias_report": "full"}


def people() -> list[Dialogue]:
    """A corpus whose responses mention people too; some dialogues mention nobody.

    No two turns have one history and one utterance: what was found says which dialogue it is of.
    """
    dialogues = []
    for number, dialogue in enumerate(small_corpus(24)):
        person = dialogue.turns[0].user.split()[1] if number % 4 else "guest"
        first, last = dialogue.turns
        said = replace(last, response=f"{last.response} Your {person} will like it.")
        company = " My brother and I are with them." if number % 5 == 0 else ""
        first = replace(first, user=f"{first.user}{company} That is {number} guests at a large table.")
        dialogues.append(replace(dialogue, turns=(first, said)))
    return dialogues


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sgd(tmp_path_factory.mktemp("people"), people())


def evaluate(datapath: Path, agent: str = "", task: str = TASK, **options: Any) -> dict[str, Any]:
    """ParlAI's report, in its own metric classes."""
    from parlai.scripts.eval_model import EvalModel

    usual = {"task": task, "datapath": str(datapath), "datatype": "valid", "loglevel": "error"}
    usual |= {"model": f"unfair_agents:{agent}"} | (FULL if "Fairscore" in task else {})
    return dict(EvalModel.main(**{**usual, **options}))


def numbers(report: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in report.items()}


def expected(
    datapath: Path, system: Any, axis: str, *, corpus: str = "google_sgd", split: str = "valid", **options: Any
) -> dict[str, float]:
    """What ``attribute`` says of the same agent, or of a pipeline, under the names of the report."""
    dialogues = load_corpus(corpus, datapath=datapath, split=split)
    if isinstance(system, str):
        system = teacher_pipeline(f"unfair_agents:{system}", dialogues, [axis], **options)
    result = attribute(system, dialogues, [axis], metrics=METRICS, permutations=0, **options)
    numbers_of: dict[str, float] = {}
    for name, row in result.axes[axis].items():
        numbers_of[f"{name}/disparity"] = row.disparity.value
        numbers_of[f"{name}/score"] = row.original.value
        numbers_of[f"{name}/score_rewritten"] = row.rewritten.value
        if row.su is not None:
            numbers_of[f"{name}/fairscore"] = row.su.fairscore.value
            numbers_of |= dict(zip((f"{name}/ci_from", f"{name}/ci_to"), row.su.fairscore.ci, strict=True))
        numbers_of |= {f"{name}/{group}/gap": of_group.gap.value for group, of_group in row.groups.items()}
        if row.dialogues == result.corpus.audited[axis] and row.covers_all_dialogues:
            numbers_of |= {f"{name}/{group}/score": of_group.score.value for group, of_group in row.groups.items()}
    return numbers_of


def common(report: Mapping[str, float], wanted: Mapping[str, float]) -> dict[str, float]:
    """What ``attribute`` says of the report; its scores are of shared dialogues, and a single group has no gap."""
    assert {name.rpartition("/")[2] for name in report.keys() - wanted.keys()} <= {"gap", "score"}
    return {name: report[name] for name in wanted}


def bias_of(report: Mapping[str, Any]) -> dict[str, float]:
    kinds = ("fairscore", "disparity", "score", "score_rewritten", "gap", "ci_from", "ci_to")
    return {name: value for name, value in numbers(report).items() if name.rpartition("/")[2] in kinds}


@pytest.mark.parametrize(
    ("agent", "batchsize"), [("FairAgent", 16), ("EchoingAgent", 16), ("UnfairAgent", 1), ("UnfairAgent", 16)]
)
def test_numbers_are_those_of_attribute(spoken, agent, batchsize):
    report = bias_of(evaluate(spoken, agent, axis="gender", batchsize=batchsize))
    wanted = expected(spoken, agent, "gender")
    assert common(report, wanted) == pytest.approx(wanted, abs=1e-9)
    if agent == "UnfairAgent":
        assert report["corpus_bleu/disparity"] != pytest.approx(0, abs=0.01)
        assert report["corpus_bleu/woman/gap"] > 0.1
        assert report["jga/woman/gap"] > 0.1
    else:
        assert report["corpus_bleu/disparity"] == report["jga/disparity"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("axis", "options"),
    [
        ("persona_gender", {"seed": 3}),
        ("persona_race", {"variants": 2}),
        ("gender", {"design": "draws", "draws": 4, "seed": 1}),
        ("gender", {"max_per_axis": 7}),
        ("placebo", {}),
        ("gender×persona_race", {"variants": 3, "max_per_axis": 6}),
    ],
)
def test_numbers_are_those_of_attribute_in_every_design(spoken, axis, options):
    report = bias_of(evaluate(spoken, "UnfairAgent", axis=axis, batchsize=5, **options))
    wanted = expected(spoken, "UnfairAgent", axis, **options)
    assert common(report, wanted) == pytest.approx(wanted, abs=1e-9)


def test_workers_reports_add_up(spoken, monkeypatch):
    """ParlAI deals out episodes to workers one by one, so that a dialogue's variants are with several of them."""
    workers = 3
    whole = numbers(evaluate(spoken, "UnfairAgent", axis="gender", batchsize=4))
    reports = []
    for rank in range(workers):
        with monkeypatch.context() as patched:
            patched.setattr(parlai.core.teachers, "is_distributed", lambda: True)
            patched.setattr(parlai.core.teachers, "num_workers", lambda: workers)
            patched.setattr(parlai.core.teachers, "get_rank", lambda rank=rank: rank)
            report = evaluate(spoken, "UnfairAgent", axis="gender", batchsize=3)
        reports.append(pickle.loads(pickle.dumps(report)))  # as ParlAI sends them to each other
    for order in (reports, reports[::-1]):
        together = numbers(aggregate_unnamed_reports(order))
        assert together == pytest.approx(whole, abs=1e-9, nan_ok=True)
    assert bias_of(reports[0]) != pytest.approx(bias_of(whole), abs=1e-3)


@pytest.mark.parametrize("axis", ["gender", "persona_gender"])
def test_parlais_own_metrics_are_those_of_the_stock_teacher(spoken, axis):
    stock = numbers(evaluate(spoken, "UnfairAgent", task="google_sgd"))
    report = numbers(evaluate(spoken, "UnfairAgent", axis=axis, batchsize=16, api_jga_record=True))
    assert {name: report[name] for name in stock} == pytest.approx(stock, nan_ok=True)
    added = set(report) - set(stock) - set(bias_of(report))
    assert added == {"rewritten_dialogues", "variants"}
    count = report["rewritten_dialogues"]
    assert count == (
        24 if axis == "persona_gender" else sum("I want" not in dialogue.turns[0].user for dialogue in people()) + 2
    )


def test_dialogues_that_cannot_be_rewritten_may_be_left_out(spoken):
    report = numbers(evaluate(spoken, "UnfairAgent", axis="gender", unperturbed="drop"))
    assert report["exs"] == 7 * report["rewritten_dialogues"] < 7 * 24
    assert bias_of(report) == pytest.approx(bias_of(evaluate(spoken, "UnfairAgent", axis="gender")), abs=1e-12)


CURT_STAGES = """
def call(inputs):
    return [{"api_name": "Find", "for": item.user[:20]} for item in inputs]

def db(inputs):
    return [{} for _ in inputs]

def response(inputs):
    return ["Sorry." if any(w in item.context for w in ("wife", "sister")) else "Of course, in which city shall I look?"
            for item in inputs]
"""


def test_a_pipeline_is_measured_as_attribute_measures_it(spoken, tmp_path, monkeypatch):
    pipeline = str(write_strict_pipeline(tmp_path, "curt_stages", CURT_STAGES))
    monkeypatch.syspath_prepend(tmp_path)
    shown = {"model": "tod_bias.agents:PipelineAgent", "pipeline": pipeline, "axis": "gender", "batchsize": 16}
    report = bias_of(evaluate(spoken, **shown))
    assert report["corpus_bleu/woman/gap"] > 0.1
    wanted = expected(spoken, load_pipeline(pipeline), "gender")
    assert common(report, wanted) == pytest.approx(wanted, abs=1e-9)


SHORT = ["ci_from", "ci_to", "fairscore", "score", "gap"]


@pytest.mark.parametrize("axis", ["gender", "persona_race"])
def test_the_short_table_fits_a_terminal(spoken, axis, monkeypatch):
    from parlai.utils.misc import nice_report

    monkeypatch.setenv("PARLAI_FORCE_WIDTH", "80")
    report = evaluate(spoken, "UnfairAgent", axis=axis, batchsize=16, bias_report="short")
    head, *rows = nice_report(report).splitlines()
    assert sorted(head.split()) == sorted(SHORT)
    groups = [row.split()[0] for row in rows]
    assert groups[0] == "corpus_bleu"
    assert "corpus_bleu/" + ("woman" if axis == "gender" else "pacific-islander") in groups
    assert max(map(len, [head, *rows])) <= 80
    whole = numbers(evaluate(spoken, "UnfairAgent", axis=axis, batchsize=16))
    assert numbers(report) == {name: whole[name] for name in numbers(report)}
    assert whole["corpus_bleu/ci_from"] <= whole["corpus_bleu/fairscore"] <= whole["corpus_bleu/ci_to"]
    if axis == "gender":
        assert 0 < whole["corpus_bleu/ci_from"] < whole["corpus_bleu/ci_to"]


def test_a_score_close_to_0_is_warned_of_once(spoken, monkeypatch):
    warned: list[str] = []
    monkeypatch.setattr(fairscore_teacher.parlai_logging, "warning", warned.append)
    evaluate(spoken, "UnfairAgent", axis="gender")
    assert not warned
    report = numbers(evaluate(spoken, axis="gender", model="fixed_response", fixed_response="SYSTEM:"))
    assert warned == [why_noise(metric("corpus_bleu"), 0.0)]
    assert warned[0].startswith("BLEU of the originals is 0.000, close to 0")
    assert math.isnan(report["corpus_bleu/fairscore"])
    assert (report["corpus_bleu/disparity"], report["corpus_bleu/score"]) == (0, 0)


def test_few_shots_are_whole_dialogues(spoken):
    teacher = teacher_of(spoken, task=TASK, axis="gender", n_shot=5)
    shown = [(message["dialogue_id"], message["variant"]) for message in teacher if message["turn"] < 0]
    assert sum(variant == "original" for _, variant in shown) == 5
    assert len(shown) == len(teacher.episodes) > 5


def test_messages_name_their_variant(spoken):
    messages = list(teacher_of(spoken, task=TASK, axis="gender"))
    of_dialogue = [message for message in messages if message["dialogue_id"] == "d001"]
    assert [message["variant"] for message in of_dialogue[::7]] == ["original", "gender:man", "gender:non-binary"]
    assert [message["text"] for message in of_dialogue[1::7]] == [
        f"USER: My {person} wants noodles tonight, can you help? That is 1 guests at a large table."
        for person in ("mother", "father", "parent")
    ]
    assert [message["turn"] for message in of_dialogue[:7]] == [-1, 0, 0, 1, 1, 2, 2]
    assert ("target" in of_dialogue[0], of_dialogue[7]["target"]) == (False, "man")


def test_scores_are_chosen_by_name(spoken):
    report = bias_of(evaluate(spoken, "UnfairAgent", axis="gender", bias_metrics="jga,length"))
    assert {"jga/disparity", "jga/woman/score", "length/disparity", "length/fairscore"} < set(report)
    assert "jga/fairscore" not in report  # of shares, not of a ratio
    assert report["length/woman/score"] < report["length/man/score"]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"axis": "height"}, AxisError, "unknown axis 'height'"),
        ({"axis": "race"}, NothingToPerturbError, "google_sgd, valid: none of 24 dialogues has a word to rewrite"),
        ({"bias_metrics": "charm"}, TodBiasError, "unknown metric 'charm'"),
        ({"bias_metrics": "disagreement"}, TodBiasError, "disagreement cannot be computed from one output"),
        ({"variants": 0}, TodBiasError, "variants must be at least 1, got 0"),
        ({"design": "draws", "draws": 0}, TodBiasError, "draws must be at least 1"),
        ({"max_per_axis": 0}, TodBiasError, "max_per_axis"),
    ],
)
def test_wrong_input_is_one_clear_error(spoken, options, error, said):
    with pytest.raises(error, match=said) as caught:
        teacher_of(spoken, task=TASK, **options)
    assert "\n" not in str(caught.value)


def test_examples_are_not_counted_off(spoken):
    from parlai.scripts.display_data import DisplayData

    with pytest.raises(TodBiasError, match="num-examples is 10: some dialogues would lack counterfactuals"):
        evaluate(spoken, "FairAgent", axis="gender", num_examples=10)
    with pytest.raises(TodBiasError, match="validation-max-exs is 20: some dialogues"):  # an option of trainings
        FairscoreGoogleSgdTeacher(Opt({**teacher_of(spoken, task=TASK).opt, "validation_max_exs": 20}))
    DisplayData.main(task=TASK, datapath=str(spoken), datatype="valid", axis="gender", loglevel="error")  # ten of them


@pytest.mark.parametrize("axis", ["gender", "persona_gender"])
def test_texts_that_a_task_s_options_change_are_rewritten(spoken, axis):
    said: dict[tuple[str, int], dict[str, int]] = {}
    for message in teacher_of(spoken, task=TASK, axis=axis, delex=True):
        if message["type"] == "SYSTEM: ":
            of_turn = said.setdefault((message["dialogue_id"], message["turn"]), {})
            of_turn[message["variant"]] = message["eval_labels"][0].count("[")
    assert max(map(len, said.values())) > 2
    assert all(len(set(places.values())) == 1 for places in said.values())
    assert any(places["original"] > 0 for places in said.values())


def test_a_turn_in_which_only_the_call_is_rewritten_counts(tmp_path):
    """Nothing before its turn is rewritten: its context is that of the original."""
    dialogues = []
    for number, dialogue in enumerate(small_corpus(12)):
        first, last = dialogue.turns
        call = {**last.api_call, "guest": ("sister", "brother")[number % 2]}
        result = {**last.api_result, "guest": call["guest"]}
        last = Turn.with_call(last.user, call, result, f"{last.response} For your {call['guest']}.")
        dialogues.append(replace(dialogue, turns=(replace(first, user=f"I want {number} meals, can you help?"), last)))
    datapath = write_sgd(tmp_path, dialogues)
    report = bias_of(evaluate(datapath, axis="gender", model="repeat_query"))
    corpus = load_corpus("google_sgd", datapath=datapath, split="valid")
    system = teacher_pipeline("repeat_query", corpus, ["gender"])
    record = attribute(system, corpus, ["gender"], bootstrap=0, permutations=0).axes["gender"]["corpus_bleu"]
    assert report["corpus_bleu/score"] == pytest.approx(record.original.value, abs=1e-9)
    assert report["corpus_bleu/disparity"] == pytest.approx(record.disparity.value, abs=1e-9)


def check_task(datapath: Path, corpus: str, task: str, split: str, agent: str) -> dict[str, float]:
    """See to it that the teacher's numbers are those of ``attribute``; returns the whole report."""
    datatype = f"{split}:evalmode" if split == "train" else split
    with files_left_open():
        options = {"axis": "persona_race", "batchsize": 4, "datatype": datatype}
        report = evaluate(datapath, agent, task=f"tod_bias.agents:{task}", **options)
    of_core = expected(datapath, agent, "persona_race", corpus=corpus, split=split)
    assert common(bias_of(report), of_core) == pytest.approx(of_core, abs=1e-9)
    return numbers(report)


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:Passing a list to DataFrame.from_dict")  # ParlAI's multiwoz_v22
@pytest.mark.parametrize(
    ("corpus", "task", "split"),
    [
        ("taskmaster", "FairscoreTaskmasterTeacher", "train"),
        ("taskmaster2", "FairscoreTaskmaster2Teacher", "train"),
        ("taskmaster3", "FairscoreTaskmaster3Teacher", "test"),
        ("multiwoz_v22", "FairscoreMultiwozV22Teacher", "train"),
    ],
)
def test_other_corpora_are_audited_too(tod_samples, corpus, task, split):
    agent = "HeedfulAgent" if corpus == "taskmaster" else "FickleAgent"  # some of its results belong to no call
    report = check_task(tod_samples, corpus, task, split, agent)
    assert report["variants"] > 2 * report["rewritten_dialogues"] > 8
    assert report["corpus_bleu/disparity"] != 0


@pytest.mark.parametrize(
    ("corpus", "task", "write"),
    [
        ("parlai:multidogo", "FairscoreMultidogoTeacher", write_multidogo),
        ("parlai:msr_e2e", "FairscoreMsrE2eTeacher", write_msr_e2e),
    ],
)
def test_made_corpora_are_audited_too(tmp_path, corpus, task, write):
    check_task(write(tmp_path), corpus, task, "train", "FickleAgent")
