"""Find lasting changes of level in released windows, at a stated rate of false alarms.

    python recipes/watch.py visits.csv --false-alarms 1

The file has counts or sums of windows (``--series per-window``, or ``--allowed-lateness``, of which
only final windows are used): their noise is independent, with one standard deviation. Each number
is compared with its forecast from the earlier numbers of the same weekday. The errors of these
forecasts, scaled to standard normal numbers, enter a cumulative sum (CUSUM). Released numbers are
public, so an alarm costs no privacy.

The program prints a row for each alarm, and ends with exit code 10 if the newest window has one.
Groups must have been declared: groups that were found in the rows are shown because they are large.

Sources: recursive residuals, Brown, Durbin and Evans, JRSS B 37 (1975); the run length of a
cumulative sum as an integral equation, Page, Biometrika 41 (1954).
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

import counton

#: Windows before the first possible alarm, besides one for each weekday.
LEARN = 14
#: Half the size of the change for which the sum is best, in standard deviations of a residual.
ALLOWANCE = 0.5

Floats = NDArray[np.float64]


def residuals(numbers: Floats, season: int) -> Floats:
    """Return the scaled forecast errors of all windows but the first ``season + LEARN``.

    Without a change they are independent standard normal numbers.
    """
    design = np.eye(season)[np.arange(len(numbers)) % season]
    found = []
    for window in range(season + LEARN, len(numbers)):
        past = design[:window]
        seen = numbers[:window]
        level = (past.T @ seen) / past.sum(axis=0)  # the mean of each weekday
        degrees = window - season
        std = np.sqrt(((seen - past @ level) ** 2).sum() / degrees)
        missed = numbers[window] - design[window] @ level
        missed /= np.sqrt(1 + design[window] @ (1 / past.sum(axis=0)))
        student = missed / max(std, 1e-300)
        found.append(np.clip(special.ndtri(special.stdtr(degrees, student)), -8, 8))
    return np.array(found)


def run_length(threshold: float) -> float:
    """Return the mean number of windows until a one-sided sum of standard normal numbers exceeds
    the threshold.
    """
    nodes, weights = np.polynomial.legendre.leggauss(96)
    nodes = (nodes + 1) * threshold / 2
    weights = weights * threshold / 2
    places = np.concatenate([[0.0], nodes])
    density = np.exp(-((nodes - places[:, None] + ALLOWANCE) ** 2) / 2) / np.sqrt(2 * np.pi)
    moves = np.column_stack([special.ndtr(ALLOWANCE - places), density * weights])
    return float(np.linalg.solve(np.eye(len(places)) - moves, np.ones(len(places)))[0])


def threshold_for(rate: float) -> float:
    """Return the threshold with an expected number ``rate`` of false alarms in a window."""
    if not 1e-5 <= rate <= 0.05:
        raise SystemExit(f"{rate:g} false alarms in one window: give 0.00001 to 0.05")
    low = 0.1
    high = 40.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        often = 2 / run_length(middle) > rate  # increases and decreases
        low, high = (middle, high) if often else (low, middle)
    return high


def alarms(errors: Floats, threshold: float) -> list[tuple[int, float]]:
    """Return the index of each alarm and the value of the sum there, which begins anew then."""
    up = 0.0
    down = 0.0
    found = []
    for place, error in enumerate(errors):
        up = max(0.0, up + error - ALLOWANCE)
        down = max(0.0, down - error - ALLOWANCE)
        if max(up, down) > threshold:
            found.append((place, up if up >= down else -down))
            up = down = 0.0
    return found


def watch(table: pl.DataFrame, false_alarms: float) -> tuple[pl.DataFrame, bool]:
    """Return a row for each alarm, and whether the newest window has one.

    Args:
        table: the table of a release, as `counton.Release.table` returns it.
        false_alarms: expected number of false alarms in a year, of all groups together.
    """
    series = set(table["series"]) if "series" in table.columns else set()
    if "per-window" not in series:
        raise SystemExit("the file has no windows of equal noise; release with --series per-window")
    if series != {"per-window"}:
        raise SystemExit("windows as differences of totals share noise; use --series per-window")
    if "is_final" in table.columns:
        table = table.filter("is_final")
    groups = table.partition_by("group", as_dict=True, maintain_order=True)
    rows = []
    newest = False
    for (group,), own in groups.items():
        begins = own["window_start"]
        days = (begins[-1] - begins[0]).total_seconds() / 86_400 / max(len(own) - 1, 1)
        season = 7 if round(days, 1) == 1 else 24 if round(days * 24, 1) == 1 else 1
        if len(own) <= season + LEARN:
            raise SystemExit(f"{season + LEARN} windows show what is usual; wait for more")
        limit = threshold_for(false_alarms * days / 365.25 / len(groups))
        for place, value in alarms(residuals(own["estimate"].to_numpy(), season), limit):
            at = place + season + LEARN
            rows.append((begins[at], group, "increase" if value > 0 else "decrease", value, limit))
            newest |= at == len(own) - 1
    columns = ["window_start", "group", "change", "value", "threshold"]
    return pl.DataFrame(rows, columns, orient="row"), newest


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="released table")
    parser.add_argument("--false-alarms", type=float, default=1.0, help="expected in a year")
    given = parser.parse_args()
    found, newest = watch(counton.read(given.file).table(), given.false_alarms)
    print(found if found.height else "No alarm.")
    raise SystemExit(10 if newest else 0)
