"""Options of an audit: name, type, bounds, default and help of each, defined once.

:mod:`tod_bias.cli` makes the command line from these models, :func:`tod_bias.attribute` takes them as keywords, and
``--config FILE`` reads them from YAML or JSON. A run's folder keeps them as ``config.json``, so that later commands do
not need them again. A field's docstring is its help.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tod_bias.errors import TodBiasError, invalid, reason_in, repeated, shortened
from tod_bias.statistics.needed import FEWEST_FLIPS, MOST_RESAMPLES

CONFIG_FILE = "config.json"
"""Name of the file in a run's folder."""
DEMO = "demo"
"""The corpus and the pipeline that come with the package."""
DEFAULT_AXES = ("gender", "age", "race")
"""Axes that are audited by default, beside the placebo."""
PLACEBO = "placebo"
"""Control axis, and the group that a matched placebo rewrites to."""
AXIS_FILES = (".yaml", ".yml", ".json")
"""Endings of axes that are files with an axis and its settings (:mod:`tod_bias.perturb.axis_file`)."""


def is_axis_file(axis: str) -> bool:
    """Return True if an axis is the path of an axis file."""
    return axis.lower().endswith(AXIS_FILES)


def names(value: Any) -> Any:
    """Split names that are joined by commas; raise if a name occurs twice."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        parts = tuple(name.strip() for item in value for name in item.split(",") if name.strip())
        if doubled := repeated(parts):
            raise ValueError(f"name {doubled!r} twice")
        return parts
    return value


def whole(value: Any) -> Any:
    """Return a whole number; raise for a truth value or a fraction. A text is left for the model to convert."""
    if isinstance(value, bool) or (isinstance(value, float) and not isinstance(value, int)):
        raise ValueError("must be a whole number")
    return int(value) if hasattr(value, "__index__") else value


def enough_flips(value: int) -> int:
    """Return a number of sign flips; raise if it is above 0 and no p-value can be below .05.

    The smallest p-value of n flips is 1 / (n + 1), for one row as for the largest z of a whole family.
    """
    if 0 < value < FEWEST_FLIPS:
        raise ValueError(f"must be 0 for no tests, or at least {FEWEST_FLIPS} to reach p < .05")
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(names)]
"""Names; on the command line joined by commas."""
Resamples = Annotated[int, BeforeValidator(whole), Field(ge=0, le=MOST_RESAMPLES)]
Flips = Annotated[Resamples, AfterValidator(enough_flips)]
Positive = Annotated[int, BeforeValidator(whole), Field(ge=1)]
Design = Literal["crossed", "draws"]
History = Literal["gold", "system"]
Split = Literal["train", "valid", "test"]


def beside(folder: Path, name: str) -> str:
    """Return the path of a file or folder by its name in a folder; the name itself if there is none."""
    try:
        return str(folder / name) if (folder / name).exists() else name
    except (OSError, ValueError):  # too long for a name, or with characters that none has
        return name


class Advanced:
    """Mark of an option that few users need: only ``--help-all`` shows it."""


ADVANCED = Advanced()


class InFile:
    """Mark of an option that only a file for ``--config`` gives."""


IN_FILE = InFile()


class Options(BaseModel):
    """A group of options; its title is the heading in ``--help``."""

    # Docstrings of fields become their descriptions, which are read when a class is made. A validator is made when a
    # class is first used: help needs none.
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True, defer_build=True
    )
    title: ClassVar[str] = ""
    is_of_run: ClassVar[bool] = False
    """True if a finished run supplies the values of these options by default."""
    in_help: ClassVar[frozenset[str] | None] = None
    """Fields that ``--help`` shows, including those of nested groups; None for all that are not advanced."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the options in a mapping.

        Raises:
            TodBiasError: an option is unknown, or its value has the wrong type or size; names the option.
        """
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise TodBiasError(line_of(error)) from None

    def given(self) -> dict[str, Any]:
        """Return the options that were given, by name, including those of nested groups."""
        values: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Options):
                values |= value.given()
            elif name in self.model_fields_set:
                values[name] = value
        return values

    def given_of(self, *names: str) -> list[str]:
        """Return the names of those fields that were given."""
        return [name for name in names if name in self.model_fields_set]


class Seeded(Options):
    """Options of everything that draws at random."""

    seed: Annotated[int, BeforeValidator(whole), Field(ge=0)] = 0
    """Seed of all random draws."""


class OutputOptions(Options):
    """Output of a command."""

    title: ClassVar[str] = "Output"

    out: Path | None = None
    """Folder for the results; by default runs/CORPUS."""
    quiet: bool = False
    """Print no progress and no table."""


class CorpusSource(Options):
    """A corpus."""

    title: ClassVar[str] = "Dialogues"

    corpus: str = DEMO
    """A corpus's name, a .jsonl or .json file of dialogues or chats, a folder of them, or module:function."""
    datapath: Path | None = None
    """Folder that holds the corpora, in ParlAI's layout."""


class SampleOptions(Options):
    """Size of the sample of dialogues."""

    title: ClassVar[str] = "Dialogues"

    max_dialogues: Positive | None = None
    """Maximum number of dialogues: a seeded sample, stratified by domain, drawn before the search for terms."""


class CorpusOptions(SampleOptions, CorpusSource):
    """Dialogues to audit."""

    split: Split = "test"
    """Split of the corpus."""


class AuditedDialogues(CorpusOptions):
    """Dialogues of an audit, or the tasks of a world."""

    world: str | None = None
    """Benchmark that judges itself, instead of a corpus: bfcl:multi_turn_base, tau2:retail …"""


class AxisNames(Options):
    """Axes to audit."""

    title: ClassVar[str] = "Axes"

    axes: Annotated[Names, MinLen(1)] = DEFAULT_AXES
    """Axes, joined by commas. a×b crosses two axes; FILE.yaml is an axis with settings of its own; module:name is your
    own axis."""


class TermOptions(Options):
    """Terms that express groups."""

    title: ClassVar[str] = "Axes"

    lexicon: tuple[str, ...] = ()
    """AXIS=FILE: a lexicon for one of the axes, shipped or new; may be repeated."""


class DeviceOptions(Options):
    """Device of the models."""

    title: ClassVar[str] = "System"

    device: Annotated[str | None, IN_FILE] = None
    """Device of the models, e.g. cpu or cuda:0."""


class LexiconOptions(TermOptions, AxisNames):
    """Axes, and the terms that express their groups."""


class PerturberOptions(Options):
    """Model that rewrites instead of lexicons."""

    perturber: Annotated[str | None, ADVANCED] = None
    """Checkpoint of a neural perturber (Qian's format) for axes of terms; by default lexicons rewrite."""


class AxisOptions(PerturberOptions, LexiconOptions):
    """Axes along which dialogues are rewritten, and how."""

    introductions: Annotated[Names | None, ADVANCED] = None
    """Kinds of introductions for the axes persona_…: name, title, statement …; by default all."""


class AuditedAxes(AxisOptions):
    """Axes of an audit, with the placebo as a negative control."""

    axes: Annotated[Names, MinLen(1)] = DEFAULT_AXES
    """Axes, joined by commas; the placebo is added unless --no-placebo is given. a×b crosses two axes; FILE.yaml is an
    axis with settings of its own; module:name is your own axis."""
    placebo: Annotated[bool, ADVANCED] = True
    """Add the axis placebo, the negative control: neutral words in the same dialogues are exchanged."""

    @property
    def audited(self) -> tuple[str, ...]:
        """Names of the axes with the placebo, unless it is declined."""
        return (*self.axes, PLACEBO) if self.placebo and PLACEBO not in self.axes else self.axes

    @property
    def is_placebo_implied(self) -> bool:
        """True if a command added the placebo, so that a run may leave it out if no dialogue has a neutral word."""
        return self.placebo and "placebo" in self.model_fields_set and PLACEBO not in self.axes


class SystemOptions(DeviceOptions):
    """The system that is audited."""

    pipeline: str | None = None
    """Pipeline file (.yaml), folder of a model for both language-model stages, or demo for the bundled pipeline."""
    model: str | None = None
    """Checkpoint for both language-model stages; with --model-url, the name of the model there."""
    api_call_model: str | None = None
    """Checkpoint for the API-call stage."""
    response_model: str | None = None
    """Checkpoint for the response stage."""
    max_new_tokens: Positive | None = None
    """Maximum number of tokens per text, for models given with --model; by default 128."""
    dtype: Annotated[str | None, IN_FILE] = None
    """Number format of models given with --model: auto (by default), float32 or bfloat16."""
    backend: Annotated[str | None, IN_FILE] = None
    """Decoding of models given with --model: auto (by default), tree (shares prefixes) or batch."""

    @property
    def models(self) -> tuple[str | None, str | None, str | None]:
        """The checkpoints of both stages, of the API-call stage, and of the response stage."""
        return (self.pipeline if self.is_folder else self.model), self.api_call_model, self.response_model

    @property
    def is_folder(self) -> bool:
        """True if the pipeline is the folder of a model, and no other model is named."""
        return self.pipeline is not None and self.model is None and Path(self.pipeline).is_dir()

    @property
    def generation(self) -> dict[str, Any]:
        """Decoding options of models given with ``model``."""
        return {name: getattr(self, name) for name in GENERATION}

    @property
    def is_named(self) -> bool:
        """True if a system is named."""
        return any((self.pipeline, *self.models))


class AuditedSystem(SystemOptions):
    """System of an audit, or a model that acts in a world."""

    model_url: str | None = None
    """Address of a served model that acts in a --world, such as http://localhost:8000/v1."""

    @property
    def is_named(self) -> bool:
        """True if a system is named."""
        return super().is_named or self.model_url is not None


GENERATION = ("max_new_tokens", "dtype", "backend")
"""Options of decoding for models given with --model."""


class VariantOptions(Options):
    """Number of counterfactuals."""

    title: ClassVar[str] = "Counterfactuals"

    variants: Annotated[Positive | None, ADVANCED] = None
    """Number of counterfactuals per dialogue and axis, dealt out over the groups; by default one per other group."""


class DesignOptions(VariantOptions):
    """Counterfactuals to make."""

    design: Design = "crossed"
    """crossed: rewrite every dialogue once for each group; draws: rewrite it by Su's random draws."""
    draws: Annotated[Positive, ADVANCED] = 3
    """Number of rewrites drawn per dialogue (Su, Algorithm 1), with --design draws."""
    max_per_axis: Positive | None = None
    """Maximum number of rewritten dialogues per axis; the placebo rewrites the dialogues of the other axes."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.design == "draws" and self.variants is not None:
            raise ValueError("variants: for the crossed design only; with the design draws, give draws")
        return self


class ResumeOptions(Options):
    """Continuation of interrupted work."""

    title: ClassVar[str] = "Running"

    resume: Annotated[bool, ADVANCED] = True
    """Continue the work of an earlier, interrupted command in the same folder."""


class TurnOptions(ResumeOptions):
    """Options for running turns."""

    history: Annotated[History, ADVANCED] = "gold"
    """Earlier turns that the system reads. gold: the corpus's (teacher forcing); system: its own outputs."""


class RunOptions(TurnOptions):
    """Options for running the system."""

    samples: Annotated[Positive, ADVANCED] = 1
    """Number of outputs drawn per call, if the temperature is above 0."""
    max_failures: Annotated[Annotated[float, Field(ge=0, le=1)] | None, ADVANCED] = None
    """Share of calls that may fail (by default 0.5): if more fail in every group, nothing is measured. For saved
    responses, the share of turns that may be missing (by default 0.01)."""
    responses: Path | None = None
    """File with a system's saved responses to the dialogues that tod-bias export writes; the system is not run."""
    executor: Annotated[Literal["local", "ray"], ADVANCED] = "local"
    """Place where Python stages are called. local: on this machine; ray: on the workers of a Ray cluster."""
    workers: Annotated[Positive | None, IN_FILE] = None
    """Number of workers for --executor ray; by default one per processor."""


class MetricOptions(Options):
    """Options of metrics."""

    title: ClassVar[str] = "Statistics"

    metrics: Annotated[Names, MinLen(1)] | None = None
    """Metrics, joined by commas; module:Class is your own metric. By default, the metrics that fit the system."""


class BootstrapOptions(Options):
    """Options of intervals."""

    title: ClassVar[str] = "Statistics"

    bootstrap: Annotated[Resamples, ADVANCED] = 1000
    """Number of resamples for the intervals; 0 for no intervals."""


class InferenceOptions(BootstrapOptions):
    """Options of intervals and p-values."""

    permutations: Annotated[Resamples, ADVANCED] = 10_000
    """Number of permutations for the tests; 0 for no tests."""


class MarginOptions(Options):
    """Margin of equivalence."""

    title: ClassVar[str] = "Statistics"

    margin: Annotated[float, Field(gt=0)] | None = None
    """Margin of equivalence, e.g. 0.05: a gap, or a change between two runs, is equivalent if shown to be smaller."""


class CompareConfig(Seeded, MarginOptions):
    """Options for comparing two runs."""

    permutations: Annotated[Annotated[Flips, Field(ge=1)], ADVANCED] = 10_000
    """Number of sign flips in tests of changes that occur in few dialogues."""
    quality_margin: Annotated[Annotated[float, Field(gt=0)] | None, ADVANCED] = None
    """Margin of equivalence for changes of scores, in the metric's units; by default --margin."""


class ClusterOptions(Options):
    """Clusters of dialogues."""

    title: ClassVar[str] = "Statistics"

    cluster: Annotated[Names, ADVANCED] = ("domain",)
    """Further clusters of dialogues, joined by commas: domain, module:function or none. Dialogues that are filled in
    from one template are found and count as a cluster, unless it is none. With fewer than seven effective clusters of a
    kind, a claim is one about these clusters."""


class AnalysisOptions(ClusterOptions, MarginOptions, MetricOptions):
    """Options for estimating results."""

    bootstrap: Annotated[Resamples, ADVANCED] = 1000
    """Number of resamples for the intervals of Su's numbers; 0 for no such intervals. Other intervals need none."""
    permutations: Annotated[Flips, ADVANCED] = 10_000
    """Number of sign flips in tests of metrics that differ in few dialogues, at least 20; 0 for no such tests."""
    order: Annotated[Names | None, ADVANCED] = None
    """Stages in the order of Su's attribution, joined by commas."""


class EvaluationScores(BootstrapOptions, MetricOptions):
    """Scores of a pipeline on a corpus as it is."""

    metrics: Annotated[Names, MinLen(1)] = ("corpus_bleu", "sentence_bleu")
    """Metrics in addition to joint goal accuracy, joined by commas; module:Class is your own metric."""


class EvaluateConfig(Seeded):
    """Corpus and metrics of an evaluation."""

    corpus: CorpusOptions = CorpusOptions()
    system: SystemOptions = SystemOptions()
    turns: TurnOptions = TurnOptions()
    scores: EvaluationScores = EvaluationScores()


class ExportConfig(Seeded):
    """Counterfactuals to write."""

    corpus: CorpusOptions = CorpusOptions()
    axes: AuditedAxes = AuditedAxes()
    design: DesignOptions = DesignOptions()


class ConfigFile(Options):
    """Options that are kept in a file."""

    title: ClassVar[str] = "Output"

    config: Path | None = None
    """File with options (YAML or JSON, also a run's config.json); options on the command line override it."""


class OptionsFile(Options):
    """Options of one command that are kept in a file."""

    title: ClassVar[str] = "Output"

    config: Path | None = None
    """YAML or JSON file of options, those that only a file gives among them (see --help-all); options on the command
    line override it."""


class DialogueOverrides(AxisNames):
    """Dialogues and axes of a finished run, given again if its folder was received or its files have moved."""

    title: ClassVar[str] = "Run"
    is_of_run: ClassVar[bool] = True

    corpus: str = DEMO
    """The corpus that the run audited, if it has moved."""
    config: Path | None = None
    """File with further options (YAML or JSON), which take the place of the run's."""

    def given(self) -> dict[str, Any]:
        """Return the options that were given, those of the file among them.

        Raises:
            TodBiasError: the file cannot be read, or an option in it is invalid.
        """
        options = super().given()
        file = options.pop("config", None)
        return options if file is None else AuditConfig.read_trusted(file).given() | options


class SystemOverrides(DialogueOverrides):
    """Dialogues, axes and system of a finished run, given again if its folder was received or its files have moved."""

    pipeline: str | None = None
    """The system to run: a YAML file, or the folder of a model."""


class RunNames(Options):
    """Axes and metrics of a run to look at."""

    is_of_run: ClassVar[bool] = True

    axes: AxisNames = AxisNames()
    analysis: MetricOptions = MetricOptions()


class AuditConfig(Seeded):
    """Options of an audit."""

    corpus: AuditedDialogues = AuditedDialogues()
    axes: AuditedAxes = AuditedAxes()
    system: AuditedSystem = AuditedSystem()
    design: DesignOptions = DesignOptions()
    run: RunOptions = RunOptions()
    analysis: AnalysisOptions = AnalysisOptions()
    directory: Annotated[Path | None, IN_FILE] = None
    """Folder from which relative paths start: the folder in which the command was run."""
    inode: Annotated[int | None, IN_FILE] = None
    """Inode of the folder that the file was written into. A copied or received folder has another one."""

    @classmethod
    def with_settings(cls, config: AuditConfig | None, settings: Mapping[str, Any]) -> AuditConfig:
        """Return a configuration with single options changed, by name (``draws=2``, ``metrics="jga"``).

        Raises:
            TodBiasError: an option is unknown or invalid.
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
        """Read the configuration from a YAML or JSON file, or from a run's folder.

        Raises:
            TodBiasError: the file cannot be read, or an option in it is unknown or invalid; names file and option.
        """
        from tod_bias.io.documents import read_settings

        path = Path(path)
        path = path / CONFIG_FILE if path.is_dir() else path
        content = read_settings(path, f"{path}: cannot be read as a configuration")
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

    @classmethod
    def read_trusted(cls, file: Path) -> AuditConfig:
        """Read a configuration of the user's own, whose code may be imported; its paths are absolute.

        Raises:
            TodBiasError: the file cannot be read, or a run wrote it into another folder.
        """
        config = cls.read(file)
        if config.inode is not None and not config.was_written_into(file if file.is_dir() else file.parent):
            raise TodBiasError(
                f"{file}: a run wrote it into another folder; delete its entry 'inode' to use it as your own"
            )
        return config.located()

    def text(self, folder: Path) -> str:
        """Return the configuration as JSON, with the inode of the folder that it is written into."""
        return json.dumps(self.record() | {"inode": folder.stat().st_ino}, indent=1, ensure_ascii=False) + "\n"

    def record(self) -> dict[str, Any]:
        """Return all options as plain JSON types.

        Of dialogues, axes and system only the options that were given are included, because the user may have passed
        objects instead.
        """
        record = self.model_dump(mode="json")
        for group in ("corpus", "axes", "system"):
            options: Options = getattr(self, group)
            record[group] = options.model_dump(mode="json", exclude_unset=True)
        return record

    def was_written_into(self, folder: Path) -> bool:
        """Return True if a run of this machine wrote the configuration into this folder, so its code may be imported.

        A folder that was copied, unpacked or downloaded has an inode that its sender cannot know.
        """
        return self.inode == folder.stat().st_ino

    def located(self) -> AuditConfig:
        """Return the configuration with absolute paths, which can be used from any folder."""
        if self.directory is None:
            return self
        groups: dict[str, Any] = {}
        for group, names in _PATHS.items():
            options: Options = getattr(self, group)
            paths = {name: self._located(getattr(options, name)) for name in names}
            given = options.model_dump(exclude_unset=True)
            groups[group] = {**given, **{name: value for name, value in paths.items() if name in given}}
        if "axes" in groups["axes"]:
            axes = tuple(self._located(axis) if is_axis_file(axis) else axis for axis in self.axes.axes)
            groups["axes"]["axes"] = axes
        return type(self).of({**{name: getattr(self, name) for name in self.model_fields_set}, **groups})

    def _located(self, value: Any) -> Any:
        assert self.directory is not None
        if isinstance(value, tuple):
            return tuple(self._located(item) for item in value)
        if not isinstance(value, str | Path) or str(value) in ("", DEMO):
            return value
        axis, equals, name = str(value).rpartition("=")
        return f"{axis}{equals}{beside(self.directory, name)}"


_GROUPS: dict[str, type[Options]] = {
    "corpus": AuditedDialogues,
    "axes": AuditedAxes,
    "system": AuditedSystem,
    "design": DesignOptions,
    "run": RunOptions,
    "analysis": AnalysisOptions,
}
_PATHS = {
    "corpus": ("corpus", "datapath"),
    "axes": ("perturber", "lexicon"),
    "system": ("pipeline", "model", "api_call_model", "response_model"),
    "run": ("responses",),
}
"""Options that may name files, by group."""
_GROUP_OF = {name: group for group, options in _GROUPS.items() for name in options.model_fields}
"""Group of each option."""


def group_of(option: str) -> str | None:
    """Return the group of an audit's option; None for an option of no group."""
    return _GROUP_OF.get(option)


def _example(name: str, value: Any) -> str:
    """Return an example of how an option is written in its group.

    For the name of a group, the example is the group's first option.
    """
    option = name if name in _GROUP_OF else next(iter(_PATHS.get(name) or _GROUPS[name].model_fields))
    return f"{option}: {shortened(str(value), 60)}"


def line_of(error: ValidationError) -> str:
    """Return one line about the first invalid option, such as ``draws must be at least 1, got 0``."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    if first["type"] == "extra_forbidden":
        return f"unknown option {name!r}"
    return invalid(error, name) if name else reason_in(first)
