"""Random text files with every odd use of quotation marks, separators, line ends and encodings, and
the law of lines: a line is a row, and no line decides about another.
"""

import csv
import io
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counton.io.files import EventFile
from counton.io.input_paths import CsvForm

#: A file as JSON: its separator, its lines without their ends (each byte a letter), and these ends.
Drawn = dict[str, Any]
#: A reader: from a file and its form to the rows that count, with how often, and the number of
#: lines that are set aside.
Reader = Callable[[bytes, CsvForm], tuple[Counter[tuple[str | None, ...]], int]]

COLUMNS = ("time", "page", "note")
FIELDS = (
    *("fine", "ok", "", " ", "it's", '"a, b"', '"a;b|c\td"', '"say ""hi"""', '""', '""""', '"  "'),
    *('"it is 5\\" wide"', '"x\\"', '"\\\\"', '\\"', "x\\", '"a"b"', 'a"b', '"a" b', ' "q"'),
    *('"q" ', '"', '"""', '"open', 'shut"', '",', ",", ",,", "\t", ";", "|", "#no", "\0", "\x0b"),
    *("\x1c", "\x85", "\u2028", "é", '"é"', "\ufeff", "NA", "null", "1e999", "a\\,b", "'a,b'"),
)
#: Whole lines.
LINES = ("", " ", "# a comment", '"', '""', ",,", "\ufeff", '"2024-03-01,home,fine', 'fine"')


def draw(chance: random.Random) -> Drawn:
    """Draw a file."""
    separator = chance.choice(",,,;\t|")
    odd = chance.choice([0, 0.1, 0.4])
    quoted = chance.choice([0, 0.7, 1])
    lines = list[str]()
    for _ in range(chance.randrange(1, 12)):
        fields = [f"2024-03-0{chance.randrange(1, 5)}", chance.choice(["home", "shop"]), "fine"]
        fields = [f'"{one}"' if chance.random() < quoted else one for one in fields]
        line = separator.join(
            chance.choice(FIELDS) if chance.random() < odd else one for one in fields
        )
        line = chance.choice(LINES) if chance.random() < odd / 3 else line
        coded = line.encode("latin-1", "replace") if chance.random() < odd / 3 else line.encode()
        lines.append(coded.decode("latin-1"))
    ends = ["\n", "\r\n", "\r"]
    end = chance.choice(ends)
    mixed = chance.random() < 0.2
    return {
        "separator": separator,
        "mark": chance.random() < 0.1,
        "lines": lines,
        "ends": [chance.choice(ends) if mixed else end for _ in range(len(lines) + 1)],
        "open": chance.random() < 0.2,
        "blank": chance.choice([0, 0, 0, 1, 3]),
    }


def text_of(drawn: Drawn, without: int | None = None) -> tuple[bytes, CsvForm]:
    """Return the bytes of a drawn file, perhaps without one of its lines, and its form."""
    separator = drawn["separator"]
    text = separator.join(COLUMNS) + drawn["ends"][-1]
    for place, (line, end) in enumerate(zip(drawn["lines"], drawn["ends"], strict=False)):
        if place != without:
            text += line + end
    text += drawn["ends"][-1] * drawn["blank"]
    if drawn["open"]:
        text = text.rstrip("\r\n")
    mark = b"\xef\xbb\xbf" if drawn["mark"] else b""
    return mark + text.encode("latin-1"), CsvForm(separator)


def by_counton(folder: Path) -> Reader:
    """Return counton's reader; lines that are set aside are looked for first, as in a run."""

    def read(text: bytes, form: CsvForm) -> tuple[Counter[tuple[str | None, ...]], int]:
        path = folder / "e.csv"
        path.write_bytes(text)
        found = EventFile(path, form=form).sift(COLUMNS, 10**6)
        rows = found.frame(COLUMNS).collect(engine="streaming").rows()
        for place in found.unread:
            assert rows[place] == (None,) * len(COLUMNS)
        good = [row for place, row in enumerate(rows) if place not in found.unread]
        return Counter(good), len(found.unread)

    return read


def by_gluing(text: bytes, form: CsvForm) -> tuple[Counter[tuple[str | None, ...]], int]:
    """Read as Python's csv does, in which an open quotation mark takes the lines after it."""
    lines = io.StringIO(text.decode("utf-8-sig", "replace"), newline="")
    rows = [tuple(row) for row in csv.reader(lines, delimiter=form.separator) if row][1:]
    good = [row for row in rows if len(row) == len(COLUMNS)]
    return Counter(good), len(rows) - len(good)


def number_of_lines(text: bytes, form: CsvForm) -> int:
    """Return the number of lines of a text that are rows, by rules that know no quotation mark."""
    lines = re.split(rb"\r\n|\r|\n", text.removeprefix(b"\xef\xbb\xbf"))
    while lines and not lines[-1]:
        lines.pop()
    return len(lines) - 1


def check(drawn: Drawn, read: Reader) -> str:
    """Check the law on a file, from which every line is taken out in turn.

    Returns:
        What it was a case of.
    """
    text, form = text_of(drawn)
    rows, aside = read(text, form)
    assert rows.total() + aside == number_of_lines(text, form), (text, rows, aside)
    for place, line in enumerate(drawn["lines"]):
        fewer, _ = text_of(drawn, place)
        others, _ = read(fewer, form)
        assert not others - rows, (text, place)
        assert (rows - others).total() <= 1, (text, place)
        alone, _ = text_of({**drawn, "lines": [line], "blank": 0})
        assert rows - others == read(alone, form)[0], (text, place)
    return "lines set aside" if aside else "all lines count"
