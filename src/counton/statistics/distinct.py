"""The number of distinct users: seen so far, in each window of steps, or active now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import Alternating
from counton.base.errors import InvalidInput
from counton.base.exact import check_integer
from counton.privacy import Contribution
from counton.statistics.clipping import beyond_in_words
from counton.statistics.statistic import Events, Exact, Statistic
from counton.statistics.users import (
    DIGEST,
    comes_or_goes,
    records_of,
    split_user,
    unique_digests,
    user_digests,
)

_MOST = 2**40
#: A record of a user: a digest, and the two numbers that `_Users` explains.
_RECORD = np.dtype([("user", f"V{DIGEST}"), ("first", "<i8"), ("second", "<i8")])


class Distinct(Statistic):
    """The number of distinct users.

    - ``Distinct()`` counts users seen so far. An event is a user. Only a user's first event counts.
    - ``Distinct(window=24)`` counts users anew in each window of 24 steps. Releases are running
      totals over all windows. The difference from the last release of the previous window
      (`Reading.since`) is the number of users of this window.
    - ``Distinct(changes=4)`` counts users active now. An event is ``(user, True)`` for a user who
      comes and ``(user, False)`` for a user who goes.
    - ``Distinct(stay=24, changes=4)`` counts users active within the last 24 steps. An event is a
      user, who is active from this step on, until 24 steps pass without an event.

    The protected unit is one user with all events, which alone decide how this user counts.
    - Counted so far, a user adds 1 in one step: no bound is needed.
    - In windows, a user adds 1 in one step of each of at most ``windows`` windows; further ones do
      not count. Without ``windows`` the protected unit is a user's events within one window.
    - Active users change the number by +1, -1, +1, ... at most ``changes`` times; then the user
      stays active or inactive. Coming while active, and going while not active, is no change. With
      ``stay``, an even number of changes leaves nobody active for ever.

    Args:
        window: number of steps of a window; None: one window.
        windows: largest number of windows in which a user counts.
        changes: largest number of times that a user comes or goes; None: users only come.
        stay: number of steps that a user stays active after an event.
        unit: the word for one user.

    Raises:
        InvalidInput: a number below 1, windows without a window, changes in windows, or stay
            without changes.

    Source: Andersson, Jain and Sivakumar (arXiv 2601.02257) for users who come and go.

    >>> from counton import ZCDP, Key, Running
    >>> from counton.statistics import Distinct
    >>> users = Running.start(
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

    def __init__(
        self,
        *,
        window: int | None = None,
        windows: int | None = None,
        changes: int | None = None,
        stay: int | None = None,
        unit: str | None = None,
    ) -> None:
        self._call_units(unit, "user")
        given = {"window": window, "windows": windows, "changes": changes, "stay": stay}
        for name, number in given.items():
            if number is not None:
                given[name] = check_integer(name, number, 1, _MOST)
        self.window, self.windows, self.changes, self.stay = given.values()
        if changes is not None:
            self.phrase = "number of {units} who are there"
        if window is None and windows is not None:
            raise InvalidInput(
                f"windows is {windows}, but the length of a window is missing: give window too, as "
                "a number of steps"
            )
        if window is not None and changes is not None:
            raise InvalidInput(
                f"window is {window} and changes is {changes}, but users who come and go are "
                "counted at each step, not in windows: leave window out"
            )
        if stay is not None and changes is None:
            raise InvalidInput(
                f"stay is {stay}, so users may come and go without end: give changes too, the "
                "largest number of times that a user comes or goes"
            )

    @override
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        if self.changes is not None:
            words = f"who comes or goes up to {self.changes:,} times"
            return Contribution.of_pattern(Alternating(self.changes), words, unit=self.unit)
        if self.window is None:
            return Contribution.add_remove(unit=self.unit)
        if self.windows is None:
            return Contribution.add_remove(unit=f"{self.unit} within one window")
        windows = self.windows  # no more windows than the horizon has
        if horizon is not None:
            windows = min(windows, -(-horizon // self.window))
        return Contribution.add_remove(steps=windows, unit=self.unit)

    @override
    def besides_noise(self) -> Sequence[str]:
        if self.changes is not None:
            said, count = "comings and goings beyond {count} of each {unit}", self.changes
        elif self.windows is not None:
            said, count = "periods beyond {count} of each {unit}", self.windows
        else:
            return ()
        beyond = said.format(count=f"{count:,}", unit=self.unit)
        return (beyond_in_words(beyond, low=self.changes is None),)

    @override
    def begin(self) -> Exact:
        return _Users(self)


class _Users(Exact):
    """Two numbers of each user, in the order in which users were first seen.

    With ``changes``: the number of counted changes (odd if active) and, with ``stay``, the step of
    the last event. Otherwise: the last window in which the user was seen, from 1, and the number of
    windows counted.
    """

    def __init__(self, statistic: Distinct) -> None:
        self._statistic, self._step = statistic, 0
        self._names: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        #: One row for each user, with room for more.
        self._did = np.empty((0, 2), np.int64)
        # With ``stay``: users to check at later steps, when they may go.
        self._due: dict[int, list[int]] = {}
        self._before: tuple[int, int, NDArray[np.int64], NDArray[np.int64]] = self._now()

    @override
    def load(self, saved: bytes) -> None:
        self._step, records = int.from_bytes(saved[:8], "little"), records_of(saved[8:], _RECORD)
        users = self._number_users(user_digests(records))
        self._did[users] = np.stack([records["first"], records["second"]], axis=1)
        self._before = self._now()
        if (stay := self._statistic.stay) is not None:
            for user, last in zip(users.tolist(), records["second"].tolist(), strict=True):
                self._due.setdefault(last + stay, []).append(user)

    def _now(self) -> tuple[int, int, NDArray[np.int64], NDArray[np.int64]]:
        """Return what `undo` needs: step, number of users, and two empty arrays for changed users
        and their old records.
        """
        return self._step, len(self._names), np.empty(0, np.int64), np.empty((0, 2), np.int64)

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        this = self._statistic
        listed = events.tolist() if isinstance(events, np.ndarray) else list(events)
        come = np.ones(len(listed), bool)
        if this.changes is not None and this.stay is None:
            pairs = [
                split_user(event, "whether it comes (True) or goes (False)") for event in listed
            ]
            listed = [user for user, _ in pairs]
            come = np.array([comes_or_goes(comes, "a user") for _, comes in pairs], bool)
        seen = len(stops) == 1 and (this.changes is None or this.stay is not None)
        digests, places = unique_digests(listed, places=not seen)
        come = come[: len(places)]
        self._before = self._now()
        try:
            users = self._number_users(digests)[places]
            if seen:
                steps = np.full(len(users), self._step + 1)
            else:
                steps = self._step + 1 + np.repeat(np.arange(len(stops)), np.diff(stops, prepend=0))
            if this.stay is not None:
                changes = self._count_stays(users.tolist(), steps.tolist(), len(stops))
            else:
                acted, own = np.unique(users, return_inverse=True)
                did = self._did[acted]
                self._remember(acted, did.copy())
                order = np.argsort(own, kind="stable")  # each user's events in order
                own, steps, come = own[order], steps[order], come[order]
                if this.changes is None:
                    counted, by = self._count_visits(own, steps, did)
                else:
                    counted, by = self._count_moves(own, come, did)
                self._did[acted] = did
                changes = np.zeros(len(stops), np.int64)
                np.add.at(changes, steps[counted] - self._step - 1, by)
        except BaseException:
            self.undo()
            raise
        self._step += len(stops)
        return changes

    def _number_users(self, digests: list[bytes]) -> NDArray[np.int64]:
        numbers, known = self._numbers, len(self._names)
        new = digests
        if not numbers.keys().isdisjoint(digests):
            new = [digest for digest in digests if digest not in numbers]
        self._names += new
        numbers.update(zip(new, range(known, len(self._names)), strict=True))
        if len(self._names) > len(self._did):
            room = np.zeros((max(len(self._names), 2 * len(self._did)), 2), np.int64)
            room[:known] = self._did[:known]
            self._did = room
        self._did[known : len(self._names)] = 0
        if new is digests:
            return np.arange(known, len(self._names))
        return np.fromiter(map(numbers.__getitem__, digests), np.int64, len(digests))

    def _remember(self, acted: NDArray[np.int64], did: NDArray[np.int64]) -> None:
        self._before = (*self._before[:2], acted, did)

    def _count_visits(
        self, own: NDArray[np.int64], steps: NDArray[np.int64], did: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of the events that count, once a window for each user, and 1 for each.

        ``own``: each event's row in ``did``, the records of shape ``(users, 2)``, which are
        updated.
        """
        windows = 1 + (steps - 1) // (self._statistic.window or _MOST)
        first = np.ones(len(own), bool)  # the first event of a user in a window
        first[1:] = (own[1:] != own[:-1]) | (windows[1:] != windows[:-1])
        first &= windows != did[own, 0]
        counted, most = np.flatnonzero(first), self._statistic.windows
        if most is not None:
            rank = _ranks(own[counted])
            counted = counted[did[own[counted], 1] + rank < most]
            did[:, 1] += np.bincount(own[counted], minlength=len(did))
        did[own[counted], 0] = windows[counted]  # ascending, so the last assignment stays
        return counted, np.ones(len(counted), np.int64)

    def _count_moves(
        self, own: NDArray[np.int64], come: NDArray[np.bool_], did: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the indices of the events that change anything, and +1 or -1 for each;
        `_count_visits` describes ``own`` and ``did``.
        """
        there = np.empty(len(own), bool)
        there[1:] = come[:-1]
        begins = np.ones(len(own), bool)
        begins[1:] = own[1:] != own[:-1]
        there[begins] = did[own[begins], 0] % 2 == 1
        counted = np.flatnonzero(come != there)
        # Without a limit each of these is a change: it differs from the event before.
        assert self._statistic.changes is not None
        made = did[own[counted], 0] + _ranks(own[counted])
        counted = counted[made < self._statistic.changes]
        did[:, 0] += np.bincount(own[counted], minlength=len(did))
        return counted, np.where(come[counted], 1, -1)

    def _count_stays(self, users: list[int], steps: list[int], count: int) -> NDArray[np.int64]:
        """Return the change in each step if users go ``stay`` steps after their last event."""
        stay = self._statistic.stay
        assert stay is not None
        for step in [step for step in self._due if step <= self._step]:
            del self._due[step]  # it can no longer be undone
        changes, at = np.zeros(count, np.int64), 0
        now: dict[int, tuple[int, int]] = {}  # records of the users who acted
        for place in range(count):
            step, by = self._step + 1 + place, 0
            while at < len(users) and steps[at] == step:
                user = users[at]
                made, last = now.get(user) or self._record_of(user)
                made, one = self._change(made, True)
                now[user], by = (made, step), by + one
                if last != step:
                    self._due.setdefault(step + stay, []).append(user)
                at += 1
            for user in self._due.get(step, ()):
                if user >= len(self._names):
                    continue  # left over from an undone take
                made, last = now.get(user) or self._record_of(user)
                if last + stay == step:
                    made, one = self._change(made, False)
                    now[user], by = (made, last), by + one
            changes[place] = by
        acted = np.array(sorted(now), np.int64)
        self._remember(acted, self._did[acted])
        self._did[acted] = np.array([now[user] for user in acted.tolist()]).reshape(-1, 2)
        return changes

    def _record_of(self, user: int) -> tuple[int, int]:
        made, last = self._did[user].tolist()
        return made, last

    def _change(self, made: int, comes: bool) -> tuple[int, int]:
        """Return the new number of counted changes, and the change of the total (-1, 0 or 1)."""
        if comes == (made % 2 == 1) or made == self._statistic.changes:
            return made, 0
        return made + 1, 1 if comes else -1

    @override
    def undo(self) -> None:
        self._step, known, acted, did = self._before
        self._did[acted] = did
        for name in self._names[known:]:
            del self._numbers[name]
        del self._names[known:]
        self._before = self._now()

    @override
    def save(self) -> bytes:
        records = np.zeros(len(self._names), _RECORD)
        records["user"] = np.frombuffer(b"".join(self._names), f"V{DIGEST}")
        records["first"], records["second"] = self._did[: len(self._names)].T
        return self._step.to_bytes(8, "little") + records.tobytes()


def _ranks(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each number of an ascending array, how many equal numbers come before it."""
    return np.arange(len(ascending)) - np.searchsorted(ascending, ascending)
