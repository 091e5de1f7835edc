"""Systems that cannot be run again: their responses to the counterfactuals, from files."""

import functools
import json

import pytest
from assistant import TOOLS, assistant, corpus
from chat_server import ChatServer
from commands import run_command

from tod_bias import Pipeline, attribute
from tod_bias.audit.design import export_counterfactuals
from tod_bias.dialogues.chat import dialogue_of, write_chat
from tod_bias.errors import StageError, TodBiasError
from tod_bias.report.circumstances import circumstances
from tod_bias.stages import Answer, ToolCalls, Tools
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import tool_loop
from tod_bias.systems.saved_responses import SavedResponses

OPTIONS = {"axes": ("gender", "placebo"), "bootstrap": 50, "permutations": 500}
METRICS = ("corpus_bleu", "slot_f1", "call_disagreement")


def served(url):
    given = {"model": "m", "base_url": url, "tools": TOOLS, "concurrency": 8}
    tools = Tools("assistant", TOOLS)
    return Pipeline({"policy": ToolCalls(**given), "tools": tools, "answer": Answer(**given)}, flow=tool_loop)


def responses_of(system, records):
    """What another program would do: run the system on each variant, and write what it said."""
    lines = []
    for record in records:
        dialogue = dialogue_of({key: record[key] for key in ("id", "turns", "messages") if key in record})
        (trace,) = Execution(system)([Run(dialogue)])
        for turn, (course,) in enumerate(trace):
            steps = [{"call": dict(s.argument), "results": list(s.output)} for s in course.calls if s.argument]
            line = {"id": record["original"], "turn": turn, "variant": record["variant"], "response": course.response}
            lines.append(line | ({"steps": steps} if steps else {}))
    return lines


def fair_responses():
    """Responses of a fair assistant to all counterfactuals."""
    with ChatServer(assistant) as server:
        return responses_of(served(server.url), export_counterfactuals(corpus(16), ["gender"]))


def saved(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return SavedResponses(path)


def test_saved_responses_give_the_disparity_and_no_attribution(tmp_path):
    with ChatServer(functools.partial(assistant, policy_bias=True)) as server:
        system = served(server.url)
        online = attribute(system, corpus(16), metrics=METRICS, **OPTIONS)
        lines = responses_of(system, export_counterfactuals(corpus(16), OPTIONS["axes"]))
    result = attribute(saved(tmp_path / "a.jsonl", lines), corpus(16), metrics=METRICS, **OPTIONS)
    for axis in OPTIONS["axes"]:
        for metric in METRICS:
            one, other = online.axes[axis][metric], result.axes[axis][metric]
            assert other.contributions == {} == other.interactions
            assert other.su is None
            for key in ("original", "rewritten", "disparity", "artefact", "verdict", "terms"):
                assert getattr(other, key) == getattr(one, key), (axis, metric, key)
            for name, group in one.groups.items():
                rest = other.groups[name].unattributed
                assert other.groups[name].gap == group.gap
                assert rest.value == pytest.approx(group.gap.value, abs=1e-9)
            assert other.unattributed.value == pytest.approx(other.disparity.value, abs=1e-9)
    assert result.is_recorded
    assert not online.is_recorded


def test_responses_that_belong_to_nothing_are_named(tmp_path):
    chats = corpus(16)
    records = list(export_counterfactuals(chats, ("gender",)))
    lines = [
        {"id": record["original"], "turn": turn, "variant": record["variant"], "response": "Done."}
        for record in records
        for turn in range(len(dialogue_of({key: record[key] for key in ("id", "turns") if key in record}).turns))
    ]
    clean = attribute(saved(tmp_path / "a.jsonl", lines), chats, axes=("gender",), bootstrap=20)
    assert (clean.responses.number, clean.responses.unused) == (len(lines), {})
    assert not any("not used" in sentence for sentence in circumstances(clean))
    other_variant = next(record["variant"] for record in records if record["variant"] != "original")
    own = next(r for r in records if r["original"] == records[0]["original"] and r["variant"] != "original")
    other = next(t for t in ("gender:man", "gender:woman") if (own["original"], t) not in
                 {(r["original"], r["variant"]) for r in records})  # fmt: skip
    odd = [
        lines[0] | {"id": "t0O0"},
        lines[0] | {"id": "t0O1"},
        lines[0] | {"variant": other_variant.upper()},
        lines[0] | {"id": own["original"], "variant": other},
        lines[0] | {"turn": 99},
    ]
    result = attribute(saved(tmp_path / "b.jsonl", [*lines, *odd]), chats, axes=("gender",), bootstrap=20)
    assert result.axes == clean.axes
    assert result.responses.number == len(lines) + 5
    assert result.responses.unused == {
        "dialogue": {"number": 2, "first": "'t0O0'"},
        "variant": {"number": 1, "first": repr(other_variant.upper())},
        "pair": {"number": 1, "first": f"{own['original']!r} as {other!r}"},
        "turn": {"number": 1, "first": f"turn 99 of {lines[0]['id']!r} as 'original'"},
    }
    (sentence,) = (one for one in circumstances(result) if "not used" in one)
    assert f"5 of {len(lines) + 5}" in sentence


def test_the_command_writes_counterfactuals_and_reads_responses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_chat(corpus(16), "chats.jsonl")
    assert run_command("export --corpus chats.jsonl --axes gender,placebo --chat --out out")[0] == 0
    records = [json.loads(line) for line in (tmp_path / "out" / "counterfactuals.jsonl").read_text().splitlines()]
    first = records[:5]
    assert [record["variant"] for record in first] == [
        "original", "gender:man", "gender:non-binary", "placebo:gender", "original",
    ]  # fmt: skip
    assert first[1]["id"] == "t000#gender:man"
    facts = {key: first[1][key] for key in ("original", "axis", "source", "target", "terms")}
    assert facts == {
        "original": "t000", "axis": "gender", "source": "woman", "target": "man", "terms": ["husband"],
    }  # fmt: skip
    with ChatServer(functools.partial(assistant, answer_bias=True)) as server:
        saved(tmp_path / "answers.jsonl", responses_of(served(server.url), records))
    command = "attribute --corpus chats.jsonl --axes gender,placebo --bootstrap 50 --responses answers.jsonl"
    code, out, _ = run_command(command, "--out", "run")
    assert code == 0
    text = " ".join(out.split())
    assert "othing is attributed" in text
    assert "woman" in text
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "othing is attributed" in page
    code, _, err = run_command(command, "--design", "draws", "--seed", "3", "--out", "other")
    assert (code, "turns lack a response" in err) == (2, True)


LINE = {"id": "t", "turn": 0, "variant": "original", "response": "Hi."}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: "),
        (json.dumps(LINE | {"answer": "x"}), "unknown field 'answer'"),
        (json.dumps(LINE | {"turn": "0"}), "'turn' must be a number from 0"),
        (json.dumps(LINE | {"response": None}), "'response' must be a text"),
        (json.dumps(LINE | {"steps": [{"results": []}]}), "field 'call' must map"),
        (json.dumps(LINE) + "\n" + json.dumps(LINE | {"id": "t#original"}), "line 2: turn 0 of 't' as 'original'"),
        (json.dumps({"id": "t#original", "original": "t", "messages": []}), "this is a counterfactual"),
        ("", "holds no response"),
    ],
)  # fmt: skip
def test_responses_that_cannot_be_read(tmp_path, line, said):
    (tmp_path / "a.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(StageError, match=said) as error:
        SavedResponses(tmp_path / "a.jsonl")
    assert "\n" not in str(error.value)


def test_responses_to_other_dialogues_are_named_by_their_ids(tmp_path):
    with pytest.raises(
        StageError, match="no response has the id of a dialogue; the responses have 't' …, the corpus has 't000'"
    ):
        attribute(saved(tmp_path / "a.jsonl", [LINE]), corpus(4), axes=("gender",), metrics=("disagreement",))


def test_a_dialogue_without_all_responses_is_left_out(tmp_path):
    lines = fair_responses()
    some = [line for line in lines if (line["id"], line["variant"], line["turn"]) != ("t003", "gender:man", 1)]
    options = {"axes": ("gender",), "bootstrap": 0}
    result = attribute(saved(tmp_path / "a.jsonl", some), corpus(16), max_failures=0.1, **options)
    lost = result.corpus.lost
    assert (lost.dialogues, lost.variants) == (1, {"gender: man": 1})
    with pytest.raises(StageError, match=r"the first: dialogue 't003', turn 1, variant 'gender:man'"):
        attribute(saved(tmp_path / "a.jsonl", some), corpus(16), **options)


def test_a_call_that_one_group_never_gets_is_a_disagreement(tmp_path):
    lines = fair_responses()
    for line in lines:
        if line["variant"] == "gender:woman":
            line.pop("steps", None)
    result = attribute(
        saved(tmp_path / "a.jsonl", lines), corpus(16), axes=("gender",), metrics=("call_disagreement",), bootstrap=0
    )
    assert result.axes["gender"]["call_disagreement"].disparity.value > 0.1


def test_responses_to_other_words_are_refused(tmp_path):
    records, lines = list(export_counterfactuals(corpus(16), ["gender"])), fair_responses()
    said = {(record["original"], record["variant"]): record["turns"] for record in records}
    for line in lines:
        line["user"] = said[line["id"], line["variant"]][line["turn"]]["user"]
    attribute(saved(tmp_path / "a.jsonl", lines), corpus(16), axes=("gender",), bootstrap=0)
    lines[-1]["user"] += "!"
    with pytest.raises(StageError, match=r"turn 1 of 't015' as 'gender:.*' is a response to .*, but here it is"):
        attribute(saved(tmp_path / "a.jsonl", lines), corpus(16), axes=("gender",), bootstrap=0)


def test_saved_responses_are_no_stage(tmp_path):
    responses = saved(tmp_path / "a.jsonl", [LINE])
    with pytest.raises(StageError, match="stage 'agent': SavedResponses are a whole system and no stage") as error:
        Pipeline({"agent": responses})
    assert "\n" not in str(error.value)


def test_saved_responses_have_nothing_to_spread_over_workers(tmp_path):
    with pytest.raises(TodBiasError, match="executor 'ray' is for stages in Python"):
        attribute(saved(tmp_path / "a.jsonl", [LINE]), corpus(4), axes=("gender",), executor="ray")
