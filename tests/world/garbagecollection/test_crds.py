"""A CRD is deleted with all of its objects: no machine is removed until a user confirms it, however few there are."""

import json

import pytest

from tests.world.commands import command
from tests.world.disruption.common import dynamic, live, passes, running
from tests.world.harness import Sim, crds, node_claim, simulated
from tests.world.transcript import MINUTE, strip

from .common import CRD_KEY, FOREIGN, NO_BOUND

NODEPOOLS = "nodepools.karpenter.sh"
NAMES = ("nodeclaims.karpenter.sh", NODEPOOLS, "agentpoolnodeclasses.gpu-provisioner.sh")


def pools(sim: Sim) -> list[str]:
    return sorted(name for name in sim.cloud.pools if name not in FOREIGN)


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "with a restart"])
@pytest.mark.parametrize("again", [False, True], ids=["", "installed again"])
@pytest.mark.parametrize("name", NAMES)
@simulated(**NO_BOUND)
async def test_machines_in_use_are_kept(sim: Sim, name: str, again: bool, restarted: bool) -> None:
    await dynamic(sim, "a", "b")
    before = pools(sim)
    sim.store.delete(CRD_KEY, name)
    await passes(sim, 10.0)
    if again and name == NODEPOOLS:
        sim.store.create(CRD_KEY, next(one for one in crds() if one["metadata"]["name"] == name))
    if restarted:
        sim.crash()
        await sim.start_controller("ctl1")
    await passes(sim, 60 * MINUTE)
    assert (pools(sim), running(sim)) == (before, 2)


@simulated(**NO_BOUND)
async def test_a_user_confirms_the_removals(sim: Sim) -> None:
    """`gc` lists them with their cause; confirmed ones are drained and removed."""
    await dynamic(sim, "a", "b")
    sim.store.delete(CRD_KEY, NODEPOOLS)
    await passes(sim, 5 * MINUTE)
    found = json.loads((await command(sim, "gc", "-o", "json")).out)["removals"]
    assert {one["cause"] for one in found} == {"crd-deleted"}
    assert {one["waitsFor"] for one in found} == {
        f"the NodeClaim was deleted with CRD {NODEPOOLS}, not by a user; its machine is kept; see gpu-provisioner gc"
    }
    assert (await command(sim, "gc", "--confirm", answer="yes")).code == 0
    await sim.until(lambda: not pools(sim), 30 * MINUTE, "the machines are removed")


@simulated()
async def test_a_nodepool_that_a_user_deletes_takes_its_machines_with_it(sim: Sim) -> None:
    await dynamic(sim, "a")
    sim.store.delete(NODEPOOLS, "gpu")
    await sim.until(lambda: not pools(sim), 30 * MINUTE, "the machine is removed")


@simulated(**NO_BOUND)
async def test_a_claim_that_was_deleted_before_the_crd_goes(sim: Sim) -> None:
    await dynamic(sim, "a", "b")
    first, second = live(sim)
    sim.store.delete("nodeclaims.karpenter.sh", first)
    await passes(sim, 5.0)
    sim.store.delete(CRD_KEY, NODEPOOLS)
    await sim.until(lambda: sim.claim(first) is None, 30 * MINUTE, "it is removed")
    await passes(sim, 30 * MINUTE)
    assert sim.claim(second) is not None


@simulated(**NO_BOUND)
async def test_a_pool_older_than_the_crd_of_its_nodepool_is_kept(sim: Sim) -> None:
    """A user removes the finalizer of its NodeClaim, and installs the CRD again."""
    await dynamic(sim, "a")
    before = pools(sim)
    (name,) = live(sim)
    sim.api.collector.stop()  # the Node stays, as while the controller manager still looks for the kind
    sim.store.delete(CRD_KEY, NODEPOOLS)
    strip(sim, name)
    sim.api.collector.collect()
    sim.store.create(CRD_KEY, next(one for one in crds() if one["metadata"]["name"] == NODEPOOLS))
    await passes(sim, 30 * MINUTE)
    assert pools(sim) == before
    assert running(sim) == 1


@simulated()
async def test_a_pool_of_no_nodepool_is_collected_although_the_crd_of_nodepools_is_younger(sim: Sim) -> None:
    """NodePools are installed after the machine of KAITO; later, a user removes its NodeClaim by force."""
    sim.store.delete(CRD_KEY, NODEPOOLS)
    await sim.start_controller()
    await sim.apply(node_claim("ws1"))
    await sim.until(lambda: sim.condition("ws1", "Ready") == "True", 30 * MINUTE, "the claim is Ready")
    await passes(sim, MINUTE)
    sim.store.create(CRD_KEY, next(one for one in crds() if one["metadata"]["name"] == NODEPOOLS))
    await passes(sim, MINUTE)
    strip(sim, "ws1")
    await sim.until(lambda: not pools(sim), 60 * MINUTE, "the machine is removed")
