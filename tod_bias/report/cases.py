"""Regression cases as text, as tables of a terminal, as JUnit XML and as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from rich.console import Group, RenderableType
from rich.text import Text

from tod_bias.dialogues.text import first_change, window
from tod_bias.report.differences import of_turn
from tod_bias.report.excerpts import readable_pair
from tod_bias.report.notation import count

FIXED = "fixed"
_SHOWN = 5
"""Number of cases that the terminal shows."""
_ROOM = 64
"""Characters of what a case shows, in one line."""


def headline(record: Mapping[str, Any]) -> str:
    """Return one sentence: how many cases are fixed, and the states of the others.

    Args:
        record: the content of ``check.json`` of cases.
    """
    states = Counter(case["state"] for case in record["cases"])
    whole = len(record["cases"])
    first = f"{count(states.pop(FIXED, 0))} of {count(whole)} case{'s' * (whole != 1)} fixed"
    words = {"remains": "remain", "levelled down": "levelled down", "unanswered": "without an output"}
    return ", ".join([first, *(f"{count(states[name])} {word}" for name, word in words.items() if states[name])])


def line(case: Mapping[str, Any]) -> str:
    """Return one case in one line: its state, and what the system does for both variants.

    Args:
        case: one of the record's.
    """
    text = f"{case['id']}: {case['state']}"
    if case["reason"] and not case["now"]:
        return f"{text} ({case['reason']})"
    if case["state"] == "remains":
        return f"{text}; {case['what']}: {_change(case['now'])}"
    return f"{text} ({case['reason']})" if case["reason"] else text


def _change(texts: Mapping[str, str]) -> str:
    """Return the act of the system for the original and for the counterfactual, cut around the first difference."""
    before, after = (" ".join(texts[name].split()) for name in ("original", "rewritten"))
    place = first_change(before, after)
    shown = (window(text, place, _ROOM // 2) or "nothing" for text in (before, after))
    return " → ".join(shown)


def text(case: Mapping[str, Any]) -> str:
    """Return one case to read: the groups, the user's text, and what the system does for both variants.

    Args:
        case: one of the record's.
    """
    rows = [line(case), f"{case['target']} instead of {case['source']} ({case['term']}), {_place(case)}"]
    for turn in case["earlier"]:
        rows += _pair(f"user in turn {turn['turn']}", turn["original"], turn["rewritten"])
    rows += _pair("user", case["user"]["original"], case["user"]["rewritten"])
    for name, shown in (("now", case["now"]), ("before", case["before"])):
        if shown:
            rows += _pair(f"{case['stage'] or 'system'}, {name}", *readable_pair(shown["original"], shown["rewritten"]))
    if first := of_turn(case["first_difference"]).replace("`", ""):
        rows.append(f"  differs first: {first}")
    return "\n".join(rows)


def _place(case: Mapping[str, Any]) -> str:
    earlier = case["turns"][:-1]
    after = f" after turn{'s' * (len(earlier) > 1)} {', '.join(map(str, earlier))}" if earlier else ""
    return f"turn {case['turn']}{after}"


def _pair(name: str, before: str, rewritten: str) -> list[str]:
    if before == rewritten:
        return [f"  {name}: {before}"]
    return [f"  {name}, original: {before or '(nothing)'}", f"  {name}, rewritten: {rewritten or '(nothing)'}"]


def table(record: Mapping[str, Any]) -> RenderableType:
    """Return the sentence, and the cases that are not fixed.

    Args:
        record: the content of ``check.json`` of cases.
    """
    not_fixed = [case for case in record["cases"] if case["state"] != FIXED]
    lines = [Text(line(case)) for case in not_fixed[:_SHOWN]]
    return Group(Text(headline(record), style="bold"), *lines, *_more(len(not_fixed)))


def _more(number: int) -> list[Text]:
    """Append '… and N more' when the list is truncated."""
    return [Text(f"… and {count(number - _SHOWN)} more", style="dim")] if number > _SHOWN else []


def written(cases: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a line per finding with its number of cases and one example.

    Args:
        cases: lines of a file of cases.
    """
    findings: dict[tuple[str, str, str, str], list[Mapping[str, Any]]] = {}
    for case in cases:
        findings.setdefault((case["axis"], case["stage"], case["what"], case["event"]), []).append(case)
    lines = []
    for (axis, stage, what, _), members in findings.items():
        where = f" ({stage})" if stage else ""
        first = min(members, key=lambda case: len(case["user"]["rewritten"]))
        lines.append(Text(f"{count(len(members))} {axis}{where}: {what}", overflow="ellipsis", no_wrap=True))
        lines.append(Text(f"  {_change(first['shown'])}", style="dim", overflow="ellipsis", no_wrap=True))
    return Group(*lines)


def junit(record: Mapping[str, Any]) -> str:
    """Return JUnit XML with a suite per axis; a case without an output is an error.

    Args:
        record: the content of ``check.json`` of cases.
    """
    outcomes = []
    for case in record["cases"]:
        axis, state = case["axis"], case["state"]
        kind = "" if state == FIXED else "error" if state == "unanswered" else "failure"
        names = (axis, f"tod-bias.{axis}.{case['stage'] or 'system'}", case["id"])
        outcomes.append(JUnitCase(*names, kind, state, line(case), text(case)) if kind else JUnitCase(*names))
    return to_junit("tod-bias cases", outcomes)


_MARKS = {FIXED: "✅", "unanswered": "❔"}


def markdown(record: Mapping[str, Any]) -> str:
    """A summary in GitHub's Markdown: the sentence, and the cases that are not fixed.

    Args:
        record: the content of ``check.json`` of cases.
    """
    lines = [f"## {_MARKS.get(record['state'], '❌')} tod-bias check: {headline(record)}", ""]
    for case in record["cases"]:
        if case["state"] != FIXED:
            body = "\n".join(f"    {row}" for row in text(case).splitlines())
            lines += [body, ""]
    return "\n".join(lines)


KINDS = ("failure", "error", "skipped")


class JUnitCase(NamedTuple):
    """One test case of a suite."""

    suite: str
    classname: str
    name: str
    kind: str = ""
    """One of :data:`KINDS`; empty if the case passed."""
    state: str = ""
    message: str = ""
    text: str = ""


def to_junit(title: str, outcomes: Iterable[JUnitCase]) -> str:
    """Return JUnit XML with a suite per name of a suite.

    Args:
        title: name of all suites together.
        outcomes: test cases, in their order.
    """
    outcomes = list(outcomes)
    suites: dict[str, list[JUnitCase]] = {}
    for outcome in outcomes:
        suites.setdefault(outcome.suite, []).append(outcome)
    root = ElementTree.Element("testsuites", {"name": title, **_counts(outcomes)})
    for name, some in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": legal(name), **_counts(some), "time": "0"})
        for member in some:
            names = {"classname": legal(member.classname), "name": legal(member.name), "time": "0"}
            case = ElementTree.SubElement(suite, "testcase", names)
            if member.kind:
                element = ElementTree.SubElement(
                    case, member.kind, {"message": legal(member.message), "type": member.state}
                )
                element.text = legal(member.text)
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(outcomes: list[JUnitCase]) -> dict[str, str]:
    plural = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    kinds = [outcome.kind for outcome in outcomes]
    return {"tests": str(len(kinds)), **{plural[kind]: str(kinds.count(kind)) for kind in KINDS}}


def legal(text: str) -> str:
    """Replace the characters that XML 1.0 forbids."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
