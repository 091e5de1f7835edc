"""Axis files: an axis with its settings, in audits, cases and fixes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import run_command

from tod_bias.config import AuditConfig
from tod_bias.errors import AxisError
from tod_bias.perturb import load_axis
from tod_bias.perturb.axis_file import read_axis_file
from tod_bias.perturb.lexicon_axis import LexiconAxis

GUILD = "pos\tfriends\tcolleagues\nnoun\tfriend\tcolleague\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "guild.tsv").write_text(GUILD)
    (tmp_path / "beside" / "guild.yaml").write_text("lexicon: guild.tsv\nprotected: [friend of mine]\n")
    (tmp_path / "women.json").write_text('{"axis": "gender", "targets": ["woman", "man"]}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_has_the_settings_of_its_axis_and_finds_files_beside_it() -> None:
    guild = load_axis("beside/guild.yaml")
    assert isinstance(guild, LexiconAxis)
    assert (guild.name, guild.groups, guild.protected) == ("guild", ("friends", "colleagues"), ("friend of mine",))
    assert load_axis("women.json").signature == load_axis("gender", targets=["woman", "man"]).signature
    assert load_axis("women.json", targets=["woman"]).signature == load_axis("gender", targets=["woman"]).signature


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("lexikon: guild.tsv", "unknown setting 'lexikon'; expected some of axis, lexicon"),
        ("- gender", "expected settings such as"),
        ("{axis: gender, introductions: [name]}", "axis 'gender' takes no introductions"),
        ("{axis: 'os:path'}", "names axis 'os:path', which is not shipped"),
        ("{axis: women.json}", "names another axis file, women.json"),
        ("{protected: Iron Lady}", "protected must be a list, got 'Iron Lady'"),
        ("{axis: names_gender, scope: word}", "an axis of names takes no scope"),
        ("{lexicon: gone.tsv}", "gone.tsv: cannot be read"),
        (f"{{lexicon: {'x' * 5000}}}", "cannot be read"),
        ("{}", "unknown axis 'mine'"),
        ("{a: [}", "cannot be read"),
    ],
)
def test_a_mistake_names_the_file(content: str, message: str) -> None:
    Path("mine.yaml").write_text(content)
    with pytest.raises(AxisError, match=r"^axis file mine.yaml: ") as raised:
        load_axis("mine.yaml")
    assert message in str(raised.value)
    with pytest.raises(AxisError, match=r"write 'axis: a×b' in mine\.yaml"):
        load_axis("mine.yaml×age")


def test_files_cross_axes_by_name() -> None:
    Path("both.yaml").write_text("{axis: names_gender×names_race}")
    assert load_axis("both.yaml").signature == load_axis("names_gender×names_race").signature


def test_a_configuration_of_another_folder_finds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = AuditConfig.of({"axes": {"axes": ["gender", "beside/guild.yaml"]}, "directory": tmp_path})
    (tmp_path / "gender").mkdir()  # a folder is no axis
    monkeypatch.chdir("/")
    assert config.located().axes.axes == ("gender", str(tmp_path / "beside" / "guild.yaml"))
    assert read_axis_file(tmp_path / "women.json") == ("gender", {"targets": ("woman", "man")})


def test_cases_and_fixes_of_a_run_know_the_file(tmp_path: Path) -> None:
    options = "--max-dialogues 180 --permutations 500 --bootstrap 0 --quiet"
    assert run_command(f"attribute --axes women.json {options} --out run")[0] == 0
    code, out, err = run_command("mitigate run")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"    axes: {tmp_path / 'women.json'}"
    assert run_command("cases run --out cases.jsonl --worst 3 --quiet")[0] == 0
    case = json.loads(Path("cases.jsonl").read_text().splitlines()[0])
    assert case["axis_options"] == {"axis": "gender", "targets": ["woman", "man"]}
    for given in ("", " --axes women.json"):
        code, out, _ = run_command(f"check --cases cases.jsonl --pipeline demo{given}")
        assert (code, out.splitlines()[0]) == (1, "0 of 3 cases fixed, 3 remain")
