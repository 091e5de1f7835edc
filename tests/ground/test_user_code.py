"""A user's code by ``module:name``: axes, metrics, corpora and clusters; what it raises is one line that names it."""

import sys

import numpy as np
import pytest

from tod_bias import Dialogue, Turn, load_corpus
from tod_bias.audit.checks import clusters_of
from tod_bias.errors import AxisError, CorpusError, TodBiasError
from tod_bias.io.imports import import_module
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.metrics.choice import metric
from tod_bias.perturb import Axis, draw_rewrites, load_axis

CODE = """
import sys
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.perturb import Axis, load_axis

men = load_axis("gender", targets=["man"])

def women():
    return load_axis("gender", targets=["woman"])

class Letters(Axis):
    name, groups = "letters", ("a", "b")
    def candidates(self, dialogue): return []
    def rewrite(self, dialogue, candidate): raise NotImplementedError

class Bleu(CorpusBleu):
    name = "other_bleu"

class Ending(CorpusBleu):
    def score(self, sums): sys.exit(5)

class Needs:
    def __init__(self, what): pass

def ending(*given): sys.exit(4)
def domain(dialogue): return "x"

nothing = 3
"""


@pytest.fixture(autouse=True)
def _user_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user_code.py").write_text(CODE)
    (tmp_path / "gone.py").write_text("import sys; sys.exit(3)")
    yield
    for name in ("user_code", "gone"):
        sys.modules.pop(name, None)


DIALOGUE = Dialogue("d", "", (Turn("my wife"),))


@pytest.mark.parametrize(("name", "targets"), [("men", ("man",)), ("women", ("woman",))])
def test_an_axis_is_an_object_or_what_makes_one(name, targets):
    assert load_axis(f"user_code:{name}").targets == targets


def test_a_setting_that_no_axis_has_is_refused():
    with pytest.raises(TypeError, match="'colour'"):
        load_axis("gender", colour="red")


def test_an_axis_is_any_subclass():
    axis = load_axis("user_code:Letters")
    assert isinstance(axis, Axis)
    assert draw_rewrites(axis, DIALOGUE) == ()


def test_metrics_and_clusters_are_loaded_by_name():
    chosen = metric("user_code:Bleu")
    assert (chosen.name, chosen.columns) == ("other_bleu", CorpusBleu().columns)
    assert clusters_of("user_code:domain")[0][1](DIALOGUE) == "x"


@pytest.mark.parametrize(
    ("load", "error", "message"),
    [
        (lambda: load_axis("user_code:nothing"), AxisError, "expected an Axis .*, got int"),
        (lambda: load_axis("user_code:Needs"), AxisError, "user_code:Needs cannot be made without arguments"),
        (lambda: load_axis("user_code:x"), AxisError, "axis 'user_code:x': module 'user_code' has no 'x'"),
        (lambda: load_axis("user_code:men", scope="word"), AxisError, "takes no scope"),
        (lambda: metric("user_code:nothing"), TodBiasError, "int lacks name, label"),
        (lambda: metric("no_code:x"), TodBiasError, "metric 'no_code:x': cannot import 'no_code'"),
        (lambda: metric("user_code:Ending").score(np.ones((2, 10))), TodBiasError, "^metric .*: score: SystemExit: 5"),
        (lambda: import_module("gone", "stage 'a'"), TodBiasError, "^stage 'a': cannot import 'gone': SystemExit: 3"),
        (lambda: load_corpus("user_code:ending"), CorpusError, "^corpus 'user_code:ending': .*SystemExit: 4 at "),
        (lambda: clusters_of("user_code:ending")[0][1](DIALOGUE), TodBiasError, "^cluster .*SystemExit: 4"),
    ],
)
def test_mistakes_in_it_are_one_line(load, error, message):
    with pytest.raises(error, match=message) as caught:
        load()
    assert "\n" not in str(caught.value)
