"""Budgets add up exactly, convert by proved bounds only, and end at the budget."""

import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from counton.base.errors import BudgetExceededError, InvalidInputError
from counton.privacy import (
    ZCDP,
    AddableGuarantee,
    ApproxDP,
    ExpiringDP,
    Guarantee,
    Ledger,
    LedgerEntry,
    PureDP,
)
from counton.privacy.concentrated import rho_within
from counton.privacy.contribution import Relation, is_part
from counton.privacy.guarantees import when_replaced
from counton.privacy.ledger import totals
from counton.strategies import Expiring
from counton.windowing.periods import period_of


@dataclass(frozen=True)
class Weakening(Guarantee):
    """Loss grows by a tenth with every step of age."""

    kind: ClassVar[str] = "weakening, for this test"
    tenths: int = 1

    def meaning_for(self, unit: str, relation: Relation = "add_remove") -> str:
        return "test"

    def at_age(self, age: int) -> PureDP | ZCDP:
        return PureDP(Fraction(self.tenths * (1 + age), 10))


def test_ten_tenths_of_epsilon_fill_budget_of_one_exactly() -> None:
    ledger = Ledger(PureDP(1))
    for i in range(10):
        ledger.spend(f"s{i}", PureDP(0.1))
    assert ledger.cost() == PureDP(1)
    assert ledger.remaining() is None
    with pytest.raises(BudgetExceededError):
        ledger.spend("more", PureDP("1e-30"))


def test_refused_spend_states_budget_and_records_nothing() -> None:
    ledger = Ledger(PureDP(1))
    with pytest.raises(BudgetExceededError, match="of which nothing is spent"):
        ledger.spend("all", PureDP(2))
    ledger.spend("visits", PureDP(0.7))
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.spend("sales", PureDP(0.4))
    for part in ("'sales'", "epsilon = 0.4", "epsilon = 0.7", "epsilon = 1", "epsilon = 0.3"):
        assert part in str(refusal.value)
    assert ledger.entries == (LedgerEntry("visits", PureDP(0.7)),)
    ledger.spend("sales", PureDP(0.3))


def test_rho_adds_up_and_pure_joins_by_half_its_square() -> None:
    ledger = Ledger(ZCDP(0.5))
    ledger.spend("a", ZCDP(0.2))
    ledger.spend("b", PureDP(0.4))
    assert ledger.cost() == ZCDP(Fraction(28, 100))
    assert ledger.remaining() == ZCDP(Fraction(22, 100))
    ledger.spend("c", ZCDP("0.22"))
    assert ledger.remaining() is None


def test_basic_composition_of_approximate_guarantees() -> None:
    """Where the first guarantee is ApproxDP, all delta is for such guarantees."""
    ledger = Ledger(ApproxDP(1, 1e-6))
    ledger.spend("a", ApproxDP(0.5, 4e-7))
    ledger.spend("b", PureDP(0.1))
    assert ledger.cost() == ApproxDP(0.6, 4e-7)
    assert ledger.remaining() == ApproxDP(0.4, 6e-7)
    with pytest.raises(BudgetExceededError):
        ledger.spend("c", ApproxDP(0.1, 7e-7))
    with pytest.raises(
        BudgetExceededError, match=r"reserved for ApproxDP.*approximate_delta below"
    ):
        ledger.spend("c", ZCDP("1e-9"))
    ledger.spend("c", ApproxDP(0.4, 6e-7))
    assert ledger.remaining() is None
    whole = Ledger(ApproxDP(1, 1e-6))
    whole.spend("all", ApproxDP(1, 1e-6))
    assert whole.remaining() is None


@pytest.mark.parametrize("budget", [ApproxDP(1, 1e-6), PureDP(1)])
def test_pure_guarantees_alone_need_no_delta_and_lose_nothing(budget: AddableGuarantee) -> None:
    ledger = Ledger(budget)
    ledger.spend("a", PureDP(0.25))
    assert ledger.cost() == PureDP(0.25)
    rest = ledger.remaining(PureDP)
    assert rest == PureDP(0.75)
    ledger.spend("b", PureDP(0.5))
    ledger.spend("c", PureDP(0.25))
    assert ledger.remaining(PureDP) is None


def epsilon_within(rho: Fraction, delta: Fraction) -> Fraction:
    """The least epsilon, to a millionth, so that rho implies (epsilon, delta)."""
    low = Fraction(0)
    high = Fraction(8)
    while high - low > Fraction(1, 10**6):
        middle = (low + high) / 2
        low, high = (low, middle) if rho_within(middle, delta) >= rho else (middle, high)
    return high


def test_concentrated_guarantees_convert_once_with_the_share_of_one_order() -> None:
    delta = Fraction(1, 10**6)
    ledger = Ledger(ApproxDP(1, delta))
    for i in range(4):
        ledger.spend(f"s{i}", ZCDP(0.005))
    spent = ledger.cost()
    assert isinstance(spent, ApproxDP)
    least = epsilon_within(Fraction(2, 100), delta * 3 / 8)
    assert least < spent.epsilon < least * Fraction(101, 100)
    assert spent.delta == delta * 3 / 4  # the rest is for guarantees of ApproxDP
    assert 4 * epsilon_within(Fraction(5, 1000), delta / 4) > spent.epsilon
    left = ledger.remaining(ZCDP)
    assert isinstance(left, ZCDP)
    ledger.spend("rest", left)
    with pytest.raises(BudgetExceededError, match="nothing is left"):
        ledger.spend("more", ZCDP("1e-12"))


def test_many_small_pure_guarantees_count_less_than_their_sum() -> None:
    many = Ledger(ApproxDP(2, 1e-6))
    for i in range(200):
        many.spend(f"s{i}", PureDP(0.02))
    spent = many.cost()
    assert isinstance(spent, ApproxDP)
    assert spent.epsilon < epsilon_within(Fraction(4, 100), Fraction(1, 10**6)) * Fraction(6, 5)


def test_large_pure_guarantee_reserves_its_own_order() -> None:
    """For the smaller rest of epsilon another order is better, which has its own share."""
    for large in (0.5, 1, 1.5, 1.7):
        ledger = Ledger(ApproxDP(2, 1e-6))
        ledger.spend("large", PureDP(large))
        left = ledger.remaining(ZCDP)
        assert isinstance(left, ZCDP)
        assert left.rho > rho_within(2 - Fraction(str(large)), Fraction(1, 10**6)) * Fraction(2, 3)
        ledger.spend("rest", left)


def test_delta_of_approximate_guarantees_has_a_share_of_its_own() -> None:
    delta = Fraction(1, 10**6)
    ledger = Ledger(ApproxDP(2, delta), approximate_delta=delta / 2)
    ledger.spend("a", ApproxDP(0.5, delta / 2))
    ledger.spend("b", ZCDP(0.01))
    spent = ledger.cost()
    assert isinstance(spent, ApproxDP)
    assert spent.delta == delta
    with pytest.raises(BudgetExceededError, match="5e-7 of its delta is set apart"):
        ledger.spend("c", ApproxDP(0.01, "1e-20"))
    none = Ledger(ApproxDP(2, delta), approximate_delta=0)
    with pytest.raises(BudgetExceededError):
        none.spend("a", ApproxDP(0.1, 1e-12))
    none.spend("a", ZCDP(0.01))
    for wrong in (2 * delta, -delta):
        with pytest.raises(InvalidInputError, match="approximate_delta is"):
            Ledger(ApproxDP(2, delta), approximate_delta=wrong)
    with pytest.raises(InvalidInputError, match="no delta to divide"):
        Ledger(PureDP(2), approximate_delta=0)


@pytest.mark.parametrize("kind", [PureDP, ApproxDP, ZCDP, None])
@pytest.mark.parametrize("budget", [ApproxDP(1, 1e-6), ApproxDP(5, 0.01), PureDP(1), ZCDP(1)])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_remaining_budget_can_be_spent_but_not_more(
    budget: AddableGuarantee, kind: Any, relation: Relation
) -> None:
    first: list[Guarantee] = [PureDP("0.02"), ZCDP("0.003"), ApproxDP("0.1", 1e-9)]
    for guarantee in first:
        ledger = Ledger(budget, relation="replace")
        try:
            ledger.spend("first", guarantee)
        except InvalidInputError:  # not every budget counts every guarantee
            continue
        left = ledger.remaining(kind, relation=relation)
        if left is None:
            continue
        over: AddableGuarantee
        if isinstance(left, ZCDP):
            over = ZCDP(left.rho * Fraction(1001, 1000))
        else:
            over = PureDP(left.epsilon * Fraction(1001, 1000))
        with pytest.raises(BudgetExceededError):
            ledger.spend("more", over, relation=relation)
        ledger.spend("rest", left, relation=relation)


@pytest.mark.parametrize("budget", [ApproxDP(1, 1e-6), PureDP(1), ZCDP(1)])
def test_long_sums_are_rounded_conservatively(budget: AddableGuarantee) -> None:
    """Rounded towards what is true: never less spent, never more remaining."""
    ledger = Ledger(budget)
    total = Fraction(0)
    for number in range(1, 400):
        part = Fraction(1, 10**5 + number)
        ledger.spend("s", PureDP(part))
        total += part
    spent = ledger.cost()
    left = ledger.remaining(PureDP)
    assert spent is not None and left is not None  # noqa: PT018
    assert len(json.dumps([spent.to_dict(), left.to_dict(), str(spent), str(left)])) < 1000
    if isinstance(spent, PureDP) and isinstance(left, PureDP):
        assert total <= spent.epsilon < total * (1 + Fraction(1, 10**18))
        assert (1 - total) * (1 - Fraction(1, 10**18)) < left.epsilon <= 1 - total
    ledger.spend("rest", left)


@pytest.mark.parametrize("epsilon", ["1e-9", "1", "37", "1e4", "1e200"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-12", "0.5", "0.999999", "0.999999999999999999999"])
@pytest.mark.parametrize("relation", [None, "replace"])
def test_extreme_budgets_are_supported(epsilon: str, delta: str, relation: Relation | None) -> None:
    budget = ApproxDP(epsilon, delta)
    for kind in (PureDP, ApproxDP, ZCDP):
        for asked in (relation or "add_remove", "add_remove"):
            left = Ledger(budget, relation=relation).remaining(kind, relation=asked)
            if left is None:
                continue
            ledger = Ledger(budget, relation=relation)
            ledger.spend("all", left, relation=asked)
            again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
            assert again.cost() == ledger.cost()
            assert again.remaining() == ledger.remaining()


def test_units_are_counted_apart() -> None:
    ledger = Ledger(PureDP(1))
    ledger.spend("visits", PureDP(0.75), unit="visit")
    ledger.spend("people", PureDP(0.5), unit="visitor")
    assert ledger.cost(unit="visit") == PureDP(0.75)
    assert ledger.remaining(unit="visitor") == PureDP(0.5)
    assert ledger.remaining(unit="household") == PureDP(1)
    assert ledger.cost(unit="household") is None
    assert ledger.units == {"visit": "add_remove", "visitor": "add_remove"}
    for question in (ledger.cost, ledger.remaining):
        with pytest.raises(
            InvalidInputError, match="'visit' and 'visitor'; choose one with privacy_unit='visit'"
        ):
            question()
    with pytest.raises(BudgetExceededError, match="for one visit added or removed"):
        ledger.spend("more", PureDP(0.5), unit="visit")
    with pytest.raises(InvalidInputError, match="it is the name of the protected unit"):
        ledger.spend("more", PureDP(0.5), unit=" ")
    again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again.entries == ledger.entries
    assert again.units == ledger.units


def test_a_replacement_is_a_removal_and_an_addition() -> None:
    """Add/remove 0.5 and replace 0.5: a replaced unit loses 1.5, not 1."""
    ledger = Ledger(PureDP(1))
    ledger.spend("table", PureDP(0.5), relation="replace")
    with pytest.raises(BudgetExceededError, match=r"counts as .* epsilon = 1; .* epsilon=0.25$"):
        ledger.spend("visits", PureDP(0.5))
    ledger.spend("visits", PureDP(0.25))
    assert ledger.cost() == PureDP(1)
    assert ledger.entries_with_costs()[1] == (LedgerEntry("visits", PureDP(0.25)), PureDP(0.5))
    wide = Ledger(PureDP(2), relation="replace")
    wide.spend("visits", PureDP(0.5))
    wide.spend("table", PureDP(0.5), relation="replace")
    assert wide.cost() == PureDP(1.5)
    rho = Ledger(ZCDP(1), relation="replace")
    rho.spend("visits", ZCDP(0.25))
    assert rho.cost() == ZCDP(1)


ORDER = ["reader", "reader's 12mo", "reader's quarter", "reader's month", "reader's day"]
ORDER += ["reader's 900s", "reader's 60s"]


def test_unit_parts_form_a_partial_order() -> None:
    for place, whole in enumerate(ORDER):
        assert is_part(whole, whole)
        for part in ORDER[place + 1 :]:
            assert is_part(part, whole)
            assert not is_part(whole, part)
    for one, other in (
        ("reader's week", "reader's month"),
        ("reader's 2d", "reader's week"),
        ("reader's hour", "reader's day"),  # in zones that are half an hour from others
        ("reader's 2d", "reader's 3d"),
        ("reader", "visitor"),
        ("reader's day", "visitor"),
        ("event", "reader"),
        ("reader within one window", "reader's day"),
    ):
        assert not is_part(one, other)
        assert not is_part(other, one)


def test_periods_lie_within_longer_periods() -> None:
    """By the numbers that rows' periods have, hour by hour over two years."""
    hours = pl.DataFrame({"us": np.arange(17_000) * 3_600_000_000 + 1_600_000_000_000_000})
    lengths = ["1h", "2h", "6h", "1d", "2d", "4d", "1w", "2w", "1mo", "2mo", "3mo", "12mo"]
    for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata"):
        number = {
            per: hours.select(period_of(pl.col("us"), per, zone))["us"].to_numpy()
            for per in lengths
        }
        for short, long in itertools.permutations(lengths, 2):
            if is_part(f"reader's {short}", f"reader's {long}"):
                _, first, which = np.unique(number[short], return_index=True, return_inverse=True)
                assert (number[long][first][which] == number[long]).all(), (zone, short, long)


def test_a_whole_counts_twice_for_its_part() -> None:
    """Of a reader's rows others may count in place of those of a month that goes."""
    ledger = Ledger(PureDP(1), unit="reader's month")
    ledger.spend("days", PureDP("0.2"), unit="Reader's month")
    ledger.spend("readers", PureDP("0.3"), unit="reader")
    assert ledger.cost() == PureDP("0.8")
    assert list(ledger.units) == ["reader's month"]
    words = r"a part of one reader, .*\(more, because other rows .*give at most epsilon=0\.1$"
    with pytest.raises(BudgetExceededError, match=words):
        ledger.spend("more", PureDP("0.2"), unit="reader")
    with pytest.raises(InvalidInputError, match="that is less"):
        ledger.spend("less", PureDP("0.1"), unit="reader's day")
    with pytest.raises(InvalidInputError, match="that is something else"):
        ledger.spend("other", PureDP("0.1"), unit="visitor")
    again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again.to_dict() == ledger.to_dict()
    assert again.cost() == PureDP("0.8")
    again.spend("rest", PureDP("0.1"), unit="reader")
    assert again.remaining() is None


def test_budget_for_presence_refuses_replace_relation() -> None:
    ledger = Ledger(PureDP(1))
    ledger.spend("visits", PureDP(0.5))
    with pytest.raises(InvalidInputError, match="does not hide whether it is there"):
        ledger.spend("table", PureDP(0.1), relation="replace")
    with pytest.raises(InvalidInputError, match="does not hide whether it is there"):
        ledger.remaining(relation="replace")
    with pytest.raises(InvalidInputError, match="relation is 'swap'"):
        ledger.spend("table", PureDP(0.1), relation="swap")  # type: ignore[arg-type]
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_group_privacy_of_two_by_the_worst_mechanism(epsilon: str) -> None:
    """Three data sets in a row, each pair of neighbours as far apart as (epsilon, delta) allows."""
    e = Fraction(epsilon)
    delta = Fraction(1, 10**4)
    counted = when_replaced(ApproxDP(e, delta))
    assert isinstance(counted, ApproxDP)
    growth = math.exp(e)
    far = (1.0 / (1 + growth + growth**2)) * 0.9  # the chance of an outcome in the last data set
    middle = growth * far + float(delta)
    first = growth * middle + float(delta)
    lost = first - math.exp(counted.epsilon) * far
    assert lost == pytest.approx(float(counted.delta), rel=1e-9)
    assert lost <= float(counted.delta) * (1 + 1e-12)


def test_the_total_is_an_upper_bound_of_the_true_loss() -> None:
    """Gaussian streams of 1/(2 rho) variance compose to one Gaussian whose delta is known."""
    from counton.privacy.gaussian import delta_at_most

    ledger = Ledger(ApproxDP(10, 1e-6))
    for rho in (0.01, 0.2, 0.05):
        ledger.spend("s", ZCDP(rho))
    spent = ledger.cost()
    assert isinstance(spent, ApproxDP)
    assert delta_at_most((2 * 0.26) ** -0.5, float(spent.epsilon)) <= 1e-6


@pytest.mark.parametrize(
    ("budget", "guarantee"),
    [
        (PureDP(1), ApproxDP(0.1, 1e-9)),
        (PureDP(1), ZCDP(0.01)),
        (ZCDP(1), ApproxDP(0.1, 1e-9)),
        (ZCDP(1), "everything"),
    ],
)
def test_incompatible_guarantee_is_refused_with_stream_name(budget: Any, guarantee: Any) -> None:
    ledger = Ledger(budget)
    with pytest.raises(InvalidInputError, match="release 'visits' asks for"):
        ledger.spend("visits", guarantee)
    assert ledger.entries == ()


def test_delayed_loss_costs_nothing_before_its_age() -> None:
    late = ExpiringDP(1).bound_to(Expiring(1, delay=10))
    ledger = Ledger(PureDP(5), age=3)
    ledger.spend("late", late)
    assert ledger.cost() is None
    assert ledger.remaining() == PureDP(5)
    assert ledger.entries_with_costs() == ((LedgerEntry("late", late), None),)
    with pytest.raises(BudgetExceededError, match="of which nothing is spent"):
        ledger.spend("large", PureDP(6))
    ledger.spend("all", PureDP(5))
    assert ledger.cost() == PureDP(5)
    assert Ledger.from_dict(ledger.to_dict()).cost() == PureDP(5)


def test_refused_expiring_guarantee_is_stated_at_age() -> None:
    fading = ExpiringDP("0.1").bound_to(Expiring(1))
    at_age = fading.at_age(999)
    assert at_age is not None
    ledger = Ledger(PureDP("0.99"), age=999)
    with pytest.raises(
        BudgetExceededError,
        match=rf"at age 999 counts as {at_age}.*0\.99 is left: .* epsilon=0\.099$",
    ):
        ledger.spend("fading", fading)
    Ledger(at_age, age=999).spend("fading", fading)


@pytest.mark.parametrize("age", [-1, 1.5, True, math.inf])
def test_ages_are_numbers_of_steps(age: Any) -> None:
    with pytest.raises(InvalidInputError, match="age is"):
        Ledger(PureDP(1), age=age)


def test_ledger_refuses_budget_without_addition() -> None:
    with pytest.raises(InvalidInputError, match="budget of a ledger"):
        Ledger(Weakening())  # type: ignore[arg-type]


def test_saved_ledger_keeps_shares_of_delta() -> None:
    ledger = Ledger(ApproxDP(1, 1e-6))
    ledger.spend("a", ZCDP(0.01))
    saved = json.loads(json.dumps(ledger.to_dict()))
    orders = saved["units"]["unit"]["orders"]
    shares = [Fraction(one["delta"]) for one in orders]
    assert sum(shares) + Fraction(saved["units"]["unit"]["approximate_delta"]) == Fraction("1e-6")
    for one in orders:
        one["order"] = str(Fraction(one["order"]) * 2)
    assert Ledger.from_dict(saved).remaining(ZCDP) != ledger.remaining(ZCDP)
    orders[0]["delta"] = "1e-6"
    with pytest.raises(InvalidInputError, match="at most the budget's delta"):
        Ledger.from_dict(saved)


def test_altered_ledgers_are_refused() -> None:
    saved = Ledger(PureDP(1)).to_dict()
    saved["spends"] = [LedgerEntry("a", PureDP(2)).to_dict()]
    with pytest.raises(BudgetExceededError, match="altered"):
        Ledger.from_dict(saved)
    broken: list[dict[str, Any]] = [
        {},
        {"limit": {}},
        {**saved, "spends": [3]},
        {**saved, "units": {"unit": {}}},
        {**saved, "units": 3},
        {**saved, "limit": ApproxDP(1, 0.1).to_dict(), "units": {"unit": {"relation": "replace"}}},
    ]
    for bad in broken:
        with pytest.raises(InvalidInputError):
            Ledger.from_dict(bad)


@pytest.mark.parametrize(
    ("guarantees", "total"),
    [
        ((PureDP("0.1"), PureDP("0.2")), PureDP("0.3")),
        ((ZCDP("0.1"), ZCDP("0.2")), ZCDP("0.3")),
        ((ZCDP("0.1"), PureDP("0.2")), ZCDP("0.12")),
        ((ApproxDP("0.5", "1e-9"), PureDP("0.5")), ApproxDP(1, "1e-9")),
        ((ApproxDP("0.5", "0.6"), ApproxDP("0.5", "0.6")), None),
        ((ApproxDP("0.5", "1e-9"), ZCDP("0.5")), None),
        ((Weakening(), PureDP(1)), None),
    ],
)
def test_total_without_budget_equals_least_sufficient_budget(
    guarantees: tuple[Guarantee, ...], total: AddableGuarantee | None
) -> None:
    spends = [LedgerEntry(f"s{number}", one, "visit") for number, one in enumerate(guarantees)]
    told = totals([*spends, LedgerEntry("other", PureDP(7), "order", "replace")])
    relation, found = told["visit"]
    assert told["order"] == ("replace", PureDP(7))
    assert relation == "add_remove"
    if total is None or isinstance(total, ZCDP):
        assert (found is None) == (total is None)
    if isinstance(total, PureDP | ApproxDP):
        assert found == total
    if found is not None:  # against which all of them can be spent
        share: dict[str, Any] = (
            {"approximate_delta": found.delta} if isinstance(found, ApproxDP) else {}
        )
        Ledger(found, **share).enter_all(spends)


def test_total_of_replaced_unit_counts_added_entries_twice() -> None:
    both = [LedgerEntry("a", PureDP(1)), LedgerEntry("b", PureDP(1), "UNIT", "replace")]
    assert totals(both) == {"unit": ("replace", PureDP(3))}
