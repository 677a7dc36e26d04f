"""Files of a release: refused early if they cannot be written, and written whole.

A table is useful as long as its guarantee is known. So a Parquet file carries the guarantee in its
metadata, under the name ``counton``, and in its Arrow schema: pyarrow and pandas copy this schema
to files that they make from parts of it. CSV and JSON have a second file beside them, FILE.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from counton.base.atomic_file import replace_output
from counton.base.errors import CountonError, InvalidInputError, param
from counton.base.exact import quote
from counton.results.metadata_codec import ATTRS, TABLES, facts_in, facts_of
from counton.results.plain_csv import plain_csv
from counton.results.release import ChartWords, Release
from counton.results.release_data import ReleaseData
from counton.results.released_table import lazy_table
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Endings of charts, and of web pages.
PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html",)
#: Largest number of characters of a description in an Arrow schema.
_MOST_CHARACTERS_IN_SCHEMA = 2**22
#: Largest size in bytes of a table that is compared without polars: a larger one takes longer.
_MOST_COMPARED_BYTES = 2**20
#: Pattern of a text that a spreadsheet takes for a formula, also after added apostrophes.
_FORMULA_PATTERN = r"^'*[=+\-@\t\r\uFF1D\uFF0B\uFF0D\uFF20]"


# ---------------------------------------------------------------------------------------- refused
def check_output(
    path: Path, formats: tuple[str, ...] | None = None, *, inputs: Sequence[Path] = ()
) -> None:
    """Refuse the path of an output file that cannot or must not be written.

    Args:
        path: path of the output.
        formats: allowed endings; None: the endings of tables.
        inputs: files of the run, which an output must not replace.

    Raises:
        InvalidInputError: the path is such a one.
    """
    allowed = TABLES if formats is None else formats
    ending = path.suffix.lower()
    if formats is None and ending in (".gz", ".zst"):
        raise InvalidInputError(
            f"{str(path)!r} would be compressed, and this format is not; remove the ending "
            f"{path.suffix}, or write .parquet, which is compressed"
        )
    if formats is None and ending in PAGES:
        raise InvalidInputError(
            f"{str(path)!r} is a web page, but a run writes tables ({', '.join(allowed)}). Export "
            f"it afterwards: counton export STATE {param('output', path.name)}"
        )
    if ending not in allowed:
        raise InvalidInputError(
            f"{str(path)!r} has an unsupported format. Its name must end in one of "
            f"{', '.join(allowed)}"
        )
    if ending in PICTURES:
        from counton.charts.style import quietly

        with quietly():
            pass  # it raises an error that says how to install the library of charts
    _check_folder(path)
    if path.is_dir():
        raise InvalidInputError(f"{str(path)!r} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{str(path)!r} is not a plain file; give another path")
    for written in table_paths(path):
        for read in inputs:
            if _is_same_file(written, read):
                alias = "" if str(written) == str(read) else f"also {str(read)!r}, "
                raise InvalidInputError(
                    f"{str(written)!r} is {alias or 'a file '}which the run reads or keeps, and "
                    "would be overwritten; give another path"
                )


def _is_same_file(written: Path, read: Path) -> bool:
    if written.resolve() == read.resolve():
        return True
    return written.exists() and read.exists() and written.samefile(read)


def _check_folder(path: Path) -> None:
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InvalidInputError(f"the folder of {str(path)!r} does not exist; make it first")
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(
            f"the folder of {str(path)!r} may not be written; change its permissions, or give "
            "another path"
        )


def refuse_another_streams(path: Path, noise_id: str | None) -> None:
    """Refuse to replace a table that another stream released, as one whose state was lost, or the
    description beside such a table.

    Args:
        path: path of the table, which may not exist yet.
        noise_id: identity of this stream's noise; None: the stream is new.

    Raises:
        InvalidInputError: another stream released the table.
    """
    tables = [written.resolve() for written in table_paths(path)]
    described = [table.with_suffix("") for table in tables if table.suffix.lower() == ".json"]
    tables += [table for table in described if table.suffix.lower() in (".csv", ".json")]
    for table in tables:
        if not table.exists():
            continue
        name = None
        noise_id_there = None
        with suppress(Exception):  # whatever is wrong with another program's file
            facts: Any = facts_in(table)
            name = facts["name"]
            noise_id_there = facts["description"]["terms"]["noise_id"]
        if noise_id_there not in (None, noise_id):
            raise InvalidInputError(
                f"{str(table)!r} was released by another stream ({quote(name)}), and this one "
                "would replace it, or the description beside it. If that stream's state was moved "
                "or lost, give it back, and its table goes on; else, as for a stream that follows "
                f"an ended one, give another {param('output')}, or move this table away"
            )
        if name is not None:
            return  # a table that may be replaced, with its description


# ------------------------------------------------------------------------------------------ paths
def table_paths(path: Path) -> list[Path]:
    """Return the paths that writing a table replaces: its own, and that of its description."""
    if path.suffix.lower() in (".csv", ".json"):
        return [path, description_path(path)]
    return [path]


def description_path(path: Path) -> Path:
    """Return the path of the file, beside a table, in which the table's guarantee is stored.

    >>> description_path(Path("visits.csv")).name
    'visits.csv.json'
    """
    return path.with_name(f"{path.name}.json")


def chart_paths(kinds: Iterable[str], path: Path) -> dict[str, Path]:
    """Return the path of each chart by its kind, such as "totals", "windows" or "last-7d".

    Args:
        kinds: the kinds of charts; the first one gets the path, others a path beside it.
        path: path of the chart.

    >>> [path.name for path in chart_paths(["totals", "windows"], Path("visits.png")).values()]
    ['visits.png', 'visits.windows.png']
    """
    first, *others = kinds
    other_paths = {kind: path.with_name(f"{path.stem}.{kind}{path.suffix}") for kind in others}
    return {first: path, **other_paths}


def charts_in_words(numbers: ReleaseData, path: Path) -> str:
    """Return which files the charts of a release are, such as "chart written to visits.png"."""
    from counton.results.charts import chart_kinds

    paths = chart_paths(chart_kinds(numbers), path).values()
    noun = "chart" if len(paths) == 1 else "charts"
    return f"{noun} written to {', '.join(map(str, paths))}"


# ---------------------------------------------------------------------------------------- written
def escape_formulas(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Put an apostrophe before texts that a spreadsheet would take for a formula.

    Whoever sends rows, or the author of a list of groups, could choose such a text as a name. To
    undo the change: from a text that begins with apostrophes followed by a formula, drop the first
    apostrophe.

    >>> rows = pl.LazyFrame({"group": ["=1+1", "home", "'=1+1"]})
    >>> escape_formulas(rows).collect()["group"].to_list()
    ["'=1+1", 'home', "''=1+1"]
    """
    texts = pl.selectors.string()
    return rows.with_columns(
        pl.when(texts.str.contains(_FORMULA_PATTERN)).then("'" + texts).otherwise(texts).name.keep()
    )


def write_table(
    table: pl.DataFrame | pl.LazyFrame,
    path: Path,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Write a table as Parquet, CSV or JSON, by the ending of its name.

    In text formats times are ISO 8601.

    Args:
        table: table to write; a lazy frame is computed and written in parts.
        path: path of the file; its ending is one of `TABLES`.
        facts: guarantee and other facts of the release, kept with the table; None for a table
            without a guarantee.
    """
    ending = path.suffix.lower()
    metadata = {} if facts is None else {"counton": json.dumps(facts, sort_keys=True)}
    rows = table.lazy()

    def write(name: str) -> None:
        try:
            if ending == ".parquet":
                _write_parquet(rows, name, metadata)
            elif ending == ".csv":
                _times_as_text(escape_formulas(rows)).sink_csv(name)
            else:
                _times_as_text(rows).collect().write_json(name)
        except pl.exceptions.PolarsError as error:
            raise OSError(str(error)) from error

    replace_output(path, write)
    if facts is not None and ending != ".parquet":
        _write_description(path, facts)


def _write_description(path: Path, facts: Mapping[str, object]) -> None:
    """Write the description beside a table, which has its guarantee."""
    text = json.dumps(facts, indent=2, sort_keys=True) + "\n"
    replace_output(description_path(path), lambda name: Path(name).write_text(text, "utf-8"))


def _unchanged_csv(numbers: ReleaseData, path: Path) -> bytes | None:
    """Return what a file contains if that is the table of a release; None if it may not be."""
    try:
        if path.stat().st_size > _MOST_COMPARED_BYTES:
            return None
        content = path.read_bytes()
    except OSError:  # there is no such file yet
        return None
    text = plain_csv(numbers)
    return content if text is not None and text.encode() == content else None


def _write_parquet(rows: pl.LazyFrame, name: str, metadata: Mapping[str, str]) -> None:
    from counton.results.arrow_schemas import with_metadata

    schema_metadata = {}
    # Metadata that is too long is only in the file, not in its schema.
    if metadata and sum(map(len, metadata.values())) <= _MOST_CHARACTERS_IN_SCHEMA:
        schema_metadata = {ATTRS: json.dumps(metadata)}
    schema = with_metadata(rows.collect_schema(), schema_metadata)
    rows.sink_parquet(
        name,
        # Noisy numbers hardly compress: a higher level takes longer and makes no smaller file.
        compression_level=1,
        metadata=dict(metadata),
        arrow_schema=schema,
    )


def _times_as_text(table: pl.LazyFrame) -> pl.LazyFrame:
    return table.with_columns(pl.selectors.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%:z"))


def write_release(numbers: ReleaseData, path: Path, **form: Unpack[ChartWords]) -> None:
    """Write a release, by the ending of the path: a table with its description, a chart or a page.

    Args:
        numbers: the released numbers.
        path: path of the file.
        form: title, label of the axis, source line, and width of a chart: see `Release.figures`.
    """
    ending = path.suffix.lower()
    if ending in PAGES:
        write_page(numbers, path, **form)
    elif ending in PICTURES:
        draw_release(numbers, path, **form)
    elif ending == ".csv" and (content := _unchanged_csv(numbers, path)) is not None:
        replace_output(path, lambda name: Path(name).write_bytes(content))
        _write_description(path, facts_of(numbers))
    else:
        write_table(lazy_table(numbers), path, facts_of(numbers))


def write_figure(figure: Figure, path: Path) -> None:
    """Write the file of a chart, whole or not at all."""
    from counton.charts.style import save_figure

    replace_output(path, partial(save_figure, figure))


def draw_release(numbers: ReleaseData, path: Path, **form: Unpack[ChartWords]) -> None:
    """Write the charts of a release: of totals and of windows, in files beside each other."""
    try:
        figures = Release(numbers).figures(**form)
        paths = chart_paths(figures, path)
        for series, figure in figures.items():
            write_figure(figure, paths[series])
    except (CountonError, OSError):  # these errors name their own remedy
        raise
    except Exception as error:
        raise OSError(
            f"{str(path)!r} was not drawn ({type(error).__name__}: {error}). The released numbers "
            "are kept, and counton export writes them as a table"
        ) from error


def write_page(numbers: ReleaseData, path: Path, **form: Unpack[ChartWords]) -> None:
    """Write a web page of a release: charts, numbers and the text on methods.

    Args:
        numbers: the released numbers.
        path: path of the file.
        form: options of the charts. The title is the heading of the page, too; telephones get
            charts that are not as wide as stated.
    """
    from counton.results.web_page import web_page

    release = Release(numbers)

    def draw(narrow: float | None, heading: str | None) -> Mapping[str, Figure]:
        words = form.copy()
        words["title"] = heading
        words["width"] = narrow or form.get("width")
        return release.figures(**words)

    title = form.get("title")
    text = web_page(numbers, release.methods(), draw if numbers.is_drawable else None, title)
    replace_output(path, lambda name: Path(name).write_text(text, "utf-8"))
