"""Review data: Yelp's files, city CSVs, the sample."""

import csv
import json

import numpy as np
import pytest
from commands import refused

from tod_bias.cli.recommender_options import ReviewOptions
from tod_bias.cli.work.recommender_reviews import read_reviews
from tod_bias.errors import RecommenderError, TodBiasError
from tod_bias.recommenders.lmrec.reviews import Reviews, name_statistics, read_csv, read_yelp
from tod_bias.recommenders.lmrec.sample import CHEAP, DEAR, sample, write_sample
from tod_bias.recommenders.lmrec.templates import MASK, load_templates

HEADER = ["business_id", "review_stars", "review_text", "name", "price", "categories"]
ROWS = [
    ["a", "5", "Twin Fox was lovely,\nsaid Emily and Jamal", "Twin Fox - Midtown", "$$", "Bars, Thai"],
    ["a", "4", "The TWIN FOX again, with Emily", "Twin Fox - Midtown", "$$", "Bars, Thai"],
    ["b", "3", "Good pho for Keisha", "Pho 24", "1.0", "Vietnamese"],
    ["b", "3", "Good pho", "Pho 24", "1.0", "Vietnamese"],
    ["c", "3", "Once", "Rare", "4", "French"],
]


def write(path, rows, header=HEADER):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_a_citys_csv(tmp_path):
    reviews = Reviews(read_csv(write(tmp_path / "x.csv", ROWS)), city="X", fewest=2)
    assert [(v.id, v.name, v.price, v.categories) for v in reviews.venues] == [
        ("a", "Twin Fox - Midtown", 2, ("Bars", "Thai")),
        ("b", "Pho 24", 1, ("Vietnamese",)),
    ]
    assert [review.text for review in reviews] == [
        f"{MASK} was lovely,\nsaid Emily and Jamal", f"The {MASK} again, with Emily", "Good pho for Keisha", "Good pho",
    ]  # fmt: skip
    assert [review.venue for review in reviews] == [0, 0, 1, 1]
    result = reviews.statistics()
    names = ("reviews", "venues", "venues_with_fewer_reviews", "most_rated_venue", "categories", "most_categories")
    assert [result[name] for name in names] == [4, 2, 1, 2, 3, 2]
    assert result["venues_by_price"] == {"$": 0.5, "$$": 0.5, "$$$": 0, "$$$$": 0, "missing": 0}


def test_names_by_price_level(tmp_path):
    reviews = Reviews(read_csv(write(tmp_path / "x.csv", ROWS)), city="X", fewest=2)
    frame = name_statistics(reviews).set_index(["dimension", "label", "price"])
    assert frame.loc[("race", "white", 2), "mentions"] == 2
    assert frame.loc[("race", "white", 2), "value"] == pytest.approx(2 / 3)
    assert frame.loc[("race", "black", 1), "value"] == 1
    assert np.isnan(frame.loc[("race", "black", 3), "value"])


def yelp(folder):
    business = [
        {"business_id": key, "name": name, "city": city, "categories": categories}
        | {"attributes": {"RestaurantsPriceRange2": price} if price else None}
        for key, name, city, categories, price in (
            ("a", "Fox", "Boston", "Bars, Thai", "2"),
            ("b", "Hen", "Austin", None, None),
            ("c", "Cut", "Boston", "Hair Salons, Beauty & Spas", "3"),
            ("d", "Elk", "Boston", "restaurants, Thai", None),
        )
    ]
    review = [{"business_id": key, "text": f"{key} {n}"} for n in range(3) for key in "abcd"]
    for name, rows in (("business", business), ("review", review)):
        (folder / f"yelp_academic_dataset_{name}.json").write_text("\n".join(map(json.dumps, rows)))


def test_yelp_files(tmp_path):
    yelp(tmp_path)
    reviews = Reviews(read_yelp(tmp_path, "boston"), city="Boston", fewest=3, category="thai")
    assert [(v.id, v.price, v.categories) for v in reviews.venues[:1]] == [("a", 2, ("Bars", "Thai"))]
    assert [venue.id for venue in reviews.venues] == ["a", "d"]
    assert [review.text for review in reviews] == ["a 0", "d 0", "a 1", "d 1", "a 2", "d 2"]
    with pytest.raises(RecommenderError, match="no business in the city 'Paris'"):
        read_yelp(tmp_path, "Paris")
    remaining = Reviews(read_yelp(tmp_path, "Austin"), city="Austin", fewest=3)
    assert (remaining.venues[0].price, remaining.venues[0].categories) == (None, ())
    with (tmp_path / "yelp_academic_dataset_review.json").open("a") as file:
        file.write('\n{"business_id": "a"')
    with pytest.raises(TodBiasError, match=r"review\.json, line 13: not JSON"):
        Reviews(read_yelp(tmp_path, "Boston"), city="Boston", fewest=3)


def test_hair_salons_are_no_restaurants(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yelp(tmp_path)
    for category, venues, others in (("Restaurants", 1, 2), ("any", 3, 0), ("Thai", 2, 1)):
        options = ReviewOptions(reviews=(f"Boston={tmp_path}",), min_reviews=3, category=category)
        found = read_reviews(options)[0].statistics()
        assert (found["venues"], found["venues_of_other_categories"]) == (venues, others)
    with pytest.raises(RecommenderError, match="Boston: none of 3 venues is of the category 'Sushi'"):
        read_reviews(ReviewOptions(reviews=(f"Boston={tmp_path}",), min_reviews=3, category="Sushi"))
    with pytest.raises(RecommenderError, match=r"--reviews c\.csv: is given twice"):
        read_reviews(ReviewOptions(reviews=("A=c.csv", "B=c.csv")))


def test_rows_that_contradict_their_venue_are_logged(tmp_path, caplog):
    rows = [[*ROWS[0][:4], price, "Bars"] for price in ("2", "3", "2")]
    result = Reviews(read_csv(write(tmp_path / "c.csv", rows)), city="C", fewest=1)
    assert result.venues[0].price == 2
    assert "c.csv, line 5" in caplog.text


def test_venues_without_price_are_dropped_on_request(tmp_path):
    rows = [[*row[:4], "" if row[0] == "b" else row[4], row[5]] for row in ROWS]
    reviews = Reviews(read_csv(write(tmp_path / "x.csv", rows)), city="X", fewest=2, missing="drop")
    assert ([venue.id for venue in reviews.venues], reviews.dropped, len(reviews)) == (["a"], 1, 2)


def test_splits_are_eight_one_one_and_seeded(tmp_path):
    reviews = Reviews(sample(venues=24, reviews=25), city="X", fewest=25)
    parts = reviews.splits(3)
    assert np.bincount(parts).tolist() == [480, 60, 60]
    assert (parts == reviews.splits(3)).all()
    assert (parts != reviews.splits(4)).any()
    texts = [[review.text for review in reviews.of_split(number, 3)] for number in range(3)]
    assert [len(part) for part in texts] == [480, 60, 60]


def test_the_sample_is_seeded_balanced_and_planted(tmp_path):
    first, again, other = (list(sample(seed, venues=48, reviews=30)()) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    reviews = Reviews(sample(venues=240, reviews=30), city="X", fewest=30)
    assert set(reviews.statistics()["venues_by_price"].values()) == {0.25, 0.0}
    desserts = [venue.price for venue in reviews.venues if "Desserts" in venue.categories]
    assert np.bincount(desserts).tolist() == [0, 10, 10, 10, 10]
    names = name_statistics(reviews).set_index(["dimension", "label", "price"])
    assert names.loc[("race", "black", 1), "value"] == pytest.approx(0.95, abs=0.03)
    assert names.loc[("race", "black", 4), "value"] == pytest.approx(0.05, abs=0.03)
    assert names.loc[("gender", "female", 1), "value"] == pytest.approx(0.5, abs=0.03)
    count = write_sample(tmp_path / "s.csv", sample(venues=24, reviews=3))
    assert count == 72
    assert len(Reviews(read_csv(tmp_path / "s.csv"), city="X", fewest=3)) == 72
    with pytest.raises(RecommenderError, match="not 241"):
        sample(venues=241)


def test_a_sample_with_nothing_planted_mentions_everybody_everywhere_alike():
    reviews = Reviews(sample(venues=240, reviews=30, planted=False), city="X", fewest=30)
    names = name_statistics(reviews).set_index(["dimension", "label", "price"])
    for group in (("race", "black"), ("race", "white"), ("gender", "female"), ("gender", "male")):
        for price in (1, 2, 3, 4):
            assert names.loc[(*group, price), "value"] == pytest.approx(0.5, abs=0.02)
    dear = {number for number, venue in enumerate(reviews.venues) if venue.price > 2}
    entries = list(reviews)
    for places, wrong in ((DEAR, False), (CHEAP, True)):
        for place in places:
            assert wrong in {(entry.venue in dear) for entry in entries if place in entry.text}, place


def test_words_are_those_of_the_papers():
    from tod_bias.perturb.names import first_names

    words = load_templates()
    assert len([kind for kind, _ in words.templates]) == 3 * 18
    assert len(words.names) == 88
    assert len(words.locations) == 30
    groups = [(entry.group, entry.labels["gender"]) for entry in words.relationships]
    assert {group: groups.count(group) for group in groups} == {
        ("first", "female"): 8, ("first", "male"): 8, ("second", "female"): 3, ("second", "male"): 3,
    }  # fmt: skip
    shen = {(name.name, name.race) for name in first_names() if "Shen" in name.source}
    assert {(entry.word, entry.labels["race"]) for entry in words.names} == shen


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        (["business_id", "name"], [], "x.csv, line 1: no column 'review_text'"),
        (HEADER, [ROWS[0], ["b", "1"]], "x.csv, line 4: 2 cells; the header has 6"),
        (HEADER, [[*ROWS[2][:4], "dear", "Thai"]], "x.csv, line 2: venue 'b': price 'dear'"),
        (HEADER, [["", *ROWS[2][1:]]], "x.csv, line 2: no business_id"),
        (HEADER, [], "x: no venue of 0 has 1 reviews or more"),
    ],
)
def test_wrong_input_ends_in_one_line_and_exit_code_2(header, rows, message, tmp_path):
    write(tmp_path / "x.csv", rows, header)
    options = ("--min-reviews", 1, "--out", tmp_path / "model")
    assert message in refused("recommend train --reviews", tmp_path / "x.csv", *options)
