"""The mutator ``demographic_rewrite``: stock tasks of ParlAI, rewritten."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.tasks.google_sgd.agents import SystemTeacher

from tod_bias.agents.mutator import DemographicRewrite, rewrite_lines
from tod_bias.agents.plugin import __path__ as plugin
from tod_bias.errors import AxisError
from tod_bias.perturb import Candidate, load_axis

pytestmark = [pytest.mark.parlai, pytest.mark.slow]


def mutate(*episodes: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """The messages of episodes after the mutator; from woman to man by default."""
    messages = [
        Message({**message, "episode_done": number == len(episode) - 1})
        for episode in episodes
        for number, message in enumerate(episode)
    ]
    return list(DemographicRewrite(Opt({"source": "woman", "target": "man", **options}))(messages))


SUNG = {"text": "your persona: my sister sings\nWho is she?", "labels": ["She is my Sister."]}
CHAT = [SUNG | {"label_candidates": ["Her", "x"]}, {"text": "Ok", "eval_labels": ("Bye, madam.",), "image": 3}]


def test_texts_labels_and_candidates_of_any_task_are_rewritten():
    first, second = mutate(CHAT)
    assert first["text"] == "your persona: my brother sings\nWho is he?"
    assert (first["labels"], first["label_candidates"]) == (["He is my Brother."], ["Him", "x"])
    assert (second["text"], second["eval_labels"], second["image"]) == ("Ok", ("Bye, sir.",), 3)
    assert [message["episode_done"] for message in (first, second)] == [False, True]
    assert {(m["axis"], m["source"], m["target"]) for m in (first, second)} == {("gender", "woman", "man")}
    assert first["term"] in ("sister", "she", "madam")
    assert all(type(text) is str for text in (first["text"], *first["labels"], *second["eval_labels"]))


def test_episodes_without_a_mention_are_left_out_or_kept():
    nobody = [{"text": "Hello", "labels": ["Hi"]}]
    assert len(mutate(nobody, CHAT, nobody)) == 2
    messages = mutate(nobody, CHAT, nobody, unperturbed="keep")
    assert [message["text"] for message in messages][::3] == ["Hello", "Hello"]
    assert "axis" not in messages[0]


def test_slot_names_api_names_schemas_and_names_stay():
    call = "APICALL: api_name = FindMother ; artist = Lady Gaga ; mother = my mother ; z"
    episode = [
        {"text": "APIS: api_name = FindMother ; optArg = mother", "labels": ["APIS: "]},
        {"text": "USER: A song for my mother by Lady Gaga", "labels": [call[:-4]], "slots": {"mother": "my mother"}},
        {"text": "APIRESP: artist = Lady Gaga ; mother = my mother", "labels": ["SYSTEM: She will like Lady Gaga."]},
    ]
    schemas, request, result = mutate(episode)
    assert schemas["text"] == "APIS: api_name = FindMother ; optArg = mother"
    assert request["text"] == "USER: A song for my father by Lady Gaga"
    assert request["labels"] == ["APICALL: api_name = FindMother ; artist = Lady Gaga ; mother = my father"]
    assert request["slots"] == {"mother": "my father"}
    assert result["text"] == "APIRESP: artist = Lady Gaga ; mother = my father"
    assert result["labels"] == ["SYSTEM: He will like Lady Gaga."]


def test_goals_and_malformed_calls_are_rewritten_line_by_line():
    from tod_bias.dialogues.dialogue import Dialogue, Turn

    dialogue = Dialogue("1", "", (Turn("my wife"),))
    rewrite = load_axis("gender").rewrite(dialogue, Candidate("wife", "woman", "man"))
    text = "GOAL: api_name = A ; wife = wife | api_name = B ; b = aunt\nUSER: her\nAPICALL: my wife"
    assert rewrite_lines(text, rewrite) == (
        "GOAL: api_name = A ; wife = husband | api_name = B ; b = uncle\nUSER: him\nAPICALL: my husband"
    )


def test_draws_depend_on_the_texts_or_the_given_id():
    def words(**options: Any) -> list[str]:
        return [m["target"] for m in mutate(*([{"text": f"my mom {n}"}] for n in range(20)), target=None, **options)]

    assert words() == words()
    assert set(words()) == {"man", "non-binary"}
    assert words() != words(seed=1) != words(draw=1)
    same = [{"text": "my mom", "dialogue_id": str(number)} for number in range(20)]
    assert len({m["target"] for m in mutate(*([message] for message in same), target=None)}) == 2


def test_wrong_options_are_one_clear_error():
    for options, message in (({"axis": "height"}, "unknown axis"), ({"draw": -1}, "--draw must be 0 or more, got -1")):
        with pytest.raises(AxisError, match=message):
            mutate(CHAT, **options)


def test_parlai_finds_it_in_the_plugins_folder(datapath):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*plugin, *sys.path])}
    options = ["-t", "google_sgd", "-dp", str(datapath), "-dt", "valid", "--mutators", "demographic_rewrite"]
    options += ["--axis", "gender", "--source", "woman", "--target", "man"]
    command = [sys.executable, "-m", "parlai", "display_data", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "USER: My husband wants tacos." in done.stdout
    assert "SYSTEM: In which city does he want them?" in done.stdout
    assert "What is the weather like?" not in done.stdout


def test_a_stock_teacher_serves_every_rewritten_episode_once(datapath):
    options = {"mutators": "demographic_rewrite", "datapath": str(datapath), "datatype": "valid", "loglevel": "error"}
    opt = ParlaiParser(True, False).parse_kwargs(task="google_sgd", target="man", **options)
    teacher = SystemTeacher(Opt(opt))
    shown = []
    while not teacher.epoch_done():
        message = teacher.act()
        if not message.is_padding() and message["text"].startswith("USER:"):
            shown.append(message["text"])
    assert "USER: My husband wants tacos." in shown
    assert len(shown) == len(set(shown)) + 1  # [DONE], twice
