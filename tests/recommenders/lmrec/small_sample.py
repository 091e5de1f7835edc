"""The sample that the tests train on: venues, reviews a venue, all reviews where nothing is learnt, length of lists."""

from pathlib import Path

from tod_bias.recommenders.lmrec.templates import load_templates

VENUES, REVIEWS, FEW, TOP = 24, 240, 1000, 6


def few_templates(folder: Path) -> Path:
    """A folder with one template of each kind, and the words that ship."""
    folder.mkdir()
    lines = [f"{kind}\t{text}\n" for kind, text in load_templates().templates[::18]]
    (folder / "templates.tsv").write_text("".join(["kind\ttemplate\n", *lines]))
    return folder
