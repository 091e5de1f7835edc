"""Findings as ``gen_ai.evaluation.result`` events, so that a tracing tool shows them beside a conversation.

The event belongs to OpenTelemetry's semantic conventions for generative AI, whose status is "development": names may
change. The file holds log records as JSON in the OpenTelemetry protocol (OTLP), which a collector's ``otlpjsonfile``
receiver reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from tod_bias.report.answer import alike, sentence, what_happens
from tod_bias.results import Finding
from tod_bias.testing.gate import STANDS, GateResult

EVENT = "gen_ai.evaluation.result"
CONVENTIONS = "https://opentelemetry.io/schemas/1.38.0"
"""Schema of the conventions that the names are taken from."""
SEVERITY = {True: 13, False: 9}
"""Numbers of the protocol: a warning for a finding that stands, information for everything else."""


def evaluation_events(check: GateResult) -> dict[str, Any]:
    """Return an OTLP request with a log record per finding, and one for every axis without any.

    Args:
        check: result of a check.
    """
    records = [*_findings(check), *_axes(check)]
    scope = {"name": "tod-bias", "version": version("tod-bias")}
    logs = {"scope": scope, "schemaUrl": CONVENTIONS, "logRecords": records}
    resource = {"attributes": _attributes({"service.name": "tod-bias", "tod_bias.run": check.result.name})}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [logs]}]}


def _findings(check: GateResult) -> Iterator[dict[str, Any]]:
    states = {id(some.finding): some.state for some in check.findings}
    for findings in alike([some.finding for some in check.findings]):
        first, groups = findings[0], [some.group for some in findings]
        text = f"{sentence(first, check.result, groups)}; {what_happens(first, check.result, groups)}"
        is_open = states[id(first)] == STANDS
        more = {"tod_bias.group": ", ".join(groups), "tod_bias.stage": first.stage} | _conversation(first)
        yield _record(f"{first.axis}: {first.what}", "fail" if is_open else "pass", text, first.effect.value, more)


def _conversation(finding: Finding) -> dict[str, str]:
    """Return the dialogue of the example, by which a tracing tool finds the conversation."""
    return {} if finding.example is None else {"gen_ai.conversation.id": finding.example.dialogue}


def _axes(check: GateResult) -> Iterator[dict[str, Any]]:
    named = {some.finding.axis for some in check.findings}
    for axis in check.axes:
        if axis.axis not in named:
            text = axis.reason or f"no finding; a gap of up to {axis.missed:.2f} could have been missed"
            yield _record(axis.axis, "pass" if axis.state == "passed" else "undecided", text, None, {})


def _record(name: str, label: str, text: str, value: float | None, more: Mapping[str, str]) -> dict[str, Any]:
    attributes: dict[str, str | float] = {
        "gen_ai.evaluation.name": f"tod-bias {name}",
        "gen_ai.evaluation.score.label": label,
        "gen_ai.evaluation.explanation": text,
        **{key: some for key, some in more.items() if some},
    }
    if value is not None:
        attributes["gen_ai.evaluation.score.value"] = value
    now = str(time.time_ns())
    return {
        "timeUnixNano": now,
        "observedTimeUnixNano": now,
        "eventName": EVENT,
        "severityNumber": SEVERITY[label == "fail"],
        "attributes": _attributes(attributes),
    }


def _attributes(values: Mapping[str, str | float]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}}
        for key, value in values.items()
    ]
