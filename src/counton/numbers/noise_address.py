"""The address of a stream's noise: the text that decides, with the key, all noise of a stream.

It is built from facts alone, and from no job: forms of jobs and files may change, and the noise
stays. Its ``format`` is its own. `tests/net` has the addresses of forty jobs, byte by byte.
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
    """Return the text that decides a stream's noise under a key.

    Args:
        format: 2 if older versions of counton computed other noise for equal facts, otherwise 1.
        contribution: how much one unit changes the input; its word ``unit`` must not change the
            noise, and is left out.
        law: in units of drawn noise.
        strategy: its ``saved_name``.
        parameters: of the strategy; large arrays are digests.

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
