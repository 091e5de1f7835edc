"""A whole pipeline as one ParlAI agent.

    parlai eval_model -t google_sgd -dp DATAPATH -m tod_bias.agents:PipelineAgent --stage-model DIR -bs 16
    parlai interactive -m tod_bias.agents:PipelineAgent --pipeline demo

It answers ParlAI's system teachers line by line: ``APIS: …`` by an empty ``APIS: ``; ``USER: …`` by ``APICALL: …``
(the stages up to ``api_call``); ``APIRESP: …`` by ``SYSTEM: …`` (the stages after it); and the closing
``USER: [DONE]`` round by an empty call and an empty response, its labels in every episode. Plain text, as people type
it, runs the whole pipeline and is answered by the response alone; the reply then holds call and result too
(``--display-add-fields api_call,api_result``).

By default it gives the very responses of ``tod-bias evaluate``: the history is gold, and the response is made from
what the pipeline's *own* database finds for its own call; the teacher's ``APIRESP:`` only asks for it. Gold history is
read from the labels that ParlAI's teachers show to agents in evaluation too (``eval_labels``), as ParlAI's own agents
do by default (``--use-reply label``). ``--db teacher`` answers from the teacher's gold result instead, as ParlAI's
language-model agents do; ``--history system`` makes the agent's own outputs the history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from tod_bias.agents.command import add_option
from tod_bias.agents.conversation import Conversation, Request, Step
from tod_bias.agents.options import DB_SOURCES, add_pipeline_options, build_pipeline, check_options
from tod_bias.agents.protocol import parlai_text
from tod_bias.dialogues.text import API_CALL, SYSTEM
from tod_bias.errors import StageError
from tod_bias.systems.pipeline import STANDARD, Pipeline
from tod_bias.systems.stage import Stage, StageInput

REQUEST = "tod_bias_request"
"""The field in which an agent's copy hands its request to the agent that answers for the whole batch."""


class TodAgent(Agent):
    """Base of the agents: protocol, history and batches. Subclasses say which stages answer which step."""

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
        """Stage outputs that are taken from the teacher."""
        return ()

    def stages(self, step: Step) -> Mapping[str, Stage]:
        """The stages that answer a step, in order."""
        raise NotImplementedError

    def reply(self, step: Step, outputs: Mapping[str, Any]) -> dict[str, str]:
        """The fields of the reply to a step, ``text`` among them."""
        raise NotImplementedError

    def share(self) -> dict[str, Any]:
        """What copies of this agent share: the stages, with their models."""
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
        """What a line asks for."""
        return self._conversation.observe(observation)

    def act(self) -> Message:
        """Answer the line observed last."""
        return self.batch_act([self.observation])[0]

    def self_observe(self, reply: Message) -> None:
        """Nothing: what the stages put out has been recorded where it was asked for."""

    def batch_act(self, observations: Sequence[Message | None]) -> list[Message]:
        """Answer what the copies of this agent observed; every stage is called once a step for the whole batch."""
        requests = [(observation or {}).get(REQUEST) for observation in observations]
        replies = [Message({"id": self.id, "episode_done": False}) for _ in requests]
        for reply, request in zip(replies, requests, strict=True):
            if request is not None and request.step is None:
                reply["text"] = request.reply
        for step in Step:
            asked = [
                (reply, request)
                for reply, request in zip(replies, requests, strict=True)
                if request is not None and request.step is step
            ]
            for (reply, request), item in zip(asked, self._run(step, [request for _, request in asked]), strict=True):
                request.conversation.record(item.outputs)
                reply.update(self.reply(step, item.outputs))
        return replies

    def _run(self, step: Step, requests: Sequence[Request]) -> list[StageInput]:
        items = [request.item for request in requests if request.item is not None]
        if items and self.pipeline.flow is not None:
            if step is not Step.EXCHANGE:
                raise StageError(
                    f"{self.id}: a pipeline with a flow decides itself when it calls, so it answers whole turns (plain "
                    "text, as in `parlai interactive`); score it with `tod-bias evaluate`"
                )
            return self.pipeline(items)
        stages = self.stages(step)
        return Pipeline(stages)(items) if stages and items else items


class PipelineAgent(TodAgent):
    """A whole pipeline. See the module's text for what it answers."""

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the agent's options."""
        group = add_pipeline_options(parser, cls.__name__)
        add_option(
            group,
            "--db",
            default="own",
            choices=DB_SOURCES,
            help="answer from what the pipeline's own database finds for its own API call (as `tod-bias evaluate`), "
            "or from the teacher's gold API result",
        )
        return parser

    @property
    def from_teacher(self) -> tuple[str, ...]:
        """``db`` with ``--db teacher``."""
        return ("db",) if self.opt.get("db") == "teacher" else ()

    def stages(self, step: Step) -> Mapping[str, Stage]:
        """Up to ``api_call`` for the call, the rest for the response."""
        names = self.pipeline.names
        first = names.index("api_call") + 1 if "api_call" in names else 0
        if step is Step.EXCHANGE:
            return self.pipeline.stages
        chosen = names[:first] if step is Step.CALL else names[first:]
        return {name: self.pipeline.stages[name] for name in chosen if name not in self.from_teacher}

    def reply(self, step: Step, outputs: Mapping[str, Any]) -> dict[str, str]:
        """``APICALL: …``, ``SYSTEM: …``, or the plain response."""
        call = parlai_text(outputs.get("api_call"))
        if step is Step.CALL:
            return {"text": f"{API_CALL} {call}"}
        last = list(outputs)[-1] if self.pipeline.flow is not None else self.pipeline.names[-1]
        said = parlai_text(outputs.get(last))
        if step is Step.RESPONSE:
            return {"text": f"{SYSTEM} {said}"}
        return {"text": said, "api_call": call, "api_result": parlai_text(outputs.get("db"))}
