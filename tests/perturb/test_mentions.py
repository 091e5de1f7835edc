"""Names of no list, found by the words around them; accents; dishes and venues that only look like names."""

from __future__ import annotations

import unicodedata

import pytest

from tod_bias.perturb.english import edited
from tod_bias.perturb.names.places import name_places
from tod_bias.perturb.names.unaccented import Unaccented

FOUND = {
    "José and María shared a table": "M and M shared a table",
    "Our server Giulia was great. Giulia, thanks!": "Our server M was great. M, thanks!",
    "Can you reserve a table for Ngozi?": "Can you reserve a table for M?",
    "We had Niamh as our waitress": "We had M as our waitress",
    "me and sarah went on Friday": "me and M went on Friday",
    "my friend zendaya loved it": "my friend M loved it",
    "our server giulia was quick": "our server M was quick",
    "thank you wei!": "thank you M!",
    "Emily and Zsófia came along": "M and M came along",
}
NOT_FOUND = (
    "The Caesar salad and a Reuben",
    "Eggs Benedict with Virginia ham",
    "a Bloody Mary and a shot of Jose Cuervo",
    "better than Denny's, said the Yelp page",
    "my friend ordered and our server brought bread",
    "me and everyone else asked for two",
    "We went to Los Angeles",
    "WILL NOT be back",
    "Thanks Yelp! Table for Saturday.",
)


def shown(text: str) -> str:
    return edited(text, dict.fromkeys(name_places(text), "M"))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", FOUND)
def test_a_name_is_found_with_accents_in_lower_case_and_by_context(text: str, form: str) -> None:
    assert shown(unicodedata.normalize(form, text)) == FOUND[text]


@pytest.mark.parametrize("text", NOT_FOUND)
def test_dishes_venues_and_common_words_are_no_names(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_places_without_accents_are_those_of_the_original(form: str) -> None:
    original = unicodedata.normalize(form, "Straße, Łukasz und Zoë: 李")
    plain = Unaccented(original)
    assert plain.text == "Strasse, Lukasz und Zoe: 李"
    start = plain.text.index("Zoe")
    left, right = plain.original(start, start + 3)
    assert unicodedata.normalize("NFC", original[left:right]) == "Zoë"
    assert plain.original(0, len(plain.text)) == (0, len(original))
