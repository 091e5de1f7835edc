"""What is wrong is found before anything heavy is loaded: no timing, but which libraries there are in the end."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("accelerate", "matplotlib", "pandas", "parlai", "pyarrow", "scipy", "sklearn", "torch", "transformers")
FORKS = r"""
import json, os, sys

import tod_bias.cli.application
import tod_bias.dialogues.corpora
import tod_bias.perturb.loading  # what all commands need, once
from tod_bias.cli.process import run

heavy, commands, ends = json.loads(sys.stdin.read())
for arguments in commands:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(ends + ".said", os.O_CREAT | os.O_TRUNC | os.O_RDWR), 2)
        try:
            run(arguments)
        except SystemExit as end:
            loaded = [name for name in heavy if name in sys.modules]
            with open(ends + ".said") as said, open(ends, "a") as ended:
                ended.write(json.dumps([end.code, said.read(), loaded]) + "\n")
        os._exit(0)
    os.waitpid(child, 0)
"""
KEYLESS = """
stages:
  answer: {stage: "tod_bias.stages:Answer", model: m, base_url: "http://127.0.0.1:9/v1", api_key_env: NO_SUCH_KEY}
"""
MISSPELT = 'stages: {call: {stage: "tod_bias.stages:ApiCall", model: m, max_new_token: 7}}'
WRONG = {
    "attribute --corpus nobody's": "no corpus",
    "attribute --axes nobody": "unknown axis 'nobody'",
    "attribute --axes gendr": "did you mean 'gender'?",
    "recommend": "expected one of the commands above",
    "attribute --lexicon gender=missing.tsv": "missing.tsv",
    "attribute --lexicon age=missing.tsv --axes gender": "expected AXIS=FILE",
    "attribute --axes names_gender --name-slots missing.tsv": "missing.tsv",
    "attribute --metrics nothing": "unknown metric 'nothing'",
    "attribute --pipeline missing.yaml": "missing.yaml: cannot be read",
    "attribute --pipeline broken.yaml": "broken.yaml: not YAML",
    "attribute --pipeline keyless.yaml": "stage 'answer': api_key_env: the environment variable NO_SUCH_KEY",
    "attribute --pipeline misspelt.yaml": "unknown argument 'max_new_token'",
    "attribute --pipeline numbered.yaml": "model must be the name of a checkpoint, got 7",
    "attribute --pipeline demo --num-beams 2": "--num-beams is for models",
    "attribute --model ./missing": "./missing: no such folder",
    "attribute --out broken.yaml": "broken.yaml: cannot be made a folder",
    "attribute --answers missing.jsonl --pipeline demo": "leave out --pipeline",
    "plan --axes nobody": "unknown axis 'nobody'",
    "plan --pipeline missing.yaml": "missing.yaml: cannot be read",
    "plan --pilot missing": "missing: no such folder",
    "evaluate --metrics nothing": "unknown metric 'nothing'",
    "evaluate --pipeline missing.yaml": "missing.yaml: cannot be read",
    "train --corpus nobody's --arch gpt2 --out made": "no corpus",
    "train --augment nobody --arch gpt2 --out made": "nobody",
    "perturb --axis nobody --source woman --target man": "unknown axis 'nobody'",
    "words --axes nobody": "unknown axis 'nobody'",
    "report missing": "missing: no such folder",
    "compare missing missing": "missing: no such folder",
    "check missing --max-disparity 0.1": "missing: no such folder",
    "check --cases missing.jsonl --pipeline demo": "missing.jsonl",
    "repair missing": "missing: no such folder",
    "cases missing --out made": "missing: no such folder",
    "database check --pipeline demo --database db.sqlite": "give either --pipeline or --database",
    "recommend audit": "give either --model DIR",
    "recommend audit --recommendations missing.csv": "missing.csv: cannot be read",
    "train --arch bert --out made": "arch is 'bert'; expected one of",
    "train --learning-rate 1e30 --out made": "learning_rate is 1e+30; expected one above 0",
    "train --seed 99999999999 --out made": "seed is 99999999999",
    "train --layers 99999999999 --out made": "layers is 99999999999",
    "train --held-out 9999 --out made": "cannot hold out 9999",
    "recommend train --learning-rate nan --out made": "learning_rate is nan",
    "recommend train --learning-rate 1e30 --out made": "learning_rate is 1e+30",
    "recommend train --batch 99999999999 --out made": "batch is 99999999999",
    "recommend train --seed 99999999999 --out made": "seed is 99999999999",
    "recommend train --mask --templates missing --out made": "missing: no such folder",
    "recommend train --grid broken.yaml --out made": "broken.yaml: cannot be read as YAML",
    "recommend audit --model .": ".: no trained LMRec can be read",
    "recommend audit --model missing": "missing: no trained LMRec",
    "recommend train --reviews missing.csv --out made": "missing.csv: cannot be read",
    "recommend evaluate --model missing": "missing: no trained LMRec",
    "recommend mitigate --model missing --masked-model missing": "missing: no trained LMRec",
    "recommend statistics --reviews missing.csv": "missing.csv: cannot be read",
    "associate --embeddings missing.npz": "missing.npz: no such file",
    "associate --embeddings broken.yaml": "broken.yaml: unknown ending",
    "associate --scope missing.yaml": "missing.yaml",
    "associate compare missing missing": "missing",
    "associate train --interactions missing": "missing",
}
"""What is given, and what is said of it."""


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """How each command of the table ends, all of them children of one process that has loaded the command."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "broken.yaml").write_text("stages: [")
    (folder / "keyless.yaml").write_text(KEYLESS)
    (folder / "misspelt.yaml").write_text(MISSPELT)
    (folder / "numbered.yaml").write_text('stages: {call: {stage: "tod_bias.stages:ApiCall", model: 7}}')
    kept = tmp_path_factory.mktemp("ends") / "ends"
    given = json.dumps([HEAVY, [command.split() for command in WRONG], str(kept)])
    subprocess.run([sys.executable, "-c", FORKS], cwd=folder, input=given, capture_output=True, text=True, check=True)
    ended = [json.loads(line) for line in kept.read_text().splitlines()]
    there = sorted(path.name for path in folder.iterdir())
    return dict(zip(WRONG, ended, strict=True)), there


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_option_is_refused_before_heavy_libraries_are_loaded(ends, command):
    code, said, loaded = ends[0][command]
    assert code == 2
    assert WRONG[command] in said
    assert said.count("\n") == 1
    assert loaded == []


def test_nothing_is_left_behind(ends):
    assert ends[1] == ["broken.yaml", "keyless.yaml", "misspelt.yaml", "numbered.yaml"]


WHOLE = """
import sys
from tod_bias.cli.process import run
try:
    run(sys.argv[1:])
finally:
    print("loaded:", [name for name in ("accelerate", "torch", "transformers") if name in sys.modules])
"""


@pytest.mark.parametrize("command", ["attribute --axes gender --bootstrap 100 --permutations 100", "evaluate"])
def test_a_run_of_components_in_python_needs_no_library_of_models(tmp_path, command):
    (tmp_path / "echoes.py").write_text(
        "class Echo:\n    def __call__(self, items):\n        return [i.user for i in items]\n"
    )
    (tmp_path / "own.yaml").write_text('stages:\n  response: {stage: "echoes:Echo"}\n')
    options = [*command.split(), "--pipeline", "own.yaml", "--max-dialogues", "20", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", WHOLE, *options], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("loaded: []\n")
    assert (tmp_path / "out" / "report.html").exists() == command.startswith("attribute")


@pytest.mark.parametrize("own", [None, "ACTIVE"])
def test_threads_wait_asleep_unless_the_environment_says_otherwise(own):
    code = "import sys, tod_bias, os; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": own} if own else {}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [own or "PASSIVE", "False"]  # libgomp reads it when torch is loaded
