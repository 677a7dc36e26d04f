"""Permissions of requests: a path needs the token to write or to read."""

from __future__ import annotations

import hmac
from typing import Annotated, Any, Literal

from fastapi import Depends, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from counton.serve.tokens import Tokens

_BEARER = HTTPBearer(auto_error=False, description="one of the two tokens of the service")
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


class Access:
    """Checker of the two tokens; ``public``: everybody may read."""

    def __init__(self, tokens: Tokens, public: bool) -> None:
        self._tokens = tokens
        self._public = public

    def dependency(self, use: Literal["write", "read"]) -> Any:
        """Return a FastAPI dependency that refuses requests without the token."""

        # It runs in no thread of the pool, all of which may be busy with answers.
        async def check(bearer: Given) -> None:
            if use == "read" and self._public:
                return
            sent = b"" if bearer is None else bearer.credentials.encode("utf-8", "surrogatepass")
            matches = {
                name: hmac.compare_digest(token.encode(), sent)
                for name, token in self._tokens._asdict().items()
            }
            if matches[use]:
                return
            if any(matches.values()):
                raise HTTPException(403, f"this is not the token to {use}; send that one")
            raise HTTPException(
                401,
                f"the token to {use} is needed; send it in the header Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )

        return Depends(check)
