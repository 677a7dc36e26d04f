"""Deletion of a state's memory of a person, or of all people of periods long ago.

Each person's contribution stays bounded afterwards.

If a person's contribution is bounded, a state keeps keyed digests of the rows that count and of
whose they are. Without them a person's rows could count again, twice as much as promised. So in
their place the state keeps something that names nobody: a *refused* bucket, one of `BUCKETS` into
which all digests fall. New people in this bucket count nowhere, in any period up to the one of the
deletion; known people in it go on. The bucket depends only on the name in the request, and not on
whether the state knows that name. So with or without a person's rows, the same rows of all others
count, and at most as many rows of the person as before.

If single periods are protected (``per``), all people of long ago are forgotten period by period.
Then all periods up to the last forgotten one are closed: the state knows nobody in them, so no row
of them counts again. Which periods are forgotten depends on the clock only. A job with ``retain``
forgets them by itself after each release, counted back from the end of the last released window.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic, sleep
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from counton.base.errors import CountonError, InvalidInput, StateError, StreamConflict, field
from counton.base.private import Private, open_private
from counton.frame.windows import LATE_DAYS, moment
from counton.released.periods import period_of
from counton.rows.row_reading import one_name
from counton.run.contribution_bounds import BUCKETS, CLOSED, REFUSED, USER, bucket_of
from counton.run.definition import KIND, Definition
from counton.state import Store, Stream
from counton.state import seen as marks
from counton.state.addition import Addition
from counton.state.backup import compact
from counton.state.inbox import waiting_batches
from counton.state.keys import Kept

X = TypeVar("X")


class Forgetting(NamedTuple):
    """The result of deleting, in one stream, what is stored about a person or about old periods.

    Attributes:
        name: name of the stream.
        keeps: what the stream keeps about people: "digests", or only "sums", from which nothing is
            deleted.
        marks: number of deleted digests, one for each counted row of the forgotten people. Exact:
            only for the operator.
        before: for a deletion by age, the time by which the forgotten periods had ended; None if
            one person was forgotten, or if nothing is deleted.
        over: whether the stream has ended, so that no new people can be counted.
    """

    name: str
    keeps: str
    marks: Private[int]
    before: datetime | None = None
    over: bool = False


def forget(
    state: str | os.PathLike[str],
    person: str,
    *,
    name: str | None = None,
    key: Kept = None,
    now: datetime | None = None,
    wait: float = 0,
    yes: bool = True,
) -> list[Forgetting]:
    """Delete a state's memory of a person, in all of its streams or in one.

    Releases stay released, and sums keep the person's contribution. A service may run meanwhile, if
    there is time to ``wait`` for it.

    Args:
        state: path of a SQLite file, or a database URL.
        person: name of the person in the column of users.
        name: name of one stream; None: all.
        key: where the streams' key is kept: see `Stream.open`.
        now: the current time, aware; None: this machine's clock.
        wait: largest number of seconds to wait for a service to count the rows in its inbox, and
            for a run that writes a stream or its state.
        yes: allow that all new people in the person's bucket (1 of `BUCKETS` parts of all people)
            are refused, in all periods up to the present one; needed for any name, known or not.

    Raises:
        InvalidInput: ``yes`` is False (for every person, known or not); a stream keeps the rows
            themselves or an exact table, from which a person cannot be removed; rows wait in an
            inbox; or rows of the person are dated later than now. Nothing is deleted.
        StreamConflict: another process wrote a stream meanwhile; nothing is deleted in that one.
        StateError, WrongKey: see `Stream.open`.
    """
    given: object = person
    if not isinstance(given, str) or not given:
        raise InvalidInput(
            f"{field('person')} is not a text; give the user as it is written in the rows"
        )
    patience = _Patience(wait)
    streams = _streams(state, name, patience)
    open_ended = [one for one, kept in streams.items() if kept.people and not kept.over]
    if open_ended and not yes:
        raise InvalidInput(
            f"{person!r} can be forgotten in {', '.join(map(repr, open_ended))} only at a price: a "
            f"fixed one in {BUCKETS:,} of all future users is then not counted (where users count "
            "anew in each period: in periods up to the present one), and this cannot be "
            "undone. Check "
            f"the name, and give {field('yes', True)} to go on"
        )
    act = partial(_forget_person, state, person, key, now)
    return _in_each(state, streams, patience, act)


def _in_each(
    state: str | os.PathLike[str],
    streams: Mapping[str, _KeptStream],
    patience: _Patience,
    act: Callable[[str, Definition], Private[int]],
    before: datetime | None = None,
) -> list[Forgetting]:
    """Call ``act`` for each stream that keeps people; it returns the number of deleted digests."""
    done = []
    for name, kept in streams.items():
        if kept.people is None:
            done.append(Forgetting(name, "sums", Private(0)))
            continue
        gone = patience.retry(partial(act, name, kept.people), StreamConflict)
        done.append(Forgetting(name, "digests", gone, before, kept.over))
    patience.retry(partial(compact, state), StateError)
    return done


class _Patience:
    """A time limit in seconds within which attempts are repeated."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    def goes_on(self) -> bool:
        """Wait a moment and return True; False if the time for attempts is over."""
        if monotonic() >= self._end:
            return False
        sleep(0.05)
        return True

    def retry(self, act: Callable[[], X], conflict: type[CountonError]) -> X:
        """Call ``act`` until it succeeds; after a ``conflict`` call it again while time is left."""
        while True:
            try:
                return act()
            except conflict:
                if not self.goes_on():
                    raise


def forget_older(
    state: str | os.PathLike[str],
    age: str,
    *,
    name: str | None = None,
    key: Kept = None,
    now: datetime | None = None,
    wait: float = 0,
) -> list[Forgetting]:
    """Delete a state's memory of people in periods that ended long ago, in all streams or in one.

    Rows of these periods are refused from now on, so that nobody counts twice.

    Args:
        state: path of a SQLite file, or a database URL.
        age: age of a period's end, in days or weeks: ``90d``, ``12w``.
        name: name of one stream; None: all.
        key: where the streams' key is kept: see `Stream.open`.
        now: the current time, aware; None: this machine's clock.
        wait: see `forget`.

    Raises:
        InvalidInput: the age is malformed, or a stream keeps rows, an exact table, or people whose
            protection has no periods; nothing is deleted.
        StreamConflict, StateError, WrongKey: see `forget`.
    """
    patience = _Patience(wait)
    moment = (datetime.now(UTC) if now is None else now) - _length(age)
    streams = _streams(state, name, patience)
    for one, (people, _) in streams.items():
        if people is not None and people.counting.per is None:
            raise InvalidInput(
                f"stream {one!r} protects each {people.unit} over its whole length, so it must "
                "remember all of them, and nothing was deleted; forget people in other streams of "
                "the state by their names, or begin a stream that protects periods, such as days"
            )
    return _in_each(state, streams, patience, partial(_forget_periods, state, moment, key), moment)


def check_retain(length: str, definition: Definition) -> None:
    """Refuse a malformed or too long ``retain``, and a stream that protects no single periods."""
    days = _length(length, "retain").days
    if days >= LATE_DAYS:
        raise InvalidInput(
            f"{field('retain', length)} is too long, because people are forgotten after "
            f"{LATE_DAYS} days anyway; give less, or leave it out"
        )
    if definition.counting.per is None:
        raise InvalidInput(
            f"{field('retain', length)} is for streams that forget people period by period, and "
            f"this stream has no such periods: give {field('user')}, {field('most')} and "
            f"{field('per')}, as in per=1d, or leave {field('retain')} out"
        )


def retain(stream: Stream, definition: Definition, length: str) -> None:
    """Forget all in periods that ended ``length`` before the last released window's end."""
    windows = definition.cut
    end = moment(int(windows.ends(range(stream.step, stream.step + 1))[0]))
    last = _period(definition, end - _length(length, "retain")) - 1
    stream.take(Private(Addition(remembered=_closing(_secret_of(stream), last))))


def _length(age: str, name: str = "age") -> timedelta:
    given: object = age
    found = re.fullmatch(r"(\d{1,5})([dw])", given.strip()) if isinstance(given, str) else None
    if found is None:
        raise InvalidInput(
            f"{field(name)} is {age!r}; give a number of days or weeks, as in 90d or 12w"
        )
    return timedelta(days=int(found[1]) * (7 if found[2] == "w" else 1))


class _KeptStream(NamedTuple):
    """A stream's definition (None if it keeps no digests of people), and whether it has ended."""

    people: Definition | None
    over: bool


def _streams(
    state: str | os.PathLike[str], name: str | None, patience: _Patience
) -> dict[str, _KeptStream]:
    """Return the streams by name, once a service has counted the rows in all inboxes."""
    with Store(state) as store:
        names = store.streams if name is None else (name,)
        for one in names:
            store.reader(one)  # it raises if the stream is missing
        held = {one: waiting_batches(store.database, one) for one in names}
        for one, before in held.items():
            _await_rows(store, one, before, patience)
        streams = {}
        for one in names:
            found = store.find(one)
            assert found is not None
            if found.details.get("kind") != KIND:
                streams[one] = _KeptStream(None, over=False)
                continue
            definition = Definition.reopen(found.design, found.details)
            if definition.columns.id is not None and not definition.counting.users:
                raise InvalidInput(
                    f"nobody can be forgotten in stream {one!r}, and nobody has to be: it keeps "
                    "only digests of ids, which do not tell whose rows they are, and they are "
                    f"deleted by themselves {LATE_DAYS} days after their rows were counted"
                )
            last = definition.strategy.horizon if definition.cut.goes_on else 1
            over = definition.ended is not None or found.step == last
            people = definition if definition.counting.users else None
            streams[one] = _KeptStream(people, over)
        return streams


def _period(definition: Definition, moment: datetime) -> int:
    clock = pl.DataFrame({"us": [int(moment.timestamp() * 1_000_000)]})
    period = period_of(pl.col("us"), definition.counting.per, definition.cut.timezone)
    return int(clock.select(period).item())


def _forget_periods(
    state: str | os.PathLike[str], moment: datetime, key: Kept, name: str, definition: Definition
) -> Private[int]:
    """Delete and count the digests of periods before ``moment``, whose rows count nowhere now."""
    last = _period(definition, moment) - 1
    with Stream.open(state, name, key=key, forgetting=True) as stream:
        parts = [part for part in _users_of(stream) if part.period <= last]
        change = _closing(_secret_of(stream), last)._replace(forgets=True)
        stream.take(Private(Addition(remembered=change)))
    return Private(sum(len(part.digests) for part in parts))


def _closing(secret: marks.Secret, last: int) -> marks.Change:
    """Build the change that deletes the digests of periods up to ``last`` and closes them."""
    closed = marks.MarkSet(CLOSED, last, np.zeros(1, np.uint64))
    gone = [("user", last + 1), (REFUSED, last + 1), (CLOSED, last)]
    return marks.Change(secret, [closed], [(CLOSED, last)], gone)


def _await_rows(
    store: Store, name: str, before: frozenset[tuple[int, bytes, int]], patience: _Patience
) -> None:
    """Wait until a service has counted the batches ``before``: until then nobody knows whose they
    are.
    """
    while before & waiting_batches(store.database, name):
        if not patience.goes_on():
            raise InvalidInput(
                f"rows wait in the inbox of stream {name!r}, and before they are counted the state "
                "cannot tell whose they are: let the service count them, and give "
                f"{field('wait', 60)} to wait up to 60 seconds for it"
            )


def _forget_person(
    state: str | os.PathLike[str],
    person: str,
    key: Kept,
    now: datetime | None,
    name: str,
    definition: Definition,
) -> Private[int]:
    last = _period(definition, datetime.now(UTC) if now is None else now)
    text = str(one_name(pl.Series([person]))[0]).encode()
    with Stream.open(state, name, key=key, forgetting=True) as stream:
        secret, parts = _secret_of(stream), _users_of(stream)
        (digest,) = secret.digests(text, np.array([len(text)]), USER)
        theirs = [part for part in parts if (part.digests == digest).any()]
        if any(part.period > last for part in theirs):
            raise InvalidInput(
                f"stream {name!r} has counted rows of this person whose times lie in the future, "
                "so nothing was deleted; try again after those times"
            )
        gone = sum(int((part.digests == digest).sum()) for part in theirs)
        periods = sorted({part.period for part in theirs})
        held = []
        for period in periods:
            whole = marks.merge([part for part in parts if part.period == period])
            stays = whole.digests != digest
            if stays.any():
                facts = tuple(fact[stays] for fact in whole.facts)
                held.append(marks.MarkSet(whole.kind, period, whole.digests[stays], facts))
        held.append(marks.MarkSet(REFUSED, last, np.array([bucket_of(digest)], np.uint64)))
        replaced = [("user", period) for period in periods]
        change = marks.Change(secret, held, replaced, forgets=True)
        stream.take(Private(Addition(remembered=change)))
    return Private(gone)


def _secret_of(stream: Stream) -> marks.Secret:
    return stream.secret() or marks.Secret.fresh()


def _users_of(stream: Stream) -> list[marks.MarkSet]:
    return [*open_private(stream.marks("user"))]


__all__ = ["BUCKETS", "Forgetting", "forget", "forget_older"]
