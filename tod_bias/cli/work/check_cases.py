"""Cases that are run again: ``tod-bias check --cases``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tod_bias.cli.configuration import config_of
from tod_bias.cli.work.judged import Judged
from tod_bias.cli.work.loading import load_system
from tod_bias.config import AuditConfig, SystemOverrides
from tod_bias.dialogues.corpora import check_shipped, load_corpus
from tod_bias.errors import TodBiasError
from tod_bias.perturb.loading import is_from_user
from tod_bias.report import cases as pages
from tod_bias.testing.case_check import check_cases, user_axes
from tod_bias.testing.cases import read_cases


def run_cases(
    path: Path, run: Path | None, overrides: SystemOverrides, references: Literal["gold"] | None, *, quiet: bool
) -> Judged:
    """Run a file of cases again, on the system that the options or a run name.

    Args:
        path: of the file.
        run: folder of a run, which may name the system.
        overrides: the options.
        references: with ``gold``, the recorded responses are a standard too.
        quiet: show no progress.

    Raises:
        TodBiasError: the file cannot be read, or the system cannot be loaded.
    """
    cases = read_cases(path)
    config = AuditConfig.with_settings(None, overrides.given()) if run is None else config_of(run, overrides)
    corpus, split = cases[0].corpus
    has_models = any(config.system.models)
    if config.corpus.given_of("corpus"):
        corpus = config.corpus.corpus
    elif has_models:
        check_shipped(corpus, str(path))
    axes = _user_axes(cases, config, is_given=run is None)
    whole = load_corpus(corpus, datapath=config.corpus.datapath, split=split) if has_models else []
    system = load_system("", config.system, whole)
    checked = check_cases(cases, system, references=references, axes=axes, show_progress=not quiet)
    record = checked.record
    return Judged(record, pages.junit(record), pages.markdown(record), pages.table(record), checked.code)


def _user_axes(cases: Sequence[Any], config: AuditConfig, *, is_given: bool) -> dict[str, Any]:
    """Return the axes of the user's own.

    Args:
        cases: which may name them.
        config: which names them.
        is_given: True if the command line names them, so that an axis of no case is a mistake.

    Raises:
        TodBiasError: one cannot be loaded, or no case is of it.
    """
    names = config.axes.axes if config.axes.given_of("axes") else ()
    axes = user_axes(names)
    shipped = [name for name in names if not is_from_user(name)]
    known = {case.axis for case in cases}
    for axis in (*axes, *shipped) if is_given else ():
        if axis not in known:
            raise TodBiasError(f"--axes: no case is of axis {axis!r}; expected some of {', '.join(sorted(known))}")
    return axes
