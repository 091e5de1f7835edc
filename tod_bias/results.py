"""Results of an audit: the types of ``results.json``, which is written and read only here.

Values are positive where a group is served worse, whatever the metric's direction. What was not computed is None.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
    model_serializer,
)

from tod_bias.config import CONFIG_FILE, AuditConfig
from tod_bias.dialogues.text import well_formed
from tod_bias.errors import TodBiasError, invalid
from tod_bias.io.documents import read_json
from tod_bias.io.files import check_plain_file, replacing, write_text
from tod_bias.io.folder import held
from tod_bias.metrics.choice import known_metric
from tod_bias.metrics.metric import Metric
from tod_bias.statistics.arms import MOST_PLAYERS, MOST_STAGES, PAIRS, ArmDesign
from tod_bias.statistics.needed import ENOUGH_TERMS, FEWEST_CLUSTERS, MOST_OF_A_TERM

if TYPE_CHECKING:
    import pandas as pd
    from fairlearn.metrics import MetricFrame

SCHEMA = 3
"""Version of ``results.json``."""
RESULTS, TURNS, VARIANTS = "results.json", "turns.parquet", "variants.parquet"
"""Names of a run's files."""
VARIANT_KEY = ["axis", "dialogue", "variant"]
"""Columns that join the turns of a run and its counterfactuals."""

DISPARITY: Final = "disparity"
"""A group is served differently: the finding generalises to other terms, and exceeds the placebo if there is one."""
THESE_TERMS: Final = "these terms only"
"""A difference exists for these terms; they are too few to generalise, or other terms might not show it."""
NO_DIFFERENCE: Final = "no difference"
"""Every counterfactual comes out as the original does, rewritten."""
EQUIVALENT: Final = "equivalent"
"""Every gap, of groups and of pairs, is within the margin (two one-sided tests)."""
INCONCLUSIVE: Final = "inconclusive"
"""Neither a difference nor its absence is shown."""
RESIDUAL = "residual"
"""The part of Su's fairscore that stays with every stage replaced."""
PLACEBO_VERDICT = "placebo"
"""Verdict of the placebo, which claims nothing and shows the effect of any rewording."""
DIFFERENT = (DISPARITY, THESE_TERMS)
"""Verdicts of a difference, of groups or of these terms."""
Repair = Literal["", "either", "all"]
"""Ways to repair several stages: repairing one of them closes the gap, or only repairing all of them does; empty if not
shown."""
Missing = Literal["", "placebo", "beyond placebo", "terms", "chance"]
"""A placebo, as nearly all originals are of one group, a difference beyond what the placebo shows, more terms, or any
difference that chance does not explain well."""
Verdict = Literal["disparity", "these terms only", "equivalent", "no difference", "inconclusive", "placebo", ""]

ALPHA = 0.05
"""The level of every claim and, as 1 − ALPHA, of every interval."""
_MAIN = 0.75
"""Share of a gap from which one stage alone is named."""
_PART = 0.25
"""Share of a gap from which a stage is named together with others."""
_UNATTRIBUTED = "unattributed"
_LARGEST = 1e100
"""Largest absolute value of which figures are drawn."""


class RunError(TodBiasError):
    """A run's folder that cannot be read: missing, incomplete, malformed, or of another schema."""


def _finite(value: Any) -> Any:
    """None for what is not finite; other things are left to the model."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Real = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]
Value = Annotated[Real | None, BeforeValidator(_finite)]
"""A number; None if it is undefined or was not computed."""


def _interval(value: Any) -> Any:
    """None for an interval without two finite ends."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        return None if any(_finite(end) is None for end in value) else value
    return value


Interval = Annotated[tuple[Real, Real] | None, BeforeValidator(_interval)]


class Record(BaseModel):
    """A part of ``results.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True, validate_by_name=True)


class Named(Record):
    """A part of a result that knows its name."""

    _name: str = PrivateAttr("")

    @property
    def name(self) -> str:
        """Name in the result."""
        return self._name


class Estimate(Record):
    """A number, and how far chance may have moved it."""

    value: Value = None
    se: Value = None
    """Standard error, with terms as a sample."""
    df: Value = None
    """Its degrees of freedom."""
    ci: Interval = None
    """95% interval, with terms as a sample."""
    p: Value = None
    """p-value, below .05 where the interval leaves out 0; of gaps both are over everything that the run claims."""
    scope: Literal["terms"] | None = None
    """``terms``: it holds for the terms of this run only."""

    @property
    def is_of_terms_only(self) -> bool:
        """True if the estimate holds for the terms of this run only."""
        return self.scope is not None

    @property
    def is_shown(self) -> bool:
        """True if the p-value shows a difference from 0."""
        return self.p is not None and self.p < ALPHA

    @property
    def excludes_zero(self) -> bool:
        """True if the interval excludes 0."""
        return self.ci is not None and (self.ci[0] > 0 or self.ci[1] < 0)

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        record: dict[str, Any] = serialize(self)
        return {name: value for name, value in record.items() if value is not None or name in _ALWAYS}


_ALWAYS = ("value", "se", "df", "ci", "p")
"""Keys of an estimate that are written even if they are None."""


class Contribution(Record):
    """A stage's part of a gap or disparity."""

    shapley: Estimate
    """Its Shapley share; all shares add up to the whole."""
    replaced_alone: Estimate | None = None
    """Part of the gap that replacing this stage alone by its twin removes."""
    left_alone: Estimate | None = None
    """Part of the gap that remains if every other stage is replaced."""


Contributions = dict[str, Contribution]


class Attributed(Record):
    """A part of a result that is split over the stages."""

    contributions: Contributions = {}
    stage_groups: dict[str, Estimate] = {}
    """Sums of the shares of stages in a group, by the group's name."""
    unattributed: Estimate | None = None
    """Part that no stage accounts for: of a hosted agent, what arises outside of calls; of saved responses,
    everything."""

    @property
    def parts(self) -> Contributions:
        """The contributions, and what none of them accounts for; of many stages without those that change nothing."""
        rest = {} if self.unattributed is None else {_UNATTRIBUTED: Contribution(shapley=self.unattributed)}
        return (self._changing or self.contributions) | rest

    @property
    def _changing(self) -> Contributions:
        if len(self.contributions) <= MOST_PLAYERS:
            return {}
        return {name: part for name, part in self.contributions.items() if part.shapley.value or part.shapley.se}

    @property
    def shares(self) -> dict[str, Estimate]:
        """Stage to its Shapley share."""
        return {name: part.shapley for name, part in self.contributions.items()}

    @property
    def all_shares(self) -> dict[str, Estimate]:
        """The same with what no stage accounts for."""
        return {name: part.shapley for name, part in self.parts.items()}

    @property
    def main_stages(self) -> list[str]:
        """The stages in which the gap enters, the largest share first; none if no declared stage accounts for it."""
        whole = sum(share.value or 0.0 for share in self.all_shares.values())
        shares = {name: (share.value or 0.0) / whole for name, share in self.all_shares.items()} if whole else {}
        ordered = sorted(shares, key=lambda name: -shares[name])
        if not ordered or shares[ordered[0]] < _PART:
            return []
        chosen = ordered[:1] if shares[ordered[0]] >= _MAIN else [name for name in ordered if shares[name] >= _PART]
        return [] if chosen[0] == _UNATTRIBUTED else [name for name in chosen if name != _UNATTRIBUTED]


class Terms(Record):
    """Terms behind a result."""

    number: int | None = None
    effective: Value = None
    """Kish's effective number: this many evenly used terms have the same precision."""
    largest_share: Value = None
    """Share of the gap that the most important term carries."""
    shared_word: str | None = None
    """A word that several of the group's terms share, no other group's term has, and half of the dialogues or more
    contain."""
    sharing: int = 0
    """Number of terms that contain the word."""

    @property
    def generalizes(self) -> bool:
        """True if a gap with these terms may be claimed of the group."""
        is_even = self.largest_share is None or self.largest_share <= MOST_OF_A_TERM
        return self.effective is not None and self.effective >= ENOUGH_TERMS - 1e-9 and is_even


class BeyondPlacebo(Estimate):
    """Part of a disparity beyond that of the placebo in the same dialogues."""

    dialogues: int | None = None
    edits: dict[str, Value] = {}
    """Words changed per dialogue: by the axis, and by the placebo."""


class Group(Named, Attributed):
    """Results of the dialogues rewritten for one group, or for no group (a reference variant)."""

    dialogues: int | None = None
    terms: Terms | None = None
    score: Estimate = Estimate()
    """Score on the metric's own scale."""
    gap: Estimate = Estimate()
    """Difference from the mean of all groups on the same dialogues; positive is worse."""
    beyond_placebo: Estimate | None = None
    """The gap beyond the placebo's effect in the same dialogues; with the verdict *these terms only*, for these terms
    as given."""
    terms_only: Estimate | None = None
    """The gap with the terms of this run taken as they are."""
    affected: list[tuple[int, int]] | None = None
    """Numbers of differing and of all dialogues, then of terms, if few dialogues differ."""
    counts: tuple[float, float] | None = None
    """Occurrences of an event, and turns in which it could occur."""
    repair: Repair = ""
    """Repair of its main stages."""

    @property
    def effective_terms(self) -> float | None:
        """Effective number of its terms."""
        return None if self.terms is None else self.terms.effective

    @property
    def may_be_claimed(self) -> bool:
        """True if the gap, if it is shown, generalises from the terms of the run to the group."""
        return not self.gap.is_of_terms_only and self.terms is not None and self.terms.generalizes

    def claim(self, gap: Estimate, *, is_controlled: bool = False) -> Estimate | None:
        """Return the gap if it is shown, and beyond the placebo on the same side if a claim takes that; else None."""
        beyond = self.beyond_placebo
        is_beyond = is_controlled or beyond is None or (beyond.is_shown and (beyond.value or 0) * (gap.value or 0) > 0)
        return gap if gap.is_shown and is_beyond else None


class Gap(Named, Estimate):
    """A gap between two groups, or of a level of crossed axes."""

    dialogues: int | None = None

    @property
    def source(self) -> str:
        """The group that is compared with."""
        return self.name.partition(">")[0]

    @property
    def target(self) -> str:
        """The group that is compared."""
        return self.name.partition(">")[2]


class Widest(Attributed):
    """The pair of groups that are furthest apart."""

    worse: str
    better: str
    gap: Estimate


class Omnibus(Record):
    """Test of whether any group is served differently: the p-value that decides the verdict."""

    p: Value = None
    scope: Literal["terms"] | None = None
    """``terms``: it speaks of the terms of this run only."""


class Term(Record):
    """A term and its contribution."""

    term: str
    group: str | None = None
    dialogues: int | None = None
    share: Value = None
    """Share of that gap that disappears if the term is left out."""
    contribution: Value = None
    """Contribution of the term to the gap of its group."""


class Noise(Estimate):
    """The originals against themselves, drawn again (A/A)."""

    draws: int | None = None


class Sampling(Record):
    """Effect of drawing outputs at random on a result."""

    samples: int
    noise: Noise
    share_of_variance: Value = None


class Su(Record):
    """Su's own numbers: absolute, along one order."""

    fairscore: Estimate
    total: Estimate | None = None
    """The paper's bar, v({db})."""
    attribution: dict[str, Estimate | list[str]]
    """``order``, every stage in that order, and ``residual``: what stays with every stage replaced."""
    pairs: dict[str, Gap] = {}
    """``source>target`` to eq. 1 of the dialogues of the source that are rewritten for the target (Fig. 5)."""

    @property
    def contributions(self) -> dict[str, Estimate]:
        """Stage to its part, in Su's order."""
        parts = {name: self.attribution.get(name) for name in map(str, self.attribution.get("order", ()))}
        return {name: part for name, part in parts.items() if isinstance(part, Estimate)}

    @property
    def residual(self) -> Estimate:
        """Part that remains with every stage replaced."""
        part = self.attribution.get(RESIDUAL)
        return part if isinstance(part, Estimate) else Estimate()


class MetricInfo(Named):
    """Description of a metric."""

    label: str = ""
    """Name in sentences and tables."""
    better: Literal["higher", "lower", "neither"] = "higher"
    scale: str = "ratio"
    signature: str = ""
    counterfactual: bool = False
    """True if a counterfactual is compared with its original: 0 if both are served alike, whichever is worse off."""
    unit: str = ""
    """Unit of counts, "results per turn"; empty for other scores."""
    range: tuple[float, float] | None = None
    """Smallest and largest score; None if scores have no bounds."""
    stage: str = ""
    """Component whose output an event is read from; empty for other metrics."""
    is_grade: bool = False
    """True if it judges whole dialogues, such as whether a task was solved."""
    also: dict[str, str] = {}
    """Component to an event of its output that happens in the same turns, the last component at the end."""

    @property
    def is_share(self) -> bool:
        """True if the score is a share, 0 to 1."""
        return self.range == (0.0, 1.0)


def worst_score(metric: Any) -> float | None:
    """Return the score of a system that serves no user, for a metric or its record in results; None if unknown.

    Args:
        metric: has ``better`` and ``range``.
    """
    if metric.better == "lower":
        return None if metric.range is None else float(metric.range[1])
    if metric.better == "higher":
        return 0.0 if metric.range is None else float(metric.range[0])
    return None


class AxisResult(Attributed):
    """Results of one axis by one metric."""

    verdict: Verdict = ""
    limiting_factors: list[str] = []
    """Conditions that each alone keep the axis from a disparity."""
    unmeasured: str = ""
    """Reason for which nothing is measured; empty if something is."""
    scale: str = "ratio"
    """``ratio`` where values are shares of the originals' score, else ``difference``."""
    omnibus: Omnibus | None = None
    dialogues: int | None = None
    needs_placebo: bool = False
    """True if nearly all dialogues are of one group, so that its gaps cannot be separated from the effect of
    rewording."""
    is_controlled: bool = False
    """True if a claim takes no placebo: other groups are rewritten as well, and the effect of being the original is
    known."""
    largest_effect: Value = None
    """The largest effect that a dialogue can have, as a gap: of it bounds are made where few dialogues differ."""
    clusters: dict[str, int] = {}
    """Further kinds of clusters, and how many there are of each."""
    effective_clusters: dict[str, Value] = {}
    """The same as effective numbers (Kish) of the clusters of the dialogues that are compared."""
    only_these_clusters: list[str] = []
    """Kinds of clusters that are enough to be a sample, but for whose further clusters the difference is not shown."""
    mde: Value = None
    """Minimum detectable effect: how much worse one group must be served than all others, for a power of 80%."""
    mde_se: Value = None
    """The standard error that it is made of."""
    mde_se_terms_only: Value = None
    """The same with terms as they are."""
    equivalent_within: Value = None
    """Smallest margin within which all gaps, of groups and of pairs, are shown to be."""
    original: Estimate = Estimate()
    rewritten: Estimate = Estimate()
    disparity: Estimate
    artefact: Estimate = Estimate()
    beyond_placebo: BeyondPlacebo | None = None
    groups: dict[str, Group] = {}
    smallest: list[str] = []
    """The smallest set of groups without which no difference is left among the others."""
    needed: dict[str, int] = {}
    """Group to the number of dialogues that would claim its gap in four of five runs, if it is as it was seen."""
    apart: dict[str, Estimate] = {}
    """The smallest set of groups that explains a difference, each with its difference from the groups that do not
    differ; positive is worse. If the set is served better, it is the other groups."""
    spread: Value = None
    """Root mean square of the groups' gaps, less what noise adds to it."""
    widest: Widest | None = None
    pairs: dict[str, Gap] = {}
    """``source>target``: positive where the target is served worse."""
    effects: dict[str, dict[str, Gap]] = {}
    """Gaps of crossed axes by factor and level; ``interaction`` holds the gap of a group beyond its two levels."""
    references: dict[str, Group] = {}
    interactions: dict[str, Estimate] = {}
    arms: dict[str, Value] = {}
    """Arm to score."""
    terms: list[Term] = []
    """Terms that contribute most, the largest first."""
    sampling: Sampling | None = None
    su: Su | None = None

    _axis: str = PrivateAttr("")
    _metric: MetricInfo = PrivateAttr(default_factory=MetricInfo)
    _first_differences: dict[str, list[FirstDifference]] = PrivateAttr(default_factory=dict)

    @property
    def axis(self) -> str:
        """Its axis, by name."""
        return self._axis

    @property
    def first_differences(self) -> dict[str, list[FirstDifference]]:
        """Group to what differs first in the turns as this group, by any metric."""
        return self._first_differences

    @property
    def metric(self) -> MetricInfo:
        """Description of a metric."""
        return self._metric

    @property
    def is_placebo(self) -> bool:
        """True for the placebo."""
        return self.verdict == PLACEBO_VERDICT

    @property
    def effective_terms(self) -> float | None:
        """Effective number of terms of the group with fewest."""
        return min((group.effective_terms for group in self.groups.values() if group.effective_terms), default=None)

    @property
    def nobody_is_served(self) -> bool:
        """True if every dialogue, original and rewritten, has the worst score: equal scores are then meaningless."""
        worst = worst_score(self.metric)
        return worst is not None and self.original.value == self.rewritten.value == worst

    @property
    def few_clusters(self) -> dict[str, float]:
        """Kinds of clusters, with their effective number, for which alone a claim holds: they are too few to be a
        sample, or the difference is shown in these clusters and not over further ones."""
        numbers = {**self.clusters, **{name: some for name, some in self.effective_clusters.items() if some}}
        return {
            name: number
            for name, number in numbers.items()
            if self.clusters.get(name, 2) > 1 and (number < FEWEST_CLUSTERS or name in self.only_these_clusters)
        }

    @property
    def claims(self) -> dict[str, Estimate]:
        """Group to its claimed gap; with the verdict *these terms only*, the gap with these terms as given."""
        if self.verdict == DISPARITY:
            able = {name: group for name, group in self.groups.items() if group.may_be_claimed}
            claimed = {name: group.claim(group.gap, is_controlled=self.is_controlled) for name, group in able.items()}
        elif self.verdict == THESE_TERMS:
            claimed = {
                name: group.claim(group.terms_only or group.gap, is_controlled=self.is_controlled)
                for name, group in self.groups.items()
            }
        else:
            claimed = {}
        return {name: gap for name, gap in claimed.items() if gap is not None}

    @property
    def covers_all_dialogues(self) -> bool:
        """True if every group is measured in all dialogues of the axis."""
        return all(group.dialogues == self.dialogues for group in self.groups.values())

    def is_claimed(self, gap: Estimate) -> bool:
        """Return whether the gap of a pair, or of a level of crossed axes, is marked as a claim."""
        return self.verdict == DISPARITY and gap.is_shown and not gap.is_of_terms_only

    def reference_is_claimed(self, name: str) -> bool:
        """Return whether the gap of a reference variant is shown for more than these terms."""
        gap = self.references[name].gap
        return gap.is_shown and not gap.is_of_terms_only

    @property
    def counts(self) -> dict[str, tuple[float, float]]:
        """Group to how often an event happened, and in how many turns it could; empty for other metrics."""
        return {name: group.counts for name, group in self.groups.items() if group.counts is not None}

    @property
    def shown_effects(self) -> Iterator[tuple[str, Gap]]:
        """Yield the factors of crossed axes with the gaps of their levels, and the interactions that are shown."""
        for factor, levels in self.effects.items():
            for gap in levels.values():
                if factor != "interaction" or gap.is_shown:
                    yield factor, gap

    @property
    def key(self) -> str:
        """Axis and metric in one word, for file names and links."""
        return f"{self.axis}_{self.metric.name}"


class TurnCount(Record):
    """Number of turns, and of all turns."""

    turns: int = Field(ge=0)
    of: int = Field(ge=0)


class Reworded(Record):
    """Turns that neutral rewording changes: a component puts out something else, or another one is called."""

    share: float
    """Of the turns; each dialogue weighs once."""
    dialogues: int
    """Dialogues with a placebo in which anything is reworded that the system reads."""
    stages: dict[str, int] = {}
    """Stage to the turns in which it is the first that differs."""


class Example(Record):
    """One turn that shows a finding."""

    dialogue: str
    turn: int
    variant: str
    """The variant that shows the event, as the explorer names it."""
    user: str
    """User's message in that variant, after an earlier message if only that one is rewritten."""
    user_original: str = ""
    """The same for the original."""
    original: str
    """Act of the system for the original."""
    counterfactual: str
    """Act of the system for the variant."""


class Consequence(Record):
    """Event in the output of a later component that goes with a finding."""

    stage: str
    """The component."""
    metric: str
    """Name of the event."""
    what: str
    """Event in a few words."""
    is_share: bool = True
    """True if the score is a share of turns; False if it is the mean of a number."""
    counts: dict[str, tuple[float, float]] = {}
    """Group to how often the event happened, and in how many turns it could."""


class Finding(Record):
    """Finding of a run about one axis and group; every page, table and gate renders it."""

    axis: str
    verdict: Verdict
    group: str = ""
    """Group that is treated differently; empty if no group is."""
    compared_with: list[str] = []
    """The groups that do not differ, on the same dialogues."""
    metric: str = ""
    """The event or metric that a user would recognise first."""
    better: Literal["higher", "lower", "neither"] = "higher"
    """Better side of the metric."""
    is_harm: bool = False
    """True if the group is served worse, by this event or by another one of the same finding."""
    also: list[str] = []
    """Other metrics by which the same group is claimed in the same components."""
    consequence: Consequence | None = None
    """Event nearest to the user that goes with it; None if no later component shows any."""
    stage: str = ""
    """The stages in which the difference enters, joined by a comma; empty if no declared stage accounts for it."""
    repair: Repair = ""
    """Ways to repair several stages."""
    effect: Estimate = Estimate()
    """Difference from the groups that do not differ, in the metric's units; positive is harm."""
    what: str = ""
    """Event in a few words: ``book_table without party_size``."""
    is_share: bool = True
    """True if the score is a share of turns; False if it is the mean of a number."""
    counts: dict[str, tuple[float, float]] = {}
    """Group to how often the event happened, and in how many turns it could."""
    dialogues: int = 0
    """Dialogues that were compared."""
    turns: int = 0
    """Turns that were compared, of a finding without a difference."""
    bound: Value = None
    """Largest share of dialogues that could differ unnoticed, of a finding without a difference."""
    needed: int | None = None
    """Dialogues of such a corpus of which four of five audits prove the difference, if it is as it was seen; None if
    it may well be chance, or no number would."""
    missing: Missing = ""
    """Condition for a claim that is missing, in addition to dialogues."""
    example: Example | None = None

    @property
    def is_difference(self) -> bool:
        """True if a difference is claimed, of the group or of these terms."""
        return self.verdict in DIFFERENT

    def others(self, without: Iterable[str] = ()) -> tuple[float, float]:
        """Return how often the event happened as the other groups, and in how many turns it could.

        Args:
            without: groups that are left out, as the same is found of them.
        """
        left = set(without)
        return total([self.counts[name] for name in self.compared_with if name in self.counts and name not in left])


def total(counts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the sums of how often an event happened, and of the turns in which it could."""
    pairs = list(counts)
    return sum(happened for happened, _ in pairs), sum(could for _, could in pairs)


class FailedTurns(TurnCount):
    """Number of turns with a failed call, out of all."""

    reasons: dict[str, int] = {}
    """The most frequent reasons, with how often each was met."""

    @property
    def share(self) -> float:
        """Share of the turns."""
        return self.turns / max(1, self.of)


class FirstDifference(TurnCount):
    """First difference from T of the original's turn, and its frequency in the turns as one group."""

    stage: str
    part: Literal["output", "argument", "step"]
    """Part of the step that differs: its output, its argument, or the step itself."""
    place: str
    """``find_hotels.limit``: an argument of a call or a field; empty for a text as a whole."""
    change: str
    """``3 → 1``; ``various → 1``; ``differs``, where both vary."""
    others: dict[str, TurnCount] = {}
    """The same change in the turns as each of the other groups."""

    def as_groups(self, names: Iterable[str]) -> TurnCount:
        """Return the same change in the turns of some groups."""
        counts = [self.others[name] for name in names]
        return TurnCount(turns=sum(count.turns for count in counts), of=sum(count.of for count in counts))

    @property
    def is_fixed(self) -> bool:
        """True if the step always has one value instead of another one."""
        return self.ends_fixed and self.change.split(" → ")[0] not in ("various", "nothing")

    @property
    def ends_fixed(self) -> bool:
        """True if the step always has one value instead of others."""
        ends = self.change.split(" → ")
        return self.part == "output" and len(ends) == 2 and ends[1] not in ("various", "nothing")

    @property
    def excess(self) -> float:
        """The share of turns that have it, less that of the turns as the other groups."""
        others = self.as_groups(self.others)
        return self.turns / max(1, self.of) - others.turns / max(1, others.of)


class LostInfo(Record):
    """Dialogues that are left out because a call failed."""

    dialogues: int
    variants: dict[str, int] = {}
    """Variant to how often the system itself, and not only a twin, gave no output."""
    reasons: dict[str, int] = {}


class CorpusInfo(Record):
    """The dialogues."""

    name: str = ""
    split: str = ""
    hash: str = ""
    dialogues: int = 0
    rewritable: dict[str, int] = {}
    """Axis to dialogues that can be rewritten along it."""
    audited: dict[str, int] = {}
    left_out: dict[str, int] = {}
    """Axis to dialogues that express none of its groups."""
    lost: LostInfo | None = None


class Cost(Record):
    """Cost of a run, by stage."""

    calls: dict[str, int] = {}
    distinct: dict[str, int] = {}
    cached: dict[str, int] = {}
    failed: dict[str, int] = {}
    outcomes: dict[str, dict[str, int]] = {}
    """Stage to what became of its calls, e.g. malformed arguments."""
    tools: dict[str, dict[str, dict[str, int]]] = {}
    """The same by tool, the three most frequent ones."""
    tokens: dict[str, int] = {}
    """``read`` and ``written``."""
    seconds_by_stage: dict[str, float] = {}
    seconds: float = 0.0


class Precision(Record):
    """Effect of computing in another precision than float32, for one model."""

    stages: list[str]
    model: str
    dtype: str
    prompts: int
    differ: int


class Responses(Record):
    """Saved responses: how many there are, and those that belong to no counterfactual of this run, by the reason."""

    number: int
    unchecked: int = 0
    """Responses without the user's message, so that nothing shows that they belong to it."""
    unused: dict[str, dict[str, int | str]] = {}


class AttributionInfo(Record):
    """Method by which contributions were computed."""

    groups: dict[str, list[str]] = {}
    """Groups of stages, between and within which contributions are Owen values."""
    changing: list[str] | None = None
    """Stages whose twins have other outputs in any arm, if there are more than seven stages; None if not looked for."""
    permutations: int = Field(0, ge=0, le=2 * PAIRS[-1], multiple_of=2)
    """Orders of stages that were drawn, in antithetic pairs; 0 where contributions are exact."""


class AuditResult(Record):
    """The content of ``results.json``; ``turns`` holds inputs, outputs and the metrics' statistics of every turn."""

    version: Literal[3] = Field(3, alias="schema")
    config: AuditConfig = AuditConfig()
    """Everything that was asked for."""
    corpus: CorpusInfo = CorpusInfo()
    stages: list[str] = []
    attribution: AttributionInfo = AttributionInfo()
    metrics: dict[str, MetricInfo] = {}
    signature: dict[str, str] = {}
    """Everything that determines the results: options, axes, stages, versions."""
    axes: dict[str, dict[str, AxisResult]]
    """Axis to metric to result, the placebo last."""
    first_differences: dict[str, dict[str, list[FirstDifference]]] = {}
    """Axis to group to what differs first in the turns as this group, by any metric: the most frequent three."""
    reworded: Reworded | None = None
    """Turns that the placebo changes; None without one."""
    passes: dict[str, dict[str, list[float]]] = {}
    """Axis to group to pass^1, pass^2, … by the grade, if outputs are drawn and a grade judges them."""
    findings: list[Finding] = []
    """Findings of the run, the most important first: at least one for each axis."""
    failed: dict[str, dict[str, FailedTurns]] = {}
    """Axis to ``original`` and its groups to the turns in which a call failed; an axis without failures is missing."""
    left_out: dict[str, str] = {}
    """Axes and metrics without a result, and why."""
    responses: Responses | None = None
    """Saved responses, for which no stage can be replaced and nothing is attributed."""
    samples: int | None = None
    """Outputs drawn per call, where stages draw."""
    precision: list[Precision] = []
    cost: Cost = Cost()

    _table: Any = PrivateAttr(None)
    _frame: Any = PrivateAttr(None)
    _folder: Path | None = PrivateAttr(None)

    def model_post_init(self, context: Any) -> None:
        """Let every part know its name."""
        for name, metric in self.metrics.items():
            metric._name = name
        for axis, by_metric in self.axes.items():
            for name, result in by_metric.items():
                result._axis, result._metric = axis, self.metrics.get(name, MetricInfo(label=name))
                result._first_differences = self.first_differences.get(axis, {})
                result._metric._name = name
                parts: list[dict[str, Any]] = [result.groups, result.references, result.pairs, *result.effects.values()]
                parts += [] if result.su is None else [result.su.pairs]
                for part in parts:
                    for key, value in part.items():
                        value._name = key

    @property
    def rows(self) -> list[AxisResult]:
        """Every axis by every metric, the placebo last."""
        return sorted((row for by_metric in self.axes.values() for row in by_metric.values()), key=_is_placebo)

    @property
    def arm_design(self) -> ArmDesign:
        """Sets of stages that were replaced."""
        return ArmDesign(
            tuple(self.stages),
            {name: tuple(members) for name, members in self.attribution.groups.items()},
            None if self.attribution.changing is None else tuple(self.attribution.changing),
            self.attribution.permutations // 2,
            self.config.seed,
        )

    @property
    def is_recorded(self) -> bool:
        """True if responses were saved, so that no stage could be replaced."""
        return self.responses is not None

    def of_turns(self, table: Any) -> Self:
        """The same with its turns."""
        self._table = table
        return self

    @property
    def turns(self) -> pd.DataFrame:
        """One row per turn, counterfactual and arm."""
        if self._frame is None:
            if self._table is not None:
                self._frame = self._table.frame()
            elif self._folder is not None:
                self._frame = _parquet(self._folder / TURNS)
            else:
                raise AttributeError("this result holds no turns")
        return self._frame

    @property
    def variants(self) -> pd.DataFrame:
        """One row per counterfactual: its groups, terms and clusters.

        ``axis``, ``dialogue`` and ``variant`` join it to the turns.
        """
        if self._table is not None:
            frame: pd.DataFrame = self._table.variants()
            return frame
        if self._folder is None:
            raise AttributeError("this result holds no counterfactuals")
        return _parquet(self._folder / VARIANTS)

    def metric_frame(self, axis: str, metric: str | Metric) -> MetricFrame:
        """The scores of an axis' groups on the same dialogues as Fairlearn's ``MetricFrame``.

        Its ``by_group`` are the scores of ``results.json``, its ``overall`` that of all groups together. A row is a
        dialogue as one group. Because a corpus metric is not a mean over rows, the frame's function sums the statistics
        of the rows whose numbers it is given. Fairlearn's differences have no intervals; ``groups`` have.

        Args:
            axis: by name.
            metric: by name, or the user's own.

        Raises:
            RunError: Fairlearn is not installed, or the run has no such axis or metric.
        """
        try:
            from tod_bias.metrics.metric_frame import metric_frame
        except ImportError:
            raise RunError("MetricFrame needs Fairlearn: pip install fairlearn") from None
        scorer = known_metric(metric) if isinstance(metric, str) else metric
        if axis not in self.axes or scorer is None or scorer.name not in self.axes[axis]:
            known = [f"{axis}, {name}" for axis, by_metric in self.axes.items() for name in by_metric]
            named = metric if isinstance(metric, str) else metric.name
            raise RunError(
                f"no result of axis {axis} by {named} that can be computed again; there are {'; '.join(known)} "
                "(pass your own metric as an object)"
            )
        turns = self.turns.merge(self.variants[[*VARIANT_KEY, "source"]], on=VARIANT_KEY)
        return metric_frame(turns, axis, scorer, list(self.axes[axis][scorer.name].groups))

    def __str__(self) -> str:
        """Return the answer of the run, as the command prints it."""
        # Presentation imports this module, so it is loaded only when a result is printed.
        return str(import_module("tod_bias.report.terminal").answer_text(self))

    def __repr__(self) -> str:
        """Return one line: the run, and its number of findings."""
        number = sum(finding.is_difference for finding in self.findings)
        findings = f"{number} finding{'s' * (number != 1)}"
        return f"<AuditResult of {self.name}: {self.corpus.dialogues} dialogues, {', '.join(self.axes)}; {findings}>"

    def _repr_html_(self) -> str:
        """Return the findings and the groups as HTML for notebooks."""
        return str(import_module("tod_bias.report.page").html(self))

    def text(self) -> str:
        """The content of ``results.json``."""
        return record_text(self)

    @field_serializer("config")
    def _options(self, config: AuditConfig) -> dict[str, Any]:
        return {name: value for name, value in config.record().items() if name not in ("inode", "directory")}

    def save(self, folder: str | Path) -> None:
        """Write a run's folder, each file completely or not at all, and the results last: they mark a complete run.

        Raises:
            TodBiasError: the folder cannot be written to, or another run writes into it.
        """
        with held(folder) as place:
            with replacing(place / VARIANTS) as variants, replacing(place / TURNS) as turns:
                self._write_tables(turns, variants)
                # Two files cannot be renamed at once. Until both are, and the results are written, a folder that an
                # earlier run filled must not look complete, because its tables and results would be of two runs.
                check_plain_file(place / RESULTS)
                (place / RESULTS).unlink(missing_ok=True)
            write_text(place / CONFIG_FILE, self.config.text(place))
            write_text(place / RESULTS, self.text())

    def _write_tables(self, turns: Path, variants: Path) -> None:
        if self._table is not None:
            self._table.write(turns)
            self._table.write_variants(variants)
        elif self._folder is not None:
            shutil.copyfile(self._folder / TURNS, turns)
            shutil.copyfile(self._folder / VARIANTS, variants)
        else:
            raise AttributeError("this result holds no turns")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a run's folder; the turns are read when they are asked for.

        Raises:
            RunError: no such folder or file, not JSON, not the result of an audit, or of another schema; one line that
                names the file and the place in it.
        """
        folder = Path(folder)
        path = folder / RESULTS
        record = _read(folder, path)
        try:
            result = cls.model_validate(record)
        except ValidationError as error:
            raise RunError(f"{path}, {invalid(error)}; repeat the run's command to write it again") from None
        _check_attribution(path, result)
        result._folder = folder
        return result

    @property
    def table(self) -> Any:
        """The turns on disk, of a run that was made here; None of one that was read."""
        return self._table

    @property
    def folder(self) -> Path | None:
        """The folder that it was read from."""
        return self._folder

    @property
    def name(self) -> str:
        """Name of the run in messages."""
        return "this run" if self._folder is None else str(self._folder)


def _parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_parquet(path)


def record_text(record: Record) -> str:
    """Return a record as the JSON text of its file."""
    return well_formed(json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _is_placebo(row: AxisResult) -> bool:
    return row.is_placebo


def _read(folder: Path, path: Path) -> dict[str, Any]:
    """The JSON object in a run's results.

    Raises:
        RunError: there is none, or of another schema or kind.
    """
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; give the folder that a run wrote, for example runs/demo")
    if os.path.lexists(path) and not path.is_file():
        raise RunError(
            f"{path}: is not a regular file, as a run's results are; repeat the run's command with another --out"
        )
    if not path.is_file():
        if (folder / "report.html").is_file() and not (folder / TURNS).is_file():
            raise RunError(f"{folder}: holds no attribution; the report of its content is {folder / 'report.html'}")
        raise RunError(f"{folder}: holds no {RESULTS}; the run did not finish, repeat its command to resume it")
    try:
        record = read_json(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunError(f"{path}: not JSON ({error}); repeat the run's command to write it again") from error
    if not isinstance(record, dict):
        raise RunError(f"{path}: expected a JSON object, got {type(record).__name__}; is this the file of a run?")
    _check_record(path, record)
    return record


def _check_record(path: Path, record: dict[str, Any]) -> None:
    """Raises RunError where a run's results are of another schema, hold nothing, or stages that no run has."""
    if record.get("schema") != SCHEMA:
        raise RunError(f"{path}: expected schema {SCHEMA}, got {record.get('schema')!r:.40}; repeat the run's command")
    if not isinstance(record.get("axes"), dict) or not record["axes"] or not all(record["axes"].values()):
        raise RunError(f"{path}: expected results under 'axes'; only runs of `attribute` have them")
    stages = record.get("stages")
    if isinstance(stages, list) and len(stages) > MOST_STAGES:
        raise RunError(f"{path}, stages: expected {MOST_STAGES} at the most, got {len(stages)}")
    if isinstance(stages, list) and len({repr(stage) for stage in stages}) < len(stages):
        raise RunError(f"{path}, stages: a name is repeated; repeat the run's command to write it again")


def _check_attribution(path: Path, result: AuditResult) -> None:
    """Raises RunError where contributions are of other stages than the run's, or of more arms than any run has."""
    given, stages = result.attribution, set(result.stages)
    members = [stage for group in given.groups.values() for stage in group]
    if not stages.issuperset([*members, *(given.changing or ())]) or len(set(members)) < len(members):
        raise RunError(f"{path}, attribution: names stages that the run does not have, or one twice; repeat the run")
    if not (given.permutations or result.arm_design.is_small):
        raise RunError(f"{path}, attribution: needs more sets of stages than a run has; repeat the run")
