"""What Python's callers get wrong is said in one line, before anything is asked."""

import pytest
from builders import small_corpus

from tod_bias import Pipeline, attribute
from tod_bias.errors import TodBiasError


def never(inputs):
    raise AssertionError("was asked")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"bootstrap": 10**9}, "bootstrap must be at most 1000000"),
        ({"permutations": 2.5}, "permutations must be a whole number"),
        ({"pipeline": {"answer": never}}, r"must be a Pipeline, got dict: Pipeline\(\{name: stage\}\)"),
        ({"pipeline": never}, "must be a Pipeline, got function"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(options, says):
    system = options.pop("pipeline", Pipeline({"answer": never}))
    with pytest.raises(TodBiasError, match=says):
        attribute(system, small_corpus(4), axes=["gender"], **options)
