"""The lines of an answer, in the terminal and on the cards of the page."""

import json

import pytest
from random_systems import audit_of

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.errors import UnansweredError
from tod_bias.report.answer import TerminalAnswer, axes_with_more_terms, example_lines, placebo_line, what_happens
from tod_bias.report.cards import cards_of
from tod_bias.report.section import claim_in
from tod_bias.results import AuditResult, Example, Finding


def result_of(folder, **changes):
    record = json.loads((folder / "results.json").read_text())
    return AuditResult.model_validate(record | changes)


def lines_of(result):
    return [line.plain for line in TerminalAnswer(result).lines()]


def finding(group, **changes):
    counts = {"white": (5, 222), "black": (169, 222), "asian": (170, 222)}
    return {
        "axis": "race", "verdict": "disparity", "group": group, "metric": "fails:*", "what": "failed calls",
        "stage": "db", "compared_with": [name for name in counts if name != group], "effect": {"value": 0.5},
        "counts": counts, **changes,
    }  # fmt: skip


def finding_of(group):
    return Finding.model_validate(finding(group))


def test_a_line_of_two_groups_has_the_counts_of_both(make_folder):
    result = result_of(make_folder(axes=("race",)), findings=[finding("asian"), finding("black")])
    text = "failed calls: 170 of 222 as asian, 169 as black, 5 of 222 as others"
    assert what_happens(result.findings[0], result, ("asian", "black")) == text
    (card, *_) = cards_of(result)
    assert list(card.details) == [text]
    assert "served worse as asian and black" in card.sentence
    assert any(text in line for line in lines_of(result))


def test_an_axis_with_a_finding_is_not_left_out_anywhere(make_folder):
    left_out = {"race, bleurt": "needs a model", "age": "2 dialogues mention age"}
    result = result_of(make_folder(axes=("race",)), findings=[finding("asian")], left_out=left_out)
    assert [card.axis for card in cards_of(result)] == ["race", "age"]
    text = "\n".join(lines_of(result))
    assert "2 dialogues mention age" in text
    assert "needs a model" not in text


def test_no_line_is_longer_than_the_terminal_however_many_groups_and_words(make_folder):
    example = {
        "dialogue": "d", "turn": 0, "variant": "race:asian",
        "original": "I found this. " * 9, "counterfactual": "Sorry.",
        "user": "Please, " * 9 + "is there a show for Asian families?",
        "user_original": "Please, " * 9 + "is there a show for white families?",
    }  # fmt: skip
    groups = [f"a-rather-long-group-{number}" for number in range(5)]
    found = [finding(group, stage="api_call, db", example=example) for group in groups]
    lines = lines_of(result_of(make_folder(axes=("race",)), findings=found))
    assert max(map(len, lines)) <= 80
    assert any("for Asian families" in line for line in lines)
    assert all(any(group in line for line in lines) for group in groups)


def unproven(folder, **changes):
    common = {"verdict": "inconclusive", "dialogues": 8, "effect": {"value": 0.5, "p": 0.2}}
    return lines_of(result_of(folder, findings=[finding("asian", **common, **changes)]))


def test_a_number_of_dialogues_is_conditional_and_said_only_where_there_is_one(make_folder):
    folder = make_folder(axes=("race",))
    assert any("if it is as it was seen, about 90 dialogues would tell" in line for line in unproven(folder, needed=90))
    assert not any("would" in line or "needed" in line for line in unproven(folder))


def test_short_terms_name_the_axes_that_have_more(make_folder):
    lines = unproven(make_folder(axes=("race",)), missing="terms")
    assert any("more terms would tell: try --axes persona_race or names_race" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert axes_with_more_terms("age") == ["persona_age"]
    assert axes_with_more_terms("persona_age") == axes_with_more_terms("people") == []


def test_the_line_of_the_placebo_names_the_component_that_reacts(make_folder):
    folder = make_folder(axes=("gender", "placebo"), metrics=("corpus_bleu",))
    result = AuditResult.load(folder)
    row = result.axes["placebo"]["corpus_bleu"]

    def line_with(shares, share=0.27):
        parts = {name: {"shapley": {"value": value}} for name, value in shares.items()}
        group = row.groups["placebo"].model_copy(update={"contributions": {}})
        group = type(group).model_validate(group.model_dump() | {"contributions": parts})
        changed = row.model_copy(
            update={"groups": {"placebo": group}, "rewritten": row.rewritten.model_copy(update={"value": share})}
        )
        axes = {**result.axes, "placebo": {"disagreement": changed}}
        return placebo_line(result.model_copy(update={"axes": axes}))

    said = "neutral rewording changes 27 of 100 turns"
    assert line_with({"intake": 0.2, "answer": 0.02}) == f"{said}, in intake"
    assert line_with({"intake": 0.1, "answer": 0.1}) == f"{said}, in intake and answer"
    assert line_with({"a": 0.1, "b": 0.1, "c": 0.1}) == line_with({"a": 0.0}) == said
    assert line_with({"intake": 0.2}, 0.0) == "neutral rewording changes nothing"


def test_a_p_value_stands_beside_the_event_that_it_belongs_to(make_folder):
    folder = make_folder(axes=("gender",))
    result = AuditResult.load(folder)
    row = result.axes["gender"]["corpus_bleu"]
    groups = {
        name: group.model_copy(update={"score": group.score.model_copy(update={"value": 0.25})})
        for name, group in row.groups.items()
    }
    rows = {"corpus_bleu": row, "says:please": row.model_copy(update={"groups": groups})}
    shared = {"axis": "gender", "verdict": "disparity", "is_share": False}
    found = [
        shared | {"group": "woman", "metric": "corpus_bleu", "what": "BLEU", "effect": {"value": 0.5, "p": 0.01}},
        shared
        | {"group": "man", "metric": "says:please", "what": "says “please”", "effect": {"value": 0.5, "p": 0.02}},
    ]
    changed = result_of(folder, findings=found).model_copy(update={"axes": {"gender": rows}})
    table = TerminalAnswer(changed).table()
    cells = zip(*(column._cells for column in table.columns), strict=True)
    shown = {group: (what, p, score) for group, _, _, what, score, p, _ in cells}
    assert shown["woman"] == ("BLEU", "0.010", f"{row.groups['woman'].score.value:.2f}")
    assert shown["man"] == ("says “please”", "0.020", "0.25")
    assert [claim_in(changed, row, group) for group in ("woman", "man", "non-binary")] == [
        "served worse",
        "served worse by says “please”",
        "",
    ]


def test_others_are_the_groups_that_a_finding_compares_with(make_folder):
    folder = make_folder(axes=("gender",))
    found = {"axis": "gender", "verdict": "disparity", "group": "woman", "metric": "corpus_bleu", "what": "BLEU"}
    result = result_of(folder, findings=[found | {"compared_with": ["man"]}])
    scores = {name: group.score.value for name, group in result.axes["gender"]["corpus_bleu"].groups.items()}
    text = f"BLEU: {scores['woman']:.2f} as woman, {scores['man']:.2f} as others"
    assert what_happens(result.findings[0], result) == text


@pytest.mark.parametrize(
    ("metric", "before", "after", "shown"),
    [
        ("number:desk.wait_days", "wait_days 2", "wait_days 5", "wait_days 2 → 5"),
        ("number:find/result.wait_days", "wait_days of find 2", "wait_days of find 5", "wait_days of find 2 → 5"),
        ("length:desk.slots", "slots 3", "slots 1", "slots 3 → 1"),
        ("deviates:desk.slots", "slots Mon, Tue", "slots missing", "slots Mon, Tue → missing"),
        ("fails:*", "find: 1 result", "find fails (no such row)", "find: 1 result → fails (no such row)"),
        ("says:advance", "A cab comes.", "A cab comes. Pay in advance.", "A cab comes. → A cab comes. Pay in advance."),
        ("deviates:text/", "Dr Gray can.", "Dr Gray, Dr Lee can.", "Dr Gray can. → Dr Gray, Dr Lee can."),
        ("grade:solved", "A cab comes.", "A bus comes.", "A cab comes. → A bus comes."),
    ],
)
def test_the_name_of_a_field_is_not_repeated_and_a_text_is_quoted_as_it_is(metric, before, after, shown):
    example = Example(
        dialogue="d", turn=0, variant="gender:woman", user="Hi.", original=before, counterfactual=after
    )  # fmt: skip
    assert example_lines(example, metric)[-1].removeprefix("“Hi.”  ") == shown


def test_rows_of_groups_that_are_like_the_claimed_come_before_the_others(make_folder):
    result = result_of(make_folder(axes=("race",)), findings=[finding("asian")])
    row = result.axes["race"]["corpus_bleu"]
    names = [*row.groups]
    apart = {name: row.apart[next(iter(row.apart))] for name in (names[-1], names[0])}
    rows = {"fails:*": row.model_copy(update={"apart": apart})}
    changed = result.model_copy(update={"axes": {"race": rows}, "findings": [finding_of(names[0])]})
    shown = [*TerminalAnswer(changed).table().columns[0]._cells]
    assert shown == [names[0], names[-1], *names[1:-1]]


@pytest.mark.parametrize("system", [(1, 0), (2, 1), (3, 2)])
def test_a_run_that_was_saved_and_loaded_has_the_same_first_screen(tmp_path, system):
    result = audit_of(*system)
    result.save(tmp_path)
    loaded = AuditResult.load(tmp_path)
    assert str(loaded) == str(result)
    assert ("served differently" in str(result)) == bool(system[1])
    assert loaded.turns.equals(result.turns)


def test_failed_turns_and_stages_that_are_never_called_are_said_first():
    def look(inputs):
        if any("book" in item.user for item in inputs):
            raise UnansweredError("no such catalogue")
        return ["A list." for _ in inputs]

    def flow(turn):
        return (yield "look")

    dialogues = [
        Dialogue(f"d{number}", "", (Turn.with_call(f"My {who} wants a {what}.", {}, {}, "Yes."),))
        for number, (who, what) in enumerate([("mother", "book"), ("uncle", "map"), ("sister", "map")] * 4)
    ]
    pipeline = Pipeline({"look": look, "idle": look}, flow=flow)
    result = attribute(pipeline, dialogues, axes=["gender"], bootstrap=0, permutations=0, max_failures=1.0)
    text = " ".join(" ".join(lines_of(result)).split())
    assert "failed turns: 4 of 12 of the originals, " in text
    assert "no such catalogue" in text
    assert "`idle`: never called" in text
