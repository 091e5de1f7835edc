"""Assistants with a planted bias: does the first finding name the group, the component and the event?

The assistants of ``projects/contest`` book tables in two turns. One group is treated differently by one component
in a share of its conversations (30, 60 or 100%), or nobody is. The same assistants run as straight Python stages, as a
flow with tools, as a function, and as models behind a server. Every audit has the default options and the axes gender,
age and placebo.

``python tests/benchmarks/planted.py --seeds 3 --out planted.json`` prints the tables, ``--small`` a part of them in
about a minute. Beside them stand Fairlearn's MetricFrame with a χ² test per event (Bonferroni over events) in the same
turns and, with ``--langfair FOLDER``, LangFair's counterfactual ROUGE-L and sentiment bias of the same responses.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "projects" / "contest"))

from assistants import (
    FAIR,
    FORMS,
    KINDS,
    Assistant,
    Planted,
    as_flow,
    as_function,
    as_served,
    as_straight,
    chats,
    served_by,
)
from chat_server import ChatServer, calling
from others import LangFair, metric_frame_finds

from tod_bias import attribute
from tod_bias.errors import IncompleteError

AXES = ("gender", "age", "placebo")
CLAIMS = ("disparity", "these terms only")
TEXT_METRICS = re.compile(r"(corpus_|sentence_)?(bleu|chrf)\w*|response_words|length|disagreement")
"""Metrics of whole texts, which name no event."""
TOOLS = ("tools", "find_restaurant", "book_table")
"""Stages that are the tools, in any form."""
OF_OTHER_GROUPS = ("omits an optional argument", "refuses", "names one of three", "waits longer", "asks for a card")
"""Kinds that are planted against men and seniors too."""
SMALL = ("omits an optional argument", "waits longer", "reverses the ranking", "asks for a card")
"""Kinds of the small benchmark."""


def assistants() -> Iterator[Planted]:
    """Yield all assistants."""
    for form in FORMS:
        for kind in KINDS:
            yield Planted(kind, "woman", 0.6, form)
        for kind in FAIR if form in ("straight", "flow") else FAIR[:2]:
            yield Planted(kind, form=form)
    for kind in KINDS:
        yield Planted(kind, "woman", 0.6, "straight", has_replies=True)
    for kind in FAIR:
        yield Planted(kind, form="straight", has_replies=True)
    for rate in (0.3, 1.0):
        for kind in KINDS:
            yield Planted(kind, "woman", rate, "straight")
            yield Planted(kind, "woman", rate, "flow")
    for rate in (0.3, 0.6, 1.0):
        for kind in OF_OTHER_GROUPS:
            yield Planted(kind, "man", rate)
            yield Planted(kind, "senior", rate)


def small_assistants() -> Iterator[Planted]:
    """Yield a few assistants of every form."""
    for form in FORMS:
        for kind in SMALL:
            yield Planted(kind, "woman", 0.6, form)
        yield Planted("noisy", form=form)
    for kind in SMALL:
        yield Planted(kind, "woman", 0.6, "straight", has_replies=True)
    yield Planted("noisy", form="straight", has_replies=True)


def audited(planted: Planted, number: int, seed: int) -> Any:
    """Return the result of one audit with default options."""
    assistant = Assistant(planted)
    dialogues = chats(number, seed, assistant if planted.has_replies else None)
    forms = {"straight": as_straight, "flow": as_flow, "function": as_function}
    try:
        if planted.form in forms:
            return attribute(forms[planted.form](assistant), dialogues, axes=AXES)
        with ChatServer(served_by(assistant, calling)) as server:
            return attribute(as_served(assistant, server.url), dialogues, axes=AXES)
    except IncompleteError as error:
        return error.result


def groups_of(finding: Any) -> set[str]:
    """Return the groups that a finding names; several are joined by commas or "and"."""
    return {group for group in re.split(r", | and ", finding.group) if group}


def judged(planted: Planted, result: Any) -> dict[str, Any]:
    """Return what the findings say, and whether it is right."""
    claims = [finding for finding in result.findings if finding.verdict in CLAIMS]
    record: dict[str, Any] = {"claimed": bool(claims), "finding": None}
    if not planted.is_fair:
        on_axis = [groups_of(claim) for claim in claims if claim.axis == planted.axis]
        record["mirror image"] = bool(set().union(*on_axis) - {planted.group})
        record["other axis"] = any(claim.axis != planted.axis for claim in claims)
    if not claims:
        return record
    first = claims[0]
    record |= {
        "finding": [first.axis, first.group, first.stage, first.metric],
        "names an event": not TEXT_METRICS.fullmatch(first.metric),
    }
    if planted.is_fair:
        return record
    kind = KINDS[planted.kind]
    components = TOOLS if kind.component == "tools" else (kind.component,)
    return record | {
        "right group": groups_of(first) == {planted.group},
        "right component": first.stage.split(", ")[0] in components,
        "right event": kind.is_named_by(first.metric, planted.form),
    }


def records_of(
    chosen: Iterable[Planted], numbers: Sequence[int], seeds: int, langfair: LangFair | None
) -> Iterator[dict[str, Any]]:
    """Run all audits, and yield a record of each."""
    for planted in chosen:
        for number in numbers:
            for seed in range(seeds):
                result = audited(planted, number, seed)
                record = {**vars(planted), "chats": number, "seed": seed, **judged(planted, result)}
                record["metric frame"] = metric_frame_finds(result)
                if langfair is not None:
                    axes = ("gender", "age") if planted.is_fair else (planted.axis,)
                    distances = [langfair.distances(result, axis) for axis in axes]
                    record["langfair"] = [max(values) for values in zip(*distances, strict=True)]
                print(planted, number, record["finding"], file=sys.stderr, flush=True)
                yield record


def add_langfair_answers(records: Sequence[dict[str, Any]]) -> None:
    """Add whether LangFair's metrics are larger than those of every fair assistant of the same form and size.

    LangFair has no test and no threshold; this is the answer of a user who knows what fair assistants look like.
    """
    largest: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        if record["kind"] in FAIR and "langfair" in record:
            key = record["form"], record["chats"]
            largest[key] = [max(pair) for pair in zip(largest.get(key, (0, 0)), record["langfair"], strict=True)]
    for record in records:
        limits = largest.get((record["form"], record["chats"]))
        if limits and "langfair" in record and record["kind"] not in FAIR:
            record["beyond fair"] = any(
                value > limit + 1e-9 for value, limit in zip(record["langfair"], limits, strict=True)
            )


def _is_right(record: Mapping[str, Any]) -> bool:
    return all(record.get(part) for part in ("right group", "right component", "right event"))


def _shared(records: Sequence[Mapping[str, Any]], part: str) -> str:
    """Return the share of records with a part that is true; a dash if no record has it."""
    values = [record[part] for record in records if record.get(part) is not None]
    return f"{np.mean(values):.2f}" if values else "–"


def print_table(records: Sequence[Mapping[str, Any]]) -> None:
    """Print shares of audits by kind of assistant, strength, number of chats and form."""
    rows: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        kind = record["kind"] if record["kind"] in FAIR else "planted"
        form = record["form"] + (", with replies" if record["has_replies"] else "")
        rows[kind, record["rate"], form, record["chats"]].append(record)
    columns = ("names an event", "mirror image", "other axis", "metric frame", "beyond fair")
    heads = ("event leads", "mirror images", "other axis", "MetricFrame + χ²", "LangFair beyond fair")
    print("| assistants | strength | form | chats | audits | claimed | right | " + " | ".join(heads) + " |")
    print("|---" * (7 + len(heads)) + "|")
    for (kind, rate, form, number), chosen in sorted(rows.items(), key=lambda row: (row[0][0] != "planted", row[0])):
        right = "–" if kind in FAIR else f"{np.mean([_is_right(record) for record in chosen]):.2f}"
        shares = [_shared(chosen, "claimed"), right, *(_shared(chosen, column) for column in columns)]
        strength = f"{rate:.0%}" if kind == "planted" else "–"
        print(f"| {kind} | {strength} | {form} | {number} | {len(chosen)} | {' | '.join(shares)} |")


def print_kinds(records: Sequence[Mapping[str, Any]]) -> None:
    """Print the share of right first findings by kind of bias and form, of women in 60% of conversations."""
    most = max((record["chats"] for record in records), default=0)
    chosen = [r for r in records if (r["rate"], r["group"], r["chats"]) == (0.6, "woman", most)]
    forms = [*FORMS, "straight, with replies"]
    print(f"\n| kind, component ({most} chats, 60%) | " + " | ".join(forms) + " |\n" + "|---" * (1 + len(forms)) + "|")
    for kind in dict.fromkeys(record["kind"] for record in chosen):
        shares = []
        for form in forms:
            own = [
                _is_right(record)
                for record in chosen
                if record["kind"] == kind and record["form"] + ", with replies" * record["has_replies"] == form
            ]
            shares.append(f"{np.mean(own):.2f}" if own else "–")
        print(f"| {kind}, {KINDS[kind].component} | {' | '.join(shares)} |")


def main() -> None:
    """Run all audits, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--chats", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--out", type=Path, help="file for a record of every audit")
    parser.add_argument("--small", action="store_true", help="a few assistants with 50 chats, in about a minute")
    parser.add_argument("--langfair", metavar="FOLDER", help="folder into which LangFair is installed")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    langfair, missing = None, "--langfair FOLDER is not given"
    if options.langfair is not None:
        try:
            langfair = LangFair(options.langfair)
        except ImportError as error:
            missing = str(error)
    chosen = [p for p in (small_assistants() if options.small else assistants()) if p.form in options.forms]
    records: list[dict[str, Any]] = []
    try:
        for record in records_of(chosen, [50] if options.small else options.chats, options.seeds, langfair):
            records.append(record)  # one by one, so that an interrupted run keeps what it has
    except KeyboardInterrupt:
        print(f"interrupted after {len(records)} audits", file=sys.stderr)
    add_langfair_answers(records)
    if options.out is not None:
        options.out.write_text(json.dumps(records, indent=1))
    print_table(records)
    if langfair is None:
        print(f"\nLangFair was not run: {missing}.")
    print_kinds(records)


if __name__ == "__main__":
    main()
