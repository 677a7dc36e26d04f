"""Strategies: what is measured, C; those for streams by name, A = B C, one idea a file."""

from counton.strategies.base import Metric, Node, NodeNoise, Norm, Strategy, StreamStrategy
from counton.strategies.registry import public_strategies, strategy_from_dict
from counton.strategies.streams.binary import Binary
from counton.strategies.streams.expiring import Expiring
from counton.strategies.streams.growing import GrowingCascade
from counton.strategies.streams.honaker import HonakerOnline
from counton.strategies.streams.kary import KAry
from counton.strategies.streams.smooth import SmoothBinary
from counton.strategies.streams.square_root import SqrtToeplitz
from counton.strategies.table import TableStrategy

__all__ = [
    "Binary",
    "Expiring",
    "GrowingCascade",
    "HonakerOnline",
    "KAry",
    "Metric",
    "Node",
    "NodeNoise",
    "Norm",
    "SmoothBinary",
    "SqrtToeplitz",
    "Strategy",
    "StreamStrategy",
    "TableStrategy",
    "public_strategies",
    "strategy_from_dict",
]
