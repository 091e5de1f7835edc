"""Small dialogues, stages and models that the core's tests share."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from framework_agents import WORDS
from hypothesis import strategies as st

from tod_bias import Dialogue, Pipeline, StageInput, Step, Turn, Twin
from tod_bias.models.settings import TrainConfig
from tod_bias.perturb import load_axis
from tod_bias.perturb.lexicon_axis import LexiconAxis
from tod_bias.stages import Lookup, LookupDb, Replay, as_text
from tod_bias.systems.execution import Trace

texts = st.text(st.sampled_from("ab ;|=\\\n\r#n,."), max_size=12) | st.text(max_size=12).filter(
    lambda text: not any(0xD800 <= ord(c) < 0xE000 for c in text)
)
json_values = st.recursive(
    texts | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
slots = st.dictionaries(texts | st.just("api_name"), json_values, max_size=3)
steps = st.builds(Step, slots, st.lists(slots, max_size=3).map(tuple), texts)
dialogue_turns = st.builds(
    lambda user, steps, response: Turn(user, steps=steps, response=response),
    texts,
    st.lists(steps, max_size=3).map(tuple),
    texts,
)
"""Any turns: JSON values, several steps, what was said with a call, texts that look like the text form's own marks."""

PEOPLE = ("wife", "mother", "husband", "father", "sister", "brother")
CITIES = ("Fremont", "Oakland", "San Jose", "Davis")
DISHES = ("noodles", "pasta", "curry", "tacos")


def small_corpus(count: int = 24) -> list[Dialogue]:
    """Dialogues of two turns; every fourth one mentions nobody, the others a woman or a man."""
    dialogues = []
    for number in range(count):
        person = PEOPLE[number % len(PEOPLE)]
        city, dish = CITIES[number % len(CITIES)], DISHES[(number // 2) % len(DISHES)]
        whom = f"My {person} wants" if number % 4 else "I want"
        call = {"api_name": "FindRestaurants", "city": city, "dish": dish}
        place = f"House of {dish} number {number % 5}"
        results = ({"name": place, "city": city}, {"name": f"{place} annex", "city": city})
        turns = (
            Turn.with_call(
                f"{whom} {dish} tonight, can you help?", {}, {}, "Of course, in which city shall I look for it?"
            ),
            Turn(
                f"In {city} please.",
                steps=(Step(call, results),),
                response=f"{place} in {city} serves good {dish}.",
            ),
        )
        dialogues.append(Dialogue(f"d{number:03d}", "Restaurants", turns))
    return dialogues


def gender() -> LexiconAxis:
    return load_axis("gender")


class Answer:
    """A response stage that is right where call and result are; it echoes neither history nor user."""

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self._gold = Replay.gold(dialogues, "response")
        self._result = Replay.gold(dialogues, "api_result")

    def __call__(self, inputs: Sequence[StageInput]) -> list[str]:
        pairs = zip(inputs, self._gold(inputs), self._result(inputs), strict=True)
        return [
            gold if as_text(item.outputs["db"]) == as_text(result) else "Nothing found." for item, gold, result in pairs
        ]


def fair_pipeline(dialogues: Sequence[Dialogue]) -> Pipeline:
    """Equivariant in every stage, right in every turn."""
    return Pipeline(
        {
            "api_call": Twin(Replay.gold(dialogues, "api_call")),
            "db": Twin(LookupDb.from_dialogues(dialogues)),
            "response": Twin(Answer(dialogues)),
        }
    )


def numbered(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    """The dialogues with a number in each first utterance, so that no counterfactual of one is one of another."""
    return [
        dataclasses.replace(
            d, turns=(dataclasses.replace(d.turns[0], user=f"{d.turns[0].user} Case {d.id}."), *d.turns[1:])
        )
        for d in dialogues
    ]


def with_counterfactuals(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    """The dialogues as they are, and under every rewrite that gender admits."""
    perturber = gender()
    rewritten = [perturber.rewrite(d, candidate)(d) for d in dialogues for candidate in perturber.candidates(d)]
    return [*dialogues, *rewritten]


def equivariant_pipeline(dialogues: Sequence[Dialogue]) -> Pipeline:
    """As fair and right as :func:`fair_pipeline`, of stages that know every counterfactual: others can wrap them."""
    known = with_counterfactuals(dialogues)
    return Pipeline(
        {"api_call": Replay.gold(known, "api_call"), "db": LookupDb.from_dialogues(known), "response": Answer(known)}
    )


def outputs_of(trace: Trace, arm: int = 0) -> list[Mapping[str, Any]]:
    """What the components put out in every turn of one arm (0: nothing swapped)."""
    return [next(course.outputs for course in courses if arm in course.arms) for courses in trace]


def rude_tone(inputs: Sequence[StageInput]) -> list[str]:
    """A last stage that is curt to whoever mentions a wife."""
    return ["Sorry." if "wife" in item.user else item.outputs["response"] for item in inputs]


def polite_tone(inputs: Sequence[StageInput]) -> list[str]:
    """A last stage that changes nothing."""
    return [item.outputs["response"] for item in inputs]


WRONG = {"api_call": {}, "db": Lookup, "response": "Sorry, I do not know."}


def hurt(stage: Callable, wrong: object, words: Sequence[str] = WORDS) -> Callable:
    """The stage, but wrong in every turn of a dialogue in which the user has mentioned one of the words."""

    def biased(inputs: Sequence[StageInput]) -> list[object]:
        outputs = stage(inputs)
        return [
            wrong if any(word in item.context for word in words) else output
            for item, output in zip(inputs, outputs, strict=True)
        ]

    return biased


def tiny_model(folder: Path, arch: str = "gpt2", dialogues: Sequence[Dialogue] | None = None) -> Path:
    """A model of the given architecture, barely trained: enough to say different things to different prompts."""
    from tod_bias.models.training import train  # heavy; other users of this file need none of it

    settings = TrainConfig(
        arch=arch, epochs=30, layers=1, width=32, heads=2, vocabulary=400, dropout=0.0, batch=8,
        max_length=256, learning_rate=1e-2, evaluations=1, patience=99,
    )  # fmt: skip
    corpus = list(dialogues or small_corpus())
    train(corpus, corpus[:4], folder, settings)
    return folder


def tiny_llama(folder: Path) -> Path:
    """A Llama, barely trained from random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    from tod_bias.models.from_scratch import new_tokenizer
    from tod_bias.models.training import train

    corpus = small_corpus()
    with tempfile.TemporaryDirectory() as base:
        set_seed(0)
        tokenizer = new_tokenizer((turn.text for one in corpus for turn in one.turns), 400, causal=True)
        config = LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=128, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(base)
        tokenizer.save_pretrained(base)
        settings = TrainConfig(
            init=base, epochs=30, batch=8, max_length=256, learning_rate=1e-2, evaluations=1, patience=99
        )
        train(corpus, corpus[:4], folder, settings)
    return folder


def tiny_adapter(folder: Path, base: Path) -> Path:
    """A LoRA adapter of random weights on a causal model."""
    import peft

    from tod_bias.models.checkpoints import load_model, load_tokenizer

    config = peft.LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    with warnings.catch_warnings():  # of GPT-2's layers, which peft sets right itself
        warnings.simplefilter("ignore")
        adapted = peft.get_peft_model(load_model(str(base), causal=True), config)
    adapted.peft_config["default"].base_model_name_or_path = str(base)
    adapted.save_pretrained(folder, save_embedding_layers=False)
    load_tokenizer(str(base)).save_pretrained(folder)
    return folder


class Touch:
    """An object whose pickle, when it is opened, makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


class StoppedError(Exception):
    """Stands for whatever may end a training."""


@contextmanager
def stopping_at(checkpoint: int) -> Iterator[None]:
    """Trainings end while their checkpoint of this number, from 1 on, is being written."""
    from tod_bias.models import trainer

    save, calls = trainer.Trainer._save, []

    def stopping(self: Any, folder: str, state_dict: Any = None) -> None:
        calls.append(folder)
        save(self, folder, state_dict)
        if len(calls) == checkpoint:
            raise StoppedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer.Trainer, "_save", stopping)
        with pytest.raises(StoppedError):
            yield
