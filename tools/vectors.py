"""Known answers for programs in other languages: ``python -m tools.vectors`` writes them again.

``tests/vectors/*.json`` has a file for each strategy, and one for the laws of noise. An answer
consists of the 32 bytes of a key, the public terms of a stream, exact sums, and the released
integers, in units of 2^-places. ``docs/guarantees/specification.md`` says how the released integers
follow from the rest. Numbers are in lists by step: one list for each cell, and within a cell one
for each version. An answer also has the key of the stream's own noise (``subkey``), so that a
program with an error can be checked up to there.

Counton makes the answers. ``tests/reference/test_vectors.py`` checks that counton, the reference
and ``examples/check.mjs`` all give them.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counton import Counter, plan
from counton.base.errors import InvalidInputError
from counton.continual.checkpoint import add_arrivals
from counton.continual.design import design_for
from counton.noise import InsecureKeyWarning, InsecureSeededKey
from counton.privacy import (
    ZCDP,
    ApproxDP,
    ContributionBound,
    ExpiringDP,
    ExpiringZCDP,
    Guarantee,
    PureDP,
)
from counton.strategies import (
    AsOf,
    BandedRoot,
    Binary,
    EndlessBandedRoot,
    EndlessHats,
    Expiring,
    GrowingBlocks,
    Independent,
    KAry,
    MultiscaleStrategy,
    StreamStrategy,
    WindowVersions,
    public_strategies,
    strategy_from_dict,
)
from proofs import reference

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "vectors"
_HORIZON = 9
_ONE = ContributionBound.add_remove()
_VALUES = ContributionBound.values(-3, 12, resolution="0.05")


#: The plan of 40 steps in a stream that began before plans had rows of any weights.
_HATS = {
    "strategy": "Solved",
    "line": {
        "strategy": "Hats",
        "cells": 40,
        "spacings": [[2, 12, 21, 30, 40], [6, 19, 32, 40]],
        "norm": 1,
        "bits": 16,
        "amplitudes_sha256": "e1f040aada137e0bf70698bde7f8ce0c05480bf448d6dd0fbd5ad1acdf28183e",
        "name": "hats",
        "amplitudes": "4:eJxjYGAQYHC4wAACpQydDQxYAABDkgKf",
    },
    "radices": [],
    "shares": [],
    "norm": 1,
    "horizon": 40,
}
#: Those that stand at the end, since the number of an answer is part of it, or begin no stream.
_LATER = (WindowVersions, AsOf, BandedRoot, EndlessBandedRoot, EndlessHats, GrowingBlocks)


class Case(NamedTuple):
    """The stream of one known answer.

    Attributes:
        file: name of the file that contains the answer.
        strategy, guarantee, contribution, shape: terms of the stream.
        steps: number of steps that are released.
        name: name of the stream; if empty, the name is made from the number of the answer.
    """

    file: str
    strategy: StreamStrategy
    guarantee: Guarantee
    contribution: ContributionBound = _ONE
    shape: tuple[int, ...] = ()
    steps: int = _HORIZON
    name: str = ""


def cases() -> Iterator[Case]:
    """Yield the streams of all known answers: each strategy with both kinds of noise, then special
    cases.
    """
    for kind in public_strategies():
        if kind in _LATER:
            continue
        some = [*kind.examples(_HORIZON)]
        first = next((one for one in some if has_pure_noise(one)), some[0])
        wide = has_pure_noise(first)
        if issubclass(kind, Expiring):
            expiring = Expiring("1.5", 3), Expiring("1")
            yield Case("Expiring", expiring[0], ExpiringDP("0.5"), steps=12)
            yield Case("Expiring", expiring[1], ExpiringZCDP("0.01"), shape=(2,), steps=12)
            continue
        steps = 5 if kind.saved_name == "GrowingSquareRoot" else _HORIZON
        pure: tuple[Guarantee, ContributionBound] = (
            (PureDP(1), _VALUES) if wide else (ZCDP(5), _ONE)
        )
        yield Case(kind.saved_name, first, *pure, (2,), steps)
        yield Case(kind.saved_name, some[len(some) // 2], ZCDP("0.5"), steps=steps)
    for strategy, guarantee in (
        (strategy_from_dict(_HATS), PureDP(1)), (plan(40, ZCDP("0.5")).best.strategy, ZCDP("0.5"))
    ):  # fmt: skip
        yield Case(strategy.saved_name, strategy, guarantee, steps=40)
    yield Case("Octave", MultiscaleStrategy(1000), ZCDP("0.5"), steps=7)
    yield Case("noise", Independent(12), PureDP("1e-12"), steps=12)
    yield Case("noise", Independent(12), PureDP("0.001"), shape=(3,), steps=12)
    yield Case(
        "noise",
        Independent(12),
        PureDP(30),
        ContributionBound.add_remove(cells=2, per_cell=7),
        (4,),
        12,
    )
    yield Case("noise", Independent(400), ZCDP("1e-12"), shape=(3,), steps=400)  # some are rejected
    yield Case("noise", Binary(7), ZCDP("1e-20"), steps=7)
    yield Case(
        "noise",
        KAry(30, 3),
        ApproxDP(1, "1e-6"),
        ContributionBound.events(3, most_a_step=2),
        steps=30,
    )
    yield Case("noise", Binary(7), ApproxDP("0.3", "1e-9"), steps=7, name="Caf\u00e9 \u2713")
    several = WindowVersions.examples(_HORIZON)
    yield Case("WindowVersions", several[0], PureDP(1), _VALUES, (2,))
    yield Case("WindowVersions", several[2], ZCDP("0.5"))
    for root in BandedRoot.examples(_HORIZON)[:2]:
        yield Case("BandedRoot", root, ZCDP("0.5"), _VALUES, (2,))
    yield Case("EndlessBandedRoot", EndlessBandedRoot.examples(_HORIZON)[0], PureDP(1), steps=30)
    yield Case("EndlessHats", EndlessHats.examples(_HORIZON)[0], PureDP(1), steps=30)
    for blocks in GrowingBlocks.examples(_HORIZON):
        yield Case("GrowingBlocks", blocks, ZCDP("0.5"), shape=(2,))


def has_pure_noise(strategy: StreamStrategy) -> bool:
    """Return whether a strategy's Laplace noise for epsilon 1 stays within the largest width that
    counton can draw.
    """
    try:
        design_for(strategy, PureDP(1), _VALUES)
    except InvalidInputError:
        return False
    return True


def answer_of(number: int, case: Case) -> dict[str, Any]:
    """Run a stream, and return its known answer: key, terms, exact sums and released integers, as
    JSON values.
    """
    secret = hashlib.sha256(f"counton's known answer {number}".encode()).digest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        key = InsecureSeededKey.from_bytes(secret)
    counter = Counter(
        case.strategy,
        case.guarantee,
        key=key,
        name=case.name or f"answer {number}",
        contribution=case.contribution,
        shape=case.shape,
    )
    xs = np.random.default_rng(number).integers(0, 50, (case.steps, *counter.shape))
    released = counter.release_exact(xs)
    design = counter.design
    facts = case.strategy.facts
    late = np.concatenate([np.zeros((facts.delay, *counter.shape), np.int64), xs])[: case.steps]
    sums = late if case.strategy.facts.release == "windows" else late.cumsum(axis=0)
    if facts.versions > 1:
        add_arrivals(np.zeros_like(xs[0]), xs, sums := np.empty_like(xs))
    whole = [Fraction(one) / design.units.released for one in released.values.reshape(-1).tolist()]
    values = np.array([round(one) for one in whole]).reshape(case.steps, -1)
    told = json.loads(json.dumps(design.public()))
    return {
        "key": secret.hex(),
        "subkey": reference.subkey(secret, b"counter", reference.address(told).encode()).hex(),
        "terms": told,
        "sums": sums.reshape(case.steps, -1).T.tolist(),
        "released": values.T.tolist(),
    }


def answers() -> dict[str, list[dict[str, Any]]]:
    """Return all known answers, by name of the file."""
    found: dict[str, list[dict[str, Any]]] = {}
    for number, case in enumerate(cases(), start=1):
        found.setdefault(case.file, []).append(answer_of(number, case))
    return found


def text_of(some: list[dict[str, Any]]) -> str:
    """Format known answers as the text of a JSON file, with a line for each part of an answer."""
    written = []
    for one in some:
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in one.items()]
        written.append("{\n" + ",\n".join(lines) + "\n}")
    return "[\n" + ",\n".join(written) + "\n]\n"


def main() -> None:
    """Write all files of known answers."""
    FOLDER.mkdir(exist_ok=True)
    for file, some in answers().items():
        (FOLDER / f"{file}.json").write_text(text_of(some), encoding="ascii")


if __name__ == "__main__":
    main()
