"""`counton plan nightly.toml`: what all jobs will release and cost, with nothing read or made."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Workplace

FILE = """
[defaults]
state = "visits.db"
events = "missing/*.csv"
time = "at"
every = "1w"
start = "2024-03-01"
windows = 12
epsilon = 1

[jobs.visits]
stream = "visits"
group-by = "page"
groups = "home,shop"
series = "both"
output = "visits.parquet"

[jobs.waits]
statistic = "average"
stream = "waits"
value = "wait"
lower = 0
upper = 60
resolution = 1
"""


@pytest.fixture
def file(place: Workplace) -> Path:
    (place.folder / "nightly.toml").write_text(FILE)
    return place.folder / "nightly.toml"


@pytest.mark.parametrize(
    ("series", "label"),
    [
        ('series = "rolling"\nlast = "4w"', "in the last 4 weeks"),
        ('series = "decayed"\nhalf-life = "4w"', "half-life 4 weeks"),
        ('series = "per-window"', "in each window"),
        ('series = "cumulative"', "cumulative"),
    ],
    ids=str,
)
def test_row_of_one_number_has_its_label(place: Workplace, series: str, label: str) -> None:
    file = place.folder / "nightly.toml"
    file.write_text(FILE.partition("[jobs.waits]")[0].replace('series = "both"', series))
    done = place.plain("plan", str(file)).fine()
    assert re.search(rf"^{label} +±", done.out, re.MULTILINE)


def test_a_file_is_planned_in_a_folder_where_nothing_changes(
    place: Workplace, file: Path, contents: Callable[[], dict[str, bytes]]
) -> None:
    before = contents()
    done = place.plain("plan", str(file)).fine()
    assert contents() == before
    assert max(len(line) for line in done.out.splitlines() if "±" in line) <= 80
    for words in (
        "Number of events of 2 groups, 12 windows of 1w. State: ",
        "Privacy: epsilon = 1 for each event, for all windows together",
        "in each window",
        "The error of means and quantiles",
    ):
        assert words in done.out
    # The rows say nothing: they may be there, and may be none at all. A header is no row.
    (place.folder / "missing").mkdir()
    (place.folder / "missing" / "e.csv").write_text("at,page,wait\nno,rows of\x00a job\n")
    assert place.plain("plan", str(file)) == done
    assert place.plain("plan", str(file), "--json").code == 0


def test_expected_rows_add_percentages_to_plan(place: Workplace, file: Path) -> None:
    done = place.plain("plan", str(file), "--expected-rows", "5000", "--json").fine()
    jobs = json.loads(done.out)["jobs"]
    assert [one["of"] for one in jobs["waits"]["numbers"]] == ["mean", "sum", "count"]
    first = jobs["visits"]["numbers"][0]
    assert first["percent"] == pytest.approx(100 * first["halfwidths"][-1] * 2 / 5000)
    assert jobs["waits"]["confidence_level"] == 0.95
    assert jobs["waits"]["windows"] == [1, 6, 12]
    own = jobs["visits"]["numbers"][1]
    assert own["of"] == "in each window"
    assert own["percent"] == pytest.approx(100 * own["halfwidths"][-1] * 2 * 12 / 5000)
    shown = place.plain("plan", str(file), "--expected-rows", "5000")
    assert "of its rows" in shown.out
    words = " ".join(shown.out.split())
    rows = "The plan assumes 5,000 rows, spread evenly over 12 windows (416.7 in each)"
    assert f"{rows} and 2 groups. Percentages refer to the rows that a number counts." in words


def test_plan_warns_of_large_privacy_loss(place: Workplace, file: Path) -> None:
    file.write_text(FILE.replace('stream = "visits"', 'stream = "visits"\nepsilon = 30'))
    done = place.plain("plan", str(file))
    assert "job visits: warning: the privacy loss 30 for one event is above 20" in done.err


def test_plan_refuses_two_jobs_with_one_output_as_run_does(place: Workplace, file: Path) -> None:
    bad = 'bad-rows = "quarantine:bad.csv"'
    file.write_text(FILE.replace("[defaults]", f"[defaults]\n{bad}", 1))
    done = place.plain("plan", str(file))
    assert (done.code, done.out) == (2, "")
    assert "bad.csv' (bad-rows), which job " in done.err
    assert done.err == place.plain("run", str(file)).err


def test_job_that_cannot_be_planned_fails_alone(place: Workplace, file: Path) -> None:
    file.write_text(FILE + '[jobs.more]\nstream = "more"\nepsilon = 3\n[jobs.none]\nevery = "1x"\n')
    place.plain("ledger", str(place.folder / "visits.db"), "--budget-epsilon", "4")
    done = place.plain("plan", str(file))
    assert done.code == 4  # of the first that failed
    assert "counton: job 'none' of " in done.err
    assert "waits" in done.out
    assert "release 'more' asks for pure differential privacy with epsilon = 3" in done.err
    said = json.loads(place.plain("plan", str(file), "--json").out)
    assert "error" in said["jobs"]["none"]
    assert "epsilon = 2 is left" in said["jobs"]["more"]["error"]


ROWS = "at,page,wait,who\n2024-03-02T09:00,home,3,ann\n2024-03-04T09:00,shop,7,bob\n"
#: What a run refuses before it reads a row: lines of one job, or of the whole file; its exit code.
WRONG = {
    'output = "v.doc"': 2,
    'output = "missing/e.csv"': 2,
    'sums = "1mo"': 2,
    'output = "v.csv"\nsums = "1d"': 2,
    'title = "Visits"': 2,
    'output = "v.csv"\nabove = "x"': 2,
    'bad-rows = "keep"': 2,
    'bad-rows = "quarantine:missing/e.csv"': 2,
    'ask = "home"': 2,
    'user = "who"\nmax-contributions = 3\nretain = "90d"': 2,
    'query = "select 1"': 2,
    'separator = "ab"': 2,
    'ledger = "none.db"': 2,
    'groups = "missing/e.csv"': 2,
    'time = "when"': 2,
    'privacy-unit = "event"\n[jobs.users]\nuser = "who"\n'
    'max-contributions = 1\nprivacy-unit = "event"': 2,
    "epsilon = 3.5": 4,
    "epsilon = 9\n[jobs.none]\nrelease-delay = 'x'": 4,
    'state = "missing/e.csv"': 3,
    '[publish]\nwhere = "v.db"': 2,
    "[limit]\nepsilon = 4": 2,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_plan_refuses_job_file_as_run_does(place: Workplace, file: Path, wrong: str) -> None:
    """In the same words, with the same exit code."""
    text = FILE.replace("[defaults]", '[defaults]\nuntil = "2024-03-08"')
    if wrong.startswith("["):
        text += wrong
    else:
        keys = [line.partition(" ")[0] for line in wrong.partition("[")[0].splitlines()]
        visits = text.partition("[jobs.visits]\n")[2].partition("[jobs.waits]")[0]
        kept = [one for one in visits.splitlines() if one.partition(" ")[0] not in keys]
        lines = "\n".join([*kept, wrong])
        text = text.replace(visits, f"{lines}\n\n")
    file.write_text(text)
    (place.folder / "missing").mkdir()
    (place.folder / "missing" / "e.csv").write_text(ROWS)
    if WRONG[wrong] == 4:
        place.plain("ledger", str(place.folder / "visits.db"), "--budget-epsilon", "4")
    before = {path.name for path in place.folder.iterdir()}
    planned = place.plain("plan", str(file))
    assert {path.name for path in place.folder.iterdir()} == before
    done = place.plain("run", str(file))
    assert done.code != 0
    assert (planned.code, planned.err) == (done.code, done.err)
    assert planned.code == WRONG[wrong]


def test_plan_refuses_job_that_existing_state_contradicts(place: Workplace, file: Path) -> None:
    text = FILE.replace("[defaults]", '[defaults]\nuntil = "2024-03-08"')
    (place.folder / "missing").mkdir()
    (place.folder / "missing" / "e.csv").write_text(ROWS)
    file.write_text(text)
    place.plain("ledger", str(place.folder / "visits.db"), "--budget-epsilon", "4")
    before = json.loads(place.plain("plan", str(file), "--json").out)
    assert place.plain("run", str(file)).code == 0
    # What is entered is not counted a second time, and need not be stated a second time.
    file.write_text(text.replace('group-by = "page"\ngroups = "home,shop"\n', ""))
    after = json.loads(place.plain("plan", str(file), "--json").out)
    assert after == before
    # The limit stands in the state, and what others have spent there counts: a job that does not
    # fit is refused.
    for wrong in (
        text.replace("windows = 12", "windows = 13"),
        text.replace('am = "waits"', 'am = "w"\nepsilon = 3'),
    ):
        file.write_text(wrong)
        planned = place.plain("plan", str(file))
        done = place.plain("run", str(file))
        assert done.code != 0
        assert (planned.code, planned.err) == (done.code, done.err)
    # What has ended is no reason to fail.
    file.write_text(text)
    assert (
        place.plain(
            "close", str(place.folder / "visits.db"), "--stream", "waits", "--drop-waiting"
        ).code
        == 0
    )
    planned = place.plain("plan", str(file))
    done = place.plain("run", str(file))
    assert (planned.code, done.code) == (0, 0)
    assert "waits: closed at window 1; nothing more is released" in planned.out


@pytest.mark.parametrize("exists", [False, True])
def test_job_is_refused_when_privacy_unit_contradicts_other_job(
    place: Workplace, file: Path, exists: bool
) -> None:
    """One name never stands for a row and a person: the first job of the file decides."""
    text = FILE.replace("[defaults]", '[defaults]\nuntil = "2024-03-08"\nprivacy-unit = "visitor"')
    file.write_text(
        text.replace('am = "visits"', 'am = "visits"\nuser = "who"\nmax-contributions = 1')
    )
    (place.folder / "missing").mkdir()
    (place.folder / "missing" / "e.csv").write_text(ROWS)
    if exists:
        place.plain("ledger", str(place.folder / "visits.db"), "--budget-epsilon", "4")
    planned = place.plain("plan", str(file))
    jobs = json.loads(place.plain("plan", str(file), "--json").out)["jobs"]
    assert "error" not in jobs["visits"]
    assert "'visitor' means one user in the release 'visits' of this" in jobs["waits"]["error"]
    done = place.plain("run", str(file))
    refusals = [line for line in done.err.splitlines() if line.startswith("counton: ")]
    assert planned.err.splitlines() == refusals
    assert planned.code == done.code == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--epsilon", "1"], "--epsilon 1 cannot be used with job file "),
        (["--margin-of-error", "20"], "--margin-of-error 20 cannot be used with"),
        (["--simple"], "--simple cannot be used with"),
        (["--expected-rows", "0"], "--expected-rows is 0; it must be an integer between 1"),
        (["--confidence-level", "0.9"], "--confidence-level 0.9 cannot be used with"),
    ],
    ids=str,
)
def test_plan_of_job_file_refuses_options_of_command(
    place: Workplace, file: Path, given: list[str], words: str
) -> None:
    said = place.plain("plan", str(file), *given).refused()
    assert words in said


def test_plan_notes_bound_for_late_windows_of_contribution_period(
    place: Workplace, file: Path
) -> None:
    people = 'windows = 12\nuser = "reader"\nmax-contributions = 20\ncontribution-period = "3mo"'
    file.write_text(FILE.replace("windows = 12", people))
    said = " ".join(place.plain("plan", str(file)).out.split())
    assert said.count("Note: late windows of a period are counted too low") == 2
    assert "; max-contributions-per-window = 2 keeps windows from taking what later" in said
    assert "or a period of one window, avoids it" in said  # of averages
    jobs = json.loads(place.plain("plan", str(file), "--json").out)["jobs"]
    assert "counted too low" in jobs["visits"]["note"]
    file.write_text(
        file.read_text().replace(
            "max-contributions = 20", "max-contributions = 14\nmax-contributions-per-window = 1"
        )
    )
    done = place.plain("plan", str(file))
    assert "note: " not in done.out.partition("waits")[0]
    assert "a row of this statistic changes several numbers" in " ".join(done.err.split())


def test_plan_note_gives_a_bound_that_keeps_later_windows(place: Workplace, file: Path) -> None:
    """The quarter from April has 8 of 12 weeks: a limit of 2 would leave 6 of them at 0."""
    text = FILE.replace(
        "windows = 12",
        'windows = 12\nuser = "reader"\nmax-contributions = 2\ncontribution-period = "3mo"',
    )
    file.write_text(text)
    note = json.loads(place.plain("plan", str(file), "--json").out)["jobs"]["visits"]["note"]
    assert "max-contributions-per-window = 1 with max-contributions = 8, which needs more" in note
    remedy = "max-contributions = 8\nmax-contributions-per-window = 1"
    file.write_text(text.replace("max-contributions = 2", remedy))
    assert "note" not in json.loads(place.plain("plan", str(file), "--json").out)["jobs"]["visits"]


def test_plan_note_names_no_bound_that_job_already_has(place: Workplace, file: Path) -> None:
    """Each counts once in a window without it: most-a-window = 1 would change nothing."""
    people = (
        'windows = 12\nuser = "reader"\nmax-contributions = 5\ncontribution-period = "3mo"\n'
        "once-per-window = true"
    )
    file.write_text(FILE.replace("windows = 12", people))
    note = json.loads(place.plain("plan", str(file), "--json").out)["jobs"]["visits"]["note"]
    assert "max-contributions-per-window" not in note
    assert "a larger max-contributions, or a period of one window, avoids it" in note
    # A week has one window, and three months have 14, with two groups in each.
    assert "late windows" in note
    file.write_text(file.read_text().replace("max-contributions = 5", "max-contributions = 28"))
    assert "note" not in json.loads(place.plain("plan", str(file), "--json").out)["jobs"]["visits"]


def test_a_plan_of_windows_weighs_a_bound_for_each(place: Workplace) -> None:
    """With Gaussian noise 20 events, one a window, need as much as the root of 20 says."""
    asked = (
        "plan",
        "--windows",
        "365",
        "--rho",
        "0.5",
        "--series",
        "per-window",
        "--max-contributions",
        "20",
    )
    assert "--max-contributions-per-window limits each window" in place.plain(*asked).out
    found = json.loads(place.plain(*asked, "--max-contributions-per-window", "1", "--json").out)
    assert found["max_contributions_per_window"] == 1
    assert found["choices"][0]["mean_std"] == pytest.approx(20**0.5)
    for wrong, why in (("21", "is above --max-contributions 20"), ("0", "is below 1")):
        done = place.plain(*asked, "--max-contributions-per-window", wrong)
        assert (done.code, f"--max-contributions-per-window {wrong} {why}" in done.err) == (2, True)


def test_plan_option_advice_on_expected_rows_works(place: Workplace, file: Path) -> None:
    words = [
        *("release", "average", "shop.csv", "--value", "age", "--lower", "0", "--upper", "100"),
        *("--resolution", "1", "--time", "at", "--every", "1d", "--start", "2024-03-01"),
        *("--windows", "9", "--epsilon", "1", "--privacy-unit", "sale", "--state", "ages.db"),
        "--plan",
    ]
    done = place.plain(*words).fine()
    advice = "Use --save-job FILE, then counton plan FILE --expected-rows N."
    assert advice in " ".join(done.out.split())
    job_file = str(place.folder / "ages.toml")
    place.plain(*words, "--save-job", job_file).fine()
    planned = place.plain("plan", job_file, "--expected-rows", "5000").fine()
    assert "mean" in planned.out
    assert "--expected-rows" not in planned.out
    assert "State it with --expected-rows." in place.plain("plan", job_file).fine().out


def test_the_error_of_a_quantile_is_in_rank(place: Workplace, file: Path) -> None:
    ages = """
[jobs.ages]
statistic = "quantiles"
value = "age"
lower = 0
upper = 100
cells = 100
shares = "0.5"
"""
    file.write_text(FILE + ages)
    done = place.plain("plan", str(file), "--expected-rows", "5000")
    (line,) = (one for one in done.out.splitlines() if "quantile 0.5" in one)
    found = json.loads(place.plain("plan", str(file), "--expected-rows", "5000", "--json").out)
    (number,) = found["jobs"]["ages"]["numbers"]
    assert number["in_rank"]
    assert f"rank {number['percent']:.4g}%" in line
    assert "margins of error assume evenly spread rows" in " ".join(done.out.split())
    assert "rank over 100%" in place.plain("plan", str(file), "--expected-rows", "1").out
    assert "in rank" not in place.plain("plan", str(file)).out
    assert "values lie below an edge" in " ".join(place.plain("plan", str(file)).out.split())
