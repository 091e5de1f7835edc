"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tod_bias.config import DEFAULT_AXES
from tod_bias.statistics.needed import MOST_RESAMPLES


class Split(StrEnum):
    """Splits of a corpus."""

    train = "train"
    valid = "valid"
    test = "test"


class History(StrEnum):
    """Whose turns make the history."""

    gold = "gold"
    system = "system"


class Design(StrEnum):
    """How dialogues are told otherwise."""

    crossed = "crossed"
    draws = "draws"


class Format(StrEnum):
    """Forms in which dialogues are trained on."""

    text = "text"
    chat = "chat"


DIALOGUES, TELLINGS, SYSTEM, STATISTICS = "Dialogues", "Tellings", "System", "Statistics"
ANSWERS = "Answers from elsewhere"
"""Headings of ``--help``."""

Corpus = Annotated[
    str,
    typer.Option(
        help="A corpus's name, a .jsonl or .json file of dialogues or chats or a folder of them, or module:function.",
        rich_help_panel=DIALOGUES,
    ),
]
Datapath = Annotated[
    Path | None, typer.Option(help="Folder that holds the corpora, in ParlAI's layout.", rich_help_panel=DIALOGUES)
]
SplitOption = Annotated[Split, typer.Option(help="Which split of the corpus.", rich_help_panel=DIALOGUES)]
MaxDialogues = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Take so many dialogues at the most: a seeded sample, every domain its share. It is drawn before words "
        "are looked for, so fewer are rewritten.",
        rich_help_panel=DIALOGUES,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seeds everything that is drawn.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the results; by default runs/CORPUS.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no table.")]
PipelineOption = Annotated[str | None, typer.Option(help="'demo' or a pipeline file (.yaml).", rich_help_panel=SYSTEM)]
Model = Annotated[str | None, typer.Option(help="Checkpoint of both language-model stages.", rich_help_panel=SYSTEM)]
CallModel = Annotated[str | None, typer.Option(help="Checkpoint of the API-call stage.", rich_help_panel=SYSTEM)]
ResponseModel = Annotated[str | None, typer.Option(help="Checkpoint of the response stage.", rich_help_panel=SYSTEM)]
Resume = Annotated[bool, typer.Option(help="Use what an earlier run in the same folder generated.")]
AXES = ",".join(DEFAULT_AXES)
"""The axes that are audited where none are named."""
Axes = Annotated[str, typer.Option(help="Axes, joined by commas; your own as module:name.", rich_help_panel=TELLINGS)]
DesignOption = Annotated[
    Design,
    typer.Option(
        help="crossed: every dialogue once as every attribute; draws: Su's random draws.", rich_help_panel=TELLINGS
    ),
]
Draws = Annotated[
    int,
    typer.Option(
        min=1, help="Rewrites drawn a dialogue (Su, Algorithm 1), with --design draws.", rich_help_panel=TELLINGS
    ),
]
MaxPerAxis = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Rewrite so many dialogues an axis at most, of those that can be; the placebo those of the other axes.",
        rich_help_panel=TELLINGS,
    ),
]
MaxFailures = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        help="Share of a component's questions that may stay without an answer.",
        rich_help_panel=SYSTEM,
    ),
]
Tellings = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Rewritten tellings a dialogue and axis, dealt out; else each other attribute once.",
        rich_help_panel=TELLINGS,
    ),
]
Introductions = Annotated[
    str | None,
    typer.Option(
        help="Kinds of introductions of the axes persona_…, by commas: name, title, statement …; else all.",
        rich_help_panel=TELLINGS,
    ),
]
HistoryOption = Annotated[
    History, typer.Option(help="gold: teacher-forced; system: the system's own turns.", rich_help_panel=SYSTEM)
]
Bootstrap = Annotated[
    int,
    typer.Option(
        min=0, max=MOST_RESAMPLES, help="Resamples for the intervals; 0 for none.", rich_help_panel=STATISTICS
    ),
]
Device = Annotated[
    str | None, typer.Option(help="Where models given with --model run, e.g. cpu or cuda:0.", rich_help_panel=SYSTEM)
]
Beams = Annotated[
    int | None,
    typer.Option(min=1, help="Beams of models given with --model; by default 1, greedy.", rich_help_panel=SYSTEM),
]
NewTokens = Annotated[
    int | None,
    typer.Option(
        min=1, help="Tokens a text at the most, for models given with --model; by default 128.", rich_help_panel=SYSTEM
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(help="auto (by default), float32 or bfloat16, for models given with --model.", rich_help_panel=SYSTEM),
]
BackEnd = Annotated[
    str | None,
    typer.Option(help="auto (by default), tree or batch, for models given with --model.", rich_help_panel=SYSTEM),
]
PerturberOption = Annotated[
    str | None,
    typer.Option(
        help="Checkpoint of a neural perturber (Qian's format); by default lexicons rewrite.", rich_help_panel=TELLINGS
    ),
]
Protect = Annotated[
    list[str] | None,
    typer.Option(help="A phrase that is no mention and stays; may be repeated.", rich_help_panel=TELLINGS),
]
NameSlots = Annotated[
    Path | None,
    typer.Option(
        "--name-slots",
        help="A file of slots that hold people's names (perturb/README.md, Names).",
        rich_help_panel=TELLINGS,
    ),
]
AxisLexicons = Annotated[
    list[str] | None,
    typer.Option(
        "--lexicon",
        metavar="AXIS=FILE",
        help="A lexicon for one of the axes, e.g. one of your own.",
        rich_help_panel=TELLINGS,
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        help="What else dialogues share: domain or module:function, joined by commas.", rich_help_panel=STATISTICS
    ),
]
