"""The command ``ranges``: release a line of counts once, and answer intervals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from counton.cli.options import RangesOptions
from counton.cli.outputs import write_table
from counton.cli.printing import print_files, print_json, print_table
from counton.cli.single_release import as_json, check_files, print_head, receipts_for
from counton.cli.tables import labels, read_table, whole_numbers
from counton.errors import InvalidInput
from counton.jobs.request import needed_guarantee
from counton.mechanisms.ranges import RangesRelease, release_ranges
from counton.privacy import Contribution
from counton.store.whole_file import replace_file

_SHOWN = 8
_COLUMNS = ("cell", "estimate", "std", "running_total", "running_total_std")


def perform_ranges(options: RangesOptions) -> None:
    """Release, then write and print.

    Raises:
        CountonError: bad input, another release under the same key, or files that do not fit.
    """
    guarantee = needed_guarantee(options.epsilon, options.delta, options.rho)
    asked = _intervals(options.ask)
    check_files(options, [Path(options.series)])
    if options.label in _COLUMNS:
        raise InvalidInput(
            f"--label {options.label!r} is the name of a column of the released table: rename it"
        )
    columns = [options.value] if options.label is None else [options.label, options.value]
    table = read_table(options.series, columns)
    counts = whole_numbers(table, options.value, options.series)
    for low, high in asked:
        if high > len(counts):
            raise InvalidInput(
                f"--ask {low}:{high} reaches beyond the {len(counts):,} cells; cells count from 0"
            )
    receipts = receipts_for(options)
    release = release_ranges(
        counts,
        guarantee=guarantee,
        key=receipts.key,
        name=options.name,
        strategy=options.strategy,
        workload=options.workload,
        contribution=Contribution.replace() if options.move else None,
    )
    terms = {
        "guarantee": release.guarantee.to_dict(),
        "contribution": release.contribution.to_dict(),
        "measured": release.choice.grid.parameters,
    }
    again = receipts.enter(options.name, table.write_csv().encode(), terms=terms)
    names = None if options.label is None else labels(table, [options.label])[options.label]
    write_table(cell_table(release, options.label or "label", names), options.out)
    if options.plot is not None:
        from counton.plots.style import save_figure
        from counton.plots.tables import plot_ranges

        figure = plot_ranges(
            release,
            f"{options.value.capitalize()} of {len(counts):,} cells",
            f"{release.guarantee} protects each single {options.unit} "
            f"({release.contribution.neighbours}); strategy {release.strategy}",
        )
        replace_file(options.plot, lambda name: save_figure(figure, name))
    if options.json:
        print_json(as_json(release, options, again, _details(release, options, asked)))
        return
    console = Console()
    how = f"{release.strategy} with {release.family} noise"
    cells = f"{release.shape[0]:,} cells"
    print_head(console, cells, again, release, options, ("strategy", how), receipts)
    print_table(console, _ranking(release, options.workload))
    print_table(console, _answer_table(release, asked))
    print_files(console, options.out, options.plot)


def _intervals(text: str | None) -> list[tuple[int, int]]:
    if text is None:
        return []
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+):(\d+)\s*", part)
        if not match:
            raise InvalidInput(
                f"--ask {part!r} is not LOW:HIGH; write 0:24,24:48 for cells 0 to 23 and 24 to 47"
            )
        low, high = int(match[1]), int(match[2])
        if low > high:
            raise InvalidInput(f"--ask {part!r} is reversed; write {high}:{low}")
        found.append((low, high))
    return found


def cell_table(
    release: RangesRelease, label: str, names: np.ndarray[Any, Any] | None
) -> pl.DataFrame:
    """One row a cell, with its estimate and the running total up to its end."""
    cells = release.shape[0]
    start = np.arange(cells)
    columns: dict[str, Any] = {"cell": start}
    if names is not None:
        columns[label] = names.tolist()
    zeros = np.zeros_like(start)
    columns |= {
        "estimate": release.sum(start, start + 1),
        "std": release.std(start, start + 1),
        "running_total": release.sum(zeros, start + 1),
        "running_total_std": release.std(zeros, start + 1),
    }
    return pl.DataFrame(columns)


def _answers(release: RangesRelease, asked: list[tuple[int, int]]) -> list[dict[str, Any]]:
    return [
        {
            "low": low,
            "high": high,
            "estimate": float(release.sum(low, high)),
            "std": float(release.std(low, high)),
        }
        for low, high in [*asked, (0, release.shape[0])]
    ]


def _details(
    release: RangesRelease, options: RangesOptions, asked: list[tuple[int, int]]
) -> dict[str, Any]:
    return {
        "strategy": release.strategy,
        "noise": release.family,
        "workload": options.workload,
        "expected_error": release.expected_error,
        "choices": [
            {"strategy": c.name, "noise": c.family, "expected_error": c.expected_error}
            for c in release.plan.choices
        ],
        "intervals": _answers(release, asked),
    }


def _ranking(release: RangesRelease, workload: str) -> Table:
    table = Table(title=f"expected squared error, workload {workload}")
    table.add_column("strategy")
    table.add_column("noise")
    table.add_column("total squared error", justify="right")
    for choice in release.plan.choices[:_SHOWN]:
        table.add_row(choice.name, choice.family, f"{choice.expected_error:,.4g}")
    return table


def _answer_table(release: RangesRelease, asked: list[tuple[int, int]]) -> Table:
    table = Table()
    for name in ("from cell", "to before", "estimate", "std"):
        table.add_column(name, justify="right")
    for answer in _answers(release, asked):
        table.add_row(
            f"{answer['low']:,}",
            f"{answer['high']:,}",
            f"{answer['estimate']:,.2f}",
            f"{answer['std']:,.4g}",
        )
    return table
