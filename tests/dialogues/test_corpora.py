import json

import pytest
from builders import small_corpus

from tod_bias import load_corpus
from tod_bias.dialogues.dialogue import Dialogue, Turn
from tod_bias.dialogues.files import write_jsonl
from tod_bias.dialogues.sampling import sample
from tod_bias.errors import CorpusError
from tod_bias.perturb import draw_rewrites, load_axis


def sgd_turn(speaker: str, utterance: str, **frame):
    return {"speaker": speaker, "utterance": utterance, "frames": [{"service": "Rest_1", **frame}]}


SGD = [
    {
        "dialogue_id": "1_00000",
        "services": ["Rest_1", "Hotels_2"],
        "turns": [
            sgd_turn("USER", "Find me a place in Davis"),
            sgd_turn(
                "SYSTEM",
                "How about A?",
                service_call={"method": "Find", "parameters": {"city": "Davis", "price": "", "when": ["b", "a"]}},
                service_results=[{"name": "A", "open": ["x", "a"]}, {"name": "B", "open": "no"}],
            ),
            sgd_turn("USER", "Thanks"),
            sgd_turn("SYSTEM", "Bye"),
        ],
    }
]


@pytest.fixture
def sgd(tmp_path):
    folder = tmp_path / "google_sgd" / "dev"
    folder.mkdir(parents=True)
    (folder / "dialogues_001.json").write_text(json.dumps(SGD))
    return tmp_path


def test_sgd_keeps_all_results_and_reads_calls_as_parlai_does(sgd):
    (dialogue,) = load_corpus("google_sgd", datapath=sgd, split="valid")
    assert (dialogue.id, dialogue.domain) == ("1_00000", "Hotels, Rest")
    first, second = dialogue.turns
    assert first.api_call == {"api_name": "Find", "city": "Davis", "when": "a, b"}
    assert first.api_results == ({"name": "A", "open": "a, x"}, {"name": "B", "open": "no"})
    assert (second.user, second.api_call, second.api_results, second.response) == ("Thanks", {}, (), "Bye")


def test_corpora_are_read_by_name_and_by_path(tmp_path):
    write_jsonl(small_corpus(), tmp_path / "mine.jsonl")
    assert load_corpus(tmp_path / "mine.jsonl") == small_corpus()
    assert load_corpus(str(tmp_path / "mine.jsonl"), max_dialogues=3, seed=2) == sample(small_corpus(), 3, 2)


READERS = """
from tod_bias import Dialogue, Turn
from tod_bias.errors import CorpusError

def greetings(datapath, split):
    yield Dialogue(split, str(datapath), (Turn("Hello!"),))

def texts(datapath, split):
    return ["Hello!"]

def nothing(datapath, split):
    return None

def broken(datapath, split):
    yield Dialogue("1", "", ())
    raise KeyError("turns")

def careful(datapath, split):
    raise CorpusError("no such split here")
"""


@pytest.mark.parametrize("where", ["current folder", "folder"])
def test_a_reader_of_ones_own_is_a_corpus(tmp_path, monkeypatch, where):
    (tmp_path / f"readers_{where[:3]}.py").write_text(READERS)
    if where == "current folder":
        monkeypatch.chdir(tmp_path)
    found = load_corpus(f"readers_{where[:3]}:greetings", datapath="here", folder=tmp_path, split="train")
    assert found == [Dialogue("train", "here", (Turn("Hello!"),))]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:read", "corpus 'nowhere:read': "),
        ("readers:read", "corpus 'readers:read': "),
        ("readers:texts", "corpus 'readers:texts', dialogue 1: "),
        ("readers:nothing", "corpus 'readers:nothing': "),
        ("readers:broken", r"corpus 'readers:broken', dialogue 2: .*KeyError: 'turns' at .*readers.py:16"),
        ("readers:careful", "no such split here$"),
    ],
)
def test_a_reader_that_fails_is_one_clear_line(tmp_path, monkeypatch, name, message):
    (tmp_path / "readers.py").write_text(READERS)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CorpusError, match=f"^{message}[^\n]*$"):
        load_corpus(name)


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_datasets_are_corpora(tmp_path):
    import datasets

    rows = datasets.Dataset.from_list([dialogue.to_json() for dialogue in small_corpus(6)])
    datasets.DatasetDict({"test": rows}).save_to_disk(tmp_path / "set")
    assert load_corpus(f"hf:{tmp_path / 'set'}") == small_corpus(6)
    with pytest.raises(CorpusError, match="its split 'train' cannot be loaded"):
        load_corpus(f"hf:{tmp_path / 'set'}", split="train")


def test_missing_split_names_those_that_are_there(sgd):
    with pytest.raises(CorpusError, match="say --split valid"):
        load_corpus("google_sgd", datapath=sgd, split="test")


def strings(dialogue):
    for turn in dialogue.turns:
        yield turn.user
        yield turn.response
        for slots in (turn.api_call, *turn.api_results):
            yield from slots.values()


@pytest.mark.real_data
@pytest.mark.slow
def test_dialogues_of_real_sgd_survive_their_texts_and_every_rewrite(sgd_datapath):
    perturbers = [load_axis(axis) for axis in ("gender", "age", "race")]
    for split, count in (("valid", 2098), ("train", 12174)):
        dialogues = load_corpus("google_sgd", datapath=sgd_datapath, split=split)
        assert len(dialogues) == count
        rewritten = dict.fromkeys(("gender", "age", "race"), 0)
        for dialogue in dialogues[::8]:
            for perturber in perturbers:
                for rewrite in draw_rewrites(perturber, dialogue, draws=1):
                    copy = rewrite(dialogue)
                    assert rewrite.inverse(copy) == dialogue
                    assert all(rewrite.inverse(rewrite(text)) == text for text in strings(dialogue))
                    rewritten[perturber.name] += copy != dialogue
        assert min(rewritten.values()) > count / 800  # each axis has something to rewrite
