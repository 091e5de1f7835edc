"""The layouts, each written as its distributor writes it."""

import pandas as pd
import pytest

from tod_bias.errors import TodBiasError
from tod_bias.recommenders.latent_factor.interactions import interactions_of, load_interactions, save_interactions

LAYOUTS = {
    "movielens 100k": {
        "u.data": "1\t10\t5\t881250949\n1\t20\t3\t881250950\n2\t10\t4\t881250951\n",
        "u.user": "1|24|M|technician|85711\n2|53|F|other|94043\n",
        "u.genre": "unknown|0\nAction|1\nCrime|2\n\n",
        "u.item": "10|Fi\xe9vre (1995)|01-Jan-1995||http://x|0|1|1\n20|Calm (1995)|01-Jan-1995||http://y|1|0|0\n",
    },
    "movielens 1m": {
        "ratings.dat": "1::10::5::978300760\n1::20::3::978302109\n2::10::4::978301968\n",
        "users.dat": "1::M::1::10::48067\n2::F::56::16::70072\n",
        "movies.dat": "10::Fi\xe9vre (1995)::Action|Crime\n20::Calm (1995)::unknown\n",
    },
    "movielens 25m": {
        "ratings.csv": "userId,movieId,rating,timestamp\n1,10,5.0,1\n1,20,3.0,2\n2,10,4.0,3\n",
        "movies.csv": 'movieId,title,genres\n10,"Fever, The (1995)",Action|Crime\n20,Calm (1995),unknown\n',
    },
    "last.fm 360k": {
        "usersha1-artmbid-artname-plays.tsv": "1\tmb-a\t10\t5\n1\tmb-b\t20\t3\n2\tmb-a\t10\t4\n2\tmb-a\t10\t0\n",
        "usersha1-profile.tsv": "1\tm\t22\tGermany\tFeb 1, 2007\n2\tf\t\tFrance\tFeb 1, 2008\n3\t\t\t\t\n",
    },
    "last.fm 1k": {
        "userid-timestamp-artid-artname-traid-traname.tsv": "".join(
            f"{user}\t2009-05-04T23:08:57Z\tmb\t{artist}\t\tTrack \"x\n"
            for user, artist, plays in ((1, 10, 5), (1, 20, 3), (2, 10, 4))
            for _ in range(plays)
        ),
        "userid-profile.tsv": "#id\tgender\tage\tcountry\tregistered\n1\tm\t\tJapan\tAug 13, 2006\n"
        "2\tf\t24\tPeru\tFeb 24, 2006\n",
    },
    "own csv": {
        "interactions.csv": "user,item,weight\n1,10,5\n1,20,3\n2,10,4\n",
        "users.csv": "user_id,gender\n2,F\n1,M\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_layouts_give_the_same_interactions(tmp_path, name):
    for file, text in LAYOUTS[name].items():
        (tmp_path / file).write_text(text, encoding="latin-1")
    result = load_interactions(tmp_path)
    users, items = result.user_ids, result.item_ids
    triples = {(users[u], items[i], w) for u, i, w in zip(result.user, result.item, result.weight, strict=True)}
    assert triples == {("1", "10", 5.0), ("1", "20", 3.0), ("2", "10", 4.0)}
    if "gender" in result.users:
        people = result.users.set_index("user_id")["gender"].str.upper()
        assert people.to_dict() == {"1": "M", "2": "F"}
        assert result.users["user_id"].tolist() == list(users)
    if "genre" in result.items:
        assert result.items.set_index("item_id")["genre"].to_dict() == {"10": "Action|Crime", "20": "unknown"}


def test_parquet_and_back(tmp_path):
    frame = pd.DataFrame({"user_id": ["a", "a", "b", "b"], "item_id": ["x", "y", "x", "x"]})
    frame.to_parquet(tmp_path / "events.parquet")
    result = load_interactions(tmp_path / "events.parquet")
    assert result.weight.tolist() == [1, 1, 2]
    save_interactions(result, tmp_path / "saved")
    again = load_interactions(tmp_path / "saved")
    assert again.user_ids == result.user_ids
    assert again.weight.tolist() == [1, 1, 2]


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


def test_folder_without_a_known_file_is_named(tmp_path):
    with pytest.raises(TodBiasError, match=r"none of the files interactions\.csv"):
        load_interactions(tmp_path)
