"""Performs steps at the cloud as calls of the provider, and records every attempt and answer in the inventory.

A PUT is recorded before it is sent, and stays recorded unless it is refused synchronously
(docs/references/rules.md#absence-needs-proof). An answer is in the inventory before the next plan. Writes pass a fence.
"""

import asyncio

import structlog

from cloudprovider.errors import CloudError, NotFound, Rejected
from cloudprovider.interface import CloudProvider
from cloudprovider.inventory import Inventory
from controllers.model.results import Accepted, CloudFailed, ReadCause, ReadCluster, ReadPool
from controllers.model.steps import AskCause, CloudWrite, CreateInstance, DeleteInstance, LookUpPool
from provisioner.runtime.fence import Fence

# The timeout of a write; the SDK does not repeat it.
WRITE_SECONDS = 15.0

log = structlog.get_logger("cloud")


class CloudActuator:
    """Cloud writes and reads, through one provider and its inventory."""

    def __init__(self, provider: CloudProvider, inventory: Inventory, fence: Fence) -> None:
        self._provider = provider
        self._inventory = inventory
        self._fence = fence

    async def write(self, step: CloudWrite) -> Accepted | CloudFailed:
        """Send one PUT or DELETE. Raises LeaseExpires."""
        name = type(step).__name__
        match step:
            case CreateInstance():
                return await self._fence.send(name, WRITE_SECONDS, lambda: self._create(step))
            case DeleteInstance():
                return await self._fence.send(name, WRITE_SECONDS, lambda: self._delete(step))

    async def _create(self, step: CreateInstance) -> Accepted | CloudFailed:
        self._inventory.put_attempted(step.name)
        try:
            instance = await self._provider.create(step.claim, step.name, step.offering, step.node_class)
        except CloudError as error:
            if _is_synchronous_refusal(error):
                self._inventory.put_rejected(step.name)
            else:
                self._inventory.put_result_unknown(step.name)
            return CloudFailed(error=error)
        self._inventory.record_put(instance)
        return Accepted()

    async def _delete(self, step: DeleteInstance) -> Accepted | CloudFailed:
        try:
            await self._provider.delete(step.instance)
        except NotFound:
            self._inventory.record_absent(step.instance.name)
            return Accepted()
        except CloudError as error:
            return CloudFailed(error=error)
        self._inventory.record_delete(step.instance.name)
        return Accepted()

    async def look_up(self, step: LookUpPool) -> ReadPool | CloudFailed:
        """One GET; the inventory records its answer, also a 404."""
        try:
            instance = await self._provider.get(step.name)
        except NotFound:
            self._inventory.record_absent(step.name)
            return ReadPool()
        except CloudError as error:
            return CloudFailed(error=error)
        self._inventory.record_get(instance)
        return ReadPool()

    async def ask_cause(self, step: AskCause) -> ReadCause:
        """Read why an instance failed, once: a failed read counts as no cause."""
        try:
            return ReadCause(failure=await self._provider.cause(step.instance))
        except CloudError as error:
            log.warning("failed to read why the agent pool failed", pool=step.instance.name, error=str(error))
            return ReadCause(failure=None)

    async def look_up_cluster(self) -> ReadCluster | CloudFailed:
        """One GET of the managed cluster; the inventory records its answer."""
        began = asyncio.get_running_loop().time()
        try:
            cluster = await self._provider.cluster()
        except CloudError as error:
            return CloudFailed(error=error)
        self._inventory.record_cluster(cluster, began)
        return ReadCluster()


def _is_synchronous_refusal(error: CloudError) -> bool:
    """Whether this answer proves that no pool is created: a 4xx that is no timeout and no conflict."""
    if isinstance(error, Rejected) and error.final:
        return True
    return 400 <= error.status < 500 and error.status not in (408, 409, 412)
