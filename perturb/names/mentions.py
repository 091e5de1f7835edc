"""Search for names that no table lists, by the words around them; dishes and venues that look like names are left out.

The patterns are from requests and reviews: "our server Giulia", "me and Wei", "Ngozi took care of us", "a table for
Zendaya". Every pattern matches a capitalised word, or a listed name in lower case. Unlisted words in lower case need a
stricter pattern, such as "my friend giulia ordered". Texts have no accents (:mod:`~tod_bias.perturb.names.unaccented`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from tod_bias.perturb.names.lookalikes import is_dish_or_place
from tod_bias.perturb.names.resources import by_first, listed, mention_words

_ROLE = r"(?:<ROLES>)"
_HUMAN = r"(?:<VERBS>)"
_NAME = r"(?P<name>[^\W\d_]+(?:['’-](?-i:[A-Z])[^\W\d_]+)*)"
_END = (
    r"(?=\s*(?:[,.!?;:)]|$)|\s+(?:and|at|now|for|to|on|tonight|today|tomorrow|please|this|next|with|here|there|when|"
    r"if|or|as|"
    r"because)\b)"
)
_OUR = r"(?:our|my|the|your|his|her|their|a)"
_VERY = r"(?:(?:\w+ly|so|very|super|also|always|just|such\s+an?|an?|the(?:\s+most)?|our|my)\s+)*"
_KIND = (
    r"(?:attentive|friendly|helpful|knowledgeable|accommodating|courteous|polite|rude|sweet|sweetest|hilarious|funny|"
    r"professional|patient|personable|gracious|engaging|prompt|wonderful\s+<R>|great\s+<R>|amazing\s+<R>|best\s+<R>|"
    r"<R>|guy|man|girl|gal|woman|gentleman|"
    r"lady|gem|rock\s?star|pro|sweetheart|genius|delight)"
).replace("<R>", _ROLE)
_DID = (
    r"(?:took\s+(?:\w+\s+){0,3}care|greeted|recommended|suggested|helped|assisted|waited\s+on|checked\s+(?:on|in|"
    r"back)|"
    r"made\s+(?:sure|us|our|my|me|everyone)|brought\s+(?:us|me|out|over|him|her)|went\s+(?:above|out\s+of|"
    r"over\s+and)|"
    r"explained|answered|apologized|assured|told|asked|offered|welcomed|seated|ordered|thinks|wants|"
    r"(?:will|would|might)\s+(?:like|love|enjoy|want|be\s+our)|treated\s+us|poured|walked\s+us|surprised|deserves|"
    r"stopped|stated|opted|joked|smiled|remembered|came\s+(?:over|by|to)|had\s+no|provided|"
    r"(?:loved|liked|enjoyed|tried|ordered|chose|got|had|shared)\s+(?:the|her|his|a|an)|himself|herself)"
)
_COMPANY = (
    r"(?:went|gone|came|coming|din(?:ed?|ing|ner)|ate|eat(?:ing)?|lunch|brunch|breakfast|drinks?|date|"
    r"night|evening|visit(?:ed)?|trip|met|meet(?:ing)?|sat|out|talk(?:ed|ing)?|spoke|speak(?:ing)?|chat(?:ted|ting)?|"
    r"celebrat\w+|here|there|back|again|hung|hang(?:ing)?|shared|split|party)"
)
_BOOKED = (
    r"(?:reservations?|tables?|book(?:ed|ing)?|recommendations?|suggestions?|restaurants?|part(?:y|ies)|birthday|"
    r"surprise)"
)
_PARTY = (
    r"(?:birthday|b-?day|anniversary|graduation|wedding|shower|name|section|reservation|service|recommendations?|"
    r"suggestions?|idea|turn|choice|pick|treat|request|words?|smile|jokes?|energy|knowledge|first\s+time|friends?|"
    r"mom|mother|dad|father|husband|wife|family|kids?|son|daughter|attention\w*|attentiveness|"
    r"personality|hospitality|party)"
)
_CUES = (
    rf"\b{_ROLE}(?:\s*,|\s*\(|\s+(?:named|called|is|was|like))?\s+{_NAME}",
    rf"\b{_NAME},?\s+(?:who\s+(?:is|was)\s+|is\s+|was\s+|as\s+)?{_OUR}\s+(?:\w+\s+){{0,2}}?{_ROLE}\b(?!['’])",
    rf"\bnames?(?:['’]s|\s+(?:is|was|of))\s+{_NAME}",
    rf"\b(?:m(?:an|en)|wom[ae]n|guy|girl|lady|gentlem[ae]n|someone|dude|person)\s+(?:named|called)\s+{_NAME}",
    rf"\b(?:me|myself|i|us|him)\s+(?:and|&|n)\s+{_NAME}",
    r"(?:^|[.!?]\s+|[a-z],\s+|\b(?:with|for|both|between|when|so|that|and|as|because|while|after|where|since|"
    r"invited)\s+)"
    rf"{_NAME}\s+(?:and|&|n)\s+(?:i|me|myself)\b(?!['’])",
    rf"\b(?:my|our)\s+{_ROLE}\s+(?:and|&)\s+{_NAME}",
    rf"\b{_COMPANY}\s+(?:\w+\s+){{0,3}}?(?:with|w/)\s+{_NAME}",
    rf"\bgo\s+(?:\w+\s+){{1,3}}?with\s+{_NAME}",
    rf"\b(?:served|greeted|helped|assisted|seated|waited\s+on|welcomed|care\s+of|recommended|suggested|service|"
    rf"recommendations?|suggestions?|advice|attention|visits?|treatment)\s+(?:by|from|of)\s+{_NAME}",
    rf"\b(?:told|tell|asked|met|meet|thanked|gave|let|called|texted|left|saw)\s+{_NAME}{_END}",
    rf"\b(?:(?:say|said)\s+h(?:i|ello)|according|listened|spoke|talked)\s+to\s+{_NAME}",
    rf"\b{_NAME}\s+(?:and|&)\s+(?:his|her)\b",
    rf"\b{_NAME}\s+(?:was|is|had|has|\w+ed)\b[^.!?]{{0,120}}[.!?]\s+(?:He|She)\b",
    rf"\b{_NAME}\s+(?-i:[A-Z])(?:\.|(?=\s+(?:was|is|had|has|and|orders?|stated|says|said)\b))(?!\w)",
    rf"\bespecially\s+{_NAME}{_END}",
    rf"\b{_NAME}\s+(?:\w+ly\s+|also\s+|always\s+)?(?:{_DID}|(?:was|is)\s+{_VERY}{_KIND})\b",
    r"\b(?:thanks|thank\s+you|kudos|shout[\s-]?outs?|props|cheers|compliments|credit|hats\s+off)(?:\s+(?:so|"
    r"very)\s+much)?(?:\s+again)?"
    rf"(?:\s+go(?:es)?(?:\s+out)?)?(?:\s+(?:to|for))?[,:]?\s+{_NAME}",
    rf"\b(?:ask(?:ed)?|requested|request)\s+(?:for\s+)?{_NAME}{_END}",
    rf"\b(?:had|have|got|has)\s+{_NAME}\s+(?:as|for)\s+(?:our|my|a)\b",
    rf"\b{_BOOKED}\s+(?:\w+\s+)?for\s+(?:(?:me|myself|us)\s+(?:and|&)\s+)?{_NAME}",
    r"\b(?:take|took|taking|bring|brought|bringing|invited?|treat(?:ed)?|join(?:ed)?|help|"
    rf"surprised?)\s+{_NAME}{_END}",
    rf"\b(?:that|think|thought|if|because|since|where|know|hope)\s+{_NAME}\s+(?:will|would|might|likes?|loves?|"
    rf"enjoy\w*|prefers?|wants?)\b",
    rf"\bunder\s+(?:the\s+name\s+(?:of\s+)?)?{_NAME}(?:['’]s\s+name\b|{_END})",
    rf"\b{_NAME}['’]s\s+(?:\d+\w*\s+|\w+th\s+|first\s+|big\s+|surprise\s+|own\s+)?{_PARTY}\b",
    rf"\b(?-i:Mr|Mrs|Ms|Miss)\.?\s+{_NAME}",
    rf"\b{_NAME}\s+(?:\w+ly\s+|also\s+|always\s+|just\s+|never\s+|almost\s+|still\s+)?{_HUMAN}\b",
    rf"\b{_NAME}\s+(?:at|behind|from|in)\s+the\s+(?:front\s+desk|bar|counter|register|door|host\s+stand|kitchen)\b",
    rf"\b(?:me|us|we|i),\s+{_NAME}(?:\s+and\b|,)",
    rf"\b(?:let|made|make|watch(?:ed)?|had|have)\s+{_NAME}\s+(?:pick|choose|make|order|know|take|help|do|be|try|"
    rf"bring|pour|cook)\b",
    r"\b(?:enough\s+about|fan\s+of|grateful\s+(?:to|for)|wait(?:ed|ing)?\s+for|look(?:ed|"
    rf"ing)?\s+for)\s+{_NAME}{_END}",
    rf"\b(?:think|believe|guess|possibly|maybe)\s+(?:it\s+was\s+)?{_NAME}\s*[,)]",
    r"\b(?:my|our)\s+(?:parents|kids|children|friends|family|in-laws|boys|girls|folks|son|daughter)\s+(?:and|"
    rf"&)\s+{_NAME}",
    r"\b(?:went|came|drove|flew|walked|stopped|dined|visited|returned|headed|met|hung|"
    rf"celebrated)\b[^.!?,]{{0,40}}?\swith\s+{_NAME}",
)
"""Patterns for capitalised words and listed names."""
_FOLLOWS = r"(?:is|was|were|are|had|has|have)(?:n['’]t)?|(?:do|does|did|ca|wo|could|would)n['’]t|will|would"
_AFTER = (
    rf"(?=\s+(?:{_FOLLOWS}|took|loves?|loved|likes|got|came|went|wanted|said|\w{{3,}}(?:ed|es|ts|ks|ns|rs|ms|ds|ys)|"
    rf"{_DID})\b|"
    r"\s+(?:and|&)\s+(?:i|me|my|his|her|our|myself)\b)"
)
_STOP = r"(?=\s*(?:[.!?;)]|$)|\s+(?:for|to|who|when|because|if|at|on|behind|last|and\s+(?:i|my|his|her|the|our))\b)"
_LOWER = (
    rf"\b(?:my|our|his|her|their|your)\s+(?:\w+\s+)?{_ROLE}(?:\s*,)?\s+{_NAME}(?:{_AFTER}|\s*,)",
    rf"\b(?:my|our|his|her|their|a|the)\s+(?:\w+\s+)?{_ROLE}\s+(?:named|called)\s+{_NAME}",
    rf"\b(?:the|our)\s+{_ROLE}\s*,\s+{_NAME}\s*,",
    rf"\b{_NAME}\s*,\s+(?:the|our|my)\s+{_ROLE}\s*,",
    rf"\b(?:her|his|server['’]s|waitress['’]s|waiter['’]s|my)\s+name(?:['’]s|\s+(?:is|was))\s+{_NAME}",
    rf"(?:^|[,.!?]\s*|\bwhen\s+|\bso\s+)(?:me|myself)\s+(?:and|&|n)\s+{_NAME}(?=\s+\w)",
    rf"(?:^|[.!?]\s*|\bwhen\s+){_NAME}\s+(?:and|&|n)\s+(?:i|me)\s+(?:have|had|went|came|got|shared|ordered|love|are|"
    rf"were|both)\b",
    rf"\bbetween\s+{_NAME}\s+and\s+(?:i|me)\b",
    rf"\b(?:for|with|between|should|shall)\s+(?:me|myself|i)\s+(?:and|&)\s+{_NAME}{_END}",
    rf"\b(?:should|shall)\s+(?:me|i)\s+and\s+{_NAME}\s+go\b",
    rf"\b(?:reservations?|table|recommendations?|restaurants?)\s+for\s+{_NAME}{_END}",
    rf"\b(?:take|bring|invite)\s+{_NAME}\s+(?:to|out|for)\b",
    rf"\b(?:that|think)\s+{_NAME}\s+(?:will|would|might)\s+(?:like|love|enjoy)\b",
    rf"\bhelp\s+{_NAME}\s+(?:to\s+)?find\b",
    rf"\b{_NAME}['’]s\s+(?:birthday|bday|b-day|name|graduation|bachelorette|baby\s+shower)\b",
    rf"\b(?:shout[\s-]?out|kudos|props|many\s+thanks|special\s+thanks|thank\s+you)\s+(?:to\s+)?{_NAME}{_STOP}",
    rf"\bask\s+for\s+{_NAME}\s*(?=[,.!]|$)",
    rf"\b(?:came|went)\s+(?:here\s+|there\s+|back\s+)?with\s+{_NAME}\s+(?:for|last|on|this|yesterday)\b",
    rf"\b(?:dinner|lunch|brunch|drinks|date)\s+with\s+{_NAME}\s*(?=[,.!]|$|\s(?:last|and\s+(?:i|my|his|her|the))\b)",
    rf"\b(?:told|asked|met|thanked)\s+{_NAME}\s+(?:that|this|about|if|how|we|i|for|here|there)\b",
    rf"(?:^|[.!?]\s+|,\s+){_NAME}\s+(?:loved|hated|ordered|got|tried|recommended|enjoyed)\s+(?:the|her|his|a|an)\b",
    rf"\b(?:had|have|got|get)\s+{_NAME}\s+as\s+(?:our|my|your|a)\s+(?:\w+\s+)?{_ROLE}\b",
    rf"\b{_NAME}\s+(?:took\s+(?:\w+\s+){{0,2}}care\s+of\s+(?:us|me)|was\s+(?:our|my)\s+(?:\w+\s+)?{_ROLE})\b",
)
"""Stricter patterns, for unlisted words in lower case."""


@cache
def _patterns(kind: str) -> tuple[re.Pattern[str], ...]:
    roles, verbs = (
        "|".join(sorted(mention_words(section), key=lambda w: (-len(w), w))) for section in ("roles", "verbs")
    )
    cues = _CUES if kind == "cues" else _LOWER
    filled = (cue.replace("<ROLES>", roles).replace("<VERBS>", verbs) for cue in cues)
    return tuple(re.compile(cue, re.IGNORECASE) for cue in filled)


_AND_NAME = re.compile(rf"(?:\s+[A-Z]\.?)?,?\s+(?:and|&)\s+{_NAME}")
_NAME_AND = re.compile(rf"\b{_NAME}(?:\s+[A-Z]\.?)?,?\s+(?:and|&)\s+$")


def mentioned(text: str, listed_places: Iterable[tuple[int, int]] = ()) -> Iterator[tuple[int, int]]:
    """Yield the spans of first names that a pattern finds; an unlisted name is then found everywhere in the text.

    Args:
        text: text without accents.
        listed_places: spans of names that are known already; a capitalised word joined to one by "and" is a name.
    """
    spans: set[tuple[int, int]] = set()
    for kind, fits in (("cues", _is_name), ("lower", _is_lower_name)):
        for pattern in _patterns(kind):
            spans |= {m.span("name") for m in pattern.finditer(text) if fits(m["name"], text, m.end("name"))}
    for start, end in {*spans, *listed_places}:
        for match in (_AND_NAME.match(text, end), _NAME_AND.search(text, max(0, start - 60), start)):
            if match and match["name"][0].isupper() and _is_name(match["name"], text, match.end("name")):
                spans.add(match.span("name"))
    for name in {text[start:end] for start, end in spans}:
        if name.lower() not in by_first():
            spans |= {match.span() for match in re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)}
    yield from (place for place in sorted(spans) if not is_dish_or_place(text, *place))


_ENDINGS = ("ed", "ing", "ly", "ers", "tion", "ment", "ness", "day", "ful", "ous", "ive", "able")
"""Endings of verbs, adverbs and nouns; an unlisted word with one of them is never taken for a name."""


def _is_name(name: str, text: str, end: int) -> bool:
    """True if a word can be a name: a listed name, or a capitalised word outside the lists of words."""
    lower = name.lower()
    known = by_first().get(lower)
    if lower in mention_words("no people") or lower in mention_words("roles") or len(name) < 2:
        return False
    if name.islower():
        return known is not None and not known.word and not _is_word(lower) and len(name) > 2
    if not name[0].isupper() or (name.isupper() and len(name) > 1) or lower in listed("times"):
        return False
    if known is None and (lower.endswith(_ENDINGS) or _is_word(lower)):
        return False
    return not _goes_on_as_thing(text, end)


_RUN = re.compile(r"(?:\s+(?:&\s+)?(?-i:[A-Z])[\w'’]+)+")


def _goes_on_as_thing(text: str, end: int) -> bool:
    """True if the capitalised words after a name make it the name of a thing ("Blue Duck Tavern")."""
    run = _RUN.match(text, end)
    words = run[0].lower().split() if run else []
    return any(word in listed("things") or word in mention_words("foods") for word in words)


def _is_lower_name(name: str, text: str, end: int) -> bool:
    """True if an unlisted word in lower case can be a name: no common word, and no ending of a verb or adverb."""
    if not name.islower() or len(name) < 3 or name.endswith(_ENDINGS):
        return False
    known = by_first().get(name)
    return not (_is_word(name) or (known is not None and known.word))


def _is_word(name: str) -> bool:
    """True if a word in lower case is in a list of words."""
    is_common = any(name in mention_words(section) for section in ("no people", "roles", "foods", "common"))
    return is_common or any(name in listed(section) for section in ("things", "not last", "times", "places"))
