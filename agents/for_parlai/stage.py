"""Any ParlAI agent as a stage of a pipeline, and as the pipeline whose numbers a fairscore teacher reports.

In a pipeline file::

    stages:
      api_call: {stage: "tod_bias.agents:ParlaiStage", agent: zoo:some/model, output: api_call}
      db: {stage: "tod_bias.stages:LookupDb", table: database.jsonl}
      response: {stage: "tod_bias.agents:ParlaiStage", agent: "my_agents:Chatty", speaks: plain}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tod_bias.agents.protocol import SCHEMAS, output_of, parlai_text
from tod_bias.audit.design import design_counterfactuals
from tod_bias.config import DesignOptions
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.text import API_CALL, API_RESULT, SYSTEM, USER
from tod_bias.errors import StageError
from tod_bias.perturb.axis import Axis
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import Stage, StageInput
from tod_bias.systems.stages.replay import Replay
from tod_bias.systems.twin import Twin

Part = Literal["api_call", "db", "response"]
_PREFIXES: dict[str, str] = {"api_call": API_CALL, "db": API_RESULT, "response": SYSTEM}


class ParlaiStage(Stage):
    """A ParlAI agent as a stage.

    The agent is shown each dialogue from its beginning, as ParlAI's system teachers show it: every line before the
    turn with its reply as a label, which ParlAI's agents put into their history; then it is called once. Agents without
    ``batch_act`` are called turn by turn. Sampling agents break the stage contract (same input, same output).
    :class:`~tod_bias.agents.pipeline_agent.PipelineAgent` can be the ``api_call`` alone, as its response needs a call.

    Args:
        agent: a model file (``DIR/model`` with ``DIR/model.opt``, or ``zoo:…``), a class (``module:Class``) or one of
            ParlAI's own names (``fixed_response``).
        output: which output it is called for: ``api_call``, ``db`` (the first result of an API call) or ``response``.
        speaks: ``tod``: ParlAI's prefixes (``USER: …``); ``plain``: users' and system's words only, for chat models
            (``response`` only).
        batch_size: turns per call of the agent.
        options: ParlAI options of the agent, by name (``{"beam_size": 4}``).
        api_call: name of the stage whose output is the call.
        db: name of the stage whose output is the result.

    Raises:
        StageError: there is no such agent, or it does not take these options.
    """

    def __init__(
        self,
        agent: str,
        *,
        output: Part = "response",
        speaks: Literal["tod", "plain"] = "tod",
        batch_size: int = 16,
        options: Mapping[str, Any] | None = None,
        api_call: str = "api_call",
        db: str = "db",
    ) -> None:
        if output not in _PREFIXES:
            raise StageError(f"ParlaiStage: output must be one of {', '.join(_PREFIXES)}, got {output!r}")
        if speaks not in ("tod", "plain") or (speaks == "plain" and output != "response"):
            raise StageError(f"ParlaiStage: speaks must be 'tod', or 'plain' for responses; got {speaks!r}")
        if batch_size < 1:
            raise StageError(f"ParlaiStage: batch_size must be at least 1, got {batch_size}")
        self._output_name = output
        self._is_plain = speaks == "plain"
        self._batch_size = batch_size
        self._call = api_call
        self._db = db
        self._agent = _create_agent(agent, options or {})
        self._copies: list[Any] = []  # one per place in the batch, as ParlAI's worlds have them

    def __call__(self, inputs: Sequence[StageInput], /) -> list[Any]:
        """One output per input: a call or result as a mapping (the raw text where malformed), or a response."""
        texts: list[str] = []
        for start in range(0, len(inputs), self._batch_size):
            texts += self._call_agent([self._lines(item) for item in inputs[start : start + self._batch_size]])
        return [self._output(text) for text in texts]

    def _call_agent(self, batch: Sequence[tuple[list[tuple[str, str]], str]]) -> list[str]:
        while len(self._copies) < len(batch):
            self._copies.append(self._agent.clone())
        observations = []
        for copy, (before, request) in zip(self._copies, batch, strict=False):
            copy.reset()
            for line, reply in before:
                copy.observe(_message(line, eval_labels=[reply]))
                if hasattr(copy, "self_observe"):
                    copy.self_observe(_message(reply))
            observations.append(copy.observe(_message(request)))
        if hasattr(self._agent, "batch_act"):
            replies = self._agent.batch_act(observations)
        else:
            replies = [copy.act() for copy, _ in zip(self._copies, batch, strict=False)]
        return [reply.get("text") or "" for reply in replies]

    def _lines(self, item: StageInput) -> tuple[list[tuple[str, str]], str]:
        """The lines before the turn, each with its reply, and the line that requests the output."""
        call = parlai_text(item.outputs.get(self._call))
        if self._output_name == "db":
            return [], f"{API_CALL} {call}"
        if self._is_plain:
            return [(turn.user, turn.response) for turn in item.history], item.user
        before = [(f"{SCHEMAS} ", f"{SCHEMAS} ")]
        for turn in item.history:
            before.append((f"{USER} {turn.user}", f"{API_CALL} {parlai_text(turn.api_call)}"))
            before.append((f"{API_RESULT} {parlai_text(turn.api_result)}", f"{SYSTEM} {turn.response}"))
        request = f"{USER} {item.user}"
        if self._output_name == "api_call":
            return before, request
        return [*before, (request, f"{API_CALL} {call}")], f"{API_RESULT} {parlai_text(item.outputs.get(self._db))}"

    def _output(self, text: str) -> Any:
        return text if self._is_plain else output_of(text, _PREFIXES[self._output_name])


def _message(text: str, **fields: Any) -> Any:
    from parlai.core.message import Message

    return Message({"id": "tod-bias", "text": text, "episode_done": False, **fields})


def _create_agent(name: str, options: Mapping[str, Any]) -> Any:
    try:
        from parlai.core.agents import create_agent
        from parlai.core.params import ParlaiParser
    except ImportError as error:
        raise StageError(
            f"ParlaiStage: ParlAI cannot be imported ({error}); install the extra 'parlai', then "
            "`pip install --no-deps parlai==1.7.2`"
        ) from error
    is_file = name.startswith(("zoo:", "models:")) or Path(f"{name}.opt").exists()
    try:
        parser = ParlaiParser(True, True)
        opt = parser.parse_kwargs(**{"datatype": "valid", **options, "model_file" if is_file else "model": name})
        agent = create_agent(opt, requireModelExists=is_file)
    except StageError:
        raise
    except (ImportError, AttributeError, IndexError, KeyError, OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StageError(
            f"ParlaiStage: ParlAI agent {name!r} cannot be made: {reason}; expected a model file, 'module:Class' or "
            "one of ParlAI's names, with its own options"
        ) from error
    return agent


def teacher_pipeline(
    agent: str,
    dialogues: Sequence[Dialogue],
    axes: Sequence[str | Axis],
    *,
    batch_size: int = 16,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    **design: Any,
) -> Pipeline:
    """The system that ``attribute`` must run to measure what ``parlai eval_model -t …:Fairscore…Teacher`` measures.

    ParlAI requests a response after the *gold* call and its gold result, whatever the agent's own call was. So does
    this pipeline: ``api_call`` and ``response`` are the agent, ``gold_call`` and ``gold_db`` return what the corpus
    has, rewritten as the dialogue is (they are always twins). Where several turns of a corpus have one history and one
    utterance (Taskmaster's assistants open dialogues alike), they get the call of the last of them; and ParlAI's
    MultiWOZ shows what a row lacks as ``nan``, which our reader leaves out. An agent that reads these things gets
    slightly other numbers there.

    Args:
        agent: as :class:`ParlaiStage` takes it.
        dialogues: the corpus.
        axes: as ``attribute`` takes them; ``placebo`` beside others too.
        batch_size: turns per call of the agent.
        options: ParlAI options of the agent.
        seed: of everything that is drawn.
        design: ``design``, ``draws``, ``variants`` and ``max_per_axis``, as ``attribute`` is given them.

    Raises:
        StageError: there is no such agent.
        NothingToPerturbError: no dialogue can be rewritten.
        AxisError: an unknown axis.
    """
    counterfactual_design = design_counterfactuals(dialogues, axes, DesignOptions.of(design), seed=seed)
    originals = [
        variants.original.rewritten
        for axis, selections in counterfactual_design.selected.items()
        for variants in counterfactual_design.counterfactuals.of(axis, selections)
    ]
    settings = {"batch_size": batch_size, "options": options}
    return Pipeline(
        {
            "api_call": ParlaiStage(agent, output="api_call", **settings),  # type: ignore[arg-type]
            "gold_call": Twin(Replay.gold(originals, "api_call")),
            "gold_db": Twin(Replay.gold(originals, "api_result")),
            "response": ParlaiStage(agent, output="response", api_call="gold_call", db="gold_db", **settings),  # type: ignore[arg-type]
        }
    )
