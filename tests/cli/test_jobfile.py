"""Job files: what they may hold, what is refused, and that they are one more door to one run."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.cli import statistic_run
from counton.job.job_file import load
from counton.job.json_schema import schema
from counton.job.saved_job import job_entries, save
from counton.job.statistics import all_models
from counton.run import Job, run, run_job
from counton.state import Store

from .conftest import Workplace

ROWS = "time,page,paid\n2024-03-01T09:00,home,3\n2024-03-02T10:15,shop,5\n"
FILE = """
[defaults]
state = "v.db"
events = "e.csv"
time = "time"
every = "1d"
start = 2024-03-01
windows = 30
until = "2024-03-04"
epsilon = 0.5

[jobs.visits]
group-by = "page"
groups = ["home", "shop"]
output = "visits.csv"

[jobs.paid]
statistic = "average"
value = "paid"
lower = 0
upper = 9
resolution = "0.5"
privacy-unit = "event"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "e.csv").write_text(ROWS)
    path = tmp_path / "nightly.toml"
    path.write_text(FILE)
    return path


def test_load_returns_jobs_that_python_can_run(file: Path, tmp_path: Path) -> None:
    jobs = load(file)
    assert list(jobs) == ["visits", "paid"]
    visits = jobs["visits"]
    assert (visits.statistic, visits.epsilon, visits.start) == (
        "count",
        Fraction(1, 2),
        "2024-03-01",
    )
    assert visits.events == str(tmp_path / "e.csv")
    assert visits.value_of("groups") == ("home", "shop")
    with run(visits) as outcome:
        mine = outcome.read().table()
    same = Job(
        "count", tmp_path / "e.csv", tmp_path / "v.db", time="time", group_by="page",
        stream="visits",
        until="latest-event",
    )  # fmt: skip
    with run(same) as outcome:  # goes on with the same stream
        assert outcome.read().table().equals(mine)
    with run(jobs["paid"]) as outcome:
        assert outcome.read().table().height


def test_the_command_runs_all_and_reports_each(file: Path, place: Workplace) -> None:
    done = place("run", str(file), "--json").fine()
    reports = json.loads(done.out)["jobs"]
    assert [reports[name]["released"] for name in ("visits", "paid")] == [3, 3]
    written = pl.read_csv(file.parent / "visits.csv")
    last = written.filter(pl.col("window_index") == 3)["estimate"].to_list()
    assert last == [row["estimate"] for row in reports["visits"]["last"]["rows"]]
    file.write_text(FILE.replace('"home", "shop"', '"home"') + '\n[jobs.more]\nstream = "more"\n')
    done = place("run", str(file), "--json")
    assert done.code == 2
    reports = json.loads(done.out)["jobs"]
    assert "groups" in reports["visits"]["not_private"]["error"]
    assert (reports["paid"]["new"], reports["more"]["new"]) == (0, 3)  # the others were run


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("[jobs.visits]", "[job.visits]"), "unknown section"),
        (('time = "time"', 'tiem = "time"'), "did you mean time"),
        (("windows = 30", 'windows = "30"'), "windows 30 is not a whole number"),
        (("windows = 30", "windows = true"), "windows is not a whole number"),
        (('statistic = "average"', 'statistic = "mean"'), "did you mean average"),
        (
            ('group-by = "page"', 'lower = 3\ngroup-by = "page"'),
            "count has no option 'lower', which is for",
        ),
        (
            ('group-by = "page"', 'value = "n"'),
            "count has no option 'value'; did you mean count-column",
        ),
        (
            ('group-by = "page"', 'comment = "ours"'),
            "count has no option 'comment'; leave it out",
        ),
        (("epsilon = 0.5", "epsilon = ["), "not valid TOML"),
        (('events = "e.csv"', ""), "the key 'events' is missing"),
    ],
)
def test_load_refuses_wrong_job_file_with_reason(
    changed: tuple[str, str], words: str, file: Path
) -> None:
    file.write_text(FILE.replace(*changed))
    with pytest.raises(InvalidInputError, match=words):
        load(file)


def test_a_job_that_is_saved_is_read_again(file: Path, tmp_path: Path) -> None:
    job = Job(
        "sum", tmp_path / "e.csv", tmp_path / "v.db", time="time", every="1d", start="2024-03-01",
        value="paid", lower="0", upper="9", resolution="0.5", windows=30, epsilon="0.25",
        stream="takings", output=tmp_path / "t.csv", key="env:KEY", confidence_level=0.9,
    )  # fmt: skip
    file.write_text("# ours\n" + FILE)
    with pytest.raises(InvalidInputError, match="that this job does not state"):
        save(job, file)
    job = job.with_options(until="2024-03-03")
    with pytest.raises(InvalidInputError, match="does not state"):  # a date is of one run
        save(job, file)
    file.write_text("# ours\n" + FILE.replace('until = "2024-03-04"\n', ""))
    save(job, file)
    job = job.with_options(until=None)
    assert file.read_text().startswith("# ours\n")
    found = load(file)
    assert list(found) == ["visits", "paid", "takings"]
    again = found["takings"]
    assert again.output == str(tmp_path / "t.csv")
    assert again.confidence_level == 0.9
    assert job_entries(again, tmp_path) == job_entries(job, tmp_path)
    save(again, file)
    assert load(file)["takings"] == again
    with pytest.raises(InvalidInputError, match="object in memory"):
        save(Job("count", pl.DataFrame(), "v.db"), file)


def test_json_schema_describes_options_as_commands_do(place: Workplace) -> None:
    found = schema()["$defs"]["count"]["properties"]
    assert found["start"]["description"] == "Start of the first window, as in 2024-03-01."
    assert found["max-bad-rows"] == {
        "type": "integer",
        "minimum": 0,
        "description": "How many rows may be set aside in a run. [default: 1000]",
    }
    assert json.loads(place("run", "--schema").out) == schema()
    assert "name one" in place("run").err or "the job file is missing" in place("run").err


def test_save_job_writes_options_of_command(file: Path, place: Workplace) -> None:
    words = [
        "release",
        "count",
        str(file.parent / "e.csv"),
        "--state",
        str(place.state),
        "--time",
        "time",
    ]
    words += ["--every", "1d", "--start", "2024-03-01", "--windows", "9", "--epsilon", "1"]
    words += ["--until", "2024-03-03", "--save-job", str(file.parent / "new.toml")]
    done = place(*words).fine()
    (job,) = load(file.parent / "new.toml").values()
    assert (job.stream, job.windows, job.epsilon, job.until) == ("count", 9, 1, None)
    assert "without --until 2024-03-03, which holds for this run alone" in done.err
    done = place.plain("run", str(file.parent / "new.toml"))  # the clock decides, a year and more
    assert "would release 7 windows" in done.err or "The last window ended" in done.err
    done = place.plain("run", str(file.parent / "new.toml"), "--until", "2024-03-04")
    assert (done.code, "Released 1 new window (3 of 9)" in done.out) == (0, True)


@pytest.mark.parametrize("command", ["count", "contingency"])
def test_a_plan_saves_a_command_to_which_lines_are_added(command: str, place: Workplace) -> None:
    """Rows that only a line of the job file makes readable stop no command from being saved."""
    rows = place.folder / "e.csv"
    job = place.folder / "new.toml"
    rows.write_text("time;site\n2013-01-01T01:00;a\n;b\n")
    new = place.new(group_by="site")
    more = list[str]()
    if command == "contingency":
        new = place.new(group_by=None, groups="site=a,b")
        more = ["--columns", "site", "--replace"]
    words = ["release", command, str(rows), *new, *more]
    done = place.plain(*words, "--plan", "--save-job", str(job))
    assert (done.code, place.state.exists()) == (2, False), done.err
    assert f"saved as job {command}" in done.err
    assert ("replace = true" in job.read_text()) == ("--replace" in more)
    job.write_text(f'{job.read_text()}separator = ";"\nmissing-values = "drop"\n')
    done = place.plain("run", str(job), "--until", "2013-01-01T03:00")
    assert (done.code, "Released 3 new windows" in done.out) == (0, True), done.err


def test_run_prints_date_of_job_file_that_ends_stream(file: Path, place: Workplace) -> None:
    said = "the job file says until = 2024-03-04, so runs without --until release no later window"
    for _ in range(2):
        done = place.plain("run", str(file))
        assert (done.code, done.out.count(said)) == (0, 2)
    assert said not in place.plain("run", str(file), "--until", "2024-03-05").out
    reports = json.loads(place.plain("run", str(file), "--json").out)["jobs"]
    assert reports["paid"]["until_in_file"] == "2024-03-04"
    file.write_text(FILE.replace("2024-03-04", "latest-event"))
    assert "no run releases" not in place.plain("run", str(file)).out
    job = load(file)["visits"]
    save(job, file.parent / "more.toml")
    assert load(file.parent / "more.toml")["visits"].until == "latest-event"  # for every night


def test_run_after_last_window_prints_no_date_of_job_file(file: Path, place: Workplace) -> None:
    file.write_text(FILE.replace("windows = 30", "windows = 3"))
    for _ in range(2):
        done = place.plain("run", str(file))
        assert (done.code, "the job file says until" in done.out) == (0, False)


SHARED = """
[defaults]
state = "v.db"
events = "e.csv"
time = "time"
every = "1d"
start = 2024-03-01
windows = 30
epsilon = 0.5
DEFAULT

[jobs.one]
ONE

[jobs.two]
TWO
"""


@pytest.mark.parametrize(
    ("default", "one", "two", "words"),
    [
        (
            'output = "a.csv"',
            "",
            "",
            r"job 'two' writes '.*a.csv' \(output\), which job 'one' writes too",
        ),
        ('bad-rows = "quarantine:b.csv"', "", "", r"'.*b.csv' \(bad-rows\), which job 'one'"),
        ("", 'output = "a.csv"', 'output = "link.csv"', "as '.*a.csv', writes too"),
        ("", 'output = "a.csv"', 'output = "hard.csv"', "as '.*a.csv', writes too"),
        ("", 'output = "a.csv"', 'output = "folder/../A.CSV"', "as '.*a.csv', writes too"),
        ("", 'output = "a.csv"', 'bad-rows = "quarantine:a.csv"', r"\(bad-rows\), which job 'one'"),
        ("", 'chart = "a.png"\nseries = "both"', 'chart = "a.windows.png"', r"\(chart\)"),
        ("", 'output = "a.csv"', 'output = "a.csv.json"', r"\(the description beside its output\)"),
        ("", 'output = "a.csv"', 'events = "a.csv"', r"which job 'two' reads or keeps \(events\)"),
        ("", 'output = "a.csv"', 'group-by = "page"\ngroups = "a.csv"',
        r"reads or keeps \(groups\)"),
        (
            "", 'output = "folder/a.csv"', 'events = "folder"',
            "would be read as events by the next run",
        ),
        ("", 'bad-rows = "quarantine:w.csv"', 'state = "w.csv"', r"reads or keeps \(state\)"),
        (
            'stream = "it"',
            "",
            "",
            "job 'two' releases stream 'it' of state .*, and so does job 'one'",
        ),
        ('stream = "it"', "", 'state = "v-too.db"', "job 'two' releases stream 'it'"),
    ],
)  # fmt: skip
def test_jobs_that_would_overwrite_each_other_are_refused_by_name(
    default: str, one: str, two: str, words: str, tmp_path: Path, place: Workplace
) -> None:
    (tmp_path / "e.csv").write_text(ROWS)
    (tmp_path / "a.csv").write_text("page\nhome\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "a.csv")
    (tmp_path / "v-too.db").symlink_to(tmp_path / "v.db")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "e.csv").write_text(ROWS)
    before = {path.name for path in tmp_path.iterdir()}
    file = tmp_path / "nightly.toml"
    text = SHARED.replace("DEFAULT", default).replace("ONE", one).replace("TWO", two)
    file.write_text(text)
    said = place.plain("run", str(file), "--until", "2024-03-03").refused()
    assert re.search(words, said)
    assert {path.name for path in tmp_path.iterdir()} == {*before, "nightly.toml"}


def test_output_remembered_by_stream_conflicts_with_other_job(file: Path, place: Workplace) -> None:
    assert place("run", str(file)).code == 0
    file.write_text(
        FILE.replace('output = "visits.csv"', "") + '[jobs.more]\noutput = "visits.csv"\n'
    )
    said = place("run", str(file)).refused()
    assert "which job 'visits' writes too (output)" in said


def test_job_with_invalid_state_does_not_stop_other_jobs(file: Path, place: Workplace) -> None:
    file.write_text(FILE.replace('group-by = "page"', 'group-by = "page"\nstate = "mysql://db"'))
    done = place("run", str(file), "--json")
    assert done.code == 2
    assert json.loads(done.out)["jobs"]["paid"]["new"] == 3


def test_job_of_finished_or_closed_stream_succeeds(file: Path, place: Workplace) -> None:
    few = FILE.replace("windows = 30", "windows = 2").replace('until = "2024-03-04"\n', "")
    file.write_text(few)
    assert place.plain("run", str(file), "--until", "2024-03-03").code == 0
    done = place.plain("run", str(file), "--until", "2024-03-05")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("No new window is due. Released: 2 of 2 windows.") == 2
    assert place.plain("run", str(file)).code == 0  # data of the past, of which all is released
    assert (
        place("close", str(file.parent / "v.db"), "--stream", "visits", "--drop-waiting").code == 0
    )
    # Nothing is looked for then: neither the rows, nor where bad ones would go.
    (file.parent / "bad").mkdir()
    aside = 'output = "visits.csv"\nbad-rows = "quarantine:bad"'
    file.write_text(few.replace('output = "visits.csv"', aside))
    done = place.plain("run", str(file))
    assert (done.code, done.err) == (0, "")
    assert "stream 'visits' is closed at window 2: nothing to release" in done.out
    reports = json.loads(place.plain("run", str(file), "--json").out)["jobs"]
    assert (reports["visits"]["ended"], reports["paid"]["new"]) == (2, 0)


class Panic(BaseException):
    """As of a library of another language, which is no `Exception`."""


def test_invalid_option_value_is_refused_with_job_name(file: Path) -> None:
    file.write_text(FILE + 'ambiguous = "twice"\n')
    with pytest.raises(
        InvalidInputError, match=r"^job 'paid' of .*: ambiguous twice is not possible"
    ):
        load(file)


@pytest.mark.parametrize("kind", [Panic, ValueError, RecursionError, OSError])
def test_failing_job_does_not_stop_next_and_reveals_no_row(
    kind: type[BaseException], file: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = run_job.run

    def run_one(job: Job, *more: Any, **named: Any) -> Any:
        if job.stream == "visits":
            raise kind("" if kind is OSError else "row 17 says: ann")
        return real(job, *more, **named)

    monkeypatch.setattr(statistic_run, "run", run_one)
    done = place("run", str(file), "--json")
    assert done.code == 1
    failed = json.loads(done.out)["jobs"]["visits"]
    assert (failed["failed"], "ann" in done.out) == (1, False)
    assert json.loads(done.out)["jobs"]["paid"]["new"] == 3
    done = place("run", str(file))
    assert "counton: job visits: " in done.err
    assert "ann" not in done.err + done.out


def test_notes_name_their_job_and_appear_once(file: Path, place: Workplace) -> None:
    more = 'bad-rows = "quarantine:bad.csv"\nepsilon = 60\ngroup-by = "page"'
    file.write_text(FILE.replace('group-by = "page"', more))
    events = file.parent / "e.csv"
    events.write_text(ROWS + "soon,home,3\n")
    first = place("run", str(file), "--only", "visits").fine()
    said = first.err.splitlines()
    lines = [line.removeprefix("confidential: ") for line in said if line[:1] != " "]
    assert all(line.startswith("job visits: ") for line in lines)
    assert "confidential: job visits: rows that cannot be read, set aside: 1 of 3 (33.3%)" in said
    again = place("run", str(file), "--only", "visits")
    assert "set aside" not in again.err
    events.write_text(ROWS + "soon,home,3\nlater,home,4\n")
    third = " ".join(place("run", str(file), "--only", "visits").err.split())
    assert "rows that cannot be read, set aside (1 more were set aside by earlier runs): 1" in third


TABLES = """
[defaults]
state = "v.db"
events = "p.csv"
time = "time"
every = "1d"
start = 2024-03-01
windows = 30
until = "2024-03-04"
rho = 0.5

[jobs.both]
statistic = "contingency"
columns = ["page", "old"]
groups = { page = ["home", "shop"], old = ["no", "yes"] }

[jobs.spread]
statistic = "moments"
columns = "paid,seen"
bounds = ["0:9", "0:20"]

[jobs.tree]
statistic = "hierarchy"
levels = ["page", "old"]
groups = "cells.csv"
target = { total = 1, page = 2, old = 3 }

[jobs.many]
group-by = ["page", "old"]
groups = { page = ["home", "shop"], old = ["no", "yes"] }
"""


def test_every_statistic_can_be_a_job_of_a_file(tmp_path: Path, place: Workplace) -> None:
    (tmp_path / "p.csv").write_text("time,page,old,paid,seen\n2024-03-01T09:00,home,no,3,8\n")
    (tmp_path / "cells.csv").write_text("page,old\nhome,no\nhome,yes\nshop,no\nshop,yes\n")
    file = tmp_path / "tables.toml"
    file.write_text(TABLES)
    done = place("run", str(file), "--json").fine()
    assert [one["released"] for one in json.loads(done.out)["jobs"].values()] == [3] * 4
    types = schema()["$defs"]["contingency"]["properties"]
    assert [one["type"] for one in types["columns"]["anyOf"]] == ["string", "array"]
    assert [one["type"] for one in types["groups"]["anyOf"]] == ["string", "array", "object"]
    for old, new, words in (
        ('old = ["no", "yes"] }', 'old = "no" }', "groups has a column without a list of groups"),
        ("page = 2", 'page = "two"', "target is not a number"),
    ):
        file.write_text(TABLES.replace(old, new, 1))
        with pytest.raises(InvalidInputError, match=words):
            load(file)


def test_every_option_is_a_key_of_the_schema() -> None:
    """And of each statistic all that it takes."""
    known = schema()["$defs"]
    for name, model in all_models().items():
        options = {str(field.alias) for field in model.model_fields.values()}
        assert options == known[name]["properties"].keys()


def test_a_place_to_publish_holds_for_all_jobs(file: Path, place: Workplace) -> None:
    more = '\n[publish]\nto = "public.db"\n'
    file.write_text(FILE + more)
    place("ledger", str(file.parent / "v.db"), "--budget-epsilon", "1")
    done = place("run", str(file)).fine()
    assert done.out.count("published 3 new steps, 3 in all, in ") == 2
    ledger = json.loads(place("ledger", str(file.parent / "v.db"), "--json").out)
    assert (ledger["budget"]["epsilon"], ledger["remaining"]) == ("1", None)
    with closing(sqlite3.connect(file.parent / "public.db")) as public, public:
        names = {row[0] for row in public.execute("SELECT stream FROM counton_releases")}
    assert names == {"visits", "paid"}
    again = place("run", str(file), "--json")
    assert (again.code, again.err) == (0, "")
    file.write_text(FILE + more + '[jobs.third]\nepsilon = "0.1"\n')
    assert place("run", str(file), "--only", "third").code == 4  # the limit holds
    for wrong, words in (
        ("[limit]\nepsilon = 2\n", "sets no budget; remove the section"),
        ("[publish]\nwhom = 3\n", "has no option 'whom'"),
        ("[publish]\n", "does not name the database"),
        ('[publish]\nto = "mysql://h/d"\n', "'to' in .publish. of .* is a 'mysql' address"),
        ("[publish]\nto = 3\n", "to 3 is not the path of a file"),
    ):
        file.write_text(f"{FILE}\n{wrong}")
        done = place("run", str(file))
        assert done.code == 2
        assert re.search(words, " ".join(done.err.split())), done.err


def test_budget_for_users_stops_jobs_that_protect_events(file: Path, place: Workplace) -> None:
    """A reader is taken for a person, and the jobs are of events; without the unit they run."""
    jobs = FILE.replace('privacy-unit = "event"', "")
    for about, code in {"reader": 2, None: 0}.items():
        state = file.parent / f"{about}.db"
        table = file.parent / f"{about}.csv"
        file.write_text(jobs.replace("v.db", state.name).replace("visits.csv", table.name))
        whom = [] if about is None else ["--budget-unit", about]
        assert place("ledger", str(state), "--budget-epsilon", "9", *whom).code == 0
        for door in ("plan", "run"):
            done = place(door, str(file))
            assert done.code == code, (about, done.err)
            for name in ("visits", "paid") if code else ():
                assert (
                    f"job {name}: release {name!r} protects one event, but the budget of this "
                    f"ledger is about one {about}: that is something else, so this budget cannot "
                    f"count the release; protect one {about}, or use another ledger"
                ) in " ".join(done.err.split())
        with Store(state) as store:
            released = () if code else ("paid", "visits")
            assert store.streams == released
            assert tuple(sorted(spend.name for spend in store.entries)) == released
        assert table.exists() == (code == 0)


def test_budget_unit_with_period_names_its_timezone(file: Path, place: Workplace) -> None:
    (file.parent / "e.csv").write_text("time,page,paid,who\n2024-03-01T09:00,home,3,ann\n")
    job = (
        FILE.partition("[jobs.paid]")[0]
        + 'user = "who"\nmax-contributions = 2\ncontribution-period = "1d"\n'
    )
    file.write_text(job)
    state = str(file.parent / "v.db")
    place("ledger", state, "--budget-epsilon", "9", "--budget-unit", "reader's day")
    for _ in range(2):
        place("run", str(file)).fine()
    about = json.loads(place("ledger", state, "--json").out)["about"]
    assert about == "reader's day (UTC, time)"


def test_list_of_groups_is_names_despite_equal_file_name(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("home\nshop\n")
    text = '[jobs.it]\nstatistic = "count"\nstate = "s.db"\nevents = "a.csv"\n'
    text += 'groups = ["home", "shop"]\n'
    (tmp_path / "jobs.toml").write_text(text)
    assert load(tmp_path / "jobs.toml")["it"].value_of("groups") == ("home", "shop")
    (tmp_path / "jobs.toml").write_text(text.replace('["home", "shop"]', '"home"'))
    assert load(tmp_path / "jobs.toml")["it"].value_of("groups") == str(tmp_path / "home")


def test_a_file_names_variables_of_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, in texts alone; all that are missing are said, with where they are named."""
    named = FILE.replace('"v.db"', '"${PLACE}/v.db"').replace('"e.csv"', '"${WHERE_1}/e.csv"')
    named = named.replace("[jobs.visits]", '[jobs.visits]\ntitle = "$PLACE, ${TITLE} and $5 {x}"')
    file.write_text(named)
    monkeypatch.setenv("TITLE", "${PLACE}")
    with pytest.raises(
        InvalidInputError, match=r"PLACE \(defaults.state\), WHERE_1 \(defaults.events"
    ):
        load(file)
    monkeypatch.setenv("PLACE", str(file.parent / "states"))
    monkeypatch.setenv("WHERE_1", ".")
    visits = load(file)["visits"]
    assert visits.state == str(file.parent / "states" / "v.db")
    assert visits.events == str(file.parent / "e.csv")
    assert visits.title == "$PLACE, ${PLACE} and $5 {x}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('title = "${A-b}"', r"jobs.visits.title has '\$\{A-b\}', which is not a variable"),
        ('title = "${"', "is not a variable"),
        (
            'query = "select ${A}"',
            r"jobs.visits.query contains .* environment variables are not put into SQL",
        ),
    ],
)
def test_load_refuses_invalid_variable_with_reason(line: str, words: str, file: Path) -> None:
    file.write_text(FILE.replace("[jobs.visits]", f"[jobs.visits]\n{line}"))
    with pytest.raises(InvalidInputError, match=words):
        load(file)


@pytest.fixture
def with_bad_row(file: Path) -> Path:
    """Return a job file with two jobs that set an unreadable row aside."""
    (file.parent / "e.csv").write_text(ROWS + "soon,home,3\n")
    visits = '[jobs.visits]\nbad-rows = "quarantine:aside.csv"'
    paid = '[jobs.paid]\nbad-rows = "quarantine:paid.csv"'
    file.write_text(FILE.replace("[jobs.visits]", visits).replace("[jobs.paid]", paid))
    return file


def dry_visits(place: Workplace, file: Path) -> Any:
    """Return what a dry run reports of job visits."""
    return json.loads(place("run", str(file), "--dry-run", "--json").out)["jobs"]["visits"]


def test_dry_run_prints_release_and_privacy_loss(place: Workplace, with_bad_row: Path) -> None:
    done = place("run", str(with_bad_row), "--dry-run").fine()
    assert not done.changed
    assert "visits: would create the stream and release 3 windows" in done.out
    assert "It would spend epsilon = 0.5" in done.out
    assert done.err.splitlines()[0] == "confidential: job visits: rows read: 3"


def test_dry_run_without_rows_does_not_say_that_it_read_some(place: Workplace, file: Path) -> None:
    (file.parent / "e.csv").unlink()
    done = place("run", str(file), "--dry-run")
    assert done.code == 2
    assert done.out.splitlines()[-1] == "Dry run: nothing was written or released."


def test_run_of_past_data_names_line_of_job_file(place: Workplace, file: Path) -> None:
    text = "".join(line for line in FILE.splitlines(keepends=True) if "until" not in line)
    file.write_text(text)
    done = place("run", str(file), "--only", "visits")
    assert done.code == 2
    assert 'give until = "latest-event" in the job file' in done.err


def test_dry_run_reports_new_stream_and_changes_no_file(
    place: Workplace, with_bad_row: Path, contents: Callable[[], dict[str, bytes]]
) -> None:
    before = contents()
    report = dry_visits(place, with_bad_row)
    assert report["would_release"] == 3
    numbers = report["not_private"]
    assert (numbers["rows"], numbers["dropped"], numbers["quarantined"]) == (3, 0, 1)
    assert contents() == before


def test_dry_run_reports_later_windows_and_changes_no_file(
    place: Workplace, with_bad_row: Path, contents: Callable[[], dict[str, bytes]]
) -> None:
    place("run", str(with_bad_row), "--json", "--until", "2024-03-03").fine()
    before = contents()
    report = dry_visits(place, with_bad_row)
    assert (report["new_stream"], report["released"], report["would_release"]) == (False, 2, 1)
    assert contents() == before


def test_dry_run_refuses_what_a_run_refuses_with_its_code(
    place: Workplace, with_bad_row: Path
) -> None:
    visits = ("run", str(with_bad_row), "--dry-run", "--only", "visits")
    place("run", str(with_bad_row), "--json", "--until", "2024-03-03").fine()
    (with_bad_row.parent / "v.db.key").rename(with_bad_row.parent / "away.key")
    lost = place(*visits)
    assert (lost.code, lost.changed, "v.db.key" in lost.err) == (6, False, True)
    with_bad_row.write_text(with_bad_row.read_text().replace('"shop"]', '"house"]'))
    report = place(*visits, "--json")
    assert (report.code, json.loads(report.out)["jobs"]["visits"]["failed"]) == (2, 2)


def test_exact_numbers_of_json_report_are_marked_confidential(file: Path, place: Workplace) -> None:
    (file.parent / "e.csv").write_text(ROWS + "2024-01-01T09:00,home,3\n")
    file.write_text(FILE.replace("epsilon = 0.5", "epsilon = 30"))
    done = place("run", str(file), "--json")
    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)["jobs"]["visits"]
    empty, note = report["not_private"]["notes"]
    assert (empty[-3:], note[-14:]) == (": 1", "not counted: 1")
    assert any("next to nothing is hidden" in said for said in report["warnings"])
    published = json.dumps({**report, "not_private": None})
    assert not any(exact in published for exact in (empty, note))


@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_row_in_message_of_failed_job_is_marked_confidential(
    dry: list[str], file: Path, place: Workplace
) -> None:
    (file.parent / "e.csv").write_text(ROWS + "2024-03-01T10:00,ann's cellar,3\n")
    done = place("run", str(file), "--json", *dry)
    report = json.loads(done.out)["jobs"]["visits"]
    assert (done.code, report["failed"]) == (2, 2)
    assert "ann's cellar" in report["not_private"]["error"]
    assert "ann" not in json.dumps({**report, "not_private": None})


@pytest.mark.parametrize(("option", "of"), [("ask", "quantiles"), ("shares", "count")])
def test_option_of_another_statistic_is_refused_before_release(
    option: str, of: str, file: Path, place: Workplace
) -> None:
    """A wrong example: to look at the numbers that are wanted after they are released."""
    more = 'value = "paid"\nedges = "0,4,9"\n' if of == "quantiles" else ""
    (file.parent / "visits.csv").write_text("time,paid\n2024-03-01T09:00,3\n")
    file.write_text(
        f'[jobs.one]\nstatistic = "{of}"\nevents = "visits.csv"\nstate = "one.db"\ntime = "time"\n'
        f'every = "1d"\nstart = "2024-03-01"\nwindows = 9\nepsilon = 1\n{more}{option} = "0.5"\n'
    )
    said = place("run", str(file)).refused()
    assert f"{of} has no option {option!r}" in said
    assert not (file.parent / "one.db").exists()


def test_report_of_run_names_keys_of_job_file(file: Path, place: Workplace) -> None:
    text = file.read_text().replace('state = "v.db"', 'state = "e.counton.db"')
    file.write_text(text.replace('until = "2024-03-04"', 'until = "latest-event"'))
    done = place.plain("run", str(file), "--only", "visits").fine()
    assert "If you move the state, change state in the job file." in done.out
    assert "before their day is released, set release-delay." in done.out
    assert "Without until latest-event the clock determines the windows." in done.out
    assert "--" not in done.out.replace("counton methods", "").replace("--full", "")
    again = place.plain("run", str(file), "--only", "paid", "--until", "latest-event").fine()
    assert "Without --until latest-event the clock determines the windows." in again.out


def test_longer_lookback_is_named_as_a_line_of_the_file(file: Path, place: Workplace) -> None:
    text = file.read_text().replace('until = "2024-03-04"', 'lookback = "2d"')
    file.write_text(text)
    place.plain("run", str(file), "--only", "visits", "--until", "2024-03-03").fine()
    (place.folder / "e.csv").write_text(f"{ROWS}2024-03-06T09:00,home,3\n")
    done = place.plain("run", str(file), "--only", "visits", "--until", "2024-03-07")
    assert 'For this run alone, set lookback = "4d" (in a job file).' in done.err
