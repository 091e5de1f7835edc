"""Corpora that are not here, or hardly: what the core reads of made files is what ParlAI's own tasks show of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from made_corpora import (
    write_metalwoz,
    write_msr_e2e,
    write_multidogo,
    write_taskmaster,
    write_taskmaster3,
)
from shown import (
    episodes_of,
    messages_of,
    messages_of_dialogues,
    teacher_of,
    texts_of,
    texts_of_dialogue,
)

from tod_bias import load_corpus
from tod_bias.errors import CorpusError, NothingToPerturbError
from tod_bias.perturb import draw_rewrites, load_axis

pytestmark = pytest.mark.parlai

SPLITS = ("train", "valid", "test")
WRITERS: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "parlai:msr_e2e": (write_msr_e2e, "msr_e2e", "PerturbedMsrE2eTeacher"),
    "parlai:multidogo": (write_multidogo, "multidogo", "PerturbedMultidogoTeacher"),
    "taskmaster": (write_taskmaster, "taskmaster:SystemTeacher", "PerturbedTaskmasterTeacher"),
    "taskmaster3": (write_taskmaster3, "taskmaster3", "PerturbedTaskmaster3Teacher"),
}
"""Corpus to what writes it, ParlAI's task, and our teacher."""


def written(datapath: Path, corpus: str) -> Path:
    return WRITERS[corpus][0](datapath)


@pytest.mark.parametrize("corpus", WRITERS)
def test_turns_calls_splits_and_order_are_parlais(tmp_path: Path, corpus: str) -> None:
    written(tmp_path, corpus)
    ours = {split: load_corpus(corpus, datapath=tmp_path, split=split) for split in SPLITS}
    for split, dialogues in ours.items():
        episodes = episodes_of(tmp_path, WRITERS[corpus][1], split)
        ours_shown, shown = list(map(texts_of_dialogue, dialogues)), list(map(texts_of, episodes))
        in_order = not corpus.startswith("parlai:")  # which are ordered by their texts
        assert (ours_shown == shown) if in_order else (sorted(ours_shown) == sorted(shown))
        if any(episode.domain for episode in episodes):
            assert Counter(one.domain for one in dialogues) == Counter(one.domain for one in episodes)
    ids = [dialogue.id for dialogues in ours.values() for dialogue in dialogues]
    assert len(set(ids)) == len(ids)


def test_metalwoz_messages_and_splits_are_parlais(tmp_path: Path) -> None:
    write_metalwoz(tmp_path)
    for split in SPLITS:
        ours = messages_of_dialogues(load_corpus("parlai:metalwoz", datapath=tmp_path, split=split))
        assert sorted(ours) == sorted(messages_of(teacher_of(tmp_path, "metalwoz", split)))


@pytest.mark.parametrize("corpus", WRITERS)
def test_perturbed_teachers_show_the_dialogues_of_the_core(tmp_path: Path, corpus: str) -> None:
    perturber, split = load_axis("gender"), "valid"
    dialogues = load_corpus(corpus, datapath=written(tmp_path, corpus), split=split)
    expected = [
        (dialogue.id, texts_of_dialogue(rewrite(dialogue)))
        for dialogue in dialogues
        for rewrite in draw_rewrites(perturber, dialogue, draws=1)
    ]
    episodes = episodes_of(tmp_path, f"tod_bias.agents:{WRITERS[corpus][2]}", split)
    assert [(episode.extras["dialogue_id"], texts_of(episode)) for episode in episodes] == sorted(expected)
    assert len(expected) > 1


def test_the_perturbed_metalwoz_shows_the_dialogues_of_the_core(tmp_path: Path) -> None:
    perturber, split = load_axis("gender", targets=["man"]), "valid"
    dialogues = load_corpus("parlai:metalwoz", datapath=write_metalwoz(tmp_path), split=split)
    rewritten = [
        rewrite(dialogue)
        for dialogue in sorted(dialogues, key=lambda dialogue: dialogue.id)
        for rewrite in draw_rewrites(perturber, dialogue, draws=1)
    ]
    teacher = teacher_of(tmp_path, "tod_bias.agents:PerturbedMetalwozTeacher", split, target="man")
    assert messages_of(teacher) == messages_of_dialogues(rewritten)
    assert len(rewritten) > 1
    first = next(iter(teacher_of(tmp_path, "tod_bias.agents:PerturbedMetalwozTeacher", split, target="man")))
    assert (first["dialogue_id"], first["target"], first["source"]) == (rewritten[0].id, "man", "woman")
    assert "his wife" in first["bot_role"]  # what the bot was told stays
    assert "your father" in first["user_role"]


@pytest.mark.parametrize(
    ("corpus", "option", "domains"),
    [("parlai:msr_e2e", "msre2e_domains", ["taxi", "movie"]), ("parlai:multidogo", "multidogo_domains", ["media"])],
)
def test_domains_are_chosen_by_the_tasks_own_option(
    tmp_path: Path, corpus: str, option: str, domains: list[str]
) -> None:
    written(tmp_path, corpus)
    episodes = episodes_of(
        tmp_path, f"tod_bias.agents:{WRITERS[corpus][2]}", "valid", axis="gender", **{option: domains}
    )
    assert {episode.domain for episode in episodes} == set(domains)
    known = {dialogue.id: dialogue.domain for dialogue in load_corpus(corpus, datapath=tmp_path, split="valid")}
    assert all(known[episode.extras["dialogue_id"]] == episode.domain for episode in episodes)


@pytest.mark.parametrize(
    ("teacher", "writer", "file", "message"),
    [
        ("PerturbedTaskmasterTeacher", write_taskmaster, "taskmaster-1/woz-dialogs.json", "cannot be read as JSON"),
        ("PerturbedMsrE2eTeacher", write_msr_e2e, "msr_e2e/taxi_all.tsv", "cannot read it"),
        ("PerturbedMetalwozTeacher", write_metalwoz, "metalwoz/train/tasks.txt", "cannot read it"),
    ],
)
def test_a_damaged_file_ends_a_teacher_in_one_line(
    tmp_path: Path, teacher: str, writer: Callable[[Path], Path], file: str, message: str
) -> None:
    (writer(tmp_path) / file).write_text("")
    with pytest.raises(CorpusError, match=message) as caught:
        teacher_of(tmp_path, f"tod_bias.agents:{teacher}", "valid")
    assert "\n" not in str(caught.value)
    assert Path(file).parts[0] in str(caught.value)


@pytest.mark.parametrize("teacher", ["PerturbedMetalwozTeacher", "PerturbedMsrE2eTeacher"])
def test_nothing_to_rewrite_is_said(tmp_path: Path, teacher: str) -> None:
    write_metalwoz(tmp_path)
    write_msr_e2e(tmp_path)
    with pytest.raises(NothingToPerturbError, match="has a word to rewrite on axis 'age'"):
        teacher_of(tmp_path, f"tod_bias.agents:{teacher}", "valid", axis="age", source="senior")
