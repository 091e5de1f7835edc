"""Guards: exactly equivariant whatever the component does, in every telling within the words of an axis."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tod_bias import Dialogue, Pipeline, load_corpus, load_pipeline
from tod_bias.canonical import canonical
from tod_bias.errors import AxisError, StageError, UnansweredError
from tod_bias.perturb import load_axis
from tod_bias.perturb.guards.guard import Canonical, Neutral, Vote, with_guards
from tod_bias.perturb.guards.terms import ReferenceRewriter
from tod_bias.systems.caller import CallOptions, StageCaller
from tod_bias.systems.stage import Failure, StageCall, StageInput, TurnInput, cache_signature
from tod_bias.systems.twin import Twin

STEP_BY_STEP = Path(__file__).parents[2] / "projects" / "step_by_step"
read_once = cache(load_corpus)
SAYINGS = ("Will she like it?", "He wants his table.", "I called her and him.", "Does your wife like it?", "Fine, Sir.")


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


def saying(inputs: Sequence[StageInput]) -> list[str]:
    """Pronouns and relatives of its own, as a hash of everything chooses."""
    return [SAYINGS[int(digest(item)[:6], 16) % len(SAYINGS)] for item in inputs]


COMPONENTS = (quoting, calling, saying)


def checked(dialogues: Sequence[Dialogue], axes: Sequence[str], guard: type = Canonical) -> tuple[int, int]:
    """T of every axis over all inputs, under one guard of all axes: how many inputs it covers, and of how many.

    Whatever is covered must be exact: guard(T x) == T guard(x) for every component.
    """
    guards = [guard(component, list(axes)) for component in COMPONENTS]
    inside = [held for held in (guards[0], guards[0].inner) if isinstance(held, guard)]
    covered = total = 0
    for perturber in map(load_axis, axes):
        for dialogue, dealt in perturber.select(dialogues, seed=0):
            chosen = (*dealt, *perturber.crossed(dialogue), *perturber.draw(dialogue, 2))
            inputs = inputs_of_turns(dialogue)
            exact, first = [], []
            for item in inputs:
                before = [held.coverage[held.axis.name]["uncovered"] for held in inside]
                first += guards[0]([item])
                exact.append(before == [held.coverage[held.axis.name]["uncovered"] for held in inside])
            answers = [first, *(guarded(inputs) for guarded in guards[1:])]
            for rewrite in perturber.rewrites_of([(dialogue, tuple(dict.fromkeys(chosen)))])[0]:
                images = inputs_of_turns(rewrite(dialogue))
                total += len(images)
                covered += sum(exact)
                for guarded, held in zip(guards, answers, strict=True):
                    for one, other, is_exact in zip(held, guarded(images), exact, strict=True):
                        if is_exact:
                            assert canonical(rewrite(one)) == canonical(other), (guarded.inner, dialogue.id, rewrite)
    return covered, total


@pytest.mark.parametrize(
    ("axis", "guard"), [("gender", Canonical), ("age", Canonical), ("race", Canonical), ("gender", Vote), ("age", Vote)]
)
def test_any_stage_is_exactly_equivariant_on_the_demo(axis: str, guard: type) -> None:
    covered, total = checked(load_corpus("demo", max_dialogues=12), [axis], guard)
    assert covered == total > 20


def test_a_guard_of_several_axes_is_exact_on_each() -> None:
    covered, total = checked(load_corpus("demo", max_dialogues=12), ["gender", "age"])
    assert covered == total > 40


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize(
    ("axes", "share"),
    [
        ("race", 0.99),
        ("names_gender", 0.85),
        ("gender,age", 0.98),
    ],
)
def test_any_stage_is_exact_where_it_is_covered_on_sgd(axes: str, share: float, sgd_datapath: Path) -> None:
    count = 200 if "race" in axes or "names" in axes else 100  # so that enough mention somebody
    dialogues = read_once("google_sgd", datapath=sgd_datapath, split="valid", max_dialogues=count)
    covered, total = checked(dialogues, axes.split(","))
    assert covered >= share * total > 100


@pytest.mark.real_data
@pytest.mark.parametrize("axes", ["age", "names_race", "names_gender,gender"])
def test_any_stage_is_exact_where_it_is_covered_on_star(axes: str, star: Path) -> None:
    count = 16 if "names" in axes else 60
    dialogues = read_once(
        "star:read_star", datapath=star.parent, split="test", max_dialogues=count, folder=STEP_BY_STEP
    )
    covered, total = checked(dialogues, axes.split(","))
    assert covered >= 0.98 * total > 100


@pytest.mark.parametrize(
    ("axis", "text", "reference"),
    [
        ("gender", "My wife wants her car, tell him.", "My spouse wants their car, tell them."),
        ("gender", "How's she doing? She lives here.", "How are they doing? They live here."),
        ("gender", "Is he an actor? The men's room.", "Are they a performer? The people's room."),
        ("gender", "A king bed for ladies and gentlemen.", "A king bed for ladies and gentlemen."),
        ("gender", "My big brother; dude, I invite a friend.", "My big sibling; dude, I invite a friend."),
        ("age", "A kid and two elderly men, kid-friendly.", "An adult and two adult men, adult friendly."),
    ],
)
def test_reference_variants(axis: str, text: str, reference: str) -> None:
    rewriter = ReferenceRewriter(load_axis(axis))
    assert rewriter.reference(text).text == reference
    assert rewriter.reference(reference).text == reference
    assert rewriter.back(rewriter.reference(text), [rewriter.reference(text)])[0].lower().replace(
        "-", " "
    ) == text.lower().replace("-", " ").replace("how's she", "how is she")


def outputs_of(texts: Sequence[str], guard: Any) -> list[Any]:
    return list(guard([StageInput((), text) for text in texts]))


def test_the_stage_sees_no_difference_and_is_called_once() -> None:
    seen: list[str] = []

    def spy(inputs: Sequence[StageInput]) -> list[str]:
        seen.extend(item.user for item in inputs)
        return [f"{item.user} They will come." for item in inputs]

    guard = Canonical(spy, "gender")
    answers = outputs_of(["My wife and her car.", "My husband and his car.", "My wife and her car."], guard)
    assert seen == ["My spouse and their car."]
    assert answers == [
        "My wife and her car. She will come.",
        "My husband and his car. He will come.",
        "My wife and her car. She will come.",
    ]
    assert guard.coverage == {"gender": {"inputs": 3, "rewritten": 3, "mentions": 6, "uncovered": 0, "covered": 3}}


def test_names_get_reference_names_and_come_back() -> None:
    seen: list[str] = []

    def spy(inputs: Sequence[StageInput]) -> list[str]:
        seen.extend(item.user for item in inputs)
        return [f"Thanks, {item.user.split()[3].strip('.')}." for item in inputs]

    answers = outputs_of(["My name is Angela.", "My name is Jamal."], Canonical(spy, "names_gender,names_race"))
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
    guard = Canonical(db, axis)
    assert list(map(canonical, guard(items))) == list(map(canonical, db(items)))
    assert guard.coverage[axis]["rewritten"] > 20


@pytest.mark.parametrize("axis", ["gender", "age", "race", "names_gender"])
@pytest.mark.parametrize("kind", [Canonical, Neutral, Vote])
def test_a_guard_changes_nothing_where_nobody_is_mentioned(axis: str, kind: type) -> None:
    texts = ["Book a table for two.", "What is the weather like in Leeds?", "It has no free table."]
    assert outputs_of(texts, kind(quoting, axis)) == quoting([StageInput((), text) for text in texts])


def test_uncovered_terms_are_counted() -> None:
    guard = Canonical(hashing, "gender")
    one, two = outputs_of(["Thanks, dude. My wife waits."] * 2, guard)
    assert one == two
    assert guard.coverage["gender"] == {"inputs": 2, "rewritten": 2, "mentions": 2, "uncovered": 2, "covered": 0}
    names = Canonical(echo, "names_gender")
    outputs_of(["Sydney has rain today.", "Tickets to see Aaron Lewis.", "My son Mark is ill."], names)
    assert names.coverage["names_gender"]["uncovered"] == 2
    assert names.coverage["names_gender"]["covered"] == 1


@pytest.mark.parametrize(
    ("axis", "variants"),
    [
        ("race", ("Latin American food, please.", "Native American food, please.", "Cherokee food, please.")),
        ("age", ("The elderly doctor.", "The young doctor.", "The old doctor.")),
        ("names_gender", ("Please send 20 to Mark.", "Please send 20 to Emily.")),
        ("names_race", ("My name is Zyx Garcia.", "My name is Emily Baker.")),
    ],
)
def test_variants_are_one_call(axis: str, variants: Sequence[str]) -> None:
    assert len(set(outputs_of(variants, Canonical(hashing, axis)))) == 1


def test_a_term_of_its_own_is_of_the_group_that_is_rewritten() -> None:
    def say(inputs: Sequence[StageInput]) -> list[str]:
        return ["Does she like it?" for _ in inputs]

    slip = "Send it to my {}, check he balance."  # no T rewrites "he" here, so it tells nothing of anybody
    answers = {outputs_of([slip.format(who)], Canonical(say, "gender"))[0] for who in ("uncle", "aunt")}
    assert answers == {"Do they like it?"}
    assert outputs_of(["Big brother must be after me."], Canonical(say, "gender")) == ["Do they like it?"]  # protected
    assert outputs_of(["For him; check he balance."], Canonical(say, "gender")) == ["Does he like it?"]


def test_neutral_masks_and_leaves_the_output() -> None:
    assert outputs_of(["My wife and I."], Neutral(echo, "gender")) == ["My [MASK] and I."]
    assert outputs_of(["My mom and a kid."], Neutral(echo, "gender,age", mask="someone")) == [
        "My someone and a someone."
    ]


def test_vote_takes_the_most_frequent_output_and_the_first_group_of_equals() -> None:
    def by_word(inputs: Sequence[StageInput]) -> list[str]:
        return ["yes" if "husband" in item.user else "no" for item in inputs]

    assert outputs_of(["My wife?", "My husband?", "My spouse?"], Vote(by_word, "gender")) == ["no", "no", "no"]
    assert outputs_of(["My wife?"], Vote(lambda inputs: [item.user[3:5] for item in inputs], "gender")) == ["hu"]


@pytest.mark.parametrize(
    ("rankings", "merged"),
    [
        ([["a", "a", "b"]] * 3, ["a", "a", "b"]),  # what all say is said, equal items too
        ([[], [], ["a"]], []),  # most say nothing
        ([["a", "b"], ["a"], ["a", "b"]], ["a", "b"]),
    ],
)
def test_vote_makes_no_list_that_most_do_not_give(rankings: list[list[str]], merged: list[str]) -> None:
    answers = dict(zip(("husband", "wife", "spouse"), rankings, strict=True))
    guard = Vote(lambda inputs: [answers[item.user.split()[-1]] for item in inputs], "gender")
    assert guard([StageInput((), "for my wife")]) == [merged]


def test_vote_merges_rankings_by_mean_place() -> None:
    lists = {"husband": ["a", "b", "c"], "wife": ["b", "a", "c"], "spouse": ["b", "c", "d"]}

    def rank(inputs: Sequence[StageInput]) -> list[list[str]]:
        return [next(found for word, found in lists.items() if word in item.user) for item in inputs]

    assert outputs_of(["My wife?"], Vote(rank, "gender")) == [["b", "a", "c"]]  # mean places 1/3, 4/3, 5/3; d: 8/3


def test_a_guard_is_known_by_its_stage_and_axis_and_passes_groups_on() -> None:
    class Random:
        is_random, use_cache = True, False
        signature = "random 1"

        def __call__(self, inputs: Sequence[StageInput]) -> list[str]:
            return [item.draw for item in inputs]

    guard = Canonical(Random(), "gender")
    assert guard.is_random
    assert not guard.use_cache
    names = {cache_signature(one) for one in (guard, Canonical(Random(), "age"), Vote(Random(), "gender"), Random())}
    assert len(names) == 4
    assert "lexicon:gender" in guard.signature
    assert "random 1" not in names


def test_a_failure_of_one_call_is_one_of_the_guard() -> None:
    def picky(inputs: Sequence[StageInput]) -> list[str]:
        if any("spouse" in item.user for item in inputs):
            raise UnansweredError("no spouses")
        return [item.user for item in inputs]

    component = StageCaller("response", Canonical(picky, "gender"), options=CallOptions(max_failures=1.0))
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
    assert set(stage.inner.coverage) == {"gender", "age"}
    guarded = with_guards(Pipeline({"say": echo}), "say=vote:gender")
    assert isinstance(guarded.stages["say"], Vote)


@pytest.mark.parametrize(
    "spec",
    ["canonical:persona_gender", "canonical:nothing", "canonical:gender, gender", "mild:gender", "canonical"],
)
def test_what_cannot_be_guarded_is_refused(spec: str) -> None:
    with pytest.raises((AxisError, StageError)):
        with_guards(Pipeline({"say": echo}), f"say={spec}")


@pytest.mark.parametrize("options", ["guard: mild, axes: gender", "guard: vote"])
def test_a_wrong_guard_in_a_file_names_the_stage(options: str, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"stages: {{say: {{stage: 'tod_bias.stages:as_text', {options}}}}}\n")
    with pytest.raises(StageError, match="stage 'say': "):
        load_pipeline(path)
