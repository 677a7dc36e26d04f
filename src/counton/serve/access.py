"""Who may do what: a bearer token with the scope that a request needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from counton.base.errors import InvalidInput
from counton.serve.tokens import Tokens

_BEARER = HTTPBearer(auto_error=False, description="a token that counton serve-token has made")
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


class Access:
    """Which scopes a request has.

    Args:
        public: whether everybody may read.
        log: told that the file of tokens cannot be read.
    """

    def __init__(self, tokens: Tokens, public: bool, log: Callable[..., None]) -> None:
        self._tokens, self._public, self._log = tokens, public, log

    def scopes(self, given: HTTPAuthorizationCredentials | None) -> tuple[str, ...]:
        """Scopes of the token that a request brings."""
        if given is None:
            return ()
        try:
            return self._tokens.scopes(given.credentials)
        except InvalidInput as error:
            self._log("tokens cannot be read", error=str(error))
            return ()

    def needs(self, scope: str) -> Any:
        """A dependency of a path: refuses requests without a token of this scope."""

        def check(request: Request, given: Given) -> None:
            found = self.scopes(given)
            if scope in found:
                request.state.caller = given.credentials if given is not None else ""
                return
            if scope == "read" and self._public:
                return
            if not found:
                raise HTTPException(
                    401,
                    f"a token for {scope!r} is needed; send it as Authorization: Bearer TOKEN",
                    {"WWW-Authenticate": "Bearer"},
                )
            raise HTTPException(
                403, f"this token is for {', '.join(found)}; one for {scope!r} is needed"
            )

        return Depends(check)
