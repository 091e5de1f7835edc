import pytest

from tod_bias.errors import AxisError
from tod_bias.perturb import perturb_text


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        ("persona_gender", "rewrites whole dialogues only: tod-bias export --corpus"),
        ("gender×age", "rewrites whole dialogues only: tod-bias export --corpus"),
        ("names_gendr", "did you mean 'names_gender'"),
        ("nobody", "expected one of age, .*dialect:aae.*names_race"),
    ],
)
def test_axes_that_lines_of_text_do_not_have_are_refused(axis, says):
    with pytest.raises(AxisError, match=says):
        perturb_text("x", axis, "woman", "man")
