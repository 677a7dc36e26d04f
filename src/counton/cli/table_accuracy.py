"""Tables that are released once: how accurate they would be."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from counton.base.exact import figures
from counton.cli.command_options import Printing
from counton.cli.print_forms import print_json, print_line, print_table, print_words
from counton.spec.job import Job


def print_plan(job: Job, printing: Printing) -> None:
    """What a table would be: nothing is read but what is public, and nothing is released."""
    from counton.run.job_plan import planned_table

    words, rows = planned_table(job)
    if printing.json:
        print_json({"released": False, **words, "errors": rows})
        return
    console = Console()
    print_line(console, "A plan: nothing is released.", bold=True)
    print_words(console, [*words.items()])
    table = Table()
    for name, value in rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(
            *(f"{figures(one)}" if isinstance(one, float) else str(one) for one in row.values())
        )
    print_table(console, table)
