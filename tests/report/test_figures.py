"""Figures show the numbers they are given, and nothing lies on top of anything else."""

import json
import re
from collections.abc import Callable
from itertools import combinations
from typing import Any
from unittest.mock import patch

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tod_bias.report.canvas import NARROW, WIDTH, new_figure, to_svg
from tod_bias.report.figures import comparison, groups, su_comparison
from tod_bias.results import AuditResult, AxisResult


def drawn(figure: Figure) -> list[tuple[Text, Bbox]]:
    """The labels that are really drawn (ticks outside the view are not), with their boxes in pixels."""
    canvas = FigureCanvasAgg(figure)
    found: list[Text] = []
    draw = Text.draw

    def note(text: Text, *args: Any, **options: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            found.append(text)
        draw(text, *args, **options)

    with patch.object(Text, "draw", note):
        canvas.draw()
    return [(text, text.get_window_extent(canvas.get_renderer())) for text in found]


def misplaced(figure: Figure) -> list[tuple[str, ...]]:
    """Pairs of labels whose boxes share more than a pixel, and labels that leave the picture."""
    frame = figure.bbox.padded(1)
    boxes = [(text.get_text(), box) for text, box in drawn(figure)]
    overlapping = [
        (first, second)
        for (first, a), (second, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]
    outside = [
        (text,)
        for text, box in boxes
        if not (frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)
    ]
    return [*overlapping, *outside]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text, _ in drawn(figure)]


def all_figures(results: AuditResult) -> dict[str, Figure]:
    """By metric, kind and width."""
    drawn = {}
    for name in results.metrics:
        rows = [row for row in results.rows if row.metric.name == name]
        for width in (WIDTH, NARROW):
            drawn[f"{name} groups {width}"] = groups(rows, width)
            drawn[f"{name} comparison {width}"] = comparison({"one": rows}, width)
            if any(row.su is not None for row in rows):
                drawn[f"{name} su {width}"] = su_comparison({"one": rows}, width)
    return drawn


@pytest.fixture
def gender(make_record) -> tuple[dict[str, Any], Callable[[], list[AxisResult]]]:
    """The record of one axis, to be changed, and what makes rows of it afterwards."""
    record = make_record(axes=("gender",))
    return record["axes"]["gender"]["corpus_bleu"], lambda: AuditResult.model_validate(record).rows


def test_no_label_overlaps_another_or_leaves_the_picture(make_results):
    for name, figure in all_figures(make_results(metrics=("corpus_bleu", "length"))).items():
        assert (name, misplaced(figure)) == (name, [])


def test_long_names_do_not_overlap_either(make_record):
    text = json.dumps(make_record())
    for short, long in (
        ("db", "rerank_candidates_by_distance_and_price"),
        ("api_call", "recognise_intent"),
        ("age", "a_very_long_axis_name_that_goes_on"),
        ("white", "native-american"),
        ("black", "people whom a list describes in so many words that no label has room for them"),
        ("BLEU", "a measure whose label is as long as a sentence, which nobody should do but may"),
    ):
        text = re.sub(rf"\b{short}\b", long, text)
    for name, figure in all_figures(AuditResult.model_validate_json(text)).items():
        assert (name, misplaced(figure)) == (name, [])


def bars(figure: Figure) -> list[Rectangle]:
    return [patch for patch in figure.axes[1].patches if isinstance(patch, Rectangle)]


@pytest.mark.parametrize("axis", ["gender", "age", "race"])
def test_stacked_parts_keep_their_sign_and_sum_to_the_widest_gap(make_results, axis):
    (axis_result,) = make_results(axes=(axis,)).rows
    widths = [bar.get_width() for bar in bars(comparison({"one": [axis_result]}))]
    assert sum(widths) == pytest.approx(axis_result.widest.gap.value)
    assert min(widths) == pytest.approx(min(part.value for part in axis_result.widest.shares.values()))


def test_su_stacks_sum_to_the_fairscore(make_results):
    (axis_result,) = make_results(axes=("race",)).rows
    figure = su_comparison({"one": [axis_result]})
    stacked = sum(bar.get_width() for bar in bars(figure))  # the signed difference has bars too
    assert stacked == pytest.approx(axis_result.su.fairscore.value + axis_result.disparity.value)
    assert "served worse →" not in texts(figure)
    assert "0.086" in texts(figure)


@pytest.mark.parametrize(
    ("axis", "starred", "fixed"), [("gender", True, False), ("age", False, False), ("race", False, True)]
)
def test_only_claims_get_a_star_and_only_intervals_of_these_terms_the_other_mark(make_results, axis, starred, fixed):
    for kind, figure in all_figures(make_results(axes=(axis, "placebo"))).items():
        found = " ".join(texts(figure))
        if "su" not in kind:
            assert ("*" in found) == starred, kind
            assert ("‡" in found) == fixed, kind


def test_a_star_takes_terms_enough_whatever_the_p_value(gender):
    record, rows = gender
    record["groups"]["non-binary"]["terms"]["effective"] = 2.9
    found = texts(groups(rows()))
    assert "−0.102*" in found
    assert "+0.102" in found
    assert "+0.102*" not in found


def test_runs_beside_each_other_show_su_the_signed_disparity_and_the_placebo_of_the_same_dialogues(make_results):
    bleu = make_results().rows
    figure = su_comparison({"plain": bleu, "crossed": bleu})
    assert texts(figure).count("signed difference") == 2 * len(bleu)
    marks = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() == "|"]
    placebos = [row.disparity.value - row.beyond_placebo.value for row in bleu if not row.is_placebo]
    assert marks == pytest.approx([value for value in placebos for _ in range(2)])
    assert misplaced(figure) == []


@pytest.mark.parametrize("name", ["\udcff", "a\x00\x1b[31m", "$x_1$ \\frac{", "<b>&amp;"])
def test_any_name_is_drawn(name):
    figure = new_figure(3, 2)
    axes = figure.subplots()
    axes.set_title(name)
    axes.set_xticks([0, 1], [name, "b"])
    axes.plot([0, 1], [0, 1], label=name)
    axes.legend()
    assert to_svg(figure).startswith("<?xml")


def test_a_file_is_small_and_its_text_keeps_its_width_in_any_font(make_results):
    figure = groups([row for row in make_results().rows if row.metric.name == "corpus_bleu"])
    svg = to_svg(figure)
    assert len(svg) < 25_000
    texts_in_file = re.findall(r"<text [^>]*>", svg)
    assert len(texts_in_file) > 20
    assert all('textLength="' in text for text in texts_in_file)
    named = set(re.findall(r' id="([^"]*)"', svg))
    assert named == set(re.findall(r'(?:url\(|href=")#([^)"]*)', svg))
