"""Medians, distributions and one-dimensional convex risks of values that every client hides.

In the local model nobody is trusted: each client sends one message, and what that message says of
the client's value is all that anybody ever learns of it. Nothing is asked back (non-interactive).

"Constant matters" (Fichtenberger, Henzinger and Upadhyay), section 5.6, after Smith, Thakurta and
Upadhyay 2017: the range is cut into w cells; a client whose value lies in cell j sends C e_j + z, C
the square-root factorisation over w "steps" and z Gaussian. B times the sum of n messages estimates
how many values lie in the cells up to t, with standard deviation sigma sqrt(n Psi*(t)), so the
distribution function at every boundary, its median, and by adding up 2 cdf - 1 the mean distance of
all values from any point, whose slope that is. Every convex risk with slopes in [-1, 1] is such a
mean distance, of values that clients draw for themselves (Theorem 4 there): `randomise_loss`.

- The paper runs two counters, one from either end, with half of the budget each. The totals from
  the other end are n minus those from this one, and n is no secret: one counter with all of the
  budget gives both sides.
- A client may have any two values: the sensitivity is max over j < l of ||C (e_j - e_l)||, computed
  exactly here, on the lattice of the rounded C; its square is at most 2 Psi*(w), since C >= 0.
- Erratum: f(x, theta) = integral of x from 0 estimates the mean distance from theta *minus that
  from 0*, not the mean distance itself (Corollary 6).
"""

from __future__ import annotations

import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import DiscreteGaussian, Sensitivity, distribution_to_dict
from counton.base.errors import InvalidInputError, SumOverflowError, param
from counton.base.exact import check_integer, exact, float_below
from counton.continual.design import check_name
from counton.continual.intervals import check_confidence_level
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP
from counton.privacy.calibration import calibrate
from counton.strategies import SqrtToeplitz
from counton.strategies.streams.power_series import convolve, reciprocal

if TYPE_CHECKING:
    from counton.base.arrays import Floats

#: Raised when the same protocol would give other noise.
_FORMAT = 1
_LEAST_CELLS = 2
_MOST_CELLS = 2**16
#: Sums of messages stay below this, in lattice units.
_LARGEST_SUM = 2**62
_WORD = 2**64

#: What a client sends.
Message = TypeVar("Message")


@dataclass(frozen=True, kw_only=True)
class LocalProtocol(ABC, Generic[Message]):
    """What clients and server agree on; public.

    Attributes:
        cells: number w of equal cells of the range.
        guarantee: for each message, to a client who replaces its value by any other.
        lower, upper: ends of the range; values outside count as the nearest end.
        name: of the question. One name, one message of each client.
    """

    cells: int
    guarantee: Guarantee
    lower: float = 0.0
    upper: float = 1.0
    name: str

    def __post_init__(self) -> None:
        check_integer("cells", self.cells, _LEAST_CELLS, _MOST_CELLS)
        check_name(self.name)
        for end in ("lower", "upper"):
            object.__setattr__(self, end, float(exact(getattr(self, end), end)))
        if not self.lower < self.upper:
            raise InvalidInputError(
                f"lower is {self.lower}, which is not below upper, {self.upper}: swap the ends or "
                f"widen them"
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
    def _reads(self) -> Floats:
        """First column of B = A C^-1; what it is applied to is private already."""
        rates = self.strategy.root.numerators / 2.0**self.strategy.facts.lattice_bits
        return reciprocal(np.diff(rates, prepend=0.0), self.cells)

    def _entered(self, cell: int) -> NDArray[np.int64]:
        """C e_j in units of the lattice."""
        entered = np.zeros(self.cells, np.int64)
        entered[cell:] = self.strategy.root.numerators[: self.cells - cell]
        return entered

    def cell(self, value: float) -> int:
        """Number of the cell of a value, from 0: the one whose lower end is at most the value.

        Raises:
            InvalidInputError: not a number.
        """
        number = float(value)
        if math.isnan(number):
            raise InvalidInputError("value is NaN; it must be a number: leave the client out")
        return int(
            np.clip(np.searchsorted(self.boundaries, number, "right") - 1, 0, self.cells - 1)
        )

    def cell_of_loss(
        self,
        slope: Callable[[float], float],
        key: Key | None = None,
        *,
        client: int | None = None,
    ) -> int:
        """Draw the cell of a value whose mean distance from any point is a convex loss.

        Up to a constant: with F = (1 + slope) / 2 as distribution function of the value, its
        distance has the slope 2 F - 1 in the mean. Between boundaries the loss is taken as linear.

        Args:
            slope: of the loss at a point of the range (from the left where it jumps); never falls,
                and lies within [-1, 1]: divide a loss by its largest slope.
            key: of the draw; fresh unless given.
            client: its number, where several clients draw under one key.

        Raises:
            InvalidInputError: slopes that fall, or leave [-1, 1], or no number of a client.
        """
        slopes = np.array([float(slope(point)) for point in self.boundaries[1:-1].tolist()])
        if not (np.abs(slopes) <= 1).all() or (np.diff(slopes) < -1e-12).any():
            raise InvalidInputError(
                "slopes of a convex loss never fall, and have to lie within [-1, 1] over the "
                "range: divide the loss by its largest slope"
            )
        key = Key.generate() if key is None else key
        word = next(self._words(key, b"local loss", *_number(client)))
        return int(np.searchsorted((1 + slopes) / 2, (word >> 11) * 2.0**-53, "right"))

    def randomise(
        self, value: float, key: Key | None = None, *, client: int | None = None
    ) -> Message:
        """The message of a client with this value: the only thing that it may send.

        Args:
            value: in the range; outside, the nearest end.
            key: of the noise: the client's own secret, drawn from the operating system unless
                given. Two messages under one key, name and ``client`` with different values give
                both away.
            client: its number, which is part of the address of the noise: for who computes the
                messages of several clients under one key, as in a simulation. `PureLocalMedian`
                needs it.

        Returns:
            Of `LocalMedian` C e_j + z in units of ``2**-strategy.facts.lattice_bits``: int64, shape
            ``(cells,)``; of `PureLocalMedian` which of its candidates it chose.

        Raises:
            InvalidInputError: not a number, or no number of a client.
        """
        return self._message(self.cell(value), key, client)

    def randomise_loss(
        self,
        slope: Callable[[float], float],
        key: Key | None = None,
        *,
        client: int | None = None,
    ) -> Message:
        """The message of a client with this convex loss instead: see `LocalProtocol.cell_of_loss`.

        >>> question = LocalMedian(cells=8, guarantee=ZCDP(1), name="loss")
        >>> question.randomise_loss(lambda theta: theta - 0.3).shape  # (theta - 0.3)^2 / 2
        (8,)
        """
        return self._message(self.cell_of_loss(slope, key, client=client), key, client)

    @abstractmethod
    def _message(self, cell: int, key: Key | None, client: int | None) -> Message:
        """The message of a client with a value in this cell."""

    @property
    @abstractmethod
    def distribution(self) -> DiscreteGaussian:
        """Law of each coordinate's noise, in units of ``2**-strategy.facts.lattice_bits``."""

    @abstractmethod
    def measurement(self, message: Any) -> NDArray[np.int64]:
        """What a message says: C e_j + z of its client, in units of the lattice, ``(cells,)``.

        Raises:
            InvalidInputError: not a message of this protocol.
        """

    def sender(self, message: Any) -> int | None:
        """Number of the client who sent a message, where messages say so."""
        return None

    @property
    def departs(self) -> float:
        """Total variation of all messages together from noisy vectors, at most."""
        return 0.0

    def collect(self) -> Collected:
        """The server: takes messages, sees nothing else."""
        return Collected(self)

    @cached_property
    def _address(self) -> bytes:
        """All that noise, coins and draws under a key are bound to."""
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

    def _field(
        self, key: Key, shape: tuple[int, ...] = (), client: int | None = None
    ) -> NoiseField:
        subkey = check_key(key).derive(b"local noise", self._address, *_number(client))
        return NoiseField(subkey, self.distribution, shape)

    def _words(self, key: Key, *purpose: bytes) -> Iterator[int]:
        """Endless words of 64 bits that belong to a key and a purpose."""
        for part in itertools.count():
            drawn = check_key(key).derive(*purpose, self._address, str(part).encode())
            for start in range(0, len(drawn), 8):
                yield int.from_bytes(drawn[start : start + 8], "little")


def _number(client: int | None) -> tuple[bytes, ...]:
    """What a client's number adds to an address; nothing if it has none."""
    return () if client is None else (str(check_integer("client", client, 0, 2**63)).encode(),)


def largest_move(strategy: SqrtToeplitz) -> Sensitivity:
    """Exactly the largest ||C (e_j - e_l)|| over all pairs of cells, in units of the lattice.

    With N_k the sum of the first k squares of C's first column and G_dk that of its first k
    products with itself d further on, cells j < l = j + d of w are apart by
    N_(w-j) + N_(w-l) - 2 G_d(w-l), squared.

    Args:
        strategy: over cells.

    Returns:
        The largest squared 2-norm, and the 1-norm of two whole columns, which none exceeds.

    >>> strategy = SqrtToeplitz(64)
    >>> round(largest_move(strategy).l2_squared / 4.0**strategy.facts.lattice_bits, 4)
    3.6555
    >>> from counton.strategies import sensitivity
    >>> round(2 * sensitivity(strategy, 2) ** 2, 4)
    4.7777
    """
    column = strategy.root.numerators
    squares = np.cumsum(column**2)
    count = len(column)
    largest = 0
    for apart in range(1, count):
        shared = np.cumsum(column[: count - apart] * column[apart:])
        moved = squares[apart:] + squares[: count - apart] - 2 * shared
        largest = max(largest, int(moved.max()))
    return Sensitivity(2 * int(column.sum()), largest)


@dataclass(frozen=True, kw_only=True)
class LocalMedian(LocalProtocol[NDArray[np.int64]]):
    """A question to many clients, each of which sends one noisy vector.

    It is kept in no state: nobody holds exact values or releases anything over time. Each message
    is private when its client sends it, under a guarantee of its own which no ledger of a data set
    adds up; what the server adds is public, and messages can be kept and added again.

    Args:
        cells: number w of equal cells of the range; `for_clients` chooses it.
        guarantee: ``ApproxDP`` or ``ZCDP``, for each message, to a client who may have any other
            value instead. For ``PureDP`` see `PureLocalMedian`.
        lower, upper: ends of the range; values outside count as the nearest end.
        name: of the question. One name, one message of each client.

    Raises:
        InvalidInputError: an argument is out of range, or the guarantee cannot be given.

    >>> question = LocalMedian.for_clients(100, ApproxDP(4, 1e-6), upper=100, name="age")
    >>> question.cells
    40
    >>> server = question.collect()
    >>> for client in range(100):
    ...     server.add(question.randomise(30 + client % 20))  # runs where the client is
    >>> found = server.estimate()
    >>> float(found.boundaries[16]), round(float(found.std[16]), 3)
    (40.0, 0.305)
    >>> 0 <= found.median <= 100
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.guarantee, (ApproxDP, ZCDP)):
            raise InvalidInputError(
                f"guarantee is {self.guarantee!r}; it must be ApproxDP or ZCDP for one noisy "
                f"vector: use PureLocalMedian with PureDP"
            )
        _ = self.distribution

    @classmethod
    def for_clients(
        cls,
        clients: int,
        guarantee: ApproxDP | ZCDP,
        *,
        lower: float = 0.0,
        upper: float = 1.0,
        name: str,
    ) -> LocalMedian:
        """With ceil(epsilon sqrt(n)) cells, as in the paper; epsilon = sqrt(2 rho) for ``ZCDP``.

        More of them add noise, fewer are coarser than the noise.
        """
        clients = check_integer("clients", clients, 1)
        if isinstance(guarantee, ZCDP):
            epsilon = math.sqrt(2 * guarantee.rho)
        elif isinstance(guarantee, ApproxDP):
            epsilon = float(guarantee.epsilon)
        else:
            raise InvalidInputError(f"guarantee is {guarantee!r}; it must be ApproxDP or ZCDP")
        cells = _cells_for(clients, epsilon)
        return cls(cells=cells, guarantee=guarantee, lower=lower, upper=upper, name=name)

    @cached_property
    def moved(self) -> Sensitivity:
        """How far a client who replaces its value moves its message: `largest_move`."""
        return largest_move(self.strategy)

    @cached_property
    def distribution(self) -> DiscreteGaussian:
        """See `LocalProtocol.distribution`."""
        distribution = calibrate(self.guarantee, self.moved, "gaussian").distribution
        assert isinstance(distribution, DiscreteGaussian), "no other family was asked for"
        return distribution

    def _message(self, cell: int, key: Key | None, client: int | None) -> NDArray[np.int64]:
        field = self._field(Key.generate() if key is None else key, client=client)
        return self._entered(cell) + field.run(0, range(self.cells))

    def measurement(self, message: Any) -> NDArray[np.int64]:
        """See `LocalProtocol.measurement`: the message itself."""
        vector = np.asarray(message)
        if vector.shape != (self.cells,) or vector.dtype.kind not in "iu":
            raise InvalidInputError(
                f"a message has shape {vector.shape} and type {vector.dtype}; it must be "
                f"{self.cells} integers, as randomise made it"
            )
        # Before the cast, which wraps; as Python's integers, of which none overflows.
        largest = max(int(vector.max()), -int(vector.min()))
        if largest > _LARGEST_SUM:
            raise SumOverflowError(
                f"a message has an entry of magnitude {largest:,}, beyond {_LARGEST_SUM:,}, up to "
                f"which sums are exact: it is none that randomise made; leave it out"
            )
        return vector.astype(np.int64)


def _cells_for(clients: int, epsilon: float) -> int:
    return min(max(math.ceil(epsilon * math.sqrt(clients)), _LEAST_CELLS), _MOST_CELLS)


class Collected:
    """What the server holds: the sum of all messages and their number, and nothing of anybody else.

    Attributes:
        protocol: which question.
        clients: how many messages came.

    Where messages say who sent them, it holds the numbers of those clients too.
    """

    def __init__(self, protocol: LocalProtocol[Any]) -> None:
        self.protocol = protocol
        self.clients = 0
        self._sum = np.zeros(protocol.cells, np.int64)
        self._senders: set[int] = set()

    def add(self, message: Any) -> None:
        """Take a message in.

        Raises:
            InvalidInputError: not a message of this protocol, or a second one of the same client,
                where messages say who sent them.
            SumOverflowError: the sum, or the message, would leave the exact range.
        """
        vector = self.protocol.measurement(message)
        sender = self.protocol.sender(message)
        if sender in self._senders:
            raise InvalidInputError(
                f"client {sender} has sent a message already: each counts once, and a second "
                f"answer would cost its privacy twice; leave it out"
            )
        total = (
            self._sum + vector
        )  # of magnitudes up to 2^62 each: -2^63 is the only one that wraps
        if max(int(total.max()), -int(total.min())) > _LARGEST_SUM:
            raise SumOverflowError(
                f"the sum of {self.clients + 1:,} messages is beyond {_LARGEST_SUM:,}, up to which "
                f"it is exact: collect in several parts"
            )
        if sender is not None:
            self._senders.add(sender)
        self._sum = total
        self.clients = self.clients + 1

    def estimate(self) -> LocalEstimate:
        """What the messages say.

        Raises:
            InvalidInputError: there are none.
        """
        if not self.clients:
            raise InvalidInputError("no messages were added: there is nothing to estimate")
        return LocalEstimate(self.protocol, self.clients, self._sum)


class LocalEstimate:
    """Distribution function, median and mean distance, with standard deviations.

    All is a function of messages, which are private already.

    Attributes:
        protocol: which question.
        clients: number n of messages.
        boundaries: ends of cells in data units, shape ``(cells + 1,)``.
        cdf: share of clients with values below each boundary, unbiased: 0 and 1 at the ends.
        std: standard deviation of the noise in ``cdf``, given the clients' values.
        risk: mean distance of the clients' values from each boundary, minus that from ``lower``, in
            data units; or the mean of their losses, minus that at ``lower``, 1 / K of it if slopes
            were divided by K.
        risk_std: standard deviation of the noise in ``risk``.

    >>> question = LocalMedian(cells=4, guarantee=ZCDP(8), name="quarter")
    >>> server = question.collect()
    >>> for client in range(200):
    ...     server.add(question.randomise(0.6 if client % 3 else 0.1))
    >>> found = server.estimate()
    >>> found.median, [round(float(std), 3) for std in found.std]
    (0.5, [0.0, 0.024, 0.027, 0.028, 0.0])
    """

    def __init__(
        self, protocol: LocalProtocol[Any], clients: int, total: NDArray[np.int64]
    ) -> None:
        self.protocol = protocol
        self.clients = clients
        self.boundaries = protocol.boundaries
        cells = protocol.cells
        unit = 2.0**-protocol.strategy.facts.lattice_bits
        reads = protocol._reads  # of totals
        measured: Floats = total * np.float64(unit)
        counts = convolve(reads, measured, cells)
        self.cdf = np.concatenate([[0.0], counts[:-1] / clients, [1.0]])
        one = math.sqrt(protocol.distribution.variance / clients) * unit
        self.std = np.concatenate([[0.0], one * np.sqrt(np.cumsum(reads**2))[:-1], [0.0]])
        # Half of the slopes at both ends of a cell, times its width.
        width = (protocol.upper - protocol.lower) / cells
        slopes = 2 * self.cdf - 1
        self.risk = np.concatenate([[0.0], np.cumsum(slopes[1:] + slopes[:-1]) / 2]) * width
        whole = np.cumsum(reads)  # of sums of totals
        until = np.concatenate([[0.0], whole[:-1]]) + reads / 2
        variance = np.cumsum(until**2)
        variance[-1] = float(np.sum(whole[:-1] ** 2))  # all clients are below the upper end
        self.risk_std = np.concatenate([[0.0], 2 * width * one * np.sqrt(variance)])
        #: What each node adds to the noise of ``risk`` this many boundaries on, and at the end.
        self._adds = 2 * width * one * until
        self._adds_at_end = 2 * width * one * np.concatenate([[0.0], whole[:-1]])

    @property
    def median(self) -> float:
        """The boundary with the least estimated mean distance: of losses, the minimiser."""
        return float(self.boundaries[int(np.argmin(self.risk))])

    @property
    def population_std(self) -> Floats:
        """Standard deviation of ``cdf`` as an estimate of what clients were drawn from.

        For clients drawn independently: sampling comes to the noise.
        """
        share = np.clip(self.cdf, 0, 1)
        variance: Floats = self.std**2 + share * (1 - share) / self.clients
        return np.sqrt(variance)

    def band(self, level: float = 0.95, of: Literal["clients", "population"] = "clients") -> Floats:
        """Half-widths around ``cdf`` that hold at all boundaries together.

        Discrete Gaussian noise has the tails of a normal law with its parameter, and so have sums
        of it (Canonne, Kamath and Steinke 2020): a union bound over boundaries. For a population
        the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart comes to it, with half of what
        may fail. Where messages are within a total variation of noisy vectors (`PureLocalMedian`),
        that is taken off what may fail.

        Args:
            level: wanted probability.
            of: the clients who answered, or what they were drawn from independently.

        Raises:
            InvalidInputError: a level out of range, or another ``of``.
        """
        return self._band(level, of, max(len(self.boundaries) - 2, 1))

    def _band(self, level: float, of: str, together: int) -> Floats:
        """Half-widths that hold at any so many boundaries together, stated beforehand."""
        missed = self._missed(level)
        if of not in ("clients", "population"):
            raise InvalidInputError(f"of is {of!r}; it must be 'clients' or 'population'")
        drawn = 0.0
        if of == "population":
            missed /= 2
            drawn = math.sqrt(math.log(2 / missed) / (2 * self.clients))
        band: Floats = self.std * math.sqrt(2 * math.log(2 * together / missed))
        band[1:-1] += drawn
        return band

    def _missed(self, level: float) -> float:
        """What is left to fail of noisy vectors, from which messages may depart."""
        departs = self.protocol.departs
        left = 1 - check_confidence_level(level) - departs
        if left <= 0:
            raise InvalidInputError(
                f"level is {level}; messages depart from noisy vectors by up to {departs} in total "
                f"variation, so that it must be below {1 - departs:.6g}: ask for less, or plan "
                f"with a smaller {param('distance')}"
            )
        return left

    def interval(
        self, level: float = 0.95, of: Literal["clients", "population"] = "clients"
    ) -> tuple[float, float]:
        """Boundaries between which the median lies.

        From the lower end on boundaries are passed as long as they are told to be below it, and
        likewise from the upper end: that goes wrong only where the first boundary which is not
        below the median is passed, or the last which is not above. What holds at each of these two
        is enough, and the band, which holds everywhere, is not needed.

        Raises:
            InvalidInputError: see `band`.
        """
        width = self._band(level, of, 1)
        not_below = int(np.flatnonzero(self.cdf + width >= 0.5).min())
        not_above = int(np.flatnonzero(self.cdf - width <= 0.5).max())
        return float(self.boundaries[not_below - 1]), float(self.boundaries[not_above + 1])

    def excess(self, level: float = 0.95) -> float:
        """By how much the mean distance from ``median`` exceeds the least one, at most.

        Of the clients who answered, in data units: what is estimated of the difference from any
        other boundary, and what the noise of that difference stays within for all pairs of
        boundaries together; and the width of two cells for what lies between boundaries. (Noise of
        two distances from points nearby is nearly the same, and falls out of their difference.)

        Raises:
            InvalidInputError: a level out of range.
        """
        missed = self._missed(level)
        count = len(self.boundaries)
        at = int(np.argmin(self.risk))
        sure = math.sqrt(2 * math.log(count * (count - 1) / missed))
        most = (self.risk[at] - self.risk + sure * self._apart_from(at)).max()
        return float(most) + 2 * float(self.boundaries[1] - self.boundaries[0])

    def _apart_from(self, at: int) -> Floats:
        """Standard deviation of the noise in ``risk`` at a boundary less that at each other."""
        cells = len(self.boundaries) - 1
        own = np.zeros(cells)  # by node
        own[:at] = self._adds_at_end[::-1] if at == cells else self._adds[:at][::-1]
        # With the noise at boundary b, whose node j adds `_adds[b - 1 - j]`: a convolution.
        shared = np.concatenate([[0.0], convolve(own, self._adds, cells)])
        shared[-1] = float(own @ self._adds_at_end[::-1])
        squared = self.risk_std**2 + self.risk_std[at] ** 2 - 2 * shared
        floor = 1e-9 * float(self.risk_std.max()) ** 2  # more than what rounding takes away
        apart: Floats = np.sqrt(np.maximum(squared, 0) + floor)
        apart[at] = 0.0
        return apart


# ---------------------------------------------------------------------------- pure local privacy


def choice_loss(least: float, most: float, candidates: int) -> float:
    """Exact privacy loss of a choice among candidates that are kept with chances in a range.

    Every candidate is kept by a coin of its own, and one of those kept is chosen, each as likely;
    of all, if none is. The chance of a choice t rises with t's coin and falls with every other, so
    that the largest log-ratio for coins p_1..p_T and p'_1..p'_T, all within [least, most], is that
    of p_t = most, others least, and the reverse. With K binomial (T - 1, q),
    E[1 / (1 + K)] = (1 - (1 - q)^T) / (T q).

    >>> round(choice_loss(0.4, 0.6, 20), 4), choice_loss(0.4, 0.6, 1)
    (0.8109, 0.0)
    """

    def chance(own: float, other: float) -> float:
        kept = own * -math.expm1(candidates * math.log1p(-other)) / other
        return kept + (1 - own) * (1 - other) ** (candidates - 1)

    if most >= 1:
        return math.inf
    return math.log(chance(most, least) / chance(least, most))


class PureMessage(NamedTuple):
    """What a client sends: who it is, and which of its public candidates it chose.

    Attributes:
        client: its number, from 0; public.
        choice: from 0.
    """

    client: int
    choice: int


@dataclass(frozen=True, kw_only=True)
class PureLocalMedian(LocalProtocol[PureMessage]):
    """The same question with pure privacy: clients choose among public candidates (GenProt).

    Bun, Nelson and Stemmer, "Heavy hitters and the structure of local privacy" (2019), Algorithm 3,
    which "Constant matters" applies: for each client T vectors are drawn in public from a law R_0
    that knows nothing of it, here z alone. The client, whose own law R would be C e_j + z, keeps
    each y with chance R(y) / (2 R_0(y)), moved into [e^-a / 2, e^a / 2], and names one of those
    kept (any of all, if none is). The server takes the one that was named for the message.

    *Pure, for any candidates*: chances within that interval are all that matters, and
    `choice_loss` is exact; coins are drawn from 64 bits of the operating system, so that no float
    is in the proof. Where the paper has a = 2 epsilon and proves 10 epsilon (Lemma 6.2), the exact
    loss tends to 4 a = 8 epsilon as T grows, and a is chosen here so that it is what is promised.

    *Close*: were no chance moved, each vector kept would have the law R exactly, since
    R_0 R / (2 R_0) = R / 2. With e half of P(R / R_0 > e^a) under R plus P(R / R_0 < e^-a) under
    R_0, what is kept is within e / (1/2 - e) of R in total variation, and nothing is kept with
    probability at most (1/2 + e)^T. The noise is so wide that e / (1/2 - e), and T so large that
    (1/2 + e)^T, is at most distance / (2 clients): for ``clients`` clients together the sum is
    within ``distance`` (computed for continuous Gaussian noise): with mu the deviation by which
    C e_j moves z, the log-ratio is N(+-mu^2 / 2, mu^2).

    Conditions: a <= ln 2, as coins have chances up to 1 (the paper: epsilon <= 1/4), here for any
    promise, since more than about 4 ln 2 is not spent; and ``clients`` and their numbers are known
    before, as T and the noise depend on it.

    Args:
        cells: as of `LocalMedian`.
        guarantee: ``PureDP``, for each message, to a client who may have any other value instead.
        lower, upper: as of `LocalMedian`.
        name: as of `LocalMedian`.
        clients: most clients there will be; they are numbered from 0.
        public: a key that everybody knows, from which candidates are drawn.
        distance: in total variation, of all messages together from noisy vectors.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> question = PureLocalMedian(
    ...     cells=32, guarantee=PureDP(2), clients=2000, public=Key.generate(), name="age"
    ... )
    >>> question.candidates, round(question.cut, 3)
    (19, 0.5)
    >>> message = question.randomise(0.3, client=17)
    >>> message.client, 0 <= message.choice < 19
    (17, True)
    >>> server = question.collect()
    >>> server.add(message)
    >>> server.estimate().cdf.shape
    (33,)
    """

    clients: int
    public: Key
    distance: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.guarantee, PureDP):
            raise InvalidInputError(
                f"guarantee is {self.guarantee!r}; it must be PureDP: LocalMedian serves others"
            )
        check_key(self.public)
        if not 0 < self.distance < 1:
            raise InvalidInputError(
                f"distance is {self.distance}; it must be between 0 and 1: try 0.01"
            )
        check_integer("clients", self.clients, 1, 2**32)
        check_integer("clients", self.clients, 1, 2**32 // self.candidates)
        try:
            _ = self.distribution
        except (InvalidInputError, ZeroDivisionError) as error:
            epsilon = float_below(self.guarantee.epsilon)
            raise InvalidInputError(
                f"{param('epsilon')} is {epsilon:.3g}; a choice that loses so little stands for "
                f"noise wider than can be drawn: give more, such as 1e-4, or fewer clients"
            ) from error

    @property
    def departs(self) -> float:
        """See `LocalProtocol.departs`: ``distance``."""
        return self.distance

    def sender(self, message: Any) -> int | None:
        """See `LocalProtocol.sender`."""
        return int(PureMessage(*message).client)

    @property
    def _apart(self) -> float:
        """e, half of the mass whose chances are moved: e / (1/2 - e) = distance / (2 clients)."""
        each = self.distance / (2 * self.clients)
        return each / (2 * (1 + each))

    @property
    def candidates(self) -> int:
        """Number T of vectors that are drawn for each client."""
        none = math.log(self.distance / (2 * self.clients)) / math.log(0.5 + self._apart)
        return max(math.ceil(none * (1 + 1e-9)), 1)

    @cached_property
    def cut(self) -> float:
        """a: chances lie within [e^-a / 2, e^a / 2]."""
        assert isinstance(self.guarantee, PureDP), "checked"
        promised = float_below(self.guarantee.epsilon) * (1 - 1e-9)
        low = 0.0
        high = math.log(2) * (1 - 1e-9)
        for _ in range(60):
            middle = (low + high) / 2
            lost = choice_loss(math.exp(-middle) / 2, math.exp(middle) / 2, self.candidates)
            low, high = (middle, high) if lost <= promised else (low, middle)
        return low

    @cached_property
    def _coins(self) -> tuple[int, int]:
        """Least and largest chance, times 2^64."""
        cut = self.cut * (1 - 1e-12)
        return math.ceil(math.exp(-cut) * _WORD / 2), math.floor(math.exp(cut) * _WORD / 2)

    @cached_property
    def distribution(self) -> DiscreteGaussian:
        """See `LocalProtocol.distribution`."""
        outside = -NormalDist().inv_cdf(self._apart)
        mu = math.sqrt(outside**2 + 2 * self.cut) - outside  # outside * mu + mu^2 / 2 = cut
        squared = self.strategy.squared_sensitivity() * 4**self.strategy.facts.lattice_bits
        return DiscreteGaussian(squared * Fraction(math.ceil(2**40 / mu**2), 2**40))

    @cached_property
    def _drawn(self) -> NoiseField:
        return self._field(self.public, (self.cells,))

    def drawn(self, client: int) -> NDArray[np.int64]:
        """The public candidates of a client: int64, shape ``(candidates, cells)``, lattice units.

        Raises:
            InvalidInputError: no client of this number.
        """
        first = check_integer("client", client, 0, self.clients - 1) * self.candidates
        return self._drawn.run(0, range(first, first + self.candidates))

    def chances(self, cell: int, client: int) -> list[int]:
        """With which chance a client with a value in this cell keeps each candidate, times 2^64."""
        moved = self._entered(cell).astype(np.float64)
        log = (self.drawn(client) @ moved - moved @ moved / 2) / float(
            self.distribution.sigma_squared
        )
        least, most = self._coins
        odds = np.exp(np.clip(log, -1.0, 1.0)).tolist()
        return [min(max(round(ratio * (_WORD // 2)), least), most) for ratio in odds]

    def _message(self, cell: int, key: Key | None, client: int | None) -> PureMessage:
        if client is None:
            raise InvalidInputError(
                f"client is missing: each has candidates of its own; give its number, from 0 to "
                f"{self.clients - 1:,}"
            )
        words = self._words(Key.generate() if key is None else key, f"local {client}".encode())
        chances = self.chances(cell, client)
        kept = [t for t, chance in enumerate(chances) if next(words) < chance]
        of = kept or list(range(len(chances)))
        whole = _WORD - _WORD % len(of)
        word = next(word for word in words if word < whole)
        return PureMessage(client, of[word % len(of)])

    def measurement(self, message: Any) -> NDArray[np.int64]:
        """See `LocalProtocol.measurement`: the candidate that was named."""
        client, choice = PureMessage(*message)
        choice = check_integer("choice", choice, 0, self.candidates - 1)
        first = check_integer("client", client, 0, self.clients - 1) * self.candidates
        (vector,) = self._drawn.run(0, range(first + choice, first + choice + 1))
        return np.asarray(vector)
