"""Facts in a file of released numbers: the guarantee, and all that answers to questions need."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counton.base.arrays import IntegersOrFloats
from counton.base.distributions import distribution_to_dict
from counton.base.lazy import software
from counton.base.outside_input import inflate, parse_json
from counton.continual import Design, Releases
from counton.continual.intervals import node_reads
from counton.results.counted_windows import AllToDate, LastWindows, PeriodToDate
from counton.results.privacy_text import counting_rule, users_note_of
from counton.results.systematic_errors import adds_users_up, systematic_errors
from counton.results.window_notes import withdrawn_cells
from counton.statistics.live_statistic import noise_at
from counton.statistics.results import StatisticResults
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData
    from counton.results.revisions import Revisions

#: Largest number of released cells that a description contains.
MOST_CELLS = 2**22


def pack(values: IntegersOrFloats) -> dict[str, object]:
    """Compress an array of integers or floats by step, without loss, to JSON values.

    >>> pack(np.array([[3, 5], [4, 5]]))["steps"]
    2
    """
    kind = "i8" if values.dtype.kind == "i" else "f8"
    flat = np.ascontiguousarray(values.reshape(len(values), -1), f"<{kind}")
    # A step's values are like those of the step before it.
    moved = flat.view(np.int64).copy()
    moved[1:] -= flat.view(np.int64)[:-1]
    data = base64.b64encode(zlib.compress(moved.tobytes(), 6)).decode("ascii")
    return {"type": kind, "steps": len(values), "data": data}


def unpack(packed: Mapping[str, Any], shape: tuple[int, ...]) -> IntegersOrFloats:
    """Return the array that `pack` compressed, in shape ``(steps, *shape)``.

    Raises:
        InvalidInputError: there are more than `MOST_CELLS` cells.
        ValueError: the values were not packed, or a cell is not a number.
    """
    moved = np.frombuffer(inflate(base64.b64decode(packed["data"]), 8 * MOST_CELLS), "<i8")
    flat = np.cumsum(moved.reshape(int(packed["steps"]), -1), axis=0).astype("<i8")
    values = flat if packed["type"] == "i8" else flat.view("<f8")
    if not np.isfinite(values).all():
        raise ValueError("the number of a cell cannot be read")
    return np.asarray(values.reshape(len(values), *shape))


#: Format version of the description in a file.
FORMAT = 4

#: Endings of tables.
TABLES = (".parquet", ".csv", ".json")
#: Key in the metadata of an Arrow schema under which pandas stores attributes of a table.
ATTRS = "PANDAS_ATTRS"


def about(
    design: Design,
    level: float,
    people: str | None = None,
    steps: Sequence[int] = (),
    *,
    once: str | None = None,
    since: int | None = None,
) -> dict[str, object]:
    """Return the guarantee of a released table as public JSON values.

    Args:
        people: a note on people whose rows are not all protected together.
        steps: of the table; the standard deviation is that of the last one.
        once: the name of a table that is released once.
        since: the step before the first of a sum of several steps in the last row.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(1), key=Key.generate(), name="visits")
    >>> about(counter.design, 0.95)["guarantee"]
    'pure differential privacy with epsilon = 1'
    """
    unit = design.contribution
    guarantee = design.guarantee
    noise: dict[str, object] = {"family": distribution_to_dict(design.distribution)["law"]}
    if len(steps) and not once:
        last = int(steps[-1])
        std, described_number = noise_at(design, last, since)
        noise |= {
            "std": std,
            **({} if described_number is None else {"of": described_number}),
            "step": last,
        }
        if design.statistic is None and since is None:
            reads = node_reads(design.strategy, design.distribution, last)
            noise |= {} if reads is None else {"reads": reads._asdict()}
    return {
        "name": design.name,
        "released": once or "stream",
        "unit": unit.unit,
        "protected": unit.describe(),
        **({} if people is None else {"people": people}),
        "guarantee": str(guarantee),
        "meaning": guarantee.meaning_for(unit.unit, unit.relation),
        "terms": {"guarantee": guarantee.to_dict(), "contribution": unit.to_dict()},
        "strategy": repr(design.strategy),
        "noise": noise,
        "confidence_level": level,
        "written_by": software(),
    }


def facts_in(path: Path) -> dict[str, object] | None:
    """Return the guarantee and the description that a released table carries, as JSON values; None
    if it carries none.
    """
    if path.suffix.lower() == ".parquet":
        parquet_metadata = pl.read_parquet_metadata(path)
        text = parquet_metadata.get("counton")
        if text is None and ATTRS in parquet_metadata:  # rewritten by pyarrow or pandas
            text = parse_json(parquet_metadata[ATTRS]).get("counton")
        return None if text is None else dict(parse_json(text))
    metadata_file = path.with_name(f"{path.name}.json")
    if not metadata_file.is_file():
        return None
    return dict(parse_json(metadata_file.read_bytes()))


def guarantee_of_stream(numbers: ReleaseData) -> dict[str, Any]:
    """Return the guarantee, a part of `facts_of`."""
    metadata = numbers.metadata
    once = None if metadata.windows.is_recurring else metadata.statistic_name
    people = users_note_of(metadata)
    since = None
    if numbers.steps and isinstance(numbers.counted_windows, PeriodToDate):
        since = int(numbers.begins_of(numbers.steps[-1:])[0])
    facts = about(numbers.design, numbers.level, people, numbers.steps, once=once, since=since)
    rule = counting_rule(metadata)
    facts |= {} if rule is None else {"counted": rule}
    lines = systematic_errors(metadata)
    facts |= {"systematic_errors": lines} if lines else {}
    facts |= {"notes": [*numbers.notes]} if numbers.notes else {}
    return facts


def facts_of(numbers: ReleaseData) -> dict[str, Any]:
    """Return the guarantee and the description in a file, as JSON values."""
    facts = guarantee_of_stream(numbers) | _shown_numbers(numbers)
    if isinstance(numbers.published, Releases) or numbers.design.part is not None:
        return facts  # rows are not enough for `counton.read` to restore it
    metadata = numbers.metadata
    since = numbers.since
    description = {"format": FORMAT, "terms": numbers.design.public(), **metadata.public()}
    description["confidence_level"] = numbers.level
    if metadata.statistic.additive:
        description["steps"] = numbers.steps.stop - 1
    if numbers.revisions is not None:  # they have all groups that were shown at any time
        since = numbers.revisions.since
    if since is not None:
        names = numbers.groups if metadata.ranks else since
        description["since"] = {group: since[group] for group in names}
    if not metadata.shows_cells:
        description["shown"] = numbers.shown.to_dict()
    if (cells := cells_of(numbers)) is not None:
        description["cells"] = pack(cells)
    if numbers.revisions is not None and numbers.revisions.values.size <= MOST_CELLS:
        description["revisions"] = pack(_versions_of(numbers, numbers.revisions))
    return facts | {"description": description}


def _shown_numbers(numbers: ReleaseData) -> dict[str, object]:
    """Return what a file states about the numbers that are not counts or sums."""
    metadata = numbers.metadata
    if metadata.ranks:  # the number of possible groups, from which these are chosen
        return {"room": numbers.shown.room}
    if not isinstance(numbers.published, StatisticResults):
        return {}
    facts: dict[str, object] = {"statistic": numbers.design.statistic}
    if metadata.windows.is_recurring:
        facts["counted"] = _counted_windows(numbers)
    return facts


def _counted_windows(numbers: ReleaseData) -> str:
    """Return which windows the numbers of a statistic count, in words."""
    windows = f"{numbers.metadata.windows.noun}s"
    match numbers.counted_windows:
        case AllToDate():
            words = f"all {windows} to date"
        case LastWindows(n_windows):
            words = f"the last {n_windows:,} {windows}"
        case PeriodToDate(period):
            words = f"the {period} to date"
    users_note = adds_users_up(numbers.metadata)
    return words if users_note is None else f"{words}, {users_note}"


def _versions_of(numbers: ReleaseData, revisions: Revisions) -> IntegersOrFloats:
    """Return the numbers of windows in all releases; 0 for those that are withdrawn."""
    withdrawn = withdrawn_cells(numbers.metadata.notes, numbers.steps, numbers.metadata.groups)
    if not withdrawn.any():
        return revisions.values
    values = np.array(revisions.values)
    for lag in range(revisions.lags + 1):
        values[lag:, ..., lag][withdrawn[: max(len(values) - lag, 0)]] = 0
    return values


def cells_of(numbers: ReleaseData) -> IntegersOrFloats | None:
    """Return the released cells by step, if readers need them and they are not too many."""
    values: Any = None
    if isinstance(numbers.published, StatisticResults):
        values = None if numbers.published.releases is None else numbers.published.releases.values
        if values is not None and numbers.since is not None:
            values = values[:, : len(numbers.since)]
    elif numbers.metadata.ranks:  # the numbers of all shown groups
        values = numbers.cells.values
    return None if values is None or values.size > MOST_CELLS else values
