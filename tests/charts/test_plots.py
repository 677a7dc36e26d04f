from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Annotation, Text

import counton
from counton.base.errors import InvalidInput
from counton.base.exact import quantity
from counton.charts import Caption, Curves, plot_loss, plot_totals
from counton.charts.style import PALETTE, colours, save_figure, shorten, tick
from counton.charts.totals import split_by_size, spread

pytestmark = pytest.mark.slow  # most of it draws

WORDS = Caption("t", "s", "y")


def curves(last: list[float], steps: int = 50) -> Curves:
    times = np.datetime64("2013-01-01") + np.arange(steps) * np.timedelta64(1, "h")
    estimates = np.linspace(0, 1, steps)[:, None] * np.array(last)
    names = [f"group {n}" for n in range(len(last))]
    return Curves(times.astype("datetime64[us]"), names, estimates, estimates - 5, estimates + 5)


@given(st.lists(st.floats(0, 500), min_size=1, max_size=30), st.floats(1, 30))
def test_labels_keep_their_distance_and_order(wanted: list[float], gap: float) -> None:
    height = 500.0
    places = spread(np.array(wanted), gap, height)
    least = min(gap, height / max(len(wanted) - 1, 1))
    assert places.min() > -1e-6
    assert places.max() < height + 1e-6
    ordered = places[np.argsort(wanted, kind="stable")]
    assert (np.diff(ordered) > least - 1e-6).all()


def test_labels_stay_where_they_do_not_overlap() -> None:
    wanted = np.array([400.0, 10.0, 200.0])
    assert np.array_equal(spread(wanted, 12.0, 500.0), wanted)


def test_overlapping_labels_move_as_little_as_possible() -> None:
    assert spread(np.array([100.0, 100.0, 300.0]), 10.0, 500.0).tolist() == [95.0, 105.0, 300.0]


@given(st.lists(st.floats(-100, 1e6), min_size=1, max_size=30))
def test_every_group_is_in_one_panel(last: list[float]) -> None:
    panels = split_by_size(np.array(last))
    assert sorted(index for panel in panels for index in panel) == list(range(len(last)))
    assert len(panels) <= 2
    assert all(len(panel) >= 2 for panel in panels) or len(panels) == 1


def test_groups_of_like_size_share_a_panel() -> None:
    assert len(split_by_size(np.array([50.0, 40.0, 30.0, 20.0, 10.0]))) == 1
    assert split_by_size(np.array([5e4, 4e4, 3e4, 700.0, 600.0])) == [[0, 1, 2], [3, 4]]


def test_thinning_keeps_the_last_step() -> None:
    whole = curves([100.0, 50.0], steps=8760)
    thin = whole.thin(1000)
    assert 900 < len(thin.times) <= 1000
    assert thin.times[-1] == whole.times[-1]
    assert np.array_equal(thin.estimates[-1], whole.estimates[-1])


@pytest.mark.parametrize("last", [[7.0], [60_000.0, 50_000.0, 700.0, 30.0], [0.0, 0.0], [-5.0]])
@pytest.mark.parametrize("steps", [1, 2, 50])
def test_a_chart_names_every_group_and_says_what_is_protected(
    last: list[float], steps: int, tmp_path: Path
) -> None:
    figure = plot_totals(
        curves(last, steps), Caption("Departures", "one departure is protected", "count")
    )
    shown = [" ".join(text.get_text().split()) for text in figure.texts]
    assert shown[0] == "Departures"
    assert shown[1].startswith("one departure is protected")
    places = [text for axes in figure.axes for text in (*axes.texts, *axes.get_yticklabels())]
    labels = {text.get_text() for text in places}
    assert labels >= {f"group {n}" for n in range(len(last))}
    assert any("± 5" in label for label in labels)
    save_figure(figure, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_values_have_thousands_separators() -> None:
    figure = plot_totals(curves([58_650.0]), WORDS)
    assert any("58,650" in text.get_text() for text in figure.axes[0].texts)
    assert tick(60_000.0) == "60,000"
    assert quantity(-1234.0, 20.0) == "−1,234"
    assert quantity(-0.2, 20.0) == "0"
    assert quantity(1_020.62, 0.0) == "1,020.62"


def test_a_group_without_a_name_is_drawn() -> None:
    figure = plot_totals(replace(curves([5.0, 7.0]), groups=["", "named"]), WORDS)
    assert [text.get_text() for text in figure.axes[0].texts][1::2] == ["7 ± 5", "5 ± 5"]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing to draw, because no step has been released"):
        plot_totals(curves([1.0], steps=0), WORDS)
    with pytest.raises(InvalidInput, match="nothing to draw, because no group is shown yet"):
        plot_totals(curves([]), WORDS)


@pytest.mark.slow
@pytest.mark.parametrize("panels", [False, True])
def test_of_many_groups_the_largest_are_drawn_and_it_says_so(panels: bool) -> None:
    many = curves([float(place) for place in range(41)])
    figure = plot_totals(many, WORDS, panels=panels)
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert "the 24 largest of 41 groups" in " ".join(" ".join(texts).split())
    shown = [axes.get_title("left").split("   ")[0] for axes in figure.axes]
    assert shown == many.groups[:16:-1]


@pytest.mark.parametrize("running", [True, False])
def test_what_is_small_is_so_over_the_whole_series(running: bool) -> None:
    """The last window of three large groups is as small as noise can make it, or nearly."""
    large, small = [4000.0, 3000.0, 2000.0, 1000.0], [30.0, 20.0]
    whole = curves([*large, *small])
    starts = None if running else whole.times - (whole.times[1] - whole.times[0])
    windows = replace(whole, starts=starts)
    windows.estimates[:] = [*large, *small]
    windows.estimates[-1] = [5.0, 4.0, 4000.0, 6.0, 90.0, 80.0]
    figure = plot_totals(windows, WORDS)
    names = [[text.get_text() for text in axes.texts][::2] for axes in figure.axes]
    enlarged = {"group 4", "group 5"}
    assert figure.axes[1].get_title("left") == f"the {len(names[1])} smallest, enlarged"
    assert (set(names[1]) == enlarged) == (not running)


def test_curves_of_different_kinds_are_drawn_in_their_order_and_the_rest_is_said() -> None:
    many = curves([float(place) for place in range(30)])
    figure = plot_totals(many, Caption("t", "s", ""), alike=False)
    assert "the first 24 of 30" in " ".join(figure.texts[1].get_text().split())
    shown = [axes.get_title("left").split("   ")[0] for axes in figure.axes]
    assert shown == list(many.groups[:24])


def test_more_groups_than_hues_have_small_charts() -> None:
    for count, charts in ((8, 1), (9, 9), (24, 24)):
        figure = plot_totals(curves([1000.0 + 200 * n for n in range(count)]), WORDS)
        assert len([axes for axes in figure.axes if axes.lines]) == charts
    figure = plot_totals(curves([1000.0, 1001.0, 1002.0]), WORDS)  # bands that overlap
    assert len([axes for axes in figure.axes if axes.lines]) == 3


@pytest.mark.parametrize(("size", "said"), [(58_650.0, True), (90.0, False)])
def test_a_band_that_cannot_be_seen_is_said_to_be_narrow(size: float, said: bool) -> None:
    figure = plot_totals(curves([size]), WORDS)
    subtitle = " ".join(figure.texts[1].get_text().split())
    assert ("where no band is seen, it is narrower than the line" in subtitle) == said


def test_a_single_step_is_a_number_or_bars_with_their_numbers() -> None:
    (axes,) = plot_totals(curves([7.0], 1), WORDS).axes
    assert [text.get_text() for text in axes.texts] == ["0 ± 5", "group 0"]
    assert not axes.patches
    several = curves([700.0, 90.0], 1)
    several.estimates[:] = [700.0, 90.0]
    figure = plot_totals(several, WORDS)
    assert "up to the end of 31 Dec 2012" in " ".join(figure.texts[1].get_text().split())
    bars: list[Any] = list(figure.axes[0].patches)
    assert [bar.get_width() for bar in bars] == [700.0, 90.0]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == several.groups
    assert len(figure.axes[0].texts) == 2


def test_long_names_are_cut() -> None:
    assert shorten("a" * 25) == "a" * 23 + "…"
    assert shorten("a" * 24) == "a" * 24


def test_neighbouring_colours_differ_in_lightness_or_hue() -> None:
    def rgb(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)

    colours = [rgb(colour) for colour in PALETTE]
    for one, other in zip(colours, colours[1:] + colours[:1], strict=True):
        assert np.abs(one - other).max() > 60


def test_no_two_curves_of_a_panel_have_one_colour() -> None:
    for count in (3, 16, 40):
        figure = plot_totals(curves([1000.0 + 200 * n for n in range(count)]), WORDS)
        assert any(axes.lines for axes in figure.axes)
        for axes in figure.axes:
            used = [line.get_color() for line in axes.lines]
            assert len(used) == len(set(used))
    assert len({*colours(40)}) == 40
    for one, other in pairwise(colours(40)):
        assert one[1:3] != other[1:3] or one[3:5] != other[3:5]


def test_the_picture_shows_what_the_table_says() -> None:
    plan = counton.plan_expiring({24: 1, 8760: 3})
    ages = {"a day": 24, "a year": 8760, "ten years": 87600}
    lines = plot_loss(plan, ages, "Loss").axes[0].lines
    for age in ages.values():
        drawn = [
            float(np.asarray(line.get_ydata())[np.asarray(line.get_xdata()) == age][0])
            for line in lines
            if len(np.asarray(line.get_xdata())) > 1
        ]
        said = [
            plan.baseline.loss([age]),
            plan.best.errors.loss([age], "paper"),
            plan.best.errors.loss([age]),
        ]
        assert drawn == pytest.approx([float(loss[0]) for loss in said])


def test_dollar_signs_in_names_are_no_formulas(tmp_path: Path) -> None:
    shown = replace(curves([5.0, 7.0]), groups=["$\\frac$", "a_b^c"])
    parts = {name: getattr(shown, name)[-1:] for name in ("times", "estimates", "lower", "upper")}
    for one in (shown, replace(shown, **parts)):  # curves, and bars of a single step
        words = Caption("$\\frac$", "$\\sum$", "$\\frac$")
        save_figure(plot_totals(one, words), tmp_path / "chart.png")
        assert (tmp_path / "chart.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("targets", "scale"), [({24: 1, 8760: 3}, "linear"), ({1: 1}, "log"), ({0: 0.001}, "log")]
)
def test_names_of_losses_stay_beside_the_axis_and_apart(
    targets: dict[int, float], scale: str
) -> None:
    figure = plot_loss(counton.plan_expiring(targets), {"a day": 1, "ten years": 87600}, "Loss")
    ax = figure.axes[0]
    assert ax.get_yscale() == scale
    names = [text for text in ax.texts if isinstance(text, Annotation) and text.xy[0] == 1.02]
    assert len(names) == 3
    places = sorted(
        (float(name.xy[1]), 0.0522 * (name.get_text().count("\n") + 1)) for name in names
    )
    assert places[0][0] - places[0][1] / 2 >= 0
    assert places[-1][0] + places[-1][1] / 2 <= 1
    for (low, height), (high, other) in pairwise(places):
        assert high - low >= (height + other) / 2
    low, high = ax.get_ylim()
    for line in ax.lines:
        ends = np.asarray(line.get_ydata(), np.float64)
        assert low <= ends[-1] <= high
