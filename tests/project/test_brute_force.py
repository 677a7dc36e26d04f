"""The brute force that a reviewer runs finds nothing, and finds what is put in on purpose."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import slips_on_purpose as mistakes

from counton import ContributionBound
from counton.continual import sensitivity as calibration
from counton.privacy.unit_changes import EventsAnywhere, EventsPerStep
from counton.statistics import Average, Reach
from counton.statistics.catalogue import keywords, statistic_named
from tools import brute_force
from tools.brute_force import (
    DOORS,
    ExceededError,
    try_contributions,
    try_deliveries,
    try_people,
    try_rows,
    try_statistics,
)


def test_no_change_moves_nodes_further_than_is_claimed() -> None:
    tried = list(try_contributions())
    assert len(tried) == sum(map(len, brute_force.CONTRIBUTIONS.values()))
    assert all(one.pairs > 300 and min(one.shares) > 0.9 for one in tried), [*map(str, tried)]


@pytest.mark.long
def test_contributions_need_neither_rows_nor_accountants() -> None:
    """Whoever checks them installs neither polars nor dp_accounting."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(('polars', 'dp_accounting')))"
    program = f"{blocked}; sys.argv[1:] = ['contributions']; from tools import brute_force as b"
    few = "b.CONTRIBUTIONS = {(1, 3): b.CONTRIBUTIONS[1, 3][-1:]}; b.main()"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; {few}"],
        cwd=Path(brute_force.__file__).parents[1], capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout.count("of the claim")) == (0, 1), done.stderr


def test_try_statistics_exceeds_no_sensitivity() -> None:
    tried = list(try_statistics(share=0.02))
    assert len(tried) == len(brute_force.STATISTICS)
    assert all(one.pairs and max(one.shares) > 0.3 for one in tried), [*map(str, tried)]


@pytest.fixture
def jobs_lie_with_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory where that is so: a state is synced dozens of times."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("promise", brute_force.PROMISES, ids=str)
@pytest.mark.usefixtures("jobs_lie_with_the_tests")
def test_try_people_exceeds_no_sensitivity(
    promise: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brute_force, "PROMISES", [promise])
    (tried,) = try_people(share=0.005)
    assert tried.pairs
    assert max(tried.shares) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.usefixtures("jobs_lie_with_the_tests")
@pytest.mark.long
def test_try_deliveries_exceeds_no_sensitivity(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brute_force, "DOORS", {door: DOORS[door]})
    (tried,) = try_deliveries(share=1e-4)
    assert tried.name.removeprefix("deliveries: ") == door
    assert tried.pairs
    assert max(tried.shares) > 0.3


@pytest.mark.parametrize(
    ("mistake", "door", "nights"),
    [
        (mistakes.late_rows_for_vanished_ones, "all events", [(0,)]),
        (mistakes.ids_of_users, "all events, a user's hours, ids", [(1,)]),
        (mistakes.ids_of_users, "new events, a user's hours, ids", [(1,)]),
    ],
)
@pytest.mark.usefixtures("jobs_lie_with_the_tests")
def test_rows_that_decide_about_those_of_others_are_found(
    mistake: Any, door: str, nights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    monkeypatch.setattr(brute_force, "DOORS", {door: DOORS[door]._replace(nights=nights)})
    with pytest.raises(ExceededError, match=door):
        list(try_deliveries())


@pytest.mark.long
def test_try_rows_keeps_promised_bound_and_exceeds_it_otherwise() -> None:
    tried = {one.name: one for one in try_rows()}
    promised = [one for name, one in tried.items() if name.endswith("as promised")]
    assert len(promised) == len(brute_force.EACH_ROW) * len(brute_force.ROWS_OF_STREAMS)
    assert all(max(one.shares) <= 1 + 1e-9 and one.pairs for one in promised)
    for statistic in {name.partition("), ")[0] for name in tried}:
        far = [
            tried[f"{statistic}), {rows} rows: one more in the middle"].shares[0]
            for rows in brute_force.ROWS_OF_STREAMS
        ]
        assert far == sorted(far), statistic
        assert far[-1] > 2.5, f"{statistic}: {far}"


def test_try_rows_detects_sensitivity_that_is_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def half(*given: Any) -> Any:
        shift = calibration.sensitivity_of(*given)
        return replace(shift, l1=-(-shift.l1 // 2), l2_squared=-(-shift.l2_squared // 2),
                       entries=None)  # fmt: skip

    monkeypatch.setattr(brute_force, "sensitivity_of", half)
    with pytest.raises(ExceededError, match="as promised"):
        list(try_rows())


def test_every_statistic_is_tried() -> None:
    kinds = {type(statistic) for statistic, _ in brute_force.STATISTICS}
    # A number of users is a count of their first rows, which are chosen where rows come in; so are
    # the rows of `Reach`: tests/statistics/test_reach.py tries what one user changes there.
    kinds |= {statistic_named(door.options.get("what", "count")) for door in DOORS.values()}
    kinds |= {Reach}
    missing = {word for word in keywords() if statistic_named(word) not in kinds}
    assert not missing, f"tools/brute_force.py has no events for {missing}"


def test_a_claim_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_small(*given: Any) -> Any:
        shift = calibration.sensitivity_of(*given)
        return replace(shift, l2_squared=shift.l2_squared * 9 // 10)

    monkeypatch.setattr(brute_force, "sensitivity_of", too_small)
    with pytest.raises(ExceededError, match="squared 2-norm"):
        list(try_contributions())


def test_try_contributions_detects_claim_for_one_step_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_one_step(strategy: Any, said: ContributionBound, shape: Any) -> Any:
        if isinstance(said.occurrences, EventsPerStep):
            said = ContributionBound.events(said.occurrences.most_a_step)
        return calibration.sensitivity_of(strategy, said, shape)

    monkeypatch.setattr(brute_force, "sensitivity_of", of_one_step)
    with pytest.raises(ExceededError, match="at most 1 of them in one step"):
        list(try_contributions())


def test_a_statistic_that_claims_too_little_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Average, "contribution", lambda *_, **__: ContributionBound.add_remove(cells=1)
    )
    with pytest.raises(ExceededError, match="Average"):
        list(try_statistics(share=0.05))


@pytest.mark.slow
@pytest.mark.usefixtures("jobs_lie_with_the_tests")
def test_try_people_detects_row_beyond_bound_of_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brute_force, "PROMISES", [{"max_contributions": 2, "append": True}])
    monkeypatch.setattr(
        brute_force,
        "sensitivity_of",
        lambda strategy, said, shape: calibration.sensitivity_of(
            strategy, replace(said, occurrences=EventsAnywhere(1)), shape
        ),
    )
    with pytest.raises(ExceededError, match="people"):
        list(try_people(share=0.02))
