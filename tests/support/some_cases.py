"""The cases of a test that stand for all of them where time is short."""

from typing import Any
from zlib import crc32

import pytest


def some_places(test: str, cases: int, most: int) -> list[int]:
    """Return the places of at most ``most`` of a test's cases, evenly spread and in order.

    They begin elsewhere for each test, so that tests which cross the same options do not all
    leave out the same ones; and they are the same in every run.

    >>> some_places("tests/test_sums.py::test_a", 100, 4), some_places("tests/test_b.py", 3, 4)
    ([13, 38, 63, 88], [0, 1, 2])
    """
    if cases <= most:
        return list(range(cases))
    begin = crc32(test.encode()) / 2**32
    return [int((number + begin) * cases / most) for number in range(most)]


def quick_place(test: str, cases: int) -> int:
    """Return the place, among a test's chosen cases, of the one that `make test` runs.

    `make test-long` runs the others. The place is another one for other tests, so that the cases of
    `make test` are not all from the first half of their tests' cases.

    >>> quick_place("tests/test_b.py", 2), quick_place("tests/test_c.py", 2)
    (1, 0)
    """
    return crc32(test.encode()) % cases


def long(*values: Any) -> Any:
    """A case for ``pytest.mark.parametrize`` that takes long: `make test-long` runs it."""
    return pytest.param(*values, marks=pytest.mark.long)
