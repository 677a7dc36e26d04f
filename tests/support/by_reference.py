"""Streams whose released values ``proofs/reference.py`` computes again, by terms, key and sums."""

import csv
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from keys import chosen_key
from numpy.typing import NDArray

from counton.base.private import reveal
from counton.continual import Counter, Design, Releases
from counton.continual.checkpoint import StreamProgress, write_checkpoint
from counton.noise import Key
from counton.state import Store
from counton.state import keys as keyfile
from counton.state.database import Database
from counton.state.verification import _Recomputation
from counton.statistics.live_statistic import statistic_of
from counton.strategies import MultiscaleStrategy, StreamStrategy
from counton.strategies.strategy import column_until
from proofs import reference

SECRET = bytes(range(32))


def described(terms: Design) -> dict[str, Any]:
    """The public terms of a stream, as a file has them."""
    found: dict[str, Any] = json.loads(json.dumps(terms.public()))
    return found


def strategy_by_reference(strategy: StreamStrategy) -> reference.Strategy:
    """The reference's own, from the package's description."""
    return reference.strategy_of(json.loads(json.dumps(strategy.to_dict())))


def measured(strategy: StreamStrategy) -> reference.Strategy:
    """C by the reference, or, of a strategy that has many C, by itself."""
    mine = strategy_by_reference(strategy)
    if isinstance(strategy, MultiscaleStrategy):

        def column(step: int, last: int) -> dict[reference.Node, int]:
            nodes = column_until(strategy, step, last)
            return {node[:2]: int(Fraction(node.weight) * 2**mine.bits) for node in nodes}

        mine.column = column  # type: ignore[method-assign]
    return mine


def written_out(strategy: StreamStrategy, last: int) -> dict[str, Any]:
    """The matrices of another package's strategy, in the form that the reference reads.

    >>> from counton.strategies import Binary
    >>> written_out(Binary(3), 2)["rows"]
    [[[0, 0, 1]], [[1, 0, 1]]]
    """
    steps = range(1, last + 1)
    return {
        "rows": [[list(node) for node in strategy.row(step)] for step in steps],
        "columns": [[list(node) for node in column_until(strategy, step, last)] for step in steps],
    }


def state_by_reference(state: Path | str, key: keyfile.KeySource = None) -> int:
    """How many values of a state's one stream the reference finds as they were released; of groups
    that were found, how many steps.

    Raises:
        AssertionError: a value that is another one.
        UnreadableError: the reference does not compute so many steps of the strategy.
    """
    database = Database(state)
    try:
        with database.transaction(write=False) as connection:
            row = connection.first("SELECT * FROM counton_streams")
        held = keyfile.key_for(database, row.key_fingerprint, row.key_salt, key)
        kept = _Recomputation(database, row, held)
        terms = kept._design
        parts = []
        if terms.statistic is not None and statistic_of(terms.statistic)[0].on_demand:
            return 0
        start = write_checkpoint(terms.text, held.fingerprint, StreamProgress.start(terms))
        noise_alone = Counter.resume(start, key=held)
        for steps in kept._parts(row.step):
            released = kept._read_values(steps).values
            if terms.finds_cells:
                noise_alone.widen(released.shape[1], held)
            noise = noise_alone.release_exact(np.zeros(released.shape, np.int64)).values
            sums = np.rint((released - noise) / float(terms.units.exact)).astype(np.int64)
            parts.append([one.reshape(len(steps), -1) for one in (released, sums)])
    finally:
        database.close()
    own = terms.strategy.saved_name in reference.STRATEGIES
    matrices = None if own else written_out(terms.strategy, row.step)
    stream = reference.Stream(described(terms), held._secret, matrices)
    versions = stream.strategy.versions
    for cell in range(parts[-1][0].shape[1] // versions if parts else 0):
        for version, noises in enumerate(stream.strategy.numbers(stream.z(cell), row.step)):
            at = cell * versions + version
            some = [part for part in parts if at < part[0].shape[1]]  # a cell may be added later
            was, totals = (np.concatenate([part[of][:, at] for part in some]) for of in (0, 1))
            pairs = zip(totals.tolist(), noises[row.step - len(was) :], strict=True)
            mine = [stream.value(total, noise) for total, noise in pairs]
            assert mine == was.tolist(), (terms.strategy, cell, version)
    if terms.finds_cells:
        return int(row.step)
    return sum(released.size for released, _ in parts)


def recomputed(
    released: Releases,
    xs: NDArray[np.int64],
    secret: bytes = SECRET,
    matrices: dict[str, Any] | None = None,
) -> int:
    """How many values of a stream's first releases the reference finds as they were released.

    Args:
        released: from step 1 on.
        xs: what each step adds, in units of the grid.
        secret: of the key.
        matrices: of a strategy of another package.

    Raises:
        AssertionError: a value that is another one.
        UnreadableError: bits that are read twice.
    """
    stream = reference.Stream(described(released._design), secret, matrices)
    count = len(released)
    versions = stream.strategy.versions
    values = released.values.reshape(count, -1, versions)
    inputs = xs.reshape(values.shape)
    sums = inputs if stream.strategy.windows else inputs.cumsum(axis=0)
    if versions > 1:  # of each window what arrived in the nights so far
        sums = inputs.copy()
        for night in range(1, count):
            sums[night, :, 1:] += sums[night - 1, :, :-1]
    late = stream.strategy.delay
    for cell in range(values.shape[1]):
        for version, noise in enumerate(stream.strategy.numbers(stream.z(cell), count)):
            totals = [0] * late + sums[:, cell, version].tolist()
            mine = [stream.value(total, one) for total, one in zip(totals, noise, strict=False)]
            where = released._design.strategy, cell, version
            assert mine == values[:, cell, version].tolist(), where
    return int(values.size)


class AnyNumbers:
    """z that is whatever it is: numbers by node, drawn as they are asked for."""

    def __init__(self, seed: int, most: int) -> None:
        self._chance = random.Random(seed)
        self._most = most
        self.drawn: dict[reference.Node, int] = {}

    def __call__(self, level: int, index: int) -> int:
        return self.drawn.setdefault(
            (level, index), self._chance.randrange(-self._most, self._most)
        )


def check_it_estimates(
    mine: reference.Strategy, columns: list[dict[reference.Node, int]], seed: int
) -> None:
    """noise(z + C x) = noise(z) + A x for any z and x, rounding included.

    Args:
        columns: C of each step.
        seed: of z and x.

    Raises:
        AssertionError: a release hangs on more than what is measured, or counts something else.
    """
    last = len(columns)
    z = AnyNumbers(seed, 2**45)
    x = [random.Random(seed + step).randrange(-100, 100) for step in range(last)]
    counted: dict[reference.Node, int] = {}
    for one, column in zip(x, columns, strict=True):
        for node, weight in column.items():
            counted[node] = counted.get(node, 0) + weight * one
    y = mine.noise(lambda *node: z(*node) + counted.get(node, 0), last)
    late = [0] * mine.delay + x
    sums = late if mine.windows else np.cumsum(late).tolist()
    moved = [total << mine.places for total in sums[:last]]
    assert y == [one + by for one, by in zip(mine.noise(z, last), moved, strict=True)]


def known_key() -> Any:
    """The key whose bytes are `SECRET`."""
    return chosen_key(SECRET)


def sums_of(state: Path, out: Path) -> Path:
    """The exact sums of a state's one stream, beside a table of it: releases less their noise.

    Args:
        state: with its key beside it.
        out: the table, whose description has the names of groups.
    """
    with Store(state) as store:
        (name,) = (one["name"] for one in store.summary()["streams"])
        reader = store.reader(name)
        terms = reader.design
        values = reader.releases().values
        labels = list(reveal(reader.labels()))
    told = json.loads(Path(f"{out}.json").read_text())["description"]
    flat = values.reshape(len(values), -1)
    steps = range(1, len(values) + 1)
    width = flat.shape[1] if terms.finds_cells else None
    names = labels or told["groups"] or ["all"]
    if "cells" in told:
        names = [str(cell) for cell in range(flat.shape[1])]
    field = terms.noise_field(Key.load(f"{state}.key"), width)
    noise = terms.strategy.noise(field, steps).reshape(len(values), -1)
    path = out.with_name("sums.csv")
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["step", "group", "cell", "sum"])
        for step in steps:
            for cell, name in enumerate(names):
                released = round(Fraction(flat[step - 1, cell].item()) / terms.units.released)
                exact = (released - int(noise[step - 1, cell])) * terms.units.released
                # The reference is given the sums of all items so far, and looks back by itself.
                rows.writerow([step - terms.strategy.facts.delay, name, cell, exact])
    return path
