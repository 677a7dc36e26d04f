"""Charts of windows that are released again when late rows have come: the counts known at different
times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.base.locales import local_text
from counton.charts.style import (
    FAINT,
    NARROW,
    PALETTE,
    Caption,
    axis_inches,
    clean,
    drawing,
    foot_inches,
    frame,
    name_axis,
    names_below,
    names_inches,
    number_ticks,
    shade,
    shorten,
)
from counton.charts.totals import Curves, hatch, largest_groups, name_times, positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
#: Largest number of groups that get a panel.
MOST_PANELS = 4
#: Number of windows that are drawn: the last ones.
_MOST_WINDOWS = 70
_PANEL_INCHES, _MAP_INCHES = 1.75, 1.5


@dataclass(frozen=True)
class Versions:
    """Data of a chart: released counts of windows, known at different times. Contains released
    values only.

    A window is released again after later windows. Each release of it is a version; the version's
    lag is the number of windows that had ended after the window.

    Attributes:
        starts, ends: starts and ends of the windows, ``datetime64``, shape ``(windows,)``.
        groups: names of the groups.
        estimates, lower, upper: arrays of shape ``(windows, lags, groups)``; NaN if a version is
            not published yet.
        final: the lag after which a window no longer changes.

    >>> days = np.arange("2026-01-01", "2026-01-04", dtype="datetime64[D]")
    >>> values = np.arange(12.0).reshape(3, 2, 2)
    >>> Versions(days, days + 1, "ab", values, values, values, 1).largest(1).groups
    ['b']
    """

    starts: NDArray[np.datetime64]
    ends: NDArray[np.datetime64]
    groups: Sequence[str]
    estimates: Floats
    lower: Floats
    upper: Floats
    final: int

    def largest(self, count: int) -> Versions:
        """Return the data of the ``count`` largest groups, largest first.

        The size of a group is the mean of the newest versions of all windows.
        """
        return self.of(largest_groups(self.newest(self.estimates).mean(axis=0), count))

    def of(self, places: Sequence[int]) -> Versions:
        """Return the data of only those groups whose indices are ``places``."""
        return replace(
            self,
            groups=[self.groups[place] for place in places],
            estimates=self.estimates[:, :, places],
            lower=self.lower[:, :, places],
            upper=self.upper[:, :, places],
        )

    def last(self, count: int) -> Versions:
        """Return the data (all versions) of only the last ``count`` windows."""
        parts = {
            name: getattr(self, name)[-count:]
            for name in ("starts", "ends", "estimates", "lower", "upper")
        }
        return replace(self, **parts)

    @property
    def lags(self) -> NDArray[np.int64]:
        """For each window, how many later windows had ended when its newest version was released:
        int64, shape ``(windows,)``.
        """
        known = np.isfinite(self.estimates[:, :, 0])
        return np.asarray(known.sum(axis=1) - 1, np.int64)

    def newest(self, values: Floats) -> Floats:
        """Select the newest version of each window.

        Args:
            values: array of shape ``(windows, lags, groups)``.

        Returns:
            Shape ``(windows, groups)``.
        """
        return np.asarray(values[np.arange(len(values)), self.lags])

    @property
    def provisional(self) -> int:
        """Number of windows at the end whose numbers late rows may still change."""
        return int((self.lags < self.final).sum())

    @property
    def shares(self) -> Floats:
        """The part of each window's final count that was known at each lag, all groups together:
        shape ``(windows, lags)``.

        A lag is the number of windows that had ended after the window. The values are NaN for
        windows that are not final, or whose final count is not above 0. Noise may make a value
        larger than 1 or negative.
        """
        total = self.estimates.sum(axis=2)
        final = total[:, -1:] if total.shape[1] > self.final else np.full((len(total), 1), np.nan)
        return np.asarray(total / np.where(final > 0, final, np.nan))


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of the final counts of the last windows. Contains released values only.

    Attributes:
        estimates, lower, upper: arrays of shape ``(windows, groups)``, for the groups of the
            `Versions` that are drawn in the same chart.
    """

    estimates: Floats
    lower: Floats
    upper: Floats


@drawing
def plot_nowcast(
    versions: Versions, forecasts: Forecasts, words: Caption, *, period: str = "window"
) -> Figure:
    """Draw the newest version of each window, and forecasts of the windows that may still change.

    Args:
        versions: data of at least one window.
        forecasts: forecasts of the windows that may still change.
        words: the words around the chart.
        period: the word for a window, such as "day".

    >>> days = np.arange("2026-01-01", "2026-01-04", dtype="datetime64[D]")
    >>> values = np.cumsum(np.ones((3, 2, 1)), axis=1)
    >>> values[2, 1] = np.nan
    >>> versions = Versions(days, days + 1, ["visits"], values, values, values, 1)
    >>> ahead = Forecasts(*np.array([[[2.0]], [[1.5]], [[2.5]]]))
    >>> len(plot_nowcast(versions, ahead, Caption("Visits"), period="day").axes)
    1
    """
    versions = versions.last(_MOST_WINDOWS)
    words = words.adding(local_text("; hatched: provisional, more rows may come"))
    legend = [(local_text("newest version"), PALETTE[0]), (local_text("forecast"), PALETTE[1])]
    most = float(np.nanmax([np.nanmax(versions.upper), np.nanmax(forecasts.upper)]))
    figure, axes = _frame_panels(words, legend, most, len(versions.groups))
    edges = _edges(versions)[-1 - len(forecasts.estimates) :]
    times = np.stack([edges[:-1], edges[1:]], axis=1).ravel()
    for place, ax in enumerate(axes):
        _draw_group(ax, versions, place, (), ())
        value, low, high = (
            np.repeat(part[:, place], 2)
            for part in (forecasts.estimates, forecasts.lower, forecasts.upper)
        )
        ax.fill_between(times, low, high, color=PALETTE[1], alpha=0.3, linewidth=0)
        ax.plot(times, value, color=PALETTE[1], linewidth=1.3)
        newest = (versions.newest(part)[:, place] for part in (versions.lower, versions.upper))
        _reach(ax, *newest, low, high)
    _name_all(figure, axes, versions, words, legend)
    return figure


@drawing
def plot_versions(versions: Versions, words: Caption, *, period: str = "window") -> Figure:
    """Draw the newest version of each window, earlier versions behind it, and how fast rows came.

    Windows that may still change are hatched. In the lower panel, a cell for each final window and
    lag shows the share of the final count that was known at this lag.

    Args:
        versions: data of at least one window.
        words: the words around the chart.
        period: the word for a window, such as "day".

    >>> days = np.arange("2026-01-01", "2026-01-04", dtype="datetime64[D]")
    >>> values = np.cumsum(np.ones((3, 2, 1)), axis=1)
    >>> versions = Versions(days, days + 1, ["visits"], values, values, values, 1)
    >>> len(plot_versions(versions, Caption("Visits"), period="day").axes)
    3
    """
    versions = versions.last(_MOST_WINDOWS)
    if versions.provisional:
        words = words.adding(local_text("; hatched: provisional, more rows may come"))
    shown = sorted({0, versions.final // 3} - {versions.final})
    behind = [_after(lag, period) for lag in shown]
    greys = ["#b8b8b8", "#8a8a8a"][-len(shown) :]
    legend = [(local_text("newest"), PALETTE[0]), *zip(behind, greys, strict=True)]
    has_map = bool(np.isfinite(versions.shares).any())
    most = float(np.nanmax(versions.upper))
    figure, axes = _frame_panels(words, legend, most, len(versions.groups), has_map=has_map)
    for place in range(len(versions.groups)):
        _draw_group(axes[place], versions, place, shown, greys)
    _name_all(figure, axes, versions, words, legend)
    if has_map:
        _draw_map(figure, axes[-1], versions, period, words.width < NARROW)
    return figure


def _frame_panels(
    words: Caption,
    legend: Sequence[tuple[str, str]],
    most: float,
    panels: int,
    *,
    has_map: bool = False,
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure with panels below each other, and their axes; the last panel may be a map (a
    table of coloured cells).

    ``most`` is the largest number on the vertical axes.
    """
    wide, heights = words.width, [_PANEL_INCHES] * panels + [_MAP_INCHES] * has_map
    tall, above = sum(heights) + has_map * 0.45, 0.3 + axis_inches(words.axis, wide)
    below = 0.55 + names_inches(legend, wide)
    figure, bottom, top = frame(words, tall, above=above, below=below)
    ratios = {"height_ratios": heights}
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw=ratios)[:, 0]
    left = max(0.6, 0.3 + 0.078 * len(f"{most:,.0f}")) / wide
    right = 1 - (0.25 if wide < NARROW else 1.15) / wide
    figure.subplots_adjust(left=left, right=right, bottom=bottom, top=top, hspace=0.42)
    return figure, axes


def _name_all(
    figure: Figure,
    axes: NDArray[Any],
    versions: Versions,
    words: Caption,
    legend: Sequence[tuple[str, str]],
) -> None:
    """Write the names of groups and days on the panels, and the legend."""
    narrow = words.width < NARROW
    for ax, name in zip(axes, versions.groups, strict=False):
        title = shorten(name) if len(versions.groups) > 1 else words.axis
        ax.set_title(title, loc="left", size=9, color=FAINT, pad=4, parse_math=False)
        _name_days(ax, versions, narrow, hidden=ax is not axes[-1])
    if narrow:
        names_below(figure, legend, foot_inches(words.foot, words.width))
    else:
        style: dict[str, Any] = {"transform": axes[0].transAxes, "va": "top", "size": 8.5}
        for number, (name, colour) in enumerate(legend):
            axes[0].text(1.02, 1.0 - 0.13 * number, name, color=colour, **style)


def _after(lag: int, period: str) -> str:
    if lag == 0:
        return local_text("known at its end")
    windows = local_text(period if lag == 1 else f"{period}s")
    return local_text("{count} {windows} later", count=str(lag), windows=windows)


def _edges(versions: Versions) -> Floats:
    return positions(np.append(versions.starts, versions.ends[-1:]))


def _reach(ax: Axes, *shown: NDArray[np.float64]) -> None:
    """Extend the vertical axis to 0 and to all values, which may be negative because of noise."""
    low = min(0.0, *(float(np.nanmin(part)) for part in shown))
    high = max(0.0, *(float(np.nanmax(part)) for part in shown))
    margin = 0.06 * ((high - low) or 1.0)
    ax.set_ylim(low - margin * (low < 0), high + margin)


def _draw_group(
    ax: Axes, versions: Versions, place: int, shown: Sequence[int], greys: Sequence[str]
) -> None:
    from matplotlib.ticker import MaxNLocator

    edges, colour = _edges(versions), PALETTE[0]
    values, low, high = (
        versions.newest(part)[:, place]
        for part in (versions.estimates, versions.lower, versions.upper)
    )
    clean(ax, grid="y")
    ax.set_xlim(edges[0], edges[-1])
    _reach(ax, versions.estimates[:, :, place], low, versions.upper[:, :, place])
    if versions.provisional:
        hatch(ax, edges[-1 - versions.provisional], edges[-1])
    times = np.stack([edges[:-1], edges[1:]], axis=1).ravel()
    for lag, grey in zip(shown, greys, strict=True):
        ax.plot(times, np.repeat(versions.estimates[:, lag, place], 2), color=grey, linewidth=0.8)
    ax.fill_between(
        times, np.repeat(low, 2), np.repeat(high, 2), color=colour, alpha=0.25, linewidth=0
    )
    ax.plot(times, np.repeat(values, 2), color=colour, linewidth=1.3)
    ax.yaxis.set_major_formatter(number_ticks())
    ax.yaxis.set_major_locator(MaxNLocator(4))


def _name_days(ax: Axes, versions: Versions, narrow: bool, *, hidden: bool) -> None:
    none = np.zeros((len(versions.ends), 0))
    times = Curves(versions.ends, (), none, none, none, starts=versions.starts)
    name_times(ax, times, 3, 4 if narrow else 7)
    ax.tick_params(axis="x", labelsize=8.5, labelcolor=FAINT, labelbottom=not hidden)


def _draw_map(figure: Figure, ax: Axes, versions: Versions, period: str, narrow: bool) -> None:
    """Draw how much of each window's final count was known at each lag, as a table of coloured
    cells.

    A lag is the number of windows that had ended after the window.
    """
    shares = np.clip(versions.shares, 0, 1).T
    edges = _edges(versions)
    lags = np.arange(len(shares) + 1) - 0.5
    from matplotlib.colors import LinearSegmentedColormap

    white = LinearSegmentedColormap.from_list("known", ["#ffffff", shade(PALETTE[0], 1.0)])
    low = float(
        np.floor(20 * np.nanquantile(shares, 0.02)) / 20
    )  # one late file hides no other shares
    mesh = ax.pcolormesh(edges, lags, shares, cmap=white, vmin=min(low, 0.95), vmax=1.0)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(lags[-1], lags[0])
    if versions.provisional:
        hatch(ax, edges[-1 - versions.provisional], edges[-1])
    title = local_text(
        "share of the final number that was known, {windows} later",
        windows=local_text(f"{period}s"),
    )
    name_axis(ax, title, figure.get_figwidth())
    for side in ("top", "right", "left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", labelsize=8.5, labelcolor=FAINT, length=0)
    _name_days(ax, versions, narrow, hidden=False)
    if not narrow:
        box = ax.get_position()
        bar = figure.add_axes((box.x1 + 0.03, box.y0, 0.015, box.height))
        colours = figure.colorbar(mesh, cax=bar, format=lambda value, _: f"{100 * value:.0f}%")
        colours.outline.set_visible(False)
        bar.tick_params(labelsize=8, labelcolor=FAINT, length=0)
