"""Queries of the page on people in tables of counts, and how far one person moves their numbers.

All histories of a person in five days and nights are persons of one table, each in a region of its
own; a query for each night then says what every one of them adds.
"""

import random
import re
from collections.abc import Iterator, Sequence
from hashlib import md5
from itertools import combinations, count, permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from counton import read
from counton.base.errors import InvalidInputError
from counton.cli.app import app
from counton.job.saved_job import stream_name
from counton.run import Job, export, run
from counton.serve.public_series import Journal
from counton.state import Store

DAYS = 5
PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "pre-aggregated-input.md").read_text(
    encoding="utf-8"
)
RIGHT, INSERT = (
    re.search(rf'title="{name}.sql"\n(.*?)```', PAGE, re.DOTALL)[1]  # type: ignore[index]
    for name in ("right", "chosen")
)
HASH = RIGHT.replace("loaded_at, id", "md5(id)")
TIME = RIGHT.replace("loaded_at, id", "day, id")
FILTERED = RIGHT.replace(
    "from visits\n)", "from visits\n    where day >= {since} and day < {until}\n)"
)
CHOSEN = "select day, region, count(*) as visits from chosen where day >= {since} and day < {until}"
CHOSEN += " group by day, region"
#: First covered days of nights 1 to 5: the newest alone, all, and some that change.
NEWEST = range(1, DAYS + 1)
ALL = [1] * DAYS
CHANGING = [1, 2, 3, 4, 1]


class Row(NamedTuple):
    """A row of a person: its day, the night that loads it, the last night that has it, its id."""

    day: int
    loaded: int
    gone: int
    id: str


PLACES = [(day, loaded) for day in range(1, DAYS + 1) for loaded in range(day, DAYS + 1)]
EVER = DAYS
#: Ids of rows, no two alike.
IDS = map(str, count())


def by_hash(many: int) -> list[str]:
    """New ids in the order of their hashes."""
    ids = [next(IDS) for _ in range(many)]
    return sorted(ids, key=lambda one: md5(one.encode(), usedforsecurity=False).hexdigest())


def staying(copies: int) -> Iterator[list[Row]]:
    """All histories of up to five rows, each in so many copies, and some of any rows."""
    chance = random.Random(5)
    for many in range(1, 6):
        for places in combinations(PLACES, many):
            yield [Row(*place, EVER, next(IDS)) for place in places for _ in range(copies)]
    for order in permutations(range(DAYS)):
        ids = by_hash(DAYS * copies)
        yield [
            Row(day, day, EVER, one)
            for day, place in zip(NEWEST, order, strict=True)
            for one in ids[place * copies : (place + 1) * copies]
        ]
    for _ in range(1000):
        many = chance.randint(copies, 6 * copies)
        yield [Row(*chance.choice(PLACES), EVER, next(IDS)) for _ in range(many)]


def vanishing(copies: int) -> Iterator[list[Row]]:
    """Histories whose rows may vanish, one after the other or at any time."""
    chance = random.Random(6)
    yield [Row(day, day, day, next(IDS)) for day in NEWEST for _ in range(copies)]
    for _ in range(3000):
        rows = [chance.choice(PLACES) for _ in range(chance.randint(1, 5))]
        yield [
            Row(day, loaded, chance.randint(loaded, EVER), next(IDS))
            for day, loaded in rows
            for _ in range(copies)
        ]


class Warehouse:
    """A table of all histories, and what queries make of it."""

    def __init__(self, people: Sequence[Sequence[Row]]) -> None:
        self.people = len(people)
        self.ask = duckdb.connect()
        columns: dict[str, Any] = {
            "person": np.repeat(np.arange(len(people)), [len(rows) for rows in people]),
            **{
                name: [getattr(row, name) for rows in people for row in rows]
                for name in Row._fields
            },
        }
        columns = {name: np.asarray(one) for name, one in columns.items()}
        self.ask.register("given", columns)
        self.ask.execute(
            "create table log as select person as user_id, id, "
            "date '2024-02-29' + day::int as day, person as region, "
            "loaded as loaded_at, gone from given"
        )

    def tables(self, query: str, most: int, first: Sequence[int]) -> Iterator[dict[str, Any]]:
        """What a query says each night of the covered days, from the ``first`` one on."""
        self.ask.execute(
            "create or replace table chosen (user_id int, id text, day date, region int)"
        )
        for night, begin in zip(NEWEST, first, strict=True):
            self.ask.execute(
                f"create or replace view visits as "
                f"from log where {night} between loaded_at and gone"
            )
            if query is CHOSEN:
                self.ask.execute(INSERT.replace("<= 5", f"<= {most}"))
            text = query.replace("<= 5", f"<= {most}")
            for name, day in (("{since}", begin), ("{until}", night + 1)):
                text = text.replace(name, f"'2024-03-0{day}'")
            found = self.ask.sql(text).fetchnumpy()
            days = (found["day"] - np.datetime64("2024-02-29")).astype("timedelta64[D]")
            yield {**found, "day": days.astype(int), "region": found["region"].astype(int)}

    def far(self, query: str, most: int, first: Sequence[int]) -> int:
        """How far the farthest person moves, by changes of what each covered day said before."""
        held = np.zeros((self.people, DAYS + 1), int)
        far = np.zeros(self.people, int)
        for night, found in enumerate(self.tables(query, most, first), 1):
            now = np.zeros_like(held)
            now[found["region"], found["day"]] = found["visits"]
            covered = slice(first[night - 1], night + 1)
            far += np.abs(now - held)[:, covered].sum(axis=1)
            held[:, covered] = now[:, covered]
        return int(far.max())


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.long
def test_page_states_change_by_one_user(most: int) -> None:
    stay = Warehouse([*staying(most)])
    vanish = Warehouse([*vanishing(most)])

    def far(query: str, warehouse: Warehouse = stay) -> tuple[int, int]:
        return warehouse.far(query, most, NEWEST), warehouse.far(query, most, ALL)

    assert far(RIGHT) == far(CHOSEN) == far(CHOSEN, vanish) == (most, most)
    assert far(HASH) == far(RIGHT, vanish) == (5 * most, 9 * most)
    assert far(TIME) == (most, 5 * most)
    assert far(FILTERED) == (5 * most, most)
    assert stay.far(FILTERED, most, CHANGING) == 7 * most
    assert stay.far(RIGHT, most, CHANGING) == stay.far(CHOSEN, most, CHANGING) == most


def test_the_page_has_these_numbers() -> None:
    for row in (
        "| loading time and id, over the whole period | 1 | 5 |",
        "| the same, and rows disappear | 5; with `--allowed-lateness` 9 | 25; 45 |",
        "| the same, from the table `chosen` | 1 | 5 |",
        "| a hash of the id, new in each run | 5; with `--allowed-lateness` 9 | 25; 45 |",
        "| event time, and rows arrive late | 1; with `--allowed-lateness` 5 | 5; 25 |",
        "| loading time and id, after filtering to recent days | 5; with `--allowed-lateness` 7 "
        "| 25; 35 |",
    ):
        assert row in PAGE


@pytest.mark.long
@pytest.mark.parametrize("third", [1, 2, 3])
@pytest.mark.parametrize("fourth", [1, 2, 3, 4])
def test_any_coverage_keeps_the_bound(third: int, fourth: int) -> None:
    """Of all coverages of five nights, the wrong query moves 7 at most (as `CHANGING`), the right
    ones 1.
    """
    stay = Warehouse([rows for rows in staying(1) if len(rows) < 5])
    every = [*product([1], [1, 2], [third], [fourth], NEWEST)]
    wrong, *right = (
        max(stay.far(query, 1, first) for first in every) for query in (FILTERED, RIGHT, CHOSEN)
    )
    assert wrong <= 7
    assert right == [1, 1]


def test_the_queries_run_on_postgresql(postgres: str) -> None:
    """With the edges bound beside the text, as counton binds them."""
    import psycopg

    with psycopg.connect(postgres) as connection:
        connection.execute(
            "create table visits (user_id int, id text, day date, region int, loaded_at int)"
        )
        connection.execute("create table chosen (user_id int, id text, day date, region int)")
        connection.execute(
            "insert into visits select 1, n::text, date '2024-02-29' + n % 5 + 1, 7, n "
            "from generate_series(1, 9) n"
        )
        for _ in range(2):  # again: nothing more
            connection.execute(INSERT)
        edges = "2024-03-03T00:00:00+01:00", "2024-03-06T00:00:00+01:00"
        for query in (RIGHT, CHOSEN):
            text = query.replace("{since}", "%s").replace("{until}", "%s")
            found = connection.execute(text, edges).fetchall()
            assert sorted((day.day, region, n) for day, region, n in found) == [
                (3, 7, 1), (4, 7, 1), (5, 7, 1),
            ]  # fmt: skip


TABLE: dict[str, Any] = {
    "time": "day", "every": "1d", "start": "2024-03-01", "windows": 9, "until": "2024-03-02",
    "epsilon": 1, "count_column": "visits", "upstream_max_contributions": 5, "event_name": "visit",
    "privacy_unit": "person",
}  # fmt: skip


@pytest.mark.parametrize("revise", [None, "2d"])
def test_every_output_states_bound_upstream(revise: str | None, tmp_path: Path) -> None:
    """Screen, description, texts for publications, file, page and command."""
    rows = pl.DataFrame({"day": ["2024-03-01"], "visits": [17]})
    job = Job("count", rows, tmp_path / "s.db", **TABLE, allowed_lateness=revise)
    with run(job) as outcome:
        made = outcome.read()
        export(tmp_path / "s.db", tmp_path / "t.csv")
    again = read(tmp_path / "t.csv")
    with Store(tmp_path / "s.db") as store:
        page = Journal(store, stream_name(job)).describe()
    done = CliRunner().invoke(
        app, ["methods", str(tmp_path / "s.db"), "--full"], prog_name="counton"
    )
    by = "able counts at most 5 visits of one person, as bounded before, by whoever made the table"
    for text in (
        *(str(made), made.describe(), made.methods(), made.methods(full=True), done.output),
        *(str(again), again.describe(), again.methods(), page["people"], page["protects"]),
    ):
        assert by in " ".join(text.split())
        assert "protected less" not in text
    assert "Number of visits, at most 5 per person, as bounded before" in str(again)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"count_column": None, "event_name": None},
            "upstream_max_contributions=5 needs count_column",
        ),
        (
            {"count_column": None, "user": "u", "max_contributions": 2},
            "upstream_max_contributions=5 needs count_column",
        ),
        ({"user": "u", "max_contributions": 2}, "count_column=visits cannot be used with user=u"),
        ({"row_id": "i"}, "count_column=visits cannot be used with row_id=i"),
        ({"upstream_max_contributions": 0}, "upstream_max_contributions=0 is below 1"),
        (
            {"upstream_max_contributions": None},
            "event_name=visit needs user or upstream_max_contributions",
        ),
    ],
    ids=str,
)
def test_moves_are_of_tables_of_counts(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=words):
        run(Job("count", tmp_path / "t.csv", tmp_path / "s.db", **TABLE | more))


def test_ledger_counts_table_bounded_upstream_for_users(tmp_path: Path) -> None:
    """A table of rows beside it is no table of people; people by a column share its total."""
    state = tmp_path / "s.db"
    rows = pl.DataFrame({"day": ["2024-03-01"], "visits": [17], "who": ["u"]})
    same: dict[str, Any] = {name: TABLE[name] for name in ("time", "every", "start", "windows")}
    same |= {"until": "2024-03-02", "epsilon": 1}
    for name, more, unit in (
        (
            "bounded",
            {
                "count_column": "visits",
                "upstream_max_contributions": 5,
                "event_name": "visit",
                "privacy_unit": "person",
            },
            "person",
        ),
        (
            "again",
            {"count_column": "visits", "upstream_max_contributions": 2, "event_name": "visit"},
            "person",
        ),
        ("by column", {"user": "who", "max_contributions": 2}, "person"),
        ("rows", {}, "event"),
        ("unbounded", {"count_column": "visits"}, "event"),
    ):
        with run(Job("count", rows, state, stream=name, **same, **more)) as outcome:
            assert outcome.spec.metadata().privacy_unit == unit, name
