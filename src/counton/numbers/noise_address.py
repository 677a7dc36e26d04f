"""The address of a stream's noise: the text that decides, with the key, all noise of a stream.

It is built from facts alone, and from no job: jobs and files may change their form, and the noise
stays. Its ``format`` is none of files, and is not numbered anew. `tests/net` has the addresses of
forty jobs, byte by byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def noise_address(
    *,
    format: int,
    guarantee: Mapping[str, Any],
    contribution: Mapping[str, Any],
    law: Mapping[str, Any],
    name: str,
    strategy: str,
    parameters: Mapping[str, Any],
    shape: Sequence[int],
    counters: Mapping[str, Any] | None = None,
    statistic: Mapping[str, Any] | None = None,
) -> str:
    """Return the text that decides a stream's noise under a key: all facts that identify the
    stream.

    Args:
        format: 2 if older versions of counton computed other noise for equal facts, otherwise 1.
        guarantee: the guarantee for all releases together.
        contribution: how much one unit changes the input. The word for the protected ``unit`` is
            left out, because it must not change the noise.
        law: the noise distribution, in units of drawn noise.
        name: the name of the stream.
        strategy: the ``saved_name`` of the strategy.
        parameters: of the strategy; large arrays are digests.
        shape: shape of one step's input.
        counters: the guarantee of the noise alone, if cells are added when needed.
        statistic: what the cells of the stream are.

    >>> facts = dict(format=1, guarantee={}, contribution={"unit": "row"}, law={}, shape=[])
    >>> noise_address(name="visits", strategy="Binary", parameters={"horizon": 9}, **facts)[:50]
    '{"contribution":{},"format":1,"guarantee":{},"law"'
    """
    address: dict[str, Any] = {
        "format": format,
        "guarantee": guarantee,
        "contribution": {fact: value for fact, value in contribution.items() if fact != "unit"},
        "law": law,
        "stream": name,
        "strategy": {"strategy": strategy, **parameters},
        "shape": [*shape],
    }
    if counters is not None:
        address["counters"] = counters
    if statistic is not None:
        address["statistic"] = dict(statistic)
    return json.dumps(address, sort_keys=True, separators=(",", ":"))
