"""A line is a row: where a row begins and ends depends on that row alone."""

import itertools
import random
from pathlib import Path
from typing import Any

import odd_lines
import pytest
from run_results import counts_of
from some_cases import long

from counton import PureDP, release
from counton.base.errors import InvalidInputError
from counton.io import csv_lines, text_lines
from counton.io.declared_groups import read_domain
from counton.io.input_paths import left_in_folders
from counton.job.group_tables import read_table
from counton.run import Job, run


@pytest.mark.slow
@pytest.mark.parametrize(("some", "files"), [(0, 8), long(1, 60)])
def test_each_line_is_read_independently_of_others(
    some: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(some)
    read = odd_lines.by_counton(tmp_path)
    seen = set[str]()
    for _ in range(files):
        monkeypatch.setattr(text_lines, "BYTES_PER_READ", chance.choice([7, 40, 2**22]))
        monkeypatch.setattr(csv_lines, "_BYTES_PER_CHECK", chance.choice([1, 40, 2**18]))
        seen.add(odd_lines.check(odd_lines.draw(chance), read))
    assert seen == {"all lines count", "lines set aside"}


def test_check_rejects_reader_that_joins_lines() -> None:
    def try_some() -> None:
        chance = random.Random(1)
        for _ in range(50):
            odd_lines.check(odd_lines.draw(chance), odd_lines.by_gluing)

    with pytest.raises(AssertionError):
        try_some()


NUMBERS = itertools.count()


def run_of(file: Path, folder: Path, **more: Any) -> tuple[int, int]:
    """The rows that a run counts, and those that it sets aside."""
    state = folder / f"{next(NUMBERS)}.db"
    job = Job(
        "count", file, state, time="time", every="1d", start="2024-03-01", windows=10,
        until="2024-03-05", epsilon=50, privacy_unit="event", allow_empty_windows=True, **more,
    )  # fmt: skip
    with run(job) as outcome:
        counts = counts_of(outcome)
        return counts.rows - counts.quarantined, counts.quarantined


NOTE = '"it is 5\\" wide"'


def test_backslash_before_quotation_mark_makes_line_bad(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    aside = f"quarantine:{tmp_path / 'bad.csv'}"
    rows = [
        f"2024-03-0{day},home,{NOTE if row == 3 else 'fine'}"
        for day in range(1, 5)
        for row in range(10)
    ]
    file.write_text("\n".join(["time,page,note", *rows, ""]))
    said = "line 5 of .*quotation mark inside a quoted field; double it.*let its program write Parq"
    with pytest.raises(InvalidInputError, match=said):
        run_of(file, tmp_path)
    assert run_of(file, tmp_path, bad_rows=aside) == (36, 4)


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_blank_json_line_is_bad_except_at_end(end: str, tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    one = '{"time": "2024-03-01"}'
    other = '{"time": "2024-03-02"}'
    file.write_bytes(end.join([one, other, "", "", ""]).encode())
    assert run_of(file, tmp_path) == (2, 0)
    for blank in ("", " \t"):
        file.write_bytes(end.join([one, blank, other, "", ""]).encode())
        with pytest.raises(InvalidInputError, match=r"line 2 of .* \(it is blank\)"):
            run_of(file, tmp_path)
        assert run_of(file, tmp_path, bad_rows=f"quarantine:{tmp_path / 'bad.csv'}") == (2, 1)


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_end_with_each_of_three_ends(end: str, tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_bytes(end.join(["time", "2024-03-01", "2024-03-02", "2024-03-02", ""]).encode())
    assert run_of(file, tmp_path) == (3, 0)
    file.write_bytes(end.join(["time", "2024-03-01", "", "2024-03-02", "", ""]).encode())
    with pytest.raises(InvalidInputError, match=r"line 3 of .* \(it is blank\)"):
        run_of(file, tmp_path)
    assert run_of(file, tmp_path, bad_rows=f"quarantine:{tmp_path / 'bad.csv'}") == (2, 1)


def test_field_with_line_end_makes_two_bad_lines(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    aside = f"quarantine:{tmp_path / 'bad.csv'}"
    file.write_bytes(b'time,note\r\n2024-03-01,"a\r\nb"\r\n2024-03-02,x\r\n\r\n')
    with pytest.raises(
        InvalidInputError, match=r"line 2 of .*not closed on this line.*write Parquet"
    ):
        run_of(file, tmp_path)
    assert run_of(file, tmp_path, bad_rows=aside) == (1, 2)


def test_groups_file_is_read_by_lines(tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_bytes(b'page,note\rhome,"it is 5"" wide"\rshop,\r\r')
    assert read_domain(str(file), "page") == ("home", "shop")
    file.write_bytes(b'page,note\nhome,"5\\" wide"\nshop,"7\\" wide"\nbar,x\n')
    with pytest.raises(
        InvalidInputError, match=r"inside a quoted field; double it\); correct .*write Parquet$"
    ):
        read_domain(str(file), "page")
    file.write_bytes(b'page,note\nhome,"a\nb"\n')
    with pytest.raises(InvalidInputError, match=r"on this line\); correct .*write Parquet$"):
        read_table(file, ["page"])
    (tmp_path / "d.txt").write_bytes("home\rshop\u2028two\r\n\r\nb\x1car".encode())
    assert read_domain(str(tmp_path / "d.txt"), "page") == ("home", "shop\u2028two", "b\x1car")


@pytest.mark.parametrize(("little", "most"), [(0, 1), (0, 3), (0, 8), (0, 2**24), (2**16, 1)])
def test_names_of_a_text_are_its_stripped_lines(
    little: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many characters are read at a time: a name begins and ends with no white space."""
    monkeypatch.setattr("counton.io.declared_groups._MOST_BYTES_WITHOUT_POLARS", little)
    monkeypatch.setattr("counton.io.declared_groups._CHARACTERS_PER_READ", most)
    space = [one for one in map(chr, range(0x3001)) if one.isspace()]
    names = [f"{one}a {number}{one}" for number, one in enumerate(space)]
    text = tmp_path / "d.txt"
    text.write_bytes("\n".join(["\ufeffNA", *names, "", " \x1f", "end"]).encode())
    assert read_domain(text, "page") == ("NA", *(f"a {place}" for place in range(29)), "end")


def test_left_in_folders_names_files_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    (folder / "day=2024-03-01").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "_SUCCESS").touch()
    for name in ("top.csv", "day=2024-03-01/p.csv", "o.csv.bz2", "q.tab"):
        (folder / name).write_text("time\n2024-03-01\n")
    said = left_in_folders(folder)
    assert said is not None
    assert said.startswith(
        f"not read: '{folder}/day=2024-03-01' (a folder), '{folder}/o.csv.bz2', '{folder}/q.tab'; "
    )
    told: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 10, "until": "2024-03-02",
        "privacy_unit": "event", "state": tmp_path / "s.db", "guarantee": PureDP(50),
    }  # fmt: skip
    with pytest.warns(UserWarning, match=r"not read: .*q\.tab"):
        release("count", folder, **told)
    (folder / "top.csv").rename(tmp_path / "top.csv")
    assert left_in_folders([tmp_path / "top.csv", folder / "q.tab"]) is None
