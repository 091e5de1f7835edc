"""``tod-bias doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.cli.options import command
from tod_bias.config import OutputOptions
from tod_bias.errors import TodBiasError

if TYPE_CHECKING:
    from tod_bias.dialogues.dialogue import Dialogue
    from tod_bias.dialogues.traces import Component
    from tod_bias.pipelines import AgentFile

_CALLED = ("model", "tool")
"""Kinds of components whose calls can be those of stages."""
_SYSTEMS = (".yaml", ".yml")
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
    pipeline: Path | None = None,
    json: bool = False,
    output: DoctorOutput,
) -> None:
    """Say what works on this machine, and the command that adds what does not; or what works in a system.

    Looks at Python, the folder, threads and devices, the packages and extras, ParlAI, and whether the hub answers
    (HF_HUB_OFFLINE=1: it is not asked). Nothing is changed, nothing is downloaded. "--" marks what is missing, "!" what
    is worth knowing. The exit code is 0 whatever is found; "ready" in the JSON says whether audits run.

    Args:
        file: Traces of a system (.json, .jsonl or a folder): its models, tools, retrievers and agents are listed with
            the number of their spans. Or a pipeline file: the system answers one conversation, and what its stages
            were called with and put out is shown. Of an agent that is a command or url its requests to models are
            listed instead, as stages to paste into the file. What is declared as no stage is unattributed. The machine
            is not looked at.
        corpus: The system answers a conversation of this corpus, one that calls most tools; by default of the demo's.
        pipeline: Of traces: the pipeline file of the agent that left them. Models and tools that belong to none of its
            stages are marked.
        json: Print one JSON object instead.
    """
    from json import dumps

    _check_used(file, corpus, pipeline)
    if file is not None:
        if file.suffix in _SYSTEMS:
            _try_system(file, corpus, json, output)
        else:
            _list_components(file, pipeline, json, output)
        return
    from tod_bias.environment import examined

    environment = examined()
    if output.out is not None:
        from tod_bias.files import write_json
        from tod_bias.folder import claimed

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
    print(
        "\nAudits run here: try `tod-bias attribute`, which audits the bundled demo."
        if environment.ready
        else "\nAudits do not run here yet: run the commands above that belong to lines marked --."
    )


def _check_used(file: Path | None, corpus: str, pipeline: Path | None) -> None:
    """Raise TodBiasError where an option would be passed over."""
    is_system = file is not None and file.suffix in _SYSTEMS
    if pipeline is not None and (file is None or is_system):
        raise TodBiasError(f"--pipeline goes with a file of traces; to try a system: tod-bias doctor {pipeline}")
    if corpus and not is_system:
        raise TodBiasError(f"--corpus goes with a system: tod-bias doctor system.yaml --corpus {corpus}")


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
    """What the stages of a system are called with in a conversation, and what they put out."""
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
    from tod_bias.files import json_text, write_json
    from tod_bias.report.console import echo

    if output.out is not None:
        from tod_bias.folder import claimed

        write_json(claimed(output.out) / "doctor.json", report)
    if not output.quiet:
        echo(json_text(report) if json else text)


def _list_components(file: Path, pipeline: Path | None, json: bool, output: DoctorOutput) -> None:
    from tod_bias.dialogues.files import read_traces

    components = sorted(read_traces(file).components().items(), key=lambda item: (item[0].kind, -item[1], item[0]))
    missed = set() if pipeline is None else _in_no_stage([component for component, _ in components], pipeline)
    report = {
        "components": [
            {**component._asdict(), "spans": number}
            | ({"stage": component not in missed} if pipeline and component.kind in _CALLED else {})
            for component, number in components
        ]
    }
    lines, kind = list[str](), ""
    for component, number in components:
        if component.kind != kind:
            kind = component.kind
            lines.append(kind)
        agent = f"  (agent {component.agent})" if component.agent else ""
        lines.append(f"  {number:>7,}  {component.name}{agent}{'  in no stage' if component in missed else ''}")
    lines.append(
        "" if components else "No span there says what it is (gen_ai.operation.name or openinference.span.kind)."
    )
    _show(report, "\n".join(lines), json, output)


def _in_no_stage(components: Sequence[Component], path: Path) -> set[Component]:
    """Models and tools whose calls belong to no stage of an agent's file, as far as traces tell."""
    from tod_bias.errors import StageError
    from tod_bias.integrations.adapter import stage_of
    from tod_bias.pipelines import AgentFile, check_pipeline

    file = check_pipeline(path)
    if not isinstance(file, AgentFile):
        raise StageError(f"{path}: --pipeline takes the file of an agent (agent: …, stages: …)")
    matches = {name: entry.match for name, entry in file.stages.items()}
    missed = set()
    for component in components:
        facts = {"kind": component.kind, component.kind: component.name, "agent": component.agent}
        unknown = ("node", "system", "offers") if component.kind == "model" else ("node", "server")
        if component.kind in _CALLED and stage_of(matches, facts, unknown=unknown) is None:
            missed.add(component)
    return missed
