"""The job without the command line: Python values in, released tables out."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from calls import calls_of
from click.testing import CliRunner
from once import kept_line
from run_results import design_of

from counton import PureDP, release
from counton.base.errors import BudgetExceededError, StateError
from counton.cli.app import app
from counton.cli.statistic_run import run_and_report
from counton.continual import design
from counton.job.job_file import load
from counton.results.charts import totals_curves
from counton.results.released_table import lazy_table
from counton.run import Job, planned_jobs, run
from counton.run.opened_state import OpenedState
from counton.run.prepared_run import prepare
from counton.run.rows.read_rows import read_rows
from counton.run.run_job import commit, decide
from counton.state import Store, Stream
from counton.state.database import Database

ROWS = ["00:10,a,2.5", "00:20,b,1", "01:10,a,3", "03:30,a,10"]


@pytest.fixture
def request_(tmp_path: Path) -> Job:
    events = tmp_path / "e.csv"
    write(events, ROWS)
    return Job(
        what="count",
        events=events,
        state=tmp_path / "state.db",
        time="time",
        every="1h",
        group_by="group",
        groups="a,b",
        start="2013-01-01",
        windows=6,
        until="latest-event",
        epsilon=Fraction(1000),  # noise that is 0 almost surely
    )


def write(path: Path, rows: list[str]) -> None:
    lines = "".join(f"2013-01-01T{row}\n" for row in rows)
    path.write_text(f"time,group,value\n{lines}")


def test_job_accepts_numbers_of_python(request_: Job) -> None:
    bounds = {"value": "value", "lower": 0, "upper": 5, "resolution": 0.5}
    with run(request_.derive(what="sum", **bounds)) as outcome:
        assert outcome.read().numbers.series.released.estimates[-1].tolist() == [5.5, 1.0]
    expiring = request_.derive(stream="forever", expiring=True, expiration_growth=0, windows=None)
    with run(expiring) as outcome:
        assert outcome.spec.metadata().strategy.parameters["growth"] == "0"


def test_lower_bound_of_zero_contradicts_stream(request_: Job) -> None:
    bounds = {"value": "value", "lower": 1, "upper": 5, "resolution": 1}
    first = request_.derive(what="average", stream="a", group_by=None, groups=None, **bounds)
    run(first).close()
    again = Job("average", request_.events, request_.state, stream="a", until="2013-01-01T06:00")
    with pytest.raises(StateError, match="lower"):
        run(again.derive(lower=0))
    with run(again) as outcome:
        assert (outcome.before, outcome.after) == (3, 6)


def test_totals_with_release_delay_have_times_of_window_ends(request_: Job) -> None:
    forever = request_.derive(expiring=True, windows=None)
    with run(forever) as outcome, run(forever.derive(stream="late", expiration_delay=1)) as late:
        now = outcome.read()
        then = late.read()
    assert (totals_curves(then.numbers).times == totals_curves(now.numbers).times[:-1]).all()
    assert (
        totals_curves(then.numbers).estimates == totals_curves(now.numbers).estimates[:-1]
    ).all()
    assert "counted_until" not in now.table().columns
    assert then.table()["counted_until"].to_list()[2:] == now.table()["window_end"].to_list()[:-2]


def test_run_reports_progress_of_stages(request_: Job) -> None:
    heard: list[tuple[str, float]] = []
    run(request_, lambda stage, share: heard.append((stage, share))).close()
    assert [stage for stage, _ in heard] == [
        "choosing a strategy", "reading rows", "releasing", "reading the journal",
    ]  # fmt: skip
    assert [share for _, share in heard] == sorted(share for _, share in heard)


def test_run_in_parts_creates_no_state_before_commit(request_: Job) -> None:
    with OpenedState(request_) as state:
        prepared = prepare(request_, state, None, datetime.now(UTC))
        rows = read_rows(prepared)
        ended = decide(prepared, rows)
        assert not Path(str(request_.state)).exists()
        with commit(prepared, rows, ended) as committed:
            assert committed.stream.step == ended.last == 3
    with run(request_) as again:
        assert (again.before, again.after) == (3, 3)


def test_jobs_need_no_package_of_the_command_line() -> None:
    program = (
        "import sys\n"
        "sys.modules['click'] = sys.modules['rich'] = sys.modules['matplotlib'] = None\n"
        "import counton.run"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def by_run(job: Job) -> None:
    with run(job) as outcome:
        outcome.read().table()


def by_release(job: Job) -> None:
    release("count", job.events, state=job.state, until=job.until).table()


def by_command(job: Job) -> None:
    run_and_report(job, is_silent=True)


@pytest.mark.parametrize("door", [by_run, by_release, by_command])
def test_second_run_opens_state_once_and_parses_terms_once(
    door: Callable[[Job], None], request_: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(request_).close()
    design._rebuilt.cache_clear()
    opened = calls_of(monkeypatch, Database, "_look_at_format")
    rebuilt = calls_of(monkeypatch, design, "strategy_from_dict")
    door(Job("count", request_.events, request_.state, until="latest-event"))
    assert (len(opened), len(rebuilt)) == (1, 1)


def test_job_file_opens_state_once_before_and_per_job(
    request_: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What all streams remember, the limit and the witness are asked of one open state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    file = tmp_path / "nightly.toml"
    file.write_text(
        f"""
        [defaults]
        events = "{request_.events}"
        state = "{request_.state}"
        time = "time"
        every = "1h"
        start = "2013-01-01"
        windows = 48
        epsilon = 1
        [jobs.one]
        [jobs.two]
        """
    )
    with Store(str(request_.state), create=True) as store:
        store.set_budget(PureDP(2))

    def run_night(until: str) -> None:
        words = ["run", str(file), "--until", until]
        done = CliRunner().invoke(app, words, prog_name="counton")
        assert done.exit_code == 0, done.output

    run_night("2013-01-01T02:00")
    opened = calls_of(monkeypatch, Database, "_look_at_format")
    run_night("2013-01-01T03:00")
    assert len(opened) == 1 + 2
    opened.clear()
    planned_jobs(load(file))
    assert len(opened) == 1 + 2


def test_refused_run_leaves_stream_to_its_writer(request_: Job) -> None:
    run(request_).close()
    with Stream.open(str(request_.state), "count") as stream:
        with pytest.raises(StateError, match=r"every .here 2h, there 1h."):
            run(request_.derive(every="2h"))
        stream.release_many([[0, 0]])


def test_units_of_jobs_and_of_the_library_are_one(request_: Job) -> None:
    """The rows of a job are called events; whoever says nothing afterwards means them."""
    with Store(str(request_.state), create=True) as store:
        store.set_budget(PureDP(1))
    run(request_.derive(epsilon=1)).close()
    with pytest.raises(BudgetExceededError, match="one event"):
        kept_line([1, 2, 3], request_.state)
    other = request_.derive(stream="b", epsilon="0.1")
    for unit in (None, "unit", " event"):
        with pytest.raises(BudgetExceededError, match="one event"):
            run(other.derive(privacy_unit=unit))
    with Store(str(request_.state)) as store:
        store.set_budget(PureDP(2), allow_raise=True)
    with run(other.derive(privacy_unit=" event ")) as outcome:
        assert (
            outcome.spec.metadata().privacy_unit == design_of(outcome).contribution.unit == "event"
        )
    run(other.derive(privacy_unit="event\n")).close()


def test_table_computed_in_parts_equals_table_at_once(
    request_: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counton.run.outputs.output_files import write_table

    with run(request_.derive(series="both")) as outcome:
        released = outcome.read()
    for part in (released, released.only(range(2, 4)), released.only(groups=["b"])):
        monkeypatch.undo()
        whole = part.table()
        monkeypatch.setattr("counton.results.released_table._ROWS_AT_A_TIME", 1)
        assert part.table().equals(whole)
        assert lazy_table(part.numbers).collect().equals(whole)
        two_rows = lazy_table(part.numbers).select("group", "noise_std").head(2).collect()
        assert two_rows.height == min(2, whole.height)
        assert (
            lazy_table(part.numbers)
            .filter(pl.col("window_index") == 3)
            .collect()
            .equals(whole.filter(window_index=3))
        )
        for kind in ("parquet", "csv", "json"):
            write_table(lazy_table(part.numbers), tmp_path / f"parts.{kind}")
            write_table(whole, tmp_path / f"whole.{kind}")
            one, two = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("parts", "whole"))
            if kind == "parquet":
                assert pl.read_parquet(one).equals(pl.read_parquet(two))
            else:
                assert one == two
