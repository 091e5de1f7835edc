"""A small LMRec, trained once on a small sample."""

import sys
from itertools import islice
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # saved_lists.py, small_sample.py; tests are no package

from small_sample import FEW, REVIEWS, VENUES


def first_reviews(count):
    from tod_bias.recommenders.lmrec.reviews import Reviews
    from tod_bias.recommenders.lmrec.sample import sample

    made = list(islice(sample(0, venues=VENUES, reviews=REVIEWS)(), count))  # once: it is read many times
    return Reviews(lambda: iter(made), city="Sampleton", fewest=1)


@pytest.fixture(scope="session")
def sample_reviews():
    return first_reviews(VENUES * REVIEWS)


@pytest.fixture(scope="session")
def few_reviews():
    """Of the same venues, for trainings that need not learn anything."""
    return first_reviews(FEW)


@pytest.fixture(scope="session")
def settings():
    from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig

    return RecommenderTrainConfig(
        layers=1, width=64, heads=2, hidden=128, dropout=0.0, vocabulary=1500, max_length=48, batch=64, epochs=24,
        patience=6, max_steps=720,
    )  # fmt: skip  # dishes are learnt first; names and places after a plateau, until the 8th epoch


@pytest.fixture(scope="session")
def training(settings, made_once):
    from tod_bias.recommenders.lmrec.model import train

    def folder(name, reviews, **changes):
        return made_once(name, lambda folder: train(reviews, folder, settings.model_copy(update=changes)))

    return folder


@pytest.fixture(scope="session")
def trained(sample_reviews, training):
    return training("lmrec", sample_reviews)


@pytest.fixture(scope="session")
def trained_augmented(few_reviews, training):
    return training("lmrec_augmented", few_reviews, augment=True, max_steps=20)


@pytest.fixture(scope="session")
def trained_masked(few_reviews, training):
    return training("lmrec_masked", few_reviews, mask=True, max_steps=20)
