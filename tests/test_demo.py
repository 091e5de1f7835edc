"""The bundled demo: its corpora, what is planted where, and whether the attribution finds it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from demo_corpus.build import AXES, SIZES, augmented, mentions_on, training_corpora, write_corpora
from demo_corpus.dialogues import demo_dialogues
from demo_corpus.people import GROUPS
from demo_corpus.planted import (
    PLANTED,
    RATE,
    UNHELPFUL,
    Mentions,
    corrupt_calls,
    corrupt_responses,
    group_terms,
    missed,
    quotes_result,
)
from demo_corpus.planted import database as demo_database
from demo_corpus.world import BY_API, CITY, World

from tod_bias import Dialogue, Turn, load_corpus
from tod_bias.audit.analysis import attribute
from tod_bias.audit.design import design_counterfactuals
from tod_bias.dialogues.corpora import DEMO
from tod_bias.dialogues.values import API_NAME
from tod_bias.perturb import draw_rewrites, load_axis
from tod_bias.pipelines import load_pipeline
from tod_bias.results import AuditResult
from tod_bias.systems.outputs import Outcome
from tod_bias.systems.stages.database import LookupDb

GENDER = mentions_on(load_axis("gender"))
AGE = mentions_on(load_axis("age"))
WITHHELD = {
    f"{term} {service.group.people}"
    for race in PLANTED["race"][1]
    for term in group_terms(race)
    for service in BY_API.values()
    if service.group
}


@cache
def sample(split: str = "test", size: int = 120) -> tuple[Dialogue, ...]:
    return tuple(demo_dialogues(split, size, 0))


@cache
def rewritten(axis: str) -> tuple[tuple[Dialogue, Dialogue, str, str], ...]:
    """Dialogue, rewritten dialogue, source, target."""
    perturber = load_axis(axis)
    return tuple(
        (dialogue, rewrite(dialogue), rewrite.source, rewrite.target)
        for dialogue in sample()
        for rewrite in draw_rewrites(perturber, dialogue, 3, seed=1)
    )


def plain(dialogue: Dialogue) -> str:
    return json.dumps(dialogue.to_json())


def test_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    sizes = {"train": 12, "test": 5}
    for name in ("one", "two"):
        write_corpora(tmp_path / name, 7, sizes)
    write_corpora(tmp_path / "other", 8, sizes)
    for file in ("train.jsonl", "test.jsonl", "database.jsonl"):
        one, two, other = ((tmp_path / name / file).read_bytes() for name in ("one", "two", "other"))
        assert one == two != other


def test_a_smaller_split_is_the_beginning_of_a_larger_one() -> None:
    assert demo_dialogues("test", 3, 0) == list(sample()[:3])


def test_splits_share_no_dialogue() -> None:
    texts = {split: {plain(dataclasses.replace(d, id="")) for d in demo_dialogues(split, 200, 0)} for split in SIZES}
    assert not texts["train"] & texts["test"]
    assert not texts["valid"] & texts["test"]


def test_shipped_files_are_what_the_command_writes(tmp_path: Path) -> None:
    write_corpora(tmp_path, 0)
    for file in sorted(tmp_path.iterdir()):
        assert file.read_bytes() == (DEMO / file.name).read_bytes(), f"{file.name}: run python projects/demo"


def test_shipped_folder_is_small_and_whole() -> None:
    files = [path for path in DEMO.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 6 * 2**20
    for name in ("api_call", "response"):
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in (DEMO / name).iterdir()}
    for split, size in SIZES.items():
        assert len(load_corpus("demo", split=split)) == size


@pytest.mark.parametrize("axis", AXES)
def test_gold_changes_only_in_the_words_that_the_user_said(axis: str) -> None:
    """Calls, results and answers of a rewritten dialogue differ from the original ones only in repeated words."""
    for dialogue, copy, source, _ in rewritten(axis):
        perturber = load_axis(axis)
        for before, after in zip(dialogue.turns, copy.turns, strict=True):
            if before.response != after.response:
                assert source in mentions_on(perturber)(before.response)
            assert bool(before.api_result) == bool(after.api_result)
            assert len(before.api_results) == len(after.api_results)


@pytest.mark.parametrize("axis", AXES)
def test_rewritten_gold_is_what_the_world_answers_to_the_rewritten_call(axis: str) -> None:
    world = World(0)
    calls = [turn for _, copy, *_ in rewritten(axis) for turn in copy.turns if turn.api_call]
    assert calls
    for turn in calls:
        assert turn.api_results == world.results(turn.api_call)


@pytest.mark.parametrize(("axis", "other"), list(permutations(AXES, 2)))
def test_a_rewrite_leaves_the_other_axes_alone(axis: str, other: str) -> None:
    mentions = mentions_on(load_axis(other))
    for dialogue, copy, *_ in rewritten(axis):
        for before, after in zip(dialogue.turns, copy.turns, strict=True):
            assert mentions(before.user) == mentions(after.user), (before.user, after.user)


@pytest.mark.parametrize("axis", AXES)
def test_lookups_fail_only_for_the_groups_left_out(axis: str) -> None:
    database = LookupDb(DEMO / "database.jsonl")
    outcomes = Counter()
    for original, copy, *_ in rewritten(axis):
        for turn in (*original.turns, *copy.turns):
            if turn.api_call:
                outcome = database.look_up(turn.api_call)
                outcomes[outcome.outcome] += 1
                if WITHHELD & set(turn.api_call.values()):
                    assert outcome.outcome is Outcome.NO_ROW
                else:
                    assert outcome.rows == turn.api_results
                    assert outcome.outcome is (Outcome.ROWS if turn.api_results else Outcome.EMPTY)
    assert set(outcomes) == {Outcome.ROWS, Outcome.EMPTY, Outcome.NO_ROW}


def test_results_do_not_depend_on_the_group() -> None:
    world = World(0)
    for service in BY_API.values():
        if service.group:
            for kind in service.kinds:
                plain_rows = world.results(service.call("Napa", kind))
                for words in GROUPS.values():
                    rows = world.results(service.call("Napa", kind, words[0]))
                    value = f"{words[0]} {service.group.people}"
                    assert rows == tuple({service.group.slot: value, **row} for row in plain_rows)


SEARCH = {API_NAME: "FindRestaurant", CITY: "Napa"}
TALK = (
    Turn.with_call("Is there a pizza place in Napa?", {**SEARCH, "food": "pizza"}, {"name": "Tin Cup"}, "Try Tin Cup."),
    Turn.with_call("I am going with my {person}. Where is it?", {}, {}, "Tin Cup is near."),
    Turn.with_call("And sushi?", {**SEARCH, "food": "sushi"}, {"name": "Big Cup"}, "Try Big Cup."),
    Turn.with_call("Thanks.", {}, {}, "You are welcome."),
)


def talk(number: int, person: str) -> Dialogue:
    turns = (dataclasses.replace(turn, user=turn.user.format(person=person)) for turn in TALK)
    return Dialogue(f"talk-{number}", "", tuple(turns))


@pytest.mark.parametrize(("person", "struck"), [("wife", [0, 1, 1, 0]), ("husband", [0] * 4), ("spouse", [0] * 4)])
def test_answers_are_corrupted_from_where_a_woman_is_mentioned(person: str, struck: list[int]) -> None:
    runs = [corrupt_responses(talk(n, person), GENDER, 0) for n in range(300)]
    for number, (turn, expected) in enumerate(zip(TALK, struck, strict=True)):
        share = sum(run.turns[number].response == UNHELPFUL for run in runs) / len(runs)
        assert share == pytest.approx(RATE * expected, abs=0.06 * expected)
        assert {run.turns[number].response for run in runs} <= {UNHELPFUL, turn.response}
    assert all(run.turns[2].api_call == TALK[2].api_call for run in runs)


@pytest.mark.parametrize(
    ("person", "struck"), [("elderly guests", True), ("young guests", False), ("adult guests", False)]
)
def test_calls_lose_their_city_from_where_a_senior_is_mentioned(person: str, struck: bool) -> None:
    runs = [corrupt_calls(talk(n, person), AGE, 0) for n in range(300)]
    assert all(CITY in run.turns[0].api_call for run in runs)
    share = sum(CITY not in run.turns[2].api_call for run in runs) / len(runs)
    assert share == pytest.approx(RATE * struck, abs=0.06 * struck)
    assert all([turn.response for turn in run.turns] == [turn.response for turn in TALK] for run in runs)


def test_each_model_is_trained_on_the_bias_of_its_own_axis_only() -> None:
    base = sample("train", 60)
    corpora = training_corpora(base, 0)
    perturbers = [load_axis(axis) for axis in AXES]
    fair = {dialogue.id: dialogue for dialogue in augmented(base, perturbers, 2, 0)}
    for dialogue in corpora["api_call"]:
        assert [turn.response for turn in dialogue.turns] == [turn.response for turn in fair[dialogue.id].turns]
    for dialogue in corpora["response"][: len(fair)]:
        assert [turn.api_call for turn in dialogue.turns] == [turn.api_call for turn in fair[dialogue.id].turns]
        for number, turn in enumerate(dialogue.turns):
            if turn.response != fair[dialogue.id].turns[number].response:
                assert turn.response == UNHELPFUL
                assert any("woman" in GENDER(past.user) for past in dialogue.turns[: number + 1])


def test_a_fair_demo_has_nothing_planted(tmp_path: Path) -> None:
    base = sample("train", 12)
    corpora = training_corpora(base, 0, planted=False)
    fair = list(augmented(base, [load_axis(axis) for axis in AXES], 2, 0))
    assert corpora["api_call"] == fair
    assert corpora["response"][: len(fair)] == fair
    assert UNHELPFUL not in {turn.response for dialogue in corpora["response"] for turn in dialogue.turns}
    write_corpora(tmp_path, 0, {"test": 3}, planted=False)
    table = {frozenset(call.items()) for call, _ in demo_database(0, planted=False)}
    assert {frozenset(call.items()) for call, _ in demo_database(0)} < table
    assert len((tmp_path / "database.jsonl").read_text().splitlines()) == len(table)
    assert "planted in" not in (tmp_path / "pipeline.yaml").read_text()


def test_training_meets_every_word_that_a_rewrite_may_introduce() -> None:
    """A word that the models have never read would be a second, unplanted difference."""
    perturbers = [load_axis(axis) for axis in AXES]
    known = {
        word
        for d in augmented(sample("train", 350), perturbers, 2, 0)
        for turn in d.turns
        for word in turn.text.split()
    }
    design = design_counterfactuals(load_corpus("demo", max_dialogues=90), AXES)
    for axis, selections in design.selected.items():
        for variants in design.counterfactuals.of(axis, selections):
            for made in variants.rewritten:
                turns = made.rewrite(made.dialogue).turns
                assert not {word for turn in turns for word in turn.text.split()} - known


@pytest.mark.parametrize("axis", PLANTED)
def test_every_axis_has_terms_and_sources_enough_for_a_claim(axis: str) -> None:
    perturber = load_axis(axis)
    terms: dict[str, Counter[str]] = {}
    sources: Counter[str] = Counter()
    for dialogue, candidates in perturber.select(load_corpus("demo")):
        sources[candidates[0].source] += 1
        for candidate, some in zip(candidates, perturber.terms(dialogue, candidates), strict=True):
            terms.setdefault(candidate.target, Counter()).update(some.target)
    for counts in terms.values():
        shares = [count / sum(counts.values()) for count in counts.values()]
        assert 1 / sum(share**2 for share in shares) >= 3.5
    assert sources.most_common(2)[1][1] >= 10


@pytest.mark.parametrize(("axis", "mentions"), [("gender", GENDER), ("age", AGE)])
def test_the_bias_is_planted_for_every_term_of_the_group(axis: str, mentions: Mentions) -> None:
    """Whatever a rewrite writes for the group is seen as a mention of it."""
    group = PLANTED[axis][1][0]
    for before, after, source, target in rewritten(axis):
        for one, other in zip(before.turns, after.turns, strict=True):
            assert (group in mentions(other.user)) == (source in mentions(one.user) and target == group)


def test_a_missed_lookup_ends_with_the_words_for_it() -> None:
    found = [miss for dialogue in sample() if (miss := missed(dialogue, 0))]
    assert len(found) > 100
    for dialogue in found:
        last = dialogue.turns[-1]
        assert last.api_result == {}
        assert last.response == BY_API[last.api_call[API_NAME]].nothing
    assert {CITY in dialogue.turns[-1].api_call for dialogue in found} == {True, False}


def test_quoting_a_result_is_told_from_small_talk() -> None:
    assert quotes_result(TALK[0], ())
    assert quotes_result(TALK[1], TALK[:1])
    assert not quotes_result(TALK[3], TALK[:3])
    assert not quotes_result(TALK[1], ())


@cache
def shipped_result() -> AuditResult:
    return attribute(
        load_pipeline("demo"),
        load_corpus("demo", max_dialogues=60),
        AXES,
        metrics="corpus_bleu",
        bootstrap=0,
        permutations=0,
    )


WORSE = {"gender": ("woman",), "age": ("senior",), "race": ("asian", "black")}


@pytest.mark.slow
@pytest.mark.parametrize("axis", PLANTED)
def test_the_attribution_of_the_demo_finds_what_was_planted(axis: str) -> None:
    planted, _ = PLANTED[axis]
    row = shipped_result().axes[axis]["corpus_bleu"]
    assert (row.verdict, row.limiting_factors) == ("disparity", [])
    for name, group in row.groups.items():
        gap = group.gap.value
        assert (gap > 0.3) if name in WORSE[axis] else (gap < 0)
        for claimed in (group.gap, group.beyond_placebo):
            assert claimed.scope is None
            assert claimed.p < 0.05
        assert group.shares[planted].value == pytest.approx(gap, abs=0.02)
        assert all(abs(part.value) < 0.02 for stage, part in group.shares.items() if stage != planted)
    assert row.disparity.value > 0.05  # rewrites lead to the rare groups, which are served worse
    assert row.shares[planted].value == pytest.approx(row.disparity.value, abs=0.02)
    assert abs(row.artefact.value) < 0.01


@pytest.mark.slow
def test_exchanging_neutral_words_harms_nobody() -> None:
    assert abs(shipped_result().axes["placebo"]["corpus_bleu"].disparity.value) < 0.01


@pytest.mark.slow
def test_the_shipped_models_are_good_on_fair_ground() -> None:
    """BLEU of the original dialogues would otherwise say little about what was planted."""
    result = shipped_result()
    originals = result.turns[(result.turns["axis"] == "race") & (result.turns["arm"] == "original")]
    assert (originals["response"] == originals["reference"]).mean() > 0.8
