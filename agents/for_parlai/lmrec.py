"""LMRec as a ParlAI agent, and its reviews as a task that reports hit rate and price gap.

    parlai eval_model -t tod_bias.agents:ReviewTeacher --reviews FILE -dt test -m tod_bias.agents:LMRecAgent --lmrec DIR
    parlai interactive -m tod_bias.agents:LMRecAgent --lmrec DIR

The task shows a held-out review in which the venues' names are masked; its label is the venue (Shen et al. 2022,
section 3). The agent says its first venue and ranks all (``text_candidates``), so that ParlAI's ``accuracy`` and
``hits@k`` are LMRec's accuracy and hit rates. A venue is written with its id, since names are not unique.

After the reviews the task shows Shen's templates, filled with names ("Can you recommend a restaurant for Allison?").
They have no label and count only for the price gaps: of every group one row, and in it ``price_gap_$`` to
``price_gap_$$$$``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from parlai.core.message import Message
from parlai.core.metrics import Metric
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.teachers import DialogTeacher
from parlai.utils.data import DatatypeHelper

from tod_bias.agents.conversation import Request, RequestKind
from tod_bias.agents.options import Options, add_options
from tod_bias.agents.pipeline_agent import PipelineAgent
from tod_bias.errors import RecommenderError, StageError
from tod_bias.recommenders.lmrec.model import K
from tod_bias.recommenders.lmrec.reviews import FEWEST, Reviews, read_csv
from tod_bias.recommenders.lmrec.sample import CITY, sample
from tod_bias.recommenders.lmrec.scores import neutral_shares, price_shares
from tod_bias.recommenders.lmrec.stages import ItemLookup, Recommend, VenueResponse
from tod_bias.recommenders.lmrec.templates import TemplateSet, load_templates
from tod_bias.recommenders.lmrec.venue import LEVELS, VENUES
from tod_bias.systems.pipeline import Pipeline

WRITTEN = "{name} ({id})"
"""A venue in labels, candidates and scored answers."""
SPLITS = {"train": 0, "valid": 1, "test": 2}
LABELS = "template_labels"
"""The field that holds the groups of a template's name, by dimension."""


class LMRecAgent(PipelineAgent):
    """LMRec as a pipeline: recommend → look up → response. It answers plain text with one venue and ranks all.

    The answer is the venue's name and id, which a task can score; ``parlai interactive`` gets a sentence.
    """

    options: ClassVar[Options] = {
        "--lmrec": {"default": None, "help": "folder of a trained LMRec (tod-bias recommend train)"},
        "--neutralise": {
            "type": "bool",
            "default": False,
            "help": "mask names, places and gendered relations in what the user says (Shen's test-side mask)",
        },
        "--device": {"default": None, "help": "where the model runs, e.g. cpu or cuda:0"},
    }

    def build_pipeline(self, opt: Opt) -> Pipeline:
        """Build the pipeline of a trained model.

        Raises:
            RecommenderError: ``--lmrec`` is missing, or is not a folder of a trained LMRec.
        """
        if not opt.get("lmrec"):
            raise RecommenderError("LMRecAgent: no model; give --lmrec DIR, a folder of tod-bias recommend train")
        folder = Path(opt["lmrec"])
        recommend = Recommend(folder, neutralise=bool(opt.get("neutralise")), device=opt.get("device"), top=None)
        response = VenueResponse() if opt.get("interactive_mode") else VenueResponse(template=WRITTEN, nothing="")
        return Pipeline({"recommend": recommend, "lookup": ItemLookup(folder / VENUES), "response": response})

    def reply(self, request: Request, outputs: Any) -> dict[str, Any]:
        """Return the response, and every venue in the recommended order.

        Raises:
            StageError: the task is not a recommendation.
        """
        if request.kind is not RequestKind.EXCHANGE:
            raise StageError(f"{self.id} answers plain text; use -t tod_bias.agents:ReviewTeacher")
        return {"text": outputs["response"], "text_candidates": [WRITTEN.format(**row) for row in outputs["recommend"]]}


class PriceGap(Metric):
    """A group's share of the items recommended at a price level, less its share of all priced items.

    The share is P(l | m) of Shen 2022, eq. 1; the difference is 0 if prices do not depend on the group.

    Args:
        counts: items recommended to each group at each price level, (groups, levels).
        group: row of the group.
        level: column of the price level.
    """

    __slots__ = ("_counts", "_group", "_level")

    def __init__(self, counts: np.ndarray, group: int, level: int) -> None:
        self._counts, self._group, self._level = counts, group, level

    def __add__(self, other: PriceGap | None) -> PriceGap:
        """Return the metric of the items of both."""
        return self if other is None else PriceGap(self._counts + other._counts, self._group, self._level)

    def value(self) -> float:
        """Return the gap; NaN if nothing was recommended at the level."""
        gaps = price_shares(self._counts) - neutral_shares(self._counts)
        return float(gaps[self._group, self._level])


class ReviewTeacher(DialogTeacher):
    """Reviews of one city as single turns, and after them Shen's name templates."""

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the teacher's options."""
        super().add_cmdline_args(parser, partial_opt)
        options: Options = {
            "--reviews": {"default": "sample", "help": "[CITY=]FILE, a city's review CSV, or 'sample'"},
            "--min-reviews": {"type": int, "default": FEWEST, "help": "leave out venues with fewer reviews"},
            "--missing": {"default": "keep", "choices": ("keep", "drop"), "help": "venues without price or categories"},
            "--split-seed": {"type": int, "default": 0, "help": "the seed that the model was trained with"},
        }
        add_options(parser, cls.__name__, options)
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self.id = type(self).__name__
        self._words: TemplateSet = load_templates()
        self._reviews: Reviews = _reviews(opt) if shared is None else shared["reviews"]
        self._venues = [WRITTEN.format(name=venue.name, id=venue.id) for venue in self._reviews.venues]
        self._prices = dict(zip(self._venues, (venue.price for venue in self._reviews.venues), strict=True))
        opt = Opt(opt)
        opt["datafile"] = DatatypeHelper.fold(opt["datatype"])
        self.last_act: Message | None = None
        super().__init__(opt, shared)

    def share(self) -> dict[str, Any]:
        """Return what copies of this teacher share."""
        return {**super().share(), "reviews": self._reviews}

    def label_candidates(self) -> list[str]:
        """Return all venues."""
        return self._venues

    def setup_data(self, datafile: str) -> Iterator[tuple[dict[str, Any], bool]]:
        """Yield one message per review of the split, and one per filled name template."""
        for review in self._reviews.of_split(SPLITS[datafile], self.opt["split_seed"]):
            yield {"text": review.text, "labels": [self._venues[review.venue]]}, True
        for query in self._words.queries():
            if query.kind == "names":
                yield {"text": query.text, LABELS: dict(query.labels)}, True

    def observe(self, observation: Message) -> Message:
        """Score an answer: a review's by its venue, a template's by the prices of its first venues."""
        labels = (self.last_act or {}).get(LABELS, {})
        for dimension, label in labels.items():
            self._add_prices(dimension, label, observation.get("text_candidates", [])[:K])
        scored: Message = super().observe(observation)
        return scored

    def _add_prices(self, dimension: str, label: str, venues: list[str]) -> None:
        groups = sorted({name.labels[dimension] for name in self._words.names if dimension in name.labels})
        counts = np.zeros((len(groups), len(LEVELS)))
        for price in filter(None, map(self._prices.get, venues)):
            counts[groups.index(label), price - 1] += 1
        for row, group in enumerate(groups):
            for column, level in enumerate(LEVELS):
                self.metrics.add(f"{group}/price_gap_{'$' * level}", PriceGap(counts, row, column))


def _reviews(opt: Opt) -> Reviews:
    how = {"fewest": opt["min_reviews"], "missing": opt["missing"]}
    if opt["reviews"] == "sample":
        return Reviews(sample(), city=CITY, **how)
    name, equals, file = opt["reviews"].partition("=")
    return Reviews(read_csv(file if equals else name), city=name if equals else Path(name).stem, **how)
