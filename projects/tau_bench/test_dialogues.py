"""τ-bench in the layout of its archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tod_bias import Dialogue, Step, Turn, load_corpus
from tod_bias.errors import CorpusError
from tod_bias.systems.functions import module_of

PROJECT = Path(__file__).parent
reader = module_of(PROJECT / "tau_bench.py")


def read(datapath: Path, split: str = "test", function: str = "read_tau_bench") -> list[Dialogue]:
    """The dialogues of ``--corpus tau_bench:FUNCTION``."""
    return load_corpus(f"tau_bench:{function}", datapath=datapath, split=split, folder=PROJECT)


USERS = ("ann_lee_0001", "bob_ray_0002", "ann_lee_0001", "cas_ito_0003", "dee_may_0004", "eli_fox_0005", "fay_orr_0006")


def run(task: int, trial: int) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "get_user_details", "arguments": '{"user_id": "x"}'}}
    traj = [
        {"role": "system", "content": "The policy."},
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "get_user_details", "content": "Error: user not found"},
        {"role": "assistant", "content": "Who are you?"},
    ]
    return {"task_id": task, "trial": trial, "info": {"task": {"user_id": USERS[task]}}, "traj": traj}


SHOWN = """user: I am bob_ray_0002.
Help me.
assistant: None
tool: {"name": "Bob", "orders": ["#W1"]}
assistant: None
tool: [{"item": 1}, {"item": 2}]
assistant: Done: order #W1.
user: Bye. ###STOP###
"""


def write(datapath: Path, runs: Any, shown: str = "{}") -> Path:
    folder = datapath / "tau_bench"
    for name in ("airline", "retail", "trajectories"):
        (folder / name).mkdir(parents=True)
    tasks = json.dumps([{"user_id": user} for user in USERS])
    (folder / "airline" / "tasks.json").write_text(tasks)
    for name in ("train", "dev", "test"):
        (folder / "retail" / f"tasks_{name}.json").write_text("[]" if name != "dev" else tasks)
    for domain in ("airline", "retail"):
        (folder / domain / "policy.md").write_text(f"# {domain}")
        (folder / domain / "tools.json").write_text('[{"type": "function"}]')
        (folder / "trajectories" / f"few_shot_{domain}.jsonl").write_text("" if domain == "airline" else shown)
    (folder / "trajectories" / "gpt-4o-airline.json").write_text(json.dumps(runs))
    return datapath


def test_runs_are_dialogues_with_steps_and_the_policy(tmp_path):
    write(tmp_path, [run(0, 1)])
    (dialogue,) = read(tmp_path, "train")
    assert (dialogue.id, dialogue.domain, dialogue.system) == ("0_1", "airline", "The policy.")
    call = {"api_name": "get_user_details", "user_id": "x"}
    steps = (Step(call, ({"content": "Error: user not found"},)),)
    assert dialogue.turns == (Turn("Hi!", steps=steps, response="Who are you?"),)


def test_no_task_and_no_user_is_in_two_splits(tmp_path):
    write(tmp_path, [run(task, trial) for task in range(7) for trial in range(2)])
    found = {split: [dialogue.id for dialogue in read(tmp_path, split)] for split in ("train", "valid", "test")}
    assert found == {
        "train": ["0_0", "0_1", "1_0", "1_1", "2_0", "2_1", "3_0", "3_1", "6_0", "6_1"],
        "valid": ["4_0", "4_1"],
        "test": ["5_0", "5_1"],
    }
    assert reader.user_splits(tmp_path / "tau_bench", "retail")["eli_fox_0005"] == "test"


def test_short_runs_keep_what_came_back(tmp_path):
    write(tmp_path, [], json.dumps({"messages_display": SHOWN}) + "\n")
    (dialogue,) = read(tmp_path, "train", "read_few_shot")
    assert (dialogue.id, dialogue.domain, dialogue.system) == ("retail_1", "retail", "# retail")
    steps = (Step({}, ({"name": "Bob", "orders": ["#W1"]},)), Step({}, ({"item": 1}, {"item": 2})))
    assert dialogue.turns == (
        Turn("I am bob_ray_0002.\nHelp me.", steps=steps, response="Done: order #W1."),
        Turn("Bye. ###STOP###"),
    )


def test_errors_name_the_file_and_the_record(tmp_path):
    write(tmp_path, [run(0, 0), {"task_id": 1}], '{"messages_display": "who: me"}\n')
    with pytest.raises(CorpusError, match=r"gpt-4o-airline\.json, run 2: not in τ-bench's format: KeyError"):
        read(tmp_path)
    with pytest.raises(CorpusError, match=r"few_shot_retail\.jsonl, line 1: .*expected a line that begins with user:"):
        read(tmp_path, "train", "read_few_shot")


def test_tools_come_along(tmp_path):
    write(tmp_path, [])
    assert reader.tau_bench_functions(tmp_path, "retail") == [{"type": "function"}]
    with pytest.raises(CorpusError, match="no domain 'telecom'; it has airline, retail"):
        reader.tau_bench_functions(tmp_path, "telecom")


@pytest.mark.real_data
def test_all_runs_are_read(tau_bench):
    splits = {split: read(tau_bench.parent, split) for split in ("train", "valid", "test")}
    assert {split: len(dialogues) for split, dialogues in splits.items()} == {"train": 132, "valid": 28, "test": 40}
    tasks = {split: {d.id.split("_")[0] for d in dialogues} for split, dialogues in splits.items()}
    assert sum(len(found) for found in tasks.values()) == 50
    everything = [dialogue for dialogues in splits.values() for dialogue in dialogues]
    assert sum(len(turn.steps) for dialogue in everything for turn in dialogue.turns) == 1164
    assert {dialogue.system for dialogue in everything} == {(tau_bench / "airline" / "policy.md").read_text()}
    short = [
        dialogue for split in ("train", "valid", "test") for dialogue in read(tau_bench.parent, split, "read_few_shot")
    ]
    assert [sum(d.domain == domain for d in short) for domain in ("airline", "retail")] == [19, 69]
    assert [len(reader.tau_bench_functions(tau_bench.parent, domain)) for domain in ("airline", "retail")] == [14, 16]
