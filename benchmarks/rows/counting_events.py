"""Events read, counted and released by the job, against what polars alone needs to count them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import OBJECTS, fastest, object_seconds, process
from benchmarks.row import Row
from counton import Key, PureDP, Stream
from counton.run import Job, run
from counton.strategies import KAry

#: Two sizes: what a row more costs is their difference, without what every run costs.
ROWS = (200_000, 8_000_000)
#: Files whose times have milliseconds and, but for Parquet, an offset; what a row may cost at most,
#: counted and in a contingency table, in rows that polars alone reads and groups.
FILES = {
    "csv": ("CSV", 1.3, 1.5),
    "tenth.csv": ("CSV with a quoted field in a tenth", 1.3, None),
    "quoted.csv": ("CSV with each field quoted", 1.3, None),
    "jsonl": ("JSON lines", 1.5, None),
    "parquet": ("Parquet", 2, 2),
}
PAGES = tuple(f"g{number}" for number in range(200))
KINDS = ("a", "b", "c")
DAYS = 30
SCALARS = 200_000


def measure() -> Iterator[Row]:
    """Measure the counting of events from files against polars, and whole runs; yield the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, (what, most, most_in_table) in FILES.items():
            files = [_visits(folder / f"{rows}.{kind}", rows) for rows in ROWS]
            ours, theirs = _slope(files, kind, _count, ("page",))
            yield Row(f"a row of {what}, counted", ours / theirs, most, note="polars alone")
            if most_in_table is not None:
                ours, theirs = _slope(files, kind, _contingency, ("page", "kind"))
                name = f"a row of {what} in a contingency table"
                yield Row(name, ours / theirs, most_in_table, note="polars alone")
            for file in files:
                file.unlink()
        yield _counted_rows(folder)
        yield from _scalars(folder)
        yield from _runs(folder)
        yield _more_rows(folder)


def _slope(
    files: list[Path], kind: str, counted: Callable[[Path], None], by: tuple[str, ...]
) -> tuple[float, float]:
    """Return the CPU seconds for the rows that the larger of two files has more: of counton, and of
    polars.

    Args:
        files: the smaller and the larger file.
        kind: format of the files.
        counted: function that counts a file with counton.
        by: columns by which polars groups.
    """
    times = [
        fastest(lambda file=file: counted(file), lambda file=file: _theirs(file, kind, by), turns=3)  # type: ignore[misc]
        for file in files
    ]
    (few_ours, few_theirs), (many_ours, many_theirs) = times
    return many_ours - few_ours, many_theirs - few_theirs


def _count(file: Path) -> None:
    _run(file, "count", group_by="page", groups=PAGES)


def _contingency(file: Path) -> None:
    domain = {"page": PAGES, "kind": KINDS}
    _run(file, "contingency", columns="page,kind", groups=domain)


def _run(file: Path, what: str, **more: Any) -> None:
    """Run a job on a file with a new state, in a place that no other state had."""
    state = Path(tempfile.mkdtemp(dir=file.parent)) / "table.db"
    job = Job(
        *(what, file, state), time="time", every="1d", start="2024-03-01", windows=DAYS,
        until="latest-event", epsilon=1, privacy_unit="visit", key=Key.generate(),
        allow_empty_windows=True, **more,
    )  # fmt: skip
    run(job).close()


def _theirs(file: Path, kind: str, by: tuple[str, ...]) -> None:
    scan: dict[str, Callable[[Path], pl.LazyFrame]] = {
        "csv": pl.scan_csv,
        "tenth.csv": pl.scan_csv,
        "quoted.csv": pl.scan_csv,
        "jsonl": pl.scan_ndjson,
        "parquet": pl.scan_parquet,
    }
    rows = scan[kind](file)
    time = pl.col("time")
    if kind != "parquet":
        time = time.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z")
    rows.group_by(time.dt.truncate("1d"), *by).len().collect(engine="streaming")


def _visits(file: Path, rows: int) -> Path:
    """Write random visits of 30 days to a file; all times are written in one form, as most programs
    do.
    """
    random = np.random.default_rng(rows)
    since = np.sort(random.integers(0, DAYS * 86_400_000, rows)) * 1000
    table = pl.DataFrame(
        {
            "time": pl.Series(since + 1_709_251_200_000_000).cast(pl.Datetime("us", "UTC")),
            "page": pl.Series(PAGES).gather(random.integers(0, len(PAGES), rows)),
            "kind": pl.Series(KINDS).gather(random.integers(0, len(KINDS), rows)),
            "visitor": random.integers(0, 10**5, rows),
        }
    )
    if file.suffix == ".parquet":
        table.write_parquet(file)
    else:
        zoned = pl.col("time").dt.convert_time_zone("Europe/Berlin")
        texts = table.with_columns(zoned.dt.to_string("%Y-%m-%dT%H:%M:%S%.3f%:z"))
        if file.suffix == ".csv":
            quoted = pl.format("{}, of {}", "page", "kind")
            if ".tenth." in file.name:
                texts = texts.with_columns(note=pl.when(pl.col("visitor") % 10 == 0).then(quoted))
            texts.write_csv(file, quote_style="always" if ".quoted." in file.name else None)
        else:
            texts.write_ndjson(file)
    return file


def _events(file: Path, rows: int, groups: int, seconds: int) -> Path:
    """Write random events, from the first ``seconds`` seconds of 2024, to a Parquet file."""
    random = np.random.default_rng(rows)
    since = np.sort(random.integers(0, seconds, rows)) * 10**6
    page = pl.format("g{}", pl.Series(random.integers(0, groups, rows)))
    time = pl.Series(since + 1_704_067_200_000_000).cast(pl.Datetime("us", "UTC"))
    pl.select(time=time, page=page).write_parquet(file)
    return file


def _counted_rows(folder: Path) -> Row:
    """Measure a first night of counted rows, one for each group, against polars' sums of them."""
    file = folder / "counted.parquet"
    groups = 10**6
    page = pl.format("g{}", pl.int_range(groups))
    day = pl.date(2024, 3, 1)
    pl.select(page=page).write_parquet(folder / "pages.parquet")
    pl.select(page=page, day=day, passages=pl.int_range(groups) % 20).write_parquet(file)

    def ours() -> None:
        state = Path(tempfile.mkdtemp(dir=folder)) / "counted.db"
        job = Job(
            *("count", file, state), time="day", every="1d", start="2024-03-01", lookback="1d",
            windows=DAYS, until="2024-03-02", group_by="page", groups=folder / "pages.parquet",
            count_column="passages", epsilon=1, privacy_unit="passage", key=Key.generate(),
        )  # fmt: skip
        run(job).close()

    def theirs() -> None:
        sums = pl.scan_parquet(file).group_by("day", "page").agg(pl.col("passages").sum())
        sums.collect(engine="streaming")

    mine, least = fastest(ours, theirs, turns=3)
    return Row(f"a first night of {groups:,} counted groups", mine / least, 25, note="polars alone")


def _scalars(folder: Path) -> Iterator[Row]:
    strategy = KAry.best(SCALARS)
    sizes = list[float]()

    def release() -> None:
        file = folder / f"scalars{len(sizes)}.db"  # a state that vanishes is not begun anew
        with Stream.create(file, "s", strategy, PureDP(1), key=Key.generate()) as stream:
            stream.release_many(np.arange(SCALARS) % 3)
        sizes.append(file.stat().st_size / SCALARS)
        for left in folder.glob(f"{file.name}*"):
            left.unlink()

    (seconds,) = fastest(release, turns=3)
    times = seconds / object_seconds()
    yield Row(f"{SCALARS:,} steps released and kept", times, 2.5, note=OBJECTS)
    yield Row("the same, in the state", sizes[-1], 10, unit="B", note="for each step")


def _runs(folder: Path) -> Iterator[Row]:
    """Measure whole runs of the command (start, plan, read, release, write Parquet); yield the
    rows.
    """
    for groups, every, steps, unit, bar, most in (
        (20, "1m", 366 * 1440, 60, 60, 500),
        (5000, "1h", 366 * 24, 3600, 150, 1000),
        (50_000, "1h", 31 * 24, 3600, 150, 1000),
    ):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            yield from _whole_run(Path(name), groups, every, steps, unit, (bar, most))


def _whole_run(
    folder: Path, groups: int, every: str, steps: int, unit: int, bars: tuple[float, float]
) -> Iterator[Row]:
    file = _events(folder / "many.parquet", 2_000_000, groups, steps * unit)
    domain = folder / "domain.txt"
    domain.write_text("\n".join(f"g{number}" for number in range(groups)))
    words = [
        *(
            "release",
            "count",
            str(file),
            "--time",
            "time",
            "--group-by",
            "page",
            "--groups",
            str(domain),
        ),
        *("--every", every, "--start", "2024-01-01", "--windows", str(steps), "--epsilon", "1"),
        *("--until", "latest-event", "--state", str(folder / "s.db")),
        *("--output", str(folder / "out.parquet")),
    ]
    used = process(["-m", "counton", *words])
    released = pl.scan_parquet(folder / "out.parquet").select(pl.len()).collect().item()
    size = (folder / "s.db").stat().st_size / released
    name = f"{groups:,} groups, {steps:,} windows of {every}"
    yield Row(f"{name}, CPU", used.cpu_seconds / object_seconds(), bars[0], note=OBJECTS)
    yield Row(f"{name}, memory", used.peak_megabytes, bars[1], unit="MB")
    yield Row(f"{name}, state", size, 5, unit="B", note="for each released number")


def _more_rows(folder: Path) -> Row:
    """Measure how much more memory a run needs for ten times as many rows, which it reads piece by
    piece.
    """
    few = _visits(folder / "few.parquet", 2_000_000)
    many = folder / "many.parquet"
    pl.concat([pl.scan_parquet(few)] * 10).sink_parquet(many)
    (folder / "pages.txt").write_text("\n".join(PAGES))
    stream = (
        *(
            "--time",
            "time",
            "--group-by",
            "page",
            "--groups",
            str(folder / "pages.txt"),
            "--epsilon",
        ),
        *(
            "1",
            "--every",
            "1d",
            "--start",
            "2024-03-01",
            "--windows",
            str(DAYS),
            "--until",
            "latest-event",
        ),
    )
    needed = [
        process(["-m", "counton", "release", "count", str(file), *stream, "--state", f"{file}.db"])
        for file in (few, many)
    ]
    ratio = needed[1].peak_megabytes / needed[0].peak_megabytes
    return Row("memory for ten times as many rows", ratio, 1.4, note="20,000,000 of Parquet")
