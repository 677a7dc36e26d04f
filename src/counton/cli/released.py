"""What a stream has released, as a table with intervals; files are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.analysis.intervals import halfwidths
from counton.analysis.plots import Curves
from counton.cli.definition import Definition
from counton.errors import InvalidInput
from counton.events.files import format_of
from counton.events.windows import load_zone
from counton.mechanisms import Specification
from counton.store import Stream

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Released:
    """All released steps; estimates and bounds have shape ``(steps, groups)``."""

    definition: Definition
    steps: range
    estimates: Numbers
    std: NDArray[np.float64]
    half: NDArray[np.float64]

    @classmethod
    def read(cls, stream: Stream, definition: Definition, level: float) -> Released:
        """Everything in the journal, with intervals of confidence ``level``."""
        releases = stream.releases()
        steps = range(1, len(releases.steps) + 1)
        values = np.asarray(releases.values).reshape(len(steps), len(definition.groups))
        std = np.asarray(releases.std, dtype=np.float64)
        specification = Specification.from_dict(stream.spec)
        half = halfwidths(specification.strategy, specification.law, steps, level)
        return cls(definition, steps, values, std, half * float(specification.resolution))

    @property
    def lower(self) -> Numbers:
        """Lower ends of the intervals; integers where estimates are."""
        return self._shifted(-self.half)

    @property
    def upper(self) -> Numbers:
        """Upper ends of the intervals; integers where estimates are."""
        return self._shifted(self.half)

    def _shifted(self, by: NDArray[np.float64]) -> Numbers:
        if self.estimates.dtype == np.int64 and np.all(by == np.rint(by)):
            return np.asarray(self.estimates + by.astype(np.int64)[:, None], dtype=np.int64)
        return np.asarray(self.estimates + by[:, None], dtype=np.float64)

    def local_start(self) -> str:
        """Beginning of the first window in local time."""
        start = self.definition.windows.start
        zone = load_zone(self.definition.windows.timezone)
        return start.astimezone(zone).strftime("%Y-%m-%d %H:%M")

    def local_ends(self) -> NDArray[np.datetime64]:
        """Ends of the windows in local time, without a zone."""
        ends = _moments(self.definition.windows.ends(self.steps), self.definition)
        local = ends.dt.replace_time_zone(None).to_numpy()
        return np.asarray(local, dtype="datetime64[us]")

    def curves(self) -> Curves:
        """What a chart shows."""
        names = ["total"] if self.definition.domain is None else list(self.definition.domain)
        arrays = (np.asarray(a, np.float64) for a in (self.estimates, self.lower, self.upper))
        return Curves(self.local_ends(), names, *arrays)

    def table(self) -> pl.DataFrame:
        """One row per step and group."""
        windows, groups = self.definition.windows, self.definition.groups
        steps = len(self.steps)

        def each(series: pl.Series) -> pl.Series:
            return series.gather(np.repeat(np.arange(steps), len(groups)))

        return pl.DataFrame(
            {
                "step": np.repeat(np.arange(1, steps + 1), len(groups)),
                "window_start": each(_moments(windows.starts(self.steps), self.definition)),
                "window_end": each(_moments(windows.ends(self.steps), self.definition)),
                "group": pl.Series(list(groups) * steps, dtype=pl.String),
                "estimate": self.estimates.ravel(),
                "std": np.repeat(self.std, len(groups)),
                "lower": self.lower.ravel(),
                "upper": self.upper.ravel(),
            }
        )


def _moments(us: NDArray[np.int64], definition: Definition) -> pl.Series:
    series = pl.Series(np.asarray(us, dtype=np.int64)).cast(pl.Datetime("us", "UTC"))
    return series.dt.convert_time_zone(definition.windows.timezone)


def check_output(
    path: Path, formats: tuple[str, ...] | None = None, *, inputs: Sequence[Path] = ()
) -> None:
    """Refuse a path that could not be written later, or must not be.

    Args:
        path: of the output.
        formats: endings it may have; those of tables if None.
        inputs: files of the run, which an output must not replace.

    Raises:
        InvalidInput: an unknown format, a folder, no such folder, one that cannot be written, or
            the path of an input.
    """
    if formats is None:
        if path.suffix.lower() in (".gz", ".zst"):
            raise InvalidInput(
                f"{str(path)!r} would have to be compressed; drop its ending {path.suffix}, or "
                f"write .parquet, which is compressed"
            )
        format_of(str(path))
    elif path.suffix.lower() not in formats:
        raise InvalidInput(f"{str(path)!r} does not end in {', '.join(formats)}; rename it")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InvalidInput(f"the folder of {str(path)!r} does not exist; make it first")
    if path.is_dir():
        raise InvalidInput(f"{str(path)!r} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InvalidInput(
            f"the folder of {str(path)!r} cannot be written; change its permissions, or write "
            f"elsewhere"
        )
    for other in inputs:
        both = path.exists() and other.exists()
        if path.resolve() == other.resolve() or (both and path.samefile(other)):
            raise InvalidInput(
                f"{str(path)!r} is also {str(other)!r}, which the run reads or keeps; write "
                f"elsewhere"
            )


def write_table(table: pl.DataFrame, path: Path) -> None:
    """CSV, Parquet or JSON lines, as the name ends."""
    kind = format_of(str(path))
    if kind == "parquet":
        replace_file(path, lambda name: table.write_parquet(name))
        return
    text = table.with_columns(
        pl.col("window_start", "window_end").dt.to_string("%Y-%m-%dT%H:%M:%S%:z")
    )
    write = text.write_csv if kind == "csv" else text.write_ndjson
    replace_file(path, lambda name: write(name))


def replace_file(path: Path, write: Callable[[str], None]) -> None:
    """Write beside a file, then take its name: readers see the old file or the whole new one.

    Raises:
        OSError: it could not be written; the old file, if any, is as it was.
    """
    try:
        _replace_file(path, write)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise OSError(
            f"{str(path)!r} could not be written ({reason or error}): check its permissions and "
            f"the space left; what was released is kept, and the same command writes it again"
        ) from error


def _replace_file(path: Path, write: Callable[[str], None]) -> None:
    handle, name = tempfile.mkstemp(prefix=".", suffix=path.suffix, dir=path.resolve().parent)
    os.close(handle)
    try:
        write(name)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path.resolve())
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
