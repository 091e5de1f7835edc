"""The result of a check: for a terminal, as a JUnit file, and as a summary in Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tod_bias.report.cases import JUnitCase, to_junit
from tod_bias.report.notation import count, fixed
from tod_bias.report.sheets import new_table

TITLES = {"within": "passed", "above": "failed", "cannot tell": "cannot tell"}
"""The states in words."""
_NAMED = 3
"""Maximum number of unchecked metrics that are named."""


def _needed(row: Mapping[str, Any]) -> str:
    """Return how many dialogues would be enough."""
    needed = row["needed"]
    if needed is None:
        return ""
    if math.isinf(needed):
        return "no number of dialogues is enough"
    return f"about {count(needed)} dialogues would be enough if the value is as seen (here {count(row['dialogues'])})"


def why(row: Mapping[str, Any]) -> str:
    """Return why a value is undecided; empty if it is decided."""
    return "; ".join(filter(None, (row["reason"], _needed(row)))) if row["state"] == "cannot tell" else ""


def differences(record: Mapping[str, Any], without: Collection[str] = ()) -> list[str]:
    """Return the first differences of each group whose gap is shown above the limit; they are the same for every
    metric.

    Args:
        record: the content of ``check.json``.
        without: axes that are left out.
    """
    rows = [row for row in record["values"] if row["state"] == "above" and row["axis"] not in without]
    return list(dict.fromkeys(f"{row['axis']}, {text}" for row in rows for text in row["first_differences"]))


def headline(record: Mapping[str, Any]) -> str:
    """Return the result of the check in one sentence."""
    most, margin = record["max_gap"], record["margin"]
    rows = record["values"]
    chosen = [row for row in rows if row["state"] == record["state"]]
    first = max(chosen, key=lambda row: abs(row["value"] or 0.0) if row["both_sides"] else row["value"] or 0.0)
    about = f"{first['axis']}, {first['metric']}: {first['name']} {_seen(first)}"
    more = f" (and {len(chosen) - 1} more)" if len(chosen) > 1 else ""
    scope = " (of these terms)" if record["terms_only"] else ""
    if record["state"] == "above":
        return f"shown above {most:g}{scope}: {about}{more}"
    if record["state"] == "within":
        return f"all {len(rows)} shown within {margin:g}{scope}"
    return f"neither within {margin:g} nor above {most:g} is shown{scope}: {about}{more}"


def _positive(record: Mapping[str, Any]) -> str:
    """Return the meaning of a positive value."""
    metrics = {row["metric"]: row["both_sides"] for row in record["values"]}
    compared = [metric for metric in record["counterfactual"] if metric in metrics]
    neutral = [] if record["both_sides"] else [metric for metric, is_neutral in metrics.items() if is_neutral]
    harm = "" if set(metrics) <= {*compared, *neutral} else "positive is harm"
    either = (
        f"gaps of either sign count in {', '.join(neutral)}, where neither a higher nor a lower score is better"
        if neutral
        else ""
    )
    apart = (
        f"in {', '.join(compared)}, positive means treated differently more often than others, better or worse"
        if compared
        else ""
    )
    return "; ".join(filter(None, (harm, either, apart)))


def left_out(record: Mapping[str, Any]) -> str:
    """Return the measured metrics that were not checked, and how to check them; empty if there are none."""
    metrics = record["left_out"]
    if not metrics:
        return ""
    names = [f"{name} (shows a gap in {', '.join(axes)})" if axes else name for name, axes in metrics.items()]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"not checked, because neither a higher nor a lower score is better: {', '.join(names[:_NAMED])}{more}; "
        f"to check gaps of either sign, give for instance --metrics {next(iter(metrics))}"
    )


def _seen(row: Mapping[str, Any]) -> str:
    text = fixed(row["value"], sign=True)
    if row["interval"] is not None:
        low, high = row["interval"]
        text += f" [{fixed(low, sign=True)}, {fixed(high, sign=True)}]"
    return text


def table(record: Mapping[str, Any]) -> RenderableType:
    """Return the result for a terminal: the verdict and the findings, then the values that decided it.

    ``check.json``, JUnit and Markdown have every value.

    Args:
        record: the content of ``check.json``.
    """
    rows = {state: [row for row in record["values"] if row["state"] == state] for state in TITLES}
    findings = findings_by_axis(record)
    parts: list[RenderableType] = [Text(_verdict(record, rows), style="bold")]
    parts += [Text(f"{axis}: {text}") for axis, texts in findings.items() for text in texts]
    parts += [Text(f"differs first: {text.replace('`', '')}") for text in differences(record, without=findings)]
    notes = [left_out(record)]
    if rows["above"]:
        meaning = _positive({**record, "values": rows["above"]})
        parts += [Text(), _above(rows["above"], f"above {record['max_gap']:g}; {meaning}")]
        undecided: dict[str, dict[str, None]] = {}
        for row in rows["cannot tell"]:
            undecided.setdefault(row["axis"], {})[row["metric"]] = None
        if undecided:
            listed = "; ".join(f"{axis} {', '.join(metrics)}" for axis, metrics in undecided.items())
            notes.insert(0, f"undecided: {listed} (--junit and --summary say what would decide)")
    elif rows["cannot tell"]:
        parts += [Text(), _undecided(rows["cannot tell"])]
    return Group(*parts, *(Text(note, style="dim") for note in notes if note))


def _verdict(record: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> str:
    """Return the verdict with the number of values in each state."""
    above, within, undecided = (len(rows[state]) for state in ("above", "within", "cannot tell"))
    scope = " (of these terms)" if record["terms_only"] else ""
    counts = [
        f"{above} above {record['max_gap']:g}" if above else "",
        f"{undecided} undecided" if undecided else "",
        f"{within} within {record['margin']:g}",
    ]
    of = f"{len(record['values'])} values{scope}"
    return f"{TITLES[record['state']]}: {record['run']}, {of}: {', '.join(filter(None, counts))}"


def _above(rows: Sequence[Mapping[str, Any]], title: str) -> RenderableType:
    """Return a table of the values above the limit, the largest of each axis first."""
    view = new_table(title)
    for heading in ("axis", "metric", "what"):
        view.add_column(heading, overflow="fold")
    view.add_column(r"value \[interval]", justify="right", no_wrap=True)
    axes = list(dict.fromkeys(row["axis"] for row in rows))
    for row in sorted(rows, key=lambda row: (axes.index(row["axis"]), -abs(row["value"]))):
        view.add_row(*map(Text, (row["axis"], row["metric"], row["name"], _seen(row))))
    return view


def _undecided(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a table of the undecided values, with one row for values of a metric that differ in numbers only."""
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        alike.setdefault((row["axis"], row["metric"], re.sub(r"[\d.,]+", "#", why(row))), []).append(row)
    view = new_table("undecided")
    for heading in ("axis", "metric", "what", "what would decide"):
        view.add_column(heading, overflow="fold")
    for (axis, metric, _), some in alike.items():
        most = max(some, key=lambda row: row["needed"] or 0.0)
        view.add_row(*map(Text, (axis, metric, _joined([row["name"] for row in some]), why(most))))
    return view


def _joined(names: Sequence[str]) -> str:
    """Join names, with their common beginning once: "gap of man, woman"."""
    kinds = {name.partition(" of ")[0] for name in names}
    if len(kinds) > 1 or not all(" of " in name for name in names):
        return ", ".join(names)
    return f"{kinds.pop()} of {', '.join(name.partition(' of ')[2] for name in names)}"


def findings_by_axis(record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return each axis with a difference and the run's findings, a line each."""
    return record.get("findings", {})


def junit(record: Mapping[str, Any]) -> str:
    """Return JUnit XML with a suite per axis and metric and a case per value.

    An undecided value is an error, because CI services show skipped cases as passed; it is skipped if undecided values
    are allowed.

    Args:
        record: the content of ``check.json``.
    """
    undecided = "skipped" if record.get("allow_undecided") else "error"
    outcomes = []
    for row in record["values"]:
        axis, metric, state = row["axis"], row["metric"], row["state"]
        names = (f"{axis} by {metric}", f"tod-bias.{axis}.{metric}", row["name"])
        if state == "within":
            outcomes.append(JUnitCase(*names))
            continue
        limit = f"above {record['max_gap']:g}" if state == "above" else "cannot tell"
        lines = []
        if state == "above":
            lines = [
                *findings_by_axis(record).get(axis, ()),
                *(text.replace("`", "") for text in row["first_differences"]),
            ]
        message = "; ".join([f"{limit}: {_seen(row)}", *lines[:1]])
        text = "\n".join([why(row) or message, *lines[1:]])
        outcomes.append(JUnitCase(*names, "failure" if state == "above" else undecided, state, message, text))
    return to_junit("tod-bias check", outcomes)


_MARKS = {"within": "✅", "above": "❌", "cannot tell": "❔"}


def markdown(record: Mapping[str, Any]) -> str:
    """Return a summary in GitHub's Markdown.

    Args:
        record: the content of ``check.json``.
    """
    lines = [
        f"## {_MARKS[record['state']]} tod-bias check: {TITLES[record['state']]}",
        "",
        f"{_plain(record['run'])}: {_plain(headline(record))}.",
        "",
        "| axis | metric | | value [interval] | |",
        "|---|---|---|---:|---|",
    ]
    sentences = [f"- {_plain(f'{axis}: {text}')}" for axis, texts in findings_by_axis(record).items() for text in texts]
    lines[4:4] = [*sentences, ""] if sentences else []
    for row in record["values"]:
        cells = [row["axis"], row["metric"], row["name"], _seen(row)]
        lines.append(
            "| " + " | ".join(map(_plain, cells)) + f" | {_MARKS[row['state']]} {_plain(why(row) or row['state'])} |"
        )
    lines += ["", *(f"- differs first: {_plain(text.replace('`', ''))}" for text in differences(record))]
    closing = [text for text in (_positive(record), left_out(record)) if text]
    return "\n".join([*lines, "", *(_plain(f"{text[0].upper()}{text[1:]}.") for text in closing), ""])


def _plain(text: str) -> str:
    """Escape a text, so that Markdown shows it unchanged in one cell."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_{}\[\]|#~])", r"\\\1", text)
