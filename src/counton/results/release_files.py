"""Files of releases: a table with all public facts of its stream, so that a file answers questions.

`read` returns the same release as the run, with exactly the same intervals, differences and sums.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import IntegersOrFloats
from counton.base.errors import (
    CountonError,
    InvalidInputError,
    MissingDependencyError,
    StateError,
    hide_secrets,
    param,
)
from counton.base.exact import quote
from counton.base.outside_input import structure_of
from counton.base.table_schema import COLUMNS, DECAYED, ColumnType
from counton.continual.design import Design
from counton.continual.intervals import check_confidence_level
from counton.results.display import DisplaySelection, with_shown_groups
from counton.results.metadata import PublishedSeries, ReleaseMetadata
from counton.results.metadata_codec import FORMAT, MOST_CELLS, TABLES, facts_in, unpack
from counton.results.release import Release
from counton.results.release_data import ReleaseData
from counton.results.released_table import table_of
from counton.results.table_rows import labels_of, rows_among
from counton.statistics.by_group import Grouped
from counton.windowing.lazy_polars import polars as pl

#: Largest number of steps times groups of a release, however few rows the file has.
_MOST_NUMBERS = 2**24
#: Errors that readers of tables raise, and those of descriptions that contradict themselves.
_READING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)
#: Pattern of the apostrophe that protects texts in CSV which a spreadsheet would read as formulas.
_PROTECTED_FORMULA = r"^'('*[=+\-@\t\r\uFF1D\uFF0B\uFF0D\uFF20])"


class _File(NamedTuple):
    """The rows of one file, with the public description of their stream.

    Attributes:
        label: name for messages.
    """

    label: str
    rows: pl.DataFrame
    described: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def last(self) -> int:
        """Return the last step that has a row, or 0."""
        return int(self.rows["window_index"].to_numpy().max(initial=0))


def read(
    source: str | os.PathLike[str],
    *,
    stream: str | None = None,
    confidence_level: float | None = None,
) -> Release:
    """Read a release from a file, without state and key.

    A file may lack rows, or have them in another order; only a request for a missing row is
    refused. Changed values are not noticed.

    Args:
        source: a table that a run or an export wrote: Parquet, or CSV or JSON with the
            description beside it (``visits.csv.json``). Or a frame of Spark from
            `Release.to_spark`, or from a table that keeps the metadata of its columns.
        stream: name of the stream that the file must hold; None: any.
        confidence_level: probability with which each interval holds; None: the level of the file.

    Raises:
        InvalidInputError: the file is missing, has no description, or is of another stream.
        StateError: another version of counton wrote the file in an unknown form.

    >>> import polars as pl
    >>> from counton import PureDP, release
    >>> visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-03T10:15"]})
    >>> run = release(
    ...     "count", visits, time="time", every="1d", start="2024-03-01", windows=365,
    ...     until="latest-event", guarantee=PureDP(1), state="visits.db",
    ...     output="visits.parquet",
    ... )
    >>> read("visits.parquet").table().equals(run.table())
    True
    """
    confidence_level = (
        None if confidence_level is None else check_confidence_level(confidence_level)
    )
    if any(base.__module__.startswith("pyspark.sql.") for base in type(source).__mro__):
        from counton.results.spark_frames import rows_of

        with _file_named_in_errors("the Spark frame"):
            rows, facts = rows_of(cast("Any", source))
            file = _file("the Spark frame", rows, facts)
    else:
        path: Any = source
        if not isinstance(path, str | os.PathLike) or not os.path.isfile(path):
            shown = hide_secrets(path) if isinstance(path, str) else quote(path)
            raise InvalidInputError(
                f"{shown!r} is not a file: give a table that a run or an export wrote"
            )
        with _file_named_in_errors(os.fspath(source)):
            file = _open_file(Path(source))
    with _file_named_in_errors(file.label):
        stored_name = file.described["terms"]["name"]
        if stream not in (None, stored_name):
            raise InvalidInputError(
                f"{file.label!r} belongs to stream {stored_name!r}: correct "
                f"{param('stream', stream)}"
            )
        numbers = _release_of(file, confidence_level)
        for note in file.notes:
            if note not in numbers.notes:
                numbers = numbers.with_note(note)
        table_of(numbers.only(numbers.steps[-1:]))  # an unreadable release is refused
        release = Release(numbers)
        release.describe()
    return release


def read_public(
    path: str | os.PathLike[str],
    *,
    stream: str | None = None,
    confidence_level: float | None = None,
) -> Release | None:
    """Read a released table, as `read` does; None if the source is a state."""
    return read(path, stream=stream, confidence_level=confidence_level) if is_table(path) else None


def is_table(path: str | os.PathLike[str]) -> bool:
    """Return True for the path of a released table, by its ending; False for a state."""
    return Path(path).suffix.lower() in TABLES


def _release_of(file: _File, level: float | None) -> ReleaseData:
    """Return the release that a file contains."""
    described = file.described
    design = Design.from_dict(described["terms"])
    metadata = ReleaseMetadata.of(design, described)
    level = check_confidence_level(described["confidence_level"] if level is None else level)
    last = file.last() or int(described.get("steps", 0))
    horizon = design.strategy.horizon
    if horizon is not None and last > horizon:
        raise InvalidInputError(
            f"it has a row of step {last:,}, but the stream ends with step {horizon:,}: correct "
            "the row"
        )
    if (numbers := last * max(1, len(described["groups"] or ()))) > _MOST_NUMBERS:
        raise InvalidInputError(
            f"it has {numbers:,} numbers up to step {last:,}, and at most {_MOST_NUMBERS:,} can be "
            "read: export fewer groups (counton export), and read that file"
        )
    read_numbers = _results_of_file
    if metadata.statistic.additive and not metadata.ranks:
        read_numbers = _cells
    release_numbers = read_numbers(file, metadata, design, level)
    if "revisions" in described:
        return _with_revisions(release_numbers, described)
    return release_numbers


def _with_revisions(release: ReleaseData, described: Mapping[str, Any]) -> ReleaseData:
    """Add the counts of all earlier releases, if windows are released again."""
    from counton.results.revisions import Revisions

    strategy: Any = release.design.strategy
    design: Any = replace(release.design, strategy=strategy.windows)
    since = _since(described)
    additive = release.metadata.statistic.additive
    names = release.metadata.groups if since is None else tuple(since)
    cells = (len(names),) if additive else release.design.shape
    if since is not None:
        cells = (len(names), *release.metadata.inner.cells)
    values = unpack(described["revisions"], (*cells, design.strategy.facts.versions))
    return replace(release, revisions=Revisions(design, values, since))


@contextmanager
def _file_named_in_errors(label: str) -> Iterator[None]:
    """Add a file's name to errors."""
    try:
        yield
    except MissingDependencyError:
        raise
    except CountonError as error:
        if label in str(error):
            raise
        kind = StateError if isinstance(error, StateError) else InvalidInputError
        raise kind(f"{label!r} cannot be read: {error.template}") from error
    except (
        *_READING_ERRORS,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,  # not an Exception
    ) as error:
        why = str(error).split("\n")[0][:300] or "it was changed"
        raise InvalidInputError(
            f"{label!r} cannot be read as a released table ({why}): give it as counton wrote it"
        ) from error


def _open_file(path: Path) -> _File:
    kind = path.suffix.lower()
    if kind not in TABLES:
        raise InvalidInputError(
            f"{str(path)!r} is not a kind of table that can be read back; give {', '.join(TABLES)}"
        )
    facts = facts_in(path)
    rows = _rows(path, kind)
    if not rows.width and facts is not None:  # nothing is shown yet
        rows = _empty_table()
    if facts is None or facts.get("description") is None:
        if facts:
            raise InvalidInputError(
                f"{str(path)!r} states a guarantee ({quote(facts.get('name'))}), but has no "
                "description of its stream, because the stream was not made from events: give the "
                "state instead"
            )
        location = "its metadata" if kind == ".parquet" else f"{path.name}.json beside it"
        raise InvalidInputError(
            f"{str(path)!r} has no description of its stream in {location}, so it is not a "
            "released table. If another tool cut it from a released table, cut that one by "
            f"counton export ({param('windows')}, {param('groups')})"
        )
    return _file(str(path), rows, facts)


def _empty_table() -> pl.DataFrame:
    """Return a table without rows, for JSON."""
    whole = pl.Int64
    schema = {
        "window_index": whole,
        "series": pl.String,
        "group": pl.String,
        "estimate": whole,
    }
    return pl.DataFrame(schema=schema)


def _rows(path: Path, kind: str) -> pl.DataFrame:
    if kind == ".parquet":
        return pl.read_parquet(path)
    if kind == ".json":
        data = path.read_bytes()
        structure_of(data)  # refuses JSON that lies too deep
        return pl.read_json(data, infer_schema_length=None)
    names = pl.scan_csv(path, infer_schema=False).collect_schema().names()
    numeric = {column.name for column in COLUMNS if column.type is not ColumnType.TEXT}
    texts = {name: pl.String() for name in names if name not in numeric}
    rows = pl.read_csv(path, schema_overrides=texts, infer_schema_length=None)
    return rows.with_columns(pl.col(pl.String).str.replace(_PROTECTED_FORMULA, "${1}"))


def _file(label: str, rows: pl.DataFrame, facts: Mapping[str, Any]) -> _File:
    described = facts["description"]
    if described.get("format") != FORMAT:
        raise StateError(
            f"{label!r} has a description of format {described.get('format')!r}; this version "
            f"reads format {FORMAT}: read it with the version of counton that wrote it "
            f"({facts.get('written_by')})"
        )
    if described.get("once"):
        rows = _with_steps(rows)
    if "window_index" not in rows.columns:
        raise InvalidInputError(
            f"{label!r} has no column 'window_index' any more: give the file with it"
        )
    rows = rows.with_columns(pl.col("window_index").cast(pl.Int64))
    least: Any = rows["window_index"].min()
    if rows["window_index"].null_count() or (least is not None and least < 1):
        raise InvalidInputError(
            f"{label!r} has a row without a window (window_index counts from 1): correct the row"
        )
    notes = facts.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise InvalidInputError(
            f"{label!r} has notes that are not a list of sentences: give the file as counton wrote "
            "it"
        )
    return _File(label, rows, described, tuple(notes))


def _with_steps(table: pl.DataFrame) -> pl.DataFrame:
    """Add the column of steps to a table that was released once."""
    if "window_index" in table.columns:
        return table
    return table.with_columns(window_index=pl.lit(1, pl.Int64))


def _cells(file: _File, metadata: ReleaseMetadata, design: Design, level: float) -> ReleaseData:
    """Return the counts or sums that a file contains."""
    since = _since(file.described)
    if since is not None and metadata.windows.n_revisions:  # versions may be of later steps
        last_step = design.strategy.horizon or 0
        since = {group: first for group, first in since.items() if first <= last_step}
    groups = metadata.groups if since is None else tuple(since)
    last = file.last() or int(file.described["steps"])
    numbers_by_series = _numbers_by_series(file, metadata, design, groups, last)
    has_all_series = np.logical_and.reduce([part.has_row for part in numbers_by_series.values()])
    may_lack = np.zeros_like(has_all_series)
    if since is not None:
        may_lack = _is_before_first_release(since, metadata.windows.n_revisions, last)
    first_series = next(iter(numbers_by_series))
    totals = numbers_by_series[first_series].numbers
    has_total = None
    own_series = {series: part.numbers for series, part in numbers_by_series.items()}
    if first_series.name != DECAYED and metadata.widths:
        totals, has_total = _totals_in(first_series, numbers_by_series[first_series], design)
    elif first_series.name != DECAYED:
        del own_series[first_series]
    is_complete = bool((has_all_series | may_lack).all())
    numbers = ReleaseData.of(
        metadata,
        design,
        totals,
        level,
        since=since,
        is_present=None if is_complete else has_all_series | may_lack,
        own_series=own_series,
        has_total=has_total,
    )
    return _only_where_present(numbers, groups, has_all_series)


class _SeriesNumbers(NamedTuple):
    """The numbers of one series in a file, by step and group.

    Attributes:
        numbers: the estimates; 0 where the file has no row.
        has_row: for each number whether the file has its row.
    """

    numbers: Any
    has_row: NDArray[np.bool_]


def _numbers_by_series(
    file: _File, metadata: ReleaseMetadata, design: Design, groups: Sequence[str], last: int
) -> dict[PublishedSeries, _SeriesNumbers]:
    """Return the numbers of each published series of a file, up to step ``last``."""
    rows = _rows_of_groups(file, groups)
    estimates = _estimates(file.label, rows, design, is_decayed=metadata.half_life is not None)
    step_index = rows["window_index"].to_numpy() - 1
    group_index = rows["group_index"].to_numpy()
    numbers_by_series: dict[PublishedSeries, _SeriesNumbers] = {}
    for series in metadata.published_series:
        is_of_series = _is_of_series(file, rows, series)
        places = step_index[is_of_series], group_index[is_of_series]
        numbers = np.zeros((last, len(groups)), estimates.dtype)
        numbers[places] = estimates[is_of_series]
        has_row = np.zeros(numbers.shape, np.bool_)
        has_row[places] = True
        numbers_by_series[series] = _SeriesNumbers(numbers, has_row)
    return numbers_by_series


def _is_before_first_release(
    since: Mapping[str, int], n_revisions: int, last: int
) -> NDArray[np.bool_]:
    """Return for each step up to ``last`` and undeclared group whether no number is released."""
    first_steps = np.array([*since.values()], np.int64) - n_revisions
    return np.asarray(np.arange(1, last + 1)[:, None] < first_steps)


def _only_where_present(
    numbers: ReleaseData, groups: Sequence[str], is_present: NDArray[np.bool_]
) -> ReleaseData:
    """Leave out first steps without any row, and groups without any row unless all lack rows."""
    last = len(is_present)
    has_step = is_present.any(axis=1)
    first = int(np.argmax(has_step)) + 1 if has_step.any() else 1
    steps = range(first, last + 1) if first > 1 else None
    kept_groups = [groups[place] for place in np.flatnonzero(is_present.any(axis=0)).tolist()]
    is_selection = 0 < len(kept_groups) < len(groups)
    return numbers.only(steps, kept_groups if is_selection else None)


def _is_of_series(file: _File, rows: pl.DataFrame, series: PublishedSeries) -> NDArray[np.bool_]:
    """Return which rows of a file belong to a series."""
    is_of_series = rows["series"] == series.name
    if series.width is not None:
        if "n_windows" not in rows.columns:
            raise InvalidInputError(
                f"{file.label!r} has no column 'n_windows' any more: give the file with it"
            )
        is_of_series &= rows["n_windows"] == series.width
    return is_of_series.fill_null(value=False).to_numpy()


def _totals_in(
    series: PublishedSeries, file_numbers: _SeriesNumbers, design: Design
) -> tuple[IntegersOrFloats, NDArray[np.bool_]]:
    """Return the totals that follow from a series of a file, and where they do.

    Args:
        series: totals, or sums of the last windows.
        file_numbers: its numbers in the file.
        design: the design of the stream.
    """
    numbers = file_numbers.numbers
    if series.width is None:
        return numbers, file_numbers.has_row
    units = np.rint(numbers / float(design.units.released)).astype(np.int64)  # exact sums
    has_total = file_numbers.has_row.copy()
    for step in range(series.width, len(numbers)):
        units[step] += units[step - series.width]
        has_total[step] &= has_total[step - series.width]
    return design.to_data(units), has_total


def _rows_of_groups(file: _File, groups: Sequence[str]) -> pl.DataFrame:
    """Return the rows with a number, and with the index of their group in ``group_index``."""
    rows = file.rows
    needed = ["series", "estimate", *(["group"] if len(groups) > 1 else [])]
    lost = [name for name in needed if name not in rows.columns]
    if lost:
        raise InvalidInputError(
            f"{file.label!r} has no column {lost[0]!r} any more: give the file with it"
        )
    rows = rows.drop_nulls("estimate")  # a removed number counts as a missing row
    named = rows["group"] if "group" in rows.columns else pl.Series([groups[0]] * rows.height)
    place = {group: number for number, group in enumerate(groups)}
    other = set(named.unique().to_list()) - set(place)
    if other:
        raise InvalidInputError(
            f"{file.label!r} has a group {sorted(map(str, other))[0]!r}, which its description "
            "does not list: give the file as counton wrote it"
        )
    if not place:
        return rows.with_columns(group_index=pl.lit(0, pl.Int64))
    return rows.with_columns(group_index=named.replace_strict(place, return_dtype=pl.Int64))


def _estimates(
    label: str, rows: pl.DataFrame, design: Design, *, is_decayed: bool
) -> IntegersOrFloats:
    """Return the numbers of a file: integers if all are whole; refuse what was not released."""
    number = rows["estimate"].cast(pl.Float64).to_numpy()
    if not np.isfinite(number).all():
        raise InvalidInputError(f"{label!r} has an estimate that is not a number: correct it")
    if is_decayed:  # the weights of windows are not whole
        return number
    unit = float(design.units.released)
    if not np.allclose(number / unit, np.rint(number / unit), 1e-9, 1e-6):
        raise InvalidInputError(
            f"{label!r} has an estimate that is not a multiple of {unit:g}, but all released "
            "numbers are: give the file as counton wrote it"
        )
    is_whole = design.contribution.resolution is None and not design.strategy.facts.fraction_bits
    return rows["estimate"].cast(pl.Int64).to_numpy() if is_whole else number


def _since(described: Mapping[str, Any]) -> dict[str, int] | None:
    """Return the first step of each undeclared group, in order of appearance."""
    since = described.get("since")
    if since is None:
        return None
    return dict(sorted(since.items(), key=lambda entry: (entry[1], entry[0])))


def _cell_values(file: _File, design: Design) -> IntegersOrFloats:
    """Return the released cells in a file, ``(steps, cells)``; refuse too many."""
    if (cells := file.described.get("cells")) is None:
        raise InvalidInputError(
            f"{file.label!r} shows only results of {design.name!r}, and the more than "
            f"{MOST_CELLS:,} numbers behind them are not in the file: read its rows as a plain "
            "table"
        )
    return unpack(cells, (-1,))


def _stored_rows(file: _File, numbers: ReleaseData) -> pl.DataFrame | None:
    """Return the rows of a file, as columns that identify them; None: none is missing."""
    table = _with_steps(table_of(numbers))
    rows = file.rows
    names = labels_of(table)
    if lost := [name for name in names if name not in rows.columns]:
        raise InvalidInputError(
            f"{file.label!r} has no column {lost[0]!r} any more, which tells its rows apart: "
            "give the file with it"
        )
    stored_rows = rows.select(pl.col(name).cast(table.schema[name], strict=False) for name in names)
    return None if rows_among(table, stored_rows).height == table.height else stored_rows


def _results_of_file(
    file: _File, metadata: ReleaseMetadata, design: Design, level: float
) -> ReleaseData:
    """Return the release computed from released cells: not of counts and sums, but rankings."""
    described = file.described
    rows = file.rows
    shown = DisplaySelection.from_dict(described["shown"])
    since = _since(described)
    metadata = metadata if metadata.ranks else with_shown_groups(metadata, shown)
    if since is not None:
        values = _cell_values(file, design)
        numbers = ReleaseData.of(metadata, design, values, level, since=since, shown=shown)
    elif not rows.height:
        raise InvalidInputError(
            f"{param('source', file.label)} has no rows, because nothing was released: read it "
            "after the first release"
        )
    else:
        values = _cell_values(file, design)
        values = values.reshape(len(values), *design.shape)
        numbers = ReleaseData.of(metadata, design, values, level, shown=shown)
    stored_steps = rows["window_index"].sort()
    numbers = numbers.only(
        range(stored_steps[0], stored_steps[-1] + 1) if len(stored_steps) else numbers.steps
    )
    if (
        metadata.domain is not None
        and "group" in rows.columns
        and isinstance(metadata.statistic, Grouped)
    ):
        stored_groups = {*rows["group"].unique().to_list()}
        groups = [group for group in metadata.groups if group in stored_groups]
        if groups and len(groups) < len(metadata.groups):
            numbers = numbers.only(groups=groups)
    return replace(numbers, stored_rows=_stored_rows(file, numbers))
