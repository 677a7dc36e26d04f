"""Find the minimum, maximum or sparsest cut of a released graph with networkx.

    python recipes/graph_cuts.py weights.csv sparsest

The file has a row for each pair of nodes, with the columns node, other, estimate and noise_std: the
numbers that a program reads from a result of `counton.statistics.Cuts`. All of it is public, so
any cut of it costs no privacy. The cut is chosen by noisy numbers: the weight of a minimum cut is
too low on average, and that of a maximum cut too high.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import polars as pl

from counton.base.errors import CountonError, InvalidInputError

COLUMNS = ("node", "other", "estimate", "noise_std")


def graph_of(weights: pl.DataFrame) -> nx.Graph[str]:
    """Return the graph of a table of weights: each edge has ``weight`` and ``noise_std``.

    Raises:
        InvalidInputError: a column or a pair of nodes is missing, or a pair is there twice.
    """
    missing = [name for name in COLUMNS if name not in weights.columns]
    if missing:
        raise InvalidInputError(
            f"the table has no column {missing[0]!r}: give {', '.join(COLUMNS)}"
        )
    graph: nx.Graph[str] = nx.Graph()
    for node, other, weight, noise_std in weights.select(COLUMNS).iter_rows():
        graph.add_edge(str(node), str(other), weight=float(weight), noise_std=float(noise_std))
    pairs = math.comb(len(graph), 2)
    if pairs < 1 or graph.number_of_edges() != pairs or weights.height != pairs:
        raise InvalidInputError(
            f"the table has {weights.height} rows for {len(graph)} nodes: give each of their "
            f"{pairs} pairs once"
        )
    return graph


def minimum_cut(graph: nx.Graph[str]) -> set[str]:
    """Return one side of the lightest cut. Negative weights, which are noise, count as 0."""
    return set(nx.stoer_wagner(_without_negative_weights(graph))[1][0])


def maximum_cut(graph: nx.Graph[str]) -> set[str]:
    """Return one side of a cut that gets no heavier if a single node changes its side."""
    return set(nx.algorithms.approximation.one_exchange(graph, weight="weight", seed=0)[1][0])


def sparsest_cut(graph: nx.Graph[str]) -> set[str]:
    """Return one side of the cut with the least weight for each of its pairs of nodes.

    Only the cuts along the spectral order of the nodes are compared: the Fiedler vector of the
    graph, in which negative weights count as 0.
    """
    order = list(nx.spectral_ordering(_without_negative_weights(graph), weight="weight", seed=0))
    sides = [set(order[:size]) for size in range(1, len(order))]
    return min(sides, key=lambda side: cut_numbers(graph, side)["density"])


def cut_numbers(graph: nx.Graph[str], side: set[str]) -> dict[str, Any]:
    """Return the smaller side, weight, its noise, and the weight for each pair of a cut."""
    other = set(graph) - side
    edges = list(nx.edge_boundary(graph, side, data=True))
    weight = math.fsum(facts["weight"] for _, _, facts in edges)
    variance = math.fsum(facts["noise_std"] ** 2 for _, _, facts in edges)
    smaller = min(sorted(side), sorted(other), key=lambda nodes: (len(nodes), nodes))
    return {
        "nodes": ",".join(smaller),
        "weight": weight,
        "noise_std": math.sqrt(variance),
        "density": weight / (len(side) * len(other)),
    }


def _without_negative_weights(graph: nx.Graph[str]) -> nx.Graph[str]:
    clipped = graph.copy()
    for _, _, facts in clipped.edges(data=True):
        facts["weight"] = max(facts["weight"], 0.0)
    return clipped


CUTS: dict[str, Callable[[nx.Graph[str]], set[str]]] = {
    "minimum": minimum_cut,
    "maximum": maximum_cut,
    "sparsest": sparsest_cut,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released weights of all pairs of nodes, as CSV")
    parser.add_argument("cut", choices=[*CUTS])
    given = parser.parse_args()
    try:
        graph = graph_of(pl.read_csv(given.file))
        for name, value in cut_numbers(graph, CUTS[given.cut](graph)).items():
            print(f"{name:<10}{value if isinstance(value, str) else round(value, 3)}")
    except CountonError as error:
        parser.error(str(error))
