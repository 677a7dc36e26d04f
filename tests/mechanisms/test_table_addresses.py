"""The noise of tables stays what it was: known answers under a fixed key, computed at version 0.1.

Each is the SHA-256 of the released float64 values, so another address, law or strategy shows.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import (
    ZCDP,
    ApproxDP,
    Contribution,
    PureDP,
    release_contingency,
    release_hierarchy,
    release_ranges,
)
from counton.strategies.lines import Dense
from counton.strategies.trees import Tree

KEY = chosen_key()


def digest(*parts: Any) -> str:
    flat = [np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts]
    return hashlib.sha256(b"".join(flat)).hexdigest()[:32]


RANGES: list[tuple[Any, dict[str, Any], str]] = [
    (range(16), {"guarantee": ZCDP(0.5), "strategy": "haar"}, "3c2dd7dd70ff49956b03bddf19cd2ef0"),
    (
        range(16),
        {"guarantee": PureDP(1), "strategy": "hierarchy", "name": "visits"},
        "554e82627ecd33d7f31d81cc87e2c8f7",
    ),
    (
        range(9),
        {"guarantee": ApproxDP(1, 1e-6), "strategy": "square_root"},
        "66098556ab58ea400a4472e023773dcd",
    ),
    (
        range(8),
        {"guarantee": ZCDP(2), "strategy": "cascade", "contribution": Contribution.replace(2)},
        "b99d36845f42efc2bcafb6fadce704c2",
    ),
    (
        [3, 1],
        {"guarantee": ZCDP(2), "strategy": Dense(np.array([[2, 1], [0, 2]]), "own")},
        "8473c3b784fe60f667c3387b4e56191f",
    ),
    (
        np.arange(32).reshape(4, 8),
        {"guarantee": ZCDP(1), "strategy": ("haar", "identity"), "name": "grid"},
        "78ab4d73d19cd05769ce6938b2b41e01",
    ),
    (
        np.arange(27).reshape(3, 3, 3),
        {"guarantee": PureDP(2), "strategy": "identity"},
        "d6bd13f90cb72cacbf3340032b1a8418",
    ),
]


@pytest.mark.parametrize(("counts", "terms", "answer"), RANGES)
def test_ranges_and_grids(counts: Any, terms: Any, answer: str) -> None:
    assert digest(release_ranges(counts, key=KEY, **terms).cells()) == answer


PLACES = {"state": ["CA", "CA", "CA", "NY", "DC"], "county": ["A", "B", "C", "D", None]}
HIERARCHIES: list[tuple[dict[str, Any], str]] = [
    ({"guarantee": ZCDP(0.5)}, "8691d115ec9aba87992f57b42ff69949"),
    ({"guarantee": PureDP(1), "name": "inhabitants"}, "60509e76e9b2843254f5617123fa304d"),
    ({"targets": {"state": 5.0, "county": 10.0}}, "f33399510cff83c8e926eb601545d2fb"),
    (
        {"guarantee": ApproxDP(1, 1e-6), "contribution": Contribution.replace()},
        "db5bcc121e2e8042cc191c9862ed2c9d",
    ),
]


@pytest.mark.parametrize(("terms", "answer"), HIERARCHIES)
def test_hierarchies(terms: Any, answer: str) -> None:
    leaves = {**PLACES, "people": [5, 0, 17, 400, 2]}
    release = release_hierarchy(
        leaves, domain=PLACES, levels=["state", "county"], value="people", key=KEY, **terms
    )
    assert digest(*release.estimates) == answer


CONTINGENCIES: list[tuple[dict[str, Any], str]] = [
    ({"guarantee": ZCDP(0.5)}, "afbe6668a8f7ac58d3a9a8efa985af43"),
    ({"guarantee": PureDP(1), "equal": True, "name": "survey"}, "82e0ef1644eca8f1886fe03296736b96"),
    ({"guarantee": ZCDP(0.5), "value": "weight"}, "8cb71f65c47d2663d1759626cfc5f20e"),
]


@pytest.mark.parametrize(("terms", "answer"), CONTINGENCIES)
def test_contingency_tables(terms: Any, answer: str) -> None:
    data = {"sex": ["f", "m", "f"], "smokes": ["no", "no", "yes"], "weight": [2, 3, 5]}
    domain: Any = {"sex": ["f", "m"], "smokes": ["no", "yes"]}
    release = release_contingency(data, columns=list(domain), domain=domain, key=KEY, **terms)
    assert digest(release.ranges.cells()) == answer


def test_times_and_integers_are_other_labels() -> None:
    """Fine times come out of numpy as integers; another tree is another table."""
    numbers = np.array([1, 2])
    kinds = [numbers, *(numbers.astype(kind) for kind in ("M8[ns]", "m8[ns]", "M8[us]", "M8[ps]"))]
    digests = {Tree.from_leaves({"a": labels}, ["a"]).digest for labels in kinds}
    assert len(digests) == len(kinds)
    same = Tree.from_leaves({"a": numbers.astype("i1")}, ["a"]).digest
    assert same == Tree.from_leaves({"a": numbers}, ["a"]).digest
