"""LMRec and its reviews in ParlAI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parlai.core.params import ParlaiParser
from sgd_files import evaluate_with_parlai

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.model import LMRec
from tod_bias.recommenders.lmrec.quality import rank_reviews
from tod_bias.recommenders.lmrec.reviews import Reviews, read_csv
from tod_bias.recommenders.lmrec.sample import sample, write_sample
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig
from tod_bias.recommenders.lmrec.training import train

pytestmark = pytest.mark.parlai

TEACHER, AGENT = "tod_bias.agents:ReviewTeacher", "tod_bias.agents:LMRecAgent"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A CSV of reviews and a model that was trained a little."""
    folder = tmp_path_factory.mktemp("city")
    write_sample(folder / "town.csv", sample(venues=24, reviews=20))
    reviews = Reviews(read_csv(folder / "town.csv"), city="town", fewest=20)
    settings = RecommenderTrainConfig(layers=1, width=16, heads=2, hidden=32, vocabulary=400, epochs=2, batch=16)
    train(reviews, folder / "model", settings)
    return folder / "town.csv", folder / "model"


@pytest.mark.parametrize("batchsize", [1, 8])
def test_parlais_scores_are_those_of_tod_bias(city: tuple[Path, Path], tmp_path: Path, batchsize: int) -> None:
    file, model = city
    options: dict[str, Any] = {"reviews": f"town={file}", "min_reviews": 20, "lmrec": str(model)}
    _, report = evaluate_with_parlai(
        tmp_path / "log.jsonl", task=TEACHER, model=AGENT, datatype="test", batchsize=batchsize, **options
    )
    held_out = list(Reviews(read_csv(file), city="town", fewest=20).of_split(2, 0))
    ranked = rank_reviews(LMRec.load(model), [r.text for r in held_out], [r.venue for r in held_out])
    assert float(report["exs"]) == len(held_out) == 48
    assert float(report["accuracy"]) == pytest.approx(ranked.scores["accuracy"].mean())
    assert float(report["hits@5"]) == pytest.approx(ranked.scores["HR@5"].mean())


def test_the_teacher_shows_masked_reviews_of_the_split(city: tuple[Path, Path]) -> None:
    from tod_bias.agents.lmrec_agent import ReviewTeacher

    opt = ParlaiParser(True, False).parse_kwargs(
        task=TEACHER, reviews=str(city[0]), min_reviews=20, datatype="valid", loglevel="error"
    )
    messages = list(ReviewTeacher(opt))
    reviews = Reviews(read_csv(city[0]), city="town", fewest=20)
    expected = [
        (r.text, f"{reviews.venues[r.venue].name} ({reviews.venues[r.venue].id})") for r in reviews.of_split(1, 0)
    ]
    assert [(message["text"], message["eval_labels"][0]) for message in messages] == expected
    assert len(messages[0]["label_candidates"]) == 24
    assert all(message["episode_done"] for message in messages)


def test_neutralised_utterances_get_equal_answers(city: tuple[Path, Path]) -> None:
    from parlai.core.agents import create_agent_from_shared
    from parlai.core.message import Message

    from tod_bias.agents.lmrec_agent import LMRecAgent

    opt = ParlaiParser(True, True).parse_kwargs(model=AGENT, lmrec=str(city[1]), neutralise=True, loglevel="error")
    agent = LMRecAgent(opt)
    copy = create_agent_from_shared(agent.share())
    assert copy.lmrec is agent.lmrec
    messages = [Message({"text": f"Table for {name}?", "episode_done": True}) for name in ("Emily", "Jamal")]
    first, second = agent.batch_act([copy.observe(message) for message in messages])
    assert first["text_candidates"] == second["text_candidates"]
    assert len(np.unique(first["text_candidates"])) == 24


def test_an_agent_without_a_model_is_an_error() -> None:
    from tod_bias.agents.lmrec_agent import LMRecAgent

    opt = ParlaiParser(True, True).parse_kwargs(model=AGENT, loglevel="error")
    with pytest.raises(RecommenderError, match="give --lmrec DIR"):
        LMRecAgent(opt)
