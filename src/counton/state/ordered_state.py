"""The exact sums of a statistic that takes events in order, kept in its stream's database."""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, ReplayMismatch, StateError
from counton.base.exact import check_integer
from counton.noise import Key
from counton.numbers import Design
from counton.state.addition import Addition
from counton.state.database import reading
from counton.state.exact_state import Parts, SavedState, StatisticRecord
from counton.state.journal import first_other
from counton.state.sql import Connection
from counton.statistics.event_machine import Machine
from counton.statistics.live_statistic import statistic_of
from counton.statistics.statistic import restore

if TYPE_CHECKING:
    from counton.numbers import Counter, Releases
    from counton.state.database import CommitHook
    from counton.statistics.statistic import Events, Exact, Statistic

#: Bytes of the digest of one step's events.
_DIGEST = 8
#: Integers below this bound are floats too, so that 5 and 5.0 are one event.
_WHOLE = 2**53


class Writer(Protocol):
    """A stream's methods that `OrderedMachine` calls to commit counts to the state."""

    @property
    def step(self) -> int: ...

    def _counter(self) -> Counter: ...

    def _release(
        self, addition: Addition, first_step: int | None, also: CommitHook | None = None
    ) -> Releases: ...


class OrderedMachine(Machine):
    """A machine that takes the events of a stream in order, counts them, and keeps digests of them.

    One transaction counts a step and saves the exact sums. Keyed digests of the events show later
    whether a repeated step has the events of its release.
    """

    _remedy = "open it again with Stream.open, which reads what was committed"

    def __init__(self, stream_id: int, terms: Design, key: Key, known: SavedState) -> None:
        statistic, batched = statistic_of(terms.statistic, terms.name)
        exact = restore_exact(statistic, known, terms.name)
        super().__init__(statistic, exact, batched, terms, key, known.step)
        self._saved, self._parts = StatisticRecord(stream_id, key, terms.name), known.parts
        self._events = bytearray(known.events)
        self._subkey = key.derive(b"events of a statistic", terms.name.encode())

    def release(
        self, writer: Writer, events: Events, stops: NDArray[np.int64], first_step: int | None
    ) -> range:
        """Release consecutive steps with their events. For a step that is released already, the
        events must be those of its release.

        Raises:
            InvalidInput: the events do not fit the statistic, or break its bounds.
            ReplayMismatch: a released step had other events.
            HorizonExceeded: the strategy serves no more steps.
            StateError: an earlier release was interrupted half-way: open the stream again.
        """
        count = len(stops)
        first = self._step + 1 if first_step is None else first_step
        if not 1 <= check_integer("first step", first, 0) <= self._step + 1:
            raise InvalidInput(
                f"first step is {first}; it must be from 1 to {self._step + 1}, the next step of "
                f"statistic {self.design.name!r}: release the steps before it first"
            )
        digests = event_digests(self._subkey, first, events, stops)
        known = min(count, self._step + 1 - first)
        self._check_known(first, digests[: _DIGEST * known])
        if known < count:
            begin = int(stops[known - 1]) if known else 0
            new = digests[_DIGEST * known :]
            self._advance(writer, events[begin:], stops[known:] - begin, new)
        return range(first, first + count)

    def check(self, events: Events, stops: NDArray[np.int64]) -> None:
        """Refuse events that differ from those with which the stream's first steps were released.
        ``stops`` has the number of events up to each step's end.
        """
        self._check_known(1, event_digests(self._subkey, 1, events, stops))

    def _check_known(self, first: int, digests: bytes) -> None:
        """Refuse events whose digests, from step ``first`` on, differ from those of released
        steps.
        """
        begin = _DIGEST * (first - 1)
        kept = bytes(self._events[begin : begin + len(digests)])
        step = first_other(kept, first, digests, _DIGEST)
        if step is not None:
            raise ReplayMismatch(
                f"step {step} of statistic {self.design.name!r} was released from other events "
                "before: releasing both would reveal their difference; give the events of the "
                "first release, or enter the change at the next step"
            )

    def _advance(
        self, writer: Writer, events: Events, stops: NDArray[np.int64], digests: bytes
    ) -> None:
        """Count the events of new steps, and commit the releases together with the exact sums and
        the ``digests`` of the events.
        """
        writer._counter()  # raises first, if an earlier release failed half-way
        self._check_horizon(len(stops))
        before = writer.step
        changes, parts = self._take(events, stops), self._parts
        try:
            if self.statistic.card.on_demand:
                changes = np.frombuffer(digests, "<u8").astype(np.int64)[:, None]
            news = self._exact.news()

            def also(connection: Connection) -> None:
                nonlocal parts
                parts = self._saved.write(
                    connection,
                    self._parts,
                    self._step + len(stops),
                    lambda: bytes(self._events) + digests,
                    self._exact.save,
                    None if news is None else (digests, news),
                )

            writer._release(Addition(changes), None, also)
        finally:
            # A commit that the writer knows of counts, even if something failed after it. Its
            # counter reports a commit that it does not know of, at the next release.
            if writer.step == before:
                self._undone()
            else:
                self._parts, self._step, self._whole = parts, writer.step, True
                self._events += digests


def event_digests(subkey: bytes, first: int, events: Events, stops: NDArray[np.int64]) -> bytes:
    """Return one keyed digest of the events of each step, from step ``first`` on, one after the
    other. ``stops`` has the number of events up to each step's end.

    Each digest has only 62 bits, so that it fits into an integer column made for counts.

    >>> two = event_digests(bytes(32), 1, [("a", 1), ("b", 2)], np.array([1, 2]))
    >>> one = event_digests(bytes(32), 2, np.array([["b", "2"]]), np.array([1]))
    >>> len(two), two[8:] == one
    (16, False)
    """
    plain = _plain(events.tolist() if isinstance(events, np.ndarray) else list(events))
    found, begin = [], 0
    for step, stop in enumerate(stops.tolist(), first):
        try:
            said = json.dumps([step, plain[begin:stop]], separators=(",", ":"))
        except ValueError:  # Python refuses to write integers of more than 4,300 digits
            raise InvalidInput(
                f"an event of step {step:,} has an integer of thousands of digits: give it as text"
            ) from None
        found.append(blake2b(said.encode(), key=subkey, digest_size=_DIGEST).digest())
        begin = stop
    digests = np.frombuffer(b"".join(found), "<u8") >> np.uint64(2)
    return digests.astype("<u8").tobytes()


def _plain(values: list[Any]) -> list[Any]:
    """Convert events to JSON values, so that equal events, such as 5 and 5.0, have equal texts."""
    kinds = set(map(type, values))
    if kinds <= {str}:
        return values
    if kinds <= {float, int} and all(abs(value) < _WHOLE for value in values):
        return list(map(float, values))
    return [_plain_one(value) for value in values]


def _plain_one(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, int | float):
        if isinstance(value, int) and abs(value) >= _WHOLE:
            return int(value)
        return repr(value) if math.isnan(value) or math.isinf(value) else float(value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return _plain(list(value))
    raise InvalidInput(
        f"an event is of type {type(value).__name__}; give a text, a number, or a tuple of them"
    )


def known_at(connection: Connection, row: Any, key: Key) -> SavedState:
    """Read a statistic's exact sums from the state; refuse sums that were saved at another step
    than the stream's last one.
    """
    known = StatisticRecord(row.id, key, row.name).read(connection)
    if known.step != row.step or len(known.events) != _DIGEST * row.step:
        raise StateError(
            f"statistic {row.name!r} is at step {row.step}, but has the digests of "
            f"{len(known.events) // _DIGEST} steps: the state was altered; restore it from a copy"
        )
    return known


def restore_exact(statistic: Statistic, known: SavedState, name: str) -> Exact:
    """Rebuild a statistic's exact sums from their saved form."""
    with reading(f"what statistic {name!r} knows"):
        return restore(statistic, known.exact, known.news)


def begin(connection: Connection, row: Any, key: Key, statistic: Statistic) -> None:
    """Save the exact sums of a statistic before its first step."""
    saved = StatisticRecord(row.id, key, row.name)
    saved.write(connection, Parts(), 0, bytes, statistic.begin().save, None)
