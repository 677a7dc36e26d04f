"""Exact discrete noise, against OpenDP's exact vector samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib.util import find_spec

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import Key
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.noise import NoiseField

OURS = 10**6
THEIRS = 10**4
SPREADS = (10, 10**6)


def opendp_samplers(spread: int) -> dict[str, Callable[[], object]]:
    """Return a function for each law of noise that draws ``THEIRS`` integers with OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T=int))
    zeros = [0] * THEIRS
    laplace = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=float(spread))
    gaussian = dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=float(spread))
    return {"Laplace": lambda: laplace(zeros), "Gaussian": lambda: gaussian(zeros)}


def measure() -> Iterator[Row]:
    """Measure exact noise against OpenDP; yield a row for each law and spread.

    Without OpenDP, which `make bench` installs, there are no rows.
    """
    if not find_spec("opendp"):
        return
    for spread in SPREADS:
        distributions: dict[str, NoiseDistribution] = {
            "Laplace": DiscreteLaplace(Fraction(spread)),
            "Gaussian": DiscreteGaussian(Fraction(spread**2)),
        }
        peers = opendp_samplers(spread)
        for name, distribution in distributions.items():
            yield _row(name, distribution, spread, peers[name])


def _row(
    name: str, distribution: NoiseDistribution, spread: int, peer: Callable[[], object]
) -> Row:
    field = NoiseField(Key.generate().derive(b"bench"), distribution, shape=(OURS,))
    our_seconds, their_seconds = fastest(lambda: field.run(0, range(1)), peer)
    ratio = (OURS / our_seconds) / (THEIRS / their_seconds)
    note = "samples a second, against OpenDP"
    return Row(f"exact discrete {name}, spread {spread:,}", ratio, 300, "at least", note=note)
