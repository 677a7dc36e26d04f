"""``counton reproduce``: a paper's numbers beside those computed here, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from counton.cli.printing import print_json, print_line, print_table
from counton.reproduce import ErrorRow, reproduce


def print_reproduction(paper: str, folder: str | None, as_json: bool, quick: bool) -> None:
    """Compute, draw, compare.

    Raises:
        InvalidInput: an unknown paper.
    """
    evidence = reproduce(paper, folder or f"reproduce/{paper}", quick=quick)
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
        document: dict[str, Any] = {
            "title": evidence.title,
            "comparisons": rows,
            "figures": figures,
        }
        if evidence.errors:
            document["errors"] = [row._asdict() for row in evidence.errors]
        print_json(document)
        return
    console = Console()
    print_line(console, evidence.title, bold=True)
    _print_errors(console, evidence.errors)
    table = Table()
    for name in ("where", "what", "printed", "computed", ""):
        table.add_column(name, justify="right" if name in ("printed", "computed") else "left")
    for row in evidence.comparisons:
        verdict = "agrees" if row.agrees else "DIFFERS"
        printed = f"at most {row.printed}" if row.at_most else row.printed
        table.add_row(row.place, row.quantity, printed, f"{row.computed:.6g}", verdict)
    print_table(console, table)
    for row in evidence.comparisons:
        if row.note:
            print_line(console, f"{row.place}, {row.quantity}: {row.note}")
    for path in evidence.figures:
        print_line(console, f"figure written to {path}")


def _print_errors(console: Console, errors: Sequence[ErrorRow]) -> None:
    """Standard deviations: a table for each guarantee and metric, a column for each horizon."""
    asked = dict.fromkeys((row.guarantee, row.metric) for row in errors)
    for guarantee, metric in asked:
        some = [row for row in errors if (row.guarantee, row.metric) == (guarantee, metric)]
        horizons = list(dict.fromkeys(row.horizon for row in some))
        table = Table(box=SIMPLE_HEAD)
        table.add_column(f"{guarantee}: {'mean' if metric == 'mean' else 'largest'}")
        for horizon in horizons:
            table.add_column(
                f"{horizon:,}" if horizon < 10**6 else f"{horizon:.3g}", justify="right"
            )
        for name in dict.fromkeys(row.mechanism for row in some):
            found = {row.horizon: row.std for row in some if row.mechanism == name}
            cells = (f"{found[h]:.2f}" if h in found else "" for h in horizons)
            table.add_row(name, *cells)
        print_table(console, table)
    for name, source in dict.fromkeys((row.mechanism, row.source) for row in errors):
        if not source.startswith("counton"):
            print_line(console, f"{name}: {source}")
