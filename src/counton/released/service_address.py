"""The address of a stream of a service, and the token that is shown there, for every client."""

from __future__ import annotations

import os
import urllib.parse
import urllib.request
from typing import Any

from counton.base.errors import InvalidInput, field


def check_stream_address(address: str) -> str:
    """The address of a stream of a service, without a slash at its end.

    Raises:
        InvalidInput: it is none.

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
    """The token that is shown to a service, if there is one; errors never say it.

    Args:
        given: the token, or ``env:NAME``; None: that of ``COUNTON_TOKEN``.

    Raises:
        InvalidInput: the variable is not set, or holds what no token is.

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
    """A token goes to the address that was given, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """Not followed: the answer is the redirect itself."""
