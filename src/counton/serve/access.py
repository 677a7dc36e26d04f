"""Permissions of requests: each needs a bearer token with the scope of its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from counton.base.errors import InvalidInput
from counton.serve.tokens import Token, Tokens

_BEARER = HTTPBearer(auto_error=False, description="a token that counton serve-token has made")
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


class Access:
    """Checker of requests: the request's token (a secret text) must have the scope (permitted use)
    that the path needs.

    Args:
        tokens: the tokens of the service.
        public: whether everybody may read.
        log: function that is called with an event and its facts if the file of tokens cannot be
            read.
    """

    def __init__(self, tokens: Tokens, public: bool, log: Callable[..., None]) -> None:
        self._tokens, self._public, self._log = tokens, public, log

    def token(self, given: HTTPAuthorizationCredentials | None) -> Token | None:
        """Return what is stored about a request's token (the secret text that permits it), from its
        Authorization header; None if it is missing or unknown.
        """
        if given is None:
            return None
        try:
            return self._tokens.find(given.credentials)
        except InvalidInput as error:
            self._log("tokens cannot be read", error=str(error))
            return None

    def needs(self, scope: str) -> Any:
        """Return a FastAPI dependency that refuses requests whose token (a secret text) lacks this
        scope (permitted use), such as "ingest".
        """

        def check(request: Request, given: Given) -> None:
            token = self.token(given)
            if token is not None and scope in token.scopes:
                request.state.token = token
                return
            if scope == "read" and self._public:
                return
            if token is None:
                raise HTTPException(
                    401,
                    f"a token with the scope {scope!r} is needed; send it in the header "
                    "Authorization: Bearer TOKEN",
                    {"WWW-Authenticate": "Bearer"},
                )
            raise HTTPException(
                403,
                f"this token is for {', '.join(token.scopes)}, but one for {scope!r} is needed",
            )

        return Depends(check)
