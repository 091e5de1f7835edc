"""Command-line options of the agents, and the pipeline that they describe."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, get_args

import parlai.utils.logging as parlai_logging
from parlai.core.loader import load_teacher_module
from parlai.core.params import ParlaiParser
from parlai.utils.data import DatatypeHelper

from tod_bias.agents.command import add_option, end_with_one_line
from tod_bias.dialogues.corpora import CORPORA, load_corpus
from tod_bias.dialogues.dialogue import Dialogue
from tod_bias.errors import AxisError, StageError
from tod_bias.models.settings import Backend, Dtype
from tod_bias.perturb.axis import Axis
from tod_bias.perturb.guards.guard import GUARDS, with_guards
from tod_bias.perturb.loading import load_axis
from tod_bias.pipelines import load_pipeline
from tod_bias.systems.execution import HISTORY_MODES
from tod_bias.systems.pipeline import STANDARD, Pipeline

DB_SOURCES = ("pipeline", "teacher")
"""Where the API results behind a response come from: the pipeline's database, or the teacher (gold results)."""

_GENERATION = ("num_beams", "max_new_tokens", "dtype", "backend")


def add_pipeline_options(parser: ParlaiParser, agent: str) -> Any:
    """Add the options that describe a pipeline; returns their group."""
    end_with_one_line()
    group = parser.add_argument_group(f"tod-bias {agent}")
    add_option(group, "--pipeline", default=None, help="'demo' (the default) or a pipeline's YAML file")
    add_option(
        group,
        "--stage-model",
        default=None,
        help="folder of a trained stage model for both language-model stages, instead of --pipeline",
    )
    add_option(group, "--api-call-model", default=None, help="folder of the API-call model, instead of --stage-model")
    add_option(group, "--response-model", default=None, help="folder of the response model, instead of --stage-model")
    add_option(
        group,
        "--db-corpus",
        default=None,
        help="with --stage-model: the corpus whose calls and results are the database "
        f"({', '.join(CORPORA)} or a .jsonl file); by default the one of --task",
    )
    add_option(
        group,
        "--guard",
        default=None,
        help="guards of stages, STAGE=GUARD:AXES with semicolons between them: response=canonical:gender,age "
        f"({', '.join(GUARDS)})",
    )
    add_option(group, "--device", default=None, help="where --stage-model runs, e.g. cpu or cuda:0")
    add_option(group, "--num-beams", type=int, default=1, help="beams of --stage-model; 1 is greedy")
    add_option(group, "--max-new-tokens", type=int, default=128, help="most tokens per text of --stage-model")
    add_option(
        group,
        "--dtype",
        default="auto",
        choices=get_args(Dtype),
        help="precision of --stage-model; auto is bfloat16 where a GPU has it",
    )
    add_option(
        group, "--backend", default="auto", choices=get_args(Backend), help="library that decodes with --stage-model"
    )
    add_option(
        group,
        "--history",
        default="gold",
        choices=HISTORY_MODES,
        help="the turns before: the teacher's labels (gold, as in `tod-bias evaluate`) or the agent's own outputs "
        "(system); typed lines have no gold",
    )
    return group


def add_perturbation_options(parser: ParlaiParser) -> Any:
    """Add the options that describe a perturbation; returns their group."""
    group = parser.add_argument_group("tod-bias perturbation")
    add_option(group, "--axis", default="gender", help="gender, age, race, placebo or another shipped axis")
    add_option(group, "--source", default=None, help="rewrite mentions of this group only")
    add_option(group, "--target", default=None, help="rewrite for this group only")
    add_option(group, "--draw", type=int, default=0, help="which of Algorithm 1's draws, from 0")
    add_option(group, "--seed", type=int, default=0, help="seed of the draws")
    return group


def add_fairscore_options(parser: ParlaiParser, metrics: str) -> Any:
    """Add the options of the counterfactuals and of their scores; returns their group.

    Args:
        metrics: the default of ``--bias-metrics``.
    """
    group = parser.add_argument_group("tod-bias fairscore")
    add_option(group, "--axis", default="gender", help="gender, age, race, placebo or another axis; a×b crosses two")
    add_option(group, "--source", default=None, help="rewrite mentions of this group only")
    add_option(group, "--target", default=None, help="rewrite for this group only")
    add_option(group, "--seed", type=int, default=0, help="seed of the counterfactuals")
    add_option(
        group,
        "--design",
        default="crossed",
        choices=("crossed", "draws"),
        help="every dialogue rewritten once for every group, or Su's random draws (Algorithm 1)",
    )
    add_option(group, "--draws", type=int, default=3, help="counterfactuals per dialogue, for --design draws")
    add_option(group, "--variants", type=int, default=None, help="most counterfactuals per dialogue; by default all")
    add_option(group, "--max-per-axis", type=int, default=None, help="most dialogues to rewrite, drawn by seed")
    add_option(group, "--bias-metrics", default=metrics, help="scores of the counterfactuals, joined by commas")
    add_option(
        group,
        "--unperturbed",
        default="keep",
        choices=("keep", "drop"),
        help="dialogues that cannot be rewritten: shown for ParlAI's own metrics alone, or not at all",
    )
    return group


def axis_of(opt: Mapping[str, Any]) -> Axis:
    """The axis that the options describe.

    Raises:
        AxisError: an unknown axis or group, or a negative draw.
    """
    if (opt.get("draw") or 0) < 0:
        raise AxisError(f"--draw must be 0 or more, got {opt['draw']}")
    return load_axis(opt.get("axis") or "gender", sources=_only(opt.get("source")), targets=_only(opt.get("target")))


def _only(group: str | None) -> list[str] | None:
    return None if group is None else [group]


def check_options(opt: Mapping[str, Any], agent: str) -> None:
    """Refuse options that ParlAI accepts and that no agent of tod-bias supports.

    Args:
        opt: ParlAI's options.
        agent: its name, for the message.

    Raises:
        StageError: the agent is to be trained, or a batch size, a number of beams or of tokens is below 1.
    """
    if "validation_patience" in opt:  # train_model would never end
        raise StageError(f"{agent} cannot be trained; train its models with tod-bias train")
    for name in ("batchsize", "num_beams", "max_new_tokens"):
        if opt.get(name) is not None and opt[name] < 1:
            raise StageError(f"--{name.replace('_', '-')} is {opt[name]}; expected a whole number of at least 1")


def build_pipeline(opt: Mapping[str, Any], needed: Collection[str] = STANDARD) -> Pipeline:
    """The pipeline that the options describe.

    Args:
        needed: stages of the standard pipeline that the agent uses; the others may lack their model or corpus.

    Raises:
        TodBiasError: it cannot be built.
    """
    pipeline = _unguarded(opt, needed)
    return with_guards(pipeline, opt["guard"]) if opt.get("guard") else pipeline


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
        dialogues=db_dialogues(opt) if "db" in needed else (),
        api_call_model=call or response,
        response_model=response or call,
        device=opt.get("device"),
        generation={name: opt[name] for name in _GENERATION if opt.get(name) is not None},
    )


def db_dialogues(opt: Mapping[str, Any]) -> list[Dialogue]:
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
    """The corpus of a ParlAI task, by its own name or as its teacher says; None where it is not one of ours."""
    name = task.split(":")[0]
    if "." in name:
        name = getattr(load_teacher_module(task), "corpus", "")
    return name if name in CORPORA else None
