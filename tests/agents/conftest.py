import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # sgd_files.py; tests are no package

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="pkg_resources is deprecated", category=UserWarning)
    warnings.filterwarnings("ignore", message="Using slow pure-python SequenceMatcher", category=UserWarning)
    try:
        import parlai.core.opt
        import parlai.tasks.google_sgd.agents  # noqa: F401
    except ImportError as error:
        HAS_PARLAI, WHY = False, str(error)
    else:
        HAS_PARLAI, WHY = True, ""

from sgd_files import write_sgd, write_strict_pipeline


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return None if HAS_PARLAI or collection_path.name == "test_protocol.py" else True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not HAS_PARLAI:
        terminalreporter.write_line(f"tests of the agents left out: ParlAI cannot be imported ({WHY})")


@pytest.fixture(scope="session")
def datapath(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sgd(tmp_path_factory.mktemp("datapath"))


@pytest.fixture(scope="session")
def strict_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_strict_pipeline(tmp_path_factory.mktemp("strict"))


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights: it says nonsense, another one to every prompt."""
    import torch
    from sgd_files import DIALOGUES

    from tod_bias.models.from_scratch import new_model, new_tokenizer
    from tod_bias.models.settings import TrainConfig

    torch.manual_seed(0)
    tokenizer = new_tokenizer((turn.text for dialogue in DIALOGUES for turn in dialogue.turns), 300, causal=True)
    settings = TrainConfig(arch="gpt2", layers=1, width=16, heads=2, max_length=384)
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    new_model(settings, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
