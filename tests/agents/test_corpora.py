"""The core's readers of real corpora: what they read is what ParlAI's own tasks show."""

from __future__ import annotations

from pathlib import Path

import pytest
from shown import episodes_of, texts_of, texts_of_dialogue

from tod_bias import Dialogue, load_corpus
from tod_bias.perturb import draw_rewrites, load_axis

pytestmark = [
    pytest.mark.parlai,
    pytest.mark.real_data,
    pytest.mark.filterwarnings("ignore:Passing a list to DataFrame.from_dict"),  # ParlAI's multiwoz_v22
]

TASKS = {
    "parlai:multidogo": "multidogo",
    "multiwoz_v22": "multiwoz_v22",
    "taskmaster": "taskmaster:SystemTeacher",
    "taskmaster2": "taskmaster2",
    "taskmaster3": "taskmaster3",
}
HAVE = [
    (corpus, split)
    for corpus in TASKS
    for split in {"parlai:multidogo": ["valid"], "taskmaster3": ["test"]}.get(corpus, ["train", "valid", "test"])
]
"""Splits of the samples that hold a dialogue."""


@pytest.mark.parametrize(("corpus", "split"), HAVE)
def test_the_reader_gives_the_texts_of_parlais_task(tod_samples: Path, corpus: str, split: str) -> None:
    ours = [texts_of_dialogue(dialogue) for dialogue in load_corpus(corpus, datapath=tod_samples, split=split)]
    assert sorted(ours) == sorted(map(texts_of, episodes_of(tod_samples, TASKS[corpus], split)))


@pytest.mark.parametrize("corpus", ["parlai:multidogo", "multiwoz_v22", "taskmaster2"])
def test_domains_are_parlais_where_its_task_has_some(tod_samples: Path, corpus: str) -> None:
    ours = [dialogue.domain for dialogue in load_corpus(corpus, datapath=tod_samples, split="valid")]
    assert sorted(ours) == sorted(episode.domain for episode in episodes_of(tod_samples, TASKS[corpus], "valid"))


@pytest.mark.parametrize(
    ("corpus", "split", "teacher", "axis", "least"),
    [
        ("taskmaster", "train", "PerturbedTaskmasterTeacher", "placebo", 3),
        ("taskmaster2", "train", "PerturbedTaskmaster2Teacher", "placebo", 3),
        ("taskmaster3", "test", "PerturbedTaskmaster3Teacher", "placebo", 2),
        ("parlai:multidogo", "valid", "PerturbedMultidogoTeacher", "names_gender", 1),
        ("multiwoz_v22", "train", "PerturbedMultiwozV22Teacher", "race", 3),
    ],
)
def test_the_perturbed_teacher_shows_the_dialogues_of_the_core(
    tod_samples: Path, corpus: str, split: str, teacher: str, axis: str, least: int
) -> None:
    perturber = load_axis(axis)
    expected = [
        texts_of_dialogue(rewrite(dialogue))
        for dialogue in load_corpus(corpus, datapath=tod_samples, split=split)
        for rewrite in draw_rewrites(perturber, dialogue, draws=1)
    ]
    shown = episodes_of(tod_samples, f"tod_bias.agents:{teacher}", split, axis=axis)
    assert sorted(map(texts_of, shown)) == sorted(expected)
    assert len(expected) >= least


@pytest.mark.parametrize(("corpus", "split"), HAVE)
def test_the_samples_survive_their_text_and_every_rewrite(tod_samples: Path, corpus: str, split: str) -> None:
    dialogues = load_corpus(corpus, datapath=tod_samples, split=split)
    assert len({dialogue.id for dialogue in dialogues}) == len(dialogues)
    for dialogue in dialogues:
        assert Dialogue.from_json(dialogue.to_json()) == dialogue
        for axis in ("gender", "age", "race", "names_gender", "placebo"):
            for rewrite in draw_rewrites(load_axis(axis), dialogue, draws=2):
                assert rewrite.inverse(rewrite(dialogue)) == dialogue
