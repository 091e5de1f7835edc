import importlib
import json
import shutil
import subprocess
import sys

import pytest
from builders import small_corpus
from commands import in_file, refused, run_command

from tod_bias.dialogues.chat import write_chat
from tod_bias.dialogues.files import read_files, write_jsonl

STAGES = """
class Respond:
    def __call__(self, inputs):
        return ["Sorry." if "wife" in item.user else "Of course, in which city shall I look for it?" for item in inputs]


class Silent:
    def __call__(self, inputs):
        return ["zzz" for _ in inputs]


class Nothing:
    def __call__(self, inputs):
        return [None for _ in inputs]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_jsonl(small_corpus(), "corpus.jsonl")
    (tmp_path / "cli_stages.py").write_text(STAGES)
    for name in ("Respond", "Silent", "Nothing"):
        (tmp_path / f"{name}.yaml").write_text(f"stages: {{response: 'cli_stages:{name}'}}")
    (tmp_path / "elsewhere.yaml").write_text("system: {model: tiny, device: 'cuda:9'}")
    return tmp_path


QUICK = ("--corpus", "corpus.jsonl", "--bootstrap", 50, "--permutations", 100)


@pytest.mark.painted
def test_attribute_writes_a_run_and_prints_a_table(folder):
    code, out, err = run_command("attribute", *QUICK, "--pipeline", "Respond.yaml", "--axes", "gender", "--out", "run")
    assert code == 0, err
    assert "gender" in out
    assert {"results.json", "turns.parquet", "variants.parquet", "report.html"} <= {
        file.name for file in (folder / "run").iterdir()
    }
    assert (folder / "run" / "figures" / "groups-gender.svg").read_text().startswith("<?xml")
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["schema"] == 3
    assert results["corpus"]["dialogues"] == 24
    axis = results["axes"]["gender"]["corpus_bleu"]
    assert axis["contributions"]["response"]["shapley"]["value"] == axis["disparity"]["value"] != 0


OWN = """
from tod_bias import load_corpus
from tod_bias.metrics.bleu import CorpusBleu
from tod_bias.perturb import load_axis

def read(datapath, split):
    return load_corpus("corpus.jsonl")

def men():
    perturber = load_axis("gender", targets=["man"])
    perturber.name = "men"
    return perturber

class Bleu(CorpusBleu):
    name = "own_bleu"
"""


def test_corpus_axis_and_metric_of_ones_own_are_named_by_module_and_name(folder):
    (folder / "cli_own.py").write_text(OWN)
    names = ("--corpus", "cli_own:read", "--axes", "gender,cli_own:men", "--metrics", "cli_own:Bleu,length")
    code, _, err = run_command("attribute", *QUICK[2:], *names, "--pipeline", "Respond.yaml", "--out", "run")
    assert code == 0, err
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["corpus"]["dialogues"] == 24
    assert (list(results["axes"]), list(results["metrics"])) == (["gender", "men", "placebo"], ["own_bleu", "length"])
    command = "view --build run --metrics"
    assert run_command(command, "cli_own:Bleu,length")[0] == 0
    assert refused(command, "length,jga").endswith("--metrics jga: run has not measured it; it has own_bleu, length\n")


def test_a_limit_takes_a_seeded_sample(folder):
    options = ("--axes", "gender", "--corpus", "corpus.jsonl", "--max-dialogues", 8)
    first, again, other = (run_command("export", *options, "--seed", seed)[1] for seed in (1, 1, 2))
    assert first == again != other
    assert len({json.loads(line)["original"] for line in first.splitlines()}) <= 8


def test_chats_are_audited(folder):
    write_chat(read_files(folder / "corpus.jsonl"), folder / "chats.jsonl")
    for name in ("corpus", "chats"):
        arguments = ("--pipeline", "Respond.yaml", "--axes", "gender", "--out", name)
        code, _, err = run_command("attribute", *QUICK[2:], *arguments, "--corpus", f"{name}.jsonl")
        assert code == 0, err
    axes = [json.loads((folder / name / "results.json").read_text())["axes"] for name in ("corpus", "chats")]
    assert axes[0] == axes[1]


def test_results_of_another_run_are_not_replaced_in_silence(folder):
    arguments = ("--pipeline", "Respond.yaml", "--axes", "gender", "--out", "run")
    assert "replace" not in run_command("attribute", *QUICK, *arguments)[2]
    assert "replace" not in run_command("attribute", *QUICK, *arguments)[2]
    again = run_command("attribute", *QUICK, *arguments, "--seed", 1)[2]
    assert "(they replace those of another run, on gender, placebo; --out keeps runs apart)" in again


def test_evaluate_and_report(folder):
    code, out, err = run_command("evaluate --corpus corpus.jsonl --pipeline Respond.yaml --out run --bootstrap 20")
    assert code == 0, err
    assert "bleu" in out
    scores = json.loads((folder / "run" / "evaluation.json").read_text())["scores"]
    assert 0 < scores["corpus_bleu"]["value"] < 1
    run_command("attribute", *QUICK, "--pipeline", "Respond.yaml", "--axes", "gender", "--out", "run", "--quiet")
    (folder / "run" / "report.html").unlink()
    assert run_command("report run")[0] == 0
    assert (folder / "run" / "report.html").exists()


def test_train_then_attribute_with_the_model(folder):
    train = ("train", "--arch", "gpt2", "--corpus", "corpus.jsonl", "--out", "model", "--epochs", 14)
    size = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 400, "dropout": 0}
    options = in_file(folder, **size, held_out=4, learning_rate=1e-2, batch=8, patience=99)
    code, out, err = run_command(*train, *options)
    assert code == 0, err
    assert "lowest validation loss" in out
    options = ("--model", "model", "--max-new-tokens", 24, "--axes", "gender", "--out", "run")
    code, out, err = run_command("attribute", *QUICK, *options)
    assert code == 0, err
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["stages"] == ["api_call", "db", "response"]
    cost = results["cost"]
    assert all(0 < cost["distinct"][name] < cost["calls"][name] for name in ("api_call", "response"))
    assert cost["cached"]["response"] == 0
    assert run_command("attribute", *QUICK, *options)[0] == 0
    again = json.loads((folder / "run" / "results.json").read_text())
    assert again["cost"]["cached"]["response"] == cost["distinct"]["response"]
    assert again["cost"]["tokens"] == {"read": 0, "written": 0}
    assert again | {"cost": 0} == results | {"cost": 0}
    assert run_command("attribute", *QUICK, *options, "--no-resume")[0] == 0
    assert json.loads((folder / "run" / "results.json").read_text())["cost"]["cached"]["response"] == 0


def test_an_axis_of_ones_own(folder):
    (folder / "people.tsv").write_text("pos\twives\tsisters\nnoun\twife\tsister\n")
    axis = ("--axes", "people", "--lexicon", "people=people.tsv")
    code, _, err = run_command("attribute", *QUICK, "--pipeline", "Respond.yaml", *axis, "--out", "own", "--quiet")
    assert code == 0, err
    assert list(json.loads((folder / "own" / "results.json").read_text())["axes"]) == ["people", "placebo"]
    code, out, err = run_command("export --corpus corpus.jsonl", *axis)
    assert code == 0, err
    told = [json.loads(line) for line in out.splitlines()]
    assert {record["variant"] for record in told} == {"original", "people:wives", "people:sisters", "placebo:people"}


def test_perturb_rewrites_lines(folder):
    (folder / "text.txt").write_text("My wife likes her car.\nNobody here.\n")
    arguments = ("perturb", "--source", "woman", "--target", "man")
    assert run_command(*arguments, "text.txt") == (0, "My husband likes his car.\nNobody here.\n", "")
    assert run_command(*arguments, "text.txt", "--out", "out.txt")[0] == 0
    assert (folder / "out.txt").read_text() == "My husband likes his car.\nNobody here.\n"


def test_export_writes_dialogues_and_says_what_is_next(folder):
    code, out, err = run_command("export --axes gender --no-placebo --corpus corpus.jsonl --out made")
    assert (code, out) == (0, "")
    assert "--responses" in err
    found = list(read_files(folder / "made" / "counterfactuals.jsonl"))
    assert len(found) == 54
    assert {dialogue.id.partition("#")[2] for dialogue in found} >= {"original", "gender:woman", "gender:man"}
    code, out, err = run_command("export --axes gender --corpus corpus.jsonl --chat --design draws")
    assert (code, err) == (0, "")
    assert all("messages" in json.loads(line) for line in out.splitlines())


CONFIG = """
corpus: {corpus: corpus.jsonl}
axes: {axes: [gender, age]}
system: {pipeline: Respond.yaml}
analysis: {bootstrap: 20, permutations: 50, metrics: "length,chrf"}
seed: 3
"""


def test_a_placebo_that_nobody_asked_for_is_left_out_with_a_note(folder):
    from tod_bias.perturb.placebo import MatchedPlacebo

    arguments = ("--pipeline", "Respond.yaml", "--axes", "gender", "--out", "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MatchedPlacebo, "match", lambda *_: None)
        code, out, err = run_command("attribute", *QUICK, *arguments)
        assert code == 0, err
        assert "no dialogue holds a neutral word" in out
        code, _, err = run_command("attribute", *QUICK, *arguments[:3], "gender,placebo", *arguments[4:])
        assert (code, "no dialogue holds a neutral word" in err) == (2, True)
    assert run_command("attribute", *QUICK, *arguments, "--no-placebo")[0] == 0
    assert list(json.loads((folder / "run" / "results.json").read_text())["axes"]) == ["gender"]


def test_options_come_from_a_file_and_the_command_line_goes_before(folder):
    (folder / "audit.yaml").write_text(CONFIG)
    options = ("--config", "audit.yaml", "--axes", "gender", "--no-placebo", "--quiet")
    assert run_command("attribute", *options, "--out", "run") == (0, "", "")
    results = json.loads((folder / "run" / "results.json").read_text())
    assert (list(results["axes"]), list(results["metrics"])) == (["gender"], ["length", "chrf"])
    again = ("--config", "run/config.json", "--metrics", "length", "--quiet", "--out", "again")
    assert run_command("attribute", *again) == (0, "", "")
    results = json.loads((folder / "again" / "results.json").read_text())
    assert (list(results["axes"]), list(results["metrics"]), results["config"]["seed"]) == (["gender"], ["length"], 3)
    config = json.loads((folder / "run" / "config.json").read_text())
    (folder / "changed.json").write_text(json.dumps(config | {"seed": 4}))
    code, _, err = run_command("plan --config changed.json --quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert run_command("attribute --dry-run --config audit.yaml --axes gender --quiet --out planned")[0] == 0


def test_the_version_and_help():
    from tod_bias import __version__

    assert run_command("--version") == (0, f"{__version__}\n", "")
    assert run_command("help export") == run_command("export --help")


def test_doctor_writes_into_a_folder(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert run_command("doctor --out found --quiet") == (0, "", "")
    assert json.loads((folder / "found/doctor.json").read_text())["checks"]


BROKEN = {
    "attribute --model bare": "holds no tokenizer",
    "attribute --config elsewhere.yaml": "device 'cuda:9' cannot be used",
    "attribute --model damaged --axes gender": "damaged: its model cannot be loaded: ",
    "attribute --pipeline Silent.yaml --axes gender --metrics jga": "of 18 original dialogues is undefined",
    "attribute --pipeline Respond.yaml --axes race": "axis race: no dial",
    "attribute --pipeline Nothing.yaml --axes gender": "stage 'response': returned None every time; expected texts",
    "train --arch gpt2 --config small.yaml --out empty.jsonl/model": "empty.jsonl/model: cannot be made a folder",
    "train --arch gpt2 --config small.yaml --out stopped": "settings.json: cannot be",
    "perturb --source woman --target man corpus.jsonl --out empty.jsonl/text": "empty.jsonl: cannot be made a folder",
    "perturb --source woman --target man corpus.jsonl --out tiny": "tiny: cannot be written",
    "report half": "half/results.json, axes.gender.corpus_bleu.disparity is missing",
}


@pytest.mark.parametrize(("line", "message"), BROKEN.items())
def test_wrong_input_ends_in_one_line_and_exit_code_2(folder, gpt2, line, message):
    (folder / "empty.jsonl").write_text("")
    (folder / "small.yaml").write_text("{held_out: 4, layers: 1, width: 8, vocabulary: 300}")
    (folder / "bare").mkdir()
    (folder / "bare" / "config.json").write_text('{"model_type": "gpt2"}')
    (folder / "tiny").symlink_to(gpt2)
    shutil.copytree(gpt2, folder / "damaged")
    (folder / "damaged" / "model.safetensors").write_bytes((gpt2 / "model.safetensors").read_bytes()[:1000])
    (folder / "stopped" / "checkpoint" / "checkpoint-1").mkdir(parents=True)
    (folder / "stopped" / "checkpoint" / "checkpoint-1" / "trainer_state.json").write_text("{}")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (folder / "stopped" / "checkpoint" / "checkpoint-1" / name).touch()
    (folder / "stopped" / "checkpoint" / "settings.json").write_text("{bad")
    (folder / "half").mkdir()
    (folder / "half" / "results.json").write_text('{"schema": 3, "axes": {"gender": {"corpus_bleu": {}}}}')
    corpus = () if line.startswith(("perturb", "report")) else ("--corpus", "corpus.jsonl")
    assert message in refused(line, *corpus)


def test_the_command_alone_prints_what_it_can_do():
    code, out, err = run_command("")
    assert (code, err) == (0, "")
    assert "attribute" in out


def test_an_axis_that_cannot_be_attributed_does_not_stop_the_others(folder):
    arguments = ("--pipeline", "Respond.yaml", "--axes", "race,gender", "--out", "run")
    code, out, err = run_command("attribute", *QUICK, *arguments)
    assert code == 2
    assert err.startswith("tod-bias: error: axis race: no dialogue holds a word to rewrite")
    assert err.endswith("(the other results are in run/results.json)\n")
    assert "gender" in out
    results = json.loads((folder / "run" / "results.json").read_text())
    assert list(results["axes"]) == ["gender", "placebo"]
    assert list(results["left_out"]) == ["race"]
    assert (folder / "run" / "report.html").exists()


@pytest.mark.parametrize("module", ["tod_bias", "tod_bias.attribute"])
def test_modules_are_the_command(folder, module):
    arguments = ["attribute"] if module == "tod_bias" else []
    command = [sys.executable, "-m", module, *arguments, "--corpus", "gone.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tod-bias: error: gone.jsonl")
    assert "Traceback" not in done.stderr


def test_the_module_of_the_command_is_not_imported_in_place_of_the_function():
    import tod_bias

    with pytest.raises(ImportError, match="from tod_bias import attribute"):
        importlib.import_module("tod_bias.attribute")
    assert callable(tod_bias.attribute)
