"""Size, coverage, bias and power of every estimator of `tod-bias attribute`, in worlds in which the truth is known.

    python tests/benchmarks/validity.py --runs 400          # prints the table of docs and README
    python tests/benchmarks/validity.py --only null,words

A row is a world; worlds have dialogue effects, quirks of single words, unequal groups, artefacts of rewriting, sparse
harm, and components that pull in different directions. Everything is drawn by ``--seed``.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from audited_worlds import STAGES, World, audit, table_of
from group_worlds import CROSSED, FRESH, REVIEWED, crossed_size, power, size

from tod_bias.results import AxisResult, Estimate

WOMAN = {"response": {"woman": 0.1}}
RACES = ("white", "black", "hispanic", "asian", "native-american", "pacific-islander")


@dataclass(frozen=True)
class Case:
    """A world and what is looked at in it."""

    name: str
    world: World
    about: str
    axes: int = 1
    margin: float | None = None


@dataclass
class Seen:
    """What the runs of one case came to."""

    values: dict[str, list[float]] = field(default_factory=dict)
    covered: dict[str, list[bool]] = field(default_factory=dict)
    verdicts: list[str] = field(default_factory=list)
    claimed_pairs: list[bool] = field(default_factory=list)
    claimed_groups: list[bool] = field(default_factory=list)
    together: list[bool] = field(default_factory=list)
    """Whether the intervals of all gaps cover at once."""
    dual: list[bool] = field(default_factory=list)
    """Whether every p-value belongs to its interval."""
    significant: dict[str, list[bool]] = field(default_factory=dict)
    mde: list[float] = field(default_factory=list)


def cases() -> dict[str, Case]:
    """All cases by name."""
    plain = World()
    zipf = replace(plain, zipf=1.0)
    found = [
        *(
            Case(f"null-{n}", replace(plain, dialogues=n, placebo=0.15), f"no effect, {n} dialogues, placebo", 3)
            for n in (40, 130, 500)
        ),
        Case("null-six-groups", replace(plain, groups=RACES, placebo=0.15), "no effect, six groups, placebo", 3),
        Case("null-unequal", replace(plain, shares=(0.9, 0.1)), "no effect, groups 9 : 1"),
        Case(
            "null-rewriting-harms",
            replace(plain, shares=(0.8, 0.2), every={"response": 0.1}),
            "no effect, any rewriting harms by .1, groups 8 : 2",
        ),
        Case("null-artefact", replace(plain, artefact=0.1), "no effect but an artefact of .1"),
        Case("null-sparse", replace(plain, sparse=0.15), "no effect, 15% of counterfactuals react"),
        *(
            Case(f"words-{words}-{sd}", replace(zipf, words=words, quirks=sd), f"quirks of {words} Zipf words, sd {sd}")
            for words in (8, 12, 20)
            for sd in (0.1, 0.2)
        ),
        *(
            Case(
                f"words-one-way-{sd}",
                replace(zipf, words=20, quirks=sd, shares=(1.0, 0.0), placebo=0.15),
                f"quirks of 20 Zipf words, sd {sd}, all dialogues of one group, placebo",
            )
            for sd in (0.1, 0.2)
        ),
        *(
            Case(
                f"words-several-{also}-{sd}",
                replace(zipf, words=20, quirks=sd, also=also),
                f"quirks of 20 Zipf words, sd {sd}, {also + 1} in every dialogue",
            )
            for also, sd in ((1, 0.1), (1, 0.2), (2, 0.2))
        ),
        Case(
            "words-common",
            replace(zipf, words=20, quirks=0.1, common=True),
            "quirks of sd .1 of 20 Zipf words and of one that stands in every dialogue",
        ),
        Case(
            "pair-beyond-margin",
            replace(plain, dialogues=1000, own=0.05, effects={"response": {"woman": 0.06}}),
            "women .06 worse than men, margin .05",
            1,
            0.05,
        ),
        Case(
            "group-20-words",
            replace(zipf, words=20, quirks=0.1, shares=(0.7, 0.3), effects={"response": {"woman": 0.15}}),
            "a group's effect of .15 over 20 Zipf words with quirks of sd .1",
        ),
        *(
            Case(f"harm-{n}", replace(plain, dialogues=n, effects=WOMAN), f"women .1 worse, {n} dialogues")
            for n in (40, 130, 500)
        ),
        Case(
            "opposite",
            replace(plain, shares=(1.0, 0.0), every={"api_call": 0.1, "response": -0.05}),
            "api_call harms by .1, response helps by .05",
        ),
        Case(
            "one-way-harm",
            replace(plain, shares=(0.9, 0.1), effects=WOMAN, artefact=0.05),
            "women .1 worse, groups 9 : 1, artefact .05",
        ),
        Case(
            "six-groups-harm",
            replace(plain, groups=RACES, effects={"db": {"black": 0.15, "asian": 0.15}}),
            "two of six groups .15 worse in db",
        ),
        Case(
            "floor", replace(plain, shares=(1.0, 0.0), every={"response": 0.1}, placebo=0.15, placebo_effect=0.1),
            "any rewording harms by .1",
        ),
        Case(
            "higher-floor",
            replace(plain, shares=(1.0, 0.0), every={"response": 0.1}, placebo=0.15, placebo_effect=0.3),
            "any rewording harms by .3, a change of group by .1",
        ),
        Case(
            "undeclared",
            replace(plain, effects={"response": {"woman": 0.05}}, undeclared={"woman": 0.1}),
            "women .05 worse in response and .1 in what is no stage",
        ),
        Case(
            "undeclared-none",
            replace(plain, effects=WOMAN, undeclared={}),
            "women .1 worse in response, noise in what is no stage",
        ),
        Case("equal", replace(plain, dialogues=500, own=0.05), "no effect, 500 dialogues, margin .05", 1, 0.05),
    ]  # fmt: skip
    return {case.name: case for case in found}


def truth(world: World, seed: int, dialogues: int = 60_000) -> Mapping[str, float]:
    """The values that estimates tend to: of very many dialogues and words."""
    large = replace(
        world, dialogues=dialogues, words=20_000 if world.quirks else 200, zipf=0.0 if world.quirks else 0.5
    )
    (result,) = audit([table_of(large, np.random.default_rng(seed))], seed, resamples=0, permutations=0)
    return {name: estimate.value for name, estimate in _estimates(result).items()}


def _estimates(result: AxisResult) -> dict[str, Estimate]:
    found = {"disparity": result.disparity, "artefact": result.artefact}
    found |= {f"contribution {name}": part for name, part in result.all_shares.items()}
    found |= {f"unattributed {name}": group.unattributed for name, group in result.groups.items() if group.unattributed}
    found |= {f"gap {name}": group.gap for name, group in result.groups.items()}
    return found | {f"pair {name}": pair for name, pair in result.pairs.items()}


def run(case: Case, runs: int, seed: int, dialogues: int = 60_000) -> tuple[Seen, Mapping[str, float]]:
    """All runs of one case, and the truth, of so many dialogues."""
    seen = Seen()
    true = truth(case.world, seed, dialogues)
    for number in range(runs):
        rng = np.random.default_rng([seed, number])
        results = audit([table_of(case.world, rng) for _ in range(case.axes)], number, margin=case.margin)
        first = results[0]
        is_claimed = any(result.verdict == "disparity" for result in results)
        seen.verdicts.append("disparity" if is_claimed else first.verdict)
        pairs = [pair for result in results for pair in result.pairs.values() if not pair.is_of_terms_only]
        seen.claimed_pairs.append(any(pair.p < 0.05 for pair in pairs))
        seen.claimed_groups.append(any(group.gap.p < 0.05 for group in first.groups.values()))
        if first.mde is not None:
            seen.mde.append(first.mde)
        for name, estimate in _estimates(first).items():
            seen.values.setdefault(name, []).append(estimate.value)
            if estimate.is_of_terms_only or name == "artefact":
                continue  # other terms may show something else
            if estimate.ci is not None and estimate.ci[0] < estimate.ci[1]:
                seen.covered.setdefault(name, []).append(estimate.ci[0] <= true[name] <= estimate.ci[1])
        gaps = [group.gap for group in first.groups.values()]
        if all(gap.ci is not None and not gap.is_of_terms_only for gap in gaps):
            truths = [true[f"gap {name}"] for name in first.groups]
            seen.together.append(
                all(low <= value <= high for (low, high), value in zip((gap.ci for gap in gaps), truths, strict=True))
            )
        seen.dual.append(all((gap.p < 0.05) == gap.excludes_zero for gap in [*gaps, *first.pairs.values()]))
        for name, part in first.shares.items():
            seen.significant.setdefault(name, []).append(part.p is not None and part.p < 0.05)
    return seen, true


def share(hits: Sequence[bool]) -> str:
    """A share as text."""
    return f"{np.mean(hits):.3f}" if hits else "–"


def row(case: Case, seen: Seen, true: Mapping[str, float]) -> list[str]:
    """What the table says of a case."""
    gaps = [hits for name, hits in seen.covered.items() if name.startswith("gap")]
    pairs = [hits for name, hits in seen.covered.items() if name.startswith("pair")]
    parts = [hits for name, hits in seen.covered.items() if name.startswith(("contribution", "unattributed"))]
    bias = np.mean(seen.values["disparity"]) - true["disparity"]
    return [
        case.about,
        f"{true['disparity']:+.3f}",
        f"{bias:+.4f}",
        share([verdict == "disparity" for verdict in seen.verdicts]),
        share([verdict == "these terms only" for verdict in seen.verdicts]),
        share([verdict == "equivalent" for verdict in seen.verdicts]),
        share(seen.claimed_pairs),
        share(seen.together),
        share(seen.dual),
        share([hit for hits in parts for hit in hits]),
        share([hit for hits in gaps for hit in hits]),
        share([hit for hits in pairs for hit in hits]),
        f"{np.mean(seen.mde):.3f}" if seen.mde else "–",
    ]


HEADER = (
    "world", "true disparity", "bias", "verdict disparity", "these terms only", "equivalent", "any pair claimed",
    "coverage: all gaps at once", "p and interval agree", "contributions", "gaps", "pairs", "mde",
)  # fmt: skip


def at_mde(world: World, harmed: str, runs: int, seed: int) -> tuple[float, float, float]:
    """Power where one group is served worse than all others by the minimum detectable effect that runs without any
    effect report, and by twice that.

    Returns:
        That effect (the mean of 30 runs), and both powers.
    """
    reported = [
        audit([table_of(world, np.random.default_rng([seed, 7, number]))], number)[0].mde for number in range(30)
    ]
    mde = float(np.mean([value for value in reported if value is not None]))
    tried = truth(replace(world, effects={"response": {harmed: 0.1}}), seed)
    apart = float(np.mean([tried[f"pair {name}>{harmed}"] for name in world.groups if name != harmed]))
    powers = []
    for times in (1, 2):
        effects = {"response": {harmed: 0.1 * times * mde / apart}}
        seen, _ = run(Case("", replace(world, effects=effects), ""), runs, seed)
        powers.append(float(np.mean([verdict == "disparity" for verdict in seen.verdicts])))
    return mde, *powers


def mde_worlds() -> dict[str, tuple[World, str]]:
    """Worlds without any effect, and the group that is to be harmed in each."""
    return {
        f"{len(groups)} groups, {dialogues} dialogues" + (", placebo" if placebo else ""): (
            World(dialogues=dialogues, groups=groups, words=20, quirks=0.05, placebo=placebo),
            harmed,
        )
        for placebo in (None, 0.15)
        for groups, harmed in ((("man", "woman"), "woman"), (RACES, "black"))
        for dialogues in (130, 500)
    }


def group_tables(runs: int, seed: int) -> None:
    """Print size and power in worlds of scores."""
    print("\n| world of scores | any group claimed | intervals of all groups cover |\n|---|---|---|")
    for about, worlds in (("", REVIEWED), ("fresh: ", FRESH)):
        for name, world in worlds.items():
            claimed, covers = size(world, runs, seed)
            print(f"| {about}{name} | {claimed:.3f} | {covers:.3f} |", flush=True)
    print("\n| groups x terms, dialogues, quirks | an oracle finds | alike variances | found |\n|---|---|---|---|")
    for dialogues, groups, terms in ((100, 2, 6), (300, 2, 20), (600, 2, 60), (300, 3, 12), (300, 6, 6), (600, 6, 20)):
        for quirks in (0.0, 0.1):
            found = power(dialogues, groups, terms, quirks, runs, seed)
            shares = " | ".join(f"{share:.3f}" for share in found)
            print(f"| {groups} x {terms}, {dialogues}, {quirks} | {shares} |", flush=True)


def crossed_table(runs: int, seed: int) -> None:
    """Print size and coverage on crossed axes."""
    print("\n| crossed axes | any group claimed | any effect claimed | all gaps cover | all effects cover |")
    print("|---|---|---|---|---|")
    for name, world in CROSSED.items():
        print(f"| {name} | " + " | ".join(f"{some:.3f}" for some in crossed_size(world, runs, seed)) + " |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="beginnings of cases' names, joined by commas; mde, groups, crossed")
    options = parser.parse_args()
    wanted = tuple(name for name in options.only.split(",") if name)
    started = time.monotonic()
    print("| " + " | ".join(HEADER) + " |")
    print("|" + "---|" * len(HEADER))
    for name, case in cases().items():
        if not wanted or name.startswith(wanted):
            seen, true = run(case, options.runs, options.seed)
            print("| " + " | ".join(row(case, seen, true)) + " |", flush=True)
    if not wanted or any("mde".startswith(name) for name in wanted):
        print(
            "\n| planted at the minimum detectable effect | mde | found at it | found at twice it |\n|---|---|---|---|"
        )
        for name, (world, harmed) in mde_worlds().items():
            mde, once, twice = at_mde(world, harmed, options.runs, options.seed)
            print(f"| {name} | {mde:.3f} | {once:.3f} | {twice:.3f} |", flush=True)
    if not wanted or any("groups".startswith(name) for name in wanted):
        group_tables(options.runs, options.seed)
    if not wanted or any("crossed".startswith(name) for name in wanted):
        crossed_table(options.runs, options.seed)
    error = math.sqrt(0.05 * 0.95 / options.runs)
    print(f"\n{options.runs} runs a world; a share of .05 has a standard error of {error:.3f}; "
          f"{time.monotonic() - started:.0f} s; components: {', '.join(STAGES)}.")  # fmt: skip


if __name__ == "__main__":
    main()
