"""A database knows what its streams have spent together, and keeps to its budget."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from once import kept_line, kept_margins, kept_tree

from counton import ZCDP, ApproxDP, Key, PureDP, Stream
from counton.base.errors import BudgetExceededError, InvalidInputError, StateError
from counton.privacy import ContributionBound, Guarantee, LedgerEntry
from counton.state import Store, sqlite_file, state_summary
from counton.strategies import Binary, Epochs


@pytest.fixture(scope="module")
def key() -> Key:
    return Key.generate()


def create(state: str, name: str, guarantee: Guarantee, key: Key) -> None:
    Stream.create(state, name, Binary(10), guarantee, key=key).close()


def test_streams_are_recorded_within_budget(state: str, key: Key) -> None:
    with Store(state, create=True) as store:
        assert store.ledger is None
        assert store.streams == ()
        store.set_budget(PureDP(1))
        create(state, "a", PureDP(0.3), key)
        create(state, "b", PureDP(0.7), key)
        assert store.ledger is not None
        assert store.ledger.remaining() is None
        with pytest.raises(BudgetExceededError, match=r"'c' asks for .* the budget is pure"):
            create(state, "c", PureDP(0.001), key)
        assert store.streams == ("a", "b")
        assert store.entries == (LedgerEntry("a", PureDP(0.3)), LedgerEntry("b", PureDP(0.7)))
        with pytest.raises(
            InvalidInputError, match=r"would become .* = 1.001.*, or give allow_raise"
        ):
            store.set_budget(PureDP(1.001))
        store.set_budget(PureDP(1.001), allow_raise=True)
        create(state, "c", PureDP(0.001), key)
        described = state_summary(state)
    assert described["budget"] == PureDP(1.001).to_dict()
    assert [entry["name"] for entry in described["ledger"]] == ["a", "b", "c"]


def test_an_unknown_stream_is_refused(state: str, key: Key) -> None:
    create(state, "a", PureDP(1), key)
    with Store(state) as store, pytest.raises(StateError, match=r"no stream 'b'; it has 'a'"):
        store.late_row_stats("b")
    with Store(state) as store, pytest.raises(StateError, match=r"no stream 'b'; it has 'a'"):
        store.amend("b", lambda step: {"ended": step})


def test_budget_below_spent_loss_is_refused(state: str, key: Key) -> None:
    create(state, "a", PureDP(0.5), key)
    create(state, "b", ZCDP(0.25), key)
    with Store(state) as store:
        with pytest.raises(
            BudgetExceededError, match=r"budget not set: .* spent already.*'a'.*'b'"
        ):
            store.set_budget(ZCDP(0.3))
        with pytest.raises(InvalidInputError, match="which a budget of"):
            store.set_budget(PureDP(100))
        assert store.ledger is None
        store.set_budget(ApproxDP(6, 1e-9))
        store.set_budget(ZCDP(0.4), allow_raise=True)
        assert store.ledger is not None
        assert store.ledger.cost() == ZCDP(0.25 + 0.5**2 / 2)
        store.set_budget(None, allow_raise=True)
        assert store.ledger is None


def test_shares_of_delta_are_stored_with_budget(state: str, key: Key) -> None:
    with Store(state, create=True) as store:
        store.set_budget(ApproxDP(1, 1e-6))
        create(state, "a", ZCDP(0.01), key)
        assert store.ledger is not None
        terms = store.ledger.terms()
        assert len(terms["units"]["unit"]["orders"]) == 4
        left = store.ledger.remaining(ZCDP)
        assert isinstance(left, ZCDP)
        create(state, "b", left, key)
        assert store.ledger.terms() == terms
        with pytest.raises(BudgetExceededError, match="nothing is left"):
            create(state, "c", ZCDP("1e-9"), key)
        store.set_budget(ApproxDP(3, 1e-6), approximate_delta=0, allow_raise=True)
        assert store.ledger.terms()["units"]["unit"]["approximate_delta"] == "0"
        with pytest.raises(BudgetExceededError):
            create(state, "c", ApproxDP(0.1, 1e-9), key)


def test_neighbours_are_kept_and_counted(state: str, key: Key) -> None:
    with Store(state, create=True) as store:
        store.set_budget(PureDP(1))
        replaced = ContributionBound.replace()
        Stream.create(state, "a", Binary(10), PureDP(0.5), key=key, contribution=replaced).close()
        with pytest.raises(BudgetExceededError, match="for one unit replaced counts as"):
            create(state, "b", PureDP(0.5), key)
        create(state, "b", PureDP(0.25), key)
        assert [spend.relation for spend in store.entries] == ["replace", "add_remove"]
        assert store.ledger is not None
        assert store.ledger.remaining() is None
        with pytest.raises(InvalidInputError, match="does not hide whether it is there"):
            store.set_budget(PureDP(5), relation="add_remove")
        assert store.ledger.budget == PureDP(1)


def test_units_of_streams_are_counted_apart(state: str, key: Key) -> None:
    with Store(state, create=True) as store:
        store.set_budget(PureDP(1))
        for name, unit in (("a", "visit"), ("b", "visitor")):
            counted = ContributionBound.add_remove(unit=unit)
            Stream.create(
                state, name, Binary(10), PureDP(0.75), key=key, contribution=counted
            ).close()
        assert store.ledger is not None
        assert store.ledger.units == {"visit": "add_remove", "visitor": "add_remove"}
        assert store.ledger.remaining(unit="visitor") == PureDP(0.25)
        assert [spend.unit for spend in store.entries] == ["visit", "visitor"]


def test_later_budget_includes_earlier_losses(state: str, key: Key) -> None:
    """Shares of delta fit what is there, as far as any do."""
    create(state, "a", ApproxDP(0.5, 4e-7), key)
    create(state, "b", ZCDP(0.002), key)
    with Store(state) as store:
        store.set_budget(ApproxDP(2, 1e-6))
        assert store.ledger is not None
        assert store.ledger.terms()["units"]["unit"]["approximate_delta"] == "4e-7"


def test_a_refused_stream_leaves_no_key(file: str) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(1))
    with pytest.raises(BudgetExceededError):
        Stream.create(file, "a", Binary(10), PureDP(2))
    Stream.create(file, "a", Binary(10), PureDP(1)).close()
    Stream.open(file, "a").close()


def test_concurrent_creations_stay_within_budget(state: str, key: Key) -> None:
    with Store(state, create=True) as store:
        store.set_budget(PureDP(1))

        def attempt(number: int) -> bool:
            try:
                create(state, f"s{number}", PureDP(0.3), key)
            except BudgetExceededError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            made = list(pool.map(attempt, range(6)))
        assert sum(made) == 3
        assert len(store.streams) == len(store.entries) == 3


def test_first_creations_at_the_same_time_make_one_database(state: str, key: Key) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda n: create(state, f"s{n}", PureDP(1), key), range(6)))
    with Store(state) as store:
        assert len(store.streams) == 6


def test_a_file_that_a_faster_process_made_serves_as_well(
    tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is there when it is looked for, with its log; once it comes before it is checked."""
    file = tmp_path / "s.db"
    check = sqlite_file.check
    create(str(file), "a", PureDP(1), key)
    (tmp_path / "s.db-wal").touch()
    sqlite_file.create(file)
    other = tmp_path / "other.db"

    def late(path: Path) -> None:
        if not path.exists():
            sqlite_file.create(path)
        check(path)

    monkeypatch.setattr(sqlite_file, "check", late)
    with Store(other) as store:
        store.set_budget(PureDP(1))


def _shown_as(file: Path, contribution: ContributionBound | None, name: str) -> str:
    stated: dict[str, Any] = {} if contribution is None else {"contribution": contribution}
    with Stream.create(file, name, Binary(10), PureDP(0.25), **stated) as stream:
        assert stream.release(1).contribution.unit == stream.design.contribution.unit
        unit = stream.design.contribution.unit
    with Stream.open(file, name) as stream:
        assert stream.design.contribution.unit == unit
    return unit


def test_stream_without_privacy_unit_uses_unit_of_budget(file: Path) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(1))
    assert _shown_as(file, ContributionBound.add_remove(unit="visitor"), "a") == "visitor"
    assert _shown_as(file, None, "b") == "visitor"
    tables = [
        partial(kept_line, [1, 2, 3], file),
        partial(kept_margins, file),
        partial(kept_tree, file),
    ]
    for table in tables:
        first = table(epsilon="0.125")
        assert table(epsilon="0.125") == table(epsilon="0.125", privacy_unit="visitor") == first
        with pytest.raises(StateError, match=r"privacy_unit \(here household"):
            table(epsilon="0.125", privacy_unit="household")
    with pytest.raises(BudgetExceededError, match="one visitor"):
        kept_line([1, 2, 3], file, "more", epsilon="0.25")
    with Store(file) as store:
        assert {spend.unit for spend in store.entries} == {"visitor"}
        assert len(store.entries) == 5


def test_stream_without_unit_is_refused_with_several_units(file: Path) -> None:
    for unit in ("visitor", "visit"):
        assert _shown_as(file, ContributionBound.add_remove(unit=unit), unit) == unit
    with pytest.raises(InvalidInputError, match=r"separate totals for 'visitor'.*unit=visitor"):
        _shown_as(file, None, "c")
    with pytest.raises(InvalidInputError, match=r"separate totals for 'visitor' and 'visit'"):
        kept_line([1, 2, 3], file)
    with Store(file) as store:
        assert store.streams == ("visit", "visitor")
    first = kept_line([1, 2], file, privacy_unit="visit")
    assert kept_line([1, 2], file) == first  # its terms say which


def test_unit_of_unnamed_streams_keeps_its_name(file: Path) -> None:
    assert _shown_as(file, None, "a") == "unit"
    named = ContributionBound.add_remove(unit="visitor")
    with pytest.raises(InvalidInputError, match=r"the unit of 'a' .* call the unit 'unit'"):
        _shown_as(file, named, "b")
    with pytest.raises(InvalidInputError, match=r"unit is 'visitor', but the unit of 'a'"):
        kept_line([1, 2], file, privacy_unit="visitor")
    with Store(file) as store:
        assert [spend.name for spend in store.entries] == ["a"]


def test_endless_stream_is_charged_once(file: Path, key: Key) -> None:
    with Store(file, create=True) as store:
        store.set_budget(PureDP(1))
    with Stream.create(file, "visits", Epochs(), PureDP(1), key=key) as stream:
        first = stream.release_many([1] * 300)
    with Stream.open(file, "visits", key=key) as stream:
        later = stream.release_many([2] * 40)
        assert stream.step == 340
        assert stream.releases(300, 301).values.tolist() == first.values[-1:].tolist()
        assert len(later.interval()[0]) == 40
    with Store(file) as store:
        assert store.entries == (LedgerEntry("visits", PureDP(1)),)
    with pytest.raises(BudgetExceededError):
        Stream.create(file, "other", Epochs(), PureDP("0.001"), key=key)
