"""The command as outside programs drive it."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import refused, run_command
from spaces import planted

from tod_bias.recommenders.embeddings.association import deaa, effect_size

QUICK = ("--permutations", 199, "--bootstrap", 50)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """model.npz (users 0-39, items 0-19), other.npz (weaker), sets.json, users.csv, items.csv, words.txt."""
    monkeypatch.chdir(tmp_path)
    for name, strength in (("model", 0.8), ("other", 0.4)):
        a, b, e, p = planted(strength, people=20, things=10, dimensions=6)
        np.savez(f"{name}.npz", users=np.concatenate([a, b]), items=np.concatenate([e, p]))
    rows = {"A": range(20), "B": range(20, 40), "E": range(10), "P": range(10, 20)}
    specs = {
        role: {"in": "users" if role in "AB" else "items", "rows": list(numbers)} for role, numbers in rows.items()
    }
    (tmp_path / "sets.json").write_text(json.dumps(specs))
    pd.DataFrame({"id": range(40), "gender": ["f"] * 20 + ["m"] * 20}).to_csv("users.csv", index=False)
    pd.DataFrame({"id": range(20), "genre": ["crime"] * 10 + ["sport"] * 10}).to_csv("items.csv", index=False)
    return tmp_path


def test_npz_and_sets_give_associations(folder):
    code, out, err = run_command("associate --embeddings model.npz --sets sets.json --out run", *QUICK, "--seed", 3)
    assert code == 0, err
    assert out.index("E against P: no association") < out.index("R-RIPA by bias direction")
    written = json.loads((folder / "run" / "associations.json").read_text())
    with np.load("model.npz") as archive:
        users, items = archive["users"], archive["items"]
    a, b, e, p = users[:20], users[20:], items[:10], items[10:]
    assert written["DEAA"] == pytest.approx(deaa(e, p, a, b), abs=1e-9)
    assert written["effect_size"] == pytest.approx(effect_size(e, p, a, b), abs=1e-9)
    assert written["permutations"] == 199
    assert written["signature"]["seed"] == 3
    for name in ("report.html", "entities.parquet", "directions.npz", "tables/table3_r_ripa.csv", "figures/eaa.svg"):
        assert (folder / "run" / name).stat().st_size > 0, name


def test_word2vec_text_with_words_as_ids(folder):
    words = ["he", "him", "she", "her", "nurse", "cook", "judge", "pilot"]
    vectors = np.random.default_rng(0).normal(size=(8, 6))
    lines = (" ".join([word, *map(str, row)]) for word, row in zip(words, vectors.tolist(), strict=True))
    (folder / "words.txt").write_text("\n".join(lines))
    (folder / "words.json").write_text(json.dumps({"A": words[:2], "B": words[2:4], "E": words[4:6], "P": words[6:]}))
    code, _, err = run_command(
        "associate --embeddings words.txt --sets words.json --out run --quiet --ddof 1 --alternative greater"
    )
    assert code == 0, err
    written = json.loads((folder / "run" / "associations.json").read_text())
    assert list(written["EAA"]) == words[4:]
    assert [written[name] for name in ("ddof", "alternative", "exact", "permutations")] == [1, "greater", True, 6]
    assert written["p_value"] * 6 == pytest.approx(round(written["p_value"] * 6))


def test_a_csv_of_attributes_is_enough(folder):
    code, _, err = run_command(
        "associate --embeddings model.npz --users users.csv --attribute gender --out run", *QUICK
    )
    assert code == 0, err
    written = json.loads((folder / "run" / "associations.json").read_text())
    assert written["attribute"] == "gender"
    assert written["sets"]["A"] == {"name": "f", "in": "users", "size": 20}
    assert written["sets"]["E"]["name"] == "all items"
    assert "P" not in written["GEAA"]
    (folder / "users.csv").write_text((folder / "users.csv").read_text().replace(",", ";"))  # as spreadsheets write it
    code, _, err = run_command(
        "associate --embeddings model.npz --users users.csv --attribute gender=m,f "
        "--items items.csv --test genre=sport,crime --out both --quiet",
        *QUICK,
    )
    assert code == 0, err
    with_p = json.loads((folder / "both" / "associations.json").read_text())
    assert [with_p["sets"][role]["name"] for role in "ABEP"] == ["m", "f", "sport", "crime"]
    assert with_p["DEAA"] > 0


def test_items_of_one_series_are_exchanged_together(folder):
    labels = {str(row): f"s{row // 5}" for row in range(20)}
    specs = json.loads((folder / "sets.json").read_text())
    (folder / "series.json").write_text(json.dumps(specs | {"clusters": {"series": labels}}))
    frame = pd.DataFrame({"id": range(20), "genre": ["crime"] * 10 + ["sport"] * 10, "series": labels.values()})
    frame.to_csv("series.csv", index=False)
    from_sets = ("--sets", "series.json")
    from_column = ("--users", "users.csv", "--attribute", "gender=f,m", "--items", "series.csv")
    from_column += ("--test", "genre=crime,sport")
    written = []
    for number, options in enumerate((from_sets, from_column)):
        arguments = ("--embeddings", "model.npz", *options, "--cluster-items", "series", "--out", f"run{number}")
        code, out, err = run_command("associate", *arguments, *QUICK)
        assert code == 0, err
        assert "items of one series are sampled together" in " ".join(out.split())
        written.append(json.loads((folder / f"run{number}" / "associations.json").read_text()))
    assert [(run["exact"], run["permutations"]) for run in written] == [(True, 6)] * 2  # two series of each set
    assert written[0]["p_value"] == written[1]["p_value"]
    code, _, err = run_command("associate compare run0 run1", *QUICK)
    assert code == 0, err
    message = refused("associate --embeddings model.npz --sets series.json --cluster-items artist --out run")
    assert "no such key of clusters in --sets and no such column of items; known: series" in message
    (folder / "series.json").write_text(json.dumps(specs | {"clusters": {"series": {"x9": "s1"}}}))
    message = refused("associate --embeddings model.npz --sets series.json --cluster-items series --out run")
    assert "clusters, series: unknown id 'x9'" in message


def test_unnamed_values_of_an_attribute_are_noted(folder):
    pd.DataFrame({"id": range(40), "gender": [*["f"] * 18, "F", "F", *["m"] * 20]}).to_csv("odd.csv", index=False)
    options = ("--embeddings", "model.npz", "--users", "odd.csv", "--attribute", "gender=f,m", "--out", "run")
    code, out, err = run_command("associate", *options, *QUICK)
    assert code == 0, err
    assert "2 of 40 users have another gender ('F') and are in neither set" in " ".join(out.split())


def test_users_that_the_file_does_not_name_are_counted(folder):
    pd.DataFrame({"id": range(37), "gender": [*["f"] * 18, *["m"] * 19]}).to_csv("few.csv", index=False)
    options = ("--embeddings", "model.npz", "--users", "few.csv", "--attribute", "gender", "--out", "run")
    code, out, err = run_command("associate", *options, *QUICK)
    assert code == 0, err
    assert "3 of 40 users are not in few.csv and have no attribute" in " ".join(out.split())


def test_entities_in_both_sets_are_left_out_and_counted_where_it_is_asked(folder):
    specs = json.loads((folder / "sets.json").read_text())
    rows = {role: specs[role]["rows"] for role in ("E", "P")}
    shared = specs | {"P": {**specs["P"], "rows": [*rows["P"], *rows["E"][:3]]}}
    less = specs | {"E": {**specs["E"], "rows": rows["E"][3:]}}
    for name, content in (("shared", shared), ("less", less)):
        (folder / f"{name}.json").write_text(json.dumps(content))
    message = refused("associate --embeddings model.npz --sets shared.json --out run")
    assert (
        "and 2 more stand in both E and P; the two sets must not share entities: take them out, or give --overlap drop"
        in message
    )
    options = ("--embeddings", "model.npz", "--sets", "shared.json", "--overlap", "drop", "--out", "run")
    code, out, err = run_command("associate", *options, *QUICK)
    assert code == 0, err
    assert "3 items are in both E and P and were left out" in " ".join(out.split())
    assert run_command("associate --embeddings model.npz --sets less.json --out less", *QUICK)[0] == 0
    runs = [json.loads((folder / name / "associations.json").read_text()) for name in ("run", "less")]
    assert runs[0]["sets"] == runs[1]["sets"]
    assert runs[0]["EAA"] == runs[1]["EAA"]
    (folder / "shared.json").write_text(json.dumps(specs | {"P": specs["E"]}))
    message = refused("associate --embeddings model.npz --sets shared.json --overlap drop --out run2")
    assert "set E is empty without what is in both E and P" in message


def test_two_audits_are_compared(folder):
    many = ("--permutations", 2999, "--bootstrap", 50)
    for name in ("model", "other"):
        arguments = ("--embeddings", f"{name}.npz", "--sets", "sets.json", "--out", name, "--quiet", *many)
        assert run_command("associate", *arguments)[0] == 0
    code, out, err = run_command("associate compare model other --out compared", *many)
    assert code == 0, err
    assert "other lowers the association" in " ".join(out.split())
    metric = json.loads((folder / "compared" / "comparison.json").read_text())["metrics"]["DEAA"]
    for when, name in (("before", "model"), ("after", "other")):
        assert metric[when] == json.loads((folder / name / "associations.json").read_text())["DEAA"]
    assert metric["change_percent"] == pytest.approx(100 * (metric["after"] / metric["before"] - 1))
    low, high = metric["change_percent_ci"]
    assert low < metric["change_percent"] < min(high, 0)


def test_pairs_may_be_given_and_the_page_is_in_the_users_words(folder):
    (folder / "pairs.csv").write_text("a,b\n" + "".join(f"{n},{n + 20}\n" for n in range(20)))
    words = {"A": "women", "B": "men", "E": "crime", "P": "sport"}
    specs = json.loads((folder / "sets.json").read_text())
    (folder / "named.json").write_text(json.dumps({role: {**specs[role], "name": words[role]} for role in words}))
    arguments = ("--embeddings", "model.npz", "--sets", "named.json", "--pairs", "pairs.csv", "--out", "run")
    code, out, err = run_command("associate", *arguments, *QUICK)
    assert code == 0, err
    written = json.loads((folder / "run" / "associations.json").read_text())
    methods = {name: written["directions"][name]["method"] for name in ("pca", "bolukbasi")}
    assert methods["pca"] == "first principal component of the differences of 20 given pairs"
    assert methods["bolukbasi"] == "main direction of 20 given pairs"
    assert len(written["notes"]) == 1  # items are taken as independent
    page = (folder / "run" / "report.html").read_text()
    assert page.index("crime against sport: ") < page.index("<table>")  # what was found comes first
    assert out.index("crime against sport: ") < out.index("R-RIPA by bias direction")


def changed_sets(**changes):
    base = {"A": [0, 1], "B": [2, 3], "E": [0, 1], "P": [2, 3]}
    return json.dumps(base | changes)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (changed_sets(B=[1, 2]), "id '1' stands in both A and B"),
        (changed_sets(E=[]), "set E: the set is empty"),
        (changed_sets(A=["nobody"]), "set A: unknown row or id 'nobody'"),
        (changed_sets(A=[0, 0]), "set A: id '0' is repeated in the set"),
        (changed_sets(A="all"), "set A: expected a list of row numbers or ids"),
        (changed_sets(A={"in": "vectors", "rows": [1]}), "no table 'vectors' in model.npz; it holds users, items"),
        (changed_sets(A={"in": "users"}), "set A: give one of rows, ids and where"),
        (changed_sets(A={"where": {"gender": "f"}}), "users have no attribute 'gender'"),
        ('{"A": [1]}', "no set B"),
        ('{"A": [1,', "line 1: not JSON"),
    ],
)
def test_wrong_sets_end_in_one_line(folder, sets, message):
    (folder / "wrong.json").write_text(sets)
    assert message in refused("associate --embeddings model.npz --sets wrong.json --out run")
    assert not (folder / "run" / "associations.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--embeddings", "nan.npz", "--sets", "sets.json"), "users: row 5 (id '5') holds a NaN"),
        (("--embeddings", "zero.npz", "--sets", "sets.json"), "set A: row 5 (id '5') of users in zero.npz is a zero"),
        (("--embeddings", "differ.npz", "--sets", "sets.json"), "dimensions differ: users 6, items 5"),
        (("--embeddings", "model.npz"), "which groups define the attribute?"),
        (("--embeddings", "model.npz", "--users", "users.csv", "--attribute", "age"), "no attribute 'age'"),
        (("--embeddings", "model.npz", "--users", "users.csv", "--attribute", "gender=f,x"), "no gender is 'x'"),
        (("--embeddings", "model.npz", "--users", "users.csv", "--attribute", "gender=f"), "gender=VALUE,VALUE"),
        (("--embeddings", "model.npz", "--users", "users.csv", "--attribute", "id"), "id of users has 40 values"),
        (
            ("--embeddings", "model.npz", "--users", "strange.csv", "--attribute", "gender"),
            "line 3: id 'x9' is unknown",
        ),
        (("--embeddings", "model.npz", "--sets", "sets.json", "--pairs", "pairs.csv"), "line 2: unknown id '20'"),
        (
            ("--embeddings", "model.npz", "--sets", "sets.json", "--interactions", "plays.csv"),
            "plays.csv: none of its users (x, y, …) is in model.npz (0, 1, 2, …)",
        ),
    ],
)
def test_wrong_input_ends_in_one_line(folder, options, message):
    with np.load("model.npz") as archive:
        users, items = archive["users"], archive["items"]
    for name, value in (("nan", np.nan), ("zero", 0.0)):
        broken = users.copy()
        broken[5] = value
        np.savez(f"{name}.npz", users=broken, items=items)
    np.savez("differ.npz", users=users, items=items[:, :5])
    (folder / "strange.csv").write_text("id,gender\n1,f\nx9,m\n")
    (folder / "pairs.csv").write_text("a,b\n20,0\n")
    (folder / "plays.csv").write_text("user,item\nx,1\ny,2\n")
    assert message in refused("associate", *options, "--out", "run")
