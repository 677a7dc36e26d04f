"""The design of a stream: all public parameters that decide its noise, fixed before any data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from counton.base.arrays import IntegersOrFloats, to_data
from counton.base.distributions import (
    NoiseDistribution,
    NoiseKind,
    distribution_from_dict,
    distribution_to_dict,
)
from counton.base.errors import InvalidInputError, StateError, StreamMismatchError
from counton.base.exact import is_whole, quote, quoted_numbers
from counton.continual.node_distribution import distribution_for, guarantee_of_stream
from counton.continual.stream_errors import Errors, ErrorsOf
from counton.noise import Key, NoiseField
from counton.noise.key import check_key
from counton.privacy import ZCDP, ApproxDP, ContributionBound, Guarantee, guarantee_from_dict
from counton.strategies import (
    StreamStrategy,
    WindowVersions,
    strategy_from_dict,
    stream_strategy_named,
)
from counton.strategies.joint_errors import noise_variance
from counton.strategies.strategy import node_distribution

#: The strategy of a design; any strategy of a stream, unless more is known.
S = TypeVar("S", bound=StreamStrategy, default=StreamStrategy, covariant=True)
#: Format version. It rises if equal designs would get other noise; older states are then refused.
FORMAT = 1
#: Format of streams with larger noise, calibrated to an attacker who sees releases before choosing
#: the step in which neighbouring datasets differ: see `Design._format`.
_RECALIBRATED_FORMAT = 2
#: Bound of exact sums, in units of released integers; the rest of int64 is room for noise.
LARGEST_SUM = 2**61
#: Bound of counts of windows, so that float64 holds each released count.
LARGEST_WINDOW = 2**52


class Units(NamedTuple):
    """The sizes, in data units, of which exact sums, noise and released values are multiples.

    Attributes:
        exact: the resolution, or 1 for counts; `DesignPart.cell_unit` for a part of a stream.
        noise, released: ``exact`` divided by a power of two.
    """

    exact: Fraction
    noise: Fraction
    released: Fraction


class DesignPart(NamedTuple):
    """The place of a part's cells in a stream, and the scale of these cells.

    A part is one statistic of a report, or all groups with equal losses. The stream multiplies its
    cells by an integer weight; its numbers are in data units, without the weight.

    Attributes:
        cell_unit: change in data units of an exact sum if a cell of the stream changes by 1: the
            statistic's resolution divided by ``weight``.
        weight: the factor of the part's cells.
        starts: index of each group's first cell in the stream; one index if there are no groups.
        width: number of cells of a group.
    """

    cell_unit: Fraction
    weight: int
    starts: Sequence[int]
    width: int

    @property
    def exact(self) -> Fraction:
        """The resolution of the part in data units, of which its exact sums are multiples."""
        return self.cell_unit * self.weight


@dataclass(frozen=True, kw_only=True)
class Design(Generic[S]):
    """All public parameters of a stream of releases; its errors follow from them.

    A plan ranks designs, a state keeps one for each stream, and a description publishes it. The
    noise follows from the key and these parameters: streams that differ in name, strategy,
    guarantee, neighbouring relation or shape never have the same noise.

    Attributes:
        name: name of the stream; under it each step is released once.
        guarantee: the guarantee.
        contribution: the protected unit, the neighbouring relation, and the bound of one unit.
        shape: shape of one step's input.
        distribution: noise distribution of a node.
        strategy: the correlation of the noise over time.
        noise_guarantee: for cells added when needed, the guarantee of the noise alone; the choice
            of cells to show costs the rest of ``guarantee``.
        statistic: the statistic of ``counton.statistics`` that the cells belong to, as JSON values.
        noise_id: public identity of the noise: equal identities mean the same key and noise. None:
            unknown, as for a plan.
        part: where the cells of a part lie in the stream; None: the whole stream.
        errors_of: the numbers to which the errors refer; the stream does not depend on it.
        strategy_family: the family of the strategy in a plan; the stream does not depend on it.

    >>> from counton import PureDP, plan
    >>> best = plan(365, PureDP(1)).best
    >>> best.strategy_family, best.noise_kind
    ('least-squares', 'laplace')
    >>> round(best.errors.mean_std, 1), round(best.errors.max_std)
    (7.9, 9)
    """

    name: str = "planned"
    guarantee: Guarantee
    contribution: ContributionBound
    shape: tuple[int, ...] = ()
    distribution: NoiseDistribution
    strategy: S
    noise_guarantee: Guarantee | None = None
    statistic: Mapping[str, Any] | None = None
    noise_id: str | None = None
    part: DesignPart | None = None
    errors_of: ErrorsOf = field(default=ErrorsOf(), repr=False)
    strategy_family: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        check_name(self.name)

    @cached_property
    def errors(self) -> Errors:
        """The errors, in data units, of the numbers that ``errors_of`` describes."""
        return Errors(
            strategy=self.strategy,
            distribution=self.distribution,
            guarantee=self.guarantee,
            resolution=self.units.exact,
            cells=self.cells,
            of=self.errors_of,
        )

    @property
    def finds_cells(self) -> bool:
        """Whether cells are added when rows first need them; ``shape`` is then their limit."""
        return self.noise_guarantee is not None

    @cached_property
    def cells(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def units(self) -> Units:
        """The sizes, in data units, of which sums, noise and released values are multiples."""
        exact = self.contribution.resolution if self.part is None else self.part.cell_unit
        exact = Fraction(1) if exact is None else exact
        facts = self.strategy.facts
        noise, released = (Fraction(2) ** b for b in (facts.lattice_bits, facts.fraction_bits))
        return Units(exact, exact / noise, exact / released)

    @property
    def noise_kind(self) -> NoiseKind:
        return self.distribution.family

    def row(self) -> dict[str, Any]:
        """A row of a plan's table: strategy, noise, errors, and number of values in memory."""
        return {
            "strategy": repr(self.strategy),
            "noise": self.noise_kind,
            "mean_std": self.errors.mean_std,
            "max_std": self.errors.max_std,
            "held": self.strategy.facts.buffer_size * self.cells,
        }

    @property
    def _format(self) -> int:
        """Version of the saved form: 2 if older versions computed other noise, otherwise 1."""
        # These are strategies that are not causal, under (epsilon, delta), and for Laplace noise
        # under rho. Their noise was once calibrated to a step fixed beforehand, whose loss differs
        # from that of a step chosen later.
        guarantee = self.noise_guarantee or self.guarantee
        apart = isinstance(guarantee, ApproxDP) or (
            isinstance(guarantee, ZCDP) and self.distribution.family == "laplace"
        )
        return _RECALIBRATED_FORMAT if apart and not self.strategy.facts.causal else FORMAT

    @property
    def step_shape(self) -> tuple[int, ...]:
        """Shape of one step's input and release.

        A last axis for windows follows the cells if each step releases several recent windows.

        >>> from counton import PureDP
        >>> from counton.strategies import Binary, WindowVersions
        >>> bound = ContributionBound.add_remove()
        >>> several = Binary(9), WindowVersions(9, Binary(3))
        >>> [design_for(each, PureDP(1), bound, (5,)).step_shape for each in several]
        [(5,), (5, 3)]
        """
        versions = self.strategy.facts.versions
        return self.shape if versions == 1 else (*self.shape, versions)

    def to_dict(self) -> dict[str, Any]:
        saved = {
            "format": self._format,
            "kind": "stream",
            "name": self.name,
            "strategy": self.strategy.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "contribution": self.contribution.to_dict(),
            "shape": list(self.shape),
            "law": distribution_to_dict(self.distribution),
        }
        if self.noise_guarantee is not None:
            saved["counters"] = self.noise_guarantee.to_dict()
        if self.statistic is not None:
            saved["statistic"] = dict(self.statistic)
        return saved

    @classmethod
    def from_dict(cls, saved: Any, strategy: StreamStrategy | None = None) -> Design:
        """Rebuild a design from the result of `to_dict`.

        Args:
            saved: what `to_dict` returned.
            strategy: only if it is not one of counton's own.

        Raises:
            StateError: another version, an invalid part, or a ``strategy`` that the state does not
                name.
        """
        written = saved.get("format") if isinstance(saved, dict) else None
        if written not in (FORMAT, _RECALIBRATED_FORMAT):
            raise StateError(
                f"the state has format {written!r}, but this version reads format {FORMAT} and "
                f"{_RECALIBRATED_FORMAT}: open it with the version of counton that wrote it"
            )
        with state_errors("a stream"):
            if saved["kind"] != "stream":
                raise StreamMismatchError(
                    f"the state describes a {saved['kind']!r}, not a stream: give the state of a "
                    "stream"
                )
            if strategy is not None:
                if strategy.to_dict() != saved["strategy"]:
                    raise StreamMismatchError(
                        f"the strategy is {str(strategy.to_dict())[:300]}, but the state was "
                        f"written with {str(saved['strategy'])[:300]}: pass the strategy of the "
                        "state, or start a new stream"
                    )
                design = _design_of(saved, strategy)
            else:
                saved_strategy = saved["strategy"]
                kind = str(saved_strategy.get("strategy"))
                if stream_strategy_named(kind) is None:
                    named = (
                        (name, value)
                        for name, value in saved_strategy.items()
                        if name != "strategy"
                    )
                    built = f"{kind}({', '.join(f'{name}={value!r}' for name, value in named)})"
                    raise StreamMismatchError(
                        f"stream {saved['name']!r} was made with the strategy {kind}, which is not "
                        "one of counton's own: pass the strategy again, as in Stream.open(state, "
                        f"{saved['name']!r}, strategy={built[:300]})"
                    )
                design = _rebuilt(json.dumps(saved))
        if written != design._format:
            raise StateError(
                f"stream {design.name!r} has format {written}, and {design.strategy!r} under "
                f"{design.guarantee} now has format {design._format}, because the old noise does "
                "not protect against readers who choose data after they have seen releases; read "
                "the stream with the version of counton that wrote it, and start a new stream "
                "to go on"
            )
        return design

    @cached_property
    def text(self) -> str:
        """The design as JSON text, which is a part of every checkpoint."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def bound_to_key(self, fingerprint: str) -> Design:
        """Return a copy bound to a key, which decides its `noise_id`.

        Args:
            fingerprint: the ``fingerprint`` of the key, which is public.
        """
        text = f"identity of noise\n{fingerprint}\n{self._address}"
        return replace(self, noise_id=sha256(text.encode()).hexdigest()[:32])

    def noise_field(self, key: Key, cells: int | None = None) -> NoiseField:
        """Return the noise of this stream's nodes under ``key``.

        ``cells`` is their number so far, if they are added when needed; None: all.

        Args:
            key: the secret of the noise.
            cells: number of cells so far, if they are added when needed; None: all.
        """
        shape = self.shape if cells is None else (cells,)
        subkey = check_key(key).derive(b"counter", self._address.encode())
        return NoiseField(
            subkey, lambda level: node_distribution(self.strategy, self.distribution, level), shape
        )

    @property
    def _address(self) -> str:
        """Text that decides, with the key, all noise of the stream.

        It is built from facts alone, and from no job: forms of jobs and files may change, and the
        noise stays. `tests/net` has the addresses of forty jobs, byte by byte.
        """
        contribution = self.contribution.to_dict()
        address: dict[str, object] = {
            "format": self._format,
            "guarantee": self.guarantee.to_dict(),
            # The name of the unit must not change the noise.
            "contribution": {fact: value for fact, value in contribution.items() if fact != "unit"},
            "law": distribution_to_dict(self.distribution),
            "stream": self.name,
            # Parameters hold digests of large arrays, which the state keeps whole.
            "strategy": {"strategy": self.strategy.saved_name, **self.strategy.parameters},
            "shape": [*self.shape],
        }
        if self.noise_guarantee is not None:
            address["counters"] = self.noise_guarantee.to_dict()
        if self.statistic is not None:
            address["statistic"] = dict(self.statistic)
        return json.dumps(address, sort_keys=True, separators=(",", ":"))

    def largest_noise_std(self, steps: range) -> float:
        """Return the largest standard deviation of the noise of some steps, over all versions.

        It is in units of the released integers, and follows from the design alone.

        Args:
            steps: consecutive steps that the strategy serves.
        """
        strategy = self.strategy
        facts = strategy.facts
        if isinstance(strategy, WindowVersions):
            node = self.distribution.variance / 4.0**facts.lattice_bits
            variances = strategy.lag_variance(range(facts.versions)) * node
            variances += facts.rounding_variance
        else:
            variances = noise_variance(strategy, self.distribution, steps)
        return math.sqrt(float(np.max(variances))) * 2.0**facts.fraction_bits

    def public(self) -> dict[str, Any]:
        """Return the design as JSON values with noise in data units; `from_dict` reads it too."""
        description = {
            **self.to_dict(),
            "law": distribution_to_dict(self.distribution, self.units.noise),
        }
        return description if self.noise_id is None else description | {"noise_id": self.noise_id}

    def to_data(self, released: NDArray[np.int64]) -> IntegersOrFloats:
        """Convert released integers to data units: int64 for counts, otherwise float64.

        It depends on the released integers alone, so floating point reveals nothing more.

        Args:
            released: integers as the journal has them, of any shape.
        """
        if self.contribution.resolution is None and self.units.released == 1:
            return released
        return np.asarray(to_data(released, self.units.released), np.float64)


def design_for(
    strategy: S,  # type: ignore[misc]  # which is of the design that is returned
    guarantee: Guarantee,
    contribution: ContributionBound,
    shape: tuple[int, ...] = (),
    *,
    noise_guarantee: Guarantee | None = None,
    **parameters: Any,
) -> Design[S]:
    """Return the design whose noise has the least variance that satisfies a guarantee.

    Raises:
        InvalidInputError: the strategy cannot give the guarantee, or sums of the noise could
            overflow.

    >>> from counton import PureDP
    >>> from counton.strategies import Binary
    >>> design_for(Binary(31), PureDP(1), ContributionBound.add_remove()).distribution
    DiscreteLaplace(scale=Fraction(5, 1))
    """
    bound_guarantee = guarantee_of_stream(strategy, guarantee)
    distribution = distribution_for(
        strategy, noise_guarantee or bound_guarantee, contribution, shape
    ).distribution
    strategy._check_distribution(distribution)
    return Design(
        strategy=strategy,
        guarantee=bound_guarantee,
        contribution=contribution,
        shape=shape,
        distribution=distribution,
        noise_guarantee=noise_guarantee,
        **parameters,
    )


def stream_cell(design: Design, cell: int) -> int:
    """Convert the index of a cell in a design, perhaps of a part, to that in the whole stream."""
    if design.part is None:
        return cell
    group, own_cell = divmod(cell, design.part.width)
    return design.part.starts[group] + own_cell


@lru_cache(maxsize=16)
def _rebuilt(design_json: str) -> Design:
    # A run reads the design of its stream, and again with its checkpoint: rebuild them once.
    saved = json.loads(design_json)
    return _design_of(saved, strategy_from_dict(saved["strategy"]))


def _design_of(saved: Mapping[str, Any], strategy: StreamStrategy) -> Design:
    noise_guarantee = saved.get("counters")
    statistic = saved.get("statistic")
    noise_id = saved.get("noise_id")
    if noise_id is not None and not re.fullmatch("[0-9a-f]{32}", str(noise_id)):
        raise InvalidInputError(
            "noise_id must be 32 hexadecimal digits: give it as the state has it"
        )
    return Design(
        strategy=strategy,
        noise_guarantee=None if noise_guarantee is None else guarantee_from_dict(noise_guarantee),
        statistic=None if statistic is None else dict(statistic),
        noise_id=None if noise_id is None else str(noise_id),
        name=saved["name"],
        guarantee=guarantee_from_dict(saved["guarantee"]),
        contribution=ContributionBound.from_dict(saved["contribution"]),
        shape=check_shape(tuple(saved["shape"])),
        distribution=distribution_from_dict(saved["law"]),
    )


@contextmanager
def state_errors(noun: str) -> Iterator[None]:
    """Turn errors of the ``with`` block, which reads ``noun``, into one `StateError`."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"the state does not describe {noun} ({error!r}): restore it from a copy"
        ) from error


def check_name(name: object) -> None:
    """Raise `InvalidInputError` for a value that cannot be the name of a release."""
    if type(name) is not str or not name:
        raise InvalidInputError(f"name is {quote(name)}; give a text such as 'visits', not empty")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"name is {name!r}, which has half a character (a lone surrogate) at position "
            f"{error.start}: remove it"
        ) from None


def largest_sum(strategy: StreamStrategy) -> int:
    """Return the largest exact total (or window) of a stream, in multiples of the resolution."""
    most = LARGEST_SUM if strategy.facts.release == "totals" else LARGEST_WINDOW
    return most >> strategy.facts.fraction_bits


def check_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of ints, after checking that a stream can have it."""
    whole = isinstance(shape, (tuple, list)) and all(is_whole(n) and n > 0 for n in shape)
    if not whole or math.prod(shape) >= 2**32:
        raise InvalidInputError(
            f"shape is {quoted_numbers(shape)}; it must be a tuple of positive integers such as () "
            "or (16,), for fewer than 2^32 cells in all"
        )
    return tuple(int(n) for n in shape)
