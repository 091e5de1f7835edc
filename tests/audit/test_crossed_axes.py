"""Crossed axes of lexicons, end to end: a term stands in several groups, and what it does to a system is no group's."""

import numpy as np
import pytest

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.metrics.metric import RatioOfSums
from tod_bias.perturb import load_axis
from tod_bias.perturb.product import ProductAxis

GUILDS = {"north": [f"bako{letter}" for letter in "bdfgkl"], "south": [f"rimu{letter}" for letter in "bdfgkl"]}
ORDERS = {"early": [f"zovi{letter}" for letter in "bdfgkl"], "late": [f"tela{letter}" for letter in "bdfgkl"]}


class Score(RatioOfSums):
    """The number that a response holds."""

    name, label, better = "score", "score", "higher"
    columns = ("score_sum", "score_turns")
    signature = "score"

    def counts(self, turn):
        return float(turn.response), 1


def axis_of(name, groups, folder):
    cells = "\t".join(", ".join(f"{term}/{term}s" for term in terms) for terms in groups.values())
    path = folder / f"{name}.tsv"
    path.write_text("pos\t" + "\t".join(groups) + f"\tcontext\tnotes\nnoun\t{cells}\t\t\n")
    return load_axis(name, lexicon=str(path))


def audited(seed, folder, *, quirks=0.1, harm=0.0):
    """A system that treats every term a little otherwise, and those of the first guild worse by ``harm``."""
    rng = np.random.default_rng(seed)
    names = [[term for terms in groups.values() for term in terms] for groups in (GUILDS, ORDERS)]
    quirk = {term: rng.normal(0, quirks) for terms in names for term in terms}
    for term in GUILDS["north"]:
        quirk[term] -= harm
    dialogues = []
    for number in range(48):
        first, second = (rng.choice(some) for some in names)
        said = f"I need a table for my {first} and my {second}, code {number}."
        dialogues.append(Dialogue(f"d{number}", "x", (Turn(said, response="ok"),)))

    def answer(inputs):
        terms = [[quirk.get(word.strip(".,"), 0.0) for word in turn.user.split()] for turn in inputs]
        return [f"{0.5 + sum(some):.4f}" for some in terms]

    answer.signature = f"answer {seed}"
    axis = ProductAxis(axis_of("guild", GUILDS, folder), axis_of("order", ORDERS, folder))
    settings = {"seed": seed, "bootstrap": 50, "permutations": 500}
    result = attribute(Pipeline({"answer": answer}), dialogues, axes=[axis], metrics=[Score()], **settings)
    return next(iter(result.axes.values()))["score"]


def claimed(result):
    """The rows that are claimed of all terms."""
    rows = {name: group.gap for name, group in result.groups.items()}
    rows |= {f"{factor}/{level}": gap for factor, levels in result.effects.items() for level, gap in levels.items()}
    return {name for name, gap in rows.items() if gap.scope is None and gap.p is not None and gap.p < 0.05}


def test_a_counterfactual_has_the_terms_of_both_axes(tmp_path):
    axis = ProductAxis(axis_of("guild", GUILDS, tmp_path), axis_of("order", ORDERS, tmp_path))
    dialogue = Dialogue("d", "x", (Turn("My bakob and my zovid wait."),))
    ((_, candidates),) = axis.select([dialogue])
    terms = dict(zip([some.target for some in candidates], axis.terms(dialogue, candidates), strict=True))
    assert all(some.source == {"bakob", "zovid"} for some in terms.values())
    stays, changes = terms["south×early"], terms["south×late"]
    assert {name[:4] for name in stays.target} == {"rimu", "zovi"}
    assert [some.target for some in stays.factors] == [changes.factors[0].target, {"zovid"}]
    assert changes.target.isdisjoint({"bakob", "zovid"})


@pytest.mark.parametrize("seed", [7])
def test_quirks_of_terms_are_no_groups(seed, tmp_path):
    """A sample that was called unfair while a term counted anew in every group; group_worlds.py has the shares."""
    result = audited(seed, tmp_path)
    assert result.verdict != "disparity"
    assert claimed(result) == set()


def test_a_harm_of_one_level_is_found(tmp_path):
    result = audited(1, tmp_path, quirks=0.03, harm=0.2)
    assert result.verdict == "disparity"
    assert "guild/north" in claimed(result)
    assert not {name for name in claimed(result) if name.startswith(("order", "interaction"))}
