"""What a group gets in place of what another one gets, counted over dialogues."""

import json

import pandas as pd
import pytest

from tod_bias.report.differences import first_difference

WORDS = {"man": "husband", "woman": "wife", "nobody": "partner"}


def turns(answers, number=5, *, with_steps=True, source=None):
    """Dialogues of one turn for two groups.

    Args:
        answers: group and number of the dialogue to the policy's call and the response.
        number: of dialogues.
        with_steps: whether the calls are in the table.
        source: the group of the originals.
    """
    rows = []
    for dialogue in range(number):
        for name, arm in [(group, arm) for group in ("man", "woman") for arm in ("", "policy,say")] + [("nobody", "o")]:
            is_original = arm == "o"
            if name == source:
                continue
            whom = source if is_original and source else name
            fair = arm == "policy,say"
            original = source or "man"  # who the original is answered as, and so all who are replaced by twins
            output, response = answers(original if fair or whom == "nobody" else whom, dialogue)
            rows.append(
                {
                    "axis": "gender", "dialogue": f"d{dialogue}", "turn": 0, "sample": 0, "term": "",
                    "variant": "original" if is_original else f"gender:{name}",
                    "role": "original" if is_original else "group",
                    "source": None if is_original else source, "group": None if is_original else name,
                    "arm": "original" if is_original else arm,
                    "user": f"A room for my {WORDS[whom]}", "reference": "Here you go.",
                    "policy": output, "say": response.format(WORDS[whom]),
                    "steps": json.dumps([["policy", None, output], ["say", None, response.format(WORDS[whom])]]),
                }
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    return frame if with_steps else frame.drop(columns="steps")


def call(limit):
    return json.dumps({"name": "find", "arguments": {"city": "York", "limit": limit}})


def limited(group, dialogue):
    few = group == "woman" and dialogue < 3
    return call(1 if few else 3), f"{1 if few else 3} rooms for your {{}}"


@pytest.mark.parametrize("source", [None, "man", "woman"])
@pytest.mark.parametrize("with_steps", [True, False])
def test_the_argument_that_differs_first_is_counted(with_steps, source):
    found = first_difference(
        turns(limited, with_steps=with_steps, source=source), ["policy", "say"], "gender", "woman", "man"
    )
    assert (found.stage, found.field, found.before, found.after) == ("policy", "limit", "3", "1")
    assert (found.dialogues, found.first, found.of) == (3, 3, 5)
    assert "In 3 of 5 dialogues" in str(found)


def test_what_follows_a_fixed_value_is_charged_to_the_component_that_puts_it_out():
    """It may be the group's own code, which no rewriting turns back."""

    def coded(group, dialogue):
        return f"guest = {group[0].upper()}", f"{'Hm' if group == 'woman' else 'Ah'} for your {{}}"

    found = first_difference(turns(coded), ["policy", "say"], "gender", "woman", "man")
    assert str(found).endswith("“W” back into “M”, so what later components make of it is charged to `policy`.")
    assert "charged" not in str(first_difference(turns(coded), ["say", "policy"], "gender", "woman", "man"))


def test_words_that_the_rewriting_exchanged_are_no_difference():
    frame = turns(lambda group, dialogue: (call(3), "3 rooms for your {}"))
    assert first_difference(frame, ["policy", "say"], "gender", "woman", "man") is None


def test_one_output_in_place_of_various_others_is_counted_as_such():
    def refuses(group, dialogue):
        return call(3), "Sorry." if group == "woman" else f"Room {dialogue} it is, number {dialogue}"

    found = first_difference(turns(refuses), ["policy", "say"], "gender", "woman", "man")
    assert (found.stage, found.before, found.after, found.dialogues) == ("say", "", "Sorry.", 5)


def test_where_no_difference_occurs_twice_only_the_stage_is_named():
    def varies(group, dialogue):
        return call(3), f"{'Hm' if group == 'woman' else 'Ah'} {dialogue} {dialogue * 7}"

    found = first_difference(turns(varies), ["policy", "say"], "gender", "woman", "man")
    assert (found.stage, found.after, found.first) == ("say", "", 5)
    assert "`say`" in str(found)


def test_a_field_that_is_missing_is_named():
    def forgets(group, dialogue):
        return ("city = York" if group == "woman" else f"city = York ; day = {dialogue}"), "Done."

    found = first_difference(turns(forgets), ["policy", "say"], "gender", "woman", "man")
    assert (found.field, found.after) == ("day", "nothing")
    assert "leaves out `day` for woman" in str(found)


def test_dialogues_without_one_of_the_groups_do_not_count():
    assert first_difference(turns(limited), ["policy", "say"], "gender", "woman", "child") is None
