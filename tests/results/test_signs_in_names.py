"""Names of groups may hold any sign: pictures are well-formed, and tables are read again."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from matplotlib import rc_context
from some_cases import long

from counton import read
from counton.base.errors import InvalidInputError
from counton.run import Job, export, run

NAMES = ["\x1b[2Ja\x01b", "\u200b\ufffe", "a\nb", "--><b>&", "$x$é\u202e"]
ROWS = pl.DataFrame(
    {
        "at": [f"2024-03-01T0{n % 4}:10" for n in range(40)],
        "shop": NAMES * 8,
        "sex": ["f", "m\x0b"] * 20,
    }
)
KINDS: dict[str, dict[str, Any]] = {
    "count": {"group_by": "shop", "groups": NAMES},
    "top-k": {"group_by": "shop", "groups": NAMES, "top": len(NAMES)},
    "hierarchy": {
        "levels": ["shop", "sex"],
        "groups": {"shop": [name for name in NAMES for _ in "fm"], "sex": ["f", "m\x0b"] * 5},
    },
    "contingency": {"columns": ["shop", "sex"], "groups": {"shop": NAMES, "sex": ["f", "m\x0b"]}},
}


@pytest.mark.slow  # it draws
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
def test_names_with_control_characters_are_drawn_and_read_again(kind: str, tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "time": "at", "every": "1h", "start": "2024-03-01", "windows": 4, "epsilon": 9,
    }  # fmt: skip
    job = Job(kind, ROWS, tmp_path / "s.db", until="2024-03-01T04:00", **{**asked, **KINDS[kind]})
    tables = [tmp_path / f"t.{ending}" for ending in ("csv", "parquet")]
    with run(job) as outcome:
        found = outcome.read(shown=None)
    if kind == "count":  # others have no chart
        for figure in found.figures().values():
            figure.savefig(tmp_path / "own.svg")  # as a notebook does it
            ET.parse(tmp_path / "own.svg")
        export(tmp_path / "s.db", tmp_path / "p.svg")
        pictures = sorted(tmp_path.glob("p*.svg"))
        assert pictures
        for picture in pictures:
            ET.parse(picture)
    else:
        with pytest.raises(InvalidInputError, match="a chart shows counts and sums over time"):
            found.figures()
    for table in tables:
        export(tmp_path / "s.db", table)
    assert "a\nb" in read(tables[0]).table().select(pl.col(pl.String)).to_numpy().ravel()
    one, other = (read(table).table() for table in tables)
    assert one.equals(other)


@pytest.mark.slow  # it draws
@pytest.mark.parametrize("ending", [".svg", long(".pdf")])
def test_a_picture_is_the_same_every_time(ending: str, tmp_path: Path) -> None:
    job = Job(
        "count", ROWS, tmp_path / "s.db", time="at", every="1h", start="2024-03-01", windows=4,
        epsilon=9, until="2024-03-01T04:00",
    )  # fmt: skip
    run(job).close()
    drawn = []
    for salt in ("one", "two"):  # as another process would draw it
        with rc_context({"svg.hashsalt": salt}):
            export(tmp_path / "s.db", tmp_path / f"p{ending}")
        drawn.append((tmp_path / f"p{ending}").read_bytes())
    assert drawn[0] == drawn[1]
    assert b"Date>" not in drawn[0]
    assert b"CreationDate" not in drawn[0]
