"""Jobs whose address of noise stays as it is, byte by byte, each with its name stated.

The address is the text that decides, with the key, all noise of a stream. While it stays, the
noise of a job stays, whatever becomes of jobs, states and files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.net.nights import BY, ONCE, OVER_TIME, STATISTICS, USER, Night, released

#: Statistics of users, and found groups, which need a delta.
LEFT_OUT = ("distinct", "report of users", "found")
GUARANTEES: dict[str, dict[str, Any]] = {"epsilon": {"epsilon": 4}, "rho": {"rho": "0.5"}}
ENDLESS = {name: value for name, value in OVER_TIME.items() if name != "windows"}


def cases() -> Iterator[tuple[str, Night]]:
    """All of them, by name."""
    for name, own in STATISTICS.items():
        if name in LEFT_OUT:
            continue
        for guarantee, promised in GUARANTEES.items():
            yield f"{name}, {guarantee}", Night({**OVER_TIME, **promised, **own}, nights=1)
            if name in ONCE:
                yield f"{name} once, {guarantee}", Night({**promised, **own}, nights=1)
    yield "found, delta", Night(OVER_TIME | {"epsilon": 4} | STATISTICS["found"], nights=1)
    both = {"epsilon": 1, "delta": "1e-6"}
    yield "groups, delta", Night(OVER_TIME | both | BY, nights=1)
    for name in ("count", "groups", "average by group"):
        for people, bound in {
            "rows": {},
            "people": USER,
            "a day": {**USER, "contribution_period": "1d"},
        }.items():
            asked = {**ENDLESS, "expected_windows": 9, "epsilon": 1, **STATISTICS[name], **bound}
            yield f"{name} without an end, {people}", Night(asked, nights=1)
    yield "expiring, epsilon", Night({**ENDLESS, "expiring": True, "epsilon": 1}, nights=1)
    yield "expiring, rho", Night({**ENDLESS, "expiring": True, "rho": "0.5"}, nights=1)


def addresses(case: Night, folder: Path) -> list[str]:
    """The addresses of noise that a job draws, each once, in their order.

    Args:
        case: the job.
        folder: an empty one, which is the working directory.
    """
    from counton.continual import Design

    found: dict[str, None] = {}
    address: Any = Design._address

    def noted(design: Design) -> str:
        text: str = address.fget(design)
        found[text] = None
        return text

    with patch.object(Design, "_address", property(noted)):
        released(case, folder)
    return list(found)
