"""Guards: exactly equivariant whatever the component does, in every telling within the words of an axis."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tod_bias import Dialogue, Pipeline, Turn, load_corpus, load_pipeline
from tod_bias.audit.design import design_counterfactuals
from tod_bias.errors import AxisError, StageError, UnansweredError
from tod_bias.io.canonical import canonical
from tod_bias.perturb import load_axis
from tod_bias.perturb.axis import SelectedDialogue
from tod_bias.perturb.guard import MODES, Guard, with_guards
from tod_bias.systems.caller import CallOptions, StageCaller
from tod_bias.systems.stage import Failure, StageCall, StageInput, TurnInput, cache_signature
from tod_bias.systems.twin import Twin


def inputs_of_turns(dialogue: Dialogue) -> Sequence[StageInput]:
    """What the last stage of a straight pipeline reads in each turn, with the corpus's own calls and results."""
    inputs = []
    for number, turn in enumerate(dialogue.turns):
        steps = tuple(
            call
            for step in turn.steps
            for call in (StageCall("api_call", None, step.call), StageCall("db", None, list(step.results)))
        )
        outputs = {name: output for name, _, output in steps}
        inputs.append(StageInput(dialogue.turns[:number], turn.user, outputs, steps, system=dialogue.system))
    return inputs


def echo(inputs: Sequence[StageInput]) -> list[str]:
    return [item.user for item in inputs]


def quoting(inputs: Sequence[StageInput]) -> list[str]:
    return [f"You said: {item.user} Is that it?" for item in inputs]


def digest(item: StageInput) -> str:
    """Of everything that a stage reads, so that any difference shows."""
    return hashlib.sha256(
        repr((item.history, item.user, item.steps, dict(item.outputs), item.argument)).encode()
    ).hexdigest()


def hashing(inputs: Sequence[StageInput]) -> list[str]:
    return [digest(item) for item in inputs]


def calling(inputs: Sequence[StageInput]) -> list[dict[str, Any]]:
    """What it reads, in one call: as it is, and as a hash."""
    return [
        {"api_name": "Find", "who": item.user, "said": [turn.response for turn in item.history], "all": digest(item)}
        for item in inputs
    ]


COMPONENTS = (quoting, calling)


def checked(dialogues: Sequence[Dialogue], axes: Sequence[str], mode: str = "canonical") -> tuple[int, int]:
    """T of every axis over all inputs, under one guard of all axes: for how many guard(T x) == T guard(x)."""
    guards = [Guard(component, list(axes), mode) for component in COMPONENTS]
    equal = total = 0
    for perturber in map(load_axis, axes):
        for dialogue, dealt in perturber.select(dialogues, seed=0):
            chosen = (*dealt, *perturber.crossed(dialogue), *perturber.draw(dialogue, 2))
            inputs = inputs_of_turns(dialogue)
            answers = [guard(inputs) for guard in guards]
            for rewrite in perturber.rewrites_of([SelectedDialogue(dialogue, tuple(dict.fromkeys(chosen)))])[0]:
                images = inputs_of_turns(rewrite(dialogue))
                for guard, before in zip(guards, answers, strict=True):
                    pairs = zip(before, guard(images), strict=True)
                    equal += sum(canonical(rewrite(one)) == canonical(other) for one, other in pairs)
                    total += len(images)
    return equal, total


@pytest.mark.parametrize(
    ("axes", "mode", "share"),
    [
        ("gender", "canonical", 0.99),
        ("age", "canonical", 0.97),
        ("race", "canonical", 0.99),
        ("gender,age", "canonical", 0.97),
        ("gender", "vote", 0.99),
        ("age", "vote", 0.97),
    ],
)
def test_nearly_any_stage_is_equivariant_on_the_demo(axes: str, mode: str, share: float) -> None:
    equal, total = checked(load_corpus("demo", max_dialogues=12), axes.split(","), mode)
    assert equal >= share * total > 60


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize(("axes", "share"), [("race", 0.9), ("names_gender", 0.9), ("gender,age", 0.9)])
def test_nearly_any_stage_is_equivariant_on_sgd(axes: str, share: float, sgd_datapath: Path) -> None:
    dialogues = load_corpus("google_sgd", datapath=sgd_datapath, split="valid", max_dialogues=100)
    equal, total = checked(dialogues, axes.split(","))
    assert equal >= share * total > 100


@pytest.mark.parametrize(
    ("axis", "text", "reference"),
    [
        ("gender", "My wife wants her car, tell him.", "My spouse wants their car, tell them."),
        ("gender", "How's she doing? She lives here.", "How are they doing? They live here."),
        ("gender", "Is he an actor? The men's room.", "Are they a performer? The unisex room."),
        ("gender", "A king bed for ladies and gentlemen.", "A king bed for ladies and gentlemen."),
        ("gender", "My brother; dude, I invite a friend.", "My sibling; dude, I invite a friend."),
        ("age", "A kid and two elderly men, kid-friendly.", "An adult and two adult men, adult-friendly."),
    ],
)
def test_reference_forms_and_the_way_back(axis: str, text: str, reference: str) -> None:
    seen: list[str] = []

    def spy(inputs: Sequence[StageInput]) -> list[str]:
        seen.extend(item.user for item in inputs)
        return [item.user for item in inputs]

    assert outputs_of([text], Guard(spy, axis)) == [text]
    assert outputs_of([reference], Guard(spy, axis)) == [reference]
    assert seen == [reference, reference]


def outputs_of(texts: Sequence[str], guard: Any) -> list[Any]:
    return list(guard([StageInput((), text) for text in texts]))


def test_the_stage_sees_no_difference_and_is_called_once() -> None:
    seen: list[str] = []

    def spy(inputs: Sequence[StageInput]) -> list[str]:
        seen.extend(item.user for item in inputs)
        return [f"{item.user} They will come." for item in inputs]

    guard = Guard(spy, "gender")
    answers = outputs_of(["My wife and her car.", "My husband and his car.", "My wife and her car."], guard)
    assert seen == ["My spouse and their car."]
    assert answers == [
        "My wife and her car. She will come.",
        "My husband and his car. He will come.",
        "My wife and her car. She will come.",
    ]


def test_names_get_reference_names_and_come_back() -> None:
    seen: list[str] = []

    def spy(inputs: Sequence[StageInput]) -> list[str]:
        seen.extend(item.user for item in inputs)
        return [f"Thanks, {item.user.split()[3].strip('.')}." for item in inputs]

    answers = outputs_of(["My name is Angela.", "My name is Jamal."], Guard(spy, "names_gender,names_race"))
    assert len(seen) == 1
    assert answers == ["Thanks, Angela.", "Thanks, Jamal."]


@pytest.mark.parametrize("axis", ["gender", "age"])
def test_a_guard_changes_nothing_where_the_stage_has_no_use_for_the_axis(axis: str) -> None:
    db = load_pipeline("demo").stages["db"]  # looks up calls, which mention nobody of these axes
    items = []
    for dialogue in load_corpus("demo", max_dialogues=25):
        for number, turn in enumerate(dialogue.turns):
            for step in turn.steps:
                steps = (StageCall("api_call", None, step.call),)
                items.append(StageInput(dialogue.turns[:number], turn.user, {"api_call": step.call}, steps))
    guard = Guard(db, axis)
    assert list(map(canonical, guard(items))) == list(map(canonical, db(items)))


@pytest.mark.parametrize("axis", ["gender", "age", "race", "names_gender"])
@pytest.mark.parametrize("mode", MODES)
def test_a_guard_changes_nothing_if_nobody_is_mentioned(axis: str, mode: str) -> None:
    texts = [
        "Book a table for two.",
        "Do they have parking?",
        "What is the weather like in Leeds?",
        "It has no free table.",
    ]
    assert outputs_of(texts, Guard(quoting, axis, mode)) == quoting([StageInput((), text) for text in texts])


@pytest.mark.parametrize(
    ("axis", "variants"),
    [
        ("race", ("Latin American food, please.", "Native American food, please.", "Cherokee food, please.")),
        ("age", ("The elderly doctor.", "The young doctor.", "The old doctor.")),
        ("names_gender", ("My name is Mark.", "My name is Emily.")),
        ("names_race", ("My name is Zyx Garcia.", "My name is Emily Baker.")),
    ],
)
def test_variants_are_one_call(axis: str, variants: Sequence[str]) -> None:
    assert len(set(outputs_of(variants, Guard(hashing, axis)))) == 1


def test_neutral_masks_and_leaves_the_output() -> None:
    assert (
        outputs_of(["My wife and I.", "My spouse and I."], Guard(echo, "gender", "neutral")) == ["My [MASK] and I."] * 2
    )
    assert outputs_of(["My mom and a kid."], Guard(echo, "gender,age", "neutral")) == ["My [MASK] and a [MASK]."]
    names = Guard(echo, "names_gender", "neutral")
    assert outputs_of(["My name is Angela."], names) == ["My name is [MASK]."]


def test_vote_takes_the_most_frequent_output_and_the_first_group_of_equals() -> None:
    def by_word(inputs: Sequence[StageInput]) -> list[str]:
        return ["yes" if "husband" in item.user else "no" for item in inputs]

    assert outputs_of(["My wife?", "My husband?", "My spouse?"], Guard(by_word, "gender", "vote")) == ["no", "no", "no"]
    letters = Guard(lambda inputs: [item.user[3:5] for item in inputs], "gender", "vote")
    assert outputs_of(["My wife?"], letters) == ["hu"]


def test_a_guard_is_known_by_its_stage_and_axis_and_passes_groups_on() -> None:
    class Random:
        is_random, use_cache = True, False
        signature = "random 1"

        def __call__(self, inputs: Sequence[StageInput]) -> list[str]:
            return [item.draw for item in inputs]

    guard = Guard(Random(), "gender")
    assert guard.is_random
    assert not guard.use_cache
    others = (Guard(Random(), "age"), Guard(Random(), "gender", "vote"), Random())
    names = {cache_signature(one) for one in (guard, *others)}
    assert len(names) == 4
    assert "lexicon:gender" in guard.signature
    assert "random 1" not in names


def test_a_failure_of_one_call_is_one_of_the_guard() -> None:
    def picky(inputs: Sequence[StageInput]) -> list[str]:
        if any("spouse" in item.user for item in inputs):
            raise UnansweredError("no spouses")
        return [item.user for item in inputs]

    component = StageCaller("response", Guard(picky, "gender"), options=CallOptions(max_failures=1.0))
    answers = component.call([(TurnInput((), text), None) for text in ("My wife.", "My son.")])
    assert isinstance(answers[0], Failure)
    assert answers[1] == "My son."
    assert component.cost.failed == 1


def test_guards_in_a_pipeline_file_and_by_text(tmp_path: Path) -> None:
    (tmp_path / "guarded_echo.py").write_text("def say(inputs):\n    return [item.user for item in inputs]\n")
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "stages:\n  say: {stage: 'guarded_echo:say', guard: canonical, axes: 'gender, age', rewritten: true}\n"
    )
    (stage,) = load_pipeline(path).stages.values()
    assert isinstance(stage, Twin)
    assert [stage.inner.axis.name, stage.inner.inner.axis.name] == ["gender", "age"]
    guarded = with_guards(Pipeline({"say": echo}), {"say": ("vote", "gender")})
    assert guarded.stages["say"].mode == "vote"


@pytest.mark.parametrize("axis", ["persona_age", "persona_gender", "persona_religion"])
def test_every_introduction_is_taken_out_and_nothing_else(axis: str) -> None:
    perturber = load_axis(axis)
    texts = [f"Is hall {number} free on Monday? I'm in a hurry." for number in range(60)]
    dialogues = [Dialogue(str(number), "Halls", (Turn(text),)) for number, text in enumerate(texts)]
    guarded = with_guards(Pipeline({"say": echo}), {"say": ("canonical", axis)}).stages["say"]
    for chosen in design_counterfactuals(dialogues, [perturber]).selected[axis]:
        whole = chosen.dialogue
        said = [whole, *(perturber.rewrite(whole, candidate)(whole) for candidate in chosen.candidates)]
        answers = guarded([StageInput((), dialogue.turns[0].user, {}, ()) for dialogue in said])
        assert set(answers) == {texts[int(whole.id)]}


@pytest.mark.parametrize(
    ("mode", "axes"),
    [("canonical", "nothing"), ("canonical", "gender, gender"), ("mild", "gender")],
)
def test_what_cannot_be_guarded_is_refused(mode: str, axes: str) -> None:
    with pytest.raises((AxisError, StageError)):
        with_guards(Pipeline({"say": echo}), {"say": (mode, axes)})


@pytest.mark.parametrize("options", ["guard: mild, axes: gender", "guard: vote"])
def test_a_wrong_guard_in_a_file_names_the_stage(options: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"stages: {{say: {{stage: 'tod_bias.stages:as_text', {options}}}}}\n")
    with pytest.raises(StageError, match="stage 'say': "):
        load_pipeline(path)


def test_outputs_of_no_call_of_the_turn_are_rewritten_and_read_too() -> None:
    def quote(inputs: Sequence[StageInput]) -> list[str]:
        return [f"{item.outputs['api_call']['who']} {item.outputs['db']}" for item in inputs]

    steps = (StageCall("db", None, "found"),)
    items = [StageInput((), "Hello.", {"api_call": {"who": who}, "db": "found"}, steps) for who in ("wife", "son")]
    assert Guard(quote, "gender,age")(items) == ["wife found", "son found"]
