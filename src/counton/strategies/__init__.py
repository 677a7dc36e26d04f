"""Strategies: how a stream is cut into nodes, A = B C, one idea a file."""

from counton.strategies.base import Metric, Node, NodeNoise, Strategy
from counton.strategies.registry import public_strategies, strategy_from_dict
from counton.strategies.streams.binary import Binary
from counton.strategies.streams.expiring import Expiring
from counton.strategies.streams.honaker import HonakerOnline
from counton.strategies.streams.kary import KAry
from counton.strategies.streams.smooth import SmoothBinary
from counton.strategies.streams.square_root import SqrtToeplitz

__all__ = [
    "Binary",
    "Expiring",
    "HonakerOnline",
    "KAry",
    "Metric",
    "Node",
    "NodeNoise",
    "SmoothBinary",
    "SqrtToeplitz",
    "Strategy",
    "public_strategies",
    "strategy_from_dict",
]
