"""One run of a job: read events, release the windows that have ended, keep track."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from counton.errors import HorizonExceeded, InvalidInput, field
from counton.events.files import EventFile
from counton.events.tally import UNKNOWN, Tally, Unknown, tally
from counton.events.times import CLOCK_CHANGE, ClockChange
from counton.events.windows import microseconds, moment, parse_time
from counton.jobs.contradictions import check
from counton.jobs.definition import Definition, define, reopen
from counton.jobs.outcome import Outcome
from counton.jobs.progress import Report, silent
from counton.jobs.releasing import compared, refuse_overflow, release, sources_of
from counton.jobs.request import Request
from counton.noise import Key
from counton.store import Store, Stream, keyfile, state_file

_WHAT = ("count", "sum")


def run(
    request: Request,
    report: Report = silent,
    *,
    approve: Callable[[Definition], None] | None = None,
) -> Outcome:
    """Read, check, release, and keep what was seen.

    Everything that can be wrong with options or events is found before the state is touched.

    Args:
        request: what is asked.
        report: told where the run is.
        approve: shown what defines the stream before events are read; what it raises ends the run.

    Raises:
        InvalidInput: an option or the data is outside what is allowed.
        StateError: the state does not fit what was asked.
        ReplayMismatch: rows have disappeared, or a file was counted before.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-01T11:30\\n2024-03-03T10:15\\n")
    >>> request = Request(
    ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
    ...     epsilon=1
    ... )
    >>> with run(request) as outcome:
    ...     outcome.before, outcome.after, outcome.released().estimates.shape
    (0, 2, (2, 1))
    >>> with run(Request("count", events, state, until="2024-03-04")) as outcome:
    ...     outcome.before, outcome.after, outcome.late
    (2, 3, 0)
    >>> folder.cleanup()
    """
    _check_choices(request)
    report("choosing a strategy", 0.05)
    saved = find_stream(request.state, request.name)
    file = EventFile(request.events, request.file_format)
    if saved is None:
        definition = define(request)
    else:
        definition = reopen(saved["terms"], saved["details"], request.name)
        check(definition, request)
    if approve is not None:
        approve(definition)
    report("reading events", 0.25)
    found = _read(file, definition, request)
    until, stated = _until(request, definition, found)
    ended = definition.windows.ended_by(until)
    if saved is None:
        intake = compared({}, found, definition, 0, ended, request.append)
        refuse_overflow(definition, intake)
        stream = _create(request, definition)
    else:
        stream = Stream.open(request.state, request.name, key=_key(request, saved))
    try:
        digests = sources_of(stream, file, request) if found.rows else ()
        before = stream.step  # another process may have released since the state was read
        intake = compared(stream.observed(), found, definition, before, ended, request.append)
        refuse_overflow(definition, intake)
        late = intake.late_rows
        release(stream, definition, intake, digests, report)
    except BaseException:
        stream.close()
        raise
    return Outcome(definition, stream, before, stream.step, until, stated, found, late)


def find_stream(state: str | os.PathLike[str], name: str) -> dict[str, Any] | None:
    """What the state says about a stream, or None if there is no such stream yet."""
    file = state_file(state)
    if file is not None and not file.exists():
        return None
    with Store(state, create=file is None) as store:
        return next((s for s in store.summary()["streams"] if s["name"] == name), None)


def _check_choices(request: Request) -> None:
    if request.what not in _WHAT:
        raise InvalidInput(f"what is {request.what!r}; use one of {', '.join(_WHAT)}")
    for name, given, known in (
        ("unknown", request.unknown, UNKNOWN),
        ("clock_change", request.clock_change, CLOCK_CHANGE),
    ):
        if given not in known:
            raise InvalidInput(f"{field(name)} is {given!r}; use one of {', '.join(known)}")


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
                f"{field('until', request.until)} is beyond the end of step {windows.steps:,}, "
                f"{end}; give {field('until', end)} for the rest of this stream and start "
                f"another one for what follows"
            )
        now = datetime.now(UTC)
        if moment(until) > now:
            raise InvalidInput(
                f"{field('until', request.until)} lies in the future (now is "
                f"{now:%Y-%m-%dT%H:%M}Z), so windows would be released before they end and could "
                f"not be counted again; give a time that has passed"
            )
        return until, True
    if found.newest is None:
        raise InvalidInput(
            f"{os.fspath(request.events)} holds no rows, so it says of no window that it has "
            f"ended; give {field('until')}, or at least one event"
        )
    newest = moment(found.newest)
    if found.beyond:
        raise HorizonExceeded(
            f"the newest event ({newest.isoformat()}) is beyond the end of step "
            f"{windows.steps:,}, {end}; give {field('until', end)} for the rest of this stream "
            f"and start another one for what follows"
        )
    if newest > datetime.now(UTC):
        raise InvalidInput(
            f"the newest event ({newest.isoformat()}) lies in the future, so windows would be "
            f"released before they end; correct the event or give {field('until')}"
        )
    return found.newest, False


def _key(request: Request, saved: dict[str, Any]) -> Key | None:
    """The key that was named, for a stream that exists."""
    if request.key is None:
        return None
    return keyfile.load(Path(request.key), saved["key_fingerprint"])


def _create(request: Request, definition: Definition) -> Stream:
    keeper = (
        nullcontext()
        if request.key is None
        else keyfile.for_creation(request.state, Path(request.key))
    )
    with keeper as key:
        return Stream.create(
            request.state,
            request.name,
            definition.strategy,
            definition.guarantee,
            key=key,
            contribution=definition.contribution,
            shape=definition.shape,
            details=definition.details,
        )
