"""Fixtures of all tests: the real corpora, where they are."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORPORA = Path(os.environ.get("DATA", ROOT / ".." / "shared" / "data")).expanduser()


@pytest.fixture(scope="session")
def sgd_datapath() -> Path:
    """A ParlAI datapath with Google SGD's train and dev splits, unpacked once into ``.data/``."""
    datapath = ROOT / ".data"
    if (datapath / "google_sgd" / ".built").is_file():
        return datapath
    archive = CORPORA / "google_sgd_train_dev.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no Google SGD: {archive} is not there; set DATA to the folder that holds it")
    datapath.mkdir(exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=datapath))  # so that an interrupted unpacking is never taken for a whole one
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
        if not (datapath / "google_sgd").exists():
            (part / "google_sgd").rename(datapath / "google_sgd")
    finally:
        shutil.rmtree(part)
    return datapath


@pytest.fixture
def tod_samples(tmp_path: Path) -> Path:
    """A ParlAI datapath with the small samples of real corpora; a copy, as ParlAI writes into it."""
    samples = CORPORA / "tod_samples"
    if not samples.is_dir():
        pytest.skip(f"no samples: {samples} is not there; set DATA to the folder that holds it")
    datapath = tmp_path / "tod_samples"
    for name in ("multiwoz_v22", "taskmaster-2"):
        shutil.copytree(samples / name, datapath / name, copy_function=shutil.copyfile)
        for folder in (datapath / name, *(datapath / name).rglob("*/")):
            folder.chmod(0o755)
    return datapath
