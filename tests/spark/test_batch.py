"""A frame of Spark gives the bits of one machine, however its rows are spread."""

from __future__ import annotations

import base64
import datetime as dt
import random
import secrets
import tempfile
import warnings
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from traceback import format_exception
from typing import Any

import polars as pl
import pytest
from by_reference import state_by_reference
from own_statistic import installed
from run_results import counts_of
from sources import told
from spark_jobs import JOBS, PAGES, events, job

from counton.base.errors import CountonError, InvalidInputError, JobWarning, SumOverflowError
from counton.run import Job, run
from counton.state import verify
from proofs import reference

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")

from pyspark.sql import functions as F  # noqa: E402, N812 - after the skip

from counton import spark as counton_spark  # noqa: E402 - after the skip


def spread(spark: Any, frame: pl.DataFrame, seed: int) -> Any:
    """The rows in another order, in several parts, some of which may be empty."""
    chance = random.Random(seed)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
    return spark.createDataFrame(shuffled.to_arrow()).repartition(chance.randint(1, 7))


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.smoke
def test_the_bits_are_those_of_one_machine(
    name: str, tmp_path: Path, spark: Any, one_key: None
) -> None:
    rows = events()
    first = rows.filter(pl.col("at") < "2024-03-12")
    second = rows.filter(pl.col("at") >= "2024-03-11")
    for state, append in (("whole", False), ("nights", True)):
        if append and "row_id" not in JOBS[name][1]:
            second = rows.filter(pl.col("at") >= "2024-03-12")
        local = job(name, tmp_path, f"{state} here", append=append)
        far = job(name, tmp_path, f"{state} there", append=append)
        for seed, part in enumerate((first, second if append else rows)):
            with run(local.derive(events=part)) as here:
                expected = told(here)
            frame = spread(spark, part, seed)
            if append:  # times that Spark knows as such, so that it may count what is alike
                zone = local.timezone or "UTC"
                moment = F.to_utc_timestamp(frame["at"].cast("timestamp_ntz"), zone)
                since = F.timestamp_diff(
                    "MICROSECOND", F.lit("1970-01-01").cast("timestamp_ntz"), moment
                )
                frame = frame.withColumn("at", F.timestamp_micros(since))
            with counton_spark.run(far, frame) as there:
                assert told(there) == expected
        (found,) = verify(str(far.state))
        assert found.right, found
        with suppress(reference.UnreadableError):
            assert state_by_reference(str(far.state))
    assert expected[2][1] > 10


@pytest.mark.parametrize("name", ["hierarchy", "ranges", "contingency"])
def test_tables_once_have_the_bits_of_one_machine(
    name: str, tmp_path: Path, spark: Any, one_key: None
) -> None:
    rows = events()
    times = dict.fromkeys(("time", "every", "start", "windows", "until", "strategy"))
    own: tuple[dict[str, Any], ...] = (
        {},
        {"user": "user", "max_contributions": 2},
        {"row_id": "id"},
    )
    for number, more in enumerate(own):
        asked = job(name, tmp_path, f"here{number}", **times, **more)
        with run(asked.derive(events=rows)) as outcome:
            here = told(outcome)
        asked = asked.derive(state=tmp_path / f"spark{number}.db")
        with counton_spark.run(asked, spread(spark, rows, 1)) as outcome:
            assert told(outcome) == here
        with counton_spark.run(asked, spread(spark, rows, 2)) as outcome:
            assert told(outcome)[-2:] == here[-2:]
            assert outcome.before == 1
        more_rows = rows.vstack(rows.with_columns(id=pl.lit("new")))
        with counton_spark.run(asked, spread(spark, more_rows, 1)) as outcome:
            assert told(outcome)[-2:] == here[-2:]  # the same noise on other rows would tell them


def test_rows_of_any_type_are_read_as_on_one_machine(
    tmp_path: Path, spark: Any, one_key: None
) -> None:
    utc = dt.UTC
    moments = [dt.datetime(2024, 3, day, 23, 30, tzinfo=utc) for day in (1, 2, 2, 5)]
    local = [one.replace(tzinfo=None) for one in moments]
    paid = [Decimal("1.5"), Decimal(2), Decimal(3), Decimal(9)]
    typed = pl.DataFrame(
        {
            "moment": pl.Series(moments, dtype=pl.Datetime("us", "UTC")),
            "local": pl.Series(local, dtype=pl.Datetime("us")),
            "day": [one.date() for one in moments],
            "seconds": [int(one.timestamp()) for one in moments],
            "paid": pl.Series(paid, dtype=pl.Decimal(10, 2)),
            "whole": pl.Series([1, 2, 3, 4], dtype=pl.Int16),
            "page": pl.Series([7, 8, 7, 7], dtype=pl.Int32),
        }
    )
    frame = spark.createDataFrame(typed.to_arrow())
    frame = frame.withColumn("local", frame["local"].cast("timestamp_ntz"))
    assert dict(frame.dtypes)["local"] == "timestamp_ntz"
    assert dict(frame.dtypes)["moment"] == "timestamp"
    values = {"lower": 0, "upper": 9, "resolution": "0.5"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("sum", {"time": "moment", "value": "paid", **values}),
        ("sum", {"time": "local", "value": "whole", **values, "timezone": "Europe/Paris"}),
        ("count", {"time": "day", "group_by": "page", "groups": "7,8"}),
        ("count", {"time": "seconds", "time_format": "epoch"}),
    ]
    for number, (what, own) in enumerate(cases):
        asked = {"every": "1d", "start": "2024-03-01", "windows": 9, "until": "latest-event", **own}
        here = Job(what, typed, tmp_path / f"{number}.db", epsilon=1, **asked)
        with run(here) as outcome:
            expected = told(outcome)
        there = here.derive(state=tmp_path / f"{number} there.db", events="-")
        with counton_spark.run(there, frame.repartition(3)) as outcome:
            assert told(outcome) == expected


def refused(asked: Job, frame: Any, *parts: str) -> None:
    with pytest.raises(CountonError) as caught:
        counton_spark.run(asked, frame)
    for part in parts:
        assert part in str(caught.value)
    assert not Path(str(asked.state)).exists()


def test_rows_that_cannot_be_counted_are_refused_by_name(tmp_path: Path, spark: Any) -> None:
    rows = events(rows=40)
    nan = float("nan")
    bad = {"at": ["never", None, "2024-03-02"], "page": ["a", "b", "?"], "paid": [1.0, 2.0, nan]}
    frame = spread(spark, pl.concat([rows, pl.DataFrame(bad)], how="diagonal"), 3)
    asked = job("groups", tmp_path)
    average = job("average", tmp_path)
    late: dict[str, Any] = {
        "bad_rows": f"quarantine:{tmp_path / 'bad.csv'}",
        "missing_values": "drop",
    }
    refused(asked, frame, "a row of the data frame has", "(1 more has another problem)")
    unread = "a row of the data frame has a time that cannot be read in column 'at' ('never'); "
    refused(asked.derive(missing_values="drop"), frame, unread)
    undeclared = "groups in column 'page' that are not listed: '?'; correct"
    refused(asked.derive(**late), frame, undeclared)
    refused(asked.derive(**late, max_bad_rows=0), frame, "More than 0 rows of the data frame")
    refused(average.derive(**late, max_bad_rows=1), frame, "More than 1 rows")
    with counton_spark.run(asked.derive(**late, unlisted_groups="drop"), frame) as outcome:
        found = counts_of(outcome)
        assert (found.rows, found.skipped, found.quarantined, found.unlisted) == (43, 1, 1, 1)
    assert (tmp_path / "bad.csv").read_text().splitlines() == [
        "file,row,problem,at,page",
        "the data frame,,a time that cannot be read,never,a",
    ]


def test_new_stream_warns_of_left_out_groups(tmp_path: Path, spark: Any) -> None:
    frame = spread(spark, events(rows=60), 1)
    asked = job("groups", tmp_path, user="user", max_contributions=1, contribution_period="1d")
    with pytest.warns(JobWarning, match="the numbers of the other groups are too low"):
        counton_spark.run(asked, frame).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", JobWarning)
        counton_spark.run(asked, frame).close()


def test_labels_that_are_not_declared_are_refused_by_name(tmp_path: Path, spark: Any) -> None:
    asked = job("ranges", tmp_path, groups="a,b")
    refused(asked, spread(spark, events(rows=60), 1), "rows of 'page' that are not listed: '")


def test_spark_run_refuses_unsupported_options(tmp_path: Path, spark: Any) -> None:
    rows = events(rows=20)
    frame = spread(spark, rows, 1)
    asked = job("groups", tmp_path)
    refused(asked.derive(time="when"), frame, "has no column 'when'. Its columns are at, page")
    refused(
        asked.derive(group_by="paid"),
        frame,
        "holds Float64, and one such number can be written as several texts",
    )
    refused(asked.derive(time="paid"), frame, "holds Float64, not times")
    with pytest.raises(InvalidInputError, match="there is no statistic 'episodes'"):
        counton_spark.run(asked.derive(what="episodes"), frame)
    refused(asked.derive(time=None), frame, "a new stream of count needs time")
    refused(asked, rows, "is not a Spark frame")
    with pytest.raises(InvalidInputError, match="checkpoint and trigger"):
        counton_spark.run(asked, frame, checkpoint="here")
    twice = frame.withColumn("other", F.col("at")).toDF(*frame.columns, "page")
    refused(asked, twice, "has two columns 'page'")
    lists = frame.selectExpr("at", "array(page) as page")
    refused(asked, lists, "holds List(String), and only text")
    huge = spark.range(10**7).selectExpr("date'2024-03-01' as at", "1e6 as paid")
    with pytest.raises(SumOverflowError, match=r"add up to 1e\+19"):  # which int64 does not hold
        counton_spark.run(
            job("average", tmp_path, upper=10**6, resolution="1e-6", strategy=None), huge
        )


def test_names_of_columns_may_hold_any_sign_and_case(
    tmp_path: Path, spark: Any, one_key: None
) -> None:
    rows = (
        events(rows=50)
        .rename({"page": "the.page `of` it", "at": "AT"})
        .with_columns(at=pl.lit("?"))
    )
    asked = job("groups", tmp_path, group_by="the.page `of` it", time="AT", unlisted_groups="drop")
    with run(asked.derive(events=rows, state=tmp_path / "here.db")) as outcome:
        expected = told(outcome)
    frame = spread(spark, rows, 1)
    names = frame.columns
    frame = frame.toDF(*map(str, range(len(names))))
    page = str(names.index("the.page `of` it"))
    frame = frame.withColumn(page, F.collate(page, "UTF8_LCASE")).toDF(*names)
    with counton_spark.run(asked, frame) as outcome:
        assert told(outcome) == expected


def test_frame_changed_between_passes_is_refused(tmp_path: Path, spark: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows")
        spread(spark, events(rows=40), 1).write.parquet(str(path))
        other = F.udf(lambda: secrets.token_hex(8)).asNondeterministic()
        frame = spark.read.parquet(str(path)).withColumn("user", other())
        twice = job("found of people", tmp_path)
        refused(twice, frame, "changed while it was read", "cache() it")
        with counton_spark.run(twice, frame.cache()) as outcome:
            assert counts_of(outcome).rows == 40
        once = job("people", tmp_path, "once")  # whose rows are read once
        with counton_spark.run(once, frame) as outcome:
            assert counts_of(outcome).rows == 40


def test_rows_with_missing_values_are_dropped_before_quarantine(
    tmp_path: Path, spark: Any, one_key: None
) -> None:
    rows = events(rows=20)
    lacking = pl.concat([rows, rows.head(1).with_columns(at=pl.lit(None, pl.String))])
    aside = tmp_path / "bad.csv"
    asked = job("groups", tmp_path, missing_values="drop", bad_rows=f"quarantine:{aside}")
    with run(asked.derive(events=lacking, state=tmp_path / "here.db")) as outcome:
        expected = told(outcome)
        written = aside.read_text()
    with counton_spark.run(asked, spread(spark, lacking, 2)) as outcome:
        assert told(outcome) == expected
    assert aside.read_text() == written


def test_count_above_bound_is_quarantined_as_on_one_machine(
    tmp_path: Path, spark: Any, one_key: None
) -> None:
    aside = tmp_path / "bad.csv"
    counts = [3, 2**50 + 1, 2**51, 2**53 + 1]
    rows = pl.DataFrame({"at": ["2024-03-01T00:10"] * 4, "n": counts})
    asked = Job(
        "count", "-", tmp_path / "s.db", time="at", every="1d", start="2024-03-01", windows=3,
        until="2024-03-02", epsilon=500, privacy_unit="event", count_column="n",
        allow_empty_windows=True,
        bad_rows=f"quarantine:{aside}",
    )  # fmt: skip
    with run(asked.derive(events=rows, state=tmp_path / "here.db")) as outcome:
        expected = told(outcome)
        assert counts_of(outcome).quarantined == 2
    for seed in range(3):
        with counton_spark.run(
            asked.derive(state=tmp_path / f"{seed}.db"), spread(spark, rows, seed)
        ) as outcome:
            assert told(outcome) == expected


def test_groups_of_two_columns_are_refused_by_name(tmp_path: Path, spark: Any) -> None:
    asked = job("two columns", tmp_path, unlisted_groups="error")
    frame = spread(spark, events(rows=40), 2)
    refused(asked, frame, "groups in column 'page,place' that are not listed: 'd / ")
    lacking = pl.concat(
        [events(rows=9), events(rows=1).with_columns(place=pl.lit(None, pl.String))]
    )
    asked = job("two columns", tmp_path, unlisted_groups="error")
    refused(asked, spread(spark, lacking, 1), "no group in column 'page,place'")


def test_executor_errors_quote_no_row() -> None:
    from counton.spark.source import _guard

    def made(batches: Any) -> Any:
        yield from ()
        raise ValueError("Mrs Aldous cannot be a number")

    with pytest.raises(InvalidInputError, match=r"on an executor \(ValueError\)") as raised:
        list(_guard(made, ()))
    assert "Aldous" not in "".join(format_exception(raised.value))


def test_the_same_rows_again_are_known_in_any_order(tmp_path: Path, spark: Any) -> None:
    rows = events(rows=60)
    asked = job("groups", tmp_path, append=True)
    with counton_spark.run(asked, spread(spark, rows, 1)) as outcome:
        before = told(outcome)
    with counton_spark.run(asked, spread(spark, rows, 2)) as outcome:
        assert outcome.is_duplicate_input
        assert told(outcome)[3] == before[3]
    with counton_spark.run(asked, spread(spark, rows.head(59), 3)) as outcome:
        # Of a row less these are other rows, and each of them counts.
        assert not outcome.is_duplicate_input


def test_spark_refuses_no_rows_and_accepts_empty_parts(tmp_path: Path, spark: Any) -> None:
    frame = spread(spark, events(rows=5), 1)
    refused(job("groups", tmp_path), frame.limit(0), "There are no rows")
    with counton_spark.run(job("groups", tmp_path), frame.repartition(20)) as outcome:
        assert counts_of(outcome).rows == 5


def test_executors_and_logs_know_no_secret(
    tmp_path: Path, spark: Any, events_logged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bytes] = []
    token = secrets.token_bytes

    def noted(size: int | None = None) -> bytes:
        drawn.append(token(size))
        return drawn[-1]

    monkeypatch.setattr("secrets.token_bytes", noted)
    with counton_spark.run(job("people", tmp_path), spread(spark, events(rows=50), 1)) as outcome:
        assert outcome.after
    key = (tmp_path / "s.db.key").read_text()
    assert len(drawn) >= 2  # the key's and the digests'
    texts = [one.hex() for one in drawn] + [line for line in key.split() if len(line) > 20]
    texts += [base64.b64encode(one).decode().rstrip("=") for one in drawn]
    texts += [base64.urlsafe_b64encode(one).decode().rstrip("=") for one in drawn]
    logged = b"".join(path.read_bytes() for path in events_logged.iterdir())
    assert b"SparkListenerJobStart" in logged
    for secret in [*drawn, *(text.encode() for text in texts)]:
        assert secret not in logged


def test_a_statistic_of_another_package_gives_the_same_bits(
    tmp_path: Path, spark: Any, one_key: None
) -> None:
    rows = events(rows=200)
    with installed(tmp_path) as package:
        spark.sparkContext.addPyFile(str(package / "counton_above.py"))  # as on all executors
        stream: dict[str, Any] = {
            "time": "at", "every": "1d", "start": "2024-03-01", "windows": 20, "epsilon": 1,
        }  # fmt: skip
        own: dict[str, Any] = {
            "group_by": "page", "groups": ",".join(PAGES), "value": "paid", "threshold": 5,
        }  # fmt: skip
        asked = Job("above", rows, tmp_path / "a.db", until="latest-event", **stream, **own)
        with run(asked) as outcome:
            expected = told(outcome)
        there = asked.derive(state=tmp_path / "b.db", events="-")
        with counton_spark.run(there, spread(spark, rows, 4)) as outcome:
            assert told(outcome) == expected


def test_frame_with_hole_is_refused_as_on_one_machine(
    tmp_path: Path, spark: Any, one_key: None
) -> None:
    """A day that is due without a row, and an open day that loses most of its rows."""
    asked = Job(
        "count", "-", tmp_path / "s.db", time="at", every="1d", start="2024-03-01", lookback="7d",
        allowed_lateness="3d", epsilon=10**6,
    )  # fmt: skip
    days = [f"2024-03-0{day}T12:00" for day in range(1, 7) for _ in range(20)]
    rows = pl.DataFrame({"at": days})
    with counton_spark.run(
        asked.derive(until="2024-03-05"), spread(spark, rows.head(80), 1)
    ) as one:
        assert one.after == 4
    later = asked.derive(until="2024-03-07")
    for holed, words in (
        (rows.filter(pl.col("at") != "2024-03-05T12:00"), "has no row of 5 March 2024"),
        (rows.tail(40), r"4 March 2024 \(0, before 20\)"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            counton_spark.run(later, spread(spark, holed, 2))
    with counton_spark.run(later, spread(spark, rows, 3)) as outcome:
        estimates = outcome.read().numbers.series.released.estimates
    assert estimates.round().ravel().tolist() == [20] * 6
