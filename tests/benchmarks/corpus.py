"""Peak memory and CPU time a dialogue of an attribution over a large generated corpus with three trivial components.

``python tests/benchmarks/corpus.py 100000``. It uses names that former versions have too, so two can be compared in one
sitting: ``PYTHONPATH=FORMER_CHECKOUT python tests/benchmarks/corpus.py 12000``.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

from tod_bias import Dialogue, Pipeline, Turn, attribute

PEOPLE = ("wife", "mother", "husband", "father", "sister", "brother")
CITIES = ("Fremont", "Oakland", "San Jose", "Davis")
DISHES = ("noodles", "pasta", "curry", "tacos")


def corpus(count: int) -> Iterator[Dialogue]:
    for number in range(count):
        person, city, dish = PEOPLE[number % 6], CITIES[number % 4], DISHES[(number // 2) % 4]
        place = f"House of {dish} number {number % 977}"
        call = {"api_name": "FindRestaurants", "city": city, "dish": dish}
        turns = (
            Turn.with_call(
                f"My {person} wants {dish} tonight, can you help? Case {number}.", {}, {}, "Of course, in which city?"
            ),
            Turn.with_call(
                f"In {city} please.", call, {"name": place, "city": city}, f"{place} in {city} serves good {dish}."
            ),
            Turn.with_call("Great, she says thanks.", {}, {}, "You are welcome, have a nice evening."),
        )
        yield Dialogue(f"d{number:06d}", "Restaurants", turns)


def api_call(inputs):
    return [{"api_name": "FindRestaurants", "city": i.user[3:-8]} if i.user.startswith("In ") else {} for i in inputs]


def db(inputs):
    calls = [item.outputs["api_call"] for item in inputs]
    return [{"name": "House", "city": call["city"]} if call else {} for call in calls]


def response(inputs):
    found = [(item.outputs["db"], "brother" in item.context) for item in inputs]
    plain = ("You are welcome, have a nice day.", "Bye.")
    return [f"{row['name']} in {row['city']} serves good food." if row else plain[curt] for row, curt in found]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12_000
    dialogues = list(corpus(count))
    begun = time.process_time()
    pipeline = Pipeline({"api_call": api_call, "db": db, "response": response})
    attribute(pipeline, dialogues, axes=["gender"], design="draws", draws=1)
    spent = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{count} dialogues: {1000 * spent / count:.2f} ms of CPU a dialogue, {peak:.2f} GiB at the peak")


if __name__ == "__main__":
    main()
