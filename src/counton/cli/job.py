"""One run of ``count`` or ``sum``: read events, release the windows that have ended, keep track."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from counton.analysis.intervals import check_level
from counton.analysis.plots import check_groups
from counton.cli.definition import Definition, check, define, reopen
from counton.cli.intake import Intake, compare
from counton.cli.progress import Report, silent
from counton.cli.request import Request
from counton.errors import HorizonExceeded, InvalidInput, ReplayMismatch, SumOverflow
from counton.events.files import EventFile
from counton.events.tally import UNKNOWN, Tally, Unknown, tally
from counton.events.times import CLOCK_CHANGE, ClockChange
from counton.events.windows import microseconds, moment, parse_time
from counton.mechanisms.specification import LARGEST_SUM
from counton.noise import Key
from counton.store import Store, Stream, keyfile
from counton.store.database import parse

#: Cells released in one transaction.
_CHUNK = 2**20
#: Floats of the data are exact up to this many grid cells; beyond it, fractions are passed.
_EXACT_FLOATS = 2**45


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Attributes:
        definition: of the stream.
        stream: to read the journal from; the caller closes it.
        before, after: steps released before and after the run.
        until: microseconds; windows that ended by then are released.
        until_stated: the caller gave ``until``; else it is the newest event's time.
        tally: of the events. Exact: only for the operator.
        late: rows that arrived for windows released earlier. Exact: only for the operator.
    """

    definition: Definition
    stream: Stream
    before: int
    after: int
    until: int
    until_stated: bool
    tally: Tally
    late: int


def run(request: Request, report: Report = silent) -> Outcome:
    """Read, check, release, and keep what was seen.

    Everything that can be wrong with options or events is found before the state is touched.

    Raises:
        InvalidInput: an option or the data is outside what is allowed.
        StateError: the state does not fit what was asked.
        ReplayMismatch: rows have disappeared, or a file was counted before.
    """
    _check_choices(request)
    report("choosing a strategy", 0.05)
    saved = find_stream(request.state, request.stream)
    file = EventFile(request.events, request.file_format)
    if saved is None:
        definition = define(request)
    else:
        definition = reopen(saved["spec"], saved["details"], request.stream)
        check(definition, request)
    if request.plot is not None:
        check_groups(len(definition.groups))
    report("reading events", 0.25)
    found = _read(file, definition, request)
    until, stated = _until(request, definition, found)
    ended = definition.windows.ended_by(until)
    if saved is None:
        intake = _compare({}, found, definition, 0, ended, request.append)
        _refuse_overflow(definition, intake)
        stream = _create(request, definition)
    else:
        stream = Stream.open(request.state, request.stream, key=_key(request, saved))
    try:
        digests = _sources(stream, file, request) if found.rows else ()
        released = stream.step  # another process may have released since the state was read
        intake = _compare(stream.observed(), found, definition, released, ended, request.append)
        _refuse_overflow(definition, intake)
        late = intake.late_rows
        _release(stream, definition, intake, digests, report)
    except BaseException:
        stream.close()
        raise
    return Outcome(definition, stream, released, stream.step, until, stated, found, late)


def find_stream(state: str, name: str) -> dict[str, Any] | None:
    """What the state says about a stream, or None if there is no such stream yet."""
    url = parse(state)
    on_server = url.get_backend_name() != "sqlite"
    if not on_server and not Path(url.database or "").exists():
        return None
    with Store(state, create=on_server) as store:
        return next((s for s in store.describe()["streams"] if s["name"] == name), None)


def _check_choices(request: Request) -> None:
    for option, given, known in (
        ("--unknown", request.unknown, UNKNOWN),
        ("--clock-change", request.clock_change, CLOCK_CHANGE),
    ):
        if given not in known:
            raise InvalidInput(f"{option} is {given!r}; use one of {', '.join(known)}")
    check_level(request.level)


def _read(file: EventFile, definition: Definition, request: Request) -> Tally:
    return tally(
        file,
        definition.columns,
        definition.windows,
        definition.domain,
        unknown=cast(Unknown, request.unknown),
        grid=definition.contribution.to_grid if definition.what == "sum" else None,
        clock_change=cast(ClockChange, request.clock_change),
        time_format=request.time_format,
    )


def _until(request: Request, definition: Definition, found: Tally) -> tuple[int, bool]:
    windows = definition.windows
    end = moment(windows.end).isoformat()
    if request.until is not None:
        until = microseconds(parse_time(request.until, windows.timezone))
        if until > windows.end:
            raise HorizonExceeded(
                f"--until {request.until} is beyond the end of step {windows.steps:,}, {end}; give "
                f"--until {end} for the rest of this stream and start another one for what follows"
            )
        now = datetime.now(UTC)
        if moment(until) > now:
            raise InvalidInput(
                f"--until {request.until} lies in the future (now is {now:%Y-%m-%dT%H:%M}Z), so "
                f"windows would be released before they end and could not be counted again; give "
                f"a time that has passed"
            )
        return until, True
    if found.newest is None:
        raise InvalidInput(
            f"{request.events} holds no rows, so it says of no window that it has ended; give "
            f"--until, or at least one event"
        )
    newest = moment(found.newest)
    if found.beyond:
        raise HorizonExceeded(
            f"the newest event ({newest.isoformat()}) is beyond the end of step "
            f"{windows.steps:,}, {end}; give --until {end} for the rest of this stream and start "
            f"another one for what follows"
        )
    if newest > datetime.now(UTC):
        raise InvalidInput(
            f"the newest event ({newest.isoformat()}) lies in the future, so windows would be "
            f"released before they end; correct the event or give --until"
        )
    return found.newest, False


def _key(request: Request, saved: dict[str, Any]) -> Key | None:
    """The key of ``--key`` for a stream that exists."""
    return None if request.key is None else keyfile.load(request.key, saved["key_fingerprint"])


def _create(request: Request, definition: Definition) -> Stream:
    path = request.key
    keeper = nullcontext() if path is None else keyfile.for_creation(request.state, path)
    with keeper as key:
        return Stream.create(
            request.state,
            request.stream,
            definition.strategy,
            definition.guarantee,
            key=key,
            contribution=definition.contribution,
            shape=definition.shape,
            details=definition.details,
        )


def _sources(stream: Stream, file: EventFile, request: Request) -> tuple[str, ...]:
    """The file's digest where it holds new events only, and so must not be counted twice."""
    if not request.append:
        return ()
    digest = f"sha256:{file.digest()}"
    if stream.has_source(digest):
        raise ReplayMismatch(
            f"{file.name} has been counted already ({digest[:18]}...); leave it out, or drop "
            f"--append if the file holds everything since the first window"
        )
    return (digest,)


def _compare(
    kept: dict[int, NDArray[np.int64]],
    found: Tally,
    definition: Definition,
    released: int,
    target: int,
    append: bool,
) -> Intake:
    return compare(
        kept,
        found.cells,
        released=released,
        target=target,
        groups=definition.groups,
        windows=definition.windows,
        measures=("rows",) if definition.what == "count" else ("rows", "total"),
        append=append,
        bounds=_bounds(definition),
    )


def _bounds(definition: Definition) -> tuple[int, int]:
    """The least and the most one row can add, in grid units."""
    contribution = definition.contribution
    if contribution.lower is None or contribution.upper is None:
        return 1, 1
    low, high = contribution.to_grid([float(contribution.lower), float(contribution.upper)])
    return int(low), int(high)


def _refuse_overflow(definition: Definition, intake: Intake) -> None:
    most = LARGEST_SUM >> definition.strategy.fraction_bits
    if intake.largest_sum > most:
        raise SumOverflow(
            f"the values add up to {intake.largest_sum:,} times the resolution; the bound is "
            f"{most:,}: use a coarser --resolution or narrower bounds"
        )


def _release(
    stream: Stream,
    definition: Definition,
    intake: Intake,
    sources: tuple[str, ...],
    report: Report,
) -> None:
    if intake.target == intake.released:
        if sources:
            stream.observe(intake.pending(), sources=sources)
        return
    # New events come in one transaction, because their file can be given only once.
    new = intake.target - intake.released
    for steps in [_all(intake)] if sources else _chunks(intake):
        report("releasing", 0.4 + 0.3 * (steps.start - intake.released - 1) / new)
        observed = intake.observed(steps)
        if sources:
            observed |= intake.beyond()
        inputs = _in_data_units(definition, intake.inputs(steps))
        stream.release_many(
            inputs.reshape(len(steps), *definition.shape), observed=observed, sources=sources
        )


def _all(intake: Intake) -> range:
    return range(intake.released + 1, intake.target + 1)


def _chunks(intake: Intake) -> Iterator[range]:
    size = max(1, _CHUNK // intake.groups)
    for start in range(intake.released + 1, intake.target + 1, size):
        yield range(start, min(start + size, intake.target + 1))


def _in_data_units(definition: Definition, cells: NDArray[np.int64]) -> NDArray[Any]:
    contribution = definition.contribution
    if contribution.resolution is None:
        return cells
    if np.abs(cells).max(initial=0) <= _EXACT_FLOATS:
        return contribution.from_grid(cells)
    exact = np.empty(cells.shape, dtype=object)
    for position in np.ndindex(cells.shape):
        exact[position] = int(cells[position]) * contribution.resolution
    return exact
