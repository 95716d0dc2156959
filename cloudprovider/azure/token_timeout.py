"""A bound on the time to get an access token, shorter than that of the call that needs it.

A credential that hangs then fails as a credential: the error names the token and not ARM, to which nothing was sent.
"""

import asyncio
from typing import Any

TOKEN_SECONDS = 10.0
TIMED_OUT = "getting an access token timed out"


class BoundedCredential:
    """A credential whose tokens arrive within `TOKEN_SECONDS`. Raises ClientAuthenticationError after that time."""

    def __init__(self, credential: Any) -> None:
        self._credential = credential

    async def get_token(self, *scopes: str, **options: Any) -> Any:
        return await _within(self._credential.get_token(*scopes, **options))

    async def close(self) -> None:
        await self._credential.close()

    async def __aenter__(self) -> "BoundedCredential":
        return self

    async def __aexit__(self, *exc: object) -> None: ...


class BoundedTokenInfoCredential(BoundedCredential):
    """The same for credentials that also return when a token should be refreshed; the SDK prefers that method."""

    async def get_token_info(self, *scopes: str, **options: Any) -> Any:
        return await _within(self._credential.get_token_info(*scopes, **options))


def bounded(credential: Any) -> BoundedCredential:
    """The credential with the bound."""
    kind = BoundedTokenInfoCredential if hasattr(credential, "get_token_info") else BoundedCredential
    return kind(credential)


async def _within(request: Any) -> Any:
    from azure.core.exceptions import ClientAuthenticationError

    try:
        async with asyncio.timeout(TOKEN_SECONDS):
            return await request
    except TimeoutError:
        raise ClientAuthenticationError(TIMED_OUT) from None
