"""Taskmaster-2 in ParlAI's layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tod_bias import Turn, load_corpus
from tod_bias.dialogues.taskmaster import DOMAINS
from tod_bias.errors import CorpusError


def said(speaker: str, text: str, **segments: str) -> dict[str, Any]:
    found = [{"text": value, "annotations": [{"name": name.replace("__", ".")}]} for name, value in segments.items()]
    return {"speaker": speaker, "text": text, **({"segments": found} if found else {})}


UTTERANCES = [
    said("ASSISTANT", "Hello, how about jazz?", music__genre="jazz"),
    said("USER", "No."),
    said("USER", "My mom likes rock.", music__genre="rock"),
    said("ASSISTANT", "Which song?"),
    said("USER", "Hey Jude.", music__name__track="Hey Jude"),
    said("ASSISTANT", "Playing it", music__name__track="Hey Jude"),
    said("ASSISTANT", "by the Beatles.", music__name__artist="the Beatles"),
    said("USER", "Now a film.", film__genre="any"),
    said("ASSISTANT", "In which city?", film__city="which"),
    said("USER", "Bye."),
]


def write(datapath: Path, count: int = 1, domain: str = "music", utterances: Any = UTTERANCES) -> Path:
    folder = datapath / "taskmaster-2"
    folder.mkdir()
    for name in DOMAINS:
        (folder / f"{name}.json").write_text("[]")
    rows = [{"conversation_id": f"dlg-{number}", "utterances": utterances} for number in range(count)]
    (folder / f"{domain}.json").write_text(json.dumps(rows))
    return datapath


def test_turns_gather_utterances_and_calls_gather_slots(tmp_path: Path) -> None:
    (dialogue,) = load_corpus("taskmaster2", datapath=write(tmp_path), split="test")
    assert (dialogue.id, dialogue.domain) == ("dlg-0", "music")
    track = {"api_name": "music", "genre": "rock", "name.track": "Hey Jude"}
    assert dialogue.turns == (
        Turn.with_call("", {}, {"api_name": "music", "genre": "jazz"}, "Hello, how about jazz?"),
        Turn.with_call("No.\nMy mom likes rock.", {}, {}, "Which song?"),
        Turn.with_call(
            "Hey Jude.",
            track,
            {"api_name": "music", "name.track": "Hey Jude", "name.artist": "the Beatles"},
            "Playing it\nby the Beatles.",
        ),
        Turn.with_call(
            "Now a film.", {"api_name": "film", "genre": "any"}, {"api_name": "film", "city": "which"}, "In which city?"
        ),
        Turn.with_call("Bye.", {}, {}, ""),
    )


def test_splits_are_80_10_and_10_percent_and_share_nothing(tmp_path: Path) -> None:
    write(tmp_path, count=25)
    splits = [load_corpus("taskmaster2", datapath=tmp_path, split=split) for split in ("train", "valid", "test")]
    assert [len(dialogues) for dialogues in splits] == [16, 2, 7]
    assert len({dialogue.id for dialogues in splits for dialogue in dialogues}) == 25


@pytest.mark.parametrize(
    ("utterances", "message"),
    [
        (
            [{"speaker": "USER"}],
            "music.json, dialogue 'dlg-0': not in Taskmaster-2's format: utterance 1: has no",
        ),
        ([said("BOT", "Hi")], "unknown speaker 'BOT'"),
        ("text", "not in Taskmaster-2's format"),
    ],
)
def test_another_format_names_file_and_dialogue(tmp_path: Path, utterances: Any, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as error:
        load_corpus("taskmaster2", datapath=write(tmp_path, utterances=utterances))
    assert "\n" not in str(error.value)


def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="'taskmaster2' needs --datapath, a folder that holds taskmaster-2/"):
        load_corpus("taskmaster2")
    with pytest.raises(CorpusError, match="taskmaster-2: no such folder"):
        load_corpus("taskmaster2", datapath=tmp_path)
    write(tmp_path)
    (tmp_path / "taskmaster-2" / "sports.json").unlink()
    with pytest.raises(CorpusError, match=r"sports\.json: cannot be read as JSON"):
        load_corpus("taskmaster2", datapath=tmp_path)
