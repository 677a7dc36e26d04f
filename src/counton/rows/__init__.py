"""Reading of events as rows, with polars: files, data frames and databases, times, declared groups,
exact sums.
"""

from counton.base.lazy import require_installed

require_installed("polars")
