import itertools

import numpy as np
import pandas as pd
import pytest

from tod_bias.errors import EmbeddingsError
from tod_bias.recommenders.embeddings.audit import Associations
from tod_bias.recommenders.embeddings.comparison import compare


def run(eaa, sets, name, cosines=None):
    frame = pd.DataFrame({"id": [f"i{n}" for n in range(len(eaa))], "table": "items", "set": sets, "eaa": eaa})
    frame["cos_centroid"] = eaa if cosines is None else cosines
    frame["labelled_A_svc"] = frame["eaa"] > 0
    record = {
        "ddof": 0,
        "attribute": "gender",
        "directions": {"centroid": {}},
        "R_RIPA": {"centroid": {"usable": name != "odd"}},
        "sets": {role: {"name": role} for role in "ABEP"},
        "flags": [],
    }
    return Associations(record, frame)


SETS = ["E"] * 4 + ["P"] * 5
BEFORE = np.array([0.9, 0.7, 0.8, 0.4, -0.3, -0.6, -0.2, 0.1, -0.5])
AFTER = np.array([0.5, 0.6, 0.4, 0.3, -0.2, -0.1, -0.3, 0.2, -0.2])


def test_values_and_p_values_are_those_of_loops():
    result = compare(run(BEFORE, SETS, "x"), run(AFTER, SETS, "y"), permutations=1000, resamples=200)["metrics"]
    deaa = [part[:4].sum() - part[4:].sum() for part in (BEFORE, AFTER)]
    assert result["DEAA"]["before"] == pytest.approx(deaa[0])
    assert result["DEAA"]["after"] == pytest.approx(deaa[1])
    assert result["DEAA"]["change_percent"] == pytest.approx(100 * (deaa[1] - deaa[0]) / deaa[0])
    assert result["GEAA P"]["change_percent"] == pytest.approx(100 * (AFTER[4:].sum() / BEFORE[4:].sum() - 1))
    differential = [part[:4].mean() - part[4:].mean() for part in (BEFORE, AFTER)]
    assert result["R-RIPA centroid differential"]["after"] == pytest.approx(differential[1])
    effect = [(part[:4].mean() - part[4:].mean()) / part.std() for part in (BEFORE, AFTER)]
    assert result["effect size"]["difference"] == pytest.approx(effect[1] - effect[0])

    assert result["DEAA"]["p_value"] is None
    weighted = np.array([1 / 4] * 4 + [-1 / 5] * 5) * (AFTER - BEFORE)
    swapped = np.array([*itertools.product([1, -1], repeat=9)]) @ weighted  # each entity's scores change places or not
    expected = np.mean(np.abs(swapped) >= abs(weighted.sum()) - 1e-12)
    for name in ("difference of means", "R-RIPA centroid differential"):
        assert result[name]["p_value"] == pytest.approx(expected, abs=1e-12), name


def test_order_of_entities_does_not_matter_and_no_change_has_p_1():
    after = run(AFTER, SETS, "y")
    shuffled = Associations(after.record, after.entities.sample(frac=1, random_state=0))
    first, second = (
        compare(run(BEFORE, SETS, "x"), part, permutations=100, resamples=50) for part in (after, shuffled)
    )
    assert first["metrics"] == second["metrics"]
    nothing = compare(run(BEFORE, SETS, "x"), run(BEFORE, SETS, "y"), permutations=1000, resamples=50)["metrics"]
    assert (nothing["difference of means"]["p_value"], nothing["DEAA"]["change_percent"]) == (1, 0)


def test_directions_not_to_be_used_keep_their_mark():
    result = compare(run(BEFORE, SETS, "odd"), run(AFTER, SETS, "y"), permutations=100, resamples=0)
    assert result["metrics"]["R-RIPA centroid E"]["usable"] is False
    assert "ci" not in result["metrics"]["DEAA"]
    assert result["labels"]["svc"]["P"]["mcnemar"]["p_value"] == 1


def test_other_entities_are_named():
    other = run(AFTER, SETS, "y")
    other.entities.loc[0, "id"] = "stranger"
    with pytest.raises(EmbeddingsError, match=r"tested other entities: id '(stranger|i0)' of set E"):
        compare(run(BEFORE, SETS, "x"), other)
