"""The command ``ranges``: release a line of counts once, and answer intervals."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from counton.cli.outputs import check_files, receipts_for, write_table
from counton.cli.tables import labels, read_table, whole_numbers
from counton.errors import InvalidInput
from counton.jobs.choices import needed_guarantee
from counton.mechanisms.cells import protected
from counton.mechanisms.ranges import RangesRelease, release_ranges
from counton.privacy import Contribution
from counton.store import Receipts
from counton.store.whole_file import replace_file

_COLUMNS = ("cell", "estimate", "std", "running_total", "running_total_std")


@dataclass(frozen=True)
class RangesRequest:
    """What the command line asked for; options as in ``counton ranges --help``."""

    series: str
    value: str
    out: Path
    label: str | None = None
    ask: str | None = None
    workload: str = "ranges"
    strategy: str = "auto"
    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    move: bool = False
    unit: str = "unit"
    name: str = "ranges"
    key: Path | None = None
    plot: Path | None = None
    json: bool = False


def perform_ranges(request: RangesRequest) -> None:
    """Release, then write and print.

    Raises:
        CountonError: bad input, another release under the same key, or files that do not fit.
    """
    guarantee = needed_guarantee(request.epsilon, request.delta, request.rho)
    asked = _intervals(request.ask)
    check_files(request.out, request.plot, request.key, [Path(request.series)])
    if request.label in _COLUMNS:
        raise InvalidInput(
            f"--label {request.label!r} is the name of a column of the released table: rename it"
        )
    columns = [request.value] if request.label is None else [request.label, request.value]
    table = read_table(request.series, columns)
    counts = whole_numbers(table, request.value, request.series)
    for low, high in asked:
        if high > len(counts):
            raise InvalidInput(
                f"--ask {low}:{high} reaches beyond the {len(counts):,} cells; cells count from 0"
            )
    receipts = receipts_for(request.out, request.key)
    release = release_ranges(
        counts,
        guarantee=guarantee,
        key=receipts.key,
        name=request.name,
        strategy=request.strategy,
        workload=request.workload,
        contribution=Contribution.replace() if request.move else None,
    )
    terms = {
        "guarantee": release.guarantee.to_dict(),
        "contribution": release.contribution.to_dict(),
        "measured": release.choice.grid.parameters,
    }
    again = receipts.enter(request.name, table.write_csv().encode(), terms=terms)
    names = None if request.label is None else labels(table, [request.label])[request.label]
    write_table(cell_table(release, request.label or "label", names), request.out)
    if request.plot is not None:
        from counton.analysis.hierarchy_plot import plot_ranges
        from counton.analysis.plots import save_figure

        figure = plot_ranges(
            release,
            f"{request.value.capitalize()} of {len(counts):,} cells",
            f"{release.guarantee} protects each single {request.unit} "
            f"({release.contribution.neighbours}); strategy {release.strategy}",
        )
        replace_file(request.plot, lambda name: save_figure(figure, name))
    if request.json:
        sys.stdout.write(json.dumps(_report(release, request, asked, again), indent=2) + "\n")
    else:
        _show(Console(), release, request, asked, again, receipts)


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


def _report(
    release: RangesRelease, request: RangesRequest, asked: list[tuple[int, int]], again: bool
) -> dict[str, Any]:
    return {
        "name": request.name,
        "released_before": again,
        "protected": protected(release.contribution, request.unit),
        "guarantee": release.guarantee.to_dict(),
        "strategy": release.strategy,
        "noise": release.family,
        "workload": request.workload,
        "expected_error": release.expected_error,
        "choices": [
            {"strategy": c.name, "noise": c.family, "expected_error": c.expected_error}
            for c in release.plan.choices
        ],
        "intervals": _answers(release, asked),
        "out": str(request.out),
        "plot": None if request.plot is None else str(request.plot),
    }


def _show(
    console: Console,
    release: RangesRelease,
    request: RangesRequest,
    asked: list[tuple[int, int]],
    again: bool,
    receipts: Receipts,
) -> None:
    cells = f"{release.shape[0]:,} cells"
    console.print(
        f"Nothing new: these {cells} were released before; here they are again."
        if again
        else f"Released {cells}.",
        style="bold",
        highlight=False,
    )
    words = Table.grid(padding=(0, 2))
    words.add_column(style="dim", no_wrap=True)
    words.add_column(overflow="fold")
    for name, text in (
        ("protected", protected(release.contribution, request.unit)),
        ("guarantee", f"{release.guarantee}: {release.guarantee.meaning}"),
        ("strategy", f"{release.strategy} with {release.family} noise"),
        ("key", f"{receipts.key_path}; what it released: {receipts.path}"),
    ):
        words.add_row(name, text)
    console.print(words, highlight=False, markup=False)
    ranking = Table(title=f"expected squared error, workload {request.workload}")
    ranking.add_column("strategy")
    ranking.add_column("noise")
    ranking.add_column("total squared error", justify="right")
    for choice in release.plan.choices[:8]:
        ranking.add_row(choice.name, choice.family, f"{choice.expected_error:,.4g}")
    console.print(ranking, highlight=False, markup=False)
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
    console.print(table, highlight=False, markup=False)
    for name, path in (("table", request.out), ("chart", request.plot)):
        if path is not None:
            console.print(
                f"{name} written to {path}", highlight=False, markup=False, soft_wrap=True
            )
