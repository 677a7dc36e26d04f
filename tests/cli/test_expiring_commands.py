"""Streams without an end on the command line."""

import json
from typing import Any

import polars as pl
import pytest

from counton.cli.privacy_by_age import named_ages

ROWS = ["00:10,a", "00:20,b", "01:10,a", "03:30,a", "04:05,b"]


def forever(place: Any, *more: str, **changed: str | None) -> list[str]:
    """Options of a new endless stream with noise that is 0 almost surely."""
    return [*place.new(**{"steps": None, **changed}), "--expire", *more]


def test_counting_needs_no_number_of_steps(place: Any) -> None:
    out = str(place.folder / "out.parquet")
    done = place("count", place.write("e.csv", ROWS), *forever(place, "--out", out)).fine()
    assert "Released 4 new windows (1 to 4)." in done.out
    loss = "epsilon 200 after an hour, 500 after a day"
    assert f"slowly as it gets older ({loss}" in " ".join(done.out.split())
    assert place.estimates() == [[1, 1], [2, 1], [2, 1], [3, 1]]
    shown = place.shown()
    assert "expiring differential privacy with epsilon = 100" in shown
    assert loss in shown


def test_a_delayed_stream_continues_as_if_it_had_never_stopped(place: Any) -> None:
    out = str(place.folder / "out.parquet")
    options = ("--growth", "3/2", "--delay", "2", "--out", out)
    done = place("count", place.write("e.csv", ROWS[:3]), *forever(place, *options)).fine()
    heading = (
        "to the end of 2012-12-31 (window 1, UTC; released with the window up to 2013-01-01 01"
    )
    assert heading in " ".join(done.out.split())
    place("count", place.write("e.csv", ROWS), *place.again, "--out", out).fine()
    assert place.estimates() == [[0, 0], [0, 0], [1, 1], [2, 1]]
    table = pl.read_parquet(out)
    assert table["std"].to_list()[:4] == [0] * 4
    lag = (table["window_end"] - table["counted_until"]).dt.total_hours()
    assert lag.to_list() == [1, 1, 2, 2, 2, 2, 2, 2]  # before the stream nothing can be counted
    report = json.loads(place("count", place.write("e.csv", ROWS), *place.again, "--json").out)
    assert report["delay"] == 2
    assert report["last"]["window_end"].removesuffix("+00:00").endswith("04:00:00")
    assert report["last"]["counted_until"].removesuffix("+00:00").endswith("02:00:00")
    again = (*place.again, "--expire", "--growth", "1.5", "--delay", "2", "--epsilon", "100")
    assert place("count", place.write("e.csv", ROWS), *again).code == 0


def test_gaussian_noise_and_sums_can_expire_too(place: Any) -> None:
    options = forever(place, epsilon=None, rho="5000", by=None, domain=None)
    done = place("count", place.write("e.csv", ROWS), *options, "--json").fine()
    report = json.loads(done.out)
    assert report["guarantee"]["guarantee"] == "expiring zero-concentrated"
    assert report["last"]["groups"][0]["estimate"] == 4
    bounds = ("--value", "value", "--lower", "0", "--upper", "10", "--resolution", "0.5")
    events = place.write("s.csv", ["00:10,a,2.5", "02:00,b,1"], "time,group,value")
    place("sum", events, *forever(place, *bounds, epsilon="1000"), "--name", "sums").fine()


@pytest.mark.parametrize(
    ("more", "changed", "words"),
    [
        (["--delta", "1e-9"], {}, "--delta 1e-9 does not go with --expire"),
        (["--rho", "1"], {}, "either --epsilon"),
        ([], {"epsilon": None}, "plan_expiring"),
        (["--strategy", "kary"], {}, "--strategy kary does not go with --expire"),
        (["--metric", "max"], {}, "metric max does not go with expire"),
        (["--growth", "-1"], {}, "growth is '-1'"),
        (["--growth", "nan"], {}, "growth is 'nan'"),
        (["--delay", "-1"], {}, "delay is -1"),
        (["--delay", "1.5"], {}, "'1.5' is not a whole number"),
    ],
)
def test_bad_options_are_refused_and_nothing_is_made(
    more: list[str], changed: dict[str, Any], words: str, place: Any
) -> None:
    asked = ("count", place.write("e.csv", ROWS), *forever(place, *more, **changed))
    done = place.by_file(*asked) if "--metric" in more else place(*asked)
    assert done.code == 2
    assert words in done.err
    assert not place.state.exists()


def test_growth_and_delay_need_expire(place: Any) -> None:
    said = place.count(place.write("e.csv", ROWS), "--delay", "1").refused()
    assert "--delay 1 needs --expire" in said


def test_what_a_stream_is_cannot_be_changed_later(place: Any) -> None:
    events = place.write("e.csv", ROWS)
    assert place("count", events, *forever(place, "--delay", "1")).code == 0
    for more in (["--delay", "2"], ["--growth", "2"], ["--epsilon", "99"]):
        done = place("count", events, *place.again, *more)
        assert done.code == 2, more
        assert "was created with" in done.err
    assert place.count(events, "--name", "ends").code == 0
    said = place("count", events, *place.again, "--name", "ends", "--expire").refused()
    assert "--expire is True, but stream 'ends' was created without it" in said


def test_a_limit_counts_endless_streams_at_an_age(place: Any) -> None:
    place("count", place.write("e.csv", ROWS), *forever(place, "--delay", "2"))
    done = place("ledger", str(place.state), "--limit-epsilon", "500")
    assert done.code != 0
    assert "--limit-age" in done.err
    done = place("ledger", str(place.state), "--limit-epsilon", "299", "--limit-age", "5")
    assert done.code != 0  # ages 2..5: 1, 2, 2 and 3 times 100
    done = place("ledger", str(place.state), "--limit-epsilon", "300", "--limit-age", "5").fine()
    assert "for events up to 5 windows old" in done.out
    assert "remaining: nothing" in done.out
    assert json.loads(place("ledger", str(place.state), "--json").out)["age"] == 5
    assert (
        "describes a limit of the ledger"
        in place("ledger", str(place.state), "--limit-age", "5").err
    )


def test_ages_are_read_in_steps() -> None:
    assert named_ages("1d")["a year"] == 366  # rather a day too many than too few
    assert list(named_ages("1w")) == ["a week", "a year", "ten years"]
    assert named_ages("1mo") == {"a year": 12, "ten years": 120}
    assert named_ages("60m") == named_ages("1h")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--steps 9 --epsilon 1 --around 9", "--around 9 plans a stream without an end"),
        ("--steps 9 --epsilon 1 --plot x.csv", "x.csv"),
        ("--epsilon 1", "--steps is missing"),
        ("--steps 9 --epsilon 1 --strategy smoth", "--strategy smoth is not known"),
    ],
)
def test_plan_ignores_no_option(place: Any, options: str, words: str) -> None:
    said = place("plan", *options.split()).refused()
    assert words in said


def test_the_ledger_says_what_an_expiring_stream_counts_as(place: Any) -> None:
    place("count", place.write("e.csv", ROWS), *forever(place, "--delay", "2"))
    limit = ("--limit-epsilon", "5000", "--limit-age", "100")
    shown = " ".join(place("ledger", str(place.state), *limit).out.split())
    assert "counts at age 100 as" in shown
    spent = json.loads(place("ledger", str(place.state), "--json").out)
    (entry,) = spent["spent"]
    left = float(spent["remaining"]["epsilon"])
    assert float(entry["counts_as"]["epsilon"]) == 5000 - left > 100
    young = "--limit-epsilon", "9", "--limit-age", "1", "--raise"
    assert place("ledger", str(place.state), *young).code == 0
    (early,) = json.loads(place("ledger", str(place.state), "--json").out)["spent"]
    assert early["counts_as"] is None
