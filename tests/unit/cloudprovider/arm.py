"""A fake Azure Resource Manager that counts and answers requests."""

import asyncio
from collections.abc import Mapping

from cloudprovider.errors import CloudError
from cloudprovider.interface import (
    BeforePage,
    Cluster,
    Failure,
    Instance,
    InstanceState,
    Offering,
    ResourceSku,
    Usage,
    immediately,
)
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass


class Arm:
    """Records when each call arrives; rejects calls while `refusing` is set."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self.refusing: CloudError | None = None
        self.pages = 1

    def _arrived(self, verb: str) -> None:
        self.calls.append((verb, now()))
        if self.refusing is not None:
            raise self.refusing

    async def create(
        self,
        claim: NodeClaim,
        name: str,
        offering: Offering | None = None,
        node_class: AgentPoolNodeClass | None = None,
    ) -> Instance:
        self._arrived("create")
        return pool(name)

    async def get(self, name: str) -> Instance:
        self._arrived("get")
        return pool(name)

    async def list(self, *, before_page: BeforePage = immediately) -> list[Instance]:
        for page in range(self.pages):
            if page:
                await before_page()
            self._arrived("list")
        return []

    async def delete(self, instance: Instance) -> None:
        self._arrived("delete")

    async def cause(self, instance: Instance) -> Failure | None:
        self._arrived("cause")
        return None

    async def usages(self) -> Mapping[str, Usage]:
        return {}

    async def skus(self) -> Mapping[str, ResourceSku]:
        return {}

    async def latest_image(self, name: str) -> str:
        return ""

    async def cluster(self) -> Cluster:
        self._arrived("cluster")
        return Cluster(running=True)

    async def close(self) -> None:
        return


def now() -> float:
    return asyncio.get_running_loop().time()


def pool(name: str) -> Instance:
    return Instance(name=name, state=InstanceState.RUNNING, etag="e")
