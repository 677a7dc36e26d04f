"""Sentences on the noise of released numbers, and how large errors may be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from counton.base.columns import list_in_words
from counton.base.exact import percent, quantity
from counton.continual import Releases
from counton.continual.releases import noise_in_words
from counton.results.released_table import last_rows
from counton.results.series import Series
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData

#: Largest number of a statistic's numbers whose errors are listed by name.
_NAMED = 6
#: Number of significant digits to which errors are rounded before they are compared.
_DIGITS = 9


def reach_of_release(numbers: ReleaseData) -> dict[str, float]:
    """Return the half-widths of the last numbers by name, "" for one kind; empty if not known.

    Args:
        numbers: the released numbers.
    """
    if not numbers.is_by_group:
        return _reach_of_rows(last_rows(numbers), _columns_of_margins(numbers))
    windows = numbers.metadata.windows
    period = windows.period if windows.period else windows.every
    in_each = f"in each {period}"
    if windows.n_revisions and numbers.series.totals is None and numbers.series.windows is not None:
        half = numbers.series.windows.half
        final = len(half) > windows.n_revisions
        oldest = "when final" if final else "of the oldest"
        ends = {"when first published": half[-1:], oldest: half[:-1][:1]}
        return {name: float(end[0]) for name, end in ends.items() if len(end)}
    series_by_words = {"cumulative": numbers.series.totals, in_each: numbers.series.windows}
    for width in numbers.metadata.widths:
        series_by_words[f"in the {numbers.metadata.last_in_words(width)}"] = numbers.series.rolling(
            width, numbers.steps[-1:]
        )
    if numbers.metadata.half_life is not None:
        series_by_words[""] = numbers.series.decayed(numbers.steps[-1:])
    return {
        name: float(series.half[-1])
        for name, series in series_by_words.items()
        if series is not None and len(series.half)
    }


def errors_of_release(numbers: ReleaseData) -> list[str]:
    """Return sentences on the noise of the last numbers.

    Args:
        numbers: the released numbers.
    """
    far = far_in_words(reach_of_release(numbers))
    if numbers.has_cells:
        by_words = {
            "a total": numbers.series.totals,
            "a window's own number": numbers.series.windows,
        }
        for width in numbers.metadata.widths:
            windows = numbers.metadata.last_in_words(width)
            by_words[f"the sum of the {windows}"] = numbers.series.rolling(width)
        if numbers.metadata.half_life is not None:
            by_words["a decayed sum"] = numbers.series.decayed()
        errors = [
            _series_error_in_words(series, numbers.level, words)
            for words, series in by_words.items()
            if series is not None and len(series.std)
        ]
        if numbers.metadata.ranks and far:
            errors.append(
                "Intervals of the groups that are shown hold at once; their margins of error are "
                f"at most {far}."
            )
        return errors
    last = last_rows(numbers)
    if isinstance(numbers.published, Releases):
        errors = [noise_in_words(last["noise_std"].drop_nulls().to_numpy())]
    else:
        errors = deviations_in_words(_deviations_of_rows(last, _columns_of_margins(numbers)))
    level = percent(numbers.level)
    if isinstance(numbers.published, Releases):
        note = (
            f"At step {numbers.steps[-1]:,}, the last one, the margin of error ({level}%) is at "
            f"most {far}."
        )
        return [*errors, note]
    reach = ""
    if far:
        reach = f"; the last margins of error are at most {far}"
    return [
        *errors,
        (
            f"Intervals hold the numbers without noise with a probability of {level}% or more, "
            f"one at a time unless the table says else{reach}."
        ),
    ]


def _columns_of_margins(numbers: ReleaseData) -> list[str]:
    """Return the columns of a contingency table, whose numbers are named by those they count by."""
    of_table = hasattr(numbers.metadata.statistic.result_type, "margin")
    return [*getattr(numbers.metadata.statistic, "columns", ())] if of_table else []


def _series_error_in_words(series: Series, level: float, series_name: str) -> str:
    """Return a sentence on the noise of a series.

    Args:
        series: its numbers.
        level: confidence level of the margin of error.
        series_name: words for one of its numbers, such as "a total".
    """
    low, high, last = (
        quantity(deviation, deviation)
        for deviation in map(float, (series.std.min(), series.std.max(), series.std[-1]))
    )
    half = float(series.half[-1])
    between = f" (from {low} to {high} over all steps)" if low != high else ""
    return (
        f"The noise of {series_name} has the standard deviation {last} at the last step{between}, "
        f"and its margin of error ({percent(level)}%) there is {quantity(half, half)}."
    )


def far_in_words(reach: Mapping[str, float]) -> str:
    """Return in words how large errors may be; "" if unknown.

    >>> far_in_words({"": 7.8}), far_in_words({"mean": 0.52, "sum": 112.0})
    ('7.8', '0.52 (mean) and 112 (sum)')
    """
    of_quantiles = any(name.endswith(("median", "quantile")) for name in reach)
    if len(reach) > 1 - of_quantiles and len(reach) <= _NAMED:
        return list_in_words([f"{_far(far)} ({name})" for name, far in reach.items()])
    low, high = (_far(pick(reach.values(), default=0)) for pick in (min, max))
    if not reach or low == high:
        return high if reach else ""
    return f"{low} to {high}, each as its range says"


def deviations_in_words(deviations: Mapping[str, float]) -> list[str]:
    """Return sentences on the standard deviations of noise, by the name of the number.

    >>> deviations_in_words({"": 7.8}), deviations_in_words({"mean": 0.5, "sum": 112.0})
    (['The noise of the last numbers has the standard deviation 7.8.'], ['The noise of the last
    numbers has the standard deviation 0.50 (mean) and 112 (sum).'])
    """
    bounded = {name: std for name, std in deviations.items() if std < math.inf}
    sentences = []
    if bounded:
        noise = "The noise of the last numbers has"
        values = [quantity(std, std) for std in bounded.values()]
        if len(bounded) == 1 and "" in bounded:
            sentences = [f"{noise} the standard deviation {values[0]}."]
        elif len(bounded) <= _NAMED:
            phrases = [f"{value} ({name})" for value, name in zip(values, bounded, strict=True)]
            sentences = [f"{noise} the standard deviation {list_in_words(phrases)}."]
        else:
            low = min(bounded.values())
            high = max(bounded.values())
            ends = f"from {quantity(low, low)} to {quantity(high, high)}"
            sentences = [f"{noise} standard deviations {ends}."]
    unknown = [name for name in deviations if name not in bounded]
    if unknown and bounded:
        sentences.append(f"That of {list_in_words(unknown)} is not known, for so few rows.")
    return sentences


def _far(far: float) -> str:
    return quantity(far, far) if far < math.inf else "any number"


def _reach_of_rows(rows: pl.DataFrame, margins: Sequence[str] = ()) -> dict[str, float]:
    """Return the largest half-width of each number in a table.

    With ``margins``, columns of a contingency table, a number is named by those by which it counts,
    such as "sex x smokes"; the sum of all is "total".
    """
    if not {"estimate", "lower", "upper"} <= {*rows.columns}:
        return {}
    estimate = pl.col("estimate")
    far = pl.max_horizontal(estimate - pl.col("lower"), pl.col("upper") - estimate)
    # ends are sums, whose last digits are not exact
    return _largest_by_name(rows, far.cast(pl.Float64).round_sig_figs(_DIGITS), margins)


def _deviations_of_rows(rows: pl.DataFrame, margins: Sequence[str] = ()) -> dict[str, float]:
    """Return the largest standard deviation of the noise of each number in a table, by its name.

    It is infinite if it is not known, as that of the mean of few values: an approximation that is
    larger than the margin of error says nothing about a number between bounds.
    """
    if "noise_std" not in rows.columns:
        return {}
    largest = _largest_by_name(rows, pl.col("noise_std").cast(pl.Float64), margins)
    most = _reach_of_rows(rows, margins)
    return {
        name: std if std <= most.get(name, math.inf) else math.inf for name, std in largest.items()
    }


def _largest_by_name(
    rows: pl.DataFrame, number: pl.Expr, margins: Sequence[str]
) -> dict[str, float]:
    """Return the largest value of an expression over the rows of each number, by its name."""
    if margins:
        kept = [pl.when(pl.col(name).is_not_null()).then(pl.lit(name)) for name in margins]
        by = pl.concat_str(kept, separator=" x ", ignore_nulls=True)
        rows = rows.with_columns(measure=pl.when(by == "").then(pl.lit("total")).otherwise(by))
    names = [
        name for name in ("statistic", "measure", "tree_level", "quantile") if name in rows.columns
    ]
    numbers = rows.select(*names, far=number).drop_nulls("far").drop_nans("far")
    if not names or not numbers.height:
        return {"": max(numbers["far"])} if numbers.height else {}
    most = numbers.group_by(names, maintain_order=True).max()
    return {
        " ".join(_name_of(name) for name in row[:-1] if name not in (None, "all")): row[-1]
        for row in most.rows()
    }


def _name_of(name: str | float) -> str:
    """Return a number's name in words; 0.9 is the share of a quantile.

    >>> _name_of("mean"), _name_of(0.5), _name_of(0.9)
    ('mean', 'median', '0.9 quantile')
    """
    if isinstance(name, str):
        return name
    return "median" if name == 0.5 else f"{name:g} quantile"
