"""Versions of windows that are released again for late rows: what was known when, and how versions
differ.

A release is made after each window. Night t is the release after window t. It published the counts
then known of the last windows. The newest versions form a stream of windows whose errors depend on
their age (`counton.strategies.AsOf`), which answers all questions of a stream. Two versions of one
window share noise; versions of different windows share none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property, partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.arrays import read_only
from counton.base.errors import InvalidInput, field
from counton.base.exact import quote
from counton.base.windows import Windows, microseconds, parse_time
from counton.numbers import Design
from counton.numbers.formulas import CellSum, Formula, Quotient, Term
from counton.released.series import Series, local_times
from counton.strategies import AsOf, WindowsAndTotals, WindowVersions
from counton.strategies.streams.two_nights import TwoNights
from counton.strategies.streams.window_versions import EveryVersion
from counton.strategies.streams.windows_and_totals import LeastSquaresAsOf, by_night

#: A time at which versions were known: the number of a night, or a day or a moment.
When = int | str | date | datetime


@dataclass(frozen=True)
class Revisions:
    """All released counts of all windows, in a stream that releases a window again as its rows
    arrive.

    Each released count is called a version; all are public. Release t, called night t, is made
    after window t.

    Attributes:
        design: the design of the stream (strategy, guarantee and noise).
        nights: number of releases.
        read_values: function that returns `values`; it is called when they are first used.
        since: for undeclared groups, the first night that shows each group, in the order of cells.
            Earlier nights published nothing of the group, and its values there are 0. None: groups
            are declared, or there is one total.
    """

    design: Design[WindowVersions] | Design[WindowsAndTotals]
    nights: int
    read_values: Callable[[], NDArray[Any]]
    since: Mapping[str, int] | None = None

    @classmethod
    def of(
        cls, design: Design[Any], values: NDArray[Any], since: Mapping[str, int] | None = None
    ) -> Revisions:
        """Return the counts of all windows, given the array `values`; see the class."""
        return cls(design, len(values), partial(read_only, values), since)

    @cached_property
    def values(self) -> NDArray[Any]:
        """Released counts in data units, shape ``(nights, *cells, versions)``.

        The last axis has the counts released in one night: first the window that ended then, last
        the window that became final. If totals are released besides windows, the total of all
        arrivals follows.
        """
        found: NDArray[Any] = read_only(self.read_values())
        return found

    @property
    def lags(self) -> int:
        """Number of windows that must end after a window until its count is final."""
        return self.design.strategy.windows.lags

    def lags_of(self, windows: NDArray[np.int64] | range, night: int) -> NDArray[np.int64]:
        """Return, for each window, its lag after release ``night``: the number of windows that had
        ended after it when its newest count was released.

        Lags are at most `lags`, because the count of a final window is not released again.
        """
        return np.minimum(night - np.asarray(windows, np.int64), self.lags)

    def names(self, declared: Sequence[str]) -> Sequence[str]:
        """Return the names of the cells: ``declared``, or the names of groups that were found in
        the data.
        """
        return declared if self.since is None else tuple(self.since)

    def first_night(self, group: str) -> int:
        """Return the number of the first release that published numbers of a group."""
        return 1 if self.since is None else self.since[group]

    def up_to(self, night: int) -> Revisions:
        """Return a copy with only the counts of the first ``night`` releases; one is made after
        each window.
        """
        return replace(self, nights=night, read_values=partial(self._first_nights, night))

    def _first_nights(self, night: int) -> NDArray[Any]:
        return self.values[:night]

    def found_by(self, night: int) -> Mapping[str, int] | None:
        """Return, for each undeclared group that release ``night`` shows, the number of the first
        release that shows it.

        None: groups are declared.
        """
        if self.since is None:
            return None
        return {name: first for name, first in self.since.items() if first <= night}

    def newest(self, night: int) -> NDArray[Any]:
        """Return the newest count of each window after release ``night``, shape ``(night,
        *cells)``; a window's count is released again as rows arrive late.
        """
        windows = np.arange(1, night + 1)
        lags = self.lags_of(windows, night)
        found: NDArray[Any] = np.moveaxis(self.values, -1, 1)[windows + lags - 1, lags]
        return found

    def _read_by(self, strategy: Any) -> Design[Any]:
        """Return the design with another strategy, which reads the same noise."""
        return replace(self.design, strategy=strategy)

    def design_at(self, night: int) -> Design[AsOf]:
        """Return the design (strategy, guarantee and noise) of the counts that were the newest
        after release number ``night``.

        Its steps are the windows; each has one count.
        """
        return self._read_by(AsOf(self.design.strategy.windows, night))

    def read(self, night: int) -> tuple[Design[AsOf], NDArray[Any]]:
        """Return the number of each window as known after release ``night``.

        It is the newest released count of the window. If totals are released besides windows, it is
        the least-squares estimate from all measurements up to then.

        Returns:
            The design of these numbers (strategy, guarantee and noise), and the numbers, shape
            ``(night, *cells)``.
        """
        terms = self.design_of(night)
        return terms, self.numbers(night, terms)

    def design_of(self, night: int) -> Design[AsOf]:
        """Return the design of `read`, which needs no released value."""
        both = isinstance(self.design.strategy, WindowsAndTotals)
        return self.design_together(night) if both else self.design_at(night)

    def numbers(self, night: int, terms: Design[AsOf]) -> NDArray[Any]:
        """Return the numbers of `read`; ``terms`` is their design."""
        if not isinstance(terms.strategy, LeastSquaresAsOf):
            return self.newest(night)
        newest, errors, unit = self._inputs(night)
        found = terms.strategy.estimates(newest, errors)
        return found.reshape(night, *self.values.shape[1:-1]) * unit

    def design_together(self, night: int) -> Design[LeastSquaresAsOf]:
        """Return the design (strategy, guarantee and noise) of windows' numbers that are estimated
        by least squares.

        The estimates use all windows and totals released up to release number ``night``. Release t
        is made after window t.
        """
        both = self.design.strategy
        assert isinstance(both, WindowsAndTotals)
        return self._read_by(LeastSquaresAsOf(both, night, self.design.law))

    def newest_sums(self, night: int) -> tuple[Design[LeastSquaresAsOf], NDArray[np.float64]]:
        """Return running sums that end with each of the newest windows, estimated from all windows
        and totals released up to release ``night``.

        The first sum ends with the window before these. The second result is the sums, shape
        ``(sums, cells)``, in units of the resolution; the first is their design (strategy,
        guarantee and noise).
        """
        terms, (newest, errors, _) = self.design_together(night), self._inputs(night)
        return terms, terms.strategy.newest_sums(newest, errors)

    def _inputs(self, night: int) -> tuple[NDArray[Any], NDArray[np.float64], float]:
        """Return the inputs of least-squares estimates after release number ``night``.

        They are the newest counts of windows, the `innovations` of the totals, and the resolution.
        Both arrays are in multiples of the resolution.
        """
        unit = float(self.design.units.exact)
        return self.newest(night).reshape(night, -1) / unit, self.innovations, unit

    @cached_property
    def innovations(self) -> NDArray[np.float64]:
        """The new information in each released total, from which least-squares estimates are
        computed: shape ``(nights, cells)``.

        In each release the total grows by as much as the sum of the windows' counts, so the
        difference of these two growths is noise alone. An innovation is the part of this noise that
        is uncorrelated with all earlier releases, scaled to variance 1
        (`LeastSquaresAsOf.innovations`).
        """
        nights = self.nights
        _, *parts = by_night(self.values / float(self.design.units.exact), self.lags)
        strategy = self.design_together(nights).strategy
        return strategy.innovations(*(one.reshape(nights, -1) for one in parts))

    @cached_property
    def design_of_versions(self) -> Design[EveryVersion]:
        """The design (strategy, guarantee and noise) in which every released count of every window
        is a step of its own.

        It is for differences between counts of one window: it knows the noise that these share.
        """
        return self._read_by(EveryVersion(self.design.strategy.windows))

    def value(self, window: int, lag: int) -> NDArray[Any]:
        """Return the cells of a window's count as released ``lag`` windows after it: an array of
        shape ``cells``.
        """
        found: NDArray[Any] = self.values[window + lag - 1, ..., lag]
        return found

    def number(self, window: int, lag: int, cell: int = 0) -> Formula:
        """Return one cell of a window's count, as released ``lag`` windows after it, as a
        `Formula`: a number that can be combined with others.

        The formula knows the noise that two counts of one window share.
        """
        terms = self.design_of_versions
        step = terms.strategy.step_of(window, lag)
        value = float(self.value(window, lag).reshape(-1)[cell])
        return Formula.of(CellSum(value, terms, (Term(1.0, step - 1, step, cell),)))

    def at_version(self, number: Formula, night: int, group: int) -> Formula:
        """Return a number of one window as a `Formula` that knows which noise it shares with other
        versions of the window.

        A version is one of the window's successive released counts.

        Args:
            number: the number as computed from the newest counts after a release: sums of released
                cells, their quotients, or products of these.
            night: the number of the release.
            group: for undeclared groups, the index of the group in `names`.
        """
        terms, places = self.design_of_versions, math.prod(self.values.shape[2:-1])

        def of_cells(one: CellSum) -> CellSum:
            parts = []
            for part in one.parts:
                assert part.stop == part.start + 1, "of one window"
                step = terms.strategy.step_of(
                    part.stop, int(self.lags_of(range(part.stop, part.stop + 1), night)[0])
                )
                cell = part.cell if self.since is None else group * places + part.cell % places
                parts.append(part._replace(start=step - 1, stop=step, cell=cell))
            return replace(one, design=terms, parts=tuple(parts))

        def of_quotient(one: Quotient) -> Quotient:
            return Quotient(
                *(self.at_version(each, night, group) for each in (one.above, one.below))
            )

        return replace(
            number,
            sums=tuple((of_cells(one), weight) for one, weight in number.sums),
            quotients=tuple((of_quotient(one), weight) for one, weight in number.quotients),
            products=tuple(
                (of_quotient(one), of_quotient(other), weight)
                for one, other, weight in number.products
            ),
        )

    def difference(self, window: int, later: int, earlier: int, cell: int = 0) -> Formula:
        """Return by how much the number of a window differs between the tables of two releases.

        Numbers are those of `read`. The result is a formula of released cells, and knows the noise
        that both numbers share.

        Args:
            window: the window, which had ended by both releases.
            later, earlier: the numbers of the releases; the result is that of ``later`` minus that
                of ``earlier``.
            cell: the index of the cell.
        """
        both = self.design.strategy
        if not isinstance(both, WindowsAndTotals):
            lags = (min(night - window, self.lags) for night in (later, earlier))
            last, first = (self.number(window, lag, cell) for lag in lags)
            return last - first
        nights = sorted((earlier, later))
        terms = self._read_by(TwoNights(both, window, nights[0], nights[1], self.design.law))
        values = [float(self.read(night)[1][window - 1].reshape(-1)[cell]) for night in nights]
        first, last = (
            Formula.of(CellSum(value, terms, (Term(1.0, step - 1, step, cell),)))
            for step, value in enumerate(values, 1)
        )
        return last - first if later >= earlier else first - last


def versions_at_hand(revisions: Revisions | None, name: str) -> Revisions:
    """Return the numbers of windows in all releases, or raise an error if each window was released
    once.

    Args:
        revisions: these numbers; None: each window was released once.
        name: name of the stream, for the message.

    Raises:
        InvalidInput: each window was released once.
    """
    if revisions is None:
        raise InvalidInput(
            f"{name!r} has no versions to choose from: its windows are released only once, or the "
            "file has only the newest ones; read the state"
        )
    return revisions


def night_of(when: When, cut: Windows, last: int) -> int:
    """Return the number of the newest release at a given time. It is the number of windows that had
    ended and were released by then.

    Args:
        when: the number of windows itself; a day, which includes its end; or a moment.
        cut: how rows are assigned to steps.
        last: number of the newest release.

    Raises:
        InvalidInput: ``when`` is not a time, or is before the end of the first window.

    >>> from datetime import UTC
    >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30)
    >>> [night_of(when, days, 9) for when in ("2024-03-02", "2024-03-02T12:00", 99)]
    [2, 1, 9]
    """
    if isinstance(when, int):
        night = when
    else:
        day = isinstance(when, date) and not isinstance(when, datetime)
        text = when if isinstance(when, str) else when.isoformat()
        day = day or (isinstance(when, str) and len(when.strip()) == 10)
        try:
            moment = parse_time(text, cut.timezone)
        except InvalidInput as error:
            raise InvalidInput(f"{field('as_of', quote(when))} is not a time: {error}") from None
        us = microseconds(moment)
        if day:
            one_day = Windows(moment, "1d", 1, cut.timezone)
            us = one_day.end
        night = cut.ended_by(us)
    if night < 1 or last < 1:
        first = cut.at(int(cut.ends(range(1, 2))[0]))
        raise InvalidInput(
            f"{field('as_of', when)} is before anything was published; the first window ended at "
            f"{first}: give a later time"
        )
    return min(night, last)


#: Names of the formats in which versions are returned.
FORMS = ("all", "epiprocess")


def versions_of_cells(
    revisions: Revisions, cut: Windows, cells: Mapping[str, int], level: float, last: int
) -> pl.DataFrame:
    """Return a table of all released counts or sums of windows, up to release ``last``.

    Rows are in the order of windows, and then of lags: a lag is the number of windows that had
    ended after the row's window. An undeclared group has rows only from the first release that
    shows it.

    Args:
        revisions: the counts or sums of windows in all releases.
        cut: how rows are assigned to steps.
        cells: index of each shown group, by name.
        level: probability with which each interval holds.
        last: number of the newest release.
    """
    places, parts = list(cells.values()), []
    totals = isinstance(revisions.design.strategy, WindowsAndTotals)
    by_lag = _read_together if totals else _as_released
    for lag, numbers in enumerate(by_lag(revisions, places, level, last)):
        windows = np.arange(1, last - lag + 1)
        names = pl.Series(list(cells), dtype=pl.String)
        each = {
            "step": windows,
            "window_start": local_times(cut, np.asarray(cut.ends(windows - 1), np.int64)),
            "window_end": local_times(cut, np.asarray(cut.ends(windows), np.int64)),
        }
        rows = np.repeat(np.arange(len(windows)), len(places))
        parts.append(
            pl.DataFrame(each)[rows]
            .with_columns(
                group=names.gather(np.tile(np.arange(len(places)), len(windows))),
                as_of=local_times(cut, np.asarray(cut.ends(windows + lag), np.int64)).gather(rows),
                lag=pl.lit(lag, pl.Int64),
                **{k: v for prefix, one in numbers.items() for k, v in one.columns(prefix).items()},
            )
            .with_columns(final=pl.lit(lag == revisions.lags))
        )
    table = pl.concat(parts).sort("step", "lag", maintain_order=True)
    if not revisions.since:
        return table
    first = pl.col("group").replace_strict(revisions.since, return_dtype=pl.Int64)
    return table.filter(pl.col("step") + pl.col("lag") >= first)


def _as_released(
    revisions: Revisions, places: list[int], level: float, last: int
) -> Iterator[dict[str, Series]]:
    """Yield, for each lag, the counts of all windows as they were released with this lag.

    The lag of a count is the number of windows that had ended after its window when it was
    released.

    Args:
        revisions: the counts of windows in all releases.
        places: indices of the groups.
        level: probability with which each interval holds.
        last: number of the newest release.
    """
    terms = revisions.design_at(last)
    for lag in range(min(revisions.lags + 1, last)):
        known = range(last - lag, last - lag + 1)
        values = revisions.values[lag:last, ..., lag].reshape(last - lag, -1)[:, places]
        std = np.repeat(np.asarray(terms.errors.std(known), np.float64), last - lag)
        yield {
            "": Series(values, std, np.repeat(terms.errors.halfwidths(known, level), last - lag))
        }


def _read_together(
    revisions: Revisions, places: list[int], level: float, last: int
) -> Iterator[dict[str, Series]]:
    """Yield, for each lag, running totals (key "") and numbers of windows (key "window_") by
    window.

    Each release estimates both from its windows and totals together. The lag of a number is the
    number of windows that had ended after its window when it was released.
    """
    lags = min(revisions.lags, last - 1)
    values = np.zeros((2, lags + 1, last, len(places)))
    errors = np.zeros((2, 2, lags + 1, last))  # std and half-widths of totals and of windows
    for night in range(1, last + 1):
        terms, sums = revisions.newest_sums(night)
        windows = np.arange(max(night - lags, 1), night + 1)
        sums, at = sums[-len(windows) - 1 :, places], (night - windows, windows - 1)
        values[(0, *at)], values[(1, *at)] = sums[1:], np.diff(sums, axis=0)
        for of, starts in enumerate((np.zeros_like(windows), windows - 1)):
            errors[(0, of, *at)] = terms.errors.window_std(starts, windows)
            errors[(1, of, *at)] = terms.errors.window_halfwidths(starts, windows, level)
    values *= float(revisions.design.units.exact)
    for lag in range(lags + 1):
        until = last - lag
        yield {
            prefix: Series(values[of, lag, :until], *errors[:, of, lag, :until])
            for of, prefix in enumerate(("", "window_"))
        }


def as_archive(table: pl.DataFrame, cut: Windows) -> pl.DataFrame:
    """Convert a table of all released counts of windows to an archive of the R package epiprocess.

    The archive has a number for each place, day and version (time of the release). The place is
    what identifies a number among those of one window, such as the name of the group, or "all" if
    there is only one. If windows are days or longer, times are days, so that a version is the day
    on which it was published.
    """
    when = {"time_value": pl.col("window_start"), "version": pl.col("as_of")}
    if cut.length is None:
        when = {name: one.dt.date() for name, one in when.items()}
    labels = [name for name in ("group", "statistic", "name", "share") if name in table.columns]
    place = pl.concat_str([pl.col(name).cast(pl.String) for name in labels], separator=" / ")
    value = next(one for one in ("window_estimate", "estimate", "value") if one in table.columns)
    return table.select(geo_value=place if labels else pl.lit("all"), **when, value=value)


def final_windows(terms: Design, until: int) -> int:
    """Return how many of the first ``until`` windows are final.

    All are final, unless windows are released again for late rows.
    """
    strategy = terms.strategy
    if not isinstance(strategy, AsOf):
        return until
    return max(0, min(until, strategy.night - strategy.windows.lags))


def version_columns(strategy: AsOf, steps: NDArray[np.int64], cut: Windows) -> dict[str, Any]:
    """Return the table columns ``as_of``, ``lag`` and ``final`` of windows' newest counts.

    ``as_of`` is the time when the count was released, ``lag`` the number of windows that had ended
    after the counted window, and ``final`` True if the count is not released again.
    """
    lags = strategy.lags(steps)
    ends = local_times(cut, cut.ends(steps + lags))
    return {"as_of": ends, "lag": lags, "final": lags == strategy.windows.lags}
