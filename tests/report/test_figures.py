"""Figures show the numbers they are given, and nothing lies on top of anything else."""

import json
import math
import re
from itertools import combinations, pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tod_bias.report.figures import comparison, contributions, figures, largest_pair, pairs
from tod_bias.report.outcome import read_axes
from tod_bias.report.palette import STAGE_COLOURS, inline, text_on, to_svg


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


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of labels whose boxes share more than a pixel; slanted ones have boxes that say nothing."""
    level = [(text.get_text(), box) for text, box in drawn(figure) if text.get_rotation() % 90 == 0]
    return [
        (first, second)
        for (first, a), (second, b) in combinations(level, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


def outside(figure: Figure) -> list[str]:
    frame = figure.bbox.padded(1)
    return [
        text.get_text()
        for text, box in drawn(figure)
        if not (frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)
    ]


def test_every_axis_gets_a_heatmap_and_the_run_a_chart_of_parts_and_of_arms(make_results):
    assert list(figures(make_results(axes=("gender", "placebo")))) == [
        "pairs_gender",
        "pairs_placebo",
        "contributions",
        "arms",
    ]


def test_no_label_overlaps_another_or_leaves_the_picture(make_results):
    for name, figure in figures(make_results()).items():
        assert (name, overlaps(figure), outside(figure)) == (name, [], [])


def test_slanted_stage_names_keep_more_than_a_line_apart(make_results):
    slanted = [text for text, _ in drawn(figures(make_results())["arms"]) if text.get_rotation() == 45]
    assert [text.get_text() for text in slanted] == ["api_call", "db", "response"]
    places = [text.get_transform().transform(text.get_position()) for text in slanted]
    height = slanted[0].get_fontsize() / 72 * 100  # figures have 100 dots an inch
    assert min(right[0] - left[0] for left, right in pairwise(places)) * math.sin(math.pi / 4) > height


def test_long_names_do_not_overlap_either(make_results):
    text = json.dumps(make_results())
    for short, long in (
        ("db", "rerank_candidates"),
        ("api_call", "recognise_intent"),
        ("age", "a_very_long_axis_name"),
        ("white", "native-american"),
        ("black", "pacific-islander"),
    ):
        text = re.sub(rf"\b{short}\b", long, text)
    for name, figure in figures(json.loads(text)).items():
        assert (name, overlaps(figure), outside(figure)) == (name, [], [])


def bars(figure: Figure) -> list[Rectangle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]


def test_stacked_parts_keep_their_sign_and_sum_to_the_fairscore(make_results):
    (axis,) = read_axes(make_results(axes=("race",)))
    widths = [bar.get_width() for bar in bars(contributions([axis]))]
    assert sum(widths) == pytest.approx(axis.fairscore.value)
    assert min(widths) == pytest.approx(-0.012)


def test_negative_parts_are_stacked_left_of_zero_and_positive_ones_right(make_results):
    (axis,) = read_axes(make_results(axes=("race",)))
    for bar in bars(contributions([axis])):
        if bar.get_width() == 0:
            continue
        ends = sorted((bar.get_x(), bar.get_x() + bar.get_width()))
        assert ends[1] <= 1e-12 if bar.get_width() < 0 else ends[0] >= -1e-12


def test_the_frame_holds_every_bar_and_interval(make_results):
    figure = contributions(read_axes(make_results()))
    for panel in figure.axes[:2]:
        low, high = panel.get_xlim()
        lines = [line for line in panel.lines if line.get_transform() == panel.transData]
        values = np.concatenate([line.get_xdata() for line in lines])
        assert low < min(values)
        assert max(values) < high


def test_cells_hold_the_fairscore_and_the_count_and_a_star_where_p_is_small(make_results):
    results = make_results(axes=("gender",))
    pair = results["axes"]["gender"]["pairs"]["woman>man"]
    pair["fairscore"]["p_value"] = 0.2
    (axis,) = read_axes(results)
    texts = [text.get_text() for text in pairs(axis, 0.2).axes[0].texts]
    assert len(texts) == 12
    assert texts[:4] == ["+0.103", "n=12†", "−0.113*", "n=24"]


def test_one_pair_without_bound_does_not_wash_out_all_colours(make_results):
    axes = read_axes(make_results(axes=("gender",)))
    assert largest_pair(axes) == pytest.approx(0.154)
    results = make_results(axes=("gender",))
    results["axes"]["gender"]["pairs"]["woman>man"]["fairscore"]["value"] = 142.0
    assert largest_pair(read_axes(results)) == 1.0


def test_undefined_pairs_are_written_as_such(make_results):
    results = make_results(axes=("gender",))
    results["axes"]["gender"]["pairs"]["woman>man"] = {"fairscore": {"value": None}, "signed": None, "dialogues": 2}
    texts = [text.get_text() for text in figures(results)["pairs_gender"].axes[0].texts]
    assert texts[:2] == ["n/a", "n=2†"]


def test_a_run_without_pairs_or_arms_has_no_chart_of_them(make_results):
    results = make_results(axes=("gender",))
    for key in ("pairs", "arms"):
        del results["axes"]["gender"][key]
    assert list(figures(results)) == ["contributions"]


def test_runs_are_compared_axis_by_axis_on_one_scale(make_results):
    runs = {"gpt2": read_axes(make_results()), "bart": read_axes(make_results(axes=("gender",)))}
    figure = comparison(runs)
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["gender", "age", "race", "placebo"]
    assert len({panel.get_xlim() for panel in figure.axes}) == 1
    assert overlaps(figure) == []


def test_the_same_numbers_give_the_same_file(make_results):
    first, second = (to_svg(figures(make_results(axes=("gender",)))["contributions"]) for _ in range(2))
    assert first == second


def test_an_inlined_figure_has_its_own_ids_and_no_prolog(make_results):
    svg = to_svg(figures(make_results(axes=("gender",)))["contributions"])
    html = inline(svg, "run-1", 'Bars of "gender" & more')
    assert html.startswith("<svg ")
    assert 'aria-label="Bars of &quot;gender&quot; &amp; more"' in html
    ids = set(re.findall(r'\bid="([^"]*)"', html))
    assert all(name.startswith("run-1-") for name in ids)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', html)) <= ids
    assert "<style" not in html
    assert "<metadata" not in html


@pytest.mark.parametrize(
    ("colour", "text"), [((1, 1, 1, 1), "#141414"), ((0, 0, 0, 1), "#ffffff"), ((0.12, 0.37, 0.66, 1), "#ffffff")]
)
def test_text_on_a_colour_stays_readable(colour, text):
    assert text_on(colour) == text


def test_stage_colours_are_okabe_and_itos():
    assert {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"} == set(STAGE_COLOURS)


def test_heatmaps_explain_the_signs_that_they_use(make_results):
    (axis,) = read_axes(make_results(axes=("gender",)))
    assert pairs(axis, 0.2)._supxlabel.get_text().split("\n") == [
        "signed fairscore: + answered worse, − better",
        "* p < 0.05 (Holm over the pairs)",
        "† fewer than 15 dialogues: intervals are too narrow",
    ]
    results = make_results(axes=("gender",))
    for pair in results["axes"]["gender"]["pairs"].values():
        pair["fairscore"]["p_value"] = 1.0
        pair["dialogues"] = 15
    del results["axes"]["gender"]["pairs"]["woman>man"]
    (axis,) = read_axes(results)
    assert pairs(axis, 0.2)._supxlabel.get_text().split("\n") == [
        "signed fairscore: + answered worse, − better",
        "hatched: no dialogue rewritten so, or undefined",
    ]


@pytest.mark.parametrize(("value", "extend"), [(0.9, "neither"), (1.5, "max"), (-2.8, "min")])
def test_colour_bars_point_to_values_beyond_their_ends(make_results, value, extend):
    results = make_results(axes=("gender",))
    results["axes"]["gender"]["pairs"]["woman>man"] |= {"fairscore": {"value": abs(value)}, "signed": value}
    (axis,) = read_axes(results)
    figure = pairs(axis, largest_pair([axis]))
    assert figure.axes[1]._colorbar.extend == extend
    assert (overlaps(figure), outside(figure)) == ([], [])


def test_parts_of_zero_draw_nothing_over_the_line_at_zero(make_results):
    results = make_results(axes=("gender",))
    for part in results["axes"]["gender"]["attribution"].values():
        if isinstance(part, dict):
            part["value"] = 0.0
    assert bars(contributions(read_axes(results))) == []


def test_arms_are_drawn_with_their_intervals(make_results):
    results = make_results(axes=("gender", "placebo"))
    results["axes"]["gender"]["arms_ci"] = {key: [0.25, 0.5] for key in results["axes"]["gender"]["arms"]}
    figure = figures(results)["arms"]
    lines = [line.get_xdata().tolist() for line in figure.axes[1].lines]
    assert lines == [[0.25, 0.5]] * 8
    assert figure.axes[1].get_xlim()[1] > 0.5
    assert figure._supxlabel.get_text() == "fairscore that stays, 95% interval"
    assert (overlaps(figure), outside(figure)) == ([], [])
    assert figures(make_results(axes=("gender",)))["arms"]._supxlabel.get_text() == "fairscore that stays"
