"""Fixtures of all tests, those of tests/ and those beside the studies in projects/."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the models here are so small that threads only wait for each other

from filelock import FileLock
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "tests"))  # builders.py, served.py; tests are no package
sys.path.insert(0, str(Path(__file__).parent / "projects" / "demo"))

from builders import small_corpus, tiny_llama, tiny_model
from served import chat_model, served

gc.set_threshold(50_000, 20, 20)  # else an eighth of the time goes into looking through what fixtures keep
collect = gc.collect
gc.collect = lambda generation=1: collect(generation)  # young objects: audits and trainings call it again and again

settings.register_profile("tod-bias", deadline=None)  # a busy machine is no fault
settings.load_profile("tod-bias")

ROOT = Path(__file__).parent
CORPORA = Path(os.environ.get("DATA", ROOT / ".." / "shared" / "data")).expanduser()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no worker waits for the last of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """What is imported by now stays, and need not be looked through."""
    collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def kept() -> Iterator[None]:
    """What a file leaves behind is not looked through again either."""
    yield
    collect()
    gc.freeze()


def unpacked(name: str, mark: str, archive: str) -> Path:
    """A folder of an archive of real corpora, unpacked once into ``.data/``."""
    folder = ROOT / ".data" / name
    if (folder / mark).exists():
        return folder
    packed = CORPORA / archive
    if not packed.is_file():
        pytest.skip(f"no {name}: {packed} is not there; set DATA to the folder that holds it")
    folder.parent.mkdir(exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent))  # so that an interrupted unpacking is never taken for a whole one
    try:
        with tarfile.open(packed) as files:
            files.extractall(part, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # from 3.11.4 on
        try:
            (part / name).rename(folder)
        except OSError:  # another process was faster
            if not (folder / mark).exists():
                raise
    finally:
        shutil.rmtree(part)
    return folder


@pytest.fixture(scope="session")
def sgd_datapath() -> Path:
    """A ParlAI datapath with Google SGD's train and dev splits."""
    return unpacked("google_sgd", ".built", "google_sgd_train_dev.tar.xz").parent


@pytest.fixture(scope="session")
def tau_bench() -> Path:
    """τ-bench: databases, tasks and real runs."""
    return unpacked("tau_bench", "trajectories", "tau_bench.tar.xz")


@pytest.fixture(scope="session")
def star() -> Path:
    """STAR: dialogues, APIs, tasks."""
    return unpacked("star", "apis", "star.tar.xz")


@pytest.fixture
def tod_samples(tmp_path: Path) -> Path:
    """A ParlAI datapath with the small samples of real corpora; a copy, as ParlAI writes into it."""
    samples = CORPORA / "tod_samples"
    if not samples.is_dir():
        pytest.skip(f"no samples: {samples} is not there; set DATA to the folder that holds it")
    datapath = tmp_path / "tod_samples"
    for name in ("multidogo", "multiwoz_v22", "taskmaster-1", "taskmaster-2", "taskmaster-3"):
        shutil.copytree(samples / name, datapath / name, copy_function=shutil.copyfile)
        for folder in (datapath / name, *(datapath / name).rglob("*/")):
            folder.chmod(0o755)
    return datapath


@pytest.fixture(scope="session")
def made_once(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Callable[[str, Callable[[Path], object]], Path]:
    """``made_once(name, make)``: a folder that ``make`` fills, once for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    base = base if worker_id == "master" else base.parent

    def folder(name: str, make: Callable[[Path], object]) -> Path:
        made = base / "made" / name
        made.parent.mkdir(exist_ok=True)
        with FileLock(f"{made}.lock"):
            if not made.exists():
                part = Path(tempfile.mkdtemp(dir=made.parent))
                make(part)
                part.rename(made)
        return made

    return folder


@pytest.fixture(scope="session")
def gpt2(made_once) -> Path:
    return made_once("gpt2", tiny_model)


@pytest.fixture(scope="session")
def llama(made_once) -> Path:
    return made_once("llama", tiny_llama)


@pytest.fixture(scope="session")
def t5(made_once) -> Path:
    return made_once("t5", partial(tiny_model, arch="t5"))


@pytest.fixture(scope="session")
def bart(made_once) -> Path:
    return made_once("bart", partial(tiny_model, arch="bart"))


@pytest.fixture(scope="session")
def chat_folder(made_once) -> Path:
    """A chat model that knows a timetable by heart (tests/served.py)."""
    return made_once("chat", chat_model)


@pytest.fixture(scope="session")
def chat_url(chat_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a real server with that model."""
    for package in ("fastapi", "openai", "uvicorn"):
        pytest.importorskip(package, reason="no server: pip install -e '.[serve]'")
    with served(chat_folder, tmp_path_factory.mktemp("server") / "log") as url:
        yield url


@pytest.fixture
def corpus():
    return small_corpus()


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the figures of single runs, which take most of the time of a report."""
    monkeypatch.setattr("tod_bias.report.section.MOST_ROWS", 0)


@pytest.fixture(autouse=True)
def painting(request: pytest.FixtureRequest) -> None:
    """Figures are painted in tests of reports, which have a fixture of this name, and in tests marked ``painted``."""
    if request.node.get_closest_marker("painted") is None:
        request.getfixturevalue("unpainted")
