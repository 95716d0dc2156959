"""Records when each state was reached, on the loop's clock, from the changes of the simulated cluster and cloud.

Each time is the first one for that name; requests are recorded at their arrival. Claims, pools and Nodes are identified
by the claim's name, which is the pool's.
"""

import asyncio
from typing import Any

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure.agentpool import Pool
from provisioner.simulator.world import World

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
# The name of the controller's requests on a socket.
CONTROLLER = "gpu-provisioner"


class Moments:
    """By name: `created`, `usable` (Node Ready, GPUs allocatable), `ready`, `succeeded`, `deleted`, `pool_gone`,
    `gone`.

    `conditions`: the condition types that were True on a claim at any time.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._time = asyncio.get_running_loop().time
        self.created: dict[str, float] = {}
        self.usable: dict[str, float] = {}
        self.ready: dict[str, float] = {}
        self.succeeded: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.pool_gone: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.conditions: dict[str, set[str]] = {}
        world.store.subscribe(self._on_object)
        world.cloud.subscribe(self._on_pool)

    def requests(self, verb: str, name: str | None = None) -> list[Call]:
        """The controller's requests to ARM for that pool, or for all."""
        return self._world.audit_log.calls(who=CONTROLLER, system="arm", verb=verb, kind="pools", name=name)

    def first(self, verb: str) -> dict[str, float]:
        """By pool, the arrival of its first request of that verb at ARM."""
        found: dict[str, float] = {}
        for call in self.requests(verb):
            found.setdefault(call.target.name, call.at)
        return found

    def _on_object(self, event: str, resource: str, obj: Json, before: Json | None) -> None:
        name, now = obj["metadata"]["name"], self._time()
        if resource == "nodeclaims.karpenter.sh":
            if event == "DELETED":
                self.gone.setdefault(name, now)
                return
            self.created.setdefault(name, now)
            if "deletionTimestamp" in obj["metadata"]:
                self.deleted.setdefault(name, now)
            true = _true(obj)
            self.conditions.setdefault(name, set()).update(true)
            if "Ready" in true:
                self.ready.setdefault(name, now)
        elif resource == "nodes" and labels.CLAIM_UID in obj["metadata"].get("labels", {}):
            allocatable = (obj.get("status") or {}).get("allocatable") or {}
            if "Ready" in _true(obj) and int(allocatable.get(GPU, "0")) > 0:
                self.usable.setdefault(obj["metadata"]["labels"][labels.AKS_AGENTPOOL], now)

    def _on_pool(self, kind: str, pool: Pool) -> None:
        if kind == "gone":
            self.pool_gone.setdefault(pool.name, self._time())
        elif pool.state == "Succeeded":
            self.succeeded.setdefault(pool.name, self._time())


def _true(obj: Json) -> set[str]:
    return {c["type"] for c in (obj.get("status") or {}).get("conditions") or () if c["status"] == "True"}


def between(earlier: dict[str, float], later: dict[str, float]) -> list[float]:
    """For each name in both: the seconds between the two."""
    return [later[name] - earlier[name] for name in earlier if name in later]
