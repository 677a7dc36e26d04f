"""How far totals beside revised windows are from the least error, by dense matrices and a search
over strategies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from counton.planning.least_totals import least_totals
from counton.run import Job
from counton.run.job_plan import planned_job
from counton.run.new_stream import design_of
from counton.strategies.joint_errors import step_covariance


class Cells:
    """Windows by lags, and what versions and totals read of them."""

    def __init__(self, windows: int, versions: int) -> None:
        found = [(w, lag) for w in range(windows) for lag in range(versions) if w + lag < windows]
        self.window, self.lag = np.array(found).T
        self.night, nights = self.window + self.lag, np.arange(windows)[:, None]
        same = self.window[:, None] == self.window
        self.same, self.versions = same, (same & (self.lag <= self.lag[:, None])).astype(float)
        self.totals = (self.night <= nights).astype(float)


def searched(of: Cells, known: Any) -> float:
    """Search all strategies, upper triangular with columns of norm 1, for the least totals."""
    many = len(known)
    corner = np.triu_indices(many)

    def errors(entries: Any) -> tuple[Any, float]:
        strategy = np.zeros((many, many))
        strategy[corner] = entries
        inverse = np.linalg.inv(strategy / np.linalg.norm(strategy, axis=0))
        found = [((each @ inverse) ** 2).sum(axis=1) for each in (of.versions, of.totals)]
        return found[0], float(found[1].mean())

    done = minimize(
        lambda entries: errors(entries)[1],
        np.linalg.cholesky(np.eye(many) + 0.3).T[corner],
        constraints={"type": "ineq", "fun": lambda entries: known - errors(entries)[0]},
        method="SLSQP",
        options={"maxiter": 200, "ftol": 1e-9},
    )
    assert (errors(done.x)[0] < known * (1 + 1e-6)).all()
    return errors(done.x)[1]


def built(job: Job, of: Cells) -> tuple[Any, float]:
    """Variances of versions and of totals, each in the table of its night, by generalised least
    squares from all numbers that were released; a single measurement with the budget has 1.
    """
    terms = design_of(planned_job(job).definition, ())
    both: Any = terms.strategy
    unit = float(terms.law.variance) / 4.0**both.windows.facts.lattice_bits
    shared = both.windows.lag_covariance(of.lag[:, None], of.lag) * unit
    steps = range(1, both.horizon + 1)
    changes = np.tril(step_covariance(both.totals, both.law, steps, steps))
    changes += np.tril(changes, -1).T
    summed = np.tri(both.horizon)
    noise = np.where(of.same, shared, 0.0), summed @ changes @ summed.T
    found, totals = np.zeros(len(of.lag)), 0.0
    for night in range(both.horizon):
        seen, new = of.night <= night, of.night == night
        apart = [np.linalg.inv(noise[0][seen][:, seen])]
        apart.append(np.linalg.inv(noise[1][: night + 1, : night + 1]))
        reads = [of.versions[seen][:, seen], of.totals[: night + 1, seen]]
        known = sum(read.T @ inverse @ read for read, inverse in zip(reads, apart, strict=True))
        asked = np.vstack([of.versions[new], of.totals[night]])[:, seen]
        each = (asked @ np.linalg.inv(known) * asked).sum(axis=1)
        found[new], totals = each[:-1], totals + each[-1] / both.horizon
    guarantee: Any = terms.guarantee
    twice = 2 * float(guarantee.rho)
    return found * twice, totals * twice


@pytest.mark.parametrize(
    ("steps", "revise", "share"), [(4, "1d", "0.1"), (3, "2d", "0.3"), (2, "3d", "0.5")]
)
def test_a_plan_says_how_far_totals_are_from_the_best_strategy(
    steps: int, revise: str, share: str
) -> None:
    job = Job(
        "count", "v.csv", "v.db", time="at", every="1d", start="2024-03-01", steps=steps,
        revise=revise, rho="0.7", also_totals=share,
    )  # fmt: skip
    of = Cells(steps, int(revise[0]) + 1)
    known, totals = built(job, of)
    least = searched(of, known)
    planned: Any = planned_job(job).totals
    assert planned.nights == steps
    over = (totals / least) ** 0.5 - 1
    assert over - 1e-6 <= planned.over_least < over + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_no_strategy_is_below_the_bound(seed: int) -> None:
    """Any strategy has at least the totals that are proven beside its own windows."""
    rng, of = np.random.default_rng(seed), Cells(5, 3)
    strategy = rng.normal(size=(len(of.lag),) * 2) + 3 * np.eye(len(of.lag))
    inverse = np.linalg.inv(strategy / np.linalg.norm(strategy, axis=0))
    windows, totals = (((each @ inverse) ** 2).sum(axis=1) for each in (of.versions, of.totals))
    versions = np.full((5, 3), np.nan)
    versions[of.window, of.lag] = windows
    for share in (0.1, 0.5, 0.9):
        bound = least_totals(versions, totals.mean(), share)
        assert 0 < bound <= totals.mean()


@pytest.mark.parametrize(
    ("more", "nights"),
    [
        ({"epsilon": 1}, None),
        ({"rho": 1, "corrections": 1, "id": "id"}, None),
        ({"rho": 1, "user": "user", "most": 2}, None),
        ({"rho": 1, "revise": "40d"}, None),  # no window would be final where it is computed
        ({"rho": 1, "by": "group", "domain": "a,b", "revise": "14d"}, 41),
    ],
    ids=str,
)
def test_where_no_bound_is_good_none_is_said(more: dict[str, Any], nights: int | None) -> None:
    told: dict[str, Any] = {"revise": "7d", "steps": 70, "also_totals": 0.1, **more}
    job = Job("count", "v.csv", "v.db", time="at", every="1d", start="2024-03-01", **told)
    planned: Any = planned_job(job).totals
    assert (planned.over_least is None) == (nights is None)
    assert nights in (None, planned.nights)
