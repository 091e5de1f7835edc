"""The report reads what the main job writes."""

import io

from builders import equivariant_pipeline, hurt, numbered
from rich.console import Console

from tod_bias import Pipeline, attribute
from tod_bias.report.page import write_report
from tod_bias.report.terminal import table


def test_a_planted_stage_is_named_from_the_files_of_a_run(tmp_path, corpus):
    corpus = numbered(corpus)
    stages = equivariant_pipeline(corpus).stages
    pipeline = Pipeline({**stages, "response": hurt(stages["response"], "Sorry, I do not know.")})
    result = attribute(pipeline, corpus, bootstrap=200, permutations=999, metrics=("corpus_bleu", "length"))
    result.save(tmp_path)

    (finding,) = result.findings
    assert (finding.verdict, finding.group, finding.stage) == ("these terms only", "woman", "response")

    page = write_report([tmp_path]).read_text(encoding="utf-8").split("<h2")[0]
    assert "served worse as woman" in page
    assert "in component <code>response</code>" in page
    console = Console(width=110, file=io.StringIO())
    console.print(table(result))
    assert "gender" in console.file.getvalue()
