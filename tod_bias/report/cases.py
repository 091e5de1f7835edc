"""Regression cases as text, as tables of a terminal, as JUnit XML and as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from rich.console import Group, RenderableType
from rich.text import Text

from tod_bias.audit.running import of_turn
from tod_bias.report.answer import readable_pair
from tod_bias.report.notation import count, fixed
from tod_bias.report.sheets import new_table

FIXED = "fixed"
_SHOWN = 10
"""Number of cases that the terminal shows."""


def headline(record: Mapping[str, Any]) -> str:
    """One sentence: how many are fixed, and the states of the others.

    Args:
        record: the content of ``check.json`` of cases.
    """
    states = Counter(case["state"] for case in record["cases"])
    whole = len(record["cases"])
    first = f"{count(states.pop(FIXED, 0))} of {count(whole)} case{'s' * (whole != 1)} fixed"
    words = {"remains": "remain", "levelled down": "levelled down", "unanswered": "without an output"}
    return ", ".join([first, *(f"{count(states[name])} {word}" for name, word in words.items() if states[name])])


def line(case: Mapping[str, Any]) -> str:
    """One case in one line.

    Args:
        case: one of the record's.
    """
    before, now = case["before"], case["now"]
    text = f"{case['id']}: {case['state']}"
    if case["reason"]:
        return f"{text} ({case['reason']})"
    if case["state"] == "levelled down":
        wanted, score = fixed(before["scores"]["expected"]), fixed(now["scores"]["rewritten"])
        return f"{text}: all are served as badly, {case['metric']} {score} (should be {wanted})"
    moved = "" if case["stage"] == before["stage"] else f" (was at {before['stage']})"
    harm = f"{fixed(now['harm'], sign=True)} by {case['metric']} at {case['stage']}{moved}"
    first = of_turn(now["first_difference"]).replace("`", "")
    return ", ".join(filter(None, (text, first, f"harm {harm}; was {fixed(before['harm'], sign=True)}")))


def text(case: Mapping[str, Any]) -> str:
    """One case to read: the groups, the user's text, and the output of each stage for both variants.

    Args:
        case: one of the record's.
    """
    rows = [line(case), f"{case['target']} instead of {case['source']} ({case['term']}), {_place(case)}"]
    for turn in case["earlier"]:
        rows += _pair(f"user in turn {turn['turn']}", turn["original"], turn["rewritten"])
    rows += _pair("user", case["user"]["original"], case["user"]["rewritten"])
    outputs = (case["now"] or {}).get("outputs") or {}
    same = []
    for name, output in outputs.items():
        if output.get("expected", "") == output.get("rewritten", ""):
            same.append(name)
        else:
            rows += _pair(name, *readable_pair(output.get("expected", ""), output.get("rewritten", "")), "expected")
    if same:
        rows.append(f"  the same from {', '.join(same)}")
    rows.append(f"  gold response: {case['reference']['rewritten']}")
    return "\n".join(rows)


def _place(case: Mapping[str, Any]) -> str:
    earlier = case["turns"][:-1]
    after = f" after turn{'s' * (len(earlier) > 1)} {', '.join(map(str, earlier))}" if earlier else ""
    return f"turn {case['turn']}{after}"


def _pair(name: str, before: str, rewritten: str, first: str = "original") -> list[str]:
    if before == rewritten:
        return [f"  {name}: {before}"]
    return [f"  {name}, {first}: {before or '(nothing)'}", f"  {name}, rewritten: {rewritten or '(nothing)'}"]


def table(record: Mapping[str, Any]) -> RenderableType:
    """One row per axis and stage, then the cases that are not fixed.

    Args:
        record: the content of ``check.json`` of cases.
    """
    view = new_table("Cases, by the stage that the harm entered at", (0, 1, 0, 0))
    states = (FIXED, "remains", "levelled down", "unanswered")
    occurring = [state for state in states if any(case["state"] == state for case in record["cases"])]
    for heading in ("axis", "stage"):
        view.add_column(heading, overflow="fold")
    for heading in ("cases", *occurring):
        view.add_column(heading, justify="right")
    groups: dict[tuple[str, str], list[str]] = {}
    for case in record["cases"]:
        groups.setdefault((case["axis"], case["before"]["stage"]), []).append(case["state"])
    for (axis, stage), members in groups.items():
        view.add_row(axis, stage, count(len(members)), *(count(members.count(state)) for state in occurring))
    not_fixed = [case for case in record["cases"] if case["state"] != FIXED]
    lines = [line(case) for case in not_fixed[:_SHOWN]]
    return Group(view, *(Text(shown, style="dim") for shown in lines), *_more(len(not_fixed)))


def _more(number: int) -> list[Text]:
    """Append '… and N more' when the list is truncated."""
    return [Text(f"… and {count(number - _SHOWN)} more", style="dim")] if number > _SHOWN else []


def written(cases: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a table of the written cases: one row per axis and stage, and the first difference of each case.

    Args:
        cases: lines of a file of cases.
    """
    view = new_table("Cases, by the stage that the harm enters at", (0, 1, 0, 0))
    for heading in ("axis", "stage"):
        view.add_column(heading, overflow="fold")
    for heading in ("cases", "largest\nharm", "smallest", "turns\nper case"):
        view.add_column(heading, justify="right")
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for case in cases:
        groups.setdefault((case["axis"], case["stage"]), []).append(case)
    for names, members in groups.items():
        harms = [case["harm"] for case in members]
        turns = sum(len(case["turns"]) for case in members) / len(members)
        ends = fixed(max(harms), sign=True), fixed(min(harms), sign=True)
        view.add_row(*names, count(len(members)), *ends, fixed(turns, 1))
    lines = [f"{case['id']}: {of_turn(case['first_difference']).replace('`', '')}" for case in cases[:_SHOWN]]
    return Group(view, *map(Text, lines), *_more(len(cases)))


def junit(record: Mapping[str, Any]) -> str:
    """Return JUnit XML with a suite per axis; a case without an output is an error.

    Args:
        record: the content of ``check.json`` of cases.
    """
    outcomes = []
    for case in record["cases"]:
        axis, state = case["axis"], case["state"]
        kind = "" if state == FIXED else "error" if state == "unanswered" else "failure"
        names = (axis, f"tod-bias.{axis}.{case['before']['stage']}", case["id"])
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
