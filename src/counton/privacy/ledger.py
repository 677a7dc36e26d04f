"""A ledger adds up what several streams on the same data have spent, and refuses to go beyond."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from counton.errors import BudgetExceeded, InvalidInput, field
from counton.privacy.concentrated import concentrated_by_pure, epsilon_within
from counton.privacy.expiration_loss import checked_age
from counton.privacy.guarantees import (
    ZCDP,
    AgesWithData,
    ApproxDP,
    Guarantee,
    PureDP,
    guarantee_from_dict,
)

Budget = PureDP | ApproxDP | ZCDP


@dataclass(frozen=True, slots=True)
class _Total:
    """A bound on what was spent: (epsilon, delta), or rho in ``loss`` where the limit is in rho."""

    loss: Fraction
    delta: Fraction = Fraction(0)


class Ledger:
    """What streams on the same data may spend together, and what they have spent.

    Streams may be interleaved and chosen by what others released: all of this holds for concurrent
    adaptive composition (Vadhan and Zhang, "Concurrent Composition Theorems for Differential
    Privacy", 2023; Lyu, "Composition Theorems for Interactive Differential Privacy", 2022), as long
    as each stream's guarantee is fixed when it is spent.

    Args:
        limit: the most that may be spent.
        age: for guarantees that weaken as data ages: the age, in steps, at which what they
            promise is counted. The total then holds for data of that age or younger; streams with
            steps of several lengths need it in the steps of the fastest.

    Raises:
        InvalidInput: the limit is not PureDP, ApproxDP or ZCDP; the age is negative.

    >>> ledger = Ledger(PureDP(1))
    >>> for hour in range(10):
    ...     ledger.spend(f"hour {hour}", PureDP(0.1))
    >>> print(ledger.spent(), ledger.remaining())
    pure differential privacy with epsilon = 1 None
    """

    def __init__(self, limit: Budget, *, age: int | None = None) -> None:
        if not isinstance(limit, (PureDP, ApproxDP, ZCDP)):
            raise InvalidInput(
                f"limit of a ledger is {limit!r}; it must be PureDP, ApproxDP or ZCDP"
            )
        if age is not None:
            age = checked_age(age)
        self.limit = limit
        self.age = age
        self._spends: list[tuple[str, Guarantee]] = []

    @property
    def spends(self) -> tuple[tuple[str, Guarantee], ...]:
        """Every (stream, guarantee) in the order in which they were spent."""
        return tuple(self._spends)

    def spend(self, name: str, guarantee: Guarantee) -> None:
        """Record that stream ``name`` spends ``guarantee``, if the limit allows it.

        Call it before the stream's first release. The same name may spend again; it adds up.

        Raises:
            BudgetExceeded: the total would exceed the limit; nothing is recorded.
            InvalidInput: this kind of guarantee cannot be counted against this kind of limit.
        """
        total = self._total([*self._spends, (name, guarantee)])
        if not self._within(total):
            asked, remedy = self._asked(guarantee)
            raise BudgetExceeded(
                f"stream {name!r} asks for {asked}; spent so far: {self.spent() or 'nothing'}, "
                f"and the limit is {self.limit}: {remedy}"
            )
        self._spends.append((name, guarantee))

    def counted(self) -> tuple[tuple[str, Guarantee | None], ...]:
        """Every (stream, guarantee) as it counts at the ledger's age; None: as nothing yet."""
        return tuple((name, self._at_age(name, spent)) for name, spent in self._spends)

    def spent(self) -> Budget | None:
        """The least known total of everything spent, in terms of the limit; None: nothing.

        Against a limit of ApproxDP it is PureDP where no delta is needed. Guarantees that weaken as
        data ages may have cost nothing yet at the ledger's age.
        """
        total = self._total(self._spends)
        if not total.loss and not total.delta:
            return None
        if isinstance(self.limit, ZCDP):
            return ZCDP(total.loss)
        return _approximate(total.loss, total.delta)

    def remaining(self) -> Budget | None:
        """A guarantee that can still be spent; None: nothing.

        Against a limit of ApproxDP more may be possible, since zero-concentrated guarantees add up
        to less than the sum of their epsilons.
        """
        total = self._total(self._spends)
        left = self.limit_loss - total.loss
        if left <= 0:
            return None
        if isinstance(self.limit, ZCDP):
            return ZCDP(left)
        delta = self.limit.delta - total.delta if isinstance(self.limit, ApproxDP) else Fraction(0)
        return _approximate(left, delta)

    @property
    def limit_loss(self) -> Fraction:
        """Epsilon or rho of the limit."""
        return self.limit.rho if isinstance(self.limit, ZCDP) else self.limit.epsilon

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which `from_dict` rebuilds the ledger exactly."""
        return {
            "limit": self.limit.to_dict(),
            "age": self.age,
            "spends": [{"stream": name, **guarantee.to_dict()} for name, guarantee in self._spends],
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Ledger:
        """Inverse of `to_dict`.

        Raises:
            InvalidInput: missing or invalid entries.
            BudgetExceeded: the entries exceed the limit.
        """
        try:
            limit, age, spends = saved["limit"], saved["age"], saved["spends"]
            entries = [(spend["stream"], dict(spend)) for spend in spends]
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"saved ledger does not fit: {error!r}") from error
        ledger = cls(guarantee_from_dict(limit), age=age)  # type: ignore[arg-type]
        for name, entry in entries:
            del entry["stream"]
            ledger._spends.append((name, guarantee_from_dict(entry)))
        if not ledger._within(ledger._total(ledger._spends)):
            raise BudgetExceeded(
                f"saved ledger has spent {ledger.spent()}, beyond its limit of {ledger.limit}: it "
                f"was altered"
            )
        return ledger

    def _within(self, total: _Total) -> bool:
        delta = self.limit.delta if isinstance(self.limit, ApproxDP) else Fraction(0)
        return total.loss <= self.limit_loss and total.delta <= delta

    def _total(self, spends: list[tuple[str, Guarantee]]) -> _Total:
        present = ((name, self._at_age(name, spent)) for name, spent in spends)
        guarantees = [(name, spent) for name, spent in present if spent is not None]
        pure = sorted(g.epsilon for _, g in guarantees if isinstance(g, PureDP))
        rho = sum((g.rho for _, g in guarantees if isinstance(g, ZCDP)), Fraction(0))
        epsilon, delta = Fraction(0), Fraction(0)
        for name, guarantee in guarantees:
            if isinstance(guarantee, ApproxDP):
                epsilon, delta = epsilon + guarantee.epsilon, delta + guarantee.delta
            self._refuse_mismatch(name, guarantee)
        if isinstance(self.limit, PureDP):
            return _Total(sum(pure, Fraction(0)))
        if isinstance(self.limit, ZCDP):
            return _Total(rho + sum(map(concentrated_by_pure, pure), Fraction(0)))
        return _least_approximate(pure, rho, _Total(epsilon, delta), self.limit.delta)

    def _at_age(self, name: str, guarantee: Guarantee) -> Guarantee | None:
        if not isinstance(guarantee, AgesWithData):
            return guarantee
        if self.age is None:
            raise InvalidInput(
                f"stream {name!r} asks for {guarantee}, which weakens as data ages and cannot be "
                f"added to other guarantees as it is: state the age to count it at, "
                f"{field('age')} of the limit"
            )
        return guarantee.at_age(self.age)

    def _asked(self, guarantee: Guarantee) -> tuple[str, str]:
        """In words: what was asked for and what it counts as, and what could be asked for."""
        left = self.remaining()
        if left is None:
            return str(guarantee), "nothing is left, raise the limit"
        if self.age is None or not isinstance(guarantee, AgesWithData):
            return str(guarantee), f"ask for at most {left}"
        asked = f"{guarantee}, which at age {self.age:,} counts as {guarantee.at_age(self.age)}"
        return asked, f"ask for less, so that it counts as at most {left} there"

    def _refuse_mismatch(self, name: str, guarantee: Guarantee) -> None:
        if not isinstance(guarantee, (PureDP, ApproxDP, ZCDP)):
            raise InvalidInput(
                f"stream {name!r} asks for {guarantee}; a ledger adds up PureDP, ApproxDP and ZCDP"
            )
        if isinstance(self.limit, ApproxDP) or isinstance(guarantee, (PureDP, type(self.limit))):
            return
        raise InvalidInput(
            f"stream {name!r} asks for {guarantee}, which no amount of {self.limit} covers: spend "
            f"{'PureDP or ZCDP' if isinstance(self.limit, ZCDP) else 'PureDP'}, or give the ledger "
            f"a limit of ApproxDP"
        )


def _approximate(epsilon: Fraction, delta: Fraction) -> PureDP | ApproxDP:
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def _least_approximate(
    pure: list[Fraction], rho: Fraction, basic: _Total, delta_limit: Fraction
) -> _Total:
    """Least epsilon at which everything fits under ``delta_limit``.

    Some of the pure guarantees, always the smallest, join the zero-concentrated ones, which turn
    into (epsilon, delta) together with all the delta that is left; the others add up.
    """
    totals = []
    if rho == 0:
        totals.append(_Total(basic.loss + sum(pure, Fraction(0)), basic.delta))
    left = delta_limit - basic.delta
    if left > 0:
        rest = sum(pure, Fraction(0))
        for epsilon, count in Counter([Fraction(0), *pure]).items():
            rho, rest = rho + count * concentrated_by_pure(epsilon), rest - count * epsilon
            if rho:
                totals.append(_Total(basic.loss + rest + epsilon_within(rho, left), delta_limit))
    elif not totals:  # no delta for a conversion: beyond every limit
        totals.append(_Total(basic.loss + sum(pure, Fraction(0)), delta_limit + basic.delta))
    return min(totals, key=lambda total: (total.loss, total.delta))
