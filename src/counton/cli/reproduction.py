"""``counton reproduce``: papers' numbers beside those computed here, and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from counton.cli.exits import ExitCode
from counton.cli.printing import print_json, print_line, print_table, working
from counton.reproduce import PAPERS, Comparison, ErrorRow, Evidence, reproduce
from counton.reproduce.evidence import counted

_ALL = "all"


def print_reproduction(paper: str, folder: str | None, as_json: bool, quick: bool) -> ExitCode:
    """Compute, draw, compare.

    Returns:
        Different if a number differs and no row says why.

    Raises:
        InvalidInput: an unknown paper.
    """
    found: dict[str, Evidence] = {}
    papers = list(PAPERS) if paper == _ALL else [paper]
    with working(Console(stderr=True)) as report:
        for number, name in enumerate(papers):

            def within(stage: str, share: float, name: str = name, number: int = number) -> None:
                report(f"{name}: {stage}", (number + share) / len(papers))

            if paper == _ALL:
                place = Path(folder or "reproduce") / name
            else:
                place = Path(folder or f"reproduce/{name}")
            found[name] = reproduce(name, place, quick=quick, report=within)
    if as_json:
        shown = {name: _document(evidence) for name, evidence in found.items()}
        print_json({"papers": shown} if paper == _ALL else shown[paper])
    else:
        console = Console()
        for evidence in found.values():
            _print(console, evidence)
        if paper == _ALL:
            every = [row for evidence in found.values() for row in evidence.comparisons]
            print_line(console, f"{len(found)} papers: {counted(every)}", bold=True)
    wrong = any(evidence.wrong for evidence in found.values())
    return ExitCode.DIFFERENT if wrong else ExitCode.OK


def _document(evidence: Evidence) -> dict[str, Any]:
    rows = [
        {
            "place": row.place,
            "quantity": row.quantity,
            "printed": row.printed,
            "computed": float(row.computed),
            "difference": row.difference,
            "kind": row.kind,
            "tolerance": row.tolerance,
            "expected": row.expected or None,
            "agrees": row.agrees,
            "verdict": row.verdict,
            "note": row.note,
        }
        for row in evidence.comparisons
    ]
    document: dict[str, Any] = {
        "title": evidence.title,
        "comparisons": rows,
        "figures": [str(figure.path) for figure in evidence.figures],
    }
    if evidence.errors:
        document["errors"] = [row._asdict() for row in evidence.errors]
    return document


def _print(console: Console, evidence: Evidence) -> None:
    print_line(console, evidence.title, bold=True)
    _print_errors(console, evidence.errors)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    numbers = ("printed", "computed", "difference")
    for name in ("where and what", *numbers, "verdict"):
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in evidence.comparisons:
        table.add_row(
            f"{row.place}: {row.quantity}",
            row.allowed,
            f"{row.computed:.6g}",
            f"{row.difference:.2g}",
            row.verdict,
        )
    print_table(console, table)
    noted: dict[str, list[Comparison]] = {}
    for row in evidence.comparisons:
        noted.setdefault(row.note, []).append(row)
    for note, rows in noted.items():
        if note:
            more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
            print_line(console, f"{rows[0].place}, {rows[0].quantity}{more}: {note}")
    for figure in evidence.figures:
        print_line(console, f"figure written to {figure.path}")
    print_line(console, counted(evidence.comparisons))


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
