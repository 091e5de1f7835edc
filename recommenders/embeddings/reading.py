"""Findings of an audit and their limits, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.recommenders.embeddings.directions import ALPHA
from tod_bias.report.notation import fixed, p_text
from tod_bias.report.sheets import Statement
from tod_bias.results import DISPARITY, INCONCLUSIVE

MEANS = "difference of means"
"""Mean EAA over E − mean EAA over P, the numerator of Beattie's eq. 4; DEAA is the paper's difference of sums."""
LIMITS = (
    "This describes the geometry of vectors, not whom a recommendation harms or helps: whether an association is a "
    "harm is "
    "for people who know the setting to decide.",
    "The attribute is taken as two groups, as in Beattie; people outside both are not described.",
    "If a test does not flag an association, there may still be one.",
)
"""Said with every result."""


def statements(result: Mapping[str, Any]) -> list[Statement]:
    """Return the findings of one audit: of E, of P, and of their difference, associations first."""
    said = [_statement(result, flag) for flag in result["flags"]]
    said += [_within_pairs(result, name) for name in (result.get("pairs") or {"of": {}})["of"]]
    return sorted(said, key=lambda statement: not statement.is_difference)


def remarks(result: Mapping[str, Any]) -> list[str]:
    """Return what limits the findings of one audit: directions that fail a test, and p-values without a claim."""
    said = []
    unusable = [name for name, entry in result["directions"].items() if not entry["significant"]]
    if not any(entry["tests"] for entry in result["directions"].values()):
        a, b = (result["sets"][role]["name"] for role in "AB")
        said.append(
            f"No direction was tested, as {a} or {b} has too few entities to hold some of them out: none is to be "
            "used, and R-RIPA is given for completeness."
        )
    elif unusable:
        said.append(
            f"Not to be used: {', '.join(unusable)}. A direction that fails one of the three tests may follow "
            f"something else than {result['attribute']}; its R-RIPA is given for completeness."
        )
    if any(_rejects_eaa(result, flag["of"]) and flag["p_users"] >= ALPHA for flag in result["flags"]):
        sets = result["sets"]
        said.append(
            f"The p-values of EAA are small, and no claim uses them: they are small too if {sets['A']['name']} "
            f"and {sets['B']['name']} differ in spread only, as the mean cosine with scattered vectors is smaller."
        )
    return said


def _statement(result: Mapping[str, Any], flag: Mapping[str, Any]) -> Statement:
    """Describe E, P or their difference."""
    sets, attribute = result["sets"], result["attribute"]
    a, b = (sets[role]["name"] for role in "AB")
    near, far = (a, b) if flag["value"] > 0 else (b, a)
    if flag["of"] == "differential":
        e, p = (sets[role]["name"] for role in "EP")
        lean = "more" if flag["value"] > 0 else "less"
        name, claim = f"{e} against {p}", f"{e} leans {lean} to {a} than {p} does"
    else:
        name = sets[flag["of"]]["name"]
        claim = f"{name}: vectors are closer to {near} than to {far}"
    numbers = f"R-RIPA of the centroid difference {fixed(flag['value'], 4, sign=True)}, Holm {p_text(flag['p_holm'])}"
    if flag["flagged"]:
        agree = f"usable directions agree: {', '.join(flag['agree'])}"
        return Statement(DISPARITY, attribute, claim, details=[numbers, agree])
    if flag["rejected"]:
        why = f"{', '.join(flag['oppose'])} says the opposite" if flag["oppose"] else "no direction is usable"
        sentence = f"{name}: the tests reject, but {why}, so no association is claimed"
        return Statement(INCONCLUSIVE, attribute, sentence, details=[numbers])
    sentence = f"{name}: no association is supported"
    return Statement(INCONCLUSIVE, attribute, sentence, details=[numbers, _unexplained(result, flag)])


def _within_pairs(result: Mapping[str, Any], name: str) -> Statement:
    """Describe the association of E, of P, or of their difference within pairs."""
    sets, pairs = result["sets"], result["pairs"]
    entry = pairs["of"][name]
    a, b = (sets[role]["name"] for role in "AB")
    tested = f"{sets['E']['name']} against {sets['P']['name']}" if name == "differential" else sets[name]["name"]
    numbers = f"{pairs['pairs']:,} pairs, mean difference of cosines {fixed(entry['value'], 4, sign=True)}"
    details = [f"{numbers}, Holm {p_text(entry['p_holm'])}"]
    if not entry["flagged"]:
        sentence = f"{tested}: no association within pairs is supported"
        return Statement(INCONCLUSIVE, result["attribute"], sentence, details=details)
    near = a if entry["value"] > 0 else b
    sentence = f"{tested}: within pairs, vectors are closer as {near} than as {b if near == a else a}"
    return Statement(DISPARITY, result["attribute"], sentence, details=details)


def _unexplained(result: Mapping[str, Any], flag: Mapping[str, Any]) -> str:
    """Return which of the two samples explains an association: that of users or that of items."""
    sets, clusters = result["sets"], result["clusters"]
    users = f"random relabellings of {sets['A']['name']} and {sets['B']['name']} give as much"
    whole = f" of whole clusters by {clusters['by']}" if clusters else ""
    items = f"random signs{whole} of its items give as much"
    if flag["of"] == "differential":
        items = f"random relabellings{whole} of {sets['E']['name']} and {sets['P']['name']} give as much"
    few = [text for name, text in (("p_users", users), ("p_items", items)) if flag[name] >= ALPHA]
    return " and ".join(few) or "of several tests one is that small by chance"


def _rejects_eaa(result: Mapping[str, Any], of: str) -> bool:
    """True if each of the paper's own tests rejects."""
    tests = result["tests"]
    if of != "differential":
        return bool(tests["GEAA"][of]["p_value"] < ALPHA)
    return all(tests["mean_difference"][null]["p_value"] < ALPHA for null in ("entities", "attribute"))


def comparison_reading(
    metrics: Mapping[str, Mapping[str, Any]], name: str, flags: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Sentences on two trainings: what changed, and what is left.

    Args:
        metrics: the changes of ``comparison.json``.
        name: of the second training.
        flags: of the second training.
    """
    key = MEANS if MEANS in metrics else "GEAA E"
    entry = metrics[key]
    percent, p = entry["change_percent"], entry.get("p_holm")
    if percent is None or p is None:
        return ["No change can be computed."]
    low = entry.get("change_percent_ci")
    digits = 4 if key == MEANS else 2
    bounds = f" [{fixed(low[0], 1)}, {fixed(low[1], 1)}]" if low else ""
    weaker = abs(entry["after"]) < abs(entry["before"])
    changed = p < 0.05
    remains = any(flag["flagged"] for flag in flags if flag["of"] == ("differential" if key == MEANS else "E"))
    how = ("lowers" if weaker else "raises") if changed else "does not detectably change"
    said = (
        f"{name} {how} the association: {key} {fixed(entry['before'], digits)} → {fixed(entry['after'], digits)} "
        f"({fixed(percent, 1, sign=True)}%{bounds}, Holm {p_text(p)})"
    )
    left = (
        "but does not remove it: what is left is flagged as well"
        if remains and changed and weaker
        else "what is left is flagged"
        if remains
        else "and the rest is no longer flagged, which does not show that there is none"
    )
    others = _opposed(metrics, weaker)
    against = [f"Not every metric agrees: {', '.join(others)}."] if others else []
    return [
        f"{said}, {left}.",
        *against,
        "The p-value and interval are over the tested entities, for these two trainings; trainings that differ in "
        "their seed alone differ too, so train several before calling a small change a mitigation.",
    ]


def _opposed(metrics: Mapping[str, Mapping[str, Any]], weaker: bool) -> list[str]:
    """Differentials of usable directions that changed the other way, with their change in %."""
    return [
        f"{name} {fixed(entry['change_percent'], 1, sign=True)}%"
        for name, entry in metrics.items()
        if name.endswith("differential")
        and entry.get("usable")
        and entry["change_percent"] is not None
        and (entry.get("p_holm") or 1.0) < 0.05
        and (entry["change_percent"] < 0) != weaker
    ]
