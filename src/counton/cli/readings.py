"""How the readings of a statistic are asked for and printed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from counton.cli.options import Outputs
from counton.cli.printing import print_files, print_line, print_table, print_words
from counton.cli.words import progress_line, protection
from counton.errors import InvalidInput, field
from counton.exact import check_integer
from counton.jobs.job import Job
from counton.jobs.kinds import SHOWN, numbers_of
from counton.store.whole_file import replace_file

if TYPE_CHECKING:
    import polars as pl

    from counton.jobs import Definition, Outcome, Released
    from counton.jobs.shown import ReleasedStatistic

#: Groups that there can be where nobody declares them, unless stated.
_ROOM = 1_000_000
#: Rows on the screen.
_ROWS = 20


def asked_of(job: Job, outputs: Outputs) -> tuple[Any, ...] | None:
    """What is asked of a statistic's readings: shares, words, or sets of nodes."""
    if outputs.shares is not None:
        shares = numbers_of(outputs.shares, "shares")
        if not all(0 < share < 1 for share in shares):
            raise InvalidInput(
                f"{field('shares', outputs.shares)} must each be above 0 and below 1; try 0.5, the "
                f"median"
            )
        return tuple(dict.fromkeys(shares))
    if outputs.ask is not None:
        return tuple(dict.fromkeys(name.strip() for name in outputs.ask.split(",")))
    if outputs.cut is not None:
        sets = [[node.strip() for node in side.split(",")] for side in outputs.cut.split(";")]
        return tuple({frozenset(side): side for side in reversed(sets)}.values())[::-1]
    return None


def ranks(job: Job, definition: Definition) -> bool:
    """Whether what is shown is a ranking of groups that nobody declared."""
    return definition.what == "top-k" and definition.discovery is not None


def ranked_rows(job: Job, released: Released | ReleasedStatistic, outputs: Outputs) -> pl.DataFrame:
    """The largest of groups that nobody declared, written and drawn; the rows of the last step."""
    from counton.jobs import Released
    from counton.jobs.discovered_ranking import rankings
    from counton.jobs.outputs import about, write_table

    assert isinstance(released, Released)
    if outputs.over is not None:
        raise InvalidInput(
            f"{field('over', outputs.over)} does not go with {field('unknown', 'discover')}, where "
            f"no group is declared and each is shown from some step on; leave one of them out"
        )
    top = SHOWN if job.top is None else job.top
    table = rankings(released, top, check_integer("room", job.room or _ROOM, 1), outputs.level)
    if outputs.out is not None:
        write_table(table, outputs.out, about(released.terms, outputs.level))
    if outputs.plot is not None and table.height:
        from counton.plots.statistic_charts import plot_statistic
        from counton.plots.style import save_figure
        from counton.statistics import TopK

        ends = released.local_ends()
        figure = plot_statistic(
            TopK(list(released.groups), top),
            {name: table[name].to_numpy() for name in table.columns},
            lambda steps: ends[steps.start - 1 : steps.stop - 1],
            released.terms,
            outputs.level,
            title=outputs.title,
            axis=outputs.axis,
        )
        replace_file(outputs.plot, partial(save_figure, figure))
    return table.filter(table["step"] == released.steps[-1])


def show_rows(
    console: Console,
    outcome: Outcome,
    released: Released | ReleasedStatistic,
    table: pl.DataFrame,
    job: Job,
    outputs: Outputs,
) -> None:
    """Print words and the last step's readings."""
    definition, after = outcome.definition, outcome.after
    print_line(console, progress_line(outcome), bold=True)
    words = protection(outcome)
    if "std" in table.columns:
        std = float(released.terms.std(range(after, after + 1))[0])
        words.append(("noise", f"standard deviation {std:,.4g} of one cell at step {after:,}"))
    print_words(console, words)
    when = ""
    if definition.cut is not None:
        ended = str(released.ended(after).astype("datetime64[s]"))
        when = f" ({ended.replace('T', ' ')}, {definition.cut.timezone})"
    which = "after" if outputs.over is None else f"in the {outputs.over:,} steps up to"
    at_once = ""
    if definition.discovery is not None:
        at_once = f" for all of up to {job.room or _ROOM:,} groups at once"
    level = f"intervals of {100 * outputs.level:g}%{at_once}"
    print_line(console, f"\n{which} step {after:,}{when}, {level}")
    if table.height:
        print_rows(console, table.drop("step", "window_start", "window_end", strict=False))
    elif outputs.over is not None:
        print_line(console, "nothing yet: fewer steps are released than are to be looked back over")
    else:
        print_line(console, "no group is large enough to be shown yet")
    print_files(console, outputs.out, outputs.plot if table.height else None)


def print_rows(console: Console, rows: pl.DataFrame) -> None:
    """The largest of some rows."""
    shown = Table()
    for name, kind in rows.schema.items():
        shown.add_column(name, justify="right" if kind.is_numeric() else "left", overflow="fold")
    most = rows
    if rows.height > _ROWS and "estimate" in rows.columns:
        most = rows.sort("estimate", descending=True, maintain_order=True)
    for row in most.head(_ROWS).iter_rows():
        shown.add_row(*(_cell(value) for value in row))
    print_table(console, shown)
    if rows.height > _ROWS:
        print_line(
            console, f"the {_ROWS} largest of {rows.height:,} rows: a table (--out) has them all"
        )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str("" if value is None else value)


def finite(table: pl.DataFrame) -> pl.DataFrame:
    """Null for numbers that JSON does not have: the deviation of a mean of next to no values."""
    import polars as pl

    names = [name for name, kind in table.schema.items() if kind.is_float()]
    return table.with_columns(
        [pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in names]
    )
