"""NodePools and AgentPoolNodeClasses: conditions, hash, counter, and the agent pools of their claims."""

import asyncio

import pytest

from tests.world.claims import puts, ready
from tests.world.harness import Sim, node_claim, simulated
from tests.world.metric_samples import Numbers

from .common import CLASSES, POOLS, Json, claim_of, node_class, node_pool, shown, until_shown

OTHERS = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}


@simulated()
async def test_a_claim_gets_the_agent_pool_that_its_node_class_describes(sim: Sim) -> None:
    """Every field of the class is in the body of the PUT, under the name that AKS has for it."""
    subnet = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets/gpu"
    group = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/a100"
    await sim.apply(
        node_class(
            imageFamily="AzureLinux",
            osDiskSizeGB=512,
            osDiskType="Managed",
            vnetSubnetID=subnet,
            maxPods=50,
            tags={"team": "ml"},
            gpu={"migProfile": "MIG1g"},
            capacityReservationGroupID=group,
        )
    )
    await sim.apply(node_pool())
    await sim.start_controller()
    await sim.apply(claim_of(sim, "a1"))
    await ready(sim, "a1")
    sent = sim.cloud.pools["a1"].properties
    assert {
        "osSKU": "AzureLinux",
        "osDiskSizeGB": 512,
        "osDiskType": "Managed",
        "vnetSubnetID": subnet,
        "maxPods": 50,
        "gpuInstanceProfile": "MIG1g",
        "capacityReservationGroupID": group,
    }.items() <= sent.items()
    assert sim.cloud.pools["a1"].tags["team"] == "ml"

    await sim.until(lambda: sim.store.get(POOLS, "gpu")["status"]["resources"].get("nvidia.com/gpu"), 60, "counted")
    status = sim.store.get(POOLS, "gpu")["status"]
    assert (status["nodes"], status["resources"]["nodes"]) == (1, "1")
    assert status["resources"]["cpu"] == "24"
    assert shown(sim, "NodeRegistrationHealthy", POOLS, "gpu")[0] == "True"
    assert sim.store.get(CLASSES, "default")["metadata"]["finalizers"] == ["gpu-provisioner.sh/termination"]


@simulated()
async def test_a_claim_waits_for_its_node_class(sim: Sim) -> None:
    """Claim and NodePool report that it is missing; once it exists and is Ready, the claim launches."""
    await sim.start_controller()
    await sim.apply(node_pool())
    await sim.apply(claim_of(sim, "a1"))
    missing = await until_shown(sim, "Launched", ("nodeclaims.karpenter.sh", "a1"), "Unknown", "NodeClassNotFound")
    assert missing.startswith("AgentPoolNodeClass default does not exist: create it")
    assert "a1" not in sim.cloud.pools
    pool = await until_shown(sim, "Ready", (POOLS, "gpu"), "False", "NodeClassNotFound")
    assert pool.startswith("AgentPoolNodeClass default does not exist: create it")

    await sim.apply(node_class())
    await ready(sim, "a1")
    await until_shown(sim, "Ready", (CLASSES, "default"), "True", "Ready")
    await until_shown(sim, "Ready", (POOLS, "gpu"), "True", "Ready")


@simulated()
async def test_a_node_class_exists_as_long_as_its_claims(sim: Sim) -> None:
    """A deleted class waits for its claims, and says so; new claims wait, and the NodePool is not Ready."""
    await sim.apply(node_class())
    await sim.start_controller()
    await sim.apply(node_pool())
    await sim.apply(claim_of(sim, "a1"))
    await ready(sim, "a1")
    await sim.request("DELETE", "/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses/default")
    waits = await until_shown(sim, "Ready", (CLASSES, "default"), "False", "WaitingForNodeClaims")
    assert waits == "waiting for NodeClaims that refer to it to be deleted: a1; delete them"
    await until_shown(sim, "NodeClassReady", (POOLS, "gpu"), "False", "NodeClassTerminating")
    assert sim.condition("a1", "Ready") == "True"

    await sim.delete_claim("a1")
    await sim.until(lambda: sim.claim("a1") is None, 900, "the claim is gone")
    await sim.until(lambda: sim.store.get(CLASSES, "default") is None, 60, "the class is gone")


@simulated()
async def test_the_deletion_of_a_node_pool_takes_its_claims(sim: Sim) -> None:
    """By the owner reference, in the order of every removal; a claim of KAITO stays."""
    await sim.apply(node_class())
    await sim.start_controller()
    await sim.apply(node_pool())
    await sim.apply(claim_of(sim, "a1"))
    await sim.apply(node_claim("ws1"))
    await ready(sim, "a1")
    await ready(sim, "ws1")
    await sim.request("DELETE", "/apis/karpenter.sh/v1/nodepools/gpu")
    await sim.until(lambda: sim.claim("a1") is None and "a1" not in sim.cloud.pools, 900, "the machine is gone")
    assert sim.condition("ws1", "Ready") == "True"


@pytest.mark.parametrize(
    ("pool", "kind", "reason", "cause"),
    [
        (
            {"requirements": [{"key": "zone", "operator": "In", "values": [v]} for v in ("a", "b")]},
            "ValidationSucceeded",
            "NodePoolValidationFailed",
            "no value satisfies all requirements",
        ),
        (
            {"requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_X"]}]},
            "ValidationSucceeded",
            "NodePoolValidationFailed",
            "Standard_X: unknown sizes",
        ),
        (
            {"labels": {"kubernetes.azure.com/mode": "user"}},
            "ValidationSucceeded",
            "NodePoolValidationFailed",
            "spec.template.metadata.labels[kubernetes.azure.com/mode]",
        ),
        (
            {"template": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
            "ValidationSucceeded",
            "NodePoolValidationFailed",
            "another taint or startup taint has the same key and effect",
        ),
        (
            {"template": {"taints": [{"key": "kubernetes.azure.com/x", "effect": "NoSchedule"}]}},
            "ValidationSucceeded",
            "NodePoolValidationFailed",
            "kubernetes.azure.com/x:NoSchedule: AKS reserves this key",
        ),
    ],
)
@simulated()
async def test_invalid_input_is_reported(sim: Sim, pool: Json, kind: str, reason: str, cause: str) -> None:
    """With field, cause and remedy; another NodePool is not affected, and nothing is written again and again."""
    await sim.apply(node_class())
    await sim.start_controller()
    await sim.apply(node_pool(**pool))
    await sim.apply(node_pool("fine"))
    message = await until_shown(sim, kind, (POOLS, "gpu"), "False", reason)
    assert cause in message
    assert ";" in message
    assert shown(sim, "Ready", POOLS, "gpu")[:2] == ("False", reason)
    await until_shown(sim, "Ready", (POOLS, "fine"), "True", "Ready")
    await asyncio.sleep(30)
    before = len([*sim.audit_log.writes()])
    await asyncio.sleep(600)
    leases = [call for call in [*sim.audit_log.writes()][before:] if not call.is_bookkeeping]
    assert leases == []


@simulated()
async def test_a_limit_of_zero_is_reported(sim: Sim) -> None:
    """The NodePool is Ready, and says that it creates nothing."""
    await sim.apply(node_class())
    await sim.start_controller()
    await sim.apply(node_pool(limits={"nvidia.com/gpu": 0}))
    message = await until_shown(sim, "ValidationSucceeded", (POOLS, "gpu"), "True", "ValidationSucceeded")
    assert message == "spec.limits[nvidia.com/gpu] is 0, so no NodeClaim is created; raise it to use this NodePool"


@simulated()
async def test_node_pools_of_another_controller_are_not_written(sim: Sim) -> None:
    """Node auto-provisioning in the same cluster: its NodePools stay as they are, and its claims are not served."""
    await sim.apply(node_class())
    theirs = await sim.apply(node_pool("theirs", reference=OTHERS))
    await sim.apply(node_pool())
    await sim.start_controller()
    their_claim = claim_of(sim, "nap1", "theirs")
    their_claim["spec"]["nodeClassRef"] = OTHERS
    claimed = await sim.apply(their_claim)
    await sim.apply(claim_of(sim, "a1"))
    await ready(sim, "a1")
    await asyncio.sleep(60)
    assert sim.store.get(POOLS, "theirs")["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    claim = sim.claim("nap1")
    assert claim is not None
    assert claim["metadata"]["resourceVersion"] == claimed["metadata"]["resourceVersion"]
    assert not puts(sim, "nap1")


@simulated()
async def test_the_hash_follows_the_template_without_its_requirements(sim: Sim) -> None:
    await sim.apply(node_class())
    await sim.start_controller()
    await sim.apply(node_pool())

    def hashed() -> str:
        return (sim.store.get(POOLS, "gpu")["metadata"].get("annotations") or {}).get("karpenter.sh/nodepool-hash", "")

    first = await sim.until(hashed, 60, "a hash")
    version = sim.store.get(POOLS, "gpu")["metadata"]["annotations"]["karpenter.sh/nodepool-hash-version"]
    assert version == "gpu-provisioner-v2"
    other = [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eastus-1"]}]
    await sim.apply(node_pool(requirements=other, weight=5))
    await asyncio.sleep(30)
    assert hashed() == first
    await sim.apply(node_pool(template={"expireAfter": "Never"}))
    await sim.until(lambda: hashed() not in ("", first), 60, "another hash")


@simulated()
async def test_usage_and_limits_are_metrics(sim: Sim) -> None:
    """With Karpenter's names; NodePools of another controller have none."""
    numbers = Numbers()
    await sim.apply(node_class())
    await sim.start_controller(metrics=numbers.metrics)
    await sim.apply(node_pool(limits={"nvidia.com/gpu": 4, "cpu": "64", "example.com/x": 1}))
    await sim.apply(node_pool("theirs", reference=OTHERS, limits={"cpu": "1"}))
    await sim.apply(claim_of(sim, "a1"))
    await ready(sim, "a1")
    await asyncio.sleep(5)
    assert numbers.total("karpenter_nodepools_limit", resource_type="nvidia.com/gpu", nodepool="gpu") == 4
    assert numbers.total("karpenter_nodepools_limit", resource_type="cpu") == 64
    assert numbers.total("karpenter_nodepools_usage", resource_type="cpu", nodepool="gpu") == 24
    assert numbers.total("karpenter_nodepools_usage", resource_type="nodes", nodepool="gpu") == 1


@simulated()
async def test_the_results_of_registrations_are_of_one_nodepool_and_generation(sim: Sim) -> None:
    """A change of the NodePool, or of its class, begins anew; nothing is known of another NodePool."""
    await sim.apply(node_class())
    await sim.start_controller()
    await sim.apply(node_pool())
    await sim.apply(node_pool("other"))
    kind, gpu = "NodeRegistrationHealthy", (POOLS, "gpu")
    await until_shown(sim, kind, gpu, "Unknown", "AwaitingRegistration")
    for number, path in enumerate(((POOLS, "gpu"), (CLASSES, "default")), 1):
        await sim.apply(claim_of(sim, f"a{number}"))
        await ready(sim, f"a{number}")
        await until_shown(sim, kind, gpu, "True", kind)
        await asyncio.sleep(300)
        assert shown(sim, kind, *gpu)[:2] == ("True", kind)
        assert shown(sim, kind, POOLS, "other")[:2] == ("Unknown", "AwaitingRegistration")
        sim.store.patch(*path, {"spec": {"weight": 3} if path == gpu else {"maxPods": 40}})
        await until_shown(sim, kind, gpu, "Unknown", "AwaitingRegistration")
