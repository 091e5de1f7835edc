"""Calls and requests of a system in one conversation."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tod_bias.audit.evaluation import evaluate
from tod_bias.cli.work.doctor_machine import MARKS
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import shortened
from tod_bias.integrations.seen_calls import seen_calls, stages_as_yaml, stages_of
from tod_bias.pipelines import AgentFile, load_pipeline, proxied_agent
from tod_bias.report.circumstances import outcomes
from tod_bias.report.excerpts import readable


def calls_of(file: Path, dialogue: Dialogue) -> tuple[dict[str, Any], str]:
    """Return the inputs and outputs of a system's stages in a conversation."""
    result = evaluate(load_pipeline(file), [dialogue], metrics=("corpus_bleu",), bootstrap=0)
    score, cost = result.scores["corpus_bleu"].value, result.cost
    wrongs = outcomes(cost)
    steps = [step for text in result.turns["steps"] for step in json.loads(text)]
    recorded = sum(bool(turn.response) for turn in dialogue.turns)
    lines = [f"conversation {dialogue.id!r}, turns: {len(dialogue.turns)}"]
    for stage in result.stages:
        of_stage = [(argument, made) for name, argument, made in steps if name == stage]
        wrong = ", ".join(wrongs.get(stage, ()))
        mark = MARKS["note" if wrong or not of_stage else "ok"]
        seconds = f"{cost.seconds_by_stage[stage]:.1f} s"
        lines.append(f"  {mark} {stage}: calls: {len(of_stage)}, {seconds}{f'; {wrong}' if wrong else ''}")
        for call in of_stage[:3]:
            argument, made = (shortened(readable(str(part)), 60) for part in call)
            lines.append(f"      {argument if call[0] else '…'} → {made}")
    lines.append(f"  {MARKS['ok' if recorded else 'note']} corpus_bleu: {score:.3f}; recorded responses: {recorded}")
    report = {"stages": {stage: cost.distinct[stage] for stage in result.stages}, "steps": steps, "corpus_bleu": score}
    return report, "\n".join(lines)


def requests_of(pipeline: AgentFile, file: Path, dialogue: Dialogue) -> tuple[dict[str, Any], str]:
    """Return the requests of an agent elsewhere in a conversation, as stages to paste into its file."""
    agent = pipeline.model_copy(update={"stages": {}})
    seen = seen_calls(proxied_agent(agent, file), dialogue, pipeline.agent.timeout)
    report = {"stages": stages_of(seen), "requests": [asdict(calls) for calls in seen]}
    lines = f"# conversation {dialogue.id!r}, turns: {len(dialogue.turns)}\n{stages_as_yaml(seen)}"
    reads = "OPENAI_BASE_URL" if pipeline.agent.url is None else "the base_url and the api_key that come with each turn"
    return report, lines if seen else f"The agent made no request to the proxy: does it read {reads}?"
