"""LMRec as a ParlAI agent on its reviews: ParlAI's report has LMRec's hit rates and Shen's price percentages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import parlai
from parlai.core.agents import create_agent, create_agent_from_shared
from parlai.core.message import Message
from parlai.core.params import ParlaiParser
from sgd_files import evaluate_with_parlai

from tod_bias.errors import RecommenderError, StageError
from tod_bias.recommenders.lmrec.mitigation import rank_reviews
from tod_bias.recommenders.lmrec.model import LMRec, recommend_templates, train
from tod_bias.recommenders.lmrec.reviews import Reviews, read_csv
from tod_bias.recommenders.lmrec.sample import sample, write_sample
from tod_bias.recommenders.lmrec.scores import price_percentage
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig

pytestmark = [pytest.mark.parlai, pytest.mark.slow]

TEACHER, AGENT = "tod_bias.agents:ReviewTeacher", "tod_bias.agents:LMRecAgent"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory, made_once: Callable[..., Path]) -> tuple[Path, Path]:
    """A CSV of reviews and a model that was trained on them until it knows some venues."""
    file = tmp_path_factory.mktemp("city") / "town.csv"
    write_sample(file, sample(venues=24, reviews=100))
    settings = RecommenderTrainConfig(
        layers=1, width=64, heads=2, hidden=128, dropout=0.0, vocabulary=800, max_length=48, epochs=10, batch=32,
        learning_rate=2e-3,
    )  # fmt: skip
    reviews = Reviews(read_csv(file), city="town", fewest=20)
    return file, made_once("lmrec_town", lambda folder: train(reviews, folder, settings))


@pytest.fixture(scope="module")
def audited(city: tuple[Path, Path]) -> dict[str, float]:
    """The price gaps of tod-bias's own audit."""
    table = price_percentage(recommend_templates([city[1]])[0])
    rows = table[(table["city"] == "town") & table["dimension"].isin(["gender", "race"])]
    return {
        f"{row.label}/price_gap_{'$' * int(row.price)}": row.value - row.neutral
        for row in rows.itertuples()
        if row.value == row.value
    }


@pytest.mark.parametrize("batchsize", [1, 16])
def test_the_report_is_that_of_tod_bias(city, audited, tmp_path, batchsize):
    file, model = city
    options: dict[str, Any] = {"reviews": f"town={file}", "min_reviews": 20, "lmrec": str(model)}
    _, report = evaluate_with_parlai(
        tmp_path / "log.jsonl", task=TEACHER, model=AGENT, datatype="test", batchsize=batchsize, **options
    )
    held_out = list(Reviews(read_csv(file), city="town", fewest=20).of_split(2, 0))
    ranked = rank_reviews(LMRec.load(model), [r.text for r in held_out], [r.venue for r in held_out])
    assert report["exs"] == len(held_out) == 240
    assert report["accuracy"] == pytest.approx(ranked.scores["accuracy"].mean())
    assert report["accuracy"] > 0.1  # chance is 1 / 24
    assert report["hits@5"] == pytest.approx(ranked.scores["HR@5"].mean())
    gaps = {name: value for name, value in report.items() if "price_gap" in name and value == value}
    assert gaps == pytest.approx(audited, abs=1e-9)
    assert gaps["black/price_gap_$$$$"] == pytest.approx(-gaps["white/price_gap_$$$$"]) != 0


def test_the_teacher_shows_masked_reviews_of_the_split_and_templates(city):
    from tod_bias.agents.lmrec import ReviewTeacher

    opt = ParlaiParser(True, False).parse_kwargs(
        task=TEACHER, reviews=str(city[0]), min_reviews=20, datatype="valid", loglevel="error"
    )
    messages = list(ReviewTeacher(opt))
    reviews = Reviews(read_csv(city[0]), city="town", fewest=20)
    venues = [f"{venue.name} ({venue.id})" for venue in reviews.venues]
    shown = [(message["text"], message["eval_labels"][0]) for message in messages if "eval_labels" in message]
    assert shown == [(review.text, venues[review.venue]) for review in reviews.of_split(1, 0)]
    asked = [message for message in messages if "template_labels" in message]
    assert len(shown) + len(asked) == len(messages)
    assert len(asked) == 18 * 88
    assert all(message["episode_done"] for message in messages)


def test_neutralised_utterances_get_equal_answers(city):
    opt = ParlaiParser(True, True).parse_kwargs(model=AGENT, lmrec=str(city[1]), neutralise=True, loglevel="error")
    agent = create_agent(opt)
    copy = create_agent_from_shared(agent.share())
    assert copy.pipeline is agent.pipeline
    messages = [Message({"text": f"Table for {name}?", "episode_done": True}) for name in ("Emily", "Jamal")]
    first, second = agent.batch_act([copy.observe(message) for message in messages])
    assert first["text_candidates"] == second["text_candidates"]
    assert len(set(first["text_candidates"])) == 24


def test_a_person_gets_a_sentence(city):
    run = parlai(["interactive", "-m", AGENT, "--lmrec", str(city[1])], "I want dessert\n[EXIT]\n")
    assert run.returncode == 0, run.stderr
    assert "How about " in run.stdout
    assert "its price level is $" in run.stdout


def test_what_the_agent_cannot_do_is_one_line(city):
    options = {"model": AGENT, "datapath": "/nowhere"}
    with pytest.raises(RecommenderError, match="give --lmrec DIR"):
        create_agent(options)
    agent = create_agent({**options, "lmrec": str(city[1])})
    agent.observe(Message({"text": "USER: hello", "episode_done": False}))
    with pytest.raises(StageError, match="answers plain text"):
        agent.act()


def test_the_command_prints_hit_rates_and_price_gaps(city: tuple[Path, Path]) -> None:
    run = parlai(
        ["eval_model", "-t", TEACHER, "--reviews", str(city[0]), "--min-reviews", "20", "-dt", "test", "-m", AGENT,
         "--lmrec", str(city[1]), "-bs", "16"], "",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    table = run.stdout[run.stdout.rindex("accuracy") :]
    assert all(word in table for word in ("hits@5", "price_gap_$", "black", "female"))
