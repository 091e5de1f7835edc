"""What works on this machine, and how to install the rest: ``tod-bias doctor``.

Versions are read from the metadata of the installer. No package is imported for them, so that a broken package cannot
break the answer. PyTorch is imported only if its build supports another device than the CPU.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlparse

from packaging.requirements import Requirement

PACKAGE = "tod-bias"
PARLAI = "parlai==1.7.2"
"""Installed last and without its pins, which are of 2022."""
SECONDS = 1.5
"""Seconds that the hub has for an answer."""
_ON = {"1", "ON", "YES", "TRUE"}
State = Literal["ok", "missing", "note"]

GIVES: Mapping[str, str] = {
    "agents": "agents of openai-agents, PydanticAI, LangChain and LangGraph",
    "docs": "building the documentation site",
    "fairlearn": "the groups' scores as a MetricFrame",
    "models": "language models that are run or trained here",
    "parlai": "ParlAI's tasks, teachers and agents",
    "ray": "components spread over a cluster",
    "sentiment": "the metric sentiment",
    "sql": "databases of several tables (SqlDb)",
    "serve": "a local chat API (transformers serve)",
    "test": "the test suite",
    "worlds": "benchmarks that grade themselves (--world)",
}
"""Purpose of each extra."""


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    area: str
    """``environment``, ``devices``, ``packages``, ``extras`` or ``network``."""
    name: str
    state: State
    """``ok``: it works; ``missing``: it does not; ``note``: it works, and something about it is worth knowing."""
    said: str
    """Finding, in one line."""
    command: str = ""
    """Command that installs or repairs it; empty if nothing is needed."""


@dataclass(frozen=True)
class Environment:
    """Checks in the order in which they are shown."""

    checks: tuple[Check, ...]

    @property
    def ready(self) -> bool:
        """True if audits run here: nothing outside of the extras and the network is missing."""
        return not any(check.state == "missing" and check.area in {"environment", "packages"} for check in self.checks)

    def has(self, extra: str) -> bool:
        """True if everything of an extra is installed."""
        return any((check.area, check.name, check.state) == ("extras", extra, "ok") for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """``{"ready": …, "checks": [{"area": …, "name": …, "state": …, "said": …, "command": …}, …]}``."""
        return {"ready": self.ready, "checks": [asdict(check) for check in self.checks]}


def examined(seconds: float = SECONDS) -> Environment:
    """Look at this machine.

    Args:
        seconds: how long the hub may take to answer.
    """
    answer: list[Check] = []
    asking = threading.Thread(target=lambda: answer.append(_hub(seconds)), daemon=True)
    asking.start()  # beside the rest, and never waited for longer: looking up a name has no time limit of its own
    checks = [*_python(), *_devices(), *_packages()]
    asking.join(seconds)
    late = Check("network", "hub", "note", f"no answer within {seconds:g} s; models and data on this machine are used")
    return Environment((*checks, *(answer or [late])))


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    in_venv = sys.prefix != sys.base_prefix
    where = f"{version} on {platform.system()} {platform.machine()}, {sys.prefix}"
    yield Check("environment", "python", "ok", where + ("" if in_venv else " (no virtual environment)"))
    try:
        yield Check("environment", PACKAGE, "ok", metadata.version(PACKAGE))
    except metadata.PackageNotFoundError:
        yield Check("environment", PACKAGE, "missing", "not installed here", f"{_pip()} -e .")
    command, beside = shutil.which(PACKAGE), Path(sys.executable).parent / PACKAGE
    if command:
        yield Check("environment", "command", "ok", command)
    else:
        activate = Path(sys.executable).parent / "activate"
        help_ = f". {shlex.quote(str(activate))}" if in_venv and activate.exists() else "python -m tod_bias …"
        said = f"`{PACKAGE}` is not on the search path" + (f"; it is {beside}" if beside.exists() else "")
        yield Check("environment", "command", "note", said, help_)
    here, free = Path.cwd(), shutil.disk_usage(".").free / 2**30
    if os.access(here, os.W_OK):
        yield Check("environment", "folder", "ok", f"{here}: results can be written, {free:.1f} GiB free")
    else:
        yield Check("environment", "folder", "note", f"{here}: cannot be written into", "give --out FOLDER")


def _devices() -> Iterator[Check]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS")
    said = f"{threads or cores} of {cores} cores" + (" (OMP_NUM_THREADS)" if threads else "")
    yield Check("devices", "threads", "ok", said)
    try:
        build = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return  # said among the packages
    if build.endswith("+cpu"):
        yield Check("devices", "accelerator", "note", f"none: this PyTorch ({build}) is built for the CPU, float32")
        return
    try:
        import torch

        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        if accelerator is None:
            yield Check("devices", "accelerator", "note", f"none found by PyTorch {build}; models run on the CPU")
        else:
            many = torch.accelerator.device_count()
            yield Check("devices", "accelerator", "ok", f"{many} × {accelerator.type} (PyTorch {build})")
    except (ImportError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        yield Check("devices", "accelerator", "missing", f"PyTorch {build} cannot be imported: {reason}", _add("torch"))


def _packages() -> Iterator[Check]:
    try:
        wanted = [Requirement(text) for text in metadata.requires(PACKAGE) or ()]
    except metadata.PackageNotFoundError:
        return
    core = [requirement for requirement in wanted if _applies(requirement)]
    lacking = [requirement for requirement in core if not _is_installed(requirement)]
    if lacking:
        yield Check("packages", "needed", "missing", _said(lacking), _add(*map(_plain, lacking)))
    else:
        shown = ("numpy", "pandas", "pydantic", "openai", "sacrebleu")
        yield Check("packages", "needed", "ok", ", ".join(f"{name} {metadata.version(name)}" for name in shown))
    for extra in sorted(
        {name for requirement in wanted if requirement.marker for name in _extras_in(str(requirement.marker))}
    ):
        of_extra = [
            requirement
            for requirement in wanted
            if requirement.marker and _applies(requirement, extra) and not _applies(requirement)
        ]
        yield _extra(extra, [requirement for requirement in of_extra if not _is_installed(requirement)])


def _extra(extra: str, lacking: list[Requirement]) -> Check:
    gives = GIVES.get(extra, "")
    command = _add(*map(_plain, lacking)) if lacking else ""
    if extra == "parlai":
        name, _, wanted = PARLAI.partition("==")
        try:
            gives += f" (ParlAI {metadata.version(name)})"
        except metadata.PackageNotFoundError:
            command = " && ".join(part for part in (command, f"{_pip()} --no-deps {name}=={wanted}") if part)
            return Check("extras", extra, "missing", f"{gives}: ParlAI is not there", command)
    if lacking:
        return Check("extras", extra, "missing", f"{gives}: {_said(lacking)}", command)
    return Check("extras", extra, "ok", gives)


def _hub(seconds: float) -> Check:
    if any(os.environ.get(name, "").upper() in _ON for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")):
        return Check("network", "hub", "note", "not asked: HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE")
    try:
        from huggingface_hub.constants import ENDPOINT

        urllib.request.urlopen(urllib.request.Request(ENDPOINT, method="HEAD"), timeout=seconds).close()
    except urllib.error.HTTPError:
        pass  # it answers
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(getattr(error, "reason", error)).split())
        said = f"cannot be reached ({reason}); models and data on this machine are used"
        return Check("network", "hub", "note", said, "export HF_HUB_OFFLINE=1")
    return Check("network", "hub", "ok", f"{ENDPOINT} answers")


def _extras_in(marker: str) -> Iterator[str]:
    parts = marker.replace("'", '"').split('extra == "')
    yield from (part.partition('"')[0] for part in parts[1:])


def _applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _is_installed(requirement: Requirement) -> bool:
    """True if a package is installed in a suitable version, with the requirements of its own extras."""
    try:
        distribution = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        return False
    if not requirement.specifier.contains(distribution.version, prereleases=True):
        return False
    deeper = [Requirement(text) for text in distribution.requires or ()] if requirement.extras else []
    return all(
        _is_installed(dependency)
        for extra in requirement.extras
        for dependency in deeper
        if _applies(dependency, extra) and not _applies(dependency)
    )


def _said(lacking: list[Requirement]) -> str:
    return "lacking " + ", ".join(_plain(requirement) for requirement in lacking)


def _plain(requirement: Requirement) -> str:
    """A requirement without its marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def _pip() -> str:
    """Return the command that calls pip of this environment."""
    active = os.environ.get("VIRTUAL_ENV")
    mine = active is not None and Path(active).resolve() == Path(sys.prefix).resolve()
    return "pip install" if mine else f"{shlex.quote(sys.executable)} -m pip install"


def _add(*requirements: str) -> str:
    """The command that installs these, in the versions that are tested together where a checkout lists them."""
    constraints = (_checkout() or Path()) / "constraints.txt"
    listed = f" -c {shlex.quote(str(constraints))}" if _checkout() and constraints.is_file() else ""
    return f"{_pip()}{listed} {' '.join(map(shlex.quote, requirements))}"


def _checkout() -> Path | None:
    """The folder that this package was installed from, for an editable installation."""
    try:
        url = json.loads(metadata.distribution(PACKAGE).read_text("direct_url.json") or "{}").get("url", "")
    except metadata.PackageNotFoundError:
        return None
    return Path(unquote(urlparse(url).path)) if url.startswith("file:") else None


MARKS: Mapping[State, str] = {"ok": "ok", "missing": "--", "note": " !"}


def as_text(environment: Environment) -> str:
    """Return the checks, a line each, and a command that works with what is installed."""
    lines, area = [], ""
    for check in environment.checks:
        if check.area != area:
            area = check.area
            lines.append(area)
        lines.append(f"  {MARKS[check.state]} {check.name:<12} {check.said}")
        if check.command:
            lines.append(f"     {'':<12} → {check.command}")
    return "\n".join([*lines, "", _next_step(environment)])


def _next_step(environment: Environment) -> str:
    """Return a command that works with what is installed."""
    if not environment.ready:
        return "Audits do not run here yet: run the commands above that belong to lines marked --."
    if environment.has("models"):
        return "Audits run here: try `tod-bias attribute`, which audits the bundled demo."
    return "Audits run here: try `tod-bias init stages`. The bundled demo runs models, which need the extra `models`."
