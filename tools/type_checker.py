"""A plugin of mypy that keeps it from looking for garbage: a sixth of its time, for 0.3 GB."""

import gc

from mypy.plugin import Plugin


def plugin(version: str) -> type[Plugin]:
    """Return nothing of its own; mypy sets the threshold of the collector before it asks."""
    gc.set_threshold(0)
    return Plugin
