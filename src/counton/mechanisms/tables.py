"""What all releases of tables share: a draft that becomes a release, checked counts, noise."""

from __future__ import annotations

import hmac
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Number
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.arrays import Integers
from counton.columns import html
from counton.errors import InvalidInput, SumOverflow
from counton.exact import quoted, unmasked
from counton.laws import Family
from counton.mechanisms.calibration import check_contribution
from counton.mechanisms.terms import FORMAT, TableTerms, check_name
from counton.noise import Key
from counton.privacy import ZCDP, Contribution, Guarantee, PureDP, Shift
from counton.strategies import Norm
from counton.strategies.base import TableStrategy

T = TypeVar("T")

#: Measurements stay below this; the rest of int64 is room for noise.
LARGEST_MEASUREMENT = 2**61
#: Which norm of the columns each kind of noise is calibrated to.
NORMS: dict[Family, Norm] = {"laplace": 1, "gaussian": 2}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableRelease(ABC):
    """What every table that is released at one go has.

    Attributes:
        terms: all that the noise is bound to, and what is promised: public.
        input_digest: keyed digest of the input, hexadecimal: whoever lacks the key learns nothing
            from it. The same terms and digest are the same release.
        repeated: a journal answered; nothing new was released.
    """

    terms: TableTerms = field(repr=False)
    input_digest: str = field(repr=False)
    repeated: bool = False

    @property
    def name(self) -> str:
        """Name of the release."""
        return self.terms.name

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return self.terms.guarantee

    @property
    def contribution(self) -> Contribution:
        """The protected unit and the neighbouring relation."""
        return self.terms.contribution

    @abstractmethod
    def saved_strategy(self) -> dict[str, Any]:
        """The exact strategy, JSON values: with it a draft shows the release again anywhere."""

    @abstractmethod
    def saved_values(self) -> dict[str, Any]:
        """The released integers, JSON values."""

    @abstractmethod
    def describe(self) -> str:
        """What was released and what is protected, in words."""

    def methods(self) -> str:
        """The paragraph that a publication needs: unit, guarantee, mechanism, error, sources.

        >>> from counton import Key, ZCDP, release_ranges
        >>> release = release_ranges([3, 1, 4], guarantee=ZCDP(2), key=Key.generate())
        >>> release.methods().split(".\\n")[0]
        "'ranges' is a table of 3 counts, released once"
        """
        from counton.mechanisms.methods import methods

        return methods(
            self.terms, mechanism=self._measured(), errors=self._errors(), sources=self._sources()
        )

    @abstractmethod
    def _measured(self) -> str:
        """What was measured, a sentence."""

    @abstractmethod
    def _errors(self) -> list[str]:
        """How wrong what was released is, sentences."""

    @abstractmethod
    def _sources(self) -> tuple[str, ...]:
        """Where what was measured is described."""

    @abstractmethod
    def _rows(self) -> Mapping[str, NDArray[Any]]:
        """Columns of what a notebook shows."""

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        repeated = ", shown again" if self.repeated else ""
        return f"<{type(self).__name__} {self.name!r}, {self.guarantee}{repeated}>"

    def _repr_html_(self) -> str:
        return html(self.describe(), self._rows())


R = TypeVar("R", bound=TableRelease)


class TableDraft(ABC, Generic[R]):
    """A table before it is released: its data checked and its terms asked for, nothing drawn.

    Two drafts ask for the same release if name, ``asked`` and data are the same. What a search then
    finds, such as the matrix of `optimal`, belongs to the release and not to what is asked.

    Attributes:
        kind: "ranges", "hierarchy" or "contingency".
        name: of the release.
        asked: what the caller stated besides the data, JSON values.
        contribution: the protected unit and the neighbouring relation.
        fit: how the numbers that are shown are made to fit, JSON values; public, and kept with the
            release, so that one table has one number a cell wherever it is shown. Empty: as
            released, or as the state has kept it.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, asked: Mapping[str, Any], counts: Integers) -> None:
        check_name(name)
        self.name = name
        self.asked: dict[str, Any] = json.loads(json.dumps({**asked, "format": FORMAT}))
        self.contribution = Contribution.from_dict(self.asked["contribution"])
        self._counts = counts  # exact, hence secret
        self.fit: dict[str, Any] = {}

    def call_unit(self, unit: str) -> None:
        """Say what a protected unit is called, before the release: no noise depends on it."""
        if unit != self.contribution.unit:
            self.contribution = replace(self.contribution, unit=unit)
            self.asked["contribution"] = self.contribution.to_dict()
            self.__dict__.pop("plan", None)  # one that was made already states it too

    def input_digest(self, key: Key) -> str:
        """Keyed digest of the exact input (HMAC-SHA256), hexadecimal.

        Counts are few and easily guessed, so a plain hash would give them away.
        """
        return digest_of_counts(key, self.kind, self.name, self._counts)

    def differences(self, terms: TableTerms, asked: Mapping[str, Any]) -> list[str]:
        """What was asked otherwise when the release of these terms was made; empty if nothing."""
        if terms.kind != self.kind:
            return ["kind"]
        names = sorted({*asked, *self.asked})
        return [name for name in names if asked.get(name) != self.asked.get(name)]

    @abstractmethod
    def prepare(self) -> None:
        """Choose strategy and noise, which may take time and may be refused."""

    @abstractmethod
    def release(self, key: Key) -> R:
        """Measure the table with the noise of a key.

        Raises:
            InvalidInput: no key, or no noise that gives the guarantee.
            SumOverflow: counts too large to be measured exactly.
        """

    @abstractmethod
    def shown(
        self,
        terms: TableTerms,
        strategy: Mapping[str, Any],
        values: Mapping[str, Any],
        input_digest: str,
    ) -> R:
        """What was released before, from what was saved of it: no plan and no noise."""


def digest_of_counts(key: Key, kind: str, name: str, counts: Integers) -> str:
    """Keyed digest of a table's exact counts (HMAC-SHA256), hexadecimal."""
    subkey = key.derive(b"table digest", kind.encode(), name.encode())
    data = np.ascontiguousarray(counts, dtype="<i8")
    return hmac.digest(subkey, f"{data.shape};".encode() + data.tobytes(), "sha256").hex()


def stated(guarantee: Guarantee | None, contribution: Contribution | None) -> dict[str, Any]:
    """Guarantee and contribution as a draft states them.

    Raises:
        InvalidInput: something else.
    """
    if guarantee is not None and not isinstance(guarantee, Guarantee):
        raise InvalidInput(
            f"guarantee is {quoted(guarantee)}; give one such as PureDP(epsilon=1) or ZCDP(rho=0.5)"
        )
    unit = Contribution.add_remove() if contribution is None else contribution
    check_contribution(unit)
    return {
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "contribution": unit.to_dict(),
    }


def shift_of_cells(strategy: TableStrategy, contribution: Contribution) -> Shift:
    """Worst change of all measurements of a table between neighbours.

    Several cells or units per cell multiply the norms, by the triangle inequality. A replaced unit
    leaves its cells and enters others, so it moves; it may also only leave or enter.

    Raises:
        InvalidInput: a contribution of clipped values (tables hold counts), or of several steps.

    >>> from counton.strategies.lines import Nodes
    >>> shift_of_cells(Nodes(2, (2,), (1, 2)), Contribution.add_remove(cells=2))
    Shift(l1=6, l2_squared=20, entries=None)
    """
    if contribution.resolution is not None:
        raise InvalidInput(
            "the contribution has clipped values; hierarchies and ranges hold counts: use "
            "Contribution.add_remove or Contribution.replace"
        )
    if not contribution.acts_once:
        raise InvalidInput(
            f"the contribution is {contribution}; a table has no steps: state all of a "
            f"unit's cells in cells, or release a stream"
        )
    times = contribution.cells * contribution.per_cell
    one = strategy.shift()
    if contribution.relation == "add_remove":
        entries = None
        if one.entries is not None and contribution.cells == 1:
            entries = tuple((times * magnitude, count) for magnitude, count in one.entries)
        return Shift(times * one.l1, times**2 * one.l2_squared, entries)
    moved = strategy.shift("move")
    return Shift(times * max(one.l1, moved.l1), times**2 * max(one.l2_squared, moved.l2_squared))


def checked_counts(counts: ArrayLike, table: str = "the counts") -> NDArray[np.int64]:
    """Counts as int64.

    Args:
        counts: what the caller gave.
        table: what they are rows of, in messages; rows count from 1.

    Raises:
        InvalidInput: not integers, or below 0, naming the first offender.
        SumOverflow: a count beyond int64.
    """
    if hasattr(counts, "columns"):
        raise InvalidInput(
            f"{table} are a data frame of type {type(counts).__name__}; give one column of "
            f"integers, or an array"
        )
    counts = unmasked(counts, table)
    try:
        array = np.asarray(counts)
    except (ValueError, TypeError, OverflowError):
        raise InvalidInput("the counts do not form an array; give numbers in one shape") from None
    if not array.size:
        return array.astype(np.int64)
    if array.dtype == object:
        array = _whole(array, table)
    if array.dtype.kind not in "iu":
        first = array.ravel()[:1].tolist()[0]
        raise InvalidInput(
            f"counts have type {array.dtype}; the first is {_told(first)}: they must be integers: "
            f"count or round first"
        )
    if array.min() < 0:
        place = int(np.argmax(array.ravel() < 0))
        raise InvalidInput(
            f"{_where(array, place)} of {table} holds {array.ravel()[place]}, which is negative; a "
            f"count must be at least 0: repair it first"
        )
    if array.max() >= LARGEST_MEASUREMENT:
        place = int(array.argmax())
        raise SumOverflow(
            f"{_where(array, place)} of {table} holds {array.max()}, which is beyond 2^61, where "
            f"sums are not exact: count in larger units"
        )
    return array.astype(np.int64)


def _where(array: NDArray[Any], place: int) -> str:
    """A row, counted from 1; in a grid the cell, by the indices which questions take too."""
    if array.ndim < 2:
        return f"row {place + 1:,}"
    return f"cell {tuple(int(i) for i in np.unravel_index(place, array.shape))}"


def _told(value: object) -> str:
    """A number that is none of the counts; what is no number may be anything of a row."""
    is_number = isinstance(value, Number)
    return (
        f"{quoted(value)} of type {type(value).__name__}"
        if is_number
        else f"a {type(value).__name__}"
    )


def _whole(array: NDArray[Any], table: str) -> NDArray[Any]:
    for place, value in enumerate(array.ravel().tolist()):
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(
                f"{_where(array, place)} of {table} holds {_told(value)}; it must be an integer: "
                f"repair or drop it first"
            )
        if abs(value) >= LARGEST_MEASUREMENT:
            raise SumOverflow(
                f"{_where(array, place)} of {table} holds {value}, which is beyond 2^61, where "
                f"sums are not exact: count in larger units"
            )
    return array.astype(np.int64)


def check_room(counts: NDArray[np.int64], largest_entry: int) -> None:
    """Refuse counts whose measurements could leave int64.

    Raises:
        SumOverflow: naming the sum and the most that fits.
    """
    if counts.size * int(counts.max(initial=0)) * largest_entry < LARGEST_MEASUREMENT:
        return
    # int64 sums of counts below 2^61 can wrap; high and low halves cannot.
    total = (int((counts >> 31).sum()) << 31) + int((counts & (2**31 - 1)).sum())
    if total * largest_entry >= LARGEST_MEASUREMENT:
        raise SumOverflow(
            f"the counts sum to {total}; with this strategy at most "
            f"{(LARGEST_MEASUREMENT - 1) // largest_entry} can be measured exactly: count in "
            f"larger units"
        )


def fraction_bits(std: float) -> int:
    """Bits behind the point of released numbers: steps below 2^-15 of the least ``std``.

    Public, since ``std`` is; larger noise leaves more room for larger counts.

    >>> fraction_bits(0.3), fraction_bits(50.0), fraction_bits(1e9)
    (16, 11, 0)
    """
    if std < 1:  # 0 too: the variance of noise that is next to never there is below any float
        return 16
    return min(max(16 - math.floor(math.log2(std)), 0), 16)


def noise_kinds(guarantee: Guarantee) -> tuple[Family, ...]:
    """Kinds of noise worth trying for a guarantee.

    Up to rho = 2, Laplace noise of scale l1 / sqrt(2 rho) has at least twice the variance of
    Gaussian noise with any strategy, since l1 is never below l2.

    >>> noise_kinds(ZCDP(0.5))
    ('gaussian',)
    """
    if isinstance(guarantee, PureDP):
        return ("laplace",)
    if isinstance(guarantee, ZCDP) and guarantee.rho <= 2:
        return ("gaussian",)
    return ("laplace", "gaussian")


def ranked(attempts: Iterable[Callable[[], T]], cost: Callable[[T], float]) -> list[T]:
    """What the attempts give, least cost first; those that are refused are left out.

    Raises:
        InvalidInput: all are refused; the reason is that of the last.

    >>> ranked([lambda: 3, lambda: 2], cost=float)
    [2, 3]
    """
    found: list[T] = []
    reason = InvalidInput("nothing was tried: give at least one attempt")
    for attempt in attempts:
        try:
            found.append(attempt())
        except InvalidInput as error:
            reason = error
    if not found:
        raise reason
    return sorted(found, key=cost)


def best_of_kinds(
    guarantee: Guarantee, attempt: Callable[[Family], T], cost: Callable[[T], float]
) -> T:
    """The cheapest of what the kinds of noise give that can keep a guarantee.

    Raises:
        InvalidInput: none can; the reason is that of the last.

    >>> best_of_kinds(PureDP(1), lambda kind: kind, cost=len)
    'laplace'
    """
    return ranked((partial(attempt, family) for family in noise_kinds(guarantee)), cost)[0]
