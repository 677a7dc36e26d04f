"""Every statistic under every guarantee, in every kind of windows, for events and for people.

At a huge loss the released numbers are the truth. The measured matrix is the same in each run. The
noise is calibrated to the largest change by one unit, found by trying (`measured_streams`).
"""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_results
from measured_streams import (
    ALLOWED,
    HUGE,
    REFUSED,
    RUNS,
    SMALL,
    SPREAD,
    Case,
    Moved,
    calibrated_l1,
    calibrated_l2_squared,
    largest_change,
    steps_of,
)
from some_cases import long

from counton.base.distributions import DiscreteGaussian, NoiseDistribution, Sensitivity
from counton.base.errors import InvalidInputError
from counton.continual import Design
from counton.continual.design import design_for
from counton.privacy import ContributionBound, calibrate
from counton.run import StreamSpec, run
from counton.run.spec.plan_spec import plan_spec


def check_noise(case: Case, design: Design, statistic: Any) -> None:
    """Check that the noise of a stream hides the largest change by one unit, and not much more."""
    moved = largest_change(case, steps_of(design), case.columns(statistic))
    l1 = calibrated_l1(design)
    l2_squared = calibrated_l2_squared(design)
    if l1 is not None:
        assert is_near(float(l1), moved.l1, case.slack)
    elif l2_squared is not None:
        assert is_near(float(l2_squared), moved.l2_squared, case.slack)
    else:
        width = float(width_of(design.distribution))
        assert any(is_near(width, each, case.slack) for each in needed_widths(case, design, moved))


def is_near(calibrated: float, true: float, slack: float) -> bool:
    """Return whether a calibrated norm covers the true one, and is at most ``slack`` times it."""
    return true * (1 - 1e-9) <= calibrated <= true * slack * (1 + 1e-9)


def needed_widths(case: Case, design: Design, moved: Moved) -> list[float]:
    """Return the widths of noise for the true change, by each way of calibration that may be used.

    Where several nodes change alike, Laplace noise may be composed node by node. Where the strategy
    is not causal, Gaussian noise may be calibrated for a unit in one step.
    """
    norms = math.ceil(moved.l1 - 1e-6), math.ceil(moved.l2_squared - 1e-6)
    known: list[Any] = [None]
    if len(moved.sizes) == 1:
        ((size, count),) = moved.sizes.items()
        known.append(((round(size), count),))
    causal = design.strategy.facts.causal
    distributions = [
        calibrate(
            design.guarantee,
            Sensitivity(*norms, entries),
            design.noise_kind,
            causal=causal,
            once=once,
        ).distribution
        for entries in known
        for once in {causal, causal or case.most == 1}
    ]
    return [float(width_of(distribution)) for distribution in distributions]


def width_of(distribution: NoiseDistribution) -> Fraction:
    """Return the scale of Laplace noise, or the variance of Gaussian noise."""
    return (
        distribution.sigma_squared
        if isinstance(distribution, DiscreteGaussian)
        else distribution.scale
    )


def check_stream(case: Case, folder: Path) -> None:
    """Run a stream three times, and check its matrix, its noise and its numbers."""
    measured = []
    for day in range(1, RUNS + 1):
        with run(case.job(folder, day, HUGE)) as outcome:
            design = run_results.design_of(outcome)
            statistic = None if design.statistic is None else outcome.spec.metadata().statistic
            measured.append(np.array(case.columns(statistic)))
            check_noise(case, design, statistic)
            table = outcome.read().table()
    for matrix in measured:
        np.testing.assert_array_equal(matrix, measured[0])
    named = [
        name
        for name in ("statistic", "tree_level", "group", "page", "kind", "measure", "quantile")
        if name in table.columns
    ]
    if "measure" in named and "running total" in table["measure"]:  # sums of the counts
        table = table.filter(measure="count")
        named.remove("measure")
    if case.windows == "both":
        table = table.filter(series="cumulative")
    for step in (1,) if case.windows == "table" else range(1, RUNS + 1):
        rows = table if case.windows == "table" else table.filter(table["window_index"] == step)
        released = {}
        for row in rows.to_dicts():
            labels = [row[column] for column in named]
            if "statistic" in named:  # of a report, whose numbers have other labels
                labels = [label for label in labels if label is not None]
            released[tuple(labels)] = row["estimate"]
        for name, number in case.true_numbers(step).items():
            assert released[name] == pytest.approx(number, abs=case.measured.tolerance), name


def check_plan(case: Case, folder: Path) -> None:
    """Check the noise of a stream that is planned for a small loss."""
    spec = plan_spec(case.job(folder, 1, SMALL), ())
    statistic = None if spec.accumulator_statistic.additive else spec.accumulator_statistic
    check_noise(case, design_of(spec, spec.contribution), statistic)


def design_of(spec: StreamSpec, contribution: ContributionBound) -> Design:
    """Return the design of a planned stream, calibrated to a contribution bound."""
    return design_for(spec.strategy, spec.terms.loss, contribution, spec.shape)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [SPREAD[::2], long(SPREAD[1::2])], ids=["even", "odd"])
def test_stream_of_few_cases_measures_one_matrix_and_releases_truth(
    cases: list[Case], tmp_path: Path
) -> None:
    for case in cases:
        folder = tmp_path / str(case)
        folder.mkdir()
        check_stream(case, folder)
        check_plan(case, folder)


@pytest.mark.parametrize("statistic", ["quantiles", "hierarchy", "ranges", "contingency"])
def test_check_of_noise_rejects_bound_of_unsettled_statistic(
    statistic: str, tmp_path: Path
) -> None:
    case = Case(statistic, "rho", "expiring", "events")
    job = case.job(tmp_path, 1, SMALL)
    spec = plan_spec(job, ())
    unsettled = spec.terms.privacy_unit.contribution(spec.terms.statistic_of_groups())
    design = design_of(spec, unsettled)
    with pytest.raises(AssertionError):
        check_noise(case, design, spec.accumulator_statistic)


@pytest.mark.long
@pytest.mark.parametrize("case", ALLOWED, ids=str)
def test_stream_at_huge_loss_measures_one_matrix_and_releases_truth(
    case: Case, tmp_path: Path
) -> None:
    check_stream(case, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("case", ALLOWED, ids=str)
def test_noise_at_small_loss_hides_largest_change(case: Case, tmp_path: Path) -> None:
    check_plan(case, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_stream_of_excluded_options_is_refused(case: Case, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=case.refusal()):
        plan_spec(case.job(tmp_path, 1, HUGE), ())
