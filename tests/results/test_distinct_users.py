"""Numbers of distinct users: sums over windows and groups say what they are, or are refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import Release, read, release
from counton.base.errors import InvalidInputError

START = datetime(2024, 2, 26, tzinfo=UTC)  # a Monday
PAGES = ["home", "shop", "help"]
#: Four users: each on one to three pages, all of them on the page "home".
VISITS = [
    ("ann", "home"), ("ann", "shop"), ("ann", "help"), ("bob", "home"), ("bob", "shop"),
    ("cy", "home"), ("dan", "home"),
]  # fmt: skip


def visits(days: int = 14) -> pl.DataFrame:
    """The same visits on each of some days."""
    rows = [
        (START + timedelta(days=day, hours=place), user, page)
        for day in range(days)
        for place, (user, page) in enumerate(VISITS)
    ]
    return pl.DataFrame(rows, schema=["time", "user", "page"], orient="row")


def released(what: Any, folder: Path, days: int = 14, **options: Any) -> Release:
    return release(
        what, visits(days), state=folder / "s.db", time="time", every="1d", start=START, windows=60,
        until=START + timedelta(days=days),
        **{"user": "user", "epsilon": 10**5, **options},
    )  # fmt: skip


BY_PAGE: dict[str, Any] = {"group_by": "page", "groups": PAGES}
#: Releases in which one user counts in several groups.
SEVERAL: dict[str, tuple[str, dict[str, Any]]] = {
    "distinct": ("distinct", {"max_contributions": 3}),
    "distinct, two groups": ("distinct", {"max_contributions": 2}),
    "reach": ("reach", {"max_contributions": 3, "contribution_period": "1w", "at_least": "1"}),
    "once in a window": (
        "count",
        {"max_contributions": 3, "contribution_period": "1d", "once_per_window": True},
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_share_of_users_counted_in_several_groups_is_refused(tmp_path: Path, name: str) -> None:
    what, options = SEVERAL[name]
    file = tmp_path / "t.parquet"
    found = released(what, tmp_path, **BY_PAGE, **options, output=str(file))
    of = "1 or more" if what == "reach" else None
    for numbers in (found, read(str(file))):
        with pytest.raises(InvalidInputError, match=r"shares of distinct users cannot be computed"):
            numbers.share("home", of=of)
    assert found.ratio("home", "shop", of=of).value == pytest.approx(2, abs=0.01)


def test_share_of_users_in_their_first_group_is_right(tmp_path: Path) -> None:
    found = released("distinct", tmp_path, **BY_PAGE, max_contributions=1)
    assert found.share("home").value == pytest.approx(1, abs=0.01)


def test_share_of_rows_of_users_is_right(tmp_path: Path) -> None:
    found = released(
        "count", tmp_path, days=1, **BY_PAGE, max_contributions=3, contribution_period="1d"
    )
    assert found.share("home").value == pytest.approx(4 / 7, abs=0.01)


def test_share_of_users_with_one_group_per_window_is_exact(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "max_contributions": 3,
        "contribution_period": "1w",
        "once_per_window": True,
        "max_contributions_per_window": 1,
    }
    found = released("count", tmp_path, **BY_PAGE, **options)
    assert found.share("home").value == pytest.approx(1, abs=0.01)


def test_share_of_users_in_a_report_is_refused(tmp_path: Path) -> None:
    domain = ",".join(PAGES)
    statistics = {
        "users": {"statistic": "distinct", "group_by": "page", "groups": domain},
        "rows": {"statistic": "count", "group_by": "page", "groups": domain},
    }
    report = released("report", tmp_path, days=1, max_contributions=3, statistics=statistics)
    with pytest.raises(InvalidInputError, match=r"shares of distinct users cannot be computed"):
        report.part("users").share("home")
    assert report.part("rows").share("home").value == pytest.approx(4 / 7, abs=0.01)


def test_total_of_several_groups_states_repeated_users(tmp_path: Path) -> None:
    found = released("distinct", tmp_path, **BY_PAGE, max_contributions=3)
    several = found.total(["home", "shop"])
    assert several.value == pytest.approx(6, abs=0.01)
    assert several.what == "home and shop, users counted in each of these groups"
    assert found.total("home").what == "home"
    assert "users counted in each" in found.combine({"home": 1, "shop": 1}).what
    assert "users counted in each" not in found.combine({"home": 1, "shop": -1}).what
    rows = released(
        "count", tmp_path, **BY_PAGE, max_contributions=3, contribution_period="1d", stream="rows"
    )
    assert rows.total(["home", "shop"]).what == "home and shop"


#: Releases whose users count again in each period, and that period.
AGAIN: dict[str, tuple[str, dict[str, Any], str]] = {
    "reach of weeks": ("reach", {"contribution_period": "1w", "at_least": "1"}, "1w"),
    "reach of days": ("reach", {"contribution_period": "1d", "at_least": "1"}, "1d"),
    "reach of weeks, totals": ("reach", {"contribution_period": "1w", "at_least": "1",
    "series": "cumulative"}, "1w"),
    "once in a window": ("count", {"max_contributions": 2, "contribution_period": "1w",
    "once_per_window": True}, "1d"),
    "once in a window, windows": (
        "count", {"max_contributions": 2, "contribution_period": "1w", "once_per_window": True,
        "series": "per-window"}, "1d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AGAIN)
def test_sums_over_users_counted_again_are_refused(tmp_path: Path, name: str) -> None:
    what, options, period = AGAIN[name]
    found = released(what, tmp_path, **options)
    for every in ("1d", "1w", "2w", "1mo"):
        if every == period:
            continue
        with pytest.raises(
            InvalidInputError, match=rf"sums={every} does not give numbers of distinct"
        ):
            found.sums(every)
    table = found.sums(period)
    assert table["is_complete"].all()
    days = 2 if what == "count" else 99
    expected = [4 if (step - 1) % 7 < days else 0 for step in table["first_window"]]
    assert table["estimate"].to_list() == pytest.approx(expected, abs=0.01)


def test_sums_of_distinct_users_count_new_users(tmp_path: Path) -> None:
    found = released("distinct", tmp_path)
    assert found.sums("1w")["estimate"].to_list() == pytest.approx([4, 0], abs=0.01)
    assert found.total("all", steps="3:9").what.endswith(", without users who were counted before)")


def test_total_of_incomplete_week_states_omitted_users(tmp_path: Path) -> None:
    found = released("reach", tmp_path, contribution_period="1w", at_least="1")
    part = found.total("1 or more", steps="9:10")
    assert part.value == pytest.approx(0, abs=0.01)
    assert part.what.endswith(", without users who were counted before in the week)")
    whole = found.total("1 or more", steps="8:14")
    assert whole.what == "1 or more (4 March to 10 March 2024)"
    assert whole.value == pytest.approx(4, abs=0.01)
    both = found.total("1 or more", steps="1:14")
    assert both.what.endswith(", each counted once in each week)")


def test_total_of_users_once_per_window_states_repetition(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "max_contributions": 14, "contribution_period": "1mo", "once_per_window": True,
        "series": "per-window",
    }  # fmt: skip
    found = released("count", tmp_path, **options)
    assert found.total("all", steps="1:1").what.endswith("all (26 February 2024)")
    week = found.total("all", steps="1:7")
    assert week.value == pytest.approx(28, abs=0.1)
    assert week.what.endswith(", each counted once in each day)")
