"""Lines of a file that cannot be read are bad rows: no such line decides about the others."""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

from counton.base.errors import InvalidInput
from counton.rows import readable_lines as sifting
from counton.rows.files import EventFile
from counton.rows.readable_lines import Piece, csv_rows, json_rows, sift
from counton.run import Job, run

GOOD = {
    "csv": b"2024-03-01T00:10,a,ann,1,x\n2024-03-01T01:10,b,bob,2,y\n2024-03-01T02:10,a,cy,3,z\n",
    "jsonl": b'{"time":"2024-03-01T00:10","group":"a","user":"ann","value":1}\n'
    b'{"time":"2024-03-01T01:10","group":"b","user":"bob","value":2}\n'
    b'{"time":"2024-03-01T02:10","group":"a","user":"cy","value":3}\n',
}
HEADER = {"csv": b"time,group,user,value,note\n", "jsonl": b""}
BAD: dict[str, list[bytes]] = {
    "csv": [
        b"2024-03-01T00:20,a,ann,1,x,more\n",
        b"2024-03-01T00:2\n",
        b'2024-03-01T00:20,"a,b","\nann,",1\n',
        b"2024-03-01T00:20,a,ann,1,x,\n",
        b"2024-03-01T00:20,\xff,ann,1,x\n",
        b'2024-03-01T00:20,a"b,ann,1,x\n',
        b'2024-03-01T00:20,"a,ann,1,x\n',
        b'2024-03-01T00:20,"a"b,ann,1,x\n',
    ],
    "jsonl": [
        b"nonsense\n",
        b"[1]\n",
        b'{"time":"2024-03-01T00:20","group":"a"\n',
        b'{"time":"2024-03-01T00:20","group":"\xff","user":"ann"}\n',
        b'{"time":"2024-03-01T00:20","group":"a\x00","user":"ann"}\n',
        b'{"time":"2024-03-01T00:20","group":' + b"[" * 2000 + b"]" * 2000 + b"}\n",
    ],
}
#: Lines of which only what nobody reads is odd.
ODD = {
    "csv": [b"2024-03-01T00:20,a,ann,1,\xff\n", b"2024-03-01T00:20,a,ann,1,\0\n"],
    "jsonl": [
        b'{"time":"2024-03-01T00:20","group":"a","user":"ann","value":1,"note":%s}\n' % note
        # The first names no column that there could be.
        for note in (
            b'1,"\\ud800":1',
            b"1e999",
            b"9" * 400,
            b"[" * 2000 + b"]" * 2000,
            b"NaN",
            b'"\xff"',
            b'"\x00"',
        )
    ],
}
ENDS = ("", ".gz", ".zst")
WHATS: dict[str, dict[str, Any]] = {
    "count": {"by": "group", "domain": "a,b"},
    "sum": {"value": "value", "lower": 0, "upper": 4, "resolution": 1},
    "users": {"user": "user", "most": 9},
    "all": {"by": "group", "domain": "a,b", "user": "user", "most": 9, "value": "value",
            "lower": 0, "upper": 4, "resolution": 1},
    "discovered": {"by": "group", "unknown": "discover", "epsilon": 9, "delta": "1e-4"},
    "edges": {"edge": "user,group"},
}  # fmt: skip


def asked(events: Path, what: str, folder: Path, **more: Any) -> Job:
    given: dict[str, Any] = {
        "time": "time", "every": "1h", "start": "2024-03-01", "steps": 9, "epsilon": 10**6,
        "until": "2024-03-01T04:00", "yes": True, **WHATS[what], **more,
    }  # fmt: skip
    name: Any = {"users": "count", "discovered": "count", "all": "sum"}.get(what, what)
    return Job(name, events, folder / "s.db", **given)


def released(job: Job) -> tuple[list[Any], Any]:
    with run(job) as outcome:
        return np.asarray(outcome.stream.releases().values, float).tolist(), outcome.for_operator()


def among(bad: bytes, kind: str) -> bytes:
    """A line in the middle of good ones."""
    lines = GOOD[kind].splitlines(keepends=True)
    return b"".join([HEADER[kind], lines[0], bad, *lines[1:]])


def cases(given: dict[str, list[bytes]]) -> list[Any]:
    return [
        pytest.param(kind, line, id=f"{kind} {place}")
        for kind, lines in given.items()
        for place, line in enumerate(lines)
    ]


@pytest.mark.parametrize(("kind", "bad"), cases(BAD))
def test_a_line_that_cannot_be_read_is_set_aside(kind: str, bad: bytes, tmp_path: Path) -> None:
    file, aside = tmp_path / f"e.{kind}", tmp_path / "bad.csv"
    file.write_bytes(among(bad, kind))
    with pytest.raises(InvalidInput, match=rf"row 2 of .*e\.{kind} cannot be read as {kind} .it "):
        run(asked(file, "all", tmp_path))
    job = asked(file, "all", tmp_path, bad_rows=f"quarantine:{aside}", missing="skip")
    found, tally = released(job)
    assert (tally.rows, tally.quarantined, tally.skipped) == (4, 1, 0)
    assert np.round(found).astype(int).tolist() == [[1, 0], [1, 2], [4, 2], [4, 2]]
    shown = bad.rstrip().decode("utf-8", "backslashreplace")
    with aside.open(newline="", encoding="utf-8") as stream:
        said = list(csv.reader(stream))
    assert said[1] == [str(file), "2", "a line that cannot be read", shown, "", "", ""]


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("kind", BAD)
def test_no_statistic_is_stopped_by_a_line(kind: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / f"e.{kind}"
    file.write_bytes(among(BAD[kind][0], kind))
    job = asked(file, what, tmp_path, bad_rows=f"quarantine:{tmp_path / 'bad.csv'}")
    assert released(job)[1].quarantined == 1
    job = asked(file, what, tmp_path, bad_rows=f"quarantine:{tmp_path / 'bad.csv'}")
    assert released(job)[1].quarantined == 1  # and the next night


@pytest.mark.parametrize(("kind", "odd"), cases(ODD))
def test_what_nobody_reads_is_not_looked_at(kind: str, odd: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"e.{kind}"
    file.write_bytes(among(odd, kind))
    found, tally = released(asked(file, "count", tmp_path))
    assert tally.rows == 4
    assert np.round(found).astype(int).tolist() == [[2, 0], [2, 1], [3, 1], [3, 1]]


@pytest.mark.parametrize("kind", BAD)
def test_lines_of_several_files_and_of_compressed_ones_are_set_aside(
    kind: str, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}.{kind}" for name in ("a", "b", "c")]
    files = [file.with_name(file.name + end) for file, end in zip(files, ENDS, strict=True)]
    lines = [among(bad, kind) for bad in (BAD[kind][0], BAD[kind][1], BAD[kind][0])]
    lines[2] = lines[2].replace(b"00:10", b"00:11")
    packed = [lambda data: data, gzip.compress, zstandard.ZstdCompressor().compress]
    for file, pack, data in zip(files, packed, lines, strict=True):
        file.write_bytes(pack(data))
    aside = f"quarantine:{tmp_path / 'bad.csv'}"
    job = asked(tmp_path, "count", tmp_path, bad_rows=aside, append=True)
    with pytest.raises(InvalidInput, match=r"row 2 of .*c\..*\.zst cannot be read"):
        run(job.having(events=files, bad_rows_most=2))
    _, tally = released(job.having(events=files, bad_rows_most=3))
    assert (tally.rows, tally.quarantined) == (12, 3)


@pytest.mark.parametrize("first", [b"", b"\n\n"])
def test_json_lines_without_a_row_are_a_quiet_night(first: bytes, tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(first)
    found, tally = released(asked(file, "count", tmp_path))
    assert tally.rows == 0
    assert np.round(found).astype(int).tolist() == [[0, 0]] * 4
    file.write_bytes(GOOD["jsonl"].replace(b"03-01T0", b"03-01T05:0", 1)[:0])
    assert (
        released(asked(file, "count", tmp_path, until="2024-03-01T05:00"))[0] == found + found[:1]
    )


def test_a_night_on_which_no_row_has_a_column_is_one_of_rows_without(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b'{"time":"2024-03-01T00:10"}\n')
    with pytest.raises(InvalidInput, match="no column 'group'; its columns are time"):
        run(asked(file, "count", tmp_path, missing="skip"))
    file.write_bytes(GOOD["jsonl"])
    run(asked(file, "count", tmp_path)).close()
    file.write_bytes(GOOD["jsonl"] + b'{"time":"2024-03-01T00:10"}\n' * 2)
    assert released(asked(file, "count", tmp_path, missing="skip"))[1].skipped == 2
    file.write_bytes(b'{"time":"2024-03-01T04:10"}\n')
    job = asked(file, "count", tmp_path, missing="skip", append=True, until="2024-03-01T05:00")
    assert released(job)[1].skipped == 1


def test_a_column_that_stands_in_a_late_line_is_there(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b'{"time":"2024-03-01T00:10"}\n' * 10_001 + GOOD["jsonl"])
    assert released(asked(file, "count", tmp_path, missing="skip"))[1].skipped == 10_001


def test_an_empty_table_needs_its_header_alone(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.touch()
    with pytest.raises(InvalidInput, match="even a csv file without events needs the first line"):
        run(asked(file, "count", tmp_path))
    file.write_bytes(HEADER["csv"])
    assert released(asked(file, "count", tmp_path))[1].rows == 0


def test_utf_16_is_no_file_of_bad_lines(tmp_path: Path) -> None:
    for kind in BAD:
        file = tmp_path / f"e.{kind}"
        for coded in ("utf-16", "utf-16-le"):
            file.write_bytes((HEADER[kind] + GOOD[kind]).decode().encode(coded))
            with pytest.raises(InvalidInput, match=r"UTF-16|cannot be read as jsonl"):
                run(asked(file, "count", tmp_path))


CELLS = (
    *("a", "2024-03-01", "é", "1.5", "", " x", "\0z"),
    *('"a"', '"a,b"', '"a\nb"', '"q""q"', '"\n"'),
)
VALUES = (
    *('"a"', "1", "1.50", "-0.0", "2e3", "true", "null", "[1, 2]", '{"z": [1]}', '"é,{}"', "[]"),
    *('"\\u00e9\\""', "12345678901234567890123", '""', '"\\\\"', '"\\ud83d\\ude00"'),
)


def csv_line(rng: random.Random) -> bytes:
    return ",".join(rng.choices(CELLS, k=rng.choice([0, 3, 3, 3]))).encode() + b"\n"


def json_line(rng: random.Random) -> bytes:
    keys = rng.sample(["time", "page", "x", "ti\\u006de", "a:b"], rng.randrange(5))
    said = rng.choice([",", ", "]).join(f'"{key}": {rng.choice(VALUES)}' for key in keys)
    return f"{{{said}}}".encode() + rng.choice([b"\n", b"\r\n", b" \n", b"\n\n"])


Reader = Callable[[Any, list[str]], Iterator[Piece]]


@pytest.mark.parametrize(
    ("made", "read", "header", "bad"),
    [
        (
            csv_line,
            csv_rows,
            b"time,page,x\n",
            [b"a,b,c,d\n", b"\xff,b,c\n", b'a,b"c,d\n', b"a,b\n", b'"a,b\n",c\n'],
        ),
        (json_line, json_rows, b"", [b"nonsense\n", b'{"time":[1 2]}\n']),
    ],
)
def test_all_other_lines_say_what_they_say_without_it(
    made: Any, read: Reader, header: bytes, bad: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, columns = random.Random(1), ["time", "page"]

    def of(rows: list[bytes]) -> Any:
        return sift(read(io.BytesIO(header + b"".join(rows)), columns), columns, 9)

    for _ in range(200):
        monkeypatch.setattr(sifting, "BLOCK", rng.choice([7, 40, 2**20]))
        rows = [made(rng) for _ in range(rng.randrange(9))]
        data = io.BytesIO(header + b"".join(rows))
        if header:
            known = pl.scan_csv(data, infer_schema=False).collect().select(columns).rows()
        else:
            known = pl.scan_ndjson(data, schema=dict.fromkeys(columns, pl.String)).collect().rows()
        place = rng.randrange(len(rows) + 1)
        found = of([*rows[:place], rng.choice(bad), *rows[place:]])
        assert list(found.unread) == [place], rows
        assert [row for at, row in enumerate(found.rows.rows()) if at != place] == known, rows
        assert of(rows).rows.rows() == known, rows


def test_a_format_is_remembered_for_files_whose_names_say_nothing(tmp_path: Path) -> None:
    log, table = tmp_path / "e.log", tmp_path / "e.csv"
    log.write_bytes(GOOD["jsonl"])
    run(asked(log, "count", tmp_path, file_format="jsonl")).close()
    table.write_bytes(HEADER["csv"] + GOOD["csv"])
    for events in (table, log, [table], tmp_path / "e.c?v"):
        found, tally = released(asked(events, "count", tmp_path))  # type: ignore[arg-type]
        assert (tally.rows, len(found)) == (3, 4)


def test_lines_with_too_few_fields_are_bad_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they stand, with whatever quotation marks; empty lines are rows without anything."""
    rng, file = random.Random(2), tmp_path / "e.csv"
    seen = {True: 0, False: 0}
    for _ in range(300):
        monkeypatch.setattr(sifting, "BLOCK", rng.choice([7, 40, 2**20]))
        end = rng.choice(["\n", "\r\n"])
        rows = [rng.choices(CELLS, k=rng.choice([0, *[3] * 20, 1, 2])) for _ in range(9)]
        text = end.join(",".join(row) for row in [["time", "page", "x"], *rows])
        text += end * rng.choice([0, 1])
        file.write_bytes(text.encode())
        given = list(csv.reader(io.StringIO(text, newline="")))[1:]
        short = [number for number, row in enumerate(given) if 0 < len(row) < 3]
        source = EventFile(file)
        seen[bool(short)] += 1
        if not short:
            assert source.frame(["x"]).collect().height == len(given)
            continue
        with pytest.raises(pl.exceptions.ShapeError) as error:
            source.frame(["time"]).collect()
        fields = len(given[short[0]])
        said = f"row {short[0] + 1} of .* it has {fields} fields?, {3 - fields} fewer than"
        assert re.search(said.replace("it", r"\(it"), str(source.unreadable(error.value)))
        assert list(source.sift(["time"], 9).unread) == short
    assert min(seen.values()) > 50


def test_a_file_that_is_still_written_ends_with_a_bad_row(tmp_path: Path) -> None:
    """As far as it shows: where the last field alone is cut, it may be whole."""
    line = b"7,Central,a,2026-09-01T09:17:31+02:00"
    file = tmp_path / "e.csv"
    told = []
    for size in range(1, len(line) + 1):
        file.write_bytes(b"id,place,user,time\n8,West,b,2026-09-01T08:00\n" + line[:size])
        job = Job(
            "count", file, tmp_path / f"{size}.db", time="time", every="1d", start="2026-09-01",
            steps=1, until="2026-09-02", epsilon=1, bad_rows=f"quarantine:{tmp_path}/bad.csv",
        )  # fmt: skip
        with run(job) as outcome:
            told.append(outcome.for_operator().quarantined)
    whole = ["2026-09-01", "2026-09-01T09", "2026-09-01T09:17", "2026-09-01T09:17:31"]
    zones = [f"{whole[-1]}{zone}" for zone in ("+02", "+02:00")]
    kept = {line.index(b"2026") + len(shown) for shown in [*whole, *zones]}
    assert [size for size, bad in enumerate(told, 1) if not bad] == sorted(kept)
