"""The search for what `counton.strategies.streams.multiscale` ships: short columns, and weights.

*Tables* say what a column is near its step (``MultiscaleColumns``). There is one table for each
value of three bits of the step. The cost of a level is a quadratic form for each of 16 patterns of
four bits, and the cost of a table is the largest sum along any sequence of bits. It is made small
by least squares, in rounds: each pattern is weighted by how often the worst sequence contains it,
averaged over the rounds so far.

*Weights* belong to the nodes of the upper levels. They minimise the product of the largest squared
norm of a column and the mean (or largest) variance. This product is not convex, not even in
logarithms, but it is smooth. Descent by L-BFGS, with the exact gradient, begins with equal weights;
it ends at the same values wherever it begins. Maxima are smoothed to p-norms.

`make multiscale` runs it: about twelve minutes on one processor. Its results can differ in the last
digits between processors, so they are shipped. Streams are bound to them: the results that a
released version has shipped never change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np

from counton.base.arrays import Floats, Integers, integers_to_text
from counton.strategies import Metric
from counton.strategies.streams import multiscale
from counton.strategies.streams.multiscale import (
    CHOOSING_BITS,
    CLIMBING_MATRICES,
    LENGTH_MULTIPLE,
    LOWEST_LEVELS,
    REACH,
    TABLE_BITS,
    UPPER_LEVELS,
    WEIGHT_BITS,
    MultiscaleColumns,
    MultiscaleStrategy,
    matrix,
)

#: Numbers of levels below the upper ones that are searched for; others take the nearest, which
#: costs less than 0.05% up to 2^42 steps.
LEVELS = (2, 3, 5)
_WIDTH = 2 * REACH
_SMOOTH = 200.0
_ROUNDS = 25
_STEPS = 500
#: Steps between two nodes at which variances are looked at.
_BETWEEN = 16
#: Deviations of a node are between a tenth and 16 of those below.
_LEAST = 0.1
_MOST = 16.0


# ------------------------------------------------------------------------------------- tables


def _linear(level: int, step: int, nodes: range) -> tuple[Floats, Floats]:
    """Return the vector g of a level as a linear function of the tables: a constant, and a matrix.

    The matrix is applied to the numbers of all tables in a row; it selects those of the step's own
    table.

    Args:
        level: a level of `inside_tables`.
        step: the step whose column is computed.
        nodes: the nodes of the level at which g is wanted.
    """
    place = np.arange(nodes.start, nodes.stop) - (step >> level)
    table = step >> (level - CHOOSING_BITS) & (1 << CHOOSING_BITS) - 1
    chosen = np.zeros((len(nodes), (1 << CHOOSING_BITS) * _WIDTH))
    free = np.abs(place - 0.5) < REACH
    chosen[free, table * _WIDTH + place[free] + REACH - 1] = 1.0
    return np.where(place > REACH, 1.0, 0.0), chosen


def _around(level: int, step: int, width: int) -> range:
    return range((step >> level) - width, (step >> level) + width + 1)


def inside_tables() -> Floats:
    """Search for the tables of levels that have four or more levels below: shape (8, 48).

    There is a table for each value of three bits of the step. The tables make the cost of the worst
    sequence of bits small.
    """
    constants = []
    matrices = []
    for bits in range(1 << LOWEST_LEVELS):
        step = (1 << 30) + (bits << 1)
        nodes = _around(LOWEST_LEVELS, step, 2 * _WIDTH)
        above = _around(LOWEST_LEVELS + 1, step, _WIDTH + 4)
        up = matrix(nodes, above)
        own = _linear(LOWEST_LEVELS, step, nodes)
        next_ = _linear(LOWEST_LEVELS + 1, step, above)
        near = slice(_WIDTH - 8, 3 * _WIDTH + 9)  # what lies beyond depends on the cut
        constants.append((own[0] - up @ next_[0])[near])
        matrices.append((own[1] - up @ next_[1])[near])
    squares = np.stack([one.T @ one for one in matrices])
    mixed = np.stack([one.T @ rest for one, rest in zip(matrices, constants, strict=True)])
    often: Floats = np.full(16, 1 / 16)
    least = np.inf
    best: Floats = np.zeros(0)
    for turn in range(_ROUNDS):
        weighted = np.tensordot(often + 1e-8, squares, 1)
        table = np.linalg.solve(weighted + 1e-12 * np.eye(len(weighted)), -(often @ mixed))
        costs = np.array(
            [
                ((one @ table + rest) ** 2).sum()
                for one, rest in zip(matrices, constants, strict=True)
            ]
        )
        mean, counts = _worst_sequence(costs)
        if mean < least:
            best = np.asarray(table, np.float64)
            least = mean
        share = 1.5 / (turn + 4)
        often = (1 - share) * often + share * counts
    return np.asarray(best.reshape(1 << CHOOSING_BITS, _WIDTH))


def _worst_sequence(costs: Floats, length: int = 400) -> tuple[float, Floats]:
    """Return the largest mean cost of a long sequence of bits, and the fraction of each pattern in
    it.

    Args:
        costs: cost of each of the 16 patterns of four bits.
        length: length of the sequence.
    """
    total = np.zeros(1 << CHOOSING_BITS)
    chosen = []
    for _ in range(length):
        pairs = (costs + np.tile(total, 2)).reshape(-1, 2)
        chosen.append(pairs.argmax(axis=1))
        total = pairs.max(axis=1)
    bits = int(total.argmax())
    counts = np.zeros(16)
    for step, choice in enumerate(reversed(chosen)):
        pattern = 2 * bits + int(choice[bits])
        if step >= length // 4:
            counts[pattern] += 1
        bits = pattern & (1 << CHOOSING_BITS) - 1
    return float(total.max()) / length, counts / counts.sum()


def lowest_tables(inside: Floats) -> Floats:
    """Return the tables of levels 1 to 3 for each value of i mod 16, i the step: shape (16, 3, 48).

    They are least squares solutions, given the tables of level 4 (``inside``).
    """
    found = np.zeros((1 << LOWEST_LEVELS, LOWEST_LEVELS - 1, _WIDTH))
    for low in range(1 << LOWEST_LEVELS):
        step = (1 << 30) + low
        spans = [_around(level, step, 4 * _WIDTH >> level) for level in range(LOWEST_LEVELS + 1)]
        parts = []
        for level, nodes in enumerate(spans):
            place = np.arange(nodes.start, nodes.stop) - (step >> level)
            free = np.zeros((len(nodes), (LOWEST_LEVELS - 1) * _WIDTH))
            if level == 0:
                parts.append((np.where(place >= 0, 1.0, 0.0), free))
            elif level == LOWEST_LEVELS:
                constant, chosen = _linear(level, step, nodes)
                parts.append((constant + chosen @ inside.ravel(), free))
            else:
                some = np.abs(place - 0.5) < REACH
                free[some, (level - 1) * _WIDTH + place[some] + REACH - 1] = 1.0
                parts.append((np.where(place > REACH, 1.0, 0.0), free))
        rests = []
        matrices = []
        for level in range(LOWEST_LEVELS):
            near = range(
                max(spans[level].start, 2 * spans[level + 1].start + 2),
                min(spans[level].stop, 2 * spans[level + 1].stop - 3),
            )
            up = matrix(near, spans[level + 1])
            first = near.start - spans[level].start
            rows = slice(first, first + len(near))
            rests.append(parts[level][0][rows] - up @ parts[level + 1][0])
            matrices.append(parts[level][1][rows] - up @ parts[level + 1][1])
        solved = np.linalg.lstsq(np.concatenate(matrices), -np.concatenate(rests), rcond=None)[0]
        found[low] = solved.reshape(LOWEST_LEVELS - 1, _WIDTH)
    return found


# ------------------------------------------------------------------------------------- weights


class _Search:
    """The search for the best weights of the nodes of the upper levels, for streams of one
    length.
    """

    def __init__(self, length: int, metric: Metric) -> None:
        self._metric = metric
        grid = MultiscaleStrategy(length, metric)._grid
        nodes = grid.nodes[grid.upper :]
        plain = tuple(np.full(len(one), 1 << WEIGHT_BITS) for one in nodes)
        columns = MultiscaleColumns(length, grid.nodes, plain, 12, WEIGHT_BITS)
        self._entering = columns.entering / 2.0**12
        self._below = columns.below(2) / 4.0 ** (16 + WEIGHT_BITS)
        ups = [np.eye(len(nodes[0]))]
        for below, above in pairwise(nodes):
            ups.append(ups[-1] @ matrix(below, above))
        self._reads = np.hstack(ups)
        #: Lower levels alone, and the squares with which releases read the upper nodes.
        self._low, rows = self._rows(grid.upper, length, nodes[0])
        self._squares = (rows @ self._reads) ** 2

    def _rows(self, upper: int, length: int, nodes: range) -> tuple[Floats, Floats]:
        bits = min(upper, _BETWEEN.bit_length() - 1)
        steps = np.arange(1 << bits) << (upper - bits)
        # Lower bits as they come: alternating ones are as good as any.
        steps += int("01" * 32, 2) & (1 << upper - bits) - 1
        reads = np.tile(np.array([0.0, 0.0, 1.0, 0.0, 0.0]), (len(steps), 1))
        low = np.zeros(len(steps))
        for level in range(upper):
            low += (reads**2).sum(axis=1)
            odd = (steps >> level & 1)[:, None]
            reads = np.where(
                odd, reads @ (CLIMBING_MATRICES[1].T / 16), reads @ (CLIMBING_MATRICES[0].T / 16)
            )
        rows = []
        lows = []
        for node in range((length >> upper) + 1):
            for step, read, own in zip(steps, reads, low, strict=True):
                if 1 <= (node << upper) + int(step) <= length:
                    row = np.zeros(len(nodes) + 4)
                    row[node - 2 - nodes.start + 2 :][:5] = read[: len(row) - node + nodes.start]
                    rows.append(row[2:-2])
                    lows.append(own)
        return np.array(lows), np.array(rows)

    def error(self, logs: Floats) -> tuple[float, Floats]:
        """Return log(largest squared norm of a column * variance of releases), and its gradient.

        Args:
            logs: logarithm of the noise variance of each upper node.
        """
        variances = np.exp(logs)
        covariance = (self._reads * variances) @ self._reads.T
        pulled = np.linalg.solve(covariance, self._entering)
        norms = self._below + (self._entering * pulled).sum(axis=0)
        slope = -((self._reads.T @ pulled) ** 2)
        norm, share = _smoothed(norms)
        value = np.log(norm)
        gradient = slope @ share * variances / norm
        of_rows = self._low + self._squares @ variances
        if self._metric == "mean":
            total = of_rows.mean()
            share = np.full(len(of_rows), 1 / len(of_rows))
        else:
            total, share = _smoothed(of_rows)
        gradient += share @ self._squares * variances / total
        return float(value + np.log(total)), gradient

    def weights(self) -> Integers:
        """Return the best weights that the search finds, in units of 2^-6."""
        from scipy.optimize import minimize

        bounds = [(2 * np.log(_LEAST), 2 * np.log(_MOST))] * self._reads.shape[1]
        found = minimize(
            self.error,
            np.zeros(len(bounds)),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _STEPS},
        )
        return np.asarray(np.rint(np.exp(-found.x / 2) * (1 << WEIGHT_BITS)), np.int64)


def _smoothed(values: Floats) -> tuple[float, Floats]:
    """Return a smooth approximation of the largest of some positive numbers (a p-norm), and its
    gradient.
    """
    largest = float(values.max())
    powers = (values / largest) ** (_SMOOTH - 1)
    mean = float((powers * values / largest).mean())
    norm = largest * mean ** (1 / _SMOOTH)
    return norm, powers / len(values) * mean ** (1 / _SMOOTH - 1)


def run(path: Path, levels: Iterable[int] = LEVELS) -> None:
    """Search for all tables and weights, and write them to a JSON file."""
    inside = inside_tables()
    lowest = lowest_tables(inside)
    weights: dict[str, dict[str, dict[str, str]]] = {"mean": {}, "max": {}}
    kept: dict[str, object] = {"weights": weights}
    for name, table in (("lowest", lowest), ("inside", inside)):
        kept[name] = integers_to_text(np.rint(table * 2.0**TABLE_BITS).astype(np.int64))
    path.write_text(json.dumps(kept, indent=0), encoding="ascii")
    multiscale.load_shipped.cache_clear()
    multiscale.tables.cache_clear()
    metrics: tuple[Metric, ...] = ("mean", "max")
    for metric in metrics:
        for upper in levels:
            of_lengths = weights[metric][str(upper)] = {}
            for units in range(1 << UPPER_LEVELS - 1, 1 << UPPER_LEVELS, LENGTH_MULTIPLE):
                found = _Search(units << upper, metric).weights()
                of_lengths[str(units)] = integers_to_text(found)
                sys.stderr.write(f"{metric} {upper} {units}\n")
                path.write_text(json.dumps(kept, indent=0), encoding="ascii")


if __name__ == "__main__":
    run(Path(multiscale.__file__).parent / "multiscale.json")
