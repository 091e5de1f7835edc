"""Association within pairs, such as counterfactual users."""

import json

import numpy as np
import pytest
from commands import refused, run_command

from tod_bias.recommenders.embeddings.association import eaa
from tod_bias.recommenders.embeddings.audit import audit
from tod_bias.recommenders.embeddings.pairs import paired_associations
from tod_bias.recommenders.embeddings.readers import save_embeddings
from tod_bias.recommenders.embeddings.reading import statements
from tod_bias.recommenders.embeddings.sets import resolve_sets
from tod_bias.recommenders.embeddings.settings import AuditSettings
from tod_bias.recommenders.embeddings.tables import within_pairs
from tod_bias.recommenders.embeddings.vectors import Embeddings

USERS, ITEMS = 60, 25
FAST = AuditSettings(permutations=199, bootstrap=0)


def people(shift, rng, *, of_users=0.0):
    """The same users as A and as B, E and P; ``shift`` is what the attribute moves along the first dimension."""
    users = rng.normal(size=(USERS, 12))
    noise = rng.normal(size=(2, USERS, 12)) * 0.1
    axis = np.eye(12)[0]
    a, b = users + noise[0] + shift * axis, users + noise[1] - shift * axis
    e, p = (rng.normal(size=(ITEMS, 12)) + sign * axis for sign in (1, -1))
    return a + of_users * axis, b + of_users * axis, e, p


def sets_of(a, b, e, p):
    embeddings = Embeddings.of(users=np.concatenate([a, b]), items=np.concatenate([e, p]))
    ids = {"A": ("users", 0, USERS), "B": ("users", USERS, 2 * USERS)}
    ids |= {"E": ("items", 0, ITEMS), "P": ("items", ITEMS, 2 * ITEMS)}
    specs = {role: {"in": table, "ids": list(map(str, range(low, high)))} for role, (table, low, high) in ids.items()}
    return embeddings, resolve_sets(specs, embeddings)


def same_rows(count=USERS):
    return np.column_stack([np.arange(count)] * 2)


def test_the_difference_is_mean_eaa_on_the_pairs():
    a, b, e, p = people(0.2, np.random.default_rng(0))
    _, sets = sets_of(a, b, e, p)
    found = paired_associations(sets, same_rows(40), FAST)
    assert (found["pairs"], found["independent"]) == (40, 40)
    expected = {"E": eaa(e, a[:40], b[:40]).mean(), "P": eaa(p, a[:40], b[:40]).mean()}
    expected["differential"] = expected["E"] - expected["P"]
    assert {name: one["value"] for name, one in found["of"].items()} == pytest.approx(expected, abs=1e-12)


def test_pairs_that_share_a_user_change_signs_together():
    _, sets = sets_of(*people(0.2, np.random.default_rng(0)))
    chain = np.array([[0, 0], [0, 1], [2, 1], [5, 7], [9, 7], [11, 12]])
    assert paired_associations(sets, chain, FAST)["independent"] == 3


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_size_and_power(shift):
    claims = 0
    for seed in range(100):
        _, sets = sets_of(*people(shift, np.random.default_rng(seed)))
        found = paired_associations(sets, same_rows(), FAST)["of"]
        claims += any(entry["flagged"] for entry in found.values())
    assert claims <= 9 if shift == 0 else claims >= 90, claims


def test_people_who_differ_do_not_count_within_pairs():
    """All users lean to E, in both roles: nothing is within pairs."""
    _, sets = sets_of(*people(0.0, np.random.default_rng(5), of_users=1.0))
    assert not any(entry["flagged"] for entry in paired_associations(sets, same_rows(), FAST)["of"].values())


def test_an_audit_says_what_is_within_pairs():
    embeddings, sets = sets_of(*people(0.3, np.random.default_rng(1)))
    run = audit(embeddings, sets, AuditSettings(permutations=199, bootstrap=50), pairs=same_rows()).record
    said = [statement.sentence for statement in statements(run) if "within pairs" in statement.sentence]
    assert "E against P: within pairs, vectors are closer as A than as B" in said
    low, high = run["pairs"]["of"]["differential"]["ci"]
    assert low < run["pairs"]["of"]["differential"]["value"] < high
    assert len(within_pairs(run).rows) == 3
    assert audit(embeddings, sets, FAST).record["pairs"] is None


def test_the_command_reads_counterfactual_users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, b, e, p = people(0.3, np.random.default_rng(1))
    embeddings = Embeddings.of(users=np.concatenate([a, b]), items=np.concatenate([e, p]))
    save_embeddings(embeddings, tmp_path / "model.npz")
    genders, genres = ["woman"] * USERS + ["man"] * USERS, ["crime"] * ITEMS + ["sport"] * ITEMS
    for file, column, values in (("users.csv", "gender", genders), ("items.csv", "genre", genres)):
        (tmp_path / file).write_text("\n".join([f"id,{column}", *(f"{n},{value}" for n, value in enumerate(values))]))
    (tmp_path / "pairs.csv").write_text("\n".join(["as_woman,as_man", *(f"{n},{n + USERS}" for n in range(USERS))]))
    line = (
        "associate --embeddings model.npz --users users.csv --items items.csv --attribute gender=woman,man "
        "--test genre=crime,sport --permutations 199 --bootstrap 50 --out run"
    )
    code, said, _ = run_command(line, "--pairs", "pairs.csv")
    assert code == 0
    assert "crime against sport: within pairs, vectors are closer as woman than as man" in " ".join(said.split())
    assert json.loads((tmp_path / "run" / "associations.json").read_text())["pairs"]["pairs"] == USERS
    assert (tmp_path / "run" / "tables" / "within_pairs.csv").exists()
    (tmp_path / "pairs.csv").write_text("as_woman,as_man\n0,0")
    assert "line 2: unknown id" in refused(line, "--pairs", "pairs.csv")
