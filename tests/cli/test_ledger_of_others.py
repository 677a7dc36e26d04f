"""What other programs spent counts in the ledger for good; a share of the budget is warned of."""

import json
from pathlib import Path

import pytest

from counton import ContributionBound, PureDP, Stream
from counton.base.errors import BudgetExceededError, InvalidInputError
from counton.state import Store
from counton.strategies import Binary

from .conftest import Workplace

SURVEY = ["--add", "survey of 2023", "--epsilon", "0.5", "--privacy-unit", "reader"]


@pytest.fixture
def state(place: Workplace) -> str:
    """Set a budget of 1 for each reader, and add a survey of 0.5."""
    state = str(place.state)
    place.plain("ledger", state, "--budget-epsilon", "1", "--budget-unit", "reader").fine()
    place.plain("ledger", state, *SURVEY).fine()
    return state


def create(state: str, name: str, epsilon: str) -> None:
    contribution = ContributionBound.add_remove(unit="reader")
    Stream.create(state, name, Binary(9), PureDP(epsilon), contribution=contribution).close()


def test_added_entry_leaves_the_rest_of_the_budget(place: Workplace, state: str) -> None:
    report = json.loads(place.plain("ledger", state, "--json").fine().out)
    assert len(report["spent"]) == 1
    assert report["remaining"]["epsilon"] == "0.5"
    printed = place.plain("ledger", state).fine().out
    assert "survey of 2023  pure differential privacy with epsilon = 0.5" in printed


def test_stream_beyond_added_entries_is_refused(state: str) -> None:
    with pytest.raises(BudgetExceededError, match="is left: give at most"):
        create(state, "visits", "0.6")
    create(state, "visits", "0.5")


def test_second_entry_of_a_name_is_refused(place: Workplace, state: str) -> None:
    assert (
        "has an entry 'survey of 2023' already" in place.plain("ledger", state, *SURVEY).refused()
    )
    with pytest.raises(InvalidInputError, match="has an entry 'survey of 2023'"):
        create(state, "survey of 2023", "0.1")
    with Store(state) as store:
        assert [entry.name for entry in store.entries] == ["survey of 2023"]


def test_entry_beyond_the_budget_is_refused_with_what_is_left(place: Workplace, state: str) -> None:
    more = ["--add", "more", "--epsilon", "0.6", "--privacy-unit", "reader"]
    assert "give at most --epsilon 0.5" in place.plain("ledger", state, *more).refused(4)


def test_entry_that_reaches_the_warning_share_ends_with_code_10(
    place: Workplace, state: str
) -> None:
    done = place.plain("ledger", state, "--warn-at", ".5", "--json")
    report = json.loads(done.out)
    assert (done.code, report["share"], report["warned"]) == (10, 0.5, True)
    place.plain("ledger", state, "--warn-at", ".51").fine()


def test_entry_without_a_unit_is_refused(state: str) -> None:
    with Store(state) as store, pytest.raises(InvalidInputError, match="not the name of a unit"):
        store.add_spend("x", PureDP(1), unit=" ")


def test_ledger_warns_from_stated_share_of_budget(place: Workplace, tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    assert place.plain("ledger", str(state), "--budget-epsilon", "1").code == 0
    contribution = ContributionBound.add_remove(unit="reader")
    Stream.create(state, "visits", Binary(9), PureDP("0.4"), contribution=contribution).close()
    warned = place.plain("ledger", str(state), *SURVEY, "--warn-at", ".9")
    assert (warned.code, warned.err) == (10, "")
    assert "90% of the budget is spent: --warn-at 0.9 is reached" in warned.out


def test_warning_share_without_budget_is_refused(place: Workplace, tmp_path: Path) -> None:
    state = str(tmp_path / "s.db")
    warn = ["--warn-at", ".8"]
    assert "does not exist" in place.plain("ledger", state, *SURVEY, *warn).refused()
    place.plain("ledger", state, *SURVEY).fine()
    told = place.plain("ledger", state, "--add", "another", *SURVEY[2:], *warn).refused()
    assert "has no budget; set a budget with --budget-epsilon or --budget-rho" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--add", "x", "--privacy-unit", "reader"],
            "--add x needs --epsilon or --rho, because an entry",
        ),
        (
            ["--add", "x", "--epsilon", "1"],
            "--add x needs --privacy-unit, because an entry",
        ),
        (["--epsilon", "1"], "--epsilon 1 needs --add, because it describes a loss"),
        (
            ["--warn-at", "80", "--budget-epsilon", "1"],
            "--warn-at 80.0 is not a share of the budget; give a number above 0",
        ),
        (["--add", "", "--epsilon", "1", "--privacy-unit", "x"], "name is ''"),
    ],
)
def test_ledger_entry_with_missing_option_is_refused(
    place: Workplace, tmp_path: Path, words: list[str], said: str
) -> None:
    told = place.plain("ledger", str(tmp_path / "s.db"), *words).refused()
    assert said in told
