"""``tod-bias doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.cli.options import command
from tod_bias.config import OutputOptions
from tod_bias.errors import TodBiasError

if TYPE_CHECKING:
    from tod_bias.cli.environment import Environment
    from tod_bias.dialogues.dialogue import Dialogue
    from tod_bias.pipelines import AgentFile

_MARKS = {"ok": "ok", "missing": "--", "note": " !"}
_TRIED = 200
"""Conversations of a corpus from which one is chosen."""


class DoctorOutput(OutputOptions):
    """Where what was found goes."""

    out: Path | None = None
    """Folder for doctor.json; by default none is written."""


@command("tod-bias doctor --json")
def doctor(
    file: Path | None = None,
    /,
    *,
    corpus: str = "",
    json: bool = False,
    output: DoctorOutput,
) -> None:
    """Say what works on this machine, and the command that adds what does not; or what works in a system.

    Looks at Python, the folder, threads and devices, the packages and extras, ParlAI, and whether the hub answers
    (HF_HUB_OFFLINE=1: it is not asked). Nothing is changed, nothing is downloaded. "--" marks what is missing, "!" what
    is worth knowing. The exit code is 0 whatever is found; "ready" in the JSON says whether audits run.

    Args:
        file: Pipeline file: the system answers one conversation, and the calls and outputs of its stages are shown. For
            an agent that is a command or url, its requests to models are listed instead, as stages to paste into the
            file. A component that is not declared as a stage is unattributed. The machine is not looked at.
        corpus: The system answers a conversation of this corpus, one that calls most tools; by default of the demo's.
        json: Print one JSON object instead.
    """
    from json import dumps

    if file is not None:
        _try_system(file, corpus, json, output)
        return
    if corpus:
        raise TodBiasError(f"--corpus goes with a system: tod-bias doctor system.yaml --corpus {corpus}")
    from tod_bias.cli.environment import examined

    environment = examined()
    if output.out is not None:
        from tod_bias.io.files import write_json
        from tod_bias.io.folder import claimed

        write_json(claimed(output.out) / "doctor.json", environment.to_json())
    if output.quiet:
        return
    if json:
        print(dumps(environment.to_json(), indent=1, ensure_ascii=False))
        return
    area = ""
    for check in environment.checks:
        if check.area != area:
            area = check.area
            print(area)
        print(f"  {_MARKS[check.state]} {check.name:<12} {check.said}")
        if check.command:
            print(f"     {'':<12} → {check.command}")
    print(f"\n{_next_step(environment)}")


def _next_step(environment: Environment) -> str:
    """Return a command that works with what is installed."""
    if not environment.ready:
        return "Audits do not run here yet: run the commands above that belong to lines marked --."
    if environment.has("models"):
        return "Audits run here: try `tod-bias attribute`, which audits the bundled demo."
    return "Audits run here: try `tod-bias init stages`. The bundled demo runs models, which need the extra `models`."


def _try_system(file: Path, corpus: str, json: bool, output: DoctorOutput) -> None:
    from tod_bias.dialogues.corpora import DEMO, load_corpus
    from tod_bias.pipelines import AgentFile, check_pipeline

    pipeline = check_pipeline(file)
    dialogues = load_corpus(corpus or DEMO / "test.jsonl", max_dialogues=_TRIED)
    dialogue = max(dialogues, key=_tools_called)
    if isinstance(pipeline, AgentFile) and pipeline.upstream is not None:
        _list_requests(pipeline, file, dialogue, json, output)
    else:
        _list_calls(file, dialogue, json, output)


def _tools_called(dialogue: Dialogue) -> int:
    """How many different tools the recorded calls of a dialogue are of."""
    from tod_bias.dialogues.values import API_NAME

    return len({call.get(API_NAME) for turn in dialogue.turns for call in turn.calls})


def _list_calls(file: Path, dialogue: Dialogue, json: bool, output: DoctorOutput) -> None:
    """Show the inputs and outputs of a system's stages in a conversation."""
    from json import loads

    from tod_bias.audit.evaluation import evaluate
    from tod_bias.errors import shortened
    from tod_bias.pipelines import load_pipeline
    from tod_bias.report.circumstances import outcomes
    from tod_bias.report.excerpts import readable

    result = evaluate(load_pipeline(file), [dialogue], metrics=("corpus_bleu",), bootstrap=0)
    score, cost = result.scores["corpus_bleu"].value, result.cost
    wrongs = outcomes(cost)
    steps = [step for text in result.turns["steps"] for step in loads(text)]
    recorded = sum(bool(turn.response) for turn in dialogue.turns)
    lines = [f"conversation {dialogue.id!r}, turns: {len(dialogue.turns)}"]
    for stage in result.stages:
        calls = [(argument, made) for name, argument, made in steps if name == stage]
        wrong = ", ".join(wrongs.get(stage, ()))
        mark = _MARKS["note" if wrong or not calls else "ok"]
        seconds = f"{cost.seconds_by_stage[stage]:.1f} s"
        lines.append(f"  {mark} {stage}: calls: {len(calls)}, {seconds}{f'; {wrong}' if wrong else ''}")
        for call in calls[:3]:
            argument, made = (shortened(readable(str(part)), 60) for part in call)
            lines.append(f"      {argument if call[0] else '…'} → {made}")
    lines.append(f"  {_MARKS['ok' if recorded else 'note']} corpus_bleu: {score:.3f}; recorded responses: {recorded}")
    report = {"stages": {stage: cost.distinct[stage] for stage in result.stages}, "steps": steps, "corpus_bleu": score}
    _show(report, "\n".join(lines), json, output)


def _list_requests(pipeline: AgentFile, file: Path, dialogue: Dialogue, json: bool, output: DoctorOutput) -> None:
    from dataclasses import asdict

    from tod_bias.integrations.seen_calls import seen_calls, stages_as_yaml, stages_of
    from tod_bias.pipelines import proxied_agent

    agent = pipeline.model_copy(update={"stages": {}})
    seen = seen_calls(proxied_agent(agent, file), dialogue, pipeline.agent.timeout)
    report = {"stages": stages_of(seen), "requests": [asdict(calls) for calls in seen]}
    lines = f"# conversation {dialogue.id!r}, turns: {len(dialogue.turns)}\n{stages_as_yaml(seen)}"
    reads = "OPENAI_BASE_URL" if pipeline.agent.url is None else "the base_url and the api_key that come with each turn"
    _show(report, lines if seen else f"The agent made no request to the proxy: does it read {reads}?", json, output)


def _show(report: dict[str, Any], text: str, json: bool, output: DoctorOutput) -> None:
    """Write a report, and print it or a text."""
    from tod_bias.io.files import json_text, write_json
    from tod_bias.report.console import echo

    if output.out is not None:
        from tod_bias.io.folder import claimed

        write_json(claimed(output.out) / "doctor.json", report)
    if not output.quiet:
        echo(json_text(report) if json else text)
