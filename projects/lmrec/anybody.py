"""Reviews with other names of the package's list in the places of the sample's, and the effect of masking.

    python anybody.py write runs/reviews/City.csv … --out runs/anybody     # reviews and names.tsv under other names
    python anybody.py train runs/anybody/City.csv --config mitigation.yaml --max-length 48 --out MODEL
    python anybody.py measure runs/anybody --plain MODEL … --masked MODEL … --paper MODEL … --out anybody.json

The other names are of the same gender and race, are no words, and are not in the paper's list. Masks know all of them;
names that masks do not know are in ``unlisted.py``. ``train`` masks with the paper's 224 names in place of the
package's list; the models of ``--paper`` were trained so, those of ``--masked`` by ``tod-bias recommend train --mask``.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from pathlib import Path

import numpy as np
import yaml

from tod_bias.audit.record import signature_of
from tod_bias.perturb.english import edited
from tod_bias.perturb.names import first_names
from tod_bias.perturb.names.mentions import mentioned
from tod_bias.perturb.names.unaccented import Unaccented
from tod_bias.recommenders.lmrec.mitigation import bias_of, rank_reviews
from tod_bias.recommenders.lmrec.model import LMRec, ask, train, training_settings
from tod_bias.recommenders.lmrec.reviews import Reviews, read_csv
from tod_bias.recommenders.lmrec.settings import RecommenderTrainConfig
from tod_bias.recommenders.lmrec.templates import MASK, Neutraliser, load_templates
from tod_bias.statistics.intervals import t_interval

GENDERS = {"female": "woman", "male": "man"}


class PaperNames(Neutraliser):
    """The mask with the paper's 224 names in place of the package's list: these, and what the context shows."""

    def __call__(self, text: str) -> str:
        plain = Unaccented(text)
        found = [match.span() for pattern in (self._names, self._others) for match in pattern.finditer(plain.text)]
        places: dict[tuple[int, int], str] = {}
        for start, end in [*found, *mentioned(plain.text)]:
            if all(end <= left or start >= right for left, right in places):
                places[start, end] = MASK
        return edited(text, {plain.original(*place): mask for place, mask in places.items()})


def other_names() -> dict[str, str]:
    """Every name of the paper to another one of its gender and race."""
    named = load_templates().names
    held = {entry.word for entry in named}
    result = {}
    for group in dict.fromkeys((entry.labels["gender"], entry.labels["race"]) for entry in named):
        mine = [entry.word for entry in named if (entry.labels["gender"], entry.labels["race"]) == group]
        known = [n for n in first_names() if (n.gender, n.race) == (GENDERS[group[0]], group[1]) and not n.word]
        drawn = random.Random(0).sample([name.name for name in known if name.name not in held], len(mine))
        result |= dict(zip(mine, drawn, strict=True))
    return result


def write(files: list[Path], out: Path) -> None:
    """Reviews, and the words of an audit, under the other names."""
    names = other_names()
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    out.mkdir(parents=True, exist_ok=True)
    for path in files:
        with path.open(encoding="utf-8", newline="") as given, (out / path.name).open("w", encoding="utf-8") as made:
            reader = csv.DictReader(given)
            writer = csv.DictWriter(made, reader.fieldnames or [], lineterminator="\n")
            writer.writeheader()
            for row in reader:
                writer.writerow(row | {"review_text": pattern.sub(lambda m: names[m[0]], row["review_text"])})
    rows = [(names[entry.word], entry.labels["gender"], entry.labels["race"]) for entry in load_templates().names]
    text = "".join("\t".join(row) + "\n" for row in [("word", "gender", "race"), *rows])
    (out / "names.tsv").write_text(text, encoding="utf-8")


def measured(folder: Path, model: Path, hide: Neutraliser | None) -> dict[str, float]:
    """Accuracy on the test reviews and bias on the templates, of one model, where a mask hides names at test time."""
    words, lmrec = load_templates(folder), LMRec.load(model)
    reviews = Reviews(read_csv(folder / f"{lmrec.city}.csv"), city=lmrec.city)
    held_out = list(reviews.of_split(2, int(training_settings(model)["seed"])))
    texts = [hide(review.text) if hide else review.text for review in held_out]
    ranked = rank_reviews(lmrec, texts, [review.venue for review in held_out])
    named = re.compile(rf"\b(?:{'|'.join(entry.word for entry in words.names)})\b")
    mentions = sum(len(named.findall(review.text)) for review in held_out)
    left = sum(len(named.findall(text)) for text in texts)
    return {
        "accuracy": float(ranked.scores["accuracy"].mean()),
        "HR@5": float(ranked.scores["HR@5"].mean()),
        "names masked": 1 - left / mentions,
        **{f"bias: {name}": value for name, value in bias_of(ask(lmrec, words, city=lmrec.city, hide=hide)).items()},
    }


def main() -> None:
    """Write, train, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "train", "measure"))
    parser.add_argument("paths", type=Path, nargs="+")
    for kind in ("plain", "masked", "paper"):
        parser.add_argument(f"--{kind}", type=Path, nargs="*", default=[])
    parser.add_argument("--config", type=Path)
    parser.add_argument("--max-length", type=int, default=48)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.what == "write":
        write(given.paths, given.out)
        return
    if given.what == "train":
        (path,) = given.paths
        options = yaml.safe_load(given.config.read_text(encoding="utf-8")) if given.config else {}
        settings = RecommenderTrainConfig(mask=True, max_length=given.max_length, **options)
        train(Reviews(read_csv(path), city=path.stem), given.out, settings, neutraliser=PaperNames())
        return
    (folder,) = given.paths
    conditions: dict[str, tuple[list[Path], Neutraliser | None]] = {"as they are": (given.plain, None)}
    lists = (("224 names", given.paper, PaperNames()), ("package's list", given.masked, Neutraliser()))
    for name, models, hide in lists:
        conditions[f"{name}, test side"] = (given.plain, hide)
        conditions[f"{name}, train side"] = (models, None)
        conditions[f"{name}, both sides"] = (models, hide)
    result = {}
    for name, (models, mask) in conditions.items():
        rows = [measured(folder, model, mask) for model in models]
        result[name] = {score: over([row[score] for row in rows]) for score in rows[0]} if rows else {}
        print(
            name, *(f"{score} {mean:.3f} [{low:.3f}, {high:.3f}]" for score, (mean, low, high) in result[name].items())
        )
    made = {"conditions": result, "signature": signature_of({})}
    given.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def over(values: list[float]) -> tuple[float, float, float]:
    """Mean over the cities with its 90% t interval."""
    return (float(np.mean(values)), *t_interval(np.array(values), 0.9))


if __name__ == "__main__":
    main()
