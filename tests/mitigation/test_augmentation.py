"""What is added to a training corpus: who is in it then, and how often."""

from __future__ import annotations

from collections import Counter

import pytest

from tod_bias.audit.design import design_counterfactuals
from tod_bias.errors import AxisError, NothingToPerturbError, TodBiasError
from tod_bias.mitigation.augmentation import Augmentation, augment
from tod_bias.perturb import load_axis


def said(dialogue):
    return " ".join(text for turn in dialogue.turns for _, text in turn.utterances)


def test_crossed_rewrites_every_dialogue_for_every_group_once(corpus):
    made = augment(corpus, Augmentation(("gender",)))
    assert made[: len(corpus)] == corpus
    copies = Counter(dialogue.id.rpartition("/")[2] for dialogue in made[len(corpus) :])
    mentioning = sum(bool(load_axis("gender").candidates(dialogue)) for dialogue in corpus)
    assert sum(copies.values()) == 2 * mentioning  # two other attributes
    attributes = Counter(attribute for dialogue in made for attribute, _ in mentions(dialogue))
    assert len(set(attributes.values())) == 1, attributes  # as many women as men as others


def mentions(dialogue):
    """The attributes that are mentioned in a dialogue, each once."""
    found = {candidate.source for candidate in load_axis("gender").candidates(dialogue)}
    return [(attribute, dialogue.id) for attribute in found]


def test_copies_are_the_counterfactuals_of_an_audit_with_the_same_seed(corpus):
    made = {dialogue.id: dialogue for dialogue in augment(corpus, Augmentation(("gender",)), seed=3)}
    design = design_counterfactuals(corpus, ["gender"], seed=3)
    for counterfactuals in design.counterfactuals.of("gender", design.selected["gender"]):
        for run in counterfactuals.groups:
            assert made[f"{run.dialogue.id}/{run.variant}"].turns == run.rewritten.turns


@pytest.mark.parametrize(("kind", "copies"), [("draws", 1), ("crossed", 2)])
def test_ids_are_unique_and_their_number_known(corpus, kind, copies):
    made = augment(corpus, Augmentation(("gender",), kind))
    assert len({dialogue.id for dialogue in made}) == len(made)
    assert len(made) == len(corpus) + copies * (len(corpus) - len(corpus) // 4)


def test_personas_speak_in_every_dialogue(corpus):
    made = augment(corpus, Augmentation.read("gender:personas"))
    assert len(made) == 3 * len(corpus)
    groups = Counter(dialogue.id.rpartition(":")[2] for dialogue in made[len(corpus) :])
    assert {"man", "woman"} <= groups.keys()
    assert abs(groups["man"] - groups["woman"]) <= 3
    bare = {dialogue.id: dialogue for dialogue in corpus}
    for dialogue in made[len(corpus) :]:
        assert said(dialogue) != said(bare[dialogue.id.partition("/")[0]])
        assert type(dialogue) is type(corpus[0])


@pytest.mark.parametrize(
    ("text", "axes", "kind"),
    [
        ("gender", ("gender",), "crossed"),
        ("gender, age,race:draws", ("gender", "age", "race"), "draws"),
        ("mine:Axis", ("mine:Axis",), "crossed"),
        ("gender,race:personas", ("persona_gender", "persona_race"), "personas"),
    ],
)
def test_options_are_read(text, axes, kind):
    assert Augmentation.read(text) == Augmentation(axes, kind)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", AxisError, "no axis"),
        (",", AxisError, "no axis"),
        ("gender:crosed", TodBiasError, "unknown kind 'crosed'; expected one of crossed, draws, personas"),
        ("placebo:personas", AxisError, "no axis 'persona_placebo'; there are persona_age"),
    ],
)
def test_wrong_options_are_errors(text, error, says):
    with pytest.raises(error, match=says):
        Augmentation.read(text)


def test_an_axis_without_a_dialogue_is_an_error(corpus):
    with pytest.raises(NothingToPerturbError, match="axis age"):
        augment(corpus, Augmentation(("gender", "age")))
