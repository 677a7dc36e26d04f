"""Digests of users' names, by which exact counts recognise users."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, StateError
from counton.base.exact import quote

#: Bytes of a digest. Among 10^9 users, two have equal digests with probability below 1e-20.
DIGEST_BYTES = 16
#: Integers have at most 1,000 digits; Python writes none of over 4,300.
_MOST_BITS = 3321


def unique_digests(users: list[Any], *, once: bool = False) -> tuple[list[bytes], NDArray[np.intp]]:
    """Return a digest for each different user in order, and each event's index among them.

    A digest does not hide the name, since names can be guessed and digested.

    Args:
        once: True if only the first event of each user has an index.

    >>> digests, places = unique_digests(["ann", 7, "ann", np.int64(7), "7"])
    >>> len(digests[0]), places.tolist()
    (16, [0, 1, 0, 1, 2])
    """
    kinds = set(map(type, users))
    names: Sequence[Any] = users
    if not kinds <= {str, int}:  # equal names, such as 1 and True, may be different users
        names = [_name_bytes(user) for user in users]
    different = dict.fromkeys(names)
    if kinds <= {str}:
        encoded = [b"s" + name.encode("utf-8", "surrogatepass") for name in different]
    else:
        encoded = [*different] if names is not users else [_name_bytes(name) for name in different]
    digests = [blake2b(name, digest_size=DIGEST_BYTES).digest() for name in encoded]
    if once or len(different) == len(names):
        return digests, np.arange(len(different), dtype=np.intp)
    place = dict(zip(different, range(len(different)), strict=True))
    return digests, np.fromiter(map(place.__getitem__, names), np.intp, len(names))


def _name_bytes(user: object) -> bytes:
    value = user.item() if isinstance(user, np.generic) else user
    if type(value) is str:
        return b"s" + value.encode("utf-8", "surrogatepass")
    if type(value) is int and value.bit_length() <= _MOST_BITS:
        return b"i%d" % value
    raise InvalidInputError(
        f"a user is {quote(value)}; give a text or an integer of up to 1,000 digits, which must be "
        "equal in all events of the user"
    )


def records_of(saved: bytes, kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Convert saved bytes to records of this type; `StateError` if they are none."""
    try:
        return np.frombuffer(saved, kind)
    except ValueError as error:
        raise StateError(
            f"saved users cannot be read ({error}): restore them from a copy"
        ) from error


def user_digests(records: NDArray[np.void]) -> list[bytes]:
    """Return the digest of each record."""
    digests = records["user"].tobytes()
    return [digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)]


def split_user(event: object, second: str) -> tuple[Any, Any]:
    """Split an event into its user and the rest, ``second`` in messages.

    >>> split_user(("ann", "JFK"), "its group")
    ('ann', 'JFK')
    """
    if isinstance(event, (tuple, list, np.ndarray)) and len(event) == 2:
        return event[0], event[1]
    raise InvalidInputError(f"an event is {quote(event)}; give pairs of the user and {second}")


def comes_or_goes(comes: object, subject: str) -> bool:
    """Return True if ``subject`` comes, False if it goes; refuse other values."""
    if isinstance(comes, (bool, np.bool_)):
        return bool(comes)
    raise InvalidInputError(
        f"whether {subject} comes is {quote(comes)}; give True (comes) or False (goes)"
    )
