"""A window's number stands on its window, a colour belongs to a group, words say what is shown."""

from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text

from counton import PureDP, release
from counton.base.errors import InvalidInputError
from counton.charts.totals import tick_names, window_names
from counton.run import annotate, export

pytestmark = pytest.mark.slow  # most of it draws

GROUPS = ["Cathedral", "Harbour", "Zoo"]
VISITS = pl.DataFrame(
    {
        "at": [datetime(2024, 3, 1 + n // 20, n % 20 + 4) for n in range(620)],
        "museum": [GROUPS[(n % 20 > 13) + (n % 20 > 18)] for n in range(620)],
        "visitor": [f"v{n % 50}" for n in range(620)],
        "age": [n % 90 for n in range(620)],
    }
)
BASE: dict[str, Any] = {
    "time": "at", "timezone": "Europe/Berlin", "start": date(2024, 3, 1), "windows": 400,
    "guarantee": PureDP(50),
}  # fmt: skip
BY: dict[str, Any] = {"group_by": "museum", "groups": GROUPS}


def counted(folder: Path, until: date = date(2024, 4, 1), **more: Any) -> Any:
    asked = {
        **BASE,
        "every": "1d",
        "state": folder / "s.db",
        "until": until,
        "privacy_unit": "visit",
    }
    return release("count", VISITS, **{**asked, **more})


def words(figure: Any) -> str:
    figure.canvas.draw()  # ticks get their names
    found = [text.get_text() for text in figure.findobj(Text) if text.get_visible()]
    return " | ".join(" ".join(text.split()) for text in found if text.strip())


def day_number(time: datetime) -> float:
    """A moment as an axis counts it: days since 1970."""
    return (time - datetime(1970, 1, 1)) / timedelta(days=1)


def spans(axes: Any) -> list[tuple[float, float]]:
    """Where bars stand."""
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]


@pytest.mark.parametrize(("every", "until"), [("1d", 4), ("1h", 2), ("1mo", 62)])
def test_a_bar_stands_on_its_window(tmp_path: Path, every: str, until: int) -> None:
    end = date(2024, 2, 29) + timedelta(until)
    found = counted(tmp_path, end, every=every, series="per-window")
    axes = found.figures()["windows"].axes[0]
    table = found.table()
    assert len(axes.patches) == table.height
    local = [table[name].dt.replace_time_zone(None) for name in ("window_start", "window_end")]
    for (low, high), start, stop in zip(spans(axes), *local, strict=True):
        assert day_number(start) < low < high < day_number(stop)
        assert high - low > 0.8 * (day_number(stop) - day_number(start))
    tall = [bar.get_height() for bar in axes.patches]
    assert tall == pytest.approx(table["estimate"].to_list())
    assert axes.get_xlim() == pytest.approx((day_number(local[0][0]), day_number(local[1][-1])))


def test_levels_of_groups_reach_from_beginning_to_end(tmp_path: Path) -> None:
    found = counted(tmp_path, date(2024, 3, 8), series="per-window", **BY)
    figure = found.figures()["windows"]
    edges = [day_number(datetime(2024, 3, day)) for day in range(1, 9)]
    wanted = [edge for pair in pairwise(edges) for edge in pair]
    lines = [line for axes in figure.axes for line in axes.lines]
    assert len(lines) == 3
    for line in lines:
        assert list(line.get_xdata()) == pytest.approx(wanted)
        values = list(line.get_ydata())
        assert values[::2] == values[1::2]


def test_ticks_name_the_day_on_which_windows_lie(tmp_path: Path) -> None:
    hours = counted(tmp_path, date(2024, 3, 2), every="1h", series="per-window")
    said = words(hours.figures()["windows"])
    assert "00:00 1 Mar 2024" in said
    assert "24:00" in said
    assert "2 Mar" not in said.replace("2 Mar 2024, ", "")
    month = np.array(["2024-03-01", "2024-04-01"], "datetime64[us]")
    assert window_names(month[:1], month[1:]) == ["Mar\n2024"]
    year = np.array(["2024-01-01", "2025-01-01"], "datetime64[us]")
    assert window_names(year[:1], year[1:]) == ["2024"]
    weeks = np.array(["2024-03-25", "2024-04-01"], "datetime64[us]")
    assert window_names(weeks[:1], weeks[1:]) == ["25 Mar –\n31 Mar\n2024"]
    hour = np.array(["2024-03-25T05", "2024-03-25T06"], "datetime64[us]")
    assert window_names(hour[:1], hour[1:]) == ["05:00–\n06:00\n25 Mar 2024"]


NEW_YEAR = {
    "weeks": (
        ["2024-12-23", "2024-12-30", "2025-01-06", "2025-01-13"],
        ["23 Dec –\n29 Dec\n2024", "30 Dec 2024 –\n5 Jan 2025", "6 Jan –\n12 Jan"],
    ),
    "weeks from 06:00": (
        ["2024-12-23T06", "2024-12-30T06", "2025-01-06T06"],
        ["23 Dec 06:00 –\n30 Dec 06:00\n2024", "30 Dec 2024 06:00 –\n6 Jan 2025 06:00"],
    ),
    "quarters": (
        ["2024-10-01", "2025-01-01", "2025-04-01"],
        ["1 Oct –\n31 Dec\n2024", "1 Jan –\n31 Mar\n2025"],
    ),
    "days": (["2024-12-31", "2025-01-01", "2025-01-02"], ["Tue 31 Dec\n2024", "Wed 1 Jan\n2025"]),
    "months": (["2024-12-01", "2025-01-01", "2025-02-01"], ["Dec\n2024", "Jan\n2025"]),
    "years": (["2024-01-01", "2025-01-01", "2026-01-01"], ["2024", "2025"]),
    "hours": (
        ["2024-12-31T18", "2025-01-01T00", "2025-01-01T06"],
        ["18:00–\n00:00\n31 Dec 2024", "00:00–\n06:00\n1 Jan 2025"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("length", NEW_YEAR)
def test_window_names_over_new_year_have_their_years(length: str) -> None:
    edges, names = NEW_YEAR[length]
    times = np.array(edges, "datetime64[us]")
    assert window_names(times[:-1], times[1:]) == names
    days = np.array([day_number(datetime(2023, 12, 25)) + 7 * week for week in range(3)])
    assert tick_names(days, days[-1]) == ["25 Dec\n2023", "1 Jan\n2024", "8 Jan"]


def test_words_are_those_of_the_stream(tmp_path: Path) -> None:
    alone = words(counted(tmp_path, date(2024, 3, 8)).figures()["totals"])
    assert "all" not in alone.split(" | ")
    assert any(part.startswith("visits ") for part in alone.split(" | "))
    assert "Running number of visits" in alone
    assert "since 1 March 2024; with 95% intervals" in alone
    assert "Noise protects each single visit (pure differential privacy" in alone
    assert "times: Europe/Berlin" in alone
    people = {
        "user": "visitor",
        "max_contributions": 3,
        "once_per_window": True,
        "stream": "people",
        "privacy_unit": "visitor",
    }
    windows = counted(tmp_path, date(2024, 3, 8), series="per-window", **people, **BY)
    said = words(windows.figures()["windows"])
    assert "Number of distinct visitors, by museum" in said
    assert "events" not in said
    own = windows.figures(title="Guests", axis="heads", source="City of Harbour")["windows"]
    said = words(own)
    assert said.split(" | ")[0] in ("Guests", "heads") or "| Guests |" in said
    assert "heads" in said
    assert "Source: City of Harbour. Noise protects each single visitor" in said


def test_stated_axis_names_the_only_curve(tmp_path: Path) -> None:
    figure = counted(tmp_path, date(2024, 3, 8)).figures(axis="guests")["totals"]
    heading, *_ = (axes.get_title(loc="left") for axes in figure.axes)
    assert heading.startswith("guests ")
    assert words(figure).count("guests") == 1
    assert "; number of visits" not in words(figure)


def test_a_narrow_chart_names_its_groups_and_fits(tmp_path: Path) -> None:
    found = counted(tmp_path, date(2024, 3, 8), series="both", **BY)
    for figure in found.figures(width=4, source="City of Harbour").values():
        assert figure.get_figwidth() == 4
        figure.canvas.draw()
        tall = figure.get_figheight()
        wide = figure.get_figwidth()
        for text in figure.texts:
            box = text.get_window_extent()
            assert 0 <= box.x0 < box.x1 <= wide * figure.dpi, text.get_text()
            assert 0 <= box.y0 < box.y1 <= tall * figure.dpi, text.get_text()
        titles = {axes.get_title("left").split()[0] for axes in figure.axes if axes.lines}
        assert titles == set(GROUPS)
    for width in (0.0, 2.9, 31, float("nan"), "4", True):
        with pytest.raises(InvalidInputError, match="too small or too large for a chart"):
            found.figures(width=width)


@pytest.mark.parametrize(
    ("unit", "several"),
    [
        ("aircraft", "aircraft"), ("people", "people"), ("tweets", "tweets"), ("person", "people"),
        ("Box", "Boxes"), ("epoch", "epochs"), ("human", "humans"),
    ],
)  # fmt: skip
def test_chart_titles_use_plural_of_unit(tmp_path: Path, unit: str, several: str) -> None:
    """In the titles and on the axes of totals, answers and tables that are released once."""
    found = counted(tmp_path, date(2024, 3, 8), privacy_unit=unit)
    drawn = words(found.figures()["totals"])
    assert f"| Running number of {several} |" in f"| {drawn} |"
    assert f"; number of {several} |" in f"{drawn} |"
    assert any(part.startswith(f"{several} ") for part in drawn.split(" | "))


def test_figures_of_some_steps_and_groups_have_their_notes_alone(tmp_path: Path) -> None:
    counted(tmp_path, date(2024, 3, 8), series="per-window", **BY)
    (state,) = tmp_path.glob("*.db")
    group, other = BY["groups"][:2]
    annotate(state, "2024-03-02", "counter broken", group=group)
    annotate(state, "2024-03-05", "a holiday")
    whole = words(export(state).figures()["windows"])
    assert "counter broken" in whole
    assert "a holiday" in whole
    steps = export(state).only(steps=range(4, 7))
    shown = words(steps.figures()["windows"])
    assert "counter broken" not in shown
    assert "a holiday" in shown
    groups = words(export(state).only(groups=[other]).figures()["windows"])
    assert "counter broken" not in groups
    assert "a holiday" in groups
