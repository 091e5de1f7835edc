"""LMRec as a ParlAI agent, and its reviews as a teacher.

    parlai eval_model -t tod_bias.agents:ReviewTeacher -m tod_bias.agents:LMRecAgent --lmrec DIR -bs 64
    parlai interactive -m tod_bias.agents:LMRecAgent --lmrec DIR

The teacher shows a review whose venue names are masked; the label is the venue. The agent answers with its first
venue, and ranks all of them (``text_candidates``), so that ParlAI's ``accuracy`` and ``hits@k`` are LMRec's accuracy
and hit rates. A venue is written as its name and id, since names are not unique.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.teachers import DialogTeacher
from parlai.utils.data import DatatypeHelper

from tod_bias.agents.options import Options, add_options, check_options
from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.masking import Neutraliser
from tod_bias.recommenders.lmrec.model import LMRec
from tod_bias.recommenders.lmrec.reviews import Reviews, read_csv
from tod_bias.recommenders.lmrec.sample import CITY, sample
from tod_bias.recommenders.lmrec.venue import Venue

_AGENT_OPTIONS: Options = {
    "--lmrec": {"default": None, "help": "folder of a trained LMRec (tod-bias recommend train)"},
    "--neutralise": {
        "type": "bool",
        "default": False,
        "help": "mask names, places and gendered relations in utterances (test-side neutralisation)",
    },
    "--device": {"default": None, "help": "where the model runs, e.g. cpu or cuda:0"},
}
_TEACHER_OPTIONS: Options = {
    "--reviews": {"default": "sample", "help": "[CITY=]FILE, a city's review CSV, or 'sample'"},
    "--min-reviews": {"type": int, "default": 100, "help": "leave out venues with fewer reviews"},
    "--missing": {"default": "keep", "choices": ("keep", "drop"), "help": "venues without price or categories"},
    "--split-seed": {"type": int, "default": 0, "help": "the seed that the model was trained with"},
}
SPLITS = {"train": 0, "valid": 1, "test": 2}


def written(venue: Venue) -> str:
    """A venue as the teacher's labels and the agent's answers write it."""
    return f"{venue.name} ({venue.id})"


class LMRecAgent(Agent):
    """Answers an utterance with a venue and a ranking of all venues."""

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the agent's options."""
        add_options(parser, "LMRecAgent", _AGENT_OPTIONS)
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self.id = type(self).__name__
        super().__init__(opt, shared)
        check_options(opt, self.id)
        if shared:
            self.lmrec: LMRec = shared["lmrec"]
            self._written: list[str] = shared["written"]
            self._hide: Neutraliser | None = shared["hide"]
            return
        if not opt.get("lmrec"):
            raise RecommenderError("LMRecAgent: no model; give --lmrec DIR, a folder of tod-bias recommend train")
        self.lmrec = LMRec.load(opt["lmrec"], device=opt.get("device"))
        self._hide = Neutraliser() if opt.get("neutralise") else None
        self._written = [written(venue) for venue in self.lmrec.venues]

    def share(self) -> dict[str, Any]:
        """What copies of this agent share: the model."""
        return {**super().share(), "lmrec": self.lmrec, "written": self._written, "hide": self._hide}

    def act(self) -> Message:
        """Answer the utterance observed last."""
        return self.batch_act([self.observation])[0]

    def batch_act(self, observations: Sequence[Message | None]) -> list[Message]:
        """Answer what the copies of this agent observed, together."""
        requests = [
            number for number, seen in enumerate(observations) if seen and seen.get("text") and not _is_padding(seen)
        ]
        replies = [Message({"id": self.id, "episode_done": False}) for _ in observations]
        texts = [str((observations[number] or {})["text"]) for number in requests]
        texts = [self._hide(text) if self._hide else text for text in texts]
        for number, row in zip(requests, self.lmrec.rank(texts, len(self._written)), strict=True):
            ranked = [self._written[index] for index in row]
            replies[number]["text"] = ranked[0]
            replies[number]["text_candidates"] = ranked
        return replies


def _is_padding(seen: Message) -> bool:
    return bool(isinstance(seen, Message) and seen.is_padding())


class ReviewTeacher(DialogTeacher):
    """Reviews of one city as single turns: the masked review, and its venue as the label."""

    @classmethod
    def add_cmdline_args(cls, parser: ParlaiParser, partial_opt: Opt | None = None) -> ParlaiParser:
        """Add the teacher's options."""
        super().add_cmdline_args(parser, partial_opt)
        add_options(parser, "ReviewTeacher", _TEACHER_OPTIONS)
        return parser

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None) -> None:
        self.id = type(self).__name__
        if shared is None:
            name, equals, file = opt["reviews"].partition("=")
            path = Path(file if equals else name)
            source = sample() if opt["reviews"] == "sample" else read_csv(path)
            city = CITY if opt["reviews"] == "sample" else name if equals else path.stem
            self._reviews = Reviews(source, city=city, fewest=opt["min_reviews"], missing=opt["missing"])
            self._venues = [written(venue) for venue in self._reviews.venues]
        else:
            self._venues = shared["venues"]
        opt = Opt(opt)
        opt["datafile"] = DatatypeHelper.fold(opt["datatype"])
        super().__init__(opt, shared)

    def share(self) -> dict[str, Any]:
        """What copies of this teacher share."""
        return {**super().share(), "venues": self._venues}

    def label_candidates(self) -> list[str]:
        """All venues."""
        return self._venues

    def setup_data(self, datafile: str) -> Iterator[tuple[dict[str, Any], bool]]:
        """One example per review of the split."""
        for review in self._reviews.of_split(SPLITS[datafile], self.opt["split_seed"]):
            yield {"text": review.text, "labels": [self._venues[review.venue]]}, True
