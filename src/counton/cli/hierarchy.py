"""The command ``hierarchy``: release a table of leaves at all its levels, once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from counton.cli.options import HierarchyOptions
from counton.cli.outputs import write_table
from counton.cli.printing import print_files, print_json, print_table
from counton.cli.single_release import as_json, check_files, print_head, receipts_for
from counton.cli.tables import labels, read_table, whole_numbers
from counton.errors import InvalidInput
from counton.jobs.request import guarantee_from
from counton.mechanisms.hierarchy import HierarchyRelease, release_hierarchy
from counton.privacy import Contribution
from counton.store.whole_file import replace_file
from counton.strategies.trees import Tree

_SHOWN = 12


def perform_hierarchy(options: HierarchyOptions) -> None:
    """Release, then write and print.

    Raises:
        CountonError: bad input, another release under the same key, or files that do not fit.
    """
    levels = _levels(options.levels)
    targets = _targets(options.target)
    guarantee = guarantee_from(options.epsilon, options.delta, options.rho)
    if guarantee is None and targets is None:
        raise InvalidInput(
            "neither a guarantee nor targets are stated; give --rho 0.5 for example, or --target "
            "LEVEL=STD,... to compute the cost"
        )
    inputs = [Path(options.leaves), Path(options.domain)]
    _refuse_private_domain(options)
    check_files(options, inputs)
    tree = Tree.from_leaves(labels(read_table(options.domain, levels), levels), levels)
    table = read_table(options.leaves, [*levels, options.value])
    values = whole_numbers(table, options.value, options.leaves)
    leaves = {**labels(table, levels), options.value: values}
    receipts = receipts_for(options)
    release = release_hierarchy(
        leaves,
        domain=tree,
        value=options.value,
        guarantee=guarantee,
        targets=targets,
        key=receipts.key,
        name=options.name,
        contribution=Contribution.replace() if options.move else None,
    )
    again = receipts.enter(options.name, _input(table), terms=_terms(release, targets))
    write_table(whole_table(release), options.out)
    if options.plot is not None:
        from counton.plots.style import save_figure
        from counton.plots.tables import plot_hierarchy

        figure = plot_hierarchy(
            release,
            f"{options.value.capitalize()} by {', '.join(levels)}",
            f"{release.guarantee} protects each single {options.unit} "
            f"({release.contribution.neighbours})",
        )
        replace_file(options.plot, lambda name: save_figure(figure, name))
    if options.json:
        print_json(as_json(release, options, again, _details(release)))
        return
    console = Console()
    how = f"{release.plan.family}, children add up to their parents exactly"
    nodes = f"{sum(release.tree.sizes):,} nodes"
    print_head(console, nodes, again, release, options, ("noise", how), receipts)
    console.print()
    print_table(console, _level_table(release))
    print_table(console, _sum_table(release))
    print_files(console, options.out, options.plot)


def _refuse_private_domain(options: HierarchyOptions) -> None:
    leaves, domain = Path(options.leaves), Path(options.domain)
    if leaves.exists() and domain.exists() and leaves.samefile(domain):
        raise InvalidInput(
            f"--domain {options.domain} is the file of the leaves; which leaves have counts would "
            f"show in what is released: list the places that are publicly known to exist"
        )


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


def _details(release: HierarchyRelease) -> dict[str, Any]:
    return {
        "levels": [
            {"level": level, "nodes": size, "std": release.std(level)}
            for level, size in zip(release.tree.levels, release.tree.sizes, strict=True)
        ],
        "total": release.total,
    }


def _level_table(release: HierarchyRelease) -> Table:
    table = Table()
    table.add_column("level")
    table.add_column("nodes", justify="right")
    table.add_column("std", justify="right")
    table.add_column("median estimate", justify="right")
    table.add_column("sum", justify="right")
    higher = 0.0  # leaves that stand above a level belong to its sum
    for level, size in zip(release.tree.levels, release.tree.sizes, strict=True):
        depth = release.tree.level(level)
        estimates = release.estimates[depth]
        table.add_row(
            level,
            f"{size:,}",
            f"{release.std(level):,.4g}",
            f"{float(np.median(estimates)):,.0f}",
            f"{float(estimates.sum()) + higher:,.2f}",
        )
        if depth + 1 < len(release.tree.levels):
            higher += float(estimates[release.tree.leaves[depth]].sum())
    if any(len(leaves) for leaves in release.tree.leaves[:-1]):
        table.caption = "sums contain the leaves that stand above their level"
    return table


def _sum_table(release: HierarchyRelease) -> Table:
    """The total, the coarsest level and the largest of the next: what adds up to what."""
    tree = release.tree
    table = Table()
    table.add_column("node", overflow="fold")
    table.add_column("estimate", justify="right")
    table.add_column("std", justify="right")

    def add(level: int, node: int, text: str) -> None:
        std = float(np.sqrt(release.plan.joint_law.variances[level][node]))
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
