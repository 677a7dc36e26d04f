"""JSON lines mean the same in a file and in a request to a service, and for every reader."""

import random
import struct
from pathlib import Path

import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.io import text_lines
from counton.io.files import open_source
from counton.io.json_lines import number_text
from counton.serve.bodies import TooLargeError, read_rows

ROW = b'{"n": 1}'
OTHER = b'{"n": "b"}'
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: Texts of lines, and the cells of column n; None: a line is refused.
BODIES: list[tuple[bytes, list[str | None] | None]] = [
    (ROW, ["1"]),
    (ROW + b"\n" + OTHER + b"\n", ["1", "b"]),
    (BYTE_ORDER_MARK + ROW + b"\n" + OTHER, ["1", "b"]),
    (ROW + b"\n" + BYTE_ORDER_MARK + OTHER, None),
    (ROW + b"\n\n" + OTHER, None),
    (b"\n" + ROW, None),
    (ROW + b"\n \t\n" + OTHER, None),
    (ROW + b"\n\n\n\n", ["1"]),
    (ROW + b"\r\n" + OTHER + b"\r\n\r\n", ["1", "b"]),
    (ROW + b"\r" + OTHER + b"\r", ["1", "b"]),
    (ROW + b"\r\n\r\n" + OTHER, None),
    (b" \t" + ROW + b" \n" + OTHER, ["1", "b"]),
    (b'{"n": 1, "n": 5}', None),
    (b'{"n": 1, "n": 1}', None),
    (b'{"n": null, "n": null}', None),
    (b'{"n": 1, "\\u006e": 5}', None),
    (b'{"n": 1, "\\u006E": 5}', None),
    (b'{"\\u006e": 5}', ["5"]),
    (b'{"m": 1, "m": 2, "n": 3}', ["3"]),
    (b'{"m": {"n": 1, "n": 2}, "n": 3}', ["3"]),
    (b'{"n": "\\"n\\": 1, \\"n\\": 2"}', ['"n": 1, "n": 2']),
    (b'{"n": "\\ud800"}', None),
    (b'{"n": "\\udc00\\ud800"}', None),
    (b'{"n": "\\ud83d\\ude00"}', ["\U0001f600"]),
    (b'{"n": "\\\\ud800"}', ["\\ud800"]),
    (b'{"m": "\\ud800", "n": 1}', ["1"]),
    (b'{"n": NaN}', None),
    (b'{"n": Infinity}', None),
    (b'{"n": 01}', None),
    (b'{"n": 9007199254740993}', ["9007199254740993"]),
    (b'{"n": ' + b"7" * 400 + b"}", ["7" * 400]),
    (b'{"n": ' + b"7" * 60 + b"}", ["7" * 60]),
    (b'{"n": 12.000}', ["12"]),
    (b'{"n": 1e3}', ["1000"]),
    (b'{"n": 2.50}', ["2.5"]),
    (b'{"n": 1e999}', ["1e999"]),
    (b'{"n": true}', ["true"]),
    (b'{"n": null}\n{"n": 1}', [None, "1"]),
    (b'{"m": 1}\n{"n": 1}', [None, "1"]),
    (b"[1]", None),
    (ROW + b",\n" + OTHER, None),
]


@pytest.mark.parametrize(("body", "cells"), BODIES)
def test_json_lines_are_read_alike_in_file_and_request(
    body: bytes, cells: list[str | None] | None, tmp_path: Path
) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(body)
    if cells is None:
        with pytest.raises(InvalidInputError):
            open_source(file).parts[0].scan(["n"]).collect()
        with pytest.raises(InvalidInputError):
            read_rows(body, ["n"], 100, "the request")
        return
    assert open_source(file).parts[0].scan(["n"]).collect()["n"].to_list() == cells
    assert read_rows(body, ["n"], 100, "the request").frame().collect()["n"].to_list() == cells


def test_ambiguous_line_is_the_only_faulty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "e.jsonl"
    bodies = [body for body, _ in BODIES if b"\n" not in body.strip() and b"\r" not in body]
    cells = dict(BODIES)
    chance = random.Random(1)
    for size in (7, 60, 2**22):
        monkeypatch.setattr(text_lines, "BYTES_PER_READ", size)
        for _ in range(20):
            drawn = [ROW, *chance.choices(bodies, k=12), ROW]
            drawn = [body.strip().removeprefix(BYTE_ORDER_MARK) for body in drawn]
            file.write_bytes(b"\n".join(drawn))
            part = open_source(file).parts[0].sift(["n"], 100)
            wanted = [cells[body] for body in drawn]
            assert sorted(part.unread) == [row for row, one in enumerate(wanted) if one is None]
            read = part.scan(["n"]).collect()["n"].to_list()
            assert read == [None if one is None else one[0] for one in wanted]


def test_key_twice_is_refused_if_another_line_lacks_it(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"n": 1, "n": 2}\n{"m": 1}\n')
    with pytest.raises(InvalidInputError, match=r"line 1 of .* \(it has the key 'n' twice\)"):
        open_source(file).parts[0].scan(["n"]).collect()


def test_refusal_of_a_key_twice_names_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(ROW + b'\n{"n": 1, "n": 5}\n')
    with pytest.raises(InvalidInputError, match=r"line 2 of .* \(it has the key 'n' twice\)"):
        open_source(file).parts[0].scan(["n"]).collect()
    with pytest.raises(InvalidInputError, match=r"row 2 of the request has the key 'n' twice"):
        read_rows(file.read_bytes(), ["n"], 100, "the request")
    with pytest.raises(InvalidInputError, match=r"row 2 of the request is blank"):
        read_rows(ROW + b"\n\n" + ROW, ["n"], 100, "the request")


def test_request_rows_are_bounded_for_each_line_end() -> None:
    for end in (b"\n", b"\r", b"\r\n"):
        assert len(read_rows(ROW + (end + ROW) * 9, ["n"], 10, "x").frame().collect()) == 10
        with pytest.raises(TooLargeError):
            read_rows(ROW + (end + ROW) * 10, ["n"], 10, "x")


def test_numbers_of_requests_are_those_of_files(tmp_path: Path) -> None:
    chance = random.Random(1)
    numbers = ["-0", "0.0", "1E+5", "1.5e300", "5e-324", "1e22", "-7.50"]
    for _ in range(2000):
        number = struct.unpack("d", struct.pack("Q", chance.getrandbits(64)))[0]
        numbers += [repr(number)] if abs(number) < float("inf") else []
        numbers.append(repr(round(chance.uniform(-1e6, 1e6), chance.randrange(5))))
    file = tmp_path / "e.jsonl"
    file.write_text("".join(f'{{"n": {number}}}\n' for number in numbers))
    in_file = open_source(file).parts[0].scan(["n"]).collect()["n"]
    texts = pl.Series([number_text(number) for number in numbers])
    assert in_file.cast(pl.Float64).equals(texts.cast(pl.Float64))
    short = [len(number) < 14 for number in numbers]
    assert in_file.filter(pl.Series(short)).to_list() == texts.filter(pl.Series(short)).to_list()
