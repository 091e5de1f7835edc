"""The GitHub action: its steps, run as a script in a repository whose second commit brings a bias."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PEOPLE = ("wife", "husband", "mother", "father", "sister", "brother", "daughter", "son", "aunt", "uncle")
SYSTEM = """
import re

WOMEN = {women!r}


def desk(inputs):
    return [{{"desk": "phone" if {condition} else "counter", "number": item.user.split()[1]}} for item in inputs]


def say(inputs):
    made = [item.outputs["desk"] for item in inputs]
    return [f"Number {{one['number']}}: come to the {{one['desk']}}." for one in made]
"""
BIASED = "set(re.findall('[a-z]+', item.user.lower())) & WOMEN"
GH = """#!/usr/bin/env python3
import json, pathlib, sys
store, words = pathlib.Path("comments.json"), sys.argv[1:]
kept = json.loads(store.read_text()) if store.exists() else {}
body = next((word[6:] for word in words if word.startswith("body=@")), None)
if body is None:
    print("\\n".join(kept))
elif "PATCH" in words:
    kept[words[3].rsplit("/", 1)[1]] = pathlib.Path(body).read_text()
else:
    kept[str(len(kept) + 1)] = pathlib.Path(body).read_text()
store.write_text(json.dumps(kept))
"""


def write_system(place, condition):
    text = SYSTEM.format(women={*PEOPLE[::2], "woman", "grandmother", "girlfriend", "niece"}, condition=condition)
    (place / "office.py").write_text(text)


def given(text, values):
    """Fill in what GitHub fills in."""
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: values.get(match[1].split(" ")[0], ""), text)


def run_action(place, tools, event):
    """Run the steps that are scripts; returns the exit code of the last one."""
    inputs = {f"inputs.{name}": str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
    values = inputs | {"inputs.pipeline": "office.yaml", "inputs.corpus": "chats.jsonl", "github.event_name": event}
    values |= {"github.repository": "someone/office", "github.event.number": "7", "github.token": "t"}
    code = 0
    for step in ACTION["runs"]["steps"]:
        if "run" not in step or step["name"] == "Install" or (step["name"] == "Comment" and event != "pull_request"):
            continue
        output = place / "output"
        output.write_text("")
        environment = os.environ | {name: given(text, values) for name, text in step.get("env", {}).items()}
        environment |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(place / "summary.md")}
        environment |= {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
        code = done.returncode
        assert step["name"] == "Result" or code == 0, done.stderr
        values |= {f"steps.{step.get('id')}.outputs.{line.split('=')[0]}": line.split("=")[1]
                   for line in output.read_text().split()}  # fmt: skip
    return code


@pytest.fixture
def place(tmp_path):
    tools, place = tmp_path / "bin", tmp_path / "office"
    tools.mkdir()
    place.mkdir()
    for name, text in (("gh", GH), ("tod-bias", f'#!/bin/sh\nexec {sys.executable} -m tod_bias "$@"\n')):
        (tools / name).write_text(text)
        (tools / name).chmod(stat.S_IRWXU)
    (place / "office.yaml").write_text("stages:\n  desk: office:desk\n  say: office:say\n")
    said = [f"Number {n} is for my {PEOPLE[n % 10]} please." for n in range(50)]
    chats = [{"id": f"c{n}", "messages": [{"role": "user", "content": text}]} for n, text in enumerate(said)]
    (place / "chats.jsonl").write_text("".join(f"{json.dumps(chat)}\n" for chat in chats))
    return place, tools


def test_a_bias_in_a_later_commit_turns_the_action_red_until_it_is_repaired(place):
    folder, tools = place
    comments = folder / "comments.json"
    for condition, code, said in (
        ("False", 0, "✅ tod-bias passed"),
        (BIASED, 1, "of 50 as woman, 0 of 100 as others"),
        ("False", 0, "✅ tod-bias passed"),
    ):
        write_system(folder, condition)
        assert run_action(folder, tools, "pull_request") == code
        kept = json.loads(comments.read_text())
        assert list(kept) == ["1"]  # one comment, in its place
        assert said in kept["1"]
        assert len(kept["1"].splitlines()) <= 40
    assert (folder / "runs" / "tod-bias" / "explorer" / "index.html").is_file()


def test_every_input_is_used_and_none_is_put_into_a_script():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")  # a value could end the line and begin a command
