"""What clients and server agree on: cells of a range, a guarantee, and the noise of a message."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import DiscreteGaussian, Sensitivity, distribution_to_dict
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, exact
from counton.continual.design import check_name
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.privacy import Guarantee
from counton.strategies import SqrtToeplitz
from counton.strategies.streams.power_series import reciprocal

if TYPE_CHECKING:
    from counton.base.arrays import Floats

#: Raised when the same protocol would give other noise.
_FORMAT = 1
LEAST_CELLS = 2
MOST_CELLS = 2**16

#: What a client sends.
Message = TypeVar("Message")


@dataclass(frozen=True, kw_only=True)
class LocalProtocol(ABC, Generic[Message]):
    """A question to many clients, each of which sends one message; public.

    Attributes:
        cells: number of equal cells of the range.
        guarantee: for each message, to a client who replaces its value by any other.
        lower: lower end of the range; smaller values count as this end.
        upper: upper end of the range; larger values count as this end.
        name: of the question. One name, one message of each client.

    Raises:
        InvalidInputError: an argument is out of range.
    """

    cells: int
    guarantee: Guarantee
    lower: float = 0.0
    upper: float = 1.0
    name: str

    def __post_init__(self) -> None:
        check_integer("cells", self.cells, LEAST_CELLS, MOST_CELLS)
        check_name(self.name)
        for end in ("lower", "upper"):
            object.__setattr__(self, end, float(exact(getattr(self, end), end)))
        if not self.lower < self.upper:
            raise InvalidInputError(
                f"lower is {self.lower}, which is not below upper, {self.upper}. Swap the ends or "
                "widen them"
            )

    @cached_property
    def strategy(self) -> SqrtToeplitz:
        """The factorisation over cells."""
        return SqrtToeplitz(self.cells)

    @cached_property
    def boundaries(self) -> NDArray[np.float64]:
        """Ends of cells, from ``lower`` to ``upper``: float64, shape ``(cells + 1,)``."""
        return np.linspace(self.lower, self.upper, self.cells + 1)

    @cached_property
    def decoder(self) -> Floats:
        """First column of B = A C^-1, which turns sums of messages into counts below boundaries."""
        column = self.strategy.root.numerators / 2.0**self.strategy.facts.lattice_bits
        return reciprocal(np.diff(column, prepend=0.0), self.cells)

    def encoded(self, cell: int) -> NDArray[np.int64]:
        """Return C e_j, the vector of a value in cell j without noise, in units of the lattice.

        Args:
            cell: number of the cell, from 0.
        """
        vector = np.zeros(self.cells, np.int64)
        vector[cell:] = self.strategy.root.numerators[: self.cells - cell]
        return vector

    def cell(self, value: float) -> int:
        """Return the number of the cell of a value, from 0.

        Args:
            value: a number; at a boundary it belongs to the cell above.

        Raises:
            InvalidInputError: the value is not a number.
        """
        number = float(value)
        if math.isnan(number):
            raise InvalidInputError("value is NaN, and must be a number. Leave the client out")
        place = np.searchsorted(self.boundaries, number, "right") - 1
        return int(np.clip(place, 0, self.cells - 1))

    def randomise(
        self, value: float, key: Key | None = None, *, client: int | None = None
    ) -> Message:
        """Return the message of a client with this value: the only thing that it may send.

        Args:
            value: the client's value; outside the range it counts as the nearest end.
            key: of the noise, and the client's own secret. Default: a fresh one. Two messages with
                different values under one key, name and ``client`` reveal both values.
            client: number of the client, which is part of the address of the noise. It is needed if
                several clients share a key, as in a simulation.

        Raises:
            InvalidInputError: the value or the number of the client is none.
        """
        return self.message_of(self.cell(value), key, client)

    @abstractmethod
    def message_of(self, cell: int, key: Key | None, client: int | None) -> Message:
        """Return the message of a client with a value in this cell.

        Args:
            cell: number of the cell, from 0.
            key: of the noise; None for a fresh one.
            client: number of the client; None if it has none.
        """

    @property
    @abstractmethod
    def distribution(self) -> DiscreteGaussian:
        """Noise of each number of a message, in units of ``2**-strategy.facts.lattice_bits``."""

    @abstractmethod
    def measurement(self, message: object) -> NDArray[np.int64]:
        """Return the noisy vector that a message stands for, in units of the lattice.

        Args:
            message: what a client has sent.

        Raises:
            InvalidInputError: it is not a message of this protocol.
        """

    @cached_property
    def address(self) -> bytes:
        """All that noise under a key is bound to."""
        named = {
            "format": _FORMAT,
            "local": type(self).__name__,
            "name": self.name,
            "cells": self.cells,
            "range": [self.lower, self.upper],
            "guarantee": self.guarantee.to_dict(),
            "law": distribution_to_dict(self.distribution),
        }
        return json.dumps(named, sort_keys=True, separators=(",", ":")).encode()

    def noise(self, key: Key, shape: tuple[int, ...] = (), client: int | None = None) -> NoiseField:
        """Return the noise of messages under a key.

        Args:
            key: the key of a client.
            shape: shape of each draw.
            client: number of the client; None if it has none.
        """
        subkey = check_key(key).derive(b"local noise", self.address, *number_in_address(client))
        return NoiseField(subkey, self.distribution, shape)


def number_in_address(client: int | None) -> tuple[bytes, ...]:
    """Return what a client's number adds to an address: nothing if it has none."""
    if client is None:
        return ()
    return (str(check_integer("client", client, 0, 2**63)).encode(),)


def largest_move(strategy: SqrtToeplitz) -> Sensitivity:
    """Return exactly the largest ||C (e_j - e_l)|| over all pairs of cells, in lattice units.

    Args:
        strategy: the factorisation over cells.

    Returns:
        The largest squared 2-norm; and the 1-norm of two whole columns, which no pair exceeds.

    >>> strategy = SqrtToeplitz(64)
    >>> round(largest_move(strategy).l2_squared / 4.0**strategy.facts.lattice_bits, 4)
    3.6555
    >>> from counton.strategies import sensitivity
    >>> round(2 * sensitivity(strategy, 2) ** 2, 4)
    4.7777
    """
    # With N_k the sum of the first k squares of C's first column, and G_dk that of its first k
    # products with itself d further on, the cells j < l = j + d of w are apart by
    # N_(w-j) + N_(w-l) - 2 G_d(w-l), squared.
    column = strategy.root.numerators
    squares = np.cumsum(column**2)
    count = len(column)
    largest = 0
    for apart in range(1, count):
        shared = np.cumsum(column[: count - apart] * column[apart:])
        moved = squares[apart:] + squares[: count - apart] - 2 * shared
        largest = max(largest, int(moved.max()))
    return Sensitivity(2 * int(column.sum()), largest)
