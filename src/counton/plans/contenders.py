"""Which strategies are worth comparing: every useful trade of sensitivity for error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from counton.errors import InvalidInput
from counton.strategies import (
    Binary,
    HonakerOnline,
    KAry,
    Metric,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
)


@lru_cache(maxsize=64)
def contenders(
    horizon: int, metric: Metric
) -> tuple[tuple[tuple[str, tuple[StreamStrategy, ...]], ...], tuple[str, ...]]:
    """Strategies by kind, and notes on kinds which cannot serve the horizon.

    Within a kind, parameters appear only if no others have both a smaller sensitivity and a
    smaller error: which of them is best depends on the guarantee.

    >>> kinds, notes = contenders(1000, "mean")
    >>> [name for name, _ in kinds]
    ['binary', 'Honaker online', 'k-ary', 'k-ary with subtraction', 'smooth binary',
     'smooth binary, even height', 'square root']
    """
    sources: dict[str, Callable[[], Iterable[StreamStrategy]]] = {
        "binary": lambda: [Binary(horizon)],
        "Honaker online": lambda: [HonakerOnline(horizon)],
        "k-ary": lambda: KAry.undominated(horizon, metric, subtraction=False),
        "k-ary with subtraction": lambda: KAry.undominated(horizon, metric, subtraction=True),
        "smooth binary": lambda: SmoothBinary.undominated(horizon),
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
