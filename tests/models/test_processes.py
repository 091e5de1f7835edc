import json
import os
import subprocess
import sys

import pytest
from builders import small_corpus

from tod_bias.dialogues.jsonl import write_jsonl


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path, gpt2):
    write_jsonl(small_corpus(), tmp_path / "corpus.jsonl")
    run = ["-m", "tod_bias.attribute", "--corpus", "corpus.jsonl", "--model", str(gpt2), "--max-new-tokens", "16"]
    run += ["--axes", "gender", "--bootstrap", "20", "--permutations", "50", "--draws", "2"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    outputs = []
    for name, command in (("one", [sys.executable, *run]), ("two", [*launch, *run])):
        done = subprocess.run(
            [*command, "--out", name], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    results = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("one", "two")]
    for result in results:
        result["cost"].pop("seconds")
        result["cost"].pop("seconds_by_component")
    assert results[0] == results[1]
    assert outputs[0].replace("one/", "two/") == outputs[1]  # the second process prints nothing
