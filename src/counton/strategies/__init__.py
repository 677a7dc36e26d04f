"""Strategies: how a stream is cut into nodes, A = B C, one idea a file."""

from counton.strategies.base import Metric, Node, NodeNoise, Strategy
from counton.strategies.binary import Binary
from counton.strategies.expiring import Expiring
from counton.strategies.honaker import HonakerOnline
from counton.strategies.kary import KAry
from counton.strategies.registry import describe, from_parameters, public_strategies
from counton.strategies.smooth import SmoothBinary
from counton.strategies.square_root import SqrtToeplitz

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
    "describe",
    "from_parameters",
    "public_strategies",
]
