"""A running statistic under a new key."""

from typing import Any

from counton import Key, RunningStatistic


def started(statistic: Any, *terms: Any, **more: Any) -> Any:
    """Start a statistic whose key and name do not matter."""
    return RunningStatistic.start(statistic, *terms, key=Key.generate(), name="s", **more)
