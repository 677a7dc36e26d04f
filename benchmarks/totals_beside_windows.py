"""What running totals cost beside revised windows.

``python -m benchmarks.totals_beside_windows`` prints the tables.

A row belongs to one of ``--windows`` windows and arrives with one of ``--lags`` lags, so there are
windows * lags different rows, and a night is a window and a lag added. Wanted are every version of
each window, and beside them the total of all arrivals by each night. Three ways are compared, for
Gaussian noise with rho = 0.5, so that a strategy of sensitivity 1 has noise of variance 1:

- *apart*: the windows have a part 1 - s of the budget and the totals a part s; each is the dense
  optimum of its own workload;
- *least squares*: the same measurements, each number read from both. All noise is drawn before the
  first night, so that a release may read noise of later nodes: C and B have B C = A;
- *of each night*: the same, but each number is read from what is measured by its night alone, as a
  stream without an end has to;
- *dense optimum*: no strategy has less error for the weight that is given to windows and totals.
  The fixed point is that of `counton.strategies.lines.optimal`; its gap to a proven bound is shown.

The last column says how far least squares are from the optimum: how much more standard
deviation totals have than those of the optimum whose windows have the same error.
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Iterations of the fixed point, and the gap to the bound at which it ends.
_MOST, _GAP = 400, 1e-4
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
#: Weights of totals; windows have the rest. Errors are relative to those of each alone.
WEIGHTS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


class Errors(NamedTuple):
    """Mean variances: of all versions of windows, of final windows and of all totals; and the last
    total's variance.
    """

    windows: float
    final: float
    totals: float
    last: float


class Problem:
    """A stream of revised windows with totals beside them, as matrices.

    Each combination of a window and a lag (lateness) is one kind of rows. ``versions``,
    ``arrivals`` and ``totals`` have a column for each kind; their rows are the versions of windows,
    the arrivals of each night, and the totals by each night.
    """

    def __init__(self, windows: int, lags: int) -> None:
        self.windows, self.lags, self.nights = windows, lags, windows + lags - 1
        self.versions = np.kron(np.eye(windows), np.tri(lags))
        arrives = np.add.outer(np.arange(windows), np.arange(lags)).reshape(-1)
        self.arrivals = (arrives == np.arange(self.nights)[:, None]).astype(float)
        self.totals = np.tri(self.nights) @ self.arrivals
        self._night_of = arrives

    def errors(self, measured: NDArray[np.floating]) -> Errors:
        """Return the errors of windows and totals that are estimated from all measurements by least
        squares.

        Args:
            measured: C'C of the measurements' matrix C.
        """
        root = np.linalg.cholesky(measured)
        read = [np.linalg.solve(root, of.T) for of in (self.versions, self.totals)]
        windows, totals = ((of**2).sum(axis=0) for of in read)
        final = windows[self.lags - 1 :: self.lags]
        return Errors(*map(float, (windows.mean(), final.mean(), totals.mean(), totals[-1])))

    def errors_of_each_night(self, one: Floats, running: Floats) -> Errors:
        """Return the errors if each number is estimated from what was measured by its night, and
        never revised.

        Args:
            one: C'C of a window's versions, with its part of the budget.
            running: C'C of the totals by night, with their part of the budget.
        """
        windows = np.kron(np.eye(self.windows), _causal(one))
        measured = np.vstack([windows, _causal(running) @ self.arrivals])
        when = np.concatenate([self._night_of, np.arange(self.nights)])
        variances, totals = np.zeros(len(self.versions)), np.zeros(self.nights)
        for night in range(self.nights):
            known, new = self._night_of <= night, self._night_of == night
            rows = measured[when <= night][:, known]
            root = np.linalg.cholesky(rows.T @ rows)
            wanted = np.vstack([self.versions[new], self.totals[night]])[:, known]
            found = (np.linalg.solve(root, wanted.T) ** 2).sum(axis=0)
            variances[new], totals[night] = found[:-1], found[-1]
        final = variances[self.lags - 1 :: self.lags]
        return Errors(*map(float, (variances.mean(), final.mean(), totals.mean(), totals[-1])))


def _causal(measured: Floats) -> Floats:
    """Return a lower-triangular C with the given C'C, so that no release reads noise of a later
    step.
    """
    return np.asarray(np.linalg.cholesky(measured[::-1, ::-1])[::-1, ::-1].T, np.float64)


def least_error(wanted: Floats) -> tuple[Floats, float]:
    """Search for the strategy C of sensitivity 1 whose total error is least.

    Args:
        wanted: A'A of the workload A, with weighted rows.

    Returns:
        C'C of the strategy; and its relative distance from a proven lower bound.

    >>> found, gap = least_error(np.tri(4).T @ np.tri(4))
    >>> bool(gap < 1e-4), np.diag(found).round(9).tolist()
    (True, [1.0, 1.0, 1.0, 1.0])
    """
    multipliers = np.sqrt(np.diag(wanted))
    for _ in range(_MOST):
        scale = np.sqrt(multipliers)
        own, axes = np.linalg.eigh(scale[:, None] * wanted * scale)
        root = (axes * np.sqrt(np.maximum(own, 0.0))) @ axes.T
        bound = float(np.trace(root)) ** 2 / float(multipliers.sum())
        found = root / np.sqrt(np.outer(np.diag(root), np.diag(root)))
        error = float(np.trace(np.linalg.solve(found, wanted)))
        if error / bound - 1 < _GAP:
            break
        multipliers = np.diag(root).copy()
    return found, error / bound - 1


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=64)
    parser.add_argument("--lags", type=int, default=8)
    asked = parser.parse_args()
    problem = Problem(asked.windows, asked.lags)
    one, _ = least_error(np.tri(asked.lags).T @ np.tri(asked.lags))
    running, _ = least_error(np.tri(problem.nights).T @ np.tri(problem.nights))
    alone = np.kron(np.eye(asked.windows), one)
    of_windows = problem.errors(alone)
    read = np.linalg.solve(np.linalg.cholesky(running), np.tri(problem.nights).T)
    of_totals = float((read**2).sum() / problem.nights)
    last_total = float((read[:, -1] ** 2).sum())
    print(f"{asked.windows} windows of {asked.lags} versions; standard deviations at rho = 0.5")
    print(f"{'':24}  windows   final  totals  the last one")
    _print("windows alone", of_windows)
    alone_too = f"{math.sqrt(of_totals):6.3f}  {math.sqrt(last_total):12.3f}"
    print(f"{'totals alone':24}  {'-':>7}  {'-':>6}  {alone_too}")

    best = []
    for weight in WEIGHTS:
        wanted = (1 - weight) / of_windows.windows / len(problem.versions) * (
            problem.versions.T @ problem.versions
        ) + weight / of_totals / problem.nights * (problem.totals.T @ problem.totals)
        found, gap = least_error(wanted)
        best.append(problem.errors(found))
        _print(f"optimum, weight {weight:g}", best[-1], f"  gap {gap:.0e}")
    for share in SHARES:
        arrived = problem.arrivals.T @ running @ problem.arrivals
        both = problem.errors((1 - share) * alone + share * arrived)
        left, own = 1 - share, share
        by_night = problem.errors_of_each_night(left * one, own * running)
        apart = Errors(
            of_windows.windows / left, of_windows.final / left, of_totals / own, last_total / own
        )
        _print(f"share {share:g}, apart", apart)
        for name, errors in (("least squares", both), ("of each night", by_night)):
            over = f"  totals over optimum: {_over(errors, best):.3f}"
            _print(f"share {share:g}, {name}", errors, over)


def _over(both: Errors, best: list[Errors]) -> float:
    """Return the standard deviation of totals divided by that of the optimum whose windows have the
    same error.
    """
    windows, totals = (np.log([each[place] for each in best]) for place in (0, 2))
    there = float(np.interp(math.log(both.windows), windows, totals))
    return math.exp((math.log(both.totals) - there) / 2)


def _print(name: str, errors: Errors, more: str = "") -> None:
    windows, final, totals, last = map(math.sqrt, errors)
    print(f"{name:24}  {windows:7.3f}  {final:6.3f}  {totals:6.3f}  {last:12.3f}{more}", flush=True)


if __name__ == "__main__":
    main()
