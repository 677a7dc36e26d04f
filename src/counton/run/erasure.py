"""To forget a person, or all people of long ago: what a state keeps of them is deleted.

No bound is exceeded by that.

Of people whose rows are bounded a state keeps keyed digests: whose rows count, and which. Without
them the same person could count anew, twice as much as is promised. So one more thing is kept in
their place, and it names nobody: a *refused* bucket, one of `BUCKETS` into which all digests fall.
Who is new and falls into it does not count any more, in any period up to the one in which the
person was forgotten; whoever is known already goes on. The bucket is a function of the name that
was asked for, whether the state knew it or not. So with or without a person's rows, the same rows
of all others count, and the person's own are at most as many as before.

All people of long ago are forgotten period by period, where single periods are protected (``per``).
Then a mark closes all periods up to the last that is forgotten: nobody is known in it any more, so
no row of it counts again, whoever wrote it. That depends on the clock alone. A job that says for
how long people are known (``retain``) does it by itself, after each release, by the end of the last
window that is released.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic, sleep
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from counton.base.errors import CountonError, InvalidInput, StateError, StreamConflict, field
from counton.base.private import Private, open_private
from counton.base.windows import LATE_DAYS, moment
from counton.run.contribution_bounds import BUCKETS, CLOSED, REFUSED, USER, bucket_of, period_of
from counton.run.definition import Definition
from counton.state import Store, Stream
from counton.state import seen as marks
from counton.state.addition import Addition
from counton.state.backup import compact
from counton.state.inbox import HeldBatches, held_batches
from counton.state.key_and_witness import Kept

X = TypeVar("X")


class Forgetting(NamedTuple):
    """What was done for one stream.

    Attributes:
        name: of the stream.
        keeps: what it keeps of people: "digests", or "sums" alone, of which nothing is deleted.
        marks: how many rows of the people were known. Exact: only for the operator.
        before: with an age: people are forgotten in all periods that ended by then; None: in none.
        over: it releases nothing more, so that nobody is new to it from now on.
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
    """Delete what a state keeps of a person, in all of its streams or in one.

    What was released stays released, and what was added to sums stays in them. A service may run
    meanwhile, if there is time to ``wait`` for it.

    Args:
        state: path of a SQLite file, or a database URL.
        person: as the column of users has it.
        name: of one stream; None: all.
        key: where the streams' key is kept, as of `Stream.open`.
        now: what the clock says, aware; None: that of this machine.
        wait: at most this many seconds for a service to count the rows that wait in its inbox now,
            and for a run that writes a stream or its state.
        yes: a bucket of people to come may be closed: for any name, known or not.

    Raises:
        InvalidInput: a bucket would be closed, and nobody says yes, whoever the person is; a
            stream keeps rows or an exact table, rows wait in an inbox, or there are
            rows of the person that are dated later than now; nothing is deleted.
        StreamConflict: another process wrote a stream meanwhile; nothing is deleted in that one.
        StateError, WrongKey: as of `Stream.open`.
    """
    given: object = person
    if not isinstance(given, str) or not given:
        raise InvalidInput(f"{field('person')} is no text; give the user as the rows have it")
    patience = _Patience(wait)
    done, streams = [], _streams(state, name, patience)
    open_ended = [one for one, kept in streams.items() if kept.of_people and not kept.over]
    if open_ended and not yes:
        raise InvalidInput(
            f"to forget {person!r} closes one of {BUCKETS:,} buckets of "
            f"{', '.join(map(repr, open_ended))}, whoever that is: who is new and falls into it "
            f"does not count from now on, and that cannot be undone; look at the name again, and "
            f"give {field('yes', True)}"
        )
    for one, kept in streams.items():
        if kept.definition is None or not kept.of_people:
            done.append(Forgetting(one, "sums", Private(0)))
            continue
        act = partial(_forget_person, state, one, person, key, kept.definition, now)
        gone = patience.retry(act, StreamConflict)
        done.append(Forgetting(one, "digests", gone, over=kept.over))
    patience.retry(partial(compact, state), StateError)
    return done


class _Patience:
    """Some seconds in which others may be in the way."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    def goes_on(self) -> bool:
        """Whether there is time left; then a little of it is over."""
        if monotonic() >= self._end:
            return False
        _pause()
        return True

    def retry(self, act: Callable[[], X], conflict: type[CountonError]) -> X:
        """What an act gives, tried again while something is in its way."""
        while True:
            try:
                return act()
            except conflict:
                if not self.goes_on():
                    raise


def _pause() -> None:
    sleep(0.05)


def forget_older(
    state: str | os.PathLike[str],
    age: str,
    *,
    name: str | None = None,
    key: Kept = None,
    now: datetime | None = None,
    wait: float = 0,
) -> list[Forgetting]:
    """Delete what a state keeps of people in periods that ended long ago, in all streams or in one.

    Rows of these periods do not count from then on, so nobody counts twice.

    Args:
        state: path of a SQLite file, or a database URL.
        age: how long ago a period must have ended, in days or weeks: ``90d``, ``12w``.
        name: of one stream; None: all.
        key: where the streams' key is kept, as of `Stream.open`.
        now: what the clock says, aware; None: that of this machine.
        wait: as of `forget`.

    Raises:
        InvalidInput: another age, or a stream keeps rows, an exact table, or people whose
            protection has no periods; nothing is deleted.
        StreamConflict, StateError, WrongKey: as of `forget`.
    """
    patience = _Patience(wait)
    moment = (datetime.now(UTC) if now is None else now) - _length(age)
    streams = _streams(state, name, patience)
    for one, kept in streams.items():
        if kept.definition is not None and kept.of_people:
            _refuse_lasting(one, kept.definition)
    done = []
    for one, kept in streams.items():
        if kept.definition is None or not kept.of_people:
            done.append(Forgetting(one, "sums", Private(0)))
            continue
        act = partial(_forget_periods, state, one, _period(kept.definition, moment) - 1, key)
        gone = patience.retry(act, StreamConflict)
        done.append(Forgetting(one, "digests", gone, moment, kept.over))
    patience.retry(partial(compact, state), StateError)
    return done


def check_retain(length: str, definition: Definition) -> None:
    """Refuse a length that is none, or a stream that does not protect periods of people."""
    days = _length(length, "retain").days
    if days >= LATE_DAYS:
        raise InvalidInput(
            f"{field('retain', length)} is no less than {LATE_DAYS} days, when people are "
            f"forgotten anyway: give less, or leave it out"
        )
    if definition.counting.per is None:
        raise InvalidInput(
            f"{field('retain', length)} forgets people period by period, and this stream has no "
            f"periods of people: give {field('user')}, {field('most')} and {field('per')}, as in "
            f"per=1d, or leave {field('retain')} out"
        )


def retain(stream: Stream, definition: Definition, length: str) -> None:
    """Forget everybody in periods that ended so long ago, by the last release."""
    windows = definition.windows
    end = moment(int(windows.ends(range(stream.step, stream.step + 1))[0]))
    last = _period(definition, end - _length(length, "retain")) - 1
    stream.take(Private(Addition(remembered=_closing(_secret_of(stream), last))))


def _length(age: str, name: str = "age") -> timedelta:
    given: object = age
    found = re.fullmatch(r"(\d{1,5})([dw])", given.strip()) if isinstance(given, str) else None
    if found is None:
        raise InvalidInput(f"{field(name)} is {age!r}; write days or weeks, as in 90d or 12w")
    return timedelta(days=int(found[1]) * (7 if found[2] == "w" else 1))


def _refuse_lasting(name: str, definition: Definition) -> None:
    if definition.counting.users and definition.counting.per is None:
        raise InvalidInput(
            f"stream {name!r} protects each {definition.unit} over its whole length, so it has to "
            f"know every one of them until it ends: nothing was deleted; forget other streams of "
            f"the state by their names, or end this one and let another follow that protects "
            f"periods, such as days"
        )


class _KeptStream(NamedTuple):
    """A stream of a state: None of a program's, which gives sums; and whether it is over."""

    definition: Definition | None
    over: bool

    @property
    def of_people(self) -> bool:
        """Whether it keeps digests of people."""
        return self.definition is not None and self.definition.counting.users


def _streams(
    state: str | os.PathLike[str], name: str | None, patience: _Patience
) -> dict[str, _KeptStream]:
    """The streams to look at; no row waits any more that waited when they were asked for."""
    with Store(state) as store:
        names = store.streams if name is None else (name,)
        for one in names:
            store.reader(one)  # it is there
        held = {one: held_batches(store.database, one) for one in names}
        for one, before in held.items():
            _await_rows(store, one, before, patience)
        return {one: _look_up(store, one) for one in names}


def _period(definition: Definition, moment: datetime) -> int:
    clock = pl.DataFrame({"us": [int(moment.timestamp() * 1_000_000)]})
    period = period_of(pl.col("us"), definition.counting.per, definition.windows.timezone)
    return int(clock.select(period).item())


def _forget_periods(state: str | os.PathLike[str], name: str, last: int, key: Kept) -> Private[int]:
    """Forget everybody in all periods up to the last, in which nobody counts any more."""
    with Stream.open(state, name, key=key, forgetting=True) as stream:
        parts = [part for part in _users_of(stream) if part.period <= last]
        change = _closing(_secret_of(stream), last)._replace(forgets=True)
        stream.take(Private(Addition(remembered=change)))
    return Private(sum(len(part.digests) for part in parts))


def _closing(secret: marks.Secret, last: int) -> marks.Change:
    """Nobody is known any more in the periods up to the last, and no row of them counts."""
    closed = marks.MarkSet(CLOSED, last, np.zeros(1, np.uint64))
    gone = [("user", last + 1), (REFUSED, last + 1), (CLOSED, last)]
    return marks.Change(secret, [closed], [(CLOSED, last)], gone)


def _look_up(store: Store, name: str) -> _KeptStream:
    found = store.find(name)
    assert found is not None
    if "every" not in found.details and "once" not in found.details:
        return _KeptStream(None, over=False)
    definition = Definition.reopen(found.design, found.details)
    definition.counting.check_forgets(name, definition.statistic)
    if definition.columns.id is not None and not definition.counting.users:
        raise InvalidInput(
            f"stream {name!r} keeps digests of ids, and does not know whose they are: they go by "
            f"themselves {LATE_DAYS} days after their rows were counted"
        )
    last = definition.strategy.horizon if definition.cut.goes_on else 1
    return _KeptStream(definition, definition.ended is not None or found.step == last)


def _await_rows(store: Store, name: str, before: HeldBatches, patience: _Patience) -> None:
    """Wait for rows that stand there as they were sent: whose they are is not known yet."""
    if before.left_out:
        raise InvalidInput(
            f"rows that no run could count stand in the inbox of stream {name!r}, as they were "
            f"sent, and whose they are is not known: put them back or drop them (counton "
            f"serve-left-out), then forget"
        )
    while before.waiting & held_batches(store.database, name).waiting:
        if not patience.goes_on():
            raise InvalidInput(
                f"rows wait in the inbox of stream {name!r}, as they were sent, and whose they are "
                f"is not known before they are counted: let the service count them, and give "
                f"{field('wait', 60)} to wait for it"
            )


def _forget_person(
    state: str | os.PathLike[str],
    name: str,
    person: str,
    key: Kept,
    definition: Definition,
    now: datetime | None,
) -> Private[int]:
    last = _period(definition, datetime.now(UTC) if now is None else now)
    text = person.encode()
    with Stream.open(state, name, key=key, forgetting=True) as stream:
        secret, parts = _secret_of(stream), _users_of(stream)
        (digest,) = secret.digests(text, np.array([len(text)]), USER)
        theirs = [part for part in parts if (part.digests == digest).any()]
        if any(part.period > last for part in theirs):
            raise InvalidInput(
                f"stream {name!r} has counted rows of this person that are dated later than now: "
                f"forget them when that time has come; nothing was deleted"
            )
        gone = sum(int((part.digests == digest).sum()) for part in theirs)
        periods = {part.period for part in theirs}
        rest = [_without(parts, period, digest) for period in sorted(periods)]
        bucket = marks.MarkSet(REFUSED, last, np.array([bucket_of(digest)], np.uint64))
        change = marks.Change(
            secret,
            [*(part for part in rest if len(part.digests)), bucket],
            [("user", period) for period in sorted(periods)],
            forgets=True,
        )
        stream.take(Private(Addition(remembered=change)))
    return Private(gone)


def _secret_of(stream: Stream) -> marks.Secret:
    return stream.secret() or marks.Secret.fresh()


def _users_of(stream: Stream) -> list[marks.MarkSet]:
    return [*open_private(stream.marks("user"))]


def _without(parts: Sequence[marks.MarkSet], period: int, digest: np.uint64) -> marks.MarkSet:
    """All parts of a period as one, without a digest."""
    whole = marks.merge([part for part in parts if part.period == period])
    stays = whole.digests != digest
    return marks.MarkSet(
        whole.kind, period, whole.digests[stays], tuple(fact[stays] for fact in whole.facts)
    )


__all__ = ["BUCKETS", "Forgetting", "forget", "forget_older"]
