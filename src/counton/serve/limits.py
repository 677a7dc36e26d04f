"""Limits on the requests and rows of each caller, so that every caller is served."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Any

from fastapi import Depends, HTTPException, Request

from counton.state.inbox import Sender

#: Seconds over which a rate is counted.
_OVER = 10.0
#: Most callers whose allowances are kept; the least recent callers are dropped.
_MOST_CALLERS = 65_536
#: Number of batches of the first sender that may be in memory at once.
_AT_ONCE = 16


class Rates:
    """Limits on how often each caller may send requests. A caller has an allowance that requests
    use up and that grows again (token bucket).

    Args:
        rate: growth of an allowance per second; an allowance never exceeds the growth of ten
            seconds. 0: no limit.
        clock: function that returns the time in seconds.

    >>> rates = Rates(2, clock=iter([0.0, 0.0, 0.0, 0.0, 1.0]).__next__)
    >>> rates.wait("a")
    0.0
    >>> rates.spend("a", 21)
    >>> rates.wait("a"), rates.wait("b"), rates.wait("a")
    (1.0, 0.0, 0.0)
    """

    def __init__(self, rate: int, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._most, self._clock = rate, rate * _OVER, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Return how many seconds a caller must wait before the next request; 0 if some of the
        caller's allowance is left.
        """
        if not self._rate:
            return 0.0
        left, _ = self._now(caller)
        return 0.0 if left > 0 else (1 - left) / self._rate

    def spend(self, caller: str, many: int) -> None:
        """Deduct an amount, such as a number of requests, from a caller's allowance."""
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


class Rooms:
    """Limits on the memory that each sender may fill with requests that are being received.

    The sender with number n may fill the memory of 16 / n batches of the largest size, but at least
    of one such batch.

    >>> rooms, ann, bob = Rooms(100), Sender("ann", 1), Sender("bob", 40)
    >>> rooms.take(ann, 1600), rooms.take(ann, 1), rooms.take(bob, 100), rooms.take(bob, 1)
    (True, False, True, False)

    Args:
        batch: number of bytes of the largest allowed batch.
    """

    def __init__(self, batch: int) -> None:
        self._batch, self._held = batch, Counter[str]()

    def take(self, sender: Sender, size: int) -> bool:
        """Reserve ``size`` bytes of the memory that a sender may fill; return False if not enough
        are free.
        """
        if self._held[sender.id] + size > self._batch * max(1.0, _AT_ONCE / sender.number):
            return False
        self._held[sender.id] += size
        return True

    def give(self, sender: Sender, size: int) -> None:
        """Release ``size`` reserved bytes of the memory that a sender may fill."""
        self._held[sender.id] -= size
        if not self._held[sender.id]:
            del self._held[sender.id]


class ReadingLimit:
    """Limits on the requests for reading: of each reader, and of all together.

    A token identifies a reader; without a token, the network address does. Requests from this
    machine itself have only the common limit: they come through a proxy, behind which readers
    cannot be told apart.

    Args:
        each: requests per second of one reader; 0: no limit.
        together: requests per second of all readers; 0: no limit.
        proxies: number of proxies that add to the header X-Forwarded-For.
        clock: function that returns the time in seconds.

    Attributes:
        refused: number of refused requests.
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
        """FastAPI dependency that refuses the requests of a reader who asks too often; it runs
        after the request's token (its permission) is checked.
        """

        async def check(request: Request) -> None:
            token = getattr(request.state, "token", None)
            reader = address_of(request, self._proxies) if token is None else token.id
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
    """Return the network address of a request's sender; None for this machine. ``proxies`` is the
    number of proxies that add to the header X-Forwarded-For.

    An IPv6 address is cut to its first 64 bits, because one client may use all addresses that begin
    with them.
    """
    hops = [
        hop.strip()
        for line in request.headers.getlist("x-forwarded-for")
        for hop in line.split(",")
    ]
    peer = "" if request.client is None else request.client.host
    try:
        address = ip_address(hops[-proxies] if 0 < proxies <= len(hops) else peer)
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
    """Build the HTTP error (status and reason ``why``) that asks a client to repeat its request
    after some seconds, because nothing was done.
    """
    return HTTPException(status, why, {"Retry-After": str(max(1, round(seconds + 0.5)))})
