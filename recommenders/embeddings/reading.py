"""What an audit shows and does not show, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.report.notation import fixed, p_text

MEANS = "difference of means"
"""Mean EAA over E − mean EAA over P: what is tested of E and P; DEAA is the paper's difference of sums."""
LIMITS = (
    "This describes where vectors lie, not whom a recommendation harms or helps: whether an association is a harm is "
    "for people who know the setting to decide.",
    "The attribute is taken as two groups, as in Beattie; people outside both are not described.",
    "A test that does not flag does not show that there is no association.",
)
"""Said with every result."""


def reading(result: Mapping[str, Any]) -> list[str]:
    """Sentences on one audit: what is flagged, what that shows, what it does not."""
    sets = result["sets"]
    a, b = sets["A"]["name"], sets["B"]["name"]
    p_holm = {flag["test"]: flag for flag in result["flags"]}
    said = []
    for role, value in result["GEAA"].items():
        flag = p_holm[f"GEAA {role}"]
        mean = value / sets[role]["size"]
        side = a if value > 0 else b
        if flag["flagged"]:
            said.append(
                f"{sets[role]['name']}: its vectors lie closer to {side} than to {b if side == a else a} (mean EAA "
                f"{fixed(mean, 4, sign=True)}), more than random relabellings of A and B show "
                f"(Holm {p_text(flag['p_holm'])})."
            )
        else:
            said.append(
                f"{sets[role]['name']}: no association with {result['attribute']} is supported (mean EAA "
                f"{fixed(mean, 4, sign=True)}, Holm {p_text(flag['p_holm'])})."
            )
    if "P" in sets:
        said.append(_difference(result, p_holm))
    unusable = [name for name, entry in result["directions"].items() if not entry["significant"]]
    if unusable:
        said.append(
            f"Not to be used: {', '.join(unusable)}. A direction that fails one of the three tests may follow "
            f"something else than {result['attribute']}; its R-RIPA is given for completeness."
        )
    return said


def _difference(result: Mapping[str, Any], p_holm: Mapping[str, Mapping[str, Any]]) -> str:
    sets = result["sets"]
    e, p, a = sets["E"]["name"], sets["P"]["name"], sets["A"]["name"]
    entities, attribute = p_holm["mean difference entities"], p_holm["mean difference attribute"]
    effect = result["effect_size"]
    start = f"{e} against {p}: effect size {fixed(effect, 2, sign=True)}"
    if entities["flagged"] and attribute["flagged"]:
        lean = "more" if result["mean_difference"] > 0 else "less"  # the sign of the effect size
        return (
            f"{start}. {e} leans {lean} to {a} than {p} does; both tests flag (labels of {e} and {p} exchanged: Holm "
            f"{p_text(entities['p_holm'])}; labels of {a} and {sets['B']['name']} exchanged: Holm "
            f"{p_text(attribute['p_holm'])})."
        )
    if entities["flagged"]:
        return (
            f"{start}. The two sets differ along this contrast, but random relabellings of A and B separate them as "
            f"much (Holm {p_text(attribute['p_holm'])}): two groups of items that lie apart differ along any contrast, "
            f"so this does not support an association with {result['attribute']}."
        )
    if attribute["flagged"]:
        return (
            f"{start}. The contrast of {a} and {sets['B']['name']} separates the means of the two sets more than "
            f"random relabellings do (Holm {p_text(attribute['p_holm'])}), but their entities overlap too much to "
            f"tell the sets apart (Holm {p_text(entities['p_holm'])})."
        )
    return f"{start}. No difference is supported (Holm {p_text(entities['p_holm'])})."


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
    wanted = (" entities", " attribute") if key == MEANS else ("GEAA E",)  # whatever is exchanged
    remains = all(flag["flagged"] for flag in flags if flag["test"].endswith(wanted))
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
        else "and what is left is no longer flagged, which does not show that nothing is left"
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
