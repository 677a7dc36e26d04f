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
from counton.results.series_numbers import SeriesNumbers
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.results.release_data import ReleaseData

#: Largest number of a statistic's numbers whose errors are listed by name.
_MOST_NAMED_NUMBERS = 6
#: Number of significant digits to which errors are rounded before they are compared.
_COMPARED_DIGITS = 9


def margins_of_release(numbers: ReleaseData) -> dict[str, float]:
    """Return the margins of error of the last numbers by name; empty if not known.

    Args:
        numbers: the released numbers.

    Returns:
        The largest margin of each number; that of the only number has the name "".
    """
    if not numbers.is_by_group:
        return _margins_of_rows(last_rows(numbers), _columns_of_combinations(numbers))
    metadata = numbers.metadata
    series = numbers.series
    windows = metadata.windows
    if windows.n_revisions and series.totals is None and series.windows is not None:
        half = series.windows.half
        is_final = len(half) > windows.n_revisions
        oldest = "when final" if is_final else "of the oldest"
        ends = {"when first published": half[-1:], oldest: half[:-1][:1]}
        return {name: float(end[0]) for name, end in ends.items() if len(end)}
    last = numbers.steps[-1:]
    halfwidths_by_name = {"cumulative": series.totals}
    halfwidths_by_name[f"in each {windows.period or windows.every}"] = series.windows
    for width in metadata.widths:
        halfwidths_by_name[f"in the {metadata.last_in_words(width)}"] = series.rolling(width, last)
    if metadata.half_life is not None:
        halfwidths_by_name[""] = series.decayed(last)
    return {
        name: float(published.half[-1])
        for name, published in halfwidths_by_name.items()
        if published is not None and len(published.half)
    }


def errors_of_release(numbers: ReleaseData) -> list[str]:
    """Return sentences on the noise of the last numbers.

    Args:
        numbers: the released numbers.
    """
    return _errors_of_cells(numbers) if numbers.has_cells else _errors_of_results(numbers)


def _errors_of_cells(numbers: ReleaseData) -> list[str]:
    """Return sentences on the noise of each series of counts or sums."""
    metadata = numbers.metadata
    series = numbers.series
    by_words = {"a total": series.totals, "a window's own number": series.windows}
    for width in metadata.widths:
        by_words[f"the sum of the {metadata.last_in_words(width)}"] = series.rolling(width)
    if metadata.half_life is not None:
        by_words["a decayed sum"] = series.decayed()
    errors = [
        _error_of_series(published, numbers.level, words)
        for words, published in by_words.items()
        if published is not None and len(published.std)
    ]
    if metadata.ranks:
        margins = margins_in_words(margins_of_release(numbers))
        if margins:
            errors.append(
                "Intervals of the groups that are shown hold at once; their margins of error are "
                f"at most {margins}."
            )
    return errors


def _errors_of_results(numbers: ReleaseData) -> list[str]:
    """Return sentences on the noise of the last table of a statistic, or of a program's numbers."""
    last = last_rows(numbers)
    columns = _columns_of_combinations(numbers)
    margins = margins_in_words(_margins_of_rows(last, columns))
    level = percent(numbers.level)
    if isinstance(numbers.published, Releases):
        return [
            noise_in_words(last["noise_std"].drop_nulls().to_numpy()),
            f"At step {numbers.steps[-1]:,}, the last one, the margin of error ({level}%) is at "
            f"most {margins}.",
        ]
    last_margins = f"; the last margins of error are at most {margins}" if margins else ""
    return [
        *deviations_in_words(_deviations_of_rows(last, columns)),
        f"Intervals hold the numbers without noise with a probability of {level}% or more, "
        f"one at a time unless the table says else{last_margins}.",
    ]


def _columns_of_combinations(numbers: ReleaseData) -> list[str]:
    """Return the columns of a contingency table, whose numbers are named by those they count by."""
    statistic = numbers.metadata.statistic
    if statistic.keyword != "contingency":
        return []
    from counton.statistics.contingency import Contingency

    return [*statistic.columns] if isinstance(statistic, Contingency) else []


def _error_of_series(series: SeriesNumbers, level: float, series_name: str) -> str:
    """Return a sentence on the noise of a series.

    Args:
        series: its numbers.
        level: confidence level of the margin of error.
        series_name: words for one of its numbers, such as "a total".
    """
    low = _rounded(series.std.min())
    high = _rounded(series.std.max())
    last = _rounded(series.std[-1])
    half = float(series.half[-1])
    range_text = f" (from {low} to {high} over all steps)" if low != high else ""
    return (
        f"The noise of {series_name} has the standard deviation {last} at the last step"
        f"{range_text}, and its margin of error ({percent(level)}%) there is "
        f"{quantity(half, half)}."
    )


def margins_in_words(margins: Mapping[str, float]) -> str:
    """Return in words how large errors may be; "" if unknown.

    Args:
        margins: the margin of error of each number.

    >>> margins_in_words({"": 7.8}), margins_in_words({"mean": 0.52, "sum": 112.0})
    ('7.8', '0.52 (mean) and 112 (sum)')
    """
    if not margins:
        return ""
    are_quantiles = any(name.endswith(("median", "quantile")) for name in margins)
    names_numbers = are_quantiles or len(margins) > 1
    if names_numbers and len(margins) <= _MOST_NAMED_NUMBERS:
        texts = [f"{_margin_text(margin)} ({name})" for name, margin in margins.items()]
        return list_in_words(texts)
    low = _margin_text(min(margins.values()))
    high = _margin_text(max(margins.values()))
    return high if low == high else f"{low} to {high}, each as its range says"


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
        elif len(bounded) <= _MOST_NAMED_NUMBERS:
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


def _rounded(std: float) -> str:
    return quantity(float(std), float(std))


def _margin_text(margin: float) -> str:
    return quantity(margin, margin) if margin < math.inf else "any number"


def _margins_of_rows(rows: pl.DataFrame, columns: Sequence[str] = ()) -> dict[str, float]:
    """Return the largest margin of error of each number in a table.

    With ``columns`` of a contingency table, a number is named by those by which it counts, such as
    "sex x smokes"; the sum of all is "total".
    """
    if not {"estimate", "lower", "upper"} <= {*rows.columns}:
        return {}
    estimate = pl.col("estimate")
    margin = pl.max_horizontal(estimate - pl.col("lower"), pl.col("upper") - estimate)
    # ends are sums, whose last digits are not exact
    return _largest_by_name(rows, margin.cast(pl.Float64).round_sig_figs(_COMPARED_DIGITS), columns)


def _deviations_of_rows(rows: pl.DataFrame, columns: Sequence[str] = ()) -> dict[str, float]:
    """Return the largest standard deviation of the noise of each number in a table, by its name.

    It is infinite if it is not known, as that of the mean of few values: an approximation that is
    larger than the margin of error says nothing about a number between bounds.
    """
    if "noise_std" not in rows.columns:
        return {}
    largest = _largest_by_name(rows, pl.col("noise_std").cast(pl.Float64), columns)
    most = _margins_of_rows(rows, columns)
    return {
        name: std if std <= most.get(name, math.inf) else math.inf for name, std in largest.items()
    }


def _largest_by_name(
    rows: pl.DataFrame, number: pl.Expr, columns: Sequence[str]
) -> dict[str, float]:
    """Return the largest value of an expression over the rows of each number, by its name."""
    if columns:
        kept = [pl.when(pl.col(name).is_not_null()).then(pl.lit(name)) for name in columns]
        measure_names = pl.concat_str(kept, separator=" x ", ignore_nulls=True)
        rows = rows.with_columns(
            measure=pl.when(measure_names == "").then(pl.lit("total")).otherwise(measure_names)
        )
    names: list[str] = [
        name for name in ("statistic", "measure", "tree_level", "quantile") if name in rows.columns
    ]
    if "n_windows" in rows.columns and rows["n_windows"].n_unique() > 1:
        # numbers of several lengths have different errors
        length = pl.format("in the last {} windows", pl.col("n_windows"))
        rows = rows.with_columns(last_windows=length)
        names.append("last_windows")
    numbers = rows.select(names, value=number).drop_nulls("value").drop_nans("value")
    if not names or not numbers.height:
        return {"": max(numbers["value"])} if numbers.height else {}
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
