"""Lines of a file that cannot be read are bad rows: no such line decides about the others."""

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard
from run_results import counts_of, releases_of

from counton.base.errors import InvalidInputError
from counton.io import json_lines, text_lines
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
        b"2024-03-01T00:20,a,ann,1,x,more\n", b"2024-03-01T00:2\n",
        b'2024-03-01T00:20,"a,b","ann,",1\n', b"\n", b"2024-03-01T00:20,a,ann,1,x,\n",
        b"2024-03-01T00:20,\xff,ann,1,x\n", b'2024-03-01T00:20,a"b,ann,1,x\n',
        b'2024-03-01T00:20,"a,ann,1,x\n', b'2024-03-01T00:20,"a"b,ann,1,x\n',
    ],
    "jsonl": [
        b"nonsense\n",
        b"\n",
        b"[1]\n",
        b'{"time":"2024-03-01T00:20","group":"a"\n',
        b'{"time":"2024-03-01T00:20","group":"\xff","user":"ann"}\n',
        b'{"time":"2024-03-01T00:20","group":"a\x00","user":"ann"}\n',
        b'{"time":"2024-03-01T00:20","group":' + b"[" * 2000 + b"]" * 2000 + b"}\n",
    ],
}  # fmt: skip
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
    "count": {"group_by": "group", "groups": "a,b"},
    "sum": {"group_by": "group", "groups": "a,b", "user": "user", "max_contributions": 9,
    "value": "value",
            "lower": 0, "upper": 4, "resolution": 1},
}  # fmt: skip


def asked(events: Path, what: str, folder: Path, **more: Any) -> Job:
    given: dict[str, Any] = {
        "time": "time", "every": "1h", "start": "2024-03-01", "windows": 9, "epsilon": 10**6,
        "until": "2024-03-01T04:00", "allow_empty_windows": True, **WHATS[what], **more,
    }  # fmt: skip
    return Job(what, events, folder / "s.db", **given)


def released(job: Job) -> tuple[list[Any], Any]:
    with run(job) as outcome:
        return np.asarray(releases_of(outcome), float).tolist(), counts_of(outcome)


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
    file = tmp_path / f"e.{kind}"
    aside = tmp_path / "bad.csv"
    file.write_bytes(among(bad, kind))
    line = {"csv": 3, "jsonl": 2}[kind]
    said = rf"line {line} of .*e\.{kind} cannot be read as {kind} .it "
    with pytest.raises(InvalidInputError, match=said):
        run(asked(file, "sum", tmp_path))
    job = asked(file, "sum", tmp_path, bad_rows=f"quarantine:{aside}", missing_values="drop")
    found, tally = released(job)
    assert (tally.rows, tally.quarantined, tally.skipped) == (4, 1, 0)
    assert np.round(found).astype(int).tolist() == [[1, 0], [1, 2], [4, 2], [4, 2]]
    shown = bad.rstrip().decode("utf-8", "backslashreplace")
    with aside.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert rows[1] == [str(file), "2", "a line that cannot be read", shown, "", "", ""]


@pytest.mark.parametrize(("kind", "odd"), cases(ODD))
def test_unread_columns_may_hold_bad_values(kind: str, odd: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"e.{kind}"
    file.write_bytes(among(odd, kind))
    found, tally = released(asked(file, "count", tmp_path))
    assert tally.rows == 4
    assert np.round(found).astype(int).tolist() == [[2, 0], [2, 1], [3, 1], [3, 1]]


def test_more_bad_lines_than_allowed_name_the_first(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    good = among(b"", "csv").splitlines(keepends=True)
    file.write_bytes(b"".join(good[:2]) + good[1].replace(b"a", b"\xfc") * 4)
    job = asked(file, "sum", tmp_path, bad_rows=f"quarantine:{tmp_path / 'bad.csv'}")
    words = r"line 3 of .*e\.csv cannot .* UTF-8.*It is the first of more than 2 such lines"
    with pytest.raises(InvalidInputError, match=words):
        run(job.derive(max_bad_rows=2))


@pytest.mark.parametrize("kind", BAD)
def test_bad_lines_of_several_compressed_files_are_quarantined(kind: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.{kind}" for name in ("a", "b", "c")]
    files = [file.with_name(file.name + end) for file, end in zip(files, ENDS, strict=True)]
    lines = [among(bad, kind) for bad in (BAD[kind][0], BAD[kind][1], BAD[kind][0])]
    lines[2] = lines[2].replace(b"00:10", b"00:11")
    packed = [lambda data: data, gzip.compress, zstandard.ZstdCompressor().compress]
    for file, pack, data in zip(files, packed, lines, strict=True):
        file.write_bytes(pack(data))
    aside = f"quarantine:{tmp_path / 'bad.csv'}"
    job = asked(tmp_path, "count", tmp_path, bad_rows=aside, append=True)
    with pytest.raises(InvalidInputError, match=r"line [23] of .*c\..*\.zst cannot be read"):
        run(job.derive(events=files, max_bad_rows=2))
    _, tally = released(job.derive(events=files, max_bad_rows=3))
    assert (tally.rows, tally.quarantined) == (12, 3)


@pytest.mark.parametrize("first", [b"", b"\n\n"])
def test_json_file_without_rows_releases_empty_window(first: bytes, tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(first)
    found, tally = released(asked(file, "count", tmp_path))
    assert tally.rows == 0
    assert np.round(found).astype(int).tolist() == [[0, 0]] * 4
    file.write_bytes(b"")
    assert (
        released(asked(file, "count", tmp_path, until="2024-03-01T05:00"))[0] == found + found[:1]
    )


def test_day_without_column_has_rows_with_missing_values(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b'{"time":"2024-03-01T00:10"}\n')
    with pytest.raises(InvalidInputError, match=r"no column 'group'\. Its columns are time"):
        run(asked(file, "count", tmp_path, missing_values="drop"))
    file.write_bytes(GOOD["jsonl"])
    run(asked(file, "count", tmp_path)).close()
    file.write_bytes(GOOD["jsonl"] + b'{"time":"2024-03-01T00:10"}\n' * 2)
    assert released(asked(file, "count", tmp_path, missing_values="drop"))[1].skipped == 2
    file.write_bytes(b'{"time":"2024-03-01T04:10"}\n')
    job = asked(file, "count", tmp_path, missing_values="drop", until="2024-03-01T05:00")
    assert released(job)[1].skipped == 1


def test_json_column_in_late_line_is_found(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b'{"time":"2024-03-01T00:10"}\n' * 10_001 + GOOD["jsonl"])
    assert released(asked(file, "count", tmp_path, missing_values="drop"))[1].skipped == 10_001


def test_an_empty_table_needs_its_header_alone(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.touch()
    with pytest.raises(InvalidInputError, match="a csv file has a first line with the names"):
        run(asked(file, "count", tmp_path))
    file.write_bytes(HEADER["csv"])
    assert released(asked(file, "count", tmp_path))[1].rows == 0


def test_file_in_utf_16_is_refused_as_a_whole(tmp_path: Path) -> None:
    for kind in BAD:
        file = tmp_path / f"e.{kind}"
        for coded in ("utf-16", "utf-16-le"):
            file.write_bytes((HEADER[kind] + GOOD[kind]).decode().encode(coded))
            with pytest.raises(InvalidInputError, match=r"UTF-16|cannot be read as jsonl"):
                run(asked(file, "count", tmp_path))


VALUES = (
    *('"a"', "1", "1.50", "-0.0", "2e3", "true", "null", "[1, 2]", '{"z": [1]}', '"é,{}"', "[]"),
    *('"\\u00e9\\""', "12345678901234567890123", '""', '"\\\\"', '"\\ud83d\\ude00"'),
)


def json_line(rng: random.Random) -> bytes:
    time = rng.choice(["time", "ti\\u006de"])  # both would be one key twice
    keys = rng.sample([time, "page", "x", "a:b"], rng.randrange(5))
    said = rng.choice([",", ", "]).join(f'"{key}": {rng.choice(VALUES)}' for key in keys)
    return f"{{{said}}}".encode() + rng.choice([b"\n", b"\r\n", b" \n", b"\r"])


@pytest.mark.parametrize("bad", [b"nonsense\n", b'{"time":[1 2]}\n', b"\xef\xbb\xbf{}\n", b" \n"])
def test_bad_line_changes_no_other_line(bad: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    columns = ["time", "page"]

    def of(rows: list[bytes]) -> Any:
        pieces = list(json_lines.json_pieces(io.BytesIO(b"".join(rows)), columns))
        frames = [pl.DataFrame(schema=schema), *(piece.rows for piece in pieces)]
        return pl.concat(frames).rows(), [len(piece.faults) for piece in pieces]

    schema = dict.fromkeys(columns, pl.String)
    for _ in range(35):
        monkeypatch.setattr(text_lines, "BYTES_PER_READ", rng.choice([7, 40, 2**20]))
        rows = [json_line(rng) for _ in range(rng.randrange(9))]
        data = io.BytesIO(b"".join(rows).replace(b"\r", b"\n"))
        known = pl.scan_ndjson(data, schema=schema).collect().rows()
        place = rng.randrange(1, len(rows) + 2)
        found, faults = of([b"{}\n", *rows[: place - 1], bad, *rows[place - 1 :]])
        assert sum(faults) == 1, rows
        assert found[place] == (None, None)
        assert [row for at, row in enumerate(found) if at != place][1:] == known, rows
        assert of(rows)[0] == known, rows


def test_stream_remembers_format_of_files_without_extension(tmp_path: Path) -> None:
    log = tmp_path / "e.log"
    table = tmp_path / "e.csv"
    log.write_bytes(GOOD["jsonl"])
    run(asked(log, "count", tmp_path, file_format="jsonl")).close()
    table.write_bytes(HEADER["csv"] + GOOD["csv"])
    for events in (table, log, [table], tmp_path / "e.c?v"):
        found, tally = released(asked(events, "count", tmp_path))  # type: ignore[arg-type]
        assert (tally.rows, len(found)) == (3, 4)


def test_file_that_is_no_json_lines_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    rows = [{"time": "2024-03-01T00:10", "group": "a"}] * 3
    for text, said in (
        ("[]\n", "line 1 .*is a JSON array, and JSON lines have an object on each line; write"),
        (json.dumps(rows), "line 1 .*is a JSON array, .*jq -c '.\\[\\]'"),
        (json.dumps(rows, indent=1), "line 1 .*is the beginning of JSON over several lines"),
        (json.dumps(rows[0], indent=1), "line 1 .*is the beginning of JSON over several lines"),
        ("{}\n", "row 1 of .* has no time in column 'time'"),
    ):
        file.write_text(text)
        with pytest.raises(InvalidInputError, match=said):
            run(asked(file, "count", tmp_path))


def test_skippable_frames_of_zstd_are_passed_over(tmp_path: Path) -> None:
    """As pzstd writes them before each frame."""
    skip = b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"
    pack = zstandard.ZstdCompressor().compress
    file = tmp_path / "e.csv.zst"
    whole = skip + pack(HEADER["csv"]) + skip + pack(GOOD["csv"]) + skip
    file.write_bytes(whole)
    assert released(asked(file, "count", tmp_path))[1].rows == 3
    for cut in (whole[: -len(skip) - 3], whole + b"more"):
        file.write_bytes(cut)
        with pytest.raises(InvalidInputError, match="may be truncated: write it again"):
            run(asked(file, "count", tmp_path))


@pytest.mark.long
def test_incomplete_last_line_of_file_is_bad_row(tmp_path: Path) -> None:
    """As far as it shows: where the last field alone is cut, it may be whole."""
    line = b"7,Central,a,2026-09-01T09:17:31+02:00"
    first = line.index(b"2026")
    aside = tmp_path / "bad.csv"
    sizes = {f"{tmp_path}/{size}.csv": size for size in range(first, len(line) + 1)}
    for file, size in sizes.items():
        before = f"id,place,user,time\n8,West,b,2026-09-01T08:00:{size}\n"  # no two are alike
        Path(file).write_bytes(before.encode() + line[:size])
    job = Job(
        "count", [*sizes], tmp_path / "s.db", time="time", every="1d", start="2026-09-01",
        windows=1,
        until="2026-09-02", epsilon=1, bad_rows=f"quarantine:{aside}", max_bad_rows=len(sizes),
    )  # fmt: skip
    run(job).close()
    bad = {sizes[file] for file in pl.read_csv(aside)[:, 0]}
    whole = ["2026-09-01", "2026-09-01T09", "2026-09-01T09:17", "2026-09-01T09:17:31"]
    zones = [f"{whole[-1]}{zone}" for zone in ("+02", "+02:00")]
    kept = {line.index(b"2026") + len(shown) for shown in [*whole, *zones]}
    assert {*sizes.values()} - bad == kept
