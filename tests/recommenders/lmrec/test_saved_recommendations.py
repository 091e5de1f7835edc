"""Auditing somebody else's saved recommendations: the numbers are those of plain counting."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import refused, run_command
from saved_lists import (
    CATEGORIES,
    NAMES,
    TEMPLATES,
    K,
    expected_association,
    expected_average,
    expected_share,
    queries,
    rows_of,
    write,
)

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.inference import SHEN
from tod_bias.recommenders.lmrec.reading import sheets
from tod_bias.recommenders.lmrec.recommendations import ListFormat, read_recommendations, tidy
from tod_bias.recommenders.lmrec.results import Audit
from tod_bias.recommenders.lmrec.scores import average_price, price_percentage
from tod_bias.recommenders.lmrec.venue import price_level, split_categories

COLUMNS = "example_label=substitution,input_sentence=query,label=label,recommended_item=item"
CITIES = {"Atlanta": rows_of("Atlanta", signs=False, base=0), "Toronto": rows_of("Toronto", signs=True, base=1)}
POOLED = [row for rows in CITIES.values() for row in rows]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return {city: write(folder / f"{city.lower()}.csv", rows) for city, rows in CITIES.items()}


@pytest.fixture(scope="module")
def audited(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("audit")
    named = [f"{city}={file}" for city, file in files.items()]
    arguments = ["--columns", COLUMNS, "--separators", ",/", "--bootstrap", "200", "--permutations", "200"]
    assert run_command("recommend audit --city", *named, *arguments, "--out", out, "--quiet")[0] == 0
    return out


def test_price_percentages_are_those_of_plain_counting(audited):
    frame = pd.read_csv(audited / "price_percentage.csv")
    frame = frame.set_index(["city", "dimension", "label", "price"]).sort_index()
    for dimension, both in (("race", ("white", "black")), ("gender", ("female", "male"))):
        for label, price in itertools.product(both, (1, 2, 3, 4)):
            subset = [expected_share(rows, label, both, price) for rows in CITIES.values()]
            for city, value in zip(CITIES, subset, strict=True):
                assert frame.loc[(city, dimension, label, price), "value"] == pytest.approx(value, abs=1e-12)
            assert frame.loc[("all", dimension, label, price), "value"] == pytest.approx(np.mean(subset), abs=1e-12)
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
                result = frame.loc[(city, dimension, label, other, category)]
                difference, ratio = expected_association(rows, category, label, other)
                assert result["difference"] == pytest.approx(difference, abs=1e-12)
                assert result["ratio"] == pytest.approx(ratio, abs=1e-12)
                assert result["words"] <= 4
                assert np.isnan([result["ci_low"], result["ratio_ci_high"]]).all()  # four names are no group


def test_average_prices_are_those_of_plain_counting(audited):
    frame = pd.read_csv(audited / "average_price.csv").set_index(["city", "substitution"])
    for city, rows in {**CITIES, "all": POOLED}.items():
        for word in ("office", "church", "synagogue", "Emily", "Malik"):
            result = frame.loc[(city, word)]
            assert result["value"] == pytest.approx(expected_average(rows, word), abs=1e-12)
            assert result["queries"] == len(TEMPLATES) * (2 if city == "all" else 1)
            assert result["ci_low"] <= result["value"] <= result["ci_high"]
            assert np.isnan(result["neutral"])


def test_the_record_says_what_was_noticed(audited):
    record = json.loads((audited / "audit.json").read_text())
    notes = "; ".join(record["notes"])
    for said in (f"{2 * len(TEMPLATES) * K} rows repeat a recommendation", "have no price", "have no category"):
        assert said in notes
    assert record["queries"] == 2 * len(TEMPLATES) * (len(NAMES) + 3)
    assert record["places"] == {"location": ["office"], "religion": ["church", "synagogue"]}
    figures = {file.name for file in (audited / "figures").iterdir()}
    assert {"price_percentage_race.svg", "association_race_x_gender.svg", "average_price.svg"} <= figures


def test_the_tidy_frame_can_be_audited_again(audited, tmp_path):
    arguments = ("--bootstrap", 200, "--permutations", 200, "--out", tmp_path, "--quiet", "--no-figures")
    saved = audited / "recommendations.parquet"
    assert run_command("recommend audit --recommendations", saved, *arguments) == (0, "", "")
    for name in ("price_percentage.csv", "association.csv", "average_price.csv"):
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / name), pd.read_csv(audited / name))


def test_columns_of_lmrec_files_need_no_mapping_and_one_file_may_hold_all_cities(files, tmp_path):
    frames = [pd.read_csv(file, dtype=str).assign(city=city) for city, file in files.items()]
    frames[1]["rank"] = frames[1]["rank"].astype(float) - 1  # one base in both
    pd.concat(frames).to_csv(tmp_path / "lists.csv", index=False)
    arguments = ("--bootstrap", 0, "--permutations", 0, "--out", tmp_path / "out", "--quiet", "--no-figures")
    assert run_command("recommend audit --recommendations", tmp_path / "lists.csv", *arguments)[0] == 0
    average = pd.read_csv(tmp_path / "out" / "average_price.csv")
    assert average["city"].unique().tolist() == ["Atlanta", "Toronto", "all"]
    assert (average["ci_low"].notna() == (average["city"] == "all")).all()  # nothing was resampled within cities


def test_one_file_without_a_city_is_one_city(files):
    result = read_recommendations([(None, files["Atlanta"])])
    scores = price_percentage(result, replace(SHEN, resamples=100)).groupby("city")
    whole, city = (scores.get_group(name).drop(columns="city").reset_index(drop=True) for name in ("all", "atlanta"))
    pd.testing.assert_frame_equal(whole, city)


def test_semicolons_and_tabs_part_columns_too(files, tmp_path):
    rows = list(csv.reader(files["Atlanta"].read_text(encoding="utf-8").splitlines()))
    expected = read_recommendations([("x", files["Atlanta"])]).frame
    for name, mark in (("lists.csv", ";"), ("lists.txt", "\t"), ("lists.tsv", "\t")):
        with (tmp_path / name).open("w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, delimiter=mark).writerows(rows)
        pd.testing.assert_frame_equal(read_recommendations([("x", tmp_path / name)]).frame, expected)


def test_files_of_one_city_may_have_different_columns(files, tmp_path):
    head = "example_label,input_sentence,label,secondary_example_label,secondary_label,price,rank\n"
    couples = [
        f"{first},Table for my {first} and {second}?,{gender},{second},{other},{level},0\n"
        for first, gender, level in (("sister", "female", 1), ("brother", "male", "$$$"))
        for second, other in (("wife", "female"), ("husband", "male"))
    ]
    (tmp_path / "couples.csv").write_text("".join([head, *couples]))
    result = read_recommendations([("Atlanta", files["Atlanta"]), ("Atlanta", tmp_path / "couples.csv")])
    assert result.dimensions == ("race", "gender", "second relationship")
    assert result.cities == ["Atlanta"]
    scores = price_percentage(result, replace(SHEN, resamples=0))
    subset = scores[(scores["dimension"] == "second relationship") & (scores["city"] == "all")]
    assert subset.set_index(["label", "price"])["value"]["male", 3] == 0.5


def test_rows_labelled_neutral_are_the_reference(files, tmp_path):
    query = {"example_label": "church", "input_sentence": "to the [MASK]", "label": "neutral", "categories": ""}
    rows = [
        query | {"price": price, "rank": str(rank), "recommended_item": f"N{rank}"}
        for rank, price in enumerate(["1", "$$", "", "4"])
    ]
    neutral = write(tmp_path / "neutral.csv", rows)
    result = read_recommendations([("Atlanta", files["Atlanta"]), ("Atlanta", neutral)])
    scores = average_price(result, replace(SHEN, resamples=0)).set_index(["city", "substitution"])
    assert scores.loc["Atlanta", "neutral"][["church", "office"]].tolist() == pytest.approx([7 / 3] * 2)


def test_price_levels():
    levels = {"1": 1, "2.0": 2, " $$$$ ": 4, "££": 2, 4.0: 4, "": None, "nan": None}
    assert {cell: price_level(cell) for cell in levels} == levels
    for cell in ("5", "0", "1.5", "cheap", "$£"):
        with pytest.raises(ValueError, match="level"):
            price_level(cell)


def test_categories_are_split_where_the_user_says():
    assert split_categories("Bars,  Himalayan/Nepalese, Bars", ",") == ("Bars", "Himalayan/Nepalese")
    assert split_categories("Bars|Himalayan/Nepalese", "|/") == ("Bars", "Himalayan", "Nepalese")
    assert split_categories("Fast Food, Bars", ", ") == ("Fast Food", "Bars")
    assert split_categories("Caf\u00e9, Cafe\u0301") == ("Caf\u00e9",)
    assert split_categories("nan") == split_categories(None) == split_categories("") == ()


def test_a_label_may_be_of_a_new_dimension():
    frame = queries(["old", "young"] * 2, [[()]] * 4, [[1]] * 4)
    assert tidy(frame).dimensions == ("label",)
    assert tidy(frame, ListFormat(dimensions={"age": ["old", "young"]})).dimensions == ("age",)
    with pytest.raises(RecommenderError, match=r"age: no query is labelled 'yuong'; .* did you mean 'young'"):
        tidy(frame, ListFormat(dimensions={"age": ["old", "yuong"]}))
    assert tidy(frame.assign(label="age=" + frame["label"])).dimensions == ("age",)


LISTS = "query,rank,label,price,item\nq,1,female,1,a\nr,1,male,2,b\n"
HEAD = "query,rank,label,substitution,price,categories,item\n"
ROW = "q,1,all,w,1,A,i\n"
BROKEN = {
    "unknown column": (HEAD + ROW, ["--columns", "nome=item"], "lists.csv, line 1: no column 'nome'"),
    "no query column": ("rank,price\n1,1\n", [], "lists.csv, line 1: no column 'query'"),
    "no price nor categories": ("query,rank\nq,1\n", [], "lists.csv, line 1: neither a column 'price'"),
    "bad price": (HEAD + ROW + "q,2,all,w,cheap,A,j\n", [], "lists.csv, line 3: price 'cheap' is not a price level"),
    "bad rank": (HEAD + "q,first,all,w,1,A,i\n", [], "lists.csv, line 2: rank 'first'"),
    "missing cell": (HEAD + ROW + "q,2,all\n", [], "lists.csv, line 3: 3 cells; the header has 7"),
    "no label": (HEAD + "q,1,,w,1,A,i\n", [], "lists.csv, line 2: no label"),
    "open quote": (HEAD + 'q,1,all,w,1,"A,i\n', [], "lists.csv, line 2: not CSV"),
    "after a quoted newline": (HEAD + '"q\nq",1,all,w,1,A,i\nq,2,all,w,9,A,i\n', [], "lists.csv, line 4: price '9'"),
    "empty": ("", [], "lists.csv: is empty"),
    "only a header": (HEAD, [], "lists.csv: holds no recommendation"),
    "no groups": ("query,rank,price\nq,1,1\n", [], "lists.csv, line 1: neither a column 'label' nor 'substitution'"),
    "our sign": (HEAD + "q,1,a×b=c,w,1,A,i\n", [], "dimension 'a×b': its name or a label holds '×'"),
    "city all": (HEAD.strip() + ",city\nq,1,all,w,1,A,i,all\n", [], "a city is called 'all'"),
    "one name": (HEAD + "q,1,all,w,1,A,i\n", ["--recommendations", "lists.csv"], "two files are named 'lists'"),
    "a label in two dimensions": (HEAD + ROW, ["--dimension", "a=f", "--dimension", "b=f"], "'f' is named twice"),
    "two labels of a dimension": (HEAD + "q,1,female; male,w,1,A,i\n", [], "'female' and 'male' are both of 'gender'"),
    "a column twice": (HEAD.replace("item", "price") + "q,1,all,w,1,A,2\n", [], "two columns are 'price'"),
    "case": (LISTS + "s,1,Female,1,a\n", [], "differ in case alone"),
    "the same lists": (LISTS, ["--city", "A=lists.csv", "--city", "B=lists.csv"], "hold the same lists"),
}


@pytest.mark.parametrize("case", list(BROKEN))
def test_wrong_input_ends_in_one_line_and_exit_code_2(case, tmp_path, monkeypatch):
    content, arguments, message = BROKEN[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists.csv").write_text(content)
    assert message in refused("recommend audit --recommendations lists.csv", *arguments, "--out", "out")


def test_a_label_alone_in_its_dimension_and_files_of_one_city_are_noted(tmp_path):
    for name, label in (("one", "male"), ("two", "femail")):
        (tmp_path / f"{name}.csv").write_text(LISTS.replace("male,2", f"{label},2"))
    files = [("A", tmp_path / "one.csv"), ("A", tmp_path / "two.csv")]
    result = read_recommendations(files)
    assert result.dimensions == ("gender",)
    assert "A: 2 files are read as one city" in result.notes
    assert any("'femail' is alone" in note and "did you mean 'female'?" in note for note in result.notes)


def test_rows_with_an_empty_label_are_counted():
    labels = ["origin=x", "origin=y", "origin=", "origin= ; age=5"]
    rows = pd.DataFrame({"query": list("abcd"), "rank": 1, "price": 2.0, "label": labels})
    assert "empty labels (origin=) in 2 rows" in tidy(rows).notes[0]


def test_a_folder_with_another_commands_report_is_not_written_into(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lists.csv").write_text(LISTS)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text("{}")
    assert "run: holds what attribute wrote" in refused("recommend audit --recommendations lists.csv --out run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["results.json"]


def test_whatever_stands_in_a_cell_is_printed_and_drawn(tmp_path):
    labels = ("[/old]", "yo<ung") * 6
    rows = [f"q{n},1,age/sex={label},w{n},{1 + n % 4},[/x],i\n" for n, label in enumerate(labels)]
    (tmp_path / "x.csv").write_text("".join([HEAD, *rows, "p,1,all,[/place],2,[/x],i\n"]))
    options = ("--bootstrap", 20, "--permutations", 20, "--out", tmp_path / "out")
    code, out, err = run_command("recommend audit --recommendations", tmp_path / "x.csv", *options)
    assert code == 0, err
    assert "[/old]" in out
    assert (tmp_path / "out" / "figures" / "price_percentage_age_sex.svg").exists()
    assert "yo&lt;ung" in (tmp_path / "out" / "report.html").read_text()
    plain = (*options, "--no-figures", "--quiet")
    assert run_command("recommend audit --recommendations", tmp_path / "x.csv", *plain)[0] == 0
    assert not (tmp_path / "out" / "report.html").exists()  # it would be of another audit


def test_the_neutral_share_is_shown_where_no_list_has_a_first_price(tmp_path):
    (tmp_path / "x.csv").write_text(LISTS.replace(",1,a", ",2,a"))
    options = ("--bootstrap", 0, "--permutations", 0, "--no-figures", "--out", tmp_path / "out")
    code, _, err = run_command("recommend audit --recommendations", tmp_path / "x.csv", *options)
    assert code == 0, err
    shares = next(sheet for sheet in sheets(Audit.read(tmp_path / "out")) if sheet.name == "price_percentage")
    assert ["female", "0.500", "–", "0.500"] in [list(map(str, row[1:5])) for row in shares.rows]
