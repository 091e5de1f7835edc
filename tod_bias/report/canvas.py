"""Figures as small SVG with drawable texts: sizes, style and colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedFormatter, FuncFormatter

from tod_bias.io.files import write_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

INK, MUTED, GRID, PAPER = "#1a1d21", "#59626c", "#d5dae0", "#fffffe"
"""Text, secondary text, lines and ground. No other part of a figure uses these, so that a page can restyle them."""
STAGE_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
RESIDUAL_COLOUR = "#8d959e"
PLACEBO_COLOUR = "#d55e00"
BAR: Mapping[str, Any] = {"edgecolor": MUTED, "hatchcolor": "white", "linewidth": 0.6}
"""Style of bars: an outline, as sky, orange and yellow are paler on white than the 3:1 that WCAG asks of graphics."""
HATCHES = ("", "//", "--", "\\\\", "||", "xx", "++")
"""Hatches of lines only: a pattern of dots takes 68 kB in a file."""
WIDTH = 9.0
"""Inches; the width of the report's column."""
NARROW = 3.6
"""The same on a phone."""
DASHES = (0, (4, 3))
"""Style of lines that mark a reference."""
FONT_SIZE = 9.0
STYLE: Mapping[str, object] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that pictures are the same everywhere
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE + 1,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "axes.unicode_minus": True,
    "text.parse_math": False,  # $$ is a price and may stand in names, and is no formula
    "grid.color": GRID,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text as text, a tenth of the outlines' size
    "svg.hashsalt": "tod-bias",  # the same results give the same file
}


def new_figure(width: float, height: float) -> Figure:
    """A figure of this size in inches, without pyplot's global state; make it inside :func:`style`."""
    return Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)


def fixed_figure(width: float, height: float) -> Figure:
    """The same without a layout engine, which takes half of the drawing time: panels are placed with :func:`place`."""
    return Figure(figsize=(width, height), facecolor=PAPER)


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """A panel in a :func:`fixed_figure`, in inches from its upper left corner."""
    across, down = figure.get_size_inches()
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


@lru_cache(maxsize=10_000)
def text_width(text: str, size: float = FONT_SIZE, *, bold: bool = False) -> float:
    """Inches that a text takes, of several lines the longest."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    lines = (
        text_to_path.get_text_width_height_descent(line, font, ismath=False) for line in _drawable(text).split("\n")
    )
    return max(width for width, _, _ in lines) / 72


def style() -> AbstractContextManager[None]:
    """A context in which figures are made and written in this style."""
    return cast(AbstractContextManager[None], mpl.rc_context(dict(STYLE)))


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw inside the report's style."""

    def inside(*args: Any, **options: Any) -> Figure:
        with style():
            return draw(*args, **options)

    inside.__doc__ = draw.__doc__
    inside.__name__ = draw.__name__
    return inside


def stage_colours(stages: Iterable[str]) -> dict[str, str]:
    """One colour per stage, in order; they repeat after seven, where stages still differ in their hatching."""
    return {stage: STAGE_COLOURS[number % len(STAGE_COLOURS)] for number, stage in enumerate(stages)}


def strip(axes: Axes, keep: Sequence[str] = ("bottom",)) -> None:
    """Leave only the named frame lines and no tick marks."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in keep)
    axes.tick_params(length=0)


def to_svg(figure: Figure) -> str:
    """The figure as an SVG document, without date or version, so that it is the same whenever it is made."""
    buffer = io.StringIO()
    _make_drawable(figure)
    with style():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _small(buffer.getvalue())


_FONT = "font-family: 'DejaVu Sans'"
_TEXT = re.compile(r'<text style="([^"]*)"([^>]*)>([^<]*)</text>')


def _small(svg: str) -> str:
    """An SVG document of a tenth of the size: with two decimals, and without ids that nothing refers to.

    Every text keeps the width of its layout, so that texts do not overlap in another font.
    """
    named = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in named else "", svg)
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", _TEXT.sub(_sized, svg))
    svg = re.sub(r' (?:d|x|y|width|height|points|transform)="[^"]*"', _rounded, svg)
    while (smaller := re.sub(r"\s*<g>\s*</g>|\s*<g/>", "", svg)) != svg:
        svg = smaller
    return re.sub(r">\s+<", ">\n<", svg)


def _rounded(match: re.Match[str]) -> str:
    numbers = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", match[0])
    return re.sub(r"\s*\n\s*", "", numbers)


def _sized(match: re.Match[str]) -> str:
    style, place, text = match.groups()
    size = re.search(r"font-size: ([\d.]+)px", style)
    width = 72 * text_width(unescape(text), float(size[1]) if size else FONT_SIZE, bold="font-weight: 700" in style)
    style = style.replace(_FONT, f"{_FONT}, Verdana, sans-serif")
    return f'<text style="{style}"{place} textLength="{width:.1f}">{text}</text>'


_UNDRAWABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but line feeds, turns of the direction, lone surrogates: no font has them, matplotlib stops at
some."""


def _drawable(text: str) -> str:
    return _UNDRAWABLE.sub("\ufffd", text)


def _make_drawable(figure: Figure) -> None:
    for text in _texts(figure):
        if _UNDRAWABLE.search(text.get_text()):
            text.set_text(_drawable(text.get_text()))
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, FixedFormatter):
                formatter.seq = [_drawable(str(label)) for label in formatter.seq]
            elif isinstance(formatter, FuncFormatter):
                formatter.func = _Drawable(formatter.func)


def _texts(artist: Artist) -> Iterator[Text]:
    """Yield all texts except the labels of ticks, which matplotlib would have to create first."""
    if isinstance(artist, Text):
        yield artist
    for child in [artist.label] if isinstance(artist, Axis) else artist.get_children():
        yield from _texts(child)


class _Drawable:
    """The labels of ticks, made drawable."""

    def __init__(self, label: Callable[..., str]) -> None:
        self._label = label

    def __call__(self, value: float, place: int | None = None) -> str:
        return _UNDRAWABLE.sub("\ufffd", str(self._label(value, place)))


def inline(svg: str, name: str, label: str) -> str:
    """An SVG document made fit for a page: no prolog, its own ids, restyled by the page, named for screen readers.

    Args:
        svg: what :func:`to_svg` returned.
        name: put before every id, so that the figures of one page do not clash.
        label: what the figure shows, in words.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"<style type=\"text/css\">.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    for variable, colour in (("ink", INK), ("muted", MUTED), ("grid", GRID), ("paper", PAPER)):
        body = body.replace(colour, f"var(--figure-{variable}, {colour})")
    size = re.search(r'viewBox="0 0 ([\d.]+) ', body)
    width = f"{float(size[1]) * 4 / 3:.0f}px" if size else "100%"  # points to CSS pixels
    quoted = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        rf'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="\1" style="--width:{width};width:var(--width)" '
        rf'role="img" aria-label="{quoted}">',
        body,
        count=1,
    )


def draw(figure: Figure, path: Path, label: str, name: str | None = None, narrow: Figure | None = None) -> Markup:
    """Write a figure as SVG, and return it for a page.

    Args:
        figure: what to write.
        path: of the SVG file; its folder is made.
        label: what the figure shows, in words.
        name: put before its ids, so that the figures of one page do not clash; by default the file's.
        narrow: the same figure for phones.
    """
    svg, name = to_svg(figure), name or path.stem
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, svg)
    wide = inline(svg, name, label)  # matplotlib escapes its text, `inline` the label
    if narrow is None:
        return Markup(wide)
    phone = inline(to_svg(narrow), f"{name}-phone", label)
    return Markup(f'<div class="wide">{wide}</div><div class="phone">{phone}</div>')
