"""`gpu-provisioner explain` beside a running controller: what it states is what the controller then does."""

import asyncio
import json
import re

import pytest

from provisioner.api import labels
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import faults
from tests.world.claims import ready
from tests.world.commands import WHO, Ended, explain, written
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod
from tests.world.disruption.common import disruption, drift, leaving, live, one_pod_each, passes, phase, static
from tests.world.harness import SIZE, Sim, node_claim, simulated
from tests.world.main_job import NAME
from tests.world.nodeclaim.common import NO_QUOTA
from tests.world.transcript import BUDGETS, FAST, MINUTE, node_name, refuse, run_pod

pytestmark = pytest.mark.matrix(quick=0)

NO_SETTINGS = "not read; set ARM_SUBSCRIPTION_ID"


def first(ended: Ended) -> str:
    """The most important line, unwrapped."""
    assert (ended.code, ended.err) == (0, "")
    return " ".join(ended.out.partition("\n\n")[0].split())


def facts(ended: Ended) -> dict[str, object]:
    found: dict[str, object] = json.loads(ended.out)["facts"]
    return found


@simulated(azure=FAST)
async def test_a_claim_through_its_life(sim: Sim) -> None:
    """Each state has what it waits for, since when, and its deadline; nothing is written."""
    await sim.apply(node_claim(NAME))
    ended = await explain(sim, NAME)
    assert first(ended) == f"NodeClaim {NAME}: waiting for the request of its agent pool"
    assert "Next step:   add finalizer (nodeclaim.lifecycle)\n" in ended.out
    assert f"  {SIZE}  4.775 USD/h, not requested yet\n" in ended.out
    await sim.start_controller()
    await asyncio.sleep(20)
    ended = await explain(sim, f"nodeclaim/{NAME}")
    assert first(ended).startswith(f"NodeClaim {NAME}: waiting for AKS to create the agent pool (since 2")
    assert "deadline in 44m3" in first(ended)
    assert f"Agent pool:  {NAME}, Creating, {SIZE}\n" in ended.out
    assert f"  {SIZE}  4.775 USD/h, requested\n" in ended.out
    await ready(sim, NAME)
    ended = await explain(sim, f"nc/{NAME}", "-o", "json")
    assert json.loads(ended.out)["answer"] == "Ready"
    assert (facts(ended)["price"], facts(ended)["node"]) == (4.775, node_name(sim))
    assert written(sim) == []


@simulated(azure=FAST)
async def test_an_agent_pool_or_a_node_names_its_claim(sim: Sim) -> None:
    """A name of the Azure portal leads to the claim; a tag of the agent pool has the claim's name as well."""
    name = "a-claim-with-a-long-name"
    await sim.apply(node_claim(name))
    await sim.start_controller()
    await ready(sim, name)
    (pool,) = (one.name for one in sim.cloud.pools.values() if one.tags.get(labels.TAG_CLAIM_NAME) == name)
    assert pool != name
    for written_name in (pool, f"nodeclaim/{pool}", node_name(sim, pool)):
        assert first(await explain(sim, written_name)) == f"NodeClaim {name}: Ready"
    other = await explain(sim, "cv172b0x9q3z")
    assert (other.code, other.out) == (1, "")
    assert "The tag gpu-provisioner_nodeclaim of an agent pool names its NodeClaim" in other.err


@simulated(azure=FAST)
async def test_a_drain_that_a_budget_prevents(sim: Sim) -> None:
    """The pod, the budget and the step that the controller repeats, by the reads that it makes before."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await ready(sim, NAME)
    run_pod(sim, "main", node_name(sim))
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "main"}}}
    sim.store.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec}, "default")
    await sim.delete_claim(NAME)
    await asyncio.sleep(16 * MINUTE)
    ended = await explain(sim, NAME)
    assert first(ended) == f"NodeClaim {NAME}: draining the Node (since 16m1s, overdue)"
    assert "Next step:   evict pods: default/main (node.termination)\n" in ended.out
    assert "default/main: The disruption budget b needs 1 healthy pods" in " ".join(ended.out.split())
    assert first(await explain(sim, "pod/default/main")).endswith("draining the Node (since 16m2s, overdue)")
    assert written(sim) == []


@simulated(azure=NO_QUOTA)
async def test_a_claim_and_a_pod_without_quota(sim: Sim) -> None:
    """What was tried and when it is tried again; a pod does not count on such a claim, with and without Azure."""
    await sim.apply(node_class())
    only = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SIZE]}
    await sim.apply(node_pool(requirements=[only]))
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.apply(node_claim("bad", size="Standard_Nonsense_v9"))
    await pending(sim, pod("train"))
    await asyncio.sleep(10 * MINUTE)
    ended = await explain(sim, NAME)
    assert first(ended).startswith(f"NodeClaim {NAME}: cannot be launched now (since 10m")
    assert "next attempt in" in first(ended)
    offering = " ".join(ended.out.partition("Offerings:")[2].split())
    assert offering.startswith(f"{SIZE} 4.775 USD/h, again in 2m")
    text = " ".join(ended.out.split())
    assert "Launched is False, QuotaExceeded: " in text
    assert "StandardNCADSA100v4Family cores quota in westeurope: limit 0, used 0, needed 24" in text
    assert "VMSizeNotSupported: BadRequest: The VM size of" in (await explain(sim, "bad")).out
    for why in ("", NO_SETTINGS):
        ended = await explain(sim, "train", without_azure=why)
        assert first(ended) == "Pod default/train: stays pending: no NodePool has a machine for it"
        assert "quota in westeurope: limit 0, used 0, needed 24" in " ".join(ended.out.split())
        assert (NO_SETTINGS in ended.out) is bool(why)


@simulated()
async def test_the_machine_of_a_pod_is_the_one_that_is_bought(sim: Sim) -> None:
    """Size, NodePool and price are announced before the NodeClaim exists; then the pod waits for that one."""
    await sim.apply(node_class())
    for name, size in (("a100", SIZE), ("t4", "Standard_NC4as_T4_v3")):
        only = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [size]}
        await sim.apply(node_pool(name, requirements=[only], disruption=disruption("30m")))
    await sim.start_controller()
    await asyncio.sleep(5)
    await pending(sim, pod("train"), pod("web", tolerates=False))
    announced = await explain(sim, "train")
    assert claims_of(sim, "t4") == []
    assert "a new Standard_NC4as_T4_v3" in first(announced)
    assert "0.658 USD/h from NodePool t4" in first(announced)
    assert f"  a100  4.775 USD/h, for a {SIZE}\n" in announced.out
    assert "did not tolerate taint (taint=sku=gpu:NoSchedule)" in (await explain(sim, "web")).out
    (claim,) = await sim.until(lambda: claims_of(sim, "t4"), 60.0, "a NodeClaim is created")
    assert claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "t4"
    ended = await explain(sim, "train")
    assert first(ended).startswith(f"Pod default/train: has room on nodeclaim/{claim['metadata']['name']}, waiting for")


@simulated()
async def test_an_offering_that_failed_for_a_claim_that_is_gone(sim: Sim) -> None:
    """The controller does not try it again yet, and buys a dearer machine: the answer says that this is not known."""
    key = "node.kubernetes.io/instance-type"
    await sim.apply(node_class())
    await sim.apply(node_pool(requirements=[{"key": key, "operator": "In", "values": [T4]}]))
    sim.cloud.faults.append(faults.capacity(size=T4))
    await sim.start_controller()
    await pending(sim, pod("first"))
    await asyncio.sleep(11 * MINUTE)
    sim.store.delete("pods", "first", "default")
    await sim.until(lambda: not claims_of(sim), 600.0, "the NodeClaim is gone")
    either = node_pool(requirements=[{"key": key, "operator": "In", "values": [T4, SIZE]}])["spec"]["template"]
    sim.store.patch("nodepools.karpenter.sh", "gpu", {"spec": {"template": either}})
    await asyncio.sleep(5)
    await pending(sim, pod("train"))
    ended = await explain(sim, "train")
    assert f"a new {T4}, 0.658 USD/h" in first(ended)
    assert "offerings that lately failed for NodeClaims that are gone" in " ".join(ended.out.split())
    (claim,) = await sim.until(lambda: claims_of(sim), 60.0, "a NodeClaim is created")
    assert [one["values"] for one in claim["spec"]["requirements"] if one["key"] == key] == [[SIZE]]


@simulated()
async def test_the_machines_of_a_nodepool(sim: Sim) -> None:
    """A busy one, a protected one, and an idle one that disruption removes, as it then does."""
    await one_pod_each(sim, 3, after="30m")
    sim.store.delete("pods", "p0", "default")
    protected = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
    sim.store.patch("pods", "p2", protected, "default")
    await asyncio.sleep(5 * MINUTE)
    ended = await explain(sim, "nodepool/gpu")
    assert first(ended) == "NodePool gpu: 3 machines, 1.974 USD/h; none would be disrupted now"
    text = " ".join(ended.out.split())
    assert "0 pods stays: It is empty and waits for consolidateAfter" in text
    assert 'Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=default/p2)' in text
    assert "Pod requests GPUs and is not created again elsewhere (Pod=default/p1, Controller=none)" in text
    await sim.until(lambda: leaving(sim), 1800.0, "the machine is removed")
    ended = await explain(sim, "np/gpu")
    assert "its removal or its replacement has begun" in ended.out
    assert written(sim) == []


@simulated()
async def test_a_machine_whose_replacement_was_undone(sim: Sim) -> None:
    """The controller waits before it tries again, which it alone knows: the answer says so."""
    await static(sim, 1)
    sim.cloud.faults.append(faults.capacity())
    drift(sim, "gpu-1")
    await sim.until(lambda: live(sim) == ["gpu-1", "gpu-2"], 120.0, "the replacement is requested")
    await sim.until(lambda: len(claims_of(sim)) == 1, 3600.0, "it is undone")
    ended = await explain(sim, "np/gpu")
    assert first(ended).endswith("1 would be disrupted now")
    assert "which replacements were undone, whose machines wait" in " ".join(ended.out.split())
    await passes(sim, 300.0)
    assert live(sim) == ["gpu-1"]


@simulated()
async def test_a_machine_that_expires(sim: Sim) -> None:
    """It is said how long the machine with a pod stays, whatever protects it; then that it goes, as it does."""
    await sim.apply(node_class())
    body = node_pool(disruption=disruption("Never"))
    body["spec"]["template"]["spec"]["expireAfter"] = "1h"
    await sim.apply(body)
    await sim.start_controller()
    await pending(sim, pod("train"))
    await sim.until(lambda: phase(sim, "train") == "Running", 1800.0, "the pod runs")
    text = " ".join((await explain(sim, "np/gpu")).out.split())
    assert re.search(r'on-demand, expires in 5\dm(\d+s)?, 1 pod stays: NodePool "gpu" has consolidation disabled', text)
    await sim.stop_controller()
    await asyncio.sleep(60 * MINUTE)
    ended = await explain(sim, "np/gpu", "-o", "json")
    answer = json.loads(ended.out)
    assert answer["answer"] == "1 machine, 0.658 USD/h; 1 would be disrupted now"
    assert [one["why"] for one in answer["parts"]["machines"]] == ["would be removed now: Expired"]
    assert [one["name"] for one in answer["parts"]["disruptionNow"]] == ["Expired"]
    await sim.start_controller("ctl1")
    await sim.until(lambda: leaving(sim), 120.0, "the machine is removed")


@simulated()
async def test_what_may_not_be_read(sim: Sim) -> None:
    """A missing right at the API server is an error with a remedy; one in Azure leaves the rest of the answer."""
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await ready(sim, NAME)

    def is_list(call: Call) -> bool:
        return call.who == WHO and call.target.kind == "nodes"

    restore = refuse(sim, is_list, 403, "Forbidden", "nodes is forbidden")
    ended = await explain(sim, NAME)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(
        "the API server: 403 Forbidden: list nodes: nodes is forbidden\nRequest this permission;"
    )
    restore()
    sim.cloud.configure(actions=frozenset())
    ended = await explain(sim, NAME, actions=frozenset())
    assert first(ended) == f"NodeClaim {NAME}: Ready"
    assert "agent pools, quota and VM sizes of Azure: " in ended.out
