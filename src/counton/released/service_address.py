"""The address of a stream of a service, and the token for it, for every client."""

from __future__ import annotations

import os
import urllib.parse
import urllib.request
from typing import Any

from counton.base.errors import InvalidInput, field


def check_stream_address(address: str) -> str:
    """Return the address of a stream of a service, without a slash at its end.

    Raises:
        InvalidInput: it is not an address.

    >>> check_stream_address("https://counts.example/v1/streams/visits/")
    'https://counts.example/v1/streams/visits'
    """
    parts = urllib.parse.urlsplit(address)
    web = parts.scheme in ("http", "https") and bool(parts.netloc)
    if not web or parts.query or parts.fragment or "/v1/streams/" not in parts.path:
        raise InvalidInput(
            f"{address!r} is no stream of a service; its address ends with /v1/streams/NAME"
        )
    return address.rstrip("/")


def held_token(given: str | None) -> str | None:
    """Return the token for a service, if there is one; errors never contain it.

    Args:
        given: the token, or ``env:NAME``; None: that of ``COUNTON_TOKEN``.

    Raises:
        InvalidInput: the variable is not set, or does not contain a token.

    >>> held_token("counton-read-5a5a")
    'counton-read-5a5a'
    """
    held = os.environ.get("COUNTON_TOKEN") if given is None else given
    if given is not None and given.startswith("env:"):
        name = given.removeprefix("env:")
        held = os.environ.get(name)
        if not held:
            raise InvalidInput(
                f"{field('token')} names the environment variable {name!r}, which is not set: set "
                f"it to the token"
            )
    if held is not None and not (held.isascii() and held.isprintable()):
        raise InvalidInput(
            f"{field('token')} holds characters that no token has: give it as it was made"
        )
    return held


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A handler that sends a token only to the given address, and follows no redirect."""

    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: the redirect itself is the answer."""
