"""Latency and errors of every call to the cloud, as a decorator.

Karpenter's families and labels, so that its dashboards work, and ours by request and answer; no provider
mentions Prometheus. `controller` is the rule that asked (`runtime.acting`); who asks for none is the shared LIST.

Source: docs/references/karpenter.md#metrics, docs/references/monitoring.md#names.
"""

import asyncio
import builtins
from collections.abc import Awaitable
from typing import TypeVar

from provisioner.api.nodeclaim import NodeClaim
from provisioner.metrics.definitions import karpenter, own
from provisioner.runtime.controller_name import current_controller
from provisioner.runtime.metrics import NO_ANSWER, Metrics

from .errors import CloudError, NoCapacity, NotFound
from .interface import CloudProvider, Cluster, Failure, Instance, NextPage, Offering, at_once

PROVIDER, LISTING = "azure", "instance.garbagecollection"
ERRORS = {NoCapacity: "InsufficientCapacityError", NotFound: "NodeClaimNotFoundError"}
CREDENTIALS = {"NoToken": "no_token", "Unauthenticated": "unauthenticated", "AuthorizationFailed": "forbidden"}

T = TypeVar("T")


class Metered:
    """A provider whose calls are timed and whose errors are counted."""

    def __init__(self, provider: CloudProvider, metrics: Metrics) -> None:
        self._provider = provider
        self._seconds = metrics.histogram(karpenter.CALL_SECONDS)
        self._errors = metrics.counter(karpenter.CALL_ERRORS)
        self._requests = metrics.histogram(own.ARM_SECONDS)
        self._asked_to_wait = metrics.histogram(own.ARM_RETRY_AFTER)
        self._credentials = metrics.credential_failures

    async def create(self, claim: NodeClaim, name: str, offering: Offering | None = None) -> Instance:
        return await self._timed("create", self._provider.create(claim, name, offering))

    async def get(self, name: str) -> Instance:
        return await self._timed("get", self._provider.get(name))

    async def list(self, *, next_page: NextPage = at_once) -> builtins.list[Instance]:
        page = _Page()

        async def turn() -> None:
            self._answered("list", "2xx", page)
            await next_page()
            page.began = _now()

        return await self._timed("list", self._provider.list(next_page=turn), page)

    async def delete(self, instance: Instance) -> None:
        await self._timed("delete", self._provider.delete(instance))

    async def cause(self, instance: Instance) -> Failure | None:
        return await self._timed("cause", self._provider.cause(instance))

    async def cluster(self) -> Cluster:
        return await self._timed("cluster", self._provider.cluster())

    async def close(self) -> None:
        await self._provider.close()

    async def _timed(self, operation: str, call: Awaitable[T], page: "_Page | None" = None) -> T:
        """`page`: the request that is on its way, of a call of several."""
        labels = (current_controller() or LISTING, operation.capitalize(), PROVIDER)
        began, page = _now(), page or _Page()
        try:
            answer = await call
        except CloudError as error:
            self._errors.labels(*labels, ERRORS.get(type(error), "")).inc()
            self._failed(operation, error, page)
            raise
        else:
            self._answered(operation, "2xx", page)
            return answer
        finally:
            self._seconds.labels(*labels).observe(_now() - began)

    def _answered(self, operation: str, code: str, page: "_Page") -> None:
        self._requests.labels(operation, code).observe(_now() - page.began)

    def _failed(self, operation: str, error: CloudError, page: "_Page") -> None:
        if reason := CREDENTIALS.get(error.reason):
            self._credentials.labels("azure", reason).inc()
        if error.reason == "NoToken":
            return  # ARM was not asked
        code = "2xx" if 200 <= error.status < 300 else str(error.status or NO_ANSWER)
        self._answered(operation, code, page)
        if error.status == 429 and error.after is not None:
            self._asked_to_wait.labels(operation).observe(error.after)


class _Page:
    """One request of a call: since when it is on its way."""

    def __init__(self) -> None:
        self.began = _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
