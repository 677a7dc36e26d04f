"""Strategies: how a stream is cut into nodes, A = B C, one idea a file."""

from __future__ import annotations

from importlib.util import find_spec

from counton.strategies.base import Metric, Node, NodeNoise, Strategy
from counton.strategies.binary import Binary
from counton.strategies.kary import KAry
from counton.strategies.registry import describe, from_parameters, public_strategies

__all__ = [
    "Binary",
    "KAry",
    "Metric",
    "Node",
    "NodeNoise",
    "Strategy",
    "describe",
    "from_parameters",
    "public_strategies",
]

for _module, _name in (
    ("honaker", "HonakerOnline"),
    ("smooth", "SmoothBinary"),
    ("square_root", "SqrtToeplitz"),
    ("expiring", "Expiring"),
):
    if find_spec(f"counton.strategies.{_module}"):
        from importlib import import_module

        globals()[_name] = getattr(import_module(f"counton.strategies.{_module}"), _name)
        __all__.append(_name)
