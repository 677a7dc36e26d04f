"""What numbers leave out besides noise, and that every door says it: statistics times options."""

import json
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from in_turn import in_turn
from run_results import counts_of

from counton import read
from counton.cli.app import app
from counton.job.saved_job import stream_name
from counton.results.metadata import ReleaseMetadata
from counton.results.metadata_codec import guarantee_of_stream
from counton.results.systematic_errors import systematic_errors, what_intervals_leave_out
from counton.results.terminal import screen_of
from counton.run import Job, export, run
from counton.run.outputs.output_files import write_release
from counton.run.spec.plan_spec import plan_spec
from counton.serve.public_series import Journal
from counton.state import Store

LATE = "rows that arrive after their day was released are counted in a later day, or not at all"
CLOSED = "rows that arrive after their day was released are not counted"
CLIPPED = (
    "values{} outside 0 to 60 are counted as the nearer bound, which biases {} by an unknown amount"
)
ENDS = (
    "values outside 0 to 60 are counted at the nearer end, so that quantiles outside this range "
    "are shown at its ends"
)
VALUE: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 60, "resolution": 1}
REPORT: dict[str, Any] = {
    "rows": {"statistic": "count"},
    "paid": {"statistic": "average", **VALUE},
    "spread": {"statistic": "quantiles", "value": "paid", "edges": "0,30,60"},
}
#: Statistics by what is asked, and the lines that are their own.
STATISTICS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "count": ({}, ()),
    "sum": (VALUE, (CLIPPED.format("", "the sum"),)),
    "average": (VALUE, (CLIPPED.format("", "the average"),)),
    "quantiles": (
        {"value": "paid", "edges": "0,30,60"},
        (ENDS,),
    ),
    "moments": (
        {"columns": "paid", "bounds": "0:60"},
        (CLIPPED.format(" of paid", "means and variances"),),
    ),
    "report": (
        {"statistics": REPORT},
        (
            f"paid: {CLIPPED.format('', 'the average')}",
            f"spread: {ENDS}",
        ),
    ),
    "contingency": ({"columns": "branch", "groups": "branch=north,south"}, ()),
}
#: Options by name, what each adds to a job, and whose rows it leaves out.
OPTIONS: dict[str, dict[str, Any]] = {
    "events": {},
    "ids": {"row_id": "row"},
    "people": {"user": "reader", "max_contributions": 2},
    "people of weeks": {"user": "reader", "max_contributions": 2, "contribution_period": "1w"},
    "people of days": {"user": "reader", "max_contributions": 2, "contribution_period": "1d"},
    "skipping": {"row_id": "row", "missing_values": "drop"},
    "setting aside": {"row_id": "row", "bad_rows": "quarantine:{folder}/aside.csv"},
    "revised": {"allowed_lateness": "2d", "windows": None, "row_id": "row"},
}
DROPS: dict[str, Any] = {"group_by": "branch", "groups": "north,south", "unlisted_groups": "drop"}
NOT_COUNTED = "are not counted, which biases numbers by an unknown amount"
ASIDE = f"rows that cannot be read {NOT_COUNTED}"
DROPPED = f"rows of undeclared groups {NOT_COUNTED}"
ROWS = pl.DataFrame(
    {
        "time": [datetime(2024, 3, 1) + timedelta(hours=5 * n) for n in range(40)],
        "branch": [("north", "south", "west")[n % 3] for n in range(40)],
        "paid": [3 * n - 9 for n in range(40)],
        "reader": [f"u{n % 5}" for n in range(40)],
        "row": [f"r{n}" for n in range(40)],
    }
)


def job(folder: Path, what: str, options: dict[str, Any], rows: pl.DataFrame = ROWS) -> Job:
    events = folder / "events.parquet"
    own = {**STATISTICS[what][0], **options}
    rows.write_parquet(events)
    if "bad_rows" in own:
        own["bad_rows"] = own["bad_rows"].format(folder=folder)
    return Job(
        what, events, folder / "s.db", time="time", every="1d", start="2024-03-01", windows=20,
        until="2024-03-08", epsilon=1, stream="it",
    ).derive(**own)  # fmt: skip


def expected(what: str, option: str, *, dropped: bool) -> list[str]:
    """The lines, written down once more from what was asked."""
    last_day = (
        "ended at least 35 days (840 hours) "
        "before the end of the last day that earlier runs released"
    )
    old = f" if their UTC day {last_day}"
    late = {
        "people": "",
        "ids": old,
        "setting aside": old,
        "skipping": old,
        "people of weeks": f" if their user's week {last_day}",
        "people of days": f" if their user's day {last_day}",
    }
    late = {name: LATE + end for name, end in late.items()}
    lines = [late.get(option, CLOSED)]  # whole files
    if option == "revised":
        lines = [
            "rows that arrive after their day became final are not counted; earlier late rows are "
            "added to their day, whose number is provisional for 2 more days"
        ]
    if option == "skipping":
        read = "time or row" if what == "count" else "time, paid or row"
        lines.append(f"rows without {read} {NOT_COUNTED}")
    if option == "setting aside":
        lines.append(ASIDE)
    if option.startswith("people"):
        unit = "user" + option.removeprefix("people of ").removesuffix("s").join(["'s ", ""]) * (
            " of " in option
        )
        low = what in ("count", "sum", "contingency")
        bias = "too low" if low else "biased"
        order = ", most of all in late days, because early rows count first"
        lines.append(
            f"rows beyond 2 of each {unit} are not counted, so that numbers are {bias} by an "
            "unknown amount" + order * (option != "people of days")
        )
    if what == "count" and option.startswith("people") and dropped:
        places = {"people": "in all", "people of weeks": "in each week"}
        place = places.get(option, "in each day")
        lines.append(
            f"users with several rows are counted up to 2 times {place}, in one group or in several"
        )
    lines += STATISTICS[what][1]
    return [*lines, *([DROPPED] if dropped else [])]


def cases() -> list[Any]:
    found = []
    for what, option in product(STATISTICS, OPTIONS):
        if what in ("contingency", "report", "moments") and option in (
            "ids",
            "skipping",
            "setting aside",
            "revised",
        ):
            continue  # once is enough: ids are of rows, whatever is counted
        grouped = [False] if what in ("contingency", "report") else [False, True]
        found += [
            pytest.param(what, option, drops, id=f"{what}, {option}, {drops}") for drops in grouped
        ]
    return found


# Cases without and with groups alternate, so every second case would never have groups.
@pytest.mark.parametrize(("what", "option", "drops"), in_turn(cases(), 3))
def test_description_states_systematic_errors(
    what: str, option: str, drops: bool, tmp_path: Path
) -> None:
    more = DROPS if drops else {"unlisted_groups": "drop"} if what == "contingency" else {}
    asked = job(tmp_path, what, {**OPTIONS[option], **more})
    with run(asked) as outcome:
        definition = outcome.spec.metadata()
        design = outcome.read().numbers.design
        lines = systematic_errors(definition)
    assert lines == expected(what, option, dropped=bool(more))
    # Of the public description alone, and the same whatever the rows are.
    told = json.loads(json.dumps(definition.public()))
    assert systematic_errors(ReleaseMetadata.of(design, told)) == lines
    other = tmp_path / "other"
    other.mkdir()
    rows = ROWS.with_columns(paid=pl.lit(5), reader=pl.col("row"), branch=pl.lit("north"))
    with run(job(other, what, {**OPTIONS[option], **more}, rows)) as outcome:
        assert systematic_errors(outcome.spec.metadata()) == lines


PEOPLE: dict[str, Any] = {"user": "reader", "max_contributions": 2, "missing_values": "drop"}


@pytest.mark.parametrize(
    ("what", "more"),
    [
        (what, PEOPLE | ({"unlisted_groups": "drop"} if what == "contingency" else {}))
        for what in STATISTICS
    ]
    + [("sum", PEOPLE | {"group_by": "branch", "groups": "north,south,west"}),
       ("sum", PEOPLE | {"group_by": "branch", "groups": "north,south", "other_group": "others"}),
       ("count", PEOPLE | DROPS)],
)  # fmt: skip
def test_systematic_errors_name_columns_with_missing_values(
    what: str, more: dict[str, Any], tmp_path: Path
) -> None:
    """One row lacks a value of each column in turn; whether it does, no line tells."""
    rows = ROWS.with_columns(branch=pl.lit("north"))
    told = set[tuple[str, ...]]()
    left_out = []
    for column in rows.columns:
        place = tmp_path / column
        place.mkdir()
        lacks = pl.int_range(pl.len()) == 0
        one = rows.with_columns(pl.when(~lacks).then(column).alias(column))
        with run(job(place, what, more, one)) as outcome:
            told.add(outcome.spec.metadata().left_out.skips)
            left_out += [column] * counts_of(outcome).skipped
            said = f"rows without {', '.join(outcome.spec.metadata().left_out.skips)}"
            assert " or ".join(said.rsplit(", ", 1)) in " ".join(
                systematic_errors(outcome.spec.metadata())
            )
    [named] = told
    assert sorted(named) == sorted(left_out)


@pytest.mark.parametrize(
    ("options", "way", "line"),
    [
        (
            {"user": "reader", "max_contributions": 2},
            {"missing_values": "drop"},
            f"rows without time or reader {NOT_COUNTED}",
        ),
        ({"row_id": "row"}, {"bad_rows": "quarantine:{folder}/aside.csv"}, ASIDE),
    ],
    ids=["skipped", "set aside"],
)
def test_dropped_rows_of_earlier_run_remain_systematic_error(
    options: dict[str, Any], way: dict[str, str], line: str, tmp_path: Path
) -> None:
    """A stream whose jobs refuse such rows says nothing; one that once did not says it.

    Whether or not such a row came.
    """
    asked = job(tmp_path, "count", options)
    [(name, other)] = way.items()
    for until, how in (("02", "fail"), ("03", other.format(folder=tmp_path)), ("04", "fail")):
        with run(asked.derive(until=f"2024-03-{until}", **{name: how})) as outcome:
            assert counts_of(outcome).quarantined == 0
            assert (line in systematic_errors(outcome.spec.metadata())) == (until != "02")


def test_rows_skipped_and_rows_set_aside_share_a_line(tmp_path: Path) -> None:
    options = {"missing_values": "drop", "bad_rows": "quarantine:{folder}/aside.csv"}
    with run(job(tmp_path, "count", options)) as outcome:
        (_, line) = systematic_errors(outcome.spec.metadata())
    assert line == f"rows that cannot be read or have no time {NOT_COUNTED}"


def shown(path: object) -> str:
    done = CliRunner().invoke(app, ["methods", str(path), "--full"], prog_name="counton")
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize(
    ("what", "option"),
    [
        *((one, "people of weeks") for one in STATISTICS),
        ("sum", "revised"),
        ("count", "setting aside"),
    ],
)
def test_systematic_errors_are_same_in_every_output(what: str, option: str, tmp_path: Path) -> None:
    """Screen, description, chart, text for a publication, whole account, file, page, command."""
    more = {"unlisted_groups": "drop"} if what == "contingency" else {}
    asked = job(tmp_path, what, OPTIONS[option] | more)
    with run(asked) as outcome:
        released = outcome.read()
        lines = systematic_errors(outcome.spec.metadata())
        notes = screen_of(released.numbers).notes
        screen = [note for note in notes if "Not covered: " in note]
        figures = released.figures().values() if released.numbers.is_drawable else ()
        drawn = [[one.get_text() for one in each.texts] for each in figures][:1]
        file = tmp_path / "t.csv"
        write_release(released.numbers, file)
        texts = [released.describe(), released.methods(), released.methods(full=True)]
    again = read(file)
    with Store(str(asked.state)) as store:
        page = Journal(store, stream_name(asked)).describe()["systematic_errors"]
    texts += [*map(" ".join, drawn), shown(asked.state), shown(file)]
    texts += [again.describe(), again.methods(), export(str(asked.state)).describe()]
    for line, text in product(lines, texts):
        assert line in " ".join(text.split()), text
    assert len(lines) > 1 or what == "sum"
    counted = "by the time of each row, for 2d" if option == "revised" else "by arrival"
    assert guarantee_of_stream(again.numbers)["counted"] == counted
    assert str(again).count("Not covered: ") == len(screen) == 1
    subjects = screen[0].partition("Not covered: ")[2].removesuffix(".").split("; ")
    assert len(subjects) == len(lines)
    for subject, line in zip(subjects, lines, strict=True):
        noun, _, remark = subject.partition(", which ")
        assert line.startswith(noun)
        later = (
            "count in a later day, or not at all",
            "count in a later day, or not at all if they are old",
        )
        assert remark in ("", *later)
        assert remark.endswith("old") == ("or not at all if" in line)
        assert subject in str(again)
    assert (
        guarantee_of_stream(again.numbers)["systematic_errors"]
        == guarantee_of_stream(released.numbers)["systematic_errors"]
        == page
        == lines
    )


@pytest.mark.parametrize("option", ["revised", "revised snapshots"])
def test_screen_of_revised_windows_excludes_rows_of_final_ones_alone(
    option: str, tmp_path: Path
) -> None:
    """Late rows of provisional days are added to them, so intervals cover them."""
    options = dict(OPTIONS["revised"])
    subject = "rows that arrive after their day became final"
    if option == "revised snapshots":
        del options["row_id"]
        subject = "rows that arrive, change or disappear after their day became final"
    metadata = plan_spec(job(tmp_path, "count", options)).metadata()
    assert what_intervals_leave_out(metadata) == [subject]


def test_dropped_groups_of_earlier_run_remain_systematic_error(tmp_path: Path) -> None:
    """What it released lacks rows for ever, whatever the next job does with such rows."""
    asked = job(tmp_path, "count", DROPS)
    with run(asked) as outcome:
        assert DROPPED in systematic_errors(outcome.spec.metadata())
    ROWS.filter(pl.col("branch") != "west").write_parquet(tmp_path / "events.parquet")
    later = asked.derive(unlisted_groups="error", until="2024-03-09")
    with run(later) as outcome:
        assert outcome.after == 8
        assert DROPPED in systematic_errors(outcome.spec.metadata())


DISTINCT: dict[str, Any] = {"user": "reader", "max_contributions": 1, "contribution_period": "1d"}
MORE_THAN_ONCE = "users with late rows may be counted more than once in this later day"


@pytest.mark.parametrize(
    ("options", "may_count_again"),
    [
        ({"series": "per-window"}, True),
        ({"series": "both"}, True),
        ({"series": "cumulative"}, False),
        ({"series": "per-window", "max_contributions": 2}, False),
        ({"series": "per-window", "allowed_lateness": "2d", "windows": None}, False),
    ],
)
def test_late_users_of_distinct_counts_may_count_more_than_once(
    options: dict[str, Any], may_count_again: bool, tmp_path: Path
) -> None:
    metadata = plan_spec(job(tmp_path, "count", {**DISTINCT, **options})).metadata()
    assert (MORE_THAN_ONCE in systematic_errors(metadata)) == may_count_again
    brief = what_intervals_leave_out(metadata)[0]
    assert ("(where one user may count more than once)" in brief) == may_count_again
    assert ("or not at all if they are old" in brief) == ("allowed_lateness" not in options)


def test_texts_name_users_by_their_stated_word(tmp_path: Path) -> None:
    options = {**DISTINCT, "series": "per-window", "privacy_unit": "student"}
    metadata = plan_spec(job(tmp_path, "count", options)).metadata()
    texts = [*systematic_errors(metadata), *what_intervals_leave_out(metadata)]
    assert "students with late rows may be counted more than once in this later day" in texts
    assert not [text for text in texts if "user" in text]


def test_late_user_counts_twice_in_later_window(tmp_path: Path) -> None:
    exact = {**DISTINCT, "series": "per-window", "epsilon": 200}
    rows = pl.DataFrame({"time": [datetime(2024, 3, 1)], "reader": ["ann"]})
    first = job(tmp_path, "count", {**exact, "until": "2024-03-03"}, rows)
    run(first).close()
    more = pl.DataFrame(
        {"time": [datetime(2024, 3, 2), datetime(2024, 3, 3)], "reader": ["bob", "bob"]}
    )
    second = job(tmp_path, "count", {**exact, "until": "2024-03-04"}, pl.concat([rows, more]))
    with run(second) as outcome:
        assert outcome.read().table()["estimate"].to_list() == [1, 0, 2]


@pytest.mark.parametrize(
    ("options", "last_uncounted", "whose"),
    [
        pytest.param(DISTINCT, "2023-10-26", "user's day", id="days"),
        # The week of 23 October ends on 30 October, which is later than 35 days before.
        pytest.param({**DISTINCT, "contribution_period": "1w"}, "2023-10-22", "user's week",
                     id="weeks"),
        pytest.param({"row_id": "row"}, "2023-10-26", "UTC day", id="ids"),
        pytest.param({**DISTINCT, "contribution_period": "1w", "row_id": "row"}, "2023-10-26",
                     "UTC day or user's week", id="ids and weeks"),
    ],
)  # fmt: skip
def test_too_old_rows_end_35_days_before_last_day_of_earlier_runs(
    options: dict[str, Any], last_uncounted: str, whose: str, tmp_path: Path
) -> None:
    """Days up to 30 November are released: 35 days before their end, 26 October ended.

    The run that brings the late rows releases three days more, which changes nothing.
    """
    days = ["2023-10-22", "2023-10-23", "2023-10-26", "2023-10-27", "2023-11-30"]
    rows = pl.DataFrame(
        {
            "time": [datetime.fromisoformat(f"{day}T23:59:59") for day in days],
            "reader": days,
            "row": days,
        }
    )
    common: dict[str, Any] = {
        **options, "start": "2023-10-01", "windows": 80, "series": "per-window", "epsilon": 200,
        "allow_empty_windows": True,
    }  # fmt: skip
    before = rows.filter(pl.col("row") == "2023-11-30")
    first = job(tmp_path, "count", {**common, "until": "2023-12-01"}, before)
    run(first).close()
    with run(job(tmp_path, "count", {**common, "until": "2023-12-04"}, rows)) as outcome:
        counted = outcome.read().table()["estimate"].to_list()[-3:]
        published = systematic_errors(outcome.spec.metadata())[0]
        n_too_old = outcome.confidential_counts().input.choice.after_final
    too_old = [day for day in days if day <= last_uncounted]
    assert counted == [len(days) - 1 - len(too_old), 0, 0]
    assert n_too_old == len(too_old)
    assert published.endswith(
        f"or not at all if their {whose} ended at least 35 days (840 hours) "
        "before the end of the last day "
        "that earlier runs released"
    )


def test_35_days_of_a_late_row_have_24_hours_where_clocks_change(tmp_path: Path) -> None:
    """Clocks are set forward on 9 March. One day later, the row would be too old."""
    options = {**DISTINCT, "timezone": "America/New_York", "contribution_period": "1d"}
    days = ["2025-02-22", "2025-02-23", "2025-03-30"]
    rows = pl.DataFrame({"time": [datetime.fromisoformat(day) for day in days], "reader": days})
    common: dict[str, Any] = {
        **options, "start": "2025-02-01", "windows": 80, "series": "per-window", "epsilon": 200,
        "allow_empty_windows": True,
    }  # fmt: skip
    run(job(tmp_path, "count", {**common, "until": "2025-03-31"}, rows.tail(1))).close()
    with run(job(tmp_path, "count", {**common, "until": "2025-04-01"}, rows)) as outcome:
        # 23 February ended 35 days before the end of 30 March by the calendar, less one hour.
        assert outcome.read().table()["estimate"].to_list()[-1] == 1
        published = systematic_errors(outcome.spec.metadata())[0]
    assert "ended at least 35 days (840 hours) before" in published


def test_discovered_groups_have_systematic_errors(tmp_path: Path) -> None:
    found: dict[str, Any] = {
        "group_by": "branch",
        "unlisted_groups": "discover",
        "epsilon": 9,
        "delta": "1e-3",
    }
    words = systematic_errors(plan_spec(job(tmp_path, "count", {}).derive(**found)).metadata())
    assert words == [
        CLOSED,
        "groups that never reached the threshold are left out, with all of their rows",
    ]
    once = Job("contingency", "v.csv", tmp_path / "o.db", columns="branch", groups="branch=a,b",
               epsilon=1)  # fmt: skip
    assert systematic_errors(plan_spec(once).metadata()) == []
