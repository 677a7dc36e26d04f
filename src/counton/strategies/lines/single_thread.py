"""Linear algebra on one thread: the same numbers however many threads the library below has.

Many small products in a row are also faster so: threads that wait for each other use up processors
which others need.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from counton.arrays import Floats

#: Multiplications up to which OpenBLAS, which numpy comes with, does not take a second thread.
_ONE_THREAD = 2**18


def product(left: Floats, right: Floats) -> Floats:
    """``left @ right`` in pieces so small that each is computed on one thread.

    >>> product(np.ones((2, 3)), np.ones((3, 1))).tolist()
    [[3.0], [3.0]]
    """
    (rows, inner), columns = left.shape, right.shape[1]
    if rows * inner * columns <= _ONE_THREAD:
        return np.asarray(np.matmul(left, right))
    if inner >= max(rows, columns):
        half = inner // 2
        return product(left[:, :half], right[:half]) + product(left[:, half:], right[half:])
    if columns >= rows:
        half = columns // 2
        return np.hstack([product(left, right[:, :half]), product(left, right[:, half:])])
    half = rows // 2
    return np.vstack([product(left[:half], right), product(left[half:], right)])


def dot(left: Floats, right: Floats) -> float:
    """Inner product of two vectors.

    >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    11.0
    """
    return float(np.einsum("i,i->", left, right))  # no BLAS, which takes threads for long vectors


def descend(
    value: Callable[[Floats], tuple[float, Floats]], start: Floats, steps: int, memory: int
) -> tuple[float, Floats]:
    """Minimise a smooth function by the method L-BFGS (Nocedal and Wright, Algorithm 7.4).

    Args:
        value: the function, of values around 1, and its gradient at a vector.
        start: a vector.
        steps: most line searches.
        memory: how many of the last steps curvature is learnt from.

    Returns:
        The least value found and where it is.

    >>> least, place = descend(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)),
    ...                        np.zeros(2), steps=9, memory=3)
    >>> place.round(6).tolist()
    [3.0, 3.0]
    """
    here, slope = value(start)
    place = start
    learnt: list[tuple[Floats, Floats, float]] = []
    for _ in range(steps):
        if float(np.abs(slope).max()) < _LEVEL:
            break
        direction = _direction(slope, learnt)
        downhill = dot(direction, slope)
        if not downhill < 0:
            break
        found = _line_search(value, place, here, direction, downhill)
        if found is None:
            break
        there, reached, other = found
        moved, turned = reached - place, other - slope
        if (curvature := dot(moved, turned)) > _LEVEL**2:
            learnt = [*learnt, (moved, turned, 1 / curvature)][-memory:]
        place, here, slope = reached, there, other
    return here, place


def _direction(slope: Floats, learnt: list[tuple[Floats, Floats, float]]) -> Floats:
    """Minus the gradient times the inverse of the curvature learnt."""
    direction = -slope
    shares = []
    for moved, turned, inverse in reversed(learnt):
        shares.append(inverse * dot(moved, direction))
        direction -= shares[-1] * turned
    if learnt:
        _, turned, inverse = learnt[-1]
        direction /= inverse * dot(turned, turned)
    else:
        direction *= _FIRST_STEP / float(np.abs(slope).max())
    for (moved, turned, inverse), share in zip(learnt, reversed(shares), strict=True):
        direction += (share - inverse * dot(turned, direction)) * moved
    return direction


#: The largest change of a coordinate in the first step, of which nothing is known.
_FIRST_STEP = 0.01
#: Where even the steepest slope is less, there is nothing to gain.
_LEVEL = 1e-12
_LENGTHS = 15
_ENOUGH, _FLAT = 1e-4, 0.9


def _line_search(
    value: Callable[[Floats], tuple[float, Floats]],
    place: Floats,
    here: float,
    direction: Floats,
    downhill: float,
) -> tuple[float, Floats, Floats] | None:
    """A step that satisfies the weak Wolfe conditions, by bisection; None if there is none."""
    low, high, length = 0.0, np.inf, 1.0
    found = None
    for _ in range(_LENGTHS):
        reached = place + length * direction
        there, slope = value(reached)
        if not there <= here + _ENOUGH * length * downhill:
            high = length
        else:
            found = there, reached, slope
            if dot(slope, direction) >= _FLAT * downhill:
                return found
            low = length
        length = 2 * low if high == np.inf else (low + high) / 2
    return found
