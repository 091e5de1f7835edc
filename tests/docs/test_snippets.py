"""What stands in code blocks is true: pages run from top to bottom, in the order of the site, in one folder.

Python runs as it stands. Commands run on fewer dialogues and with fewer resamples than they say (:data:`SMALLER`); what
needs a corpus, a server or a long training is parsed and not run (:data:`PARSED`, :data:`NOT_BUNDLED`).
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from fences import ROOT, commands, fences

from tod_bias.cli.application import app, main

PAGES = (
    *(f"docs/tutorials/{name}.md" for name in ("first-audit", "own-system", "reading-a-report", "mitigation")),
    *(f"docs/how-to/{name}.md" for name in ("saved-responses", "recommenders", "corpora", "axes", "ci", "scale")),
)
"""Pages with code of their own, in the order of the site."""
PARSED = {
    *("README.md", "CONTRIBUTING.md", "docs/index.md", "docs/reference/embeddings.md", "docs/reference/rewriting.md"),
    *(f"docs/how-to/{name}.md" for name in ("agents", "assistant", "mitigate", "parlai", "python-stages", "worlds")),
}
"""Files whose commands need what is not bundled; the pages run the same commands on the demo."""
NOT_BUNDLED = {
    *("bfcl:multi_turn_base", "google_sgd", "parlai:msr_e2e"),
    *("models/lmrec", "model.npz", "assistant.yaml", "agent.yaml"),
}
"""Commands with one of these words are parsed on every page."""
SMALLER = {"--max-dialogues": "40", "--bootstrap": "20", "--permutations": "50"}
CODES = {"check": {0, 1, 3}}
"""Exit codes that a command may have on fewer dialogues; 0 for others."""
OTHER = {".", "cd", "cp", "make", "pip", "printf", "pytest", "python"}
OTHER |= {"accelerate", "parlai", "torchrun", "transformers", "vllm"}


def command_of(words):
    """The command of words after ``tod-bias``, and its options; one that it does not have is an error."""
    names, apps, _ = app.parse_commands(list(words))
    given = [word for word in words if word not in ("--help", "--version")]
    if apps[-1].default_command is not None:
        app.parse_args(given, exit_on_error=False, print_error=False)
    known = {name for one in apps[-1].assemble_argument_collection() for name in one.names} if names else set()
    return (names or ("tod-bias",))[-1], known


def tod_bias(words):
    """The words after ``tod-bias``; None for another program."""
    words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    if words[:1] == ["tod-bias"]:
        return words[1:]
    if words[:2] == ["python", "-m"] and words[2:3] == ["tod_bias"]:
        return words[3:]
    return None


def smaller(known, words):
    own_corpus = any(word.endswith(".jsonl") for word in words)
    cheap = any(word.endswith(".yaml") for word in words)  # the pages' own system: rules, no models
    options = {} if words[0] in ("cases", "check", "mitigate") else SMALLER  # these take the run's own
    if any("×" in word for word in words):  # of so many groups
        options = {**options, "--variants": "2"}
    for option, value in options.items():
        if option in known and option not in words and not (own_corpus and option == "--max-dialogues"):
            words = [*words, option, "90" if cheap and option == "--max-dialogues" else value]
    ends = [option for option in ("--quiet", "--build") if option in known]  # a server would not end
    return [*words, *(option for option in ends if option not in words)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for all pages: what one writes the next finds."""
    place = tmp_path_factory.mktemp("pages")
    before, path = Path.cwd(), list(sys.path)
    os.chdir(place)
    sys.path.insert(0, str(place))
    yield place
    os.chdir(before)
    sys.path[:] = path
    sys.modules.pop("my_stages", None)


def run_page(name, folder):
    namespace = {"__name__": "page"}
    for fence in fences(ROOT / name):
        if fence.title:
            file = folder / fence.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fence.code, encoding="utf-8")
        elif fence.language == "python":
            exec(compile(fence.code, fence.place, "exec"), namespace)
        elif fence.language == "sh":
            for words in commands(fence.code):
                run_command(words, fence.place)


def is_run(words):
    """Whether a command needs nothing but the demo and the files of the pages, and no training."""
    return not NOT_BUNDLED & set(words)


def rows():
    """The commands of README's table, as words."""
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        cells = line.split(" | ")
        if len(cells) == 3 and (command := re.fullmatch(r"`(.+)`", cells[1])):
            yield next(commands(command[1]))


def run_command(words, place):
    if not is_run(words):
        return
    own = tod_bias(words)
    if own is None:
        assert words[0] == "cp", f"{place}: {words}"
        shutil.copy(*words[1:])
        return
    name, known = command_of(own)
    with pytest.raises(SystemExit) as stopped:
        main(smaller(known, own))
    assert stopped.value.code in CODES.get(name, {0}), f"{place}: {' '.join(words)}: {stopped.value.code}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_pages_run_from_top_to_bottom(folder, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in PAGES:
        run_page(name, folder)
    assert (folder / "runs/mine/mitigation/mitigation.json").is_file()
    for words in rows():
        if tod_bias(words) is not None:
            run_command(words, "README.md")


def test_rows_of_the_readme_are_commands():
    programs = [words[0] for words in rows()]
    assert len(programs) >= 8
    assert set(programs) == {"tod-bias", "parlai", "make"}
    for words in filter(None, map(tod_bias, rows())):
        command_of(words)


@pytest.mark.parametrize("name", sorted({*PAGES, *PARSED}))
def test_commands_have_the_options_that_pages_give_them(name):
    seen = 0
    for fence in fences(ROOT / name):
        if fence.language not in {"sh", "console"}:
            continue
        for words in commands(fence.code):
            own = tod_bias(words)
            seen += 1
            if own is not None:
                command_of(own)
            else:
                first = next(word for word in words if not re.match(r"[A-Z_]+=", word))
                assert first in OTHER, f"{fence.place}: {first}"
    assert seen or name in ("CONTRIBUTING.md", "docs/how-to/python-stages.md")


def test_targets_and_extras_that_are_named_are_there():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE)) <= targets, path
        named = {one.strip() for group in re.findall(r"(?:tod-bias|\.)\[([\w,]+)\]", text) for one in group.split(",")}
        assert named <= extras, path


def test_yaml_and_json_can_be_read():
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for fence in fences(path):
            if fence.language == "yaml":
                assert yaml.safe_load(fence.code), fence.place


def test_parlai_finds_the_agents_that_are_named():
    import tod_bias.agents

    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for name in re.findall(r"tod_bias\.agents:(\w+)", path.read_text(encoding="utf-8")):
            assert name in tod_bias.agents.__all__, (path, name)


def test_every_page_is_in_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT / "docs").as_posix()
        assert f" {name}\n" in listed


def test_the_example_of_the_tutorial_is_python(tmp_path):
    code = next(one.code for one in fences(ROOT / "docs/tutorials/own-system.md") if one.title == "my_stages.py")
    (tmp_path / "my_stages.py").write_text(code)
    done = subprocess.run([sys.executable, "my_stages.py"], cwd=tmp_path, check=False)
    assert done.returncode == 0
