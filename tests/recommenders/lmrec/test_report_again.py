"""The report of an audit, made again from its folder."""

from itertools import product

import pandas as pd
import pytest
from commands import run_command

from tod_bias.errors import RecommenderError
from tod_bias.recommenders.lmrec.audit import audit, report_again, save
from tod_bias.recommenders.lmrec.recommendations import tidy
from tod_bias.statistics.settings import Inference


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    groups = list(product(("female", "male"), ("white", "black"), range(8)))
    rows = [
        {
            "city": city, "query": f"q {number}", "substitution": f"NA {number}", "rank": rank,
            "label": f"gender={gender}; race={race}" if number % 8 else "all", "item": f"0{(number * rank) % 5}",
            "price": 1 + (number + rank) % 4, "categories": ("NA", f"c{(number + rank) % 3}"),
        }
        for city in ("NA", "007")
        for number, (gender, race, _) in enumerate(groups)
        for rank in (1, 2, 3)
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("audit")
    lists = tidy(pd.DataFrame(rows))
    save(audit(lists, Inference(resamples=20, permutations=20)), lists, folder)
    return folder


def contents(folder):
    return {
        file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.suffix in (".html", ".svg")
    }


def test_it_is_the_page_that_the_audit_wrote(saved, tmp_path):
    before = contents(saved)
    assert len(before) > 3
    assert run_command("report", saved, "--out", tmp_path / "again")[0] == 0
    assert contents(tmp_path / "again") == before
    for name in before:
        (saved / name).unlink()
    assert report_again(saved) == saved / "report.html"
    assert contents(saved) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [("audit.json", "{}"), ("audit.json", "{"), ("price_percentage.csv", "a,b\n1,2\n"), ("average_price.csv", "")],
)
def test_a_damaged_folder_is_one_line(saved, tmp_path, name, content):
    for file in saved.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_text(content)
    with pytest.raises(RecommenderError) as raised:
        report_again(tmp_path)
    assert "\n" not in str(raised.value)
