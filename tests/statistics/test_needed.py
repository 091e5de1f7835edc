import pytest

from tod_bias.errors import TodBiasError
from tod_bias.statistics.needed import MOST_RESAMPLES, check_resamples


def test_numbers_of_resamples_from_none_to_a_million_are_taken():
    check_resamples(bootstrap=0, permutations=MOST_RESAMPLES)


@pytest.mark.parametrize("count", [-1, MOST_RESAMPLES + 1, 10**9, 2.5, "1000", True, None])
def test_other_numbers_of_resamples_are_refused_by_name(count):
    with pytest.raises(TodBiasError, match=f"bootstrap must be a whole number from 0 to 1,000,000, got {count!r}"):
        check_resamples(bootstrap=count)
