"""Corpora that are read through ParlAI's own teachers: ``parlai:TASK``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from made_corpora import COUNT, write_metalwoz, write_msr_e2e, write_multidogo

from tod_bias import Dialogue, Turn, load_corpus
from tod_bias.dialogues.parlai import PREFIX
from tod_bias.errors import CorpusError
from tod_bias.perturb import draw_rewrites, load_axis

pytestmark = pytest.mark.parlai

SPLITS = ("train", "valid", "test")
WRITERS: dict[str, Callable[[Path], Path]] = {
    "metalwoz": write_metalwoz,
    "msr_e2e": write_msr_e2e,
    "multidogo": write_multidogo,
}


def everything(corpus: str, datapath: Path) -> list[Dialogue]:
    """The dialogues of all splits."""
    return [one for split in SPLITS for one in load_corpus(corpus, datapath=datapath, split=split)]


def test_metalwoz_tells_the_bot_its_role(tmp_path: Path) -> None:
    found = {dialogue.id: dialogue for dialogue in everything("parlai:metalwoz", write_metalwoz(tmp_path))}
    assert found["ski_bot-0x"] == Dialogue(
        "ski_bot-0x",
        "SKI_BOT",
        (Turn("", response="Hello how may I help you?"), Turn("A bus for my mother", response="She can take the 5")),
        "You are bot 0. Be kind to the user and his wife.",
    )
    assert len(found["ski_bot-4x"].turns) == 3
    assert {found[name].system for name in ("ski_bot-2x", "ski_bot-2x-2")} == {
        "You are bot 2. Be kind to the user and his wife.",
        "You are another bot.",
    }
    assert "ski_bot-3x" not in found  # of no known task


def test_multidogo_calls_hold_the_domain_and_the_customers_slots(tmp_path: Path) -> None:
    read = load_corpus("parlai:multidogo", datapath=write_multidogo(tmp_path), split="valid")
    spoken = [dialogue.turns for dialogue in read if dialogue.domain == "media"]
    api = {"api_name": "media"}
    assert (
        Turn.with_call("Good morning", api, {}, "Hello! How can I help you, madam?"),
        Turn.with_call(
            "My mother, Ann Lee, needs a seat\n2 seats",
            {**api, "first_name": "ann", "last_name": "lee", "count": "2"},
            {},
            "A seat for her.\nWhich one?",
        ),
        Turn.with_call("9Cor 9D", {**api, "seat": "9d"}, {}, ""),
    ) in spoken
    assert (
        Turn.with_call("__SILENCE__", api, {}, "Hello, sir."),
        Turn.with_call("bye", api, {}, "Bye, sir."),
    ) in spoken
    assert (Turn.with_call("my wife", api),) in spoken
    assert len(spoken) == 3


def test_msr_e2e_calls_gather_slots_and_stand_with_results(tmp_path: Path) -> None:
    read = everything("parlai:msr_e2e", write_msr_e2e(tmp_path))
    spoken = [dialogue.turns for dialogue in read]
    gathered = {"api_name": "movie", "numberofpeople": "2", "moviename": "Up", "city": "Seattle = home"}
    assert (
        Turn.with_call("I and my wife want to see Up", {}, {}, "Which city?"),
        Turn.with_call(
            "Seattle = home\ntonight",
            {**gathered, "date": "tonight"},
            {"api_name": "movie", "theater": "Regal#AMC", "starttime": "9pm", "price": "{$5#$6}"},
            'At "Regal" or AMC?\nBoth at 9',
        ),
        Turn("thank you, sir"),
    ) in spoken
    opened = Turn.with_call("__SILENCE__", {}, {"api_name": "taxi", "greeting": "hello"}, "Hello")
    assert any(turns[0] == opened for turns in spoken)
    assert (Turn.with_call("__SILENCE__", {}, {}, "Anybody\tthere?\nMy husband?"),) in spoken
    assert len(read) == 3 * COUNT


@pytest.mark.parametrize("task", WRITERS)
def test_ids_are_unique_and_the_same_whatever_order_files_have(tmp_path: Path, task: str) -> None:
    WRITERS[task](tmp_path)
    for split in SPLITS:
        read = load_corpus(PREFIX + task, datapath=tmp_path, split=split)
        assert len({dialogue.id for dialogue in read}) == len(read)
        assert [one.domain for one in read] == sorted(one.domain for one in read)


@pytest.mark.parametrize("task", WRITERS)
def test_dialogues_survive_their_texts_and_every_rewrite(tmp_path: Path, task: str) -> None:
    axes = [load_axis(axis) for axis in ("gender", "names_gender", "placebo")]
    rewritten = 0
    for dialogue in everything(PREFIX + task, WRITERS[task](tmp_path))[:60]:
        assert Dialogue.from_json(dialogue.to_json()) == dialogue
        for axis in axes:
            for rewrite in draw_rewrites(axis, dialogue, draws=1):
                assert rewrite.inverse(rewrite(dialogue)) == dialogue
                rewritten += rewrite(dialogue) != dialogue
    assert rewritten > 5


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore:Passing a list to DataFrame.from_dict")  # ParlAI's multiwoz_v22
@pytest.mark.parametrize(
    ("task", "split"), [("multidogo", "valid"), ("multiwoz_v22", "train"), ("taskmaster2", "train")]
)
def test_real_samples_are_read(tod_samples: Path, task: str, split: str) -> None:
    dialogues = load_corpus(PREFIX + task, datapath=tod_samples, split=split)
    assert any(turn.calls for dialogue in dialogues for turn in dialogue.turns)
    if task != "multidogo":
        own = load_corpus(task, datapath=tod_samples, split=split)
        texts = [[(turn.user, turn.response) for turn in one.turns] for one in dialogues]
        assert sorted(texts) == sorted([(turn.user, turn.response) for turn in one.turns] for one in own)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("nobodys", r"ParlAI has no task 'nobodys'"),
        ("squad.agents:Teacher", r"ParlAI has no task"),
        ("squad", r"not a task-oriented task of ParlAI"),
        ("google_sgd", r"cannot read it in .*the corpus is not there, or of another version"),
    ],
)
def test_a_task_that_cannot_be_read_is_one_line(tmp_path: Path, task: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        load_corpus(PREFIX + task, datapath=tmp_path)
    assert "\n" not in str(caught.value)


def test_a_datapath_is_needed() -> None:
    with pytest.raises(CorpusError, match="expected --datapath"):
        load_corpus("parlai:msr_e2e")


def test_a_missing_parlai_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CorpusError, match="ParlAI is not installed"):
        load_corpus("parlai:msr_e2e", datapath=tmp_path)
