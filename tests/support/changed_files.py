"""Changes files of released numbers at random and reads them, in a process with little memory.

``python changed_files.py FOLDER SEED COUNT``: FOLDER has folders with files of releases. Each
changed one gives a release that answers, or an error of counton's own that names it; the process
ends with 0 then. ``python changed_files.py FILE`` says what becomes of one file. COUNTON_PART=8
leaves an eighth of the memory.
"""

import json
import os
import random
import resource
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from counton import CountonError, read
from counton.results.metadata_codec import TABLES
from counton.run.outputs.output_files import write_table

PART = int(os.environ.get("COUNTON_PART", "1"))
#: Bytes of memory that the process may take besides what it has when it begins.
ROOM = 2**30 // PART
#: Files by what stands in them.
TEXT = (".csv", ".json")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 10**9, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**25, 0.5),
    *(
        float("nan"), float("inf"), -1e308, 5e-324, "", "x", "all", "\x1b[2J", "\u202e",
        "1e999999999",
    ),
    *("1/3", "0/0", "9999-12-31T23:59:59+14:00", "0000-00-00", "1d", "100000y", "discrete Laplace"),
    *([], {}, [[]], [None], [1, 2], ["a", "a"], {"a": {}}, [0] * 3, list(range(50)), "Binary"),
)  # fmt: skip
NUMBERS = ("1e25", "1000000000", "nan", "-1", "0", "1.5", "9" * 5000, "true", "null", '""', "1e999")


def change_bytes(chance: random.Random, data: bytes) -> bytes:
    """Other bytes here and there, a part left out, doubled, or moved."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if not found:
            break
        at = chance.randrange(len(found))
        more = chance.randrange(1, 1 + min(64, len(found)))
        kind = chance.randrange(6)
        if kind == 0:
            found[at] = chance.randrange(256)
        elif kind == 1:
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del found[at : at + more]
        elif kind == 3:
            found[at:at] = found[at : at + more] * chance.choice((1, 3, 500))
        elif kind == 4:
            found[at : at + 8] = chance.choice((b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f"))
        else:
            del found[at:]
    return bytes(found)


def change_text(chance: random.Random, data: bytes) -> bytes:
    """A field or a line of a text is another one."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(chance.choice((1, 1, 3))):
        lines = text.split("\n")
        at = chance.randrange(len(lines))
        kind = chance.randrange(5)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines[at:at] = [lines[at]] * chance.choice((1, 2, 50))
        else:
            parts = lines[at].split(",")
            place = chance.randrange(len(parts))
            value = chance.choice((*NUMBERS, "[" * 100_000, "\x1b]0;x\x07", '"', '"[', "\x9b", "é"))
            head, colon, _ = parts[place].rpartition(":")
            parts[place] = head + colon + value if kind < 4 else value
            lines[at] = ",".join(parts)
        text = "\n".join(lines)
    return text.encode("utf-8", "surrogateescape")


def change_json(chance: random.Random, value: Any) -> Any:
    """A value somewhere in a JSON value is another one, or is not there."""
    places: list[tuple[Any, Any]] = []

    def walk(of: Any) -> None:
        inner = of.items() if isinstance(of, dict) else enumerate(of) if type(of) is list else ()
        for name, one in inner:
            places.append((of, name))
            walk(one)

    walk(value)
    if not places:
        return chance.choice(VALUES)
    of, name = chance.choice(places)
    kind = chance.randrange(6)
    if kind == 0:
        del of[name]
    elif kind == 1:
        of[name] = [of[name]] * chance.choice((1, 2, 100))
    elif kind == 2 and isinstance(of[name], int):
        of[name] = of[name] * chance.choice((-1, 2, 10**6, 10**12)) + chance.choice((-1, 0, 1))
    elif kind == 3 and isinstance(of[name], str):
        of[name] = of[name][: chance.randrange(len(of[name]) + 1)] + chance.choice(("", "9", "é"))
    else:
        of[name] = chance.choice(VALUES)
    return value


def change_rows(chance: random.Random, rows: pl.DataFrame) -> pl.DataFrame:
    """Another value, type or name of a column, or other rows."""
    name = chance.choice(rows.columns)
    kind = chance.randrange(7)
    if kind == 0:
        return rows.drop(name)
    if kind == 1:
        return rows.rename({name: chance.choice(("x", "window_index", "group", "estimate"))})
    if kind == 2:
        return rows.sample(fraction=1.5, with_replacement=True, seed=chance.randrange(99))
    if kind == 3:
        return rows.head(chance.randrange(3))
    if kind == 4:
        return rows.cast({name: chance.choice((pl.String, pl.Float64, pl.Int8, pl.Boolean))})
    values = rows[name].to_list()
    for _ in range(chance.choice((1, 3))):
        if values:
            values[chance.randrange(len(values))] = chance.choice(VALUES[:25])
    return rows.with_columns(pl.Series(name, values, strict=False))


def change(chance: random.Random, file: Path, to: Path) -> Path:
    """A changed copy of a file of a release, with what it carries; its path."""
    to = to.with_suffix(file.suffix)
    beside = file.with_name(f"{file.name}.json")
    copied = to.with_name(f"{to.name}.json")
    data = file.read_bytes()
    if beside.exists():
        copied.write_bytes(beside.read_bytes())
    kind = chance.randrange(4)
    if kind < 2:
        facts = json.loads(beside.read_bytes() if beside.exists() else _carried(file))
        rows = _rows(file)
        if kind == 0:
            for _ in range(chance.choice((1, 1, 2))):
                facts["description"] = change_json(chance, facts["description"])
        else:
            rows = change_rows(chance, rows)
        write_table(rows, to, facts)
    elif kind == 2 and file.suffix in TEXT:
        to.write_bytes(change_text(chance, data))
    elif beside.exists() and chance.random() < 0.2:
        to.write_bytes(data)
        copied.write_bytes(chance.choice((change_text, change_bytes))(chance, beside.read_bytes()))
    else:
        to.write_bytes(change_bytes(chance, data))
    return to


def _carried(file: Path) -> str:
    return pl.read_parquet_metadata(file)["counton"]


def _rows(file: Path) -> pl.DataFrame:
    return pl.read_parquet(file.with_suffix(".parquet"))


def ask(file: Path) -> str:
    """What becomes of a file: it answers, or it is refused by its name."""
    try:
        found = read(file)
    except CountonError as error:
        if str(file) not in str(error):
            raise ValueError(f"does not name {file}: {error}") from error
        return f"refused: {error}" if len(sys.argv) == 2 else "refused"
    try:
        found.table()
        found.describe()
        found.methods()
    except CountonError as error:
        return f"a question is refused: {str(error)[:60]}"
    return "answered"


def limit_memory() -> None:
    """From here on the process takes `ROOM` more, or fails."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))


def main(folder: Path, seed: int, count: int) -> int:
    """Change and read so many files; how many failed."""
    endings = (*TABLES, ".db")
    files = sorted(one for one in folder.glob("*/*") if one.suffix in endings)
    files = [one for one in files if Path(one.stem).suffix not in endings]  # descriptions
    told: Counter[str] = Counter()
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        file = chance.choice(files)
        try:
            changed = change(chance, file, folder / "changed")
        except (OSError, ValueError, TypeError, OverflowError, pl.exceptions.PolarsError):
            told["not written"] += 1  # the writer refuses what the reader was to be shown
            continue
        try:
            told[ask(changed)] += 1
        except (Exception, pl.exceptions.PanicException) as error:
            told["failed"] += 1
            name = f"{seed} {number} of {file.parent.name}/{file.name}"
            sys.stdout.write(f"--- {name}: {error!r:.300}\n")
            sys.stdout.write("".join(traceback.format_tb(error.__traceback__)[-4:]))
    sys.stdout.write(json.dumps(told) + "\n")
    return told["failed"]


if __name__ == "__main__":
    limit_memory()
    if len(sys.argv) > 2:
        raise SystemExit(min(1, main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
    sys.stdout.write(ask(Path(sys.argv[1])))
