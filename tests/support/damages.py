"""Damages of a SQLite state: wrong values, flipped bytes, zeroed pages, cut ends, deleted rows."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from counton.state import schema

#: Tables of every state.
TABLES = (
    "counton_database", "counton_streams", "counton_names", "counton_journal", "counton_noise",
    "counton_observed", "counton_sources", "counton_marks", "counton_ledger", "counton_limits",
)  # fmt: skip
#: Wrong values of each column.
VALUES = 5


class Damage(NamedTuple):
    """One damage: what it is, and a function that does it to a file."""

    what: str
    do: Callable[[Path], None]


def wrong_values(value: Any, kinds: frozenset[type]) -> Iterator[Any]:
    """Yield values that a column of these types does not have in a row with this value."""
    if int in kinds and float not in kinds:
        yield from ((value or 0) + 1, "x", -1, 2**62, b"x", 0, 77, 10**6, -(2**40))
    elif float in kinds:
        yield from (2 * value, "x", -1.0, 1e308, b"x", 0.0)
    elif bytes in kinds:
        whole = bytes(value)
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :]
        yield from (flipped, "x", whole[:-1], b"", whole + b"x", b"x")
    else:
        text = value or ""
        changed = text.translate(str.maketrans("0123456789abcdef", "1234567890bcdefa"))
        yield from (changed, b"x", text[:-1], "x", "", f"{text}x", "{}")


def of_cells(state: Path, table: str, seed: int) -> Iterator[Damage]:
    """Yield five wrong values of each column of a table, each in a row chosen by the seed."""
    chance = random.Random(f"{table} {seed}")
    with closing(sqlite3.connect(state)) as connection:
        rows = connection.execute(f"SELECT rowid, * FROM {table}").fetchall()  # noqa: S608
    for place, (column, kinds) in enumerate(schema.types_of(table).items(), 1):
        given = 0
        for number in range(len(tuple(wrong_values(rows[0][place], kinds)))):
            row = chance.choice(rows)
            value = tuple(wrong_values(row[place], kinds))[number]
            if value == row[place] or given == VALUES:
                continue
            if not may_hold(state, table, column, row[0], value):
                continue
            given += 1
            shown = repr(value)[:40]
            yield Damage(f"{table}.{column} = {shown}", set_cell(table, column, row[0], value))
        assert given == VALUES, (table, column)


def set_cell(table: str, column: str, row: int, value: Any) -> Callable[[Path], None]:
    """Return a function that writes a value into a cell."""

    def do(state: Path) -> None:
        with closing(sqlite3.connect(state)) as connection:
            said = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"  # noqa: S608
            assert connection.execute(said, (value, row)).rowcount == 1
            connection.commit()

    return do


def may_hold(state: Path, table: str, column: str, row: int, value: Any) -> bool:
    """Tell whether SQLite lets a cell have a value, which may be the key of another row."""
    with closing(sqlite3.connect(state)) as connection:
        said = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"  # noqa: S608
        try:
            connection.execute(said, (value, row))
        except sqlite3.Error:
            return False
        finally:
            connection.rollback()
    return True


def of_rows(state: Path, table: str, seed: int) -> Iterator[Damage]:
    """Yield deletions: of the first row of a table, of some rows, and of all."""
    chance = random.Random(f"rows of {table} {seed}")
    with closing(sqlite3.connect(state)) as connection:
        rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]  # noqa: S608
    some = chance.sample(rows, (len(rows) + 1) // 2)
    for what, gone in (("the first row", rows[:1]), ("some rows", some), ("all rows", rows)):
        yield Damage(f"{table} without {what}", delete_rows(table, gone))


def delete_rows(table: str, rows: list[int]) -> Callable[[Path], None]:
    """Return a function that deletes rows."""

    def do(state: Path) -> None:
        with closing(sqlite3.connect(state)) as connection:
            said = f"DELETE FROM {table} WHERE rowid = ?"  # noqa: S608
            connection.executemany(said, [(row,) for row in rows])
            connection.commit()

    return do


def of_bytes(state: Path, number: int, seed: int) -> Iterator[Damage]:
    """Yield damages of the file: some flipped bytes, in one page or anywhere."""
    chance = random.Random(f"bytes {seed}")
    size = state.stat().st_size
    for _ in range(number):
        first = chance.randrange(size)
        places = [first + chance.randrange(64) for _ in range(chance.choice((1, 1, 2, 8)))]
        if chance.random() < 0.2:
            places = [chance.randrange(size) for _ in range(40)]
        bits = [(place % size, 1 << chance.randrange(8)) for place in places]
        yield Damage(f"bits {bits} flipped", flip_bits(bits))


def flip_bits(bits: list[tuple[int, int]]) -> Callable[[Path], None]:
    """Return a function that flips bits of a file, each a place and a mask."""

    def do(state: Path) -> None:
        content = bytearray(state.read_bytes())
        for place, mask in bits:
            content[place] ^= mask
        state.write_bytes(content)

    return do


def of_pages(state: Path, number: int, seed: int) -> Iterator[Damage]:
    """Yield zeroed pages."""
    chance = random.Random(f"pages {seed}")
    pages = state.stat().st_size // 4096
    for page in chance.sample(range(pages), number):
        yield Damage(f"page {page} zeroed", zero_page(page))


def zero_page(page: int) -> Callable[[Path], None]:
    """Return a function that fills a page with zeros."""

    def do(state: Path) -> None:
        content = bytearray(state.read_bytes())
        content[4096 * page : 4096 * (page + 1)] = bytes(4096)
        state.write_bytes(content)

    return do


def of_ends(state: Path, number: int, seed: int) -> Iterator[Damage]:
    """Yield truncations: at any byte, and at the end of a page."""
    chance = random.Random(f"ends {seed}")
    whole = state.stat().st_size
    for place in range(number):
        size = chance.randrange(whole)
        size = size // 4096 * 4096 if place % 2 else size
        yield Damage(f"cut to {size} bytes", cut(size))


def cut(size: int) -> Callable[[Path], None]:
    """Return a function that cuts a file."""

    def do(state: Path) -> None:
        state.write_bytes(state.read_bytes()[:size])

    return do
