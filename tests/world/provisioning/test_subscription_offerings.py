"""NodePools buy what the subscription can use: sizes and zones without restrictions, and families with quota."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from provisioner.api import labels
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.azure_role import AZURE_ACTIONS, QUOTA_ACTIONS, used_actions
from tests.world.demand import T4, claims_of, node_pool, pending, pod, pod_events, sizes, with_node_pool
from tests.world.harness import Sim, simulated

pytestmark = pytest.mark.matrix(quick=0)

READABLE = AzureSettings(actions=AZURE_ACTIONS | QUOTA_ACTIONS)
T4_FAMILY = "StandardNCAST4v3Family"
NO_QUOTA = dataclasses.replace(READABLE, family_cores={T4_FAMILY: 3})
LARGER_T4, A10 = "Standard_NC8as_T4_v3", "Standard_NV36ads_A10_v5"
ONLY_T4 = {labels.INSTANCE_TYPE: T4}


def puts(sim: Sim) -> int:
    """All PUTs, also those that were refused."""
    return sim.cloud.counts["PUT"]


async def bought(sim: Sim, **spec: Any) -> list[str]:
    """The sizes of the machines for one pod, after some more passes."""
    await with_node_pool(sim)
    await pending(sim, pod("p", **spec))
    await sim.until(lambda: claims_of(sim), 20.0, "a NodeClaim")
    await asyncio.sleep(120)
    return sizes(sim)


def restricted(sim: Sim) -> None:
    sim.cloud.faults.append(faults.restricted(T4))


def absent(sim: Sim) -> None:
    sim.cloud.compute.absent.add(T4)


@pytest.mark.parametrize("change", [restricted, absent])
@simulated(azure=READABLE)
async def test_a_size_that_the_subscription_cannot_use(sim: Sim, *, change: Callable[[Sim], None]) -> None:
    """The next cheapest size is bought at once; the list of sizes was read once, and no PUT was refused."""
    change(sim)
    assert await bought(sim) == [LARGER_T4]
    assert (sim.cloud.counts["SKUS"], puts(sim)) == (1, 1)
    assert QUOTA_ACTIONS <= used_actions(sim.cloud.request_log) <= AZURE_ACTIONS | QUOTA_ACTIONS


@simulated(azure=READABLE)
async def test_a_zone_that_the_subscription_cannot_use(sim: Sim) -> None:
    """A pod in that zone gets another size; the size has one zone only, the other two are restricted or absent."""
    sim.cloud.compute.zones[T4] = ("1", "2")
    sim.cloud.faults.append(faults.restricted(T4, zone="1"))
    await with_node_pool(sim)
    await pending(sim, *(pod(f"p{n}", nodeSelector={labels.ZONE: f"westeurope-{n}"}) for n in (1, 2, 3)))
    await sim.until(lambda: len(claims_of(sim)) == 3, 20.0, "three NodeClaims")
    zones = dict(zip(zones_of(sim), sizes(sim), strict=True))
    assert zones == {"westeurope-1": LARGER_T4, "westeurope-2": T4, "westeurope-3": LARGER_T4}
    await asyncio.sleep(120)
    assert puts(sim) == 3


def zones_of(sim: Sim) -> list[str]:
    found = []
    for claim in claims_of(sim):
        (required,) = [one for one in claim["spec"]["requirements"] if one["key"] == labels.ZONE]
        found += required["values"]
    return found


@simulated(azure=READABLE)
async def test_a_pod_that_requires_a_restricted_size(sim: Sim) -> None:
    """It stays pending, and its Event states the restriction."""
    restricted(sim)
    await with_node_pool(sim)
    await pending(sim, pod("p", nodeSelector=ONLY_T4))
    ((reason, message),) = await sim.until(lambda: pod_events(sim, "p"), 20.0, "the Event")
    assert reason == "FailedScheduling"
    assert f"{T4} is not available to this subscription in westeurope: NotAvailableForSubscription" in message
    assert (claims_of(sim), puts(sim)) == ([], 0)


@simulated()
async def test_without_a_nodepool_no_sizes_are_read(sim: Sim) -> None:
    """Neither sizes nor usages, whatever pods are pending."""
    await sim.start_controller()
    await pending(sim, pod("p"))
    await asyncio.sleep(3600)
    assert (sim.cloud.counts["SKUS"], sim.cloud.counts["USAGES"]) == (0, 0)


@simulated()
async def test_without_the_right_to_read_sizes(sim: Sim) -> None:
    """One refused read; a restricted size is refused by the PUT, and other machines follow."""
    restricted(sim)
    await with_node_pool(sim)
    await pending(sim, pod("p"))
    await sim.until(lambda: sizes(sim) == [LARGER_T4], 120.0, "another machine")
    assert sim.cloud.counts["SKUS"] == 1


@simulated(azure=READABLE)
async def test_sizes_are_read_again_for_a_new_nodepool(sim: Sim) -> None:
    """A restriction that ended meanwhile no longer counts."""
    restricted(sim)
    await with_node_pool(sim)
    await sim.until(lambda: sim.cloud.counts["SKUS"] == 1, 60.0, "the sizes are read")
    sim.store.delete("nodepools.karpenter.sh", "gpu")
    await sim.until(lambda: sim.store.get("nodepools.karpenter.sh", "gpu") is None, 60.0, "the NodePool is gone")
    sim.cloud.faults.clear()
    await asyncio.sleep(60)
    await sim.apply(node_pool())
    await pending(sim, pod("p", nodeSelector=ONLY_T4))
    await sim.until(lambda: claims_of(sim), 20.0, "a NodeClaim")
    assert sim.cloud.counts["SKUS"] == 2


@simulated(azure=dataclasses.replace(READABLE, family_cores={T4_FAMILY: 11}))
async def test_a_family_with_quota_for_two_machines(sim: Sim) -> None:
    """Of four pods two get the cheapest size, two another one, with one PUT each; later pods count the first."""
    await with_node_pool(sim)
    await pending(sim, pod("first"))
    await sim.until(lambda: sizes(sim) == [T4], 20.0, "the first machine")
    await pending(sim, *(pod(f"p{n}") for n in range(3)))
    await sim.until(lambda: len(claims_of(sim)) == 4, 20.0, "a NodeClaim for each pod")
    await asyncio.sleep(120)
    assert (sorted(sizes(sim)), puts(sim)) == ([T4, T4, A10, A10], 4)


@simulated(azure=dataclasses.replace(READABLE, family_cores={T4_FAMILY: 8}))
async def test_a_pod_that_quota_leaves_without_a_machine(sim: Sim) -> None:
    """Three pods require the size: two machines are bought, and the Event of the third pod names quota and remedy."""
    await with_node_pool(sim)
    await pending(sim, *(pod(f"p{n}", nodeSelector=ONLY_T4) for n in range(3)))
    await sim.until(lambda: len(claims_of(sim)) == 2, 20.0, "two NodeClaims")
    messages = await sim.until(
        lambda: [m for n in range(3) for r, m in pod_events(sim, f"p{n}") if r == "FailedScheduling"], 20.0, "the Event"
    )
    assert "cores quota in westeurope: limit 8, used 0, 8 more for machines of other pods" in messages[0]
    assert "az vm list-usage -l westeurope" in messages[0]
    await asyncio.sleep(120)
    assert (len(claims_of(sim)), puts(sim)) == (2, 2)


@simulated(azure=NO_QUOTA)
async def test_a_family_without_quota_is_not_bought(sim: Sim) -> None:
    """Three vCPUs of the family are left, the machine has four: another family is bought, without a refused PUT."""
    assert await bought(sim) == [A10]
    assert puts(sim) == 1


@simulated(azure=NO_QUOTA)
async def test_a_pod_that_requires_a_family_without_quota(sim: Sim) -> None:
    """Its Event has the quota; once the quota is raised, the machine is bought within a minute and a pass."""
    await with_node_pool(sim)
    await pending(sim, pod("p", nodeSelector=ONLY_T4))
    ((reason, message),) = await sim.until(lambda: pod_events(sim, "p"), 20.0, "the Event")
    assert reason == "FailedScheduling"
    assert f"{T4}: {T4_FAMILY} cores quota in westeurope: limit 3, used 0, needed 4" in message
    await asyncio.sleep(600)
    assert (claims_of(sim), puts(sim)) == ([], 0)
    sim.cloud.configure(family_cores={T4_FAMILY: 4})
    await sim.until(lambda: claims_of(sim), 75.0, "a NodeClaim")


@simulated(azure=dataclasses.replace(READABLE, family_cores={T4_FAMILY: 4}))
async def test_quota_is_counted_down_between_readings(sim: Sim) -> None:
    """The first pod gets the last machine of the family; the second one, seconds later, another family at once."""
    await with_node_pool(sim)
    await pending(sim, pod("a"))
    await sim.until(lambda: puts(sim) == 1, 20.0, "a PUT")
    read = sim.cloud.counts["USAGES"]
    await pending(sim, pod("b"))
    await sim.until(lambda: len(claims_of(sim)) == 2, 20.0, "the other NodeClaim")
    assert (sizes(sim), sim.cloud.counts["USAGES"]) == ([T4, A10], read)
    await asyncio.sleep(600)
    assert puts(sim) == 2


@simulated(azure=READABLE)
async def test_usages_are_read_only_while_pods_are_pending(sim: Sim) -> None:
    """A read for the batch, and then one a minute while the pod waits; none once nothing is pending."""
    await with_node_pool(sim)
    await asyncio.sleep(600)
    assert sim.cloud.counts["USAGES"] == 0
    await pending(sim, pod("p"))
    await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    assert sim.cloud.counts["USAGES"] == 1
    await sim.until(lambda: running(sim, "p"), 1500.0, "the pod runs")
    await asyncio.sleep(120)
    read = sim.cloud.counts["USAGES"]
    await asyncio.sleep(600)
    assert sim.cloud.counts["USAGES"] == read


def running(sim: Sim, name: str) -> bool:
    found = sim.store.get("pods", name, "default")
    return found is not None and (found.get("status") or {}).get("phase") == "Running"
