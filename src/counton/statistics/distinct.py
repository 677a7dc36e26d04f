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
from counton.privacy.contribution import checked_unit
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
    - ``Distinct(stay=24, changes=4)``: users active within the last 24 steps. An event is a user,
      who comes with it, and goes when there was none in the last 24 steps.

    Protected is one user, with all events: neighbouring streams differ in all of one user's events,
    present or absent. What is counted of a user depends on that user's own events alone, so that
    no other user's count changes.

    - So far, a user adds 1 in one step: nothing has to be bounded.
    - In windows, a user adds 1 in one step of each of at most ``windows`` windows; later ones are
      not counted. Without ``windows`` what is protected is a user's events within one window.
    - Active now, a user changes the number by +1, -1, +1, ... at most ``changes`` times; further
      changes are not counted, so that the user stays as the last counted change left it. Coming
      while active, and going while not, is no change. Several changes within a step add up to
      -1, 0 or 1, and still alternate. With ``stay``, an even number leaves nobody active for ever.

    Args:
        window: steps of a window; None for all steps.
        windows: in how many windows a user counts, at most.
        changes: how often a user comes or goes, at most; None where users only come.
        stay: how many steps a user stays active with an event.
        unit: what one user is called; None: "user", or as the state calls it.

    Raises:
        InvalidInput: a number below 1, windows without a window, changes in windows, or stay
            without changes.

    Source: Andersson, Jain and Sivakumar (arXiv 2601.02257) for users who come and go.

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
        stay: int | None = None,
        unit: str | None = None,
    ) -> None:
        self._stated = unit is not None
        self.unit = "user" if unit is None else checked_unit(unit)
        given = {"window": window, "windows": windows, "changes": changes, "stay": stay}
        for name, number in given.items():
            if number is not None:
                given[name] = check_integer(name, number, 1, _MOST)
        self.window, self.windows, self.changes, self.stay = given.values()
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
        if stay is not None and changes is None:
            raise InvalidInput(
                f"stay is {stay}, and users then come and go without end: state changes too, how "
                f"often each does at most"
            )

    @property
    def parameters(self) -> dict[str, Any]:
        """See `Statistic.parameters`."""
        names = ("window", "windows", "changes", "stay")
        given = {name: getattr(self, name) for name in names}
        if self._stated:
            given["unit"] = self.unit
        return {name: number for name, number in given.items() if number is not None}

    @property
    def cells(self) -> tuple[int, ...]:
        """See `Statistic.cells`."""
        return ()

    def contribution(self, *, batched: bool = False) -> Contribution:
        """See `Statistic.contribution`; the same for batches."""
        if self.changes is not None:
            words = f"who comes or goes up to {self.changes:,} times"
            return Contribution.patterned(Alternating(self.changes), words, unit=self.unit)
        if self.window is None:
            return Contribution.add_remove(unit=self.unit)
        if self.windows is None:
            return Contribution.add_remove(unit=f"{self.unit} within one window")
        return Contribution.add_remove(steps=self.windows, unit=self.unit)

    def contribution_within(self, horizon: int | None, *, batched: bool = False) -> Contribution:
        """See `Statistic.contribution_within`: no more windows than there are."""
        if self.windows is None or horizon is None:
            return self.contribution(batched=batched)
        assert self.window is not None
        windows = min(self.windows, -(-horizon // self.window))
        return Contribution.add_remove(steps=windows, unit=self.unit)

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

    Of each two numbers: how many changes counted (active if it is odd), and with ``stay`` the step
    of the last event; or the last window in which it was seen, from 1, and in how many it counted.
    """

    def __init__(self, statistic: Distinct, step: int, did: dict[bytes, tuple[int, int]]) -> None:
        self._statistic, self._step, self._did = statistic, step, did
        self._before: tuple[int, dict[bytes, tuple[int, int] | None]] = (step, {})
        # With ``stay``: users to be looked at in later steps, when they may go.
        self._due: dict[int, list[bytes]] = {}
        if statistic.stay is not None:
            for user, (_, last) in did.items():
                self._due.setdefault(last + statistic.stay, []).append(user)

    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `Exact.take`."""
        this = self._statistic
        listed = events.tolist() if isinstance(events, np.ndarray) else list(events)
        come = [True] * len(listed)
        if this.changes is not None and this.stay is None:
            pairs = [pair_of(event, "whether it comes (True) or goes (False)") for event in listed]
            listed = [user for user, _ in pairs]
            come = [_whether(comes) for _, comes in pairs]
        users = digests_of(listed)
        self._before = self._step, {}
        try:
            return self._count(users, come, stops)
        except BaseException:
            self.undo()
            raise

    def _count(
        self, users: list[bytes], come: list[bool], stops: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        this = self._statistic
        for step in [step for step in self._due if step <= self._step]:
            del self._due[step]  # can no longer be undone
        changes = np.zeros(len(stops), np.int64)
        begin = 0
        for place, stop in enumerate(stops.tolist()):
            step = self._step + 1 + place
            by = 0
            for user, comes in zip(users[begin:stop], come[begin:stop], strict=True):
                did = self._did.get(user)
                if this.changes is None:
                    by += self._write(user, did, *self._seen(did, step))
                else:
                    by += self._write(user, did, *self._moved(did, comes, step))
            for user in self._due.get(step, ()):
                did = self._did.get(user)
                if did is not None and did[1] + (this.stay or 0) == step:
                    by += self._write(user, did, *self._moved(did, False, did[1]))
            changes[place], begin = by, stop
        self._step += len(stops)
        return changes

    def _write(
        self, user: bytes, did: tuple[int, int] | None, now: tuple[int, int], by: int
    ) -> int:
        if now != did:
            self._before[1].setdefault(user, did)
            self._did[user] = now
            stay = self._statistic.stay
            if stay is not None and (did is None or now[1] != did[1]):
                self._due.setdefault(now[1] + stay, []).append(user)
        return by

    def _seen(self, did: tuple[int, int] | None, step: int) -> tuple[tuple[int, int], int]:
        """What is then known of a user who is seen, and by how much the total changes."""
        window = 1 + (step - 1) // (self._statistic.window or _MOST)
        last, counted = did or (0, 0)
        most = self._statistic.windows
        if last == window or (most is not None and counted == most):
            return (last, counted), 0
        # Without a limit nobody asks in how many windows.
        return (window, 0 if most is None else counted + 1), 1

    def _moved(
        self, did: tuple[int, int] | None, comes: bool, step: int
    ) -> tuple[tuple[int, int], int]:
        """The same of a user who comes or goes."""
        made, last = did or (0, 0)
        if self._statistic.stay is not None:
            last = step
        active = made % 2 == 1
        if comes == active or made == self._statistic.changes:
            return (made, last), 0
        return (made + 1, last), 1 if comes else -1

    def undo(self) -> None:
        """See `Exact.undo`."""
        self._step, undone = self._before
        for user, did in undone.items():
            if did is None:
                del self._did[user]
            else:
                self._did[user] = did
        self._before = self._step, {}

    def save(self) -> bytes:
        """See `Exact.save`."""
        records = np.zeros(len(self._did), _RECORD)  # in order of first sight: new ones at the end
        for place, (user, (first, second)) in enumerate(self._did.items()):
            records[place] = (user, first, second)
        return self._step.to_bytes(8, "little") + records.tobytes()


def _whether(comes: Any) -> bool:
    if isinstance(comes, (bool, np.bool_)):
        return bool(comes)
    raise InvalidInput(
        f"whether a user comes is {quoted(comes)}; it must be True (comes) or False (goes)"
    )
