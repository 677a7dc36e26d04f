"""From rows to released values by two other ways: rows counted plainly, noise by the reference."""

import csv
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from counton import PureDP, release
from proofs import reference

STEPS = 8
GROUPS = ("home", "shop")
#: Of each night how many hours it brings: its file has those that are new.
NIGHT = 4


class Row(NamedTuple):
    """A row of a file: minutes since the first step, a user, a group and what the row is called."""

    minute: int
    user: str
    group: str
    id: str

    @property
    def hour(self) -> int:
        """Its step, counted from 0."""
        return self.minute // 60


class Rule(NamedTuple):
    """Which rows count.

    Attributes:
        most: rows of a unit.
        hours: of a unit's period; None: all of a user's rows are one unit's.
        once: whether a row counts once by its id.
    """

    most: int
    hours: int | None
    once: bool


RULES = [
    Rule(2, None, once=False), Rule(2, 2, once=False), Rule(2, None, once=True),
    Rule(2, 2, once=True), Rule(1, 8, once=True),
]  # fmt: skip


def rows_of(seed: int) -> list[Row]:
    """Of two users with few ids, in order; no two at one time."""
    chance = random.Random(seed)
    return [
        Row(minute, chance.choice(["ann", "bob"]), chance.choice(GROUPS), chance.choice("wxyz"))
        for minute in sorted(chance.sample(range(60 * STEPS), 40))
    ]


Unit = Callable[[Row, Rule], object]


def unit_of(row: Row, rule: Rule) -> object:
    """Whom a guarantee protects: a user, or one user's period."""
    return row.user, 0 if rule.hours is None else row.hour // rule.hours


def counted(rows: list[Row], rule: Rule, called: Unit = unit_of) -> Iterator[Row]:
    """Rows that count: the first of each unit and id, and of these the first of each unit.

    Args:
        called: whose ids are told apart from others'.
    """
    seen = set[Any]()
    room = Counter[object]()
    for row in rows:
        if rule.once and (called(row, rule), row.id) in seen:
            continue
        seen.add((called(row, rule), row.id))
        room[unit_of(row, rule)] += 1
        if room[unit_of(row, rule)] <= rule.most:
            yield row


def write_sums(path: Path, rows: list[Row]) -> None:
    """Running sums by step and group."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["step", "group", "sum"])
        for step in range(1, STEPS + 1):
            for group in GROUPS:
                many = sum(row.group == group and row.hour < step for row in rows)
                out.writerow([step, group, many])


def run_nights(folder: Path, rows: list[Row], rule: Rule) -> None:
    """A job of two nights, each with a file of new events."""
    options: dict[str, Any] = {"row_id": "id"} if rule.once else {}
    options |= {} if rule.hours is None else {"contribution_period": f"{rule.hours}h"}
    for end in range(NIGHT, STEPS + 1, NIGHT):
        lines = [
            f"2024-03-01T{row.hour:02}:{row.minute % 60:02}:00,{row.user},{row.group},{row.id}\n"
            for row in rows
            if end - NIGHT <= row.hour < end
        ]
        (folder / f"{end}.csv").write_text("at,user,page,id\n" + "".join(lines))
        release(
            "count", folder / f"{end}.csv", state=folder / "s.db", output=folder / "out.json",
            time="at", every="1h", start="2024-03-01", windows=STEPS,
            until=f"2024-03-01T{end:02}:00",
            group_by="page", groups=[*GROUPS], user="user", max_contributions=rule.most,
            append=True,
            guarantee=PureDP(1), **options,
        )  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_released_values_are_sums_of_the_rows_that_count(
    rule: Rule, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(RULES.index(rule))
    run_nights(tmp_path, rows, rule)
    files = [str(tmp_path / name) for name in ("out.json", "s.db.key", "sums.csv")]
    write_sums(tmp_path / "sums.csv", [*counted(rows, rule)])
    assert reference.main(["check", *files]) == 0, capsys.readouterr()
    assert capsys.readouterr().out == f"{STEPS * len(GROUPS)} values are right\n"
    write_sums(tmp_path / "sums.csv", [*counted(rows, rule._replace(most=rule.most + 1))])
    assert reference.main(["check", *files]) == 1


def test_ids_per_user_and_period_change_counted_rows() -> None:
    """The test above is not idle: rows would be others if ids were a user's, or everybody's."""
    rule = Rule(2, 2, once=True)
    rows = rows_of(RULES.index(rule))
    ways: tuple[Unit, ...] = (unit_of, lambda row, _: row.user, lambda row, _: None)
    kept = [[*counted(rows, rule, way)] for way in ways]
    assert kept[0] != kept[1] != kept[2] != kept[0]
