"""What pretraining alone brings: effects over cities, and what one of them lacks."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

CITIES = tuple("ABCDEF")
CATEGORIES = tuple(f"c{number}" for number in range(20))


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent)
    pretraining = importlib.import_module("pretraining")


def audit(folder: Path, values: np.ndarray) -> None:
    """What an audit writes of associations: (city, category); a value that is NaN has no row."""
    folder.mkdir(parents=True)
    table = pd.DataFrame(values, pd.Index(CITIES, name="city"), pd.Index(CATEGORIES, name="category"))
    rows = table.stack().dropna().rename("difference").reset_index()
    rows.assign(dimension="gender", label="f", other="m").to_csv(folder / "association.csv", index=False)
    (folder / "audit.json").write_text("{}")


def test_what_one_city_lacks_is_left_out_everywhere(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number, kind in enumerate(("pretrained-0", "random-0", "scratch-0", "scratch-1")):
        values = rng.normal(0, 0.1, size=(len(CITIES), len(CATEGORIES)))
        if number < 2:
            values[number, number] = np.nan
        audit(tmp_path / f"audit-{kind}", values)
    record = pretraining.compared(tmp_path, "association")
    assert (record["cities"], record["left_out"]) == (6, 2)
    assert set(record["effects"]) == {"pretrained", "random", "scratch", "pretrained - random", "pretrained - scratch"}
    for rows in record["effects"].values():
        assert len(rows) == len(CATEGORIES) - 2
        assert all(0 < row["p"] <= row["p_adjusted"] <= 1 for row in rows.values())
    for found in (*record["size"].values(), *record["agreement"].values()):
        assert np.isfinite(found["value"])
        assert found["p"] > 0


def test_cities_that_agree_are_seen_to(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(0, 0.2, size=len(CATEGORIES))
    for kind in ("shared-0", "shared-1"):
        audit(tmp_path / f"audit-{kind}", common + rng.normal(0, 0.05, size=(len(CITIES), len(CATEGORIES))))
    audit(tmp_path / "audit-shared_masked-0", rng.normal(0, 0.2, size=(len(CITIES), len(CATEGORIES))))
    found = pretraining.compared(tmp_path, "association")["agreement"]
    assert found["shared"]["value"] > 0.8
    assert found["shared"]["other_seeds"] > 0.8
    assert found["shared"]["p"] == pytest.approx(1 / 32)
    assert abs(found["shared, masked"]["value"]) < 0.3
    assert abs(found["shared, masked × shared"]["value"]) < 0.3


def test_unfinished_runs_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="expected audits of the same cities"):
        pretraining.compared(tmp_path, "association")
