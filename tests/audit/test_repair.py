"""Two stages that harm jointly are told from two that each harm alone, whatever groups the originals are of."""

import pytest

from tod_bias import Dialogue, Pipeline, Turn, attribute
from tod_bias.report.answer import advice, details
from tod_bias.results import Estimate, Finding

WOMEN = ("wife", "mother", "sister", "daughter", "aunt", "niece", "grandmother", "girlfriend")
MEN = ("husband", "father", "brother", "son", "uncle", "nephew", "grandfather", "boyfriend")
REFUSES = {
    "any": lambda first, second, number: first or second,
    "joint": lambda first, second, number: first and second,
    "sum": lambda first, second, number: first if number % 2 else second,
}


def corpus(as_women, count=48):
    """Dialogues about a relative; so many in 8 are about a woman."""
    people = [(WOMEN if number % 8 < as_women else MEN)[(number // 8 + number) % 8] for number in range(count)]
    texts = [f"A table for my {person} and me at place {number}." for number, person in enumerate(people)]
    return [Dialogue(f"d{number}", "Tables", (Turn(text, response="Done."),)) for number, text in enumerate(texts)]


def is_about_a_woman(call):
    return any(word in call.user.split() for word in (*WOMEN, "woman", "lady"))


def system(world):
    def policy(calls):
        return ["short" if is_about_a_woman(call) else "full" for call in calls]

    def answer(calls):
        numbers = [int(call.user.rstrip(".").split()[-1]) for call in calls]
        refused = [
            REFUSES[world](call.outputs["policy"] == "short", is_about_a_woman(call), number)
            for call, number in zip(calls, numbers, strict=True)
        ]
        return ["Sorry, I cannot help with that." if some else "The table is booked for you both." for some in refused]

    return Pipeline({"policy": policy, "answer": answer})


@pytest.mark.parametrize(("world", "repair"), [("any", "all"), ("joint", "either"), ("sum", "")])
@pytest.mark.parametrize("as_women", [1, 4, 6])
def test_which_stages_have_to_be_repaired_does_not_hang_on_the_originals(world, repair, as_women):
    result = attribute(system(world), corpus(as_women), axes=("gender",))
    (finding,) = result.findings
    assert (finding.group, finding.metric, set(finding.stage.split(", "))) == (
        "woman", "refuses", {"policy", "answer"}
    )  # fmt: skip
    assert finding.repair == repair
    assert finding.repair == result.axes["gender"]["refuses"].groups["woman"].repair


def test_nothing_is_said_of_stages_that_are_named_alone_or_seen_in_few_dialogues():
    result = attribute(system("any"), corpus(8), axes=("gender",))  # every original is about a woman
    assert result.findings[0].repair == ""


def test_a_difference_that_only_a_placebo_can_confirm_says_so():
    result = attribute(system("any"), corpus(8), axes=("gender",))
    (finding,) = result.findings
    assert (finding.verdict, finding.missing) == ("inconclusive", "placebo")
    assert "add `placebo` to --axes" in advice(finding)
    assert not any("placebo" in line for line in details(finding, result))


def test_the_answer_says_which_have_to_be_repaired():
    result = attribute(system("any"), corpus(4), axes=("gender",))
    seen = {"axis": "gender", "verdict": "disparity", "group": "woman", "effect": Estimate(value=0.5)}
    finding = Finding(**seen, stage="policy, answer", repair="either")
    assert "one of them is enough" in list(details(finding, result))[-1]
