"""The number of distinct users: of all steps, or active now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import Alternating
from counton.base.exact import check_integer
from counton.base.systematic_error import SystematicError
from counton.privacy import ContributionBound
from counton.statistics.clipping import beyond_in_words
from counton.statistics.statistic import Events, Exact, Statistic
from counton.statistics.users import (
    DIGEST_BYTES,
    comes_or_goes,
    records_of,
    split_user,
    unique_digests,
    user_digests,
)

_MOST_CHANGES = 2**40
#: A record of a user: a digest, and the number of counted changes. (The last number is unused.)
_RECORD = np.dtype([("user", f"V{DIGEST_BYTES}"), ("times", "<i8"), ("unused", "<i8")])


class Distinct(Statistic):
    """The number of distinct users.

    - ``Distinct()`` counts the users of all steps. An event is a user. Only the first
      event of a user counts.
    - ``Distinct(changes=4)`` counts users active now. An event is ``(user, True)`` for a user who
      comes and ``(user, False)`` for a user who goes.

    The protected unit is one user with all events, which alone decide how this user counts.
    - If the users of all steps are counted, a user adds 1 in one step: no bound is needed.
    - Active users change the number by +1, -1, +1, ... at most ``changes`` times; then the user
      stays active or inactive. Coming while active, and going while not active, is no change.

    Args:
        changes: largest number of times that a user comes or goes; None: users only come.
        unit: the word for one user.

    Raises:
        InvalidInputError: a number below 1.

    Source: Andersson, Jain and Sivakumar (arXiv 2601.02257) for users who come and go.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> from counton.statistics import Distinct
    >>> users = RunningStatistic.start(
    ...     Distinct(), 365, ZCDP(8), key=Key.generate(), name="users", batched=True
    ... )
    >>> today = users.release_batch(["ann", "bob", "ann"])
    >>> -20 < today["users"] < 20, today.table_columns()["estimate"].tolist() == [today["users"]]
    (True, True)
    >>> print(Distinct(changes=4).contribution())
    one user added or removed, who comes or goes up to 4 times
    """

    phrase = "number of distinct {units}"
    sources = ("fluctuating",)
    event = "user"
    counted = "users"

    def __init__(self, *, changes: int | None = None, unit: str | None = None) -> None:
        self._call_units(unit, "user")
        self.changes = changes
        if changes is not None:
            self.changes = check_integer("changes", changes, 1, _MOST_CHANGES)
            self.phrase = "number of {units} who are there"

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        if self.changes is None:
            return ContributionBound.add_remove(unit=self.unit)
        words = f"who comes or goes up to {self.changes:,} times"
        return ContributionBound.of_pattern(Alternating(self.changes), words, unit=self.unit)

    @override
    def systematic_errors(self) -> Sequence[SystematicError]:
        if self.changes is None:
            return ()
        beyond = f"comings and goings beyond {self.changes:,} of each {self.unit}"
        return (beyond_in_words(beyond, low=False),)

    @override
    def begin(self) -> Exact:
        return _Users(self)


class _Users(Exact):
    """How often each user came or went, in the order in which users were first seen."""

    def __init__(self, statistic: Distinct) -> None:
        self._most = statistic.changes
        self._step = 0
        self._times: dict[bytes, int] = {}
        #: For `undo`: the step, users who changed, and the earlier numbers of known ones of these.
        self._before: tuple[int, dict[bytes, int], dict[bytes, int]] = 0, {}, {}

    @override
    def load(self, saved: bytes) -> None:
        self._step = int.from_bytes(saved[:8], "little")
        records = records_of(saved[8:], _RECORD)
        self._times = dict(zip(user_digests(records), records["times"].tolist(), strict=True))
        self._before = self._step, {}, {}

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        listed = events.tolist() if isinstance(events, np.ndarray) else list(events)
        changes = np.zeros(len(stops), np.int64)
        now = dict[bytes, int]()
        if self._most is None:
            users, places = unique_digests(listed, once=len(stops) == 1)
            new = [user not in self._times for user in users]
            first = np.unique(places, return_index=True)[1][np.array(new, bool)]
            np.add.at(changes, np.searchsorted(stops, first, "right"), 1)
            now = dict.fromkeys(compress(users, new), 1)
        else:
            pairs = [
                split_user(event, "whether it comes (True) or goes (False)") for event in listed
            ]
            come = [comes_or_goes(comes, "a user") for _, comes in pairs]
            users, places = unique_digests([user for user, _ in pairs])
            steps = np.searchsorted(stops, np.arange(len(pairs)), "right")
            for place, comes, step in zip(places.tolist(), come, steps.tolist(), strict=True):
                times = now.get(users[place], self._times.get(users[place], 0))
                if comes != (times % 2 == 1) and times < self._most:
                    now[users[place]] = times + 1
                    changes[step] += 1 if comes else -1
        earlier_times = {user: self._times[user] for user in now.keys() & self._times.keys()}
        self._before = self._step, now, earlier_times
        self._times |= now
        self._step += len(stops)
        return changes

    @override
    def undo(self) -> None:
        self._step, changed, earlier_times = self._before
        self._before = self._step, {}, {}
        for user in changed.keys() - earlier_times.keys():
            del self._times[user]
        self._times |= earlier_times

    @override
    def save(self) -> bytes:
        records = np.zeros(len(self._times), _RECORD)
        records["user"] = np.frombuffer(b"".join(self._times), f"V{DIGEST_BYTES}")
        records["times"] = [*self._times.values()]
        return self._step.to_bytes(8, "little") + records.tobytes()
