"""What somebody meant who wrote a name that nothing has."""

import pytest

from tod_bias.errors import meant


@pytest.mark.parametrize(
    ("name", "among", "said"),
    [
        ("gendre", ["age", "gender"], "gender"),
        ("sex", ["age", "gender"], "gender"),
        ("sex", ["age"], None),
        ("bleu", ["corpus_bleu", "jga"], "corpus_bleu"),
        ("F1", ["jga", "slot_f1"], None),  # two letters are in many names
        ("names", ["age", "names_gender"], "names_gender"),
        ("height", ["age", "gender"], None),
    ],
)
def test_a_name_that_is_near(name, among, said):
    assert meant(name, among) == (f"; did you mean {said!r}?" if said else "")
