"""The command ``hierarchy``: release a table of leaves at all its levels, once."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
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
from counton.jobs.choices import guarantee_from
from counton.mechanisms.cells import protected
from counton.mechanisms.hierarchy import HierarchyRelease, release_hierarchy
from counton.privacy import Contribution
from counton.store import Receipts
from counton.store.whole_file import replace_file
from counton.strategies.hierarchy import Tree

_SHOWN = 12


@dataclass(frozen=True)
class HierarchyRequest:
    """What the command line asked for; options as in ``counton hierarchy --help``."""

    leaves: str
    levels: str
    value: str
    domain: str
    out: Path
    target: str | None = None
    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    move: bool = False
    unit: str = "unit"
    name: str = "hierarchy"
    key: Path | None = None
    plot: Path | None = None
    json: bool = False


def perform_hierarchy(request: HierarchyRequest) -> None:
    """Release, then write and print.

    Raises:
        CountonError: bad input, another release under the same key, or files that do not fit.
    """
    levels = _levels(request.levels)
    targets = _targets(request.target)
    guarantee = guarantee_from(request.epsilon, request.delta, request.rho)
    if guarantee is None and targets is None:
        raise InvalidInput(
            "neither a guarantee nor targets are stated; give --rho 0.5 for example, or --target "
            "LEVEL=STD,... to compute the cost"
        )
    inputs = [Path(request.leaves), Path(request.domain)]
    check_files(request.out, request.plot, request.key, inputs)
    tree = Tree.from_leaves(labels(read_table(request.domain, levels), levels), levels)
    table = read_table(request.leaves, [*levels, request.value])
    values = whole_numbers(table, request.value, request.leaves)
    leaves = {**labels(table, levels), request.value: values}
    receipts = receipts_for(request.out, request.key)
    release = release_hierarchy(
        leaves,
        domain=tree,
        value=request.value,
        guarantee=guarantee,
        targets=targets,
        key=receipts.key,
        name=request.name,
        contribution=Contribution.replace() if request.move else None,
    )
    again = receipts.enter(request.name, _input(table), terms=_terms(release, targets))
    write_table(whole_table(release), request.out)
    if request.plot is not None:
        from counton.analysis.hierarchy_plot import plot_hierarchy
        from counton.analysis.plots import save_figure

        figure = plot_hierarchy(
            release,
            f"{request.value.capitalize()} by {', '.join(levels)}",
            f"{release.guarantee} protects each single {request.unit} "
            f"({release.contribution.neighbours})",
        )
        replace_file(request.plot, lambda name: save_figure(figure, name))
    if request.json:
        sys.stdout.write(json.dumps(_report(release, request, again), indent=2) + "\n")
    else:
        _show(Console(), release, request, again, receipts)


def _levels(text: str) -> list[str]:
    levels = [level.strip() for level in text.split(",")]
    if "" in levels:
        raise InvalidInput(f"--levels {text!r} holds an empty name; write it as A,B,C")
    if "level" in levels:
        raise InvalidInput(
            "a column is called 'level', as a column of the released table is: rename it"
        )
    return levels


def _targets(text: str | None) -> dict[str, float] | None:
    if text is None:
        return None
    targets = {}
    for part in text.split(","):
        level, equals, std = part.partition("=")
        if level.strip() in targets:
            raise InvalidInput(f"--target names {level.strip()!r} twice; give one of them")
        try:
            targets[level.strip()] = float(std)
        except ValueError:
            equals = ""
        if not equals:
            raise InvalidInput(
                f"--target {part!r} is not LEVEL=STD; write it as in state=50,county=100"
            )
    return targets


def _terms(release: HierarchyRelease, targets: dict[str, float] | None) -> dict[str, Any]:
    return {
        "guarantee": release.guarantee.to_dict(),
        "contribution": release.contribution.to_dict(),
        "tree": release.tree.digest,
        "targets": targets,
    }


def _input(table: pl.DataFrame) -> bytes:
    return table.sort(table.columns).write_csv().encode()


def whole_table(release: HierarchyRelease) -> pl.DataFrame:
    """All levels in one table: level, the level columns, estimate, std."""
    parts: list[pl.DataFrame] = [
        release.table(level).with_columns(pl.lit(level).alias("level"))
        for level in release.tree.levels
    ]
    return pl.concat(parts, how="diagonal").select(
        "level", *release.tree.levels[1:], "estimate", "std"
    )


def _report(release: HierarchyRelease, request: HierarchyRequest, again: bool) -> dict[str, Any]:
    return {
        "name": request.name,
        "released_before": again,
        "protected": protected(release.contribution, request.unit),
        "guarantee": release.guarantee.to_dict(),
        "levels": [
            {"level": level, "nodes": size, "std": release.std(level)}
            for level, size in zip(release.tree.levels, release.tree.sizes, strict=True)
        ],
        "total": release.total,
        "out": str(request.out),
        "plot": None if request.plot is None else str(request.plot),
    }


def _show(
    console: Console,
    release: HierarchyRelease,
    request: HierarchyRequest,
    again: bool,
    receipts: Receipts,
) -> None:
    nodes = f"{sum(release.tree.sizes):,} nodes"
    console.print(
        f"Nothing new: these {nodes} were released before; here they are again."
        if again
        else f"Released {nodes}.",
        style="bold",
        highlight=False,
    )
    words = Table.grid(padding=(0, 2))
    words.add_column(style="dim", no_wrap=True)
    words.add_column(overflow="fold")
    for name, text in (
        ("protected", protected(release.contribution, request.unit)),
        ("guarantee", f"{release.guarantee}: {release.guarantee.meaning}"),
        ("noise", f"{release.plan.family}, children add up to their parents exactly"),
        ("key", f"{receipts.key_path}; what it released: {receipts.path}"),
    ):
        words.add_row(name, text)
    console.print(words, highlight=False, markup=False)
    console.print()
    console.print(_level_table(release), highlight=False, markup=False)
    console.print(_sum_table(release), highlight=False, markup=False)
    for name, path in (("table", request.out), ("chart", request.plot)):
        if path is not None:
            console.print(
                f"{name} written to {path}", highlight=False, markup=False, soft_wrap=True
            )


def _level_table(release: HierarchyRelease) -> Table:
    table = Table()
    table.add_column("level")
    table.add_column("nodes", justify="right")
    table.add_column("std", justify="right")
    table.add_column("median estimate", justify="right")
    table.add_column("sum of the level", justify="right")
    for level, size in zip(release.tree.levels, release.tree.sizes, strict=True):
        estimates = release.estimates[release.tree.level(level)]
        table.add_row(
            level,
            f"{size:,}",
            f"{release.std(level):,.4g}",
            f"{float(np.median(estimates)):,.0f}",
            f"{float(estimates.sum()):,.2f}",
        )
    return table


def _sum_table(release: HierarchyRelease) -> Table:
    """The total, the coarsest level and the largest of the next: what adds up to what."""
    tree = release.tree
    table = Table()
    table.add_column("node", overflow="fold")
    table.add_column("estimate", justify="right")
    table.add_column("std", justify="right")

    def add(level: int, node: int, text: str) -> None:
        std = float(np.sqrt(release.plan.law.variances[level][node]))
        table.add_row(text, f"{float(release.estimates[level][node]):,.2f}", f"{std:,.4g}")

    add(0, 0, "total")
    if len(tree.levels) == 1:
        return table
    for node in _largest(release.estimates[1]):
        add(1, node, f"  {tree.path(1, node)[-1]}")
    if tree.sizes[1] > _SHOWN:
        rest = release.total - float(np.sort(release.estimates[1])[::-1][:_SHOWN].sum())
        table.add_row(f"  {tree.sizes[1] - _SHOWN:,} others together", f"{rest:,.2f}", "")
    return table


def _largest(estimates: Sequence[float] | np.ndarray[Any, Any]) -> list[int]:
    order = np.argsort(-np.asarray(estimates), kind="stable")
    return [int(node) for node in order[:_SHOWN]]
