"""States that do not fit, keys that are not theirs, budgets that are spent."""

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest

from counton import Key, PureDP
from counton.state import Stream
from counton.state.schema import FORMAT
from counton.strategies import Binary

from .conftest import Workplace

EVENTS = ["00:10,a", "00:50,b", "01:30,a", "03:00,b"]

Contents = Callable[[], dict[str, bytes]]


@pytest.fixture
def events(place: Workplace) -> str:
    """Events of which three windows are released."""
    path = place.write("e.csv", EVENTS)
    assert place.count(path).code == 0
    return str(path)


def test_another_key_is_refused(place: Workplace, events: str) -> None:
    other = place.folder / "other.key"
    Key.generate().save(other)
    said = place("release", "count", events, *place.again, "--key", str(other)).refused(6)
    assert "was created with the key" in said


def test_a_stream_of_another_program_is_refused(place: Workplace, events: str) -> None:
    Stream.create(place.state, "mine", Binary(10), PureDP(1)).close()
    said = place("release", "count", events, *place.again, "--stream", "mine").refused()
    assert "was not made by a job" in said


def test_a_stated_key_file_is_made_and_used(place: Workplace) -> None:
    events = place.write("e.csv", EVENTS)
    key = place.folder / "my.key"
    assert place.count(events, "--key", str(key)).code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert not (place.folder / "state.db.key").exists()
    assert (
        "No new window is due"
        in place("release", "count", events, *place.again, "--key", str(key)).out
    )


def test_key_file_is_removed_when_stream_is_not_created(place: Workplace, events: str) -> None:
    place("ledger", str(place.state), "--budget-epsilon", "100")
    key = place.folder / "my.key"
    assert place("release", "count", events, *place.new(stream="s", key=str(key))).code == 4
    assert not key.exists()


def test_a_run_that_fails_makes_no_state_of_a_url(place: Workplace, contents: Contents) -> None:
    events = place.write("e.csv", EVENTS)
    before = contents()
    done = place(
        "release", "count", events, *place.new(state=f"sqlite:///{place.state}", every="1x")
    )
    assert done.code == 2
    assert contents() == before


def test_inspect_shows_public_metadata_without_secrets(place: Workplace, events: str) -> None:
    shown = place.shown()
    for word in ("Stream count", "released", "3 windows", "epsilon = 100", "by group (2 ", "1h"):
        assert word in shown
    as_json = place("inspect", str(place.state), "--json").out
    assert json.loads(as_json)["streams"][0]["step"] == 3
    secret = (place.folder / "state.db.key").read_text().strip().rpartition(":")[2]
    assert len(bytes.fromhex(secret)) == 32
    for text in (shown, as_json):
        assert secret not in text
        assert "checkpoint" not in text
        assert "observed" not in text


def test_show_has_the_last_numbers_in_twelve_lines(place: Workplace, events: str) -> None:
    shown = place("inspect", str(place.state)).out
    lines = shown.splitlines()
    assert len(lines) <= 12
    assert [line.split()[:2] for line in lines if line[:2] in ("a ", "b ")] == [
        ["a", "2"],
        ["b", "1"],
    ]
    assert "Mechanism: discrete Laplace noise, independent for all windows" in lines
    assert "Privacy: epsilon = 100 for each event" in shown
    assert lines[-2].endswith(f"(format {FORMAT})")
    assert lines[-1] == "Next: counton methods --full prints the full privacy statement"
    with Stream.create(place.folder / "fed.db", "fed", Binary(9), PureDP(1)) as fed:
        (last,) = fed.release_many([3]).values
    assert f"Step 1: {last}\n" in place("inspect", str(place.folder / "fed.db")).out


def test_ledger_adds_up_each_privacy_unit_separately(place: Workplace, events: str) -> None:
    """Departures beside events: two totals, and words that say so."""
    place(
        "release",
        "count",
        events,
        *place.new(stream="second", privacy_unit="departure", epsilon="50"),
    ).fine()
    done = place(
        "ledger", str(place.state), "--budget-epsilon", "100", "--budget-relation", "add_remove"
    )
    assert "remaining for one event added or removed: nothing" in done.out
    left = "remaining for one departure added or removed: pure differential privacy with epsilon = "
    assert left + "50" in " ".join(done.out.split())
    assert "units are counted apart" in done.out
    assert "departure added" in " ".join(done.out.split())
    report = json.loads(place("ledger", str(place.state), "--json").out)
    assert [entry["unit"] for entry in report["spent"]] == ["event", "departure"]
    assert report["remaining"] is None
    refused = place("ledger", str(place.state), "--budget-relation", "replace")
    assert "--budget-relation replace needs --budget-epsilon or --budget-rho" in refused.err
    refused = place(
        "ledger", str(place.state), "--budget-epsilon", "200", "--budget-relation", "swap"
    )
    assert "relation is 'swap'" in refused.err


USERS = ("--user", "reader", "--max-contributions", "2")


@pytest.fixture
def rows_of_readers(place: Workplace) -> str:
    """Set a budget for readers, and release a stream that protects them."""
    rows = place.write("r.csv", ["00:10,a,ann", "01:30,b,bob"], "time,group,reader")
    budget = ("--budget-epsilon", "100", "--budget-unit", "reader")
    place("ledger", str(place.state), *budget).fine()
    place("release", "count", rows, *place.new(epsilon="40"), *USERS).fine()
    return rows


def test_stream_takes_the_unit_of_the_budget(place: Workplace, rows_of_readers: str) -> None:
    assert "Privacy: epsilon = 40 for each reader" in place.shown()
    assert json.loads(place("ledger", str(place.state), "--json").out)["about"] == "reader"
    printed = " ".join(place("ledger", str(place.state)).out.split())
    assert "for one reader; a release that protects only a period" in printed


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--privacy-unit", "visit"),
        (*USERS, "--contribution-period", "1mo"),
        (*USERS, "--privacy-unit", "person"),
    ],
)
def test_budget_of_users_refuses_streams_that_protect_less(
    more: tuple[str, ...], place: Workplace, rows_of_readers: str
) -> None:
    new = place.new(stream="b", epsilon="40")
    done = place("release", "count", rows_of_readers, *new, *more)
    assert done.code == 2
    assert "the budget of this ledger is about one reader" in done.err


def test_budget_unit_is_changed_only_to_one_that_protects_less(
    place: Workplace, rows_of_readers: str
) -> None:
    ledger = ("ledger", str(place.state))
    budget = (*ledger, "--budget-epsilon", "100", "--budget-unit")
    assert "--budget-unit" in place(*ledger, "--budget-unit", "reader").refused()
    assert "reader's day" in place(*budget, "reader's day").refused()
    place(*budget, "reader's day", "--raise").fine()
    # The release protects all days of a reader, so it counts twice for one day.
    assert "epsilon = 80" in " ".join(place(*ledger).out.split())
    assert "'count' protects one reader" in place(*budget, "visitor").refused()


def test_state_without_budget_unit_lists_totals_per_unit(place: Workplace) -> None:
    rows = place.write("r.csv", ["00:10,a,ann", "01:30,b,bob"], "time,group,reader")
    assert place("ledger", str(place.state), "--budget-epsilon", "100").code == 0
    people = "--user", "reader", "--max-contributions", "2"
    done = place(
        "release", "count", rows, *place.new(epsilon="70"), *people, "--privacy-unit", "reader"
    )
    assert "apart" not in done.out
    totals = ["70 for one reader added"]
    for name, epsilon, unit, more in (
        ("b", "30", "person", (*people, "--privacy-unit", "person")),
        (
            "c",
            "75",
            "reader's month (UTC, time)",
            (*people, "--privacy-unit", "reader", "--contribution-period", "1mo"),
        ),
        ("d", "40", "event", ("--privacy-unit", "event")),
    ):
        done = place("release", "count", rows, *place.new(stream=name, epsilon=epsilon), *more)
        totals.append(f"{epsilon} for one {unit} added")
        said = " ".join(done.out.split())
        for total in totals:
            assert f"epsilon = {total} or removed" in said
        assert "they do not add up to one guarantee" in said


def test_ledger_divides_delta_of_budget(place: Workplace, events: str) -> None:
    budget = ("--budget-epsilon", "200", "--budget-delta", "1e-6")
    assert place("ledger", str(place.state), *budget, "--budget-approximate-delta", "0").code == 0
    shown = " ".join(place("ledger", str(place.state)).out.split())
    assert "remaining: pure differential privacy with epsilon = " in shown
    assert place("ledger", str(place.state), *budget).code == 2
    assert place("ledger", str(place.state), *budget, "--raise").code == 0
    shown = " ".join(place("ledger", str(place.state)).out.split())
    assert "and delta = 2.5e-7" in shown


def test_ledger_lists_spent_and_remaining_budget(place: Workplace, events: str) -> None:
    told = place("ledger", str(place.state))
    assert "budget: none" in told.out
    assert "total for one event added or removed: pure differential privacy" in told.out
    units = json.loads(place("ledger", str(place.state), "--json").out)["units"]
    assert units["event"]["spent"]["guarantee"] == "pure"
    done = place("ledger", str(place.state), "--budget-epsilon", "100.5", "--json")
    report = json.loads(done.out)
    (entry,) = report["spent"]
    assert (entry["name"], entry["relation"], entry["epsilon"]) == ("count", "add_remove", "100")
    assert report["units"]["event"]["spent"]["epsilon"] == entry["epsilon"]
    assert report["remaining"]["epsilon"] == "0.5"
    done = place("ledger", str(place.state), "--budget-epsilon", "1")
    assert done.code == 4
    assert "epsilon = 100.5" in place("ledger", str(place.state)).out


@pytest.fixture
def changed_budget(place: Workplace, events: str) -> tuple[str, str]:
    """Raise a budget from 100 to 150, and lower it to 120; return the ledger command."""
    ledger = ("ledger", str(place.state))
    for words in (("100",), ("150", "--raise"), ("120",)):
        place(*ledger, "--budget-epsilon", *words).fine()
    return ledger


@pytest.mark.parametrize(
    "more",
    [
        ("--budget-epsilon", "100.5"),
        ("--budget-rho", "5000"),
        ("--budget-epsilon", "100", "--budget-age", "3"),
        ("--budget-epsilon", "100", "--budget-relation", "replace"),
    ],
)
def test_larger_budget_is_refused_without_raise(
    more: tuple[str, ...], place: Workplace, events: str
) -> None:
    ledger = ("ledger", str(place.state))
    place(*ledger, "--budget-epsilon", "100").fine()  # as much as is spent
    refused = place(*ledger, *more)
    assert (refused.code, refused.out) == (4 if "replace" in more else 2, "")
    assert json.loads(place(*ledger, "--json").out)["budget"]["epsilon"] == "100"


def test_lower_or_equal_budget_needs_no_raise(
    place: Workplace, changed_budget: tuple[str, str]
) -> None:
    place(*changed_budget, "--budget-epsilon", "120", "--raise").fine()
    found = json.loads(place(*changed_budget, "--json").out)
    assert len(found["budget_changes"]) == 3  # an equal budget is no change


def test_ledger_records_amount_user_and_time_of_budget_changes(
    place: Workplace, changed_budget: tuple[str, str]
) -> None:
    found = json.loads(place(*changed_budget, "--json").out)
    first, raised, lowered = found["budget_changes"]
    assert (first["before"], first["terms"]["limit"]["epsilon"]) == (None, "100")
    assert [raised[at]["limit"]["epsilon"] for at in ("before", "terms")] == ["100", "150"]
    assert lowered["before"] == raised["terms"]
    for change in (first, raised, lowered):
        assert change["user"]
        assert change["host"]
        assert datetime.fromisoformat(change["time"]).utcoffset() == timedelta(0)


def test_ledger_history_has_budget_changes_and_releases_by_time(
    place: Workplace, changed_budget: tuple[str, str]
) -> None:
    found = json.loads(place(*changed_budget, "--json").out)
    history = json.loads(place(*changed_budget, "--history", "--json").out)["history"]
    budgets = [entry for entry in history if entry["name"] is None]
    assert [one["event"] for one in budgets] == ["budget set", "budget raised", "budget lowered"]
    assert budgets == found["budget_changes"]
    (spent,) = (entry for entry in history if entry["name"] == "count")
    assert (spent["event"], spent["time"]) == ("spent", found["spent"][0]["entered"])
    assert (spent["user"], spent["host"]) == (budgets[0]["user"], budgets[0]["host"])
    assert [entry["time"] for entry in history] == sorted(entry["time"] for entry in history)
    assert "history" not in found


def test_ledger_prints_who_raised_the_budget(
    place: Workplace, changed_budget: tuple[str, str]
) -> None:
    _, raised, _ = json.loads(place(*changed_budget, "--json").out)["budget_changes"]
    lines = place(*changed_budget, "--history").out.splitlines()
    (line,) = [line for line in lines if "budget raised" in line]
    assert line.startswith(raised["time"][:19].replace("T", " "))
    assert line.endswith(f"{raised['user']} at {raised['host']}")
    printed = " ".join(place(*changed_budget).out.split())
    assert f"epsilon = 150, by {raised['user']} at {raised['host']} on" in printed
    assert "budget lowered from" in printed


def test_budget_refusal_advises_accepted_option(place: Workplace, events: str) -> None:
    """Typed as it stands it is taken, by the command and by a job file."""
    assert place("ledger", str(place.state), "--budget-epsilon", "100.25").code == 0
    said = place("release", "count", events, *place.new(stream="second", epsilon="1")).refused(4)
    assert "release 'second' asks for pure differential privacy with epsilon = 1;" in said
    assert "epsilon = 0.25 is left: give at most --epsilon 0.25" in said
    file = place.folder / "nightly.toml"
    place(
        "release",
        "count",
        events,
        *place.new(stream="second", epsilon="0.25"),
        "--save-job",
        str(file),
    ).fine()
    file.write_text(file.read_text().replace("second", "third"))
    said = place("run", str(file)).refused(4)
    assert "release 'third' asks for" in said
    assert "nothing is left: raise the budget" in said


def test_a_key_of_other_tools_is_a_key(place: Workplace) -> None:
    """Its prefix and 64 digits, as of openssl, are all that a key file has."""
    file = place.folder / "nightly.key"
    file.write_text(f"counton-key-1:{secrets.token_hex(32)}\n")
    file.chmod(0o600)
    assert (
        place(
            "release", "count", place.write("e.csv", EVENTS), *place.new(), "--key", str(file)
        ).code
        == 0
    )


@pytest.fixture
def two_grids(place: Workplace) -> tuple[str, float]:
    """Release counts, and means on a grid of 0.01; return the state and the error of a count."""
    rows = [f"0{n % 3}:10,{n}" for n in range(30)]
    events = place.write("e.csv", rows, "time,spent")
    bounds = ("--value", "spent", "--lower", "0", "--upper", "50", "--resolution", "0.01")
    until = ("--until", "2013-01-01T03:00")
    new = (*place.new(group_by=None, groups=None), "--strategy", "least-squares", *until)
    place("release", "count", events, *new, "--stream", "counts").fine()
    done = place("release", "average", events, *new, *bounds, "--stream", "means", "--json").fine()
    rows_released = json.loads(done.out)["last"]["rows"]
    (count,) = [row for row in rows_released if row["measure"] == "count"]
    return str(place.state), count["noise_std"]


def test_inspect_states_noise_of_counts_in_their_unit(
    place: Workplace, two_grids: tuple[str, float]
) -> None:
    state, noise_std = two_grids
    counts, means = json.loads(place("inspect", state, "--json").out)["streams"]
    distributions = [stream["terms"]["law"] for stream in (counts, means)]
    # The noise is drawn on grids such as 2^-16, which tell readers nothing.
    assert all(Fraction(distribution["grid"]) < 1 for distribution in distributions)
    assert Fraction(distributions[0]["scale"]) < 100
    assert means["last"]["std"] == pytest.approx(noise_std)
    assert "number of values" in means["last"]["of"]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_verify_describes_noise_without_its_grid(
    more: tuple[str, ...], place: Workplace, two_grids: tuple[str, float]
) -> None:
    printed = place("verify", two_grids[0], *more).out
    assert "the noise (discrete Laplace) is as large as the guarantee requires" in printed
    assert "Fraction" not in printed
    assert "3 steps of 1 value: " in printed


@pytest.mark.parametrize("stream", ["counts", "means"])
def test_export_states_noise_in_units_of_the_data(
    stream: str, place: Workplace, two_grids: tuple[str, float]
) -> None:
    about = json.loads(place("export", two_grids[0], "--stream", stream, "--json").out)["about"]
    assert "law" not in about["terms"]
    assert about["noise"]["std"] < 100
    assert "added or removed" in about["protected"]


DAMAGES = (b"", b'[{"key', b"\x00\xff junk", b"[" * 10**5)


class GuardedJob(NamedTuple):
    """A job file with a released job, and its rollback guard."""

    file: Path
    rows: str
    guard: Path


@pytest.fixture
def guarded_job(place: Workplace) -> GuardedJob:
    rows = place.write("r.csv", ["00:10,a", "01:30,b"])
    file = place.folder / "jobs.toml"
    place.count(rows, "--save-job", str(file)).fine()
    (guard,) = Path(os.environ["XDG_STATE_HOME"]).rglob("*.witness")
    return GuardedJob(file, rows, guard)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rollback_guard_is_reported_by_every_command(
    damage: bytes, place: Workplace, guarded_job: GuardedJob
) -> None:
    guarded_job.guard.write_bytes(damage)
    unreadable = f"the rollback guard {guarded_job.guard} of state {place.state} cannot be read"
    released = place("release", "count", guarded_job.rows, *place.again)
    assert released.code == 3
    assert unreadable in " ".join(released.err.split())
    assert "cannot be read (it was altered" in place("inspect", str(place.state)).out
    verified = place("verify", str(place.state))
    assert verified.code in (3, 7)
    assert f"WRONG: {unreadable}" in " ".join(verified.out.split())


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rollback_guard_stops_only_its_job(
    damage: bytes, place: Workplace, guarded_job: GuardedJob
) -> None:
    jobs = guarded_job.file.read_text()
    other = jobs.replace("count]", "others]").replace(str(place.state), str(place.folder / "o.db"))
    guarded_job.file.write_text(f"{jobs}\n{other.replace('state.db', 'o.db')}")
    guarded_job.guard.write_bytes(damage)
    done = place("run", str(guarded_job.file))
    assert done.code == 3
    assert "counton: job count: the rollback guard" in " ".join(done.err.split())
    assert (place.folder / "o.db").exists()
    assert "Released" in done.out.partition("job others")[2]


def test_restored_rollback_guard_lets_its_job_continue(
    place: Workplace, guarded_job: GuardedJob
) -> None:
    right = guarded_job.guard.read_bytes()
    guarded_job.guard.write_bytes(b"")
    assert place("release", "count", guarded_job.rows, *place.again).code == 3
    guarded_job.guard.write_bytes(right)
    place("verify", str(place.state)).fine()
    place("release", "count", guarded_job.rows, *place.again).fine()


def test_verify_of_an_old_copy_counts_recomputed_values_in_each_line(place: Workplace) -> None:
    place.count(place.write("r.csv", ["00:10,a", "01:30,b"])).fine()
    old = Path(place.state).read_bytes()
    later = place.write("l.csv", ["00:10,a", "01:30,b", "03:30,b"])
    place("release", "count", later, *place.again, "--until", "2013-01-01T04:00").fine()
    Path(place.state).write_bytes(old)
    done = place("verify", str(place.state))
    assert done.code == 7
    match = re.search(r"ok: (\d+) steps? of (\d+) values", done.out)
    assert match is not None
    recomputed = int(match[1]) * int(match[2])
    assert f"0 of 1 release verified: {recomputed} values recomputed" in done.out


def test_verify_reads_rollback_guard_named_by_option(place: Workplace) -> None:
    """The refusal asks for the place of the witness; `verify` takes it."""
    rows = place.write("r.csv", ["00:10,a", "01:30,b"])
    assert place.count(rows).code == 0
    old = Path(place.state).read_bytes()
    later = place.write("l.csv", ["00:10,a", "01:30,b", "03:30,b"])
    away = str(place.folder / "w2")
    place(
        "release",
        "count",
        later,
        *place.again,
        "--rollback-guard",
        away,
        "--until",
        "2013-01-01T04:00",
    ).fine()
    Path(place.state).write_bytes(old)
    done = place("verify", str(place.state))
    assert done.code == 7
    assert "if it was moved, name its folder (--rollback-guard)" in " ".join(done.out.split())
    done = place("verify", str(place.state), "--rollback-guard", away)
    assert done.code == 7
    assert "is an old copy" in " ".join(done.out.split())
    said = place("verify", str(place.state), "--rollback-guard", away, "--accept-old-copy").refused(
        7
    )
    assert "records that step 4 is released" in said


def test_lost_rollback_guard_needs_accept_old_copy(place: Workplace) -> None:
    """`verify` says what can be lost before it says how to go on; running again is no advice."""
    rows = place.write("r.csv", ["00:10,a", "01:30,b"])
    assert place.count(rows).code == 0
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    for _ in range(2):
        done = place("verify", str(place.state))
        said = " ".join(done.out.split())
        assert done.code == 7
        assert "run the job again" not in said
        lost = said.index("An old copy would release steps again")
        assert lost < said.index("confirm it (counton verify --accept-old-copy)")
        assert place("release", "count", rows, *place.again).code == 9
        refused = place("publish", str(place.state), "--to", str(place.folder / "out.db"))
        assert (refused.code, "nothing was published" in refused.err) == (7, True)
    done = place("verify", str(place.state), "--accept-old-copy").fine()
    assert "accepts this copy of 'count' as the newest" in " ".join(done.err.split())
    assert place("release", "count", rows, *place.again).code == 0


def test_strategy_of_revised_windows_is_same_in_state_and_file(
    place: Workplace, events: str, tmp_path: Path
) -> None:
    kept = str(tmp_path / "revised.db"), str(tmp_path / "revised.csv")
    place(
        *("release", "count", events, "--time", "time", "--every", "1d", "--start", "2013-01-01"),
        *(
            "--allowed-lateness",
            "2d",
            "--append",
            "--until",
            "2013-01-05",
            "--epsilon",
            "1",
            "--allow-empty-windows",
        ),
        *("--state", kept[0], "--output", kept[1]),
    ).fine()
    said = [
        line
        for shown in kept
        for line in place("inspect", shown).out.splitlines()
        if line.startswith("Mechanism")
    ]
    assert len(said) == 2
    assert said[0] == said[1]
    assert said[0].endswith(", correlated over the versions of each window")


def test_methods_state_parameters_of_mechanism(
    place: Workplace, events: str, tmp_path: Path
) -> None:
    """The mechanism of a paper is told apart from the one with better parameters."""
    said = {
        "smooth-paper": "smooth binary, even height, height 12, zeros 6",
        "smooth": "smooth binary, height 28, zeros 2",
        "kary": "k-ary with subtraction, arity 28",
    }
    for kind, words in said.items():
        kept = str(tmp_path / f"{kind}.db"), str(tmp_path / f"{kind}.csv")
        place(
            *(
                "release",
                "count",
                events,
                "--time",
                "time",
                "--every",
                "1d",
                "--start",
                "2013-01-01",
            ),
            *(
                "--until",
                "2013-01-05",
                "--windows",
                "365",
                "--epsilon",
                "1",
                "--allow-empty-windows",
            ),
            *("--strategy", kind, "--state", kept[0], "--output", kept[1]),
        ).fine()
        for shown in kept:
            account = " ".join(place("methods", shown, "--full").out.split())
            assert all(word in account for word in words.split(", "))
            mechanism = "Mechanism: discrete Laplace noise, correlated over windows"
            assert mechanism in place("inspect", shown).out
