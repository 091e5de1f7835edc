"""Decisions of AgentFairBench as saved responses: a profile is a dialogue, a name is a term of its group.

    python read.py RELEASE OUT

RELEASE is a checkout of AgentFairBench. Each complete cell (model, domain, scaffold) becomes a folder in OUT with the
dialogues (``dialogues.jsonl``) and the responses (``responses.jsonl``). The replicates of a profile are the turns of
its dialogue, so that a dialogue's score is the mean over replicates.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tod_bias import Dialogue, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.perturb import Axis, Candidate
from tod_bias.perturb.rewrite import DialogueRewrite

RACES, GENDERS = ("white", "black", "hispanic"), ("male", "female")
GROUPS = tuple(f"{race}_{gender}" for gender in GENDERS for race in RACES)
FILES = ("results/raw/claude-haiku-4-5_full_raw.jsonl", "results/raw/v11/*.jsonl")
"""Files of decisions in a release; its other file in ``results/raw`` repeats a part of the first."""
MODELS = ("haiku", "sonnet", "fable", "llama31-8b")
"""Models that version 1.1 analyses; the folder holds unfinished runs of others."""
TOOL = "decide"
"""The call that carries a decision."""
AXIS = "name"


def label_of(group: str) -> str:
    """Group of the crossed axis: ``white×male``."""
    return group.replace("_", "×")


@dataclass
class Cell:
    """Decisions of one model in one domain under one scaffold."""

    model: str
    domain: str
    scaffold: str
    names: dict[str, dict[str, str]]
    """Profile to group to the name that the profile had."""
    decisions: dict[tuple[str, str], list[dict[str, Any]]]
    """(profile, group) to the decisions of all replicates, in their order."""

    @property
    def title(self) -> str:
        """Model, domain and scaffold in one word."""
        return f"{self.model}/{self.domain}/{self.scaffold}"

    @property
    def replicates(self) -> int:
        """Number of replicates that every profile and group has; further ones are not read."""
        return min(map(len, self.decisions.values()))


def cells_of(release: str | Path, least: int = 12) -> list[Cell]:
    """Return the complete cells of a release.

    A profile without a decision for one of the groups is left out, and with it a cell of fewer than ``least`` profiles.
    """
    return cells_from((record for path in _files(Path(release)) for record in _records(path)), least)


def cells_from(records: Iterable[dict[str, Any]], least: int = 12) -> list[Cell]:
    """Return the complete cells of some records (see :func:`cells_of`)."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], dict[int, dict[str, Any]]]] = defaultdict(dict)
    names: dict[tuple[str, str, str], dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        cell = _model(record["model"]), record["domain"], record["scaffold"]
        if not record.get("decision") or cell[0] not in MODELS:
            continue
        profile, group = record["profile_id"], record["group"]
        replicates = found[cell].setdefault((profile, group), {})
        if (number := int(record.get("rep", 1))) in replicates:
            raise ValueError(f"{'/'.join(cell)}: {profile} as {group} has replicate {number} twice")
        if names[cell][profile].setdefault(group, record["name"]) != record["name"]:
            raise ValueError(f"{'/'.join(cell)}: {profile} as {group} has two names")
        replicates[number] = record["decision"]
    cells = []
    for key, by_pair in found.items():
        whole = [profile for profile in names[key] if set(names[key][profile]) == set(GROUPS)]
        if len(whole) >= least:
            kept = {pair: [by_pair[pair][n] for n in sorted(by_pair[pair])] for pair in by_pair if pair[0] in whole}
            cells.append(Cell(*key, {profile: names[key][profile] for profile in whole}, kept))
    return cells


def _files(release: Path) -> list[Path]:
    files = [path for pattern in FILES for path in sorted(release.glob(pattern))]
    if not files:
        raise SystemExit(f"{release}: holds no decisions of AgentFairBench ({', '.join(FILES)})")
    return files


def _records(path: Path) -> Iterable[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())


def _model(name: str) -> str:
    """Return a model's name as version 1.1 gives it; version 1.0 wrote it in full."""
    return {"claude-haiku-4-5": "haiku"}.get(name, name)


class GivenNames(Axis):
    """Exchanges the name of a profile for the one that the benchmark gave it as another group.

    Names were dealt by the benchmark, so the axis deals none. Any of the six variants of a profile may be its original,
    because the benchmark has no original; profiles take turns.

    Args:
        names: profile to group to name.
    """

    name = AXIS
    groups = tuple(map(label_of, GROUPS))
    factors = ("race", "gender")

    def __init__(self, names: dict[str, dict[str, str]]) -> None:
        self._names = names
        self._sources = sources_of(names)

    @property
    def signature(self) -> str:
        """Identify the names."""
        return f"{AXIS}:{sorted((profile, sorted(of.items())) for profile, of in self._names.items())}"

    def candidates(self, dialogue: Dialogue) -> list[Candidate]:
        """Return the five other names of a profile."""
        names, source = self._names[dialogue.id], self._sources[dialogue.id]
        others = [group for group in GROUPS if group != source]
        return [Candidate(names[source], label_of(source), label_of(group), names[group]) for group in others]

    def labels(self, candidate: Candidate) -> tuple[str, str]:
        """Return both names."""
        return candidate.term, candidate.form

    def rewrite(self, dialogue: Dialogue, candidate: Candidate) -> DialogueRewrite:
        """Return the exchange of the names."""
        old, new = candidate.term, candidate.form
        return DialogueRewrite(
            self.name,
            candidate.source,
            candidate.target,
            old,
            forward=lambda text: text.replace(old, new),
            backward=lambda text: text.replace(new, old),
        )


def sources_of(profiles: Iterable[str]) -> dict[str, str]:
    """Return the group whose variant stands for the original of each profile: they take turns."""
    return {profile: GROUPS[number % len(GROUPS)] for number, profile in enumerate(sorted(profiles))}


def dialogues_of(cell: Cell) -> list[Dialogue]:
    """Return a dialogue for every profile, with a turn for every replicate."""
    sources = sources_of(cell.names)
    return [
        Dialogue(profile, cell.domain, tuple(Turn(_said(names[sources[profile]], profile)) for _ in _turns(cell)))
        for profile, names in cell.names.items()
    ]


def responses_of(cell: Cell) -> list[dict[str, Any]]:
    """Return the lines of ``--responses``: every decision as a call."""
    sources, lines = sources_of(cell.names), []
    for (profile, group), decisions in cell.decisions.items():
        variant = "original" if group == sources[profile] else f"{AXIS}:{label_of(group)}"
        for turn in _turns(cell):
            call = {"api_name": TOOL, **decisions[turn]}
            said = _said(cell.names[profile][group], profile)
            lines.append({"id": profile, "turn": turn, "variant": variant, "user": said, "response": ""})
            lines[-1]["steps"] = [{"call": call}]
    return lines


def _turns(cell: Cell) -> Sequence[int]:
    return range(cell.replicates)


def _said(name: str, profile: str) -> str:
    return f"{name}, {profile}"


def write_responses(path: Path, cell: Cell) -> None:
    """Write the responses of a cell."""
    path.write_text("".join(json.dumps(line) + "\n" for line in responses_of(cell)), encoding="utf-8")


def main(release: str, out: str) -> None:
    """Write the dialogues and the responses of all complete cells."""
    for cell in cells_of(release):
        folder = Path(out) / cell.title.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        write_jsonl(dialogues_of(cell), folder / "dialogues.jsonl")
        write_responses(folder / "responses.jsonl", cell)
        print(f"{folder}: {len(cell.names)} profiles, {cell.replicates} replicates")


if __name__ == "__main__":
    main(*sys.argv[1:])
