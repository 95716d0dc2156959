"""Steps at the cloud, as calls on the provider, with the inventory told of every attempt and answer.

An attempt is noted before it is sent, whatever its outcome but a synchronous refusal
(docs/references/rules.md#absence-needs-proof); an answer enters the inventory before anybody plans again.
"""

import asyncio

import structlog

from cloudprovider.errors import CloudError, NotFound, Rejected
from cloudprovider.interface import CloudProvider
from cloudprovider.inventory import Inventory
from controllers.model.results import Accepted, CloudFailed, ReadCause, ReadCluster, ReadPool
from controllers.model.steps import AskCause, CloudWrite, CreateInstance, DeleteInstance, LookUpPool

log = structlog.get_logger("cloud")


class CloudActuator:
    """The writes and reads of a plan, over one provider and the inventory that remembers for it."""

    def __init__(self, provider: CloudProvider, inventory: Inventory) -> None:
        self._provider = provider
        self._inventory = inventory

    async def write(self, step: CloudWrite) -> Accepted | CloudFailed:
        """Send one PUT or DELETE."""
        match step:
            case CreateInstance():
                return await self._create(step)
            case DeleteInstance():
                return await self._delete(step)

    async def _create(self, step: CreateInstance) -> Accepted | CloudFailed:
        self._inventory.put_attempted(step.name)
        try:
            instance = await self._provider.create(step.claim, step.name, step.offering)
        except CloudError as error:
            if _refused_at_once(error):
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
        """One GET; its answer, a proven absence included, enters the inventory."""
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
        """One question, which is never asked again: no answer is one too."""
        try:
            return ReadCause(failure=await self._provider.cause(step.instance))
        except CloudError as error:
            log.warning("why the agent pool failed could not be read", pool=step.instance.name, error=str(error))
            return ReadCause(failure=None)

    async def look_up_cluster(self) -> ReadCluster | CloudFailed:
        """One GET of the managed cluster; its answer enters the inventory."""
        asked_at = asyncio.get_running_loop().time()
        try:
            cluster = await self._provider.cluster()
        except CloudError as error:
            return CloudFailed(error=error)
        self._inventory.record_cluster(cluster, asked_at)
        return ReadCluster()


def _refused_at_once(error: CloudError) -> bool:
    """Whether this answer proves that nothing was made: a clear no, and not one that speaks of another operation."""
    if isinstance(error, Rejected) and error.final:
        return True
    return 400 <= error.status < 500 and error.status not in (408, 409, 412)
