"""The explorer: a page that compares every counterfactual turn of one or several runs with its original.

The page is one file that works without a server. Its data are JSON in ``<script type="application/json">``, which a
browser does not run; texts occur once, in a table, and are put in as text. Its policy allows the page's own script and
style only, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.audit.record import ReportedRun, read_runs, read_turns
from tod_bias.audit.variants import SYSTEM_PROMPT
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import TodBiasError
from tod_bias.io.documents import loads
from tod_bias.io.files import json_text, subfolder, write_text
from tod_bias.io.folder import shown as from_here
from tod_bias.metrics.metric import Metric
from tod_bias.report import notation
from tod_bias.report.cards import Card, cards_of
from tod_bias.report.circumstances import circumstances
from tod_bias.report.console import shown
from tod_bias.report.differences import differences_of, of_turn
from tod_bias.report.excerpts import UNSWAPPED, readable, scorer_of
from tod_bias.report.leading import leading_rows
from tod_bias.report.notation import claim_of, shown_gap
from tod_bias.report.rendering import TEMPLATES
from tod_bias.results import TURNS, AuditResult, RunError
from tod_bias.statistics.arms import ORIGINAL_ARM

FOLDER, PAGE = "explorer", "index.html"
"""Names of the folder in a run's, and of the file in it."""
MOST_TURNS = 200_000
"""Counterfactual turns of a run that a page holds; those with the smallest differences are left out."""
_LONGEST = 50_000
"""Characters of a text that are shown."""
_DIGITS = 4
"""Decimals of scores."""
_KEYS = ["axis", "dialogue", "variant", "turn"]
_NAMES = ["source", "group", "term", "role"]
_TEXTS = ["user", "response", "reference", "steps"]
_COLUMNS = [*_KEYS, "group", "role", *_TEXTS, "sample", "arm", "first_difference"]
_ABOUT = ["source", "term", SYSTEM_PROMPT]
"""Columns of the table of counterfactuals."""


def write_explorer(folders: Sequence[Path], metrics: Sequence[Metric] = ()) -> Path:
    """Write ``explorer/index.html`` into the first of some runs' folders.

    Args:
        folders: of runs, e.g. before and after a fix; the page has a chooser.
        metrics: the user's, by which turns are scored too; those that a folder names are not imported.

    Returns:
        The path of the page.

    Raises:
        TodBiasError: a folder cannot be read as a run with its turns, or the page cannot be written.
    """
    runs = read_runs(folders)
    path = subfolder(runs[0].folder, FOLDER) / PAGE
    write_text(path, explorer_page([run_data(run, metrics) for run in runs]))
    return path


def explorer_page(runs: Sequence[Mapping[str, Any]]) -> str:
    """The page as HTML.

    Args:
        runs: what :func:`run_data` gives.
    """
    style = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "explorer.css"))
    script = (TEMPLATES / "explorer.js").read_text(encoding="utf-8")
    data = "\n".join(f'<script type="application/json" class="run">{_embedded(run)}</script>' for run in runs)
    names = _embedded([run["name"] for run in runs])
    page = Template((TEMPLATES / "explorer.html").read_text(encoding="utf-8"))
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    return page.substitute(style=style, script=script, data=data, names=names, **hashes)


def _embedded(content: Any) -> str:
    """JSON that ends no element, and that is JavaScript too."""
    text = well_formed(json_text(content, indent=None)).replace("<", "\\u003c")
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class _Texts(dict[str, int]):
    """Texts as they are shown, each once, in the order in which they come, with its number."""

    def number(self, text: str | None) -> int:
        """Return the number of a text; -1 for None."""
        if text is None:
            return -1
        rest = len(text) - _LONGEST
        if rest > 0:
            text = f"{text[:_LONGEST]} … and {notation.count(rest)} characters more"
        return self.setdefault(shown(text), len(self))


def run_data(run: ReportedRun, metrics: Sequence[Metric] = ()) -> dict[str, Any]:
    """Return the data of a run for the page.

    Args:
        run: the run.
        metrics: the user's.

    Raises:
        RunError: the run has no turns, or they cannot be read.
    """
    result = run.result
    arms = result.arm_design.keys(whole=True)
    rows = _rows(run.folder, arms)
    by_name = {metric.name: metric for metric in metrics}
    first = [row.metric.name for row in leading_rows(result)]
    scorers = {name: scorer_of(name, rows.columns, by_name) for name in dict.fromkeys([*first, *result.metrics])}
    scores = _scores(rows, [scorer for scorer in scorers.values() if scorer is not None])
    table, left_out = _turns(rows, scores, arms)
    corpus = result.corpus
    notes = list(circumstances(result))
    if left_out:
        notes.append(f"{notation.count(left_out)} turns are left out here, those that differ least")
    if result.samples and result.samples > 1:
        notes.append(f"of {result.samples} outputs that were drawn per call, the first is shown")
    return {
        "name": shown(run.name),
        "folder": shown(str(from_here(run.folder))),
        "corpus": shown(f"{corpus.name} {corpus.split}".strip()),
        "dialogues": corpus.dialogues,
        "stages": list(map(shown, result.stages)),
        "arms": list(map(shown, arms)),
        "recorded": result.is_recorded,
        "metrics": [
            {
                "name": shown(name),
                "label": shown((about := result.metrics[name]).label),
                "better": about.better,
                "counterfactual": about.counterfactual,
                "scored": scorer is not None,
            }
            for name, scorer in scorers.items()
        ],
        "notes": list(map(shown, notes)),
        "answers": _answers(result),
        "estimates": _estimates(result),
        **table,
    }


def _rows(place: Path, arms: Sequence[str]) -> pd.DataFrame:
    """The rows of the first samples, of the originals and of the arms."""
    frame = read_turns(place, [ORIGINAL_ARM, *arms], _ABOUT)
    if frame is None:
        raise RunError(f"{place}: holds no {TURNS}; repeat the run's command (outputs are cached)")
    if missing := [name for name in _COLUMNS if name not in frame.columns]:
        raise RunError(
            f"{place / TURNS}: has no column {missing[0]!r}, another version wrote it; repeat the run's command "
            "(outputs are cached)"
        )
    frame = frame[frame["sample"] == 0].reset_index(drop=True)
    if frame[frame["arm"] == UNSWAPPED].empty:
        raise RunError(f"{place / TURNS}: holds no turn of a counterfactual; repeat the run's command")
    return frame


def _scores(rows: pd.DataFrame, scorers: Sequence[Metric]) -> np.ndarray:
    """(rows, metrics): scores of single turns."""
    columns = [np.empty((len(rows), 0))]
    for scorer in scorers:
        try:
            statistics = rows[list(scorer.columns)].to_numpy(dtype=float)
        except (ValueError, TypeError) as error:
            raise RunError(f"{TURNS}: columns of {scorer.name} hold no numbers; repeat the run's command") from error
        columns.append(scorer.turn_scores(statistics)[:, None])
    return np.concatenate(columns, axis=1)


def _turns(rows: pd.DataFrame, scores: np.ndarray, arms: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Tables of texts, steps, records (what happened in a turn), and turns; and how many turns are left out."""
    texts = _Texts()
    steps: dict[tuple[int, ...], int] = {}
    records: dict[tuple[int, ...], int] = {}
    ways: dict[tuple[int, ...], int] = {}
    cells = {name: _numbered(rows[name], texts.number) for name in (*_KEYS[:3], *_NAMES, *_TEXTS[:3], SYSTEM_PROMPT)}
    cells["steps"] = _numbered(rows["steps"], lambda text: steps.setdefault(_steps(text, texts), len(steps)))
    cells["first"] = _numbered(rows["first_difference"], lambda text: _first(text, texts))
    happened = zip(*(cells[name] for name in _TEXTS), strict=True)
    outcomes = [
        (records.setdefault(row, len(records)), *(value if math.isfinite(value) else None for value in some))
        for row, some in zip(happened, scores.round(_DIGITS).tolist(), strict=True)
    ]
    turns: list[list[Any]] = []
    for place, original, by_arm in _places(rows, cells):
        distinct: dict[tuple[Any, ...], int] = {}
        way = [distinct.setdefault(outcomes[by_arm[arm]], len(distinct)) if arm in by_arm else -1 for arm in arms]
        row = by_arm[UNSWAPPED]
        facts = [*place, *(cells[name][row] for name in _NAMES), cells[SYSTEM_PROMPT][original], *cells["first"][row]]
        turns.append([*facts, ways.setdefault(tuple(way), len(ways)), outcomes[original], *distinct])
    largest = sorted(turns, key=_size, reverse=True)[:MOST_TURNS] if len(turns) > MOST_TURNS else turns
    tables: dict[str, Any] = {"texts": [*texts], "steps": [*steps], "records": [*records], "ways": [*ways]}
    return tables | {"turns": largest}, len(turns) - len(largest)


def _places(
    rows: pd.DataFrame, cells: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[tuple[Any, ...], int, dict[str, int]]]:
    """Yield, for every counterfactual's turn, its place, the row of the original, and the row of each arm."""
    originals: dict[tuple[Any, ...], int] = {}
    counterfactuals: dict[tuple[Any, ...], dict[str, int]] = {}
    keys = zip(cells["axis"], cells["dialogue"], cells["variant"], rows["turn"].tolist(), rows["arm"], strict=True)
    for row, (axis, dialogue, variant, turn, arm) in enumerate(keys):
        if arm == ORIGINAL_ARM:
            originals[axis, dialogue, turn] = row
        else:
            counterfactuals.setdefault((axis, dialogue, variant, turn), {})[arm] = row
    for place, by_arm in counterfactuals.items():
        original = originals.get((place[0], place[1], place[3]))
        if original is not None and UNSWAPPED in by_arm:
            yield place, original, by_arm


def _size(turn: Sequence[Any]) -> tuple[bool, float]:
    """Return whether a turn differs at all, and its largest change of a score."""
    stage, original, rewritten = turn[9], turn[12], turn[13]
    pairs = zip(original[1:], rewritten[1:], strict=True)
    return stage >= 0, max((abs(after - before) for before, after in pairs if None not in (before, after)), default=0.0)


def _numbered(column: pd.Series, number: Any) -> list[Any]:
    """Apply a function to each value, once per distinct one."""
    codes, distinct = pd.factorize(column.astype(object), use_na_sentinel=False)
    made = [number(value if isinstance(value, str) else None) for value in distinct]
    return [made[code] for code in codes]


def _steps(text: str | None, texts: _Texts) -> tuple[int, ...]:
    """Stage, argument and output of every step, by their numbers."""
    try:
        return tuple(texts.number(value) for step in loads(text or "[]") for value in _written(*step))
    except (ValueError, TypeError) as error:
        raise RunError(f"{TURNS}: column 'steps' holds no steps ({error}); repeat the run's command") from error


def _written(stage: Any, argument: Any, output: Any) -> list[str | None]:
    values = (value if isinstance(value, str | None) else json_text(value, None) for value in (stage, argument, output))
    return [value if value is None else readable(value) for value in values]


def _first(text: str | None, texts: _Texts) -> tuple[int, int]:
    """The stage of a first difference, and the difference in words, by their numbers."""
    if text is None:
        return -1, -1
    try:
        record = loads(text)
        return texts.number(str(record["stage"])), texts.number(of_turn(record))
    except (ValueError, TypeError, LookupError) as error:
        raise RunError(f"{TURNS}: column 'first_difference' holds none ({error}); repeat the run's command") from error


def _answers(result: AuditResult) -> list[dict[str, Any]]:
    """Return what the terminal and the page say of every axis."""
    return [
        {
            "axis": shown(card.axis),
            "answer": card.answer,
            "look": card.look,
            "lines": [shown(text) for text in (_headline(card), *card.details) if text],
        }
        for card in cards_of(result)
    ]


def _headline(card: Card) -> str:
    where = f" ({', '.join(card.stages)})" if card.sentence and card.stages else ""
    return f"{card.sentence}{where}"


def _estimates(result: AuditResult) -> list[dict[str, Any]]:
    """Return the rows of the run."""
    records = []
    for row in result.rows:
        differences = (text for group in row.claims for text in differences_of(row, group))
        groups = [] if row.is_placebo else [*row.groups.values(), *row.references.values()]
        records.append(
            {
                "axis": shown(row.axis),
                "metric": shown(row.metric.name),
                "differences": list(map(shown, differences)),
                "groups": [
                    {
                        "name": shown(group.name),
                        "dialogues": notation.count(group.dialogues),
                        "score": notation.fixed(group.score.value),
                        "gap": notation.with_interval(gap := shown_gap(row, group), sign=True, separator="\n"),
                        "p": notation.p_cell(gap.p),
                        "beyond": ""
                        if group.beyond_placebo is None
                        else notation.with_interval(group.beyond_placebo, sign=True, separator="\n"),
                        "claim": claim_of(row, group),
                    }
                    for group in groups
                ],
            }
        )
    return records


def server_of(page: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of a page alone, on this machine's own address.

    Args:
        page: the file, which is read now.
        port: to listen on; 0 takes a free one.

    Raises:
        TodBiasError: the port is taken.
    """
    content = page.read_bytes()

    class Handler(BaseHTTPRequestHandler):
        """Serves the page; all other paths and hosts get 404."""

        def do_GET(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            is_page = self.path in ("/", f"/{PAGE}") and host in ("127.0.0.1", "localhost")
            self.send_response(HTTPStatus.OK if is_page else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content if is_page else b"no such page")

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise TodBiasError(f"--port {port}: cannot be listened on ({error.strerror}); leave it out") from error
