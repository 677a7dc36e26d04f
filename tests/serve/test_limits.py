"""How often readers may ask: each by a token or an address, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from inside import Inside, visit
from services import job_file
from starlette.requests import Request

from counton.serve import service as services
from counton.serve.limits import _MOST_CALLERS, Rates, ReadingLimit, address_of

LIST = "/v1/streams"


class Asking(Inside):
    """A service that is asked from any address; its clock stands still until it is set."""

    seconds = 0.0

    def ask(self, address: str, path: str = LIST, **headers: str) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                told = {name.replace("_", "-"): value for name, value in headers.items()}
                return await client.get(path, headers=told)

        return anyio.run(asked)

    def answered(self, address: str, times: int, **headers: str) -> int:
        """How many of so many requests are answered."""
        return sum(self.ask(address, **headers).status_code == 200 for _ in range(times))


@contextmanager
def asking(folder: Path, patch: pytest.MonkeyPatch, **serve: Any) -> Iterator[Asking]:
    now: list[Asking] = []
    limit = partial(ReadingLimit, clock=lambda: now[0].seconds if now else 0.0)
    patch.setattr(services, "ReadingLimit", limit)
    found = Asking(job_file(folder, serve={name.replace("_", "-"): v for name, v in serve.items()}))
    now.append(found)
    with closing(found.service):
        yield found


def test_who_asks_too_often_waits_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asking(tmp_path, monkeypatch, reads_per_second=1) as service:
        assert service.answered("192.0.2.1", 12) == 10
        refused = service.ask("192.0.2.1", "/v1/streams/visits/series")
        assert refused.status_code == 429
        assert refused.json()["detail"] == "more than 1 requests a second of one reader"
        service.seconds = float(refused.headers["Retry-After"])
        assert service.answered("192.0.2.1", 2) >= 1
        assert service.answered("192.0.2.2", 10) == 10
        assert service.ask("192.0.2.1", "/health").status_code == 200
        assert metric_of(service, "reads_refused_total") >= 3
        # A token is a reader of its own; one that is not known is none.
        bearer = f"Bearer {service.tokens['read']}"
        assert service.answered("192.0.2.1", 11, Authorization=bearer) == 10
        assert service.answered("192.0.2.2", 2, Authorization="Bearer guess") == 0
        # Senders of rows have a bound of their own.
        assert service.post("a", [visit(0.1)]).status_code == 202


def metric_of(service: Inside, name: str) -> float:
    text = service("GET", "/metrics", "operate").text
    return float(text.partition(f"\ncounton_{name} ")[2].split()[0])


def test_all_together_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"reads_per_second": 0, "all_reads_per_second": 1}
    with asking(tmp_path, monkeypatch, **limits) as service:
        assert service.answered("192.0.2.1", 6) + service.answered("192.0.2.2", 6) == 10
        assert "of all readers" in service.ask("127.0.0.1").json()["detail"]
        service.seconds = 2
        assert service.answered("127.0.0.1", 5) == 2


def test_a_bound_of_0_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"reads_per_second": 0, "all_reads_per_second": 0}
    with asking(tmp_path, monkeypatch, **limits) as service:
        assert service.answered("192.0.2.1", 30) == 30


def test_behind_a_proxy_each_reader_has_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader writes into the header itself stands further left, and is not believed."""
    with asking(tmp_path, monkeypatch, reads_per_second=1, proxies=1) as service:
        told = [
            service.answered("127.0.0.1", 1, X_Forwarded_For=f"198.51.100.{n}, 192.0.2.1")
            for n in range(12)
        ]
        assert sum(told) == 10
        assert service.answered("127.0.0.1", 1, X_Forwarded_For="192.0.2.2") == 1


@pytest.mark.parametrize(
    ("peer", "told", "proxies", "found"),
    [
        ("192.0.2.1", [], 0, "192.0.2.1"),
        ("192.0.2.1", ["192.0.2.9"], 0, "192.0.2.1"),
        ("127.0.0.1", [], 0, None),
        ("::1", [], 0, None),
        ("::ffff:127.0.0.1", [], 0, None),
        ("::ffff:192.0.2.1", [], 0, "192.0.2.1"),
        ("2001:db8:1:2:3::4", [], 0, "2001:0db8:0001:0002"),
        ("2001:db8:1:2:ffff::9", [], 0, "2001:0db8:0001:0002"),
        ("192.0.2.1", ["a, 192.0.2.5", "192.0.2.6"], 1, "192.0.2.6"),
        ("192.0.2.1", ["a, 192.0.2.5", "192.0.2.6"], 2, "192.0.2.5"),
        ("192.0.2.1", ["192.0.2.6"], 2, "192.0.2.1"),
        ("192.0.2.1", ["unknown"], 1, "no address"),
        ("", [], 0, "no address"),
    ],
)
def test_where_a_request_comes_from(
    peer: str, told: list[str], proxies: int, found: str | None
) -> None:
    headers = [(b"x-forwarded-for", one.encode()) for one in told]
    scope = {"type": "http", "headers": headers, "client": (peer, 1) if peer else None}
    assert address_of(Request(scope), proxies) == found


def test_of_many_callers_some_are_forgotten() -> None:
    rates = Rates(1, clock=lambda: 0.0)
    rates.spend("first", 100)
    for caller in range(_MOST_CALLERS - 1):
        rates.spend(str(caller), 1)
    assert rates.wait("first") > 0
    rates.spend("one more", 1)
    assert rates.wait("first") == 0
    assert len(rates._left) == _MOST_CALLERS
