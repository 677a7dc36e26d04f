"""Strategies: how counts are measured with noise, and releases computed from measurements."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from counton.base.errors import InvalidInputError
from counton.base.exact import quote
from counton.base.lazy import attach
from counton.strategies.joint_errors import noise_variance as noise_variance
from counton.strategies.participation import sensitivities as sensitivities
from counton.strategies.participation import sensitivity as sensitivity
from counton.strategies.strategy import EndlessStrategy as EndlessStrategy
from counton.strategies.strategy import Metric as Metric
from counton.strategies.strategy import Node as Node
from counton.strategies.strategy import NodeNoise as NodeNoise
from counton.strategies.strategy import Norm as Norm
from counton.strategies.strategy import Strategy as Strategy
from counton.strategies.strategy import StrategyFacts as StrategyFacts
from counton.strategies.strategy import StreamStrategy as StreamStrategy
from counton.strategies.strategy import TableStrategy as TableStrategy
from counton.strategies.strategy import built_from, exported_classes
from counton.strategies.strategy import check_step as check_step
from counton.strategies.strategy import matrices as matrices

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from counton.strategies.published.binary import Binary as Binary
    from counton.strategies.published.growing import GrowingCascade as GrowingCascade
    from counton.strategies.published.honaker import HonakerOnline as HonakerOnline
    from counton.strategies.published.smooth import SmoothBinary as SmoothBinary
    from counton.strategies.streams.banded_root import BandedRoot as BandedRoot
    from counton.strategies.streams.banded_root import EndlessBandedRoot as EndlessBandedRoot
    from counton.strategies.streams.endless_hats import EndlessHats as EndlessHats
    from counton.strategies.streams.epochs import Epochs as Epochs
    from counton.strategies.streams.expiring import Expiring as Expiring
    from counton.strategies.streams.factorisation import Factorisation as Factorisation
    from counton.strategies.streams.growing_blocks import GrowingBlocks as GrowingBlocks
    from counton.strategies.streams.growing_root import GrowingSquareRoot as GrowingSquareRoot
    from counton.strategies.streams.independent import Independent as Independent
    from counton.strategies.streams.kary import KAry as KAry
    from counton.strategies.streams.least_squares_strategy import (
        LeastSquaresStrategy as LeastSquaresStrategy,
    )
    from counton.strategies.streams.look_ahead import LookAhead as LookAhead
    from counton.strategies.streams.multiscale import MultiscaleStrategy as MultiscaleStrategy
    from counton.strategies.streams.normalised_sqrt import NormalisedSqrt as NormalisedSqrt
    from counton.strategies.streams.square_root import SqrtToeplitz as SqrtToeplitz
    from counton.strategies.streams.window_versions import AsOf as AsOf
    from counton.strategies.streams.window_versions import WindowVersions as WindowVersions

__getattr__, __dir__, __all__ = attach(__name__, __file__)
#: Saved names of strategies whose classes have other names.
_SAVED_NAMES = {"Octave": "MultiscaleStrategy", "Solved": "LeastSquaresStrategy"}
_KINDS = {name: name for name in __all__ if name not in _SAVED_NAMES.values()} | _SAVED_NAMES
__all__ += [
    "EndlessStrategy",
    "Metric",
    "Node",
    "NodeNoise",
    "Norm",
    "Strategy",
    "StrategyFacts",
    "StreamStrategy",
    "TableStrategy",
    "check_step",
    "matrices",
    "noise_variance",
    "public_strategies",
    "sensitivities",
    "sensitivity",
    "strategy_from_dict",
    "stream_strategy_named",
]


def public_strategies() -> tuple[type[StreamStrategy], ...]:
    """Return the exported classes of strategies for streams, sorted by name.

    >>> [cls.__name__ for cls in public_strategies()]
    ['AsOf', 'BandedRoot', 'Binary', ...'KAry', ...]
    """
    return exported_classes(sys.modules[__name__], StreamStrategy)  # type: ignore[type-abstract]


def stream_strategy_named(name: object) -> type[StreamStrategy] | None:
    """Return the class of this name, or None; other packages register classes by entry points.

    Their group is ``counton.strategies``.

    Args:
        name: the ``saved_name`` of a class, or another value, for which there is none.

    >>> stream_strategy_named("KAry").__name__, stream_strategy_named("Ternary")
    ('KAry', None)
    """
    if not isinstance(name, str):
        return None
    if name in _KINDS:
        return cast("type[StreamStrategy]", getattr(sys.modules[__name__], _KINDS[name]))
    return next((strategy.load() for strategy in _others() if strategy.name == name), None)


def _others() -> Iterable[EntryPoint]:
    """Return the entry points by which other packages register strategies for streams."""
    from importlib.metadata import entry_points  # slow to import

    return entry_points(group=__name__)


def strategy_from_dict(description: Mapping[str, Any]) -> StreamStrategy:
    """Rebuild a strategy for streams from its ``to_dict``.

    Args:
        description: JSON values that ``to_dict`` returned.

    Raises:
        InvalidInputError: an unknown name, missing or unknown parameters, or parameters out of
            range.

    >>> strategy_from_dict({"strategy": "KAry", "horizon": 1000, "arity": 13, "subtraction": True})
    KAry(horizon=1000, arity=13, subtraction=True)
    """
    untyped: Any = description
    kind_name = untyped.get("strategy") if isinstance(untyped, Mapping) else untyped
    kind = stream_strategy_named(kind_name)
    if kind is None:
        names = [*_KINDS, *(other.name for other in _others())]
        raise InvalidInputError(
            f"strategy is {quote(kind_name)}, which is not known; known are {', '.join(names)}"
        )
    from counton.strategies.lines import SAVED_NAMES

    untyped = {}
    for parameter, value in description.items():
        # Some strategies have another strategy as a parameter, which is rebuilt too.
        named = value.get("strategy") if isinstance(value, Mapping) else None
        other = named not in SAVED_NAMES and stream_strategy_named(named) is not None
        untyped[parameter] = strategy_from_dict(value) if other else value
    return built_from(kind, untyped)
