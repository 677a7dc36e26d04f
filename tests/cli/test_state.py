"""States that do not fit, keys that are not theirs, budgets that are spent."""

import json
import os
import secrets
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from counton import Key, PureDP
from counton.state import Stream
from counton.state.schema import FORMAT
from counton.strategies import Binary

EVENTS = ["00:10,a", "00:50,b", "01:30,a", "03:00,b"]

Contents = Callable[[], dict[str, bytes]]


@pytest.fixture
def events(place: Any) -> str:
    """Events of which three windows are released."""
    path = place.write("e.csv", EVENTS)
    assert place.count(path).code == 0
    return str(path)


def test_another_key_is_refused(place: Any, events: str) -> None:
    other = place.folder / "other.key"
    Key.generate().save(other)
    said = place("release", "count", events, *place.again, "--key", str(other)).refused(6)
    assert "was created with the key" in said


def test_a_stream_of_another_program_is_refused(place: Any, events: str) -> None:
    Stream.create(place.state, "mine", Binary(10), PureDP(1)).close()
    said = place("release", "count", events, *place.again, "--stream", "mine").refused()
    assert "was not made by a job" in said


def test_a_stated_key_file_is_made_and_used(place: Any) -> None:
    events = place.write("e.csv", EVENTS)
    key = place.folder / "my.key"
    assert place.count(events, "--key", str(key)).code == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert not (place.folder / "state.db.key").exists()
    assert (
        "No new window is due"
        in place("release", "count", events, *place.again, "--key", str(key)).out
    )


def test_key_file_is_removed_when_stream_is_not_created(place: Any, events: str) -> None:
    place("ledger", str(place.state), "--budget-epsilon", "100")
    key = place.folder / "my.key"
    assert place("release", "count", events, *place.new(stream="s", key=str(key))).code == 4
    assert not key.exists()


def test_a_run_that_fails_makes_no_state_of_a_url(place: Any, contents: Contents) -> None:
    events = place.write("e.csv", EVENTS)
    before = contents()
    done = place(
        "release", "count", events, *place.new(state=f"sqlite:///{place.state}", every="1x")
    )
    assert done.code == 2
    assert contents() == before


def test_show_tells_what_is_public_and_no_secret(place: Any, events: str) -> None:
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


def test_show_has_the_last_numbers_in_twelve_lines(place: Any, events: str) -> None:
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


def test_ledger_counts_units_apart(place: Any, events: str) -> None:
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
    assert "--budget-relation replace describes a budget of the ledger" in refused.err
    refused = place(
        "ledger", str(place.state), "--budget-epsilon", "200", "--budget-relation", "swap"
    )
    assert "relation is 'swap'" in refused.err


def test_a_limit_says_what_it_is_about(place: Any) -> None:
    rows = place.write("r.csv", ["00:10,a,ann", "01:30,b,bob"], "time,group,reader")
    budget = "ledger", str(place.state), "--budget-epsilon", "100"
    assert place(*budget, "--budget-unit", "reader").code == 0
    people = "--user", "reader", "--max-contributions", "2"
    done = place("release", "count", rows, *place.new(epsilon="40"), *people).fine()
    assert "one reader more or less" in place.shown()
    for more in (
        (),
        ("--privacy-unit", "visit"),
        (*people, "--contribution-period", "1mo"),
        (*people, "--privacy-unit", "person"),
    ):
        done = place("release", "count", rows, *place.new(stream="b", epsilon="40"), *more)
        assert done.code == 2
        assert "the budget of this ledger is about one reader" in done.err
    said = place("ledger", str(place.state)).out
    assert (
        "for one reader; a release that protects only a period (--contribution-period) is refused"
        in " ".join(said.split())
    )
    assert json.loads(place("ledger", str(place.state), "--json").out)["about"] == "reader"
    refused = place("ledger", str(place.state), "--budget-unit", "reader")
    assert "--budget-unit reader describes a budget of the ledger" in refused.err
    refused = place(*budget, "--budget-unit", "reader's day")
    assert "about one reader's day, which allows more" in refused.err
    # A reader protects more than what it is about then.
    place(*budget, "--budget-unit", "reader's day", "--raise").fine()
    assert "epsilon = 80" in " ".join(place("ledger", str(place.state)).out.split())
    refused = place(*budget, "--budget-unit", "visitor")
    assert "'count' protects one reader, but the budget of this ledger is about" in refused.err


def test_without_one_every_release_says_which_totals_there_are(place: Any) -> None:
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


def test_ledger_shares_out_the_delta_of_a_limit(place: Any, events: str) -> None:
    budget = ("--budget-epsilon", "200", "--budget-delta", "1e-6")
    assert place("ledger", str(place.state), *budget, "--budget-approximate-delta", "0").code == 0
    shown = " ".join(place("ledger", str(place.state)).out.split())
    assert "remaining: pure differential privacy with epsilon = " in shown
    assert place("ledger", str(place.state), *budget).code == 2
    assert place("ledger", str(place.state), *budget, "--raise").code == 0
    shown = " ".join(place("ledger", str(place.state)).out.split())
    assert "and delta = 2.5e-7" in shown


def test_ledger_lists_what_was_spent_and_what_remains(place: Any, events: str) -> None:
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


def test_a_limit_is_raised_with_a_word_and_a_note(place: Any, events: str) -> None:
    """As where 1.6 of 2 were spent, and the budget became 5 without one."""
    ledger = "ledger", str(place.state)
    assert place(*ledger, "--budget-epsilon", "100").code == 0  # as much as is spent
    for more in (("--budget-epsilon", "100.5"), ("--budget-rho", "5000"),
                 ("--budget-epsilon", "100", "--budget-age", "3"),
                 ("--budget-epsilon", "100", "--budget-relation", "replace")):  # fmt: skip
        refused = place(*ledger, *more)
        assert (refused.code, refused.out) == (2 if "replace" not in more else refused.code, "")
    assert "give --raise; the ledger then notes" in place(*ledger, "--budget-epsilon", "101").err
    assert json.loads(place(*ledger, "--json").out)["budget"]["epsilon"] == "100"
    assert place(*ledger, "--budget-epsilon", "150", "--raise").code == 0
    assert place(*ledger, "--budget-epsilon", "120").code == 0  # a lower one needs no word
    assert place(*ledger, "--budget-epsilon", "120", "--raise").code == 0  # and nothing is noted
    found = json.loads(place(*ledger, "--json").out)
    first, raised, lowered = found["budget_changes"]
    assert (first["before"], first["terms"]["limit"]["epsilon"]) == (None, "100")
    assert [raised[at]["limit"]["epsilon"] for at in ("before", "terms")] == ["100", "150"]
    assert lowered["before"] == raised["terms"]
    assert all(one["user"] and one["host"] for one in found["budget_changes"])
    times = [one["time"] for one in found["budget_changes"]] + [found["spent"][0]["entered"]]
    assert all(datetime.fromisoformat(time).utcoffset() == timedelta(0) for time in times)
    history = json.loads(place(*ledger, "--history", "--json").out)["history"]
    budgets = [one for one in history if one["name"] is None]
    assert [one["event"] for one in budgets] == ["budget set", "budget raised", "budget lowered"]
    assert budgets == found["budget_changes"]
    assert all((one["user"], one["host"]) == (raised["user"], raised["host"]) for one in budgets)
    (entry,) = (one for one in history if one["name"] == "count")
    assert (entry["event"], entry["time"], entry["user"]) == ("spent", times[-1], raised["user"])
    assert [one["time"] for one in history] == sorted(one["time"] for one in history)
    assert "history" not in found
    shown = [
        line for line in place(*ledger, "--history").out.splitlines() if "budget raised" in line
    ]
    assert shown[0].startswith(budgets[1]["time"][:19].replace("T", " "))
    assert shown[0].endswith(f"{raised['user']} at {raised['host']}")
    said = " ".join(place(*ledger).out.split())
    amounts = "from pure differential privacy with epsilon = 100 to pure differential privacy with"
    assert f"raised {amounts} epsilon = 150, by {raised['user']} at {raised['host']} on" in said
    assert "budget lowered from" in said


def test_a_refusal_tells_the_option_that_fits(place: Any, events: str) -> None:
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


def test_a_key_of_other_tools_is_a_key(place: Any) -> None:
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


def test_noise_is_told_in_units_of_the_data(place: Any) -> None:
    """Laws of draws are on grids of their own, such as of 2^-16, which tell readers nothing."""
    rows = [f"0{n % 3}:10,{n}" for n in range(30)]
    events = place.write("e.csv", rows, "time,spent")
    until = ("--until", "2013-01-01T03:00")
    bounds = ("--value", "spent", "--lower", "0", "--upper", "50", "--resolution", "0.01")
    new = (*place.new(group_by=None, groups=None), "--strategy", "least-squares", *until)
    assert place("release", "count", events, *new, "--stream", "counts").code == 0
    done = place("release", "average", events, *new, *bounds, "--stream", "means", "--json").fine()
    state = str(place.state)
    shown = json.loads(place("inspect", state, "--json").out)
    counts, means = shown["streams"]
    distributions = [stream["terms"]["law"] for stream in (counts, means)]
    assert all(Fraction(distribution["grid"]) < 1 for distribution in distributions)
    assert Fraction(distributions[0]["scale"]) < 100
    (told,) = [row for row in json.loads(done.out)["last"]["rows"] if row["measure"] == "count"]
    assert means["last"]["std"] == pytest.approx(told["noise_std"])
    assert "number of values" in means["last"]["of"]
    for asked in (("verify", state), ("verify", state, "--json")):
        said = place(*asked).out
        assert "the noise (discrete Laplace) is as large as the guarantee requires" in said
        assert "Fraction" not in said
        assert "3 steps of 1 value: " in said
    for name in ("counts", "means"):
        told = json.loads(place("export", state, "--stream", name, "--json").out)
        assert "law" not in told["about"]["terms"]
        assert told["about"]["noise"]["std"] < 100
        assert "added or removed" in told["about"]["protected"]


@pytest.mark.parametrize("damage", [b"", b'[{"key', b"\x00\xff junk", b"[" * 10**5])
def test_damaged_rollback_guard_stops_only_its_job(place: Any, damage: bytes) -> None:
    rows = place.write("r.csv", ["00:10,a", "01:30,b"])
    file = place.folder / "jobs.toml"
    other = place.folder / "other.db"
    assert place.count(rows, "--save-job", str(file)).code == 0
    (second,) = Path(os.environ["XDG_STATE_HOME"]).rglob("*.witness")
    right = second.read_bytes()
    jobs = file.read_text()
    moved = jobs.replace("count]", "others]").replace(str(place.state), str(other))
    file.write_text(f"{jobs}\n{moved.replace('state.db', 'other.db')}")
    second.write_bytes(damage)
    said = f"the rollback guard {second} of state {place.state} cannot be read"
    assert said in " ".join(place("release", "count", rows, *place.again).err.split())
    assert "cannot be read (it was altered" in place("inspect", str(place.state)).out
    done = place("verify", str(place.state))
    assert done.code in (3, 7)
    assert f"WRONG: {said}" in " ".join(done.out.split())
    done = place("run", str(file))
    assert done.code == 3
    assert f"counton: job count: {said}" in " ".join(done.err.split())
    assert other.exists()
    assert "Released" in done.out.partition("job others")[2]
    second.write_bytes(right)
    assert place("verify", str(place.state)).code == 0
    assert place("release", "count", rows, *place.again).code == 0


def test_verify_reads_rollback_guard_named_by_option(place: Any) -> None:
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


def test_a_witness_that_is_lost_asks_for_a_word(place: Any) -> None:
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
    place: Any, events: str, tmp_path: Path
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


def test_methods_state_parameters_of_mechanism(place: Any, events: str, tmp_path: Path) -> None:
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
