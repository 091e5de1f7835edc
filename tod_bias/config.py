"""Every option of an audit, once: its name, type, bounds, default and help.

The command line is made from these models (:mod:`tod_bias.cli`), :func:`tod_bias.attribute` takes them as keywords,
``--config FILE`` reads them from YAML or JSON, and a run's folder keeps them as ``config.json``, so that later commands
need nothing said again. A field's docstring is its help.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import MinLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tod_bias.errors import TodBiasError, invalid, reason_in, repeated, shortened
from tod_bias.statistics.needed import MOST_RESAMPLES

FILE = "config.json"
"""Name of the file in a run's folder."""
DEMO = "demo"
"""The corpus and the pipeline that come with the package."""
DEFAULT_AXES = ("gender", "age", "race", "placebo")
"""Axes that are audited by default."""


def names(value: Any) -> Any:
    """Names that are joined by commas, or a list of them, each once."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        parts = tuple(name.strip() for item in value for name in item.split(",") if name.strip())
        if doubled := repeated(parts):
            raise ValueError(f"name {doubled!r} twice")
        return parts
    return value


def whole(value: Any) -> Any:
    """No truth value and no fraction counts; a text is left to the model."""
    if isinstance(value, bool) or (isinstance(value, float) and not isinstance(value, int)):
        raise ValueError("must be a whole number")
    return int(value) if hasattr(value, "__index__") else value


Names = Annotated[tuple[str, ...], BeforeValidator(names)]
"""Names; on the command line joined by commas."""
Resamples = Annotated[int, BeforeValidator(whole), Field(ge=0, le=MOST_RESAMPLES)]
Positive = Annotated[int, BeforeValidator(whole), Field(ge=1)]
Design = Literal["crossed", "draws"]
History = Literal["gold", "system"]
Split = Literal["train", "valid", "test"]


class Advanced:
    """Mark of an option that few users need: ``--help-all`` shows it, ``--help`` does not."""


ADVANCED = Advanced()


class Options(BaseModel):
    """A group of options; its title is the heading in ``--help``."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    title: ClassVar[str] = ""
    not_options: ClassVar[frozenset[str]] = frozenset()
    """Fields that a record holds and no command line takes."""
    is_of_run: ClassVar[bool] = False
    """True if a finished run knows these options, so that they have no defaults."""
    in_help: ClassVar[frozenset[str] | None] = None
    """Fields, those of groups among them, that ``--help`` shows; None for all that are not advanced."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The options in a mapping.

        Raises:
            TodBiasError: one is unknown or of the wrong type or size; names it.
        """
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise TodBiasError(line_of(error)) from None

    def given(self) -> dict[str, Any]:
        """The options that were given, by their own names, those of groups among them."""
        values: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Options):
                values |= value.given()
            elif name in self.model_fields_set:
                values[name] = value
        return values

    def given_of(self, *names: str) -> list[str]:
        """Return those of some fields that differ from their defaults because they were given."""
        return [name for name in names if name in self.model_fields_set]


class Seeded(Options):
    """Options of everything that draws at random."""

    seed: Annotated[int, BeforeValidator(whole), Field(ge=0)] = 0
    """Seeds everything that is drawn."""


class OutputOptions(Options):
    """Where results go."""

    title: ClassVar[str] = "Output"

    out: Path | None = None
    """Folder for the results; by default runs/CORPUS."""
    quiet: bool = False
    """No progress, no table."""


class CorpusSource(Options):
    """A corpus."""

    title: ClassVar[str] = "Dialogues"

    corpus: str = DEMO
    """A corpus's name, a .jsonl or .json file of dialogues or chats, a folder of them, or module:function."""
    datapath: Path | None = None
    """Folder that holds the corpora, in ParlAI's layout."""


class SampleOptions(Options):
    """How many dialogues are taken."""

    title: ClassVar[str] = "Dialogues"

    max_dialogues: Positive | None = None
    """Maximum number of dialogues: a seeded sample, stratified by domain, drawn before terms are looked for."""


class CorpusOptions(SampleOptions, CorpusSource):
    """Dialogues to audit."""

    split: Split = "test"
    """Split of the corpus."""


class AxisNames(Options):
    """Axes to audit."""

    title: ClassVar[str] = "Axes"

    axes: Annotated[Names, MinLen(1)] = DEFAULT_AXES
    """Axes, joined by commas; a×b crosses two; your own as module:name."""


class TermOptions(Options):
    """Terms that express groups."""

    title: ClassVar[str] = "Axes"

    lexicon: tuple[str, ...] = ()
    """AXIS=FILE: a lexicon for one of the axes, shipped or new; may be repeated."""
    protect: Annotated[tuple[str, ...], ADVANCED] = ()
    """A phrase that is never rewritten; may be repeated."""


class DeviceOptions(Options):
    """Where models run."""

    title: ClassVar[str] = "System"

    device: Annotated[str | None, ADVANCED] = None
    """Where models given on the command line run, e.g. cpu or cuda:0."""


class LexiconOptions(TermOptions, AxisNames):
    """Axes, and the terms that express their groups."""

    name_slots: Annotated[Path | None, ADVANCED] = None
    """A file of slots that hold people's names."""


class PerturberOptions(Options):
    """Model that rewrites instead of lexicons."""

    perturber: Annotated[str | None, ADVANCED] = None
    """Checkpoint of a neural perturber (Qian's format) for axes of terms; by default lexicons rewrite."""


class AxisOptions(PerturberOptions, LexiconOptions):
    """Along which axes dialogues are rewritten, and how."""

    introductions: Annotated[Names | None, ADVANCED] = None
    """Kinds of introductions of the axes persona_…: name, title, statement …; by default all."""


class SystemOptions(DeviceOptions):
    """The system that is audited."""

    pipeline: str | None = None
    """demo, or a pipeline file (.yaml)."""
    model: str | None = None
    """Checkpoint of both language-model stages."""
    api_call_model: str | None = None
    """Checkpoint of the API-call stage."""
    response_model: str | None = None
    """Checkpoint of the response stage."""
    max_new_tokens: Positive | None = None
    """Tokens per text at most, for models given with --model; by default 128."""
    dtype: Annotated[str | None, ADVANCED] = None
    """auto (by default), float32 or bfloat16, for models given with --model."""
    backend: Annotated[str | None, ADVANCED] = None
    """auto (by default), tree or batch, for models given with --model."""

    @property
    def models(self) -> tuple[str | None, str | None, str | None]:
        """The checkpoints of both stages, of the API-call stage, and of the response stage."""
        return self.model, self.api_call_model, self.response_model

    @property
    def generation(self) -> dict[str, Any]:
        """How models given with ``model`` decode."""
        return {name: getattr(self, name) for name in GENERATION}

    @property
    def is_named(self) -> bool:
        """True if a system is named."""
        return any((self.pipeline, *self.models))


GENERATION = ("max_new_tokens", "dtype", "backend")
"""Options of decoding for models given with --model."""


class VariantOptions(Options):
    """How many counterfactuals are made."""

    title: ClassVar[str] = "Counterfactuals"

    variants: Annotated[Positive | None, ADVANCED] = None
    """Counterfactuals per dialogue and axis, dealt out over the groups; by default one per other group."""


class DesignOptions(VariantOptions):
    """Counterfactuals to make."""

    design: Design = "crossed"
    """crossed: every dialogue once per group; draws: Su's random draws."""
    draws: Annotated[Positive, ADVANCED] = 3
    """Rewrites drawn per dialogue (Su, Algorithm 1), with --design draws."""
    max_per_axis: Positive | None = None
    """Maximum number of rewritten dialogues per axis; the placebo rewrites those of the other axes."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.design == "draws" and self.variants is not None:
            raise ValueError("variants are of the crossed design; with the design draws give draws")
        return self


class ResumeOptions(Options):
    """Continuation of interrupted work."""

    title: ClassVar[str] = "Running"

    resume: Annotated[bool, ADVANCED] = True
    """Go on with what an earlier, interrupted command in the same folder has done."""


class TurnOptions(ResumeOptions):
    """How turns are run."""

    history: Annotated[History, ADVANCED] = "gold"
    """gold: teacher-forced; system: the system's own turns."""


class RunOptions(TurnOptions):
    """How the system is run."""

    samples: Annotated[Positive, ADVANCED] = 1
    """Outputs drawn per call, where temperature is above 0."""
    max_failures: Annotated[Annotated[float, Field(ge=0, le=1)] | None, ADVANCED] = None
    """Share of calls that may fail: if more fail in every group, nothing is measured; of saved responses, the share of
    turns that may be missing. Default: 0.5, and 0.01 of saved responses."""
    responses: Path | None = None
    """Responses of a system that cannot be run again, to what export writes."""
    executor: Annotated[Literal["local", "ray"], ADVANCED] = "local"
    """Where Python stages are called: local, or ray, by the workers of a cluster."""
    workers: Annotated[Positive | None, ADVANCED] = None
    """Workers of --executor ray; by default one per processor."""


class MetricOptions(Options):
    """How responses are scored."""

    title: ClassVar[str] = "Statistics"

    metrics: Annotated[Names, MinLen(1)] | None = None
    """Metrics, joined by commas, or your own as module:Class; by default those that fit the system."""


class BootstrapOptions(Options):
    """How intervals are estimated."""

    title: ClassVar[str] = "Statistics"

    bootstrap: Annotated[Resamples, ADVANCED] = 1000
    """Resamples for the intervals; 0 for none."""


class InferenceOptions(BootstrapOptions):
    """How intervals and p-values are estimated."""

    permutations: Annotated[Resamples, ADVANCED] = 10_000
    """Permutations of the tests; 0 for none."""


class MarginOptions(Options):
    """Margin of equivalence."""

    title: ClassVar[str] = "Statistics"

    margin: Annotated[float, Field(gt=0)] | None = None
    """Gaps (or changes between two runs) that are shown to be smaller than this, e.g. 0.05, are equivalent."""


class CompareConfig(Seeded, MarginOptions):
    """How the changes between two runs are estimated."""

    permutations: Annotated[Annotated[Resamples, Field(ge=1)], ADVANCED] = 10_000
    """Sign flips of the tests of changes in few dialogues."""
    quality_margin: Annotated[Annotated[float, Field(gt=0)] | None, ADVANCED] = None
    """As --margin, for changes of scores, in the metric's units; by default the same."""


class ClusterOptions(Options):
    """Clusters of dialogues."""

    title: ClassVar[str] = "Statistics"

    cluster: Annotated[Names, ADVANCED] = ("domain",)
    """Further clusters of dialogues: domain or module:function, joined by commas, or none; used from five
    clusters on."""


class AnalysisOptions(ClusterOptions, MarginOptions, MetricOptions):
    """How results are estimated."""

    bootstrap: Annotated[Resamples, ADVANCED] = 1000
    """Resamples for the intervals of Su's numbers, which no other interval needs; 0 for none."""
    permutations: Annotated[Resamples, ADVANCED] = 10_000
    """Sign flips of the tests of metrics that differ in few dialogues; 0 for none."""
    order: Annotated[Names | None, ADVANCED] = None
    """Stages in the order of Su's attribution, by commas."""


class EvaluationScores(BootstrapOptions, MetricOptions):
    """Scores of a pipeline on a corpus as it is."""

    metrics: Annotated[Names, MinLen(1)] = ("corpus_bleu", "sentence_bleu")
    """Metrics in addition to joint goal accuracy, joined by commas, or your own as module:Class."""


class EvaluateConfig(Seeded):
    """Corpus and metrics of an evaluation."""

    corpus: CorpusOptions = CorpusOptions()
    system: SystemOptions = SystemOptions()
    turns: TurnOptions = TurnOptions()
    scores: EvaluationScores = EvaluationScores()


class ExportConfig(Seeded):
    """Counterfactuals to write."""

    corpus: CorpusOptions = CorpusOptions()
    axes: AxisOptions = AxisOptions()
    design: DesignOptions = DesignOptions()


class ConfigFile(Options):
    """Options that are kept in a file."""

    title: ClassVar[str] = "Output"

    config: Path | None = None
    """File with all options (YAML or JSON, also a run's config.json); options on the command line override it."""


class AnalysisOverrides(MetricOptions, ClusterOptions):
    """Metrics and clusters, where their code is of this user and not of the run."""


class DialogueOverrides(Options):
    """Dialogues and axes of a finished run, given again if its folder was received or its files have moved."""

    is_of_run: ClassVar[bool] = True
    in_help: ClassVar[frozenset[str] | None] = frozenset({"corpus", "axes", "pipeline", "metrics"})

    corpus: CorpusOptions = CorpusOptions()
    axes: AxisOptions = AxisOptions()


class SystemOverrides(DialogueOverrides):
    """Dialogues, axes and system of a finished run, given again if its folder was received or its files have moved."""

    system: SystemOptions = SystemOptions()


class RunOverrides(SystemOverrides):
    """Facts that a finished run knows, for runs from another machine or with moved files."""

    analysis: AnalysisOverrides = AnalysisOverrides()


class RunNames(Options):
    """Axes and metrics of a run to look at."""

    is_of_run: ClassVar[bool] = True

    axes: AxisNames = AxisNames()
    analysis: MetricOptions = MetricOptions()


class AuditConfig(Seeded):
    """Everything that an audit was asked for."""

    not_options: ClassVar[frozenset[str]] = frozenset({"directory", "inode"})

    corpus: CorpusOptions = CorpusOptions()
    axes: AxisOptions = AxisOptions()
    system: SystemOptions = SystemOptions()
    design: DesignOptions = DesignOptions()
    run: RunOptions = RunOptions()
    analysis: AnalysisOptions = AnalysisOptions()
    directory: Path | None = None
    """Folder that relative paths start from; the command records where it was run."""
    inode: int | None = None
    """Inode of the folder that the file was written into. A copied or received folder has another one."""

    @classmethod
    def with_settings(cls, config: AuditConfig | None, settings: Mapping[str, Any]) -> AuditConfig:
        """A configuration with single options changed, by their own names (``draws=2``, ``metrics="jga"``).

        Raises:
            TodBiasError: an option is unknown or cannot be.
        """
        config = cls() if config is None else config
        groups: dict[str, dict[str, Any]] = {}
        changed: dict[str, Any] = {}
        for name, value in settings.items():
            group = _GROUP_OF.get(name)
            if group is not None:
                groups.setdefault(group, {})[name] = value
            elif name in ("seed", "directory"):
                changed[name] = value
            else:
                raise TodBiasError(
                    f"unknown option {name!r}; expected one of {', '.join(sorted([*_GROUP_OF, 'seed']))}"
                )
        for group, given in groups.items():
            options: Options = getattr(config, group)
            changed[group] = type(options).of({**options.model_dump(exclude_unset=True), **given})
        return cls.of({**{name: getattr(config, name) for name in config.model_fields_set}, **changed})

    @classmethod
    def read(cls, path: str | Path) -> AuditConfig:
        """The configuration in a YAML or JSON file, or in a run's folder.

        Raises:
            TodBiasError: there is none, or an option in it is unknown or cannot be; names the file and the option.
        """
        import yaml

        from tod_bias.io.documents import read_yaml

        path = Path(path)
        path = path / FILE if path.is_dir() else path
        try:
            content = read_yaml(path)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise TodBiasError(f"{path}: cannot be read as a configuration: {shortened(str(error), 200)}") from error
        if not isinstance(content, Mapping):
            raise TodBiasError(f"{path}: expected groups of options ({', '.join(cls.model_fields)}), got no mapping")
        for name, value in content.items():
            if name in _GROUPS and not isinstance(value, Mapping):
                raise TodBiasError(f"{path}: {name} is a group of options; write {name}: {{{_example(name, value)}}}")
            if name not in cls.model_fields and name in _GROUP_OF:
                raise TodBiasError(
                    f"{path}: {name} belongs to a group; write {_GROUP_OF[name]}: {{{_example(name, value)}}}"
                )
        try:
            return cls.of(content)
        except TodBiasError as error:
            raise TodBiasError(f"{path}: {error}") from None

    def text(self, folder: Path) -> str:
        """Return the configuration as JSON, with the inode of the folder that it is written into."""
        return json.dumps(self.record() | {"inode": folder.stat().st_ino}, indent=1, ensure_ascii=False) + "\n"

    def record(self) -> dict[str, Any]:
        """All options as plain JSON types; of the dialogues and the system those that were given, as both may be
        objects."""
        record = self.model_dump(mode="json")
        for group in ("corpus", "axes", "system"):
            options: Options = getattr(self, group)
            record[group] = options.model_dump(mode="json", exclude_unset=True)
        return record

    def was_written_into(self, folder: Path) -> bool:
        """Return whether a run of this machine wrote it into this very folder, so that code it names may be imported.

        A folder that was copied, unpacked or downloaded has an inode that its sender cannot know.
        """
        return self.inode == folder.stat().st_ino

    def located(self) -> AuditConfig:
        """The same with whole paths in place of relative ones, so that it can be used from any folder."""
        if self.directory is None:
            return self
        groups: dict[str, Any] = {}
        for group, names in _PATHS.items():
            options: Options = getattr(self, group)
            paths = {name: self._located(getattr(options, name)) for name in names}
            given = options.model_dump(exclude_unset=True)
            groups[group] = {**given, **{name: value for name, value in paths.items() if name in given}}
        return type(self).of({**{name: getattr(self, name) for name in self.model_fields_set}, **groups})

    def _located(self, value: Any) -> Any:
        assert self.directory is not None
        if isinstance(value, tuple):
            return tuple(self._located(item) for item in value)
        if not isinstance(value, str | Path) or str(value) in ("", DEMO):
            return value
        axis, equals, name = str(value).rpartition("=")
        try:
            place = self.directory / name
            return f"{axis}{equals}{place}" if place.exists() else value
        except (OSError, ValueError):  # too long for a name, or with characters that none has
            return value


_GROUPS: dict[str, type[Options]] = {
    "corpus": CorpusOptions,
    "axes": AxisOptions,
    "system": SystemOptions,
    "design": DesignOptions,
    "run": RunOptions,
    "analysis": AnalysisOptions,
}
_PATHS = {
    "corpus": ("corpus", "datapath"),
    "axes": ("name_slots", "perturber", "lexicon"),
    "system": ("pipeline", "model", "api_call_model", "response_model"),
    "run": ("responses",),
}
"""Options that may name files, by group."""
_GROUP_OF = {name: group for group, options in _GROUPS.items() for name in options.model_fields}
"""Group of each option."""


def _example(name: str, value: Any) -> str:
    """Return an option as it is written in its group; the first option of a group without an option of its name."""
    option = name if name in _GROUP_OF else next(iter(_PATHS.get(name) or _GROUPS[name].model_fields))
    return f"{option}: {shortened(str(value), 60)}"


def line_of(error: ValidationError) -> str:
    """Return what is wrong with the first invalid option, in one line: ``draws must be at least 1, got 0``."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    if first["type"] == "extra_forbidden":
        return f"unknown option {name!r}"
    return invalid(error, name) if name else reason_in(first)
