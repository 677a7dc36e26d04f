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


def test_it_counts_under_the_limit(place: Workplace, tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    assert (
        place.plain("ledger", str(state), "--budget-epsilon", "1", "--budget-unit", "reader").code
        == 0
    )
    done = place.plain("ledger", str(state), *SURVEY, "--warn-at", ".5", "--json")
    assert done.code == 10, done.err
    said = json.loads(done.out)
    assert (said["share"], said["warned"], len(said["spent"])) == (0.5, True, 1)
    assert said["remaining"]["epsilon"] == "0.5"
    contribution = ContributionBound.add_remove(unit="reader")
    with pytest.raises(BudgetExceededError, match="is left: give at most"):
        Stream.create(state, "visits", Binary(9), PureDP("0.6"), contribution=contribution)
    told = place.plain("ledger", str(state), *SURVEY).refused()
    assert "the ledger has an entry 'survey of 2023' already, and entries are never removed" in told
    with pytest.raises(InvalidInputError, match="has an entry 'survey of 2023'"):
        Stream.create(state, "survey of 2023", Binary(9), PureDP("0.1"), contribution=contribution)
    more = place.plain(
        "ledger", str(state), "--add", "more", "--epsilon", "0.6", "--privacy-unit", "reader"
    ).refused(4)
    assert "budget-epsilon" not in more
    assert "give at most --epsilon 0.5" in more
    quiet = place.plain("ledger", str(state), "--warn-at", ".51").fine()
    assert "survey of 2023  pure differential privacy with epsilon = 0.5" in quiet.out
    with Store(state) as store:
        assert [one.name for one in store.entries] == ["survey of 2023"]
        with pytest.raises(InvalidInputError, match="is not the name of a unit"):
            store.add_spend("x", PureDP(1), unit=" ")


def test_it_warns_from_the_share_that_is_stated(place: Workplace, tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    assert place.plain("ledger", str(state), "--budget-epsilon", "1").code == 0
    contribution = ContributionBound.add_remove(unit="reader")
    Stream.create(state, "visits", Binary(9), PureDP("0.4"), contribution=contribution).close()
    warned = place.plain("ledger", str(state), *SURVEY, "--warn-at", ".9")
    assert (warned.code, warned.err) == (10, "")
    assert "90% of the budget is spent: --warn-at 0.9 is reached" in warned.out


def test_a_share_of_no_limit_is_refused_before_an_entry(place: Workplace, tmp_path: Path) -> None:
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
            "--add x adds an entry to the ledger, and --epsilon is missing",
        ),
        (
            ["--add", "x", "--epsilon", "1"],
            "--add x adds an entry to the ledger, and --privacy-unit is missing",
        ),
        (["--epsilon", "1"], "--epsilon 1 describes a loss to add to the ledger"),
        (
            ["--warn-at", "80", "--budget-epsilon", "1"],
            "--warn-at 80.0 is not a share of the budget; give a number above 0",
        ),
        (["--add", "", "--epsilon", "1", "--privacy-unit", "x"], "name is ''"),
    ],
)
def test_what_lacks_is_named(place: Workplace, tmp_path: Path, words: list[str], said: str) -> None:
    told = place.plain("ledger", str(tmp_path / "s.db"), *words).refused()
    assert said in told
