"""Results of checks as JUnit XML, which CI services read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree

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


def junit(title: str, outcomes: Iterable[JUnitCase]) -> str:
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
        for one in some:
            names = {"classname": legal(one.classname), "name": legal(one.name), "time": "0"}
            case = ElementTree.SubElement(suite, "testcase", names)
            if one.kind:
                element = ElementTree.SubElement(case, one.kind, {"message": legal(one.message), "type": one.state})
                element.text = legal(one.text)
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(outcomes: list[JUnitCase]) -> dict[str, str]:
    plural = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    kinds = [outcome.kind for outcome in outcomes]
    return {"tests": str(len(kinds)), **{plural[kind]: str(kinds.count(kind)) for kind in KINDS}}


def legal(text: str) -> str:
    """Replace the characters that XML 1.0 forbids."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
