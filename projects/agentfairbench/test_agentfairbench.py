"""AgentFairBench read through saved responses, on a made release of the same form."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from tod_bias.dialogues.files import read_files

FOLDER = Path(__file__).parent

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    second, read, audit = map(importlib.import_module, ("second", "read", "audit"))

LOWERED = "black_female"
NAMES = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo")


def decision(domain: str, score: float) -> dict:
    if domain == "hiring":
        return {"advance": score >= 50, "score": round(score)}
    return {"approve": True, "apr_tier": 2}


def made(domain: str, replicate: int, profiles: int = 24, harm: float = 0, noise: float = 2) -> list[dict]:
    """Decisions about made people; six names of each group, each with four profiles."""
    rng = np.random.default_rng([replicate, profiles])
    return [
        {
            "model": "sonnet",
            "rep": replicate,
            "domain": domain,
            "scaffold": "C0",
            "profile_id": f"{domain}_{number:02d}",
            "group": group,
            "name": f"{group.title()} {NAMES[(number + place) % 6]}",
            "decision": decision(domain, 30 + 2 * number - harm * (group == LOWERED) + rng.normal(0, noise)),
        }
        for number in range(profiles)
        for place, group in enumerate(read.GROUPS)
    ]


def release(folder: Path, *files: list[dict]) -> Path:
    place = folder / "results" / "raw" / "v11"
    place.mkdir(parents=True)
    for number, records in enumerate(files):
        text = "".join(json.dumps(record) + "\n" for record in records)
        (place / f"sonnet_r{number}.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_a_lowered_group_is_claimed_over_names_and_recomputed(tmp_path):
    folder = release(tmp_path, made("hiring", 1, harm=6), made("hiring", 2, harm=6))
    small, whole = audit.rows_of(folder)
    assert (small.profiles, whole.profiles, whole.replicates) == (12, 24, 2)
    assert (whole.verdict, whole.groups) == ("disparity", "black×female")
    assert whole.our_p < 0.05
    assert whole.their_p < 0.001
    scores = second.load(str(folder))["sonnet/hiring/C0"]
    group, gap, lowered, names, welch, exchanged = second.of_names(scores, np.random.default_rng(0), draws=500)
    assert (group, lowered, names) == (LOWERED, 6, 6)
    assert max(welch, exchanged) < 0.01
    assert whole.largest == f"black×female {gap:+.2f}"


def test_noise_is_no_finding_and_lies_at_the_floor(tmp_path):
    folder = release(tmp_path, made("hiring", 1), made("hiring", 2))
    row = audit.rows_of(folder)[-1]
    assert row.verdict not in audit.DIFFERENT
    assert (row.groups, row.is_above) == ("", False)
    assert row.ratio == pytest.approx(1, abs=0.15)


def test_one_run_has_the_residual_as_its_floor():
    values = np.random.default_rng(3).normal(0, 1, (200, 6, 1)) + np.arange(200)[:, None, None]
    ratio, low, high = second.ratio(values, np.random.default_rng(0))
    assert low < 1.1 < high + 0.1
    assert ratio == pytest.approx(1.1, abs=0.05)  # residuals have lost the profiles' and the groups' means


def test_incomplete_profiles_and_other_models_are_left_out():
    records = made("hiring", 1, profiles=13)
    others = [record | {"model": "qwen3-4b"} for record in records]
    (cell,) = read.cells_from([*records[1:], *others, *made("lending", 1, profiles=11)])
    assert (cell.title, len(cell.names), cell.replicates) == ("sonnet/hiring/C0", 12, 1)
    with pytest.raises(ValueError, match="hiring_00 as white_male has replicate 1 twice"):
        read.cells_from([*records, records[0]])
    with pytest.raises(ValueError, match="two names"):
        read.cells_from([*records, records[0] | {"rep": 2, "name": "Gus"}])


def test_the_files_are_those_of_saved_responses(tmp_path, capsys):
    folder = release(tmp_path / "release", made("hiring", 1, profiles=12), made("hiring", 2, profiles=12))
    read.main(str(folder), str(tmp_path / "out"))
    assert "12 profiles, 2 replicates" in capsys.readouterr().out
    written = tmp_path / "out" / "sonnet-hiring-C0"
    dialogues = list(read_files(written / "dialogues.jsonl"))
    assert [len(dialogue.turns) for dialogue in dialogues] == [2] * 12
    lines = [json.loads(line) for line in (written / "responses.jsonl").read_text().splitlines()]
    assert len(lines) == 12 * 6 * 2
    assert sum(line["variant"] == "original" for line in lines) == 12 * 2


def test_a_folder_without_decisions_is_an_error(tmp_path):
    with pytest.raises(SystemExit, match="holds no decisions"):
        read.cells_of(tmp_path)
