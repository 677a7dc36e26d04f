"""Pure privacy and convex risks in the local model: what `counton.local` leaves to the paper.

In the local model nobody is trusted: each client sends one message, and what that message says of
the client's value is all that anybody ever learns of it. `counton.local.LocalMedian` estimates the
median from such messages; the rest of "Constant matters" (Fichtenberger, Henzinger and Upadhyay),
section 5.6, after Smith, Thakurta and Upadhyay 2017, is here:

- *Convex risks.* Every convex risk with slopes in [-1, 1] is a mean distance of values that clients
  draw for themselves (Theorem 4 there): `randomise_loss`. Adding up 2 cdf - 1 estimates the mean
  distance of all values from any point, whose slope that is: `RiskEstimate`.
- *Pure privacy*, by a choice among public candidates: `PureLocalMedian`.
- Erratum: f(x, theta) = integral of x from 0 estimates the mean distance from theta *minus that
  from 0*, not the mean distance itself (Corollary 6).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton import local
from counton.base.distributions import DiscreteGaussian
from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer, float_below
from counton.local import LocalCollection, LocalEstimate, LocalProtocol, largest_move
from counton.local.protocol import number_in_address
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.privacy import PureDP
from counton.strategies.streams.power_series import convolve

if TYPE_CHECKING:
    from counton.base.arrays import Floats

__all__ = ["LocalMedian", "PureLocalMedian", "PureMessage", "choice_loss", "largest_move"]

_WORD = 2**64

#: What a client sends.
Message = TypeVar("Message")


class ConvexLosses(LocalProtocol[Message], Generic[Message]):
    """A question that clients may answer with a convex loss instead of a value."""

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
        word = next(self._words(key, b"local loss", *number_in_address(client)))
        return int(np.searchsorted((1 + slopes) / 2, (word >> 11) * 2.0**-53, "right"))

    def randomise_loss(
        self,
        slope: Callable[[float], float],
        key: Key | None = None,
        *,
        client: int | None = None,
    ) -> Message:
        """The message of a client with this convex loss instead: see `cell_of_loss`.

        >>> from counton import ZCDP
        >>> question = LocalMedian(cells=8, guarantee=ZCDP(1), name="loss")
        >>> question.randomise_loss(lambda theta: theta - 0.3).shape  # (theta - 0.3)^2 / 2
        (8,)
        """
        return self.message_of(self.cell_of_loss(slope, key, client=client), key, client)

    def _words(self, key: Key, *purpose: bytes) -> Iterator[int]:
        """Endless words of 64 bits that belong to a key and a purpose."""
        for part in itertools.count():
            drawn = check_key(key).derive(*purpose, self.address, str(part).encode())
            for start in range(0, len(drawn), 8):
                yield int.from_bytes(drawn[start : start + 8], "little")

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


@dataclass(frozen=True, kw_only=True)
class LocalMedian(ConvexLosses[NDArray[np.int64]], local.LocalMedian):
    """`counton.local.LocalMedian`, with convex losses and their risks.

    >>> question = LocalMedian(cells=8, guarantee=PureDP(1), name="pure")
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: guarantee is PureDP(epsilon=1), and a noisy vector keeps
    ApproxDP or ZCDP. Give one of these
    """


class Collected(LocalCollection):
    """What the server holds; where messages say who sent them, the numbers of those clients too."""

    protocol: ConvexLosses[Any]

    def __init__(self, protocol: ConvexLosses[Any]) -> None:
        super().__init__(protocol)
        self._senders: set[int] = set()

    @override
    def add(self, message: Any) -> None:
        sender = self.protocol.sender(message)
        if sender in self._senders:
            raise InvalidInputError(
                f"client {sender} has sent a message already: each counts once, and a second "
                f"answer would cost its privacy twice; leave it out"
            )
        super().add(message)
        if sender is not None:
            self._senders.add(sender)

    @override
    def estimate(self) -> RiskEstimate:
        self.check_messages()
        return RiskEstimate(self.protocol, self.clients, self.sum)


class RiskEstimate(LocalEstimate):
    """An estimate with the mean distance of all values, or the mean of all losses.

    Attributes:
        risk: mean distance of the clients' values from each boundary, minus that from ``lower``, in
            data units; or the mean of their losses, minus that at ``lower``, 1 / K of it if slopes
            were divided by K.
        risk_std: standard deviation of the noise in ``risk``.
    """

    protocol: ConvexLosses[Any]

    def __init__(self, protocol: ConvexLosses[Any], clients: int, total: NDArray[np.int64]) -> None:
        super().__init__(protocol, clients, total)
        self.risk = self.distances
        reads = protocol.decoder
        one = self.std_of_mean
        width = (protocol.upper - protocol.lower) / protocol.cells
        whole = np.cumsum(reads)  # of sums of totals
        until = np.concatenate([[0.0], whole[:-1]]) + reads / 2
        variance = np.cumsum(until**2)
        variance[-1] = float(np.sum(whole[:-1] ** 2))  # all clients are below the upper end
        self.risk_std = np.concatenate([[0.0], 2 * width * one * np.sqrt(variance)])
        #: What each node adds to the noise of ``risk`` this many boundaries on, and at the end.
        self._adds = 2 * width * one * until
        self._adds_at_end = 2 * width * one * np.concatenate([[0.0], whole[:-1]])

    @property
    def population_std(self) -> Floats:
        """Standard deviation of ``cdf`` as an estimate of what clients were drawn from.

        For clients drawn independently: sampling comes to the noise.
        """
        share = np.clip(self.cdf, 0, 1)
        variance: Floats = self.std**2 + share * (1 - share) / self.clients
        return np.sqrt(variance)

    @override
    def failing(self, confidence_level: float) -> float:
        """What is left to fail of noisy vectors, from which messages may depart."""
        departs = self.protocol.departs
        left = super().failing(confidence_level) - departs
        if left <= 0:
            raise InvalidInputError(
                f"level is {confidence_level}; messages depart from noisy vectors by up to "
                f"{departs} in total variation, so that it must be below {1 - departs:.6g}: ask "
                f"for less, or plan with a smaller {param('distance')}"
            )
        return left

    def excess(self, level: float = 0.95) -> float:
        """By how much the mean distance from ``median`` exceeds the least one, at most.

        Of the clients who answered, in data units: what is estimated of the difference from any
        other boundary, and what the noise of that difference stays within for all pairs of
        boundaries together; and the width of two cells for what lies between boundaries. (Noise of
        two distances from points nearby is nearly the same, and falls out of their difference.)

        Raises:
            InvalidInputError: a level out of range.
        """
        missed = self.failing(level)
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
class PureLocalMedian(ConvexLosses[PureMessage]):
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
        """See `ConvexLosses.departs`: ``distance``."""
        return self.distance

    def sender(self, message: Any) -> int | None:
        """See `ConvexLosses.sender`."""
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
        return self.noise(self.public, (self.cells,))

    def drawn(self, client: int) -> NDArray[np.int64]:
        """The public candidates of a client: int64, shape ``(candidates, cells)``, lattice units.

        Raises:
            InvalidInputError: no client of this number.
        """
        first = check_integer("client", client, 0, self.clients - 1) * self.candidates
        return self._drawn.run(0, range(first, first + self.candidates))

    def chances(self, cell: int, client: int) -> list[int]:
        """With which chance a client with a value in this cell keeps each candidate, times 2^64."""
        moved = self.encoded(cell).astype(np.float64)
        log = (self.drawn(client) @ moved - moved @ moved / 2) / float(
            self.distribution.sigma_squared
        )
        least, most = self._coins
        odds = np.exp(np.clip(log, -1.0, 1.0)).tolist()
        return [min(max(round(ratio * (_WORD // 2)), least), most) for ratio in odds]

    def message_of(self, cell: int, key: Key | None, client: int | None) -> PureMessage:
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
