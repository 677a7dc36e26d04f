"""`python -m examples`: count a year of departures from New York's airports, and more.

8,760 hours, 16 carriers, epsilon 1. Each demonstration prints the command that it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from counton.cli.exits import explained


def main(words: Sequence[str] | None = None) -> None:
    """Run the demonstration that is asked for.

    Raises:
        SystemExit: with the exit code of the command, if it fails.
    """
    parser = argparse.ArgumentParser(prog="python -m examples", description=__doc__)
    parser.add_argument(
        "--folder", default="demo", help="where the data, the state and the results go"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--expire", action="store_true", help="without an end date: protection fades with age"
    )
    which.add_argument(
        "--hierarchy",
        action="store_true",
        help="inhabitants of 34,000 cities by country and region",
    )
    which.add_argument(
        "--statistics", action="store_true", help="top destinations, delays, episodes, graphs"
    )
    asked = parser.parse_args(words)
    with explained():
        if asked.hierarchy:
            from counton.cli.tables import perform_hierarchy
            from examples.cities import hierarchy_options_for

            perform_hierarchy(*hierarchy_options_for(asked.folder))
        elif asked.statistics:
            from examples.departure_statistics import run_statistics

            run_statistics(asked.folder)
        else:
            from counton.cli.run import perform
            from examples.departures import options_for

            perform(options_for(asked.folder, expire=asked.expire), bar=True)


if __name__ == "__main__":
    main()
