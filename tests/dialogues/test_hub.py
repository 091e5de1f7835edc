import shutil

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import RepositoryNotFoundError

from tod_bias import load_corpus
from tod_bias.errors import CorpusError, ModelError
from tod_bias.io.hub import absence
from tod_bias.models import checkpoints
from tod_bias.models.checkpoints import load_configuration, load_model, load_tokenizer
from tod_bias.models.generator import Generator
from tod_bias.models.settings import GenerationSettings


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """An empty hub with an empty cache; the questions that it was asked."""
    asked = []

    def ask(self, name, **options):
        asked.append(name)
        raise RepositoryNotFoundError.__new__(RepositoryNotFoundError)

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", ask)
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", ask)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for download in ("get_hf_file_metadata", "http_get"):  # it would be tried for half a minute
        monkeypatch.setattr(
            huggingface_hub.file_download, download, lambda *_, **__: pytest.fail("files are asked for")
        )
    monkeypatch.chdir(tmp_path)
    absence.cache_clear()
    yield asked
    absence.cache_clear()


@pytest.mark.parametrize("load", [load_configuration, load_tokenizer, lambda name: load_model(name, causal=True)])
def test_a_misspelt_folder_is_asked_for_once(hub, load):
    for _ in range(2):
        with pytest.raises(
            ModelError, match=r"models/sgd: no such folder, and not on the hub; expected a model folder"
        ):
            load("models/sgd")
    assert hub == ["models/sgd"]


@pytest.mark.parametrize("name", ["./gone", "/gone", "../gone", "a/b/c", "a\\b", "~/gone", "gone/", "", "a b"])
def test_what_is_no_name_of_the_hub_is_not_asked_for(hub, name):
    assert absence(name, "model") == "no such folder"
    assert hub == []


def test_a_hub_out_of_reach_is_said(hub, monkeypatch):
    def ask(self, name, **options):
        raise huggingface_hub.errors.OfflineModeIsEnabled("offline")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", ask)
    with pytest.raises(ModelError, match="no such folder, and the hub cannot be asked for it"):
        load_configuration("models/sgd")


def test_a_dataset_that_is_nowhere_is_asked_for_once(hub):
    with pytest.raises(CorpusError, match=r"hf:nosuchset: no such folder, and not on the hub"):
        load_corpus("hf:nosuchset")
    assert hub == ["nosuchset"]


def test_a_model_in_the_cache_of_the_hub_is_used_without_asking(hub, tmp_path, gpt2):
    repository = tmp_path / "cache" / "models--someone--tiny"
    shutil.copytree(gpt2, repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    settings = GenerationSettings(max_new_tokens=4)
    found = Generator("someone/tiny", settings).generate(["USER: hi\nAPICALL:"])
    assert found == Generator(gpt2, settings).generate(["USER: hi\nAPICALL:"])
    assert checkpoints.fingerprint("someone/tiny") == checkpoints.fingerprint(str(repository / "snapshots" / "abc"))
    assert hub == []
