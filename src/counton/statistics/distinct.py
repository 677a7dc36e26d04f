"""How many users there are: seen so far, in each window of steps, or active now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput, StateError
from counton.exact import check_integer, quoted
from counton.laws import Alternating
from counton.mechanisms import Release
from counton.privacy import Contribution
from counton.statistics.base import Events, Exact, Statistic
from counton.statistics.readings import Reading
from counton.statistics.users import DIGEST, digests_of, pair_of

_MOST = 2**40
#: A digest, and two numbers of what the user did.
_RECORD = np.dtype([("user", f"V{DIGEST}"), ("first", "<i8"), ("second", "<i8")])


class Distinct(Statistic):
    """Number of distinct users.

    - ``Distinct()``: users seen so far. An event is a user, who counts at first sight.
    - ``Distinct(window=24)``: as many again in each window of 24 steps. Releases are running totals
      over all windows; `Reading.since` the last reading of the window before gives the users of
      this one.
    - ``Distinct(changes=4)``: users active now. An event is ``(user, True)`` for one who comes and
      ``(user, False)`` for one who goes.

    Protected is one user, with all events: neighbouring streams differ in all of one user's events,
    present or absent. What is counted of a user depends on that user's own events alone, so that
    no other user's count changes.

    - So far, a user adds 1 in one step: nothing has to be bounded.
    - In windows, a user adds 1 in one step of each of at most ``windows`` windows; later ones are
      not counted. Without ``windows`` what is protected is a user's events within one window.
    - Active now, a user changes the number by +1, -1, +1, ... at most ``changes`` times; further
      changes are not counted, so that the user stays as the last counted change left it. Coming
      while active, and going while not, is no change. Several changes within a step add up to
      -1, 0 or 1, and still alternate.

    Args:
        window: steps of a window; None for all steps.
        windows: in how many windows a user counts, at most.
        changes: how often a user comes or goes, at most; None where users only come.

    Raises:
        InvalidInput: a number below 1, windows without a window, or changes in windows.

    Source: section 6.1 of Andersson, Jain and Sivakumar, "Private Continual Counting of Unbounded
    and Fully Dynamic Streams" (arXiv 2601.02257) for users who come and go.

    >>> from counton import Key, ZCDP
    >>> from counton.statistics import Distinct
    >>> users = Distinct().counter(365, ZCDP(8), key=Key.generate(), name="users", batched=True)
    >>> today = users.release_batch(["ann", "bob", "ann"])
    >>> -20 < today.users < 20, today.table_columns()["estimate"].tolist() == [today.users]
    (True, True)
    >>> print(Distinct(changes=4).contribution())
    one user, who comes or goes up to 4 times, added or removed
    """

    event = "user"

    def __init__(
        self,
        *,
        window: int | None = None,
        windows: int | None = None,
        changes: int | None = None,
    ) -> None:
        given = {"window": window, "windows": windows, "changes": changes}
        for name, number in given.items():
            if number is not None:
                given[name] = check_integer(name, number, 1, _MOST)
        self.window, self.windows, self.changes = given.values()
        if window is None and windows is not None:
            raise InvalidInput(
                f"windows is {windows}, but there are none: state window too, how many steps one "
                f"has"
            )
        if window is not None and changes is not None:
            raise InvalidInput(
                f"window is {window} and changes is {changes}; users who come and go are counted "
                f"as they are active at each step: leave window out"
            )

    @property
    def parameters(self) -> dict[str, Any]:
        """See `Statistic.parameters`."""
        given = {"window": self.window, "windows": self.windows, "changes": self.changes}
        return {name: number for name, number in given.items() if number is not None}

    @property
    def cells(self) -> tuple[int, ...]:
        """See `Statistic.cells`."""
        return ()

    def contribution(self, *, batched: bool = False) -> Contribution:
        """See `Statistic.contribution`; the same for batches."""
        if self.changes is not None:
            words = f"who comes or goes up to {self.changes:,} times"
            return Contribution.patterned(Alternating(self.changes), words, unit="user")
        if self.window is None:
            return Contribution.add_remove(unit="user")
        if self.windows is None:
            return Contribution.add_remove(unit="user within one window")
        return Contribution.add_remove(steps=self.windows, unit="user")

    def begin(self) -> Exact:
        """See `Statistic.begin`."""
        return _Users(self, 0, {})

    def restore(self, saved: bytes) -> Exact:
        """See `Statistic.restore`."""
        try:
            records = np.frombuffer(saved, _RECORD, offset=8)
        except ValueError as error:
            raise StateError(f"users cannot be read: {error}: restore a copy") from error
        users = (user.tobytes() for user in records["user"])
        did = zip(records["first"].tolist(), records["second"].tolist(), strict=True)
        step = int.from_bytes(saved[:8], "little")
        return _Users(self, step, dict(zip(users, did, strict=True)))

    def read(self, release: Release) -> Reading:
        """See `Statistic.read`."""
        return DistinctReading(self, release)

    def cell(self, name: Any) -> int:
        """See `Statistic.cell`: the only one is called "users"."""
        if name != "users":
            raise InvalidInput(f"cell is {quoted(name)}; there is only 'users'")
        return 0

    def name_of(self, cell: int) -> str:
        """See `Statistic.name_of`."""
        return "users"


class DistinctReading(Reading):
    """Users at one step.

    Attributes:
        users: estimate of their number, as ``["users"]``.
    """

    @property
    def users(self) -> Any:
        """Estimate of the number of users."""
        return self["users"]

    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """See `Reading.table_columns`."""
        return self.release.table_columns(level)


class _Users(Exact):
    """What each user did.

    Of each: the number of counted changes (active if it is odd); or the last window in which it was
    seen, from 1, and in how many it counted.
    """

    def __init__(self, statistic: Distinct, step: int, did: dict[bytes, tuple[int, int]]) -> None:
        self._statistic, self._step, self._did = statistic, step, did
        self._before: tuple[int, dict[bytes, tuple[int, int] | None]] = (step, {})

    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Exact.take`."""
        listed = events.tolist() if isinstance(events, np.ndarray) else list(events)
        come: list[bool] = []
        if self._statistic.changes is not None:
            pairs = [pair_of(event, "whether it comes (True) or goes (False)") for event in listed]
            listed = [user for user, _ in pairs]
            come = [_whether(comes) for _, comes in pairs]
        users = digests_of(listed)
        steps = np.repeat(np.arange(len(stops)), np.diff(stops, prepend=0)).tolist()
        changes = np.zeros(len(stops), np.int64)
        undone: dict[bytes, tuple[int, int] | None] = {}
        for place, (user, step) in enumerate(zip(users, steps, strict=True)):
            did = self._did.get(user)
            now, by = (
                self._moved(did, come[place])
                if come
                else self._seen(did, 1 + (self._step + step) // (self._statistic.window or _MOST))
            )
            if now != did:
                undone.setdefault(user, did)
                self._did[user] = now
                changes[step] += by
        self._before = self._step, undone
        self._step += len(stops)
        return changes

    def _seen(self, did: tuple[int, int] | None, window: int) -> tuple[tuple[int, int], int]:
        last, counted = did or (0, 0)
        most = self._statistic.windows
        if last == window or (most is not None and counted == most):
            return (last, counted), 0
        # Without a limit nobody asks in how many windows.
        return (window, 0 if most is None else counted + 1), 1

    def _moved(self, did: tuple[int, int] | None, comes: bool) -> tuple[tuple[int, int], int]:
        made, _ = did or (0, 0)
        active = made % 2 == 1
        if comes == active or made == self._statistic.changes:
            return (made, 0), 0
        return (made + 1, 0), 1 if comes else -1

    def undo(self) -> None:
        """See `Exact.undo`."""
        self._step, undone = self._before
        for user, did in undone.items():
            if did is None:
                del self._did[user]
            else:
                self._did[user] = did

    def save(self) -> bytes:
        """See `Exact.save`."""
        records = np.zeros(len(self._did), _RECORD)
        for place, (user, (first, second)) in enumerate(sorted(self._did.items())):
            records[place] = (user, first, second)
        return self._step.to_bytes(8, "little") + records.tobytes()


def _whether(comes: Any) -> bool:
    if isinstance(comes, (bool, np.bool_)):
        return bool(comes)
    raise InvalidInput(
        f"whether a user comes is {quoted(comes)}; it must be True (comes) or False (goes)"
    )
