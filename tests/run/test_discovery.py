"""Groups nobody declared: what showing them costs by brute force, and that nothing else leaks."""

import random
import sqlite3
from collections import Counter as Counted
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from run_results import counts_of, design_of, labels_of
from some_cases import long

from counton import ApproxDP, ContributionBound, Counter, Key, PureDP, plan
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.base.private import reveal
from counton.continual.tails import laplace_tail
from counton.io.row_assignment import normal_group_name
from counton.job.stream_name import usual_name
from counton.results.metadata_codec import facts_of
from counton.results.released_table import table_of
from counton.run import Job, export, methods, publish, read, run
from counton.run.spec.plan_spec import plan_spec
from counton.state import Store, journal, state_summary, verify
from counton.statistics.discovery import Discovery, draws, first_shown
from counton.strategies import (
    Binary,
    Independent,
    KAry,
    SmoothBinary,
    StreamStrategy,
    noise_variance,
)
from counton.strategies.strategy import node_distribution

START = datetime(2024, 3, 1, tzinfo=UTC)
STRATEGIES = [Binary(31), KAry(22, 4, subtraction=True), SmoothBinary.best(30), Independent(12)]


def distribution_of_sum(
    distribution: DiscreteLaplace, draws: int
) -> tuple[NDArray[np.float64], int]:
    """Probabilities of a sum of draws by convolution, and the place of 0."""
    q = np.exp(-1 / float(distribution.scale))
    reach = int(120 * float(distribution.scale))
    one = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    total = one
    for _ in range(draws - 1):
        total = np.convolve(total, one)
    return total, reach * draws


def chance(discovery: Discovery, strategy: StreamStrategy, distribution: DiscreteLaplace) -> float:
    """Sum over releases of the probability that a group of ``change`` events is shown."""
    assert strategy.horizon is not None
    steps = range(1, strategy.horizon + 1)
    variance = noise_variance(strategy, distribution, steps)
    reached = np.ceil(float(Fraction(discovery.margin)) * np.sqrt(variance)).astype(int)
    total = 0.0
    for step, least in zip(steps, reached, strict=True):
        distribution_here, zero = distribution_of_sum(distribution, len(strategy.row(step)))
        total += float(distribution_here[zero + least :].sum())
    return total


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_releases_are_sums_of_so_many_draws(strategy: StreamStrategy) -> None:
    assert strategy.horizon is not None
    distribution = DiscreteLaplace(Fraction(5, 2))
    steps = range(1, strategy.horizon + 1)
    rows = [strategy.row(step) for step in steps]
    assert all(abs(weight) == 1 for row in rows for *_, weight in row)
    assert {
        node_distribution(strategy, distribution, level) for row in rows for level, *_ in row
    } == {distribution}
    assert draws(strategy, distribution, strategy.horizon) == Counted(len(row) for row in rows)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 10**7), Fraction(1, 10**38)])
def test_delta_by_convolution(strategy: StreamStrategy, delta: Fraction) -> None:
    assert strategy.horizon is not None
    distribution = DiscreteLaplace(Fraction(3))
    unit = ContributionBound.events(3)
    found = Discovery.with_least_thresholds(strategy, distribution, strategy.horizon, unit, delta)
    assert (found.groups, found.change) == (3, 3)
    exact = found.groups * chance(found, strategy, distribution)
    assert 0.7 * delta < exact <= delta
    short = replace(found, margin=str(Fraction(found.margin) * Fraction(9, 10)))
    assert short.groups * chance(short, strategy, distribution) > delta


def test_page_states_thresholds_for_delta_as_computed() -> None:
    """The numbers of docs/guides/protect-users.md, for a year of days at epsilon 1."""
    best = plan(365, PureDP(1), simple=True).best
    distribution = best.distribution
    strategy = best.strategy
    assert isinstance(distribution, DiscreteLaplace)
    page = " ".join(
        (Path(__file__).parents[2] / "docs" / "guides" / "protect-users.md").read_text().split()
    )
    for delta, words in (("1e-9", "needs {} to {} rows in total"), ("1e-38", "{} to {}")):
        found = Discovery.with_least_thresholds(
            strategy, distribution, 365, ContributionBound.add_remove(), Fraction(delta)
        )
        variance = noise_variance(strategy, distribution, range(1, 366))
        least = 1 + np.ceil(float(Fraction(found.margin)) * np.sqrt(variance)).astype(int)
        rows = words.format(least.min(), least.max())
        assert f"{rows} with `--delta {delta}`" in page
    half = DiscreteLaplace(Fraction(2))
    names = 37**8 * 365  # each may be shown at each step, by noise alone
    tail = laplace_tail(half, 1)  # of both signs
    needed = next(n for n in range(1, 500) if names * tail(n - 1) / 2 <= 0.01)
    assert f"needs {needed} rows *in one window*" in page


def test_noise_without_a_variance_is_refused() -> None:
    """Its standard deviation is 0 as a float, so that no number of them is ever enough."""
    unit = ContributionBound.add_remove()
    delta = Fraction(1, 10**9)
    found = Discovery.with_least_thresholds(
        Binary(7), DiscreteLaplace(Fraction(1, 699)), 7, unit, delta
    )
    assert Fraction(found.margin) > 0
    with pytest.raises(
        InvalidInputError,
        match=r"has the scale 0\.00143; it must be above .*: give a smaller epsilon",
    ):
        Discovery.with_least_thresholds(
            Binary(7), DiscreteLaplace(Fraction(1, 700)), 7, unit, delta
        )


def test_groups_per_unit_follow_contribution_bound() -> None:
    distribution = DiscreteLaplace(Fraction(3))
    strategy = Binary(7)
    delta = Fraction(1, 1000)

    def found(unit: ContributionBound) -> tuple[int, int]:
        of = Discovery.with_least_thresholds(strategy, distribution, 7, unit, delta)
        return of.groups, of.change

    assert found(ContributionBound.add_remove()) == (1, 1)
    assert found(ContributionBound.events(5)) == (5, 5)
    assert found(ContributionBound.events(5, once="group")) == (5, 1)


@pytest.mark.parametrize("strategy", [Binary(15), KAry(15, 4, subtraction=True)], ids=repr)
def test_delta_by_simulation(strategy: StreamStrategy) -> None:
    """As many groups as there are cells, each brought by one unit at the first step."""
    delta = Fraction(1, 50)
    cells = 200_000
    key = Key.generate()
    counter = Counter(
        strategy,
        ApproxDP(1, delta),
        key=key,
        name="pages",
        shape=(2**31,),
        noise_guarantee=PureDP(1),
    )
    distribution = counter.design.distribution
    assert isinstance(distribution, DiscreteLaplace)
    found = Discovery.with_least_thresholds(
        strategy, distribution, 15, counter.design.contribution, delta
    )
    counter.widen(cells, key)
    events = np.zeros((15, cells), np.int64)
    events[0] = 1
    values = counter.release_many(events).values

    def share(discovery: Discovery) -> float:
        reached = first_shown(values, discovery.thresholds(counter.design, range(1, 16)))
        return float((reached >= 0).mean())

    assert delta / 4 < share(found) < delta
    assert share(replace(found, margin=str(Fraction(found.margin) * Fraction(3, 4)))) > delta


def visits(days: int = 12, *, rare: int = 1) -> list[tuple[datetime, str, str]]:
    """Rows by time: two large groups, and on each day groups of few events."""
    made = random.Random(5)
    rows = []
    for day in range(days):
        for page, number in (("home", 150), ("shop", 60)):
            for _ in range(number):
                at = START + timedelta(days=day, minutes=made.randrange(1440))
                rows.append((at, page, f"u{made.randrange(1000)}"))
        for number in range(rare):
            at = START + timedelta(days=day, minutes=made.randrange(1440))
            rows.append((at, f"hush-{day}-{number}", f"r{day}"))
    return sorted(rows)


def frame(rows: list[tuple[datetime, str, str]]) -> pl.DataFrame:
    schema: dict[str, Any] = {
        "time": pl.Datetime("us", "UTC"),
        "page": pl.String,
        "visitor": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def asked(folder: Path, rows: list[tuple[datetime, str, str]], **more: Any) -> Job:
    given: dict[str, Any] = {
        "what": "count", "events": frame(rows), "state": folder / "visits.db", "time": "time",
        "every": "1d", "start": START, "windows": 30, "group_by": "page", "epsilon": 1,
        "delta": "1e-6",
        "unlisted_groups": "discover", "strategy": "kary", "until": START + timedelta(days=12),
        "allow_empty_windows": True,
    }  # fmt: skip
    return Job(**given | more)


def table(request: Job) -> pl.DataFrame:
    with run(request) as outcome:
        return outcome.read().table()


def folders(path: Path, number: int) -> list[Path]:
    made = [path / str(place) for place in range(number)]
    for folder in made:
        folder.mkdir()
    return made


def test_groups_are_shown_from_their_threshold_on_and_for_ever(tmp_path: Path) -> None:
    request = asked(tmp_path, visits(), epsilon=100)
    with run(request) as outcome:
        discovery = outcome.spec.metadata().cells
        assert isinstance(discovery, Discovery)
        released = outcome.read()
        least = discovery.thresholds(design_of(outcome), released.steps)
        entry = Store(tmp_path / "visits.db").entries
    assert released.numbers.since == {"home": 1, "shop": 1}
    rows = released.table()
    assert rows.filter(pl.col("window_index") >= 1).height == 24
    with pytest.raises(InvalidInputError, match="groups that were found in the data"):
        released.sums("1d")
    exact = np.cumsum(np.full(12, 150))
    assert np.abs(rows.filter(group="home")["estimate"].to_numpy() - exact).max() <= 2
    assert least.max() < 60
    assert [spend.guarantee for spend in entry] == [ApproxDP(100, "1e-6")]


@pytest.mark.parametrize("what", ["count", "top-k"])
def test_a_label_is_no_formula_in_csv(what: str, tmp_path: Path) -> None:
    labels = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "'=1", "home", "\uff1d1", "a=b"]
    rows = [(START, label, "u") for label in labels for _ in range(300)]
    shown = []
    for ending in ("csv", "json"):
        out = tmp_path / f"{what}.{ending}"
        job = asked(tmp_path, rows, what=what, output=out, epsilon=100, until=START + timedelta(1))
        run(job).close()
        reads: Any = {"csv": pl.read_csv, "json": pl.read_json}[ending]
        shown.append(set(reads(out)["group"]))
    assert shown[1] == set(labels)
    hostile = set(labels) - {"home", "a=b"}
    assert shown[0] == {f"'{label}" for label in hostile} | {"home", "a=b"}
    declared = job.derive(
        unlisted_groups="error", delta=None, groups=labels, strategy=None, stream="own"
    )
    out = tmp_path / "own.csv"
    declared = declared.derive(output=out)
    run(declared).close()
    assert shown[0] == set(pl.read_csv(out)["group"])
    assert set(read(out).numbers.groups) == set(labels)


def test_later_discovered_groups_follow_earlier_ones(tmp_path: Path) -> None:
    rows = visits(rare=0)
    late = [(START + timedelta(days=5, minutes=m), "aaa", "x") for m in range(500)]
    early = [(START + timedelta(days=0, minutes=m), "zzz", "x") for m in range(3)]
    found = table(asked(tmp_path, sorted(rows + late + early)))
    since = dict(found.group_by("group").agg(pl.min("window_index")).rows())
    assert since["aaa"] == 6
    assert "zzz" not in since
    assert found.filter(window_index=12)["group"].to_list()[-1] == "aaa"
    assert found.filter(group="aaa").height == 12 - 5


@pytest.mark.parametrize("what", ["count", "top-k"])
def test_exported_groups_are_those_of_the_run(what: str, tmp_path: Path) -> None:
    """Also where a later night finds a group that sorts before all others."""
    late = [(START + timedelta(days=5, minutes=m), "=aa", "x") for m in range(500)]
    rows = sorted(visits(rare=2) + late)
    for days in (4, 12):
        until = START + timedelta(days=days)
        with run(asked(tmp_path, rows, what=what, until=until)) as outcome:
            released = outcome.read()
        own = released.table()
        assert export(tmp_path / "visits.db", tmp_path / "e.csv").table().equals(own)
        found = read(tmp_path / "e.csv")
        assert found.table().equals(own)
        assert facts_of(found.numbers) == facts_of(released.numbers)
    since = facts_of(released.numbers)["description"]["since"]
    assert since == {"home": 1, "shop": 1, "=aa": 6}
    only = export(tmp_path / "visits.db", groups="=aa").table()
    among = own.filter(group="=aa")
    assert only["estimate"].equals(among["estimate"])
    assert export(tmp_path / "visits.db", tmp_path / "o.csv", groups="=aa").table().equals(only)
    assert read(tmp_path / "o.csv").table().equals(only)
    if what == "top-k":  # a reader may have chosen it for its noise
        assert (only["upper"] > among["upper"]).all()
        assert only["lower"].equals(among["lower"])


def test_ranking_of_discovered_groups_is_equal_in_run_and_files(tmp_path: Path) -> None:
    """What its job said of that is remembered, since the intervals hang on it."""
    out = tmp_path / "t.csv"
    state = tmp_path / "visits.db"
    job = asked(tmp_path, visits(), what="top-k", top=1, room=7, output=out)
    with run(job) as outcome:
        written = outcome.release.numbers
        own = table_of(written)
        assert outcome.read().table().equals(own)
    for found in (export(state), read(out)):
        assert found.table().equals(own)
    assert own["rank"].max() == 1
    assert written.metadata.subject == "number of events"
    with run(asked(tmp_path, visits(), what="top-k", top=1, room=10**6)) as outcome:
        wide = outcome.read().table()
    assert export(state).table().equals(wide)
    assert wide["estimate"].equals(own["estimate"])
    assert (wide["lower"] < own["lower"]).all()
    assert wide["upper"].equals(own["upper"])  # of the one that is shown, of how many ever
    for room in (0, -1):
        with pytest.raises(InvalidInputError, match="room="):
            run(job.derive(room=room))


def test_some_steps_of_a_ranking_are_those_steps(tmp_path: Path) -> None:
    with run(asked(tmp_path, visits(), what="top-k")) as outcome:
        found = outcome.read()
    own = found.table()
    some = own.filter(pl.col("window_index").is_between(3, 5))
    assert found.only(range(3, 6)).table().equals(some)
    assert found.table(range(3, 6)).equals(some)
    assert export(tmp_path / "visits.db", windows="3:5").table().equals(some)


def test_unit_changes_only_counts_of_other_units_groups(tmp_path: Path, one_key: None) -> None:
    """Under one key: the tables differ by the unit's counts, in the groups of others alone."""
    first, second = folders(tmp_path, 2)
    others = visits(rare=0)
    unit = [
        (START + timedelta(days=d, hours=1), page, "me") for d, page in ((1, "home"), (4, "zz"))
    ]
    without = table(asked(first, others))
    given = table(asked(second, sorted(others + unit)))
    more = (pl.col("group") == "home") & (pl.col("window_index") >= 2)
    assert given.equals(without.with_columns(pl.col("estimate", "lower", "upper") + more))


@pytest.mark.parametrize("what", ["count", "top-k"])
def test_released_bytes_are_independent_of_hidden_groups(
    what: str, tmp_path: Path, one_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under one key: no byte of a file tells of groups that nobody sees, nor how many there are."""
    others = visits(rare=0)
    hidden = [(START + timedelta(days=11, minutes=n), f"hush-{n}", "me") for n in range(300)]
    shown = []
    for folder, rows in zip(folders(tmp_path, 2), (others, sorted(others + hidden)), strict=True):
        monkeypatch.chdir(folder)
        job = asked(folder, rows, what=what)
        with run(job) as outcome:
            assert len(labels_of(outcome)) == 2 + 300 * (rows is not others)
            assert set(outcome.read().table()["group"]) == {"home", "shop"}
        for kind in ("csv", "json"):
            export(folder / "visits.db", folder / f"out.{kind}")
        publish(folder / "visits.db", folder / "public.db")
        files = [(folder / f"out.{kind}").read_bytes() for kind in ("csv", "json")]
        with closing(sqlite3.connect(folder / "public.db")) as public:
            table = public.execute("SELECT * FROM counton_releases").fetchall()
        shown.append(
            (files, table, methods(folder / "visits.db"), str(export(folder / "visits.db")))
        )
    assert shown[0] == shown[1]


def test_daily_runs_and_one_run_release_same_bits(tmp_path: Path, one_key: None) -> None:
    rows, (whole, nights, added) = visits(6), folders(tmp_path, 3)
    at_once = table(asked(whole, rows, until=START + timedelta(days=6)))
    for day in range(1, 7):
        until = START + timedelta(days=day)
        so_far = [row for row in rows if row[0] < until]
        new = [row for row in so_far if row[0] >= until - timedelta(days=1)]
        nightly = table(asked(nights, so_far, until=until))
        by_parts = table(asked(added, new, until=until, append=True))
    assert nightly.equals(at_once)
    assert by_parts.equals(at_once)
    assert table(asked(nights, rows, until=until)).equals(at_once)  # again: from the journal


def test_repeated_run_after_crash_equals_undisturbed_run(
    tmp_path: Path, one_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, (whole, broken) = visits(), folders(tmp_path, 2)
    expected = table(asked(whole, rows))
    monkeypatch.setattr(
        "counton.run.counting.step_inputs._VALUES_OF_TRANSACTION", 40
    )  # several transactions
    write = journal.write_observed
    left = [0, 3, 1]

    def fail(*arguments: Any) -> None:
        left[-1] -= 1
        if left[-1] < 0:
            raise OSError("no space left")
        write(*arguments)

    monkeypatch.setattr(journal, "write_observed", fail)
    while left:
        with pytest.raises(OSError, match="no space"):
            table(asked(broken, rows))
        left.pop()
    monkeypatch.setattr(journal, "write_observed", write)
    assert table(asked(broken, rows)).equals(expected)


def test_users_bring_no_more_groups_than_rows_that_count(tmp_path: Path) -> None:
    rows = visits(rare=0)
    flood = [(START + timedelta(days=2, seconds=n), f"flood-{n:04}", "me") for n in range(300)]
    options = {"user": "visitor", "max_contributions": 2, "contribution_period": "1d"}
    request = asked(tmp_path, sorted(rows + flood), **options)
    with run(request) as outcome:
        assert counts_of(outcome).beyond_bound >= 298
        labels = labels_of(outcome)
        discovery = outcome.spec.metadata().cells
    assert labels == ("home", "shop", "flood-0000", "flood-0001")
    assert isinstance(discovery, Discovery)
    assert (discovery.groups, discovery.change) == (2, 2)
    # The same file again, and once more with new rows: users are known in the same cells.
    again = table(request)
    later = [(START + timedelta(days=12, minutes=n), "home", f"n{n}") for n in range(500)]
    more = asked(
        tmp_path, sorted(rows + flood + later), until=START + timedelta(days=13), **options
    )
    with run(more) as outcome:
        assert labels_of(outcome) == labels
        assert outcome.read().table().filter(pl.col("window_index") <= 12).equals(again)


@pytest.mark.parametrize(
    "more", [{}, {"contribution_period": "1d"}, {"once_per_window": True}, {"distinct_users": True}]
)
def test_counted_rows_of_user_are_independent_of_other_users(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """Rows at one time were taken by the number of their group, which others' rows decide."""
    rows = [(START + timedelta(days=1), page, f"a{i}") for i in range(40) for page in "xy"]
    seen = []
    for name, others in (("without", []), ("with", [(START, "y", "bob")])):
        folder = tmp_path / name
        folder.mkdir()
        terms = {"epsilon": 100, "user": "visitor", "max_contributions": 1, **more}
        last = table(asked(folder, rows + others, **terms)).filter(pl.col("window_index") == 3)
        seen.append(dict(last.select("group", "estimate").rows()))
    assert set(seen[0]) == set(seen[1]) == {"x"}
    assert abs(seen[0]["x"] - 40) <= 1
    assert abs(seen[1]["x"] - 40) <= 1


def test_earlier_release_has_no_later_group(tmp_path: Path) -> None:
    rows = visits(3)
    late = [(START + timedelta(days=6, minutes=i), "late", f"l{i}") for i in range(200)]
    with run(asked(tmp_path, rows + late)) as outcome:
        released = outcome.read()
        early = released.only(range(1, 6))
        assert "late" in released.numbers.groups
        assert early.numbers.groups == tuple(
            group for group in released.numbers.groups if group != "late"
        )
        assert early.table().equals(released.table().filter(pl.col("window_index") < 6))
        assert early.figures()


@pytest.mark.parametrize("what", ["count", long("top-k")])
def test_labels_of_groups_not_shown_are_nowhere(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from counton.cli.app import app
    from counton.cli.command_text import CommandActions
    from counton.cli.statistic_run import perform

    state = tmp_path / "visits.db"
    events = tmp_path / "visits.csv"
    frame(visits(rare=3)).write_csv(events)
    files = [tmp_path / name for name in ("t.csv", "t.parquet", "t.json", "t.svg")]
    for out, as_json in zip(files[:3], (False, True, False), strict=True):
        job = asked(tmp_path, [], events=str(events), what=what)
        job = job.derive(output=str(out), chart=str(files[3]) if what == "count" else None)
        perform(job, CommandActions(json=as_json))
    if what != "count":  # only counts and sums are drawn
        files[3].write_text("svg")
    summary = state_summary(state)
    app(["inspect", str(state)], standalone_mode=False)
    rows = [row for row in visits(rare=3) if "hush" not in row[1]]
    table(asked(tmp_path, rows, what=what))
    files += [tmp_path / "e.csv", tmp_path / "e.parquet", tmp_path / "public.db"]
    exported = export(state, files[4])
    export(state, files[5])
    publish(state, files[6])
    (verified,) = verify(state)
    captured = capfd.readouterr()
    texts = [captured.out, captured.err, str(summary), repr(verified)]
    texts += [
        str(methods(state)),
        str(facts_of(exported.numbers)),
        repr(facts_of(read(files[5]).numbers)),
    ]
    assert all("hush" not in text for text in texts)
    assert "home" in captured.out
    assert all(b"hush" not in path.read_bytes() and path.stat().st_size for path in files)
    assert b"home" in files[3].read_bytes() or b"svg" in files[3].read_bytes()
    with Store(state) as store:
        assert len(reveal(store.reader(usual_name(job)).labels())) == 2 + 36  # the state knows them


def test_table_is_empty_below_discovery_threshold(tmp_path: Path) -> None:
    few = [(START + timedelta(hours=n), f"page{n}", "x") for n in range(5)]
    with run(asked(tmp_path, few)) as outcome:
        assert outcome.read().table().height == 0
        assert outcome.read().numbers.first_groups(3).groups == ()
    none = asked(tmp_path, [], stream="empty", privacy_unit="event", append=True)
    assert table(none).height == 0
    later = START + timedelta(days=13)
    more = asked(tmp_path, visits(), stream="empty", until=later, append=True)
    assert set(table(more)["group"]) == {"home", "shop"}


def test_labels_that_look_alike_are_one_and_hostile_ones_none() -> None:
    given = [" caf\u00e9 ", "cafe\u0301", "", "  ", "a\nb", "a\u202eb", "x" * 200, "x" * 201, None]
    found = pl.DataFrame({"g": given}).select(normal_group_name(pl.col("g")))["g"].to_list()
    assert found == ["caf\u00e9"] * 2 + [None] * 4 + ["x" * 200, None, None]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"groups": ["home"]}, "groups"),
        ({"group_by": None}, "group_by"),
        ({"delta": None}, "delta"),
        ({"epsilon": None, "delta": None, "rho": "0.5"}, "rho"),
        ({"series": "both"}, "unlisted_groups=discover cannot be used with series=both"),
        ({"expiring": True, "delta": None, "windows": None}, "expiring"),
        ({"other_group": "rest"}, "other_group"),
        ({"strategy": "least-squares"}, "kary"),
        ({"what": "sum", "value": "page"}, "sum"),
    ],
)
def test_discovery_refuses_incompatible_options(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(asked(tmp_path, visits(2)).derive(**more))
    assert not (tmp_path / "visits.db").exists()


def test_discovery_has_no_group_before_first_run(tmp_path: Path) -> None:
    found = plan_spec(asked(tmp_path, visits(2)), ()).metadata()
    assert [*found.groups] == []
    total = plan_spec(
        asked(tmp_path, visits(2), group_by=None, unlisted_groups=None, delta=None), ()
    )
    assert [*total.metadata().groups] == ["all"]


def test_names_of_rows_that_count_nowhere_are_not_kept(tmp_path: Path) -> None:
    """Of whole inputs: rows of windows released before, and of windows that have not ended."""
    told: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "windows": 20, "group_by": "group",
        "series": "per-window", "unlisted_groups": "discover", "epsilon": 1, "delta": "1e-6",
        "allow_empty_windows": True,
    }  # fmt: skip
    for night in (1, 2, 3):
        rows = [(f"2024-03-{day:02}T10:00", "a") for day in range(1, night + 1)]
        rows += [("2024-03-01T12:00", f"renamed {night}")] * (night > 1)
        rows += [(f"2024-03-{night + 1:02}T12:00", f"early {night}")]
        frame = pl.DataFrame(rows, schema=["at", "group"], orient="row")
        until = f"2024-03-{night + 1:02}"
        with run(Job("count", frame, tmp_path / "s.db", until=until, **told)) as outcome:
            assert labels_of(outcome) == ("a",)
