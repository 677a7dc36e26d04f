from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Annotation, Text

import counton
from counton.base.errors import InvalidInputError
from counton.base.exact import quantity
from counton.charts import Caption, Curves, plot_loss, plot_totals, totals
from counton.charts.style import PALETTE, save_figure, shorten, shorten_all, tick

pytestmark = pytest.mark.slow  # most of it draws

WORDS = Caption("t", "s", "y")


def curves(last: list[float], steps: int = 50) -> Curves:
    times = np.datetime64("2013-01-01") + np.arange(steps) * np.timedelta64(1, "h")
    estimates = np.linspace(0, 1, steps)[:, None] * np.array(last)
    names = [f"group {n}" for n in range(len(last))]
    return Curves(times.astype("datetime64[us]"), names, estimates, estimates - 5, estimates + 5)


def test_thinning_keeps_the_last_step() -> None:
    whole = curves([100.0, 50.0], steps=8760)
    thin = whole.thin(1000)
    assert 900 < len(thin.times) <= 1000
    assert thin.times[-1] == whole.times[-1]
    assert np.array_equal(thin.estimates[-1], whole.estimates[-1])


@pytest.mark.parametrize("last", [[7.0], [60_000.0, 50_000.0, 700.0, 30.0], [0.0, 0.0], [-5.0]])
@pytest.mark.parametrize("steps", [1, 2, 50])
def test_plot_totals_names_groups_and_privacy_unit(
    last: list[float], steps: int, tmp_path: Path
) -> None:
    figure = plot_totals(
        curves(last, steps), Caption("Departures", "one departure is protected", "count")
    )
    shown = [" ".join(text.get_text().split()) for text in figure.texts]
    assert shown[0] == "Departures"
    assert shown[1].startswith("one departure is protected")
    titles = [axes.get_title("left") for axes in figure.axes if axes.lines or axes.collections]
    assert {title.split("   ")[0] for title in titles} == {f"group {n}" for n in range(len(last))}
    assert all(title.endswith("± 5") for title in titles)
    save_figure(figure, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_values_have_thousands_separators() -> None:
    figure = plot_totals(curves([58_650.0]), WORDS)
    assert figure.axes[0].get_title("left") == "group 0   58,650 ± 5"
    assert tick(60_000.0) == "60,000"
    assert quantity(-1234.0, 20.0) == "−1,234"
    assert quantity(-0.2, 20.0) == "0"
    assert quantity(1_020.62, 0.0) == "1,020.62"


def test_a_group_without_a_name_is_drawn() -> None:
    figure = plot_totals(replace(curves([5.0, 7.0]), groups=["", "named"]), WORDS)
    assert [axes.get_title("left") for axes in figure.axes] == ["   5 ± 5", "named   7 ± 5"]


def test_plot_totals_refuses_empty_series() -> None:
    with pytest.raises(
        InvalidInputError, match="nothing to draw, because no step has been released"
    ):
        plot_totals(curves([1.0], steps=0), WORDS)
    with pytest.raises(InvalidInputError, match="nothing to draw, because no group is shown yet"):
        plot_totals(curves([]), WORDS)


@pytest.mark.slow
def test_plot_totals_draws_first_groups_and_states_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert totals.MOST_PANELS == 24
    monkeypatch.setattr(totals, "MOST_PANELS", 6)
    many = curves([float(place) for place in range(23)])
    figure = plot_totals(many, WORDS)
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert "the first 6 of 23 groups" in " ".join(" ".join(texts).split())
    shown = [axes.get_title("left").split("   ")[0] for axes in figure.axes]
    assert shown == many.groups[:6]


@pytest.mark.parametrize("running", [True, False])
def test_groups_are_ordered_by_size_over_whole_series(running: bool) -> None:
    """The last window of three large groups is as small as noise can make it, or nearly."""
    large = [4000.0, 3000.0, 2000.0, 1000.0]
    small = [30.0, 20.0]
    whole = curves([*large, *small])
    starts = None if running else whole.times - (whole.times[1] - whole.times[0])
    windows = replace(whole, starts=starts)
    windows.estimates[:] = [*large, *small]
    windows.estimates[-1] = [5.0, 4.0, 4000.0, 6.0, 90.0, 80.0]
    figure = plot_totals(windows, WORDS)
    names = [axes.get_title("left").split("   ")[0] for axes in figure.axes]
    assert names == [f"group {number}" for number in range(6)]
    assert "each chart with its own scale" in " ".join(figure.texts[1].get_text().split())


@pytest.mark.parametrize(("size", "said"), [(58_650.0, True), (90.0, False)])
def test_plot_totals_notes_bands_narrower_than_line(size: float, said: bool) -> None:
    figure = plot_totals(curves([size]), WORDS)
    subtitle = " ".join(figure.texts[1].get_text().split())
    assert ("where no band is seen, it is narrower than the line" in subtitle) == said


def test_groups_of_like_size_share_a_scale() -> None:
    figure = plot_totals(curves([1000.0, 1001.0, 900.0]), WORDS)
    assert "all on one scale" in " ".join(figure.texts[1].get_text().split())
    assert len({axes.get_ylim() for axes in figure.axes if axes.lines}) == 1


def test_a_single_step_is_a_point_with_its_interval() -> None:
    (axes,) = plot_totals(curves([7.0], 1), WORDS).axes
    assert axes.get_title("left") == "group 0   0 ± 5"
    assert len(axes.lines) == len(axes.collections) == 1


def test_shorten_cuts_long_names_in_the_middle() -> None:
    assert shorten("a" * 12 + "b" * 13) == "a" * 12 + "…" + "b" * 11
    assert shorten("a" * 24) == "a" * 24


#: Names that have the same beginning, or the same end, or both.
ALIKE = [
    ["Universitätsklinikum Nord, Haus 1", "Universitätsklinikum Nord, Haus 2"],
    ["1, Universitätsklinikum Nord, Haus", "2, Universitätsklinikum Nord, Haus"],
    ["Klinikum Nord, Haus 1, Ambulanz am Tor", "Klinikum Nord, Haus 2, Ambulanz am Tor"],
    ["a" * 60 + "X" + "b" * 60, "a" * 60 + "Y" + "b" * 60, "a" * 60 + "Z" + "b" * 60],
    ["short", "short and then much longer than the room for it"],
    ["long…er", "long and so on, und so weiter, lang und länger"],
]


@pytest.mark.parametrize("names", ALIKE, ids=lambda names: names[0][:20])
@pytest.mark.parametrize("most", [8, 12, 24])
def test_shorten_all_keeps_different_names_different(names: list[str], most: int) -> None:
    shown = shorten_all(names, [most] * len(names))
    assert len(set(shown)) == len(names)
    assert all(len(name) <= most for name in shown)
    for text, name in zip(shown, names, strict=True):
        if len(name) <= most:
            assert text == name
            continue
        begin, _, end = text.partition("…")
        numbered = end.rsplit(" ", 1)[-1] == str(names.index(name) + 1)
        fitting = [one for one in names if one.startswith(begin) and one.endswith(end)]
        assert numbered or fitting == [name]


def test_plot_totals_heads_panels_of_long_names_apart() -> None:
    names = [f"Universitätsklinikum Nordstadt, Station {number}" for number in range(6)]
    figure = plot_totals(
        replace(curves([5.0 + number for number in range(6)]), groups=names), WORDS
    )
    shown = [axes.get_title("left").split("   ")[0] for axes in figure.axes]
    assert len(set(shown)) == 6
    assert all("…" in name for name in shown)


def test_neighbouring_colours_differ_in_lightness_or_hue() -> None:
    def rgb(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)

    colours = [rgb(colour) for colour in PALETTE]
    for one, other in zip(colours, colours[1:] + colours[:1], strict=True):
        assert np.abs(one - other).max() > 60


def test_plot_loss_draws_values_of_table() -> None:
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
            plan.best.errors.loss([age], "paper"),
            plan.best.errors.loss([age]),
        ]
        assert drawn == pytest.approx([float(loss[0]) for loss in said])


def test_dollar_signs_in_names_are_no_formulas(tmp_path: Path) -> None:
    shown = replace(curves([5.0, 7.0]), groups=["$\\frac$", "a_b^c"])
    parts = {name: getattr(shown, name)[-1:] for name in ("times", "estimates", "lower", "upper")}
    for one in (shown, replace(shown, **parts)):  # curves, and points of a single step
        words = Caption("$\\frac$", "$\\sum$", "$\\frac$")
        save_figure(plot_totals(one, words), tmp_path / "chart.png")
        assert (tmp_path / "chart.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "targets",
    [
        {24: 1, 8760: 3},
        *(pytest.param(targets, marks=pytest.mark.long) for targets in ({1: 1}, {0: 0.001})),
    ],
)
@pytest.mark.long
def test_plot_loss_labels_do_not_overlap(targets: dict[int, float]) -> None:
    figure = plot_loss(counton.plan_expiring(targets), {"a day": 1, "ten years": 87600}, "Loss")
    ax = figure.axes[0]
    names = [text for text in ax.texts if isinstance(text, Annotation) and text.xy[0] == 1.02]
    assert len(names) == 2
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
