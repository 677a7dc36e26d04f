"""A privacy filter: a budget for the total of guarantees that may be chosen adaptively.

If earlier releases decide the next guarantee, a total by the best Renyi order after each spend
would be too small: random results would choose the order. So a filter fixes beforehand what it adds
up:

- `PureDP`: the sum of epsilon.
- `ZCDP`: the sum of rho, at every whole Renyi order.
- `ApproxDP`: the budget's delta is divided when the first guarantee is spent: a share for the
deltas
  of `ApproxDP` guarantees, and one for each of a few whole Renyi orders. A guarantee fits if the
  sum of epsilon stays within the budget, or if, at one of the orders, the sum of Renyi divergences
  implies (epsilon, share of this order). docs/research/theory.md has the proof.

Streams that run at the same time add up in the same way.

Sources: Rogers, Roth, Ullman and Vadhan 2016, for epsilon; Feldman and Zrnic, "Individual Privacy
Accounting via a Renyi Filter", 2021, and Whitehouse, Ramdas, Rogers and Wu, "Fully-Adaptive
Composition in Differential Privacy", 2023, for rho; Haney, Shoemate, Tian, Vadhan, Vyrros, Xu and
Zhang, "Concurrent Composition for Interactive Differential Privacy with Adaptive Privacy-Loss
Parameters", 2023, for streams at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple, Self

from counton.base.errors import InvalidInputError
from counton.base.exact import Number, exact, text
from counton.privacy.guarantees import ZCDP, ApproxDP, PureDP

#: Kinds of guarantees that a ledger adds up, and kinds of its budget.
AddableGuarantee = PureDP | ApproxDP | ZCDP

#: Shares of the delta for conversions, one for each Renyi order. The first order is best if all of
#: epsilon is spent in small guarantees; the others if a half, a quarter or an eighth is spent so.
#: The rest of epsilon is then spent in large pure guarantees, for which every order gives the same.
_DELTA_SHARES = (Fraction(1, 2), Fraction(1, 6), Fraction(1, 6), Fraction(1, 6))
#: Share of a budget's delta for ApproxDP guarantees, if the first guarantee is of another kind.
_APPROXIMATE_SHARE = Fraction(1, 4)
_LEAST_EPSILON = Fraction(1, 2**60)  # lower bound of the epsilon of a guarantee
_LEAST_PARAMETER = Fraction(1, 10**300)  # smaller numbers are no parameters
_LONGEST_DENOMINATOR_BITS = 400  # bits of a sum's denominator; longer ones are shown rounded


class RenyiOrder(NamedTuple):
    """One order of the Renyi divergence, and its part of the delta of an ApproxDP budget.

    Attributes:
        order: the order alpha, a whole number from 2 on.
        delta: the order's part of the budget's delta.
        loss: the largest divergence that implies (epsilon of the budget, ``delta``).
    """

    order: Fraction
    delta: Fraction
    loss: Fraction

    @classmethod
    def within(cls, budget: ApproxDP, order: Fraction, delta: Fraction) -> Self:
        """Return an order with the divergence that implies (epsilon of ``limit``, ``delta``)."""
        from counton.privacy.concentrated import renyi_within

        return cls(order, delta, renyi_within(budget.epsilon, delta, order))


class PrivacyFilter(NamedTuple):
    """A budget on privacy loss, and the sums of what is spent so far; immutable.

    Attributes:
        budget: the guarantee that all spent ones together must keep.
        approximate_delta: the part of its delta for ApproxDP guarantees; the rest is for
            ``orders``.
        orders: Renyi orders with their parts; empty if the budget is not ApproxDP.
        epsilon: sum of epsilon over pure and approximate guarantees.
        delta: sum of delta over approximate guarantees.
        rho: sum of rho; if the budget is ZCDP, also of pure guarantees, converted to rho.
        losses: for each of ``orders``, the sum of Renyi divergences over all guarantees.

    >>> filter = PrivacyFilter.start(ApproxDP(1, 1e-6), [ZCDP(0.01)])
    >>> filter.after(ZCDP(0.01)).within, filter.after(ZCDP(0.03)).within
    (True, False)
    """

    budget: AddableGuarantee
    approximate_delta: Fraction = Fraction(0)
    orders: tuple[RenyiOrder, ...] = ()
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    losses: tuple[Fraction, ...] = ()

    @classmethod
    def start(
        cls,
        budget: AddableGuarantee,
        expected: Iterable[AddableGuarantee] = (),
        approximate_delta: Number | None = None,
    ) -> Self:
        """Return a filter with nothing spent yet.

        Args:
            budget: the guarantee that all spent ones together must keep.
            expected: guarantees that will be spent whatever is released, such as the first one.
            approximate_delta: the part of the budget's delta that ApproxDP guarantees may spend.
                None: all of it if all ``expected`` are ApproxDP; otherwise a quarter, or the sum
                of their deltas if this is larger.

        Raises:
            InvalidInputError: ``approximate_delta`` is out of range, or the budget has no delta.
        """
        if not isinstance(budget, ApproxDP):
            if approximate_delta is not None:
                raise InvalidInputError(
                    f"approximate_delta is {approximate_delta}, but the budget is {budget}, which "
                    "has no delta to divide: leave approximate_delta out"
                )
            return cls(budget)
        from counton.privacy.concentrated import best_order

        expected = list(expected)
        deltas = [guarantee.delta for guarantee in expected if isinstance(guarantee, ApproxDP)]
        if approximate_delta is not None:
            kept = exact(approximate_delta, "approximate_delta")
            if not 0 <= kept <= budget.delta:
                raise InvalidInputError(
                    f"approximate_delta is {text(kept)}; it must be from 0 to the budget's delta, "
                    f"{text(budget.delta)}"
                )
        elif deltas and len(deltas) == len(expected):
            kept = budget.delta
        else:
            kept = max(budget.delta * _APPROXIMATE_SHARE, sum(deltas, Fraction(0)))
            kept = min(budget.delta, kept)
        delta_left = budget.delta - kept
        orders = []
        for number, part in enumerate(_DELTA_SHARES if delta_left else ()):
            order = best_order(budget.epsilon / 2**number, part * delta_left)
            orders.append(RenyiOrder.within(budget, order, part * delta_left))
        return cls(budget, kept, tuple(orders), losses=(Fraction(0),) * len(orders))

    def after(self, guarantee: AddableGuarantee) -> Self:
        """Return the filter after one more guarantee, even beyond the budget."""
        epsilon = self.epsilon
        delta = self.delta
        rho = self.rho
        if isinstance(guarantee, ZCDP):
            rho += guarantee.rho
        elif isinstance(self.budget, ZCDP):
            from counton.privacy.concentrated import concentrated_by_pure

            rho += concentrated_by_pure(guarantee.epsilon)
        else:
            epsilon += guarantee.epsilon
        if isinstance(guarantee, ApproxDP):
            delta += guarantee.delta
        pairs = zip(self.orders, self.losses, strict=True)
        losses = tuple(loss + _divergence(guarantee, bound.order) for bound, loss in pairs)
        return self._replace(epsilon=epsilon, delta=delta, rho=rho, losses=losses)

    @property
    def within(self) -> bool:
        """Whether the guarantees added up so far are within the budget."""
        if not isinstance(self.budget, ApproxDP):
            spent, most = self._spent_and_most
            return spent <= most
        if self.delta > self.approximate_delta:
            return False
        return self._rest_of_epsilon >= 0 or any(rest >= 0 for rest in self._rests_by_order)

    @property
    def cost(self) -> AddableGuarantee | None:
        """The total spent, the smallest that some sum proves; None if nothing is spent."""
        if not self.epsilon and not self.rho:
            return None
        if not isinstance(self.budget, ApproxDP):
            return type(self.budget)(-_short_enough(-self._spent_and_most[0]))
        totals = [] if self.rho else [(self.epsilon, self.delta)]
        converted = self.delta + sum((order.delta for order in self.orders), Fraction(0))
        for rest in self._rests_by_order:
            totals.append(
                (max(self.budget.epsilon - rest, _LEAST_EPSILON), max(converted, _LEAST_PARAMETER))
            )
        return _approximate(*(-_short_enough(-value) for value in min(totals))) if totals else None

    def remaining(self, kind: type[AddableGuarantee] | None = None) -> AddableGuarantee | None:
        """Return the largest guarantee of a ``kind`` known to fit in the rest, or None."""
        if not isinstance(self.budget, ApproxDP):
            spent, most = self._spent_and_most
            rest = _short_enough(most - spent)
            return type(self.budget)(rest) if rest >= _LEAST_PARAMETER else None
        lefts = [
            (rest, order)
            for rest, order in zip(self._rests_by_order, self.orders, strict=True)
            if rest > 0
        ]
        if kind is ZCDP:
            rhos = (rest / _divergence(ZCDP(1), order.order) for rest, order in lefts)
            rho = _short_enough(max(rhos, default=Fraction(0)))
            return ZCDP(rho) if rho >= _LEAST_PARAMETER else None
        from counton.privacy.concentrated import pure_within

        epsilon = max(
            [self._rest_of_epsilon, *(pure_within(rest, order.order) for rest, order in lefts)]
        )
        delta = Fraction(0) if kind is PureDP else self.approximate_delta - self.delta
        epsilon = _short_enough(epsilon)
        delta = _short_enough(delta)
        if epsilon < _LEAST_PARAMETER:
            return None
        return _approximate(epsilon, delta if delta >= _LEAST_PARAMETER else Fraction(0))

    @property
    def _spent_and_most(self) -> tuple[Fraction, Fraction]:
        """The sum and the budget, of epsilon or rho; for budgets without delta."""
        ((name, most),) = self.budget.losses.items()
        return getattr(self, name), most

    @property
    def _rest_of_epsilon(self) -> Fraction:
        """The budget's epsilon less the sum; -1 if a zero-concentrated guarantee has none."""
        assert isinstance(self.budget, ApproxDP)
        return Fraction(-1) if self.rho else self.budget.epsilon - self.epsilon

    @property
    def _rests_by_order(self) -> list[Fraction]:
        pairs = zip(self.orders, self.losses, strict=True)
        return [order.loss - loss for order, loss in pairs]

    def to_dict(self) -> dict[str, Any]:
        """Return orders and shares of delta as JSON values, without the budget and the sums."""
        if not isinstance(self.budget, ApproxDP):
            return {}
        orders = [{"order": text(order.order), "delta": text(order.delta)} for order in self.orders]
        return {"approximate_delta": text(self.approximate_delta), "orders": orders}

    @classmethod
    def from_dict(cls, budget: AddableGuarantee, saved: dict[str, Any]) -> Self:
        """Rebuild a filter from `to_dict`, with nothing spent."""
        if not isinstance(budget, ApproxDP):
            return cls(budget)
        try:
            kept = Fraction(saved["approximate_delta"])
            pairs = [
                (Fraction(order["order"]), Fraction(order["delta"])) for order in saved["orders"]
            ]
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise InvalidInputError(
                f"saved shares of a budget cannot be read ({error!r}): restore them from a copy"
            ) from error
        shares = [kept, *(delta for _, delta in pairs)]
        whole = all(order > 1 == order.denominator and delta > 0 for order, delta in pairs)
        if not whole or kept < 0 or sum(shares) > budget.delta:
            raise InvalidInputError(
                f"saved shares of a budget of {budget} are {', '.join(map(text, shares))}; each "
                f"must be above 0 and belong to an order 2, 3, ..., and together they may be at "
                f"most the budget's delta: restore them from a copy"
            )
        orders = tuple(RenyiOrder.within(budget, order, delta) for order, delta in pairs)
        return cls(budget, kept, orders, losses=(Fraction(0),) * len(orders))


def _divergence(guarantee: AddableGuarantee, order: Fraction) -> Fraction:
    """Return the largest divergence of a whole order that a guarantee allows; delta is apart."""
    if isinstance(guarantee, ZCDP):
        return order * guarantee.rho
    from counton.privacy.concentrated import renyi_by_pure

    return renyi_by_pure(guarantee.epsilon, order)


def _short_enough(value: Fraction) -> Fraction:
    """Return a value, or a slightly smaller fraction if its denominator exceeds 400 bits."""
    if value.denominator.bit_length() <= _LONGEST_DENOMINATOR_BITS:
        return value
    grid = Fraction(2) ** (value.denominator.bit_length() - value.numerator.bit_length() + 64)
    return math.floor(value * grid) / grid


def _approximate(epsilon: Fraction, delta: Fraction) -> PureDP | ApproxDP:
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
