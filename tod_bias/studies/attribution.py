"""The main job: attribute a system's bias to its stages (Su).

Every dialogue that can be rewritten along an axis is run as it is and under several drawn rewrites, with every set of
stages swapped for their equivariant twins. The fairscore (Su eq. 1) of each set makes a table v(S); Su's attribution
is its drops along one order, Shapley's their mean over all orders.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from itertools import permutations as all_permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tod_bias.dialogues.dialogue import Dialogue, well_formed
from tod_bias.errors import (
    AxisError,
    CorpusError,
    IncompleteError,
    NothingToPerturbError,
    StageError,
    TodBiasError,
    UndefinedFairscoreError,
)
from tod_bias.metrics.calls import CALL_COLUMNS, call_statistics
from tod_bias.metrics.text import TextMetric, text_metric
from tod_bias.models.generator import Cost, Generator
from tod_bias.perturb.algorithm import Candidate, Perturber, draw_candidates, load_perturber, rewrites_of
from tod_bias.stages import HOMES
from tod_bias.statistics.adjustment import holm
from tod_bias.statistics.intervals import interval
from tod_bias.statistics.resampling import resample
from tod_bias.statistics.settings import Inference
from tod_bias.studies.estimates import AxisEstimate, AxisStatistics
from tod_bias.studies.results import Results
from tod_bias.systems.execution import HISTORY_MODES, Execution, HistoryMode, Run, Trace, all_arms, arm_key
from tod_bias.systems.outputs import as_text
from tod_bias.systems.pipeline import Pipeline, Twin

log = logging.getLogger(__name__)

SCHEMA = 1
"""Version of ``results.json``."""
SU_ORDER = ("db", "api_call", "response")
"""Su's steps: first the database mismatch is resolved, then the API call adjusted; the rest is the response model's."""
_MOST_STAGES = 7
"""2**7 arms and 7! orders; more would be neither quick nor readable."""


class Attribution(Results):
    """The content of ``results.json``; ``turns`` holds input, stage outputs, reference and metric statistics."""

    record_name = "results.json"
    frame_name = "turns.parquet"


def attribute(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Perturber] = ("gender",),
    draws: int = 3,
    seed: int = 0,
    bootstrap: int = 1000,
    *,
    order: Sequence[str] | str | None = None,
    history: HistoryMode = "gold",
    metric: str | TextMetric = "corpus_bleu",
    permutations: int = 10_000,
    max_per_axis: int | None = None,
    corpus: Mapping[str, str] | None = None,
    cache: str | Path | None = None,
    show_progress: bool = False,
) -> Attribution:
    """Measure how differently a pipeline serves original and rewritten dialogues, and split that over its stages.

    Args:
        pipeline: the system; its last stage's output is scored against the gold response.
        dialogues: those without a word to rewrite are counted and left out.
        axes: names (``gender``, ``age``, ``race``, ``placebo``) or perturbers of one's own.
        draws: rewrites drawn a dialogue (Algorithm 1); the fairscore is the mean over draws.
        seed: of draws, bootstrap and permutations.
        bootstrap: resamples of dialogues for the intervals; 0 for none.
        order: the stages (a list, or joined by commas) in the order in which Su's attribution swaps them; by default
            ``db, api_call, response`` where these are the stages, else the pipeline's own order.
        history: ``gold`` (teacher-forced) or ``system`` (free-running).
        metric: ``corpus_bleu``, ``sentence_bleu`` (ParlAI's) or a metric of one's own.
        permutations: of the test of the fairscore; 0 for none.
        max_per_axis: keep so many dialogues an axis, drawn by ``seed``.
        corpus: ``name`` and ``split`` for the record.
        cache: SQLite file in which generated texts are kept, so that a killed run goes on where it stopped.
        show_progress: on stderr.

    Returns:
        The content of ``results.json`` (see CONTRIBUTING.md), with the frame of turns as ``.turns``.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        UndefinedFairscoreError: the original dialogues of all axes have BLEU 0.
        IncompleteError: one of these holds for some of the axes; it carries the result of the others, which names
            those that it lacks under ``left_out``.
        StageError: a stage broke its contract, or ``order`` does not name every stage once.
        AxisError: unknown axis, or one given twice.
    """
    started = time.monotonic()
    order = _checked_order(pipeline, order)
    metric = text_metric(metric) if isinstance(metric, str) else metric
    if history not in HISTORY_MODES:
        raise TodBiasError(f"unknown history {history!r}; expected one of {', '.join(HISTORY_MODES)}")
    for name, number in (("draws", draws), ("bootstrap", bootstrap), ("permutations", permutations), ("seed", seed)):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise TodBiasError(f"{name} must be a whole number, got {number!r}")
    if draws < 1 or bootstrap < 0 or permutations < 0:
        raise TodBiasError(
            f"draws must be at least 1, bootstrap and permutations at least 0, got {draws}, {bootstrap}, {permutations}"
        )
    dialogues = list(dialogues)
    ids = [dialogue.id for dialogue in dialogues]
    if len(set(ids)) < len(ids):
        twice = next(name for number, name in enumerate(ids) if name in ids[:number])
        raise CorpusError(f"dialogue id {twice!r} stands twice in the corpus; ids must be unique")
    perturbers = _perturbers(axes)
    for generator in _models_of(perturbers.values()):
        generator.use_cache(cache)
        generator.show_progress = show_progress
    failures: dict[str, TodBiasError] = {}
    found: dict[str, list[Drawn]] = {}
    for axis, perturber in perturbers.items():
        try:
            found[axis] = _found(perturber, dialogues, draws, seed)
        except NothingToPerturbError as error:
            failures[axis] = error
    if not found:
        raise next(iter(failures.values()))
    drawn = {axis: _runs(perturbers[axis], _chosen(some, max_per_axis, seed)) for axis, some in found.items()}

    generators = generators_of(pipeline)
    for generator in generators:
        generator.use_cache(cache)
        generator.show_progress = show_progress
    before = _total(generators)
    execution = Execution(pipeline, history)
    originals = {run.dialogue.id: run for runs in drawn.values() for run, _ in runs}
    rewritten = [run for runs in drawn.values() for _, copies in runs for run in copies]
    traces = execution([*originals.values(), *rewritten])
    original_traces = dict(zip(originals, traces, strict=False))
    rest = iter(traces[len(originals) :])

    frames, reports = [], {}
    inference = Inference(bootstrap, permutations, seed)
    for axis, runs in drawn.items():
        records = [
            (run, copies, original_traces[run.dialogue.id], [next(rest) for _ in copies]) for run, copies in runs
        ]
        frame = _frame(axis, records, pipeline.names, metric)
        statistics = _axis_statistics(frame, records, pipeline.names, metric, draws)
        estimate = AxisEstimate(statistics, metric, order, _all_orders(pipeline.names), inference)
        if not estimate.defined:
            failures[axis] = UndefinedFairscoreError(
                f"axis {axis}: BLEU of {_counted(len(runs), 'original dialogue')} is 0, so the fairscore (Su eq. 1) is "
                "undefined; check the pipeline with 'tod-bias evaluate', or take more dialogues"
                + (f" (what was generated is kept in {cache})" if cache is not None and generators else "")
            )
            continue
        frames.append(frame)
        reports[axis] = estimate.report() | _goals(frame, inference)
    if not reports:
        raise next(iter(failures.values()))
    _adjust(reports)
    after = _total(generators)
    asked = sum(cost.inputs for name, cost in execution.costs.items() if _generator(pipeline.stages[name]))
    result = Attribution(
        schema=SCHEMA,
        corpus={
            "name": "dialogues", "split": "", **(corpus or {}), "dialogues": len(dialogues),
            "hash": _hash(dialogues), "perturbable": {axis: len(runs) for axis, runs in found.items()},
            "audited": {axis: len(runs) for axis, runs in drawn.items()},
        },
        pipeline=list(pipeline.names),
        draws=draws,
        seed=seed,
        history=history,
        metric=metric.name,
        signature={
            "bleu": metric.signature,
            "draws": str(draws),
            "max_per_axis": "all" if max_per_axis is None else str(max_per_axis),
            "seed": str(seed),
            "history": history,
            "intervals": f"95%, expanded percentile, {bootstrap} resamples of dialogues",
            "p_values": f"paired permutation of dialogues, {permutations} permutations, Holm over axes",
            **{f"axis {axis}": _perturber_signature(perturber) for axis, perturber in perturbers.items()},
            **signature_of(pipeline),
        },
        axes=reports,
        **_rewritten_by_model(perturbers),
        cost={
            "prompts": asked,
            "distinct_prompts": after.distinct_prompts - before.distinct_prompts,
            "cached": after.cached - before.cached,
            "seconds": round(time.monotonic() - started, 3),
        },
    )  # fmt: skip
    result.turns = pd.concat(frames, ignore_index=True)
    if failures:
        result["left_out"] = {axis: str(error) for axis, error in failures.items()}
        raise IncompleteError("; ".join(map(str, failures.values())), result)
    return result


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


Record = tuple[Run, Sequence[Run], Trace, Sequence[Trace]]
"""An original run, its rewritten copies (one a draw), and the traces of both."""


def _checked_order(pipeline: Pipeline, order: Sequence[str] | str | None) -> tuple[str, ...]:
    names = pipeline.names
    if len(names) > _MOST_STAGES:
        raise StageError(f"the pipeline has {len(names)} stages; attribution takes {_MOST_STAGES} at the most")
    if order is None:
        return SU_ORDER if set(names) == set(SU_ORDER) else names
    if isinstance(order, str):
        order = [name.strip() for name in order.split(",")]
    if sorted(order) != sorted(names):
        raise StageError(f"order {','.join(order)!r} must name every stage once; the stages are {', '.join(names)}")
    return tuple(order)


def _all_orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(all_permutations(names))


def _perturbers(axes: Sequence[str | Perturber]) -> dict[str, Perturber]:
    if isinstance(axes, str):
        axes = (axes,)
    found: dict[str, Perturber] = {}
    for entry in axes:
        perturber = load_perturber(entry) if isinstance(entry, str) else entry
        if perturber.axis in found:
            raise AxisError(f"axis {perturber.axis!r} is given twice")
        found[perturber.axis] = perturber
    if not found:
        raise AxisError("no axis: give at least one, e.g. gender")
    return found


Drawn = tuple[Dialogue, Sequence[Candidate]]
"""A dialogue and the rewrites that were drawn for it."""


def _found(perturber: Perturber, dialogues: Iterable[Dialogue], draws: int, seed: int) -> list[Drawn]:
    """The dialogues that can be rewritten."""
    drawn = [(dialogue, draw_candidates(perturber, dialogue, draws, seed)) for dialogue in dialogues]
    found: list[Drawn] = [(dialogue, candidates) for dialogue, candidates in drawn if candidates]
    if not found:
        raise NothingToPerturbError(
            f"axis {perturber.axis}: no dialogue holds a word to rewrite; take more dialogues or leave the axis out"
        )
    return found


def _chosen(found: list[Drawn], most: int | None, seed: int) -> list[Drawn]:
    """At most so many, drawn by ``seed``, in their order."""
    if most is None or len(found) <= most:
        return found
    return [found[number] for number in sorted(np.random.default_rng(seed).permutation(len(found))[:most].tolist())]


def _runs(perturber: Perturber, drawn: Sequence[Drawn]) -> list[tuple[Run, list[Run]]]:
    """Each dialogue's original run and its rewritten ones."""
    pairs = zip(drawn, rewrites_of(perturber, drawn), strict=True)
    return [(Run(dialogue), [Run(dialogue, rewrite) for rewrite in made]) for (dialogue, _), made in pairs]


def _hash(dialogues: Iterable[Dialogue]) -> str:
    """Of everything in the dialogues and their order."""
    digest = blake2b(digest_size=8)
    for dialogue in dialogues:
        digest.update(repr((dialogue.id, dialogue.domain, len(dialogue.turns))).encode("utf-8", "surrogatepass"))
        digest.update(b"".join(turn.digest for turn in dialogue.turns))
    return digest.hexdigest()


def _frame(axis: str, records: Sequence[Record], names: Sequence[str], metric: TextMetric) -> pd.DataFrame:
    """One row a turn of the original run, and one a turn, draw and arm of the rewritten ones."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("axis", "dialogue", "turn", "draw", "source", "target", "word", "arm", "user")
    }
    outputs: dict[str, list[str]] = {name: [] for name in names}
    references: list[str] = []
    goals: list[np.ndarray] = []

    def add(run: Run, draw: int | None, trace: Trace, label: str | None) -> None:
        dialogue, rewrite = run.rewritten, run.rewrite
        kind = (None, None, None) if rewrite is None else (rewrite.source, rewrite.target, rewrite.word)
        for arm, turns in trace.items():
            arm_name = arm_key(arm) if label is None else label
            for number, (turn, made) in enumerate(zip(dialogue.turns, turns, strict=True)):
                row = (axis, dialogue.id, number, draw, *kind, arm_name, well_formed(str(turn.user)))
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
                for name in names:
                    outputs[name].append(as_text(made[name]))
                references.append(well_formed(str(turn.response)))
            if "api_call" in names:
                goals.append(
                    call_statistics([made["api_call"] for made in turns], [t.api_call for t in dialogue.turns])
                )

    if all(made[names[-1]] is None for _, _, trace, _ in records for turns in trace.values() for made in turns):
        raise StageError(f"stage {names[-1]!r}: returned None every time; expected texts, which are scored")
    for run, copies, trace, copy_traces in records:
        add(run, None, trace, "original")
        for draw, (copy, copy_trace) in enumerate(zip(copies, copy_traces, strict=True)):
            add(copy, draw, copy_trace, None)
    statistics = metric.statistics(outputs[names[-1]], references)
    frame = pd.DataFrame({**columns, **outputs, "reference": references})
    frame["draw"] = frame["draw"].astype("Int64")
    frame[list(metric.columns)] = statistics
    if goals:
        frame[[f"call_{name}" for name in CALL_COLUMNS]] = np.concatenate(goals)
    return frame


def _axis_statistics(
    frame: pd.DataFrame, records: Sequence[Record], names: Sequence[str], metric: TextMetric, draws: int
) -> AxisStatistics:
    """Sum the frame's metric statistics over the turns of each dialogue, draw and arm."""
    numbers = {run.dialogue.id: number for number, (run, *_) in enumerate(records)}
    places = {"original": 0, **{arm_key(arm): number for number, arm in enumerate(all_arms(names), start=1)}}
    arm, dialogue = frame["arm"].map(places).to_numpy(), frame["dialogue"].map(numbers).to_numpy()
    draw = frame["draw"].fillna(0).to_numpy(dtype=int)
    sums = np.zeros((len(places), draws, len(numbers), len(metric.columns)))
    np.add.at(sums, (arm, draw, dialogue), frame[list(metric.columns)].to_numpy())
    kinds = [
        [f"{copy.rewrite.source}>{copy.rewrite.target}" for copy in copies if copy.rewrite] for _, copies, *_ in records
    ]
    table = np.array(kinds).T  # (draws, dialogues)
    pairs = {str(pair): table == pair for pair in sorted(set(table.ravel().tolist()))}
    return AxisStatistics(tuple(names), sums[0, 0], sums[1:], pairs)


def _goals(frame: pd.DataFrame, inference: Inference) -> dict[str, Any]:
    """Joint goal accuracy on original and rewritten dialogues, where the pipeline makes API calls."""
    if "call_correct" not in frame:
        return {}
    report: dict[str, Any] = {}
    for arm, name in (("original", "jga_original"), ("", "jga_perturbed")):
        rows = frame[frame["arm"] == arm].assign(ones=1.0)
        sums = rows.groupby("dialogue", sort=False)[["call_correct", "ones"]].sum().to_numpy()
        report[name] = float(_share(sums.sum(axis=0)))
        bounds = np.full(2, np.nan)
        if inference.resamples:
            bounds = interval(resample(sums, _share, inference.resamples, inference.seed), len(sums))
        report[f"{name}_ci"] = None if np.isnan(bounds).any() else bounds.tolist()
    return report


def _share(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def _adjust(reports: Mapping[str, dict[str, Any]]) -> None:
    """Add Holm-adjusted p-values: several axes are several tests."""
    p_values = {axis: report["fairscore"]["p_value"] for axis, report in reports.items()}
    if all(p is not None for p in p_values.values()):
        for axis, p in holm(p_values).items():
            reports[axis]["fairscore"]["p_holm"] = p


def _generator(stage: Any) -> Generator | None:
    while isinstance(stage, Twin):
        stage = stage.stage
    found = getattr(stage, "generator", None)
    return found if isinstance(found, Generator) else None


def generators_of(pipeline: Pipeline) -> list[Generator]:
    """The distinct generators behind a pipeline's stages."""
    found = [generator for stage in pipeline.stages.values() if (generator := _generator(stage))]
    return list({id(generator): generator for generator in found}.values())


def _total(generators: Iterable[Generator]) -> Cost:
    total = Cost()
    for generator in generators:
        total.distinct_prompts += generator.cost.distinct_prompts
        total.cached += generator.cost.cached
    return total


def signature_of(pipeline: Pipeline) -> dict[str, str]:
    """What decides a pipeline's outputs: every stage's signature, and versions."""
    signature = {}
    for name, stage in pipeline.stages.items():
        while isinstance(stage, Twin):
            stage = stage.stage
        generator = _generator(stage)
        own = generator.signature if generator else getattr(stage, "signature", None)
        signature[f"stage {name}"] = _stage_name(stage) + (f"|{own}" if isinstance(own, str) else "")
    for package in ("tod-bias", "sacrebleu", "transformers", "torch", "numpy"):
        try:
            signature[package] = version(package)
        except PackageNotFoundError:
            signature[package] = "not installed"
    return signature | {"python": platform.python_version()}


def _stage_name(stage: Any) -> str:
    kind = stage if hasattr(stage, "__qualname__") else type(stage)
    shipped = kind.__module__ == f"tod_bias.{HOMES.get(kind.__qualname__)}"  # wherever it lives, it is named as in YAML
    return f"{'tod_bias.stages' if shipped else kind.__module__}:{kind.__qualname__}"


def _models_of(perturbers: Iterable[Perturber]) -> list[Generator]:
    """The distinct generators behind perturbers that rewrite with a model."""
    found = [getattr(perturber, "generator", None) for perturber in perturbers]
    return list({id(generator): generator for generator in found if isinstance(generator, Generator)}.values())


def _rewritten_by_model(perturbers: Mapping[str, Perturber]) -> dict[str, Any]:
    """For axes with a neural perturber: texts with a mention, and how many of them the model rewrote."""
    counts = {axis: getattr(perturber, "counts", None) for axis, perturber in perturbers.items()}
    counts = {axis: count for axis, count in counts.items() if count is not None}
    return {"perturber": counts} if counts else {}


def _perturber_signature(perturber: Perturber) -> str:
    return str(getattr(perturber, "signature", type(perturber).__name__))
