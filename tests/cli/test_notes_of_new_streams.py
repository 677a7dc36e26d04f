"""What a dry run, a plan and a first run say about a job before its numbers mislead."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counton.results.metadata import ReleaseMetadata
from counton.results.subject_text import statistic_in_words
from counton.results.systematic_errors import (
    left_out_groups_note,
    systematic_errors,
    what_intervals_leave_out,
)
from counton.run import Job
from counton.run.spec.plan_spec import plan_spec
from tests.cli.conftest import Result, Workplace

#: Three users who buy in both shops on one day; the dates have no hours.
PURCHASES = "day,person,shop\n" + "".join(
    f"2024-04-01,{person},{shop}\n" for person in ("ann", "bob", "cy") for shop in ("east", "west")
)
OF_FILE = ("--timezone", "UTC", "--start", "2024-04-01", "--until", "latest-event")
USERS = ("--user", "person", "--max-contributions", "1", "--contribution-period", "1d")
BY_SHOP = ("--group-by", "shop", "--groups", "east,west", "--other-group", "other")
GROUPS_NOTE = (
    "at most 1 row of each user's day counts. If a user is in several groups, it is the first row "
    "by time, then by the group's name, and the numbers of the other groups are too low. To count "
    "each user in more groups, set once-per-window = true in the job file, and max-contributions "
    "to the largest number of groups in which one user may count. Each further group makes the "
    "margins of error larger. With 3, each user counts in every group"
)
COUNT_NOTE = "each counted row is one event. If column 'visits' has the number of events of a row"


@pytest.fixture
def command(
    tmp_path: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(PURCHASES)
    Path("visits.csv").write_text("day,shop,visits\n2024-04-01,east,31\n2024-04-02,west,4\n")
    return place.plain


def metadata_of(**options: Any) -> ReleaseMetadata:
    usual: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "windows": 31, "epsilon": 1,
        "user": "reader", "privacy_unit": "reader", "contribution_period": "1d",
        "max_contributions": 1, "series": "per-window",
    }  # fmt: skip
    statistic = options.pop("statistic", "count")
    job = Job(statistic, "visits.csv", "visits.db", **usual | options)
    return plan_spec(job).metadata()


def test_users_in_several_groups_are_noted_before_any_loss(command: Callable[..., Result]) -> None:
    planned = command("init", "people.csv", *OF_FILE, *USERS, *BY_SHOP).fine()
    assert f"Note: {GROUPS_NOTE}" in planned.out
    assert f"Note: {GROUPS_NOTE}" in command("plan", "nightly.toml").fine().out
    job_file = Path("nightly.toml").read_text()
    assert "A user in more groups counts only in the first ones" in job_file
    for dry in (["--dry-run"], []):
        run = command("run", "nightly.toml", "--until", "2024-04-02", *dry).fine()
        assert f"job people: note: {GROUPS_NOTE}" in run.err
    again = command("run", "nightly.toml", "--until", "2024-04-03", "--allow-empty-windows").fine()
    assert "at most 1 row" not in again.err


def test_note_names_options_that_count_each_user_in_each_group(
    command: Callable[..., Result],
) -> None:
    command("init", "people.csv", *OF_FILE, *USERS, *BY_SHOP, "--epsilon", "1000").fine()
    job_file = Path("nightly.toml")
    text = job_file.read_text()
    limit = "once-per-window = true\nmax-contributions = 3\n"
    job_file.write_text(text.replace("max-contributions = 1\n", limit))
    run = command("run", "nightly.toml", "--until", "2024-04-02").fine()
    assert "other groups are too low" not in run.err
    table = Path("people.released.csv").read_text()
    assert ",east,3," in table
    assert ",west,3," in table


def test_second_rows_in_a_window_and_group_are_not_called_beyond_one_limit(
    command: Callable[..., Result],
) -> None:
    """Ann buys in the same shop again, and the limit of three groups leaves room for her."""
    command("init", "people.csv", *OF_FILE, *USERS, *BY_SHOP, "--epsilon", "1000").fine()
    with Path("people.csv").open("a") as rows:
        rows.write("2024-04-01,ann,east\n")
    job_file = Path("nightly.toml")
    limit = "once-per-window = true\nmax-contributions = 3\n"
    job_file.write_text(job_file.read_text().replace("max-contributions = 1\n", limit))
    run = command("run", "nightly.toml", "--until", "2024-04-02").fine()
    line = "rows beyond their user's limits, such as one in each window and group, not counted: 1"
    assert f"confidential: job people: {line}" in run.err.splitlines()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "set once-per-window = true in the job file, and max-contributions to the largest "
         "number of groups in which one user may count. Each further group makes the margins of "
         "error larger. With 4, each user "),
        ({"max_contributions": 3}, "If a user is in more than 3 groups, they are the first 3"),
        ({"once_per_window": True}, "at most 1 group of each reader's day counts"),
        ({"contribution_period": None},
         "user may count, added up over the days of the stream. Each further group makes "
         "the margins of error larger"),
        ({"contribution_period": "1w"},
         "user may count, added up over the days of a period. Each further group makes the "
         "margins of error larger. With 28, each"),
        ({"statistic": "sum", "value": "paid", "lower": 0, "upper": 9, "resolution": 1},
         "more groups, set a larger max-contributions in the job file. The noise is then larger"),
        ({"contribution_period": None, "distinct_users": True, "series": "cumulative"},
         "more groups, set max-contributions in the job file to the largest number of groups in "
         "which one user may count. Each further group makes the margins of error larger. "
         "With 4, each user counts in every group"),
        ({"max_contributions": 9, "max_contributions_per_window": 1},
         "set once-per-window = true and a larger max-contributions-per-window in"),
        ({"max_contributions": 9, "max_contributions_per_window": 1},
         "at most 1 row of each reader's day counts in one day. If a user is in several groups"),
        ({"max_contributions": 4}, None),
        ({"max_contributions": 4, "once_per_window": True}, None),
        ({"group_by": None, "groups": None}, None),
        ({"user": None, "max_contributions": None, "contribution_period": None}, None),
    ],
)  # fmt: skip
def test_groups_note_depends_on_limit_and_number_of_groups(
    options: dict[str, Any], words: str | None
) -> None:
    groups = {"group_by": "page", "groups": "a,b,c,d"}
    note = left_out_groups_note(metadata_of(**groups | options))
    if words is None:
        assert note is None
    else:
        assert note is not None
        assert words in note


def test_groups_note_of_discovered_groups_names_no_number() -> None:
    found = metadata_of(
        group_by="page", unlisted_groups="discover", delta="1e-9", series="cumulative"
    )
    note = left_out_groups_note(found)
    assert note is not None
    assert (
        "set once-per-window = true in the job file, and max-contributions to the largest" in note
    )
    assert "in every group" not in note


def test_dry_run_gives_the_notes_of_the_first_run(command: Callable[..., Result]) -> None:
    command("init", "visits.csv", *OF_FILE, "--privacy-unit", "person", "--epsilon", "30").fine()
    dry = command("run", "nightly.toml", "--dry-run").fine()
    real = command("run", "nightly.toml").fine()
    for note in (f"job visits: note: {COUNT_NOTE}", "job visits: warning: the privacy loss 30"):
        assert note in dry.err
        assert note in real.err
    later = command("run", "nightly.toml", "--dry-run").fine()
    assert COUNT_NOTE not in later.err


def test_dry_run_has_its_notes_in_json(command: Callable[..., Result], place: Workplace) -> None:
    command("init", "visits.csv", *OF_FILE, "--privacy-unit", "person").fine()
    report = json.loads(place.plain("run", "nightly.toml", "--dry-run", "--json").fine().out)
    (note,) = report["jobs"]["visits"]["warnings"]
    assert note.startswith(f"note: {COUNT_NOTE}")


def test_init_writes_a_line_for_a_column_of_counts(command: Callable[..., Result]) -> None:
    command("init", "visits.csv", *OF_FILE).fine()
    job_file = Path("nightly.toml")
    text = job_file.read_text()
    assert 'If column "visits" has the number of events of a row' in text
    assert '\n# count-column = "visits"\n' in text
    assert "the column that names the user (shop)" in text
    command("init", "visits.csv", *OF_FILE, "--privacy-unit", "person", "--force").fine()
    text = job_file.read_text()
    job_file.write_text(text.replace("# count-column", "count-column"))
    command("run", "nightly.toml", "--dry-run").fine()
    command("init", "visits.csv", *OF_FILE, "--count-column", "visits", "--force").fine()
    assert "# count-column" not in job_file.read_text()


def test_init_of_users_writes_their_name_with_a_comment(command: Callable[..., Result]) -> None:
    command("init", "people.csv", *OF_FILE, *USERS).fine()
    text = Path("nightly.toml").read_text()
    assert 'it cannot change after the first run.\nprivacy-unit = "user"\n' in text
    assert "event-name" not in text  # the numbers count users
    command("init", "people.csv", *OF_FILE, *USERS, *BY_SHOP, "--force").fine()
    assert 'add a line event-name = "visit" to state it' in Path("nightly.toml").read_text()


def test_init_takes_an_existing_state_for_a_new_stream(command: Callable[..., Result]) -> None:
    command("init", "people.csv", *OF_FILE, *USERS).fine()
    command("run", "nightly.toml", "--until", "2024-04-02").fine()
    state = ("--state", "people.counton.db")
    second = ("--stream", "shops", "--save-job", "shops.toml")
    command("init", "people.csv", *OF_FILE, *USERS, *BY_SHOP, *second, *state).fine()
    assert 'output = "people.shops.released.csv"' in Path("shops.toml").read_text()
    run = command("run", "shops.toml", "--until", "2024-04-02").fine()
    assert "Released 1 new window" in run.out
    assert {"people", "shops"} <= {*command("ledger", *state[1:]).fine().out.split()}


def test_one_row_of_each_user_in_a_window_is_a_number_of_users() -> None:
    users = metadata_of()
    assert statistic_in_words(users) == "number of distinct readers"
    assert not any("too low" in error for error in systematic_errors(users))
    assert users.users_again == "day"
    other = metadata_of(once_per_window=True)
    assert systematic_errors(users) == systematic_errors(other)


@pytest.mark.parametrize(
    "options",
    [
        {"max_contributions": 2},
        {"contribution_period": "1w"},
        {"contribution_period": None},
        {"event_name": "loan"},
        {"group_by": "page", "groups": "a,b"},
        {"series": "rolling", "last": "7d"},
    ],
)
def test_other_limits_count_rows_and_say_that_numbers_are_too_low(options: dict[str, Any]) -> None:
    rows = metadata_of(**options)
    noun = "loans" if "event_name" in options else "events"
    assert statistic_in_words(rows) == f"number of {noun}"
    assert any("so that numbers are too low" in error for error in systematic_errors(rows))


def test_a_sum_of_one_row_of_each_user_is_too_low() -> None:
    paid = metadata_of(statistic="sum", value="paid", lower=0, upper=9, resolution=1)
    assert any("rows beyond 1 of each reader's day" in error for error in systematic_errors(paid))
    assert not paid.counts_users


def test_another_unit_in_the_ledger_is_noted_before_any_loss(
    command: Callable[..., Result],
) -> None:
    note = (
        "the ledger does not add this loss per person's week (UTC, day) to the losses per "
        "person's day (UTC, day) in this state. The same users may lose both."
    )
    command("init", "people.csv", *OF_FILE, *USERS, "--privacy-unit", "person").fine()
    daily = Path("nightly.toml").read_text().replace('"latest-event"', '"2024-04-02"')
    weekly = daily.replace("[jobs.people]", "[jobs.weeks]").replace('"1d"', '"1w"')
    weekly = weekly.replace('until = "2024-04-02"', 'until = "2024-04-08"')
    weekly = weekly.replace("people.released", "weeks.released").replace(".unread", ".weeks.unread")
    Path("both.toml").write_text(f"{daily}\n{weekly}")
    assert f"Note: {note}" in command("plan", "both.toml").fine().out
    rehearsed = command("run", "both.toml", "--dry-run").fine()
    assert f"job weeks: note: {note}" in rehearsed.err
    first = command("run", "both.toml").fine()
    assert f"job weeks: note: {note}" in first.err
    assert "job people: note" not in first.err
    assert note not in command("run", "both.toml").fine().err


def test_budget_of_one_unit_adds_up_all_losses(command: Callable[..., Result]) -> None:
    command("init", "people.csv", *OF_FILE, *USERS, "--privacy-unit", "person").fine()
    command("run", "nightly.toml", "--until", "2024-04-02").fine()
    command("ledger", "people.counton.db", "--budget-epsilon", "9", "--budget-unit", "person's day")
    words = ("--user", "person", "--max-contributions", "9", "--contribution-period", "1w")
    more = ("--state", "people.counton.db", "--stream", "weeks", "--save-job", "weeks.toml")
    command("init", "people.csv", *OF_FILE, *words, *more, "--privacy-unit", "person").fine()
    rehearsed = command("run", "weeks.toml", "--until", "2024-04-02", "--dry-run").fine()
    assert "does not add this loss" not in rehearsed.err


@pytest.mark.parametrize(
    ("period", "subject", "error"),
    [
        ("1d", "number of readers, each once in each day", "days"),
        ("1w", "number of distinct readers", None),
        ("1mo", "number of distinct readers", "months"),
    ],
)
def test_users_of_several_periods_in_one_window_are_not_called_distinct(
    period: str, subject: str, error: str | None
) -> None:
    """A user counts once in each day of a week; a week has parts of two months."""
    metadata = metadata_of(
        every="1w", start="2024-03-04", contribution_period=period, once_per_window=True
    )
    assert statistic_in_words(metadata) == subject
    told = [error for error in what_intervals_leave_out(metadata) if "several" in error]
    expected = []
    if error is not None:
        expected = [f"readers of several {error} in one week, who count once in each {error[:-1]}"]
    assert told == expected
