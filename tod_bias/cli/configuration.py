"""Options of an audit from a file, from the command line and from a finished run."""

from __future__ import annotations

from pathlib import Path

from tod_bias.cli.checks import check_datapath
from tod_bias.config import CONFIG_FILE, DEMO, AuditConfig, Options
from tod_bias.errors import TodBiasError


def configured(config: AuditConfig, file: Path | None) -> AuditConfig:
    """Return an audit's options: those of a file, overridden by those of the command line.

    Relative paths on the command line start from the current folder.

    Raises:
        TodBiasError: the file cannot be read, or a run wrote it into another folder.
    """
    base = None if file is None else AuditConfig.read_trusted(file)
    config = AuditConfig.with_settings(base, config.given() | {"directory": Path.cwd()})
    config = _in_world(config)
    check_datapath(config.corpus)
    named = {name: getattr(config.corpus, name) for name in type(config.corpus).model_fields}  # for later commands
    if config.run.responses is None and not config.system.is_named and config.corpus.corpus == DEMO:
        named["pipeline"] = DEMO
    named["placebo"] = config.axes.placebo  # a command implies it, a function does not
    return AuditConfig.with_settings(config, named)


def _in_world(config: AuditConfig) -> AuditConfig:
    """Return the options of an audit in a world: its name is that of the corpus, and dialogues run freely.

    Raises:
        TodBiasError: a corpus is given too, the history is gold, or a served model is named without a world.
    """
    world = config.corpus.world
    if world is None:
        if config.system.model_url is not None:
            raise TodBiasError("--model-url: goes with --world; a served assistant is a file: tod-bias init assistant")
        return config
    from tod_bias.worlds.loading import load_world

    name = load_world(world).name
    if config.corpus.given_of("corpus") and config.corpus.corpus != name:
        raise TodBiasError(f"--world {world}: replaces --corpus; leave it out")
    if config.run.given_of("history") and config.run.history != "system":
        raise TodBiasError("--history gold: a world has no recorded answers; leave it out")
    return AuditConfig.with_settings(config, {"corpus": name, "world": name, "history": "system"})


def config_of(run: Path, given: Options) -> AuditConfig:
    """Return the options of a run, overridden by those that are given now.

    Code that a run's folder names (a pipeline file, your own axes, metrics and corpora) is imported only if a run of
    this machine wrote that folder. From a received folder, only design and seed are used.

    Raises:
        TodBiasError: the folder's configuration cannot be read, or an option is invalid.
    """
    options = given.given()
    path = run / CONFIG_FILE
    if not path.is_file():
        return AuditConfig.with_settings(None, options)
    config = AuditConfig.read(path)
    if not config.was_written_into(run):
        safe = {"run": {"max_failures": config.run.max_failures}}
        config = AuditConfig.of({"design": config.design, "seed": config.seed, **safe})
    config = config.located()
    if {
        "pipeline",
        "model",
        "model_url",
        "api_call_model",
        "response_model",
    } & options.keys():  # in the place of the run's system
        config = AuditConfig.of({**{name: getattr(config, name) for name in config.model_fields_set}, "system": {}})
    return AuditConfig.with_settings(config, options)
