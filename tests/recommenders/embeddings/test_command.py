"""The command as outside programs drive it."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import refused, run_command
from spaces import planted

from tod_bias.audit.record import signature_of
from tod_bias.recommenders.embeddings.association import deaa

ROWS = {"A": range(20), "B": range(20, 40), "E": range(10), "P": range(10, 20)}
SETS = {role: {"in": "users" if role in "AB" else "items", "rows": list(rows)} for role, rows in ROWS.items()}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """model.npz (users 0-39, items 0-19), other.npz (weaker), sets.json, users.csv, items.csv."""
    monkeypatch.chdir(tmp_path)
    for name, strength in (("model", 0.8), ("other", 0.4)):
        a, b, e, p = planted(strength, people=20, things=10, dimensions=6)
        np.savez(f"{name}.npz", users=np.concatenate([a, b]), items=np.concatenate([e, p]))
    (tmp_path / "sets.json").write_text(json.dumps(SETS))
    pd.DataFrame({"id": range(40), "gender": ["f"] * 20 + ["m"] * 20}).to_csv("users.csv", index=False)
    series = [f"s{row // 5}" for row in range(20)]
    items = pd.DataFrame({"id": range(20), "genre": ["crime"] * 10 + ["sport"] * 10, "series": series})
    items.to_csv("items.csv", index=False)
    return tmp_path


def run(options, *, permutations=199):
    """What a command says, all white space alike."""
    is_comparison = options.startswith("compare")
    command = options if is_comparison else f"associate {options} --bootstrap 50"
    code, out, err = run_command(f"{command} --permutations {permutations}")
    assert code == 0, err
    return " ".join(out.split())


def associate(folder, options, *, out="run", **more):
    """The record of an audit, and what the command says."""
    said = run(f"--embeddings {options} --out {out}", **more)
    return json.loads((folder / out / "associations.json").read_text()), said


def test_npz_and_sets_give_associations(folder):
    written, said = associate(folder, "model.npz --sets sets.json --seed 3")
    assert said.index("E against P: no association") < said.index("R-RIPA by bias direction")
    with np.load("model.npz") as archive:
        a, b, e, p = *np.split(archive["users"], 2), *np.split(archive["items"], 2)
    assert written["DEAA"] == pytest.approx(deaa(e, p, a, b), abs=1e-9)
    assert (written["permutations"], written["signature"]["seed"]) == (199, 3)
    for name in ("report.html", "entities.parquet", "directions.npz", "tables/table3_r_ripa.csv", "figures/eaa.svg"):
        assert (folder / "run" / name).stat().st_size > 0, name


def test_word2vec_text_with_words_as_ids(folder):
    words = ["he", "him", "she", "her", "nurse", "cook", "judge", "pilot"]
    vectors = np.random.default_rng(0).normal(size=(8, 6))
    lines = (" ".join([word, *map(str, row)]) for word, row in zip(words, vectors.tolist(), strict=True))
    (folder / "words.txt").write_text("\n".join(lines))
    (folder / "words.json").write_text(json.dumps(dict(zip("ABEP", np.reshape(words, (4, 2)).tolist(), strict=True))))
    (folder / "bessel.yaml").write_text("ddof: 1")
    written, said = associate(folder, "words.txt --sets words.json --quiet --config bessel.yaml --alternative greater")
    assert (list(written["EAA"]), said) == (words[4:], "")
    assert [written[name] for name in ("ddof", "alternative", "exact", "permutations")] == [1, "greater", True, 6]
    assert written["p_value"] * 6 == pytest.approx(round(written["p_value"] * 6))


def test_a_csv_of_attributes_is_enough(folder):
    written, _ = associate(folder, "model.npz --users users.csv --attribute gender")
    assert written["attribute"] == "gender"
    assert written["sets"]["A"] == {"name": "f", "in": "users", "size": 20}
    assert written["sets"]["E"]["name"] == "all items"
    assert "P" not in written["GEAA"]
    (folder / "users.csv").write_text((folder / "users.csv").read_text().replace(",", ";"))  # as spreadsheets write it
    options = "model.npz --users users.csv --attribute gender=m,f --items items.csv --test genre=sport,crime"
    with_p, _ = associate(folder, options, out="both")
    assert [with_p["sets"][role]["name"] for role in "ABEP"] == ["m", "f", "sport", "crime"]
    assert with_p["DEAA"] > 0


def test_items_of_one_series_are_exchanged_together(folder):
    labels = {str(row): f"s{row // 5}" for row in range(20)}
    (folder / "series.json").write_text(json.dumps(SETS | {"clusters": {"series": labels}}))
    from_sets = "--sets series.json"
    from_column = "--users users.csv --attribute gender=f,m --items items.csv --test genre=crime,sport"
    written = []
    for number, options in enumerate((from_sets, from_column)):
        record, said = associate(folder, f"model.npz {options} --cluster-items series", out=f"run{number}")
        assert "items of one series are sampled together" in said
        written.append([record[name] for name in ("exact", "permutations", "p_value")])
    assert written[0] == written[1]
    assert written[0][:2] == [True, 6]  # two series of each set
    run("compare run0 run1")
    options = "associate --embeddings model.npz --sets series.json --out run --cluster-items"
    assert "no such column of items; known: series" in refused(f"{options} artist")
    (folder / "series.json").write_text(json.dumps(SETS | {"clusters": {"series": {"x9": "s1"}}}))
    assert "clusters, series: unknown id 'x9'" in refused(f"{options} series")


@pytest.mark.parametrize(
    ("genders", "note"),
    [
        ("f" * 18 + "FF" + "m" * 20, "2 of 40 users have another gender ('F') and are in neither set"),
        ("f" * 18 + "m" * 19, "3 of 40 users are not in odd.csv and have no attribute"),
    ],
)
def test_users_of_neither_set_are_noted(folder, genders, note):
    pd.DataFrame({"id": range(len(genders)), "gender": list(genders)}).to_csv("odd.csv", index=False)
    assert note in associate(folder, "model.npz --users odd.csv --attribute gender=f,m")[1]


def test_entities_in_both_sets_are_left_out_and_counted_where_it_is_asked(folder):
    def with_rows(name, **rows):
        changed = {role: {**SETS[role], "rows": list(numbers)} for role, numbers in rows.items()}
        (folder / f"{name}.json").write_text(json.dumps(SETS | changed))

    with_rows("shared", P=[*range(10, 20), 0, 1, 2])
    with_rows("less", E=range(3, 10))
    shared = "associate --embeddings model.npz --sets shared.json --out run"
    assert "and 2 more stand in both E and P" in refused(shared)
    dropped, said = associate(folder, "model.npz --sets shared.json --overlap drop")
    assert "3 items are in both E and P and were left out" in said
    less, _ = associate(folder, "model.npz --sets less.json", out="less")
    assert (dropped["sets"], dropped["EAA"]) == (less["sets"], less["EAA"])
    with_rows("shared", P=range(10))
    assert "set E is empty without what is in both E and P" in refused(f"{shared}2 --overlap drop")


def test_two_audits_are_compared(folder):
    before, after = (
        associate(folder, f"{name}.npz --sets sets.json", out=name, permutations=2999)[0]["DEAA"]
        for name in ("model", "other")
    )
    assert "other lowers the association" in run("compare model other --out compared", permutations=2999)
    assert "for runs of attribute" in refused("compare model other --margin 0.1")
    comparison = json.loads((folder / "compared" / "comparison.json").read_text())
    assert comparison["signature"] == signature_of({})
    metric = comparison["metrics"]["DEAA"]
    assert (metric["before"], metric["after"]) == (before, after)
    assert metric["change_percent"] == pytest.approx(100 * (after / before - 1))
    low, high = metric["change_percent_ci"]
    assert low < metric["change_percent"] < min(high, 0)


def test_pairs_may_be_given_and_the_page_is_in_the_users_words(folder):
    (folder / "pairs.csv").write_text("a,b\n" + "".join(f"{n},{n + 20}\n" for n in range(20)))
    words = {"A": "women", "B": "men", "E": "crime", "P": "sport"}
    (folder / "named.json").write_text(json.dumps({role: {**SETS[role], "name": words[role]} for role in words}))
    written, said = associate(folder, "model.npz --sets named.json --pairs pairs.csv")
    assert all("20 given pairs" in written["directions"][name]["method"] for name in ("pca", "bolukbasi"))
    assert len(written["notes"]) == 1  # items are taken as independent
    page = (folder / "run" / "report.html").read_text()
    assert page.index("crime against sport: ") < page.index("<table>")  # what was found comes first
    assert said.index("crime against sport: ") < said.index("R-RIPA by bias direction")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"B": [1, 2]}, "id '1' stands in both A and B"),
        ({"E": []}, "set E: the set is empty"),
        ({"A": ["nobody"]}, "set A: unknown row or id 'nobody'"),
        ({"A": [0, 0]}, "set A: id '0' is repeated in the set"),
        ({"A": "all"}, "set A: expected a list of row numbers or ids"),
        ({"A": {"in": "vectors", "rows": [1]}}, "no table 'vectors' in model.npz; it holds users, items"),
        ({"A": {"in": "users"}}, "set A: give one of rows, ids and where"),
        ({"A": {"where": {"gender": "f"}}}, "users have no attribute 'gender'"),
        (None, "line 1: not JSON"),
    ],
)
def test_wrong_sets_end_in_one_line(folder, changes, message):
    sets = {"A": [0, 1], "B": [2, 3], "E": [0, 1], "P": [2, 3]}
    (folder / "wrong.json").write_text('{"A": [1,' if changes is None else json.dumps(sets | changes))
    assert message in refused("associate --embeddings model.npz --sets wrong.json --out run")
    assert not (folder / "run" / "associations.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("nan.npz --sets sets.json", "users: row 5 (id '5') holds a NaN"),
        ("zero.npz --sets sets.json", "set A: row 5 (id '5') of users in zero.npz is a zero"),
        ("differ.npz --sets sets.json", "dimensions differ: users 6, items 5"),
        ("model.npz", "which groups define the attribute?"),
        ("model.npz --users users.csv --attribute age", "no attribute 'age'"),
        ("model.npz --users users.csv --attribute gender=f,x", "no gender is 'x'"),
        ("model.npz --users users.csv --attribute gender=f", "gender=VALUE,VALUE"),
        ("model.npz --users users.csv --attribute id", "id of users has 40 values"),
        ("model.npz --users strange.csv --attribute gender", "line 3: id 'x9' is unknown"),
        ("model.npz --sets sets.json --pairs pairs.csv", "line 2: unknown id '20'"),
        ("model.npz --sets sets.json --interactions plays.csv", "plays.csv: none of its users (x, y, …) is in"),
        ("model.npz --sets only_a.json", "no set B"),
    ],
)
def test_wrong_input_ends_in_one_line(folder, options, message):
    with np.load("model.npz") as archive:
        users, items = archive["users"], archive["items"]
    for name, value in (("nan", np.nan), ("zero", 0.0)):
        np.savez(f"{name}.npz", users=np.where(np.arange(40)[:, None] == 5, value, users), items=items)
    np.savez("differ.npz", users=users, items=items[:, :5])
    (folder / "strange.csv").write_text("id,gender\n1,f\nx9,m\n")
    (folder / "pairs.csv").write_text("a,b\n20,0\n")
    (folder / "plays.csv").write_text("user,item\nx,1\ny,2\n")
    (folder / "only_a.json").write_text('{"A": [1]}')
    assert message in refused(f"associate --out run --embeddings {options}")


def test_one_of_three_groups_is_compared_with_the_rest(tmp_path):
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(90, 8)), rng.normal(size=(40, 8))
    users[::3, 0] += 3
    items[:, 0] += 1
    np.savez(tmp_path / "model.npz", users=users, items=items)
    cells = "".join(f"{number},{'nfm'[number % 3] if number else ''}\n" for number in range(90))
    (tmp_path / "users.csv").write_text(f"user,gender\n{cells}")
    files = "--embeddings", tmp_path / "model.npz", "--users", tmp_path / "users.csv"
    quick = "--permutations", "200", "--bootstrap", "20"
    code, out, err = run_command("associate", *files, "--attribute", "gender=n,rest", *quick, "--out", tmp_path / "run")
    assert code == 0, err
    assert "closer to n than to not n" in out
    sets = json.loads((tmp_path / "run" / "associations.json").read_text())["sets"]
    assert (sets["A"]["size"], sets["B"]["size"], sets["B"]["name"]) == (29, 60, "not n")
    code, _, err = run_command("associate", *files, "--attribute", "gender", "--out", tmp_path / "other")
    assert code == 2
    assert "gender=VALUE,rest" in err
