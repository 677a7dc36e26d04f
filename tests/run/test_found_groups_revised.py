"""Groups that nobody declared among revised windows: what showing them costs, and what is seen.

All groups of one unit in a job are samples of the same event, each with noise of its own, so that
one job has the event hundreds of times; the exact probability is computed from the noise of nodes.
"""

import json
import sqlite3
import zlib
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from calls import calls_of
from found_groups import (
    FOUND,
    chance_of_being_shown,
    job_of,
    night_of,
    rows_of,
    shown_by_numbers_alone,
    some_nights,
)
from keys import chosen_key
from revised_jobs import released, share_used
from run_results import counts_of, labels_of
from some_cases import long

from counton import ContributionBound
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError, StateError
from counton.results.metadata_codec import facts_of
from counton.results.released_table import missing_rows
from counton.run import export, read, run
from counton.state import Store, Stream, journal, verify
from counton.state.rollback_guard import RollbackGuard
from counton.statistics.discovery import Discovery
from counton.strategies import Binary, KAry, StreamStrategy, WindowVersions

# ------------------------------------------------------------------------- the exact probability


@pytest.mark.parametrize("inner", [Binary(2), Binary(3), KAry(2, 3, subtraction=False)], ids=repr)
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 1000)])
def test_delta_from_every_value_of_every_node(inner: StreamStrategy, delta: Fraction) -> None:
    """Wherever the row is; a threshold that divides delta among one window's versions is seen."""
    distribution = DiscreteLaplace(Fraction(3, 2))
    windows = WindowVersions(6, inner)
    found = Discovery.with_least_thresholds(
        windows, distribution, 6, ContributionBound.add_remove(), delta
    )
    chances = [chance_of_being_shown(found, windows, distribution, 6, night) for night in (1, 2, 6)]
    assert chances == sorted(chances, reverse=True)
    assert delta / 4 < chances[0] <= delta
    one_window = WindowVersions(1, inner)
    too_low = Discovery.with_least_thresholds(
        one_window, distribution, 1, ContributionBound.add_remove(), delta
    )
    assert chance_of_being_shown(too_low, windows, distribution, 6, 1) > delta


@pytest.mark.parametrize("revise", ["1d", long("2d")])
def test_group_of_one_user_is_displayed_less_often_than_delta(
    revise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole jobs: as many groups of one row as there are samples, in each of three windows."""
    monkeypatch.setattr("counton.privacy.guarantees.LARGEST_DELTA", 1)
    options: dict[str, Any] = {
        "allowed_lateness": revise,
        "delta": "0.2",
        "epsilon": 2,
        "windows": 3,
    }
    for night in (1, 2, 3):
        rows = [row for n in range(400) for row in rows_of(night, f"{night}-{n}", 1)]
        with run(job_of(tmp_path, rows, night, **options)) as outcome:
            result = outcome.read()
            if night == 3:
                expected = shown_by_numbers_alone(outcome, 3)
                assert outcome.spec.metadata().cells.compared == (1, 1)
    assert result.numbers.since == expected


# ------------------------------------------------------------------------------ neighbours


@pytest.mark.long
def test_row_changes_each_version_by_claimed_amount() -> None:
    """In counts; of sums in `test_found_values`."""
    nights = some_nights(5)
    without = released(nights, **FOUND)
    used = []
    for lag in range(4):
        row = rows_of(2, "home", 1, "someone")
        with_it = [[*rows, *row * (night == 2 + lag)] for night, rows in enumerate(nights, 1)]
        change = released(with_it, **FOUND)
        known = np.zeros_like(without.values)
        for night in range(2 + lag, 5) if lag < 3 else ():
            known[night - 1, 0, night - 2] = 1
        assert (change.values - without.values == known).all()
        used.append(share_used(without, change))
    assert used[0] == 1.0
    assert used[-1] == 0.0


@pytest.mark.parametrize(
    "people", [{}, {"user": "user", "max_contributions": 2}, {"row_id": "id"}], ids=str
)
def test_rows_of_final_days_bring_no_group(people: dict[str, Any], tmp_path: Path) -> None:
    """A user may bring any number of them, each perhaps with a group of its own."""
    for night, rows in enumerate(some_nights(3), 1):
        night_of(tmp_path, [(*row[:3], f"{night}-{n}", 1.0) for n, row in enumerate(rows)], night,
                 **people)  # fmt: skip
    late = [(1, f"late{n}", "someone", f"late{n}", 1.0) for n in range(9)]
    new = [(4, "new", "someone", "new", 1.0)]
    with run(job_of(tmp_path, late + new, 4, **people)) as outcome:
        labels = labels_of(outcome)
        assert counts_of(outcome).after_final == 9
    assert set(labels) == {"home", "shop", "hush1", "hush2", "hush3", "new"}


# ----------------------------------------------------------------------- what readers get


def test_group_is_displayed_from_run_that_discovers_it(tmp_path: Path) -> None:
    """With all versions of that night and later ones, and nothing of nights before."""
    shown = []
    for night, rows in enumerate(some_nights(), 1):
        found = night_of(tmp_path, rows, night)
        table = found.table()
        shown.append(table.filter(group="shop")["window_index"].to_list())
        assert set(table["group"]) == {"home", *["shop"] * (night > 2)}
    assert shown == [[], [], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]]
    versions = found.versions().filter(group="shop")
    assert (versions["window_index"] + versions["lag_windows"]).min() == 3
    assert versions.height == 3 * 4
    assert found.versions().filter(group="home").height == 1 + 2 + 3 * 4
    exact = {day: 50 if 2 <= day <= 5 else 0 for day in range(1, 7)}
    newest = dict(table.filter(group="shop").select("window_index", "estimate").rows())
    assert all(abs(newest[day] - exact[day]) < 8 for day in exact)
    by_then = found.versions().filter(pl.col("window_index") + pl.col("lag_windows") <= 2)
    assert by_then["group"].unique().to_list() == ["home"]
    only = found.only(groups=["shop"]).versions()
    assert only.filter(pl.col("window_index") + pl.col("lag_windows") <= 3)[
        "window_index"
    ].to_list() == [
        1,
        2,
        3,
    ]


def test_late_group_begins_with_windows_of_its_run(tmp_path: Path) -> None:
    for night in range(1, 8):
        rows = rows_of(night, "home", 60) + (rows_of(night, "new", 60) if night > 5 else [])
        found = night_of(tmp_path, rows, night)
    assert found.numbers.since == {"home": 1, "new": 6}
    assert found.table().filter(group="new")["window_index"].to_list() == [4, 5, 6, 7]
    assert found.only(range(1, 4)).numbers.groups == ("home",)
    assert missing_rows(found.numbers) == (0, 0)


def test_discovered_groups_are_read_from_exported_files(tmp_path: Path) -> None:
    for night, rows in enumerate(some_nights(4), 1):
        own = night_of(tmp_path, rows, night)
    for kind in ("csv", "json", "parquet"):
        place = tmp_path / f"out.{kind}"
        assert export(tmp_path / "s.db", place).table().equals(own.table())
        again = read(place)
        assert again.table().equals(own.table())
        assert missing_rows(again.numbers)[0] == 0
        assert again.versions().equals(own.versions())
        assert facts_of(again.numbers) == facts_of(own.numbers)
    part = tmp_path / "part.csv"
    export(tmp_path / "s.db", part, groups="shop", windows="2024-03-03:")
    assert read(part).table().equals(own.only(range(3, 5), ["shop"]).table())


# ------------------------------------------------------------------- nights that were killed


class KilledError(Exception):
    """A process ends."""


@pytest.mark.parametrize("where", [(Stream, "_write_transaction"), long((RollbackGuard, "note"))])
def test_repeated_run_after_kill_releases_same_bits(
    where: tuple[type, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KilledError

    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    for night, rows in enumerate(some_nights(3), 1):
        own = night_of(folders[0], rows, night)
        with monkeypatch.context() as patched:
            patched.setattr(*where, killed)
            with pytest.raises(KilledError):
                night_of(folders[1], rows, night)
        again = night_of(folders[1], rows, night)
        assert again.table().equals(own.table())
    twice = night_of(folders[1], rows, night)
    assert twice.versions().equals(own.versions())
    values: list[Any] = []
    for folder in folders:
        with Store(folder / "s.db") as store:
            values.append(np.asarray(store.reader("count").releases().values))
    assert (values[0] == values[1]).all()
    (checked,) = verify(folders[1] / "s.db", key=chosen_key())
    assert checked.problems == ()


# ----------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("what", "more", "why"),
    [
        ("count", {"windows": None}, "needs windows, because each version of a window"),
        (
            "count",
            {"every": "1h", "windows": 10**7},
            "each with 49 versions of a window, is too large",
        ),
        (
            "top-k",
            {},
            "unlisted_groups=discover with statistic=top-k cannot be used with allowed_lateness=2d",
        ),
    ],
    ids=str,
)
def test_revised_discovery_refuses_incompatible_options(
    what: str, more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    job = job_of(tmp_path, rows_of(1, "home", 1), 1)
    with pytest.raises(InvalidInputError, match=why):
        run(job.derive(what=what, **more))
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("revise", ["2d", None])
def test_exchanged_group_names_in_state_are_refused(revise: str | None, tmp_path: Path) -> None:
    """Otherwise a hidden group's name would stand in the next table, with another's numbers."""
    nights = some_nights(4)
    for night, rows in enumerate(nights[:3], 1):
        night_of(tmp_path, rows, night, allowed_lateness=revise)
    said = "SELECT marks FROM counton_marks WHERE kind = 'labels' AND part = 3"
    swap = "UPDATE counton_marks SET marks = ? WHERE kind = 'labels' AND part = 3"
    with closing(sqlite3.connect(tmp_path / "s.db")) as state:
        (stored,) = state.execute(said).fetchone()
        names = json.loads(zlib.decompress(stored))
        state.execute(swap, [zlib.compress(json.dumps(names[::-1]).encode())])
        state.commit()
    (found,) = verify(tmp_path / "s.db", key=chosen_key())
    assert "is not what was written" in found.problems[0]
    with pytest.raises(StateError, match="is not what was written"):
        night_of(tmp_path, nights[3], 4, allowed_lateness=revise)


@pytest.mark.parametrize("revise", ["2d", None])
def test_verify_notices_thresholds_that_are_too_low(
    revise: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A margin calibrated wrongly, and thresholds that do not follow the margin."""
    right = Discovery.thresholds
    calibrated = Discovery.with_least_thresholds
    for night, rows in enumerate(some_nights(2), 1):
        night_of(tmp_path, rows, night, allowed_lateness=revise)
    (found,) = verify(tmp_path / "s.db", key=chosen_key())
    assert found.right
    assert any("probability of at most delta" in words for words in found.checks)

    monkeypatch.setattr(Discovery, "thresholds", lambda *given: right(*given) - 1)
    (found,) = verify(tmp_path / "s.db", key=chosen_key())
    assert "the guarantee allows delta" in found.problems[0]
    monkeypatch.setattr(Discovery, "thresholds", right)

    def too_low(*given: Any, **more: Any) -> Discovery:
        found = calibrated(*given, **more)
        return replace(found, margin=str(Fraction(found.margin) * 7 / 8))

    monkeypatch.setattr(Discovery, "with_least_thresholds", too_low)
    (tmp_path / "low").mkdir()
    night_of(tmp_path / "low", some_nights(1)[0], 1, allowed_lateness=revise)
    (found,) = verify(tmp_path / "low" / "s.db", key=chosen_key())
    assert "the guarantee allows delta" in found.problems[0]


def test_verify_reads_rows_once_for_several_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = calls_of(monkeypatch, journal, "read")
    numbers = set()
    for last in (3, 29):
        (tmp_path / f"{last}").mkdir()
        night_of(tmp_path / f"{last}", rows_of(1, "home", 60), last, allowed_lateness=None)
        reads.clear()
        (found,) = verify(tmp_path / f"{last}" / "s.db", key=chosen_key())
        assert found.right, found
        numbers.add(len(reads))
    assert len(numbers) == 1
