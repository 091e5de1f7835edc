"""Single stages of a pipeline as ParlAI agents, to evaluate one alone or to mix it with other agents.

They take the options of :class:`~tod_bias.agents.pipeline_agent.PipelineAgent` and pick their stage by its name:
``api_call``, ``db``, ``response``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from tod_bias.agents.conversation import Request, RequestKind
from tod_bias.agents.options import PIPELINE_OPTIONS, add_options, build_pipeline, db_dialogues
from tod_bias.agents.pipeline_agent import TodAgent
from tod_bias.agents.protocol import SCHEMAS, parlai_text, slots_from_parlai, split_prefix
from tod_bias.dialogues.text import API_CALL, API_RESULT, SYSTEM
from tod_bias.errors import StageError
from tod_bias.systems.pipeline import Pipeline
from tod_bias.systems.stage import Stage, StageInput
from tod_bias.systems.stages.database import LookupDb


class _StageAgent(TodAgent):
    """One stage of a pipeline."""

    stage_name = ""

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the agent's options."""
        add_options(parser, cls.__name__, PIPELINE_OPTIONS)
        return parser

    def build_pipeline(self, opt: Opt) -> Pipeline:
        """A pipeline of this agent's stage alone.

        Raises:
            StageError: the pipeline of the options has no stage of that name.
        """
        stages = build_pipeline(opt, {self.stage_name}).stages
        if self.stage_name not in stages:
            raise StageError(f"{self.id}: the pipeline has no stage {self.stage_name!r}; it has {', '.join(stages)}")
        return Pipeline({self.stage_name: stages[self.stage_name]})


class ApiCallAgent(_StageAgent):
    """The ``api_call`` stage: answers ``USER: …`` by ``APICALL: …``, and ``APIRESP: …`` by an empty text.

    ParlAI scores no empty text, so a system teacher reports JGA only. Plain text is answered by ``APICALL: …``.
    """

    stage_name = "api_call"

    def stages(self, kind: RequestKind) -> Mapping[str, Stage]:
        """Its stage, for everything but a response."""
        return {} if kind is RequestKind.RESPONSE else self.pipeline.stages

    def reply(self, kind: RequestKind, outputs: Mapping[str, Any]) -> dict[str, str]:
        """``APICALL: …``, or nothing."""
        return {"text": "" if kind is RequestKind.RESPONSE else f"{API_CALL} {parlai_text(outputs.get('api_call'))}"}


class ResponseAgent(_StageAgent):
    """The ``response`` stage on gold input: answers ``APIRESP: …`` by ``SYSTEM: …`` from the gold call and result.

    The gold call is the label of the turn's ``USER: …``, which is answered by an empty text, so that a system teacher
    reports the scores of responses only. Plain text is answered as a turn without an API call.
    """

    stage_name = "response"

    @property
    def from_teacher(self) -> tuple[str, ...]:
        """Both."""
        return ("api_call", "db")

    def stages(self, kind: RequestKind) -> Mapping[str, Stage]:
        """Its stage, for everything but a call."""
        return {} if kind is RequestKind.CALL else self.pipeline.stages

    def reply(self, kind: RequestKind, outputs: Mapping[str, Any]) -> dict[str, str]:
        """``SYSTEM: …``, or nothing, or the plain response."""
        if kind is RequestKind.CALL:
            return {"text": ""}
        response = parlai_text(outputs.get("response"))
        return {"text": f"{SYSTEM} {response}" if kind is RequestKind.RESPONSE else response}


class LookupDbAgent(_StageAgent):
    """The ``db`` stage: answers ``APICALL: …`` by ``APIRESP: …``, the first result only.

    For ParlAI's TOD world (``--api-resp-model tod_bias.agents:LookupDbAgent``) and its standalone-API teachers. A call
    without a row, a malformed one and one with an empty result are all answered by an empty ``APIRESP: ``.
    """

    stage_name = "db"

    def build_pipeline(self, opt: Opt) -> Pipeline:
        """The database of the pipeline, or with ``--db-corpus`` alone one of that corpus."""
        if opt.get("db_corpus") and not opt.get("pipeline"):
            return Pipeline({"db": LookupDb.from_dialogues(db_dialogues(opt))})
        return super().build_pipeline(opt)

    def request(self, observation: Message) -> Request:
        """One API call; there is no history.

        Raises:
            StageError: the text is neither ``APICALL: …`` nor ``APIS: …``.
        """
        text = observation.get("text") or f"{SCHEMAS} "
        prefix, content = split_prefix(text)
        if prefix == SCHEMAS:
            return Request(None, reply=f"{SCHEMAS} ")
        if prefix != API_CALL:
            raise StageError(f"{self.id} answers {API_CALL} …; got {text!r}")
        return Request(
            RequestKind.CALL, StageInput((), "", {"api_call": slots_from_parlai(content)}), self._conversation
        )

    def stages(self, kind: RequestKind) -> Mapping[str, Stage]:
        """Its stage."""
        return self.pipeline.stages

    def reply(self, kind: RequestKind, outputs: Mapping[str, Any]) -> dict[str, str]:
        """``APIRESP: …``."""
        return {"text": f"{API_RESULT} {parlai_text(outputs.get('db'))}"}
