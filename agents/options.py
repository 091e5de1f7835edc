"""Command-line options of the agents, and the pipeline that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import parlai.utils.logging as parlai_logging
from parlai.core.loader import load_teacher_module
from parlai.core.params import ParlaiParser
from parlai.utils.data import DatatypeHelper

from tod_bias.agents.command import add_option, end_with_one_line
from tod_bias.arms import HISTORY_MODES
from tod_bias.configuration import load_pipeline
from tod_bias.corpus import CORPORA, load_corpus
from tod_bias.dialogue import Dialogue
from tod_bias.errors import StageError
from tod_bias.pipeline import Pipeline

DB_SOURCES = ("own", "teacher")
"""Whose API results are answered from: the pipeline's own database, or the (gold) ones of the teacher."""


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
    add_option(group, "--device", default=None, help="where --stage-model runs, e.g. cpu or cuda:0")
    add_option(
        group,
        "--history",
        default="gold",
        choices=HISTORY_MODES,
        help="the turns before: the teacher's labels (gold, as in `tod-bias evaluate`) or the agent's own outputs "
        "(system); what people type has no gold",
    )
    return group


def build_pipeline(opt: Mapping[str, Any], *, needs_db: bool = True) -> Pipeline:
    """The pipeline that the options describe.

    Raises:
        TodBiasError: it cannot be built.
    """
    model = opt.get("stage_model")
    call, response = opt.get("api_call_model") or model, opt.get("response_model") or model
    spec = opt.get("pipeline")
    if not (call or response):
        return load_pipeline(spec or "demo")
    if spec:
        raise StageError("give either --pipeline or --stage-model, not both")
    if not (call and response):
        raise StageError(f"add {'--response-model' if call else '--api-call-model'}, or give --stage-model for both")
    return load_pipeline(
        dialogues=_db_dialogues(opt) if needs_db else (),
        api_call_model=call,
        response_model=response,
        device=opt.get("device"),
    )


def _db_dialogues(opt: Mapping[str, Any]) -> list[Dialogue]:
    corpus = opt.get("db_corpus") or _corpus_of_task(opt.get("task") or "")
    if corpus is None:
        parlai_logging.warning("the database is empty (no --db-corpus): every API call will find nothing")
        return []
    fold = DatatypeHelper.fold(opt.get("datatype") or "valid")
    return load_corpus(corpus, datapath=opt.get("datapath"), split=fold)


def _corpus_of_task(task: str) -> str | None:
    """The corpus of a ParlAI task: its own name, or what its teacher says."""
    name = task.split(":")[0]
    if name in CORPORA:
        return name
    if "." not in name:
        return None
    return getattr(load_teacher_module(task), "corpus", None)
