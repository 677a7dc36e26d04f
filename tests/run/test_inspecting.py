"""A private look at events: what one unit changes in it, what else shows, which intervals hold."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key

from counton import PureDP, Running, Sum, inspect
from counton.base.errors import BudgetExceeded, CountonError, InvalidInput, StateError
from counton.numbers.intervals import window_halfwidths
from counton.numbers.node_law import law_for
from counton.released.look_report import numbers_of_events, planned_halfwidths, powers_of_two
from counton.released.release import Release
from counton.released.release_facts import cells_of
from counton.rows.files import open_source
from counton.run import Inspection, Job, read
from counton.run import rows_of_user as each_user
from counton.run.new_stream import define
from counton.run.private_look import activity
from counton.run.rows_of_user import EachUser, UserRows
from counton.state import Store, verify
from counton.state.verification import Verification
from counton.statistics import Distinct, Quantiles
from counton.statistics.quantiles import QuantilesReading

#: So little noise that what is released is exact.
EXACT: dict[str, Any] = {"epsilon": 10**6, "unit": "visitor"}


def looked(rows: pl.DataFrame, folder: Path, **asked: Any) -> Inspection:
    return inspect(rows, user="who", state=folder / "s.db", **{**EXACT, **asked})


def answers(found: Inspection) -> Any:
    """Of whichever kind they are."""
    return found.answers


def measured(found: Inspection) -> np.ndarray[Any, Any]:
    """What was released of each measured cell, in the units of its contribution."""
    cells = cells_of(found.released.numbers)
    assert cells is not None
    terms = found.released.numbers.design
    return np.rint(np.asarray(cells, np.float64).reshape(-1) / float(terms.units.exact))


# --------------------------------------------------------------------------- rows of each user


def frames() -> Iterator[pl.DataFrame]:
    """Small logs: who has how many rows, on which days, and values that are alike or far apart."""
    numbers = [3.0, -7.0, 3.0, 900.0, 0.0, 12.0]
    for sizes in itertools.product((0, 1, 2, 5), repeat=3):
        who = [name for name, size in zip("abc", sizes, strict=True) for _ in range(size)]
        days = [f"2024-03-0{1 + number % 3}" for number in range(len(who))]
        values = [numbers[number % len(numbers)] for number in range(len(who))]
        yield pl.DataFrame(
            {"who": who, "at": days, "paid": values},
            schema={"who": pl.String, "at": pl.String, "paid": pl.Float64},
        )


LOOKS: dict[str, dict[str, Any]] = {
    "events": {},
    "days": {"per": "1d", "time": "at"},
    "values": {"value": "paid", "most": 2},
    "one value": {"value": "paid", "most": 1},
}


def asked_for(look: str) -> UserRows:
    given = LOOKS[look]
    values = "value" in given
    grid = Quantiles(powers_of_two() if values else numbers_of_events(20))
    return UserRows("who", "paid" if values else "events", grid, **given)


def rows_of(frame: pl.DataFrame, asked: UserRows) -> pl.DataFrame:
    return EachUser(open_source(frame), asked).frame().collect()


def unit_of(look: str, name: str, day: str) -> pl.Expr:
    one = pl.col("who") == name
    return one & (pl.col("at") == day) if look == "days" else one


def changes(look: str) -> list[int]:
    """How many rows one unit adds or takes away in all, over each third log; and of which."""
    asked, found = asked_for(look), []
    for frame in itertools.islice(frames(), 0, None, 3):
        before = Counter(rows_of(frame, asked).rows())
        for name, day in frame.select("who", "at").unique().rows():
            without = frame.filter(~unit_of(look, name, day))
            after = Counter(rows_of(without, asked).rows())
            assert not after - before  # nobody else's row is another one
            gone = before - after
            assert {row[0].partition("\x1f")[0] for row in gone} <= {name}
            found.append(gone.total())
    return found


@pytest.mark.parametrize("look", LOOKS)
def test_one_unit_has_no_more_rows_than_is_claimed_and_changes_nobody_elses(look: str) -> None:
    assert max(changes(look)) == asked_for(look).most


WRONG: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    # All rows enter, however many there are.
    "values": lambda patch: patch.setattr(each_user, "_evenly", lambda rows, most: rows),
    # The first rows of all enter, whosever they are.
    "one value": lambda patch: patch.setattr(
        each_user, "_evenly", lambda rows, most: rows.sort("total").head(2)
    ),
    # A day's rows stand for all days of its user.
    "days": lambda patch: patch.setattr(
        each_user, "period_of", lambda us, per, zone: pl.len().over("user")
    ),
}


@pytest.mark.parametrize("look", WRONG)
def test_a_wrong_choice_of_rows_is_noticed(look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WRONG[look](monkeypatch)
    with pytest.raises(AssertionError):
        test_one_unit_has_no_more_rows_than_is_claimed_and_changes_nobody_elses(look)


def test_values_that_are_taken_stand_evenly_among_all() -> None:
    grid = Quantiles([float(edge) for edge in range(102)])
    frame = pl.DataFrame({"who": ["a"] * 100, "paid": [*map(float, range(100))]})
    for most, wanted in ((1, [49]), (2, [24, 74]), (4, [12, 37, 62, 87]), (100, [*range(100)])):
        rows = rows_of(frame.sample(fraction=1, shuffle=True, seed=3),
                       UserRows("who", "paid", grid, "paid", most))  # fmt: skip
        assert rows["paid"].to_list() == wanted


# ------------------------------------------------------------------ neighbours through the whole


class Said:
    """All that a call of `inspect` says: what is released, and everything else."""

    def __init__(self, frame: pl.DataFrame, folder: Path, look: str) -> None:
        given = LOOKS[look]
        asked: dict[str, Any] = {k: v for k, v in given.items() if k not in ("value", "most")}
        asked |= {"bounds": given["value"], "most": given["most"]} if "value" in given else {}
        if "value" not in given:
            asked["at_most"] = 20
        self.cells: np.ndarray[Any, Any] | None = None
        try:
            found = looked(frame, folder, key=chosen_key(), **asked)
        except CountonError as error:
            self.other: Any = repr(error)
            return
        self.cells, self.contribution = (
            measured(found),
            found.released.numbers.definition.contribution,
        )
        self.other = (
            json.dumps(_shape(found.to_dict())),
            found.released.describe(),
            # How far ends of intervals are apart is a function of what was released.
            re.sub(r"(?<=at most ).+?(?= [A-Z])", "#", found.released.methods()),
            re.sub(r"(?<=reach at most ).+?(?= to either)", "#", found.released.methods(full=True)),
            repr(found.released.numbers.definition),
            found.table().schema,
            [(spend.name, spend.guarantee) for spend in _spends(folder)],
        )


def _spends(folder: Path) -> Any:
    with Store(folder / "s.db") as store:
        return store.spends


def _shape(value: Any) -> Any:
    """JSON without the numbers that are functions of what was released."""
    if isinstance(value, dict):
        free = {"answers", "suggestion"}
        return {key: len(one) * (key != "suggestion") if key in free else one
                for key, one in value.items()}  # fmt: skip
    return value


def check_neighbours(folder: Path, look: str, seeds: range) -> float:
    """One unit's rows move what is measured by no more than is claimed; all else stays the same."""
    largest = 0.0
    for seed in seeds:
        frame = [*frames()][seed]
        whole = Said(frame, _fresh(folder, f"{seed}"), look)
        units = frame.select("who", "at").unique(maintain_order=True).rows()[:3]
        for number, (name, day) in enumerate(units):
            without = frame.filter(~unit_of(look, name, day))
            other = Said(without, _fresh(folder, f"{seed}-{number}"), look)
            assert other.other == whole.other
            assert whole.cells is not None
            assert other.cells is not None
            moved = np.abs(whole.cells - other.cells)
            pattern: Any = whole.contribution.pattern
            assert moved.sum() <= pattern.l1
            assert (moved**2).sum() <= pattern.l2_squared
            largest = max(largest, moved.sum() / pattern.l1)
    return largest


def _fresh(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


@pytest.mark.slow  # some dozens of states for each
@pytest.mark.parametrize("look", LOOKS)
def test_neighbours_differ_by_what_is_claimed_and_in_nothing_else(
    look: str, tmp_path: Path
) -> None:
    assert check_neighbours(tmp_path, look, range(1, 64, 18)) > 0.4


@pytest.mark.slow
def test_a_user_with_several_rows_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of a user as a user of its own: the law above fails."""
    made = EachUser._made_rows.func  # type: ignore[attr-defined]

    def torn(self: EachUser) -> pl.DataFrame:
        many = pl.concat([made(self)] * 3)
        found: pl.DataFrame = many.with_columns(
            who=pl.col("who") + pl.int_range(pl.len()).cast(pl.String)
        )
        return found

    monkeypatch.setattr(EachUser, "_made_rows", property(torn))
    with pytest.raises(AssertionError):
        check_neighbours(tmp_path, "events", range(1, 20, 9))


# ------------------------------------------------------------------------------- what is refused


def test_limits_refuse_before_a_row_is_read(tmp_path: Path) -> None:
    bad = pl.DataFrame({"who": ["a", None], "paid": ["x", "y"]})
    with Store(tmp_path / "s.db", create=True) as store:
        store.set_limit(PureDP(1))
    for asked in ({}, {"bounds": "paid", "most": 1}):
        with pytest.raises(BudgetExceeded, match=r"release 'inspect.* give at most epsilon=1$"):
            looked(bad, tmp_path, epsilon=2, **asked)
    assert not _spends(tmp_path)


ROWS = pl.DataFrame({"who": ["a", "a", "b"], "paid": [1, 2, 3], "at": ["2024-03-01"] * 3})


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"share": 1.0}, r"share=1.0 must be above 0 and below 1"),
        ({"share": []}, "share is empty"),
        ({"at_most": 0}, "at_most is 0"),
        ({"bounds": "paid"}, "bounds=paid needs most"),
        ({"most": 3}, "most=3 is for values of a column"),
        ({"lower": 0}, "lower=0 is for values of a column"),
        ({"bounds": "paid", "most": 1, "lower": 0}, "edges of cells are missing"),
        ({"bounds": "paid", "most": 0}, "most"),
        ({"bounds": "who", "most": 1}, "user=who is also the column"),
        ({"per": "1d"}, "per=1d needs the column of times"),
        ({"time": "at"}, "time=at is used only to tell periods apart"),
        ({"per": "1y", "time": "at"}, "per=1y is not the length of a period"),
        ({"epsilon": None}, "the privacy loss is missing"),
        ({"bounds": "none", "most": 1}, "no column 'none'"),
        ({"missing": "guess"}, "missing is 'guess'"),
        ({"level": 1 - 1e-9}, "level=0.999999999 is too near to 1"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_and_leaves_no_state(
    asked: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=words):
        looked(ROWS, tmp_path, **asked)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("frame", "asked", "words"),
    [
        ({"who": ["a", None]}, {}, "no user in column 'who'"),
        ({"who": ["a", ""]}, {}, "no user in column 'who'"),
        ({"who": [1.5, 2.0]}, {}, "can be written as several texts"),
        ({"who": ["a", "b"], "paid": [1.0, float("inf")]}, {"bounds": "paid", "most": 1},
         "not a finite number"),
        ({"who": ["a"], "at": ["soon"]}, {"per": "1d", "time": "at"}, "cannot be read"),
    ],
    ids=str,
)  # fmt: skip
def test_rows_that_are_none_are_refused_or_left_out(
    frame: dict[str, Any], asked: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=words):
        looked(pl.DataFrame(frame), tmp_path, **asked)
    assert not [*tmp_path.iterdir()]
    if "no user" in words:
        assert answers(looked(pl.DataFrame(frame), tmp_path, missing="skip"))[0].most == 1


def test_nobody_at_all_is_an_answer_too(tmp_path: Path) -> None:
    """Whether there is anybody is not told by an error."""
    nobody = ROWS.clear()
    found = looked(nobody, tmp_path, epsilon=1)
    assert answers(found)[0].upper is None
    assert found.notes()
    values = looked(nobody, tmp_path, epsilon=1, bounds="paid", most=1)
    assert values.notes()


# ------------------------------------------------------------------------- one release as any other


def test_a_look_is_a_release_as_any_other(tmp_path: Path) -> None:
    found = looked(ROWS, tmp_path)
    assert answers(found)[0][:2] == (0.95, 2)
    again = looked(ROWS, tmp_path, share=[0.4, 0.95])  # from the journal, and no spend
    assert [one.most for one in answers(again)] == [1, 2]
    assert [spend.name for spend in _spends(tmp_path)] == ["inspect"]
    with pytest.raises(StateError, match="was created with"):
        looked(ROWS, tmp_path, at_most=7)
    (verified,) = verify(tmp_path / "s.db")
    assert isinstance(verified, Verification)
    assert verified.right
    assert "events by who" in found.released.methods()
    assert answers(looked(ROWS.head(2), tmp_path)) == answers(found)  # other rows
    values = looked(ROWS, tmp_path, bounds="paid", most=2)
    assert values.suggestion == {"lower": "1", "upper": "4"}
    days = looked(ROWS, tmp_path, per="1d", time="at", name="days")
    assert days.unit == "visitor's day"
    assert {spend.unit for spend in _spends(tmp_path)} == {"visitor", "visitor's day (UTC, at)"}


def test_a_look_that_is_shown_again_says_so(tmp_path: Path) -> None:
    """Rows that came since are in no answer, and another question is no other spelling of it."""
    found = looked(ROWS.head(2), tmp_path, bounds="paid", most=2)
    again = looked(ROWS, tmp_path, bounds="paid", most=2)
    assert (found.again, again.again) == (False, True)
    assert again.answers == found.answers
    assert found.notes() == again.notes()[:-1]
    assert "released before, from the rows of that time" in again.notes()[-1]
    with pytest.raises(StateError, match="question is about at, but stream 'inspect-bounds' was"):
        looked(ROWS, tmp_path, bounds="at", most=2)
    assert [spend.name for spend in _spends(tmp_path)] == ["inspect-bounds"]


def test_notes_name_arguments_as_they_are_written(tmp_path: Path) -> None:
    found = looked(ROWS.clear(), tmp_path, epsilon=1)
    assert "or at_most is too small" in found.notes()[0]
    assert "or --at-most is too small" in found.notes({"at_most": "--at-most"})[0]


def test_a_look_is_asked_again_from_its_file(tmp_path: Path) -> None:
    from counton.run import export

    found = looked(ROWS, tmp_path)
    export(tmp_path / "s.db", out=tmp_path / "look.parquet")
    back = read(tmp_path / "look.parquet")
    assert Inspection(back, (0.95,), of_values=False).answers == found.answers


def test_a_look_is_entered_in_a_ledger_that_is_shared(tmp_path: Path) -> None:
    team = tmp_path / "team.db"
    with Store(team, create=True) as store:
        store.set_limit(PureDP(10**6))
    looked(ROWS, tmp_path, ledger=team)
    with pytest.raises(BudgetExceeded, match=r"release .*inspect.* nothing is left"):
        looked(ROWS, _fresh(tmp_path, "other"), ledger=team)
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        looked(ROWS, _fresh(tmp_path, "third"), ledger=team, name="again")


def test_a_unit_is_called_as_the_state_calls_it(tmp_path: Path) -> None:
    looked(ROWS, tmp_path)
    days = looked(ROWS, tmp_path, unit=None, per="1d", time="at", name="days")
    assert days.unit == "visitor's day"


# ----------------------------------------------------------------------------------- what it says


def test_cells_are_exact_to_16_and_then_end_at_bounds_that_people_choose() -> None:
    edges = numbers_of_events(1024)
    assert edges[:17] == [*map(float, range(1, 18))]
    ends = [20, 25, 30, 40, 50, 60, 80, 100, 120, 160, 200, 250, 300, 400, 500, 600, 800, 1000]
    assert edges[17:] == [*(end + 1.0 for end in ends), 1025.0, 1026.0]
    assert numbers_of_events(3) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert numbers_of_events(16)[-2:] == [17.0, 18.0]


def visits(sizes: list[int]) -> pl.DataFrame:
    who = [f"v{number}" for number, size in enumerate(sizes) for _ in range(size)]
    return pl.DataFrame({"who": who, "paid": [float(place % 40) for place in range(len(who))]})


@pytest.mark.parametrize(
    "sizes", [[1] * 18 + [7], [3] * 41, [1, 2, 3, 4] * 7 + [2], [900] * 9], ids=str
)
def test_without_noise_the_answer_is_the_quantile(sizes: list[int], tmp_path: Path) -> None:
    """The smallest number that so many have at most; in a wide cell its last."""
    found = looked(visits(sizes), tmp_path, share=[0.5, 0.9, 0.95])
    for one in answers(found):
        truth = sorted(sizes)[int(np.ceil(one.share * len(sizes) - 1e-9)) - 1]
        edges = np.array(numbers_of_events(1024))
        assert one.most == edges[np.searchsorted(edges, truth, "right")] - 1
        assert one.lower <= truth <= one.upper


def test_a_sweep_leaves_what_was_released_as_it_was(tmp_path: Path) -> None:
    found = looked(visits([1] * 30 + [18] * 9 + [20] * 60), tmp_path, at_most=20)
    fresh = replace(found)
    swept = found.sweep()
    assert found.sweep() == swept == fresh.sweep()
    assert [one.most for one in answers(found)] == [20]
    reading = found.released.reading
    assert isinstance(reading, QuantilesReading)
    for array in (reading.statistic.edges, reading.monotone, reading.release.value):
        with pytest.raises(ValueError, match="read-only"):
            array[-1] = 0


def test_one_answer_is_advised_from_cells_that_can_tell(tmp_path: Path) -> None:
    found = looked(visits([1] * 60 + [20] * 35 + [900] * 5), tmp_path, share=[0.5, 0.99, 0.95])
    assert found.suggestion == {"most": 1000}  # of the largest share, not the first
    assert "to take that of 99% over: most=1000" in found.describe()
    fewer = looked(visits([1] * 60 + [20] * 35 + [900] * 5), tmp_path, share=[0.5, 0.95, 0.99],
                   at_most=100, name="fewer")  # fmt: skip
    assert fewer.suggestion == {"most": 20}  # 99% have more than is told apart
    assert looked(visits([1]), tmp_path, epsilon="0.1", name="few").suggestion == {}


def test_without_noise_a_sweep_says_what_is_kept(tmp_path: Path) -> None:
    sizes = [1] * 30 + [4] * 9 + [16] * 3
    found = looked(visits(sizes), tmp_path)
    for swept in found.sweep([1, 2, 5, 16, 50]):
        kept = sum(min(size, swept.most) for size in sizes) / sum(sizes)
        assert swept.kept == pytest.approx(kept, abs=1e-4)
        assert swept.lower <= kept + 1e-4
        assert swept.upper >= kept - 1e-4


def test_the_planned_half_width_is_that_of_the_job() -> None:
    more: dict[str, Any] = {"epsilon": 1, "steps": 90, "time": "at", "every": "1d"}
    more |= {"start": "2024-03-01", "user": "who"}
    values: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 50, "resolution": "0.5"}
    kinds: list[Any] = [("count", None, {}), ("sum", Sum(0, 50, resolution="0.5"), values)]
    for what, of, own in kinds:
        planned = planned_halfwidths([1, 5], 90, PureDP(1), of)
        for most, half in zip((1, 5), planned, strict=True):
            job = define(Job(what, "e.csv", "s.db", most=most, **more, **own))
            law = law_for(job.strategy, job.guarantee, job.contribution, job.shape).law
            last = window_halfwidths(job.strategy, law, 0, np.array([90]), 0.95)[0]
            assert half == pytest.approx(last * float(job.contribution.resolution or 1))
    with pytest.raises(InvalidInput, match="by its own options"):
        planned_halfwidths([1], 90, PureDP(1), Distinct(changes=2))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="give both, or neither"):
        planned_halfwidths([1], 90, None)


def test_a_look_at_values_has_no_sweep(tmp_path: Path) -> None:
    found = looked(ROWS, tmp_path, bounds="paid", most=1)
    with pytest.raises(InvalidInput, match="look at values"):
        found.sweep()


# -------------------------------------------------------------------------------------- coverage


KEYS = 150
#: With probability below 1e-4 fewer of so many intervals hold that hold with probability 0.95 each.
LEAST = 0.95 - 3.8 * np.sqrt(0.95 * 0.05 / KEYS)


def over_keys(found: Inspection, values: list[float]) -> Iterator[Inspection]:
    """The same look under many keys."""
    released = found.released
    statistic, guarantee = released.numbers.statistic, released.numbers.definition.guarantee
    for number in range(KEYS):
        counter = Running.start(
            statistic,
            1,
            guarantee,
            key=chosen_key(number.to_bytes(32, "big")),
            name="look",
            batched=True,
        )
        reading = counter.release_batch(values)
        assert isinstance(reading, QuantilesReading)
        readings: Any = [reading]
        numbers = replace(released.numbers, published=readings)
        yield Inspection(Release(numbers), found.shares, found.of_values)


@pytest.mark.slow  # 150 releases
def test_intervals_hold_as_often_as_they_say(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    sizes = rng.zipf(1.9, 1500).tolist()
    found = looked(visits([1]), tmp_path, epsilon="0.5", share=[0.5, 0.9, 0.95], at_most=64)
    tried, ordered = [1, 2, 5, 10, 30, 64], sorted(sizes)
    total = sum(min(size, 64) for size in sizes)  # of more the first 64 are all
    held: Counter[str] = Counter()
    wide: list[float] = []
    for one in over_keys(found, [float(size) for size in sizes]):
        for answer in answers(one):
            truth = ordered[int(np.ceil(answer.share * len(sizes) - 1e-9)) - 1]
            upper = np.inf if answer.upper is None else answer.upper
            held[f"quantile {answer.share}"] += answer.lower <= truth <= upper
        for swept in one.sweep(tried):
            kept = sum(min(size, swept.most) for size in sizes) / total
            held[f"kept {swept.most}"] += swept.lower <= kept <= swept.upper
            wide.append(swept.upper - swept.lower)
    assert len(held) == 9
    assert min(held.values()) / KEYS >= LEAST, held
    assert np.mean(wide) < 0.6  # they say something


@pytest.mark.slow  # 150 releases
def test_a_weighted_sum_is_held_as_often_as_it_says_and_not_by_half_an_interval(
    tmp_path: Path,
) -> None:
    """Half as wide ones do not: the test would notice them."""
    values = [float(value) for value in np.random.default_rng(6).lognormal(3, 1, 800)]
    found = looked(visits([1]), tmp_path, epsilon="0.5", bounds="paid", most=1)
    weights = np.arange(len(powers_of_two()) - 1, dtype=np.float64)
    places = np.searchsorted(powers_of_two(), values, "right") - 1
    truth, whole, half = float(weights[places].sum()), 0, 0
    lower, upper = np.quantile(values, [0.025, 0.975], method="inverted_cdf")
    held: Counter[str] = Counter()
    for one in over_keys(found, values):
        estimate = one._reading.weighted_sum(weights)
        whole += estimate.lower <= truth <= estimate.upper
        half += abs(estimate.value - truth) <= (estimate.upper - estimate.value) / 2
        (bounds,) = answers(one)
        held["lower"] += bounds.lower_from <= lower <= bounds.lower_to
        held["upper"] += bounds.upper_from <= upper <= bounds.upper_to
    assert LEAST <= whole / KEYS <= 0.99
    assert half / KEYS < LEAST
    assert min(held.values()) / KEYS >= LEAST, held


# --------------------------------------------------------------------------- rows nobody can read

BAD_ROWS = "who,at,paid\na,2024-03-01,1\na,2024-03-0x,2\nb,2024-03-02,3\nb\nc,2024-03-02,5\n"


@pytest.mark.parametrize("exactly", [False, True])
def test_rows_that_cannot_be_read_are_set_aside(tmp_path: Path, exactly: bool) -> None:
    """Those of a wrong time and of a missing field, each by itself; the others are looked at."""
    (tmp_path / "v.csv").write_text(BAD_ROWS)
    aside, told = tmp_path / "bad.csv", list[int]()

    def look(**more: Any) -> float | None:
        more |= {"per": "1d", "time": "at"}
        if exactly:
            return activity(tmp_path / "v.csv", "who", **more).events
        more |= {"state": tmp_path / "s.db", "tell_set_aside": told.append, **EXACT}
        return inspect(tmp_path / "v.csv", user="who", **more).events

    with pytest.raises(InvalidInput, match="correct the file"):
        look()
    with pytest.raises(InvalidInput, match=r"more than 1 rows|row 4"):
        look(bad_rows=f"quarantine:{aside}", bad_rows_most=1)
    with pytest.raises(InvalidInput, match=r"v\.csv"):
        look(bad_rows=f"quarantine:{tmp_path / 'v.csv'}")
    assert not list(tmp_path.glob("s.db")), "nothing is released or made"
    assert look(bad_rows=f"quarantine:{aside}") == pytest.approx(3, abs=0.01)
    rows = aside.read_text().splitlines()
    assert told == ([] if exactly else [2])
    assert [row.split(",")[1] for row in rows[1:]] == ["2", "4"]
    assert (tmp_path / "v.csv").read_text() == BAD_ROWS
