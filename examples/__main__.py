"""`python -m examples`: a year of departures, cities that add up, and statistics of departures.

Each demonstration prints the commands that it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from counton.cli.exits import explain_errors


def main(words: Sequence[str] | None = None) -> None:
    """Run the demonstration that is asked for.

    Raises:
        SystemExit: with the exit code of the command, if it fails.
    """
    parser = argparse.ArgumentParser(prog="python -m examples", description=__doc__)
    parser.add_argument(
        "--folder", default="demo", help="where the data, the state and the results go"
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--departures", action="store_true", help="by carrier, hour by hour")
    which.add_argument(
        "--expiring", action="store_true", help="the same without an end: protection fades with age"
    )
    which.add_argument(
        "--hierarchy",
        action="store_true",
        help="inhabitants of 34,000 cities by country and region",
    )
    which.add_argument(
        "--statistics", action="store_true", help="top destinations, delays, episodes, graphs"
    )
    which.add_argument("--spark", action="store_true", help="the departures with Spark")
    asked = parser.parse_args(words)
    with explain_errors():
        if asked.departures or asked.expiring:
            from counton.cli.command_text import CommandActions
            from counton.cli.statistic_run import perform
            from examples.departures import options_for

            perform(options_for(asked.folder, expire=asked.expiring), CommandActions())
        elif asked.hierarchy:
            from counton.cli.command_text import CommandActions
            from counton.cli.statistic_run import perform
            from examples.cities import hierarchy_job_for

            perform(hierarchy_job_for(asked.folder), CommandActions())
        elif asked.spark:
            from examples.spark_departures import run_spark

            run_spark(asked.folder)
        else:
            from examples.departure_statistics import run_statistics

            run_statistics(asked.folder)


if __name__ == "__main__":
    main()
