"""Command-line options of the agents, and the pipeline that they describe."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any

import parlai.utils.logging as parlai_logging
from parlai.core.loader import load_teacher_module
from parlai.core.params import ParlaiParser
from parlai.utils.data import DatatypeHelper

from tod_bias.dialogues.corpora import CORPORA, corpus_of_task, load_corpus
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.dialogues.parlai_episodes import is_task_oriented
from tod_bias.errors import AxisError, StageError, TodBiasError
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.guard import MODES, with_guards
from tod_bias.perturb.loading import load_axis
from tod_bias.pipelines import load_pipeline
from tod_bias.systems.execution import HISTORY_MODES
from tod_bias.systems.pipeline import STANDARD, Pipeline
from tod_bias.systems.stages.database import LookupDb

Options = Mapping[str, Mapping[str, Any]]
"""Names of options to what ``argparse`` takes for each."""

PIPELINE_OPTIONS: Options = {
    "--pipeline": {"default": None, "help": "'demo' (the default) or a pipeline's YAML file"},
    "--stage-model": {
        "default": None,
        "help": "folder of a trained stage model for both language-model stages, instead of --pipeline",
    },
    "--api-call-model": {"default": None, "help": "folder of the API-call model, instead of --stage-model"},
    "--response-model": {"default": None, "help": "folder of the response model, instead of --stage-model"},
    "--db-corpus": {
        "default": None,
        "help": "with --stage-model: the corpus whose calls and results are the database "
        f"({', '.join(CORPORA)} or a .jsonl file); by default the one of --task",
    },
    "--guard": {
        "default": None,
        "help": "guards of stages, STAGE=GUARD:AXES with semicolons between them: response=canonical:gender,age "
        f"({', '.join(MODES)})",
    },
    "--device": {"default": None, "help": "where --stage-model runs, e.g. cpu or cuda:0"},
    "--max-new-tokens": {"type": int, "default": 128, "help": "most tokens per text of --stage-model"},
    "--history": {
        "default": "gold",
        "choices": HISTORY_MODES,
        "help": "the turns before: the teacher's labels (gold, as in `tod-bias evaluate`) or the agent's outputs "
        "(system); typed lines have no gold",
    },
    "--db": {
        "default": "pipeline",
        "choices": ("pipeline", "teacher"),
        "help": "answer from what the pipeline's database finds for its API call (as `tod-bias evaluate`), or from "
        "the teacher's gold API result",
    },
}
AXIS_OPTIONS: Options = {
    "--axis": {
        "default": "gender",
        "help": "gender, age, race, placebo or another shipped axis; a×b crosses two, FILE.yaml is an axis file",
    },
    "--source": {"default": None, "help": "rewrite mentions of this group only"},
    "--target": {"default": None, "help": "rewrite for this group only"},
    "--seed": {"type": int, "default": 0, "help": "seed of all that is drawn"},
}
DRAW_OPTIONS: Options = {
    **AXIS_OPTIONS,
    "--draw": {"type": int, "default": 0, "help": "which of Algorithm 1's draws, from 0"},
}


def add_options(parser: ParlaiParser, title: str, options: Options) -> None:
    """Add a group of options; an option of the ParlAI script (``train_model --seed``) is kept, because ParlAI's parser
    would replace it.

    From now on an uncaught :class:`TodBiasError` ends the command with one line.
    """
    _end_with_message()
    group: Any = parser.add_argument_group(f"tod-bias {title}")
    for name, arguments in options.items():
        if name not in group._option_string_actions:  # argparse has no public way to look
            group.add_argument(name, **arguments)


def _end_with_message() -> None:
    """Let an uncaught :class:`TodBiasError` end a ParlAI command as it ends ours: its line, exit code 2.

    ParlAI's scripts let every exception through, so that a wrong path would end in a traceback. Called when a command
    adds our options, never on import; an interactive interpreter is left alone.
    """
    is_set = isinstance(sys.excepthook, functools.partial) and sys.excepthook.func is _end
    if not is_set and not hasattr(sys, "ps1"):
        sys.excepthook = functools.partial(_end, sys.excepthook)


def _end(
    before: Callable[..., Any], kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if isinstance(error, TodBiasError):
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2)
    before(kind, error, trace)


def axis_of(opt: Mapping[str, Any]) -> Axis:
    """The axis that the options describe.

    Raises:
        AxisError: an unknown axis or group, or a negative draw.
    """
    if (opt.get("draw") or 0) < 0:
        raise AxisError(f"--draw must be 0 or more, got {opt['draw']}")
    sources, targets = ([opt[name]] if opt.get(name) is not None else None for name in ("source", "target"))
    return load_axis(opt.get("axis") or "gender", sources=sources, targets=targets)


def check_options(opt: Mapping[str, Any], agent: str) -> None:
    """Refuse options that ParlAI accepts and that no agent of tod-bias supports.

    Args:
        opt: ParlAI's options.
        agent: its name, for the message.

    Raises:
        StageError: the agent is to be trained, or a batch size or a number of tokens is below 1.
    """
    if "validation_patience" in opt:  # train_model would never end
        raise StageError(f"{agent} cannot be trained; train its models with tod-bias train")
    for name in ("batchsize", "max_new_tokens"):
        if opt.get(name) is not None and opt[name] < 1:
            raise StageError(f"--{name.replace('_', '-')} is {opt[name]}; expected a whole number of at least 1")


def build_pipeline(opt: Mapping[str, Any], needed: Collection[str] = STANDARD) -> Pipeline:
    """Build the pipeline that the options describe.

    Args:
        opt: ParlAI's options.
        needed: stages of the standard pipeline that the agent calls; the others may lack their model or corpus.

    Raises:
        TodBiasError: the pipeline cannot be built.
    """
    if set(needed) == {"db"} and not opt.get("pipeline"):
        pipeline = Pipeline({"db": LookupDb.from_dialogues(_db_dialogues(opt))})
    else:
        pipeline = _unguarded(opt, needed)
    return with_guards(pipeline, _guards(opt["guard"])) if opt.get("guard") else pipeline


def _guards(text: str) -> dict[str, tuple[str, str]]:
    """Return stage to mode and axes, as --guard names them."""
    guards = {}
    for part in text.split(";"):
        name, equals, what = part.partition("=")
        mode, colon, axes = what.partition(":")
        if not (equals and colon and name.strip() and axes.strip()):
            raise StageError(
                f"guard {part.strip()!r}: expected STAGE=GUARD:AXES, such as response=canonical:gender,age "
                f"(guards: {', '.join(MODES)}), several joined by semicolons"
            )
        guards[name.strip()] = (mode.strip(), axes)
    return guards


def _unguarded(opt: Mapping[str, Any], needed: Collection[str]) -> Pipeline:
    model = opt.get("stage_model")
    call, response = opt.get("api_call_model") or model, opt.get("response_model") or model
    spec = opt.get("pipeline")
    if not (call or response):
        if opt.get("db_corpus"):
            raise StageError("--db-corpus goes with --stage-model; a pipeline has its own database")
        return load_pipeline(spec or "demo")
    if spec:
        raise StageError("give either --pipeline or --stage-model, not both")
    for stage, name, given in (("api_call", "--api-call-model", call), ("response", "--response-model", response)):
        if stage in needed and not given:
            raise StageError(f"add {name}, or give --stage-model for both")
    return load_pipeline(
        dialogues=_db_dialogues(opt) if "db" in needed else (),
        api_call_model=call or response,
        response_model=response or call,
        device=opt.get("device"),
        generation={"max_new_tokens": opt["max_new_tokens"]} if opt.get("max_new_tokens") is not None else {},
    )


def _db_dialogues(opt: Mapping[str, Any]) -> list[Dialogue]:
    """The corpus whose calls and results make the database: ``--db-corpus``, or those of the tasks."""
    tasks = (opt.get("task") or "").split(",")
    corpora = [opt["db_corpus"]] if opt.get("db_corpus") else list(dict.fromkeys(filter(None, map(_corpus_of, tasks))))
    if not corpora:
        parlai_logging.warning("the database is empty (no --db-corpus): every API call will find nothing")
    fold = DatatypeHelper.fold(opt.get("datatype") or "valid")
    return [
        dialogue for corpus in corpora for dialogue in load_corpus(corpus, datapath=opt.get("datapath"), split=fold)
    ]


def _corpus_of(task: str) -> str | None:
    """Return the corpus of a ParlAI task, by its own name or as its teacher says; None if it is not task-oriented."""
    name = task.split(":")[0]
    if "." in name:
        name = getattr(load_teacher_module(task), "corpus", "")
    return corpus_of_task(name) if name in CORPORA or is_task_oriented(name) else None
