"""The median of values that clients hide themselves, under (epsilon, delta) or rho."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import DiscreteGaussian, Sensitivity
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.base.exact import check_integer
from counton.local.collection import LARGEST_SUM, LocalCollection
from counton.local.protocol import LEAST_CELLS, MOST_CELLS, LocalProtocol, largest_move
from counton.noise import Key
from counton.privacy import ZCDP, ApproxDP
from counton.privacy.calibration import calibrate


@dataclass(frozen=True, kw_only=True)
class LocalMedian(LocalProtocol[NDArray[np.int64]]):
    """A question to many clients, each of which sends one noisy vector.

    A client with a value in cell j sends C e_j + z: C is the square-root factorisation over the
    cells, z is discrete Gaussian noise. *Statement.* A message keeps the guarantee for a client who
    may have any other value instead. *Proof.* Another value moves the message by C (e_j - e_l). The
    noise is calibrated to the largest of these moves, which `largest_move` computes over all pairs.

    B times the sum of n messages estimates how many values lie below each boundary. The standard
    deviation grows with the square root of n.

    It is kept in no state. Each message is private when its client sends it, under a guarantee of
    its own, which no ledger of the server adds up. A client who answers twice loses the sum of
    both.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", section 5.6, after Smith,
    Thakurta and Upadhyay 2017.

    Erratum: the paper runs two counters, one from either end, with half of the budget each. The
    totals from the other end are n minus these, so one counter with the whole budget suffices.

    Args:
        cells: number of equal cells of the range; `for_clients` chooses it.
        guarantee: ``ApproxDP`` or ``ZCDP``, for each message.
        lower: lower end of the range; smaller values count as this end.
        upper: upper end of the range; larger values count as this end.
        name: of the question. One name, one message of each client.

    Raises:
        InvalidInputError: an argument is out of range, or the guarantee cannot be given.

    >>> from counton.local import LocalMedian
    >>> question = LocalMedian.for_clients(100, ApproxDP(4, 1e-6), upper=100, name="age")
    >>> question.cells
    40
    >>> server = question.collect()
    >>> for client in range(100):
    ...     server.add(question.randomise(30 + client % 20))  # runs where the client is
    >>> estimate = server.estimate()
    >>> float(estimate.boundaries[16]), round(float(estimate.std[16]), 3)
    (40.0, 0.305)
    >>> 0 <= estimate.median <= 100
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.guarantee, (ApproxDP, ZCDP)):
            raise InvalidInputError(
                f"guarantee is {self.guarantee!r}, and a noisy vector keeps ApproxDP or ZCDP. Give "
                "one of these"
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
    ) -> Self:
        """Return the question with ceil(epsilon sqrt(clients)) cells, as in the paper.

        Of ``ZCDP`` epsilon is sqrt(2 rho). More cells add noise, fewer are coarser than the noise.

        Args:
            clients: expected number of clients.
            guarantee: ``ApproxDP`` or ``ZCDP``, for each message.
            lower: lower end of the range.
            upper: upper end of the range.
            name: of the question.

        Raises:
            InvalidInputError: an argument is out of range.
        """
        clients = check_integer("clients", clients, 1)
        if isinstance(guarantee, ZCDP):
            epsilon = math.sqrt(2 * guarantee.rho)
        elif isinstance(guarantee, ApproxDP):
            epsilon = float(guarantee.epsilon)
        else:
            raise InvalidInputError(f"guarantee is {guarantee!r}; it must be ApproxDP or ZCDP")
        cells = min(max(math.ceil(epsilon * math.sqrt(clients)), LEAST_CELLS), MOST_CELLS)
        return cls(cells=cells, guarantee=guarantee, lower=lower, upper=upper, name=name)

    def collect(self) -> LocalCollection:
        """Return the server's side: it takes messages, and sees nothing else."""
        return LocalCollection(self)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """How far a client who replaces its value moves its message: `largest_move`."""
        return largest_move(self.strategy)

    @cached_property
    def distribution(self) -> DiscreteGaussian:
        """Noise of each number of a message, in units of ``2**-strategy.facts.lattice_bits``."""
        distribution = calibrate(self.guarantee, self.sensitivity, "gaussian").distribution
        assert isinstance(distribution, DiscreteGaussian), "no other family was asked for"
        return distribution

    @override
    def message_of(self, cell: int, key: Key | None, client: int | None) -> NDArray[np.int64]:
        field = self.noise(Key.generate() if key is None else key, client=client)
        return self.encoded(cell) + field.run(0, range(self.cells))

    @override
    def measurement(self, message: object) -> NDArray[np.int64]:
        vector = np.asarray(message)
        if vector.shape != (self.cells,) or vector.dtype.kind not in "iu":
            raise InvalidInputError(
                f"a message has shape {vector.shape} and type {vector.dtype}. It must be "
                f"{self.cells} integers, as randomise made it"
            )
        # This is checked before the cast, which wraps, with Python's integers, which do not.
        largest = max(int(vector.max()), -int(vector.min()))
        if largest > LARGEST_SUM:
            raise SumOverflowError(
                f"a message has an entry of magnitude {largest:,}, beyond {LARGEST_SUM:,}, up to "
                "which sums are exact. randomise makes no such message: leave it out"
            )
        return vector.astype(np.int64)
