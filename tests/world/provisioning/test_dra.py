"""Pods that claim GPUs get machines whose DRA driver publishes them: one, of the cheapest NodePool that has them."""

import asyncio
from typing import Any

import pytest
import yaml

from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import EXAMPLES, condition
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, pod_events, watches_pods, workload
from tests.world.disruption.common import sizes
from tests.world.harness import Json, Sim, simulated
from tests.world.nodeclaim.common import published

pytestmark = pytest.mark.matrix(quick=0)

OF_DRA = {"gpu": "dra"}
NODES = NodeSettings(dra_labels=OF_DRA)
CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
A100 = "Standard_NC24ads_A100_v4"
REFUSED_SECONDS = 30.0
PRODUCT = 'device.attributes["gpu.nvidia.com"].productName'


def device_class(name: str = "gpu.nvidia.com", *more: str) -> Json:
    """The class that NVIDIA's chart creates."""
    expressions = (f"device.driver == '{name}'", "device.attributes['gpu.nvidia.com'].type == 'gpu'", *more)
    selectors = [{"cel": {"expression": one}} for one in (" && ".join(expressions),)]
    api_version = "resource.k8s.io/v1"
    return {
        "apiVersion": api_version,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors},
    }


def claim_spec(*selectors: str, count: int = 1, **exactly: Any) -> Json:
    """One request of a class's devices."""
    request = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count, **exactly}
    if selectors:
        request["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    return {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}


def template(name: str = "gpus", *selectors: str, **options: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": claim_spec(*selectors, **options)},
    }


def claiming(name: str, of: str = "gpus", *, shared: bool = False, **spec: Any) -> Json:
    """A pod with a claim of its own, or with a shared one."""
    key = "resourceClaimName" if shared else "resourceClaimTemplateName"
    return pod(name, gpus=0, resourceClaims=[{"name": "gpu", key: of}], **spec)


def dra_pool(name: str = "dra", **spec: Any) -> Json:
    made = node_pool(name, **spec)
    made["spec"]["template"]["metadata"]["labels"] = OF_DRA
    made["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "dra"
    return made


async def begun(sim: Sim, *pools: Json) -> None:
    """A class whose machines have a DRA driver, its NodePools, a device class, and a controller."""
    await sim.apply(node_class())
    await sim.apply({**node_class("dra"), "spec": {"gpu": {"mode": "DRA"}}})
    for one in pools or (dra_pool(),):
        await sim.apply(one)
    await sim.apply(device_class())
    await sim.start_controller()
    await sim.until(lambda: watches_pods(sim), 60.0, "pods are watched")


def node_of(sim: Sim, name: str) -> str:
    found = sim.store.get("pods", name, "default")
    return (found or {}).get("spec", {}).get("nodeName", "")


async def bound(sim: Sim, *names: str, within_seconds: float = 900.0) -> None:
    await sim.until(lambda: all(node_of(sim, name) for name in names), within_seconds, f"{names} are bound")


@simulated(nodes=NODES)
async def test_a_claim_buys_one_machine_of_the_cheapest_dra_pool(sim: Sim) -> None:
    """The NodePool of the device plugin costs the same and has more weight; it cannot serve the claim."""
    await begun(sim, dra_pool(), node_pool("plugin", weight=10))
    await sim.apply(template())
    await pending(sim, claiming("train"))
    await bound(sim, "train")
    assert [
        one["metadata"]["labels"]["karpenter.sh/nodepool"] for one in sim.store.list("nodeclaims.karpenter.sh")
    ] == ["dra"]
    assert sizes_of(sim, "dra") == [T4]
    (made,) = claims_of(sim, "dra")
    requests = made["spec"]["resources"]["requests"]
    assert not [name for name in requests if "nvidia" in name]
    await asyncio.sleep(300.0)
    assert len(sim.store.list("nodeclaims.karpenter.sh")) == 1


def sizes_of(sim: Sim, pool: str) -> list[str]:
    found = []
    for one in claims_of(sim, pool):
        required = {entry["key"]: entry for entry in one["spec"]["requirements"]}
        found.append(required["node.kubernetes.io/instance-type"]["values"][0])
    return found


@simulated(nodes=NODES)
async def test_the_second_alternative_has_another_number_of_gpus(sim: Sim) -> None:
    """One H100, else four T4: the NodePool has T4 only. No second machine is bought when H100 can be had."""
    await begun(sim, dra_pool(requirements=sizes("Standard_NC64as_T4_v3")))
    either = template()
    options = [
        {
            "name": name,
            "deviceClassName": "gpu.nvidia.com",
            "count": count,
            "selectors": [{"cel": {"expression": f"{PRODUCT}.contains('{name.upper()}')"}}],
        }
        for name, count in (("h100", 1), ("t4", 4))
    ]
    either["spec"]["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": options}]
    await sim.apply(either)
    await pending(sim, claiming("train"))
    await sim.until(lambda: len(claims_of(sim, "dra")) == 1, 60.0, "a NodeClaim")
    await sim.apply(dra_pool("other", requirements=sizes("Standard_NC40ads_H100_v5"), weight=10))
    await bound(sim, "train")
    await asyncio.sleep(300.0)
    assert (sizes_of(sim, "dra"), sizes_of(sim, "other")) == (["Standard_NC64as_T4_v3"], [])


@simulated(nodes=NODES)
async def test_a_plain_request_does_not_land_on_a_dra_machine(sim: Sim) -> None:
    """It stays pending without another NodePool, and gets a machine of one whose GPUs a device plugin serves."""
    await begun(sim)
    await pending(sim, pod("plain"))
    await asyncio.sleep(60.0)
    assert not claims_of(sim, "dra")
    ((reason, message),) = pod_events(sim, "plain")
    assert reason == "FailedScheduling"
    assert "nvidia.com/gpu 1 requested, at most 0 on one machine" in message
    await sim.apply(node_pool("plugin"))
    await bound(sim, "plain")
    assert not claims_of(sim, "dra")
    assert len(claims_of(sim, "plugin")) == 1


@simulated(nodes=NODES)
async def test_a_plain_request_gets_devices_of_a_class_with_that_name(sim: Sim) -> None:
    """NVIDIA's chart names nvidia.com/gpu: plain pods and pods with claims share the machines of a DRA-only cluster."""
    await begun(sim, dra_pool(requirements=sizes("Standard_NC96ads_A100_v4")))
    named = device_class()
    named["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    await sim.apply(named)
    await sim.apply(template())
    await pending(sim, pod("plain", gpus=2))
    await bound(sim, "plain")
    (made,) = claims_of(sim, "dra")
    assert not [name for name in made["spec"]["resources"]["requests"] if "nvidia" in name]
    await pending(sim, claiming("one"), pod("another", gpus=1))
    await bound(sim, "one", "another", within_seconds=60.0)
    await asyncio.sleep(120.0)
    assert len(claims_of(sim, "dra")) == 1
    await pending(sim, pod("more", gpus=1))
    await bound(sim, "more")
    assert len(claims_of(sim, "dra")) == 2


@simulated(nodes=NODES)
async def test_a_plain_request_prefers_a_device_plugin(sim: Sim) -> None:
    """Where both can serve it, and machines of either one are used before another is bought."""
    await begun(sim, dra_pool(weight=10), node_pool("plugin"))
    named = device_class()
    named["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    await sim.apply(named)
    await pending(sim, pod("plain"))
    await bound(sim, "plain")
    assert (len(claims_of(sim, "dra")), len(claims_of(sim, "plugin"))) == (0, 1)


@simulated(nodes=NODES)
async def test_pods_share_the_devices_of_one_machine(sim: Sim) -> None:
    """Eight pods of one GPU each on one machine of eight; the ninth, when all are allocated, buys another."""
    await begun(sim, dra_pool(requirements=sizes("Standard_ND96asr_v4")))
    await sim.apply(template())
    await pending(sim, *(claiming(f"p{number}") for number in range(8)))
    await bound(sim, *(f"p{number}" for number in range(8)))
    assert len(claims_of(sim, "dra")) == 1
    await pending(sim, claiming("p8"))
    await bound(sim, "p8")
    assert len(claims_of(sim, "dra")) == 2
    sim.store.delete("pods", "p0", "default")
    await asyncio.sleep(10.0)
    await pending(sim, claiming("p9"))
    await bound(sim, "p9", within_seconds=60.0)
    assert len(claims_of(sim, "dra")) == 2


@simulated(nodes=NODES)
async def test_a_claim_for_all_devices_has_a_machine_of_its_own(sim: Sim) -> None:
    await begun(sim, dra_pool(requirements=sizes("Standard_NC96ads_A100_v4")))
    await sim.apply(template())
    await sim.apply(template("whole", allocationMode="All"))
    await pending(sim, claiming("one"))
    await bound(sim, "one")
    await pending(sim, claiming("all", "whole"))
    await bound(sim, "all")
    assert len(claims_of(sim, "dra")) == 2
    allocated = [one for one in sim.store.list(CLAIMS) if one["metadata"]["name"].startswith("all")]
    assert len(allocated[0]["status"]["allocation"]["devices"]["results"]) == 4


async def seven_of_eight(sim: Sim) -> tuple[str, str]:
    """A machine of eight GPUs, seven of which pods have; the name of its Node and of the device that is left."""
    await begun(sim, dra_pool(requirements=sizes("Standard_ND96asr_v4")))
    await sim.apply(template())
    names = [f"p{number}" for number in range(7)]
    await pending(sim, *(claiming(name) for name in names))
    await bound(sim, *names)
    await asyncio.sleep(60.0)
    results = [one["status"]["allocation"]["devices"]["results"] for one in sim.store.list(CLAIMS)]
    (left,) = {f"gpu-{number}" for number in range(8)} - {one["device"] for (one,) in results}
    return node_of(sim, "p0"), left


def republish(sim: Sim, left: str, changes: Json, *more: Json) -> None:
    """The driver changes this device, and publishes others beside it."""
    for one in sim.store.list(SLICES):
        found = one["spec"]["devices"]
        if not any(device["name"] == left for device in found):
            continue
        devices = [{**device, **(changes if device["name"] == left else {})} for device in found]
        counters = [{"name": "of-gpu", "counters": {"memory": {"value": "40Gi"}}}]
        spec = {**one["spec"], "devices": [*devices, *more], "sharedCounters": counters}
        sim.store.patch(SLICES, one["metadata"]["name"], {"spec": spec})


@simulated(nodes=NODES)
async def test_a_device_with_a_taint_is_not_free(sim: Sim) -> None:
    """A taint that only informs does not matter; with NoSchedule the next pod gets another machine."""
    node, left = await seven_of_eight(sim)
    republish(sim, left, {"taints": [{"key": "gpu.nvidia.com/xid", "value": "43", "effect": "None"}]})
    await pending(sim, claiming("eighth"))
    await bound(sim, "eighth", within_seconds=60.0)
    assert node_of(sim, "eighth") == node
    sim.store.delete("pods", "eighth", "default")
    republish(sim, left, {"taints": [{"key": "example.com/reserved", "effect": "NoSchedule"}]})
    await asyncio.sleep(30.0)
    await pending(sim, claiming("ninth"))
    await bound(sim, "ninth")
    assert node_of(sim, "ninth") != node


@simulated(nodes=NODES)
async def test_a_gpu_of_which_a_partition_is_allocated_is_not_free(sim: Sim) -> None:
    """The partition consumes counters of its GPU: the next pod for a whole GPU gets another machine."""
    node, left = await seven_of_eight(sim)
    whole, part = ([{"counterSet": "of-gpu", "counters": {"memory": {"value": size}}}] for size in ("40Gi", "5Gi"))
    partition = {"name": "slice", "attributes": {"type": {"string": "mig"}}, "consumesCounters": part}
    republish(sim, left, {"consumesCounters": whole}, partition)
    of_slices = "device.attributes['gpu.nvidia.com'].type == 'mig'"
    await sim.apply({**device_class("mig.nvidia.com"), "spec": {"selectors": [{"cel": {"expression": of_slices}}]}})
    await sim.apply(template("slices", deviceClassName="mig.nvidia.com"))
    await pending(sim, claiming("small", "slices"))
    await bound(sim, "small", within_seconds=60.0)
    await pending(sim, claiming("large"))
    await bound(sim, "large")
    assert (node_of(sim, "small"), len(claims_of(sim, "dra"))) == (node, 2)
    assert node_of(sim, "large") != node


SELECTED = [
    ([f'{PRODUCT}.lowerAscii().matches("^.*a100.*$")'], A100),
    ([f"{PRODUCT} == 'NVIDIA A100-SXM4-40GB'"], "Standard_ND96asr_v4"),
    (["device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"], A100),
    (["device.capacity['gpu.nvidia.com'].memory.isLessThan(quantity('20Gi'))"], T4),
]


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize(("selectors", "size"), SELECTED)
@simulated(nodes=NODES)
async def test_selectors_choose_the_size(sim: Sim, selectors: list[str], size: str) -> None:
    """Those on product and memory; the driver then publishes what the table of sizes has promised."""
    await begun(sim)
    await sim.apply(template("gpus", *selectors))
    await pending(sim, claiming("train"))
    await bound(sim, "train")
    assert sizes_of(sim, "dra") == [size]


REFUSED = [
    (template("gpus", "device.attributes['gpu.nvidia.com'].cudaComputeCapability.major > 8"), "is not supported"),
    (template("gpus", f"{PRODUCT} == 'Voodoo2'"), "no VM size has GPUs"),
    (template("gpus", deviceClassName="tpu.example.com"), 'DeviceClass "tpu.example.com" does not exist'),
    (template("other"), "ResourceClaimTemplate default/gpus does not exist"),
    (template("gpus", count=9), "9 requested, at most 8 on one machine"),
    (template("gpus", adminAccess=True), "adminAccess is not supported"),
]


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize(("made", "words"), REFUSED)
@simulated(nodes=NODES)
async def test_a_claim_that_no_size_serves_is_refused(sim: Sim, made: Json, words: str) -> None:
    """The Event of the Pod names the field, its value and a remedy; nothing is bought."""
    await begun(sim)
    await sim.apply(made)
    await pending(sim, claiming("train"))
    await sim.until(lambda: pod_events(sim, "train"), REFUSED_SECONDS, "an Event")
    ((reason, message),) = pod_events(sim, "train")
    assert reason == "FailedScheduling"
    assert words in message
    assert not claims_of(sim, "dra")


@simulated(nodes=NODES)
async def test_devices_of_another_driver_do_not_matter(sim: Sim) -> None:
    """The GPUs of the pod buy one machine; the Event names the other request, whose driver publishes its devices."""
    await begun(sim)
    network = [{"cel": {"expression": "device.driver == 'dra.net'"}}]
    await sim.apply({**device_class("dra.net"), "spec": {"selectors": network}})
    await sim.apply(template())
    nic = template("nic", deviceClassName="dra.net")
    nic["spec"]["spec"]["devices"]["requests"][0]["name"] = "nic"
    await sim.apply(nic)
    made = claiming("train")
    made["spec"]["resourceClaims"].append({"name": "nic", "resourceClaimTemplateName": "nic"})
    only = claiming("only", "nic")
    await pending(sim, made, only)
    await sim.until(lambda: published(sim), 900, "the Node with its GPUs")
    named = 'request "nic" of ResourceClaimTemplate default/nic for devices of dra.net'
    assert any(reason == "Nominated" and named in words for reason, words in pod_events(sim, "train"))
    ((reason, words),) = pod_events(sim, "only")
    assert (reason, named in words) == ("FailedScheduling", True)
    node = sim.store.list(SLICES)[0]["spec"]["nodeName"]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "dra.net", "nodeName": node, "pool": pool, "devices": [{"name": "eth1"}, {"name": "eth2"}]}
    sim.store.create(SLICES, {"metadata": {"name": "network"}, "spec": spec})
    await bound(sim, "train", "only")
    assert len(claims_of(sim, "dra")) == 1


@simulated(nodes=NODES)
async def test_pods_that_share_a_claim_get_one_machine(sim: Sim) -> None:
    """One allocation serves both; the second pod follows the first one to its Node."""
    await begun(sim)
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": claim_spec()}
    await sim.apply({**claim, "metadata": {"name": "both", "namespace": "default"}})
    await pending(sim, claiming("a", "both", shared=True), claiming("b", "both", shared=True))
    await bound(sim, "a", "b")
    assert node_of(sim, "a") == node_of(sim, "b")
    assert len(claims_of(sim, "dra")) == 1


@simulated(nodes=NODES)
async def test_a_claim_that_is_created_after_its_pod(sim: Sim) -> None:
    """Nothing is bought for the pod without it, and a machine soon after."""
    await begun(sim)
    await pending(sim, claiming("p", "late", shared=True))
    await asyncio.sleep(120.0)
    assert not claims_of(sim, "dra")
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": claim_spec()}
    await sim.apply({**claim, "metadata": {"name": "late", "namespace": "default"}})
    await bound(sim, "p")
    assert len(claims_of(sim, "dra")) == 1


@simulated(nodes=NODES)
async def test_a_restart_of_the_driver_buys_no_second_machine(sim: Sim) -> None:
    """A pod that appears while the pool is incomplete waits for the machine that has room."""
    await begun(sim, dra_pool(requirements=sizes("Standard_ND96asr_v4")))
    await sim.apply(template())
    await pending(sim, claiming("first"))
    await bound(sim, "first")
    node = node_of(sim, "first")
    claim = claims_of(sim, "dra")[0]["metadata"]["name"]
    await sim.until(lambda: condition(sim.claim(claim), "Ready").get("status") == "True", 60.0, "the claim is Ready")
    sim.nodes.stop_plugin(node)
    await asyncio.sleep(40.0)
    assert not sim.store.list(SLICES)
    await pending(sim, claiming("second"))
    await asyncio.sleep(60.0)
    sim.nodes.start_plugin(node)
    await bound(sim, "second", within_seconds=60.0)
    assert len(claims_of(sim, "dra")) == 1


@simulated(nodes=NODES)
async def test_an_empty_dra_machine_is_removed(sim: Sim) -> None:
    await begun(
        sim, dra_pool(disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"})
    )
    await sim.apply(template())
    await pending(sim, claiming("train"))
    await bound(sim, "train")
    sim.store.delete("pods", "train", "default")
    await sim.until(lambda: not claims_of(sim, "dra"), 900.0, "the machine is removed")
    assert not sim.store.list(CLAIMS)


@simulated(nodes=NodeSettings(dra_labels={"example.com/gpu": "dra"}))
async def test_the_examples(sim: Sim) -> None:
    """Applied unchanged, with the DeviceClass of the driver: the pod runs on the cheapest size with 16 GB."""
    await sim.apply(device_class())
    await sim.start_controller()
    for path in sorted((EXAMPLES / "dra").glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            await sim.apply(manifest)
    await sim.until(
        lambda: sim.store.get("pods", "dra-trainer", "default")["status"]["phase"] == "Running", 1200, "it runs"
    )
    assert sizes_of(sim, "dra") == [A100]


@pytest.mark.parametrize("replicas", [None, 1], ids=["dynamic", "static"])
@simulated(nodes=NODES)
async def test_a_drifted_machine_whose_pod_claims_gpus_is_replaced(sim: Sim, replicas: int | None) -> None:
    """By one other machine, on which the pod gets a GPU again."""
    spec: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    await begun(sim, dra_pool(requirements=sizes(T4), disruption={"consolidateAfter": "Never"}, **spec))
    await sim.apply(template())
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    workload(sim, "ReplicaSet", "serving", gpus=0, resourceClaims=claims)
    await bound(sim, "serving-0")
    (old,) = await sim.until(lambda: claims_of(sim, "dra"), 60.0, "its machine")
    name = old["metadata"]["name"]
    await sim.until(lambda: sim.condition(name, "Ready") == "True", 900.0, "it is Ready")
    hashed = {"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "of another one"}}}
    sim.store.patch("nodeclaims.karpenter.sh", name, hashed)
    await bound(sim, "serving-1", within_seconds=3600.0)
    await sim.until(lambda: sim.claim(name) is None, 900.0, "the old machine is gone")
    assert len(sim.cloud.request_log.puts) == 2


@simulated(nodes=NODES)
async def test_machines_whose_pods_claim_gpus_become_one(sim: Sim) -> None:
    """Once a size with all of their devices may be bought; until then no other machine has devices for a pod."""
    small, large = "Standard_NC16as_T4_v3", "Standard_NC64as_T4_v3"
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"}
    spec: dict[str, Any] = {"disruption": {**disruption, "budgets": [{"nodes": "100%"}]}}
    await begun(sim, dra_pool(requirements=sizes(small), **spec))
    await sim.apply(template())
    for name in "abcd":
        workload(sim, "ReplicaSet", name, gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])
    await bound(sim, *(f"{name}-0" for name in "abcd"), within_seconds=1800.0)
    await asyncio.sleep(900.0)
    assert sizes_of(sim, "dra") == [small] * 4
    changed = dra_pool(requirements=sizes(small, large))["spec"]["template"]
    sim.store.patch("nodepools.karpenter.sh", "dra", {"spec": {"template": changed}})
    await sim.until(lambda: sizes_of(sim, "dra") == [large], 3600.0, "one machine")
    await bound(sim, *(f"{name}-1" for name in "abcd"))
