import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests share their cases; they are no package

from small_perturber import train_perturber


@pytest.fixture(scope="session")
def perturber_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_perturber(tmp_path_factory.mktemp("models") / "perturber")
