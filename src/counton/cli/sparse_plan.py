"""``counton plan --ones``: whether a stream of few ones is better counted in segments."""

from __future__ import annotations

import math

from rich.console import Console

from counton.cli.options import PlanOptions
from counton.cli.printing import print_json, print_line
from counton.errors import InvalidInput
from counton.jobs.guards import check_most
from counton.jobs.job import needed_guarantee
from counton.privacy import Contribution


def print_sparse_plan(options: PlanOptions) -> None:
    """The sparse counter, the plain one and a constant, by what all of their errors stay within.

    Raises:
        InvalidInput: steps are missing, or an option that a sparse plan would ignore.
    """
    from counton.statistics import plan_sparse

    assert options.ones is not None
    if options.steps is None:
        raise InvalidInput("--steps is missing: how many steps will the stream ever have?")
    given = {
        "--statistic": options.statistic,
        "--each-row": options.each_row or None,
        "--metric": options.metric,
        "--release": options.release,
        "--simple": options.simple or None,
        "--every": options.every,
        "--rmse": options.rmse,
        "--plot": options.plot,
        "--around": options.around,
    }
    ignored = [name for name, value in given.items() if value is not None]
    if ignored:
        raise InvalidInput(
            f"{', '.join(ignored)} with --ones: a sparse plan compares largest errors of one "
            f"running total: leave it out"
        )
    check_most(options.most)
    unit = None if options.most is None else Contribution.events(options.most, unit="user")
    guarantee = needed_guarantee(options.epsilon, options.delta, options.rho)
    found = plan_sparse(options.steps, options.ones, guarantee, contribution=unit)
    if not options.json:
        print_line(Console(), str(found))
        return
    sparse, proven = found.sparse_error, found.design.largest_error
    print_json(
        {
            "steps": options.steps,
            "ones": options.ones,
            "guarantee": guarantee.to_dict(),
            "probability": found.design.probability,
            "best": found.best,
            "largest_error": {
                "sparse": sparse if math.isfinite(sparse) else None,
                "sparse_proven": proven if math.isfinite(proven) else None,
                "plain": found.plain_error,
                "constant": found.constant_error,
            },
            "sparse_is_best_for_ones": found.wins,
            "segments": found.design.segments,
            "threshold": found.design.threshold,
            "closing": str(found.design.closing),
        }
    )
