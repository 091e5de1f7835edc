"""A corpus's results as a database: what :class:`~tod_bias.systems.stages.sql.SqlDb` looks calls up in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.values import to_json

ROW, API = "_row", "_api_name"
"""Columns that are added to those of the results and never shown: the order of rows, and the API of a row."""
APIS = "_apis"
"""The table that says in which table an API's results are: ``api_name``, ``table_name``."""


@dataclass
class Service:
    """The results of one service."""

    name: str
    apis: list[str] = field(default_factory=list)
    """The APIs whose results are here."""
    columns: list[str] = field(default_factory=list)
    """The slots of all results, in the order in which they were seen."""
    rows: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """API and the row's text to the row: each is here once."""


def _common_domains(dialogues: Sequence[Dialogue]) -> dict[str, set[str]]:
    """API to the domains that all dialogues with a call of it have."""
    domains: dict[str, set[str]] = {}
    for dialogue in dialogues:
        named = {domain for part in dialogue.domain.split(",") if (domain := part.strip())}
        for step in (step for turn in dialogue.turns for step in turn.steps if step.name):
            domains[step.name] = domains[step.name] & named if step.name in domains else set(named)
    return domains


def services_of(dialogues: Iterable[Dialogue]) -> list[Service]:
    """Return the results of all calls by service; equal rows of one API occur once.

    An API belongs to the service that has its name, else to the domain of the dialogues that call it. If these have
    several domains (joined by a comma), it is their common domain. Without such a domain the API is its own service.
    """
    dialogues = list(dialogues)
    domains = _common_domains(dialogues)
    services: dict[str, Service] = {}
    for dialogue in dialogues:
        for step in (step for turn in dialogue.turns for step in turn.steps if step.name):
            common = domains[step.name]
            name = step.name if step.name in common or not common else min(common)
            service = services.setdefault(name.lower(), Service(name))
            if step.name not in service.apis:
                service.apis.append(step.name)
            for result in step.results:
                service.rows.setdefault((step.name, to_json(result)), result)
                service.columns += [slot for slot in result if slot not in service.columns]
    return sorted(services.values(), key=lambda service: service.name)
