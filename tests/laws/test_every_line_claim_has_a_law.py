"""Every claim of a strategy for lines is in a law's list, and a wrong one breaks that law.

As `test_every_claim_has_a_law` does for streams.
"""

from copy import copy
from functools import cache
from typing import Any

import numpy as np
import pytest
from own_laws.lines import check_line_strategy

from counton.base.distributions import Sensitivity
from counton.laws import LawBroken
from counton.tables import Haar, LineStrategy, Nodes, SquareRoot
from papers.ranges.dyadic import Dyadic


@cache
def example(base: type[LineStrategy]) -> LineStrategy:
    """One over eight cells."""
    return base.examples(8)[0]


def claiming(base: type[LineStrategy], **claims: Any) -> LineStrategy:
    """An example that says something else."""
    made: Any = copy(example(base))
    made.__class__ = type(f"Wrong{base.__name__}", (base,), claims)
    found: LineStrategy = made
    return found


def times(base: type[LineStrategy], name: str, factor: float) -> LineStrategy:
    held: Any = getattr(base, name)
    return claiming(base, **{name: lambda self, *args, **more: held(self, *args, **more) * factor})


def of_one(base: type[LineStrategy], name: str) -> LineStrategy:
    """A norm that is 1."""
    return claiming(base, **{name: lambda self: 1})


def halved_in(wrong: int, name: str) -> LineStrategy:
    """Half of one norm, and the other one as it is."""
    held: Any = getattr(Haar, name)
    return claiming(
        Haar, **{name: lambda self, norm: held(self, norm) // (2 if norm == wrong else 1)}
    )


def shifted_by_one(self: Any, *args: Any, **more: Any) -> Sensitivity:
    return Sensitivity(1, 1)


def one_more(self: Any, *args: Any) -> Any:
    sums, bits = SquareRoot.running_sums(self, *args)
    return sums + 1, bits


#: For each name of `LineStrategy`, wrong strategies.
WRONG: dict[str, list[LineStrategy]] = {
    "estimate": [times(Nodes, "estimate", 0.5)],
    "_from_description": [
        claiming(Nodes, _from_description=classmethod(lambda cls, **given: Haar.cascade(8)))
    ],
    "functional_variance": [times(base, "functional_variance", 0.5) for base in (Nodes, Haar)],
    "l1_sensitivity": [of_one(Haar, "l1_sensitivity")],
    "largest_entry": [claiming(Haar, largest_entry=0)],
    "largest_column": [halved_in(norm, "largest_column") for norm in (1, 2)],
    "largest_move": [halved_in(norm, "largest_move") for norm in (1, 2)],
    "least_inner": [claiming(Haar, least_inner=10**12)],
    "matrix": [times(Nodes, "matrix", 2)],
    "measure": [times(Nodes, "measure", 2)],
    "parameters": [claiming(Nodes, parameters={"cells": 3})],
    "ranges_variance": [times(base, "ranges_variance", 0.5) for base in (Nodes, Haar)],
    "reads": [times(Nodes, "reads", 0.5)],
    "running_sums": [claiming(SquareRoot, running_sums=one_more)],
    "saved_name": [claiming(Nodes, saved_name="Haar")],
    "sensitivities": [claiming(Nodes, sensitivities=shifted_by_one)],
    "sources": [claiming(Nodes, sources=("nobody",))],
    "squared_sensitivity": [of_one(Haar, "squared_sensitivity")],
    "to_dict": [claiming(Nodes, to_dict=lambda self: {"strategy": "Nodes"})],
    "unit_columns": [claiming(SquareRoot, unit_columns=True)],
    "variance": [times(base, "variance", 0.5) for base in (Nodes, Haar)],
    "works_on_grids": [claiming(Dyadic, works_on_grids=True)],
}

#: Names whose wrong value takes neither privacy nor a right number from anybody.
NO_LAW = {"examples": "called by these laws and by nothing else: over which instances they run"}


def test_every_name_is_in_one_list() -> None:
    names = {name for name in dir(LineStrategy) if not name.startswith("_")}
    assert not WRONG.keys() & NO_LAW.keys()
    assert names <= WRONG.keys() | NO_LAW.keys(), "a claim without a law"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_claim_breaks_a_law(name: str) -> None:
    for strategy in WRONG[name]:
        with pytest.raises(LawBroken):
            check_line_strategy(strategy)


def test_right_ones_keep_them() -> None:
    for base in (Nodes, Haar, SquareRoot):
        assert np.array_equal(claiming(base).matrix(), base.examples(8)[0].matrix())
