"""How often each kind of introduction comes up."""

from builders import small_corpus

from tod_bias.perturb.personas.axis import load_persona
from tod_bias.perturb.personas.parts import ENOUGH, SheetPart, turns
from tod_bias.perturb.personas.sheet import FOLDER, read_sheet

SHEET = """@attributes\ta\tb
form\tword\tbefore\tI am {x}.
form\tlone\tbefore\tI am {alone}.
form\tmany\tbefore\tI like {y}.
fill\tx\ta\tred
fill\tx\tb\tgreen
fill\talone\ta\tonly me
fill\ty\ta\ty1, y2, y3
fill\ty\tb\tz1, z2
"""


def test_kinds_have_turns_by_their_words_where_there_are_fewest(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text(SHEET)
    part = SheetPart("mine", read_sheet(path))
    assert list(part.kinds) == ["word", "lone", "many"]
    assert turns(part, part.kinds.values()) == (0, 2, 2)  # nobody but a can be told by the second
    arranged = load_persona(["persona_mine"], lexicon=path).select(small_corpus(24), seed=0)
    kinds = [one.persona.parts[0].template.kind for one, _ in arranged]
    assert (len(kinds), kinds.count("many"), kinds.count("lone")) == (24, 16, 0)


def test_there_are_no_more_turns_than_enough():
    part = SheetPart("age", read_sheet(FOLDER / "age.tsv"))
    whose = turns(part, part.kinds.values())
    assert max(map(whose.count, whose)) <= ENOUGH
