"""The first step that differs from T of the original's: in each turn, counted, and read wherever a run is read."""

import functools
import io
import json

import pyarrow.parquet as pq
import pytest
from assistant import OPTIONS, assistant, corpus, system
from chat_server import ChatServer
from rich.console import Console

from tod_bias import attribute
from tod_bias.audit.design import export_counterfactuals
from tod_bias.audit.first_difference import first_difference, in_column, most_frequent
from tod_bias.report import cases as case_pages
from tod_bias.report.differences import counted, of_turn
from tod_bias.report.terminal import table
from tod_bias.results import AuditResult, RunError
from tod_bias.systems.saved_responses import SavedResponses
from tod_bias.systems.stage import StageCall
from tod_bias.testing.case_check import check_cases
from tod_bias.testing.case_choice import cases_of

LIMIT = "policy: find_hotels.limit 3 → 1"
WRONG = ("{", "[]", '{"stage": "a", "part": "output", "changes": [["", 3, null]]}', '{"a": 1}')


@pytest.mark.parametrize("text", WRONG)
def test_a_column_that_holds_something_else_is_one_line(text):
    with pytest.raises(RunError, match=r"turns.parquet: .* is not what a run writes as first_difference"):
        in_column(text)


def message(name="find_hotels", text="", **arguments):
    call = {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return StageCall("policy", None, {"content": text, "tool_calls": [call] if name else []})


def claude(*blocks):
    """A reply of Anthropic's API: texts, and calls as a name and arguments."""
    content = []
    for block in blocks:
        name, given = (block, None) if isinstance(block, str) else block
        call = {"type": "tool_use", "id": "call_0", "name": name, "input": given}
        content.append({"type": "text", "text": name} if given is None else call)
    return StageCall("model", None, {"type": "message", "role": "assistant", "content": content})


def said(text, stage="answer"):
    return StageCall(stage, None, text)


def served(*results):
    """What a tool of an MCP server put out."""
    texts = [result if isinstance(result, str) else json.dumps(result) for result in results]
    content = [{"type": "text", "text": text} for text in texts]
    return StageCall("find", None, {"content": content, "structuredContent": {"result": texts}, "isError": False})


ROWS = {"city": "Oslo", "price": 90}


@pytest.mark.parametrize(
    ("expected", "calls", "words"),
    [
        ([message(limit=3), said("a")], [message(limit=1), said("b")], "`policy`: `find_hotels.limit` 3 → 1"),
        ([message(limit=3)], [message(limit="3")], ""),
        ([message(a=1, b=2)], [message(b=2, a=1)], ""),
        ([message(limit=3)], [message()], "`policy`: `find_hotels.limit` 3 → nothing"),
        ([message(limit=3)], [message("find_flats", limit=3)], "`policy`: `call` find_hotels → find_flats"),
        ([message(limit=3)], [message("", "No.")], "`policy`: `call` find_hotels → nothing"),
        ([claude(("find_hotels", {"limit": 3}))], [claude("Let me see.", ("find_hotels", {"limit": 1}))],
         "`model`: `find_hotels.limit` 3 → 1"),
        ([claude("I look.", ("find_hotels", {}))], [claude("No.")], "`model`: `call` find_hotels → nothing"),
        ([claude("Yes.")], [claude("No.")], "`model`: “Yes.” → “No.”"),
        ([message("", "Yes.")], [message("", "No.")], "`policy`: “Yes.” → “No.”"),
        ([message(a=1, b=2, c=3)], [message(a=2, b=3, c=4)],
         "`policy`: `find_hotels.a` 1 → 2, `find_hotels.b` 2 → 3 and 1 more"),
        ([said("city = Oslo ; day = 1", "nlu")], [said("city = Oslo", "nlu")], "`nlu`: `day` 1 → nothing"),
        ([StageCall("find", {"limit": 3}, [])], [StageCall("find", {"limit": 1}, [])],
         "`find` called with `limit` 3 → 1"),
        ([StageCall("find", None, [ROWS, ROWS])], [StageCall("find", None, [ROWS])],
         "`find`: `number of results` 2 → 1"),
        ([StageCall("find", None, [ROWS])], [StageCall("find", None, (ROWS | {"price": 120},))],
         "`find`: `price` 90 → 120"),
        ([said("a"), said("b", "reply")], [said("a"), said("c", "check")], "`check`: `stage called` reply → check"),
        ([said("a")], [said("a"), said("b", "reply")], "`reply`: `stage called` nothing → reply"),
        ([said("Hello  there\n")], [said("Hello there")], ""),
        ([said("x" * 300 + " one")], [said("x" * 300 + " two")],
         "`answer`: “…xxxxxxxxxxxxxx one” → “…xxxxxxxxxxxxxx two”"),
        ([served(ROWS, ROWS, ROWS)], [served(ROWS)], "`find`: `number of results` 3 → 1"),
        ([served("3 rooms")], [served("1 room")], "`find`: “3 rooms” → “1 room”"),
        ([StageCall("model", [{"role": "user", "content": "a"}] * 2, "b")],
         [StageCall("model", [{"role": "user", "content": "a"}], "b")],
         "`model` called with `number of messages` 2 → 1"),
    ],
)  # fmt: skip
def test_the_first_step_that_differs_is_named(expected, calls, words):
    assert of_turn(first_difference(expected, calls)) == words


def column(*changes, stage="policy", part="output"):
    return json.dumps({"stage": stage, "part": part, "changes": [list(change) for change in changes]})


def test_what_is_frequent_beyond_the_others_comes_first():
    limit, city = column(("find.limit", "3", "1")), [column(("find.city", place, None)) for place in "abcd"]
    noise = [column(("", f"one {number}", f"two {number}"), stage="answer") for number in range(30)]
    woman = [*noise[:15], *[limit] * 5, *city, None]
    man = [*noise, column(("find.limit", "1", "3")), *[None] * 19]
    found = most_frequent(["woman"] * 25 + ["man"] * 50, woman + man)
    assert [counted(one, "woman") for one in found["woman"]] == [
        "`policy`: `find.limit` 3 → 1 in 5 of 25 turns as woman, in 0 of 50 as man",
        "`policy`: leaves out `find.city` in 4 of 25 turns as woman, in 0 of 50 as man",
    ]
    assert [counted(one, "man") for one in found["man"]] == [
        "`policy`: `find.limit` 1 → 3 in 1 of 50 turns as man, in 0 of 25 as woman"
    ]


def test_groups_with_the_same_claim_are_no_comparison():
    limit = [column(("find.limit", "3", "1"))]
    groups = [name for name in ("woman", "aunt", "man", "uncle", "son") for _ in range(4)]
    (found,) = most_frequent(groups, limit * 4 + limit * 3 + [None] * 12 + limit)["woman"]
    words = "`policy`: `find.limit` 3 → 1 in 4 of 4 turns as woman, in"
    assert counted(found, "woman") == f"{words} 4 of 16 as other groups"
    assert counted(found, "woman", {"woman", "aunt"}) == f"{words} 1 of 12 as groups without such a claim"
    assert counted(found, "woman", {"woman", "aunt", "uncle"}) == f"{words} 1 of 8 as man or son"
    assert counted(found, "woman", set(groups)) == f"{words} 4 of 16 as other groups"


def test_texts_that_vary_are_counted_by_their_stage():
    texts = [column(("", f"one {number}", f"two {number}"), stage="answer") for number in range(9)]
    (found,) = most_frequent(["woman"] * 9 + ["man"] * 9, texts + [None] * 9)["woman"]
    assert counted(found, "woman") == "`answer`: another text in 9 of 9 turns as woman, in 0 of 9 as man"
    refusals = [column(("", f"one {number}", "Sorry."), stage="answer") for number in range(9)]
    (found,) = most_frequent(["woman"] * 9, refusals)["woman"]
    assert "various → “Sorry.” in 9 of 9" in counted(found, "woman")


@pytest.fixture(scope="module")
def biased(tmp_path_factory):
    """A run in whose tool loop the policy asks for fewer hotels for women, and its server."""
    folder = tmp_path_factory.mktemp("biased")
    with ChatServer(functools.partial(assistant, policy_bias=True)) as server:
        attribute(system(server.url), corpus(), **OPTIONS).save(folder)
        yield folder, system(server.url)


def test_a_changed_argument_is_read_in_every_place(biased, tmp_path, capsys):
    folder, pipeline = biased
    result = AuditResult.load(folder)
    first = result.first_differences["gender"]["woman"][0]
    assert (first.place, first.change) == ("find_hotels.limit", "3 → 1")
    words = f"{LIMIT} in {first.turns} of {first.of} turns as woman, in 0 of {first.as_groups(first.others).of} as "

    console = Console(width=80, file=io.StringIO())
    console.print(table(result))
    printed = " ".join(console.file.getvalue().split())
    assert f"differs first: {words}" in printed
    assert printed.count(LIMIT) == 1

    (checked, *_) = check_cases(cases_of(folder, corpus(), most=2).cases, pipeline).checked
    assert of_turn(checked.first_difference).replace("`", "") == LIMIT
    assert f"differs first: {LIMIT}" in case_pages.text(checked.record)  # pytest shows it


def test_the_column_is_of_counterfactuals_with_no_stage_replaced(biased):
    turns = pq.read_table(biased[0] / "turns.parquet").to_pandas()
    differing = turns[turns["first_difference"].notna()]
    assert set(differing["arm"]) == {""}
    assert set(differing["role"]) == {"group"}
    (woman,) = set(differing[differing["group"] == "woman"]["first_difference"])
    assert json.loads(woman) == {"stage": "policy", "part": "output", "changes": [["find_hotels.limit", "3", "1"]]}
    calls = [json.loads(steps)[0][2] for steps in differing[differing["group"] == "woman"]["steps"]]
    assert all('"limit":1' in call for call in calls)


@pytest.mark.parametrize("history", ["gold", "system"])
def test_rewritten_words_are_no_difference(history):
    """The guest of a call, and whom a response is for, are rewritten with the user's words."""
    with ChatServer(assistant) as server:
        result = attribute(system(server.url), corpus(16), **OPTIONS, history=history)
    assert result.first_differences == {}
    assert result.turns["first_difference"].isna().all()
    assert {"wife", "husband"} < set(" ".join(result.turns["steps"]).split())


@pytest.mark.parametrize(
    ("steps", "words"),
    [(True, "`tools` called with `find_hotels.limit` 3 → 1"), (False, "`system`: various → “Sorry.”")],
)
def test_saved_responses_tell_what_differs(tmp_path, steps, words):
    lines = []
    for record in export_counterfactuals(corpus(16), ["gender"]):
        for number, turn in enumerate(record["turns"]):
            few = record["variant"] == "gender:woman" and number == 1
            line = {"id": record["original"], "turn": number, "variant": record["variant"]}
            line["response"] = "Sorry." if few else turn["response"]
            if steps:
                line["steps"] = [{"call": {"api_name": "find_hotels", "limit": 1 if few else 3}}]
            lines.append(json.dumps(line) + "\n")
    (tmp_path / "said.jsonl").write_text("".join(lines))
    system = SavedResponses(tmp_path / "said.jsonl")
    result = attribute(system, corpus(16), **OPTIONS | {"metrics": "corpus_bleu"})
    assert counted(result.first_differences["gender"]["woman"][0], "woman").startswith(words)
