"""Reading of events as rows, with polars: files, frames, databases, times, groups, exact sums."""

from counton.base.lazy import require_installed

require_installed("polars")
