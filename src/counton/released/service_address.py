"""The address of a stream in a counton service, its token, and requests to it."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from counton.base.errors import InvalidInput, StateError, StateUnavailable, field
from counton.base.outside_input import parse_json

#: Time limits in seconds for each part of a service's answer, and for the whole answer.
_TIME_OUT, _LONGEST = 60, 600
#: Largest number of bytes of an answer.
_MOST_BYTES = 2**28


def check_stream_address(address: str) -> str:
    """Return the address of a stream in a service, without a slash at its end, after checking it.

    Raises:
        InvalidInput: it is not the address of a stream.

    >>> check_stream_address("https://counts.example/v1/streams/visits/")
    'https://counts.example/v1/streams/visits'
    """
    parts = urllib.parse.urlsplit(address)
    web = parts.scheme in ("http", "https") and bool(parts.netloc)
    if not web or parts.query or parts.fragment or "/v1/streams/" not in parts.path:
        raise InvalidInput(
            f"{address!r} is not the address of a stream; give an address of a service that ends "
            "with /v1/streams/NAME"
        )
    return address.rstrip("/")


def held_token(given: str | None) -> str | None:
    """Return the token for a service; None if there is none. Errors never contain the token.

    Args:
        given: the token, or ``env:NAME`` for an environment variable; None: the variable
            ``COUNTON_TOKEN``.

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
            f"{field('token')} has characters that are not allowed in a token: give it as the "
            "service printed it"
        )
    return held


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """HTTP handler that follows no redirect, so that a token is sent only to the given address."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that a redirect is not followed but is itself the answer."""


def answer_of(address: str, token: str | None) -> bytes:
    """Fetch a stream's release from a service, and return the bytes of the answer.

    Raises:
        InvalidInput: the service does not answer, or refuses.
        StateUnavailable: the service cannot read its state now.
        ValueError: the address is malformed.
    """
    place = check_stream_address(address)
    token = held_token(token)
    headers = {"Accept": "application/json", "User-Agent": "counton"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        asked = urllib.request.Request(f"{place}/release", headers=headers)
        with urllib.request.build_opener(NoRedirect).open(asked, timeout=_TIME_OUT) as answer:
            return _body(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(address, error) from None
    except InvalidInput:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise InvalidInput(
            f"{address!r} does not answer ({reason}): check the address, and that the service runs"
        ) from error


def _body(answer: http.client.HTTPResponse) -> bytes:
    """Return the bytes of an answer; raise an error if it ends early, is too long, or takes too
    long.
    """
    end, found = time.monotonic() + _LONGEST, bytearray()
    while part := answer.read1(2**20):
        found += part
        if len(found) > _MOST_BYTES:
            raise InvalidInput(
                f"it has more than {_MOST_BYTES:,} bytes, which is the most that can be read: read "
                "a file of the stream"
            )
        if time.monotonic() > end:
            raise InvalidInput(
                f"it took longer than {_LONGEST} seconds to answer: try again later, or read a "
                "file of the stream"
            )
    return bytes(found)


def _refusal(address: str, error: urllib.error.HTTPError) -> InvalidInput | StateError:
    remedies = {
        401: (
            f"needs a token for reading, or does not know the given one: give {field('token')}, or "
            "set COUNTON_TOKEN"
        ),
        403: "refuses this token, which is for another purpose: give a token for reading",
        404: "is not a stream of that service: give an address that ends with /v1/streams/NAME",
    }
    if error.code in remedies:
        return InvalidInput(f"{address!r} {remedies[error.code]}")
    if 300 <= error.code < 400:
        return InvalidInput(
            f"{address!r} redirects to another address, which would then see the token: give "
            "that address yourself if you trust it"
        )
    if error.code == 503:
        return StateUnavailable(
            f"{address!r} cannot be read now: its state is not ready; try later"
        )
    try:
        detail = str(parse_json(error.read1(2**16))["detail"])[:500]
    except (ValueError, LookupError, TypeError, OSError, http.client.HTTPException):
        detail = error.reason
    return InvalidInput(f"{address!r} refuses with {error.code}: {detail}")
