"""Which strategies are worth comparing: every useful trade of sensitivity for error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from counton.errors import InvalidInput
from counton.strategies import (
    Binary,
    HonakerOnline,
    KAry,
    Metric,
    SmoothBinary,
    SqrtToeplitz,
    Strategy,
)
from counton.strategies.kary import LARGEST_CANDIDATE
from counton.strategies.smooth import LARGEST_HEIGHT

#: More zeros than this are never worth their sensitivity.
MOST_ZEROS = 64


@lru_cache(maxsize=64)
def contenders(
    horizon: int, metric: Metric
) -> tuple[tuple[tuple[str, tuple[Strategy, ...]], ...], tuple[str, ...]]:
    """Strategies by kind, and notes on kinds which cannot serve the horizon.

    Within a kind, parameters appear only if no others have both a smaller sensitivity and a
    smaller error: which of them is best depends on the guarantee.

    >>> kinds, notes = contenders(1000, "mean")
    >>> [name for name, _ in kinds]
    ['binary', 'Honaker online', 'k-ary', 'k-ary with subtraction', 'smooth binary',
     'smooth binary, even height', 'square root']
    """
    sources: dict[str, Callable[[], Iterable[Strategy]]] = {
        "binary": lambda: [Binary(horizon)],
        "Honaker online": lambda: [HonakerOnline(horizon)],
        "k-ary": lambda: _trees(horizon, metric, subtraction=False),
        "k-ary with subtraction": lambda: _trees(horizon, metric, subtraction=True),
        "smooth binary": lambda: _smooth(horizon),
        "smooth binary, even height": lambda: [SmoothBinary.even(horizon)],
        "square root": lambda: [SqrtToeplitz(horizon)],
    }
    kinds, notes = [], []
    for name, source in sources.items():
        try:
            kinds.append((name, tuple(source())))
        except InvalidInput as error:
            notes.append(f"{name}: left out, {error}")
    return tuple(kinds), tuple(notes)


def _trees(horizon: int, metric: Metric, *, subtraction: bool) -> Iterator[KAry]:
    """The best arity for every height; both sensitivities are functions of the height."""
    largest = max(2, min(horizon + 1, LARGEST_CANDIDATE))
    best: dict[int, tuple[float, KAry]] = {}
    for arity in range(2, largest + 1):
        tree = KAry(horizon, arity, subtraction)
        error = tree.error(metric)
        if tree.height not in best or error < best[tree.height][0]:
            best[tree.height] = (error, tree)
    yield from _undominated(best[height] for height in sorted(best))


def _smooth(horizon: int) -> Iterator[SmoothBinary]:
    """The fewest ones for every number of zeros: sensitivity is the zeros, error the ones."""
    least = LARGEST_HEIGHT
    for zeros in range(1, MOST_ZEROS + 1):
        ones = 1
        while ones < least and math.comb(zeros + ones, zeros) <= horizon:
            ones += 1
        if ones < least and zeros + ones <= LARGEST_HEIGHT:
            least = ones
            yield SmoothBinary(horizon, zeros + ones, zeros)


def _undominated(entries: Iterable[tuple[float, KAry]]) -> Iterator[KAry]:
    least = math.inf
    for error, strategy in entries:
        if error < least:
            least = error
            yield strategy
