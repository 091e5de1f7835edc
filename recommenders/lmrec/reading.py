"""Findings of an audit of recommendations with their limits, as sentences, and its numbers as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from tod_bias.recommenders.lmrec.recommendations import ALL, CROSS
from tod_bias.report.notation import count, fixed, p_text
from tod_bias.report.sheets import Probability, Sheet, Statement, Value
from tod_bias.results import DISPARITY, INCONCLUSIVE, THESE_TERMS
from tod_bias.statistics.needed import ENOUGH_WORDS

if TYPE_CHECKING:
    from tod_bias.recommenders.lmrec.results import Audit


ALPHA = 0.05
"""Level of adjusted p-values below which a shift is reported."""
NO_SPREAD = "no spread"
"""Text in place of an interval of one point."""
DIFFERENCE = "difference as a part of the share that all have: 0 is none, −2 to 2 where two labels have as many items"
"""Meaning of the difference of an association."""
LIMITS = (
    "A list of the first items magnifies: where many items fit a request about equally well, a small preference of the "
    "recommender decides which of them are shown.",
    "The audit shows recommendations, not their causes, and not whether people are harmed: people who know the "
    "setting must decide that.",
    "Groups are those of the words, so people outside the groups and names of the files are not described.",
    "A p-value is adjusted over its family, which is named beside it: the tests of one question (prices, average "
    "price, categories, nightlife, places) about one dimension in one city. Nothing adjusts over several questions and "
    "dimensions: of twenty questions without a difference, one is expected to show something.",
    "Intervals are not adjusted: one in ten 90% intervals misses the truth by chance.",
    "What is called seen is the largest difference in these lists, and not shown to be more than chance.",
    "An effect that is not found may still exist.",
    f"[{NO_SPREAD}]: every resample gives the same, so the spread over other queries is unknown.",
)
"""Said with every audit."""
_SHOWN = 3
_ORDER = (DISPARITY, THESE_TERMS, INCONCLUSIVE)
MOST = 0.5
"""Share of a difference from which one word alone is reported instead of its group."""


def claimed(rows: pd.DataFrame) -> pd.Series:
    """Return which rows hold for groups: adjusted p below alpha, and no word that carries half of the difference."""
    return (rows["p_adjusted"] < ALPHA) & ~(rows["largest_share"] >= MOST)


def largest(row: pd.Series) -> str:
    """The word that carries most of a difference, with its share; empty if words are not known."""
    return f"{row['largest_word']} {row['largest_share']:.0%}" if row["largest_share"] > 0 else ""


def statements(audited: Audit) -> list[Statement]:
    """Return the findings of an audit over all its cities: differences first, those of crossed dimensions last."""
    percentage, by_label, association = audited.price_percentage, audited.price_by_label, audited.association
    said: list[Statement] = []
    for dimension in dict.fromkeys([*percentage["dimension"], *association["dimension"]]):
        shares, means, shifts = (part[part["dimension"] == dimension] for part in (percentage, by_label, association))
        said += _by_label(dimension, means[means["city"] == ALL])
        said += _prices(dimension, shares[shares["city"] == ALL])
        said += _categories(dimension, shifts)
    for dimension, rows in audited.similarity_ranges.groupby("dimension", sort=False):
        said += _similarity(str(dimension), rows[rows["city"] == ALL], audited.similarity)
    average = audited.average_price
    said += _places(average[average["city"] == ALL], audited.price_differences, audited.places)
    return sorted(said, key=lambda some: (not some.is_difference, CROSS in some.axis, _ORDER.index(some.verdict)))


def _difference(dimension: str, sentence: str, details: Sequence[str], limits: Sequence[str]) -> Statement:
    """Return a difference, which holds for these words only if a limit says so."""
    if given := [limit for limit in limits if limit]:
        return Statement(THESE_TERMS, dimension, f"{sentence}, with these words", details=[*details, *given])
    return Statement(DISPARITY, dimension, sentence, details=details)


def _open(dimension: str, sentence: str, *details: str) -> Statement:
    return Statement(INCONCLUSIVE, dimension, sentence, details=[text for text in details if text])


def _carried(rows: pd.DataFrame, name: str) -> str:
    """Describe the rows that are beyond chance but carried by one word; ``name`` is the column that identifies them."""
    carried = rows[(rows["p_adjusted"] < ALPHA) & (rows["largest_share"] >= MOST)]
    listed = ", ".join(f"{row[name]} ({largest(row)})" for _, row in carried.iterrows())
    return f"not said of the groups, as one word carries at least half of the difference: {listed}" if listed else ""


def _carries(row: pd.Series) -> str:
    """Return how much of a difference the word with most of it carries, as the end of a sentence.

    Empty if words are unknown, or if it carries more than all of the difference because other words lean the other way.
    """
    share = row["largest_share"]
    return f"; {row['largest_word']} carries {share:.0%} of the difference" if 0 < share <= 1 else ""


def adjusted_over(row: pd.Series) -> str:
    """Return the adjusted p-value of a row with the family over which it is adjusted."""
    tests = "1 test" if row["tests"] == 1 else f"{count(row['tests'])} tests"
    return f"adjusted {p_text(row['p_adjusted'])} ({row['family']}: {tests})"


def scope(words: pd.Series) -> str:
    """Return why findings do not hold for groups: too few words, or unknown words; empty if they do."""
    if words.isna().any():
        return "the words are unknown: this holds for these queries, not for the groups"
    if words.min() < ENOUGH_WORDS:
        few = fixed(words.min(), 1)
        return f"too few words stand for a group ({few}): this is said of these words, not of the groups"
    return ""


def _by_label(dimension: str, rows: pd.DataFrame) -> list[Statement]:
    """Describe the average prices of two labels' lists, if they differ beyond chance."""
    said = []
    for _, row in first_of_pairs(rows).iterrows():
        if row["p_adjusted"] < ALPHA:
            dearer = "cheaper" if row["difference"] < 0 else "dearer"
            numbers = (
                f"average price level {fixed(row['value'])} against {fixed(row['other_value'])}: "
                f"{score(row, 'difference', sign=True)}, {adjusted_over(row)}{_carries(row)}"
            )
            sentence = f"lists of {row['label']} are {dearer} than lists of {row['other']}"
            carried = "one word carries at least half: not said of the groups" if row["largest_share"] >= MOST else ""
            said.append(_difference(dimension, sentence, [numbers], [carried, scope(pd.Series([row["words"]]))]))
    return said


def _prices(dimension: str, rows: pd.DataFrame) -> list[Statement]:
    """Describe which shares of a price level differ from the neutral ones."""
    if rows["value"].isna().all():
        return []
    if rows["p_adjusted"].isna().all():
        return [_open(dimension, "shares of price levels: not tested")]
    result, carried = rows[claimed(rows)], _carried(rows, "price")
    if result.empty:
        sentence = "at no price level does a share differ from the neutral one beyond chance"
        seen = f"seen, not proven: {_share(_furthest(rows[rows['p_adjusted'].notna()]))}"
        return [_open(dimension, sentence, carried, seen)]
    differing, levels = result["price"].nunique(), rows.loc[rows["value"].notna(), "price"].nunique()
    furthest = f"furthest: {_share(_furthest(result))}"
    sentence = f"at {differing} of {levels} price levels a share differs from the neutral one"
    return [_difference(dimension, sentence, [furthest, *filter(None, [carried])], [scope(result["words"])])]


def _furthest(rows: pd.DataFrame) -> pd.Series:
    """Return the row whose share of a price level is furthest from the neutral one."""
    return rows.iloc[int((rows["value"] - rows["neutral"]).abs().to_numpy().argmax())]


def _share(row: pd.Series) -> str:
    """Describe a label's share of a price level beside the neutral one."""
    return (
        f"{score(row, 'value')} of what is recommended at {'$' * int(row['price'])} is for {row['label']}; "
        f"of all items with a price {fixed(row['neutral'])}; {adjusted_over(row)}{_carries(row)}"
    )


def _categories(dimension: str, shifts: pd.DataFrame) -> list[Statement]:
    """Describe the categories of every pair of labels; the pairs without a shift share one statement."""
    said: list[Statement] = []
    none: list[pd.DataFrame] = []
    cities = shifts[shifts["city"] != ALL]
    for (label, other), rows in pairs_of(shifts[shifts["city"] == ALL]):
        alike = cities[(cities["label"] == label) & (cities["other"] == other)]
        everywhere, carried = _everywhere((label, other), rows, alike), _carried(rows, "category")
        claims, more = rows[claimed(rows)], [text for text in (everywhere, carried) if text]
        limits = [scope(rows["words"])]
        if rows["p_adjusted"].isna().all():
            said.append(_open(dimension, f"categories of {label} and {other}: not tested", *more))
        elif not claims.empty:
            sentence = f"{len(claims)} of {len(rows)} categories shift between {label} and {other}"
            said.append(_difference(dimension, sentence, [_listed(claims), *_families_of(claims), *more], limits))
        elif everywhere:
            sentence = f"categories shift between {label} and {other} in every city"
            said.append(_difference(dimension, sentence, more, limits))
        elif carried:
            said.append(_open(dimension, f"no shift of categories between {label} and {other} is claimed", carried))
        else:
            none.append(rows)
    if none:
        pairs = ", ".join(f"{rows['label'].iloc[0]} / {rows['other'].iloc[0]}" for rows in none)
        row = _largest_seen(pd.concat(none))
        sentence = f"no shift of categories beyond chance: {pairs}; seen, not proven: {_shift(row)}"
        said.append(_open(dimension, sentence, adjusted_over(row) + _carries(row)))
    return said


def _largest_seen(rows: pd.DataFrame) -> pd.Series:
    """Return the shift that a reader of the lists would notice: the largest in percentage points.

    Shifts that are unlikely by themselves (unadjusted p below alpha) come first, because the shares of what nearly
    every list has move most by chance.
    """
    unlikely = rows[rows["p_value"] < ALPHA]
    chosen = rows[rows["p_value"].notna()] if unlikely.empty else unlikely
    return chosen.iloc[int((chosen["share"] - chosen["other_share"]).abs().to_numpy().argmax())]


def _shift(row: pd.Series) -> str:
    """Describe a category's share of the items of two labels, that with more first."""
    sides = [(row["share"], row["label"]), (row["other_share"], row["other"])]
    (more, first), (less, second) = sides if sides[0][0] >= sides[1][0] else sides[::-1]
    return f"{row['category']}: {_percent(more)} of what {first} get against {_percent(less)} for {second}"


def _percent(share: float) -> str:
    """Return a share as a percentage; below 10% with a decimal, so that rare categories differ."""
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def _listed(rows: pd.DataFrame) -> str:
    """List the largest shifts of categories, each with the shares of both labels."""
    first = rows.reindex(rows["difference"].abs().sort_values(ascending=False).index).head(_SHOWN)
    return "; ".join(
        f"{_shift(row)} ({score(row, 'difference', sign=True)}{_carries(row)})" for _, row in first.iterrows()
    )


def _families_of(rows: pd.DataFrame) -> list[str]:
    """Name the families in which shifts are claimed, with their numbers of tests."""
    families = rows.drop_duplicates("family")
    return [f"p-values adjusted over: {row['family']} ({count(row['tests'])} tests)" for _, row in families.iterrows()]


def _everywhere(pair: tuple[str, str], rows: pd.DataFrame, cities: pd.DataFrame) -> str:
    """Describe shifts that every city shows alone, and that the test over so few cities does not."""
    count = cities["city"].nunique()
    if count < 2:
        return ""
    settled = set(rows.loc[rows["p_adjusted"] < ALPHA, "category"])
    result = cities[claimed(cities) & ~cities["category"].isin(settled)]
    leans = result.assign(up=result["difference"] > 0).groupby("category")["up"].agg(["sum", "size"])
    alike = [
        f"{name} to {pair[0] if row['sum'] else pair[1]}"
        for name, row in leans[leans["size"].eq(count) & leans["sum"].isin([0, count])].iterrows()
    ]
    return f"found in each of the {count} cities by itself: {', '.join(alike)}" if alike else ""


def _similarity(dimension: str, ranges: pd.DataFrame, pairs: pd.DataFrame) -> Iterator[Statement]:
    """Describe whose lists are less like the neutral ones (SNSR of Zhang et al. 2023)."""
    pairs = pairs[(pairs["dimension"] == dimension) & (pairs["city"] == ALL)]
    shown = [
        f"{row['measure']} {fixed(row['lowest_value'])} for {row['lowest']}, {fixed(row['highest_value'])} for "
        f"{row['highest']}: SNSR {fixed(row['SNSR'])} ({fixed(row['chance'])} by chance), SNSV {fixed(row['SNSV'])}"
        for _, row in ranges.iterrows()
    ]
    claims = pairs[claimed(pairs) & (pairs["difference"] < 0)]
    if pairs["p_adjusted"].isna().all():
        yield _open(dimension, "similarity to the neutral lists: not tested", *shown)
    elif claims.empty:
        sentence = "no group's lists are less like the neutral ones beyond chance"
        widest = ranges.iloc[int(ranges["SNSR"].to_numpy().argmax())]
        yield _open(dimension, sentence, "seen, not proven: " + "; ".join(shown), adjusted_over(widest))
    else:
        for (label, other), rows in claims.groupby(["label", "other"], sort=False):
            row = rows.iloc[0]
            size = f"{row['measure']}: {score(row, 'difference', sign=True)}, {adjusted_over(row)}{_carries(row)}"
            sentence = f"lists of {label} are less like the neutral lists than lists of {other}"
            yield _difference(dimension, sentence, [size, *shown], [scope(rows["words"])])


def _places(
    average: pd.DataFrame, differences: pd.DataFrame, places: Mapping[str, Sequence[str]]
) -> Iterator[Statement]:
    """Describe the average prices of places: from which to which they run, and how many pairs differ."""
    words = [word for group in places.values() for word in group]
    rows = average[average["substitution"].isin(words) & average["value"].notna()].sort_values("value")
    if len(rows) < 2:
        return
    low, high = rows.iloc[0], rows.iloc[-1]
    reach = (
        f"average price levels run from {score(low, 'value')} ({low['substitution']}) to {score(high, 'value')} "
        f"({high['substitution']})"
    )
    families = list(_families(differences, places))
    if not families:
        yield _open("places", "prices of places: not tested", reach)
    for family, shifted, pairs in families:
        sentence = f"prices differ in {shifted} of {pairs} pairs of places ({family})"
        yield _difference("places", sentence, [reach], ()) if shifted else _open("places", sentence, reach)
    religious = differences[differences[["substitution", "other"]].isin(list(places.get("religion", ()))).all(axis=1)]
    for _, row in religious.iterrows():
        name, by = f"{row['substitution']} and {row['other']}", f"{score(row, 'difference', sign=True)} price levels"
        tail = f", {adjusted_over(row)}" if pd.notna(row["p_adjusted"]) else ""
        if row["p_adjusted"] < ALPHA:
            how = "dearer" if row["difference"] > 0 else "cheaper"
            sentence = f"lists of {row['substitution']} are {how} than lists of {row['other']}"
            yield _difference("religion", sentence, [f"{by}{tail}"], ())
        else:
            yield _open("religion", f"prices of {name}: no difference beyond chance", f"{by}{tail}")


def _families(differences: pd.DataFrame, places: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, int, int]]:
    """Yield each family of tests, the pairs of two kinds: its name, how many pairs differ, and their number."""
    kinds = {word: kind for kind, words in places.items() for word in words}
    tested = differences[differences["p_adjusted"].notna()]
    named = zip(tested["substitution"], tested["other"], strict=True)
    families = [" and ".join(sorted({kinds.get(word, "") for word in pair})) for pair in named]
    for family, pairs in tested.groupby(families, sort=False):
        yield str(family), int((pairs["p_adjusted"] < ALPHA).sum()), len(pairs)


def pairs_of(rows: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """Every pair of labels once."""
    result: dict[tuple[str, str], pd.DataFrame] = {}
    for (label, other), subset in rows.groupby(["label", "other"], sort=False):
        if (other, label) not in result:
            result[str(label), str(other)] = subset
    return list(result.items())


def first_of_pairs(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of pairs of labels that are given in both directions, in the direction that comes first."""
    remaining = [subset for _, part in rows.groupby("dimension", sort=False) for _, subset in pairs_of(part)]
    return pd.concat(remaining) if remaining else rows.iloc[:0]


class ScoreCell(Value):
    """A number with its interval, marked if it has no spread; a dash if it is missing."""

    def __str__(self) -> str:
        if self.value is None:
            return "–"
        if self.ci and self.ci[0] == self.ci[1]:
            return f"{fixed(self.value, sign=self.sign)} [{NO_SPREAD}]"
        return super().__str__()


def score(row: pd.Series, name: str, *, sign: bool = False) -> ScoreCell:
    """Return a value of a row with its interval, if there is one."""
    value, low, high = (None if pd.isna(row[column]) else float(row[column]) for column in (name, "ci_low", "ci_high"))
    bounds = None if value is None or low is None or high is None else (low, high)
    return ScoreCell(value, bounds, sign=sign)


_SIGNS = ("$", "$$", "$$$", "$$$$")


def sheets(audited: Audit) -> list[Sheet]:
    """The main tables of an audit over all cities; those without rows are left out."""
    intervals = f"{audited.level:.0%} intervals"
    percentage, by_label, association, average = (
        frame[frame["city"] == ALL]
        for frame in (audited.price_percentage, audited.price_by_label, audited.association, audited.average_price)
    )
    made = [
        _percentage(percentage, f"Price percentage P(label | price), {intervals}"),
        _label_sheet(by_label, f"Average price level of a label's lists, 1 to 4, {intervals}"),
        _associations(association, f"Associations found (adjusted p < {ALPHA}), {DIFFERENCE}, {intervals}"),
        _similarity_sheet(audited.similarity_ranges[audited.similarity_ranges["city"] == ALL]),
        _place_sheet(average, audited.places, f"Average price level by place, {intervals}"),
        _examples(audited.record.get("examples", ())),
    ]
    return [sheet for sheet in made if sheet.rows]


def _percentage(scores: pd.DataFrame, title: str) -> Sheet:
    rows = []
    for (dimension, label), levels in scores.groupby(["dimension", "label"], sort=False):
        cells = [score(row, "value") for _, row in levels.sort_values("price").iterrows()]
        rows.append((str(dimension), str(label), fixed(levels["neutral"].mean()), *cells))
    return Sheet("price_percentage", title, ("dimension", "label", "neutral", *_SIGNS), tuple(rows))


def _label_sheet(scores: pd.DataFrame, title: str) -> Sheet:
    rows = [
        (
            str(row["dimension"]),
            f"{row['label']} / {row['other']}",
            fixed(row["value"]),
            fixed(row["other_value"]),
            score(row, "difference", sign=True),
            Probability(row["p_adjusted"]),
        )
        for _, row in first_of_pairs(scores).iterrows()
    ]
    columns = ("dimension", "labels", "first", "second", "difference", "p (adjusted)")
    return Sheet("price_by_label", title, columns, tuple(rows))


def _associations(scores: pd.DataFrame, title: str) -> Sheet:
    shifted = scores[claimed(scores) & (scores["difference"] > 0)]
    order = shifted["difference"].abs().sort_values(ascending=False, kind="stable").index
    order = shifted.loc[order].groupby("dimension", sort=False).head(20).sort_values("dimension", kind="stable").index
    rows = [
        (
            row["dimension"],
            row["category"],
            row["label"],
            row["other"],
            score(row, "difference", sign=True),
            fixed(row["ratio"], 2) if row["ratio"] < float("inf") else "∞",
            Probability(row["p_adjusted"]),
            row["family"],
            largest(row),
        )
        for _, row in shifted.loc[order].iterrows()
    ]
    columns = (
        "dimension",
        "category",
        "leans to",
        "away from",
        "difference",
        "ratio",
        "p (adjusted)",
        "family",
        "largest word",
    )
    return Sheet("association", title, columns, tuple(rows))


def _similarity_sheet(ranges: pd.DataFrame) -> Sheet:
    rows = [
        (
            str(row["dimension"]),
            str(row["measure"]),
            f"{row['lowest']} {fixed(row['lowest_value'])}",
            f"{row['highest']} {fixed(row['highest_value'])}",
            fixed(row["SNSR"]),
            fixed(row["chance"]),
            fixed(row["SNSV"]),
            Probability(row["p_adjusted"]),
        )
        for _, row in ranges.iterrows()
    ]
    columns = ("dimension", "similarity", "lowest", "highest", "SNSR", "by chance", "SNSV", "p (adjusted)")
    return Sheet("similarity", "Similarity to the neutral lists (Zhang et al. 2023), 0 to 1", columns, tuple(rows))


def _examples(examples: Sequence[Mapping[str, Any]]) -> Sheet:
    rows = [
        (
            str(row["dimension"]),
            str(row["query"]),
            str(row["substitution"]),
            str(row["item"] or "–"),
            _SIGNS[row["price"] - 1] if row["price"] else "–",
            str(row["categories"] or "–"),
        )
        for row in examples
    ]
    columns = ("dimension", "request", "substitution", "first item", "price", "categories")
    return Sheet("examples", "Examples: the first item for one request, and nothing more", columns, tuple(rows))


def _place_sheet(scores: pd.DataFrame, places: Mapping[str, Sequence[str]], title: str) -> Sheet:
    kinds = {word: kind for kind, words in places.items() for word in words}
    shown = scores[scores["substitution"].isin(list(kinds))].sort_values("value", ascending=False)
    rows = [
        (
            row["substitution"],
            kinds[row["substitution"]],
            count(row["queries"]),
            score(row, "value"),
            fixed(row["neutral"]) if pd.notna(row["neutral"]) else "–",
        )
        for _, row in shown.iterrows()
    ]
    return Sheet("average_price", title, ("place", "kind", "queries", "average price", "neutral"), tuple(rows))
