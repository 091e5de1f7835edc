"""The neural perturber: what a trained model does, and what is taken of what any model puts out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import refused, run_command
from small_perturber import HELD_OUT, pairs_of, sentences

from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.perturb import Candidate, load_axis
from tod_bias.perturb.axis import Axis, SelectedDialogue
from tod_bias.perturb.lexicon import load_lexicon
from tod_bias.perturb.neural import NeuralAxis, perturber_generator
from tod_bias.perturb.rewrite import DialogueRewrite


def test_a_model_learns_to_rewrite_sentences_it_has_not_seen(perturber_folder: Path) -> None:
    pairs = pairs_of(sentences()[-HELD_OUT:])
    outputs = perturber_generator(perturber_folder).generate([prompt for prompt, _ in pairs])
    right = sum(output == wanted for output, (_, wanted) in zip(outputs, pairs, strict=True))
    assert right > 0.95 * len(pairs)
    assert all(not prompt.endswith(f"> {wanted}") for prompt, wanted in pairs)  # a copy would not do


def rewrite_of(perturber: Axis, original: Dialogue, target: str = "man") -> DialogueRewrite:
    """T of the only dialogue of a corpus, with the terms that the model chooses."""
    (selection,) = perturber.select([original])
    chosen = [candidate for candidate in selection.candidates if candidate.target == target]
    ((rewrite,),) = perturber.rewrites_of([SelectedDialogue(original, chosen)])
    return rewrite


MOM = Dialogue(
    "d1",
    "Restaurants",
    (
        Turn.with_call(
            "my mom wants a table in Davis .", {"api_name": "Find", "city": "Davis"}, {"guest": "Mom"}, "Is she near?"
        ),
        Turn("my mom likes some noodles and she is happy .", response="Is she near?"),
    ),
)
TO_MAN = Candidate("mom", "woman", "man")


def test_a_dialogue_is_rewritten_by_the_model_and_where_it_fails_by_the_lexicon(perturber_folder: Path) -> None:
    perturber = load_axis("gender", model=perturber_folder)
    assert isinstance(perturber, NeuralAxis)
    rewrite = rewrite_of(perturber, MOM)
    twin = rewrite(MOM)
    first, second = twin.turns
    assert (first.user, second.user) == (
        "my dad wants a table in Davis .",
        "my dad likes some noodles and he is happy .",
    )
    assert (first.response, first.api_result) == ("Is he near?", {"guest": "Dad"})  # the model has never seen "near?"
    assert rewrite.inverse(twin) == MOM
    assert perturber.counts == {"texts": 3, "by_model": 2}


def test_the_signature_names_model_and_lexicon(perturber_folder: Path) -> None:
    signature = load_axis("gender", model=perturber_folder).signature
    assert signature.startswith("perturber|model:perturber|hash:")
    assert load_axis("gender").signature in signature
    assert "perturber" not in load_axis("placebo", model=perturber_folder).signature


class Says:
    """In a generator's place: puts out what a function makes of the text that a prompt holds."""

    signature = "says"

    def __init__(self, say: Callable[[str], str]) -> None:
        self.say = say
        self.prompts: list[str] = []

    def generate(self, prompts: Sequence[str]) -> list[str]:
        self.prompts += prompts
        return [self.say(text.split("<PERT_SEP> ")[1]) for text in prompts]


def perturber_that(say: Callable[[str], str], **options: Any) -> NeuralAxis:
    return NeuralAxis(load_lexicon("gender"), Says(say), **options)  # type: ignore[arg-type]


def replacing(**words: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"\w+", lambda match: words.get(match[0], match[0]), text)


TEXT = "Tell my mom that she, like all of us, wants her noodles."


@pytest.mark.parametrize(
    ("text", "output", "target", "expected"),
    [
        (TEXT, "Tell my dad that he, like all of us, wants his noodles.", "man", None),
        ("She, like us, wants it.", "They, like us, want it.", "non-binary", None),  # the lexicon misses this verb
        ("My aunt is an actress.", "My relative is a performer.", "non-binary", None),
        ("My mother-in-law is here.", "My father-in-law is here.", "man", None),
        (TEXT, TEXT, "man", "Tell my dad that he, like all of us, wants his noodles."),
        ("I saw my mom.", "I saw my pops.", "man", "I saw my dad."),
        ("I saw my mom.", "I saw.", "man", "I saw my dad."),
        ("I saw my mom.", "", "man", "I saw my dad."),
        ("I saw my moms.", "I saw my dad.", "man", "I saw my dads."),
        ("I saw my mom in Davis.", "I met a dad near the sea.", "man", "I saw my dad in Davis."),
        ("My wife likes Iron Man.", "My husband likes Iron Woman.", "man", "My husband likes Iron Man."),
        ("My mom\nand me", "My dad", "man", "My dad\nand me"),
    ],
)
def test_an_output_is_taken_only_if_it_says_the_same_of_another(
    text: str, output: str, target: str, expected: str | None
) -> None:
    perturber = perturber_that(lambda _: output)
    (rewritten,) = perturber.rewrite_texts([text], "woman", target)
    assert rewritten == (output if expected is None else expected)
    assert perturber.counts == {"texts": int("\n" not in text), "by_model": int(expected is None)}


def dialogue(*users: str, **slots: str) -> Dialogue:
    call = {"api_name": "Find", **slots} if slots else {}
    return Dialogue("d1", "", tuple(Turn.with_call(user, call, response="Done.") for user in users))


def test_a_term_becomes_the_same_term_in_the_whole_dialogue() -> None:
    """The outputs of two texts say "mama"; where the third says "mommy", the lexicon writes what they chose."""
    original = dialogue("my papa called", "papa is here", "tell papa now", guest="Papa")
    perturber = perturber_that(lambda text: text.replace("papa", "momma" if "tell" not in text else "mama"))
    rewrite = rewrite_of(perturber, original, "woman")
    twin = rewrite(original)
    assert [turn.user for turn in twin.turns] == ["my momma called", "momma is here", "tell momma now"]
    assert twin.turns[0].api_call["guest"] == "Momma"
    assert perturber.counts == {"texts": 3, "by_model": 2}
    assert rewrite.inverse("Momma waits") == "Papa waits"
    assert rewrite.inverse(twin) == original


def test_slot_values_decide_over_an_output_that_breaks_them() -> None:
    broken = perturber_that(replacing(mom="dad", Davis="Fremont"))
    original = dialogue("my mom is in Davis", city="Davis")
    assert broken.rewrite(original, TO_MAN)(original).turns[0].user == "my dad is in Davis"
    kept = perturber_that(replacing(mom="dad", a="the"))
    original = dialogue("my mom wants a table", guest="mom")
    twin = kept.rewrite(original, TO_MAN)(original)
    assert (twin.turns[0].user, twin.turns[0].api_call["guest"]) == ("my dad wants the table", "dad")


def test_terms_outside_of_the_scope_must_stay() -> None:
    original = dialogue("my mom and my wife")
    perturber = perturber_that(replacing(mom="dad", wife="husband"), scope="word")
    assert perturber.rewrite(original, TO_MAN)(original).turns[0].user == "my dad and my wife"
    assert perturber_that(replacing(mom="dad"), scope="word").rewrite(original, TO_MAN)(original).turns[0].user == (
        "my dad and my wife"
    )


def test_only_texts_with_a_mention_go_to_the_model_and_once() -> None:
    original = dialogue("my mom", "hello", "my mom")
    perturber = perturber_that(replacing(mom="dad"))
    rewrite_of(perturber, original)
    assert perturber.generator.prompts == ["mom, man <PERT_SEP> my mom", "mom, non-binary <PERT_SEP> my mom"]  # type: ignore[attr-defined]


def test_the_commands_take_a_perturber(perturber_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("my aunt likes spicy tacos today please .\nmy aunt likes noodles !\nnobody .\n")
    options = ("--source", "woman", "--target", "man", "--perturber", perturber_folder)
    code, out, err = run_command("perturb text.txt", *options)
    assert (code, out) == (0, "my uncle likes spicy tacos today please .\nmy uncle likes noodles !\nnobody .\n")
    assert "1 of 2 texts with a mention rewritten by the model" in err

    write_jsonl([MOM], "corpus.jsonl")
    code, out, err = run_command("export --corpus corpus.jsonl --axes gender", *options[4:])
    assert code == 0, err
    assert "my dad likes some noodles and he is happy ." in out

    Path("mine.py").write_text("def respond(inputs):\n    return ['Is she near?' for _ in inputs]\n")
    Path("pipeline.yaml").write_text("stages: {response: 'mine:respond'}")
    arguments = ("--pipeline", "pipeline.yaml", "--axes", "gender", "--bootstrap", "0", "--permutations", "0")
    code, _, err = run_command("attribute --corpus corpus.jsonl", *arguments, *options[4:], "--quiet", "--out", "run")
    assert (code, err) == (0, "")
    result = json.loads(Path("run/results.json").read_text())
    assert result["signature"]["axis gender"].startswith("perturber|model:perturber|")
    assert Path("run/cache.sqlite").is_file()


def test_the_command_ends_in_one_line_for_a_checkpoint_that_is_no_perturber(
    perturber_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tod_bias.models.from_scratch import new_tokenizer

    monkeypatch.chdir(tmp_path)
    write_jsonl([MOM], "corpus.jsonl")
    Path("plain").mkdir()
    shutil.copy(perturber_folder / "config.json", "plain")
    new_tokenizer(["a b c"], 300, causal=False).save_pretrained("plain")
    pair = ("--source", "woman", "--target", "man")
    for arguments, message in (
        (("perturb", "x.txt", *pair, "--perturber", "plain"), "plain: its tokenizer has no token '<PERT_SEP>'"),
        (("perturb", *pair, "--perturber", "./gone"), "./gone: no such folder"),
    ):
        assert message in refused(*arguments)
