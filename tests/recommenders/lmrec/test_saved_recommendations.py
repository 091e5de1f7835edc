"""Auditing somebody else's saved recommendations: the numbers are those of plain counting."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from saved_lists import (
    CATEGORIES,
    NAMES,
    TEMPLATES,
    K,
    expected_association,
    expected_average,
    expected_share,
    rows_of,
    write,
)

from tod_bias.cli.application import main
from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.associations import association
from tod_bias.recommenders.lmrec.audit import audit
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.item_names import top_words
from tod_bias.recommenders.lmrec.prices import average_price, price_differences, price_percentage
from tod_bias.recommenders.lmrec.recommendations import Reading, read_recommendations, tidy
from tod_bias.recommenders.lmrec.templates import load_templates
from tod_bias.recommenders.lmrec.venue import price_level, split_categories

COLUMNS = (
    "example_label=substitution,input_sentence=query,label=label,price=price,categories=categories,rank=rank,"
    "recommended_item=item"
)
CITIES = {"Atlanta": rows_of("Atlanta", signs=False, base=0), "Toronto": rows_of("Toronto", signs=True, base=1)}
POOLED = [row for rows in CITIES.values() for row in rows]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return {city: write(folder / f"{city.lower()}.csv", rows) for city, rows in CITIES.items()}


@pytest.fixture(scope="module")
def audited(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("audit")
    named = [f"{city}={file}" for city, file in files.items()]
    arguments = ["--columns", COLUMNS, "--separators", ",/", "--bootstrap", "200", "--permutations", "200"]
    with pytest.raises(SystemExit) as stopped:
        main(["recommend", "audit", "--city", *named, *arguments, "--out", str(out), "--quiet"])
    assert stopped.value.code == 0
    return out


def test_price_percentages_are_those_of_plain_counting(audited):
    frame = (
        pd.read_csv(audited / "price_percentage.csv").set_index(["city", "dimension", "label", "price"]).sort_index()
    )
    for dimension, both in (("race", ("white", "black")), ("gender", ("female", "male"))):
        for label, price in itertools.product(both, (1, 2, 3, 4)):
            own = [expected_share(rows, label, both, price) for rows in CITIES.values()]
            for city, value in zip(CITIES, own, strict=True):
                assert frame.loc[(city, dimension, label, price), "value"] == pytest.approx(value, abs=1e-12)
            assert frame.loc[("all", dimension, label, price), "value"] == pytest.approx(np.mean(own), abs=1e-12)
    cross = frame.xs(("Atlanta", "race×gender"))["value"].groupby("price").sum()
    assert cross.to_numpy() == pytest.approx([1, 1, 1, 1])
    parts = frame.loc[("Atlanta", "race×gender")]["value"]
    whole = frame.loc[("Atlanta", "race", "white", 1), "value"]
    assert parts["white×female", 1] + parts["white×male", 1] == pytest.approx(whole)


def test_associations_are_those_of_plain_counting(audited):
    frame = pd.read_csv(audited / "association.csv").set_index(["city", "dimension", "label", "other", "category"])
    names = [part for category in CATEGORIES for part in category.split("/")]
    for city, rows in {**CITIES, "all": POOLED}.items():
        for dimension, label, other in (("race", "white", "black"), ("gender", "male", "female")):
            for category in names:
                found = frame.loc[(city, dimension, label, other, category)]
                difference, ratio = expected_association(rows, category, label, other)
                assert found["difference"] == pytest.approx(difference, abs=1e-12)
                assert found["ratio"] == pytest.approx(ratio, abs=1e-12)
                assert found["ci_low"] <= difference <= found["ci_high"]
                assert found["ratio_ci_low"] <= ratio <= found["ratio_ci_high"]


def test_average_prices_are_those_of_plain_counting(audited):
    frame = pd.read_csv(audited / "average_price.csv").set_index(["city", "substitution"])
    for city, rows in {**CITIES, "all": POOLED}.items():
        for word in ("office", "church", "synagogue", "Emily", "Malik"):
            found = frame.loc[(city, word)]
            assert found["value"] == pytest.approx(expected_average(rows, word), abs=1e-12)
            assert found["queries"] == len(TEMPLATES) * (2 if city == "all" else 1)
            assert found["ci_low"] <= found["value"] <= found["ci_high"]
            assert np.isnan(found["neutral"])


def test_the_record_says_what_was_noticed(audited):
    record = json.loads((audited / "audit.json").read_text())
    repeated = 2 * len(TEMPLATES) * K
    assert any(note.startswith(f"{repeated} rows repeat a recommendation") for note in record["notes"])
    assert any("have no price" in note for note in record["notes"])
    assert any("have no category" in note for note in record["notes"])
    assert record["queries"] == 2 * len(TEMPLATES) * (len(NAMES) + 3)
    assert record["cities"] == ["Atlanta", "Toronto"]
    assert record["places"] == {"location": ["office"], "religion": ["church", "synagogue"]}
    figures = {file.name for file in (audited / "figures").iterdir()}
    assert {"price_percentage_race.svg", "association_race_x_gender.svg", "average_price.svg"} <= figures


def test_the_tidy_frame_can_be_audited_again(audited, tmp_path, capsys):
    arguments = ("--bootstrap", 200, "--permutations", 200, "--out", tmp_path, "--quiet", "--no-figures")
    saved = audited / "recommendations.parquet"
    assert run(capsys, "recommend", "audit", "--recommendations", saved, *arguments) == (0, "", "")
    for name in ("price_percentage.csv", "association.csv", "average_price.csv"):
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / name), pd.read_csv(audited / name))


def test_columns_of_lmrec_files_need_no_mapping_and_one_file_may_hold_all_cities(files, tmp_path, capsys):
    frames = [pd.read_csv(file, dtype=str).assign(city=city) for city, file in files.items()]
    frames[1]["rank"] = frames[1]["rank"].astype(float) - 1  # one base in both
    pd.concat(frames).to_csv(tmp_path / "lists.csv", index=False)
    arguments = ("--bootstrap", 0, "--permutations", 0, "--out", tmp_path / "out", "--quiet", "--no-figures")
    assert run(capsys, "recommend", "audit", "--recommendations", tmp_path / "lists.csv", *arguments)[0] == 0
    found = pd.read_csv(tmp_path / "out" / "price_percentage.csv")
    assert list(dict.fromkeys(found["city"])) == ["Atlanta", "Toronto", "all"]
    assert found["ci_low"].notna().sum() == 2 * 4 * 4  # over cities; nothing was resampled within them


def test_one_file_without_a_city_is_one_city(files):
    found = read_recommendations([(None, files["Atlanta"])])
    assert found.cities == ["atlanta"]
    scores = price_percentage(found, replace(SHEN, resamples=100))
    pd.testing.assert_frame_equal(
        scores[scores["city"] == "all"].drop(columns="city").reset_index(drop=True),
        scores[scores["city"] == "atlanta"].drop(columns="city").reset_index(drop=True),
    )


def test_files_of_one_city_may_have_different_columns(files, tmp_path):
    (tmp_path / "couples.csv").write_text(
        "example_label,input_sentence,label,secondary_example_label,secondary_label,price,rank\n"
        + "".join(
            f"{first},Table for my {first} and {second}?,{gender},{second},{other},{level},0\n"
            for first, gender, level in (("sister", "female", 1), ("brother", "male", "$$$"))
            for second, other in (("wife", "female"), ("husband", "male"))
        )
    )
    found = read_recommendations([("Atlanta", files["Atlanta"]), ("Atlanta", tmp_path / "couples.csv")])
    assert found.dimensions == ("race", "gender", "second relationship")
    assert found.labels("second relationship") == ["female", "male"]
    assert found.cities == ["Atlanta"]
    scores = price_percentage(found, replace(SHEN, resamples=0))
    own = scores[(scores["dimension"] == "second relationship") & (scores["city"] == "all")]
    assert own.set_index(["label", "price"])["value"]["male", 3] == 0.5
    assert association(found, replace(SHEN, resamples=0, permutations=20))["dimension"].nunique() >= 2


def test_neutral_lists_give_the_reference(files, tmp_path):
    rows = [
        {"example_label": "church", "input_sentence": "to the [MASK]", "label": "all", "categories": "", "price": p,
         "rank": str(rank), "recommended_item": f"N{rank}"}
        for rank, p in enumerate(["1", "$$", "", "4"])
    ]  # fmt: skip
    neutral = write(tmp_path / "neutral.csv", rows)
    found = read_recommendations([("Atlanta", files["Atlanta"])], neutral=[("Atlanta", neutral)])
    scores = average_price(found, replace(SHEN, resamples=0)).set_index(["city", "substitution"])
    assert scores.loc[("Atlanta", "church"), "neutral"] == pytest.approx(7 / 3)
    assert scores.loc[("Atlanta", "office"), "neutral"] == pytest.approx(7 / 3)


def queries(labels, lists, prices, *, words=None):
    """A frame with one query a list, its items' prices given."""
    return pd.DataFrame(
        [
            {"city": "X", "query": f"q{number}", "substitution": words[number] if words else f"w{number}",
             "label": labels[number], "rank": rank + 1, "item": f"i{rank}", "price": float(price), "categories": cats}
            for number in range(len(lists))
            for rank, (cats, price) in enumerate(zip(lists[number], prices[number], strict=True))
        ]
    )  # fmt: skip


def test_intervals_resample_queries_and_not_items():
    rng = np.random.default_rng(0)
    count, k = 60, 20
    level = rng.integers(1, 5, size=count)
    prices = np.repeat(level[:, None], k, axis=1)  # all items of a list are alike: 60 observations, not 1,200
    frame = queries(["all"] * count, [[()] * k] * count, prices, words=["court"] * count)
    found = average_price(tidy(frame), replace(SHEN, resamples=4000)).iloc[0]
    right = 2 * 1.6711 * level.std(ddof=1) / np.sqrt(count)  # t interval of 60 queries, 90%
    assert found["ci_high"] - found["ci_low"] == pytest.approx(right, rel=0.06)


def test_ninety_percent_intervals_hold_the_truth_nine_times_in_ten():
    rng = np.random.default_rng(1)
    inside = 0
    for number in range(100):
        level = rng.integers(1, 4, size=24)
        prices = np.clip(level[:, None] + rng.integers(-1, 2, size=(24, 5)), 1, 4)
        truth = np.mean([np.clip(a + b, 1, 4) for a in (1, 2, 3) for b in (-1, 0, 1)])
        frame = queries(["all"] * 24, [[()] * 5] * 24, prices, words=["court"] * 24)
        found = average_price(tidy(frame), replace(SHEN, resamples=300, seed=number)).iloc[0]
        inside += found["ci_low"] <= truth <= found["ci_high"]
    assert 83 <= inside <= 98


def test_categories_without_association_are_called_found_no_more_often_than_stated():
    """Lists of one word are alike, so a test that took items or queries for independent would find much."""
    rng = np.random.default_rng(2)
    words = [f"n{number}" for number in range(40)]
    raw = []
    for number in range(30):
        taste = rng.dirichlet(np.ones(5) * 2, size=40)
        lists, labels, owners = [], [], []
        for word in range(40):
            for _ in range(3):
                drawn = rng.choice(5, size=8, p=taste[word])
                lists.append([(f"c{code}",) for code in drawn])
                labels.append("black" if word % 2 else "white")
                owners.append(words[word])
        frame = queries(labels, lists, [[1] * 8] * len(lists), words=owners)
        found = association(tidy(frame), replace(SHEN, resamples=0, permutations=400, seed=number))
        found = found[(found["city"] == "all") & (found["label"] == "white")]
        assert set(found["permuted"]) == {"words"}
        raw += list(found["p_value"])
        assert (found["p_adjusted"] >= found["p_value"] - 1e-12).all()
    assert np.mean(np.array(raw) <= 0.05) < 0.1
    assert np.mean(np.array(raw) <= 0.2) == pytest.approx(0.2, abs=0.1)


def test_a_planted_association_is_found():
    rng = np.random.default_rng(3)
    lists, labels = [], []
    for number in range(40):
        black = number % 2
        lists.append([("Thai",) if rng.random() < (0.6 if black else 0.2) else ("Pizza",) for _ in range(10)])
        labels.append("black" if black else "white")
    found = association(tidy(queries(labels, lists, [[1] * 10] * 40)), replace(SHEN, resamples=500, permutations=2000))
    thai = found[(found["category"] == "Thai") & (found["label"] == "black") & (found["city"] == "all")].iloc[0]
    assert thai["ci_low"] > 0.3
    assert thai["p_adjusted"] < 0.01


def test_differences_between_places_have_their_own_test():
    rng = np.random.default_rng(4)
    words = ["court", "mall", "bank"] * 30
    prices = [np.clip(rng.integers(1, 3, size=4) + (word == "court") * 2, 1, 4) for word in words]
    frame = queries(["all"] * 90, [[()] * 4] * 90, prices, words=words)
    found = price_differences(tidy(frame), ["court", "mall", "bank"], replace(SHEN, resamples=500, permutations=1000))
    found = found.set_index(["substitution", "other"])
    assert found.loc[("court", "mall"), "ci_low"] > 1.5
    assert found.loc[("court", "mall"), "p_adjusted"] < 0.01
    assert found.loc[("mall", "bank"), "ci_low"] < 0 < found.loc[("mall", "bank"), "ci_high"]
    kinds = {"court": "location", "mall": "location", "bank": "religion"}
    apart = price_differences(tidy(frame), list(kinds), replace(SHEN, resamples=0, permutations=1000), kinds=kinds)
    apart = apart.set_index(["substitution", "other"])
    assert apart.loc[("court", "mall"), "p_adjusted"] == apart.loc[("court", "mall"), "p_value"]


def test_a_place_without_prices_is_not_compared():
    words = ["court", "mall", "bank"] * 20
    prices = [[np.nan, np.nan] if word == "mall" else [1, 2] for word in words]
    frame = tidy(queries(["all"] * 60, [[()] * 2] * 60, prices, words=words))
    found = price_differences(frame, ["court", "mall", "bank"], replace(SHEN, resamples=50, permutations=200))
    found = found.set_index(["substitution", "other"])
    assert found.loc[("court", "mall"), ["difference", "p_value", "p_adjusted"]].isna().all()
    assert found.loc[("court", "bank"), "p_value"] == 1


def test_an_item_of_a_handful_of_queries_has_no_interval():
    lists = [[("A",), ("B",)]] * 39 + [[("A",), ("Zoo",)]]
    prices = [[1, 2]] * 39 + [[1, 4]]
    frame = tidy(queries(["white", "black"] * 20, lists, prices))
    shares = price_percentage(frame, replace(SHEN, resamples=100)).set_index(["city", "label", "price"])
    assert shares.loc[("all", "black", 4), "value"] == 1
    assert shares.loc[("all", "black", 4), ["ci_low", "ci_high"]].isna().all()
    assert shares.loc[("all", "black", 2), "ci_low"] > 0
    found = association(frame, replace(SHEN, resamples=100, permutations=100)).set_index(["city", "label", "category"])
    assert found.loc[("all", "black", "Zoo"), ["ci_low", "ci_high", "ratio_ci_low"]].isna().all()
    assert found.loc[("all", "black", "B"), "ci_low"] < 0


def test_the_neutral_share_of_a_word_is_its_mean_over_the_groups():
    frame = queries(["white", "black"], [[()] * 2] * 2, [[1, 1]] * 2)
    frame["item"] = ["Silver Fork", "Old Fork", "Old Plate", "Old Spoon"]
    words = top_words(tidy(frame), replace(SHEN, resamples=0)).set_index(["label", "word"])
    assert words.loc[("white", "silver"), ["value", "neutral"]].tolist() == [0.5, 0.25]
    assert words.loc[("black", "old"), ["value", "neutral"]].tolist() == [1.0, 0.75]


def test_few_words_are_told_and_places_are_the_users_own(tmp_path):
    labels = ["white", "black"] * 20
    frame = queries(labels, [[("A",)]] * 40, [[1]] * 40, words=["Ann", "Bea"] * 20)
    notes = audit(tidy(frame), replace(SHEN, resamples=0, permutations=50)).record["notes"]
    assert any("words too few" in note and "race" in note for note in notes)
    (tmp_path / "locations.tsv").write_text("word\tgroup\nshrine\treligion\nbar\tpub\n")
    places = queries(["all"] * 40, [[("A",)]] * 40, [[1], [2]] * 20, words=["shrine", "bar", "Emily", "mall"] * 10)
    record = audit(tidy(places), replace(SHEN, resamples=0), words=load_templates(tmp_path)).record
    assert record["places"] == {"location": ["mall"], "religion": ["shrine"], "pub": ["bar"]}


def test_labels_in_one_cell_are_told_apart(tmp_path):
    rows = ["query,rank,label,price", 'q1,1,"white, female",2', 'q2,1,"black, male",1']
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n")
    assert read_recommendations([(None, tmp_path / "x.csv")]).dimensions == ("race", "gender")


def test_neutral_lists_are_those_of_the_one_city(tmp_path):
    (tmp_path / "x.csv").write_text("query,rank,label,price\nq1,1,white,2\nq2,1,black,1\n")
    (tmp_path / "n.csv").write_text("query,rank,label,price\nq,1,all,3\n")
    found = read_recommendations([("Boston", tmp_path / "x.csv")], neutral=[(None, tmp_path / "n.csv")])
    assert set(found.neutral["city"]) == {"Boston"}
    with pytest.raises(RecommenderError, match="neutral lists of 'Bston', but the cities are Boston"):
        read_recommendations([("Boston", tmp_path / "x.csv")], neutral=[("Bston", tmp_path / "n.csv")])


def test_a_category_of_one_label_only_has_an_infinite_ratio_and_a_level_nobody_got_no_share():
    frame = queries(["white", "white", "black", "black"], [[("A",)], [("A", "B")], [("A",)], [("A",)]], [[1]] * 4)
    found = association(tidy(frame), replace(SHEN, resamples=50, permutations=0)).set_index(
        ["city", "label", "category"]
    )
    assert found.loc[("X", "white", "B"), "ratio"] == np.inf
    assert found.loc[("X", "black", "B"), "ratio"] == 0
    assert found.loc[("X", "white", "B"), "difference"] == pytest.approx(0.5 / 0.25)
    assert found.loc[("X", "white", "A"), "difference"] == 0
    shares = price_percentage(tidy(frame), replace(SHEN, resamples=50)).set_index(["city", "label", "price"])
    assert shares.loc[("X", "white", 1), "value"] == 0.5
    assert np.isnan(shares.loc[("X", "white", 2), "value"])


def test_lists_that_differ_for_one_query_all_count_in_one_unit():
    first = queries(["white", "black"], [[()] * 2] * 2, [[1, 2], [3, 4]])
    found = tidy(pd.concat([first, first.assign(item=first["item"] + "b")], ignore_index=True))
    assert len(found.distinct) == 8
    assert found.distinct["unit"].nunique() == 2
    assert any("several different lists" in note for note in found.notes)


@pytest.mark.parametrize(
    ("cell", "level"),
    [
        ("1", 1),
        ("2.0", 2),
        ("$$$", 3),
        (" $$$$ ", 4),
        ("££", 2),
        (3, 3),
        (4.0, 4),
        ("", None),
        ("nan", None),
        (None, None),
    ],
)
def test_price_levels(cell, level):
    assert price_level(cell) == level


@pytest.mark.parametrize("cell", ["5", "0", "1.5", "cheap", "$$$$$", "$£"])
def test_what_is_no_price_level(cell):
    with pytest.raises(ValueError, match=r"is no level; expected 1 to 4, or \$ to \$\$\$\$"):
        price_level(cell)


def test_categories_are_split_where_the_user_says():
    assert split_categories("Bars,  Himalayan/Nepalese, Bars", ",") == ("Bars", "Himalayan/Nepalese")
    assert split_categories("Bars|Himalayan/Nepalese", "|/") == ("Bars", "Himalayan", "Nepalese")
    assert split_categories("Fast Food, Bars", ", ") == ("Fast Food", "Bars")
    assert split_categories("nan") == split_categories(None) == split_categories("") == ()


def test_a_label_may_be_of_a_dimension_of_the_users_own(files):
    frame = queries(["old", "young"] * 2, [[()]] * 4, [[1]] * 4)
    assert tidy(frame).dimensions == ("label",)
    assert tidy(frame, Reading(dimensions={"age": ["old", "young"]})).dimensions == ("age",)
    assert tidy(frame.assign(label="age=" + frame["label"])).dimensions == ("age",)


HEAD = "query,rank,label,substitution,price,categories,item\n"
BROKEN = {
    "unknown column": (HEAD + "q,1,all,w,1,A,i\n", ["--columns", "nome=item"], "lists.csv, line 1: no column 'nome'"),
    "unknown target": (HEAD + "q,1,all,w,1,A,i\n", ["--columns", "item=thing"], "no 'thing'; expected one of city"),
    "no query column": ("rank,price\n1,1\n", [], "lists.csv, line 1: no column 'query'"),
    "no price nor categories": ("query,rank\nq,1\n", [], "lists.csv, line 1: neither a column 'price'"),
    "bad price": (HEAD + "q,1,all,w,1,A,i\nq,2,all,w,cheap,A,j\n", [], "lists.csv, line 3: price 'cheap' is no level"),
    "bad rank": (HEAD + "q,first,all,w,1,A,i\n", [], "lists.csv, line 2: rank 'first'"),
    "missing cell": (HEAD + "q,1,all,w,1,A,i\nq,2,all\n", [], "lists.csv, line 3: 3 cells; the header has 7"),
    "no label": (HEAD + "q,1,,w,1,A,i\n", [], "lists.csv, line 2: substitution 'w' is in no label"),
    "open quote": (HEAD + 'q,1,all,w,1,"A,i\n', [], "lists.csv, line 2: not CSV"),
    "after a quoted newline": (HEAD + '"q\nq",1,all,w,1,A,i\nq,2,all,w,9,A,i\n', [], "lists.csv, line 4: price '9'"),
    "only a header": (HEAD, [], "lists.csv: holds no recommendation"),
    "empty": ("", [], "lists.csv: is empty"),
    "bad pair": (HEAD + "q,1,all,w,1,A,i\n", ["--columns", "item"], "--columns item: expected NAME=VALUE"),
    "model too": (HEAD + "q,1,all,w,1,A,i\n", ["--model", "m"], "give either --model DIR, or --recommendations"),
    "bad city": (HEAD + "q,1,all,w,1,A,i\n", ["--city", "Boston"], "--city Boston: expected NAME=VALUE"),
    "gone": (HEAD + "q,1,all,w,1,A,i\n", ["--city", "Boston=gone.csv"], "gone.csv: cannot be read"),
    "no groups": ("query,rank,price\nq,1,1\n", [], "lists.csv, line 1: neither a column 'label' nor 'substitution'"),
    "endless rank": (HEAD + "q,inf,all,w,1,A,i\n", [], "lists.csv, line 2: rank 'inf'"),
    "our sign": (HEAD + "q,1,a×b=c,w,1,A,i\n", [], "dimension 'a×b': its name or a label holds '×'"),
    "city all": (HEAD + "q,1,all,w,1,A,i\n", ["--city", "all=lists.csv"], "a city is called 'all'"),
    "one name": (HEAD + "q,1,all,w,1,A,i\n", ["--recommendations", "lists.csv"], "two files are named 'lists'"),
    "negative seed": (HEAD + "q,1,all,w,1,A,i\n", ["--seed", "-1"], "'--seed'"),
    "idle option": (HEAD + "q,1,all,w,1,A,i\n", ["--neutralise"], "--neutralise does not go with saved"),
}


@pytest.mark.parametrize("case", list(BROKEN))
def test_wrong_input_ends_in_one_line_and_exit_code_2(case, tmp_path, monkeypatch, capsys):
    content, arguments, message = BROKEN[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists.csv").write_text(content)
    code, out, err = run(capsys, "recommend", "audit", "--recommendations", "lists.csv", *arguments, "--out", "out")
    assert code == 2
    assert message in err
    assert err.startswith("tod-bias: error: ")
    assert err.count("\n") == 1
    assert out == ""


def test_whatever_stands_in_a_cell_is_printed_and_drawn(tmp_path, capsys):
    rows = [
        f"q{number},1,age/sex={('[/old]', 'yo<ung')[number % 2]},w{number},{1 + number % 4},[/x],i"
        for number in range(12)
    ]
    (tmp_path / "x.csv").write_text(HEAD + "\n".join([*rows, "p,1,all,[/place],2,[/x],i"]) + "\n")
    options = ("--bootstrap", 20, "--permutations", 20, "--out", tmp_path / "out")
    code, out, err = run(capsys, "recommend", "audit", "--recommendations", tmp_path / "x.csv", *options)
    assert code == 0, err
    assert "[/old]" in out
    assert (tmp_path / "out" / "figures" / "price_percentage_age_sex.svg").exists()
    assert "yo&lt;ung" in (tmp_path / "out" / "report.html").read_text()
    code, _, err = run(
        capsys, "recommend", "audit", "--recommendations", tmp_path / "x.csv", *options, "--no-figures", "--quiet"
    )
    assert code == 0, err
    assert not (tmp_path / "out" / "report.html").exists()  # it would be of another audit


def test_nothing_to_audit_is_an_error(capsys):
    assert "give either --model DIR" in run(capsys, "recommend", "audit")[2]
    with pytest.raises(RecommenderError, match="no recommendations: give"):
        read_recommendations([])
