"""A whole pipeline as a ParlAI agent.

    parlai eval_model -t google_sgd -dp DATAPATH -m tod_bias.agents:PipelineAgent --stage-model DIR -bs 16
    parlai interactive -m tod_bias.agents:PipelineAgent --pipeline demo

It answers ParlAI's system teachers line by line: ``APIS: …`` by an empty ``APIS: ``; ``USER: …`` by ``APICALL: …``
(the stages up to ``api_call``); ``APIRESP: …`` by ``SYSTEM: …`` (the stages after it); and the closing
``USER: [DONE]`` round by an empty call and an empty response, its labels in every episode. Plain text, as people type
it, runs the whole pipeline and is answered by the response alone; the reply then holds call and result too
(``--display-add-fields api_call,api_result``).

By default it gives the very responses of ``tod-bias evaluate``: the history is gold, and the response is made from
what the pipeline's *own* database finds for its own call; the teacher's ``APIRESP:`` only requests it. Gold history is
read from the labels that ParlAI's teachers show to agents in evaluation too (``eval_labels``), as ParlAI's own agents
do by default (``--use-reply label``). ``--db teacher`` answers from the teacher's gold result instead, as ParlAI's
language-model agents do; ``--history system`` makes the agent's outputs the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from tod_bias.agents.conversation import Conversation, Request, RequestKind
from tod_bias.agents.options import PIPELINE_OPTIONS, Options, add_options, build_pipeline, check_options
from tod_bias.agents.protocol import parlai_text
from tod_bias.dialogues.text import API_CALL, SYSTEM
from tod_bias.errors import StageError
from tod_bias.systems.pipeline import STANDARD, Pipeline
from tod_bias.systems.stage import Stage, StageInput

REQUEST = "tod_bias_request"
"""The field in which an agent's copy hands its request to the agent that answers for the whole batch."""


class PipelineAgent(Agent):
    """A whole pipeline. See the module's text for what it answers."""

    options: ClassVar[Options] = PIPELINE_OPTIONS

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the agent's options."""
        add_options(parser, cls.__name__, cls.options)
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self.id = type(self).__name__
        super().__init__(opt, shared)
        check_options(opt, self.id)
        self.pipeline: Pipeline = shared["pipeline"] if shared else self.build_pipeline(opt)
        self._conversation = Conversation(
            self.id,
            opt.get("history", "gold"),
            from_teacher=self.from_teacher,
            whole_turns=bool(opt.get("interactive_mode", False)),
        )

    def build_pipeline(self, opt: Opt) -> Pipeline:
        """The pipeline that the options describe; override it to answer with another one."""
        return build_pipeline(opt, set(STANDARD) - set(self.from_teacher))

    @property
    def from_teacher(self) -> tuple[str, ...]:
        """Stages whose output is the teacher's gold call or result."""
        return ("db",) if self.opt.get("db") == "teacher" else ()

    def share(self) -> dict[str, Any]:
        """Return the state that copies of this agent share: the stages, with their models."""
        return {**super().share(), "pipeline": self.pipeline}

    def reset(self) -> None:
        """Forget the dialogue."""
        super().reset()
        self._conversation.restart()

    def observe(self, observation: Message) -> Message:
        """Take in a line of the dialogue."""
        observation = Message(observation)
        if not observation.is_padding():
            observation.force_set(REQUEST, self.request(observation))
        self.observation = observation
        return observation

    def request(self, observation: Message) -> Request:
        """Return what a line requests of the stages."""
        return self._conversation.observe(observation)

    def act(self) -> Message:
        """Answer the line observed last."""
        return self.batch_act([self.observation])[0]

    def self_observe(self, reply: Message) -> None:
        """Nothing: the outputs of the stages are recorded when they are made."""

    def batch_act(self, observations: Sequence[Message | None]) -> list[Message]:
        """Reply to what the copies of this agent observed; a stage is called once per kind of request for all."""
        requests = [(observation or {}).get(REQUEST) for observation in observations]
        replies = [Message({"id": self.id, "episode_done": False}) for _ in requests]
        for reply, request in zip(replies, requests, strict=True):
            if request is not None and request.kind is None:
                reply["text"] = request.reply
        for kind in RequestKind:
            pending = [
                (reply, request)
                for reply, request in zip(replies, requests, strict=True)
                if request is not None and request.kind is kind
            ]
            for (reply, request), item in zip(
                pending, self._run(kind, [request for _, request in pending]), strict=True
            ):
                if request.conversation is not None:
                    request.conversation.record(item.outputs)
                reply.update(self.reply(request, item.outputs))
        return replies

    def _run(self, kind: RequestKind, requests: Sequence[Request]) -> list[StageInput]:
        items = [request.item for request in requests if request.item is not None]
        if items and self.pipeline.flow is not None:
            if kind is not RequestKind.EXCHANGE:
                raise StageError(
                    f"{self.id}: a pipeline with a flow decides itself when it calls, so it replies to whole turns "
                    "(plain text, as in `parlai interactive`); score it with `tod-bias evaluate`"
                )
            return self.pipeline(items)
        stages = self.stages(kind)
        return Pipeline(stages)(items) if stages and items else items

    def stages(self, kind: RequestKind) -> Mapping[str, Stage]:
        """Return the stages of a request: up to ``api_call`` for the call, the others for the response."""
        names = self.pipeline.names
        first = names.index("api_call") + 1 if "api_call" in names else 0
        if kind is RequestKind.EXCHANGE:
            return self.pipeline.stages
        chosen = names[:first] if kind is RequestKind.CALL else names[first:]
        return {name: self.pipeline.stages[name] for name in chosen if name not in self.from_teacher}

    def reply(self, request: Request, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a reply: ``text`` is ``APICALL: …``, ``SYSTEM: …``, or the plain response."""
        kind, call = request.kind, parlai_text(outputs.get("api_call"))
        if kind is RequestKind.CALL:
            return {"text": f"{API_CALL} {call}"}
        last = list(outputs)[-1] if self.pipeline.flow is not None else self.pipeline.names[-1]
        response = parlai_text(outputs.get(last))
        if kind is RequestKind.RESPONSE:
            return {"text": f"{SYSTEM} {response}"}
        return {"text": response, "api_call": call, "api_result": parlai_text(outputs.get("db"))}
