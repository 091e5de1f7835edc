"""Dialects: hand-written cases, what T changes and what never, the exact inverse, and wrong files of rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cases import DIALECTS

from tod_bias import Dialogue, Step, Turn
from tod_bias.errors import AxisError, LexiconError
from tod_bias.perturb import Axis, Candidate, draw_rewrites, load_axis, perturb_text
from tod_bias.perturb.placebo import MatchedPlacebo

AAE, LEARNER = "dialect:aae", "dialect:nonnative"
TURN = Turn(
    "Are there any tables at It Looks Good? That works.",
    steps=(Step({"api_name": "find", "name": "It Looks Good"}, ({"note": "That works for us."},), "Does it help?"),),
    response="It sounds good.",
)
DIALOGUE = Dialogue("d", "", (TURN, Turn("It sounds good."), Turn("Does it have wifi?", response="It doesn't.")))


class TestDialogue:
    def test_one_candidate_that_the_rules_stand_for(self) -> None:
        perturber = load_axis(AAE)
        assert isinstance(perturber, Axis)
        (candidate,) = perturber.candidates(DIALOGUE)
        assert candidate == Candidate("is_there_it", "standard", "aae")
        assert perturber.crossed(DIALOGUE) == (candidate,)
        assert perturber.labels(candidate) == ("is_there_it", "is_there_it")
        ((source, target, _),) = perturber.terms(DIALOGUE, [candidate])
        assert source == target == {"is_there_it", "person_that", "person_do"}
        assert perturber.counts_of(DIALOGUE) == {candidate: 1}
        assert perturber.candidates(Dialogue("e", "", (Turn("Yes."),))) == []

    def test_user_turns_change_and_nothing_else(self) -> None:
        (rewrite,) = draw_rewrites(load_axis(AAE), DIALOGUE, draws=1)
        twin = rewrite(DIALOGUE)
        assert [turn.user for turn in twin.turns] == [
            "Is it any tables at It Looks Good? That work.",  # a value of the call stays
            "It sounds good.",  # the system says it too
            "Do it have wifi?",
        ]
        assert [(turn.steps, turn.response) for turn in twin.turns] == [
            (turn.steps, turn.response) for turn in DIALOGUE.turns
        ]
        assert rewrite.inverse(twin) == DIALOGUE

    def test_unseen_strings_stay_in_both_directions(self) -> None:
        (rewrite,) = draw_rewrites(load_axis(AAE), DIALOGUE, draws=1)
        for text in ("It doesn't look open.", "You asked: Do it have parking?"):
            assert rewrite(text) == rewrite.inverse(text) == text

    def test_a_placebo_can_be_matched(self) -> None:
        dialogue = Dialogue("d", "", (Turn("That works. I want to see a movie, please."),))
        rewrites = draw_rewrites(load_axis(AAE), dialogue, draws=1)
        assert MatchedPlacebo().match(dialogue, rewrites, 0) is not None

    def test_a_rule_with_a_rate_is_had_by_so_many_speakers(self) -> None:
        perturber = load_axis(AAE)
        said = [bool(perturber.candidates(Dialogue(str(n), "", (Turn("My name is Ann."),)))) for n in range(2000)]
        assert 0.46 < sum(said) / 2000 < 0.54  # rate 0.5, four standard errors
        again = [bool(perturber.candidates(Dialogue(str(n), "", (Turn("My name is Ann."),)))) for n in range(2000)]
        assert said == again

    @pytest.mark.parametrize("axis", ["dialect:aae×gender", "gender×dialect:aae"])
    def test_crossed_with_another_axis_in_either_order(self, axis: str) -> None:
        dialogue = Dialogue("d", "", (Turn("My wife doesn't want any fish. It sounds good to her."),))
        perturber = load_axis(axis)
        original = {
            candidate.target: perturber.rewrite(dialogue, candidate) for candidate in perturber.candidates(dialogue)
        }
        both = original["aae×man" if axis.startswith(AAE) else "man×aae"]
        twin = both(dialogue)
        assert twin.turns[0].user == "My husband don't want no fish. It sound good to him."
        assert both.inverse(twin) == dialogue

    def test_what_was_stored_is_turned_back_by_another_t(self) -> None:
        perturber = load_axis(AAE)
        (candidate,) = perturber.candidates(DIALOGUE)
        stored = Dialogue.from_json(perturber.rewrite(DIALOGUE, candidate)(DIALOGUE).to_json())
        assert perturber.rewrite(DIALOGUE, candidate).inverse(stored) == DIALOGUE

    def test_protected_phrases_and_chosen_groups(self) -> None:
        dialogue = Dialogue("d", "", (Turn("That works."),))
        assert load_axis(AAE, protected=["that works"]).candidates(dialogue) == []
        assert load_axis(AAE, targets=["standard"]).candidates(dialogue) == []
        assert len(load_axis(AAE, sources=["standard"], targets=["aae"]).candidates(dialogue)) == 1

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.lists(st.sampled_from(DIALECTS).map(lambda case: case[1]) | st.text(max_size=5)), max_size=4))
    def test_the_inverse_is_exact(self, said: list[list[str]]) -> None:
        turns = tuple(
            Turn.with_call(" ".join(texts), {"x": texts[0] if texts else ""}, response="".join(texts)) for texts in said
        )
        dialogue = Dialogue("d", "", turns)
        for axis in (AAE, LEARNER):
            for rewrite in draw_rewrites(load_axis(axis), dialogue, draws=1):
                assert rewrite.inverse(rewrite(dialogue)) == dialogue


class TestByName:
    def test_a_shipped_dialect_wins_over_a_module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "dialect.py").write_text("aae = None\n")
        assert load_axis(AAE).name == AAE

    @pytest.mark.parametrize("options", [{"scope": "word"}, {"targets": ["AAVE"]}])
    def test_what_a_dialect_does_not_have_is_refused(self, options: dict) -> None:
        with pytest.raises(AxisError):
            load_axis(AAE, **options)

    @pytest.mark.parametrize(("source", "target"), [("aae", "standard"), ("standard", "x"), ("aae", "aae")])
    def test_texts_go_from_the_standard_to_the_dialect(self, source: str, target: str) -> None:
        assert perturb_text("That works.", AAE, "standard", "aae") == "That work."
        with pytest.raises(AxisError, match="dialect:aae"):
            perturb_text("That works.", AAE, source, target)

    def test_rules_of_ones_own(self, tmp_path: Path) -> None:
        file = tmp_path / "scots.tsv"
        file.write_text(
            "@attributes\tstandard\tscots\n@words\tsize\tlittle small\n@map\tno\tdon't=dinnae\tcan't=cannae\n"
            "id\tdoes\tpattern\treplacement\tconditions\tsource\n"
            "wee\twee\t{size}\twee\t\teWAVE\nnae\tnae\tI ({no})\tI {no:1}\tstatement; not: if\teWAVE\n"
        )
        perturber = load_axis("dialect:scots", lexicon=file)
        said = "I don’t want a small one. I can't, if so. Can't I?"
        assert perturber.rewrite_texts([said], "standard", "scots") == [
            "I dinnae want a wee one. I can't, if so. Can't I?"
        ]
        assert perturber.signature != load_axis(AAE).signature


HEADER = "@attributes\ta\tb\nid\tdoes\tpattern\treplacement\tconditions\tsource\n"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 0),  # no groups
        ("@attributes\ta\tb\n", 0),  # no rules
        ("@attributes\ta\ta\n", 1),
        ("@word\tx\ty\n", 1),
        ("@words\tx\n", 1),
        ("@map\tx\tworks\n", 1),
        ("@words\tx\ta\n@map\tx\ta=b\n", 2),  # a second list
        ("@words\tX2\ta\n", 1),
        ("name\tpattern\n", 1),
        *(
            (HEADER + f"r\tit\t{row}\ts\n", 3)
            for row in (
                "",
                "\tx\t",  # no pattern
                "(a\tx\t",  # no regular expression
                "{verbs}\tx\t",  # no such list
                "a\t\\1\t",  # no such group
                "(a)\t{m:1}\t",  # no such map
                "a\tx{\t",
                "a\tx\trate: 2",
                "a\tx\tnever",
            )
        ),
        (HEADER + "r\tit\ta\tx\t\ts\nr\tit\tb\tx\t\ts\n", 4),  # a second rule of the name
    ],
)
def test_a_wrong_file_is_named_with_the_line(tmp_path: Path, content: str, line: int) -> None:
    file = tmp_path / "rules.tsv"
    file.write_text(content)
    with pytest.raises(LexiconError) as error:
        load_axis("dialect:mine", lexicon=file)
    assert str(error.value).startswith(f"{file}, line {line}: " if line else f"{file}: ")
    assert "\n" not in str(error.value)
