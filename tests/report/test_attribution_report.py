"""What the main job writes is what the report reads."""

import io
import re

from builders import with_counterfactuals
from rich.console import Console

from tod_bias import Dialogue, Pipeline, Turn, Twin, attribute
from tod_bias.report.html import write_report
from tod_bias.report.reading import read
from tod_bias.report.terminal import table
from tod_bias.results import AuditResult
from tod_bias.stages import Replay

PEOPLE = ("mom", "dad", "sister", "brother", "aunt", "uncle")


def dialogues():
    return [
        Dialogue(
            f"{person}-{number}",
            "Restaurants",
            (
                Turn.with_call(
                    f"Is table {number} free for my {person}?", {}, {}, f"Yes , table {number} by the window is free ."
                ),
            ),
        )
        for person in PEOPLE
        for number in range(4)
    ]


def test_a_planted_stage_is_named_from_the_files_of_a_run(tmp_path):
    corpus = dialogues()
    fair = Replay.gold(with_counterfactuals(corpus), "response")

    def response(inputs):
        served_worse = ("mom", "sister", "aunt")
        return [
            text.removesuffix(" is free .") if any(word in item.user for word in served_worse) else text
            for item, text in zip(inputs, fair(inputs), strict=True)
        ]

    pipeline = Pipeline({"api_call": Twin(Replay.gold(corpus, "api_call")), "response": response})
    metrics = ("corpus_bleu", "length")
    found = attribute(pipeline, corpus, axes=("gender",), bootstrap=200, permutations=999, metrics=metrics)
    found.save(tmp_path)

    reading, length = read(AuditResult.load(tmp_path).rows)
    assert reading.axis_result.verdict == "these terms only"  # there are three of them
    assert "woman" in reading.who.split("worse than on average")[0]
    assert "`response`" in reading.where
    assert "`api_call`" not in reading.result
    assert "worse" not in length.result

    page = write_report([tmp_path]).read_text(encoding="utf-8")
    assert re.search(rf"<mark>({'|'.join(PEOPLE)})</mark>", page)
    assert "words in a response" in page or "length" in page
    console = Console(width=110, file=io.StringIO())
    console.print(table(found))
    assert "gender" in console.file.getvalue()
