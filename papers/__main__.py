"""`python -m papers PAPER`: a paper's numbers beside those computed here, and its figures.

Exit code 0: all rows agree, or differ as they say; 1: a number differs and no row says why; 2: a
paper that is not known.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from counton.cli.print_forms import Console, print_json, working
from papers import PAPERS, Comparison, ErrorRow, Evidence, reproduce
from papers.evidence import counted
from papers.recorded import held_to_record, record

_ALL = "all"


#: Where figures go if no folder is named.
_FOLDER = "evidence"


def main(words: Sequence[str] | None = None) -> int:
    """Compute, draw, compare; 1 if a number differs and no row says why."""
    parser = argparse.ArgumentParser(
        prog="python -m papers",
        description="Compute papers' tables and figures again and compare their numbers.",
        epilog="Exit code 1: a number differs from the printed one, and no row explains why.",
    )
    parser.add_argument("paper", choices=[*PAPERS, _ALL], help="a paper, a claim, or all")
    parser.add_argument(
        "--folder",
        help=f"write the figures there, of all papers into a folder each; default: {_FOLDER}/PAPER",
    )
    parser.add_argument(
        "--quick", action="store_true", help="leave out what takes minutes; fewer simulated runs"
    )
    parser.add_argument(
        "--record", action="store_true", help="with --quick: keep what is computed, for later runs"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    asked = parser.parse_args(words)
    if asked.record and not asked.quick:
        parser.error("--record keeps what the quick form computes: give --quick too")
    return _print_papers(asked.paper, asked.folder, asked.json, asked.quick, asked.record)


def _print_papers(paper: str, folder: str | None, as_json: bool, quick: bool, keep: bool) -> int:
    found: dict[str, Evidence] = {}
    papers = list(PAPERS) if paper == _ALL else [paper]
    with working(Console(stderr=True)) as report:
        for number, name in enumerate(papers):

            def within(stage: str, share: float, name: str = name, number: int = number) -> None:
                report(f"{name}: {stage}", (number + share) / len(papers))

            if paper == _ALL:
                place = Path(folder or _FOLDER) / name
            else:
                place = Path(folder or f"{_FOLDER}/{name}")
            found[name] = reproduce(name, place, quick=quick, report=within)
    if keep:
        record(found)
        found = {name: held_to_record(name, evidence) for name, evidence in found.items()}
    if as_json:
        shown = {name: _document(evidence) for name, evidence in found.items()}
        print_json({"papers": shown} if paper == _ALL else shown[paper])
    else:
        console = Console()
        for evidence in found.values():
            _print(console, evidence)
        if paper == _ALL:
            every = [row for evidence in found.values() for row in evidence.comparisons]
            console.write_line(f"{len(found)} papers: {counted(every)}", bold=True)
    return int(any(evidence.wrong for evidence in found.values()))


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
            "recorded": row.recorded,
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
    console.write_line(evidence.title, bold=True)
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
            row.verdict if row.as_recorded else f"{row.verdict}, was {row.recorded:.6g}",
        )
    console.write_table(table)
    noted: dict[str, list[Comparison]] = {}
    for row in evidence.comparisons:
        noted.setdefault(row.note, []).append(row)
    for note, rows in noted.items():
        if note:
            more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
            console.write_line(f"{rows[0].place}, {rows[0].quantity}{more}: {note}")
    for figure in evidence.figures:
        console.write_line(f"figure written to {figure.path}")
    console.write_line(counted(evidence.comparisons))


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
        console.write_table(table)
    for name, source in dict.fromkeys((row.mechanism, row.source) for row in errors):
        if not source.startswith("counton"):
            console.write_line(f"{name}: {source}")


if __name__ == "__main__":
    sys.exit(main())
