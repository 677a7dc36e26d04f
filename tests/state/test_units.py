"""By which word a state counts what a release protects: one rule, whatever is released."""

from pathlib import Path
from typing import Any

import pytest
from once import kept_line

from counton import Average, PureDP, Quantiles, Stream, TopK
from counton.base.errors import BudgetExceededError, InvalidInputError
from counton.privacy.contribution import without_clock
from counton.run import Job, run
from counton.state import Store, state_summary
from counton.statistics import Statistic
from counton.strategies import Binary

OF_EVENTS = [Average(0, 10, 1), Quantiles([0, 1, 2]), TopK(["a", "b"])]


def keep(state: Path, name: str, statistic: Statistic, epsilon: Any = "0.1") -> str:
    """Create a statistic, and say by which word it is counted."""
    Stream.create(state, name, Binary(8), PureDP(epsilon), statistic=statistic).close()
    units = {entry["name"]: entry["unit"] for entry in state_summary(state)["ledger"]}
    with Store(state) as store:
        assert store.reader(name).design.contribution.unit == without_clock(units[name])
    return str(units[name])


def count(state: Path, name: str, **more: Any) -> str:
    events = state.with_name("visits.csv")
    events.write_text("time,cookie\n2024-03-01T09:00,ann\n2024-03-02T10:00,bob\n")
    asked: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 30}
    asked |= {"until": "2024-03-03", "epsilon": "0.1", "stream": name, **more}
    with run(Job("count", events, state, **asked)) as outcome:
        return outcome.spec.metadata().privacy_unit


@pytest.mark.parametrize("statistic", OF_EVENTS, ids=repr)
def test_statistics_of_events_use_unit_of_state(file: Path, statistic: Statistic) -> None:
    assert count(file, "orders", privacy_unit="order") == "order"
    assert keep(file, "other", statistic) == "order"


def test_spent_budget_refuses_statistics(file: Path) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(1))
    count(file, "orders", privacy_unit="order")
    for statistic in OF_EVENTS:
        with pytest.raises(BudgetExceededError, match="for one order added"):
            keep(file, "other", statistic, 1)


def test_other_unit_must_be_stated_for_new_stream(file: Path) -> None:
    count(file, "orders", privacy_unit="order")
    assert keep(file, "letters", Average(0, 10, 1, unit="parcel")) == "parcel"
    assert keep(file, "plain", Average(0, 10, 1, unit="event")) == "event"
    with pytest.raises(
        InvalidInputError, match="separate totals for 'order' and 'parcel' and 'event'"
    ):
        keep(file, "which", Average(0, 10, 1))


#: What may not pass by a budget about readers, once 0.7 of it is spent for them: how the rows are
#: protected, what for, and what that is called.
LESS: list[tuple[dict[str, Any], str, str]] = [
    ({"user": "cookie", "max_contributions": 2, "privacy_unit": "person"}, "0.3", "person"),
    (
        {"user": "cookie", "max_contributions": 2, "contribution_period": "1mo"},
        "0.7",
        "reader's month .UTC, time.",
    ),
    ({}, "0.4", "event"),
    ({"privacy_unit": "visit"}, "0.9", "visit"),
]


@pytest.mark.parametrize(("how", "epsilon", "unit"), LESS, ids=[unit for *_, unit in LESS])
def test_budget_of_one_unit_refuses_other_units(
    how: dict[str, Any], epsilon: str, unit: str, file: Path
) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(1), unit="reader")
    of_readers = {"user": "cookie", "max_contributions": 2, "epsilon": "0.7"}
    assert count(file, "first", **of_readers) == "reader"  # nobody has to say so
    words = f"'less' protects one {unit}, but the budget of this ledger is about one reader"
    with pytest.raises(InvalidInputError, match=words):
        count(file, "less", **how, epsilon=epsilon)
    with Store(file) as store:
        found = store.ledger
        assert found is not None
        assert len(found.entries) == 1
        assert found.cost() == PureDP("0.7")
        assert store.streams == ("first",)
    assert count(file, "rest", **{**of_readers, "epsilon": "0.3"}) == "reader"


def test_event_named_like_unit_of_budget_is_refused(file: Path) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(1), unit="reader")
    with pytest.raises(
        InvalidInputError, match="'reader' means one user in the release 'budget of the led"
    ):
        count(file, "events", privacy_unit="Reader")


def test_changed_budget_keeps_its_unit(file: Path) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(2), unit="reader")
        store.set_budget(PureDP(1))
        store.set_budget(PureDP(3), allow_raise=True)
        assert [one.event for one in store.ledger_history] == [
            "budget set", "budget lowered", "budget raised"
        ]  # fmt: skip
        assert [(one.terms or {}).get("unit") for one in store.ledger_history] == ["reader"] * 3
        assert store.ledger is not None
        assert (store.ledger.budget, store.ledger.unit) == (PureDP(3), "reader")
    with pytest.raises(
        InvalidInputError, match="protects one event, but the budget of this ledger is"
    ):
        count(file, "events")
    with Store(file) as store:
        with pytest.raises(InvalidInputError, match="or give allow_raise"):
            store.set_budget(PureDP(3), unit="")
        store.set_budget(PureDP(3), unit="", allow_raise=True)
    assert count(file, "events") == "event"


def test_first_release_fixes_whether_budget_is_for_rows_or_users(file: Path) -> None:
    """A budget of moves holds for rows called so; a row without the name never spends it."""
    with Store(file, create=True) as store:
        store.set_budget(PureDP(1))
        store.set_budget(PureDP(1), unit="move")
        first, second = store.ledger_history
        assert (first.event, second.event) == ("budget set", "budget narrowed")
        assert " from " not in second.in_words()
    with pytest.raises(
        InvalidInputError, match="protects one event, but the budget of this ledger is"
    ):
        count(file, "unnamed")
    assert count(file, "rows", privacy_unit="Move", epsilon="0.7") == "move"
    with pytest.raises(
        InvalidInputError, match="'move' means one event in the release 'budget of the"
    ):
        count(file, "people", privacy_unit="move", user="cookie", max_contributions=2)
    assert count(file, "rest", epsilon="0.3") == "move"
    with pytest.raises(BudgetExceededError):
        count(file, "more", privacy_unit="move")


def test_unit_name_cannot_mean_event_and_user(file: Path) -> None:
    count(file, "orders", privacy_unit="customer")
    with pytest.raises(
        InvalidInputError, match="'customer' means one event in the release 'orders'"
    ):
        count(file, "people", privacy_unit="Customer", user="cookie", max_contributions=2)
    count(file, "people", privacy_unit="user", user="cookie", max_contributions=2)
    with pytest.raises(InvalidInputError, match="'user' means one user in the release 'people'"):
        keep(file, "average", Average(0, 10, 1, unit="user"))
    with pytest.raises(InvalidInputError, match="'user' means one user in the release 'people'"):
        count(file, "more", privacy_unit="user")


def test_a_table_once_counts_as_a_stream_does(file: Path) -> None:
    count(file, "people", privacy_unit="guest", user="cookie", max_contributions=2)
    kept_line([1, 2], file, epsilon="0.1")
    units = [entry["unit"] for entry in state_summary(file)["ledger"]]
    assert units == ["guest", "event"]
