"""Axes and metrics of one's own by ``module:name``."""

import pytest

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.errors import AxisError, TodBiasError
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.metrics.choice import metric
from tod_bias.perturb import Axis, draw_rewrites, load_axis
from tod_bias.perturb.lexicon_axis import LexiconAxis

CODE = """
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.perturb import Axis, load_axis

men = load_axis("gender", targets=["man"])

def women():
    return load_axis("gender", targets=["woman"])

class Own(Axis):
    name, groups = "own", ("a", "b")
    def candidates(self, dialogue): return []
    def rewrite(self, dialogue, candidate): raise NotImplementedError

class Bleu(CorpusBleu):
    name = "own_bleu"

class Needs:
    def __init__(self, what): pass

nothing = 3
"""


@pytest.fixture(autouse=True)
def own_code(tmp_path, monkeypatch):
    (tmp_path / "own_code.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "targets"), [("men", ("man",)), ("women", ("woman",))])
def test_an_axis_is_an_object_or_what_makes_one(name, targets):
    perturber = load_axis(f"own_code:{name}")
    assert isinstance(perturber, LexiconAxis)
    assert perturber.targets == targets


def test_an_axis_is_any_perturber():
    perturber = load_axis("own_code:Own", model="ignored", device="cpu")
    assert isinstance(perturber, Axis)
    assert draw_rewrites(perturber, Dialogue("d", "", (Turn("my wife"),))) == ()


def test_a_metric_is_a_class():
    found = metric("own_code:Bleu")
    assert (found.name, found.columns) == ("own_bleu", CorpusBleu().columns)


@pytest.mark.parametrize(
    ("load", "error", "message"),
    [
        (lambda: load_axis("own_code:nothing"), AxisError, "expected an Axis .*, got int"),
        (lambda: load_axis("own_code:Needs"), AxisError, "own_code:Needs cannot be made without arguments: Type"),
        (lambda: load_axis("own_code:x"), AxisError, "axis 'own_code:x': module 'own_code' has no 'x'"),
        (lambda: load_axis("own_code:men", scope="word"), AxisError, "of your own takes no scope; leave it out"),
        (lambda: load_axis("own_code:men", protected=["x"]), AxisError, "takes no protected"),
        (lambda: metric("own_code:nothing"), TodBiasError, "int lacks name, label, .*; a metric has name, "),
        (lambda: metric("no_code:x"), TodBiasError, "metric 'no_code:x': cannot import 'no_code'"),
    ],
)
def test_what_is_none_is_one_clear_line(load, error, message):
    with pytest.raises(error, match=message) as caught:
        load()
    assert "\n" not in str(caught.value)
