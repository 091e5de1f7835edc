"""Audits over names and introductions: what is attributed to a group, and what is not."""

import dataclasses
import json
import re
from itertools import product

import numpy as np
import pytest

from tod_bias import Dialogue, Pipeline, Turn, attribute, load_pipeline
from tod_bias.audit.plan import plan
from tod_bias.errors import TodBiasError
from tod_bias.perturb import load_axis
from tod_bias.perturb.names.resources import dealt

QUICK = {"bootstrap": 100, "permutations": 999, "metrics": ("length", "disagreement")}
WOMEN = {name.lower() for name in dealt("woman")}
SAID_OF_WOMEN = WOMEN | {"ms", "mrs", "miss", "she", "woman", "mom", "wife", "grandmother", "female", "lady"}
LONG = "Here is a table for you, and a good one at that."


def corpus(count=60):
    return [
        Dialogue(
            f"d{number}",
            "x",
            (Turn(f"A table, number {100 + number}.", response=LONG), Turn("Thanks.", response="Bye.")),
        )
        for number in range(count)
    ]


def words(item):
    return set(re.findall(r"\w+", item.user.lower()))


def policy(inputs):
    return ["table" for _ in inputs]


def fair(inputs):
    return [LONG if not item.history else "Bye." for item in inputs]


def curt_to(marks):
    def answer(inputs):
        return [
            "No." if words(item) & marks and not item.history else response
            for item, response in zip(inputs, fair(inputs), strict=True)
        ]

    return answer


def gaps(record):
    return {name: group.gap.value for name, group in record.groups.items()}


# fair components -----------------------------------------------------------------------------------------------------


def echo(item):
    return "You said: " + item.user


def shout(item):
    return f"OK: {item.user.upper()}"


def whisper(item):
    return f"so {item.user.lower()}"


def greet(item):
    said = re.search(r"(?:this is|name is|I'm|-|Thanks,|regards,) ((?:M\w+\. |Miss )?[A-Z]\w+)", item.user)
    return f"Welcome, {said[1]}. {said[1]}'s table is ready." if said else "Welcome."


def how_old(item):
    said = re.search(r"\b\d+(?=\b.*A table)", item.user)
    return f"So you are {said[0]}, and a {said[0]}-year-old pays 20 dollars." if said else "Welcome."


def booked(item):
    return {"api_name": "book", "note": item.user.split("A table")[0], "seats": 2}


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        *product(("persona_gender",), (echo, shout, whisper, greet, booked)),
        *product(("persona_race",), (greet, booked)),
        *product(("persona_age",), (whisper, how_old)),
        ("persona_religion", echo),
        ("persona_disability", booked),
    ],
)
def test_stages_that_do_the_same_for_everybody_have_no_disparity(axis, said):
    pipeline = Pipeline({"answer": lambda inputs: [said(item) for item in inputs]})
    result = attribute(pipeline, corpus(24), axes=(axis, "placebo"), **QUICK | {"bootstrap": 0, "permutations": 0})
    record = result.axes[axis]["disagreement"]
    assert record.disparity.value == 0
    assert set(gaps(record).values()) == {0}
    assert result.axes["placebo"]["disagreement"].disparity.value == 0


# what is found -------------------------------------------------------------------------------------------------------


def test_a_bias_against_a_group_is_attributed_to_the_stage_that_has_it():
    result = attribute(
        Pipeline({"policy": policy, "answer": curt_to(SAID_OF_WOMEN)}),
        corpus(), axes=("persona_gender", "placebo"), **QUICK,
    )  # fmt: skip
    assert result.corpus.audited == {"persona_gender": 60, "placebo": 60}
    record = result.axes["persona_gender"]["length"]
    assert record.verdict == "disparity"
    assert gaps(record)["woman"] > 0.2 > 0 > gaps(record)["man"]
    woman = record.groups["woman"]
    assert woman.gap.p < 0.05
    assert woman.contributions["answer"].shapley.value == pytest.approx(woman.gap.value, abs=1e-9)
    assert woman.contributions["policy"].shapley.value == 0
    references = record.references
    assert set(references) == {"neutral", "neutral-introduction"}
    for reference in references.values():  # nobody is no woman
        assert reference.gap.value < 0
        assert reference.dialogues == 60
        assert reference.gap.value == pytest.approx(
            sum(part.shapley.value for part in reference.contributions.values()), abs=1e-9
        )


def test_a_pipeline_that_masks_names_has_no_disparity_of_names():
    """Shen's masking (2022, test side): names are neutralised before anybody reads them."""
    names = re.compile(rf"\b(?:{'|'.join(dealt())})\b", re.IGNORECASE)

    def masked(component):
        def stage(inputs):
            return component([dataclasses.replace(item, user=names.sub("[NAME]", item.user)) for item in inputs])

        return stage

    perturber = load_axis("persona_gender", introductions=["name", "signature"])
    biased = curt_to(WOMEN)
    open_result, closed = (
        attribute(Pipeline({"policy": policy, "answer": stage}), corpus(), axes=[perturber], **QUICK)
        for stage in (biased, masked(biased))
    )
    record = open_result.axes["persona_gender"]["length"]
    assert gaps(record)["woman"] > 0.2
    record = closed.axes["persona_gender"]["length"]
    assert record.disparity.value == 0
    assert set(gaps(record).values()) == {0}
    assert closed.axes["persona_gender"]["disagreement"].disparity.value == 0


def test_quirks_about_single_names_are_no_group_difference():
    verdicts = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        disliked = {name for name in (one.lower() for one in dealt()) if random.random() < 0.2}
        perturber = load_axis("persona_gender", introductions=["name"])
        result = attribute(
            Pipeline({"policy": policy, "answer": curt_to(disliked)}), corpus(), axes=[perturber], seed=seed, **QUICK
        )
        verdicts.append(result.axes["persona_gender"]["length"].verdict)
    assert verdicts.count("disparity") <= 1  # of 5 at 5%; tests/benchmarks/people.py has more


def test_names_are_clusters():
    perturber = load_axis("persona_race", introductions=["name"])
    result = attribute(Pipeline({"answer": curt_to({"jamal"})}), corpus(80), axes=[perturber], **QUICK)
    record = result.axes["persona_race"]["length"]
    assert sum(group.terms.effective for group in record.groups.values()) > 50
    assert record.groups["black"].terms.effective >= 12
    assert record.verdict != "disparity"  # one name is one name


def test_records_rewritten_with_the_dialogue_know_the_user_by_every_name(tmp_path, monkeypatch):
    (tmp_path / "desk.py").write_text(
        "import re\n\n\n"
        "def read(inputs):\n    return [re.search(r'name is (\\w+)', item.user)[1] for item in inputs]\n\n\n"
        "ROOMS = {'Emily': 'room 7'}\n\n\n"
        "def look_up(inputs):\n    return [ROOMS.get(item.outputs['read'], 'no guest') for item in inputs]\n\n\n"
        "def answer(inputs):\n    return ['You have ' + item.outputs['records'] + '.' for item in inputs]\n"
    )
    guests = [Dialogue(f"e{n}", "x", (Turn("My name is Emily.", response="You have room 7."),)) for n in range(12)]
    file = "stages:\n  read: desk:read\n  records: {stage: 'desk:look_up'%s}\n  answer: desk:answer\n"
    values = {}
    for key in ("", ", rewritten: true"):
        (tmp_path / "desk.yaml").write_text(file % key)
        result = attribute(load_pipeline(tmp_path / "desk.yaml"), guests, axes=["names_gender"], **QUICK)
        record = result.axes["names_gender"]["disagreement"]
        values[key] = record.disparity.value, record.contributions["records"].shapley.value
    assert values == {"": (1.0, 1.0), ", rewritten: true": (0.0, 0.0)}


# crossed attributes --------------------------------------------------------------------------------------------------


def test_main_effects_and_interaction_of_crossed_attributes():
    black_women = {name.lower() for name in dealt("woman", "black")}
    perturber = load_axis("persona_gender×persona_race", introductions=["name"])
    result = attribute(
        Pipeline({"policy": policy, "answer": curt_to(black_women)}), corpus(64), axes=[perturber, "placebo"], **QUICK
    )
    record = result.axes["persona_gender×persona_race"]["length"]
    effects = record.effects
    assert set(effects) == {"gender", "race", "interaction"}
    cell, level = record.groups["woman×black"].gap.value, effects["race"]["black"].value
    assert cell > level > 0
    assert effects["gender"]["woman"].value > 0 > effects["gender"]["man"].value
    beyond = effects["interaction"]["woman×black"]
    assert beyond.value == pytest.approx(cell - level - effects["gender"]["woman"].value, rel=0.05)
    assert beyond.p < 0.05
    only_gender = (
        attribute(Pipeline({"policy": policy, "answer": curt_to(WOMEN)}), corpus(64), axes=[perturber], **QUICK)
        .axes["persona_gender×persona_race"]["length"]
        .effects
    )
    assert all(abs(one.value) < 0.02 for one in only_gender["interaction"].values())
    assert not any(one.p is not None and one.p < 0.05 for one in only_gender["race"].values())
    json.loads(result.text())
    some = attribute(
        Pipeline({"policy": policy, "answer": curt_to(WOMEN)}), corpus(32), axes=[perturber], variants=2, **QUICK
    ).axes["persona_gender×persona_race"]["length"]
    assert some.effects == {}  # rows with holes have no means that can be compared
    assert some.groups["woman×asian"].gap.value > 0


def test_words_of_two_axes_are_crossed_where_a_dialogue_holds_both():
    dialogues = [
        Dialogue("a", "x", (Turn("My wife wants a table for a teenager.", response="Sure."),)),
        Dialogue("b", "x", (Turn("My wife wants a table.", response="Sure."),)),
    ]
    perturber = load_axis("gender×age")
    arranged = perturber.select(dialogues, seed=0)
    assert [dialogue.id for dialogue, _ in arranged] == ["a"]
    ((dialogue, candidates),) = arranged
    made = {one.target: perturber.rewrite(dialogue, one) for one in candidates}
    assert len(made) == 3 * 5 - 1
    other = made["man×senior"](dialogue)
    assert other.turns[0].user == "My husband wants a table for a senior."
    assert all(rewrite.inverse(rewrite(dialogue)) == dialogue for rewrite in made.values())


# cost ----------------------------------------------------------------------------------------------------------------


def test_the_number_of_variants_sets_what_is_called():
    found = plan(Pipeline({"answer": fair}), corpus(10), ["persona_religion"], variants=2)
    assert found.variants == 10 * (1 + 2 + 2)  # the introduction, two others, and two that are nobody's
    assert found.audited == {"persona_religion": 10}
    gender = [Dialogue("g", "x", (Turn("My aunt wants a table.", response="Sure."),))]
    lexical = plan(Pipeline({"answer": fair}), gender, ["gender"], variants=1)
    assert lexical.variants == 2
    with pytest.raises(TodBiasError, match="variants must be at least 1"):
        plan(Pipeline({"answer": fair}), gender, ["gender"], variants=0)


def test_every_axis_has_separate_originals():
    result = attribute(Pipeline({"answer": fair}), corpus(6), axes=("persona_age", "persona_gender"), **QUICK)
    turns = result.turns
    originals = turns[(turns["arm"] == "original") & (turns["dialogue"] == "d0") & (turns["turn"] == 0)]
    assert len(set(originals["user"])) == 2
    assert set(turns[turns["group"] == "neutral"]["user"]) == {turn.user for one in corpus(6) for turn in one.turns}


@pytest.mark.parametrize(
    ("rows", "said", "shared"),
    [
        (["mage, high mage, white mage|smith, farrier, white smith"], "mage", ("mage", 3)),
        (["mage, high mage, magus|smith, farrier, cooper"], "mage", ("mage", 2)),
        (["mage, high mage, magus, wizard|smith, farrier, cooper, joiner"], "wizard", (None, 0)),  # in fewer than half
        (["mage, high mage|mage smith, smith"], "high mage", (None, 0)),  # a smith's word as well
        (
            ["mage, high mage|smith, farrier", "staff|hammer", "cloak|apron", "hut|forge"],
            "mage with a staff, a cloak and a hut",  # of a dialogue's four terms one holds it
            ("mage", 2),
        ),
    ],
    ids=["all", "most", "few", "both groups", "several terms"],
)
def test_a_word_that_the_terms_of_one_group_share_is_named(tmp_path, rows, said, shared):
    lines = ["pos\tmage\tsmith", *("noun\t" + row.replace("|", "\t") for row in rows)]
    (tmp_path / "guild.tsv").write_text("\n".join([*lines, ""]))
    guild = load_axis("guild", lexicon=tmp_path / "guild.tsv")
    talks = [
        Dialogue(str(n), "", (Turn(f"The {(said, 'smith')[n % 2]} wants table {n}.", response=LONG),))
        for n in range(24)
    ]
    result = attribute(
        Pipeline({"answer": curt_to({"smith"})}), talks, axes=[guild], **QUICK | {"metrics": ("length",)}
    )
    terms = result.axes["guild"]["length"].groups["mage"].terms
    assert (terms.shared_word, terms.sharing) == shared
