"""Event data through polars: files of rows, times and windows, declared groups, exact tallies."""

from counton.lazy import require

require("polars")
