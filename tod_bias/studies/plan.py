"""Before anything is spent: the dialogues an audit finds, what it will ask of each component, and how long it takes.

What needs no answers is counted exactly: dialogues, tellings, and the questions of the component that is asked first
(in a flow, which may ask it again, so many at least).
Every later question depends on answers, so it has an upper bound, and an estimate from a small sample that is run. A
component that is remote, or asked by several threads at once as remote ones are, is not asked: what comes after it has
a bound only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tod_bias.audit.axis_table import Tellings, numbers_of
from tod_bias.audit.design import axes_of, chunks, design_counterfactuals
from tod_bias.audit.signatures import generator_of
from tod_bias.audit.word_clusters import words_effective
from tod_bias.audit.workshop import membership
from tod_bias.config import Design, DesignOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.sampling import sample
from tod_bias.files import write_json
from tod_bias.folder import writable
from tod_bias.perturb.axis import Axis, Edits, SelectedDialogue, Variants
from tod_bias.report.sheets import new_table
from tod_bias.statistics.intervals import LEVEL
from tod_bias.statistics.needed import ENOUGH_WORDS
from tod_bias.statistics.power import detectable_in_spreads
from tod_bias.systems.execution import Execution, HistoryMode, Run, check_history
from tod_bias.systems.flow import FlowTurn
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.questions import Reading
from tod_bias.systems.twin import Twin, untwinned

Telling = Callable[[Mapping[str, Sequence[SelectedDialogue]]], dict[str, list[Variants]]]
"""Tells drawn dialogues otherwise, by axis."""
NAME = "plan.json"
"""The file of a plan in its folder."""


class Plan(dict[str, Any]):
    """What an audit would do: the content of ``plan.json``."""

    def save(self, folder: str | Path) -> Path:
        """Write ``plan.json``; returns its path.

        Raises:
            TodBiasError: the folder cannot be written to.
        """
        path = writable(folder) / NAME
        write_json(path, self)
        return path


def plan(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis] = ("gender",),
    design: Design = "crossed",
    draws: int = 3,
    seed: int = 0,
    *,
    history: HistoryMode = "gold",
    tellings: int | None = None,
    max_per_axis: int | None = None,
    sample_size: int = 6,
) -> Plan:
    """What :func:`tod_bias.attribute` would ask, with the same arguments.

    Args:
        pipeline: the system.
        dialogues: the corpus.
        axes: names or perturbers.
        design: ``crossed`` or ``draws``.
        draws: rewrites drawn a dialogue, for ``draws``.
        seed: of the tellings, and of the sample.
        history: ``gold`` or ``system``.
        tellings: rewritten tellings a dialogue and axis; by default one for every other attribute.
        max_per_axis: so many dialogues an axis.
        sample_size: dialogues that are run to time local components; 0 asks nobody anything.

    Returns:
        ``dialogues`` (read, and by axis those that can be told otherwise and those that are audited), ``words``
        (by axis, how many effective words a claim would rest on), ``detectable`` (by axis, the smallest disparity of
        one metric that could be shown, in standard deviations of one dialogue's: from where dialogues of a word have
        nothing in common to where they are alike; null with too few words), ``placebo`` (by axis, in how many dialogues
        there is one, and how many words it and the axis change in them), ``tellings``, ``turns``, and by
        component ``asked`` (exact in straight pipelines), ``distinct`` (``exact``, or ``at_most`` and
        ``estimate``), ``tokens`` (read and written, for language models) and ``seconds``, null where nothing is
        known.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        StageError: a component or the flow broke its contract on the sample.
    """
    check_history(history)
    dialogues = list(dialogues)
    retelling = design_counterfactuals(
        dialogues, [one.without_model for one in axes_of(axes).values()],
        DesignOptions.of({"design": design, "draws": draws, "variants": tellings, "max_per_axis": max_per_axis}),
        seed=seed,
    )  # fmt: skip
    drawn = retelling.selected

    def told(chosen: Mapping[str, Sequence[SelectedDialogue]]) -> dict[str, list[Variants]]:
        return {axis: retelling.counterfactuals.of(axis, some) for axis, some in chosen.items()}

    placebo: dict[str, list[Edits]] = {axis: [] for axis in drawn} if retelling.counterfactuals.has_placebo else {}

    def told_and_noted(chosen: Mapping[str, Sequence[SelectedDialogue]]) -> dict[str, list[Variants]]:
        found = told(chosen)
        for axis, doses in placebo.items():
            doses += [one.edits for one in found.get(axis, ()) if one.edits is not None]
        return found

    counts = _counted(pipeline, dialogues, told_and_noted, drawn, history)
    remote = [name for name in pipeline.names if is_remote(pipeline, name)]
    timed = _timed(pipeline, dialogues, told, drawn, history, seed, sample_size) if not remote else {}
    components = {
        name: _component(pipeline, name, counts, timed.get(name), name in remote, history) for name in pipeline.names
    }
    seconds = [part["seconds"] for part in components.values()]
    words = {axis: _effective(retelling.counterfactuals.axes[axis], some) for axis, some in drawn.items()}
    return Plan(
        dialogues={
            "read": len(dialogues),
            "perturbable": {axis: len(some) for axis, some in retelling.admitted.items()},
            "audited": {axis: len(some) for axis, some in drawn.items()},
        },
        words={axis: round(count, 1) for axis, count in words.items()},
        detectable=_detectable({axis: (len(some), words[axis]) for axis, some in drawn.items()}),
        placebo={
            axis: {
                "dialogues": len(doses),
                "words_changed": {
                    "axis": round(sum(dose.wanted for dose in doses) / max(1, len(doses)), 2),
                    "placebo": round(sum(dose.given for dose in doses) / max(1, len(doses)), 2),
                },
            }
            for axis, doses in placebo.items()
        },
        left_out={axis: str(error) for axis, error in retelling.failures.items()},
        tellings=counts["tellings"],
        turns=counts["turns"],
        arms=2 ** len(pipeline.names),
        history=history,
        components=components,
        seconds=None if None in seconds else sum(seconds),
        sampled=len(timed) > 0,
    )


def _effective(perturber: Axis, drawn: Sequence[SelectedDialogue]) -> float:
    """Effective words that a claim would rest on, as the run counts them."""
    attributes = tuple(perturber.groups)
    members = [membership(perturber, dialogue) for dialogue in drawn]
    every = [(number, candidate) for number, (_, some) in enumerate(drawn) for candidate in some]
    sources = [some[0].source if len({one.source for one in some}) == 1 else "" for _, some in drawn]
    return words_effective(
        Tellings(
            attributes=attributes,
            source=numbers_of(sources, attributes),
            of=np.array([number for number, _ in every], dtype=int),
            target=numbers_of([candidate.target for _, candidate in every], attributes),
            draw=np.zeros(len(every), dtype=int),
            word=tuple(member.word for member in members),
            words=tuple(names for member in members for names in member.words),
            placebo=np.empty(0, dtype=int),
            placebo_words=(),
        )
    )


def _detectable(sizes: Mapping[str, tuple[int, float]]) -> dict[str, list[float] | None]:
    """By axis what its dialogues and effective words could show, with all axes adjusted for."""
    found: dict[str, list[float] | None] = {}
    for axis, (dialogues, words) in sizes.items():
        bounds = detectable_in_spreads(dialogues, words, (1 - LEVEL) / len(sizes))
        found[axis] = [round(bound, 2) for bound in bounds] if words >= ENOUGH_WORDS else None
    return found


def is_remote(pipeline: Pipeline, name: str) -> bool:
    """Whether a component is not to be asked for a plan: it says so (``remote``), or is asked by several threads."""
    stage = untwinned(pipeline.stages[name])
    threads: Any = pipeline.concurrency.get(name) or getattr(stage, "concurrency", 1) or 1
    return bool(getattr(stage, "remote", False)) or threads > 1


def _counted(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    told: Telling,
    drawn: Mapping[str, Sequence[SelectedDialogue]],
    history: HistoryMode,
) -> dict[str, int]:
    """Tellings, turns, and what the component that is asked first is asked."""
    arms = 2 ** len(pipeline.names)
    questions: set[Any] = set()
    begun: dict[str, set[Any]] = {}
    tellings = plain = rewritten = 0
    for (chunk,) in chunks(dialogues, drawn):
        retold = [one for some in told(chunk).values() for one in some]
        originals = {(one.original.dialogue.id, one.original.variant): one.original for one in retold}
        copies = [copy for one in retold for copy in one.rewritten]
        tellings += len(originals) + len(copies)
        for run in (*originals.values(), *copies):
            seen = run.rewritten
            for number, turn in enumerate(seen.turns):
                question = Reading(seen.turns[:number], turn.user, seen.system).question(None)
                questions.add(question)
                if pipeline.flow is not None and history == "gold":
                    request = pipeline.start(FlowTurn(turn.user, seen.turns[:number], seen.system)).request
                    if request is not None:
                        begun.setdefault(request[0], set()).add(question)
            if run.rewrite is None:
                plain += len(seen.turns)
            else:
                rewritten += len(seen.turns)
    first = len(questions) if history == "gold" else 0
    return {
        "tellings": tellings, "turns": plain + rewritten, "first": first, "plain": plain, "rewritten": rewritten,
        "asked": plain + rewritten * arms,
        **{f"begins {name}": len(found) for name, found in begun.items()},
    }  # fmt: skip


def _timed(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    told: Telling,
    drawn: Mapping[str, Sequence[SelectedDialogue]],
    history: HistoryMode,
    seed: int,
    size: int,
) -> dict[str, dict[str, float]]:
    """By component, from a few dialogues: questions asked and distinct, seconds, tokens; nothing where none is run."""
    audited = {entry[0].id for some in drawn.values() for entry in some}
    few = sample([dialogue for dialogue in dialogues if dialogue.id in audited], size, seed) if size else []
    chosen = {dialogue.id for dialogue in few}
    runs: list[Run] = []
    sampled = {axis: [entry for entry in some if entry[0].id in chosen] for axis, some in drawn.items()}
    for some in told(sampled).values():
        for one in some:
            runs += [one.original, *one.rewritten]
    if not runs:
        return {}
    execution = Execution(pipeline, history)
    generators = {name: generator_of(pipeline.stages[name]) for name in pipeline.names}
    for generator in generators.values():
        if generator is not None:
            generator.keep_in(None)
            _ = generator.model  # loading it is no part of answering
    before = {name: (g.cost.read, g.cost.written) for name, g in generators.items() if g is not None}
    shared = {name: sum(other is g for other in generators.values()) for name, g in generators.items() if g is not None}
    execution(runs)
    arms_of_turns = sum(
        len(run.dialogue.turns) * (1 if run.rewrite is None else 2 ** len(pipeline.names)) for run in runs
    )
    timed = {}
    for name, component in execution.components.items():
        cost, generator = component.cost, generators[name]
        timed[name] = {
            "asked": cost.asked, "distinct": cost.distinct, "seconds": cost.seconds, "arms_of_turns": arms_of_turns,
        }  # fmt: skip
        if generator is not None:
            read, written = generator.cost.read - before[name][0], generator.cost.written - before[name][1]
            # components that share a model share its count of tokens
            timed[name] |= {"read": read / shared[name], "written": written / shared[name]}
    return timed


def _component(
    pipeline: Pipeline,
    name: str,
    counts: Mapping[str, int],
    timed: Mapping[str, float] | None,
    remote: bool,
    history: str,
) -> dict[str, Any]:
    place = pipeline.names.index(name)
    straight = pipeline.flow is None
    asked: int | None = counts["asked"] if straight else None
    is_twin = isinstance(pipeline.stages[name], Twin)
    exact = counts["first"] if straight and place == 0 and counts["first"] and not is_twin else None
    bound = _bound(counts, place) if straight and history == "gold" else asked
    estimate: float | None = exact
    if exact is None and timed is not None and timed["asked"]:
        expected = timed["asked"] / timed["arms_of_turns"] * counts["asked"]  # a flow asks some components not at all
        estimate = timed["distinct"] / timed["asked"] * expected
        estimate = estimate if bound is None else min(estimate, bound)
    record: dict[str, Any] = {
        "asked": asked,
        "distinct": {
            "exact": exact, "at_least": counts.get(f"begins {name}"), "at_most": bound,
            "estimate": None if estimate is None else round(estimate),
        },
        "tokens": None,
        "seconds": None,
        "remote": remote,
    }  # fmt: skip
    if timed is not None and timed["distinct"] and estimate is not None:
        scale = estimate / timed["distinct"]
        record["seconds"] = round(timed["seconds"] * scale, 1)
        if "read" in timed:
            record["tokens"] = {"read": round(timed["read"] * scale), "written": round(timed["written"] * scale)}
    return record


def _bound(counts: Mapping[str, int], place: int) -> int:
    """Different questions at the most: the arms before it differ in 2**place ways, asked plainly and by the twin."""
    return min(counts["plain"] + counts["rewritten"] * 2 ** (place + 1), counts["asked"] + counts["plain"])


def table(result: Mapping[str, Any]) -> Table:
    """A plan for the terminal: a row a component."""
    dialogues = result["dialogues"]
    audited = ", ".join(
        f"{axis} {count}" + (f" of {dialogues['perturbable'][axis]}" if count < dialogues["perturbable"][axis] else "")
        for axis, count in dialogues["audited"].items()
    )
    title = f"{dialogues['read']} dialogues read; told otherwise: {audited}\n"
    title += "effective words: " + ", ".join(f"{axis} {count:g}" for axis, count in result["words"].items())
    title += f" (a claim about a group takes {ENOUGH_WORDS})\n"
    title += f"smallest disparity, in standard deviations of one dialogue's: {_of_spreads(result['detectable'])}\n"
    if result["placebo"]:
        title += f"dialogues with a placebo: {', '.join(_of_placebo(result, axis) for axis in result['placebo'])}\n"
    title += (
        f"{result['tellings']} tellings, {result['turns']} turns, {result['arms']} arms, {result['history']} history"
    )
    view = new_table(title)
    for column in ("component", "asked", "distinct", "tokens read", "written", "seconds"):
        view.add_column(column, justify="left" if column == "component" else "right")
    for name, part in result["components"].items():
        distinct, tokens = part["distinct"], part["tokens"] or {}
        if distinct["exact"] is not None:
            shown = f"{distinct['exact']:,}"
        elif distinct["estimate"] is not None:
            shown = f"about {distinct['estimate']:,}"
        elif distinct["at_least"] is not None:
            shown = f"at least {distinct['at_least']:,}"
        else:
            shown = "–" if distinct["at_most"] is None else f"at most {distinct['at_most']:,}"
        numbers = (part["asked"], tokens.get("read"), tokens.get("written"))
        first, *others = ("–" if number is None else f"{number:,}" for number in numbers)
        seconds = "remote" if part["remote"] else "–" if part["seconds"] is None else f"{part['seconds']:,.1f}"
        view.add_row(name, first, shown, *others, seconds)
    return view


def _of_spreads(detectable: Mapping[str, Sequence[float] | None]) -> str:
    """What could be shown; --pilot tells it on the metric's own scale."""
    shown = {
        axis: "none" if bounds is None else "{:.2f} to {:.2f}".format(*bounds) for axis, bounds in detectable.items()
    }
    return ", ".join(f"{axis} {text}" for axis, text in shown.items()) + " (--pilot: on the metric's scale)"


def _of_placebo(result: Mapping[str, Any], axis: str) -> str:
    """How many dialogues have a placebo, and how much it changes in them."""
    found, audited = result["placebo"][axis], result["dialogues"]["audited"][axis]
    changed = found["words_changed"]
    text = f"{axis} {found['dialogues']} of {audited}"
    return f"{text} ({changed['placebo']:g} words changed for {changed['axis']:g})" if found["dialogues"] else text
