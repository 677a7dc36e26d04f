"""A refusal for want of budget says what would fit: it does, and a little more does not."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from counton import ZCDP, ApproxDP, ContributionBound, ExpiringDP, PureDP
from counton.base.errors import BudgetExceededError
from counton.privacy import AddableGuarantee, Guarantee, Ledger
from counton.privacy.contribution import Relation
from counton.strategies import Expiring

#: Limits, and what is spent of them before.
BEFORE: list[tuple[AddableGuarantee, list[Guarantee]]] = [
    (PureDP(1), [PureDP("1/3")]),
    (PureDP(1), []),
    (ZCDP(1), [PureDP("1/3"), ZCDP("0.1")]),
    (ApproxDP(1, 1e-6), [PureDP("1/3")]),
    (ApproxDP(1, 1e-6), [ZCDP("0.01"), ApproxDP("0.1", "1e-8")]),
    (ApproxDP(1, 1e-6), [ApproxDP("0.1", "1e-7")]),
]
ASKED: list[Guarantee] = [PureDP(30), ZCDP(30), ApproxDP(3, "1e-7"), ApproxDP("0.1", "0.1")]


def told(error: BudgetExceededError) -> dict[str, str]:
    """The options that a message tells to give, as a command would print them."""
    options = {name: f"--{name}" for name in ("epsilon", "delta", "rho")}
    words = error.translate(options).rpartition("give at most ")[2].partition(";")[0]
    words = words.removesuffix(" without --delta")
    return dict(re.findall(r"--(\w+) (\S+)", words))


def guarantee_of(given: dict[str, Any]) -> Guarantee:
    if "rho" in given:
        return ZCDP(given["rho"])
    epsilon = given["epsilon"]
    return ApproxDP(epsilon, given["delta"]) if "delta" in given else PureDP(epsilon)


def spent(budget: AddableGuarantee, before: list[Guarantee], relation: Relation) -> Ledger:
    ledger = Ledger(budget)
    for number, guarantee in enumerate(before):
        ledger.spend(f"stream {number}", guarantee, relation=relation)
    return ledger


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize(("budget", "before"), BEFORE, ids=str)
def test_advised_loss_fits_budget_and_slightly_more_does_not(
    budget: AddableGuarantee, before: list[Guarantee], asked: Guarantee, relation: Relation
) -> None:
    if not isinstance(budget, ApproxDP) and not isinstance(asked, PureDP | type(budget)):
        return  # refused for another reason: no such budget covers it
    with pytest.raises(BudgetExceededError, match="release 'clicks' asks for ") as refused:
        spent(budget, before, relation).spend("clicks", asked)
    message = str(refused.value)
    assert f"asks for {asked}" in message
    assert f"the budget is {budget} for one unit" in message
    assert re.search(r"of which .* is spent and .* is left: ", message)
    given = told(refused.value)
    if not given:
        assert "reserved" in message  # what is left is of another kind
        return
    fits = guarantee_of(given)
    spent(budget, before, relation).spend("clicks", fits)
    assert all(len(number) <= 12 for number in given.values())
    loss = "rho" if "rho" in given else "epsilon"
    more = guarantee_of({**given, loss: Fraction(given[loss]) * Fraction(10001, 10000)})
    with pytest.raises(BudgetExceededError):
        spent(budget, before, relation).spend("clicks", more)


def test_detects_advice_that_ignores_spent_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against the whole budget instead of what is left: the test above fails."""
    monkeypatch.setattr(
        Ledger, "_fitting", lambda self, entry, account, left: self.budget, raising=True
    )
    with pytest.raises(BudgetExceededError) as refused:
        spent(PureDP(1), [PureDP("1/3")], "add_remove").spend("clicks", PureDP(1))
    with pytest.raises(BudgetExceededError):
        spent(PureDP(1), [PureDP("1/3")], "add_remove").spend(
            "clicks", guarantee_of(told(refused.value))
        )


def test_refused_expiring_guarantee_gets_accepted_advice() -> None:
    fading = ExpiringDP(1).bound_to(Expiring(1))
    ledger = Ledger(PureDP(3), age=999)
    with pytest.raises(BudgetExceededError) as refused:
        ledger.spend("fading", fading)
    given = told(refused.value)
    ledger.spend("fading", ExpiringDP(given["epsilon"]).bound_to(Expiring(1)))


def test_spent_budget_advises_no_smaller_loss() -> None:
    ledger = spent(PureDP(1), [PureDP(1)], "add_remove")
    with pytest.raises(BudgetExceededError, match=r"nothing is left: raise the budget$") as refused:
        ledger.spend("clicks", PureDP("0.001"))
    assert told(refused.value) == {}


def test_exhausted_budget_is_refused_before_rows_are_read(tmp_path: Path) -> None:
    """Rows that are wrong are not told of where nothing could be released."""
    import polars as pl

    from counton.run import Job, run
    from counton.state import Store, Stream
    from counton.strategies import Binary

    state = tmp_path / "visits.db"
    with Store(state, create=True) as store:
        store.set_budget(PureDP(1))
    unit = ContributionBound.add_remove(unit="event")
    Stream.create(state, "first", Binary(9), PureDP("0.75"), contribution=unit).close()
    job = Job(
        *("count", pl.DataFrame({"at": ["no time"]}), state), stream="second", time="at",
        every="1d", start="2024-03-01", windows=9, until="2024-03-02", epsilon="0.5",
    )  # fmt: skip
    with pytest.raises(BudgetExceededError, match=r"release 'second' asks for .* epsilon=0\.25$"):
        run(job)
    with Store(state) as store:
        assert store.streams == ("first",)
