"""A folder of files by step and block of groups says what one file of all of them says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import counton
from counton.base.errors import InvalidInput
from counton.run import written_files
from counton.run.exports import export, export_all
from counton.run.written_files import write_table
from counton.state.reader import JournalReader

DAYS: dict[str, Any] = {"time": "t", "every": "1d", "start": "2024-03-01", "steps": 30, "rho": 1}
GROUPS: dict[str, Any] = {"by": "page", "domain": "a,b,c,d,e"}


@pytest.fixture(autouse=True)
def _two_groups_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_files, "_BLOCK", 2)


def release(folder: Path, night: int, what: Any = "count", **more: Any) -> counton.Release:
    """What is released after a night."""
    times = [f"2024-03-{night:02}T12:00:0{second}" for second in range(6)]
    rows = pl.DataFrame({"t": times, "page": ["a", "b", "a", "c", "e", "e"], "paid": [3] * 6})
    given = {"until": f"2024-03-{night + 1:02}", "append": True, "name": "v", **more}
    return counton.release(what, rows, state=folder / "s.db", **given)


def nights(folder: Path, first: int, last: int, **more: Any) -> None:
    """Release some nights; the first one says what is released."""
    for night in range(first, last + 1):
        release(folder, night, **(more if night == 1 else {}))


def rows_of(place: Path) -> pl.DataFrame:
    found = pl.read_parquet(place)
    return found.sort("step", "group")


@pytest.mark.parametrize("form", ["totals", "windows", "both"])
@pytest.mark.parametrize("groups", [GROUPS, {}], ids=["groups", "none"])
def test_a_folder_reads_as_one_file(form: str, groups: dict[str, Any], tmp_path: Path) -> None:
    nights(tmp_path, 1, 4, **DAYS, **groups, release=form)
    whole = export(tmp_path / "s.db", tmp_path / "one.parquet")
    last = export(tmp_path / "s.db", tmp_path / "pages")
    assert last.table().equals(whole.table(range(4, 5)))
    files = sorted(path.name for path in (tmp_path / "pages").iterdir())
    blocks = 3 if groups else 1
    assert len(files) == 4 * blocks
    assert (files[0], files[-1]) == (
        "step-000001-block-0000.parquet",
        f"step-000004-block-000{blocks - 1}.parquet",
    )
    assert rows_of(tmp_path / "pages").equals(rows_of(tmp_path / "one.parquet"))
    found = counton.read(tmp_path / "pages")
    assert found.table().equals(whole.table())
    assert tuple(found.numbers.groups) == tuple(whole.numbers.groups)
    assert str(found.total("a" if groups else "all")) == str(whole.total("a" if groups else "all"))
    query = "SELECT step, count(*), sum({0}) FROM '{1}' GROUP BY step ORDER BY step"
    number = "window_estimate" if form == "windows" else "estimate"
    places = [tmp_path / "pages/*.parquet", tmp_path / "one.parquet"]
    by_step = [duckdb.execute(query.format(number, place)).fetchall() for place in places]
    assert by_step[0] == by_step[1]
    assert len(by_step[0]) == 4


@pytest.mark.parametrize("door", ["run", "export"])
def test_a_night_adds_its_own_files(door: str, tmp_path: Path) -> None:
    out: dict[str, Any] = {"out": tmp_path / "pages"} if door == "run" else {}
    before: dict[str, int] = {}
    for night in range(1, 4):
        found = release(tmp_path, night, **(DAYS | GROUPS if night == 1 else {}), **out)
        assert found.table().height == 5 * night
        if door == "export":
            export(tmp_path / "s.db", tmp_path / "pages")
        now = {path.name: path.stat().st_ino for path in (tmp_path / "pages").iterdir()}
        assert len(now) == 3 * night
        assert before.items() <= now.items()
        before = now
    gone = tmp_path / "pages/step-000002-block-0001.parquet"
    said = gone.read_bytes()
    gone.unlink()
    export(tmp_path / "s.db", tmp_path / "pages")
    assert gone.read_bytes() == said


def test_a_released_file_becomes_a_folder(tmp_path: Path) -> None:
    nights(tmp_path, 1, 3, **DAYS, **GROUPS)
    whole = export(tmp_path / "s.db", tmp_path / "one.parquet")
    export(tmp_path / "one.parquet", tmp_path / "pages", steps="2:3")
    found = counton.read(tmp_path / "pages")
    assert found.table().equals(whole.table(range(2, 4)))
    again = export(tmp_path / "pages", tmp_path / "again.csv")
    assert again.table().equals(found.table())


def test_each_release_of_a_state_has_a_folder(tmp_path: Path) -> None:
    nights(tmp_path, 1, 2, **DAYS, **GROUPS)
    release(tmp_path, 1, **DAYS | {"name": "w"})
    found = export_all(tmp_path / "s.db", tmp_path / "{name}")
    for name in "vw":
        assert counton.read(tmp_path / name).table().equals(found[name].table())


def test_few_steps_are_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(tmp_path, 1, 7, **DAYS, **GROUPS, release="both")
    read: list[int] = []
    real = JournalReader.packed_releases

    def noted(self: JournalReader, start: int = 1, stop: int | None = None) -> Any:
        read.append((stop or self.step + 1) - start)
        return real(self, start, stop)

    monkeypatch.setattr(JournalReader, "packed_releases", noted)
    monkeypatch.setattr(written_files, "_ROWS", 10)
    export(tmp_path / "s.db", tmp_path / "pages")
    assert max(read) == 3  # two steps, and the one before them
    export(tmp_path / "s.db", tmp_path / "one.parquet")
    assert max(read) == 7
    assert rows_of(tmp_path / "pages").equals(rows_of(tmp_path / "one.parquet"))


def test_rows_above_a_threshold(tmp_path: Path) -> None:
    nights(tmp_path, 1, 4, **DAYS, **GROUPS)
    whole = export(tmp_path / "s.db", tmp_path / "one.parquet", above=4)
    export(tmp_path / "s.db", tmp_path / "pages", above=4)
    assert rows_of(tmp_path / "pages").equals(rows_of(tmp_path / "one.parquet"))
    found = counton.read(tmp_path / "pages")
    assert found.table().equals(whole.table())
    assert len(found.numbers.facts()["notes"]) == 1
    with pytest.raises(InvalidInput, match="chosen by their size"):
        found.band()


def test_a_break_leaves_whole_files_and_the_rest_is_written_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(tmp_path, 1, 2, **DAYS, **GROUPS)
    written, real = list[str](), write_table

    def breaking(table: Any, path: Path, *more: Any) -> None:
        if len(written) == 4:
            raise OSError("no space is left")
        written.append(path.name)
        real(table, path, *more)

    with monkeypatch.context() as patch:
        patch.setattr(written_files, "write_table", breaking)
        with pytest.raises(OSError, match="no space"):
            export(tmp_path / "s.db", tmp_path / "pages")
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == written
    assert counton.read(tmp_path / "pages").table(range(1, 2)).height == 5
    export(tmp_path / "s.db", tmp_path / "pages")
    whole = export(tmp_path / "s.db")
    assert counton.read(tmp_path / "pages").table().equals(whole.table())


def test_other_files_are_refused(tmp_path: Path) -> None:
    nights(tmp_path, 1, 1, **DAYS, **GROUPS)
    state, pages = tmp_path / "s.db", tmp_path / "pages"
    export(state, pages)
    with pytest.raises(InvalidInput, match=r"hold with probability 0\.95, not 0\.9"):
        export(state, pages, level=0.9)
    with pytest.raises(InvalidInput, match="their above differ"):
        export(state, pages, above=3)
    with pytest.raises(InvalidInput, match="all groups in their order"):
        export(state, pages, groups="a,b")
    other = tmp_path / "other"
    other.mkdir()
    nights(other, 1, 1, **{**DAYS, "rho": 2}, **GROUPS)
    with pytest.raises(InvalidInput, match="belong to different streams"):
        export(other / "s.db", pages)
    pl.DataFrame({"step": [1]}).write_parquet(pages / "mine.parquet")
    with pytest.raises(InvalidInput, match=r"mine\.parquet.*give another folder"):
        export(state, pages)
    with pytest.raises(InvalidInput, match=r"holds 's\.db'.*give another path"):
        export(other / "s.db", other)


@pytest.mark.parametrize(
    ("what", "more"),
    [
        ("average", {"value": "paid", "lower": 0, "upper": 9, "resolution": 1, "rho": 1}),
        ("count", {"by": "page", "unknown": "discover", "epsilon": 1, "delta": "1e-6"}),
    ],
)
def test_what_has_no_such_files_is_refused_before_it_is_released(
    what: str, more: dict[str, Any], tmp_path: Path
) -> None:
    days = {name: value for name, value in DAYS.items() if name != "rho"}
    with pytest.raises(InvalidInput, match="counts and sums of listed groups"):
        release(tmp_path, 1, what, **days, **more, out=tmp_path / "pages")
    assert not (tmp_path / "s.db").exists()
