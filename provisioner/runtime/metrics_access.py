"""Who may read the metrics: the API server authenticates the token of a scrape and authorizes `get` of `/metrics`.

TokenReview and SubjectAccessReview, as the filter of controller-runtime's metrics server uses them. Verdicts are kept
for a minute, so that a scrape needs no request, and longer while the API server does not respond, because metrics
matter most in an outage. Requests without a valid token cost few requests to the API server: two at a time, and at
most `WAITING_MOST` wait; they do not keep out a token that was allowed.

Source: https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/metrics/filters#WithAuthenticationAndAuthorization,
https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/subject-access-review-v1/.
"""

import asyncio
import hashlib
from typing import NamedTuple

from .kube import Kube
from .kube_errors import KubeError

PATH = "/metrics"
KEPT_SECONDS = 60.0
# An allowed token stays allowed for so long if the API server does not respond.
STALE_SECONDS = 600.0
REVIEWS_AT_ONCE, WAITING_MOST = 2, 16
# Places in the queue for tokens that were allowed: as many as Prometheus servers may have.
ALLOWED_WAITING_MOST = 16
TOKENS_MOST = 256
TOKEN_BYTES = 8192
OK, UNAUTHENTICATED, FORBIDDEN, BUSY = 200, 401, 403, 503


class _Verdict(NamedTuple):
    status: int
    at: float


class MetricsAccess:
    """Verdicts by the hash of a token; the token itself is not kept."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._verdicts: dict[bytes, _Verdict] = {}
        self._reviews = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._waiting = 0

    async def __call__(self, authorization: str) -> int:
        """The HTTP status for a request with this `Authorization` header: 200 if its user may read the metrics."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > TOKEN_BYTES or not token.isascii():
            return UNAUTHENTICATED
        key, now = hashlib.sha256(token.encode()).digest(), asyncio.get_running_loop().time()
        known = self._verdicts.get(key)
        if known is not None and now - known.at < KEPT_SECONDS:
            return known.status
        allowed = known is not None and known.status == OK
        if self._waiting >= (WAITING_MOST + ALLOWED_WAITING_MOST if allowed else WAITING_MOST):
            return BUSY
        return await self._reviewed(key, token, known)

    async def _reviewed(self, key: bytes, token: str, known: _Verdict | None) -> int:
        self._waiting += 1
        try:
            async with self._reviews:
                status = await self._review(token)
        except KubeError:
            age = asyncio.get_running_loop().time() - known.at if known is not None else STALE_SECONDS
            return OK if known is not None and known.status == OK and age < STALE_SECONDS else BUSY
        finally:
            self._waiting -= 1
        self._verdicts.pop(key, None)
        while len(self._verdicts) >= TOKENS_MOST:
            # Of many invalid tokens none displaces that of Prometheus, unless there are no others.
            denied = (one for one, verdict in self._verdicts.items() if verdict.status != OK)
            del self._verdicts[next(denied, next(iter(self._verdicts)))]
        self._verdicts[key] = _Verdict(status, asyncio.get_running_loop().time())
        return status

    async def _review(self, token: str) -> int:
        user = await self._kube.authenticate(token)
        if user is None:
            return UNAUTHENTICATED
        return OK if await self._kube.authorize(user, PATH) else FORBIDDEN
