"""Name, class, paper and error of each mechanism of the survey, as rows of the page.

`python -m papers.survey.names` prints them. Errors are mean standard deviations over 365 steps, by
the published way to compute totals. ``tests/papers/test_survey_names.py`` makes each strategy from
what is printed, and compares its error.
"""

from __future__ import annotations

import sys

from papers.less_noise.numbers import GUARANTEES
from papers.survey.numbers import PUBLISHED, Published

#: Number of steps of the printed errors.
STEPS = 365


def row(mechanism: Published) -> str:
    """The row of a mechanism.

    Args:
        mechanism: a row of the survey.

    >>> row(next(each for each in PUBLISHED if each.name == "binary tree"))[:56]
    '| binary tree | `Binary(T)` | Dwork, Naor, Pitassi, Roth'
    """
    errors = []
    for guarantee in GUARANTEES:
        computed = mechanism.errors(STEPS, guarantee)
        errors.append(f"{computed['mean']:.2f}" if computed else "–")
    python = " or ".join(f"`{expression}`" for expression in mechanism.python)
    cells = [mechanism.name, python, mechanism.who, mechanism.venue, *errors]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a row for each mechanism."""
    for mechanism in PUBLISHED:
        sys.stdout.write(f"{row(mechanism)}\n")


if __name__ == "__main__":
    main()
