"""Exact discrete noise, against OpenDP's exact vector samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib.util import find_spec

from benchmarks.measure import interleaved
from benchmarks.row import Row
from counton import Key
from counton.laws import DiscreteGaussian, DiscreteLaplace, Law
from counton.noise import NoiseField

OURS = 10**6
THEIRS = 10**4
SPREAD = 10
#: Samples a CPU second of OpenDP 0.16, used where OpenDP is not installed.
PUBLISHED = {"Laplace": 0.18e6, "Gaussian": 0.105e6}


def opendp_samplers() -> dict[str, Callable[[], object]]:
    """OpenDP drawing ``THEIRS`` integers from each law; empty where it is not installed."""
    if not find_spec("opendp"):
        return {}
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T=int))
    zeros = [0] * THEIRS
    laplace = dp.m.make_laplace(integers, dp.l1_distance(T=int), scale=float(SPREAD))
    gaussian = dp.m.make_gaussian(integers, dp.l2_distance(T=float), scale=float(SPREAD))
    return {"Laplace": lambda: laplace(zeros), "Gaussian": lambda: gaussian(zeros)}


def measure() -> Iterator[Row]:
    """Yield one row per law."""
    laws: dict[str, Law] = {
        "Laplace": DiscreteLaplace(Fraction(SPREAD)),
        "Gaussian": DiscreteGaussian(Fraction(SPREAD**2)),
    }
    peers = opendp_samplers()
    for name, law in laws.items():
        field = NoiseField(Key.generate().derive(b"bench"), law, shape=(OURS,))

        def ours(field: NoiseField = field) -> object:
            return field.run(0, range(1))

        if name in peers:
            our_seconds, their_seconds = interleaved(ours, peers[name])
            ratio = (OURS / our_seconds) / (THEIRS / their_seconds)
            note = "samples a second, against OpenDP"
        else:
            (our_seconds,) = interleaved(ours)
            ratio = OURS / our_seconds / PUBLISHED[name]
            note = (
                f"samples a second, against {PUBLISHED[name]:,.0f} measured elsewhere for OpenDP "
                f"0.16; `pip install opendp` to compare here"
            )
        yield Row(f"exact discrete {name}, spread {SPREAD}", ratio, 300, "at least", note=note)
