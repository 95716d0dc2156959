"""Beside KAITO, the way up: its claims become machines that it recognizes, and what keeps them is shown to its users.

K1 to K19 are the contract of docs/references/kaito.md#contract, each a test of that name; K8, K9, K13, K14, K17 and K18
are in `test_kaito_races.py`; K19, KAITO's other mode, is in `test_karpenter_mode.py` and `test_karpenter_drift.py`.
"""

import asyncio

import pytest

from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.faults import ALWAYS, Failure, Fault
from tests.world import kaito_predicates
from tests.world.claims import (
    arm_calls,
    condition,
    example,
    first,
    passes_over,
    puts,
    ready,
    removed,
    versions,
    wait_for_condition,
    word,
)
from tests.world.harness import SIZE, crash_points, node_claim, simulate, simulated
from tests.world.kaito_actor import RagEngine, Workspace, at_work
from tests.world.kaito_predicates import Owner
from tests.world.kaito_stage import QUICK, actor_of, api_of, claims_of, serves

A10 = "Standard_NV36ads_A10_v5"
WORKSPACE = Owner(kind="workspace", name="workspace-phi-4", size=SIZE, labels={"apps": "phi-4"})
RAGENGINE = Owner(kind="ragengine", name="ragengine-docs", size=A10, storage="200Gi", labels={"apps": "ragengine-docs"})
SKU_TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
HOUR_SECONDS = 3600.0
NAME, NODE = "ws3f2a91c0d", "aks-ws3f2a91c0d-47249735-vmss000000"
EXAMPLES = [("kaito-workspace", WORKSPACE, 1024), ("kaito-ragengine", RAGENGINE, 200)]


@pytest.mark.parametrize(("stem", "owner", "_disk"), EXAMPLES)
@simulated()
async def test_k1_what_kaito_writes_is_served_without_its_node_class(sim, stem, owner, _disk) -> None:
    """The shipped examples are word for word KAITO's claims, and KAITO gets its machine with no NodeClass object."""
    shipped, written = example(stem), kaito_predicates.claim_of(owner, 1)
    assert shipped | {"metadata": {**shipped["metadata"], "name": ""}} == written | {
        "metadata": {**written["metadata"], "name": ""}
    }
    await sim.start_controller()
    actor = actor_of(sim, owner)
    async with at_work(actor):
        await serves(sim, actor)
        [claim] = claims_of(sim, owner)
        assert sim.store.list("kaitonodeclasses.kaito.sh") == []
        assert claim["spec"]["nodeClassRef"] == {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"}
        await asyncio.sleep(600)
    assert [put.pool for put in sim.cloud.put_log] == [claim["metadata"]["name"]]


@pytest.mark.parametrize(("stem", "owner", "disk"), EXAMPLES)
@simulated()
async def test_k2_one_put_carries_all_that_kaito_requests(sim, stem, owner, disk) -> None:
    """KAITO's claim is one PUT, never over an existing pool, with its size, disk, taint and all labels."""
    conditional = []

    async def note(call, request) -> None:
        if call.verb == "PUT" and call.system == "arm":
            conditional.append(request.headers.get("If-None-Match"))

    sim.world.before.append(note)
    await sim.start_controller()
    claim = await sim.apply(example(stem))
    name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
    await ready(sim, name)
    assert conditional == ["*"]
    assert [put.pool for put in sim.cloud.put_log] == [name]
    assert dict(sim.cloud.put_log[0].properties) == {
        "count": 1,
        "vmSize": owner.size,
        "type": "VirtualMachineScaleSets",
        "mode": "User",
        "osType": "Linux",
        "osSKU": "Ubuntu",
        "osDiskSizeGB": disk,
        "nodeTaints": ["sku=gpu:NoSchedule"],
        "nodeLabels": {
            "karpenter.sh/nodepool": "kaito",
            **owner.pair,
            **owner.labels,
            "kaito.sh/machine-type": "gpu",
            "kaito.sh/creation-timestamp": "2026-03-01T12-00-00Z",
            "gpu-provisioner.sh/nodeclaim-uid": uid,
            "karpenter.sh/capacity-type": "on-demand",
        },
        "tags": {
            "gpu-provisioner_nodeclaim": name,
            "gpu-provisioner_nodeclaim-uid": uid,
            "gpu-provisioner_put-time": "2026-03-01T12:00:00Z",
        },
    }


@simulated()
async def test_k2_the_image_family_of_the_claim_is_the_nodes(sim) -> None:
    """A claim annotated azurelinux gets a machine that runs it, as KAITO's own tests look for it."""
    await sim.start_controller()
    await sim.apply(example("azure-linux"))
    await ready(sim, "azlinux")
    assert sim.cloud.put_log[0].properties["osSKU"] == "AzureLinux"
    [node] = sim.nodes_of("azlinux")
    assert "Azure Linux" in node["status"]["nodeInfo"]["osImage"]


@simulated()
async def test_k3_a_label_that_aks_refuses_is_shown_and_not_sent(sim) -> None:
    """A user label under AKS's own prefix reaches no PUT; KAITO shows which label and why, and nothing spins."""
    owner = Owner(kind="workspace", name="w", size=SIZE, labels={"kubernetes.azure.com/mine": "x"})
    await sim.start_controller(elect=False)
    workspace = Workspace(api_of(sim), owner)
    async with at_work(workspace):
        await sim.until(lambda: workspace.error, 10, "KAITO shows why")
        assert workspace.error.startswith("LabelRefused: metadata.labels[kubernetes.azure.com/mine]: 'x'")
        [claim] = claims_of(sim, owner)
        name = claim["metadata"]["name"]
        assert word(claim, "Launched") == ("False", "LabelRefused")
        with passes_over(name) as passes:
            await asyncio.sleep(HOUR_SECONDS)
        assert len(passes) <= 3
        assert puts(sim, name) == []
        assert claims_of(sim, owner) == [claim]


def seen_well(seen) -> None:
    """Whether each version of a claim is one that KAITO cannot misread, and says no more than it can show."""
    for _, claim in (one for one in seen if one.obj is not None):
        status = claim.get("status") or {}
        assert not status.get("nodeName") or condition(claim, "Ready")
        assert all(len(c["message"].encode()) <= 256 for c in status.get("conditions") or ())


async def watched_life(sim) -> None:
    """A claim of KAITO's becomes Ready and goes again, and every version of it is one that KAITO can read."""
    await sim.start_controller()
    seen, nodes = versions(sim, NAME), versions(sim, NODE, "nodes")
    await sim.apply(example("kaito-workspace"))
    await ready(sim, NAME)
    await removed(sim, NAME)
    seen_well(seen)
    gpus, up = first(nodes, kaito_predicates.has_gpus), first(seen, kaito_predicates.is_ready)
    assert gpus.at <= up.at
    assert up.obj["status"]["nodeName"] == NODE


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_k4_no_version_of_a_claim_has_a_node_name_before_ready(seed) -> None:
    """In no version has a claim a nodeName without a Ready condition, nor is it Ready before its GPUs are there."""
    simulate(watched_life, seed=seed)


def test_k4_whatever_write_the_controller_dies_at() -> None:
    """The same when the controller is killed after any of its writes, and another one goes on."""
    points = [point for point in crash_points(watched_life, **QUICK) if (point.phase, point.reset) == ("after", True)]
    assert len(points) >= 10
    for point in points:
        simulate(watched_life, crash=point, **QUICK)


@simulated()
async def test_k5_late_gpus_keep_the_gate_closed_and_open_it_by_themselves(sim) -> None:
    """While the device plugin is late the claim states once what is missing and the remedy; then it is Ready."""
    sim.nodes.plugin_delay_seconds = 600.0
    await sim.start_controller()
    seen = versions(sim, "gpu1")
    nodes = versions(sim, "aks-gpu1-47249735-vmss000000", "nodes")
    await sim.apply(node_claim("gpu1"))
    shut = await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "ResourceNotRegistered")
    since = "; no DaemonSet of the cluster is a device plugin for nvidia.com/gpu, since 12:0"
    assert shut["message"].startswith(f"nvidia.com/gpu: 0 of 1 allocatable{since}")
    assert shut["message"].endswith("; install one (docs/how-to/device-plugin.md)")
    assert kaito_predicates.error_of([sim.claim("gpu1")]) == f"ResourceNotRegistered: {shut['message']}"
    known = len(seen)
    await asyncio.sleep(400)
    assert len(seen) == known
    await ready(sim, "gpu1")
    assert 0 < first(seen, kaito_predicates.is_ready).at - first(nodes, kaito_predicates.has_gpus).at <= 0.3


SUBNET = faults.error("SubnetIsFull", "Subnet aks-subnet does not have enough capacity for 1 IP addresses.")
FORBIDDEN = errors.forbidden("Microsoft.ContainerService/managedClusters/agentPools/write", "/subscriptions/x")
POLICY = errors.gateway(403, "RequestDisallowedByPolicy", "Resource 'gpu1' was disallowed by policy.")
REFUSALS = [
    (faults.quota(), "QuotaExceeded: OperationNotAllowed: "),
    (faults.quota(how="message"), "QuotaExceeded: OperationNotAllowed: "),
    (faults.capacity("AllocationFailed"), "AllocationFailed: AllocationFailed: "),
    (faults.capacity("SkuNotAvailable"), "SkuNotAvailable: SkuNotAvailable: "),
    (Fault(verb="PUT", times=ALWAYS, failure=Failure(error=SUBNET)), "SubnetIsFull: SubnetIsFull: "),
    (Fault(verb="PUT", times=ALWAYS, answer=FORBIDDEN), "AuthorizationFailed: AuthorizationFailed: "),
    (Fault(verb="PUT", times=ALWAYS, answer=POLICY), "RequestDisallowedByPolicy: RequestDisallowedByPolicy: "),
]


def shown(sim):
    """What KAITO shows of gpu1."""
    return kaito_predicates.error_of([sim.claim("gpu1")])


@pytest.mark.parametrize(("fault", "words"), REFUSALS)
@simulated()
async def test_k6_kaito_shows_each_cause_by_its_name(sim, fault, words) -> None:
    """Whatever Azure refuses, at once or later, KAITO's scan of the claim finds a reason and Azure's code."""
    sim.cloud.faults.append(fault)
    await sim.start_controller(elect=False)
    await sim.apply(node_claim("gpu1"))
    await sim.until(lambda: shown(sim).startswith(words), 60, f"KAITO shows {words}")
    assert sim.condition("gpu1", "Ready") in ("False", "Unknown")
    assert "http" not in shown(sim)
    await asyncio.sleep(600)
    assert len(puts(sim, "gpu1")) <= 5


@simulated()
async def test_k7_the_node_is_initial_status_what_kaito_selects_on(sim) -> None:
    """The Node has the owner's labels at birth, the size in exact case when Ready, all else once registered."""
    await sim.start_controller()
    nodes = versions(sim, NODE, "nodes")
    claim = await sim.apply(example("kaito-workspace"))
    await ready(sim, NAME)
    wanted = claim["metadata"]["labels"]
    assert {"karpenter.sh/nodepool", *WORKSPACE.pair} <= wanted.keys()
    assert wanted.items() <= nodes[0].obj["metadata"]["labels"].items()
    assert first(nodes, kaito_predicates.is_up).obj["metadata"]["labels"]["node.kubernetes.io/instance-type"] == SIZE
    [node] = sim.nodes_of(NAME)
    assert kaito_predicates.counts(node, WORKSPACE)
    meta = node["metadata"]
    assert meta["finalizers"] == ["karpenter.sh/termination"]
    assert (meta["labels"]["karpenter.sh/registered"], meta["labels"]["karpenter.sh/initialized"]) == ("true",) * 2
    assert meta["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert [(o["kind"], o["uid"], o["blockOwnerDeletion"]) for o in meta["ownerReferences"]] == [
        ("NodeClaim", claim["metadata"]["uid"], True)
    ]
    assert node["spec"]["taints"] == [SKU_TAINT]


THROTTLED = faults.throttled(seconds=30, times=ALWAYS)
OUTAGE = Fault(verb="PUT", times=ALWAYS, answer=errors.html(503))


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize(
    "fault",
    [THROTTLED, OUTAGE, *(fault for fault, words in REFUSALS if not words.startswith(("Alloc", "Sku", "Quota")))],
)
@simulated()
async def test_k10_what_is_no_shortage_never_ends_a_ragengine(sim, fault) -> None:
    """Neither throttling, an outage, a refusal nor a full subnet makes a claim say the phrase that ends a RAGEngine."""
    sim.cloud.faults.append(fault)
    await sim.start_controller(elect=False)
    engine = RagEngine(api_of(sim), RAGENGINE)
    reported = []
    sim.store.subscribe(lambda _, kind, obj, __: reported.append(obj) if kind.startswith("nodeclaims") else None)
    async with at_work(engine):
        await asyncio.sleep(1800)
        assert len(claims_of(sim, RAGENGINE)) == 1
        assert kaito_predicates.error_of(claims_of(sim, RAGENGINE))
    assert reported
    assert not any(kaito_predicates.is_hopeless(claim) or kaito_predicates.TERMINAL in str(claim) for claim in reported)
    assert engine.failures >= 1800 // 250
    assert engine.ended == 0


def sizes_in(claim, *sizes):
    """The claim with these sizes to choose from."""
    wanted = claim["spec"]["requirements"]
    choice = [{**one, "values": list(sizes)} if one["key"] == kaito_predicates.INSTANCE_TYPE else one for one in wanted]
    return {**claim, "spec": {**claim["spec"], "requirements": [one for one in choice if "sku-name" not in one["key"]]}}


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("fault", [faults.capacity, faults.quota, faults.quota_preflight])
@pytest.mark.parametrize("sizes", [[A10], [SIZE, A10]], ids=["one size", "two sizes"])
@simulated()
async def test_k10_the_phrase_comes_when_every_allowed_size_is_exhausted_and_not_before(sim, sizes, fault) -> None:
    """It ends the RAGEngine, which creates no second claim; once the claim is Ready the RAGEngine recovers."""
    short = [fault(size=size) for size in sizes]
    sim.cloud.faults += short
    await sim.start_controller(elect=False)
    claim = await sim.apply(sizes_in(kaito_predicates.claim_of(RAGENGINE, 1), *sizes))
    name, engine, spoke = claim["metadata"]["name"], RagEngine(api_of(sim), RAGENGINE), []

    def note(_, kind, obj, __) -> None:
        if kind.startswith("nodeclaims") and kaito_predicates.TERMINAL in str(obj.get("status")):
            spoke.append((kaito_predicates.is_hopeless(obj), [one.seen for one in short]))

    sim.store.subscribe(note)
    async with at_work(engine):
        await sim.until(lambda: engine.ended, 600, "the RAGEngine ends")
        assert engine.state == kaito_predicates.TERMINAL
        assert all(hopeless and all(times) for hopeless, times in spoke), spoke
        await asyncio.sleep(1800)
        assert [one["metadata"]["name"] for one in claims_of(sim, RAGENGINE)] == [name]
        sim.cloud.faults.remove(short[sizes.index(A10)])
        await serves(sim, engine, within_seconds=1800)
        assert [one["metadata"]["name"] for one in claims_of(sim, RAGENGINE)] == [name]
        assert kaito_predicates.TERMINAL not in str(sim.claim(name)["status"])
        assert sim.cloud.pools[name].properties["vmSize"] == A10


@simulated()
async def test_k10_a_shortage_of_one_size_is_not_the_end_while_another_may_be_had(sim) -> None:
    """The claim gets its second size, and no condition has the phrase at any time."""
    sim.cloud.faults.append(faults.capacity(size=SIZE))
    await sim.start_controller(elect=False)
    seen = versions(sim, "gpu1")
    claim = sizes_in(kaito_predicates.claim_of(RAGENGINE, 1), SIZE, A10)
    claim["metadata"]["name"] = "gpu1"
    await sim.apply(claim)
    engine = RagEngine(api_of(sim), RAGENGINE)
    async with at_work(engine):
        await serves(sim, engine)
    assert [put.properties["vmSize"] for put in sim.cloud.put_log] == [SIZE, A10]
    assert not [one for one in seen if kaito_predicates.TERMINAL in str(one.obj)]
    assert engine.ended == 0


@pytest.mark.matrix(quick=1)
@pytest.mark.parametrize(
    ("given", "stored"), [({"expireAfter": "Never"}, "Never"), ({}, "720h"), ({"expireAfter": "1h"}, "1h")]
)
@simulated(horizon_seconds=40 * 24 * HOUR_SECONDS)
async def test_k11_no_machine_expires(sim, given, stored) -> None:
    """KAITO's Never, the CRD's default of 720h and an hour set by a user never expire a machine."""
    await sim.start_controller()
    claim = await sim.apply(node_claim("gpu1", **given))
    assert claim["spec"]["expireAfter"] == stored
    await ready(sim, "gpu1")
    await sim.stop_controller()
    await asyncio.sleep(31 * 24 * HOUR_SECONDS)
    seen = versions(sim, "gpu1")
    await sim.start_controller("ctl1")
    await asyncio.sleep(2 * HOUR_SECONDS)
    assert seen == []
    assert sim.cloud.pools["gpu1"].state == "Succeeded"
    assert arm_calls(sim, "gpu1").count("DELETE") == 0


@simulated()
async def test_k12_storage_is_the_disks_and_not_the_nodes(sim) -> None:
    """A request for storage, which no Node has as allocatable, does not delay a claim."""
    await sim.start_controller()
    await sim.apply(node_claim("gpu1", resources={"requests": {"storage": "100Gi"}}))
    await ready(sim, "gpu1")
    assert sim.cloud.pools["gpu1"].properties["osDiskSizeGB"] == 100
    assert "storage" not in sim.nodes_of("gpu1")[0]["status"]["allocatable"]


@simulated()
async def test_k15_claims_of_others_are_never_touched(sim) -> None:
    """A claim of another class without a KAITO label gets no finalizer, no status and no ARM call."""
    claim = node_claim("other1", nodeClassRef={"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "d"})
    del claim["metadata"]["labels"]
    before = await sim.apply(claim)
    await sim.start_controller()
    await asyncio.sleep(HOUR_SECONDS)
    assert sim.claim("other1") == before
    assert arm_calls(sim, "other1") == []
    await sim.delete_claim("other1")
    assert sim.claim("other1") is None


@simulated()
async def test_k16_a_ragengine_without_gpus_is_ready_without_gpus(sim) -> None:
    """A RAGEngine on a CPU size waits for no GPU, keeps its taint, and serves."""
    owner = Owner(kind="ragengine", name="docs", size="Standard_D8s_v5", storage="200Gi", labels={"apps": "docs"})
    await sim.start_controller()
    engine = RagEngine(api_of(sim), owner)
    async with at_work(engine):
        await serves(sim, engine)
        [claim] = claims_of(sim, owner)
        [node] = sim.nodes_of(claim["metadata"]["name"])
        assert node["spec"]["taints"] == [SKU_TAINT]
        assert node["metadata"]["labels"]["kaito.sh/machine-type"] == "cpu"
        assert "nvidia.com/gpu" not in node["status"]["allocatable"]
