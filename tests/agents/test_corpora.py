"""Corpora of real samples and of made files: what the core reads of them is what ParlAI's own tasks show."""

from collections import Counter
from pathlib import Path

import pytest
from made_corpora import write_metalwoz, write_msr_e2e, write_multidogo, write_taskmaster, write_taskmaster3
from shown import episodes_of, messages_of, messages_of_dialogues, teacher_of, texts_of, texts_of_dialogue

from tod_bias import Dialogue, load_corpus
from tod_bias.errors import CorpusError
from tod_bias.perturb import draw_rewrites, load_axis

pytestmark = [
    pytest.mark.parlai,
    pytest.mark.filterwarnings("ignore:Passing a list to DataFrame.from_dict"),  # ParlAI's multiwoz_v22
]

SPLITS = ("train", "valid", "test")
TASKS = {
    "parlai:msr_e2e": ("msr_e2e", "PerturbedMsrE2eTeacher"),
    "parlai:multidogo": ("multidogo", "PerturbedMultidogoTeacher"),
    "multiwoz_v22": ("multiwoz_v22", "PerturbedMultiwozV22Teacher"),
    "taskmaster": ("taskmaster:SystemTeacher", "PerturbedTaskmasterTeacher"),
    "taskmaster2": ("taskmaster2", "PerturbedTaskmaster2Teacher"),
    "taskmaster3": ("taskmaster3", "PerturbedTaskmaster3Teacher"),
}
"""Corpus to ParlAI's task, and our teacher."""
WRITERS = {
    "parlai:msr_e2e": write_msr_e2e,
    "parlai:multidogo": write_multidogo,
    "taskmaster": write_taskmaster,
    "taskmaster3": write_taskmaster3,
}
SAMPLES = {
    "parlai:multidogo": (["valid"], "names_gender", 1),
    "multiwoz_v22": (SPLITS, "race", 3),
    "taskmaster": (SPLITS, "placebo", 3),
    "taskmaster2": (SPLITS, "placebo", 3),
    "taskmaster3": (["test"], "placebo", 2),
}
"""Corpus to the splits of its sample that hold a dialogue, an axis, and how many rewrites it has at least."""
made = pytest.mark.parametrize("corpus", WRITERS)
sampled = pytest.mark.parametrize("corpus", [pytest.param(corpus, marks=pytest.mark.real_data) for corpus in SAMPLES])


def check_reader(corpus, folder, splits, *, is_ordered):
    """Check texts and domains of all dialogues; return their ids."""
    ids = []
    for split in splits:
        dialogues = load_corpus(corpus, datapath=folder, split=split)
        episodes = episodes_of(folder, TASKS[corpus][0], split)
        ours, shown = list(map(texts_of_dialogue, dialogues)), list(map(texts_of, episodes))
        assert (ours == shown) if is_ordered else (sorted(ours) == sorted(shown))
        if any(episode.domain for episode in episodes):
            assert Counter(one.domain for one in dialogues) == Counter(one.domain for one in episodes)
        ids.append([dialogue.id for dialogue in dialogues])
    return ids


@made
def test_turns_calls_splits_and_order_are_parlais(tmp_path, corpus):
    is_ordered = not corpus.startswith("parlai:")  # which are ordered by their texts
    ids = [one for of in check_reader(corpus, WRITERS[corpus](tmp_path), SPLITS, is_ordered=is_ordered) for one in of]
    assert len(set(ids)) == len(ids)


@sampled
def test_the_reader_gives_the_texts_of_parlais_task_and_they_survive_every_rewrite(tod_samples, corpus):
    splits, *_ = SAMPLES[corpus]
    for split, ids in zip(splits, check_reader(corpus, tod_samples, splits, is_ordered=False), strict=True):
        assert len(set(ids)) == len(ids)
        for dialogue in load_corpus(corpus, datapath=tod_samples, split=split):
            assert Dialogue.from_json(dialogue.to_json()) == dialogue
            for axis in ("gender", "age", "race", "names_gender", "placebo"):
                for rewrite in draw_rewrites(load_axis(axis), dialogue, draws=2):
                    assert rewrite.inverse(rewrite(dialogue)) == dialogue


def check_teacher(corpus, folder, split, axis, least):
    perturber = load_axis(axis)
    expected = [
        (dialogue.id, texts_of_dialogue(rewrite(dialogue)))
        for dialogue in load_corpus(corpus, datapath=folder, split=split)
        for rewrite in draw_rewrites(perturber, dialogue, draws=1)
    ]
    episodes = episodes_of(folder, f"tod_bias.agents:{TASKS[corpus][1]}", split, axis=axis)
    assert [(episode.extras["dialogue_id"], texts_of(episode)) for episode in episodes] == sorted(expected)
    assert len(expected) >= least


@made
def test_perturbed_teachers_show_the_dialogues_of_the_core(tmp_path, corpus):
    check_teacher(corpus, WRITERS[corpus](tmp_path), "valid", "gender", 2)


@sampled
def test_perturbed_teachers_show_the_dialogues_of_the_core_in_real_corpora(tod_samples, corpus):
    splits, axis, least = SAMPLES[corpus]
    check_teacher(corpus, tod_samples, splits[0], axis, least)


def test_metalwoz_messages_and_splits_are_parlais(tmp_path):
    write_metalwoz(tmp_path)
    for split in SPLITS:
        ours = messages_of_dialogues(load_corpus("parlai:metalwoz", datapath=tmp_path, split=split))
        assert sorted(ours) == sorted(messages_of(teacher_of(tmp_path, "metalwoz", split)))


def test_the_perturbed_metalwoz_shows_the_dialogues_of_the_core(tmp_path):
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
def test_domains_are_chosen_by_the_tasks_own_option(tmp_path, corpus, option, domains):
    WRITERS[corpus](tmp_path)
    episodes = episodes_of(tmp_path, f"tod_bias.agents:{TASKS[corpus][1]}", "valid", axis="gender", **{option: domains})
    assert {episode.domain for episode in episodes} == set(domains)
    known = {dialogue.id: dialogue.domain for dialogue in load_corpus(corpus, datapath=tmp_path, split="valid")}
    assert all(known[episode.extras["dialogue_id"]] == episode.domain for episode in episodes)


@pytest.mark.parametrize(
    ("teacher", "writer", "file"),
    [
        ("PerturbedTaskmasterTeacher", write_taskmaster, "taskmaster-1/woz-dialogs.json"),
        ("PerturbedMsrE2eTeacher", write_msr_e2e, "msr_e2e/taxi_all.tsv"),
        ("PerturbedMetalwozTeacher", write_metalwoz, "metalwoz/train/tasks.txt"),
    ],
)
def test_a_damaged_file_ends_a_teacher_in_one_line(tmp_path, teacher, writer, file):
    (writer(tmp_path) / file).write_text("")
    with pytest.raises(CorpusError, match=rf"^[^\n]*{Path(file).parts[0]}[^\n]*cannot (be )?read[^\n]*$"):
        teacher_of(tmp_path, f"tod_bias.agents:{teacher}", "valid")
