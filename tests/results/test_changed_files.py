"""Whatever a file of released numbers holds: a release that answers, or an error that names it.

``COUNTON_FUZZ=100`` changes a hundred times as many files, some 10,000.
"""

import base64
import json
import os
import subprocess
import zlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import changed_files
import polars as pl
import pytest
from forked_commands import forked_python
from programs import run_program
from some_cases import long

from counton import read, release
from counton.base.errors import InvalidInputError, StateError
from counton.run.outputs.output_files import write_table
from counton.statistics import Count, Quantiles, Report

CHANGES = 100 * int(os.environ.get("COUNTON_FUZZ", "1"))
ENDINGS = ("csv", "json")
GROUPS: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop", "far"]}
PAID: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 9, "resolution": 1}
FOUND: dict[str, Any] = {
    "group_by": "page",
    "unlisted_groups": "discover",
    "epsilon": 9,
    "delta": "1e-3",
}
ONCE: dict[str, Any] = dict.fromkeys(("time", "every", "start", "windows", "until", "timezone"))
PARTS = Report(
    {"n": Count(), "paid": Quantiles(lower=0, upper=8, cells=4)}, columns={"paid": "paid"}
)
#: Releases of all kinds: the statistic, and what it is asked.
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "count": ("count", GROUPS),
    "both": ("count", {**GROUPS, "series": "both"}),
    "sum": ("sum", {**PAID, **GROUPS, "resolution": 0.5}),
    "found": ("count", FOUND),
    "ranking": ("top-k", {**FOUND, "top": 2, "room": 50}),
    "quantiles": ("quantiles", {"value": "paid", "edges": "0,4,9", "shares": "0.5"}),
    "once": ("ranges", {"label": "paid", "groups": [str(n) for n in range(9)], **ONCE}),
    "report": (PARTS, {}),
}
ROWS = pl.DataFrame(
    {
        "time": [datetime(2024, 3, 1) + timedelta(hours=7 * n) for n in range(40)],
        "page": [("home", "shop", "home", "far")[n % 4] for n in range(40)],
        "paid": [n % 9 for n in range(40)],
        "user": [f"u{n % 11}" for n in range(40)],
        "letter": ["ab"[n % 3 % 2] for n in range(40)],
    }
)
STREAM: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "windows": 30, "until": "2024-03-11",
    "stream": "it", "timezone": "Europe/Berlin",
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all formats of releases of all kinds."""
    base = tmp_path_factory.mktemp("files")
    for kind in KINDS:
        out = base / kind / "t.parquet"
        state = base / f"{kind}.db"
        out.parent.mkdir()
        what, asked = KINDS[kind]
        loss = {} if "epsilon" in asked else {"epsilon": 1}
        release(what, ROWS, state=state, output=out, **{**STREAM, **loss, **asked})
        carried = json.loads(pl.read_parquet_metadata(out)["counton"])
        for ending in ENDINGS:
            write_table(pl.scan_parquet(out), out.with_suffix(f".{ending}"), carried)
    return base


def python(*arguments: object, part: int = 1) -> subprocess.CompletedProcess[str]:
    """`changed_files` in a process of its own, with little memory, or a part of it."""
    command = [forked_python(), changed_files.__file__, *map(str, arguments)]
    threads = {"POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0", "COUNTON_PART": str(part)}
    return run_program(command, env={**os.environ, **threads})


@pytest.mark.parametrize("changes", [CHANGES // 4, long(CHANGES)])
def test_a_changed_file_answers_or_is_refused_by_its_name(folders: Path, changes: int) -> None:
    done = python(folders, 2026, changes)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["answered"] > changes / 10
    assert told["refused"] > changes / 10


@pytest.fixture
def count(folders: Path, tmp_path: Path) -> dict[str, Any]:
    """What a count carries, with a copy of its files in the folder of the test."""
    for one in (folders / "count").iterdir():
        (tmp_path / one.name).write_bytes(one.read_bytes())
    found: dict[str, Any] = json.loads((tmp_path / "t.csv.json").read_text())
    return found


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("1000000000", "row of step 1,000,000,000, but the stream ends with step 30"),
        ("1e25", "conversion"),
        ("10000000000000000000000000", "conversion"),
        ("nan", "conversion"),
        ("-1", "window_index counts from 1"),
        ("9" * 5000, "cannot be read as a released table"),
    ],
)
def test_a_step_that_no_stream_has_is_refused(
    count: dict[str, Any], tmp_path: Path, step: str, says: str
) -> None:
    file = tmp_path / "t.csv"
    lines = file.read_text().splitlines()
    at = lines[0].split(",").index("window_index")
    row = lines[-1].split(",")
    row[at] = step
    file.write_text("\n".join([*lines, ",".join(row)]))
    told = python(file).stdout
    assert told.startswith("refused: ")
    assert says in told


def test_a_far_step_of_a_long_stream_takes_no_memory(count: dict[str, Any], tmp_path: Path) -> None:
    count["description"]["terms"]["strategy"] = {"strategy": "Binary", "horizon": 2**40 - 1}
    rows = pl.read_parquet(tmp_path / "t.parquet").tail(1).with_columns(window_index=pl.lit(10**9))
    rows.write_parquet(tmp_path / "t.parquet", metadata={"counton": json.dumps(count)})
    assert "at most 16,777,216 can be read" in python(tmp_path / "t.parquet").stdout


def test_a_number_that_is_none_is_refused(folders: Path, tmp_path: Path) -> None:
    facts = json.loads((folders / "sum" / "t.csv.json").read_text())
    rows = pl.read_parquet(folders / "sum" / "t.parquet")
    for value in (float("nan"), float("inf")):
        wrong = rows.with_columns(estimate=pl.lit(value))
        wrong.write_parquet(tmp_path / "t.parquet", metadata={"counton": json.dumps(facts)})
        with pytest.raises(
            InvalidInputError, match=r"t\.parquet.* has an estimate that is not a number"
        ):
            read(tmp_path / "t.parquet")


def test_compressed_metadata_beyond_limit_is_refused(folders: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    carried = pl.read_parquet_metadata(folders / "quantiles" / "t.parquet")["counton"]
    facts = json.loads(carried)
    packer = zlib.compressobj(9)
    begin = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(2**24)) + packer.flush(zlib.Z_FULL_FLUSH)
    bomb = begin + block * 127  # 2 GiB, of which the process has one
    facts["description"]["cells"]["data"] = base64.b64encode(bomb).decode()
    rows = pl.read_parquet(folders / "quantiles" / "t.parquet")
    rows.write_parquet(file, metadata={"counton": json.dumps(facts)})
    assert "its compressed data expand to more than 33,554,432 bytes" in python(file).stdout


@pytest.mark.parametrize("opens", ["[", '{"a":'])
def test_json_that_lies_deep_is_refused(count: dict[str, Any], tmp_path: Path, opens: str) -> None:
    (tmp_path / "t.json").write_text(opens * 10**5)
    (tmp_path / "t.csv.json").write_text(opens * 10**5)
    for name in ("t.json", "t.csv"):
        assert "more than 64 levels" in python(tmp_path / name).stdout


def test_an_integer_of_thousands_of_digits_is_refused(
    count: dict[str, Any], tmp_path: Path
) -> None:
    text = json.dumps(count).replace(
        '"confidence_level": 0.95', f'"confidence_level": {"9" * 5000}'
    )
    (tmp_path / "t.csv.json").write_text(text)
    with pytest.raises(InvalidInputError, match=r"t\.csv.* integer string conversion"):
        read(tmp_path / "t.csv")
    count["description"]["terms"]["law"] = {"law": "discrete Laplace", "scale": "1e999999999"}
    (tmp_path / "t.csv.json").write_text(json.dumps(count))
    with pytest.raises(StateError, match=r"t\.csv.* finite number from 1e-300 to 1e300"):
        read(tmp_path / "t.csv")
