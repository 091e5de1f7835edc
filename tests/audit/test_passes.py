"""pass^k, counted by hand."""

import pandas as pd
import pytest

from tod_bias.audit.passes import passes


def test_passes_are_counted_by_hand():
    """Two tasks as a woman: one solved in 2 of 3 samples, one in all; one task as a man, never solved."""
    solved = {("a", "woman"): (1, 1, 0), ("b", "woman"): (1, 1, 1), ("a", "man"): (0, 0, 0)}
    rows = [
        {"dialogue": dialogue, "variant": group, "group": group, "sample": sample, "grade sum": value * turn}
        for (dialogue, group), values in solved.items()
        for sample, value in enumerate(values)
        for turn in (0, 1)  # the last turn holds the judgement
    ]
    found = passes(pd.DataFrame(rows), "grade sum", 3)
    assert found["woman"] == pytest.approx([(2 / 3 + 1) / 2, (1 / 3 + 1) / 2, 1 / 2])
    assert found["man"] == [0, 0, 0]
