"""Users on the command line: what is said of them, and to whom."""

import json
import re

import pytest

from counton import read
from counton.run.outputs.exports import export

from .conftest import Workplace

ROWS = ["00:10,a,ann", "00:20,b,ann", "00:30,a,ann", "01:30,a,bob", "03:00,b,ann"]


@pytest.fixture
def events(place: Workplace) -> str:
    return str(place.write("e.csv", ROWS, "time,group,who"))


LINE = (
    "--time", "time", "--start", "2013-01-01", "--every", "1h", "--windows", "6", "--privacy-unit",
    "visit",
)  # fmt: skip
DOMAIN = ("--groups", "group=a,b")
CELLS = ("--groups", "a,b")


@pytest.mark.parametrize(
    "asked",
    [
        ("release", "contingency", "--columns", "group", *DOMAIN),
        ("release", "contingency", "--columns", "group", *DOMAIN, *LINE),
        ("release", "ranges", "--count-column", "number", "--label", "group", "--groups", "a,b"),
        ("release", "ranges", "--label", "group", *CELLS, *LINE),
        (
            "release",
            "hierarchy",
            "--levels",
            "group",
            "--count-column",
            "number",
            "--groups",
            "groups.csv",
        ),
        ("release", "hierarchy", "--levels", "group", "--groups", "groups.csv", *LINE),
        ("release", "count", "--group-by", "group", *CELLS, *LINE),
        ("release", "top-k", "--group-by", "group", *CELLS, *LINE),
    ],
    ids=" ".join,
)
def test_every_output_states_that_users_are_not_protected(
    place: Workplace, asked: tuple[str, ...]
) -> None:
    words = "users are not protected: a user with 100 visits loses 100 times the epsilon"
    what = 2
    (place.folder / "groups.csv").write_text("group\na\nb\n")
    rows = ["00:10,a,x,1", "02:00,b,y,1"]
    place.write("e.csv", rows[: 2 - ("number" in asked)], "time,group,who,number")
    out = str(place.folder / "out.csv")
    state = str(place.state)
    unit = () if "--privacy-unit" in asked else ("--privacy-unit", "visit")
    command = (*asked[:what], str(place.folder / "e.csv"), *asked[what:], *unit)
    command = tuple(str(place.folder / word) if word == "groups.csv" else word for word in command)
    command += ("--epsilon", "1", "--state", state, "--output", out)
    done = place(*command).fine()
    assert f"U{words[1:]}." in " ".join(done.out.split())
    assert json.loads(place.folder.joinpath("out.csv.json").read_text())["people"] == words
    assert json.loads(place(*command, "--json").out)["people"] == words
    place.folder.joinpath("out.csv.json").unlink()
    assert place("export", state, "--output", out).code == 0
    assert json.loads(place.folder.joinpath("out.csv.json").read_text())["people"] == words
    assert words in " ".join(export(state).describe().split())


def test_every_output_states_that_losses_of_periods_add_up(place: Workplace, events: str) -> None:
    words = (
        "each who's day is protected separately: a who with 10 of them loses up to 10 times the "
        "epsilon"
    )
    state = str(place.state)
    out = str(place.folder / "out.csv")
    line = (
        "--user",
        "who",
        "--max-contributions",
        "2",
        "--contribution-period",
        "1d",
        *LINE[:-1],
        "who",
        "--epsilon",
        "1",
    )
    done = place("release", "count", events, *line, "--state", state, "--output", out).fine()
    kept = export(state)
    published = read(out)
    doors = [done.out, place("inspect", state).out, place("inspect", out).out, place.shown()]
    doors += [place("methods", state).out, place("methods", state, "--full").out]
    doors += [str(kept), kept.describe(), published.describe(), published.methods(full=True)]
    for said in doors:
        assert words.lower() in " ".join(said.lower().split())
    assert json.loads(place.folder.joinpath("out.csv.json").read_text())["people"] == words


@pytest.mark.parametrize(
    "asked",
    [
        ("release", "count", "--user", "who", "--max-contributions", "2", *LINE),
        ("release", "distinct", "--user", "who", *LINE),
    ],
    ids=" ".join,
)
def test_outputs_omit_note_when_users_are_protected(
    place: Workplace, events: str, asked: tuple[str, ...]
) -> None:
    what = 2
    out = str(place.folder / "out.csv")
    kept = ("--epsilon", "1", "--state", str(place.state), "--output", out)
    done = place(*asked[:what], events, *asked[what:], *kept).fine()
    assert "people are not" not in done.out
    assert "people" not in json.loads(place.folder.joinpath("out.csv.json").read_text())
    assert "people are not" not in export(str(place.state)).describe()


@pytest.mark.parametrize(
    ("bound", "words", "late"),
    [
        (
            ("--max-contributions", "2", "--contribution-period", "1w"),
            "rows beyond 2 of each visit's week are not counted",
            True,
        ),
        (
            ("--max-contributions", "2"),
            "rows beyond 2 of each visit are not counted",
            True,
        ),
        # A period is a window.
        (
            ("--max-contributions", "2", "--contribution-period", "1h"),
            "rows beyond 2 of each visit's hour are not counted",
            False,
        ),
        (
            (
                "--max-contributions",
                "24",
                "--contribution-period",
                "1d",
                "--max-contributions-per-window",
                "1",
            ),
            "",
            False,
        ),  # never reached
        (
            (
                "--max-contributions",
                "2",
                "--contribution-period",
                "1d",
                "--max-contributions-per-window",
                "1",
            ),
            "",
            True,
        ),
        (("--distinct-users",), "", False),  # who has come so far
    ],
    ids=str,
)
def test_outputs_note_low_late_windows_under_long_periods(
    place: Workplace, events: str, bound: tuple[str, ...], words: str, late: bool
) -> None:
    asked = ("release", "count", events, "--user", "who", *bound, *LINE, "--epsilon", "1",
             "--state", str(place.state), "--until", "latest-event")  # fmt: skip
    place.by_file(*asked).fine()
    said = " ".join(export(str(place.state)).describe().split()).lower()
    assert words in said
    assert ("most of all in late hours" in said) == late


def test_guarantee_names_user_and_dropped_rows_are_confidential(
    place: Workplace, events: str
) -> None:
    bounds = (
        "--user",
        "who",
        "--max-contributions",
        "2",
        "--contribution-period",
        "1d",
        "--privacy-unit",
        "visitor",
    )
    done = place.count(events, *bounds).fine()
    assert "people are not" not in done.out
    said = place.shown()
    assert (
        "The privacy unit is one visitor's day, with at most 2 events counted, each by at " in said
    )
    assert "in any" not in said
    assert "people are not" not in said
    # The window of the row at 03:00 has not ended, so it is not beyond the limit yet.
    assert "rows beyond their user's limit, not counted: 1\n" in done.err
    report = json.loads(place("release", "count", events, *place.again, "--json").out)
    assert "one visitor's day" in report["protected"]
    assert report["contribution"]["most"] == 2
    kept_apart = report.pop("not_private")
    assert kept_apart.keys() == {"rows", "late_uncounted", "dropped", "quarantined", "notes"}
    for name in ("over", "dropped"):
        assert name not in json.dumps(report)


def test_rho_of_several_periods_is_stated_with_squared_number(
    place: Workplace, events: str
) -> None:
    """As groups do: Bun and Steinke 2016, Proposition 1.9."""
    people = ("--user", "who", "--max-contributions", "2", "--contribution-period", "1d")
    new = place.new(epsilon=None, rho="1")
    assert place("release", "count", events, *new, *people).code == 0
    assert "a user with 10 of them loses up to 100 times the rho" in place.shown()


def test_row_ids_are_described_with_their_retention(place: Workplace) -> None:
    """For as long as ids are remembered, and in this stream alone."""
    path = str(place.write("ids.csv", ["00:10,a,1", "00:20,a,1", "03:00,b,2"], "time,group,row"))
    assert place.count(path, "--row-id", "row").code == 0
    said = place.shown()
    assert "the same id are one event, until 35 days after the first of them was counted" in said
    assert "an id that comes again later counts as another event, with a loss of its own" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--contribution-period", "1y"), "--contribution-period 1y is not a length of time"),
        (("--privacy-unit", ""), "unit"),
    ],
)
def test_a_wrong_period_or_unit_is_named(
    place: Workplace, events: str, options: tuple[str, ...], words: str
) -> None:
    said = place.count(events, "--user", "who", "--max-contributions", "2", *options).refused()
    assert words in said


def test_erase_user_needs_confirmation_for_any_name(place: Workplace, events: str) -> None:
    """Of any name alike: whom the state knows must not decide whether a bucket is closed."""
    users = ("--user", "who", "--max-contributions", "2", "--until", "2013-01-01T02:00")
    assert place.count(events, *users).code == 0
    state = str(place.state)
    before = place.state.read_bytes()
    asked = [place("erase-user", state, person) for person in ("a", "NOSUCH")]
    for done, person in zip(asked, ("'a'", "'NOSUCH'"), strict=True):
        assert (done.code, done.out) == (2, "")
        assert "can be erased in 'count' only at a price" in done.err
        assert "give --yes" in done.err
        assert done.err.replace(person, "") == asked[0].err.replace("'a'", "")
    done = place("erase-user", state, "a", "--stream", "none", "--yes")
    assert (done.code, "has no stream 'none'; it has 'count'" in done.err) == (2, True)
    assert place.state.read_bytes() == before
    said = place("erase-user", state, "a", "--yes").out
    assert "has erased this user. From now on, one in 1,024 of all users who are new" in said


def test_erase_user_needs_no_confirmation_after_last_release(place: Workplace, events: str) -> None:
    """The last step is released, or the stream was ended: nothing is asked, and nothing said."""
    users = ("--user", "who", "--max-contributions", "2", "--until", "2013-01-01T02:00")
    assert place.count(events, *users, "--stream", "all", "--windows", "2").code == 0
    assert place.count(events, *users, "--stream", "ended").code == 0
    assert place("close", str(place.state), "--stream", "ended", "--drop-waiting").code == 0
    for person in ("a", "NOSUCH"):
        done = place("erase-user", str(place.state), person).fine()
        assert done.out.count("The stream is closed and counts no more users") == 2
        assert "new" not in done.out


LATER = """[jobs.visits]
statistic = "count"
events = "e.csv"
time = "time"
every = "1h"
start = "2013-01-01"
windows = 6
user = "who"
max-contributions = 1
contribution-period = "1d"
epsilon = 1
state = "later.db"
"""


def test_dry_run_and_first_run_note_that_later_windows_lose_rows(
    place: Workplace, events: str
) -> None:
    """A reader changed only the period, and published 0 for most days."""
    file = place.folder / "job.toml"
    file.write_text(LATER)
    note = "late windows of a period are counted too low"
    remedy = "max-contributions-per-window = 1 with max-contributions = 6, which needs more noise"

    def told(*more: str, until: str = "2013-01-01T02:00") -> str:
        return " ".join(place.plain("run", str(file), "--until", until, *more).fine().err.split())

    for more in (["--dry-run"], []):
        notes = told(*more)
        assert note in notes
        assert remedy in notes
    assert note not in told(until="2013-01-01T03:00")
    file.write_text(LATER.replace('"1d"', '"1h"').replace("later", "hours"))
    assert note not in told("--dry-run")


def test_note_on_late_rows_of_users_asks_for_no_new_stream(place: Workplace) -> None:
    """A reader who began one for two late rows would have spent epsilon twice."""
    rows = ["00:30,a,ann", "01:30,b,bob"]
    users = ("--user", "who", "--max-contributions", "2", "--until", "2013-01-01T02:00")
    head = "time,group,who"
    assert place.count(place.write("e.csv", rows, head), *users).code == 0
    late = place.write("e.csv", [*rows, "00:40,a,cleo"], head)
    done = place("release", "count", late, *place.again, "--until", "2013-01-01T02:00").fine()
    told = " ".join(done.err.split())
    assert "The next release counts the late rows" in told
    assert "begin a new stream" not in told
    assert "rows that arrived late for windows released before, to be counted at the next" in told


def test_rows_already_counted_are_not_reported_as_dropped(place: Workplace) -> None:
    """A growing file whose rows have ids brings them again: they are in what is shown."""
    days = [f"2013-01-{day:02}T01:00:00Z,a{day}" for day in range(1, 11)]
    nights = {"2013-01-11": days, "2013-03-02": [*days, "2013-03-01T01:00:00Z,b"]}
    nights["2013-03-03"] = [*nights["2013-03-02"], "2013-03-02T01:00:00Z,c"]
    new = ["--row-id", "row", "--time", "time", "--every", "1d", "--start", "2013-01-01"]
    new += ["--windows", "90", "--epsilon", "1000000"]
    for night, rows in nights.items():
        file = place.folder / "e.csv"
        file.write_text("\n".join(["time,row", *rows]))
        kept = ("--append", "--state", str(place.state), "--until", night)
        done = place.plain(
            "release", "count", str(file), *new, *kept, "--allow-empty-windows"
        ).fine()
        new = []
    told = " ".join(done.err.split())
    assert (
        "rows whose UTC day ended at least 35 days (840 hours) "
        "before the end of the last day that earlier "
        "runs released, or of an erased period"
    ) in told
    assert "(earlier runs may have counted them): 10" in told
    assert "not counted: 10" not in told
    shown = re.search(r"March 2013 +(\d+)", done.out)
    assert shown is not None
    assert shown[1] == "12"  # all of them, each once
