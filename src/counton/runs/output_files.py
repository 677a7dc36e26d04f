"""Files of a release: refused early if they cannot be written, and written whole.

A table is useful as long as its guarantee is known. So a Parquet file carries the guarantee in its
metadata, under the name ``counton``, and in its Arrow schema: pyarrow and pandas copy this schema
to files that they make from parts of it. CSV and JSON have a second file beside them, FILE.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counton.base.errors import CountonError, InvalidInput, field
from counton.base.exact import quote
from counton.frame.lazy_polars import polars as pl
from counton.released.release import Release
from counton.released.release_facts import ATTRS, TABLES, facts_in, facts_of
from counton.released.released_numbers import ReleasedNumbers
from counton.state.whole_file import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Endings of pictures.
PICTURES = (".png", ".svg", ".pdf")


def check_output(
    path: Path, formats: tuple[str, ...] | None = None, *, inputs: Sequence[Path] = ()
) -> None:
    """Refuse the path of an output file that cannot or must not be written.

    Args:
        path: path of the output.
        formats: allowed endings; None: the endings of tables.
        inputs: files of the run, which an output must not replace.
    """
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
    for mine in table_paths(path):
        place, there = mine.resolve(), mine.exists()
        for other in inputs:
            both = there and other.exists()
            if place == other.resolve() or (both and mine.samefile(other)):
                also = "" if str(mine) == str(other) else f"also {str(other)!r}, "
                raise InvalidInput(
                    f"{str(mine)!r} is {also or 'a file '}which the run reads or keeps, and would "
                    "be overwritten; give another path"
                )


def refuse_another_streams(path: Path, noise_id: str | None) -> None:
    """Refuse to replace a table that another stream released, as one whose state was lost, or the
    description beside such a table.

    Args:
        path: path of the table, which may not exist yet.
        noise_id: identity of this stream's noise; None: the stream is new.
    """
    places = [one.resolve() for one in table_paths(path)]
    described = [one.with_suffix("") for one in places if one.suffix.lower() == ".json"]
    places += [one for one in described if one.suffix.lower() in (".csv", ".json")]
    for one in (place for place in places if place.exists()):
        name, theirs = None, None
        with suppress(Exception):  # whatever is wrong with another program's file
            facts: Any = facts_in(one)
            name = facts["name"]
            theirs = facts["description"]["terms"]["noise_id"]
        if theirs not in (None, noise_id):
            raise InvalidInput(
                f"{str(one)!r} was released by another stream ({quote(name)}), and this one would "
                "replace it, or the description beside it. If that stream's state was moved or "
                "lost, give it back, and its table goes on; else, as for a stream that follows an "
                f"ended one, give another {field('out')}, or move this table away"
            )
        if name is not None:
            return  # a table that may be replaced, with its description


def table_paths(path: Path) -> list[Path]:
    """Return the paths that writing a table replaces: its own, and that of its description."""
    return [path, beside(path)] if path.suffix.lower() in (".csv", ".json") else [path]


def _check_parent(path: Path) -> None:
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InvalidInput(f"the folder of {str(path)!r} does not exist; make it first")
    if not os.access(folder, os.W_OK):
        raise InvalidInput(
            f"the folder of {str(path)!r} may not be written; change its permissions, or give "
            "another path"
        )


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


def write_table(
    table: pl.DataFrame | pl.LazyFrame,
    path: Path,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write a table as Parquet, CSV or JSON, by the ending of its name.

    In text formats times are ISO 8601.

    Args:
        table: table to write; a lazy frame is computed and written in parts.
        path: path of the file; its ending is one of `TABLES`.
        facts: guarantee and other facts of the release, kept with the table; None for a table
            without a guarantee.
    """
    kind = path.suffix.lower()
    carried = {} if facts is None else {"counton": json.dumps(facts, sort_keys=True)}
    rows = table.lazy()

    def write(name: str) -> None:
        try:
            if kind == ".parquet":
                from counton.released.arrow_schemas import with_metadata

                # Metadata that is too long is only in the file, not in its schema.
                short = sum(map(len, carried.values())) <= _MOST_IN_SCHEMA
                told = {ATTRS: json.dumps(carried)} if carried and short else {}
                schema = with_metadata(rows.collect_schema(), told)
                rows.sink_parquet(name, metadata=carried, arrow_schema=schema)
            elif kind == ".csv":
                _as_text(no_formulas(rows)).sink_csv(name)
            else:
                _as_text(rows).collect().write_json(name)
        except pl.exceptions.PolarsError as error:
            raise OSError(str(error)) from error

    replace_file(path, write)
    if facts is not None and kind != ".parquet":
        text = json.dumps(facts, indent=2, sort_keys=True) + "\n"
        replace_file(beside(path), lambda name: Path(name).write_text(text, "utf-8"))


#: Largest number of characters of a description in an Arrow schema.
_MOST_IN_SCHEMA = 2**22
#: Pattern of a text that a spreadsheet takes for a formula, also after added apostrophes.
_FORMULA = r"^'*[=+\-@\t\r\uFF1D\uFF0B\uFF0D\uFF20]"


def _as_text(table: pl.LazyFrame) -> pl.LazyFrame:
    return table.with_columns(pl.selectors.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%:z"))


def write_release(found: ReleasedNumbers, path: Path, **look: Any) -> None:
    """Write a release to a table with its description, or a chart with ``look``, by the ending."""
    if path.suffix.lower() in PICTURES:
        draw_release(found, path, **look)
    else:
        write_table(found.lazy(), path, facts_of(found))


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
