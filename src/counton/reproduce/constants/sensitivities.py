"""Section 5: what one protected unit moves, as printed, as claimed by counton, and by trying."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from counton.reproduce.constants.numbers import psi_star
from counton.reproduce.evidence import Comparison
from counton.strategies import SqrtToeplitz

_WHY = "the columns of C are not orthogonal: changes of several steps add up in its nodes"


def moved(changes: Iterable[NDArray[np.int64]], steps: int) -> float:
    """Largest squared 2-norm of C d over these differences, shape (steps, cells), in Psi*(T).

    >>> round(moved([np.eye(4, 1, dtype=np.int64)], 4), 6)
    1.0
    """
    measured = np.asarray(SqrtToeplitz(steps).matrices()[1], dtype=np.float64)
    largest = max(float(((measured @ change) ** 2).sum()) for change in changes)
    return largest / psi_star(steps)


def histogram() -> Iterator[Comparison]:
    """Corollary 2: a step is a set of at most b of u items."""
    most = 2
    for items, kinds in ((5, (0, 1)), (3, (0, 1)), (4, (-1, 0, 1))):
        steps = [
            np.array(step)
            for step in itertools.product(kinds, repeat=items)
            if np.abs(step).sum() <= most
        ]
        pairs = [one - other for one, other in itertools.combinations(steps, 2)]
        what = "{-1, 0, 1}" if -1 in kinds else "{0, 1}"
        yield Comparison(
            "Corollary 2", f"squared norm in Psi*, b = {most} of {items} items in {what}",
            f"{most}", moved((np.outer(np.eye(6)[0], pair) for pair in pairs), 6), differs=True,
            tolerance=1e-5,
            note="b is that of a step added or removed; neighbours are defined as one step "
            "replaced: min(2b, u), and 4b with removals",
        )  # fmt: skip
    single = (np.outer(np.eye(6)[0], step) for step in ([1, 0, 0, 0, 0], [1, 1, 0, 0, 0]))
    yield Comparison(
        "Corollary 2", "squared norm in Psi*, a set of 2 items added or removed", "2",
        moved(single, 6), tolerance=1e-5,
    )  # fmt: skip
