"""Grades: a user's judgement of whole dialogues, from Python and from a pipeline file."""

import re

import numpy as np
import pytest

from tod_bias import Dialogue, Pipeline, Turn, attribute, load_pipeline
from tod_bias.errors import StageError, TodBiasError
from tod_bias.metrics.grade import Grade
from tod_bias.metrics.metric import ScoredTurn
from tod_bias.perturb import load_axis
from tod_bias.perturb.rewriter import Recogniser
from tod_bias.report.answer import TerminalAnswer, in_lines

WOMEN = ("wife", "mother", "sister", "aunt")
PEOPLE = ("wife", "husband", "mother", "father", "sister", "brother", "aunt", "uncle")
MENTIONS = Recogniser(load_axis("gender").lexicon, ["woman"])
QUICK = {"axes": ("gender",), "permutations": 200, "bootstrap": 0}


def turns(*responses):
    return [ScoredTurn("", (), (), response, Turn("")) for response in responses]


def chats(count=32):
    texts = [f"A table for my {PEOPLE[number % 8]} and me, order {number}." for number in range(count)]
    return [Dialogue(f"d{number}", "", (Turn(text), Turn("Is it done?"))) for number, text in enumerate(texts)]


def is_woman(item):
    text = " ".join([*(turn.user for turn in item.history), item.user])
    return any(True for _ in MENTIONS.mentions(text))


def answer(inputs):
    """Fails in the last turn of a woman."""
    return ["No." if item.history and is_woman(item) else "Yes, of course." for item in inputs]


def fair(inputs):
    return [f"Yes. {item.user}" for item in inputs]


def solved(given):
    return given[-1].response != "No."


def graded(stage, judge=solved, label="tasks solved"):
    return Pipeline({"plan": lambda items: ["go"] * len(items), "answer": stage}, grades=[Grade(judge, "done", label)])


# judgements ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "value"),
    [(True, 1.0), (False, 0.0), (0, 0.0), (1, 1.0), (0.25, 0.25), (np.bool_(True), 1.0), (np.float32(0.5), 0.5),
     (np.int64(1), 1.0)],
)  # fmt: skip
def test_truth_values_and_numbers_are_grades(given, value):
    assert Grade(lambda turns: given, "x").of_dialogue(turns("Hi.")) == value


@pytest.mark.parametrize("given", [None, "yes", -0.1, 1.1, 2, float("nan"), [1], np.array([1.0])])
def test_anything_else_is_told(given):
    with pytest.raises(TodBiasError, match="metric 'grade:x': expected a number from 0 to 1, got") as error:
        Grade(lambda turns: given, "x").of_dialogue(turns("Hi."))
    assert "\n" not in str(error.value)


def test_a_function_that_raises_is_told_in_one_line():
    with pytest.raises(TodBiasError, match=r"metric 'grade:x': .*IndexError") as error:
        Grade(lambda turns: turns[7], "x").of_dialogue(turns("Hi."))
    assert "\n" not in str(error.value)


def test_a_judge_gets_all_turns_in_order_and_may_change_its_list():
    given, seen = turns("a", "b"), []
    assert Grade(lambda some: [seen.append(some.pop(0).response) for _ in range(2)] and 1, "x").of_dialogue(given) == 1
    assert seen == ["a", "b"]
    assert len(given) == 2


def test_an_object_with_a_method_is_a_grade():
    class Solved:
        label = "tasks done"

        def grade(self, given):
            return len(given) > 1

    class Named(Solved):
        name = "own"
        label = ""

    made, named = Grade.of(Solved()), Grade.of(Named())
    assert (made.name, made.label, made.unit) == ("grade:Solved", "tasks done", "dialogues in 100 with tasks done")
    assert (named.name, named.label) == ("grade:own", "own")
    assert (made.of_dialogue(turns("a")), made.of_dialogue(turns("a", "b"))) == (0, 1)
    assert Grade(solved, "task_was_solved").label == "task was solved"


def test_scores_are_shares_of_dialogues():
    grade = Grade(solved, "x")
    np.testing.assert_allclose(grade.score(np.array([[3.0, 4.0], [0.0, 2.0]])), [0.75, 0.0])
    assert np.isnan(grade.score(np.zeros(2)))
    with pytest.raises(TodBiasError, match="judges whole dialogues"):
        grade.statistics(turns("a"))


# in an audit ---------------------------------------------------------------------------------------------------------


def test_a_grade_leads_in_dialogues_of_the_group():
    result = attribute(graded(answer), chats(), **QUICK)
    lead, *others = result.findings
    assert (lead.metric, lead.group, lead.stage, lead.is_harm) == ("grade:done", "woman", "answer", True)
    assert lead.what == "tasks solved"
    assert lead.counts["woman"] == (0, 32)
    assert lead.counts["man"] == lead.counts["non-binary"] == (32, 32)
    assert others == []
    (line,) = in_lines(result)["gender"]
    assert re.search(r"served worse as woman \(answer\); tasks solved: 0 of 32 as woman, 64 of 64 as others", line)
    assert any("tasks solved" in text.plain for text in TerminalAnswer(result).lines())


def test_a_grade_of_a_fair_system_finds_nothing_and_leaves_the_events_as_they_are():
    result = attribute(graded(fair), chats(), **QUICK)
    assert not [finding for finding in result.findings if finding.is_difference]
    bare = Pipeline(graded(answer).stages)
    with_grade, without = (attribute(system, chats(), **QUICK) for system in (graded(answer), bare))
    assert {*with_grade.metrics} - {*without.metrics} == {"grade:done"}
    assert {*without.metrics} <= {*with_grade.metrics}


def test_a_grade_is_one_number_of_a_dialogue_in_the_table():
    frame = attribute(graded(answer), chats(8), **QUICK).turns
    assert frame["grade:done dialogues"].tolist() == frame.turn.tolist()  # the last of two turns
    original = frame[frame.arm == "original"].groupby("dialogue")["grade:done sum"].sum()
    assert dict(original.items()) == {f"d{number}": float(PEOPLE[number] not in WOMEN) for number in range(8)}


def test_a_partial_grade_is_a_mean():
    judge = lambda given: 0.5 if given[-1].response == "No." else 1.0  # noqa: E731
    (finding,) = attribute(graded(answer, judge), chats(), **QUICK).findings
    assert finding.metric == "grade:done"
    assert finding.effect.value == pytest.approx(0.5, abs=0.05)


def test_a_judge_that_fails_stops_the_audit_with_its_name():
    with pytest.raises(TodBiasError, match=r"metric 'grade:done': .*7"):
        attribute(graded(fair, lambda given: {}[7]), chats(4), **QUICK)


# in a pipeline file --------------------------------------------------------------------------------------------------

STAGES = """
WOMEN = ("wife", "mother", "sister", "aunt", "woman", "lady")

def plan(inputs):
    return ["go" for _ in inputs]

def answer(inputs):
    said = [" ".join([*(turn.user for turn in item.history), item.user]).split() for item in inputs]
    return ["No." if any(word in WOMEN for word in words) else "Yes." for words in said]
"""
JUDGE = """
number = 3

def solved(turns):
    return all(turn.response == "Yes." for turn in turns)
"""


def write(folder, grade, name):
    """A pipeline file beside modules of names that no other test imports."""
    (folder / f"stages_{name}.py").write_text(STAGES, "utf-8")
    (folder / f"judge_{name}.py").write_text(JUDGE, "utf-8")
    path = folder / "pipeline.yaml"
    stages = f'stages: {{plan: "stages_{name}:plan", answer: "stages_{name}:answer"}}'
    path.write_text(f"{stages}\ngrade: {grade.replace('NAME', name)}\n", "utf-8")
    return path


def test_a_grade_of_a_pipeline_file(tmp_path):
    path = write(tmp_path, '{python: "judge_NAME:solved", label: tasks solved}', "of_file")
    pipeline = load_pipeline(path)
    (grade,) = pipeline.grades
    assert (grade.name, grade.label) == ("grade:solved", "tasks solved")
    lead = attribute(pipeline, chats(), **QUICK).findings[0]
    assert (lead.metric, lead.group, lead.stage, lead.what) == ("grade:solved", "woman", "answer", "tasks solved")


def test_the_label_of_a_grade_is_its_name_if_none_is_given(tmp_path):
    (grade,) = load_pipeline(write(tmp_path, '{python: "judge_NAME:solved"}', "unlabelled")).grades
    assert grade.label == "solved"


@pytest.mark.parametrize(
    ("grade", "said"),
    [
        ('{python: "judge_NAME:other"}', r"grade 'judge_\w+:other'.*other"),
        ('{python: "judge_NAME:number"}', r"grade 'judge_\w+:number': expected a function .*, got 3"),
        ('{python: "no_such_module_NAME:solved"}', r"grade 'no_such_module_\w+:solved'.*no_such_module"),
        ('{python: "judge_NAME"}', "grade"),
        ("{label: tasks solved}", "grade.python: is missing"),
        ('{python: "judge_NAME:solved", lable: x}', "grade.lable: is unknown"),
        ("judge_NAME:solved", "grade: got 'judge_"),
        ('{python: ""}', "grade"),
    ],
)
def test_a_wrong_grade_is_told_in_one_line_with_the_file(tmp_path, request, grade, said):
    name = f"wrong_{request.node.callspec.indices['grade']}"
    with pytest.raises(StageError, match=said) as error:
        load_pipeline(write(tmp_path, grade, name))
    assert "\n" not in str(error.value)
    assert "pipeline.yaml" in str(error.value)
