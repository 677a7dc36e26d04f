"""Event data through polars: files of rows, times and windows, declared groups, exact tallies."""

from counton.extras import require

require("polars")
