"""Files that commands write: refused early where they could not be written, and written whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import polars.selectors as cs

from counton.errors import InvalidInput
from counton.events.files import format_of, is_file
from counton.jobs.request import check_text
from counton.store.keyfile import state_files
from counton.store.whole_file import replace_file

#: Endings of pictures.
PICTURES = (".png", ".svg", ".pdf")


def check_outputs(
    out: Path | None,
    plot: Path | None,
    *,
    state: str | os.PathLike[str],
    key: str | os.PathLike[str] | None,
    read: Sequence[object],
) -> None:
    """Refuse outputs that could not be written, or would replace a file of the same run.

    Args:
        out, plot: the table and the picture.
        state, key: of the run, whether they exist or are still to be made.
        read: what the run reads; those of it that are files are meant.

    Raises:
        InvalidInput: see `check_output`.
    """
    named = [os.fspath(name) for name in read if isinstance(name, str | os.PathLike)]
    kept = [Path(name) for name in named if is_file(name)] + state_files(state, key)
    if out is not None:
        check_text("out", str(out))
        check_output(out, inputs=kept)
        kept.append(out)
    if plot is not None:
        check_text("plot", str(plot))
        check_output(plot, PICTURES, inputs=kept)


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
    """CSV, Parquet or JSON lines, as the name ends; text has times in ISO 8601.

    Raises:
        OSError: it could not be written; the old file, if any, is as it was.
    """
    kind = format_of(str(path))
    text = table.with_columns(cs.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%:z"))

    def write(name: str) -> None:
        try:
            if kind == "parquet":
                table.write_parquet(name)
            elif kind == "csv":
                text.write_csv(name)
            else:
                text.write_ndjson(name)
        except pl.exceptions.PolarsError as error:
            raise OSError(str(error)) from error

    replace_file(path, write)
