"""Audit of the LMRec authors' lists, compared with the statements of Shen 2023.

    git clone https://github.com/TinaBBB/Unintended-Bias-LMRec authors
    python authors.py authors --out runs/authors > authors.md

Reads ``data/bias_analysis/yelp/output_dataframes`` (a folder per city, and its neutralised queries) and ``data/names``
(what a tagger took for people in the reviews); a file that is not there is named and left out. The names and couples of
Boston are spreadsheets of commit 5dcf733 (``yelp_qa_names.xlsx`` and ``yelp_qa_relationships.xlsx`` of the folder
``Boston_output_dataframes_5f``), saved as the CSV files that commit 78b7816 names.

Writes an audit for names, couples, companions, partners and places, and prints what the paper says with its score in
the lists. ``authors.json`` keeps the numbers with the version and a hash of the lists, ``figures`` the paper's Figs. 3
to 8. Requests of couples name two relations ("my brother and his boyfriend"), those of companions one ("me and my
girlfriend"); partners are the companions whom the user is married to, engaged to or in love with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from tod_bias.perturb.names import first_names
from tod_bias.recommenders.lmrec.audit import audit, save
from tod_bias.recommenders.lmrec.recommendations import NEUTRAL, ListFormat, read_saved, tidy
from tod_bias.recommenders.lmrec.results import Audit
from tod_bias.report.sheets import mark

HERE = Path(__file__).parent
CITIES = ("Atlanta", "Austin", "Boston", "Columbus", "Orlando", "Portland", "Toronto")
LISTS = "data/bias_analysis/yelp/output_dataframes"
FILES = {
    "names": ("names",),
    "couples": ("relationships",),
    "companions": ("pairrelationships",),
    "partners": ("pairrelationships",),
    "places": ("occupations", "additionalOccupations"),
}
FORMAT = ListFormat(separators=",/", top=20)
PARTNERS = ("girlfriend", "wife", "fiancee", "boyfriend", "husband", "fiance")
NIGHTLIFE = ("Bars", "Nightlife", "Pubs", "Dive Bars", "Gay Bars", "Casinos")
"""Categories of Shen 2023, Fig. 7, that some list of a companion holds."""
FIGURES = {
    "figure3": ("names", "price_percentage_race"),
    "figure4": ("names", "price_percentage_race_x_gender"),
    "figure5": ("names", "association_race_x_gender"),
    "figure6": ("names", "top_words_race_x_gender"),
    "figure7": ("couples", "association_gender_x_second_relationship"),
    "figure8": ("places", "average_price"),
}
"""Figure of Shen 2023 to the lists and the figure of an audit that it is drawn from."""
PAPER = json.loads((HERE / "paper.json").read_text(encoding="utf-8"))
"""Values of the figures of Shen 2023, read off the authors' vector graphics."""
NO_PLACES = ("institution", "bar", "farm", "chemical lab")
"""Places that the authors' figure leaves out."""
CATEGORIES = {
    "§4.5: alcohol for white men": {"race": ("white", "black"), "gender": ("male", "female")},
    "§4.5: sweets for women": {"gender": ("female", "male")},
    "§4.5: fast food for black people": {"race": ("black", "white")},
    "§4.5: vegan for black women": {"race": ("black", "white"), "gender": ("female", "male")},
    "§4.6: nightlife for couples of one gender": {"couple": ("one gender", "two genders")},
    "§4.6: nightlife for men": {"gender": ("male", "female")},
    "§4.6: gay bars for his boyfriend": {"second relationship": ("male", "female")},
}
"""Statements of the paper: heading to dimensions, each with the label that leans to the categories, and its
opposite."""
NAMED = {
    "alcohol": ("Gastropubs", "Brewpubs", "Bars"),
    "sweets": ("Desserts", "Bakeries"),
    "fast food": ("Fast Food", "Food Court"),
    "vegan": ("Vegan", "Vegetarian"),
    "nightlife": ("Casinos", "Dive Bars", "Pubs", "Gay Bars", "Nightlife", "Bars"),
    "gay bars": ("Gay Bars",),
}
"""The categories of each heading."""


def lists(folder: Path, kind: str) -> tuple[pd.DataFrame | None, list[str]]:
    """The lists of one kind over the cities, neutralised ones labelled so, and the files that are not there."""
    parts, missing = [], []
    for city in CITIES:
        for name in FILES[kind]:
            for neutral in (False, True):
                path = folder / LISTS / f"{city}_output_dataframes{'_Neutralized' * neutral}" / f"yelp_qa_{name}.csv"
                if path.exists():
                    rows = read_saved(city, path, FORMAT)
                    parts.append(rows.assign(label=NEUTRAL) if neutral else rows)
                elif not neutral:
                    missing.append(f"{city}/{path.name}")
    if not parts:
        return None, missing
    frame = pd.concat(parts, ignore_index=True)
    frame["substitution"] = frame["substitution"].replace("dancing studio", "dance studio")
    if kind == "partners":
        frame = frame[frame["substitution"].isin(PARTNERS)]
    return frame[~frame["substitution"].isin(NO_PLACES)], missing


def prices(audited: Audit) -> Iterator[str]:
    """Price percentages of race and of race and gender (Figs. 3 and 4), below the paper's where they are known."""
    rows = audited.price_percentage[audited.price_percentage["city"] == "all"]
    for (dimension, label), levels in rows.groupby(["dimension", "label"], sort=False):
        figure = {"race": PAPER["figure 3"]["Boston"], "race×gender": PAPER["figure 4, all cities"]}.get(dimension, {})
        if label in figure:
            what = "Fig. 3, Boston" if dimension == "race" else "Fig. 4, all cities"
            yield f"| {dimension} | {label}, the paper's {what} | | {' | '.join(f'{x:.3f}' for x in figure[label])} |"
        cells = " | ".join(
            f"{row['value']:.3f} [{row['ci_low']:.3f}, {row['ci_high']:.3f}], p {row['p_adjusted']:.3f}"
            for _, row in levels.sort_values("price").iterrows()
        )
        yield f"| {dimension} | {label} | {levels['neutral'].mean():.3f} | {cells} |"


def categories(audited: Audit, section: str) -> Iterator[str]:
    """The categories that a section of the paper names, with the label that they lean to in the lists."""
    shifts = audited.association[audited.association["city"] == "all"]
    shifts = shifts.assign(name=shifts["category"].str.casefold()).set_index(["dimension", "label", "other", "name"])
    for heading, leans in ((name, leans) for name, leans in CATEGORIES.items() if name.startswith(section)):
        names = next(words for key, words in NAMED.items() if f": {key}" in heading)
        for dimension, (label, other) in leans.items():
            for name in names:
                key = (dimension, label, other, name.casefold())
                if key in shifts.index:
                    row = shifts.loc[key]
                    sign = "as said" if row["difference"] > 0 else "the other way"
                    yield (
                        f"| {heading} | {name}, {label} | {row['difference']:+.3f} | {row['p_adjusted']:.3f} | "
                        f"{row['items']:,} | {sign} |"
                    )


def nightlife(audited: Audit) -> list[dict[str, Any]]:
    """Return the associations of nightlife with men against women, a row per city and category; NaN becomes None."""
    shifts = audited.association
    category = shifts["category"].str.casefold()
    rows = shifts[(shifts["label"] == "male") & category.isin([name.casefold() for name in NIGHTLIFE])]
    return kept(rows, ["city", "category", *BOUNDS, "p_adjusted", "items"])


BOUNDS = ("difference", "ci_low", "ci_high")


def kept(rows: pd.DataFrame, columns: list[str]) -> list[dict[str, Any]]:
    """Return some columns with six digits; NaN becomes None."""
    found: list[dict[str, Any]] = json.loads(rows[columns].round(6).to_json(orient="records"))
    return found


def numbers_of(kind: str, audited: Audit) -> Any:
    """Return the numbers of one audit that README.md rests on."""
    if kind in ("companions", "partners"):
        return nightlife(audited)
    over = {name: frame[frame["city"] == "all"] for name, frame in (
        ("shares", audited.price_percentage), ("averages", audited.price_by_label), ("shifts", audited.association),
        ("places", audited.average_price),
    )}  # fmt: skip
    if kind == "places":
        religion = audited.price_differences["family"] == "places, religion"
        return {
            "average_price": kept(over["places"], ["substitution", "value", "ci_low", "ci_high", "neutral"]),
            "religion": kept(audited.price_differences[religion], ["substitution", "other", *BOUNDS, "p_adjusted"]),
        }
    if kind == "couples":
        return {"found": audited.record["found"]}
    named = {name.casefold() for names in NAMED.values() for name in names}
    shifts = over["shifts"][over["shifts"]["category"].str.casefold().isin(named)]
    shifts = shifts[shifts["dimension"].isin(["race", "gender"]) & shifts["label"].isin(["white", "male"])]
    by_label = over["averages"][over["averages"]["difference"] > 0]
    columns = ["dimension", "label", "other", *BOUNDS, "p_adjusted", "family", "tests"]
    return {
        "shares": kept(over["shares"], ["dimension", "label", "price", "value", "ci_low", "ci_high", "p_adjusted"]),
        "averages": kept(by_label, columns),
        "named": kept(shifts, [*columns, "category", "items"]),
        "found": audited.record["found"],
    }


def fingerprint(frame: pd.DataFrame) -> str:
    """Return a SHA-256 of lists as they were read, which does not depend on how their file was laid out."""
    columns = ["city", "label", "query", "rank", "item", "price"]
    ordered = frame[columns].astype(str).sort_values(columns)
    return hashlib.sha256(ordered.to_csv(index=False).encode()).hexdigest()


def by_city(audited: Audit) -> Iterator[str]:
    """Associations of nightlife with male companions: a row per city, the last over all cities."""
    found = {(row["city"], row["category"].casefold()): row for row in nightlife(audited)}
    for city in (*CITIES, "all"):
        cells = (shift_cell(found.get((city, name.casefold()))) for name in NIGHTLIFE)
        yield f"| {city} | {' | '.join(cells)} |"


def shift_cell(row: Mapping[str, Any] | None) -> str:
    """Difference with interval and adjusted p-value; empty if no list of the city has the category."""
    if row is None:
        return ""
    bounds = "" if row["ci_low"] is None else f" [{row['ci_low']:+.3f}, {row['ci_high']:+.3f}]"
    chance = "" if row["p_adjusted"] is None else f", p {row['p_adjusted']:.3f}"
    return f"{row['difference']:+.3f}{bounds}{chance}"


def places(audited: Audit) -> Iterator[str]:
    """Average prices by place, the dearest first (Fig. 8)."""
    rows = audited.average_price[audited.average_price["city"] == "all"].sort_values("value", ascending=False)
    for rank, (_, row) in enumerate(rows.iterrows(), start=1):
        bounds = f"[{row['ci_low']:.3f}, {row['ci_high']:.3f}]"
        paper = PAPER["figure 8"].get(row["substitution"])
        cells = f"{paper:.3f} | {row['value']:.3f} {bounds}" if paper else f" | {row['value']:.3f} {bounds}"
        yield f"| {rank} | {row['substitution']} | {cells} | {row['neutral']:.3f} |"


def tagged(folder: Path) -> Iterator[str]:
    """Count the words tagged as people in the reviews that are first names known to the masks."""
    known = {name.name.lower() for name in first_names()}
    for city in CITIES:
        words = [
            word.strip()
            for path in sorted((folder / "data/names").glob(f"{city}_peopleNames_*.json"))
            for text in json.loads(path.read_text(encoding="utf-8")).values()
            for word in text.split(" . ")
            if word.strip()
        ]
        if words:
            count = sum(word.lower() in known for word in words)
            yield f"| {city} | {len(words):,} | {count:,} | {count / len(words):.1%} |"


SHIFTS = "| the paper | in the lists | difference | p | items | sign |"
BY_CITY = f"| city | {' | '.join(NIGHTLIFE)} |"
TABLES = {
    "names": {
        "| dimension | label | neutral | $ | $$ | $$$ | $$$$ |": prices,
        SHIFTS: partial(categories, section="§4.5"),
    },
    "couples": {SHIFTS: partial(categories, section="§4.6")},
    "companions": {BY_CITY: by_city},
    "partners": {BY_CITY: by_city},
    "places": {"| rank | place | the paper | average price | neutralised |": places},
}


def main() -> None:
    """Audit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/authors"))
    parser.add_argument("--numbers", type=Path, default=HERE / "authors.json")
    parser.add_argument("--figures", type=Path, default=HERE / "figures")
    given = parser.parse_args()
    numbers: dict[str, Any] = {"made by": {"tod-bias": version("tod-bias"), "lists": "78b7816, 5dcf733", "sha256": {}}}
    print("What `authors.py` printed of the authors' lists (commit 78b7816; names and couples of Boston from the "
          "spreadsheets of commit 5dcf733).")  # fmt: skip
    for kind, tables in TABLES.items():
        frame, missing = lists(given.folder, kind)
        print(f"\n## {kind}" + (f"; not there: {', '.join(missing)}" if missing else ""))
        if frame is None:
            continue
        recommendations = tidy(frame, FORMAT)
        audited = audit(recommendations, source={"lists": kind})
        save(audited, recommendations, given.out / kind)
        numbers["made by"]["sha256"][kind] = fingerprint(frame)
        numbers[kind] = numbers_of(kind, audited)
        for header, rows in tables.items():
            print_table(header, rows(audited))
        print()
        for said in audited.statements:
            details = "".join(f"; {detail}" for detail in said.details)
            print(f"- {mark(said.verdict)} {said.axis}: {said.sentence or said.answer}{details}.")
    text = json.dumps(numbers, ensure_ascii=False).replace("}, {", "},\n{").replace("], ", "],\n")
    given.numbers.write_text(f"{text}\n", encoding="utf-8")
    given.figures.mkdir(exist_ok=True)
    for name, (kind, figure) in FIGURES.items():
        shutil.copy(given.out / kind / "figures" / f"{figure}.svg", given.figures / f"{name}.svg")
    print_table("| city | words taken for people | first names that masks know | share |", tagged(given.folder))


def print_table(header: str, rows: Iterator[str]) -> None:
    """A table of Markdown, of its header and its rows."""
    print(f"\n{header}\n|{'---|' * (header.count('|') - 1)}", *rows, sep="\n", flush=True)


if __name__ == "__main__":
    main()
