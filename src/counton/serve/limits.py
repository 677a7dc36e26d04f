"""How much each may send and ask for, so that one of them leaves room for the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Any

from fastapi import Depends, HTTPException, Request

#: Seconds over which a rate is counted.
_OVER = 10.0
#: Callers whose buckets are kept: of more, those go who came longest ago.
_MOST_CALLERS = 65_536


class Rates:
    """What each caller may still have: a bucket that fills again.

    >>> rates = Rates(2, clock=iter([0.0, 0.0, 0.0, 0.0, 1.0]).__next__)
    >>> rates.wait("a")
    0.0
    >>> rates.spend("a", 21)
    >>> rates.wait("a"), rates.wait("b"), rates.wait("a")
    (1.0, 0.0, 0.0)

    Args:
        rate: a second, over ten seconds; 0: there is no bound.
        clock: seconds.
    """

    def __init__(self, rate: int, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._most, self._clock = rate, rate * _OVER, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Seconds until a caller may come again; 0: now."""
        if not self._rate:
            return 0.0
        left, _ = self._now(caller)
        return 0.0 if left > 0 else (1 - left) / self._rate

    def spend(self, caller: str, many: int) -> None:
        """A caller has had this many."""
        if not self._rate:
            return
        left, at = self._now(caller)
        self._left[caller] = left - many, at
        self._left.move_to_end(caller)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)

    def _now(self, caller: str) -> tuple[float, float]:
        now = self._clock()
        left, at = self._left.get(caller, (self._most, now))
        return min(self._most, left + (now - at) * self._rate), now


class Room:
    """Bytes of bodies that are held in memory, of all requests together."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0

    def take(self, size: int) -> bool:
        """Whether there is room, which is then taken."""
        if self.held + size > self.most:
            return False
        self.held += size
        return True

    def give(self, size: int) -> None:
        """Give room back."""
        self.held -= size


class ReadingLimit:
    """How often each reader may ask, and all of them together.

    A reader is known by a token; without one by an address. Who asks from this machine itself is
    bounded with all others alone: that is a proxy, behind which readers cannot be told apart.

    Args:
        each: requests a second of one reader; 0: there is no bound.
        together: requests a second of all readers; 0: there is no bound.
        proxies: how many proxies add to the header X-Forwarded-For on the way here.
        clock: seconds.

    Attributes:
        refused: how many requests were.
    """

    def __init__(
        self, each: int, together: int, proxies: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._each, self._together = Rates(each, clock), Rates(together, clock)
        self._proxies = proxies
        self._words = (
            f"more than {each:,} requests a second of one reader",
            f"more than {together:,} requests a second of all readers",
        )
        self.refused = 0

    @property
    def check(self) -> Any:
        """A dependency of a path: refuses who asks too often. What a token says comes before."""

        async def check(request: Request) -> None:
            reader = getattr(request.state, "caller", "") or address_of(request, self._proxies)
            buckets = [(self._together, "", self._words[1])]
            if reader is not None:
                buckets.insert(0, (self._each, reader, self._words[0]))
            for rates, who, says in buckets:
                wait = rates.wait(who)
                if wait > 0:
                    self.refused += 1
                    raise later(429, says, wait)
            for rates, who, _ in buckets:
                rates.spend(who, 1)

        return Depends(check)


def address_of(request: Request, proxies: int) -> str | None:
    """Where a request comes from; None: from this machine.

    Of an IPv6 address the network: who has one of its addresses has all of them.
    """
    told = [
        hop.strip()
        for line in request.headers.getlist("x-forwarded-for")
        for hop in line.split(",")
    ]
    peer = "" if request.client is None else request.client.host
    try:
        address = ip_address(told[-proxies] if 0 < proxies <= len(told) else peer)
    except ValueError:
        return "no address"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return None
    if isinstance(address, IPv6Address):
        return address.exploded[:19]
    return str(address)


def later(status: int, why: str, seconds: float) -> HTTPException:
    """Ask a client to come again later; nothing was done."""
    return HTTPException(status, why, {"Retry-After": str(max(1, round(seconds + 0.5)))})
