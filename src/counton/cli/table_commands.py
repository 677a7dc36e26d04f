"""Registration of the commands that release tables: ``hierarchy`` and ``ranges``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from counton.cli import options as o
from counton.cli.exits import explained

Levels = Annotated[str, typer.Option(help="the level columns, coarsest first: A,B,C")]
Counts = Annotated[str, typer.Option("--value", help="column of the counts, whole numbers")]
Nodes = Annotated[
    str, typer.Option("--domain", help="public table with the level columns: which leaves exist")
]
Target = Annotated[
    str | None,
    typer.Option(
        help="standard deviation by level, LEVEL=STD,...; relative ones if a guarantee is given"
    ),
]
TableOut = Annotated[Path, typer.Option("--out", help="write the table: .csv, .parquet, .jsonl")]
TablePlot = Annotated[
    Path | None, typer.Option("--plot", help="draw what was released: .png, .svg or .pdf")
]
TableKey = Annotated[
    Path | None, typer.Option("--key", help="file of the key, made if missing; default: OUT.key")
]
Name = Annotated[str, typer.Option("--name", help="of this release; each name has its own noise")]
Move = Annotated[
    bool, typer.Option("--move", help="protect where a unit is counted, not whether it is")
]
UnitName = Annotated[str, typer.Option("--unit", help="what one count is called in the output")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(hierarchy)
    app.command()(ranges)


def hierarchy(
    leaves: Annotated[str, typer.Argument(help="CSV, Parquet or JSON lines, one row a leaf")],
    levels: Levels,
    value: Counts,
    domain: Nodes,
    out: TableOut,
    target: Target = None,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    rho: o.Rho = None,
    move: Move = False,
    unit: UnitName = "unit",
    name: Name = "hierarchy",
    key: TableKey = None,
    plot: TablePlot = None,
    json: o.Json = False,
) -> None:
    """Release counts at all levels of a hierarchy; they add up.

    One release for a key and a name: the same command again shows the same numbers. Without
    --target every level is equally accurate; with --target and no guarantee the cost of the wanted
    accuracy is computed. Leaves of the domain without a row count 0.
    """
    arguments = locals()
    with explained():
        from counton.cli.hierarchy import HierarchyRequest, perform_hierarchy

        perform_hierarchy(HierarchyRequest(**arguments))


def ranges(
    series: Annotated[str, typer.Argument(help="CSV, Parquet or JSON lines, one row a cell")],
    value: Counts,
    out: TableOut,
    label: Annotated[str | None, typer.Option(help="column that names the cells")] = None,
    ask: Annotated[
        str | None, typer.Option(help="print these sums: 0:24,24:48 (ends excluded)")
    ] = None,
    workload: Annotated[
        str, typer.Option(help="what to be accurate for: ranges, prefixes, nodes or subsets")
    ] = "ranges",
    strategy: Annotated[
        str,
        typer.Option(
            help="auto, identity, cascade, haar, binary, hierarchy, square_root or optimal"
        ),
    ] = "auto",
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    rho: o.Rho = None,
    move: Move = False,
    unit: UnitName = "unit",
    name: Name = "ranges",
    key: TableKey = None,
    plot: TablePlot = None,
    json: o.Json = False,
) -> None:
    """Release a line of counts so that every interval is accurate.

    One release for a key and a name: the same command again shows the same numbers.
    """
    arguments = locals()
    with explained():
        from counton.cli.ranges import RangesRequest, perform_ranges

        perform_ranges(RangesRequest(**arguments))
