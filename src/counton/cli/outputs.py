"""Files that commands write: refused early where they could not be written, and written whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl

from counton.errors import InvalidInput
from counton.events.files import format_of


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
