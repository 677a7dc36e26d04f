"""Users by how many rows they have: exact against the rule, and one user moves what is stated."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from run_results import counts_of, design_of, releases_of

from counton import ZCDP, PureDP, Stream
from counton.base.distributions import Sensitivity
from counton.base.errors import InvalidInputError, StateError
from counton.base.private import reveal
from counton.privacy import Guarantee
from counton.privacy.contribution_rules import UserLevel
from counton.results.metadata import ReleaseMetadata
from counton.results.systematic_errors import systematic_errors
from counton.run import Job, run
from counton.run.counting import chosen_rows
from counton.run.counting.contribution_choice import with_ranks, within_bound
from counton.run.rows.row_buffer import RowBuffer
from counton.state.dedup import Secret
from counton.statistics import Count, Distinct, Reach, Report
from counton.statistics.statistic_plan import halfwidths_of_plan, plan_statistic

START = datetime(2024, 3, 4, tzinfo=UTC)  # a Monday
DAYS = 21
PAGES = ("b", "a", "c")
#: When, who, and on which page.
Row = tuple[datetime, str, str]

BY: dict[str, Any] = {"group_by": "page", "groups": list(PAGES)}
#: Periods as long as windows, longer, and none; alone and by group.
WAYS: tuple[dict[str, Any], ...] = (
    {"at_least": "1,2,4", "contribution_period": "1w"},
    {"at_least": [1, 3], "contribution_period": "1w", **BY, "max_contributions": 2},
    {"at_least": ["1"], "contribution_period": "1d", **BY, "max_contributions": 3},
    {"at_least": "3,2,1", **BY, "max_contributions": 1},
    {"at_least": "2"},
)
REPORT = Report(
    {"rows": Count(), "users": Distinct(), "reach": Reach([1, 2, 4]), "by page": Reach([1, 3])},
    columns={"by page": "page"},
    groups={"by page": PAGES},
)
IN_REPORT: dict[str, Any] = {"what": REPORT, "contribution_period": "1w", "max_contributions": 5}
_NUMBERS = count()


@pytest.fixture(autouse=True)
def the_same_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Secret, "fresh", lambda: Secret(bytes(range(32))))


class Released(NamedTuple):
    """By how much each cell changed in each step, without noise; and the stream."""

    changes: NDArray[np.int64]
    definition: ReleaseMetadata


def nights(seed: int, rows: int = 40) -> list[list[Row]]:
    """Rows of three nights of a week each, some of them late: of the week before."""
    chance = random.Random(seed)
    made = []
    for night in range(3):
        found = []
        for number in range(rows):
            week = max(night - (chance.random() < 0.3), 0)
            at = START + timedelta(days=7 * week + chance.randrange(7), minutes=number)
            found.append((at, f"u{chance.randrange(4)}", chance.choice(PAGES)))
        made.append(sorted(found, key=lambda row: chance.random()))
    return made


def job(way: dict[str, Any], state: Path, rows: Sequence[Row], nights: int, **more: Any) -> Job:
    named: dict[str, Any] = {"at": pl.Datetime("us", "UTC"), "who": pl.String, "page": pl.String}
    own = {name: value for name, value in way.items() if name != "what"}
    asked: dict[str, Any] = {
        "time": "at", "every": "1d", "start": START, "windows": DAYS, "user": "who",
        "strategy": "binary", "epsilon": 10**7, "append": True,
        "until": START + timedelta(days=7 * nights), "max_empty_windows": 7, **own, **more,
    }  # fmt: skip
    frame = pl.DataFrame(rows, named, orient="row")
    return Job(way.get("what", "reach"), frame, state, **asked)


def released(way: dict[str, Any], given: Sequence[Sequence[Row]], folder: Path) -> Released:
    """What some nights release, each of them in a run of its own."""
    state = folder / f"{next(_NUMBERS)}.db"
    for night, rows in enumerate(given):
        with run(job(way, state, rows, night + 1)) as outcome:
            values = np.asarray(releases_of(outcome), float)
            values = values / float(design_of(outcome).units.exact)
            definition = outcome.spec.metadata()
    cells = np.rint(values).astype(np.int64).reshape(DAYS, -1)
    return Released(np.diff(cells, axis=0, prepend=0), definition)


def period(way: dict[str, Any], at: datetime) -> int:
    """The number of a user's period in which a moment lies."""
    return (at - START).days // {"1w": 7, "1d": 1, None: DAYS}[way.get("contribution_period")]


def thresholds_of(way: dict[str, Any]) -> set[int]:
    several = way["at_least"]
    return {int(one) for one in (several.split(",") if isinstance(several, str) else several)}


def by_the_rule(way: dict[str, Any], given: Sequence[Sequence[Row]]) -> Counter[Any]:
    """By step, page ("" of all) and threshold how many users enter it, one row after the other."""
    thresholds = thresholds_of(way)
    had: dict[Any, Counter[str]] = defaultdict(Counter)
    found: Counter[Any] = Counter()
    for night, rows in enumerate(given):
        for at, who, page in sorted(rows):
            of = had[who, period(way, at)]
            page = page if "group_by" in way else ""
            if page not in of and len(of) == way.get("max_contributions", 1):
                continue
            of[page] += 1
            if of[page] in thresholds:
                found[max((at - START).days, 7 * night), page, of[page]] += 1
    return found


def check_exact(way: dict[str, Any], given: Sequence[Sequence[Row]], folder: Path) -> None:
    """What is released is what the rule says."""
    changes, definition = released(way, given, folder)
    of: Any = definition.inner
    expected = by_the_rule(way, given)
    pages = PAGES if "group_by" in way else ("",)
    for place, (page, k) in enumerate((page, k) for page in pages for k in of.at_least):
        wanted = [expected[day, page, k] for day in range(DAYS)]
        assert changes[:, place].tolist() == wanted, (page, k)


def check_neighbours(
    way: dict[str, Any], given: Sequence[Sequence[Row]], folder: Path, most_units: int = 4
) -> tuple[int, int]:
    """Without any one unit nothing moves by more than is stated; the norms of the largest move."""
    changes, definition = released(way, given, folder)
    stated = definition.contribution
    most = (0, 0)
    bound: Any = stated.pattern or stated.sensitivities(Sensitivity(1, 1), changes.shape[1])
    units = Counter((who, period(way, at)) for rows in given for at, who, _ in rows)
    for unit, _ in units.most_common(most_units):
        rest = [[row for row in rows if (row[1], period(way, row[0])) != unit] for rows in given]
        moved = np.abs(changes - released(way, rest, folder).changes).sum(axis=0)
        norms = int(moved.sum()), int((moved**2).sum())
        assert norms[0] <= bound.l1, f"{unit} moves cells by {moved.tolist()}"
        assert norms[1] <= bound.l2_squared, f"{unit} moves cells by {moved.tolist()}"
        most = max(most, norms)
    return most


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("thinned", [False, True])
def test_reach_equals_naive_count(
    way: dict[str, Any], thinned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowBuffer, "least", 0 if thinned else 10**9)
    for seed in range(2):
        check_exact(way, nights(seed), tmp_path)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_user_changes_reach_by_exactly_stated_amount(way: dict[str, Any], tmp_path: Path) -> None:
    cells = len(thresholds_of(way)) * way.get("max_contributions", 1)
    assert check_neighbours(way, nights(1), tmp_path) == (cells, cells)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank among the rows of one run, so that a user counts again in a later step."""
    right = with_ranks

    def of_this_run(rows: pl.DataFrame, counted: pl.DataFrame, *more: Any) -> pl.DataFrame:
        return right(rows, counted.clear(), *more)

    monkeypatch.setattr(chosen_rows, "with_ranks", of_this_run)


def without_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that were entered before take no room."""
    right = within_bound

    def of_this_run(rows: pl.DataFrame, counted: pl.DataFrame, *more: Any) -> pl.DataFrame:
        return right(rows, counted.clear(), *more)

    monkeypatch.setattr(chosen_rows, "within_bound", of_this_run)


def over_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank among the rows of a user in all groups."""
    right = with_ranks

    def of_all(rows: pl.DataFrame, counted: pl.DataFrame, *more: Any) -> pl.DataFrame:
        marked = rows.with_columns(place=pl.col("group"), group=pl.col("group") * 0)
        counted = counted.with_columns(pl.col("group") * 0)
        return right(marked, counted, *more).with_columns(group=pl.col("place")).drop("place")

    monkeypatch.setattr(chosen_rows, "with_ranks", of_all)


@pytest.mark.parametrize("wrong", [forgetful, without_rooms], ids=lambda one: one.__name__)
def test_check_detects_user_beyond_claim(
    wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong(monkeypatch)
    with pytest.raises(AssertionError, match="moves cells by"):
        check_neighbours(WAYS[1], nights(1), tmp_path)


def test_a_rank_among_rows_of_another_group_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_all_groups(monkeypatch)
    with pytest.raises(AssertionError):
        check_exact(WAYS[1], nights(1), tmp_path)


def test_in_a_report_rows_that_count_are_ranked(tmp_path: Path) -> None:
    """All of its statistics see the same rows: so many of a user in a week."""
    for seed in range(2):
        given = nights(seed)
        changes, definition = released(IN_REPORT, given, tmp_path)
        report: Any = definition.statistic
        had: dict[Any, Counter[str]] = defaultdict(Counter)
        expected: Counter[Any] = Counter()
        for rows in given:
            for at, who, page in sorted(rows):
                of = had[who, period(IN_REPORT, at)]
                if of[""] == IN_REPORT["max_contributions"]:
                    continue
                of.update(["", page])
                expected.update(["rows", "users", ("reach", of[""]), (page, of[page])])
                expected["users"] -= of[""] > 1
        last = changes.sum(axis=0)
        found = {
            name: (last[report.cell_ranges[name]] // report.weight(name)).tolist()
            for name in report.measured_ones
        }
        assert found["reach"] == [expected["reach", k] for k in (1, 2, 4)]
        assert found["by page"] == [expected[page, k] for page in PAGES for k in (1, 3)]
        assert found["users"] == [expected["users"]]
    check_neighbours(IN_REPORT, nights(1), tmp_path, 2)


def test_parts_of_report_state_rows_beyond_bound(tmp_path: Path) -> None:
    """Rows beyond it in no part that ranks all that count; those of a group may be among them."""
    with run(job(IN_REPORT, tmp_path / "s.db", nights(0)[0], 1)) as outcome:
        parts = {name: outcome.read().part(name).numbers.metadata for name in REPORT.statistics}
    said = {name: systematic_errors(one)[1:] for name, one in parts.items()}
    assert "are not counted" not in " ".join([*said["users"], *said["reach"]])
    for name in ("rows", "by page"):
        assert said[name][0].startswith("rows beyond 5 of each user's week are not counted, so ")
    assert "most of all in late days, because early rows count first" in said["rows"][0]
    with run(job(WAYS[1], tmp_path / "t.db", nights(0)[0], 1)) as outcome:
        lines = systematic_errors(outcome.spec.metadata())
    assert lines[1].startswith("groups beyond the first 2 of each user's week are not counted, so ")


def test_a_report_refuses_more_rows_than_count(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError,
        match="'reach' of the report counts users with 4 rows, but only max_contributions",
    ):
        run(job({**IN_REPORT, "max_contributions": 3}, tmp_path / "s.db", nights(0)[0], 1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"at_least": "0"},
            "at_least is .*; give 1 to 16 different whole numbers from 1 to 1,000,000",
        ),
        ({"at_least": "1,x"}, "at_least=1,x is not a list of numbers"),
        ({"at_least": "2,2"}, "at_least is .*; give 1 to 16 different whole numbers"),
        (
            {"at_least": list(range(1, 18))},
            "at_least is .*; give 1 to 16 different whole",
        ),
        ({"user": None}, "reach needs user"),
        ({"distinct_users": True}, "reach has no option 'distinct_users'"),
        ({"once_per_window": True}, "reach has no option 'once_per_window'"),
        (
            {"max_contributions": 2, "max_contributions_per_window": 1},
            "reach has no option 'max_contributions_per_window'",
        ),
        (
            {"max_contributions": 2},
            "max_contributions=2 bounds the groups of a user, and there are none",
        ),
        (BY, "group_by=page with statistic=reach needs max_contributions"),
        ({"contribution_period": "1y"}, "contribution_period=1y is not a length of time"),
        ({"time": None}, "a new stream of reach needs time"),
    ],
)
def test_reach_refuses_incompatible_options(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    way = {"at_least": "1,5"}
    with pytest.raises(InvalidInputError, match=words):
        run(job(way, tmp_path / "s.db", nights(0)[0], 1, **options))
    assert not (tmp_path / "s.db").exists()


def test_later_run_may_omit_thresholds_but_not_change_them(tmp_path: Path) -> None:
    given = nights(0)
    state = tmp_path / "s.db"
    run(job(WAYS[0], state, given[0], 1)).close()
    for changed in ({"at_least": "1,2"}, {"contribution_period": "1d"}):
        with pytest.raises(StateError, match="exists with other options"):
            run(job({**WAYS[0], **changed}, state, given[1], 2))
    with pytest.raises(InvalidInputError, match="reach has no option 'distinct_users'"):
        run(job({**WAYS[0], "distinct_users": True}, state, given[1], 2))
    again = Job(
        "reach", job({}, state, given[1], 2).events, state, append=True, until="latest-event"
    )
    with run(again) as outcome:
        assert outcome.spec.metadata().contribution_rule == UserLevel(
            1, "1w", max_contributions_per_group=4
        )
        assert outcome.spec.metadata().inner == Reach([1, 2, 4])


def test_rows_of_users_are_remembered_until_their_period_is_over(tmp_path: Path) -> None:
    """As many of each as the largest threshold; later rows of a period that is over count not."""
    state = tmp_path / "s.db"
    way = {"at_least": "1,3", "contribution_period": "1w", "series": "cumulative"}
    often = [(START + timedelta(hours=hour), "ann", "a") for hour in range(9)]
    later = [(START + timedelta(days=8), "ann", "a")]
    run(job(way, state, often, 1)).close()
    assert kept(state) == {"ann": 3}
    run(job(way, state, later, 2, retain="1d")).close()
    assert sum(kept(state).values()) == 1
    late = [(START + timedelta(hours=10), "bob", "a")]
    with run(job(way, state, [*later, *late], 3, retain="1d", append=True)) as outcome:
        assert counts_of(outcome).after_final == 1
        assert outcome.read().table()["estimate"].tail(3).round().to_list() == [2, 1, 1]


def kept(state: Path) -> Counter[str]:
    """How many rows a state knows of each user, by digests; the most of one is called "ann"."""
    with Stream.open(state, "reach") as stream:
        digests = [one.digests for one in reveal(stream.digest_sets("user"))]
    numbers = np.unique(np.concatenate(digests), return_counts=True)[1]
    return Counter({"ann": int(numbers.sum())})


def test_a_band_is_a_difference_with_the_noise_of_both(tmp_path: Path) -> None:
    way = {"at_least": "1,2,4", "contribution_period": "1w", **BY, "max_contributions": 2}
    with run(job(way, tmp_path / "s.db", nights(0)[0], 1, epsilon=1)) as outcome:
        read: Any = outcome.read()
        table = read.table().filter(pl.col("window_index") == 7, pl.col("group") == "a")
        reading = read.result.of("a")
    by_name = {row["measure"]: row for row in table.iter_rows(named=True)}
    assert [*by_name] == ["1 or more", "2 or more", "4 or more", "1", "2 to 3"]
    more, fewer, band = (by_name[name] for name in ("2 or more", "4 or more", "2 to 3"))
    assert band["estimate"] == more["estimate"] - fewer["estimate"]
    assert band["noise_std"] == pytest.approx(2**0.5 * more["noise_std"])
    assert more["upper"] - more["lower"] < band["upper"] - band["lower"]
    first, second = (reading.number_of(name) for name in ("2 or more", "4 or more"))
    assert reading.interval("2 to 3") == (first.formula - second.formula).interval(0.95)
    with pytest.raises(
        InvalidInputError, match="'many' is not among the 5 names; give one of 1 or more, 2 or more"
    ):
        reading.number_of("many")


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5)])
def test_planned_noise_grows_with_number_of_thresholds(guarantee: Guarantee) -> None:
    """As many cells as one user moves: three times the noise, or its root."""
    plans = {r: plan_statistic(Reach(range(1, r + 1)), 52, guarantee, batched=True) for r in (1, 3)}
    one, three = (plans[r].best.errors.mean_std for r in (1, 3))
    assert three / one == pytest.approx(3 if guarantee == PureDP(1) else 3**0.5, rel=0.02)
    names = halfwidths_of_plan(
        Reach([1, 5]), plan_statistic(Reach([1, 5]), 52, guarantee, batched=True), 52
    )
    assert [*names] == ["1 or more", "5 or more", "1 to 4"]
