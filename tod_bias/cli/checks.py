"""Checks that several commands share, made before anything heavy is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tod_bias.cli.options import file_options
from tod_bias.config import AuditConfig, CorpusSource, Options
from tod_bias.errors import StageError, TodBiasError
from tod_bias.io.cache import CACHE_FILE, clear
from tod_bias.io.folder import claimed
from tod_bias.io.imports import is_import
from tod_bias.models.processes import as_first_sees

if TYPE_CHECKING:
    from tod_bias.results import AuditResult


def user_metrics(config: AuditConfig) -> list[str]:
    """Return the user's own metrics that a configuration names."""
    return [name for name in config.analysis.metrics or () if is_import(name)]


def check_metrics(names: Sequence[str], *, alone: bool = False) -> None:
    """Raise for unknown metrics.

    Args:
        names: names of metrics; your own (``module:Class``) are not checked here.
        alone: True if only originals are run, so that metrics of counterfactuals have no value.
    """
    from tod_bias.metrics.choice import check_alone, metric

    shipped = [metric(name) for name in names if not is_import(name)]
    if alone:
        check_alone(shipped)


def check_datapath(options: CorpusSource) -> None:
    """Raise if --datapath is given without --corpus."""
    if options.datapath is not None and not options.given_of("corpus"):
        raise TodBiasError("--datapath: is a folder of several corpora; name one with --corpus, e.g. google_sgd")


def folder_of(out: Path | None, corpus: str) -> Path:
    """Return the folder for a run's results; no other run can write into it until this command ends."""
    return claimed(_place(out, corpus))


def check_folder(out: Path | None, corpus: str) -> Path:
    """Raise if the folder for results cannot be written, before anything slow begins.

    No other run can write into it until this command ends. A new folder that stays empty is removed then.

    Returns:
        The folder's absolute path, which stays valid if a stage changes the current folder.
    """
    return claimed(_place(out, corpus).absolute())


def check_files(*paths: str | Path | None, otherwise: str = "cannot be read") -> None:
    """Raise if files and folders to read are missing, before their readers are loaded.

    Args:
        paths: None entries are ignored.
        otherwise: message for a missing path, before the reason.

    Raises:
        TodBiasError: a path is missing.
    """
    for path in paths:
        if path is None:
            continue
        try:
            Path(path).stat()
        except (OSError, ValueError) as error:
            raise TodBiasError(f"{path}: {otherwise} ({getattr(error, 'strerror', None) or error})") from error


def result_of(run: Path) -> AuditResult:
    """Return the results of a finished run.

    Raises:
        TodBiasError: the folder holds no results.
    """
    from tod_bias.results import AuditResult

    return AuditResult.load(run)


def _place(out: Path | None, corpus: str) -> Path:
    return out or Path("runs") / Path(corpus).stem.replace(":", "-")


def check_access(pipeline: Any, out: Path | None, corpus: str) -> None:
    """Raise if a stage's server cannot be called, unless the folder has cached outputs and may need no calls."""
    if (_place(out, corpus) / CACHE_FILE).exists():
        return
    for name, stage in pipeline.stages.items():
        try:
            stage.check_access()
        except StageError as error:
            raise StageError(f"stage {name!r}: {error}") from error


def cache_of(folder: Path, resume: bool) -> Path:
    """Return the file of cached outputs, emptied unless the run is resumed."""
    if not resume:
        as_first_sees(lambda: clear(folder / CACHE_FILE))  # the others wait for it
    return folder / CACHE_FILE


def refuse(given: Options, names: Iterable[str], why: str) -> None:
    """Raise if an option is given that has no effect.

    Args:
        given: the options.
        names: options without an effect.
        why: reason for the message.

    Raises:
        TodBiasError: such an option was given.
    """
    if idle := given.given().keys() & set(names):
        in_file = file_options([type(given)])
        marked = (name if name in in_file else f"--{name.replace('_', '-')}" for name in sorted(idle))
        raise TodBiasError(f"{', '.join(marked)}: {why}")
