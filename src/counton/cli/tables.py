"""Tables that are released once: how they are planned and printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from counton.cli.options import Printing
from counton.cli.printing import (
    print_files,
    print_json,
    print_line,
    print_table,
    print_words,
)
from counton.cli.words import progress_line, protection
from counton.columns import ADDED, readable
from counton.exact import figures
from counton.jobs.job import Job
from counton.results.shown import ReleasedStatistic
from counton.statistics.contingency import ContingencyReading
from counton.statistics.hierarchy import HierarchyReading
from counton.statistics.ranges import RangesReading

if TYPE_CHECKING:
    from counton.jobs import Outcome
    from counton.jobs.writing import Outputs, Written

#: Rows shown of nodes, and of margins.
_NODES, _MARGINS = 12, 40


def print_plan(job: Job, printing: Printing) -> None:
    """What a table would be: nothing is read but what is public, and nothing is released."""
    from counton.jobs.table_plans import planned_table

    found = planned_table(job)
    if printing.json:
        print_json({"released": False, **dict(found.words), "errors": list(found.rows)})
        return
    console = Console()
    print_line(console, "A plan: nothing is released.", bold=True)
    print_words(console, list(found.words))
    table = Table()
    for name, value in found.rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in found.rows:
        table.add_row(
            *(f"{figures(one)}" if isinstance(one, float) else str(one) for one in row.values())
        )
    print_table(console, table)


def show_table(console: Console, outcome: Outcome, written: Written, outputs: Outputs) -> None:
    """Print words and the numbers of a table that was released once."""
    released = written.released
    assert isinstance(released, ReleasedStatistic)
    print_line(console, progress_line(outcome), bold=True)
    print_words(console, protection(outcome))
    print_line(console, "")
    for table in _tables(released):
        print_table(console, table)
    for note in released.facts().get("notes", ()):
        print_line(console, f"note: {note}")
    print_files(console, outputs.out, outputs.plot if written.drawn else None)


def _tables(released: ReleasedStatistic) -> list[Table]:
    reading, fit, level = released.reading, released.shown.fit, released.level
    if isinstance(reading, HierarchyReading):
        estimates: Sequence[Any] = reading.estimates
        stds: Sequence[Any] = reading.stds
        if fit is not None:
            fitted = reading.fitted(fit)
            estimates, stds = fitted.estimates, fitted.std
        tree = reading.statistic.tree
        return [_level_table(tree, estimates, stds), _sum_table(tree, estimates, stds)]
    if isinstance(reading, RangesReading):
        ask = released.shown.ask or ()
        whole = f"0:{len(reading.statistic.labels)}"
        return [_answer_table(reading.asked_columns([*ask, whole], level))]
    assert isinstance(reading, ContingencyReading)
    return [_margins_table(list(reading.statistic.columns), released.table())]


def _margins_table(columns: Sequence[str], table: Any) -> Table:
    """The total and the margins of single columns: the first rows of all margins."""
    shown = Table()
    shown.add_column("margin", overflow="fold")
    for name in ADDED:
        shown.add_column(name, justify="right")
    for row in table.head(_MARGINS).iter_rows(named=True):
        named = [f"{name} {row[name]}" for name in columns if row[name] is not None]
        if len(named) > 1:
            break
        numbers = [one[0] for one in readable({name: [row[name]] for name in ADDED})]
        shown.add_row(named[0] if named else "total", *numbers)
    return shown


def _answer_table(answers: Any) -> Table:
    table = Table()
    for name in ("from cell", "to before", "estimate", "std", "lower", "upper"):
        table.add_column(name, justify="right")
    for start, stop, estimate, std, lower, upper in zip(*answers.values(), strict=True):
        table.add_row(
            f"{start:,}",
            f"{stop:,}",
            f"{estimate:,.2f}",
            f"{figures(std)}",
            f"{lower:,.2f}",
            f"{upper:,.2f}",
        )
    return table


def _level_table(tree: Any, estimates: Sequence[Any], stds: Sequence[Any]) -> Table:
    table = Table()
    table.add_column("level")
    table.add_column("nodes", justify="right")
    table.add_column("std", justify="right")
    table.add_column("median estimate", justify="right")
    table.add_column("sum", justify="right")
    higher = 0.0  # leaves that stand above a level belong to its sum
    for depth, (level, size) in enumerate(zip(tree.levels, tree.sizes, strict=True)):
        part = estimates[depth]
        table.add_row(
            level,
            f"{size:,}",
            f"{figures(float(stds[depth].max()))}",
            f"{float(np.median(part)):,.0f}",
            f"{float(part.sum()) + higher:,.2f}",
        )
        if depth + 1 < len(tree.levels):
            higher += float(part[tree.leaves[depth]].sum())
    if any(len(leaves) for leaves in tree.leaves[:-1]):
        table.caption = "sums contain the leaves that stand above their level"
    return table


def _sum_table(tree: Any, estimates: Sequence[Any], stds: Sequence[Any]) -> Table:
    """The total, the coarsest level and the largest of the next: what adds up to what."""
    table = Table()
    table.add_column("node", overflow="fold")
    table.add_column("estimate", justify="right")
    table.add_column("std", justify="right")

    def add(level: int, node: int, text: str) -> None:
        std = float(stds[level][node])
        table.add_row(text, f"{float(estimates[level][node]):,.2f}", f"{figures(std)}")

    add(0, 0, "total")
    if len(tree.levels) == 1:
        return table
    for node in _largest(estimates[1]):
        add(1, node, f"  {tree.path(1, node)[-1]}")
    if tree.sizes[1] > _NODES:
        rest = float(estimates[0][0]) - float(np.sort(estimates[1])[::-1][:_NODES].sum())
        table.add_row(f"  {tree.sizes[1] - _NODES:,} others together", f"{rest:,.2f}", "")
    return table


def _largest(estimates: Any) -> list[int]:
    order = np.argsort(-np.asarray(estimates), kind="stable")
    return [int(node) for node in order[:_NODES]]
