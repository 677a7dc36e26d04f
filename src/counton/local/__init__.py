"""The local model: clients hide their own values, and nobody is trusted with the data.

Each client sends one noisy message. A server adds the messages up, and estimates the distribution
of the values and their median. `LocalMedian` is the question that clients and server agree on.

>>> from counton import ApproxDP
>>> from counton.local import LocalMedian
>>> question = LocalMedian.for_clients(500, ApproxDP(4, 1e-6), upper=100, name="delay")
>>> server = question.collect()
>>> for client in range(500):
...     server.add(question.randomise(30 + client % 21))  # runs where the client is
>>> low, high = server.estimate().interval(confidence_level=0.999999)
>>> low <= 40 <= high
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.base.lazy import attach

if TYPE_CHECKING:
    from counton.local.collection import LocalCollection as LocalCollection
    from counton.local.collection import LocalEstimate as LocalEstimate
    from counton.local.median import LocalMedian as LocalMedian
    from counton.local.protocol import LocalProtocol as LocalProtocol
    from counton.local.protocol import largest_move as largest_move

__getattr__, __dir__, __all__ = attach(__name__, __file__)
