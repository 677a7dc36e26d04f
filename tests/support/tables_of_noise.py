"""Noise that tests write down themselves, in place of a NoiseField."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class WrittenNoise:
    """Noise from a table: {level: array}. Nodes that are not written have none."""

    shape: tuple[int, ...] = ()

    def __init__(self, table: Mapping[int, NDArray[Any]]) -> None:
        self.table = table

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """See `NoiseField.run`."""
        drawn = np.zeros(len(nodes), np.int64)
        written = self.table.get(level, np.zeros(0, np.int64))[nodes.start : nodes.stop]
        drawn[: len(written)] = written
        return drawn
