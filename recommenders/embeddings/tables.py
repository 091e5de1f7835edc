"""An audit's numbers as tables, for the terminal, the report and CSV files.

Several trainings of the same entities stand in one table, as in Beattie's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tod_bias.report.notation import fixed
from tod_bias.report.sheets import Probability, Sheet, Value

Named = Sequence[tuple[str, Mapping[str, Any]]]
"""Name of a training and the content of its ``associations.json``."""


def _share(result: Mapping[str, Any] | None) -> Value:
    return Value(result["value"], result["ci"], is_share=True) if result else Value(None, is_share=True)


def _several(runs: Named) -> tuple[str, ...]:
    return ("training",) if len(runs) > 1 else ()


def _label(name: str, runs: Named) -> tuple[str, ...]:
    return (name,) if len(runs) > 1 else ()


def sheets(runs: Named) -> list[Sheet]:
    """All tables that the runs have numbers for."""
    made = [metrics(runs), r_ripa(runs), accuracies(runs), significance(runs), cosines(runs), deciles(runs)]
    made += [groups(runs), disparities(runs), users(runs)]
    return [sheet for sheet in made if sheet.rows]


def metrics(runs: Named) -> Sheet:
    """GEAA, DEAA, the difference of means and the effect size (eqs. 2-4) with both permutation tests.

    DEAA is the paper's difference of sums and has no test; the difference of means has both.
    """
    rows: list[tuple[Any, ...]] = []
    for name, run in runs:
        label, tests = _label(name, runs), run["tests"]
        for role, value in run["GEAA"].items():
            size = run["sets"][role]["size"]
            rows.append(
                (
                    *label,
                    f"GEAA({run['sets'][role]['name']})",
                    Value(value, run["intervals"]["GEAA"][role], 3, sign=True),
                    Value(value / size, None, 4, sign=True),
                    "",
                    Probability(tests["GEAA"][role]["p_value"]),
                )
            )
        if run["DEAA"] is not None:
            result = tests["mean_difference"]
            p_values = tuple(Probability(result[null]["p_value"]) for null in ("entities", "attribute"))
            bounds = run["intervals"]
            rows.append((*label, "DEAA", Value(run["DEAA"], bounds["DEAA"], 3, sign=True), "", "", ""))
            mean = Value(run["mean_difference"], bounds["mean_difference"], 4, sign=True)
            rows.append((*label, "difference of means", mean, "", *p_values))
            rows.append(
                (*label, "effect size", Value(run["effect_size"], bounds["effect_size"], 3, sign=True), "", "", "")
            )
    columns = (
        *_several(runs),
        "metric",
        "value [95%]",
        "a mean entity",
        "p: E ↔ P",
        "p: A ↔ B",
    )
    return Sheet("metrics", "Association (p: labels of E and P, or of A and B, exchanged)", columns, tuple(rows))


def r_ripa(runs: Named, *, short: bool = False) -> Sheet:
    """R-RIPA (eqs. 5-6) by direction (Beattie Table 3); unusable directions are marked.

    ``short`` leaves out the intervals of the two sets' own values.
    """
    rows: list[tuple[Any, ...]] = []
    dim = []
    for name, run in runs:
        for direction, entry in run["R_RIPA"].items():
            bounds = entry["intervals"]
            if not entry["usable"]:
                dim.append(len(rows))
            cells = tuple(
                Value(entry[key], None if short and key in "EP" else bounds.get(key), 3, sign=True)
                for key in ("E", "P", "differential", "effect_size")
            )
            shown = "yes" if entry["usable"] else "NO"
            rows.append((*_label(name, runs), direction, *cells, Probability(entry["p_value"]), shown))
    first = runs[0][1]["sets"]
    second = first["P"]["name"] if "P" in first else "P"
    columns = (*_several(runs), "direction", first["E"]["name"], second, "differential", "effect size", "p", "usable")
    return Sheet("table3_r_ripa", "R-RIPA by bias direction (Beattie Table 3)", columns, tuple(rows), tuple(dim))


def accuracies(runs: Named) -> Sheet:
    """Accuracy of the classifiers behind directions (Beattie Table 1)."""
    rows = [
        (*_label(name, runs), direction, _share(entry["accuracy"]["train"]), _share(entry["accuracy"]["test"]))
        for name, run in runs
        for direction, entry in run["directions"].items()
        if "accuracy" in entry
    ]
    columns = (*_several(runs), "direction", "train [95%]", "test [95%]")
    return Sheet("table1_accuracy", "Accuracy of classifiers of A and B (Beattie Table 1)", columns, tuple(rows))


def significance(runs: Named) -> Sheet:
    """The three tests of every direction (Beattie section 4.3.1)."""
    rows: list[tuple[Any, ...]] = []
    dim = []
    for name, run in runs:
        for direction, entry in run["directions"].items():
            if not entry["significant"]:
                dim.append(len(rows))
            tests = entry["tests"]
            p_values = tuple(
                Probability(tests[test]["p_value"] if test in tests else None)
                for test in ("sets", "random_direction", "random_entities")
            )
            level = fixed(next(iter(tests.values()))["level"], 4) if tests else ""
            verdict = "yes" if entry["significant"] else "NO"
            rows.append((*_label(name, runs), direction, *p_values, level, verdict))
    columns = (
        *_several(runs),
        "direction",
        "A against B",
        "against random directions",
        "against random vectors",
        "Bonferroni level",
        "usable",
    )
    return Sheet("directions", "Significance of directions, on held-out entities", columns, tuple(rows), tuple(dim))


def cosines(runs: Named) -> Sheet:
    """Cosines between directions (Beattie Table 2)."""
    names = list(dict.fromkeys(direction for _, run in runs for direction in run["directions"]))
    rows = [
        (
            *_label(name, runs),
            direction,
            *(Value(1.0 if other == direction else entry["cosines"].get(other), None, 2) for other in names),
        )
        for name, run in runs
        for direction, entry in run["directions"].items()
    ]
    columns = (*_several(runs), "direction", *names)
    return Sheet("table2_cosines", "Cosines between directions (Beattie Table 2)", columns, tuple(rows))


def _classifiers(run: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
    return {name: entry for name, entry in run["classification"].items() if key in entry}


def deciles(runs: Named) -> Sheet:
    """Items labelled A or B by decile of their audience (Beattie Table 4)."""
    rows: list[tuple[Any, ...]] = []
    for name, run in runs:
        for direction, entry in _classifiers(run, "audience_deciles").items():
            for decile in entry["audience_deciles"]:
                side = run["sets"][decile["side"]]["name"]
                span = f"{decile['from']:.0%} to {decile['to']:.0%}"
                count = str(decile["labelled_A"]["n"])
                rows.append((*_label(name, runs), direction, side, span, _share(decile["labelled_A"]), count))
    a = runs[0][1]["sets"]["A"]["name"]
    columns = (*_several(runs), "classifier", "larger side", "of its audience", f"labelled {a} [95%]", "items")
    return Sheet("table4_deciles", "Labels of items by audience (Beattie Table 4)", columns, tuple(rows))


def groups(runs: Named) -> Sheet:
    """Precision, recall and F1 of E labelled A and P labelled B (Beattie Table 5)."""
    rows: list[tuple[Any, ...]] = []
    for name, run in runs:
        sets = run["sets"]
        for direction, entry in _classifiers(run, "groups").items():
            for role, wanted in (("E", "A"), ("P", "B")):
                result = entry["groups"][role]
                rows.append(
                    (
                        *_label(name, runs),
                        direction,
                        f"{sets[role]['name']} as {sets[wanted]['name']}",
                        _share(result["precision"]),
                        _share(result["recall"]),
                        Value(result["f1"], None, 2),
                        Probability(entry["groups_mann_whitney"]["p_value"]) if role == "E" else "",
                    )
                )
    columns = (*_several(runs), "classifier", "label", "precision [95%]", "recall [95%]", "F1", "p, E against P")
    return Sheet("table5_groups", "Labels of the test sets (Beattie Table 5)", columns, tuple(rows))


def disparities(runs: Named) -> Sheet:
    """Demographic parity and equalised odds between E and P."""
    rows = [
        (
            *_label(name, runs),
            direction,
            Value(entry["disparity"]["demographic_parity_difference"], None, 3),
            Value(entry["disparity"]["equalized_odds_difference"], None, 3),
        )
        for name, run in runs
        for direction, entry in _classifiers(run, "disparity").items()
    ]
    columns = (*_several(runs), "classifier", "demographic parity difference", "equalised odds difference")
    return Sheet("disparity", "Disparity of labels between E and P (0 is parity)", columns, tuple(rows))


def users(runs: Named) -> Sheet:
    """Users' attribute predicted from their items."""
    rows = []
    for name, run in runs:
        result = run["classification"].get("users_from_items")
        if result:
            cells = (_share(result["accuracy"]), _share(result["A_as_B"]), _share(result["B_as_A"]))
            rows.append((*_label(name, runs), f"top {result['top_items']}", *cells))
    sets = runs[0][1]["sets"]
    a, b = sets["A"]["name"], sets["B"]["name"]
    columns = (*_several(runs), "items", "test accuracy [95%]", f"{a} taken for {b}", f"{b} taken for {a}")
    return Sheet(
        "users_from_items", f"{runs[0][1]['attribute']} of users predicted from their items", columns, tuple(rows)
    )


def changes(comparison: Mapping[str, Any], *, short: bool = False) -> Sheet:
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


def label_changes(comparison: Mapping[str, Any]) -> Sheet:
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
