"""The way up: from a claim to a Ready GPU node, and what may happen on the way."""

import asyncio

import pytest

from controllers.policy import Policy
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes_machine import NodeSettings

from .claims import (
    arm_calls,
    condition,
    events,
    example,
    first,
    message,
    node_is_ready,
    puts,
    ready,
    removed,
    says,
    versions,
    word,
)
from .harness import SIZE, node_claim, simulate

FOUR_GPUS = "Standard_NC96ads_A100_v4"
UNLISTED = "Standard_NV12ads_A10_v5"
WORKSPACE = {"kaito.sh/workspace": "workspace-phi-4", "kaito.sh/workspacenamespace": "default", "apps": "phi-4"}
RAGENGINE = {"kaito.sh/ragengine": "ragengine-docs", "kaito.sh/ragenginenamespace": "default", "apps": "ragengine-docs"}
SKU_TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}


def is_ready(obj):
    return word(obj, "Ready")[0] == "True"


def shows_gpus(node):
    return "nvidia.com/gpu" in (node.get("status") or {}).get("allocatable", {})


# The objects that users have


@pytest.mark.parametrize(
    "stem", ["kaito-workspace", "kaito-ragengine", "first-gpu", "a100-multi", "azure-linux", "cpu"]
)
def test_each_example_lives_and_leaves(stem):
    """Every shipped example becomes Ready with one PUT and no NodeClass object, and leaves nothing behind (K1)."""

    async def story(sim):
        await sim.start_controller()
        claim = await sim.apply(example(stem))
        name = claim["metadata"]["name"]
        uid = await ready(sim, name)
        assert sim.store.list("kaitonodeclasses.kaito.sh") == []
        assert puts(sim, name) == [pytest.approx(0.4, abs=0.4)]
        await removed(sim, name)
        assert sim.ledger.disappearances(uid) == ["pool", "node", "claim"]
        await sim.settled()
        assert sorted(sim.cloud.pools) == ["system", "theirs"]

    simulate(story)


@pytest.mark.parametrize(
    ("stem", "owner", "size", "disk"),
    [
        ("kaito-workspace", WORKSPACE, SIZE, 1024),
        ("kaito-ragengine", RAGENGINE, "Standard_NV36ads_A10_v5", 200),
    ],
)
def test_kaitos_claim_on_the_wire(stem, owner, size, disk):
    """KAITO's claim is one PUT, never over an existing pool, with its size, disk, taint and all labels (K2)."""
    conditional = []

    async def story(sim):
        async def note(call, request):
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
            "vmSize": size,
            "type": "VirtualMachineScaleSets",
            "mode": "User",
            "osType": "Linux",
            "osSKU": "Ubuntu",
            "osDiskSizeGB": disk,
            "nodeTaints": ["sku=gpu:NoSchedule"],
            "nodeLabels": {
                "karpenter.sh/nodepool": "kaito",
                **owner,
                "kaito.sh/machine-type": "gpu",
                "kaito.sh/creation-timestamp": "2026-03-01T12-00-00Z",
                "gpu-provisioner.sh/nodeclaim-uid": uid,
            },
            "tags": {
                "gpu-provisioner_nodeclaim": name,
                "gpu-provisioner_nodeclaim-uid": uid,
                "gpu-provisioner_put-time": "2026-03-01T12:00:00Z",
            },
        }

    simulate(story)


def test_the_image_family_of_the_claim_is_the_nodes():
    """A claim annotated azurelinux gets a machine that runs it, as KAITO's own tests look for it."""

    async def story(sim):
        await sim.start_controller()
        await sim.apply(example("azure-linux"))
        await ready(sim, "azlinux")
        [node] = sim.nodes_of("azlinux")
        assert "Azure Linux" in node["status"]["nodeInfo"]["osImage"]

    simulate(story)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_version_of_a_claim_is_one_that_kaito_can_read(seed):
    """In no version has a claim a nodeName without a Ready condition, nor is it Ready before its GPUs are (K4, K5)."""

    async def story(sim):
        await sim.start_controller()
        seen = versions(sim, "ws3f2a91c0d")
        nodes = versions(sim, "aks-ws3f2a91c0d-47249735-vmss000000", "nodes")
        await sim.apply(example("kaito-workspace"))
        await ready(sim, "ws3f2a91c0d")
        await removed(sim, "ws3f2a91c0d")
        told = [one for one in seen if one.obj is not None]
        for _, claim in told:
            status = claim.get("status") or {}
            assert not status.get("nodeName") or condition(claim, "Ready")
            assert all(len(c["message"].encode()) <= 256 for c in status.get("conditions") or ())
        gpus = first(nodes, shows_gpus)
        up = first(seen, is_ready)
        assert gpus.at <= up.at
        assert up.obj["status"]["nodeName"] == "aks-ws3f2a91c0d-47249735-vmss000000"

    simulate(story, seed=seed)


def test_the_node_is_born_with_what_kaito_selects_on():
    """The Node has the owner's labels at birth, the size in exact case when Ready, all else once registered (K7)."""

    async def story(sim):
        await sim.start_controller()
        nodes = versions(sim, "aks-ws3f2a91c0d-47249735-vmss000000", "nodes")
        claim = await sim.apply(example("kaito-workspace"))
        await ready(sim, "ws3f2a91c0d")
        wanted = claim["metadata"]["labels"]
        assert wanted.items() <= nodes[0].obj["metadata"]["labels"].items()
        assert first(nodes, is_ready).obj["metadata"]["labels"]["node.kubernetes.io/instance-type"] == SIZE
        [node] = sim.nodes_of("ws3f2a91c0d")
        meta = node["metadata"]
        assert meta["finalizers"] == ["karpenter.sh/termination"]
        assert (meta["labels"]["karpenter.sh/registered"], meta["labels"]["karpenter.sh/initialized"]) == ("true",) * 2
        assert meta["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
        assert [(o["kind"], o["uid"], o["blockOwnerDeletion"]) for o in meta["ownerReferences"]] == [
            ("NodeClaim", claim["metadata"]["uid"], True)
        ]
        assert node["spec"]["taints"] == [SKU_TAINT]

    simulate(story)


def test_a_label_given_while_the_machine_comes_up_reaches_the_node():
    """Labels and annotations that a claim is given after the PUT are on its Node once it is registered."""

    async def story(sim):
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await says(sim, "gpu1", "Launched", "Unknown", "Creating", within_seconds=5)
        late = {"name": "gpu1", "labels": {"example.com/late": "yes"}, "annotations": {"example.com/why": "asked"}}
        await sim.apply({**node_claim("gpu1"), "metadata": late})
        await ready(sim, "gpu1")
        [node] = sim.nodes_of("gpu1")
        assert node["metadata"]["labels"]["example.com/late"] == "yes"
        assert node["metadata"]["annotations"]["example.com/why"] == "asked"

    simulate(story)


def test_storage_is_the_disks_and_not_the_nodes():
    """A request for storage, which no Node ever shows as allocatable, does not hold a claim back (K12)."""

    async def story(sim):
        await sim.start_controller()
        await sim.apply(node_claim("gpu1", resources={"requests": {"storage": "100Gi"}}))
        await ready(sim, "gpu1")
        assert sim.cloud.pools["gpu1"].properties["osDiskSizeGB"] == 100
        assert "storage" not in sim.nodes_of("gpu1")[0]["status"]["allocatable"]

    simulate(story)


def test_a_ragengine_without_gpus_is_ready_without_gpus():
    """A RAGEngine on a CPU size waits for no GPU, and keeps its taint (K16)."""

    async def story(sim):
        await sim.start_controller()
        claim = example("kaito-ragengine")
        for requirement in claim["spec"]["requirements"]:
            if requirement["values"] == ["Standard_NV36ads_A10_v5"]:
                requirement["values"] = ["Standard_D8s_v5"]
        await sim.apply(claim)
        name = claim["metadata"]["name"]
        await ready(sim, name)
        [node] = sim.nodes_of(name)
        assert node["spec"]["taints"] == [SKU_TAINT]
        assert node["metadata"]["labels"]["kaito.sh/machine-type"] == "cpu"
        assert "nvidia.com/gpu" not in node["status"]["allocatable"]

    simulate(story)


def test_a_claim_cannot_give_its_node_privileges():
    """Labels of a claim that would give a Node rights, or speak in our name, reach neither pool nor Node."""
    greedy = {
        "node-role.kubernetes.io/control-plane": "",
        "team.node-restriction.kubernetes.io/trusted": "yes",
        "gpu-provisioner.sh/nodeclaim-uid": "another",
        "example.com/mine": "kept",
    }

    async def story(sim):
        await sim.start_controller()
        claim = await sim.apply(node_claim("gpu1", labels=greedy))
        await ready(sim, "gpu1")
        [node] = sim.nodes_of("gpu1")
        for found in (sim.cloud.pools["gpu1"].labels, node["metadata"]["labels"]):
            assert {key: found[key] for key in greedy if key in found} == {
                "gpu-provisioner.sh/nodeclaim-uid": claim["metadata"]["uid"],
                "example.com/mine": "kept",
            }

    simulate(story)


def test_kubectl_shows_what_the_machine_is():
    """With its Node a claim bears type, zone and capacity type, and the Node's own providerID and image."""

    async def story(sim):
        await sim.start_controller()
        zonal = node_claim("gpu1")
        zonal["spec"]["requirements"].append(
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["westeurope-2"]}
        )
        await sim.apply(zonal)
        await ready(sim, "gpu1")
        claim, [node] = sim.claim("gpu1"), sim.nodes_of("gpu1")
        shown = {
            "node.kubernetes.io/instance-type": SIZE,
            "topology.kubernetes.io/zone": "westeurope-2",
            "karpenter.sh/capacity-type": "on-demand",
        }
        assert shown.items() <= claim["metadata"]["labels"].items()
        assert claim["status"]["providerID"] == node["spec"]["providerID"]
        assert claim["status"]["imageID"] == node["metadata"]["labels"]["kubernetes.azure.com/node-image-version"]

    simulate(story)


def test_names_that_aks_does_not_allow():
    """Claims with long names, alike in their first twelve letters, get pools of their own under short names."""
    names = ["workspace-phi-4-mini.instruct", "workspace-phi-4-mini.instruct-2"]

    async def story(sim):
        await sim.start_controller()
        uids = [(await sim.apply(node_claim(name)))["metadata"]["uid"] for name in names]
        for name, uid in zip(names, uids, strict=True):
            await ready(sim, name)
            [pool] = sim.pools_of(uid)
            assert (len(pool.name), pool.name[0]) == (12, "c")
            assert sim.claim(name)["status"]["nodeName"].startswith(f"aks-{pool.name}-")
        for name in names:
            await removed(sim, name)
        await sim.settled()

    simulate(story)


# Whose claims


def test_unmanaged_claims_are_never_touched():
    """A claim of another class without a KAITO label gets no finalizer, no status and no ARM call (K15)."""

    async def story(sim):
        claim = node_claim("other1", nodeClassRef={"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "d"})
        del claim["metadata"]["labels"]
        before = await sim.apply(claim)
        await sim.start_controller()
        await asyncio.sleep(3600)
        assert sim.claim("other1") == before
        assert arm_calls(sim, "other1") == []
        await sim.delete_claim("other1")
        assert sim.claim("other1") is None

    simulate(story)


@pytest.mark.parametrize("own", [{}, {"kaito.sh/workspace": "w"}, {"kaito.sh/ragengine": "r"}])
def test_either_sign_makes_a_claim_ours(own):
    """KAITO's node class without a label, or either of KAITO's labels on any node class, is served."""
    other = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}

    async def story(sim):
        claim = node_claim("gpu1", **({"nodeClassRef": other} if own else {}))
        claim["metadata"]["labels"] = own
        await sim.start_controller()
        await sim.apply(claim)
        await ready(sim, "gpu1")
        await removed(sim, "gpu1")
        await sim.settled()

    simulate(story)


# The proof is the Node


def test_ready_as_soon_as_the_node_proves_it():
    """A claim is Ready 0.3 s after its GPUs are allocatable, while ARM still says Creating, and nothing follows."""

    async def story(sim):
        await sim.start_controller()
        seen = versions(sim, "gpu1")
        nodes = versions(sim, "aks-gpu1-47249735-vmss000000", "nodes")
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        assert sim.cloud.pools["gpu1"].state == "Creating"
        gpus = first(nodes, shows_gpus)
        assert first(seen, is_ready).at - gpus.at <= 0.3
        known = len(seen)
        await sim.until(lambda: sim.cloud.pools["gpu1"].state == "Succeeded", 900, "ARM agrees")
        await asyncio.sleep(600)
        assert len(seen) == known

    simulate(story, azure=AzureSettings(create_seconds=(600.0, 600.0), node_share=(0.2, 0.2)))


def test_a_pool_may_run_before_its_node_is_there():
    """A pool that ARM calls Succeeded before its Node is Launched, and says that it waits for the Node."""

    async def story(sim):
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        waiting = await says(sim, "gpu1", "Registered", "Unknown", "NodeNotFound")
        assert sim.cloud.pools["gpu1"].state == "Succeeded"
        assert word(sim.claim("gpu1"), "Launched") == ("True", "Launched")
        assert waiting["message"].startswith("Node not registered with cluster; agent pool gpu1 runs since 12:0")
        assert not sim.nodes_of("gpu1")
        await ready(sim, "gpu1")

    simulate(story, azure=AzureSettings(node_share=(1.4, 1.4)))


# GPUs


def test_late_gpus_keep_the_gate_closed_and_open_it_by_themselves():
    """While the device plugin is late the claim says once what is missing and what to do; then it is Ready."""

    async def story(sim):
        sim.nodes.plugin_delay_seconds = 600.0
        await sim.start_controller()
        seen = versions(sim, "gpu1")
        nodes = versions(sim, "aks-gpu1-47249735-vmss000000", "nodes")
        await sim.apply(node_claim("gpu1"))
        shut = await says(sim, "gpu1", "Initialized", "Unknown", "ResourceNotRegistered")
        assert shut["message"] == (
            "nvidia.com/gpu: 0 of 1 allocatable; is the device plugin running and tolerating the claim's taints? "
            "To go without: annotate the claim gpu-provisioner.sh/gpu-readiness=report"
        )
        known = len(seen)
        await asyncio.sleep(500)
        assert len(seen) == known
        await ready(sim, "gpu1")
        gpus = first(nodes, shows_gpus)
        assert 0 < first(seen, is_ready).at - gpus.at <= 0.3

    simulate(story)


@pytest.mark.parametrize("broken", [False, True])
def test_some_of_the_gpus_are_not_enough(broken):
    """Three of four GPUs, the fourth missing or unhealthy, keep the gate closed; capacity is no proof."""

    async def story(sim):
        sim.nodes.plugin_delay_seconds = 100_000.0
        await sim.start_controller()
        await sim.apply(node_claim("gpu1", size=FOUR_GPUS))
        node = await node_is_ready(sim, "gpu1")
        sim.nodes.set_gpus(node, 4 if broken else 3)
        if broken:
            sim.nodes.set_unhealthy_gpus(node, 1)
        told = "nvidia.com/gpu: 3 of 4 allocatable; "
        await sim.until(lambda: message(sim, "gpu1", "Initialized").startswith(told), 5, "it says 3 of 4")
        await asyncio.sleep(600)
        assert sim.condition("gpu1", "Ready") == "Unknown"
        sim.nodes.set_gpus(node, 4)
        sim.nodes.set_unhealthy_gpus(node, 0)
        await ready(sim, "gpu1", within_seconds=1)

    simulate(story)


def test_a_size_without_data_has_no_gate():
    """For a size whose GPUs nobody has counted the Ready Node is enough, and an event says so."""

    async def story(sim):
        sim.nodes.plugin_delay_seconds = 600.0
        await sim.start_controller()
        await sim.apply(node_claim("gpu1", size=UNLISTED))
        await node_is_ready(sim, "gpu1")
        await ready(sim, "gpu1", within_seconds=5)
        assert "nvidia.com/gpu" not in sim.nodes_of("gpu1")[0]["status"]["allocatable"]
        await asyncio.sleep(1)
        [event] = events(sim, "gpu1", "Initialized")
        assert "how many GPUs this size has is not known" in event["message"]

    simulate(story)


@pytest.mark.parametrize("by", ["policy", "annotation"])
def test_gpus_may_be_reported_only(by):
    """With gpu-readiness=report, for all or for one, GPUs are not waited for; an event tells how many there are."""

    async def story(sim):
        sim.nodes.plugin_delay_seconds = 600.0
        claim = node_claim("gpu1")
        if by == "annotation":
            claim["metadata"]["annotations"] = {"gpu-provisioner.sh/gpu-readiness": "report"}
        await sim.start_controller(policy=Policy(gpu_readiness="report" if by == "policy" else "require"))
        await sim.apply(claim)
        await node_is_ready(sim, "gpu1")
        await ready(sim, "gpu1", within_seconds=5)
        await asyncio.sleep(1)
        [event] = events(sim, "gpu1", "Initialized")
        assert event["message"] == "the Node is Ready with 0 of 1 nvidia.com/gpu allocatable (not waited for)"

    simulate(story)


def test_the_annotation_opens_a_gate_that_has_been_closed():
    """What the message of a closed gate advises works: the annotated claim is Ready at once."""

    async def story(sim):
        sim.nodes.plugin_delay_seconds = 100_000.0
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await says(sim, "gpu1", "Initialized", "Unknown", "ResourceNotRegistered")
        claim = node_claim("gpu1")
        claim["metadata"]["annotations"] = {"gpu-provisioner.sh/gpu-readiness": "report"}
        await sim.apply(claim)
        await ready(sim, "gpu1", within_seconds=1)

    simulate(story)


# Taints


def test_startup_taints_are_waited_for_and_never_put_back():
    """A startup taint comes with registration, keeps the gate closed until its owner removes it, and stays away."""
    taint = {"key": "gkm.io/cache-not-ready", "effect": "NoSchedule"}

    async def story(sim):
        await sim.start_controller()
        await sim.apply(node_claim("gpu1", taints=[SKU_TAINT], startupTaints=[taint]))
        told = await says(sim, "gpu1", "Initialized", "Unknown", "StartupTaintsExist")
        assert "gkm.io/cache-not-ready" in told["message"]
        assert sim.cloud.pools["gpu1"].taints == ("sku=gpu:NoSchedule",)
        await asyncio.sleep(600)
        [node] = sim.nodes_of("gpu1")
        kept = [t for t in node["spec"]["taints"] if t["key"] != taint["key"]]
        assert (len(kept), len(node["spec"]["taints"])) == (1, 2)
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        merge = "application/merge-patch+json"
        await sim.request("PATCH", path, {"spec": {"taints": kept}}, content_type=merge)
        await ready(sim, "gpu1", within_seconds=1)
        await asyncio.sleep(600)
        assert sim.nodes_of("gpu1")[0]["spec"]["taints"] == [SKU_TAINT]

    simulate(story)


def test_a_taint_of_booting_is_waited_for():
    """A Ready Node that the cloud's node manager has not initialized is not usable, and the claim names the taint."""

    async def story(sim):
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        told = await says(sim, "gpu1", "Initialized", "Unknown", "KnownEphemeralTaintsExist")
        assert "node.cloudprovider.kubernetes.io/uninitialized" in told["message"]
        await ready(sim, "gpu1")
        claim = sim.claim("gpu1")
        assert claim["status"]["providerID"] == sim.nodes_of("gpu1")[0]["spec"]["providerID"]

    simulate(story, nodes=NodeSettings(initialize_seconds=(300.0, 300.0)))


def test_a_readiness_taint_is_waited_for():
    """A taint under readiness.k8s.io, whoever sets it, keeps the gate closed as long as it is there."""
    path = "/api/v1/nodes/aks-gpu1-47249735-vmss000000"
    merge = "application/merge-patch+json"

    async def story(sim):
        sim.nodes.plugin_delay_seconds = 300.0
        await sim.start_controller()
        await sim.apply(node_claim("gpu1", taints=[SKU_TAINT]))
        await node_is_ready(sim, "gpu1")
        taint = {"key": "readiness.k8s.io/network", "effect": "NoSchedule"}
        await sim.request("PATCH", path, {"spec": {"taints": [SKU_TAINT, taint]}}, content_type=merge)
        await says(sim, "gpu1", "Initialized", "Unknown", "KnownEphemeralTaintsExist", within_seconds=1)
        await asyncio.sleep(600)
        assert sim.condition("gpu1", "Ready") == "Unknown"
        await sim.request("PATCH", path, {"spec": {"taints": [SKU_TAINT]}}, content_type=merge)
        await ready(sim, "gpu1", within_seconds=1)

    simulate(story)


# Losing the Node, and getting it back


@pytest.mark.parametrize("state", [False, None])
def test_a_node_that_stops_being_usable_takes_readiness_back_in_one_write(state):
    """Initialized and Ready turn False in one write within 5 s, return in one, and nothing is written between (K13)."""

    async def story(sim):
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        [node] = sim.nodes_of("gpu1")
        await asyncio.sleep(600)
        seen, lost = versions(sim, "gpu1"), sim.now
        sim.nodes.set_ready(node["metadata"]["name"], state)
        await asyncio.sleep(300)
        [down] = seen
        assert down.at - lost <= 5
        assert word(down.obj, "Initialized") == ("False", "NodeNotReady")
        assert word(down.obj, "Ready") == ("False", "UnhealthyDependents")
        cause = "KubeletNotReady" if state is False else "NodeStatusUnknown"
        told = condition(down.obj, "Initialized")["message"]
        assert told.startswith(f"Node status is NotReady ({cause}) since 12:")
        back = sim.now
        sim.nodes.set_ready(node["metadata"]["name"], True)
        await asyncio.sleep(300)
        [_, up] = seen
        assert up.at - back <= 5
        assert [word(up.obj, kind)[0] for kind in ("Initialized", "Ready")] == ["True", "True"]

    simulate(story)


def test_a_slow_node_controller_causes_no_further_word():
    """A Node that is Ready again while its not-ready taints still stand says nothing new until they are gone (K13)."""

    async def story(sim):
        await sim.start_controller()
        await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        [node] = sim.nodes_of("gpu1")
        name = node["metadata"]["name"]
        seen = versions(sim, "gpu1")
        sim.nodes.set_ready(name, None)
        await asyncio.sleep(60)
        tainted = sim.store.get("nodes", name)["spec"]["taints"]
        sim.nodes.set_ready(name, True)
        sim.store.patch("nodes", name, {"spec": {"taints": tainted}})
        await asyncio.sleep(5)
        sim.nodes.set_ready(name, True)
        await asyncio.sleep(60)
        assert [word(one.obj, "Ready")[0] for one in seen] == ["False", "True"]

    simulate(story)


def test_a_stopped_cluster_loses_its_nodes_and_no_pool():
    """Nodes of a stopped cluster are let go, their pools kept; once it is started again, claims are Ready again."""

    async def story(sim):
        await sim.start_controller()
        claim = await sim.apply(node_claim("gpu1"))
        await ready(sim, "gpu1")
        pool = sim.cloud.pools["gpu1"]
        await asyncio.sleep(300)
        sim.cloud.stop_cluster()
        await says(sim, "gpu1", "Initialized", "False", "NodeLost", within_seconds=300)
        await sim.until(lambda: not sim.nodes_of("gpu1"), 60, "the Node is let go")
        await asyncio.sleep(1800)
        assert sim.condition("gpu1", "Ready") == "False"
        sim.cloud.start_cluster()
        await ready(sim, "gpu1", within_seconds=1200)
        assert sim.claim("gpu1")["metadata"]["uid"] == claim["metadata"]["uid"]
        assert sim.cloud.pools["gpu1"].incarnation == pool.incarnation
        assert (len(puts(sim, "gpu1")), arm_calls(sim, "gpu1").count("DELETE")) == (1, 0)
        [node] = sim.nodes_of("gpu1")
        assert sim.claim("gpu1")["status"]["nodeName"] == node["metadata"]["name"]
        await removed(sim, "gpu1")
        await sim.settled()

    simulate(story)
