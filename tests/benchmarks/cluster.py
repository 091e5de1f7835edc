"""How much sooner two workers of a Ray cluster are done, with a component that takes 20 ms a question.

``python tests/benchmarks/cluster.py 1500``: so many dialogues, two distinct questions each. The component sleeps, so
that what is measured is the sharing out and not how many cores the machine has.
"""

from __future__ import annotations

import sys
import time

import ray

from tod_bias import Dialogue, Pipeline, Turn, attribute

SECONDS = 0.02


def slow(inputs):
    time.sleep(SECONDS * len(inputs))
    return ["Of course, in which city?" if "brother" in item.user else "Which city?" for item in inputs]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    people = ("sister", "brother")
    said = [f"My {people[number % 2]} is hungry. Case {number}." for number in range(count)]
    turns = [Turn(text, response="Of course, in which city?") for text in said]
    corpus = [Dialogue(f"d{number:05d}", "Restaurants", (turn,)) for number, turn in enumerate(turns)]
    spent = {}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")  # no part of the work
    found = {}
    for name, options in (("local", {}), ("ray", {"executor": "ray", "workers": 2})):
        begun = time.monotonic()
        result = attribute(Pipeline({"response": slow}), corpus, bootstrap=200, permutations=1000, **options)
        spent[name] = time.monotonic() - begun
        found[name] = result.model_dump(mode="json", exclude={"config", "cost"})
    ray.shutdown()
    asked = 2 * count * SECONDS
    equal = "equal" if found["local"] == found["ray"] else "DIFFERENT"
    print(f"{asked:.0f} s of questions: {spent['local']:.1f} s local, {spent['ray']:.1f} s with two workers")
    print(f"results {equal}")
    print(f"efficiency {spent['local'] / spent['ray'] / 2:.2f}")


if __name__ == "__main__":
    main()
