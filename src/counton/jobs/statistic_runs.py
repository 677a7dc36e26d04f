"""One durable run of a statistic over a file of events: what ``counton statistic`` does.

Steps are windows of time, or single rows (letters, edges) where there is no column of times. The
file holds everything since the first step; what has been released is compared with it and never
released again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.errors import HorizonExceeded, InvalidInput, ReplayMismatch, StateError, field
from counton.events.files import open_source
from counton.events.ordered import Ordered, letters_of, ordered_rows
from counton.events.windows import (
    CLOCK_CHANGE,
    ClockChange,
    Windows,
    load_zone,
    microseconds,
    moment,
    parse_time,
)
from counton.exact import check_integer
from counton.jobs.guards import check_most
from counton.jobs.job import NOW, Events, Progress, guarantee_from, silent, stated
from counton.mechanisms import Release, Releases
from counton.mechanisms.intervals import check_level, window_halfwidths
from counton.privacy import Guarantee
from counton.statistics.base import Exact, Statistic
from counton.statistics.cuts import Cuts
from counton.statistics.quantiles import Quantiles, QuantilesReading
from counton.statistics.readings import Reading
from counton.statistics.running import statistic_of
from counton.statistics.top_k import TopK, TopKReading
from counton.store import Store, Stream, state_file
from counton.store.database import Closing

if TYPE_CHECKING:
    from counton.exact import Number
    from counton.store.store import Found

_KIND = "statistic of events"
#: Values released in one transaction.
_CHUNK = 2**20


@dataclass(frozen=True)
class StatisticRequest:
    """What a statistic of a file of events is asked; None where something is left out.

    A new stream needs steps, a guarantee and, with ``time``, the beginning and length of windows; a
    later run may leave them out, and may not contradict them.

    Attributes:
        statistic: one of ``counton.statistics``.
        events: all rows since the first step, as of `counton.jobs.Job`.
        state: path of a SQLite file, or a database URL.
        columns: of the parts of one event, in the order in which the statistic takes them; none:
            the file is a text, and its letters are the events.
        numbers: those of the columns that hold numbers.
        flags: those of the columns that hold true and false.
        only: values that a column may have; rows with others are counted nowhere.
        time: column of times; None: each row is a step.
        every, start, until, timezone: windows of time, as of `counton.jobs.Job`.
        steps: how many steps the stream will ever have.
        epsilon, delta, rho: the guarantee.
        name: within the state.
        key: where the key is kept: a file, ``env:NAME``, ``command:...``; None: ``STATE.key``.
        file_format, time_format, clock_change: how the events are read.

    >>> from counton.statistics import TopK
    >>> request = StatisticRequest(TopK(["home", "shop"]), "visits.csv", "visits.db", ["page"])
    >>> request.name
    'statistic'
    """

    statistic: Statistic
    events: Events = attribute(repr=False)  # a frame would show its rows
    state: str | os.PathLike[str]
    columns: Sequence[str] = ()
    numbers: Sequence[str] = ()
    flags: Sequence[str] = ()
    only: Mapping[str, Sequence[str]] | None = None
    time: str | None = None
    every: str | None = None
    steps: int | None = None
    start: str | datetime | None = None
    until: str | datetime | None = None
    timezone: str | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    name: str = "statistic"
    key: str | os.PathLike[str] | None = None
    file_format: str | None = None
    time_format: str | None = None
    clock_change: str = "raise"


@dataclass(frozen=True)
class StatisticOutcome(Closing):
    """What a run did. Close it, or use it in a ``with`` block: it holds the stream open.

    Attributes:
        stream: to read from.
        windows: of time; None where each row is a step.
        before, after: steps released before and after the run.
        until: microsecond by which windows had ended; None without windows.
        until_stated: the caller gave ``until``; else it is the newest event's time.
        outside: rows before the first window or step, or after the last. Only for the operator.
        left_out: rows with values that are none of those known. Only for the operator.
        statistic: which, as this run shows it.
    """

    stream: Stream
    windows: Windows | None
    before: int
    after: int
    until: int | None
    until_stated: bool
    outside: int = attribute(repr=False)
    left_out: int = attribute(repr=False)
    statistic: Statistic

    def times(self, steps: range) -> NDArray[np.datetime64] | NDArray[np.int64]:
        """Ends of windows in local time, without a zone; without windows the steps."""
        if self.windows is None:
            return np.asarray(steps, np.int64)
        local = _moments(self.windows, self.windows.ends(steps)).dt.replace_time_zone(None)
        return np.asarray(local.to_numpy(), "datetime64[us]")

    def table(
        self,
        level: float = 0.95,
        ask: Sequence[Any] | None = None,
        steps: range | None = None,
        over: int | None = None,
    ) -> pl.DataFrame:
        """Readings of steps below each other: step, window, and the statistic's own columns.

        Args:
            level: probability that an interval holds the truth.
            ask: names of cells, where they are read on demand, None: all of the last step; sets
                of nodes, whose cuts from all others are asked; shares of quantiles; or groups,
                instead of the largest.
            steps: which, in order; None: all.
            over: what came in so many steps up to each; None: in all steps so far.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9]; names that are none, or given for a
                statistic whose cells are all released; or ``over`` below 1, or of a statistic
                whose cells are read on demand.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from counton.statistics import Distinct
        >>> folder = tempfile.TemporaryDirectory()
        >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
        >>> _ = events.write_text("visitor\\nann\\nbob\\nann\\n")
        >>> request = StatisticRequest(Distinct(), events, state, ["visitor"], steps=9, epsilon=1)
        >>> with run_statistic(request) as outcome:
        ...     outcome.table(steps=range(2, 4))["step"].to_list()
        [2, 3]
        >>> folder.cleanup()
        """
        on_demand, level = self.statistic.on_demand, check_level(level)
        choose = isinstance(self.statistic, Quantiles | TopK)
        if ask is not None and not on_demand and not choose:
            raise InvalidInput(
                f"{field('ask', ','.join(map(str, ask)))} names cells, and "
                f"{type(self.statistic).__name__} releases all it has to say; leave it out"
            )
        if steps is None:
            first = self.after if on_demand and ask is None else 1
            steps = range(max(first, 1), self.after + 1)
        begin = 0 if over is None else check_over(over, self.statistic)
        steps = steps[sum(step < begin for step in steps[:begin]) :]
        first = 1 if begin else steps.start if steps else 1
        if on_demand and ask is not None and steps:
            parts = [_history(self.stream, self.statistic, ask, steps, level)]
            place = np.repeat(np.arange(len(steps)), len(ask))
        else:
            readings = self.stream.readings(first, steps[-1] + 1, self.statistic) if steps else None
            parts = []
            for step in steps:
                assert readings is not None
                reading = readings[step - first]
                if 0 < begin < step:
                    reading = reading.since(readings[step - begin - first])
                parts.append(_columns(reading, level, ask))
            rows = [len(next(iter(part.values()))) for part in parts]
            place = np.repeat(np.arange(len(steps)), rows)
        return _framed(parts, np.asarray(steps, np.int64)[place], self.windows, max(begin, 1))

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()


def check_over(over: int, statistic: Statistic) -> int:
    """How many steps are looked back over.

    Raises:
        InvalidInput: below 1, or of a statistic whose cells are read on demand.
    """
    if statistic.on_demand:
        raise InvalidInput(
            f"{field('over', over)} takes an earlier reading of all cells away, and "
            f"{type(statistic).__name__} computes cells when they are asked for; leave it out"
        )
    return check_integer("over", over, 1)


def _moments(windows: Windows, us: NDArray[np.int64]) -> pl.Series:
    series = pl.Series(us).cast(pl.Datetime("us", "UTC"))
    return series.dt.convert_time_zone(windows.timezone)


def _framed(
    parts: Sequence[Mapping[str, Any]],
    steps: NDArray[np.int64],
    windows: Windows | None,
    over: int = 1,
) -> pl.DataFrame:
    """Columns below each other, with the step of each row, and its window."""
    columns: dict[str, Any] = {"step": steps}
    if windows is not None:
        ends = windows.ends(range(int(steps.max(initial=0)) + 1))  # from the stream's beginning
        columns["window_start"] = _moments(windows, ends[steps - over])
        columns["window_end"] = _moments(windows, ends[steps])
    for name in parts[0] if parts else ():
        columns[name] = np.concatenate([part[name] for part in parts])
    return pl.DataFrame(columns)


@dataclass(frozen=True)
class ReleasedStatistic:
    """Steps of a statistic as the journal has them, which takes no key and no events."""

    releases: Releases
    details: Mapping[str, Any]

    def table(self, level: float = 0.95) -> pl.DataFrame:
        """See `StatisticOutcome.table`."""
        terms = self.releases._terms
        statistic, values = statistic_of(terms)[0], self.releases.values
        stds, parts = self.releases.std.tolist(), []
        for place, step in enumerate(self.releases.steps):
            value = values[place] if terms.shape else values[place].item()
            reading = statistic.read(Release(step, value, stds[place], terms))
            parts.append(_columns(reading, level, None))
        rows = [len(next(iter(part.values()))) for part in parts]
        cut = self.details.get("windows")
        windows = cut and _cut(cut)
        return _framed(parts, np.repeat(np.asarray(self.releases.steps), rows), windows)


def _cut(kept: Mapping[str, Any]) -> Windows:
    start = datetime.fromisoformat(kept["from"])
    return Windows(start, kept["every"], kept["steps"], kept["timezone"])


def _history(
    stream: Stream, statistic: Statistic, ask: Sequence[Any], steps: range, level: float
) -> dict[str, Any]:
    """Cells that are asked for, or cuts, after all of some steps: a row for each, step by step."""
    terms = stream.terms
    if isinstance(statistic, Cuts):
        asked = [statistic.pairs(nodes, None) for nodes in ask]
        names, called = [" ".join(map(str, nodes)) for nodes in ask], "cut"
    else:
        asked = [np.array([statistic.cell(name)]) for name in ask]
        names, called = [statistic.name_of(int(cells[0])) for cells in asked], "cell"
    stops, stds = np.asarray(steps, np.int64), terms.std(range(1, steps[-1] + 1))
    found: dict[str, list[NDArray[Any]]] = {"estimate": [], "std": [], "low": [], "high": []}
    for cells in asked:
        every = stream.history(cells, range(steps.start, steps[-1] + 1))[:: steps.step].sum(axis=1)
        half = window_halfwidths(
            terms.strategy, terms.law, 0, stops, level, cells=len(cells)
        ) * float(terms.resolution)
        half = np.ceil(half) if every.dtype.kind == "i" else half
        std = math.sqrt(len(cells)) * stds[stops - 1]
        for name, column in zip(found, (every, std, every - half, every + half), strict=True):
            found[name].append(column)
    columns = {name: np.stack(parts, axis=1).ravel() for name, parts in found.items()}
    return {called: np.array(names * len(steps)), **columns}


def _columns(reading: Reading, level: float, ask: Sequence[Any] | None) -> dict[str, Any]:
    if ask is None:
        found = reading.table_columns(level)
    elif isinstance(reading, TopKReading):
        ranking = reading.ranking(len(reading.statistic.groups), level)
        kept = np.isin(ranking.names, ask)
        found = {
            "group": np.array(ranking.names)[kept],
            "estimate": ranking.values[kept],
            "std": np.full(kept.sum(), reading.std()),
            "low": ranking.low[kept],
            "high": ranking.high[kept],
        }
    else:
        assert isinstance(reading, QuantilesReading)
        found = reading.table_columns(level, ask)
    return {name: values for name, values in found.items() if name != "step"}


def run_statistic(
    request: StatisticRequest,
    progress: Progress = silent,
    *,
    approve: Callable[[], None] | None = None,
) -> StatisticOutcome:
    """Read, check, and release the steps that are new.

    Everything that can be wrong with the request or the events is found before the state is
    touched.

    Args:
        request: what is asked.
        progress: told where the run is.
        approve: called before anything is released; what it raises ends the run.

    Raises:
        InvalidInput: the request or the data is outside what is allowed.
        StateError: the state does not fit what was asked.
        ReplayMismatch: the events of a released step have changed.
        HorizonExceeded: more steps than the stream has.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from counton.statistics import TopK
    >>> folder = tempfile.TemporaryDirectory()
    >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
    >>> _ = events.write_text("time,page\\n2024-03-01T09:00,shop\\n2024-03-02T10:15,home\\n")
    >>> request = StatisticRequest(
    ...     TopK(["home", "shop"], k=1), events, state, ["page"], time="time", every="1d",
    ...     start="2024-03-01", steps=365, epsilon=1
    ... )
    >>> with run_statistic(request) as outcome:
    ...     outcome.before, outcome.after, outcome.table().columns[:4]
    (0, 1, ['step', 'window_start', 'window_end', 'rank'])
    >>> folder.cleanup()
    """
    if request.clock_change not in CLOCK_CHANGE:
        raise InvalidInput(
            f"{field('clock_change')} is {request.clock_change!r}; use one of "
            f"{', '.join(CLOCK_CHANGE)}"
        )
    check_most(getattr(request.statistic, "most", None))
    guarantee = guarantee_from(request.epsilon, request.delta, request.rho)
    saved = _look(request.state, request.name)
    if saved is None:
        stated(guarantee)
        if request.steps is None:
            raise InvalidInput(
                f"a new stream needs {field('steps')}; give it, or correct {field('state')} and "
                f"{field('name')}"
            )
    request, windows = _windows(request, saved)
    if request.only and windows is None:
        raise InvalidInput(
            f"rows with other values of {', '.join(request.only)} cannot be left out where each "
            f"row is a step, since how many steps there are would tell of them; give "
            f"{field('time')}"
        )
    if saved is not None:
        _check_saved(request, saved, guarantee, windows)
    if approve is not None:
        approve()
    progress("reading events", 0.1)
    events = _fitting(_events(request, windows), request, windows, saved)
    ended, until = _ended(request, windows, events)
    if saved is None:
        _try(request.statistic.begin(), events, _chunks(0, ended, request.statistic))
        progress("choosing a strategy", 0.3)
        assert guarantee is not None
        assert request.steps is not None
        batched = windows is not None
        planned = request.statistic.plan(request.steps, guarantee, batched=batched)
        stream = Stream.create(
            request.state,
            request.name,
            planned.best.strategy,
            guarantee,
            statistic=request.statistic,
            batched=batched,
            key=request.key,
            details=_details(request, windows),
        )
    else:
        stream = Stream.open(request.state, request.name, key=request.key)
    statistic = stream.statistic
    assert statistic is not None
    if isinstance(request.statistic, TopK):  # how many are shown may differ from run to run
        statistic = TopK(**{**statistic.parameters, "k": request.statistic.k})
    try:
        before = stream.step
        _release(stream, statistic, request, windows, events, ended, progress)
    except BaseException:
        stream.close()
        raise
    return StatisticOutcome(
        stream,
        windows,
        before,
        stream.step,
        until,
        request.until is not None,
        events.before + events.beyond,
        events.left_out,
        statistic,
    )


def _look(state: str | os.PathLike[str], name: str) -> Found | None:
    """What the state says of the stream, not yet as its writer; None if there is none."""
    place = state_file(state)
    if place is not None and not place.exists():
        return None
    with Store(state, create=place is None) as store:
        return store.find(name)


def kept_statistic(state: str | os.PathLike[str], name: str) -> Statistic | None:
    """The statistic of a stream, for what a later run leaves out; None if there is none."""
    found = _look(state, name)
    return None if found is None or not found.terms.statistic else statistic_of(found.terms)[0]


def _windows(
    request: StatisticRequest, saved: Found | None
) -> tuple[StatisticRequest, Windows | None]:
    """The windows of time, and the request with what the stream knows."""
    kept = {} if saved is None else saved.details
    if saved is not None and kept.get("kind") != _KIND:
        raise StateError(
            f"stream {request.name!r} is no statistic of a file of events; continue it with the "
            f"program that made it, or choose another {field('name')}"
        )
    cut = kept.get("windows")
    time = request.time or (cut and cut["time"])
    for name in ("every", "start", "until", "timezone"):
        if time is None and getattr(request, name) is not None:
            raise InvalidInput(
                f"{field(name, getattr(request, name))} cuts time, and there is no "
                f"{field('time')}, the column to find it in; give it, or leave {field(name)} out: "
                f"then each row is a step"
            )
    if time is None:
        return request, None
    request = replace(request, time=time)
    if not request.columns:
        read = {name: kept.get(name, ()) for name in ("columns", "numbers", "flags")}
        request = replace(request, **read)
    if not request.columns:
        raise InvalidInput(
            f"{field('time', time)} is a column of a table, and the events are a text of letters; "
            f"name the column of letters, or leave {field('time')} out"
        )
    timezone = request.timezone or (cut["timezone"] if cut else "UTC")
    if cut is not None:
        return request, _cut(cut)
    for name in ("every", "start"):
        if getattr(request, name) is None:
            raise InvalidInput(
                f"a new stream with {field('time')} needs {field(name)}; give it, or leave "
                f"{field('time')} out: then each row is a step"
            )
    assert request.every is not None
    assert request.steps is not None
    start = cast("datetime", _moment(request.start, timezone))
    return request, Windows(start, request.every, request.steps, timezone)


def _moment(given: str | datetime | None, timezone: str) -> datetime | None:
    if isinstance(given, datetime):
        given = given.isoformat()
    return None if given is None else parse_time(given, timezone)


def _details(request: StatisticRequest, windows: Windows | None) -> dict[str, Any]:
    return {
        "kind": _KIND,
        "columns": list(request.columns),
        "numbers": list(request.numbers),
        "flags": list(request.flags),
        "only": sorted(request.only or ()),
        "windows": windows
        and {
            "time": request.time,
            "every": windows.every,
            "from": windows.start.astimezone(UTC).isoformat(),
            "steps": windows.steps,
            "timezone": windows.timezone,
        },
    }


def _check_saved(
    request: StatisticRequest, saved: Found, guarantee: Guarantee | None, windows: Windows | None
) -> None:
    """A later run may leave out what defines a stream, and may not contradict it."""
    statistic, _ = statistic_of(saved.terms)
    if not request.statistic.allows(statistic):
        alike = repr(request.statistic) == repr(statistic)
        raise StateError(
            f"the statistic is {request.statistic!r}, but stream {request.name!r} was created with "
            f"{statistic!r}{' of other names, or in another order' if alike else ''}; give what it "
            f"was created with, or start another one with another {field('name')}"
        )
    horizon, start = saved.terms.strategy.horizon, None
    if windows is not None:
        horizon = windows.steps
        start = _moment(request.start, windows.timezone)
    kept = saved.details
    for name, given, known in (
        ("the columns", list(request.columns) or None, kept["columns"] or None),
        ("what is left out", sorted(request.only or ()), kept["only"]),
        (field("time"), request.time, (kept["windows"] or {}).get("time")),
        (field("every"), request.every, windows and windows.every),
        (field("start"), start, windows and windows.start),
        (field("timezone"), request.timezone, windows and windows.timezone),
        (field("steps"), request.steps, horizon),
        ("the guarantee", guarantee, saved.terms.guarantee),
    ):
        if given is not None and given != known:
            created = "without it" if known is None else f"with {known}"
            raise StateError(
                f"{name} is {given}, but stream {request.name!r} was created {created}; leave it "
                f"out to continue the stream, or start another one with another {field('name')}"
            )


def _unordered(request: StatisticRequest) -> bool:
    """Whether the order of rows of one time says nothing: of letters, and of comings it does."""
    return request.time is not None and not (request.statistic.of_letters or request.flags)


def _events(request: StatisticRequest, windows: Windows | None) -> Ordered:
    if not request.columns:
        alphabet = request.statistic.parameters.get("alphabet", ())
        if not isinstance(request.events, str | os.PathLike):
            if not (isinstance(request.events, list | tuple) and len(request.events) == 1):
                raise InvalidInput(
                    f"{field('events')} are several files or a frame, and letters are read from "
                    f"one text; give one file, or name the column of letters"
                )
            return letters_of(request.events[0], alphabet)
        return letters_of(request.events, alphabet)
    source = open_source(request.events, request.file_format)
    found = ordered_rows(
        source,
        request.columns,
        request.numbers,
        request.flags,
        only=request.only,
        time=request.time,
        windows=windows,
        clock_change=cast("ClockChange", request.clock_change),
        time_format=request.time_format,
        ties=_unordered(request),
    )
    if (part := source.changed()) is not None:
        raise InvalidInput(
            f"{part.name} changed while it was read, so it cannot be told what was counted; try "
            f"again when it is whole"
        )
    return found


def _ended(
    request: StatisticRequest, windows: Windows | None, events: Ordered
) -> tuple[int, int | None]:
    """How many steps have ended, and by when."""
    if windows is None:
        return len(events.stops), None
    if request.until is None:
        if events.newest is None:
            raise InvalidInput(
                f"the events hold no rows, so they say of no window that it has ended; give "
                f"{field('until')}, or at least one event"
            )
        if events.beyond:
            raise HorizonExceeded(
                f"the newest event ({moment(events.newest).isoformat()}) is beyond the end of step "
                f"{windows.steps:,}, {moment(windows.end).isoformat()}; give {field('until')} for "
                f"the rest of this stream and start another one for what follows"
            )
        return windows.ended_by(events.newest), events.newest
    now = microseconds(datetime.now(UTC))
    if request.until == NOW:
        until = min(now, windows.end)
    else:
        until = microseconds(cast("datetime", _moment(request.until, windows.timezone)))
    if until > now:
        raise InvalidInput(
            f"{field('until', request.until)} lies in the future, so windows would be released "
            f"before they end; give a time that has passed"
        )
    if until > windows.end:
        raise HorizonExceeded(
            f"{field('until', request.until)} is beyond the end of step {windows.steps:,}, "
            f"{moment(windows.end).isoformat()}; give that at most"
        )
    return windows.ended_by(until), until


def _fitting(
    events: Ordered, request: StatisticRequest, windows: Windows | None, saved: Found | None
) -> Ordered:
    """Events where each row is a step, of which the stream has as many; of a full one its own."""
    if windows is not None:
        return events
    horizon = request.steps if saved is None else saved.terms.strategy.horizon
    rows = len(events.stops)
    if horizon is None or rows <= horizon:
        return events
    if saved is None or saved.step < horizon:
        remedy = (
            f"{field('steps', rows)}, or more" if saved is None else f"the first {horizon:,} rows"
        )
        raise HorizonExceeded(
            f"there are {rows:,} rows, each a step, and the stream has {horizon:,} steps; give "
            f"{remedy}: nothing is released"
        )
    return events.until(horizon)._replace(beyond=rows - horizon)


def _try(exact: Exact, events: Ordered, chunks: Iterable[range]) -> None:
    """Refuse events that are none, before anything is spent on them."""
    for steps in chunks:
        exact.take(*_of(events, steps))


def _of(events: Ordered, steps: range) -> tuple[Any, NDArray[np.int64]]:
    """Events of some steps, counted from 0, and their stops."""
    begin = int(events.stops[steps.start - 1]) if steps.start else 0
    stops = events.stops[steps.start : steps.stop] - begin
    return events.events[begin : begin + int(stops[-1])], stops


def _release(
    stream: Stream,
    statistic: Statistic,
    request: StatisticRequest,
    windows: Windows | None,
    events: Ordered,
    ended: int,
    progress: Progress,
) -> None:
    """Compare what was released with the events, and release the steps that are new."""
    before, stops = stream.step, events.stops
    if len(stops) < before:
        raise ReplayMismatch(
            f"the file holds {len(stops):,} events, and {before:,} have been released, one a step: "
            f"rows have disappeared; give the file of all events"
        )
    if before:
        progress("comparing", 0.4)
        known = events.until(before)
        try:
            stream.check_events(known.events, known.stops)
        except ReplayMismatch as error:
            order = ""
            if windows is not None and not _unordered(request):
                order = "rows of one time must keep their order, from file to file too; "
            raise ReplayMismatch(
                f"{error} ({order}late rows and corrections cannot be entered into steps that are "
                f"released; release later, by {field('until')}, or leave them out)"
            ) from error
    chunks = list(_chunks(before, ended, statistic))
    if before and len(chunks) > 1:  # each is committed by itself: all of them, or none
        _try(stream.exact(), events, chunks)
    for steps in chunks:
        progress("releasing", 0.5 + 0.4 * (steps.start - before) / max(1, ended - before))
        stream.release_events(*_of(events, steps))


def _chunks(before: int, ended: int, statistic: Statistic) -> Iterator[range]:
    """Steps that are released together, counted from 0."""
    cells = 1 if statistic.on_demand else math.prod(statistic.cells)
    size = max(1, _CHUNK // cells)
    for start in range(before, ended, size):
        yield range(start, min(start + size, ended))


def local_time(us: int, timezone: str) -> str:
    """A moment in local time, with its offset.

    >>> local_time(0, "UTC")
    '1970-01-01T00:00:00+00:00'
    """
    return moment(us).astimezone(load_zone(timezone)).isoformat()
