"""Budgets add up exactly, convert by proved bounds only, and end at the limit."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from counton.errors import BudgetExceeded, InvalidInput
from counton.privacy import ZCDP, ApproxDP, ExpiringDP, Guarantee, Ledger, PureDP
from counton.privacy.concentrated import epsilon_within
from counton.strategies import Expiring


@dataclass(frozen=True)
class Weakening(Guarantee):
    """Loss grows by a tenth with every step of age."""

    kind: ClassVar[str] = "weakening, for this test"
    tenths: int = 1

    def meaning_for(self, unit: str) -> str:
        return "test"

    def at_age(self, age: int) -> PureDP | ZCDP:
        return PureDP(Fraction(self.tenths * (1 + age), 10))


def test_ten_tenths_are_one_and_not_a_bit_more_is_allowed() -> None:
    ledger = Ledger(PureDP(1))
    for i in range(10):
        ledger.spend(f"s{i}", PureDP(0.1))
    assert ledger.spent() == PureDP(1)
    assert ledger.remaining() is None
    with pytest.raises(BudgetExceeded):
        ledger.spend("more", PureDP("1e-30"))


def test_refusal_names_stream_request_spent_limit_and_rest_and_records_nothing() -> None:
    ledger = Ledger(PureDP(1))
    with pytest.raises(BudgetExceeded, match="spent so far: nothing"):
        ledger.spend("all", PureDP(2))
    ledger.spend("visits", PureDP(0.7))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.spend("sales", PureDP(0.4))
    for part in ("'sales'", "epsilon = 0.4", "epsilon = 0.7", "epsilon = 1", "epsilon = 0.3"):
        assert part in str(refusal.value)
    assert ledger.spends == (("visits", PureDP(0.7)),)
    ledger.spend("sales", PureDP(0.3))


def test_rho_adds_up_and_pure_joins_by_half_its_square() -> None:
    ledger = Ledger(ZCDP(0.5))
    ledger.spend("a", ZCDP(0.2))
    ledger.spend("b", PureDP(0.4))
    assert ledger.spent() == ZCDP(Fraction(28, 100))
    assert ledger.remaining() == ZCDP(Fraction(22, 100))
    ledger.spend("c", ZCDP("0.22"))
    assert ledger.remaining() is None


def test_basic_composition_of_approximate_guarantees() -> None:
    ledger = Ledger(ApproxDP(1, 1e-6))
    ledger.spend("a", ApproxDP(0.5, 4e-7))
    ledger.spend("b", PureDP(0.1))
    assert ledger.spent() == ApproxDP(0.6, 4e-7)
    assert ledger.remaining() == ApproxDP(0.4, 6e-7)
    with pytest.raises(BudgetExceeded):
        ledger.spend("c", ApproxDP(0.1, 7e-7))
    ledger.spend("c", ApproxDP(0.4, 6e-7))
    assert ledger.remaining() is None


def test_pure_alone_needs_no_delta() -> None:
    ledger = Ledger(ApproxDP(1, 1e-6))
    ledger.spend("a", PureDP(0.25))
    assert ledger.spent() == PureDP(0.25)
    assert ledger.remaining() == ApproxDP(0.75, 1e-6)


def test_concentrated_against_approximate_converts_the_sum_once() -> None:
    delta = Fraction(1, 10**6)
    ledger = Ledger(ApproxDP(1, delta))
    for i in range(4):
        ledger.spend(f"s{i}", ZCDP(0.005))
    expected = epsilon_within(Fraction(2, 100), delta)
    assert ledger.spent() == ApproxDP(expected, delta)
    assert 4 * epsilon_within(Fraction(5, 1000), delta / 4) > expected


def test_mixed_spends_take_the_least_of_the_valid_totals() -> None:
    delta = Fraction(1, 10**6)
    many = Ledger(ApproxDP(2, delta))
    for i in range(100):
        many.spend(f"s{i}", PureDP(0.02))
    assert many.spent() == ApproxDP(epsilon_within(Fraction(2, 100), delta), delta)
    few = Ledger(ApproxDP(2, delta))
    few.spend("large", PureDP(1))
    few.spend("rho", ZCDP(0.005))
    few.spend("small", PureDP(0.01))
    together = Fraction(5, 1000) + Fraction(1, 20000)
    assert few.spent() == ApproxDP(1 + epsilon_within(together, delta), delta)
    apart = 1 + Fraction(1, 100) + epsilon_within(Fraction(5, 1000), delta)
    assert few.spent().epsilon < apart  # type: ignore[union-attr]


def test_delta_of_approximate_spends_is_not_used_twice() -> None:
    delta = Fraction(1, 10**6)
    ledger = Ledger(ApproxDP(2, delta))
    ledger.spend("a", ApproxDP(0.5, delta / 2))
    ledger.spend("b", ZCDP(0.01))
    assert ledger.spent() == ApproxDP(
        Fraction(1, 2) + epsilon_within(Fraction(1, 100), delta / 2), delta
    )
    with pytest.raises(BudgetExceeded):
        ledger.spend("c", ApproxDP(0.01, delta / 2))
    full = Ledger(ApproxDP(2, delta))
    full.spend("a", ApproxDP(0.5, delta))
    with pytest.raises(BudgetExceeded):
        full.spend("b", ZCDP("1e-9"))
    full.spend("c", PureDP(1.5))


def test_the_total_is_an_upper_bound_of_the_true_loss() -> None:
    """Gaussian streams of 1/(2 rho) variance compose to one Gaussian whose delta is known."""
    from counton.privacy.gaussian import delta_at_most

    ledger = Ledger(ApproxDP(10, 1e-6))
    for rho in (0.01, 0.2, 0.05):
        ledger.spend("s", ZCDP(rho))
    spent = ledger.spent()
    assert isinstance(spent, ApproxDP)
    assert delta_at_most((2 * 0.26) ** -0.5, float(spent.epsilon)) <= 1e-6


@pytest.mark.parametrize(
    ("limit", "guarantee"),
    [
        (PureDP(1), ApproxDP(0.1, 1e-9)),
        (PureDP(1), ZCDP(0.01)),
        (ZCDP(1), ApproxDP(0.1, 1e-9)),
        (ZCDP(1), "everything"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(limit: Any, guarantee: Any) -> None:
    ledger = Ledger(limit)
    with pytest.raises(InvalidInput, match="stream 'visits' asks for"):
        ledger.spend("visits", guarantee)
    assert ledger.spends == ()


def test_weakening_guarantees_need_an_age() -> None:
    with pytest.raises(InvalidInput, match=r"Ledger\(limit, age="):
        Ledger(PureDP(1)).spend("logs", Weakening())
    ledger = Ledger(PureDP(1), age=4)
    ledger.spend("logs", Weakening())
    assert ledger.spent() == PureDP(0.5)
    with pytest.raises(BudgetExceeded):
        ledger.spend("more", Weakening(2))
    assert Ledger.from_dict(ledger.to_dict()).spends == (("logs", Weakening()),)


def test_what_costs_nothing_yet_is_nothing_spent() -> None:
    late = ExpiringDP(1).bound_to(Expiring(1, delay=10))
    ledger = Ledger(PureDP(5), age=3)
    ledger.spend("late", late)
    assert ledger.spent() is None
    assert ledger.remaining() == PureDP(5)
    assert ledger.counted() == (("late", None),)
    with pytest.raises(BudgetExceeded, match="spent so far: nothing"):
        ledger.spend("large", PureDP(6))
    ledger.spend("all", PureDP(5))
    assert ledger.spent() == PureDP(5)
    assert Ledger.from_dict(ledger.to_dict()).spent() == PureDP(5)


def test_refusals_say_what_an_expiring_guarantee_counts_as() -> None:
    fading = ExpiringDP("0.1").bound_to(Expiring(1))
    at_age = fading.at_age(999)
    assert at_age is not None
    ledger = Ledger(PureDP("0.99"), age=999)
    with pytest.raises(
        BudgetExceeded, match=rf"at age 999 counts as {at_age}.*ask for less.*0\.99"
    ):
        ledger.spend("fading", fading)
    Ledger(at_age, age=999).spend("fading", fading)


@pytest.mark.parametrize("age", [-1, 1.5, True, math.inf])
def test_ages_are_numbers_of_steps(age: Any) -> None:
    with pytest.raises(InvalidInput, match="age is"):
        Ledger(PureDP(1), age=age)


def test_limits_must_be_addable() -> None:
    with pytest.raises(InvalidInput, match="limit of a ledger"):
        Ledger(Weakening())  # type: ignore[arg-type]


def test_saved_and_read_back() -> None:
    ledger = Ledger(ApproxDP("1/3", 1e-6))
    ledger.spend("a", PureDP("1/7"))
    ledger.spend("b", ZCDP(1e-5))
    again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again.spends == ledger.spends
    assert again.limit == ledger.limit
    assert again.spent() == ledger.spent()


def test_altered_ledgers_are_refused() -> None:
    saved = Ledger(PureDP(1)).to_dict()
    saved["spends"] = [{"stream": "a", "guarantee": "pure", "epsilon": "2"}]
    with pytest.raises(BudgetExceeded, match="altered"):
        Ledger.from_dict(saved)
    broken: list[dict[str, Any]] = [{}, {"limit": {}}, {"limit": {}, "age": None, "spends": [3]}]
    for bad in broken:
        with pytest.raises(InvalidInput):
            Ledger.from_dict(bad)
