"""Neighbouring data through whole jobs whose inputs hold all rows of the windows that they cover.

Jobs are drawn (events, tables of counts, people; windows that are revised, or released once) and
nights: rows that vanish, come back, move, change their group or value, come in any order or again;
coverages that change, reach half into a window or not far enough; runs that are skipped, repeated,
late, killed between two windows; clocks that change. Both neighbours run under one key, so what
differs is what the unit moves. It never moves more than stated: once if it stays, 1 + 2K times with
K changes (1 + K if windows are released once), people ``most * (1 + 2 * recounts)`` whatever
changes; and no further than the noise is made for, where the guarantee covers the changes.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from revised_jobs import Nights as Released
from revised_jobs import share_of
from some_cases import long
from whole_nights import (
    CLOSED,
    Calendar,
    Night,
    Place,
    changes_of,
    covered,
    moved,
    released,
    share_of_closed,
)

from counton.run.counting import chosen_rows, rows_of_run
from counton.run.counting.seen_rows import SnapshotOfRun
from counton.windowing.windows import Windows

BERLIN = "Europe/Berlin"
CALENDARS = [
    Calendar(),
    Calendar("1d", "2024-03-29", BERLIN),
    Calendar("1d", "2024-10-25", BERLIN),
    Calendar("6h", "2024-03-30", BERLIN),
    Calendar("6h", "2024-10-26", BERLIN),
]
#: Where in a window a row may be.
WITHIN = (0, 0, 0.25, 0.5, 0.75, 0.99999)
KINDS = ("stays", "vanishes", "changes")


class Case(NamedTuple):
    """A job, and what its nights have in common."""

    unit: str
    lags: int
    most: int
    recounts: int
    calendar: Calendar
    watermark: int
    door: str
    options: dict[str, Any]

    @property
    def largest(self) -> int:
        """The largest value of a row."""
        return int(self.options.get("upper", 1))


class Pair(NamedTuple):
    """How far a unit moves what is measured, and how far it may: in exact numbers, and relative to
    what the noise is made for.
    """

    what: str
    far: float
    stated: float
    share: float
    most: float

    @property
    def ratio(self) -> float:
        return max(self.far / self.stated, self.share / self.most)


def draw_case(chance: random.Random) -> Case:
    lags = chance.choice([0, 1, 2, 3])
    unit = chance.choice(["event", "counts", "person"])
    calendar = chance.choice(CALENDARS)
    recounts = chance.choice([0, 1, 1, 2]) if unit != "person" or lags else 0
    watermark = chance.choice([0, 0, 0, 3, 6])
    options: dict[str, Any] = {"epsilon": None, **chance.choice([{"epsilon": 1}, {"rho": 1}])}
    most = 1
    door = chance.choice(["frame", "frame", "frame", "query"])
    if lags:
        options["allowed_lateness"] = f"{lags}d" if calendar.every == "1d" else f"{6 * lags}h"
    else:
        totals = {"series": "cumulative", "strategy": "binary", "windows": 40}
        options |= chance.choice([CLOSED, CLOSED, totals])
    if watermark:
        options["release_delay"] = f"{watermark}h"
    if recounts:
        options["max_corrections"] = recounts
    if unit == "counts":
        most = chance.choice([1, 2])
        door = chance.choice(["frame", "counts"])
        options |= {
            "count_column": "value",
            "upstream_max_contributions": most,
            "privacy_unit": "person",
        }
    elif chance.random() < 0.3:
        lower = chance.choice([0, -2])
        options |= {"what": "sum", "value": "value", "lower": lower, "upper": 3, "resolution": 1}
    if unit == "person":
        most = chance.choice([1, 1, 2, 3])
        options |= {"user": "user", "max_contributions": most}
        if chance.random() < 0.4:
            options["contribution_period"] = "1w" if calendar.every == "1d" else "1d"
        if not recounts and "value" not in options:
            options |= chance.choice(
                [{}, {}, {"once_per_window": True}, {"max_contributions_per_window": 1}]
            )
    return Case(unit, lags, most, recounts, calendar, watermark, door, options)


class Nights(NamedTuple):
    """Nights, the windows that each covers, and what is released by then; None: it is refused."""

    nights: list[Night]
    windows: list[range]
    told: list[int | None]

    @property
    def steps(self) -> list[int]:
        return [max(step or 0 for step in self.told[: at + 1]) for at in range(len(self.told))]

    def some_release(self, chance: random.Random) -> int:
        """The number of a night that releases a window, if one does."""
        return chance.choice([*np.flatnonzero(np.diff(self.steps, prepend=0)).tolist()] or [0])


def draw_nights(chance: random.Random, case: Case) -> Nights:
    found = Nights([], [], [])
    released = 0
    says = chance.random() < 0.7
    calendar = case.calendar
    each = 24 if case.calendar.every == "1d" else 6
    for number in range(chance.randint(3, 5)):
        until = (
            released
            + chance.choice([0, 0, 1, 1, 1, 1, 1, 2, 3, -1])
            + chance.choice([0, 0, 0, 0.5])
        )
        until = max(until + case.watermark / each * (chance.random() < 0.7), 1)
        last = int(until)
        least = max(last - released, 1)
        covers = None
        begins = 0.0
        if says:
            many = max(
                chance.choice([least] * 3 + [least + 1, least + case.lags, 2 * least, 30, 0]), 1
            )
            covers = f"{each * many + chance.choice([0, 0, 1, each // 2, each - 1])}h"
            if chance.random() < 0.5:
                covers = f"{-(-many * each // 24)}d"
            if chance.random() < 0.6:
                begins = chance.choice(calendar.reaches(covers, last))
        days = range(max(1, last - 5), last + 2)
        rows: list[Any] = [(last + 0.75, "a", "u0", str(number), 1.0)]
        for at in range(chance.randint(1, 4)):
            time = chance.choice(days) + chance.choice(WITHIN)
            value = float(chance.randint(1, case.largest))
            rows.append((time, chance.choice("ab"), f"u{at % 3}", f"{number} {at}", value))
        chance.shuffle(rows)
        dies = chance.choice([0, 1, 1, 2]) if chance.random() < 0.15 else None
        night = Night(rows, until, covers, begins, dies)
        opened = max(released + 1 - case.lags, 1) if case.door == "query" else 1
        inside = covered(night, released, calendar, case.watermark, opened)
        more = inside.stop - 1 - released
        refused = more > 0 and inside.start > released + 1
        if not refused and dies is not None:  # people's rows count in one transaction
            more = min(more, dies) if case.unit != "person" else more * (dies > 0)
        released += more * (not refused)
        found.nights.append(night)
        found.windows.append(inside)
        found.told.append(None if refused else released)
    return found


def draw_places(chance: random.Random, drawn: Nights, case: Case, many: int) -> list[Any]:
    """Places in windows that are new, or were lately, on one night that releases some."""
    last = int(drawn.nights[drawn.some_release(chance)].until)
    lower = int(case.options.get("lower", 1))
    return [
        (
            chance.randint(max(1, last - 2), last) + chance.choice(WITHIN),
            chance.choice("ab"),
            float(chance.randint(lower, case.largest)),
        )
        for _ in range(many)
    ]


def draw_event(chance: random.Random, drawn: Nights, kind: str, case: Case) -> list[Place]:
    """Where the event is on each night, by its kind; an input that counts nowhere may lie."""
    many = len(drawn.nights)
    first = drawn.some_release(chance)
    own, other = sorted(draw_places(chance, drawn, case, 1)[0] for _ in range(2))
    gone = chance.randint(first + 1, many) if kind == "vanishes" else many
    event = [own if first <= number < gone else None for number in range(many)]
    for number, before in enumerate([0, *drawn.steps[:-1]]):
        if drawn.steps[number] == before:
            event[number] = chance.choice([None, other, event[number]])
        elif number >= first and kind == KINDS[-1]:
            event[number] = chance.choice([None, own, other])
    return event


def draw_person(chance: random.Random, drawn: Nights, kind: str, case: Case) -> list[list[Place]]:
    """A person's rows on each night: they stay, come and go one by one, or all change each time."""
    pool = draw_places(chance, drawn, case, case.most + chance.randint(0, 3))
    if kind == "stays":
        return [pool] * len(drawn.nights)
    if kind == "vanishes":
        return [
            [one for one in pool for _ in range(chance.choice([0, 0, 1, 1, 1, 2]))]
            for _ in drawn.nights
        ]
    other = draw_places(chance, drawn, case, case.most)
    return [[pool, other][number % 2] for number in np.unique(drawn.steps, return_inverse=True)[1]]


def share(case: Case, without: Released, with_it: Released) -> float:
    return (share_of if case.lags else share_of_closed)(without, with_it)


def neighbours(chance: random.Random, case: Case) -> Iterator[Pair]:
    """Three neighbours of the same nights."""
    drawn = draw_nights(chance, case)
    nights = drawn.nights
    options: dict[str, Any] = {**case.options, "calendar": case.calendar, "door": case.door}
    without = released(nights, **options)
    factor = 2 if case.lags else 1
    assert without.told == drawn.told
    for kind in KINDS:
        if case.unit == "person":
            person = draw_person(chance, drawn, kind, case)
            if per := case.options.get(
                "contribution_period"
            ):  # the unit is one period of a person with others
                chosen = _period(
                    chance.choice([one for rows in person for one in rows] or [(1,)]), case, per
                )
                others = [
                    [one for one in rows if _period(one, case, per) != chosen] for rows in person
                ]
                without = released(nights, others, **options)
            stated = case.most * (1 + 2 * case.recounts)
            most = 1
            with_it = released(nights, person, **options)
        else:
            events = [draw_event(chance, drawn, kind, case) for _ in range(case.most)]
            often = [changes_of(one, nights, drawn.steps, drawn.windows) for one in events]
            assert kind != "stays" or not max(often)
            stated = sum(1 + factor * one for one in often)
            most = 1 if max(often) <= case.recounts else 1 + factor * max(often)
            at_once = [
                [one for one in places if one is not None] for places in zip(*events, strict=True)
            ]
            with_it = released(nights, at_once, **options)
        assert with_it.told == drawn.told  # refused alike, and as much is released
        if not drawn.steps[-1]:
            continue
        far = moved(without, with_it, revised=case.lags > 0)
        what = f"{case.unit}, {'revised' if case.lags else 'once'}, {kind}"
        yield Pair(what, far, stated * case.largest, share(case, without, with_it), most)


def _period(place: Place, case: Case, per: str) -> Any:
    assert place is not None
    local: datetime = case.calendar.local(place[0] - 1)
    return local.isocalendar()[:2] if per == "1w" else local.date()


def pairs(seed: int, unit: str | None = None) -> Iterator[Pair]:
    """Pairs without end."""
    chance = random.Random(seed)
    while True:
        case = draw_case(chance)
        if unit in (None, case.unit):
            yield from neighbours(chance, case)


@pytest.mark.parametrize(
    ("seeds", "unit", "many"),
    [
        *(([8], None, 9), ([8, 142], "event", 3)),  # they find wrong rules of `tests/mutants.toml`
        *(long([seed], None, 30) for seed in range(100)),
    ],
)
def test_neighbouring_runs_stay_within_stated_sensitivity(
    seeds: list[int], unit: str | None, many: int
) -> None:
    """So many pairs each; as much is attained, also by units that stay."""
    found = [pair for seed in seeds for pair in itertools.islice(pairs(seed, unit), many)]
    assert not [pair for pair in found if pair.ratio > 1 + 1e-9]
    assert {pair.what.split()[-1] for pair in found if pair.far == pair.stated} >= {"stays"}


@pytest.mark.parametrize("most", [1, long(5)])
def test_input_without_release_changes_no_later_release(most: int) -> None:
    """Of nights that come again, too early, or that are killed: any rows release the same. So do
    rows in another order. So many jobs of each unit.
    """
    chance = random.Random(1)
    many = Counter[str]()
    while many["person"] < most:
        case = draw_case(chance)
        drawn = draw_nights(chance, case)
        other = list[Night]()
        news = np.diff(drawn.steps, prepend=0).tolist()
        # People count by arrival.
        arrives = case.unit == "person" and not case.lags and drawn.nights[0].covers is None
        if many[case.unit] >= most or not news[-1] or all(news) or arrives:
            continue
        many[case.unit] += 1
        for night, new in zip(drawn.nights, news, strict=True):
            rows: list[Any] = [
                (at, group, "new", *rest)
                for when, group, _, *rest in night.rows
                for at in (1, max(when - 1, 1))
            ]
            rows = chance.sample(night.rows, len(night.rows)) if new else rows
            other.append(night._replace(rows=rows))
        options: dict[str, Any] = {**case.options, "calendar": case.calendar, "door": case.door}
        first, second = (released(nights, **options) for nights in (drawn.nights, other))
        assert np.array_equal(first.values, second.values)


def keeps_input_without_release(patch: pytest.MonkeyPatch) -> None:
    """A run that releases no step takes what its input says for released."""
    right = SnapshotOfRun.seen

    def seen(self: SnapshotOfRun, kept: pl.DataFrame, span: Any) -> pl.DataFrame:
        if span.new_steps:
            return right(self, kept, span)
        step = pl.col("window")
        is_open = self._is_covered() & (step > span.last_final)
        sums = self.sums.filter(self._is_covered())
        both = kept.join(sums, on=["window", "cell"], how="full", coalesce=True).fill_null(0)
        changes = {}
        for name in ("rows", "total"):
            for what, which in (("seen", is_open), ("counted", is_open & (step <= span.released))):
                column = f"{what}_{name}"
                changes[column] = pl.when(which).then(pl.col(name)).otherwise(pl.col(column))
        return both.with_columns(**changes)

    patch.setattr(SnapshotOfRun, "seen", seen)


def covers_windows_in_part(patch: pytest.MonkeyPatch) -> None:
    """A window that is covered in part is covered."""
    right = Windows.windows_in_last

    def within(self: Windows, length: str, last: int) -> range:
        later = right(self, length, last)
        amount = int(length[:-1]) * (86_400 if length.endswith("d") else 3600) * 1_000_000
        begin = int(self.ends(range(last, last + 1))[0]) - amount
        first = int(self.step_of(np.array([begin], np.int64))[0])
        return range(max(1, min(first, later.start)), later.stop)

    patch.setattr(Windows, "windows_in_last", within)


def covers_windows_of_rows(patch: pytest.MonkeyPatch) -> None:
    """The covered windows hang on the rows, of which one alone wipes out the others."""

    def of_rows(sums: pl.DataFrame, covered: range, *more: Any, **named: Any) -> SnapshotOfRun:
        if sums.height:
            first: Any = sums["window"].min()
            covered = range(max(covered.start, first), covered.stop)
        return SnapshotOfRun(sums, covered, *more, **named)

    patch.setattr(rows_of_run, "SnapshotOfRun", of_rows)


def chooses_rows_anew(patch: pytest.MonkeyPatch) -> None:
    """Each night chooses a person's rows of open windows anew."""
    right = vars(chosen_rows)["within_bound"]

    def within_bound(rows: pl.DataFrame, counted: pl.DataFrame, *more: Any) -> Any:
        return right(rows, counted.clear(), *more)

    patch.setattr(chosen_rows, "within_bound", within_bound)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("seed", "unit", "make_mistake"),
    [
        (8, "event", keeps_input_without_release),
        (142, "event", covers_windows_in_part),
        long(4, "event", covers_windows_of_rows),
        long(4, "person", chooses_rows_anew),
    ],
)
def test_neighbouring_runs_detect_each_wrong_rule(
    seed: int, unit: str, make_mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_mistake(monkeypatch)
    assert any(pair.ratio > 1 + 1e-9 for pair in itertools.islice(pairs(seed, unit), 300))
