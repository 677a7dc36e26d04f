"""Deletion of a state's memory of a user, or of all users of periods long ago.

Each user's contribution stays bounded afterwards.

If a user's contribution is bounded, a state keeps keyed digests of the rows that count and of
whose they are. Without them a user's rows could count again, twice as much as promised. So in
their place the state keeps something that names nobody: a *refused* bucket, one of `BUCKETS` into
which all digests fall. New users in this bucket count nowhere, in any period up to the one of the
deletion; known users in it go on. The bucket depends only on the name in the request, and not on
whether the state knows that name. So with or without a user's rows, the same rows of all others
count, and at most as many rows of the user as before.

If single periods are protected (``contribution_period``), all users of old periods are erased
period by period. Then all periods up to the last erased one are closed: the state knows nobody in
them, so no row of them counts again. Which periods are erased depends on the clock only. A job with
``retain`` erases them after each release, counted back from the end of the last released window.
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

from counton.base.errors import (
    ConcurrentWriterError,
    CountonError,
    InvalidInputError,
    StateError,
    param,
)
from counton.base.lengths import LATE_DAYS
from counton.base.private import Private, reveal
from counton.io.row_assignment import one_name
from counton.run.counting.remembered_rows import BUCKETS, CLOSED, REFUSED, bucket_of
from counton.run.rows.row_buffer import PURPOSES
from counton.run.spec.stream_spec import StreamSpec, is_made_by_job
from counton.run.spec.terms import SingleTable
from counton.state import Store, Stream
from counton.state.backup import compact
from counton.state.commit_input import CommitInput
from counton.state.dedup import DigestChange, DigestSet, Secret, merge
from counton.state.inbox import waiting_batches
from counton.state.keys import KeySource
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.periods import period_of
from counton.windowing.windows import microseconds, moment

_Result = TypeVar("_Result")

#: Of so many new users, about one is not counted after the erasure of a user.
NEW_USERS_PER_REFUSED = BUCKETS
#: Seconds between two attempts.
_RETRY_SECONDS = 0.05


class UserErasure(NamedTuple):
    """The result of deleting, in one stream, what is stored about a user or about old periods.

    Attributes:
        name: name of the stream.
        keeps: what the stream keeps about users: "digests", or only "sums", from which nothing is
            deleted.
        deleted: number of deleted digests, one for each counted row of the erased users. Exact:
            only for the operator.
        before: for a deletion by age, the time by which the erased periods had ended; None if
            one user was erased, or if nothing is deleted.
        is_closed: whether the stream is closed, so that no new users can be counted.
    """

    name: str
    keeps: str
    deleted: Private[int]
    before: datetime | None = None
    is_closed: bool = False


# ------------------------------------------------------------------------------------ one user
def erase_user(
    state: str | os.PathLike[str],
    user: str,
    *,
    stream: str | None = None,
    key: KeySource = None,
    now: datetime | None = None,
    wait: float = 0,
    accepts_bucket_refusal: bool = True,
) -> list[UserErasure]:
    """Delete a state's memory of a user, in all of its streams or in one.

    Releases stay released, and sums keep the user's contribution. Digests of the ids of the user's
    rows stay too, since they do not tell whose they are: they are deleted by themselves after
    `LATE_DAYS` days, and until then no row with such an id counts again. A service may run
    meanwhile, if there is time to ``wait`` for it.

    Args:
        state: path of a SQLite file, or a database URL.
        user: name of the user in the column of users.
        stream: name of one stream; None: all.
        key: where the streams' key is kept: see `Stream.open`.
        now: the current time, aware; None: this machine's clock.
        wait: largest number of seconds to wait for a service to count the rows in its inbox, and
            for a run that writes a stream or its state.
        accepts_bucket_refusal: allow that all new users in the user's bucket (1 of `BUCKETS` parts
            of all users) are refused, in all periods up to the present one; needed for any name,
            known or not.

    Returns:
        What was deleted in each stream.

    Raises:
        InvalidInputError: ``accepts_bucket_refusal`` is False (for every user, known or not); a
            stream keeps ids of rows, and no users; rows wait in an inbox; or rows of the user are
            dated later than now. Nothing is deleted.
        ConcurrentWriterError: another process wrote a stream meanwhile; nothing is deleted in that
            one.
        StateError, NoiseKeyError: see `Stream.open`.
    """
    user_text: object = user
    if not isinstance(user_text, str) or not user_text:
        raise InvalidInputError(
            f"{param('user')} is not a text; give the user as it is written in the rows"
        )
    patience = _Patience(wait)
    streams = _kept_streams(state, stream, patience)
    open_streams = [
        name
        for name, stream_of_users in streams.items()
        if stream_of_users.spec and not stream_of_users.is_over
    ]
    if open_streams and not accepts_bucket_refusal:
        names = ", ".join(map(repr, open_streams))
        raise InvalidInputError(
            f"{user!r} can be erased in {names} only at a price: one in "
            f"{BUCKETS:,} of all users who are new to the stream will not be counted. With a "
            "contribution period, this ends with the current period. It cannot be undone. Check "
            f"the name, and give {param('yes', True)} to go on"
        )
    now = datetime.now(UTC) if now is None else now
    erase_in_stream = partial(_erase_user, state, user, key, now)
    return _in_each(state, streams, patience, erase_in_stream)


def _erase_user(
    state: str | os.PathLike[str],
    user: str,
    key: KeySource,
    now: datetime,
    name: str,
    spec: StreamSpec,
) -> Private[int]:
    """Delete a user's digests in one stream, and refuse new users of the bucket.

    Returns:
        The number of deleted digests.
    """
    last = _period_of(spec, now)
    text = str(one_name(pl.Series([user]))[0]).encode()
    with Stream.open(state, name, key=key, forgetting=True) as stream:
        secret = _secret_of(stream)
        sets = _users_of(stream)
        (digest,) = secret.digests(text, np.array([len(text)]), PURPOSES["user"])
        theirs = [digest_set for digest_set in sets if (digest_set.digests == digest).any()]
        if any(digest_set.period > last for digest_set in theirs):
            raise InvalidInputError(
                f"stream {name!r} has counted rows of this user whose times lie in the future, "
                "so nothing was deleted; try again after those times"
            )
        deleted = sum(int((digest_set.digests == digest).sum()) for digest_set in theirs)
        periods = sorted({digest_set.period for digest_set in theirs})
        # A replaced period loses all its sets, so the digests of all its other users are written
        # again, also those of sets without this user.
        sets_of_others: list[DigestSet] = []
        for period in periods:
            whole = merge([digest_set for digest_set in sets if digest_set.period == period])
            stays = whole.digests != digest
            if stays.any():
                columns = tuple(column[stays] for column in whole.columns)
                sets_of_others.append(DigestSet(whole.kind, period, whole.digests[stays], columns))
        refused_bucket = DigestSet(REFUSED, last, bucket_of(np.array([digest], np.uint64)))
        change = DigestChange(
            secret,
            added=[*sets_of_others, refused_bucket],
            replaced=[("user", period) for period in periods],
            forgets=True,
        )
        stream.commit(Private(CommitInput(remembered=change)))
    return Private(deleted)


# ------------------------------------------------------------------------------------ old periods
def erase_older(
    state: str | os.PathLike[str],
    age: str,
    *,
    stream: str | None = None,
    key: KeySource = None,
    now: datetime | None = None,
    wait: float = 0,
) -> list[UserErasure]:
    """Delete a state's memory of users in periods that ended long ago, in all streams or in one.

    Rows of these periods are refused from now on, so that no user counts twice.

    Args:
        state: path of a SQLite file, or a database URL.
        age: age of a period's end, in days or weeks: ``90d``, ``12w``.
        stream: name of one stream; None: all.
        key: where the streams' key is kept: see `Stream.open`.
        now: the current time, aware; None: this machine's clock.
        wait: see `erase_user`.

    Returns:
        What was deleted in each stream.

    Raises:
        InvalidInputError: the age is malformed, or a stream keeps ids of rows and no users, or
            users whose protection has no periods; nothing is deleted.
        ConcurrentWriterError, StateError, NoiseKeyError: see `erase_user`.
    """
    patience = _Patience(wait)
    before = (datetime.now(UTC) if now is None else now) - _parse_age(age, "age")
    streams = _kept_streams(state, stream, patience)
    for name, stream_of_users in streams.items():
        spec = stream_of_users.spec
        if spec is None:
            continue
        unit = spec.terms.privacy_unit
        if unit.rule.contribution_period is None:
            raise InvalidInputError(
                f"stream {name!r} protects each {unit.word} over its whole "
                "length, so it must remember all of them, and nothing was deleted; erase users "
                "in other streams of the state by their names, or begin a stream that protects "
                "periods, such as days"
            )
    erase_in_stream = partial(_erase_periods, state, before, key)
    return _in_each(state, streams, patience, erase_in_stream, before)


def _erase_periods(
    state: str | os.PathLike[str], before: datetime, key: KeySource, name: str, spec: StreamSpec
) -> Private[int]:
    """Delete the digests of periods that ended before a time, whose rows count nowhere now.

    Returns:
        The number of deleted digests.
    """
    last = _period_of(spec, before) - 1
    with Stream.open(state, name, key=key, forgetting=True) as stream:
        sets = [digest_set for digest_set in _users_of(stream) if digest_set.period <= last]
        change = _closing(_secret_of(stream), last)._replace(forgets=True)
        stream.commit(Private(CommitInput(remembered=change)))
    return Private(sum(len(digest_set.digests) for digest_set in sets))


def check_retain(length: str) -> None:
    """Refuse a malformed or too long ``retain``.

    Args:
        length: value of the option.

    Raises:
        InvalidInputError: it is such a one.
    """
    if _parse_age(length, "retain").days >= LATE_DAYS:
        raise InvalidInputError(
            f"{param('retain', length)} is too long, because users are erased after "
            f"{LATE_DAYS} days anyway; give less, or leave it out"
        )


def retain(stream: Stream, spec: StreamSpec, length: str) -> None:
    """Forget all users in periods that ended some time before the end of the last released window.

    Args:
        stream: the stream, which has released a step.
        spec: its specification.
        length: value of the option ``retain``.
    """
    windows = spec.terms.windowing.windows
    end = moment(int(windows.ends(range(stream.step, stream.step + 1))[0]))
    last = _period_of(spec, end - _parse_age(length, "retain")) - 1
    stream.commit(Private(CommitInput(remembered=_closing(_secret_of(stream), last))))


def _parse_age(age: str, name: str) -> timedelta:
    value: object = age
    match = re.fullmatch(r"(\d{1,5})([dw])", value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidInputError(
            f"{param(name)} is {age!r}; give a number of days or weeks, as in 90d or 12w"
        )
    days_of_unit = 7 if match[2] == "w" else 1
    return timedelta(days=int(match[1]) * days_of_unit)


def _closing(secret: Secret, last: int) -> DigestChange:
    """Return the change that deletes the digests of periods up to ``last`` and closes them."""
    closed = DigestSet(CLOSED, last, np.zeros(1, np.uint64))
    forgotten = [("user", last + 1), (REFUSED, last + 1), (CLOSED, last)]
    return DigestChange(secret, [closed], [(CLOSED, last)], forgotten)


# ------------------------------------------------------------------------------------ all streams
class _KeptStream(NamedTuple):
    """What an erasure needs to know of a stream.

    Attributes:
        spec: its specification; None if it keeps no digests of users.
        is_over: whether it releases nothing more.
    """

    spec: StreamSpec | None
    is_over: bool


class _Patience:
    """A time limit within which attempts are repeated.

    Args:
        seconds: the limit.
    """

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    def has_time(self) -> bool:
        """Wait a moment and return True; return False if the time is over."""
        if monotonic() >= self._end:
            return False
        sleep(_RETRY_SECONDS)
        return True

    def retry(
        self, erase_in_stream: Callable[[], _Result], conflict: type[CountonError]
    ) -> _Result:
        """Call a function until it succeeds, or the time is over.

        Args:
            erase_in_stream: the function.
            conflict: the error after which it is called again.
        """
        while True:
            try:
                return erase_in_stream()
            except conflict:
                if not self.has_time():
                    raise


def _kept_streams(
    state: str | os.PathLike[str], name: str | None, patience: _Patience
) -> dict[str, _KeptStream]:
    """Return the streams by name, once a service has counted the rows in all inboxes."""
    with Store(state) as store:
        names = store.streams if name is None else (name,)
        for stream in names:
            store.reader(stream)  # raises if there is no such stream
        waiting = {stream: waiting_batches(store.database, stream) for stream in names}
        for stream, batches in waiting.items():
            _await_rows(store, stream, batches, patience)
        return {stream: _kept_stream(store, stream) for stream in names}


def _kept_stream(store: Store, name: str) -> _KeptStream:
    reader = store.reader(name)
    if not is_made_by_job(reader.public_facts):
        return _KeptStream(None, is_over=False)
    spec = StreamSpec.of_stream(reader)
    has_users = spec.terms.privacy_unit.user_column is not None
    if spec.terms.recognition.id_column is not None and not has_users:
        raise InvalidInputError(
            f"no user can be erased in stream {name!r}, and nobody has to be: it keeps only "
            "digests of ids, which do not tell whose rows they are, and they are deleted by "
            f"themselves {LATE_DAYS} days after their rows were counted"
        )
    is_single_table = isinstance(spec.terms.windowing, SingleTable)
    planned_last_step = 1 if is_single_table else spec.strategy.horizon
    is_over = spec.closed_at_step is not None or reader.step == planned_last_step
    return _KeptStream(spec if has_users else None, is_over)


def _await_rows(
    store: Store, name: str, batches: frozenset[tuple[int, bytes, int]], patience: _Patience
) -> None:
    """Wait until a service has counted some batches: until then their users are unknown."""
    while batches & waiting_batches(store.database, name):
        if not patience.has_time():
            raise InvalidInputError(
                f"rows wait in the inbox of stream {name!r}, and before they are counted the state "
                "cannot tell whose they are: let the service count them, and give "
                f"{param('wait', 60)} to wait up to 60 seconds for it"
            )


def _in_each(
    state: str | os.PathLike[str],
    streams: Mapping[str, _KeptStream],
    patience: _Patience,
    erase_in_stream: Callable[[str, StreamSpec], Private[int]],
    before: datetime | None = None,
) -> list[UserErasure]:
    """Erase users in each stream that keeps them.

    Args:
        state: the state.
        streams: the streams by name.
        patience: how long a conflict is waited for.
        erase_in_stream: function that deletes digests of a stream, and returns their number.
        before: for a deletion by age, the time by which the erased periods had ended.
    """
    done: list[UserErasure] = []
    for name, stream_of_users in streams.items():
        if stream_of_users.spec is None:
            done.append(UserErasure(name, "sums", Private(0)))
            continue
        deleted = patience.retry(
            partial(erase_in_stream, name, stream_of_users.spec), ConcurrentWriterError
        )
        done.append(UserErasure(name, "digests", deleted, before, stream_of_users.is_over))
    patience.retry(partial(compact, state), StateError)
    return done


def _period_of(spec: StreamSpec, time: datetime) -> int:
    """Return the number of the period of users at a time."""
    timezone = spec.terms.windowing.windows.timezone
    period = period_of(
        pl.lit(microseconds(time), pl.Int64),
        spec.terms.privacy_unit.rule.contribution_period,
        timezone,
    )
    return int(pl.select(period).item())


def _secret_of(stream: Stream) -> Secret:
    return stream.secret() or Secret.fresh()


def _users_of(stream: Stream) -> list[DigestSet]:
    return list(reveal(stream.digest_sets("user")))
