"""Files of a release: refused early if they cannot be written, and written whole.

A table is useful as long as its guarantee is known. So a Parquet file carries the guarantee in its
metadata, under the name ``counton``, and in its Arrow schema: pyarrow and pandas copy this schema
to files that they make from parts of it. Every other file has a second file beside it, FILE.json.

A release of many steps and groups may be a folder of Parquet files, one for each step and block of
groups. Releases never change, so existing files stay, and each run adds its own. Steps are read a
few at a time, so that memory grows with the groups and not with the steps.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.lazy_polars import polars as pl
from counton.base.options import check_text
from counton.released.description import Description
from counton.released.large_groups import block_of, large_only
from counton.released.read_options import is_folder
from counton.released.release import Release
from counton.released.release_facts import (
    ATTRS,
    TABLES,
    USUAL,
    CsvStyle,
    description_of,
    facts_of,
    own_facts_of,
)
from counton.released.released_numbers import ReleasedNumbers
from counton.rows.paths import is_file
from counton.state.key_and_witness import state_files
from counton.state.whole_file import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.state.key_and_witness import Kept

#: Endings of pictures.
PICTURES = (".png", ".svg", ".pdf")


def check_outputs(
    out: Path | None,
    plot: Path | None,
    *,
    state: str | os.PathLike[str],
    key: Kept,
    read: Sequence[object],
) -> None:
    """Refuse output files (table ``out``, chart ``plot``) that could not be written, or would
    replace another file of the run.

    The other files are its input files (``read``), the files of its state (database), and its key.
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
    """Refuse the path of an output file that cannot or must not be written.

    Args:
        path: path of the output.
        formats: allowed endings; None: the endings of tables.
        inputs: files of the run, which an output must not replace.
    """
    if formats is None and is_folder(path):
        _check_folder(path, inputs)
        return
    known = TABLES if formats is None else formats
    if formats is None and path.suffix.lower() in (".gz", ".zst"):
        raise InvalidInput(
            f"{str(path)!r} would be compressed, and this format is not; remove the ending "
            f"{path.suffix}, or write .parquet, which is compressed"
        )
    if path.suffix.lower() not in known:
        raise InvalidInput(f"{str(path)!r} must end in one of {', '.join(known)}; rename it")
    if path.suffix.lower() in PICTURES:
        from counton.charts.style import quietly

        with quietly():
            pass  # `load` tells how to install it
    _check_parent(path)
    if path.is_dir():
        raise InvalidInput(f"{str(path)!r} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{str(path)!r} is not a plain file; give another path")
    written = [path]
    if path.suffix.lower() in TABLES and TABLES[path.suffix.lower()] != "parquet":
        written.append(beside(path))
    for mine in written:
        place, there = mine.resolve(), mine.exists()
        for other in inputs:
            both = there and other.exists()
            if place == other.resolve() or (both and mine.samefile(other)):
                also = "" if str(mine) == str(other) else f"also {str(other)!r}, "
                raise InvalidInput(
                    f"{str(mine)!r} is {also or 'a file '}which the run reads or keeps, and would "
                    "be overwritten; give another path"
                )


def _check_parent(path: Path) -> None:
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InvalidInput(f"the folder of {str(path)!r} does not exist; make it first")
    if not os.access(folder, os.W_OK):
        raise InvalidInput(
            f"the folder of {str(path)!r} may not be written; change its permissions, or give "
            "another path"
        )


def in_folder(folder: Path) -> list[Path]:
    """List the Parquet files in a folder, in the order of their names.

    >>> in_folder(Path("a folder that is new"))
    []
    """
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def _check_folder(folder: Path, inputs: Sequence[Path]) -> None:
    """Refuse a folder in which the files of steps and groups cannot or must not be written."""
    _check_parent(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(
            f"{str(folder)!r} is a file, and a folder is needed; give another path, or a file name "
            "with an ending"
        )
    for other in inputs:
        if other.resolve().is_relative_to(folder.resolve()):
            raise InvalidInput(
                f"{str(folder)!r} holds {other.name!r}, which the run reads or keeps; give another "
                "path"
            )
    for present in in_folder(folder):
        if _OF_STEP.fullmatch(present.name) is None:
            raise InvalidInput(
                f"{str(folder)!r} holds {present.name!r}, which readers would take for a part of "
                "the release; give another folder"
            )


#: Names of files in a folder.
_OF_STEP = re.compile(r"step-\d{6,}-block-\d{4,}\.parquet")


def pictures_of(release: str, plot: Path | None) -> dict[str, Path]:
    """Return the path of the chart of each series, by the name of the series: "totals" or
    "windows".

    ``release`` says what a job releases. If it is "both", the chart of totals gets the path
    ``plot``, and the chart of windows a path beside it. Without ``plot`` there are no charts.

    >>> [path.name for path in pictures_of("both", Path("visits.png")).values()]
    ['visits.png', 'visits.windows.png']
    """
    if plot is None:
        return {}
    if release != "both":
        return {release: plot}
    return {"totals": plot, "windows": plot.with_name(f"{plot.stem}.windows{plot.suffix}")}


def beside(path: Path) -> Path:
    """Return the path of the file, beside a table, in which the table's guarantee is stored.

    >>> beside(Path("visits.csv")).name
    'visits.csv.json'
    """
    return path.with_name(f"{path.name}.json")


def no_formulas(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Put an apostrophe before texts that a spreadsheet would take for a formula.

    A person who sends rows, or the author of a list of groups, could choose such a text as a name.
    To undo the change: from a text that begins with apostrophes followed by a formula, drop the
    first apostrophe.

    >>> no_formulas(pl.LazyFrame({"group": ["=1+1", "home", "'=1+1"]})).collect()["group"].to_list()
    ["'=1+1", 'home', "''=1+1"]
    """
    texts = pl.selectors.string()
    return rows.with_columns(
        pl.when(texts.str.contains(_FORMULA)).then("'" + texts).otherwise(texts).name.keep()
    )


def csv_style(path: Path | None, formulas: str, separator: str, decimal: str) -> CsvStyle:
    """Return the requested style of CSV. An unusual separator or decimal sign is refused if the
    file is no CSV.
    """
    style = CsvStyle.of_signs(formulas, separator, decimal)
    if "csv" in style.facts and (path is None or path.suffix.lower() != ".csv"):
        name = "separator" if style.separator != "," else "decimal"
        raise InvalidInput(
            f"{field(name, separator if name == 'separator' else decimal)} is for CSV files only; "
            f"give {field('out')} with .csv"
        )
    return style


def _write_text(text: str, place: str) -> None:
    Path(place).write_text(text, "utf-8")


def write_table(
    table: pl.DataFrame | pl.LazyFrame,
    path: Path,
    facts: Mapping[str, Any] | None = None,
    *,
    style: CsvStyle = USUAL,
) -> None:
    """Write a table as CSV, Parquet, JSON, JSON lines or Arrow, by the ending of its name.

    In text formats times are ISO 8601.

    Args:
        table: table to write; a lazy frame is computed and written in parts.
        path: path of the file; its ending is one of `TABLES`.
        facts: guarantee and other facts of the release, kept with the table; None for a table
            without a guarantee.
        style: separator and decimal sign of CSV; they are added to the facts if they are unusual.
    """
    kind = TABLES[path.suffix.lower()]
    if facts is not None and kind == "csv":
        facts = {**facts, **style.facts}
    carried = {} if facts is None else {"counton": json.dumps(facts, sort_keys=True)}
    rows = table.lazy()

    def write(name: str) -> None:
        try:
            if kind == "parquet":
                from counton.released.arrow_schemas import with_metadata

                # Metadata that is too long is only in the file, not in its schema.
                short = sum(map(len, carried.values())) <= _MOST_IN_SCHEMA
                told = {ATTRS: json.dumps(carried)} if carried and short else {}
                schema = with_metadata(rows.collect_schema(), told)
                rows.sink_parquet(name, metadata=carried, arrow_schema=schema)
            elif kind == "arrow":
                rows.sink_ipc(name, compression="zstd")
            elif kind == "csv":
                shown = _as_text(rows if style.formulas == "keep" else no_formulas(rows))
                comma = style.decimal == ","
                shown.sink_csv(
                    name, include_bom=style.for_spreadsheets, separator=style.separator,
                    decimal_comma=comma,
                )  # fmt: skip
            elif kind == "json":
                _as_text(rows).collect().write_json(name)
            else:
                _as_text(rows).sink_ndjson(name)
        except pl.exceptions.PolarsError as error:
            raise OSError(str(error)) from error

    replace_file(path, write)
    if facts is not None and kind != "parquet":
        text = json.dumps(facts, indent=2, sort_keys=True) + "\n"
        replace_file(beside(path), partial(_write_text, text))


#: Largest number of characters of a description in an Arrow schema.
_MOST_IN_SCHEMA = 2**22
#: Pattern of a text that a spreadsheet takes for a formula, also after added apostrophes.
_FORMULA = r"^'*[=+\-@\t\r\uFF1D\uFF0B\uFF0D\uFF20]"


def _as_text(table: pl.LazyFrame) -> pl.LazyFrame:
    return table.with_columns(pl.selectors.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%:z"))


def write_release(
    found: ReleasedNumbers, path: Path, *, style: CsvStyle = USUAL, **look: Any
) -> None:
    """Write a release to a file: a table with its description, or a chart, as the ending of the
    path says.

    ``look`` has the options of a chart, such as ``title``.
    """
    if path.suffix.lower() in PICTURES:
        draw_release(found, path, **look)
    else:
        write_table(found.lazy(), path, facts_of(found), style=style)


def write_figure(figure: Figure, path: Path) -> None:
    """Write the file of a chart, whole or not at all."""
    from counton.charts.style import save_figure

    replace_file(path, partial(save_figure, figure))


def draw_release(found: ReleasedNumbers, path: Path, **look: Any) -> None:
    """Write the charts of a release: of totals and of windows, in files beside each other."""
    try:
        figures = Release(found).figures(**look)
        pictures = pictures_of("both" if len(figures) > 1 else next(iter(figures)), path)
        for kind, figure in figures.items():
            write_figure(figure, pictures[kind])
    except (CountonError, OSError):  # these errors name their own remedy
        raise
    except Exception as error:
        raise OSError(
            f"{str(path)!r} was not drawn ({type(error).__name__}: {error}). The released numbers "
            "are kept, and counton export writes them as a table"
        ) from error


#: Largest number of groups of one file, and of rows that are read together beyond one step.
_BLOCK, _ROWS = 2**20, 2**20


def check_foldable(definition: Description | None, folder: Path) -> None:
    """Refuse a stream whose releases cannot be written to a folder with a file for each step.

    Args:
        definition: definition of the stream (columns, windows, groups and guarantee); None if it
            was not made from events.

    Raises:
        InvalidInput: the statistic is neither counts nor sums; or its groups are not declared; or a
            later run would change an earlier file, because windows are released again when late
            rows come.
    """
    if definition is not None and definition.cut.lags:
        raise InvalidInput(
            f"{field('out', str(folder))} has no ending, so it is a folder with a file for each "
            "step, and such files never change, but numbers of revised windows do: give a file "
            f"name, such as {folder.name}.parquet"
        )
    if definition is None or not definition.shows_cells or not definition.cells.named_beforehand:
        raise InvalidInput(
            f"{field('out', str(folder))} has no ending, so it is a folder with a file for each "
            "step, which is possible only for counts and sums of listed groups: give a file name, "
            f"such as {folder.name}.parquet"
        )


def write_folder(
    folder: Path,
    read: Callable[[range], ReleasedNumbers],
    steps: range,
    groups: int,
    above: float | None = None,
    surely_above: float | None = None,
) -> ReleasedNumbers:
    """Write the files of steps and groups that a folder lacks; ``read`` returns the released
    numbers of a range of steps.

    Args:
        folder: folder, made if missing.
        above, surely_above: see `counton.run.exports.export`.

    Returns:
        Numbers of the last step.

    Raises:
        InvalidInput: the folder has files of another release, or with another threshold.
        OSError: a file could not be written; earlier files are whole.
    """
    last = read(steps[-1:])
    present = in_folder(folder)
    if present:
        first = next(_blocks(last, groups))[1]
        shown = large_only(first, above, surely_above)
        own = own_facts_of(shown)
        described = description_of(shown.design, shown.definition, shown.level, own)
        from counton.released.release_files import check_one_release

        check_one_release(present[-1], described)
    folder.mkdir(exist_ok=True)
    names, size = {path.name for path in present}, max(1, _ROWS // groups)
    missing = [step for step in steps if not names.issuperset(_names(step, groups))]
    while missing:
        chunk = [step for step in missing[:size] if step < missing[0] + size]
        missing = missing[len(chunk) :]
        held = last if chunk == [*steps[-1:]] else read(range(chunk[0], chunk[-1] + 1))
        for step in chunk:
            for name, block in _blocks(held.only(range(step, step + 1)), groups):
                if name not in names:
                    shown = large_only(block, above, surely_above)
                    write_table(shown.lazy(), folder / name, facts_of(shown))
    return last


def _blocks(released: ReleasedNumbers, groups: int) -> Iterator[tuple[str, ReleasedNumbers]]:
    """Yield the name and the content of each file of one step: one for each block of groups."""
    for number, name in enumerate(_names(released.first, groups)):
        places = range(number * _BLOCK, min((number + 1) * _BLOCK, groups))
        yield name, block_of(released, places, number)


def _names(step: int, groups: int) -> list[str]:
    return [f"step-{step:06}-block-{block:04}.parquet" for block in range(-(-groups // _BLOCK))]
