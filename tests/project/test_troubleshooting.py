"""Commands print every message of the troubleshooting page, with the exit code of the page."""

import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from counton.cli.app import app
from counton.state import database

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "troubleshooting.md").read_text("utf-8")
#: A message, and its exit code unless that is 2.
ROW = re.compile(r"^\| `([^`]+)`(?: \((\d+)\))? \|", re.MULTILINE)
VISITS = "visits.csv"
#: Guides with a table of the messages that their readers meet.
GUIDES = (
    "scheduled-job", "input", "databases", "pre-aggregated-input", "bad-rows", "corrections",
    "erasure", "plan", "dashboard",
)  # fmt: skip


def invoke(*arguments: str) -> tuple[int, str]:
    """Call the command line; return the exit code and all printed words, in one line."""
    result = CliRunner().invoke(app, [*arguments], prog_name="counton")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.split())


def count(*more: str, events: str = VISITS, without: str = "", **changed: str) -> tuple[int, str]:
    """Count visits by day, with changed options, and without one of them."""
    options = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": "365", "epsilon": "1",
        "privacy-unit": "visit", "until": "2024-03-03", "state": "state.db",
    } | {name.replace("_", "-"): value for name, value in changed.items()}  # fmt: skip
    options.pop(without, None)
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return invoke("release", "count", events, *words, *more)


def first_run(**changed: str) -> None:
    """Release the first windows of a stream."""
    code, output = count(**changed)
    assert code == 0, output


def write(name: str, *lines: str) -> str:
    """Write a file of lines, and return its name."""
    Path(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return name


def job_file(*lines: str) -> tuple[int, str]:
    """Run a job file with these lines."""
    return invoke("run", write("job.toml", *lines))


def truncated_export() -> tuple[int, str]:
    """Release an open day again from a file with a third of its rows."""
    options = {"lookback": "3d", "allowed_lateness": "2d", "events": "export.csv"}
    day = [f"2024-03-01T{hour}:00" for hour in ("09", "10", "11")]
    write("export.csv", "time", *day, "2024-03-02T09:00")
    first_run(**options)
    write("export.csv", "time", day[0], "2024-03-02T09:00", "2024-03-03T09:00")
    return count(until="2024-03-04", **options)


def missed_runs() -> tuple[int, str]:
    """Run again after more days than the input holds."""
    first_run(lookback="3d")
    return count(lookback="3d", until="2024-03-12")


def new_file_twice() -> tuple[int, str]:
    """Give the same file of new rows in two runs."""
    assert count("--append")[0] == 0
    return count("--append", until="2024-03-04")


def changed_file() -> tuple[int, str]:
    """Add a row to a file of new rows that was counted."""
    os.mkdir("new")
    write("new/1.csv", "time", "2024-03-01T09:00")
    assert count("--append", events="new", until="2024-03-02")[0] == 0
    write("new/1.csv", "time", "2024-03-01T09:00", "2024-03-01T10:00")
    write("new/2.csv", "time", "2024-03-02T10:00")
    return count("--append", events="new")


def changed_option() -> tuple[int, str]:
    """Run again with another epsilon."""
    first_run()
    return count(epsilon="2")


def two_streams() -> tuple[int, str]:
    """Export from a state with two streams, without a name."""
    first_run()
    first_run(stream="other")
    return invoke("export", "state.db")


def misspelt_stream() -> tuple[int, str]:
    """Export a stream that the state does not have."""
    first_run()
    return invoke("export", "state.db", "--stream", "misspelt")


def closed_stream() -> tuple[int, str]:
    """Run a stream that is closed."""
    first_run()
    assert invoke("close", "state.db")[0] == 0
    return count(until="2024-03-04")


def wrong_date() -> tuple[int, str]:
    """Annotate a window that is not released."""
    first_run()
    return invoke("annotate", "state.db", "--window", "2025-01-01", "--note", "too low")


def misspelt_group() -> tuple[int, str]:
    """Annotate a group that is not declared."""
    first_run(group_by="page", groups="home,shop")
    day = ("--window", "2024-03-01", "--group", "shopp", "--note", "too low")
    return invoke("annotate", "state.db", *day)


def unconfirmed_erasure() -> tuple[int, str]:
    """Erase a user without ``--yes``."""
    first_run(user="visitor", max_contributions="5")
    return invoke("erase-user", "state.db", "v001")


def query(text: str) -> tuple[int, str]:
    """Count the rows of a query to a table with times in two forms."""
    with closing(sqlite3.connect("site.sqlite")) as database:
        database.execute("CREATE TABLE visits (time)")
        rows = [("2024-03-01 09:00",), ("2024-03-01T10:00",), ("2024-03-02 10:00",)]
        database.executemany("INSERT INTO visits VALUES (?)", rows)
        database.commit()
    return count("--query", text, events="sqlite:///site.sqlite", lookback="7d")


def plan_of_a_mean() -> tuple[int, str]:
    """Plan an average without a number of rows."""
    lines = ('value = "seconds"', "lower = 0", "upper = 600", "resolution = 5", "epsilon = 1")
    start = ('start = "2024-03-01"', 'statistic = "average"', 'privacy-unit = "visit"')
    return invoke("plan", write("job.toml", *JOB, *start, *lines, 'state = "state.db"'))


def lost_state() -> tuple[int, str]:
    """Run a stream whose state was deleted, and whose table was not."""
    first_run(output="table.csv")
    os.remove("state.db")
    os.remove("state.db.key")
    return count(output="table.csv")


def locked_state() -> tuple[int, str]:
    """Run a stream whose state another connection has locked."""
    first_run()
    with pytest.MonkeyPatch.context() as patched, closing(sqlite3.connect("state.db")) as other:
        patched.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.1)
        other.execute("BEGIN IMMEDIATE")
        return count(until="2024-03-04")


def old_format() -> tuple[int, str]:
    """Run a stream whose state has the format of an earlier version."""
    first_run()
    with closing(sqlite3.connect("state.db")) as state:
        state.execute("PRAGMA user_version = 19")
    return count(until="2024-03-04")


def missing_extra() -> tuple[int, str]:
    """Use a state on a server without the package that connects to it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "psycopg", None)
        return count(state="postgresql://127.0.0.1:1/none", key="a.key")


def damaged_state() -> tuple[int, str]:
    """Run a stream whose state is a text."""
    return count(state=write("damaged.db", "no database" * 1000))


def missing_key() -> tuple[int, str]:
    """Run a stream whose key was deleted."""
    first_run()
    os.remove("state.db.key")
    return count(until="2024-03-04")


def readable_key() -> tuple[int, str]:
    """Run a stream whose key may be read by all users of the machine."""
    first_run()
    os.chmod("state.db.key", 0o644)
    return count(until="2024-03-04")


def old_copy() -> tuple[int, str]:
    """Run a stream from a copy of the state that was made before the last release."""
    first_run()
    shutil.copy("state.db", "copy.db")
    first_run(until="2024-03-04")
    shutil.copy("copy.db", "state.db")
    return count(until="2024-03-05")


def small_budget() -> tuple[int, str]:
    """Start a stream that is larger than the budget."""
    assert invoke("ledger", "state.db", "--budget-epsilon", "0.5")[0] == 0
    return count()


def larger_budget() -> tuple[int, str]:
    """Raise the budget without saying so."""
    assert invoke("ledger", "state.db", "--budget-epsilon", "1")[0] == 0
    return invoke("ledger", "state.db", "--budget-epsilon", "2")


def existing_job_file() -> tuple[int, str]:
    """Write a job file where there is one."""
    return invoke("init", VISITS, "--save-job", write("nightly.toml", "[jobs.visits]"))


def text_in_values() -> tuple[int, str]:
    """Sum a column of texts."""
    return invoke(
        "release", "sum", VISITS, "--time", "time", "--every", "1d", "--start", "2024-03-01",
        "--windows", "365", "--epsilon", "1", "--until", "2024-03-03", "--state", "state.db",
        "--value", "page", "--lower", "0", "--upper", "9", "--resolution", "1",
    )  # fmt: skip


JOB = ("[jobs.v]", f'events = "{VISITS}"', 'time = "time"', 'every = "1d"', "windows = 3")
CASES: dict[str, Callable[[], tuple[int, str]]] = {
    "No such command": lambda: invoke("count", VISITS),
    "No such option": lambda: count("--epsilom", "1"),
    "of job files alone": lambda: count("--ambiguous", "earliest"),
    "a new stream of count needs": lambda: count(without="windows"),
    "cannot be used with": lambda: count("--append", lookback="7d"),
    "is not above 0": lambda: count(epsilon="0"),
    "is not a length of time": lambda: count(every="1day"),
    "the privacy loss is missing": lambda: invoke("plan", "52"),
    "with --expected-rows": plan_of_a_mean,
    "must end in one of": lambda: count(output="table.xlsx"),
    "which is not installed": missing_extra,
    "a run writes tables": lambda: count(output="page.html"),
    "No such file or directory": lambda: invoke("run", "missing.toml"),
    "is not valid TOML": lambda: job_file("[jobs.v"),
    "empty: start": lambda: job_file(*JOB, 'start = ""', 'epsilon = 1', 'privacy-unit = "v"'),
    "exists, and may define a stream": existing_job_file,
    "is not a file": lambda: count(events="missing.csv"),
    "has no column": lambda: count(time="tiem"),
    "is empty (0 bytes)": lambda: count(events=write("empty.csv")),
    "is a workbook of a spreadsheet": lambda: count(events=write("sheet.xlsx", "PK")),
    "cannot be read as csv": lambda: count(
        events=write("wide.csv", "time,page", "2024-03-01T09:00,home,more")
    ),
    "separates columns": lambda: count(
        events=write("semicolons.csv", '"time";"page"', '"2024-03-01T09:00";"home"')
    ),
    "No row can be counted": lambda: count(
        "--bad-rows", "quarantine:bad.csv", events=write("weeks.csv", "time", "2024-W10")
    ),
    "has a time that cannot be read": lambda: count(events=write("t.csv", "time", "yesterday")),
    "that a clock change skips or repeats": lambda: count(
        events=write("clock.csv", "time", "2024-10-27T02:30"), every="1h", start="2024-10-27",
        until="2024-10-28", timezone="Europe/Berlin",
    ),
    "has no time in column": lambda: count(events=write("gap.csv", "time,page", ",home")),
    "has a value that is not a finite number": text_in_values,
    "has a count that": lambda: count(
        events=write("counts.csv", "time,n", "2024-03-01,-1"), count_column="n"
    ),
    "cannot be answered": lambda: query("SELECT missing FROM visits"),
    "whose order is not the order of time": lambda: query(
        "SELECT time FROM visits WHERE time >= {since} AND time < {until}"
    ),
    "has {since} in quotes": lambda: query("SELECT time FROM visits WHERE time >= '{since}'"),
    "got no answer": lambda: count(
        "--query", "SELECT time FROM visits", events="postgresql://127.0.0.1:1/none"
    ),
    "that are not listed": lambda: count(group_by="page", groups="home"),
    "the column of the groups": lambda: count(
        group_by="page", groups=write("pages.csv", "home", "shop")
    ),
    "is the file of the events": lambda: count(group_by="page", groups=VISITS),
    "needs --groups": lambda: count(group_by="page"),
    "needs --max-contributions": lambda: count(user="visitor"),
    "is only a name": lambda: count(privacy_unit="visitor"),
    "would have no row": lambda: count(until="2024-05-20"),
    "less than half of the rows": truncated_export,
    "reaches back to": missed_runs,
    "lies in the future": lambda: count(until="2999-01-01"),
    "is not after": lambda: count(until="2024-02-01"),
    "released yet": lambda: count(until="2024-03-01"),
    "has been counted already": new_file_twice,
    "was counted with other bytes": changed_file,
    "(here": changed_option,
    "choose with --stream": two_streams,
    "has no stream": misspelt_stream,
    "does not exist": lambda: invoke("inspect", "missing.db"),
    "releases nothing more": closed_stream,
    "is in no window that stream": wrong_date,
    "is no declared group of stream": misspelt_group,
    "was released by another stream": lost_state,
    "only at a price": unconfirmed_erasure,
    "is locked by another process": locked_state,
    "of an earlier version of counton": old_format,
    "or not a counton database": damaged_state,
    "cannot be used": lambda: count(state="postgresql://127.0.0.1:1/none", key="a.key"),
    "that was made with the state": missing_key,
    "lets others read it": readable_key,
    "an old copy": old_copy,
    "the budget is": small_budget,
    "and would become": larger_budget,
}  # fmt: skip


def exit_codes() -> dict[str, int]:
    """Return the exit code of each message of the page's tables of messages."""
    tables = PAGE.partition("## Results that look wrong")[0]
    return {message: int(code or 2) for message, code in ROW.findall(tables)}


def test_page_has_exactly_the_tested_messages() -> None:
    assert [*exit_codes()] == [*CASES]


@pytest.mark.parametrize("page", GUIDES)
def test_messages_of_a_guide_are_on_the_troubleshooting_page(page: str) -> None:
    text = (ROOT / "docs" / "guides" / f"{page}.md").read_text("utf-8")
    table = text.partition("| Message | Cause | Fix |\n|---|---|---|\n")[2]
    messages = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert messages
    assert {*messages} <= {*CASES}


@pytest.mark.parametrize("message", CASES)
def test_message_of_the_page_is_printed_with_its_exit_code(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "examples" / "visits.csv", tmp_path / VISITS)
    monkeypatch.chdir(tmp_path)
    code, output = CASES[message]()
    assert message in output
    assert code == exit_codes()[message], output
