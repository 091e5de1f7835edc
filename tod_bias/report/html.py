"""The report of attributions: from one run folder or from several side by side."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from tod_bias.errors import TodBiasError
from tod_bias.files import write_text
from tod_bias.report import notation
from tod_bias.report.excerpts import UNSWAPPED, Excerpts, excerpts
from tod_bias.report.figures import comparison, figures
from tod_bias.report.outcome import Axis, Effect, Estimate, arm_keys, read_axes
from tod_bias.report.page import FIGURES, REPORT, TEMPLATES, draw, render_page
from tod_bias.report.reading import (
    DAGGER,
    FEW_NOTE,
    Reading,
    adjusted_pairs,
    has_few,
    placebo_of,
    read,
    support,
)
from tod_bias.report.record import ORIGINAL, Run, RunError, read_runs, read_turns

_COMPARED = ("corpus", "pipeline", "draws", "seed", "history", "metric", "signature")
"""What should be the same in runs that are compared; differences are named in the report."""


@dataclass(frozen=True)
class Section:
    """What the report shows of one run."""

    run: Run
    """The run."""
    axes: Sequence[Axis]
    """Its axes, the placebo last."""
    readings: Sequence[Reading]
    """One an axis."""
    figures: Mapping[str, Markup]
    """Its figures as inline SVG."""
    excerpts: Sequence[Excerpts] | None
    """Turns to look at; ``None`` where the run kept no turns."""

    @property
    def placebo(self) -> Axis | None:
        """The placebo axis."""
        return placebo_of(self.axes)

    @property
    def corpus(self) -> Mapping[str, Any]:
        """Name, split and counts of the corpus, as far as the run says."""
        return self.run.results.get("corpus") or {}

    @property
    def title(self) -> str:
        """The corpus, or what stands for it."""
        name, split = self.corpus.get("name") or "Run", self.corpus.get("split")
        return f"{name} ({split})" if split else str(name)

    @property
    def conditions(self) -> list[str]:
        """How the run was made, in few words."""
        results = self.run.results
        known = {
            "dialogues": f"{notation.count(self.corpus.get('dialogues'))} dialogues",
            "pipeline": " → ".join(results.get("pipeline") or ()),
            "draws": f"{results.get('draws')} rewritings a dialogue",
            "history": f"{results.get('history')} history",
            "seed": f"seed {results.get('seed')}",
        }
        return [text for key, text in known.items() if key in results or key in self.corpus]

    @property
    def stages(self) -> list[str]:
        """Stages in the order of the attribution."""
        return list(dict.fromkeys(stage for axis in self.axes for stage in axis.contributions))

    @property
    def arm_keys(self) -> list[str]:
        """All arms, those with fewer swapped stages first."""
        return arm_keys(self.axes)

    @property
    def record(self) -> list[tuple[str, str]]:
        """Everything of ``results.json`` but the axes, as (name, text)."""
        return facts(_settings(self.run.results, [key for key in self.run.results if key not in ("axes", "schema")]))

    def pairs(self, axis: Axis) -> list[Effect]:
        """An axis' pairs with adjusted p-values, the worst answered first, undefined ones last."""
        return sorted(
            adjusted_pairs(axis), key=lambda pair: (pair.signed.value is None, -(pair.signed.value or 0.0), pair.name)
        )


def write_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write ``report.html`` and ``figures/*.svg`` from run folders; several are compared side by side.

    Args:
        folders: run folders, each with ``results.json`` and, for examples, ``turns.parquet``.
        out: the folder to write to, or an ``.html`` file; ``None`` writes into the run's own folder, or for several
            runs into the folder that holds them all.

    Returns:
        The path of the report.

    Raises:
        RunError: a folder cannot be read as a run, or the report cannot be written.
    """
    runs = read_runs(folders)
    path = _destination([run.folder for run in runs], out)
    try:
        (path.parent / FIGURES).mkdir(parents=True, exist_ok=True)
        sections = [_section(run, path.parent / FIGURES / ("" if len(runs) == 1 else _slug(run.name))) for run in runs]
        drawn = _compare(sections, path.parent / FIGURES)
        write_text(path, render(sections, drawn))
    except TodBiasError as error:
        raise RunError(str(error)) from error
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror or error}); choose another --out") from error
    return path


def render(sections: Sequence[Section], drawn: Markup | None = None) -> str:
    """The report as HTML text.

    Args:
        sections: the runs.
        drawn: the figure that compares them.
    """
    numbers = (
        notation.fixed, notation.bleu, notation.interval, notation.with_interval, notation.p_cell, notation.p_text,
        notation.percent, notation.count,
    )  # fmt: skip
    return render_page(
        TEMPLATES / "report.html.j2",
        {
            **{function.__name__: _typeset(function) for function in numbers},
            "has_few": has_few,
            "prose": prose,
            "pair": pair_name,
            "slug": _slug,
            "facts": facts,
        },
        sections=sections,
        comparison=drawn,
        differences=differences([section.run for section in sections]),
        arm_label=notation.arm_label,
        support=support,
        DAGGER=DAGGER,
        FEW_NOTE=FEW_NOTE,
    )


def _destination(folders: Sequence[Path], out: Path | None) -> Path:
    if out is not None:
        return out if out.suffix == ".html" else out / REPORT
    if len(folders) == 1:
        return folders[0] / REPORT
    return Path(os.path.commonpath([folder.parent for folder in folders])) / REPORT


def _section(run: Run, folder: Path) -> Section:
    turns = read_turns(run.folder, [ORIGINAL, UNSWAPPED])
    stages = list(run.results.get("pipeline") or ())
    try:
        axes = read_axes(run.results)
        found = None if turns is None else excerpts(turns, stages, [axis.name for axis in axes])
    except RunError as error:
        raise RunError(f"{run.folder}/{error}") from error  # it begins with the file's name
    return Section(
        run=run,
        axes=axes,
        readings=read(axes),
        figures={
            name: draw(figure, folder / f"{name}.svg", _LABELS[name.partition("_")[0]], f"{_slug(run.name)}-{name}")
            for name, figure in figures(run.results).items()
        },
        excerpts=found,
    )


_LABELS = {
    "pairs": "Heatmap of the signed fairscore of every source and target attribute; the table below holds the numbers.",
    "contributions": "Bars of each stage's part of the fairscore per axis; the table below holds the numbers.",
    "arms": "Bars of the fairscore for every set of swapped stages; the table below holds the numbers.",
    "comparison": "Bars of each stage's part of the fairscore per axis and run; the table above holds the numbers.",
}


def _compare(sections: Sequence[Section], folder: Path) -> Markup | None:
    if len(sections) < 2 or not any(section.stages for section in sections):
        return None
    figure = comparison({section.run.name: section.axes for section in sections})
    return draw(figure, folder / "comparison.svg", _LABELS["comparison"])


def differences(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """What the runs do not share and should, to be compared: (name, value per run). Their stages are what differs."""
    flat = [dict(facts(_settings(run.results, _COMPARED))) for run in runs]
    names = dict.fromkeys(name for row in flat for name in row if not name.startswith("signature / stage "))
    rows = [(name, [row.get(name, notation.MISSING) for row in flat]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _settings(results: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Parts of ``results.json``; what the signature says again (draws, seed, history) is left out of it."""
    parts = {key: results.get(key) for key in keys}
    signature = parts.get("signature")
    if isinstance(signature, Mapping):
        parts["signature"] = {key: value for key, value in signature.items() if key not in results}
    return parts


def facts(record: Any, name: str = "") -> list[tuple[str, str]]:
    """Any part of ``results.json`` as (name, text) rows; names of nested values are joined by a slash."""
    if isinstance(record, Mapping):
        if "value" in record:
            return [(name, _typeset(notation.with_interval)(Estimate.read(record, name)))]
        return [row for key, value in record.items() for row in facts(value, f"{name} / {key}" if name else str(key))]
    if record is None:
        return []
    if isinstance(record, (list, tuple)):
        return [(name, ", ".join(map(str, record)))]
    if isinstance(record, bool) or not isinstance(record, (int, float)):
        return [(name, str(record))]
    if isinstance(record, float):
        return [(name, f"{record:.6g}")]
    return [(name, str(record) if name.endswith("seed") else f"{record:,}")]


def prose(text: str) -> Markup:
    """A sentence of a reading as HTML: `` `stage` `` as code, ``a>b`` with an arrow, true minus signs."""
    html = re.sub(r"(?<=\w)&gt;(?=\w)", "&nbsp;→&nbsp;", str(escape(text)))
    html = re.sub(r"`([^`]*)`", r"<code>\1</code>", html)
    return Markup(_minus(html))  # escaped above


def pair_name(name: str) -> str:
    """``woman>man`` as ``woman → man``."""
    return " → ".join(name.split(">"))


def _typeset(function: Any) -> Any:
    return lambda *args, **options: _minus(function(*args, **options))


def _minus(text: str) -> str:
    return re.sub(r"(?<!\w)-(?=\d)", "−", text)


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "run"
