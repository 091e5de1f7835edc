"""What this project and its peers answer: a line per assistant in ``answers/TOOL.jsonl``.

``python answer.py runs/contest --langfair build/langfair`` audits every assistant once with default options. The peers
read the system's own turns of the same counterfactuals, and the events of which Fairlearn is given the counts.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entry import pipeline_in
from others import LangFair, frame_answer, langfair_answer

from tod_bias import attribute, load_corpus
from tod_bias.errors import IncompleteError

AXES = ("gender", "age", "placebo")
CLAIMS = ("disparity", "these terms only")


def own_answer(result: Any) -> dict[str, Any]:
    """Return what the first finding of a result says; all groups that any finding names count."""
    claims = [finding for finding in result.findings if finding.verdict in CLAIMS]
    if not claims:
        return {"nothing": True}
    groups = sorted({group for claim in claims for group in re.split(r", | and ", claim.group) if group})
    return {"group": ",".join(groups), "component": claims[0].stage.split(", ")[0], "event": claims[0].metric}


def main() -> None:
    """Audit every assistant, and write the answers of all tools."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where make.py wrote the assistants")
    parser.add_argument("--langfair", metavar="FOLDER", help="folder into which LangFair is installed")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    langfair = None if options.langfair is None else LangFair(options.langfair)
    answers: dict[str, list[Mapping[str, Any]]] = {"tod-bias": [], "Fairlearn": [], "LangFair": []}
    begun = time.monotonic()
    for module in sorted(options.folder.glob("a*/a*.py")):
        folder, named = module.parent, {"assistant": module.parent.name}
        try:
            result = attribute(pipeline_in(folder), load_corpus(str(folder / "chats.jsonl")), axes=AXES)
        except IncompleteError as error:
            result = error.result
        answers["tod-bias"].append(named | own_answer(result))
        answers["Fairlearn"].append(named | frame_answer(result))
        if langfair is not None:
            answers["LangFair"].append(named | langfair_answer(langfair, result, ("gender", "age")))
        print(json.dumps(answers["tod-bias"][-1]), f"{time.monotonic() - begun:.0f} s", flush=True)
    place = options.folder / "answers"
    place.mkdir(exist_ok=True)
    for tool, lines in answers.items():
        if lines:
            (place / f"{tool}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
