"""What the tests of the commands share."""

import asyncio
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure import errors
from provisioner.simulator.azure.faults import ALWAYS, Fault
from tests.world.garbagecollection.common import one
from tests.world.harness import Sim
from tests.world.main_job import NAME
from tests.world.transcript import CLAIMS, MINUTE, finalizers, node_name

CLUSTER = "cluster aks of resource group rg"
FLAG = "--i-know-the-pool-is-gone"
CLUSTER_GONE = errors.cluster_not_found("rg", "aks")
LEASES = "leases.coordination.k8s.io"
LEASE = "gpu-provisioner"
DRAIN = ("uninstall", "--drain", "--yes")


async def stuck(sim: Sim, answer: errors.Answer = CLUSTER_GONE, theirs: tuple[str, ...] = ()) -> str:
    """A claim that waits for a proof that never comes: ARM says only this. `theirs` are further finalizers on it.

    Returns its Node's name.
    """
    await one(sim)
    node = node_name(sim)
    sim.store.patch(CLAIMS, NAME, {"metadata": {"finalizers": [labels.FINALIZER, *theirs]}})
    sim.cloud.faults.append(Fault(verb="GET", times=ALWAYS, answer=answer))
    sim.cloud.faults.append(Fault(verb="LIST", times=ALWAYS, answer=answer))
    sim.cloud.faults.append(Fault(verb="DELETE", times=ALWAYS, answer=answer))
    await sim.delete_claim(NAME)
    await asyncio.sleep(10 * MINUTE)
    assert labels.FINALIZER in finalizers(sim.claim(NAME)), "it is stuck"
    return node


def lease(sim: Sim) -> Any:
    return sim.store.get(LEASES, LEASE, "kube-system")


async def no_claim(sim: Sim) -> None:
    pass


async def own_pool(sim: Sim) -> None:
    await one(sim)
