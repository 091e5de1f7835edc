"""Plan of an audit: rewritten dialogues, calls of each stage, and their time.

Numbers that do not depend on outputs are exact: dialogues, variants, and the calls of the first stage (a lower limit in
a flow, which may call it again). Calls of later stages depend on outputs. They have an upper bound, and an estimate
from a small sample that is run. A stage that is remote, or that several threads call, is not called for the plan: its
calls, tokens and price are estimated from the calls that the corpus records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tod_bias.audit.arm_sums import numbers_of
from tod_bias.audit.design import CounterfactualDesign, chunks, design_counterfactuals
from tod_bias.audit.executor import membership
from tod_bias.audit.record import generator_of
from tod_bias.audit.variant_index import TermsByFactor, VariantIndex, terms_by_factor
from tod_bias.audit.variants import Membership
from tod_bias.config import AuditConfig
from tod_bias.dialogues.chat import tool_text
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.sampling import sample
from tod_bias.errors import TodBiasError
from tod_bias.io.files import write_json
from tod_bias.io.folder import writable
from tod_bias.perturb.axis import Axis, Edits, SelectedDialogue, Variants
from tod_bias.results import Record, Value
from tod_bias.statistics.arms import ArmDesign
from tod_bias.statistics.crossed import effective_number
from tod_bias.systems.execution import Execution, Run
from tod_bias.systems.flow import FlowTurn
from tod_bias.systems.hosted import HostedFlow
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import RemoteStage, Stage, StageCall, StageInput, TurnInput, innermost
from tod_bias.systems.turns import DB
from tod_bias.systems.twin import Twin

CHARACTERS_PER_TOKEN = 4
"""Rough number of characters per token in English; the tokenizer of a served model is unknown."""


@dataclass
class StageTraffic:
    """The different calls of one stage that no stage before it made already."""

    calls: int = 0
    read: int = 0
    """Characters of all requests: messages and tools."""
    written: int = 0
    """Characters of all recorded outputs."""


@dataclass
class RecordedCalls:
    """Counts the calls of dialogues as they were recorded."""

    pipeline: Pipeline
    turns: set[str] = field(default_factory=set)
    """Distinct turns, with their history."""
    calls_of_tools: int = 0
    """Calls that the dialogues hold."""
    by_stage: dict[str, StageTraffic] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def add(self, dialogue: Dialogue) -> None:
        """Count those of one dialogue.

        Raises:
            StageError: the flow cannot take what was recorded for an output of a stage.
        """
        for number, turn in enumerate(dialogue.turns):
            given = FlowTurn(turn.user, dialogue.turns[:number], dialogue.system, dialogue.task)
            self.turns.add(TurnInput(given.history, given.user, given.system, task=given.task).key(None))
            self.calls_of_tools += len(turn.calls)
            for name, item, output in _calls(self.pipeline, turn, given):
                self._add_call(name, innermost(self.pipeline.stages[name]), item, output)

    def add_played(self, dialogue: Dialogue, like: Pipeline) -> None:
        """Count the calls of one dialogue as another system makes them, of a corpus that has recorded none.

        Raises:
            StageError: a stage of the other system failed.
        """
        for number, turn in enumerate(dialogue.turns):
            history = dialogue.turns[:number]
            self.turns.add(TurnInput(history, turn.user, dialogue.system, task=dialogue.task).key(None))
            (trace,) = like([StageInput(history, turn.user, system=dialogue.system, task=dialogue.task)])
            for place, step in enumerate(trace.steps):
                if step.name not in self.pipeline.stages:  # a reply of the flow
                    continue
                before = trace.steps[:place]
                outputs = {earlier.name: earlier.output for earlier in before}
                item = StageInput(
                    history, turn.user, outputs, before, step.argument, dialogue.system, task=dialogue.task
                )
                self.calls_of_tools += step.argument is not None
                self._add_call(step.name, innermost(self.pipeline.stages[step.name]), item, step.output)

    def different_calls(self, name: str, turns: int) -> float:
        """Return how many calls a stage gets in a number of distinct turns.

        A model with tools but without recorded calls is assumed to call one tool in every turn.
        """
        uses_tools = self.pipeline.flow is not None and bool(innermost(self.pipeline.stages[name]).tools)
        rounds = 2 if uses_tools and not self.calls_of_tools else 1
        return rounds * turns * self.by_stage.get(name, StageTraffic()).calls / max(1, len(self.turns))

    def tokens(self, name: str, calls: float) -> tuple[int, int]:
        """Estimate how many tokens a served model reads and writes in a number of calls."""
        traffic = self.by_stage.get(name, StageTraffic())
        scale = calls / (CHARACTERS_PER_TOKEN * max(1, traffic.calls))
        return round(traffic.read * scale), round(traffic.written * scale)

    def _add_call(self, name: str, stage: Stage, item: StageInput, output: Any) -> None:
        body: dict[str, Any] = {}
        if isinstance(stage, RemoteStage):
            body = stage.request(item)
            key = stage.key(body)  # an answer often repeats the last request of the policy
        else:
            key = f"{name} {TurnInput.of(item).key(item.argument)}"
        if key in self._seen:
            return
        self._seen.add(key)
        traffic = self.by_stage.setdefault(name, StageTraffic())
        traffic.calls += 1
        if body:
            traffic.read += len(json.dumps([body.get("messages"), body.get("tools")], ensure_ascii=False))
            traffic.written += len(json.dumps(output, ensure_ascii=False))


def _calls(pipeline: Pipeline, turn: Turn, given: FlowTurn) -> Iterator[tuple[str, StageInput, Any]]:
    """Yield the calls of one turn: stage, input, and the recorded output."""
    process = pipeline.start(given)
    steps: tuple[StageCall, ...] = ()
    to_call = [step for step in turn.steps if step.call]
    returned = [step.content if step.content is not None else tool_text(step.results) for step in to_call]
    while process.request is not None:
        name, argument = process.request
        stage = innermost(pipeline.stages[name])
        output: Any = turn.response
        if argument is not None:
            output = returned.pop(0) if returned else None
        elif stage.runs_tools or name == DB:
            output = list(returned)
        elif stage.tools:
            now = to_call if pipeline.flow is None else to_call[:1]
            to_call = to_call[len(now) :]
            calls = [dict(step.call) for step in now]
            is_chat = isinstance(stage, RemoteStage)
            output = {"content": "" if now else turn.response, "tool_calls": calls} if is_chat else calls
        outputs = {step.name: step.output for step in steps}
        item = StageInput(given.history, given.user, outputs, steps, argument, given.system, task=given.task)
        yield name, item, output
        steps = (*steps, StageCall(name, argument, output))
        process.send(output)


NAME = "plan.json"
"""The file of a plan in its folder."""


class StagePlan(Record):
    """Planned calls of one stage; None if unknown."""

    calls: int | None = None
    exact: int | None = None
    """Different calls, where their number is known; the next three are bounds and an estimate of it."""
    at_least: int | None = None
    at_most: int | None = None
    estimate: int | None = None
    read: int | None = None
    """Tokens; of a served model about one for four characters."""
    written: int | None = None
    seconds: Value = None
    price: Value = None
    """Price of these tokens, by the prices of the pipeline file."""
    remote: bool = False


class PlacebosPlan(Record):
    """The placebos of an axis."""

    dialogues: int
    """Dialogues that have a placebo."""
    edits: dict[str, float]
    """Words changed per dialogue: by the axis, and by the placebo."""


class Plan(Record):
    """Plan of an audit: the content of ``plan.json``."""

    dialogues: int
    """Dialogues of the corpus."""
    rewritable: dict[str, int]
    """Axis to dialogues that can be rewritten along it; likewise the others."""
    audited: dict[str, int]
    effective_terms: dict[str, float]
    """Axis to the effective terms of the group with fewest."""
    placebo: dict[str, PlacebosPlan]
    left_out: dict[str, str]
    variants: int
    turns: int
    arms: int
    history: str
    stages: dict[str, StagePlan]
    seconds: Value = None
    price: Value = None
    """Price of all stages; None if a served stage has no price or no estimate."""
    sampled: bool = False
    """True if a sample was run."""

    def save(self, folder: str | Path) -> Path:
        """Write ``plan.json``; returns its path.

        Raises:
            TodBiasError: the folder cannot be written to.
        """
        path = writable(folder) / NAME
        write_json(path, self.model_dump(mode="json"))
        return path


def plan(
    pipeline: Pipeline,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis] | str = ("gender",),
    *,
    config: AuditConfig | None = None,
    sample_size: int = 6,
    like: Pipeline | None = None,
    **settings: Any,
) -> Plan:
    """Plan the calls of :func:`tod_bias.attribute` with the same arguments.

    Args:
        pipeline: the system.
        dialogues: the corpus.
        axes: names, or axes of the user.
        config: every option; by default all at their defaults.
        sample_size: dialogues that are run to time local stages; 0 calls nothing.
        like: a local system with stages of the same names. The calls that it makes in the audited originals stand for
            those that the corpus has recorded; for worlds in which nothing is recorded.
        settings: single options by name, over those of ``config``.

    Raises:
        NothingToPerturbError: no dialogue can be rewritten along any axis.
        StageError: a stage or the flow broke its contract on the sample.
    """
    config = AuditConfig.with_settings(config, settings)
    design = design_counterfactuals(dialogues, axes, config.design, seed=config.seed)
    counts = _Counts()
    for (chunk,) in chunks(design.dialogues, design.selected):
        counts.add(pipeline, _made(design, chunk), teacher_forced=config.run.history == "gold")
    remote = [name for name in pipeline.names if is_remote(pipeline, name)]
    unknown: Timed = {}, ArmDesign.first(pipeline.names, pipeline.groups).most
    timed, arms = unknown if remote else _timed(pipeline, design, config, sample_size) or unknown
    recorded = _recorded(pipeline, design, like) if remote and (counts.calls or like) else None
    calls = counts.all_calls(arms)
    stages = {name: _stage(pipeline, name, counts, calls, timed.get(name), recorded) for name in pipeline.names}
    return Plan(
        **_designed(design),
        placebo=counts.placebos(design) if design.counterfactuals.has_placebo else {},
        variants=counts.variants,
        turns=counts.plain + counts.rewritten,
        arms=arms,
        history=config.run.history,
        stages=stages,
        seconds=_total([stage.seconds for stage in stages.values()]),
        price=_total([stages[name].price for name in remote]) if remote else None,
        sampled=bool(timed),
    )


def _designed(design: CounterfactualDesign) -> dict[str, Any]:
    """Return the plan's record of the dialogues and terms."""
    return {
        "dialogues": len(design.dialogues),
        "rewritable": {name: len(some) for name, some in design.admitted.items()},
        "audited": {name: len(some) for name, some in design.selected.items()},
        "effective_terms": {
            name: round(_effective_terms(design.axes[name], some), 1) for name, some in design.selected.items()
        },
        "left_out": {name: str(error) for name, error in design.failures.items()},
    }


def _total(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if a value is unknown."""
    return None if None in values else sum(filter(None, values))


def is_remote(pipeline: Pipeline, name: str) -> bool:
    """True if a plan must not call a stage: it is ``remote``, or called by several threads."""
    stage = pipeline.stages[name]
    return stage.remote or (pipeline.concurrency.get(name) or stage.concurrency) > 1


def _made(design: CounterfactualDesign, chunk: Mapping[str, Sequence[SelectedDialogue]]) -> dict[str, list[Variants]]:
    return {axis: design.counterfactuals.of(axis, some) for axis, some in chunk.items()}


@dataclass
class _Counts:
    """Numbers that need no outputs."""

    variants: int = 0
    """Originals among them."""
    plain: int = 0
    """Turns of originals."""
    rewritten: int = 0
    """Turns of the others."""
    calls: set[Any] = field(default_factory=set)
    """Distinct calls of the first stage; empty if they depend on outputs."""
    begun: dict[str, set[Any]] = field(default_factory=dict)
    """Distinct calls with which turns begin, by stage of a flow."""
    edits: dict[str, list[Edits]] = field(default_factory=dict)
    """Axis to the edits of dialogues with a placebo."""

    def add(self, pipeline: Pipeline, made: Mapping[str, Sequence[Variants]], *, teacher_forced: bool) -> None:
        """Count one chunk."""
        every = [variants for of_axis in made.values() for variants in of_axis]
        originals = {(some.original.dialogue.id, some.original.variant): some.original for some in every}
        runs = [*originals.values(), *(run for some in every for run in some.rewritten)]
        self.variants += len(runs)
        for run in runs:
            turns = len(run.dialogue.turns)
            self.plain, self.rewritten = (
                self.plain + turns * (run.rewrite is None),
                self.rewritten + turns * (run.rewrite is not None),
            )
            if teacher_forced:
                self._count_first(pipeline, run.rewritten)
        for axis, some in made.items():
            self.edits.setdefault(axis, []).extend(variants.edits for variants in some if variants.edits is not None)

    def _count_first(self, pipeline: Pipeline, dialogue: Dialogue) -> None:
        for number, turn in enumerate(dialogue.turns):
            history = dialogue.turns[:number]
            call = TurnInput(history, turn.user, dialogue.system, task=dialogue.task).key(None)
            self.calls.add(call)
            is_elsewhere = isinstance(pipeline.flow, HostedFlow) and pipeline.flow.is_elsewhere
            if pipeline.flow is not None and not is_elsewhere:  # a process is not started for a plan
                request = pipeline.start(FlowTurn(turn.user, history, dialogue.system, dialogue.task)).request
                if request is not None:
                    self.begun.setdefault(request[0], set()).add(call)

    def all_calls(self, arms: int) -> int:
        """Calls of a stage of a straight pipeline."""
        return self.plain + self.rewritten * arms

    def placebos(self, design: CounterfactualDesign) -> dict[str, PlacebosPlan]:
        """Axis to its placebos."""
        plans = {}
        for axis in design.selected:
            edits = self.edits.get(axis, [])
            number = max(1, len(edits))
            means = {
                "axis": round(sum(some.wanted for some in edits) / number, 2),
                "placebo": round(sum(some.given for some in edits) / number, 2),
            }
            plans[axis] = PlacebosPlan(dialogues=len(edits), edits=means)
        return plans


@dataclass(frozen=True)
class _SampleCost:
    """The cost of a sample of dialogues, of one stage."""

    calls: int
    distinct: int
    seconds: float
    arms_of_turns: int
    tokens: tuple[float, float] | None
    """Read and written, of a language model."""


Timed = tuple[dict[str, _SampleCost], int]
"""Stage to the cost of a sample of dialogues, and how many arms these take."""


def _timed(pipeline: Pipeline, design: CounterfactualDesign, config: AuditConfig, size: int) -> Timed | None:
    """Run a few dialogues; None if there are none."""
    runs = _sampled_runs(design, config, size)
    if not runs:
        return None
    generators = {name: generator_of(stage) for name, stage in pipeline.stages.items()}
    for generator in filter(None, generators.values()):
        generator.keep_in(None)
        _ = generator.model  # its loading is not timed
    before = {name: _tokens(generator) for name, generator in generators.items()}
    execution = Execution(pipeline, config.run.history)
    execution.settled(runs)
    arms = len(execution.arms.arms)
    arms_of_turns = sum(len(run.dialogue.turns) * (1 if run.rewrite is None else arms) for run in runs)
    costs = {}
    for name, caller in execution.callers.items():
        tokens = None
        if generators[name] is not None:
            shared = sum(other is generators[name] for other in generators.values())  # stages of one model share counts
            after = _tokens(generators[name])
            tokens = (after[0] - before[name][0]) / shared, (after[1] - before[name][1]) / shared
        cost = caller.cost
        costs[name] = _SampleCost(cost.calls, cost.distinct, cost.seconds, arms_of_turns, tokens)
    return costs, arms


def _sampled_runs(design: CounterfactualDesign, config: AuditConfig, size: int) -> list[Run]:
    """The originals and counterfactuals of a sample of the audited dialogues."""
    audited = {entry.dialogue.id for some in design.selected.values() for entry in some}
    dialogues = [dialogue for dialogue in design.dialogues if dialogue.id in audited]
    chosen = {dialogue.id for dialogue in sample(dialogues, size, config.seed)} if size else set()
    sampled = {axis: [entry for entry in some if entry.dialogue.id in chosen] for axis, some in design.selected.items()}
    every = (variants for some in _made(design, sampled).values() for variants in some)
    return [run for variants in every for run in (variants.original, *variants.rewritten)]


def _tokens(generator: Any) -> tuple[int, int]:
    """The tokens that a language model has read and written; 0 for other stages."""
    return (0, 0) if generator is None else (generator.cost.read, generator.cost.written)


def _recorded(pipeline: Pipeline, design: CounterfactualDesign, like: Pipeline | None) -> RecordedCalls | None:
    """Calls of the audited originals as they were recorded; None if the flow cannot be led through them."""
    recorded = RecordedCalls(pipeline)
    audited = {entry.dialogue.id: entry.dialogue for some in design.selected.values() for entry in some}
    try:
        for dialogue in audited.values():
            if like is None:
                recorded.add(dialogue)
            else:
                recorded.add_played(dialogue, like)
    except TodBiasError:
        return None
    return recorded


def _stage(
    pipeline: Pipeline,
    name: str,
    counts: _Counts,
    calls: int,
    sampled: _SampleCost | None,
    recorded: RecordedCalls | None,
) -> StagePlan:
    exact, at_most = (None, None) if pipeline.flow is not None else _bounds(pipeline, name, counts, calls)
    estimate = _estimate(sampled, exact, at_most, calls)
    if estimate is None and recorded is not None:
        estimate = recorded.different_calls(name, len(counts.calls) or counts.plain + counts.rewritten)
    planned = StagePlan(
        calls=calls if pipeline.flow is None else None,
        exact=exact,
        at_least=len(counts.begun[name]) if name in counts.begun else None,
        at_most=at_most,
        estimate=None if estimate is None else round(estimate),
        remote=is_remote(pipeline, name),
    )
    if estimate is None:
        return planned
    return planned.model_copy(update=_spent(innermost(pipeline.stages[name]), name, estimate, sampled, recorded))


def _spent(
    stage: Stage, name: str, calls: float, sampled: _SampleCost | None, recorded: RecordedCalls | None
) -> dict[str, Any]:
    """Estimate tokens, seconds and price of a number of calls of a stage; unknown ones are left out."""
    if isinstance(stage, RemoteStage) and recorded is not None:
        read, written = recorded.tokens(name, calls)
        price = None if stage.price is None else (read * stage.price[0] + written * stage.price[1]) / 1e6
        return {"read": read, "written": written, "price": price}
    if sampled is None or not sampled.distinct:
        return {}
    scale = calls / sampled.distinct
    tokens = {} if sampled.tokens is None else dict(zip(("read", "written"), sampled.tokens, strict=True))
    return {part: round(number * scale) for part, number in tokens.items()} | {
        "seconds": round(sampled.seconds * scale, 1)
    }


def _bounds(pipeline: Pipeline, name: str, counts: _Counts, calls: int) -> tuple[int | None, int]:
    """Return distinct calls of a stage of a straight pipeline: the exact number if known, and an upper bound."""
    if not counts.calls:
        return None, calls
    place = pipeline.names.index(name)
    # the stages before it are replaced in 2**place ways, and it is called as it is and by its twin
    at_most = min(counts.plain + counts.rewritten * 2 ** (place + 1), calls + counts.plain)
    is_known = place == 0 and not isinstance(pipeline.stages[name], Twin)
    return len(counts.calls) if is_known else None, at_most


def _estimate(sampled: _SampleCost | None, exact: int | None, at_most: int | None, calls: int) -> float | None:
    """Different calls of a stage, from those of the sample."""
    if exact is not None or sampled is None or not sampled.calls:
        return exact
    expected = sampled.calls / sampled.arms_of_turns * calls  # a flow does not call every stage
    estimate = sampled.distinct / sampled.calls * expected
    return estimate if at_most is None else min(estimate, at_most)


def _effective_terms(axis: Axis, selected: Sequence[SelectedDialogue]) -> float:
    """Effective terms of the group with fewest, as the run counts them."""
    numbers = (some.sum(axis=0) for some in planned_variants(axis, selected).sets)
    return min((effective_number(np.asarray(some)) for some in numbers if some.any()), default=0.0)


def planned_variants(axis: Axis, selected: Sequence[SelectedDialogue]) -> VariantIndex:
    """Return the index of the counterfactuals of a design, before any of them is run.

    Args:
        axis: of the counterfactuals.
        selected: dialogues with their candidates, one for each counterfactual.
    """
    members = [membership(axis, entry) for entry in selected]
    every = [(number, candidate) for number, entry in enumerate(selected) for candidate in entry.candidates]
    groups = tuple(axis.groups) or tuple(dict.fromkeys(candidate.target for _, candidate in every))
    return VariantIndex(
        groups=groups,
        source=numbers_of([_only({some.source for some in entry.candidates}) for entry in selected], groups),
        of=np.array([number for number, _ in every], dtype=int),
        target=numbers_of([candidate.target for _, candidate in every], groups),
        draw=np.zeros(len(every), dtype=int),
        source_terms=tuple(frozenset[str]().union(*(some.source for some in member.terms)) for member in members),
        terms=tuple(some.target for member in members for some in member.terms),
        placebo=np.empty(0, dtype=int),
        placebo_terms=(),
        factors=tuple(axis.factors),
        by_factor=_by_factor(members),
    )


def _by_factor(members: Sequence[Membership]) -> tuple[TermsByFactor, ...]:
    """The terms of each factor of crossed axes, of the dialogues in order."""
    of = [number for number, member in enumerate(members) for _ in member.terms]
    factors = [[factor[:2] for factor in some.factors] for member in members for some in member.terms]
    return terms_by_factor(of, factors, len(members))


def _only(names: Iterable[str]) -> str:
    """Return the only name; empty if there are several."""
    first, *others = names
    return "" if others else first
