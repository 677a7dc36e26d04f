"""``counton reproduce``: a paper's numbers beside those computed here, and its figures."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from counton.cli.printing import print_json, print_line, print_table
from counton.reproduce import reproduce


def print_reproduction(paper: str, folder: str | None, as_json: bool) -> None:
    """Compute, draw, compare.

    Raises:
        InvalidInput: an unknown paper.
    """
    evidence = reproduce(paper, folder or f"reproduce/{paper}")
    if as_json:
        rows = [
            {
                "place": row.place,
                "quantity": row.quantity,
                "printed": row.printed,
                "computed": float(row.computed),
                "agrees": row.agrees,
                "note": row.note,
            }
            for row in evidence.comparisons
        ]
        figures = [str(path) for path in evidence.figures]
        document = {"title": evidence.title, "comparisons": rows, "figures": figures}
        print_json(document)
        return
    console = Console()
    print_line(console, evidence.title, bold=True)
    table = Table()
    for name in ("where", "what", "printed", "computed", ""):
        table.add_column(name, justify="right" if name in ("printed", "computed") else "left")
    for row in evidence.comparisons:
        verdict = "agrees" if row.agrees else "DIFFERS"
        table.add_row(row.place, row.quantity, row.printed, f"{row.computed:.6g}", verdict)
    print_table(console, table)
    for row in evidence.comparisons:
        if row.note:
            print_line(console, f"{row.place}, {row.quantity}: {row.note}")
    for path in evidence.figures:
        print_line(console, f"figure written to {path}")
