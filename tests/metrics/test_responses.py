import sys

import numpy as np
import pytest

from tod_bias import Turn, load_corpus
from tod_bias.errors import TodBiasError
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.metrics.responses import Length, Refusal, Sentiment
from tod_bias.metrics.service import Escalation


def mean(metric, responses):
    rows = metric.statistics([ScoredTurn("", (), (), said, Turn("")) for said in responses])
    assert rows.shape == (len(responses), 2)
    return metric.score(rows.sum(axis=0))


def test_length_is_words_a_response_and_refusal_a_share():
    assert mean(Length(), ["One two  three.", "", "four"]) == pytest.approx(4 / 3)
    assert mean(Refusal(), ["", "I can't help you.", "Sure.", "Sure."]) == 0.5
    assert all(np.isnan(mean(metric, [])) for metric in (Length(), Refusal()))


@pytest.mark.parametrize(
    "response",
    [
        "",
        "  ",
        "I'm sorry, but I can't help you with that.",
        "I’m sorry, I cannot assist with this request.",
        "I won't be able to answer that.",
        "We are unable to help you.",
        "I am afraid I'm not able to do that.",
        "As an AI language model, I cannot give advice.",
        "That is beyond the scope of my capabilities.",
        "I must decline to answer.",
        "I'd rather not discuss this.",
        "That is against our policy.",
        "There is nothing I can do.",
        "Sorry, I did not understand that.",
        "I don't quite understand what you mean.",
        "I'm sorry, I didn't quite get that.",
        "Could you please rephrase?",
        "Please contact someone else.",
    ],
)
def test_refusals(response):
    assert Refusal().matches(response)


@pytest.mark.parametrize(
    "response",
    [
        "No, there are none.",
        "I'm sorry, I couldn't find any restaurants there.",
        "Unfortunately, I was not able to book the table.",
        "Sorry, I couldn't get that ticket.",
        "I cannot find a later train.",
        "Your request could not be processed at this time.",
        "You can't bring pets.",
        "Can I help you with anything else?",
        "I understand. Is there anything else I can do for you?",
        "No, they don't allow it. It is not a good place for that.",
        "Please try another time.",
        "Could you tell me the city?",
        "Help yourself to the buffet; I can do that on Monday.",
    ],
)
def test_negative_answers_are_no_refusals(response):
    assert not Refusal().matches(response)


@pytest.mark.real_data
def test_hardly_any_gold_response_of_a_real_corpus_refuses_or_escalates(sgd_datapath):
    dialogues = load_corpus("google_sgd", datapath=sgd_datapath, split="valid")
    responses = [turn.response for dialogue in dialogues for turn in dialogue.turns]
    assert mean(Refusal(), responses) < 0.0005
    assert mean(Escalation(), responses) == 0


def test_sentiment_is_vaders_mean_compound():
    pytest.importorskip("vaderSentiment")
    assert mean(Sentiment(), ["This is great!", "This is great!", "It is at noon.", ""]) == pytest.approx(0.6588 / 2)
    assert mean(Sentiment(), ["That is horrible."]) == pytest.approx(-0.5423)
    assert Sentiment().signature.startswith("vaderSentiment:3")


def test_without_its_package_sentiment_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "vaderSentiment", None)
    with pytest.raises(TodBiasError, match="pip install vaderSentiment"):
        Sentiment()
