"""What no job may ask, whatever it counts."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from witnesses import witness_file

from counton import ContributionBound, PureDP, Stream
from counton.base.errors import BudgetExceededError, InvalidInputError, StateError
from counton.privacy import Ledger
from counton.privacy.guarantees import guarantee_from
from counton.run import Job, publish, run
from counton.state import Store, state_summary
from counton.strategies import Binary

ROWS = "time,page,cookie,order\n2024-03-01T09:00,a,ann,1\n2024-03-02T10:00,b,bob,2\n"


def visits(folder: Path, **more: Any) -> Job:
    events = folder / "visits.csv"
    if not events.exists():
        events.write_text(ROWS)
    asked: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 30, "epsilon": 1,
        "until": "2024-03-03", **more,
    }  # fmt: skip
    return Job("count", events, folder / "visits.db", **asked)


class TestDelta:
    """A guarantee whose delta is large promises nothing."""

    @pytest.mark.parametrize("delta", ["0.5", 0.01, "0.0011", 0.999])
    def test_delta_above_one_thousandth_is_refused(self, delta: Any) -> None:
        with pytest.raises(InvalidInputError, match=r"may fail altogether.* give at most 0\.001"):
            guarantee_from(1, delta, None)

    def test_delta_of_one_thousandth_is_accepted(self) -> None:
        assert guarantee_from(1, "0.001", None) is not None

    def test_job_with_large_delta_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="may fail altogether"):
            run(visits(tmp_path, delta="0.5", unlisted_groups="discover", group_by="page"))
        assert not (tmp_path / "visits.db").exists()


@pytest.mark.parametrize(
    ("most", "words"), [(10**9, "is above 1,000,000"), (0, "max_contributions=0 is below 1")]
)
def test_how_many_events_of_a_user_count(tmp_path: Path, most: int, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(visits(tmp_path, user="cookie", max_contributions=most))
    assert not (tmp_path / "visits.db").exists()


def test_one_column_is_not_both_the_user_and_the_id(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match="name the same column, so only one row of each user"
    ):
        run(visits(tmp_path, user="cookie", row_id="cookie", max_contributions=2))
    assert not (tmp_path / "visits.db").exists()
    run(visits(tmp_path, user="cookie", row_id="order", max_contributions=2)).close()


class TestUnits:
    """Each unit has a limit of its own, and so must have one spelling."""

    @pytest.mark.parametrize("word", ["Visitor", "VISITOR", "ｖｉｓｉｔｏｒ", " visitor  "])
    def test_case_and_width_make_no_other_unit(self, tmp_path: Path, word: str) -> None:
        state = tmp_path / "state.db"
        with Store(state, create=True) as store:
            store.set_budget(PureDP(1))

        def spend(name: str, unit: str) -> None:
            one = ContributionBound.add_remove(unit=unit)
            Stream.create(state, name, Binary(8), PureDP("0.75"), contribution=one).close()

        spend("first", "visitor")
        with pytest.raises(BudgetExceededError):
            spend("second", word)
        spend("third", "order")

    def test_ledger_keeps_first_spelling_of_unit(self, tmp_path: Path) -> None:
        for name, unit in (("first", "Bestellung"), ("second", "bestellung")):
            run(visits(tmp_path, stream=name, privacy_unit=unit)).close()
        entries = state_summary(tmp_path / "visits.db")["ledger"]
        assert [entry["unit"] for entry in entries] == ["Bestellung", "Bestellung"]
        run(visits(tmp_path, stream="second", privacy_unit="BESTELLUNG")).close()  # again

    def test_ledger_treats_spellings_of_unit_as_one(self) -> None:
        ledger = Ledger(PureDP(1))
        ledger.spend("first", PureDP("0.75"), unit="Straße")
        with pytest.raises(BudgetExceededError):
            ledger.spend("second", PureDP("0.75"), unit="STRASSE")
        assert ledger.remaining(unit="strasse") == PureDP("0.25")
        again = Ledger(PureDP(2))
        again.enter_all(
            [entry._replace(unit=unit) for entry in ledger.entries for unit in ("A", "a", "b")]
        )
        assert list(again.units) == ["A", "b"]


@pytest.mark.parametrize("kept", ["visits.db.key", "my.key"])
def test_an_old_copy_publishes_nothing(tmp_path: Path, kept: str) -> None:
    """Whether its key lies beside it or elsewhere."""
    state = tmp_path / "visits.db"
    out = tmp_path / "out.db"
    run(visits(tmp_path, key=tmp_path / kept)).close()
    old = shutil.copy(state, tmp_path / "old.db")
    run(visits(tmp_path, key=tmp_path / kept, until="2024-03-04")).close()
    assert publish(state, out).after == 3
    newest = state.read_bytes()
    shutil.copy(old, state)
    out.unlink()
    with pytest.raises(StateError, match=r"nothing was published: .* stream 'count' is at step 2"):
        publish(state, out)
    assert not out.exists()
    state.write_bytes(newest)
    assert publish(state, out).after == 3


def test_rollback_guard_of_server_records_newest_state(postgres: str, tmp_path: Path) -> None:
    key = tmp_path / "my.key"
    run(visits(tmp_path).derive(state=postgres, key=key)).close()
    witness = witness_file(postgres)
    assert publish(postgres, tmp_path / "out.db", key=key).after == 2
    witness.write_text(witness.read_text().replace('"step": 2', '"step": 3'))
    with pytest.raises(StateError, match=r"nothing was published: .* stream 'count' is at step 2"):
        publish(postgres, tmp_path / "other.db", key=key)
