"""What identifies a stream of releases: everything that must never change under its key."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput, StateError
from counton.laws import Law, law_from_dict, law_to_dict
from counton.noise import Key, NoiseField
from counton.privacy import Contribution, Guarantee, guarantee_from_dict
from counton.strategies import StreamStrategy, strategy_from_dict

#: Raised when the same specification would give other noise; older states are then refused.
FORMAT = 1
#: Sums (in units of the released grid) stay below this; the rest of int64 is room for noise.
LARGEST_SUM = 2**61


@dataclass(frozen=True)
class Specification:
    """Stream name, strategy, guarantee, contribution, shape and the law calibrated from them.

    Its JSON text is part of the noise address, so that another budget, strategy or shape never
    meets the same noise.

    >>> from counton import Counter, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), name="visits")
    >>> counter.specification.law
    DiscreteLaplace(scale=Fraction(5, 1))
    """

    name: str
    strategy: StreamStrategy
    guarantee: Guarantee
    contribution: Contribution
    shape: tuple[int, ...]
    law: Law

    def __post_init__(self) -> None:
        if not self.name or type(self.name) is not str:
            raise InvalidInput(
                f"name is {self.name!r}; it must be a non-empty text such as 'visits'"
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without secrets."""
        return {
            "format": FORMAT,
            "stream": self.name,
            "strategy": self.strategy.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "contribution": self.contribution.to_dict(),
            "shape": list(self.shape),
            "law": law_to_dict(self.law),
        }

    @classmethod
    def from_dict(cls, saved: Any, strategy: StreamStrategy | None = None) -> Specification:
        """Inverse of `to_dict`; ``strategy`` stands in for one counton does not know.

        Raises:
            StateError: another format version, a part is missing or invalid, or ``strategy`` is not
                the one which the state names.
        """
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            written = saved.get("format") if isinstance(saved, dict) else None
            raise StateError(
                f"state has format {written!r}; this version reads format {FORMAT}: "
                f"open it with the version of counton that wrote it"
            )
        try:
            if strategy is None:
                strategy = strategy_from_dict(saved["strategy"])
            elif strategy.to_dict() != saved["strategy"]:
                raise StateError(
                    f"strategy is {strategy.to_dict()}, but the state was written with "
                    f"{saved['strategy']}: pass that one, or start a new stream"
                )
            return cls(
                name=saved["stream"],
                strategy=strategy,
                guarantee=guarantee_from_dict(saved["guarantee"]),
                contribution=Contribution.from_dict(saved["contribution"]),
                shape=check_shape(tuple(saved["shape"])),
                law=law_from_dict(saved["law"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"state does not describe a stream ({error!r}): restore it from a copy"
            ) from error

    def noise_field(self, key: Key) -> NoiseField:
        """The table of noise that belongs to this specification under ``key``."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        subkey = key.derive(b"counter", text.encode())
        return NoiseField(subkey, lambda level: self.strategy.node_law(self.law, level), self.shape)

    @cached_property
    def cells(self) -> int:
        """How many cells one step's input has."""
        return math.prod(self.shape)

    @cached_property
    def largest_sum(self) -> int:
        """Running sums, in grid units, are exact up to here."""
        return largest_sum(self.strategy)

    @property
    def resolution(self) -> Fraction:
        """One unit of the exact sums, in data units; 1 for counts."""
        resolution = self.contribution.resolution
        return Fraction(1) if resolution is None else resolution

    def std(self, steps: range) -> NDArray[np.float64]:
        """Standard deviation of the noise at ``steps`` in data units, ``(len(steps),)``."""
        variance = self.strategy.noise_variance(self.law, steps)
        deviation: NDArray[np.float64] = np.sqrt(variance) * float(self.resolution)
        return deviation

    def to_data(self, released: NDArray[np.int64]) -> NDArray[Any]:
        """Released integers in data units: the same integers for counts, else float64.

        A function of the released integers alone, so floating point gives nothing away.
        """
        if not self.strategy.fraction_bits:
            return self.contribution.from_grid(released)
        return released * math.ldexp(float(self.resolution), -self.strategy.fraction_bits)


def largest_sum(strategy: StreamStrategy) -> int:
    """Running sums, in grid units, are exact up to here under a strategy.

    >>> from counton.strategies import Binary
    >>> largest_sum(Binary(31)) == LARGEST_SUM
    True
    """
    return LARGEST_SUM >> strategy.fraction_bits


def check_shape(shape: Any) -> tuple[int, ...]:
    """``shape`` as a tuple of ints, if it is one a stream can have.

    Raises:
        InvalidInput: not a tuple or list of positive integers, or 2^32 cells or more.

    >>> check_shape([16, 24])
    (16, 24)
    """
    whole = isinstance(shape, (tuple, list)) and all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n > 0 for n in shape
    )
    if not whole or math.prod(shape) >= 2**32:
        raise InvalidInput(
            f"shape is {shape!r}; it must be a tuple of positive integers with fewer than 2^32 "
            f"cells, such as () or (16,)"
        )
    return tuple(int(n) for n in shape)
