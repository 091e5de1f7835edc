"""An audit's numbers as tables, for the terminal, the report and CSV files.

``run`` is the content of an ``associations.json`` everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tod_bias.report.notation import fixed
from tod_bias.report.sheets import Probability, Sheet, Value

Record = Mapping[str, Any]
_R_RIPA = "R-RIPA by bias direction (Beattie Table 3)"


def sheets(run: Record) -> list[Sheet]:
    """Return all tables for which a run has numbers."""
    made = [
        metrics(run),
        within_pairs(run),
        r_ripa(run),
        accuracies(run),
        significance(run),
        cosines(run),
        deciles(run),
    ]
    made += [groups(run), disparities(run), users(run), misclassified(run)]
    return [sheet for sheet in made if sheet.rows]


def _share(result: Record) -> Value:
    return Value(result["value"], result["ci"], is_share=True)


def metrics(run: Record) -> Sheet:
    """GEAA, DEAA, the difference of means and the effect size (eqs. 2-4) with both permutation tests.

    DEAA is the paper's difference of sums with the paper's test; the difference of means has both tests, of Welch's t.
    """
    rows: list[tuple[Any, ...]] = []
    tests, bounds = run["tests"], run["intervals"]
    for role, value in run["GEAA"].items():
        named = run["sets"][role]
        mean = Value(value / named["size"], None, 4, sign=True)
        p = Probability(tests["GEAA"][role]["p_value"])
        rows.append((f"GEAA({named['name']})", Value(value, bounds["GEAA"][role], 3, sign=True), mean, "", p))
    if run["DEAA"] is not None:
        p_values = [Probability(tests["mean_difference"][null]["p_value"]) for null in ("entities", "attribute")]
        p_of_deaa = Probability(tests["DEAA"]["entities"]["p_value"])
        rows.append(("DEAA", Value(run["DEAA"], bounds["DEAA"], 3, sign=True), "", p_of_deaa, ""))
        mean = Value(run["mean_difference"], bounds["mean_difference"], 4, sign=True)
        rows.append(("difference of means", mean, "", *p_values))
        rows.append(("effect size", Value(run["effect_size"], bounds["effect_size"], 3, sign=True), "", "", ""))
    columns = ("metric", "value [95%]", "a mean entity", "p: E ↔ P", "p: A ↔ B")
    return Sheet("metrics", "Association (p: labels of E and P, or of A and B, exchanged)", columns, tuple(rows))


def r_ripa(run: Record, *, short: bool = False) -> Sheet:
    """R-RIPA (eqs. 5-6) by direction (Beattie Table 3); unusable directions are marked.

    ``short`` leaves out the intervals of the two sets' own values and, without P, what compares E with it.
    """
    rows: list[tuple[Any, ...]] = []
    for direction, entry in run["R_RIPA"].items():
        bounds = entry["intervals"]
        cells = (
            Value(entry[key], None if short and key in "EP" else bounds.get(key), 3, sign=True)
            for key in ("E", "P", "differential", "effect_size")
        )
        rows.append((direction, *cells, Probability(entry["p_value"]), _usable(entry["usable"])))
    sets = run["sets"]
    second = sets["P"]["name"] if "P" in sets else "P"
    if short and "P" not in sets:
        rows = [(*row[:2], row[-1]) for row in rows]
        return Sheet("table3_r_ripa", _R_RIPA, ("direction", sets["E"]["name"], "usable"), tuple(rows), _dim(rows))
    columns = ("direction", sets["E"]["name"], second, "differential", "effect size", "p", "usable")
    return Sheet("table3_r_ripa", _R_RIPA, columns, tuple(rows), _dim(rows))


def within_pairs(run: Record) -> Sheet:
    """Mean differences within pairs, such as counterfactual users, with the p-values over pairs and over items."""
    pairs = run.get("pairs") or {"pairs": 0, "of": {}}
    sets = run["sets"]
    rows = []
    for name, entry in pairs["of"].items():
        tested = f"{sets['E']['name']} − {sets['P']['name']}" if name == "differential" else sets[name]["name"]
        p_values = (Probability(entry[key]) for key in ("p_pairs", "p_items", "p_holm"))
        rows.append((tested, Value(entry["value"], entry["ci"], 4, sign=True), *p_values))
    a, b = (sets[role]["name"] for role in "AB")
    title = f"Within {pairs['pairs']:,} pairs: mean cosine as {a} − as {b}"
    return Sheet("within_pairs", title, ("set", "difference [95%]", "p: pairs", "p: items", "p (Holm)"), tuple(rows))


def flags(run: Record) -> Sheet:
    """Return the table of flags: R-RIPA of the centroid difference with both p-values, and the usable directions."""
    sets = run["sets"]
    names = {role: part["name"] for role, part in sets.items()}
    names["differential"] = f"{names['E']} − {names.get('P', '')}"
    rows = [
        (
            names[flag["of"]],
            Value(flag["value"], run["R_RIPA"]["centroid"]["intervals"][flag["of"]], 3, sign=True),
            *(Probability(flag[name]) for name in ("p_items", "p_users", "p_holm")),
            ", ".join([*flag["agree"], *(f"not {name}" for name in flag["oppose"])]) or "none",
            "yes" if flag["flagged"] else "no",
        )
        for flag in run["flags"]
    ]
    columns = ("of", "R-RIPA [95%]", "p: items", "p: users", "p (Holm)", "usable directions", "flagged")
    return Sheet("flags", "Flags: R-RIPA of the centroid difference", columns, tuple(rows))


def _usable(usable: bool) -> str:
    return "yes" if usable else "NO"


def _dim(rows: list[tuple[Any, ...]]) -> tuple[int, ...]:
    """The rows of directions that are not to be used."""
    return tuple(number for number, row in enumerate(rows) if row[-1] == _usable(False))


def accuracies(run: Record) -> Sheet:
    """Accuracy of the classifiers behind directions (Beattie Table 1)."""
    rows = [
        (direction, _share(entry["accuracy"]["train"]), _share(entry["accuracy"]["test"]))
        for direction, entry in run["directions"].items()
        if "accuracy" in entry
    ]
    columns = ("direction", "train [95%]", "test [95%]")
    return Sheet("table1_accuracy", "Accuracy of classifiers of A and B (Beattie Table 1)", columns, tuple(rows))


def significance(run: Record) -> Sheet:
    """The three tests of every direction (Beattie section 4.3.1)."""
    rows: list[tuple[Any, ...]] = []
    for direction, entry in run["directions"].items():
        tests = entry["tests"]
        p_values = (
            Probability(tests[test]["p_value"] if test in tests else None)
            for test in ("sets", "random_direction", "random_entities")
        )
        level = fixed(tests["sets"]["level"], 4) if tests else ""
        rows.append((direction, *p_values, level, _usable(entry["significant"])))
    columns = (
        *("direction", "A against B", "against random directions", "against random vectors", "Bonferroni level"),
        "usable",
    )
    return Sheet("directions", "Significance of directions, on held-out entities", columns, tuple(rows), _dim(rows))


def cosines(run: Record) -> Sheet:
    """Cosines between directions (Beattie Table 2)."""
    names = list(run["directions"])
    rows = [
        (direction, *(Value(1.0 if other == direction else entry["cosines"][other], None, 2) for other in names))
        for direction, entry in run["directions"].items()
    ]
    return Sheet("table2_cosines", "Cosines between directions (Beattie Table 2)", ("direction", *names), tuple(rows))


def _classifiers(run: Record, key: str) -> dict[str, Record]:
    return {name: entry for name, entry in run["classification"].items() if key in entry}


def deciles(run: Record) -> Sheet:
    """Items labelled A or B by decile of their audience (Beattie Table 4)."""
    rows: list[tuple[Any, ...]] = []
    for direction, entry in _classifiers(run, "audience_deciles").items():
        for decile in entry["audience_deciles"]:
            span = f"{decile['from']:.0%} to {decile['to']:.0%}"
            labelled = decile["labelled_A"]
            change = decile["change"] or {}
            tested = Probability(change.get("p_holm")), change.get("test", "")
            side = run["sets"][decile["side"]]["name"]
            rows.append((direction, side, span, _share(labelled), str(labelled["n"]), *tested))
    labelled = f"labelled {run['sets']['A']['name']} [95%]"
    columns = ("classifier", "larger side", "of its audience", labelled, "items", "p (Holm) of the change", "test")
    return Sheet("table4_deciles", "Labels of items by audience (Beattie Table 4)", columns, tuple(rows))


def groups(run: Record) -> Sheet:
    """Precision, recall and F1 of E labelled A and P labelled B (Beattie Table 5)."""
    rows: list[tuple[Any, ...]] = []
    sets = run["sets"]
    for direction, entry in _classifiers(run, "groups").items():
        for role, wanted in (("E", "A"), ("P", "B")):
            result = entry["groups"][role]
            rows.append(
                (
                    direction,
                    f"{sets[role]['name']} as {sets[wanted]['name']}",
                    _share(result["precision"]),
                    _share(result["recall"]),
                    Value(result["f1"], None, 2),
                    Probability(entry["groups_mann_whitney"]["p_value"]) if role == "E" else "",
                )
            )
    columns = ("classifier", "label", "precision [95%]", "recall [95%]", "F1", "p, E against P")
    return Sheet("table5_groups", "Labels of the test sets (Beattie Table 5)", columns, tuple(rows))


def disparities(run: Record) -> Sheet:
    """Demographic parity and equalised odds between E and P."""
    names = ("demographic_parity_difference", "equalized_odds_difference")
    rows = [
        (direction, *(Value(entry["disparity"][name], None, 3) for name in names))
        for direction, entry in _classifiers(run, "disparity").items()
    ]
    columns = ("classifier", "demographic parity difference", "equalised odds difference")
    return Sheet("disparity", "Disparity of labels between E and P (0 is parity)", columns, tuple(rows))


def users(run: Record) -> Sheet:
    """Users' attribute predicted from their items."""
    rows: list[tuple[Any, ...]] = []
    if result := run["classification"].get("users_from_items"):
        cells = (_share(result[key]) for key in ("accuracy", "A_as_B", "B_as_A"))
        rows.append((f"top {result['top_items']}", *cells))
    a, b = run["sets"]["A"]["name"], run["sets"]["B"]["name"]
    columns = ("items", "test accuracy [95%]", f"{a} taken for {b}", f"{b} taken for {a}")
    return Sheet("users_from_items", f"{run['attribute']} of users predicted from their items", columns, tuple(rows))


def misclassified(run: Record) -> Sheet:
    """Mean cosines of users' items with the centroids of both groups, by how users were labelled (section 6.4.2)."""
    a, b = run["sets"]["A"]["name"], run["sets"]["B"]["name"]
    names = {"A": a, "B": b}
    rows = [
        (
            f"{names[label[0]]} labelled {names[label[-1]]}",
            str(entry["users"]),
            *(Value(entry[centroid], None, 3, sign=True) for centroid in ("A", "B", "A_items", "B_items")),
        )
        for label, entry in run["classification"].get("users_from_items", {}).get("cosines", {}).items()
    ]
    columns = ("test users", "number", *(f"cosine with {name}" for name in (a, b, f"items of {a}", f"items of {b}")))
    title = "Users' items and the centroids of both groups, by label (Beattie section 6.4.2)"
    return Sheet("misclassified", title, columns, tuple(rows))


def changes(comparison: Record, *, short: bool = False) -> Sheet:
    """Every metric of two trainings side by side; ``short`` leaves out intervals of differences and what repeats."""
    rows: list[tuple[Any, ...]] = []
    dim = []
    for name, entry in comparison["metrics"].items():
        if short and name.startswith("R-RIPA") and not name.endswith("differential"):
            continue
        if not entry.get("usable", True):
            dim.append(len(rows))
        difference = () if short else (Value(entry["difference"], entry.get("ci"), 3, sign=True),)
        p_values = (Probability(entry["p_value"]), Probability(entry.get("p_holm")))
        rows.append(
            (
                name.replace("differential", "diff.") if short else name,
                Value(entry["before"], None, 3, sign=True),
                Value(entry["after"], None, 3, sign=True),
                *difference,
                Value(entry["change_percent"], entry.get("change_percent_ci"), 1, sign=True),
                *(p_values[1:] if short else p_values),
            )
        )
    first, second = comparison["names"]
    between = () if short else ("difference [95%]",)
    columns = ("metric", first, second, *between, "change in % [95%]", *(() if short else ("p",)), "p (Holm)")
    return Sheet("comparison", f"{second} against {first}", columns, tuple(rows), tuple(dim))


def label_changes(comparison: Record) -> Sheet:
    """Labels in two trainings: chi-squared and McNemar."""
    rows = []
    for direction, groups_of in comparison["labels"].items():
        for role, entry in groups_of.items():
            rows.append(
                (
                    direction,
                    comparison["sets"][role]["name"],
                    *(_share(part) for part in entry["labelled_A"]),
                    Probability(entry["chi_squared"]["p_value"]),
                    Probability(entry["mcnemar"]["p_value"]),
                )
            )
    a = comparison["sets"]["A"]["name"]
    first, second = (f"labelled {a}, {name}" for name in comparison["names"])
    columns = ("classifier", "set", first, second, "p (chi-squared)", "p (McNemar)")
    return Sheet("label_changes", "Labels in the two trainings", columns, tuple(rows))
