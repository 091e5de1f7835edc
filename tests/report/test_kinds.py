import json

import pytest

from tod_bias.report.again import report_on
from tod_bias.report.kinds import KINDS, kind_of
from tod_bias.results import RunError


@pytest.mark.parametrize("kind", KINDS[2:], ids=lambda kind: kind.command)
def test_a_folder_of_another_kind_says_what_it_is_in_one_line(tmp_path, kind):
    (tmp_path / kind.file).write_text("{}")
    assert kind_of(tmp_path) is kind
    with pytest.raises(RunError, match="and no report; ") as raised:
        report_on([tmp_path])
    assert kind.command in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_page_that_only_its_command_writes_is_pointed_at(tmp_path):
    (tmp_path / "associations.json").write_text("{}")
    (tmp_path / "report.html").write_text("<p>")
    assert report_on([tmp_path]) == (tmp_path / "report.html", False)
    with pytest.raises(RunError, match="leave out --out"):
        report_on([tmp_path], tmp_path / "elsewhere")


def test_only_attributions_stand_side_by_side(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "evaluation.json").write_text("{}")
    with pytest.raises(RunError, match="report it alone"):
        report_on([tmp_path / "one", tmp_path / "other"])


def test_an_unfinished_or_missing_run_is_said(tmp_path):
    with pytest.raises(RunError, match="the run did not finish"):
        report_on([tmp_path])
    with pytest.raises(RunError, match="no such folder"):
        report_on([tmp_path / "gone"])


@pytest.mark.parametrize("content", ["{}", "[]", "{", json.dumps({"before": "a", "after": "b", "metrics": []})])
def test_a_damaged_comparison_is_one_line(tmp_path, content):
    (tmp_path / "compare.json").write_text(content)
    with pytest.raises(RunError, match=r"compare\.json") as raised:
        report_on([tmp_path])
    assert "\n" not in str(raised.value)
