"""Single stages of a pipeline as ParlAI agents, to evaluate one alone or to mix it with other agents.

    parlai eval_model -t google_sgd -dp DATAPATH -m tod_bias.agents:ApiCallAgent --api-call-model DIR -bs 16
    parlai eval_model -t google_sgd -dp DATAPATH -m tod_bias.agents:LookupDbAgent -bs 16
    parlai eval_model -t google_sgd -dp DATAPATH -m tod_bias.agents:ResponseAgent --response-model DIR -bs 16

They take the options of :class:`~tod_bias.agents.pipeline_agent.PipelineAgent` and pick their stage from its pipeline
by name. Their input is gold: what the stages before them would put out is taken from the teacher. A line that is for
another stage is answered by an empty text, which ParlAI does not score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from parlai.core.message import Message
from parlai.core.metrics import AverageMetric, Metrics
from parlai.core.opt import Opt

from tod_bias.agents.conversation import Request, RequestKind
from tod_bias.agents.options import build_pipeline
from tod_bias.agents.pipeline_agent import PipelineAgent
from tod_bias.agents.protocol import SCHEMAS, parlai_text, slots_from_parlai, split_prefix
from tod_bias.dialogues.text import API_CALL, API_RESULT, SYSTEM
from tod_bias.errors import StageError
from tod_bias.systems.pipeline import STANDARD, Pipeline
from tod_bias.systems.stage import Stage, StageInput


class StageAgent(PipelineAgent):
    """Base of agents that are one stage of a pipeline."""

    stage_name: ClassVar[str]
    kinds: ClassVar[Mapping[RequestKind, str]]
    """Kinds of requests that the stage answers → the prefix of its reply."""

    def build_pipeline(self, opt: Opt) -> Pipeline:
        """Build a pipeline of this agent's stage alone.

        Raises:
            StageError: the pipeline of the options has no stage of that name.
        """
        stages = build_pipeline(opt, {self.stage_name}).stages
        if self.stage_name not in stages:
            raise StageError(f"{self.id}: the pipeline has no stage {self.stage_name!r}; it has {', '.join(stages)}")
        return Pipeline({self.stage_name: stages[self.stage_name]})

    @property
    def from_teacher(self) -> tuple[str, ...]:
        """Stages before this one, whose gold outputs it reads."""
        return STANDARD[: STANDARD.index(self.stage_name)]

    def request(self, observation: Message) -> Request:
        """Return what a line requests; the closing ``[DONE]`` round only scores the stage's own lines."""
        request = super().request(observation)
        is_mine = request.reply.strip() in {SCHEMAS, *self.kinds.values()}
        return request if request.kind is not None or is_mine else Request(None)

    def stages(self, kind: RequestKind) -> Mapping[str, Stage]:
        """Return the stage if the request is for it."""
        return self.pipeline.stages if kind in self.kinds else {}

    def reply(self, request: Request, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stage's output with its prefix, or an empty text."""
        prefix = self.kinds.get(request.kind) if request.kind else None
        if prefix is None:
            return {"text": ""}
        text = parlai_text(outputs.get(self.stage_name))
        return {"text": f"{prefix} {text}" if prefix else text}


class ApiCallAgent(StageAgent):
    """The ``api_call`` stage: it answers ``USER: …`` and plain text by ``APICALL: …``.

    A system teacher reports the scores of calls: ``jga``.
    """

    stage_name = "api_call"
    kinds: ClassVar[Mapping[RequestKind, str]] = {RequestKind.CALL: API_CALL, RequestKind.EXCHANGE: API_CALL}


class ResponseAgent(StageAgent):
    """The ``response`` stage: it answers ``APIRESP: …`` by ``SYSTEM: …``, made from the gold call and its gold result.

    The gold call is the label of ``USER: …``, the gold result is what ``APIRESP: …`` shows. A system teacher reports
    the scores of responses: ``nlg_bleu``. Plain text is answered as a turn without an API call.
    """

    stage_name = "response"
    kinds: ClassVar[Mapping[RequestKind, str]] = {RequestKind.RESPONSE: SYSTEM, RequestKind.EXCHANGE: ""}


class LookupDbAgent(StageAgent):
    """The ``db`` stage: it looks up API calls and keeps the first result, as ParlAI's tasks do.

    With a system teacher it looks up the gold call of every turn that has one. Such a teacher scores only calls and
    responses, so the agent adds ``db_accuracy`` to the report: the share of gold calls for which it finds the gold
    result. ``APICALL: …`` is answered by ``APIRESP: …``, for ParlAI's TOD world (``--api-resp-model``) and its
    ``StandaloneApiTeacher``; a call without a row, or with an empty result, by an empty ``APIRESP: ``.

    Without ``--pipeline`` the database is made of the calls and results of the task's corpus, or of ``--db-corpus``.
    """

    stage_name = "db"
    kinds: ClassVar[Mapping[RequestKind, str]] = {RequestKind.RESPONSE: API_RESULT}

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        super().__init__(opt, shared)
        self.metrics = Metrics(shared=shared["metrics"] if shared else None)

    def share(self) -> dict[str, Any]:
        """Return what copies of this agent share: the database and the metrics."""
        return {**super().share(), "metrics": self.metrics.share()}

    def report(self) -> dict[str, Any]:
        """Return ``db_accuracy``, if a system teacher has shown a call."""
        report: dict[str, Any] = self.metrics.report()
        return report

    def reset_metrics(self) -> None:
        """Forget what was counted."""
        self.metrics.clear()

    def request(self, observation: Message) -> Request:
        """Return the lookup that a line requests."""
        prefix, content = split_prefix(observation.get("text") or "")
        if prefix != API_CALL:
            return super().request(observation)
        return Request(RequestKind.RESPONSE, StageInput((), "", {"api_call": slots_from_parlai(content)}))

    def reply(self, request: Request, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``APIRESP: …`` for ``APICALL: …``; count a lookup of a system teacher's turn."""
        if request.kind is not RequestKind.RESPONSE:
            return {"text": ""}
        results = parlai_text(outputs.get("db"))
        if request.conversation is None:
            return {"text": f"{API_RESULT} {results}"}
        call, result = request.conversation.gold_lookup
        if call:
            self.metrics.add("db_accuracy", AverageMetric(results == parlai_text(result)))
        return {"text": ""}
