"""Rows of the journal: released values in compressed form, and keyed digests of the inputs.

The digests show later whether an input given again is the one that was released.
"""

from __future__ import annotations

import bisect
import hmac
import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import TypeIs

from counton.base.arrays import IntegersOrFloats, pack, to_data, unpack
from counton.base.errors import InputChangedError, InvalidInputError, StateError
from counton.base.exact import name_alone, text, without_mask
from counton.continual import Design, Releases
from counton.state.authenticated_rows import Address, AuthenticatedRows
from counton.state.database import reading
from counton.state.sql import Connection

#: Most numbers in one row of several steps.
_NUMBERS_PER_ROW = 2**18
#: Numbers that are converted to integers at once.
_NUMBERS_PER_CONVERSION = 2**20
#: Inputs of a step up to this number of values are copied before their digests are computed.
_MOST_COPIED_NUMBERS = 64
#: Steps whose digests are held one by one: a digest is an object of 39 bytes.
_DIGESTS_AT_ONCE = 2**14
#: Bytes of a digest. Different inputs get one digest with probability 2^-48; the answer is then
#: the earlier release, which reveals nothing.
_DIGEST_BYTES = 6
#: Bytes of the checksum of a row.
_CHECKSUM_BYTES = 16


def input_digests(subkey: bytes, steps: range, xs: NDArray[np.int64]) -> bytes:
    """Return the joined keyed digests (BLAKE2b) of exact inputs, shape (steps, *shape).

    The key is needed because a count is easily guessed, so a plain hash would reveal it. The step
    is part of the digest, because otherwise one could see that two steps have equal counts.

    >>> len(input_digests(bytes(32), range(1, 3), np.array([5, 7])))
    12
    """
    rows = np.asarray(xs, dtype="<i8").reshape(len(steps), -1)
    keyed = blake2b(key=subkey, digest_size=_DIGEST_BYTES)
    digests = []
    if rows.shape[1] > _MOST_COPIED_NUMBERS:
        for step, row in zip(steps, rows, strict=True):
            digest = keyed.copy()
            digest.update(step.to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(row).data)
            digests.append(digest.digest())
        return b"".join(digests)
    for start in range(0, len(rows), _DIGESTS_AT_ONCE):
        part = slice(start, start + _DIGESTS_AT_ONCE)
        # One slice for each step is quicker than its parts.
        numbers = np.array(steps[part], dtype="<i8")[:, None]
        plain = np.concatenate([numbers, rows[part]], axis=1).tobytes()
        size = 8 * (1 + rows.shape[1])
        part_digests = []
        for offset in range(0, len(plain), size):
            digest = keyed.copy()
            digest.update(plain[offset : offset + size])
            part_digests.append(digest.digest())
        digests.append(b"".join(part_digests))
    return b"".join(digests)


@name_alone
class JournalRow(Protocol):
    """A row of the journal; `counton.state.schema` says what its columns hold."""

    step: int
    steps: int
    unit: str | None
    estimates: bytes
    input_digests: bytes
    std: float
    digest: str | None
    checksum: bytes

    def _asdict(self) -> dict[str, Any]: ...


class TotalsRow(Protocol):
    """A row of the totals of windows; `counton.state.schema` says what its columns hold."""

    shape: str
    steps: bytes
    totals: bytes


class NewJournalRow(TypedDict):
    """A row to write into the journal, without its checksum."""

    stream_id: int
    step: int
    steps: int
    input_digests: bytes
    unit: str | None
    estimates: bytes
    std: float
    digest: str | None


class Entries(NamedTuple):
    """Consecutive steps of the journal: values, digests, and the last step's noise std."""

    values: IntegersOrFloats
    input_digests: bytes
    std: float | None  # of the last row's last step


def release_rows(
    stream_id: int,
    releases: Releases,
    std: NDArray[np.float64],
    xs: NDArray[np.int64],
    subkey: bytes,
) -> Iterator[NewJournalRow]:
    """Yield the journal's rows of released steps: ``std`` of each step, exact inputs ``xs``."""
    count = len(releases.steps)
    first = releases.steps.start
    values = releases.values
    size = max(1, _NUMBERS_PER_ROW * count // max(values.size, 1))
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))
        steps = range(first + part.start, first + part.stop)
        unit, read = _whole(values[part], releases.unit)
        yield {
            "stream_id": stream_id,
            "step": steps[-1],
            "steps": len(steps),
            "input_digests": input_digests(subkey, steps, xs[part]),
            "unit": unit,
            "estimates": pack(values[part], read),
            "std": float(std[part][-1]),
            "digest": None,
        }


def write(connection: Connection, rows: Sequence[NewJournalRow]) -> None:
    """Write rows of the journal, each with its checksum."""
    checked = [{**row, "checksum": checksum_of(**row)} for row in rows]
    connection.insert("counton_journal", *checked)


def checksum_of(
    *,
    step: int,
    steps: int,
    input_digests: bytes,
    unit: str | None,
    estimates: bytes,
    std: float,
    digest: str | None,
    **_: object,
) -> bytes:
    """Return the checksum of a row of the journal.

    It has no key, so that all readers notice damage. Alterations on purpose are found by `verify`,
    which computes all releases again.
    """
    texts = f"{unit} {digest}".encode()
    sizes = struct.pack("<3q", len(input_digests), len(texts), len(estimates))
    head = struct.pack("<2qd", step, steps, std)
    whole = b"".join([head, sizes, input_digests, texts, estimates])
    return blake2b(whole, digest_size=_CHECKSUM_BYTES).digest()


def _check_row(row: JournalRow) -> JournalRow:
    """Return a row of the journal; refuse it if it is damaged."""
    if checksum_of(**row._asdict()) != bytes(row.checksum):
        raise StateError(
            f"the release of step {row.step:,} in table counton_journal does not fit its checksum: "
            "the state was altered; restore it from a copy"
        )
    return row


def digest_at(connection: Connection, stream_id: int, step: int) -> str | None:
    """Return the guard's digest of a step; None unless the step is the last of a commit."""
    sql = f"{_COLUMNS} WHERE stream_id = :stream AND step = :at"
    row = connection.first(sql, stream=stream_id, at=step)
    return None if row is None else _check_row(row).digest


def _whole(
    values: IntegersOrFloats, unit: Fraction
) -> tuple[str | None, Callable[[IntegersOrFloats], NDArray[np.int64]]]:
    """Return the unit whose integer multiples all values are, and the conversion to integers.

    The unit is None for integers. It is "" if ``unit`` does not fit: then each float is its 64
    bits.
    """
    if values.dtype.kind in "iu":
        return None, lambda values: values.astype(np.int64)

    def whole(values: IntegersOrFloats) -> NDArray[np.int64]:
        with np.errstate(all="ignore"):
            multiples: NDArray[np.int64] = np.rint(values * float(1 / unit)).astype(np.int64)
            return multiples

    flat = values.reshape(-1)
    for start in range(0, flat.size, _NUMBERS_PER_CONVERSION):
        chunk = np.ascontiguousarray(flat[start : start + _NUMBERS_PER_CONVERSION], np.float64)
        again = _values(whole(chunk), text(unit))
        if (again.view(np.int64) != chunk.view(np.int64)).any():
            return "", lambda values: np.array(values, np.float64).view(np.int64)
    return text(unit), whole


def _values(whole: NDArray[np.int64], unit: str | None) -> IntegersOrFloats:
    """Convert integers of `_whole` back to the exact values, in place."""
    if unit is None:
        return whole
    values = whole.view(np.float64)
    if unit:
        flat = whole.reshape(-1)
        flat_values = values.reshape(-1)
        for start in range(0, whole.size, _NUMBERS_PER_CONVERSION):
            part = slice(start, start + _NUMBERS_PER_CONVERSION)
            flat_values[part] = to_data(flat[part], Fraction(unit))
    return values


_COLUMNS = (
    "SELECT step, steps, unit, estimates, input_digests, std, digest, checksum FROM counton_journal"
)
_ENTRIES = (
    f"{_COLUMNS} WHERE stream_id = :stream AND step >= :start AND step - steps + 1 < :stop"
    " ORDER BY step"
)


def shape_of(saved_design: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of one step's released values, from a stream's public design (JSON values).

    A length of -1 means any.

    >>> of_counts = {"shape": [2, 3], "strategy": {"strategy": "Binary"}}
    >>> shape_of(of_counts), shape_of({"shape": [84], "statistic": {}})
    ((2, 3), (-1,))
    """
    if "counters" in saved_design or "statistic" in saved_design:
        return (-1,)
    several = saved_design["strategy"]["strategy"] == "WindowVersions"
    return (-1,) if several else tuple(saved_design["shape"])


def read(
    connection: Connection,
    stream_id: int,
    start: int,
    stop: int,
    design: Design | Mapping[str, object],
) -> Entries:
    """Read the exact releases of some steps, and the digests of their inputs.

    Args:
        connection: an open transaction.
        stream_id: the stream's number in the state.
        start: the first step.
        stop: the step after the last.
        design: the stream's design, or its JSON values, which leave more lengths open.

    Raises:
        StateError: a step is missing, doubled or malformed.
    """
    if isinstance(design, Mapping):
        shape = shape_of(design)
    else:
        shape = (-1, *design.step_shape[1:]) if design.finds_cells else design.step_shape
    stored = connection.rows(_ENTRIES, stream=stream_id, start=start, stop=stop)
    rows = [*map(_check_row, stored)]
    with reading(f"the journal between steps {start} and {stop - 1}"):
        return _join_entries(rows, range(start, stop), shape)


def _join_entries(rows: Sequence[JournalRow], steps: range, shape: tuple[int, ...]) -> Entries:
    """Join rows of the journal into the exact releases of some steps.

    Args:
        rows: rows that hold the steps, in their order.
        steps: the steps.
        shape: shape of one step's values, of which the first length may be any.

    Raises:
        StateError: a step is missing, doubled or malformed.
    """
    values: IntegersOrFloats = np.empty((0, *(max(size, 0) for size in shape)), np.int64)
    digests = list[bytes]()
    following = steps.start
    std = None
    for row in rows:
        if following == steps.stop:
            break
        first = row.step - row.steps + 1
        part = slice(following - first, min(row.step + 1, steps.stop) - first)
        is_first_row = not digests
        begins_at_following = part.start == 0 or (is_first_row and part.start > 0)
        if not begins_at_following or part.stop <= part.start:
            raise _unreadable(steps, following)
        if len(row.input_digests) != _DIGEST_BYTES * row.steps:
            raise ValueError(
                f"the digests of inputs of {row.steps:,} steps take "
                f"{len(row.input_digests)} bytes instead of {_DIGEST_BYTES * row.steps}"
            )
        chunk = _values(_decode(row, shape), row.unit)[part]
        if not is_first_row and chunk.dtype != values.dtype:  # one of them was altered
            raise _unreadable(steps, following)
        if len(chunk) == len(steps):
            values = chunk
        else:
            if is_first_row:
                values = _room_for(rows, steps, shape, chunk.dtype)
            begin = following - steps.start
            values[begin : begin + len(chunk), *map(slice, chunk.shape[1:])] = chunk
        digests.append(row.input_digests[_DIGEST_BYTES * part.start : _DIGEST_BYTES * part.stop])
        following = first + part.stop
        std = row.std
    if following != steps.stop:
        raise _unreadable(steps, following)
    return Entries(values=values, input_digests=b"".join(digests), std=std)


def _decode(row: JournalRow, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the estimates of a row, in multiples of its unit."""
    if shape[:1] != (-1,):
        return unpack(row.estimates, (row.steps, *shape))
    flat = unpack(row.estimates, (row.steps, -1))
    return flat.reshape(row.steps, flat.shape[1] // math.prod(shape[1:]), *shape[1:])


def _room_for(
    rows: Sequence[JournalRow], steps: range, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> IntegersOrFloats:
    """Return zeros for the values of all steps.

    If cells are found in the data, the last step has all of them. They have no values before they
    are found.
    """
    cells = _decode(rows[-1], shape).shape[1:] if shape[:1] == (-1,) else shape
    size = min(len(steps), sum(row.steps for row in rows))
    return np.zeros((size, *cells), dtype)


def _unreadable(steps: range, following: int) -> StateError:
    """Build the error for a journal in which the step ``following`` cannot be read."""
    return StateError(
        f"the journal has {following - steps.start} readable releases for the "
        f"{len(steps)} steps from {steps.start} to {steps.stop - 1}: the state was altered; "
        "restore it from a copy"
    )


def widths(connection: Connection, stream_id: int, last: int) -> Iterator[tuple[range, int]]:
    """Yield the ranges of steps written together, up to ``last``, with each step's number of
    values.
    """
    with reading(f"the journal up to step {last}"):
        for row in connection.rows(_ENTRIES, stream=stream_id, start=1, stop=last + 1):
            _check_row(row)
            steps = range(row.step - row.steps + 1, row.step + 1)
            yield steps, unpack(row.estimates, (row.steps, -1)).shape[1]


def check_inputs(digests: bytes, start: int, xs: NDArray[np.int64], subkey: bytes) -> None:
    """Raise an error for the first step from ``start`` on with another input in ``xs``."""
    step = first_other(digests, start, input_digests(subkey, range(start, start + len(xs)), xs))
    if step is not None:
        raise InputChangedError(
            f"step {step} was released from another input before: releasing both would reveal "
            "their difference; give the input of the first release, or enter the change at the "
            "next step"
        )


def first_other(stored: bytes, start: int, current: bytes) -> int | None:
    """Return the first step, from ``start`` on, at which two strings of digests differ."""
    if hmac.compare_digest(stored, current):
        return None
    old, new = (
        np.frombuffer(text, np.uint8).reshape(-1, _DIGEST_BYTES) for text in (stored, current)
    )
    return start + int(np.argmax((old != new).any(axis=1)))


@name_alone
class WindowTotals(NamedTuple):
    """Exact totals of the rows read so far in some windows of a stream. The totals of each window
    are an array, of the same shape for all of them. Secret.

    Attributes:
        steps: numbers of the windows, from 1, ascending.
        totals: shape ``(len(steps), *shape)``, in the narrowest type of signed integers that fits.
    """

    steps: NDArray[np.int64]
    totals: NDArray[np.int64]

    def only(self, chosen: NDArray[np.bool_ | np.int64] | slice) -> WindowTotals:
        """Return the totals of the windows that a mask, places or a slice choose."""
        return WindowTotals(self.steps[chosen], self.totals[chosen])

    def replace(self, newer: WindowTotals) -> WindowTotals:
        """Return these totals with those of ``newer`` added or put in their place."""
        others = self.only(~np.isin(self.steps, newer.steps))
        steps = np.concatenate([others.steps, newer.steps])
        both = WindowTotals(steps, np.concatenate([others.totals, newer.totals]))
        return both.only(np.argsort(steps))

    def blocks(self) -> Iterator[tuple[int, WindowTotals]]:
        """Yield for each database row the first window of its fixed range, and the totals in it."""
        size = max(1, _NUMBERS_PER_ROW // max(1, self.totals[:1].size))
        numbers = (self.steps - 1) // size
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, stop in pairwise(edges):
            if start < stop:
                yield int(numbers[start]) * size + 1, self.only(slice(start, stop))

    def row(self, first: int, released: int, shape: str) -> dict[str, object]:
        """Return these totals as a row with room from ``first`` on, after ``released`` steps.

        ``shape`` is that of one window's totals, as JSON.
        """
        return {
            "step": first,
            "shape": shape,
            "last": int(self.steps[-1]),
            "written": released,
            "steps": pack(self.steps),
            "totals": pack(self.totals.reshape(len(self.steps), -1)),
        }

    @classmethod
    def of_row(cls, row: TotalsRow) -> WindowTotals:
        """Build the totals of some windows from the database row in which they are stored."""
        with reading("what was observed"):
            shape = tuple(json.loads(row.shape))
            steps = unpack(row.steps, ())
            return cls(steps, unpack(row.totals, (len(steps), *shape), narrow=True))


def write_observed(
    connection: Connection,
    rows: AuthenticatedRows,
    observed: Mapping[int, ArrayLike] | WindowTotals,
    first_step: int,
) -> None:
    """Replace the stored totals of windows, in a transaction that begins at step ``first_step``.

    Steps that the transaction releases count all rows read in windows up to the last of them. One
    database row holds totals of one array shape.
    """
    totals_by_shape = [observed] if isinstance(observed, WindowTotals) else _stacked(observed)
    for seen in totals_by_shape:
        shape = json.dumps(seen.totals.shape[1:])
        _forget_other_shapes(connection, rows, seen, shape)
        for first, block in seen.blocks():
            address = (first, shape)
            if address in rows:
                block = WindowTotals.of_row(rows.read(connection, address)).replace(block)
                rows.delete(connection, address)
            rows.insert(connection, [block.row(first, first_step, shape)])


def _stacked(observed: Mapping[int, ArrayLike]) -> list[WindowTotals]:
    """Return totals by window as one array for each shape.

    Raises:
        InvalidInputError: a window is below 1, or its totals are no integers within int64.
    """
    totals_by_shape: dict[tuple[int, ...], tuple[list[int], list[NDArray[Any]]]] = {}
    for step, totals in sorted(observed.items()):
        array = totals
        if not _is_plain(array):
            array = np.asarray(without_mask(totals, f"observed totals of window {step}"))
        if step < 1 or array.dtype.kind not in "iub" or array.dtype == np.uint64:
            raise InvalidInputError(
                f"observed totals of window {step} have dtype {array.dtype}; windows must count "
                "from 1, and totals must be integers within int64: convert them"
            )
        steps, arrays = totals_by_shape.setdefault(array.shape, ([], []))
        steps.append(int(step))
        arrays.append(array)
    return [
        # The totals of a single window are not copied.
        WindowTotals(
            np.array(steps, np.int64),
            arrays[0][None] if len(arrays) == 1 else np.array(arrays, np.int64),
        )
        for steps, arrays in totals_by_shape.values()
    ]


def _is_plain(totals: ArrayLike) -> TypeIs[NDArray[Any]]:
    """Return whether totals are an array that no mask and no object can be hidden in."""
    return type(totals) is np.ndarray and totals.dtype != object


def _forget_other_shapes(
    connection: Connection, rows: AuthenticatedRows, seen: WindowTotals, shape: str
) -> None:
    """Delete the stored totals of windows in ``seen`` whose arrays have another shape."""
    for address in rows.addresses():
        first, other_shape = address
        last, written = rows.index_values(address)
        if other_shape == shape or not _has_step(seen.steps, first, last):
            continue
        before = WindowTotals.of_row(rows.read(connection, address))
        others = before.only(~np.isin(before.steps, seen.steps))
        if len(others.steps) < len(before.steps):
            rows.delete(connection, address)
            if len(others.steps):
                rows.insert(connection, [others.row(first, written, other_shape)])


def _has_step(steps: NDArray[np.int64], first: int, last: int) -> bool:
    """Return True if one of some ascending steps is from ``first`` to ``last``."""
    place = int(np.searchsorted(steps, first))
    return place < len(steps) and int(steps[place]) <= last


def read_observed(
    connection: Connection,
    rows: AuthenticatedRows,
    released: int,
    further_windows: NDArray[np.int64] | None,
) -> Iterator[WindowTotals]:
    """Yield the windows' stored totals in parts: those with rows after step ``released``, and of
    ``further_windows``, ascending; None: all.

    Windows with nothing left to count are skipped, so reading does not slow down with age.
    """
    for address in rows.addresses():
        if further_windows is None or is_read(
            address, rows.index_values(address), released, further_windows
        ):
            yield WindowTotals.of_row(rows.read(connection, address))


def is_read(
    address: Address,
    index_values: tuple[Any, ...],
    released: int,
    further_windows: NDArray[np.int64],
) -> bool:
    """Return True if a row of totals is read: it has windows that wait for their release, or rows
    that were read after the last release, or windows of ``further_windows``.
    """
    first, _ = address
    last, written = index_values
    return bool(last > released or written >= released or _has_step(further_windows, first, last))


#: Bytes of the keyed digest of a file. Another file has the same with probability 2^-128.
_SOURCE_DIGEST_BYTES = 16


def write_sources(
    connection: Connection, rows: AuthenticatedRows, digests: Iterable[str], subkey: bytes
) -> None:
    """Record input files as counted; refuse a file that was counted before."""
    parts: dict[Address, set[bytes]] = {}
    for digest in digests:
        keyed = _keyed_digest(digest, subkey)
        address = _part_of(keyed)
        if address not in parts:
            whole = _digests_in(connection, rows, address)
            parts[address] = {
                whole[start : start + _SOURCE_DIGEST_BYTES]
                for start in range(0, len(whole), _SOURCE_DIGEST_BYTES)
            }
        if keyed in parts[address]:
            raise InputChangedError(
                f"source {digest} has been counted already, and counting it twice would give wrong "
                "totals; leave it out"
            )
        parts[address].add(keyed)
    for address, part_digests in parts.items():
        if address in rows:
            rows.delete(connection, address)
        rows.insert(connection, [{"part": address[0], "digests": b"".join(sorted(part_digests))}])


def has_source(connection: Connection, rows: AuthenticatedRows, digest: str, subkey: bytes) -> bool:
    """Return True if the stream has counted a file with this digest."""
    keyed = _keyed_digest(digest, subkey)
    whole = _digests_in(connection, rows, _part_of(keyed))

    def digest_of(place: int) -> bytes:
        return whole[place * _SOURCE_DIGEST_BYTES : (place + 1) * _SOURCE_DIGEST_BYTES]

    place = bisect.bisect_left(range(len(whole) // _SOURCE_DIGEST_BYTES), keyed, key=digest_of)
    return digest_of(place) == keyed


def _part_of(keyed: bytes) -> Address:
    """Return the row in which the digest of a file stands: one of 64."""
    return (keyed[0] >> 2,)


def _digests_in(connection: Connection, rows: AuthenticatedRows, address: Address) -> bytes:
    """Return the ascending digests of counted files in one row, joined."""
    return bytes(rows.read_once(connection, address).digests) if address in rows else b""


def _keyed_digest(digest: str, subkey: bytes) -> bytes:
    return hmac.digest(subkey, digest.encode(), "sha256")[:_SOURCE_DIGEST_BYTES]
