"""The trials of fixes in words: what remains of each finding, the lines to add, and what a person can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tod_bias.mitigation.trials import GONE, ROWS, Trial
from tod_bias.report.answer import counted_sides, what_happens
from tod_bias.report.notation import fixed
from tod_bias.report.sheets import folded
from tod_bias.results import AuditResult, Finding

_WIDTH = 80


def shown_trials(
    trials: Sequence[Trial],
    findings: Sequence[Sequence[Finding]],
    result: AuditResult,
    named: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Yield the lines of a terminal.

    Args:
        trials: of all findings.
        findings: lists of findings that differ in their group alone.
        result: of the run.
        named: axis to what a pipeline file calls it, if that is not its name, such as an axis file.
    """
    for alike in findings:
        first, groups = alike[0], [some.group for some in alike]
        of = [trial for trial in trials if trial.finding == first]
        where = f" ({first.stage})" if first.stage else ""
        yield from folded(f"{first.axis}: {what_happens(first, result, groups)}{where}", "  ", _WIDTH, "")
        for trial in of:
            yield from folded(_outcome(trial, groups), "    ", _WIDTH, "  ")
        if not any(trial.helps for trial in of):
            yield from folded(by_hand(first, result), "    ", _WIDTH, "  ")
    helping = [trial for trial in trials if trial.helps]
    if helping:
        caveat = " (a guard knows its axes' words only)" if any(trial.fix != ROWS for trial in helping) else ""
        yield f"Add to these stages of the pipeline file{caveat}:"
        yield from lines(helping, named or {})


def _outcome(trial: Trial, groups: Sequence[str]) -> str:
    """Return what a fix does to the finding, and what it costs."""
    name = "the rows that its table lacks" if trial.fix == ROWS else f"guard: {trial.fix}"
    if trial.refused:
        return f"{name}: cannot be measured ({trial.refused})"
    text = f"{name} on {trial.stage}: {trial.result}"
    if trial.counts:
        text += f" ({', '.join(counted_sides(trial.counts, groups, is_share=trial.finding.is_share))})"
    elif trial.result != GONE:
        text += f" (difference {fixed(trial.before, 2)} → {fixed(trial.after, 2)})"
    if trial.new:
        text += f"; but new: {trial.new[0]}"
    return f"{text}; {_cost(trial)}"


def _cost(trial: Trial) -> str:
    quality = trial.quality
    if quality is None:
        return "cost not measured: no grade"
    change = f"{trial.quality_metric} {fixed(quality.before, 2)} → {fixed(quality.after, 2)}"
    return f"costs quality: {change}" if trial.costs else f"quality: {change}"


def by_hand(finding: Finding, result: AuditResult) -> str:
    """Return what a person can do about a finding that no fix removes."""
    if result.is_recorded:
        return "the responses were saved: give the system with --pipeline to try fixes"
    if not finding.stage:
        return "no declared stage accounts for it: declare the other models and tools of the agent"
    stages = finding.stage.split(", ")
    does = "reads" if len(stages) == 1 else "read"
    return (
        f"by hand: {' and '.join(stages)} {does} who the user is; pass on what the task needs (slots, an intent), and "
        "not the message or the history"
    )


def lines(trials: Sequence[Trial], named: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines to add to a pipeline file: per stage and axis the first fix that helps.

    Args:
        trials: those that help.
        named: axis to what a pipeline file calls it, if that is not its name.
    """
    first: dict[tuple[str, str], str] = {}
    for trial in trials:
        axis = named.get(trial.finding.axis, trial.finding.axis)
        first.setdefault((trial.stage, axis), trial.fix)
    yield "stages:"
    for name in dict.fromkeys(stage for stage, _ in first):
        yield f"  {name}:"
        yield from _of_stage({axis: fix for (stage, axis), fix in first.items() if stage == name})


def _of_stage(fixes: Mapping[str, str]) -> Iterator[str]:
    if ROWS in fixes.values():
        yield "    # append the lines of missing.jsonl to its table"
    mode = next((fix for fix in fixes.values() if fix != ROWS), None)  # a stage has one guard
    if mode is not None:
        axes = ", ".join(axis for axis, fix in fixes.items() if fix == mode)
        yield f"    guard: {mode}"
        yield f"    axes: {axes}"
