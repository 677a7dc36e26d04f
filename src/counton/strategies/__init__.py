"""Strategies: what is measured, C; those for streams by name, A = B C, one idea a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from counton.lazy import attach
from counton.strategies.base import (
    Metric,
    Node,
    NodeNoise,
    Norm,
    Strategy,
    StreamStrategy,
    TableStrategy,
    exported_classes,
    stated_kind,
)

if TYPE_CHECKING:
    from counton.strategies.published.binary import Binary as Binary
    from counton.strategies.published.growing import GrowingCascade as GrowingCascade
    from counton.strategies.published.honaker import HonakerOnline as HonakerOnline
    from counton.strategies.published.smooth import SmoothBinary as SmoothBinary
    from counton.strategies.streams.epochs import Epochs as Epochs
    from counton.strategies.streams.expiring import Expiring as Expiring
    from counton.strategies.streams.factorisation import Factorisation as Factorisation
    from counton.strategies.streams.growing_root import GrowingSquareRoot as GrowingSquareRoot
    from counton.strategies.streams.independent import Independent as Independent
    from counton.strategies.streams.kary import KAry as KAry
    from counton.strategies.streams.look_ahead import LookAhead as LookAhead
    from counton.strategies.streams.normalised_sqrt import NormalisedSqrt as NormalisedSqrt
    from counton.strategies.streams.octave import Octave as Octave
    from counton.strategies.streams.solved import Solved as Solved
    from counton.strategies.streams.square_root import SqrtToeplitz as SqrtToeplitz

__getattr__, __dir__, __all__ = attach(__name__, __file__)
_KINDS = tuple(__all__)
__all__ += [
    "Metric",
    "Node",
    "NodeNoise",
    "Norm",
    "Strategy",
    "StreamStrategy",
    "TableStrategy",
    "public_strategies",
    "strategy_from_dict",
]


def public_strategies() -> tuple[type[StreamStrategy], ...]:
    """Every strategy for streams that ``counton.strategies`` exports, in order of name.

    >>> [cls.__name__ for cls in public_strategies()]
    ['Binary', ...'KAry', ...]
    """
    return exported_classes(sys.modules[__name__], StreamStrategy)  # type: ignore[type-abstract]


def strategy_from_dict(description: Mapping[str, Any]) -> StreamStrategy:
    """The strategy for streams that ``to_dict`` described.

    >>> strategy_from_dict({"strategy": "KAry", "horizon": 1000, "arity": 13, "subtraction": True})
    KAry(horizon=1000, arity=13, subtraction=True)

    Raises:
        InvalidInput: an unknown name, missing or unknown parameters, or parameters out of range.
    """
    name = stated_kind(description, list(_KINDS))
    strategy: StreamStrategy = getattr(sys.modules[__name__], name).from_dict(description)
    return strategy
