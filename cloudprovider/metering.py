"""Metrics of each call of a CloudProvider: duration and errors, as a decorator.

The families and labels of Karpenter, so that its dashboards apply, and one family per ARM request. The label
`controller` is the controller of the current task (`runtime.controller_name`); the shared LIST has none.

Source: docs/references/karpenter.md#metrics, docs/references/monitoring.md#names.
"""

import asyncio
import builtins
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.metrics.definitions import karpenter, own
from provisioner.runtime.controller_name import current_controller
from provisioner.runtime.metrics import NO_ANSWER, Metrics

from .errors import CloudError, NoCapacity, NotFound
from .interface import BeforePage, CloudProvider, Cluster, Failure, Instance, Offering, ResourceSku, Usage, immediately

PROVIDER, DEFAULT_CONTROLLER = "azure", "instance.garbagecollection"
ERRORS = {NoCapacity: "InsufficientCapacityError", NotFound: "NodeClaimNotFoundError"}
CREDENTIALS = {"NoToken": "no_token", "Unauthenticated": "unauthenticated", "AuthorizationFailed": "forbidden"}

T = TypeVar("T")


class InstrumentedProvider:
    """A provider that observes the duration and counts the errors of each call."""

    def __init__(self, provider: CloudProvider, metrics: Metrics) -> None:
        self._provider = provider
        self._seconds = metrics.histogram(karpenter.CALL_SECONDS)
        self._errors = metrics.counter(karpenter.CALL_ERRORS)
        self._requests = metrics.histogram(own.ARM_SECONDS)
        self._retry_after = metrics.histogram(own.ARM_RETRY_AFTER)
        self._credentials = metrics.credential_failures

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        return await self._observe("create", self._provider.create(claim, name, offering, node_class))

    async def get(self, name: str) -> Instance:
        return await self._observe("get", self._provider.get(name))

    async def list(self, *, before_page: BeforePage = immediately) -> builtins.list[Instance]:
        page = _Page()

        async def end_page() -> None:
            self._observe_request("list", "2xx", page)
            await before_page()
            page.began = _now()

        return await self._observe("list", self._provider.list(before_page=end_page), page)

    async def delete(self, instance: Instance) -> None:
        await self._observe("delete", self._provider.delete(instance))

    async def cause(self, instance: Instance) -> Failure | None:
        return await self._observe("cause", self._provider.cause(instance))

    async def cluster(self) -> Cluster:
        return await self._observe("cluster", self._provider.cluster())

    async def usages(self) -> Mapping[str, Usage]:
        return await self._observe("usages", self._provider.usages())

    async def skus(self) -> Mapping[str, ResourceSku]:
        return await self._observe("skus", self._provider.skus())

    async def latest_image(self, name: str) -> str:
        return await self._observe("image", self._provider.latest_image(name))

    async def close(self) -> None:
        await self._provider.close()

    async def _observe(self, operation: str, call: Awaitable[T], page: "_Page | None" = None) -> T:
        """`page` is the current request of a call that sends several."""
        labels = (current_controller() or DEFAULT_CONTROLLER, operation.capitalize(), PROVIDER)
        began, page = _now(), page or _Page()
        try:
            result = await call
        except CloudError as error:
            self._errors.labels(*labels, ERRORS.get(type(error), "")).inc()
            self._failed(operation, error, page)
            raise
        else:
            self._observe_request(operation, "2xx", page)
            return result
        finally:
            self._seconds.labels(*labels).observe(_now() - began)

    def _observe_request(self, operation: str, code: str, page: "_Page") -> None:
        self._requests.labels(operation, code).observe(_now() - page.began)

    def _failed(self, operation: str, error: CloudError, page: "_Page") -> None:
        if reason := CREDENTIALS.get(error.reason):
            self._credentials.labels("azure", reason).inc()
        if error.reason == "NoToken":
            return  # no request was sent to ARM
        code = "2xx" if 200 <= error.status < 300 else str(error.status or NO_ANSWER)
        self._observe_request(operation, code, page)
        if error.status == 429 and error.after is not None:
            self._retry_after.labels(operation).observe(error.after)


class _Page:
    """One request of a call; `began` is its loop time."""

    def __init__(self) -> None:
        self.began = _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
