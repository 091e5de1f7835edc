"""Findings in words: the same statements in the lines of a terminal and on the cards of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from tod_bias.results import DIFFERENT, DISPARITY, EQUIVALENT, INCONCLUSIVE, NO_DIFFERENCE, PLACEBO_VERDICT, THESE_TERMS

_ANSWERS = {
    **dict.fromkeys(DIFFERENT, "difference"),
    THESE_TERMS: "difference, with these terms",
    NO_DIFFERENCE: "no difference",
    EQUIVALENT: "equivalent",
    INCONCLUSIVE: "not enough data",
    PLACEBO_VERDICT: "control",
    "": "not enough data",
}
_LOOKS = {**dict.fromkeys(DIFFERENT, "claim"), NO_DIFFERENCE: "good", EQUIVALENT: "same", INCONCLUSIVE: "open"}
_UNICODE = {DISPARITY: "✗", THESE_TERMS: "✗", EQUIVALENT: "✓", NO_DIFFERENCE: "✓"}
_ASCII = {DISPARITY: "x", THESE_TERMS: "x", EQUIVALENT: "=", NO_DIFFERENCE: "="}
_STYLES = {DISPARITY: "bold red", THESE_TERMS: "red", EQUIVALENT: "green", NO_DIFFERENCE: "green"}


@dataclass(frozen=True)
class Statement:
    """One finding of one or several groups, in words."""

    verdict: str
    axis: str
    """The axis, dimension or attribute."""
    sentence: str = ""
    """The finding; empty if :attr:`answer` states it."""
    stages: Sequence[str] = ()
    """The components in which the difference arises."""
    details: Sequence[str] = ()
    """What happens, or what is missing for a claim."""

    @property
    def answer(self) -> str:
        """The kind of answer, in two or three words."""
        return _ANSWERS.get(self.verdict, self.verdict)

    @property
    def look(self) -> str:
        """Class in the style sheet."""
        return _LOOKS.get(self.verdict, "")

    @property
    def is_difference(self) -> bool:
        """True if a difference is claimed, of the group or of these terms."""
        return self.verdict in DIFFERENT

    def lines(self, column: int, width: int, *, plain: bool = False) -> Iterator[Text]:
        """Yield the lines of a terminal: the mark of the verdict, the axis, the finding and, to the right, the stages.

        Args:
            column: width of the column of axes, in characters.
            width: of the terminal, in characters.
            plain: True if the terminal shows ASCII only.
        """
        indent, stages = " " * (column + 3), ", ".join(self.stages)
        begin = f"{mark(self.verdict, plain=plain)} {self.axis:<{column}} "
        first, *rest = folded(self.sentence or self.answer, indent, width - len(stages) - 2, begin)
        gap = " " * max(2, width - len(first) - len(stages))
        style = _STYLES.get(self.verdict, "")
        for line in (f"{first}{gap}{stages}".rstrip(), *rest):
            yield Text(ascii_of(line) if plain else line, style=style)
        for detail in self.details:
            for line in folded(detail, indent, width):
                yield Text(ascii_of(line) if plain else line)


def print_statements(said: Sequence[Statement], console: Console, more: int = 0) -> None:
    """Print the first difference of each axis with its first detail, then all that is open in one paragraph.

    Args:
        said: the statements, differences first.
        console: of the terminal.
        more: number of further differences in the report.
    """
    plain, width = not (console.encoding or "").lower().startswith("utf"), min(80, console.width)
    found = [some for some in said if some.is_difference]
    leading = list({some.axis: some for some in reversed(found)}.values())[::-1]
    column = column_of(some.axis for some in leading)
    lines: list[Text] = []
    for some in leading:
        lines += replace(some, details=some.details[:1]).lines(column, width, plain=plain)
    if more := more + len(found) - len(leading):
        lines.append(Text(f"{' ' * (column + 3)}and {more} more in the report"))
    if unproven := [f"{some.axis}: {some.sentence or some.answer}" for some in said if not some.is_difference]:
        shown = "; ".join(unproven)
        lines += map(Text, folded(ascii_of(shown) if plain else shown, "  ", width, f"{mark('', plain=plain)} "))
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def column_of(axes: Iterable[str]) -> int:
    """Return the width of the column that holds these axes."""
    return max(map(len, axes), default=0) + 1


def mark(verdict: str, *, plain: bool = False) -> str:
    """Return the mark of a verdict: ``✗``, ``✓`` or ``?``; ``plain``: in ASCII."""
    return (_ASCII if plain else _UNICODE).get(verdict, "?")


def folded(text: str, indent: str, width: int, first: str | None = None) -> list[str]:
    """Return a text in lines of at most ``width`` characters, all indented.

    Args:
        text: on one line.
        indent: begins every line.
        width: in characters, with the indent.
        first: begins the first line instead.
    """
    import textwrap

    lines = textwrap.wrap(text, max(20, width - len(indent)), break_on_hyphens=False) or [""]
    return [f"{indent if number or first is None else first}{line}" for number, line in enumerate(lines)]


def ascii_of(text: str) -> str:
    """Return a text for a terminal without Unicode."""
    marks = {"→": "->", "“": '"', "”": '"', "…": "...", "✓": "=", "✗": "x", "×": "x", "–": "-", "−": "-"}
    for sign, plain in marks.items():
        text = text.replace(sign, plain)
    return text.encode("ascii", "replace").decode("ascii")
