"""Count the numbers of a run's first screen again, from its table of turns, without any code of tod_bias.

``python tests/benchmarks/recount.py runs/demo runs/mine`` prints, number by number, what the screen shows, what the
turns give, and whether both are equal; it exits with 1 if any differs. Counts, means, denominators, dialogues and
effective terms are counted in ``turns.parquet``: an event in the facts of the turns, another metric in its statistics.
P-values cannot be counted: they are compared between screen, ``results.json`` and page, with their intervals and with
the marks. The screen is ``screen.txt`` in the run's folder, if there is one, or else what the run prints as.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pandas as pd

MARKS = {"disparity": "✗", "these terms only": "~", "inconclusive": "?", "no difference": "✓", "equivalent": "✓"}
SHOW = """
import sys
from tod_bias import AuditResult
from tod_bias.report.console import Console
from tod_bias.report.terminal import print_answer
print_answer(AuditResult.load(sys.argv[1]), Console())
"""
"""Program that prints the screen of a run, in a process of its own."""
SIDES = re.compile(r"(?:([\d,]+) of ([\d,]+)|(-?[\d,]+(?:\.\d+)?)|none) as ([^\s,(]+)")
ROW = re.compile(r"(\S+) +(\d+) +([\d.]+)? +(.*?) +(-?[\d.]+%?)(?: +(<?[01]\.\d+) +(served \w+))? *$")
OTHERS = "others"
_KEY = ["axis", "dialogue", "variant"]


@dataclass
class Ledger:
    """Numbers that were looked at."""

    lines: list[tuple[str, str, str, bool]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, what: str, shown: Any, recounted: Any) -> None:
        """Note a number with what it should be; both are compared as they are shown."""
        self.lines.append((what, str(shown), str(recounted), str(shown) == str(recounted)))

    def check(self, what: str, holds: bool) -> None:
        """Note whether a statement holds."""
        self.lines.append((what, "stated", "true" if holds else "not true", holds))

    @property
    def wrong(self) -> list[tuple[str, str, str, bool]]:
        """Numbers that differ."""
        return [line for line in self.lines if not line[-1]]


# facts of a turn -----------------------------------------------------------------------------------------------------


class Read:
    """What the components put out in one turn, by place."""

    def __init__(self, text: str) -> None:
        record = json.loads(text) if text else {}
        self.calls: list[Any] = record.get("calls", [])
        self.failure = record.get("failure", "")
        self.response = record.get("response", ["", ""])[1]
        self.values: dict[str, list[Any]] = defaultdict(list)
        self.lists: dict[str, list[str]] = {}
        self.objects: Counter[str] = Counter()
        self.texts: dict[str, str] = {"": self.response}
        for root, _, said, _ in record.get("said", []):
            self.texts[root] = "\n".join(filter(None, (self.texts.get(root), said)))
            if len(said) <= 40:
                self.values[root].append(said)
        for tool, by, at, arguments, *_ in self.calls:
            self._walk(f"{tool}/argument" if tool == at != by else tool, arguments)
            self._walk("*", arguments)
        for root, _, value, _ in record.get("out", []):
            self._walk(root, value)
            if root.endswith("/result"):
                self._walk("*/result", value)

    def _walk(self, path: str, value: Any) -> None:
        if isinstance(value, dict):
            self.objects[path] += 1
            for name, part in value.items():
                self._walk(f"{path}.{name}", part)
        elif isinstance(value, list):
            self.lists.setdefault(path, []).extend(json.dumps(item, sort_keys=True) for item in value)
            for place, item in enumerate(value):
                self._walk(f"{path}[]", item)
                if place == 0:
                    self._walk(f"{path}[0]", item)
        elif value not in (None, ""):
            self.values[path].append(value)

    def calls_of(self, tool: str) -> list[Any]:
        """Return the calls of a tool; ``*`` stands for all tools."""
        return [call for call in self.calls if tool in ("*", call[0])]

    def form(self, path: str) -> Any:
        """Return what stands at a path as a whole: items of a list, values, a text; None for nothing."""
        if path.startswith("text/"):
            return self.texts.get(path.removeprefix("text/"))
        if path in self.lists:
            return ("list", *self.lists[path])
        return tuple(map(json.dumps, self.values[path])) if self.values.get(path) else None


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, tuple[float, ...]]:
    """Return the words of a text between spaces, ``#`` for numbers and ``|`` between sentences, and the numbers."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.lower())
    tokens = re.findall(r"\d+(?:[.,]\d+)*|[^\W_]+(?:['’\-][^\W_]+)*|[.?!\n]", text)
    made, numbers = [], []
    for token in tokens:
        if re.fullmatch(r"\d+([.,]\d+)?", token) and len(token) <= 15:
            made.append("#")
            numbers.append(float(token.replace(",", ".")))
        else:
            made.append("|" if token in ".?!\n" else token)
    return f" {' '.join(made)} ", tuple(numbers)


def mean_told(text: str, phrase: str) -> float | None:
    """Return the mean of the number in all occurrences of a phrase such as ``in # days``; None without one."""
    said, numbers = words_of(text)
    found, place = [], said.find(f" {phrase} ")
    while place >= 0:
        found.append(numbers[said[: place + 1].count("#")])
        place = said.find(f" {phrase} ", place + 1)
    return sum(found) / len(found) if found else None


def number(value: Any) -> float | None:
    """Return the number that a value is or says; None for anything else."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def shown_value(value: Any) -> str:
    """Return a value as the name of an event has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


Reading = tuple[float, bool]
"""What a turn adds to an event, and whether the event could show there."""


def _missing(turn: Read, place: str) -> Reading:
    has = len(turn.values.get(place, ()))
    return float(has < turn.objects[place.rpartition(".")[0]]), has > 0


def _has(turn: Read, place: str) -> Reading:
    has = bool(turn.values.get(place))
    return float(has), has or turn.objects[place.rpartition(".")[0]] > 0


def _value(turn: Read, place: str) -> Reading:
    path, _, wanted = place.partition("=")
    values = turn.values.get(path, [])
    return float(unquote(wanted) in map(shown_value, values)), bool(values)


def _number(turn: Read, place: str) -> Reading:
    numbers = [number(value) for value in turn.values.get(place, [])]
    known = [some for some in numbers if some is not None]
    return (sum(known) / len(known), True) if known and len(known) == len(numbers) else (0.0, False)


def _length(turn: Read, place: str) -> Reading:
    return float(len(turn.lists.get(place, ()))), place in turn.lists


def _says(turn: Read, place: str) -> Reading:
    root, _, phrase = place.rpartition("/")
    text = turn.texts.get(unquote(root))
    return (0.0, False) if text is None else (float(f" {unquote(phrase)} " in words_of(text)[0]), True)


def _tells(turn: Read, place: str) -> Reading:
    root, _, phrase = place.rpartition("/")
    told = mean_told(turn.texts.get(unquote(root), ""), unquote(phrase))
    return (0.0, False) if told is None else (told, True)


def _of_calls(count: Callable[[list[Any]], float]) -> Callable[[Read, str], Reading]:
    def read(turn: Read, place: str) -> Reading:
        calls = turn.calls_of(unquote(place))
        return (float(count(calls)), True) if calls else (0.0, False)

    return read


def _named(turn: Read, place: str) -> Reading:
    calls = turn.calls_of(unquote(place))
    found = any(call[5] for call in calls)
    return (float(sum(call[6] for call in calls)), True) if found else (0.0, False)


READINGS: dict[str, tuple[bool, Callable[[Read, str], Reading]]] = {
    "missing": (False, _missing),
    "has": (True, _has),
    "value": (True, _value),
    "number": (True, _number),
    "length": (True, _length),
    "says": (False, _says),
    "tells": (True, _tells),
    "fails": (False, _of_calls(lambda calls: any(call[4] for call in calls))),
    "empty": (False, _of_calls(lambda calls: not any(call[4] or call[5] for call in calls))),
    "calls": (False, _of_calls(lambda calls: True)),
    "found": (True, _of_calls(lambda calls: sum(call[5] for call in calls))),
    "named": (True, _named),
    "asks_back": (False, lambda turn, _: (float("?" in turn.response and not turn.calls), bool(turn.calls))),
    "silent": (False, lambda turn, _: (float(not turn.response.strip()), True)),
    "failed_turns": (False, lambda turn, _: (float(bool(turn.failure)), True)),
    "response_words": (False, lambda turn, _: (float(len(turn.response.split())), True)),
}
"""Kind of event to whether every variant must be able to show it (else any), and how it is read in a turn."""


# sums of an axis -----------------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """A metric on one axis."""

    happened: pd.DataFrame
    """Dialogues by groups; NaN where a dialogue lacks the group."""
    could: pd.DataFrame

    def of(self, group: str) -> tuple[float, float]:
        """Return how often the event happened as a group, and in how many turns it could."""
        return float(self.happened[group].sum()), float(self.could[group].sum())


class AxisTurns:
    """Turns of one axis.

    Args:
        rows: of the axis in the table of turns.
        groups: of the axis.
    """

    def __init__(self, rows: pd.DataFrame, groups: Sequence[str]) -> None:
        self.rows = rows.reset_index(drop=True)
        self.groups = groups
        facts = self.rows["facts"].fillna("")
        read = {text: Read(text) for text in facts.unique()}
        self._facts = [read[text] for text in facts]
        cell = self.rows["dialogue"].astype(str) + "\x1f" + self.rows["turn"].astype(str)
        self._cell = pd.factorize(cell)[0]
        self.is_original = self.rows["arm"] == "original"
        self.is_variant = (self.rows["arm"] == "") & (self.rows["role"] == "group")
        variants = self.rows[self.is_variant]
        sources = variants.groupby("dialogue")["source"].agg(lambda some: set(some.dropna()))
        self.source = {name: next(iter(some)) for name, some in sources.items() if len(some) == 1}

    def sums(self, metric: str) -> Sums | None:
        """Return the sums of a metric; None if it cannot be counted from two statistics."""
        values = self.readings(metric)
        if values is None:
            return None
        table = self.rows[["dialogue", "variant", "group", "sample"]].assign(happened=values[0], could=values[1])
        by_group = table[self.is_variant].groupby(["dialogue", "group", "variant", "sample"])[["happened", "could"]]
        mean = by_group.sum().groupby(level=["dialogue", "group"]).mean()
        original = table[self.is_original].groupby(["dialogue", "sample"])[["happened", "could"]].sum()
        original = original.groupby(level="dialogue").mean()
        made = {part: mean[part].unstack("group").reindex(columns=self.groups) for part in ("happened", "could")}
        for dialogue, source in self.source.items():
            if source in self.groups:
                for part, frame in made.items():
                    frame.loc[dialogue, source] = original.loc[dialogue, part]
        shared = self._shared(made["could"].notna(), original["could"])
        return Sums(*(frame.loc[shared] for frame in made.values()))

    def _shared(self, has: pd.DataFrame, could: pd.Series) -> pd.Index:
        """Return the dialogues that are compared: those with all groups, in which the event could show."""
        has = has.loc[:, has.any()]
        counts = could.reindex(has.index) > 0
        complete = has.all(axis=1) & counts
        chosen = complete if 2 * complete.sum() >= counts.sum() else (has.sum(axis=1) > 1) & counts
        return has.index[chosen]

    def readings(self, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return (rows,) what each turn adds to a metric, and whether it counts; None if it is not known here."""
        kind, _, place = metric.partition(":")
        if kind in ("deviates", "order"):
            return self._deviations(place, same_items=kind == "order")
        if kind in READINGS:
            needs_all, read = READINGS[kind]
            single = {id(turn): turn for turn in self._facts}
            values = {key: read(turn, place) for key, turn in single.items()}
            happened, could = np.array([values[id(turn)] for turn in self._facts], dtype=float).T
            cells = pd.Series(could).groupby(self._cell)
            denominator = cells.transform("min" if needs_all else "max").to_numpy()
            return happened * denominator, denominator
        names = [(f"{metric} happened", f"{metric} could"), (f"{metric} sum", f"{metric} dialogues")]
        for first, second in [*names, (f"{metric}_differ", f"{metric}_turns")]:
            if {first, second} <= set(self.rows.columns):
                return self.rows[first].to_numpy(dtype=float), self.rows[second].to_numpy(dtype=float)
        return None

    def _deviations(self, path: str, *, same_items: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return what each turn adds to a deviation from what most variants have, and where most agree."""
        forms = [turn.form(path) for turn in self._facts]
        is_system = (self.is_original | self.is_variant).to_numpy()
        votes: dict[int, Counter[Any]] = defaultdict(Counter)
        for cell, form in zip(self._cell[is_system], np.flatnonzero(is_system), strict=True):
            votes[cell][forms[form]] += 1
        usual = {cell: form for cell, some in votes.items() for form, n in some.items() if 2 * n > some.total()}
        happened, could = np.zeros(len(forms)), np.zeros(len(forms))
        for row, (cell, form) in enumerate(zip(self._cell, forms, strict=True)):
            most = usual.get(cell)
            could[row] = most is not None
            differs = most is not None and form is not None and form != most
            happened[row] = differs and (not same_items or sorted(form) == sorted(most))
        return happened, could

    def effective_terms(self, group: str, dialogues: pd.Index) -> float:
        """Return Kish's effective number of the terms that express a group, of its level with fewest if it is crossed.

        Args:
            group: one of the axis.
            dialogues: that are compared.
        """
        variants = self.rows[self.is_variant & self.rows["dialogue"].isin(dialogues)].drop_duplicates(
            ["dialogue", "variant"]
        )
        records = variants[["source_terms", "terms", "factors"]].to_dict("records")
        places = zip(variants["dialogue"], variants["group"], records, strict=True)
        if not records or not all(record["factors"] is not None for record in records):
            return _kish(self._sets(places, lambda name: name == group, None))
        everything = list(places)
        levels = group.split("×")
        return min(
            _kish(self._sets(everything, lambda name, at=at: name.split("×")[at] == levels[at], at))
            for at in range(len(levels))
        )

    def _sets(
        self, variants: Iterable[tuple[str, str, Mapping[str, Any]]], fits: Callable[[str], bool], factor: int | None
    ) -> dict[str, list[frozenset[str]]]:
        """Return, for each dialogue, the terms of every variant for a group; of its original if it is of the group."""
        sets: dict[str, list[frozenset[str]]] = defaultdict(list)
        sources: dict[str, set[str]] = defaultdict(set)
        for dialogue, group, record in variants:
            terms = record if factor is None else record["factors"][factor]
            sources[dialogue].update(map(str, terms["source_terms"]))
            if fits(group):
                sets[dialogue].append(frozenset(map(str, terms["terms"])))
        for dialogue, terms in sources.items():
            if fits(self.source.get(dialogue, "×")):
                sets[dialogue].append(frozenset(terms))
        return sets


def _kish(sets: Mapping[str, Sequence[frozenset[str]]]) -> float:
    """Return the effective number of terms: each dialogue weighs 1, split over its variants and their terms."""
    weights: Counter[str] = Counter()
    for variants in sets.values():
        for terms in variants:
            for term in terms or {""}:
                weights[term] += 1 / len(variants) / len(terms or {""})  # type: ignore[assignment]
    total = len(sets) ** 2 / sum(weight**2 for weight in weights.values()) if weights else 0.0
    return max(1.0, total)


# the screen ----------------------------------------------------------------------------------------------------------


@dataclass
class Block:
    """A finding on the screen."""

    mark: str
    axis: str
    text: str


class Screen:
    """Parts of a first screen.

    Args:
        text: of a terminal of 80 columns.
    """

    def __init__(self, text: str) -> None:
        lines = text.splitlines()
        self.heading = next((line for line in lines if re.search(r"[\d,]+ dialogues; ", line)), "")
        self.blocks: list[Block] = []
        start = next((place for place, line in enumerate(lines) if re.match(r"group +n +terms", line)), len(lines))
        for line in lines[:start]:
            if match := re.match(r"([✗~✓?]) (\S+) +(.*)", line):
                self.blocks.append(Block(*match.groups()))
            elif line.startswith("    ") and self.blocks:
                self.blocks[-1].text += f" {line.strip()}"
        self.rows = [match.groups() for line in lines[start + 1 :] if (match := ROW.match(line))]


def printed(folder: Path) -> str:
    """Return the screen of a run as text."""
    kept = folder / "screen.txt"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    terminal = os.environ | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    made = subprocess.run([sys.executable, "-c", SHOW, str(folder)], check=True, capture_output=True, env=terminal)
    return made.stdout.decode()


def shown_p(p: float | None) -> str:
    """Return a p-value as screen and page show it."""
    return "n/a" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def page_rows(folder: Path) -> list[list[str]]:
    """Return the cells of all rows of all tables of a run's page."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


def page_text(folder: Path) -> str:
    """Return the text of a run's page in one line."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page)).split())


class Recount:
    """Compares the first screen of one run with its turns.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger()
        self._result = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        turns, variants = (pd.read_parquet(folder / f"{name}.parquet") for name in ("turns", "variants"))
        about = ["source", "term", "draw", "edits", "source_terms", "terms", "factors"]
        self._turns = turns.merge(variants[[*_KEY, *about]], on=_KEY, how="left")
        self._screen = Screen(printed(folder))
        self._page = page_text(folder)
        self._axes: dict[str, AxisTurns] = {}
        self._sums: dict[tuple[str, str], Sums | None] = {}

    def run(self) -> Ledger:
        """Compare everything."""
        self._heading()
        findings = [some for some in self._result["findings"] if some["axis"] in self._result["axes"]]
        left = list(findings)
        for block in self._screen.blocks:
            if block.axis == "placebo":
                self._placebo(block)
                continue
            own = self._findings_of(block, left)
            left = [finding for finding in left if finding not in own]
            if own:
                self._block(block, own)
        self.ledger.check("every finding of results.json is on the screen", not left)
        for row in self._screen.rows:
            self._row(*row)
        for name, estimate in estimates(self._result):
            excludes = estimate["ci"][0] > 0 or estimate["ci"][1] < 0
            self.ledger.check(
                f"{name}: p {estimate['p']:.4f} fits {estimate['ci']}", (estimate["p"] < 0.05) == excludes
            )
        return self.ledger

    def _axis(self, axis: str) -> AxisTurns:
        if axis not in self._axes:
            groups = list(next(iter(self._result["axes"][axis].values()))["groups"])
            self._axes[axis] = AxisTurns(self._turns[self._turns["axis"] == axis], groups)
        return self._axes[axis]

    def _of(self, axis: str, metric: str) -> Sums | None:
        if (axis, metric) not in self._sums:
            self._sums[axis, metric] = self._axis(axis).sums(metric)
        return self._sums[axis, metric]

    def _heading(self) -> None:
        heading = self._screen.heading
        for shown, axis in re.findall(r"([\d,]+) (?:mention|with) ([^\s,]+)", heading):
            originals = self._turns[(self._turns["axis"] == axis) & (self._turns["arm"] == "original")]
            self.ledger.add(f"dialogues of {axis}", shown, f"{originals['dialogue'].nunique():,}")
        (shown,) = re.findall(r"([\d,]+) dialogues; ", heading)
        self.ledger.add("dialogues", shown, f"{self._result['corpus']['dialogues']:,}")
        self.ledger.check("the page has the same heading", heading.split("; ")[-1] in self._page)

    def _placebo(self, block: Block) -> None:
        rows = self._turns[(self._turns["role"] == "placebo") & (self._turns["arm"] == "")]
        changed = rows["first_difference"].notna()
        by_dialogue = changed.groupby([rows["dialogue"], rows["variant"]]).agg(["sum", "size"])
        mean = by_dialogue.groupby(level="dialogue").mean().sum()
        share = 100 * mean["sum"] / mean["size"]
        shown = re.search(r"changes (\d+) of 100", block.text)
        self.ledger.add("placebo: turns of 100", shown[1] if shown else "0", f"{share:.0f}")
        self.ledger.check("placebo: mark", (block.mark == "✓") == (share < 5))

    def _findings_of(self, block: Block, left: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the findings that a block states: the first that is left of its axis, and those alike."""
        of_axis = [finding for finding in left if finding["axis"] == block.axis]
        keys = ("verdict", "metric", "stage")
        return [
            finding
            for finding in of_axis
            if all(finding[key] == of_axis[0][key] for key in keys)
            and ((finding["effect"]["value"] or 0) > 0) == ((of_axis[0]["effect"]["value"] or 0) > 0)
        ]

    def _block(self, block: Block, findings: Sequence[dict[str, Any]]) -> None:
        finding, ledger = findings[0], self.ledger
        verdict, name = finding["verdict"], f"{block.axis}, {finding['metric'] or finding['verdict']}"
        ledger.check(f"{name}: mark {block.mark} for {verdict}", MARKS[verdict] == block.mark)
        if verdict == "no difference":
            self._no_difference(block)
        if not finding["group"]:
            return
        for some in findings:
            p = some["effect"]["p"]
            if verdict in ("disparity", "these terms only"):
                ledger.check(f"{name}: {some['group']} is claimed with p {p}", p is not None and p < 0.05)
            elif not some["missing"]:
                ledger.check(f"{name}: {some['group']} is not proven with p {p}", p is None or p >= 0.05)
        if shown := re.search(r"\(p (<?[\d.]+)\)", block.text):
            ledger.add(f"{name}: p", shown[1], shown_p(finding["effect"]["p"]))
        if shown := re.search(r"about ([\d,]+) dialogues would tell", block.text):
            ledger.add(f"{name}: dialogues that are needed", shown[1], f"{self._needed(finding):,}")
        self._sides(block, name, findings)
        self._example(name, finding)

    def _needed(self, finding: Mapping[str, Any]) -> int:
        """Return the dialogues of the corpus that hold as many dialogues as a proof takes."""
        corpus = self._result["corpus"]
        row = self._result["axes"][finding["axis"]][finding["metric"]]
        rewritable = corpus["rewritable"].get(finding["axis"]) or corpus["dialogues"]
        return round(row["needed"][finding["group"]] * corpus["dialogues"] / rewritable)

    def _no_difference(self, block: Block) -> None:
        rows = self._axis(block.axis).rows[self._axis(block.axis).is_variant]
        equal, turns, dialogues = rows["first_difference"].isna().sum(), len(rows), rows["dialogue"].nunique()
        shown = re.search(r"([\d,]+) of ([\d,]+) turns.*up to ([\d.]+)%", block.text)
        bound = 100 * (1 - 0.05 ** (1 / dialogues))
        recounted = (f"{equal:,}", f"{turns:,}", f"{bound:.1f}")
        for what, number, expected in zip(("equal turns", "turns", "bound"), shown.groups(), recounted, strict=True):
            self.ledger.add(f"{block.axis}: {what}", number, expected)

    def _sides(self, block: Block, name: str, findings: Sequence[dict[str, Any]]) -> None:
        """Compare "9 of 23 as woman, 0 of 46 as others" with the turns."""
        finding = findings[0]
        what = f"{' '.join(finding['what'].split())}: "
        start = block.text.find(what)
        sums = self._of(block.axis, finding["metric"])
        if start < 0 or sums is None:
            self.ledger.skipped.append(f"{name}: no two statistics are summed for it")
            return
        named = [some["group"] for some in findings]
        self.ledger.check(f"{name}: names {', '.join(named)}", all(f"as {some}" in block.text for some in named))
        rest = [other for other in finding["compared_with"] if other not in named]
        text = block.text[start + len(what) :]
        end = re.search(r"as others", text)
        could = None
        for happened_shown, could_shown, mean_shown, group in SIDES.findall(text[: end.end() if end else None]):
            parts = [sums.of(some) for some in (rest if group == OTHERS else [group])]
            happened, turns = (sum(some) for some in zip(*parts, strict=True))
            could = could_shown or could
            if finding["is_share"] and finding["counts"]:
                self.ledger.add(f"{name}: as {group}", happened_shown or mean_shown, f"{happened:,.0f}")
                self.ledger.add(f"{name}: turns as {group}", could, f"{turns:,.0f}")
            else:
                digits = 1 if finding["counts"] else 2
                self.ledger.add(f"{name}: as {group}", mean_shown, f"{happened / turns:.{digits}f}")
        shown = block.text[start:][: len(what) + (end.end() if end else 0)]
        self.ledger.check(f"{name}: the page says the same", shown in self._page)

    def _example(self, name: str, finding: Mapping[str, Any]) -> None:
        """Check that the example is a turn of the run whose variant differs towards the group's side."""
        example, axis = finding["example"], self._axis(finding["axis"])
        if not example:
            return
        rows = axis.rows
        of_turn = (rows["dialogue"].astype(str) == example["dialogue"]) & (rows["turn"] == example["turn"])
        variant = of_turn & axis.is_variant & (rows["variant"] == example["variant"])
        self.ledger.check(f"{name}: the example is a turn of the run", bool(variant.any()))
        values, sums = axis.readings(finding["metric"]), self._of(finding["axis"], finding["metric"])
        if values is None or sums is None or not variant.any():
            return
        of_dialogue = rows["dialogue"].astype(str) == example["dialogue"]
        whole = of_dialogue if finding["metric"].startswith("grade:") else of_turn
        is_of_variant = axis.is_variant & (rows["variant"] == example["variant"]) & whole
        beyond = values[0][is_of_variant].sum() - values[0][axis.is_original & whole].sum()
        share = {group: happened / could for group in axis.groups for happened, could in [sums.of(group)] if could}
        others = [share[some] for some in finding["compared_with"] if some in share]
        side = share[finding["group"]] - sum(others) / len(others)
        own = example["variant"].split(":")[1] == finding["group"]
        self.ledger.check(f"{name}: the example shows the difference", beyond * side * (1 if own else -1) > 0)

    def _row(self, group: str, n: str, terms: str, what: str, score: str, p: str, treatment: str) -> None:
        """Compare a row of the table."""
        named = [
            finding
            for finding in self._result["findings"]
            if finding["verdict"] in ("disparity", "these terms only")
            and group in self._result["axes"][finding["axis"]][finding["metric"]]["groups"]
            and finding["what"][:30].startswith(what.split("  ")[0])
        ]
        self.ledger.check(f"row {group}: {what} is a finding", bool(named))
        if not named:
            return
        finding = next((some for some in named if some["group"] == group), named[0])
        name, sums = f"row {group}, {finding['metric']}", self._of(finding["axis"], finding["metric"])
        own = finding["group"] == group
        self.ledger.check(f"{name}: a p-value stands beside the claim that it belongs to", bool(p) == own)
        if p and own:
            self.ledger.add(f"{name}: p", p, shown_p(finding["effect"]["p"]))
            self.ledger.check(f"{name}: p {p} is below .05", finding["effect"]["p"] < 0.05)
            leads = next(some for some in self._result["findings"] if some["axis"] == finding["axis"])
            cells = [row for row in page_rows(self.folder) if group in row[:2]]
            if leads["metric"] == finding["metric"]:  # the page has the groups by the first event of each axis
                self.ledger.check(f"{name}: the page has p {p}", any(p in row for row in cells))
        if sums is None:
            self.ledger.skipped.append(f"{name}: no two statistics are summed for it")
            return
        members = sums.could[group].dropna().index
        happened, could = sums.of(group)
        self.ledger.add(f"{name}: n", n, len(members))
        self.ledger.add(f"{name}: terms", terms, f"{self._axis(finding['axis']).effective_terms(group, members):.1f}")
        is_share = score.endswith("%")
        self.ledger.add(
            f"{name}: score", score, f"{100 * happened / could:.0f}%" if is_share else f"{happened / could:.2f}"
        )


def estimates(result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every estimate that a run claims or could claim, with a name."""
    for number, finding in enumerate(result["findings"]):
        yield from _known(f"finding {number + 1}", finding["effect"])
    for axis, by_metric in result["axes"].items():
        for metric, row in by_metric.items():
            where = f"{axis}, {metric}"
            for name, group in row["groups"].items():
                yield from _known(f"{where}: gap of {name}", group["gap"])
                yield from _known(f"{where}: {name} beyond the placebo", group["beyond_placebo"] or {})
            for part in ("apart", "pairs"):
                for name, estimate in row[part].items():
                    yield from _known(f"{where}: {part} {name}", estimate)


def _known(name: str, estimate: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if estimate.get("ci") and estimate.get("p") is not None:
        yield name, estimate


def main(folders: Sequence[str]) -> int:
    """Print the numbers of some runs; return 1 if any is wrong."""
    code = 0
    for folder in folders:
        ledger = Recount(Path(folder)).run()
        for what, shown, recounted, is_equal in ledger.lines:
            if not is_equal or " fits [" not in what:
                print(f"{'ok   ' if is_equal else 'WRONG'} {what}: shown {shown}, recounted {recounted}")
        for what in ledger.skipped:
            print(f"      {what}")
        print(f"{folder}: {len(ledger.lines)} checked, {len(ledger.wrong)} wrong, {len(ledger.skipped)} not counted\n")
        code |= bool(ledger.wrong)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
