import numpy as np
import pytest

from tod_bias.audit.estimates import fairscore


@pytest.mark.parametrize(
    ("original", "rewritten", "expected"), [(0.2, 0.2, 0.0), (0.2, 0.1, 0.5), (0.2, 0.3, -0.5), (0.2, 0.0, 1.0)]
)
def test_signed_fairscore(original, rewritten, expected):
    assert fairscore(original, rewritten) == pytest.approx(expected)


def test_fairscore_without_original_bleu_is_undefined():
    assert np.isnan(fairscore(0.0, 0.3))
