"""How the readings of a statistic are asked for and printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from counton.cli.printing import print_files, print_line, print_table, print_words
from counton.cli.words import progress_line, protection
from counton.columns import readable
from counton.exact import figures
from counton.jobs.writing import ROOM, Outputs, Written

if TYPE_CHECKING:
    import polars as pl

    from counton.jobs import Outcome

#: Rows on the screen.
_ROWS = 20


def show_rows(
    console: Console,
    outcome: Outcome,
    written: Written,
    outputs: Outputs,
) -> None:
    """Print words and the last step's readings."""
    definition, after, job = outcome.definition, outcome.after, outputs.job
    released, table = written.released, written.table
    assert released is not None
    assert table is not None
    print_line(console, progress_line(outcome), bold=True)
    words = protection(outcome)
    if "level" in table.columns:  # of nodes, which are functions of what is measured
        by_level = table.group_by("level", maintain_order=True).agg("std")
        parts = [f"{name} {figures(max(stds))}" for name, stds in by_level.iter_rows()]
        words.append(("noise", f"standard deviation at step {after:,}: {', '.join(parts)}"))
    elif definition.statistic.stream == definition.what:
        most = float(table["std"].max())  # type: ignore[arg-type]
        words.append(("noise", f"standard deviation up to {figures(most)} at step {after:,}"))
    elif "std" in table.columns:
        std = float(released.terms.std(range(after, after + 1))[0])
        words.append(("noise", f"standard deviation {figures(std)} of one cell at step {after:,}"))
    print_words(console, words)
    when = ""
    if definition.cut is not None:
        ended = str(released.ended(after).astype("datetime64[s]"))
        when = f" ({ended.replace('T', ' ')}, {definition.cut.timezone})"
    which = "after" if job.over is None else "in"
    if job.over is not None and job.over > 1:
        which = f"in the {job.over:,} steps up to"
    at_once = ""
    if definition.discovery is not None:
        at_once = f" for all of up to {job.given('room') or ROOM:,} groups at once"
    level = f"intervals of {100 * outputs.level:g}%{at_once}"
    print_line(console, f"\n{which} step {after:,}{when}, {level}")
    if table.height:
        print_rows(console, table.drop("step", "window_start", "window_end", strict=False))
    elif job.over is not None:
        print_line(console, "nothing yet: fewer steps are released than are to be looked back over")
    else:
        print_line(console, "no group is large enough to be shown yet")
    print_files(console, outputs.out, outputs.plot if written.drawn else None)


def print_rows(console: Console, rows: pl.DataFrame) -> None:
    """The largest of some rows."""
    shown = Table()
    for name, kind in rows.schema.items():
        shown.add_column(name, justify="right" if kind.is_numeric() else "left", overflow="fold")
    most = rows
    if rows.height > _ROWS and "estimate" in rows.columns:
        most = rows.sort("estimate", descending=True, maintain_order=True)
    for row in zip(*readable(most.head(_ROWS).to_dict(as_series=False)), strict=True):
        shown.add_row(*row)
    print_table(console, shown)
    if rows.height > _ROWS:
        print_line(
            console, f"the {_ROWS} largest of {rows.height:,} rows: a table (--out) has them all"
        )


def finite(table: pl.DataFrame) -> pl.DataFrame:
    """Null for numbers that JSON does not have: the deviation of a mean of next to no values."""
    import polars as pl

    names = [name for name, kind in table.schema.items() if kind.is_float()]
    return table.with_columns(
        [pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in names]
    )
