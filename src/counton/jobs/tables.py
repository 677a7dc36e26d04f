"""Tables released at one go: what ``counton ranges`` and ``counton hierarchy`` do, for Python.

A file of counts is read, its table is released once and journaled in a state, and an outcome says
what was released, as a data frame and as JSON. Errors name the fields of the request.

The same tables over time are statistics like all others (`counton.statistics.Hierarchy`, `Ranges`,
`Contingency`), released by `counton.jobs.run`. This twin stays beside them for three reasons: its
noise has addresses of its own, with known answers which a stream of one step would change; it
measures with weights of 2^20, for which sums that grow for ever have no room; and counts of a file
that is there once have no rows, windows or late corrections. Ledger, key, witness, names and
database are those of streams.

>>> import tempfile
>>> from pathlib import Path
>>> from counton.jobs import RangesRequest, run_ranges
>>> folder = tempfile.TemporaryDirectory()
>>> line = Path(folder.name, "visits.csv")
>>> _ = line.write_text("visits\\n5\\n0\\n17\\n4\\n")
>>> request = RangesRequest(
...     series=line, state=Path(folder.name, "visits.db"), value="visits", rho="0.5", ask="0:2"
... )
>>> first, again = run_ranges(request), run_ranges(request)
>>> first.release.repeated, again.release.repeated, first.table().equals(again.table())
(False, True, True)
>>> folder.cleanup()
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.columns import data_frame
from counton.errors import InvalidInput, field
from counton.events.files import EventFile, is_file, read_domain, table_columns
from counton.jobs.job import (
    ContingencyRequest,
    HierarchyRequest,
    RangesRequest,
    checked,
    guarantee_from,
    needed_guarantee,
)
from counton.jobs.public_tables import (
    labels_of,
    levels_of,
    names_of,
    read_table,
    values_of,
)
from counton.mechanisms.adjusted import AdjustedHierarchy, check_known, notes_on
from counton.mechanisms.contingency import ContingencyDraft, ContingencyRelease
from counton.mechanisms.hierarchy import HierarchyDraft, HierarchyRelease
from counton.mechanisms.ranges import RangesDraft, RangesRelease
from counton.privacy import Contribution
from counton.privacy.contribution import ANY_UNIT
from counton.privacy.guarantees import people_in_words
from counton.statistics.hierarchy import targets_of
from counton.store.table_journal import released
from counton.strategies.trees import Tree

if TYPE_CHECKING:
    pass

_Path = str | os.PathLike[str]
#: Columns of the released line; no label may be called so.
_COLUMNS = ("cell", "estimate", "std", "lower", "upper", "running_total", "running_total_std")


@dataclass(frozen=True)
class Fit:
    """How a released table is made to fit: see `counton.mechanisms.hierarchy`, ``adjusted``.

    Attributes:
        integers: whole numbers that add up.
        nonnegative: none below 0; biased where little is counted.
        known: public totals that are kept: a table with the level columns, some of them or all,
            and a column ``total``; or a mapping from paths to totals.

    >>> bool(Fit()), bool(Fit(integers=True))
    (False, True)
    """

    integers: bool = False
    nonnegative: bool = False
    known: str | os.PathLike[str] | Mapping[Any, int] | None = None

    def __bool__(self) -> bool:
        return self.integers or self.nonnegative or self.known is not None

    def to_dict(self, known: Mapping[Any, int]) -> dict[str, Any]:
        """What a state keeps, JSON values; empty where nothing is asked.

        Args:
            known: the known totals by path.
        """
        totals = sorted(
            [[*map(str, path if isinstance(path, tuple) else (path,))], int(total)]
            for path, total in known.items()
        )
        asked = {"integers": self.integers, "nonnegative": self.nonnegative, "known": totals}
        return {name: value for name, value in asked.items() if value}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Fit:
        """Inverse of `to_dict`."""
        totals = {tuple(path): total for path, total in kept.get("known", ())}
        given = {name: bool(kept.get(name)) for name in ("integers", "nonnegative")}
        return cls(**given, known=totals or None)

    def known_totals(self, tree: Tree, private: _Path | None = None) -> dict[Any, int]:
        """Totals by path, checked against the tree and each other.

        Raises:
            InvalidInput: a file that cannot be read or is the private one, or totals that cannot
                be.
        """
        if self.known is None:
            return {}
        if isinstance(self.known, Mapping):
            totals = dict(self.known)
        else:
            if private is not None and EventFile(private).has_bytes_of(self.known):
                raise InvalidInput(
                    f"{field('known', os.fspath(self.known))} is the file of the private counts; "
                    f"known totals are kept as they are, so they must be public"
                )
            totals = _totals_of(self.known, tree)
        check_known(tree, totals, nonnegative=self.nonnegative)
        return totals

    def adjusted(
        self, release: HierarchyRelease, known: Mapping[Any, int] | None = None
    ) -> AdjustedHierarchy | None:
        """The release made to fit; None if nothing is asked.

        Raises:
            InvalidInput: see `known_totals`.
        """
        if not self:
            return None
        return release.adjusted(
            known=self.known_totals(release.tree) if known is None else known,
            integers=self.integers,
            nonnegative=self.nonnegative,
        )

    def refuse_known(self) -> None:
        """Refuse known totals where there are no levels.

        Raises:
            InvalidInput: there are some.
        """
        if self.known is not None:
            raise InvalidInput(
                f"{field('known')} is for hierarchies; a contingency table has no levels: leave "
                f"it out"
            )


@dataclass(frozen=True)
class TableOutcome(ABC):
    """What a run has released, or had released before.

    Attributes:
        release: the table; ``release.repeated`` says whether the journal answered.
        level: probability with which each interval holds.
    """

    release: RangesRelease | HierarchyRelease | ContingencyRelease
    level: float

    @abstractmethod
    def table(self) -> pl.DataFrame:
        """All that was released, with intervals."""

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """The report's own part, JSON values."""

    @property
    def protected(self) -> str:
        """The protected unit and the neighbouring relation, in words."""
        return self.release.contribution.describe(steps=False)

    @property
    def unprotected(self) -> str:
        """What this is to people, who may stand for many units."""
        return people_in_words(self.release.guarantee, self.release.contribution.unit)

    @property
    def promised(self) -> str:
        """The guarantee and what it means, in words."""
        guarantee, unit = self.release.guarantee, self.release.contribution
        return f"{guarantee}: {guarantee.meaning_for(unit.unit, unit.relation)}"

    def report(self) -> dict[str, Any]:
        """What was released and what is protected, JSON values."""
        return {
            "name": self.release.name,
            "released_before": self.release.repeated,
            "protected": self.protected,
            "people": self.unprotected,
            "guarantee": self.release.guarantee.to_dict(),
            **self.details(),
        }


@dataclass(frozen=True)
class RangesOutcome(TableOutcome):
    """Outcome of `run_ranges`.

    Attributes:
        label: column of the cells' names, if any.
        labels: these names.
        asked: the intervals asked for.
        workload: what the strategy was chosen for.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     line = Path(folder, "visits.csv")
    ...     _ = line.write_text("visits\\n5\\n17\\n")
    ...     outcome = run_ranges(RangesRequest(
    ...         series=line, state=Path(folder, "visits.db"), value="visits", rho="1", ask="0:1"
    ...     ))
    >>> [(answer["start"], answer["stop"]) for answer in outcome.answers()]
    [(0, 1), (0, 2)]
    """

    release: RangesRelease
    label: str | None
    labels: tuple[str, ...] | None
    asked: tuple[tuple[int, int], ...]
    workload: str

    def table(self) -> pl.DataFrame:
        """One row a cell: estimate, std, lower, upper, and the running total up to its end."""
        labels = None if self.label is None else {self.label: self.labels or ()}
        return line_table(self.release, self.level, labels)

    def answers(self) -> list[dict[str, Any]]:
        """The ranges asked for, and the whole line: start, stop, estimate, std, lower, upper."""
        found = []
        for start, stop in [*self.asked, (0, self.release.shape[0])]:
            estimate = float(self.release.sum(start, stop))
            half = float(self.release.halfwidth(start, stop, self.level))
            found.append(
                {
                    "start": start,
                    "stop": stop,
                    "estimate": estimate,
                    "std": float(self.release.std(start, stop)),
                    "lower": estimate - half,
                    "upper": estimate + half,
                }
            )
        return found

    def details(self) -> dict[str, Any]:
        """See `TableOutcome.details`."""
        return {
            "strategy": self.release.strategy,
            "noise": self.release.family,
            "workload": self.workload,
            "expected_error": self.release.expected_error,
            "choices": self.release.plan.rows(),
            "intervals": self.answers(),
        }


@dataclass(frozen=True)
class HierarchyOutcome(TableOutcome):
    """Outcome of `run_hierarchy`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     places, people = Path(folder, "places.csv"), Path(folder, "people.csv")
    ...     _ = places.write_text("state\\nCA\\nNY\\n")
    ...     _ = people.write_text("state,people\\nNY,700\\n")
    ...     outcome = run_hierarchy(HierarchyRequest(
    ...         leaves=people, state=Path(folder, "people.db"), levels="state", value="people",
    ...         domain=places, rho="0.5", unit="inhabitant",
    ...     ))
    >>> outcome.protected
    'one inhabitant, which counts in one cell by at most 1, added or removed'
    """

    release: HierarchyRelease
    adjusted: AdjustedHierarchy | None = None

    @property
    def notes(self) -> list[str]:
        """What a reader has to know besides the numbers."""
        return [] if self.adjusted is None else self.adjusted.notes()

    @property
    def estimates(self) -> Sequence[NDArray[Any]]:
        """The number of each node by level, as it is shown everywhere."""
        return self.release.estimates if self.adjusted is None else self.adjusted.estimates

    @property
    def stds(self) -> Sequence[NDArray[Any]]:
        """The deviation of each node by level."""
        if self.adjusted is not None:
            return self.adjusted.std
        return [np.sqrt(part) for part in self.release.plan.joint_law.variances]

    def table(self) -> pl.DataFrame:
        """All levels in one table: level, the level columns, estimate, std, lower, upper."""
        shown = self.release if self.adjusted is None else self.adjusted
        table: pl.DataFrame = shown.table(level=self.level)
        return table

    def details(self) -> dict[str, Any]:
        """See `TableOutcome.details`."""
        tree = self.release.tree
        return {
            "levels": [
                {"level": name, "nodes": size, "std": self.release.std(name)}
                for name, size in zip(tree.levels, tree.sizes, strict=True)
            ],
            "total": self.estimates[0][0].item(),
            "notes": self.notes,
        }


@dataclass(frozen=True)
class ContingencyOutcome(TableOutcome):
    """Outcome of `run_contingency`.

    Attributes:
        fit: how its numbers are made to fit.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     people = Path(folder, "people.csv")
    ...     _ = people.write_text("sex,smokes\\nf,no\\nm,yes\\n")
    ...     outcome = run_contingency(ContingencyRequest(
    ...         rows=people, state=Path(folder, "people.db"), columns="smokes,sex",
    ...         domain="sex=m,f;smokes=no,yes", rho="0.5",
    ...     ))
    >>> outcome.table().select("smokes", "sex").rows()[:5]
    [(None, None), ('no', None), ('yes', None), (None, 'm'), (None, 'f')]
    """

    release: ContingencyRelease
    fit: Fit = Fit()

    @property
    def notes(self) -> list[str]:
        """What a reader has to know besides the numbers."""
        return notes_on(integers=self.fit.integers, nonnegative=self.fit.nonnegative)

    def table(self) -> pl.DataFrame:
        """Every margin: the columns, empty where all values are added up, and the numbers."""
        table: pl.DataFrame = data_frame(
            self.release.all_margins(
                level=self.level, integers=self.fit.integers, nonnegative=self.fit.nonnegative
            )
        )
        return table

    def details(self) -> dict[str, Any]:
        """See `TableOutcome.details`."""
        release = self.release
        return {
            "columns": {
                name: part.tolist()
                for name, part in zip(release.columns, release.declared, strict=True)
            },
            "noise": release.ranges.family,
            "total": float(release.ranges.cells().sum()),
            "notes": self.notes,
        }


def line_table(
    release: RangesRelease, level: float, labels: Mapping[str, Sequence[str]] | None
) -> pl.DataFrame:
    """Cells with their names, if they have any, intervals, and running totals of a line."""
    table: pl.DataFrame = release.table(level)
    for column, names in (labels or {}).items():
        table.insert_column(1, pl.Series(column, list(names)))
    if len(release.shape) > 1:
        return table
    start = np.arange(release.shape[0])
    zeros = np.zeros_like(start)
    return table.with_columns(
        running_total=release.sum(zeros, start + 1),
        running_total_std=release.std(zeros, start + 1),
    )


def run_ranges(request: RangesRequest, *, level: float = 0.95) -> RangesOutcome:
    """Release a line of counts once, and answer intervals.

    Args:
        request: what is asked.
        level: probability with which each interval of the table holds.

    Raises:
        CountonError: a file that cannot be read, fields that contradict each other, or as
            `counton.release_ranges`. Nothing is released then.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     line = Path(folder, "visits.csv")
    ...     _ = line.write_text("visits\\n5\\n17\\n")
    ...     outcome = run_ranges(RangesRequest(
    ...         series=line, state=Path(folder, "visits.db"), value="visits", rho="1"
    ...     ))
    >>> outcome.table().columns[:5]
    ['cell', 'estimate', 'std', 'lower', 'upper']
    """
    request = checked(request)
    guarantee = needed_guarantee(request.epsilon, request.delta, request.rho)
    asked = _intervals(request.ask)
    labels, counts = _line(request)
    for low, high in asked:
        if high > len(counts):
            raise InvalidInput(
                f"{field('ask', f'{low}:{high}')} reaches beyond the {len(counts):,} cells; cells "
                f"count from 0"
            )
    draft = RangesDraft(
        counts,
        guarantee=guarantee,
        contribution=_contribution(request),
        name=request.name,
        strategy=request.strategy,
        workload=request.workload,
        labels=None if request.label is None or labels is None else {request.label: labels},
    )
    release = released(draft, request.state, request.key)
    return RangesOutcome(
        release=release,
        level=level,
        label=request.label,
        labels=labels,
        asked=tuple(asked),
        workload=request.workload,
    )


def run_hierarchy(
    request: HierarchyRequest, *, level: float = 0.95, fit: Fit | None = None
) -> HierarchyOutcome:
    """Release a table of leaves at all its levels, once.

    Args:
        request: what is asked.
        level: probability with which each interval of the table holds.
        fit: how the table's numbers are made to fit: kept with the release, and of a table that
            was released before as it was kept.

    Raises:
        CountonError: a file that cannot be read, fields that contradict each other, or as
            `counton.release_hierarchy`. Nothing is released then.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     places, people = Path(folder, "places.csv"), Path(folder, "people.csv")
    ...     _ = places.write_text("state,county\\nCA,Napa\\nNY,Kings\\n")
    ...     _ = people.write_text("state,county,people\\nNY,Kings,700\\n")
    ...     outcome = run_hierarchy(HierarchyRequest(
    ...         leaves=people, state=Path(folder, "people.db"), levels="state,county",
    ...         value="people", domain=places, rho="0.5",
    ...     ))
    >>> outcome.table().columns
    ['level', 'state', 'county', 'estimate', 'std', 'lower', 'upper']
    """
    request = checked(request)
    levels = levels_of(request.levels)
    targets = targets_of(request.target)
    guarantee = guarantee_from(request.epsilon, request.delta, request.rho)
    if guarantee is None and targets is None:
        raise InvalidInput(
            f"neither a guarantee nor targets are stated; give {field('rho', 0.5)} for example, or "
            f"{field('target', 'LEVEL=STD,...')} to compute the cost"
        )
    if request.value not in levels:  # else it is named twice, as is said below
        _refuse_private(request.domain, request.leaves, "leaves", request.value)
    tree = Tree.from_leaves(labels_of(read_table(request.domain, levels), levels), levels)
    fit = Fit() if fit is None else fit
    known = fit.known_totals(tree, request.leaves)
    table = read_table(request.leaves, [*levels, request.value], request.value)
    counts = _whole_numbers(table, request.value, request.leaves)
    draft = HierarchyDraft(
        {**labels_of(table, levels), request.value: counts},
        guarantee=guarantee,
        contribution=_contribution(request),
        name=request.name,
        domain=tree,
        value=request.value,
        targets=targets,
    )
    draft.fit = fit.to_dict(known)
    release = released(draft, request.state, request.key)
    adjusted = Fit.from_dict(draft.fit).adjusted(release)
    return HierarchyOutcome(release=release, level=level, adjusted=adjusted)


def run_contingency(
    request: ContingencyRequest, *, level: float = 0.95, fit: Fit | None = None
) -> ContingencyOutcome:
    """Release a contingency table with all its margins, once.

    Args:
        request: what is asked.
        level: probability with which each interval of the table holds.
        fit: as of `run_hierarchy`; known totals are for hierarchies.

    Raises:
        CountonError: a file that cannot be read, fields that contradict each other, or as
            `counton.release_contingency`. Nothing is released then.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     people = Path(folder, "people.csv")
    ...     _ = people.write_text("sex\\nf\\nm\\nf\\n")
    ...     outcome = run_contingency(ContingencyRequest(
    ...         rows=people, state=Path(folder, "people.db"), columns="sex", domain="sex=f,m",
    ...         rho="0.5",
    ...     ))
    >>> outcome.table().columns
    ['sex', 'estimate', 'std', 'lower', 'upper']
    """
    request = checked(request)
    fit = Fit() if fit is None else fit
    fit.refuse_known()
    columns = names_of(request.columns, "columns")
    guarantee = needed_guarantee(request.epsilon, request.delta, request.rho)
    domain = _declared(request, columns)
    wanted = columns if request.value is None else [*columns, request.value]
    table = read_table(request.rows, wanted, request.value)
    rows: dict[str, Any] = dict(labels_of(table, columns))
    if request.value is not None:
        rows[request.value] = _whole_numbers(table, request.value, request.rows)
    draft = ContingencyDraft(
        rows,
        guarantee=guarantee,
        contribution=_contribution(request),
        name=request.name,
        columns=columns,
        domain=domain,
        value=request.value,
        equal=request.equal,
    )
    draft.fit = fit.to_dict({})
    release = released(draft, request.state, request.key)
    return ContingencyOutcome(release=release, level=level, fit=Fit.from_dict(draft.fit))


def _declared(request: ContingencyRequest, columns: Sequence[str]) -> dict[str, list[str]]:
    """The values of each column, in the order stated."""
    domain = request.domain
    file = os.fspath(domain) if isinstance(domain, str | os.PathLike) else None
    if file is not None and is_file(file) and EventFile(request.rows).has_bytes_of(file):
        raise InvalidInput(
            f"{field('domain', file)} is the file of the rows; values found in the data would "
            f"give it away: list what is publicly known to exist"
        )
    return values_of(domain, columns)


def _totals_of(file: _Path, tree: Tree) -> dict[Any, int]:
    """Known totals of a table: level columns, as many as it has, and ``total``."""
    present = EventFile(file).columns()
    levels = [name for name in tree.levels[1:] if name in present]
    if levels != list(tree.levels[1 : len(levels) + 1]) or "total" not in present:
        raise InvalidInput(
            f"{field('known', os.fspath(file))} has the columns {', '.join(present)}; give the "
            f"level columns from the coarsest on ({', '.join(tree.levels[1:])}) and 'total'"
        )
    table = read_table(file, [*levels, "total"], "total")
    numbers = _whole_numbers(table, "total", file)
    labels = [part.tolist() for part in labels_of(table, levels).values()] if levels else []
    totals: dict[Any, int] = {}
    for row, total in enumerate(numbers.tolist()):
        parts = [part[row] for part in labels]
        path = tuple(label for label in parts if label is not None)
        if tuple(parts[: len(path)]) != path or path in totals:
            why = "repeats a node" if path in totals else "names a level below an empty one"
            raise InvalidInput(f"row {row + 1:,} of {os.fspath(file)} {why}: correct it")
        totals[path] = total
    return totals


def _contribution(
    request: RangesRequest | HierarchyRequest | ContingencyRequest,
) -> Contribution:
    unit = request.unit or ANY_UNIT  # the journal takes it for what the state calls it
    return Contribution.replace(unit=unit) if request.move else Contribution.add_remove(unit=unit)


def _refuse_private(domain: Any, private: _Path, what: str, value: str) -> None:
    """Refuse a domain that is the private file, a copy of it, or has counts as it has."""
    if not isinstance(domain, str | os.PathLike) or not is_file(str(domain)):
        return
    how = None
    if is_file(str(private)) and EventFile(private).has_bytes_of(domain):
        how = f"is the file of the {what}"
    elif value in table_columns(domain):
        how = f"has the column of the counts, {value!r}, so it looks like the private {what}"
    if how is not None:
        raise InvalidInput(
            f"{field('domain', domain)} {how}; what has counts would show in "
            f"what is released: list what is publicly known to exist"
        )


def _line(request: RangesRequest) -> tuple[tuple[str, ...] | None, NDArray[np.int64]]:
    """Names of the cells, if they have any, and their counts."""
    label, value = request.label, request.value
    if label is None:
        if request.domain is not None:
            raise InvalidInput(
                f"{field('domain', request.domain)} names cells, but there is no {field('label')}, "
                f"the column with their names; give it"
            )
        return None, _whole_numbers(
            read_table(request.series, [value], value), value, request.series
        )
    if label in _COLUMNS:
        raise InvalidInput(
            f"{field('label', label)} is the name of a column of the released table: rename it"
        )
    if request.domain is None:
        raise InvalidInput(
            f"{field('label', label)} would publish labels and number of the rows in the private "
            f"file; list the public labels, all of them in order: {field('domain')}"
        )
    _refuse_private(request.domain, request.series, "counts", request.value)
    labels = read_domain(request.domain, label)
    table = read_table(request.series, [label, value], value)
    found = _whole_numbers(table, value, request.series)
    place = {name: number for number, name in enumerate(labels)}
    counts = np.zeros(len(labels), np.int64)
    seen: set[str] = set()
    for row, (name, count) in enumerate(
        zip(table[label].cast(pl.String).to_list(), found.tolist(), strict=True), 1
    ):
        if name not in place or name in seen:
            why = "repeats a label" if name in seen else f"is {name!r}, which is not in the domain"
            raise InvalidInput(
                f"row {row:,} of {os.fspath(request.series)}: {label} {why}: declare it, or add "
                f"the counts up, one row a cell"
            )
        seen.add(name)
        counts[place[name]] = count
    return labels, counts


def _whole_numbers(table: pl.DataFrame, column: str, file: _Path) -> NDArray[np.int64]:
    """A column of counts; refused at the first value that is not a whole number."""
    series = table[column]
    numbers = series.cast(pl.Int64, strict=False)
    if series.dtype.is_float():
        numbers = numbers.set(numbers.cast(pl.Float64) != series, None)
    if numbers.null_count():
        row = int(numbers.is_null().arg_max() or 0)
        raise InvalidInput(
            f"row {row + 1} of {os.fspath(file)}: {column} is {series[row]!r}, which is not a "
            f"whole number; repair it or drop the row"
        )
    return numbers.to_numpy()


def _intervals(text: str | None) -> list[tuple[int, int]]:
    if text is None:
        return []
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+):(\d+)\s*", part)
        if not match:
            raise InvalidInput(
                f"{field('ask', part)} is not LOW:HIGH; write 0:24,24:48 for cells 0 to 23 and 24 "
                f"to 47"
            )
        low, high = int(match[1]), int(match[2])
        if low > high:
            raise InvalidInput(f"{field('ask', part)} is reversed; write {high}:{low}")
        found.append((low, high))
    return found
