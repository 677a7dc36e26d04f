"""The server's side of the local model: the sum of messages, and what it says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, SumOverflowError
from counton.continual.intervals import check_confidence_level
from counton.strategies.streams.power_series import convolve

if TYPE_CHECKING:
    from counton.base.arrays import Floats
    from counton.local.protocol import LocalProtocol

#: Sums of messages stay below this, in lattice units.
LARGEST_SUM = 2**62


class LocalCollection:
    """The sum of all messages, and their number: all that the server holds.

    Attributes:
        protocol: the question.
        clients: how many messages were added.
    """

    def __init__(self, protocol: LocalProtocol[Any]) -> None:
        self.protocol = protocol
        self.clients = 0
        self.sum = np.zeros(protocol.cells, np.int64)

    def add(self, message: object) -> None:
        """Add the message of one client.

        Args:
            message: what ``randomise`` returned.

        Raises:
            InvalidInputError: not a message of this question.
            SumOverflowError: the sum, or the message, would leave the exact range.
        """
        vector = self.protocol.measurement(message)
        # Both magnitudes are at most 2^62, so -2^63 is the only sum that wraps.
        total = self.sum + vector
        if max(int(total.max()), -int(total.min())) > LARGEST_SUM:
            raise SumOverflowError(
                f"the sum of {self.clients + 1:,} messages is beyond {LARGEST_SUM:,}, up to which "
                "it is exact. Collect in several parts"
            )
        self.sum = total
        self.clients += 1

    def estimate(self) -> LocalEstimate:
        """Return the distribution of the clients' values, as far as the messages show it.

        Raises:
            InvalidInputError: there are no messages.

        >>> from counton import ZCDP
        >>> from counton.local import LocalMedian
        >>> question = LocalMedian(cells=4, guarantee=ZCDP(8), name="quarter")
        >>> server = question.collect()
        >>> for client in range(200):
        ...     server.add(question.randomise(0.6 if client % 3 else 0.1))
        >>> server.clients, server.estimate().median
        (200, 0.5)
        """
        self.check_messages()
        return LocalEstimate(self.protocol, self.clients, self.sum)

    def check_messages(self) -> None:
        """Raise `InvalidInputError` if no message was added."""
        if not self.clients:
            raise InvalidInputError("no messages were added: there is nothing to estimate")


class LocalEstimate:
    """The distribution function of hidden values, and their median.

    All of it is a function of messages, which are private already.

    Attributes:
        protocol: the question.
        clients: number of messages.
        boundaries: ends of cells in data units, shape ``(cells + 1,)``.
        cdf: share of clients with values below each boundary, unbiased: 0 and 1 at the ends.
        std: standard deviation of the noise in ``cdf``, given the clients' values.

    >>> from counton import ZCDP
    >>> from counton.local import LocalMedian
    >>> question = LocalMedian(cells=4, guarantee=ZCDP(8), name="quarter")
    >>> server = question.collect()
    >>> for client in range(200):
    ...     server.add(question.randomise(0.6 if client % 3 else 0.1))
    >>> estimate = server.estimate()
    >>> estimate.median, [round(float(std), 3) for std in estimate.std]
    (0.5, [0.0, 0.024, 0.027, 0.028, 0.0])
    """

    def __init__(
        self, protocol: LocalProtocol[Any], clients: int, total: NDArray[np.int64]
    ) -> None:
        self.protocol = protocol
        self.clients = clients
        self.boundaries = protocol.boundaries
        unit = 2.0**-protocol.strategy.facts.lattice_bits
        counts = convolve(protocol.decoder, total * np.float64(unit), protocol.cells)
        self.cdf = np.concatenate([[0.0], counts[:-1] / clients, [1.0]])
        #: Standard deviation of the noise in a mean message.
        self.std_of_mean = math.sqrt(protocol.distribution.variance / clients) * unit
        below = self.std_of_mean * np.sqrt(np.cumsum(protocol.decoder**2))
        self.std = np.concatenate([[0.0], below[:-1], [0.0]])

    @property
    def distances(self) -> Floats:
        """Mean distance of the values from each boundary, minus that from ``lower``."""
        width = (self.protocol.upper - self.protocol.lower) / self.protocol.cells
        slopes = 2 * self.cdf - 1
        # Within a cell the mean of the slopes at both ends is taken.
        return np.concatenate([[0.0], np.cumsum(slopes[1:] + slopes[:-1]) / 2]) * width

    @property
    def median(self) -> float:
        """The boundary with the least estimated mean distance from the values."""
        return float(self.boundaries[int(np.argmin(self.distances))])

    def band(
        self, confidence_level: float = 0.95, of: Literal["clients", "population"] = "clients"
    ) -> Floats:
        """Return half-widths around ``cdf`` that hold at all boundaries together.

        Args:
            confidence_level: probability with which all of them hold.
            of: "clients" for those who answered, "population" for what they were drawn from
                independently.

        Raises:
            InvalidInputError: an argument is out of range.
        """
        return self.half_widths(confidence_level, of, max(len(self.boundaries) - 2, 1))

    def half_widths(self, confidence_level: float, of: str, together: int) -> Floats:
        """Return half-widths that hold at any so many boundaries together, stated beforehand.

        Args:
            confidence_level: probability with which they hold.
            of: as of `band`.
            together: number of boundaries.
        """
        # Discrete Gaussian noise has the tails of a normal distribution with its parameter, and so
        # have its sums (Canonne, Kamath and Steinke 2020): a union bound over the boundaries. A
        # population needs the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, too, with
        # half of what may fail.
        failing = self.failing(confidence_level)
        if of not in ("clients", "population"):
            raise InvalidInputError(f"of is {of!r}; it must be 'clients' or 'population'")
        drawn = 0.0
        if of == "population":
            failing /= 2
            drawn = math.sqrt(math.log(2 / failing) / (2 * self.clients))
        band: Floats = self.std * math.sqrt(2 * math.log(2 * together / failing))
        band[1:-1] += drawn
        return band

    def failing(self, confidence_level: float) -> float:
        """Return the probability with which an interval may fail."""
        return 1 - check_confidence_level(confidence_level)

    def interval(
        self, confidence_level: float = 0.95, of: Literal["clients", "population"] = "clients"
    ) -> tuple[float, float]:
        """Return boundaries between which the median lies.

        Args:
            confidence_level: probability with which it does.
            of: as of `band`.

        Raises:
            InvalidInputError: an argument is out of range.
        """
        # From the lower end, boundaries are passed as long as they are told to be below it, and
        # likewise from the upper end. That goes wrong only if the first boundary that is not below
        # the median is passed, or the last that is not above it: two boundaries are enough, of
        # which one interval each can fail on one side.
        width = self.half_widths(confidence_level, of, 1)
        not_below = int(np.flatnonzero(self.cdf + width >= 0.5).min())
        not_above = int(np.flatnonzero(self.cdf - width <= 0.5).max())
        return float(self.boundaries[not_below - 1]), float(self.boundaries[not_above + 1])
