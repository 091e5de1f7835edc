"""The layouts, each written as its distributor writes it."""

import pandas as pd
import pytest

from tod_bias.errors import TodBiasError
from tod_bias.recommenders.embeddings.interactions import interactions_of, load_interactions


def test_a_file_with_its_attributes(tmp_path):
    for name, text in {
        "ratings.csv": "userId,movieId,rating,timestamp\n1,10,5.0,1\n1,20,3.0,2\n2,10,4.0,3\n",
        "movies.csv": 'movieId,title,genre\n10,"Fever, The (1995)",Action|Crime\n20,Calm,unknown\n30,Other,News\n',
        "users.csv": "user_id,gender\n2,F\n1,M\n",
    }.items():
        (tmp_path / name).write_text(text)
    result = load_interactions(*(tmp_path / f"{name}.csv" for name in ("ratings", "users", "movies")))
    users, items = result.user_ids, result.item_ids
    triples = {(users[u], items[i], w) for u, i, w in zip(result.user, result.item, result.weight, strict=True)}
    assert triples == {("1", "10", 5.0), ("1", "20", 3.0), ("2", "10", 4.0)}
    assert dict(zip(users, result.users["gender"], strict=True)) == {"2": "F", "1": "M"}
    assert dict(zip(items, result.items["genre"], strict=True)) == {"10": "Action|Crime", "20": "unknown"}


def test_parquet(tmp_path):
    frame = pd.DataFrame({"user_id": ["a", "a", "b", "b"], "item_id": ["x", "y", "x", "x"]})
    frame.to_parquet(tmp_path / "events.parquet")
    result = load_interactions(tmp_path / "events.parquet")
    assert result.weight.tolist() == [1, 1, 2]


def test_top_items():
    frame = pd.DataFrame({"user": list("aaabbc"), "item": list("xyzxyx"), "weight": [1, 3, 1, 2, 2, 1]})
    result = interactions_of(frame)
    top = [[result.item_ids[item] for item in part] for part in result.top_items(2)]
    assert top == [["y", "x"], ["x", "y"], ["x"]]  # ties: the more popular item first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,what\n1,2\n", "no column of items among user, what"),
        ("user,item,weight\n1,2,3\n1,3,none\n", "line 3: expected user, item and weight, a number above 0"),
        ("user,item,weight\n1,2,-1\n", "line 2: expected user, item and weight"),
        ("user,item\n1,\n", "line 2: expected user, item"),
        ("user,item\n", "no interactions"),
        ("", "cannot be read as a table"),
    ],
)
def test_unusable_interactions_are_named(tmp_path, text, message):
    (tmp_path / "events.csv").write_text(text)
    with pytest.raises(TodBiasError, match=message) as raised:
        load_interactions(tmp_path / "events.csv")
    assert "\n" not in str(raised.value)
