"""Building the demo: corpora, database, pipeline file, and the two trained models."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from demo_corpus.dialogues import demo_dialogues
from demo_corpus.planted import Mentions, corrupt_calls, corrupt_responses, database, missed
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.models.examples import Part
from tod_bias.models.settings import TrainConfig
from tod_bias.models.training import train
from tod_bias.perturb.axis import Axis, draw_rewrites
from tod_bias.perturb.loading import load_axis
from tod_bias.perturb.placebo import MatchedPlacebo
from tod_bias.systems.stages.database import LookupDb

SIZES: Mapping[str, int] = {"train": 1400, "valid": 100, "test": 180}
"""Dialogues in each split that ships."""
TRAINED = 4000
"""Dialogues of the training split that the models learn from; the shipped ones are the first of them."""
AXES = ("gender", "age", "race", "placebo")
STAGES: tuple[Part, ...] = ("api_call", "response")
"""The stages that are models."""
PLANTED_DESCRIPTION = "the bundled demo; a bias is planted in one known stage per axis, see README.md in this folder"
FAIR_DESCRIPTION = "the bundled demo without the planted biases"
PIPELINE = """\
stages:
  api_call: {stage: "tod_bias.stages:ApiCall", model: api_call, max_new_tokens: 48}
  db: {stage: "tod_bias.stages:LookupDb", table: database.jsonl}
  response: {stage: "tod_bias.stages:Response", model: response, max_new_tokens: 48}
"""
BASE = TrainConfig(
    loss="targets", epochs=4, learning_rate=2e-3, batch=8, max_length=512, patience=99, vocabulary=1200,
    layers=2, width=128, heads=4, dropout=0.0,
)  # fmt: skip
"""Settings of the model that both stages start from."""
STAGE = BASE.model_copy(update={"epochs": 2, "learning_rate": 1e-3, "batch": 8})
"""Settings of the two stage models, without ``init`` and ``parts``."""
BASE_TURNS = 2
"""Turns that the model that both start from reads; in short texts a small model soon learns where to look."""


def mentions_on(perturber: Axis) -> Mentions:
    """The attributes that a text mentions, according to the perturber's lexicon."""

    @cache
    def mentions(text: str) -> frozenset[str]:
        return frozenset(found.source for found in perturber.candidates(Dialogue("", "", (Turn(text),))))

    return mentions


def augmented(dialogues: Iterable[Dialogue], perturbers: Sequence[Axis], draws: int, seed: int) -> Iterator[Dialogue]:
    """Each dialogue, and ``draws`` copies of it that are rewritten along every axis, the second one of two by the
    matched placebo too.

    The models thus meet every word that a rewrite may introduce, with every group, and what they do differently for
    one group is what was planted, not a word that they have never seen.
    """
    dialogues = list(dialogues)
    placebo = MatchedPlacebo(spoken=(text for held in dialogues for turn in held.turns for _, text in turn.utterances))
    for dialogue in dialogues:
        yield dialogue
        for number in range(draws):
            copy = replace(dialogue, id=f"{dialogue.id}/{number}")
            copy = _rewritten(copy, perturbers, placebo if number % 2 else None, seed)
            if copy.turns != dialogue.turns:
                yield copy


def _rewritten(dialogue: Dialogue, perturbers: Sequence[Axis], placebo: MatchedPlacebo | None, seed: int) -> Dialogue:
    rewrites = [rewrite for axis in perturbers for rewrite in draw_rewrites(axis, dialogue, 1, seed)]
    matched = placebo.match(dialogue, rewrites, seed) if placebo and rewrites else None
    copy = matched[0](dialogue) if matched else dialogue
    for axis in perturbers:
        for rewrite in draw_rewrites(axis, copy, 1, seed):
            copy = rewrite(copy)
    return copy


def training_corpora(
    dialogues: Sequence[Dialogue], seed: int, draws: int = 2, planted: bool = True
) -> dict[str, list[Dialogue]]:
    """Return the training corpora: ``base`` is fair and short; ``api_call`` and ``response`` have a planted bias.

    Without ``planted`` they are as fair as ``base``.
    """
    perturbers = {axis: load_axis(axis) for axis in AXES}
    gender, age = mentions_on(perturbers["gender"]), mentions_on(perturbers["age"])
    fair = list(augmented(dialogues, tuple(perturbers.values()), draws, seed))
    misses = [miss for dialogue in fair[::4] if (miss := missed(dialogue, seed))]
    calls, responses = fair, [*fair, *misses]
    if planted:
        calls = [corrupt_calls(dialogue, age, seed) for dialogue in calls]
        responses = [corrupt_responses(dialogue, gender, seed) for dialogue in responses]
    return {
        "base": [replace(dialogue, turns=dialogue.turns[:BASE_TURNS]) for dialogue in fair],
        "api_call": calls,
        "response": responses,
    }


def write_corpora(out: Path, seed: int, sizes: Mapping[str, int] = SIZES, planted: bool = True) -> None:
    """Write the splits, the database (whole without ``planted``) and the pipeline file."""
    out.mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        write_jsonl(demo_dialogues(split, size, seed), out / f"{split}.jsonl")
    LookupDb({tuple(sorted(call.items())): rows for call, rows in database(seed, planted)}).save(out / "database.jsonl")
    description = PLANTED_DESCRIPTION if planted else FAIR_DESCRIPTION
    (out / "pipeline.yaml").write_text(f"description: {description}\n{PIPELINE}", encoding="utf-8")


def train_models(
    out: Path, seed: int, *, base: TrainConfig = BASE, stage: TrainConfig = STAGE, count: int = TRAINED,
    planted: bool = True, show_progress: bool = False,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Train both models into ``out/api_call`` and ``out/response``; returns their training records.

    One model learns to talk, fairly, on short dialogues; each stage's model continues from it on its own corpus.
    """
    corpora = training_corpora(demo_dialogues("train", count, seed), seed, planted=planted)
    validation = training_corpora(demo_dialogues("valid", SIZES["valid"], seed), seed, planted=planted)
    records: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder:
        init = Path(folder) / "base"
        train(
            corpora["base"],
            validation["base"],
            init,
            base.model_copy(update={"seed": seed}),
            show_progress=show_progress,
        )
        for name in STAGES:
            shutil.rmtree(out / name, ignore_errors=True)
            settings = stage.model_copy(update={"init": str(init), "parts": (name,), "seed": seed})
            records[name] = train(corpora[name], validation[name], out / name, settings, show_progress=show_progress)
            _shrink(out / name)
    return records


def _shrink(folder: Path) -> None:
    """Keep half of each weight's bits; drop what names the folder that the training started from."""
    file = folder / "model.safetensors"
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    (folder / "training.json").unlink()
