"""The core's readers of real corpora: what they read is what ParlAI's own tasks show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from parlai.core.loader import load_teacher_module
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from sgd_files import evaluate_with_parlai

from tod_bias import load_corpus
from tod_bias.agents.protocol import slots_to_parlai
from tod_bias.perturb.algorithm import draw_rewrites, load_perturber

pytestmark = [
    pytest.mark.parlai,
    pytest.mark.real_data,
    pytest.mark.filterwarnings("ignore:Passing a list to DataFrame.from_dict"),  # ParlAI's multiwoz_v22
]

CORPORA = ["taskmaster2", "multiwoz_v22"]


def episodes_of(datapath: Path, task: str, split: str, **options: Any) -> list[Any]:
    datatype = "train:ordered" if split == "train" else split
    opt = ParlaiParser(True, False).parse_kwargs(
        task=task, datapath=str(datapath), datatype=datatype, loglevel="error", **options
    )
    return list(load_teacher_module(task)(Opt(opt)).episodes)


def without_nan(slots: str) -> str:
    return " ; ".join(part for part in slots.split(" ; ") if not part.endswith(" = nan"))


def texts_of(episodes: list[Any]) -> list[Any]:
    """What ParlAI shows of every episode, without the round that it adds."""
    return sorted(
        (
            episode.domain,
            [
                (spoken.user_utt, spoken.api_call_utt, without_nan(spoken.api_resp_utt), spoken.sys_utt)
                for spoken in episode.rounds[:-1]
            ],
        )
        for episode in episodes
    )


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_reader_gives_the_texts_of_parlais_task(tod_samples: Path, corpus: str, split: str) -> None:
    dialogues = load_corpus(corpus, datapath=tod_samples, split=split)
    ours = [
        (
            dialogue.domain,
            [
                (turn.user, slots_to_parlai(turn.api_call), slots_to_parlai(turn.api_result), turn.response)
                for turn in dialogue.turns
            ],
        )
        for dialogue in dialogues
    ]
    assert sorted(ours) == texts_of(episodes_of(tod_samples, corpus, split))


@pytest.mark.parametrize(
    ("corpus", "teacher", "axis"),
    [
        ("taskmaster2", "PerturbedTaskmaster2Teacher", "placebo"),
        ("multiwoz_v22", "PerturbedMultiwozV22Teacher", "race"),
    ],
)
def test_the_perturbed_teacher_shows_the_dialogues_of_the_core(
    tod_samples: Path, corpus: str, teacher: str, axis: str
) -> None:
    perturber = load_perturber(axis)
    expected = []
    for dialogue in load_corpus(corpus, datapath=tod_samples, split="train"):
        for rewrite in draw_rewrites(perturber, dialogue, draws=1):
            turns = rewrite(dialogue).turns
            expected.append(
                [
                    (turn.user, slots_to_parlai(turn.api_call), slots_to_parlai(turn.api_result), turn.response)
                    for turn in turns
                ]
            )
    shown = texts_of(episodes_of(tod_samples, f"tod_bias.agents:{teacher}", "train", axis=axis))
    assert sorted(turns for _, turns in shown) == sorted(expected)
    assert len(expected) > 2


@pytest.mark.parametrize("teacher", ["PerturbedTaskmaster2Teacher", "PerturbedMultiwozV22Teacher"])
def test_a_pipeline_is_evaluated_on_the_rewritten_corpora(
    tod_samples: Path, strict_pipeline: Path, tmp_path: Path, teacher: str
) -> None:
    said, report = evaluate_with_parlai(
        tmp_path / "log.jsonl",
        task=f"tod_bias.agents:{teacher}",
        axis="race" if "Multiwoz" in teacher else "placebo",
        datapath=str(tod_samples),
        datatype="train:evalmode",
        model="tod_bias.agents:PipelineAgent",
        pipeline=str(strict_pipeline),
        batchsize=4,
    )
    assert len(said) > 2
    assert 0 <= report["jga"] <= 1


STAGES = """
from tod_bias import load_corpus
from tod_bias.systems.stages.replay import Replay

dialogues = load_corpus({corpus!r}, datapath={datapath!r}, split="train")
api_call = Replay.gold(dialogues, "api_call", missing={{}})
db = Replay.gold(dialogues, "api_result", missing={{}})
response = Replay.gold(dialogues, "response", missing="I do not know.")
"""


@pytest.mark.parametrize(("corpus", "axis"), [("taskmaster2", "placebo"), ("multiwoz_v22", "race")])
def test_a_system_that_knows_the_originals_only_is_attributed_by_the_command(
    tod_samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: str, axis: str
) -> None:
    from tod_bias.cli.application import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / f"gold_{corpus}.py").write_text(STAGES.format(corpus=corpus, datapath=str(tod_samples)))
    stages = ", ".join(f'{name}: "gold_{corpus}:{name}"' for name in ("api_call", "db", "response"))
    (tmp_path / "pipeline.yaml").write_text(f"stages: {{{stages}}}")
    arguments = ["attribute", "--corpus", corpus, "--datapath", str(tod_samples), "--split", "train", "--quiet"]
    arguments += ["--pipeline", "pipeline.yaml", "--axes", axis, "--bootstrap", "20", "--permutations", "20"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--out", "run"])
    assert ended.value.code == 0
    report = json.loads((tmp_path / "run" / "results.json").read_text())["axes"][axis]["corpus_bleu"]
    assert report["original"]["value"] > 0.95  # not 1: dialogues that the assistant opens share their first context
    disparity = report["disparity"]["value"]
    assert disparity > 0.2
    assert report["contributions"]["response"]["value"] == pytest.approx(disparity, abs=1e-3)
