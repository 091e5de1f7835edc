"""Code of one's own, by name: what it raises, sys.exit too, is one line that names it."""

import sys

import numpy as np
import pytest

from tod_bias import load_corpus
from tod_bias.audit.choices import clusters_of
from tod_bias.errors import AxisError, CorpusError, TodBiasError
from tod_bias.imports import guarded, import_module, made
from tod_bias.metrics.choice import metric
from tod_bias.perturb import load_axis
from tod_bias.recommenders.embeddings.readers import load_embeddings

OWN = """
import sys
from tod_bias.perturb import Axis
def ending(*given): sys.exit(4)
def listing(dialogue): return [dialogue]
def telling(dialogue): return "x"
class Odd:
    name = label = signature = "odd"; better = "higher"; scale = "difference"; columns = ("a",)
    def statistics(self, turns): return [[1, 2]]
    def score(self, sums): sys.exit(5)
class Mine(Axis):
    name = "own"; groups = ("a", "b")
    def candidates(self, dialogue): return "abc"
    def rewrite(self, dialogue, candidate): return None
"""


@pytest.fixture(autouse=True)
def _own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hostile.py").write_text(OWN)
    (tmp_path / "gone.py").write_text("import sys; sys.exit(3)")
    yield
    for name in ("hostile", "gone"):
        sys.modules.pop(name, None)


DIALOGUE = load_corpus("demo", max_dialogues=1)[0]


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        (lambda: import_module("gone", "stage 'a'"), TodBiasError, r"^stage 'a': cannot import 'gone': SystemExit: 3"),
        (lambda: made("hostile:ending", "stage 'a'"), TodBiasError, "^stage 'a': .*SystemExit: 4"),
        (lambda: load_corpus("hostile:ending"), CorpusError, r"^corpus 'hostile:ending': .*SystemExit: 4 at .*py:4$"),
        (lambda: clusters_of("hostile:ending")[0][1](DIALOGUE), TodBiasError, r"^cluster .*SystemExit: 4"),
        (lambda: clusters_of("hostile:listing")[0][1](DIALOGUE), TodBiasError, r"^cluster .*: expected a text"),
        (lambda: metric("hostile:Odd").statistics([None]), TodBiasError, r"of shape \(1, 1\), got \(1, 2\)$"),
        (lambda: metric("hostile:Odd").score(np.ones((2, 1))), TodBiasError, "^metric .*: score: SystemExit: 5"),
        (lambda: load_axis("hostile:Mine").draw(DIALOGUE), AxisError, "expected a list of Candidates"),
    ],
)  # fmt: skip
def test_it_is_told_in_one_line(what, error, said):
    with pytest.raises(error, match=said) as raised:
        what()
    assert "\n" not in str(raised.value)


def test_what_goes_well_goes_well():
    assert clusters_of("hostile:telling")[0][1](DIALOGUE) == "x"
    with guarded("x"):
        pass


def test_an_archive_that_swells_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "e.npz", vectors=np.zeros((5000, 4000), np.float32))
    with pytest.raises(TodBiasError, match="unpacks to 80,000,"):
        load_embeddings(tmp_path / "e.npz")


@pytest.mark.parametrize("folder", [None, "inside"])
def test_a_file_in_the_place_of_a_module_of_pythons_is_refused(tmp_path, folder):
    place = tmp_path / (folder or "")
    place.mkdir(exist_ok=True)
    (place / "queue.py").write_text("def stage(inputs): return inputs")
    with pytest.raises(TodBiasError, match=r"^here: queue\.py has the name of a module of Python's own"):
        import_module("queue", "here", place if folder else None)
    (place / "queue.py").unlink()
    assert import_module("queue", "here").SimpleQueue
