import pytest

from tod_bias.errors import AxisError
from tod_bias.perturb.algorithm import text_rewriter


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        ("my_axes:accent", "an axis of your own needs whole dialogues"),
        ("persona_gender", "need dialogues"),
        ("names_gendr", "did you mean 'names_gender'"),
        ("nobody", "expected one of age, .*dialect:aae.*names_race"),
    ],
)
def test_axes_that_lines_of_text_do_not_have_are_refused(axis, says):
    with pytest.raises(AxisError, match=says):
        text_rewriter(axis, "woman", "man")
