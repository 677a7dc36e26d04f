"""Event data through polars: files of rows, times and windows, declared groups, exact tallies."""

from counton.base.lazy import require_installed

require_installed("polars")
