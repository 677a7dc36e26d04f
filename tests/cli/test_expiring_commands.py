"""Streams without an end on the command line."""

import json
from typing import Any

import polars as pl
import pytest

from counton.cli.privacy_words import named_ages

from .conftest import Workplace

ROWS = ["00:10,a", "00:20,b", "01:10,a", "03:30,a", "04:05,b"]


def forever(place: Workplace, *more: str, **changed: str | None) -> list[str]:
    """Options of a new endless stream with noise that is 0 almost surely."""
    return [*place.new(**{"windows": None, **changed}), "--expiring", *more]


def test_expiring_count_needs_no_number_of_windows(place: Workplace) -> None:
    out = str(place.folder / "out.parquet")
    done = place(
        "release", "count", place.write("e.csv", ROWS), *forever(place, "--output", out)
    ).fine()
    assert "Released 4 new windows (1 to 4)." in done.out
    loss = "epsilon 200 after an hour, 500 after a day"
    assert f"Privacy: {loss}" in " ".join(done.out.split())
    assert place.estimates() == [[1, 1], [2, 1], [2, 1], [3, 1]]
    shown = place.shown()
    assert "expiring differential privacy with epsilon = 100" in shown
    assert loss in shown


def test_delayed_stream_continues_with_same_numbers(place: Workplace) -> None:
    out = str(place.folder / "out.parquet")
    options = ("--expiration-growth", "3/2", "--expiration-delay", "2", "--output", out)
    done = place(
        "release", "count", place.write("e.csv", ROWS[:3]), *forever(place, *options)
    ).fine()
    heading = (
        "to the end of 31 December 2012 (window 1, UTC; released with the window up to 1 January "
        "2013, 01"
    )
    assert heading in " ".join(done.out.split())
    place("release", "count", place.write("e.csv", ROWS), *place.again, "--output", out).fine()
    assert place.estimates() == [[0, 0], [0, 0], [1, 1], [2, 1]]
    table = pl.read_parquet(out)
    assert table["noise_std"].to_list()[:4] == [0] * 4
    lag = (table["window_end"] - table["counted_until"]).dt.total_hours()
    assert lag.to_list() == [1, 1, 2, 2, 2, 2, 2, 2]  # before the stream nothing can be counted
    report = json.loads(
        place("release", "count", place.write("e.csv", ROWS), *place.again, "--json").out
    )
    assert report["expiration_delay"] == 2
    assert report["last"]["window_end"].removesuffix("+00:00").endswith("04:00:00")
    assert report["last"]["counted_until"].removesuffix("+00:00").endswith("02:00:00")


@pytest.mark.parametrize(
    ("more", "changed", "words"),
    [
        (["--delta", "1e-9"], {}, "--expiring cannot be used with --delta 1e-9"),
        ([], {"epsilon": None}, "needs --epsilon or --rho"),
        (["--strategy", "kary"], {}, "--expiring cannot be used with --strategy kary"),
        (["--metric", "max"], {}, "expiring cannot be used with metric max"),
        (["--expiration-growth", "-1"], {}, "growth is '-1'"),
        (["--expiration-delay", "-1"], {}, "--expiration-delay -1 is below 0"),
    ],
)
def test_bad_options_are_refused_and_nothing_is_made(
    more: list[str], changed: dict[str, Any], words: str, place: Workplace
) -> None:
    asked = ("release", "count", place.write("e.csv", ROWS), *forever(place, *more, **changed))
    done = place.by_file(*asked) if "--metric" in more else place(*asked)
    assert done.code == 2
    assert words in done.err
    assert not place.state.exists()


def test_budget_counts_expiring_streams_at_stated_age(place: Workplace) -> None:
    place(
        "release", "count", place.write("e.csv", ROWS), *forever(place, "--expiration-delay", "2")
    )
    done = place("ledger", str(place.state), "--budget-epsilon", "500")
    assert done.code != 0
    assert "--budget-age" in done.err
    done = place("ledger", str(place.state), "--budget-epsilon", "299", "--budget-age", "5")
    assert done.code != 0  # ages 2..5: 1, 2, 2 and 3 times 100
    done = place("ledger", str(place.state), "--budget-epsilon", "300", "--budget-age", "5").fine()
    assert "for events up to 5 windows old" in done.out
    assert "remaining: nothing" in done.out
    assert json.loads(place("ledger", str(place.state), "--json").out)["age"] == 5
    assert (
        "--budget-age 5 needs --budget-epsilon or --budget-rho, because it describes a budget"
        in place("ledger", str(place.state), "--budget-age", "5").err
    )


def test_ages_are_read_in_steps() -> None:
    assert named_ages("1d")["a year"] == 366  # rather a day too many than too few
    assert list(named_ages("1w")) == ["a week", "a year", "ten years"]
    assert named_ages("1mo") == {"a year": 12, "ten years": 120}
    assert named_ages("60m") == named_ages("1h")


def test_ledger_states_loss_of_expiring_stream_at_age(place: Workplace) -> None:
    place(
        "release", "count", place.write("e.csv", ROWS), *forever(place, "--expiration-delay", "2")
    )
    budget = ("--budget-epsilon", "5000", "--budget-age", "100")
    shown = " ".join(place("ledger", str(place.state), *budget).out.split())
    assert "counts at age 100 as" in shown
    spent = json.loads(place("ledger", str(place.state), "--json").out)
    (entry,) = spent["spent"]
    left = float(spent["remaining"]["epsilon"])
    assert float(entry["counts_as"]["epsilon"]) == 5000 - left > 100
    young = "--budget-epsilon", "9", "--budget-age", "1", "--raise"
    assert place("ledger", str(place.state), *young).code == 0
    (early,) = json.loads(place("ledger", str(place.state), "--json").out)["spent"]
    assert early["counts_as"] is None
