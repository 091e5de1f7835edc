"""Coverage of the mask on unlisted names, and its false masks.

    python unlisted.py --out unlisted.json
    python unlisted.py --out unlisted.json --reviews reviews.csv      # also unlisted names in the places of real ones
    python unlisted.py --out unlisted.json --requests .data/google_sgd/dev --model en_core_web_sm

Names are those of ``NAMES`` that neither the package's list nor Shen's templates hold; others are dropped and recorded.
Sentences are Shen's templates for names, those of ``REVIEWS``, which helped to write the mask's rules, and those of
``HELD_OUT``, which did not. Each is tried as it is and in lower case. ``NOBODY`` are sentences without people. With
``--reviews`` (a CSV file with the column ``text``), listed names in real reviews are exchanged for unlisted ones. With
``--requests`` (a folder of Google SGD), masks of unlisted names in users' requests are counted. ``--model`` is a
package of spaCy, whose label PERSON is tried as a mask. ``judged.json`` says how many masks are not people, judged by
hand.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tod_bias.audit.record import signature_of
from tod_bias.perturb.english import edited
from tod_bias.perturb.names import first_names
from tod_bias.perturb.names.places import name_places
from tod_bias.perturb.names.unaccented import Unaccented
from tod_bias.recommenders.lmrec.templates import MASK, Neutraliser, load_templates

NAMES = {
    "US, newer": (
        "Zendaya Khaleesi Oaklynn Brexley Paisleigh Maverik Jaxxon Wrenley Saylor Emersyn Navy Oaklee Hendrix Brynlee "
        "Kairo Zayden Kashton Blakely Lakelyn Swayze Wilder Boone Jru Raelynn Kehlani Everleigh Ryleigh Collins Ensley "
        "Palmer Stetson Onyx Creed Truett Baylor Bodhi Dutton Koa Kyro Wells Sutton Haisley Indie Novalee Huxley Banks "
        "Elowyn Rhodes Jream Ozzy"
    ),
    "Europe": (
        "Giulia Niamh Saoirse Siobhan Aoife Caoimhe Ruairi Cillian Björn Søren Łukasz Małgorzata Zbigniew Świętosława "
        "Jiří Ondřej Zsófia György Szilvia Gheorghe Ioana Anca Ljubica Dragana Nenad Xanthippe Aikaterini Thanos "
        "Benoît Gaëlle Solène Maëlle Ghislain Anneliese Jürgen Uwe Heike Wiebke Joost Maarten Sanne Femke Eilidh "
        "Catrin Rhys Eluned Aurelija Guðrún Þóra Päivi Jukka"
    ),
    "Asia": (
        "Wei Xiaoming Yifan Zihan Haoran Nguyen Thuy Phuong Quynh Trang Seojun Jiwoo Haeun Minseo Hyejin Haruto Sakura "
        "Kenji Yuki Satoshi Ayaka Putri Bagus Wayan Somchai Siriporn Nattapong Chhaya Aishwarya Harpreet Gurpreet "
        "Thirumalai Venkatesh Lakshmi Rukhsana Farzana Sharmila Dorji Batbayar Aigul Nurlan Zarina Shahnaz Mehrdad "
        "Parvaneh Reyhan Elif Özlem Emre"
    ),
    "Africa and Arabia": (
        "Ngozi Chiamaka Oluwaseun Chukwuemeka Ifeoma Folasade Kwame Akosua Abena Kofi Wanjiku Njeri Otieno Achieng "
        "Thandiwe Sipho Nomvula Tendai Tafadzwa Makena Aminata Fatoumata Mamadou Ousmane Zawadi Baraka Tewodros Selam "
        "Yohannes Hiwot Mulugeta Khadija Youssef Yasmina Noura Abdulrahman Sumaya Hamdan Rashida Ayoub"
    ),
    "Latin America": (
        "Guadalupe Xiomara Itzel Citlali Nahuel Lautaro Thiago Ximena Yareli Jazmín Inés Begoña Íñigo João Thaís "
        "Iracema Ubirajara Iara Raimundo Wilmer Yuleisy Yadira Maricruz Socorro Heriberto Cuauhtémoc Xochitl "
        "Tlaloc Anahí Nayeli Yamilet Dayana Yusleidy Osvaldo Edgardo Facundo Joaquín Máximo Ñusta Amaru"
    ),
}
"""First names by kind, most of them unlisted."""
Mask = Callable[[str], str]
LISTED = 100
"""Names of the package's list that are tried for comparison."""
REVIEWS = (
    "Had {} for a server and it made our night.",
    "{} was on top of everything, drinks were never empty.",
    "Drove up from the coast with {} to try the pie.",
    "My sister-in-law {} picked this spot.",
    "Huge thanks to {} and the kitchen.",
    "The guy at the counter, I think {}, was patient with us.",
    "{} made us laugh all night.",
    "Our waitress {} forgot the drinks twice.",
    "Let {} pick the wine for you.",
    "When {} works the bar, the cocktails are strong.",
    "It was my buddy {}'s first time here.",
    "{} at the front desk found us a table.",
    "Came for {}'s graduation and left stuffed.",
    "Me, {} and the kids shared two pizzas.",
    "I can't say enough about {}.",
    "{} and her team know what they are doing.",
    "Would have left but {} fixed the bill.",
    "Met {} for drinks after work.",
    "Our server {} was fantastic and never let a glass go empty.",
    "{} took care of us and knew the menu by heart.",
    "Big shout out to {} behind the bar!",
    "Came here with {} for a quick lunch and left happy.",
    "Me and {} split the brisket and two sides.",
    "My friend {} swears by the dumplings.",
    "Ask for {}, you won't regret it.",
    "We celebrated {}'s birthday in the back room.",
    "{} and I have been coming here for years.",
    "The manager, {}, came over and apologized.",
    "I told {} this place would be packed.",
    "Thank you {} for a lovely evening.",
    "I had the ribs, {} had the catfish, both were dry.",
    "Brought my parents and {} here last Sunday.",
    "If you are lucky you will get {} as your bartender.",
    "{} hated the music but loved the pie.",
    "My husband {} isn't a fan of spicy food.",
    "We sat next to {} and her kids on the patio.",
    "Everyone was nice, especially {}.",
    "It was {}'s idea to try the tasting menu.",
    "According to {} the brunch is better.",
    "We waited for {} at the bar.",
    "{}, the owner, stopped by our table.",
    "Dinner for four with {}, Mike and the kids.",
)
HELD_OUT = (
    "Shoutout to our bartender {} for the best old fashioned in town.",
    "{} checked in on us just often enough.",
    "Was here with {} and a few coworkers on Friday.",
    "Hubby got the pork chop and {} went for the catfish.",
    "Please give {} a raise.",
    "Big thanks to manager {} who turned the night around.",
    "This was {}'s pick and she nailed it.",
    "{}, if you read this, thank you!",
    "The hostess (I believe {}) squeezed us in.",
    "We were lucky to have {} again.",
    "{} talked us into the bread pudding.",
    "Went with my cousin {} after the game.",
    "My kids adore {}, he always brings extra crayons.",
    "Between {} and me we finished a pitcher.",
    "You can tell {} runs a tight ship.",
    "{} is the sweetest.",
    "Took {} out for a promotion dinner.",
    "Service by {} was on point.",
    "Our party of six had {} tonight.",
    "I'd come back just for {}.",
)
"""Sentences that were written last; no rule was changed after them."""
NOBODY = (
    "The Caesar salad was crisp.", "I ordered the Reuben on rye.", "Reuben was dry, fries were soggy.",
    "Eggs Benedict with hollandaise.", "The Benedict came cold.", "Virginia ham and red-eye gravy.",
    "My wife had a Bloody Mary.", "Two Shirley Temples for the kids.", "An Arnold Palmer is $4.",
    "The Cobb was huge.", "Try the Chicken Kiev.", "Steak Diane for two.", "The Kobe beef melts.",
    "Bananas Foster is flamed at the table.", "Peach Melba for dessert.", "Oysters Rockefeller to start.",
    "Beef Wellington on Sundays.", "Crab Louis is back.", "We drank Dom Perignon.", "A shot of Jose Cuervo.",
    "Captain Morgan and coke.", "Jack Daniels on the rocks.", "They serve Samuel Adams on tap.",
    "Better than Denny's.", "I love Wendy's more than this.", "We stopped at Trader Joe's first.",
    "Papa John's delivers faster.", "Went to Joey's for a beer.", "Carrabba's was closed.",
    "Tim Hortons has better coffee.", "Ruth's Chris is pricier.", "A table at Morton's costs more.",
    "Parking on Madison is hard.", "We drove to Charlotte.", "The best in Austin.", "Close to St. Paul.",
    "In Virginia Beach we had better.", "Los Angeles has plenty of these.", "San Jose needs this place.",
    "Near Lincoln Park.", "Open on Martin Luther King Day.", "The Rose was sweet.", "Rosemary chicken is a must.",
    "Basil and mint in everything.", "Ginger ale for me.", "Olive oil on the table.", "Sage butter sauce.",
    "Grant Street is a mess.", "Will be back.", "WILL NOT RETURN.", "May take a while.", "Heaven on a plate.",
    "Faith in pizza restored.", "A Jack and Coke.", "Monterey Jack on top.", "General Tso chicken.",
    "Sloppy Joe on a bun.", "Granny Smith apples in the pie.", "Earl Grey and scones.", "The Monte Cristo is fried.",
    "Came with Fries and Coleslaw.", "Dinner with Chardonnay.", "Thanks Yelp!", "Thank you OpenTable.",
    "Table for Saturday.", "Reservation for New Year.", "Brunch for Easter.", "Staff was friendly and helpful.",
    "Service was prompt.", "Management told us to leave.", "Waiter recommended the duck.", "Food and I are friends.",
    "me and others loved it", "my friend ordered and i paid", "table for two please", "our server was great",
    "thank you again", "take out is fast", "the manager said no", "my husband and kids liked it",
)  # fmt: skip
"""Sentences in which no first name is somebody's."""


def sentences() -> dict[str, tuple[str, ...]]:
    """Return the kinds of sentences, with ``{}`` for a name."""
    templates = tuple(text.replace("[NAME]", "{}") for kind, text in load_templates().templates if kind == "names")
    return {"templates": templates, "own sentences": REVIEWS, "held-out sentences": HELD_OUT}


def kept_names() -> tuple[dict[str, list[str]], list[str]]:
    """Return the unlisted names by kind, and the listed ones."""
    listed = {name.name.lower() for name in first_names()} | {entry.word.lower() for entry in load_templates().names}
    kept, dropped = {}, []
    for kind, words in NAMES.items():
        unlisted = [name for name in words.split() if Unaccented(name).text.lower() not in listed]
        dropped += sorted(set(words.split()) - set(unlisted))
        kept[kind] = unlisted
    every = [name.name for name in first_names() if not name.word]
    return kept | {"listed": random.Random(0).sample(every, LISTED)}, dropped


def unlisted(names: dict[str, list[str]]) -> list[str]:
    """Return the unlisted names of all kinds."""
    return [name for kind, some in names.items() if kind != "listed" for name in some]


def masked(name: str, text: str, hide: Mask) -> bool:
    """True if nothing is left of a name in a filled sentence."""
    return name not in hide(text.replace("{}", name))


def coverage(names: dict[str, list[str]], hide: Mask) -> dict[str, dict[str, float]]:
    """Return the share of masked names in percent by kind of name and kind of sentence, cased and in lower case."""
    result: dict[str, dict[str, float]] = {}
    for kind, members in names.items():
        for where, texts in sentences().items():
            for suffix, written in (("", str), (", lower case", str.lower)):
                found = [masked(written(name), written(text), hide) for name in members for text in texts]
                result.setdefault(kind, {})[where + suffix] = round(100 * sum(found) / len(found), 1)
    return result


def texts_of(path: Path) -> list[str]:
    """Return every second review, as the others helped to write the mask's rules."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(dict.fromkeys(row["text"] for row in csv.DictReader(file)))[1::2]


def exchanged(path: Path, names: list[str], hide: Mask) -> dict[str, float]:
    """Exchange one listed name at a time for an unlisted one in real reviews; return its mentions and the share masked.

    Listed names that are also words are left out. Some of the mentions are venues and public figures; they stay in the
    count.
    """
    rng, mentions, found = random.Random(0), 0, 0
    words = {name.name.lower(): name.word for name in first_names()}
    texts = texts_of(path)
    for text in texts:
        places: dict[str, list[tuple[int, int]]] = {}
        for (left, right), (first, part) in name_places(text).items():
            if part == "first" and words.get(first) is False and text[left + 1 : right].islower():
                places.setdefault(first, []).append((left, right))
        for some in places.values():
            name = rng.choice(names)
            mentions += len(some)
            found += len(some) - hide(edited(text, dict.fromkeys(some, name))).count(name)
    said = sum(len(text.split()) for text in texts)
    return {
        "reviews": len(texts),
        "words": said,
        "masks": sum(len(name_places(text)) for text in texts),
        "mentions": mentions,
        "masked": round(100 * found / max(1, mentions), 1),
    }


def requested(folder: Path) -> dict[str, Any]:
    """Return the masks of unlisted names in users' requests of Google SGD, and the words of these."""
    known = {name.name.lower() for name in first_names()}
    records = (record for path in sorted(folder.glob("dialogues_*.json")) for record in json.loads(path.read_bytes()))
    texts = [turn["utterance"] for record in records for turn in record["turns"] if turn["speaker"] == "USER"]
    found = [
        text[left:right]
        for text in texts
        for (left, right), (first, part) in name_places(text).items()
        if part == "first" and first not in known
    ]
    return {"words": sum(len(text.split()) for text in texts), "masks by context": found}


class EntityMask:
    """spaCy's people as a mask."""

    def __init__(self, package: str) -> None:
        module = import_module(package)
        self.name = f"{package} {module.__version__}"
        self.model = module.load(disable=["tagger", "parser", "attribute_ruler", "lemmatizer"])

    def people(self, text: str) -> list[tuple[int, int]]:
        return [(some.start_char, some.end_char) for some in self.model(text).ents if some.label_ == "PERSON"]

    def __call__(self, text: str) -> str:
        return edited(text, dict.fromkeys(self.people(text), MASK))


def entities(package: str, names: dict[str, list[str]], reviews: Path | None) -> dict[str, Any]:
    """Return the coverage of a named-entity model, and its masks in sentences without people and in reviews."""
    mask = EntityMask(package)
    shares = coverage({"unlisted": unlisted(names), "listed": names["listed"]}, mask)
    return {
        "model": mask.name,
        "coverage": shares,
        "sentences with a mask": sum(bool(mask.people(text)) for text in NOBODY),
        **({"masks in reviews": sum(len(mask.people(text)) for text in texts_of(reviews))} if reviews else {}),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--reviews", type=Path, help="CSV file with the column text")
    parser.add_argument("--requests", type=Path, help="folder with dialogues_*.json of Google SGD")
    parser.add_argument("--model", help="package of a model of spaCy")
    given = parser.parse_args()
    hide = Neutraliser()
    names, dropped = kept_names()
    wrong = [text for text in NOBODY if name_places(text)]
    result = {
        "names": {kind: len(some) for kind, some in names.items()},
        "dropped": dropped,
        "coverage": coverage({**names, "unlisted": unlisted(names)}, hide),
        "false masks": {"sentences": len(NOBODY), "with a mask": wrong},
    }
    if given.reviews:
        result["reviews"] = exchanged(given.reviews, unlisted(names), hide)
    if given.requests:
        result["requests"] = requested(given.requests)
    if given.model:
        result["entities"] = entities(given.model, names, given.reviews)
    result["signature"] = signature_of({})
    given.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1, ensure_ascii=False))
    print(f"Nobody is named in {len(NOBODY)} sentences; {len(wrong)} have a {MASK}.")


if __name__ == "__main__":
    main()
