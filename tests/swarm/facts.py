"""How the world differs from what the program predicts: drawn, because the truth is unknown.

The simulator's tables (docs/references/nodes.md) have what has been observed of AKS; a run moves it. Each fact is left
out of most runs. What would make a pod impossible for ever is not drawn.

The parts of `Plan.facts`: `azure`, `nodes` and `node_class` (fields of AzureSettings, of NodeSettings and of the node
class), `zones` (False: the region has none), `absent` (sizes that the region lacks), `daemon_sets` (with requests,
and the second at which they are created), `admission` (what a webhook changes in the pods of tenants), and `dra` (a
DRA driver has the GPUs of NodePools, whose pods request an extended resource, or with `claims` have ResourceClaims,
with `alternatives` in an order; with `shared` there is a ResourceClaim that pods share), `nvsentinel` (it is
installed, and the controller answers its requests), `crds` (how many of another operator there are, and the size
of each in bytes), and `large` (workloads whose pods have a long variable: `size` times the character `of`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace as replaced
from random import Random
from typing import Any

from msgspec.structs import replace

from provisioner.simulator.azure import errors
from provisioner.simulator.azure.compute import catalogue
from provisioner.simulator.azure.faults import ALWAYS, Fault, capacity, quota_preflight
from provisioner.simulator.scheduling.requests import amounts
from tests import nvsentinel
from tests.world.azure_role import AZURE_ACTIONS, READER_ACTIONS
from tests.world.demand import GPU, node_class
from tests.world.harness import Json, Sim

from .cluster_objects import create_crds, create_daemon_set, create_volume
from .objects import GPUS_LABEL, SHARED_CLAIM
from .plan import Claim, NodePool, Plan, Workload

# The name of a ResourceClaimTemplate for one GPU.
GPUS = "gpus"
PREFERRED = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H200'"
SMALLEST = "Standard_NC4as_T4_v3"
# Of runs, those that have a fact of one kind.
CHANCE = 0.2
# A Node that takes no pod for longer counts as one that takes none (docs/adr/0063-purchase-brake.md).
AGENT_SECONDS = 60.0
# Regions with prices of all sizes, of some, and without any.
LOCATIONS = ("eastus", "francecentral", "austriaeast", "nowhere")
NETWORKS = (("azure", ""), ("kubenet", ""), ("none", ""))
LABELS = {
    "kubernetes.azure.com/kata-vm-isolation": "true",
    "kubernetes.azure.com/ebpf-dataplane": "cilium",
    "security.azure.com/patch-level": "7",
    "nvidia.com/gpu.present": "true",
    "karpenter.azure.com/zone": "westeurope-1",
    "beta.kubernetes.io/instance-type": "Standard_D2s_v5",
    "example.com/rack": "r1",
}
TAINTS = (
    "node.cilium.io/agent-not-ready=true:NoExecute",
    "node.cilium.io/agent-not-ready:NoSchedule",
    "ebs.csi.example.com/agent-not-ready:NoExecute",
    "nvidia.com/gpu-driver-upgrade:NoSchedule",
    "startup.example.com/scan:PreferNoSchedule",
)


def draw(rng: Random, node_pools: Sequence[NodePool], claims: Sequence[Claim]) -> dict[str, Any]:
    """Nothing in half of the runs. What users of this run need remains possible."""
    if rng.random() < 0.5:
        return {}
    parts: tuple[Callable[[Random], dict[str, Any]], ...] = (
        _network,
        _sizes_are_listed,
        _location,
        _shares,
        _labels,
        _taints,
        _class,
        lambda _: {"zones": False},
        lambda own: _absent(own, node_pools, claims),
        _daemon_sets,
        _admission,
        _dra,
        lambda _: {"nvsentinel": True},
    )
    found: dict[str, Any] = {}
    for part in parts:
        # Each has chance of its own: a new one does not change what the others draw.
        own = Random(rng.getrandbits(64))
        if own.random() < CHANCE:
            for name, value in part(own).items():
                found[name] = {**found.get(name, {}), **value} if isinstance(value, dict) else value
    return found


def _network(rng: Random) -> dict[str, Any]:
    plugin, mode = rng.choice(NETWORKS)
    return {"azure": {"network_plugin": plugin, "network_plugin_mode": mode}}


def _sizes_are_listed(_: Random) -> dict[str, Any]:
    """The controller may read the subscription's sizes and quota."""
    return {"azure": {"actions": sorted(AZURE_ACTIONS | READER_ACTIONS)}}


def _location(rng: Random) -> dict[str, Any]:
    """Where the list of prices has the region without a size, only the subscription's list tells that it is there."""
    location = rng.choice(LOCATIONS)
    return {"azure": {"location": location, **(_sizes_are_listed(rng)["azure"] if location != "nowhere" else {})}}


def _shares(rng: Random) -> dict[str, Any]:
    """Less memory than the 7.5 % that the program subtracts, too."""

    def one() -> dict[str, float]:
        least = {"cpu": 0.97, "memory": rng.choice((0.97, 0.88)), "ephemeral-storage": 0.97}
        return {name: round(rng.uniform(share, 1.01), 4) for name, share in least.items()}

    return {"nodes": {"allocatable_shares": {size: one() for size in ("", SMALLEST)[: rng.randint(1, 2)]}}}


def _labels(rng: Random) -> dict[str, Any]:
    return {"nodes": {"aks_labels": {key: LABELS[key] for key in rng.sample([*LABELS], rng.randint(1, 3))}}}


def _taints(rng: Random) -> dict[str, Any]:
    seconds = rng.choice(((1.0, 30.0), (30.0, AGENT_SECONDS)))
    return {"nodes": {"agent_taints": rng.sample(TAINTS, rng.randint(1, 2)), "agent_seconds": seconds}}


def _class(rng: Random) -> dict[str, Any]:
    spec = {"maxPods": rng.choice((30, 50, 250)), "osDiskSizeGB": rng.choice((128, 200, 1024))}
    return {"node_class": dict(rng.sample([*spec.items()], rng.randint(1, 2)))}


def _absent(rng: Random, node_pools: Sequence[NodePool], claims: Sequence[Claim]) -> dict[str, Any]:
    """A size that each NodePool with it can replace by another, and no claim has."""
    needed = {one.sizes[0] for one in node_pools if len(one.sizes) == 1} | {one.size for one in claims}
    found = sorted({size for one in node_pools for size in one.sizes} - needed)
    return {"absent": [rng.choice(found)]} if found else {}


def _daemon_sets(rng: Random) -> dict[str, Any]:
    def one(number: int) -> dict[str, Any]:
        requests = {"cpu": f"{rng.choice((10, 75, 300))}m", "memory": f"{rng.choice((20, 150, 900))}Mi"}
        return {"name": f"agent{number}", "at": rng.choice((0.0, 600.0, 2400.0)), "requests": requests}

    return {"daemon_sets": [one(number) for number in range(rng.randint(1, 4))]}


def _admission(rng: Random) -> dict[str, Any]:
    """`tight`: requests near what the smallest machine offers, for pods that a larger one may have too.

    The least OS disk is the same for all sizes: requests of it fit each.
    """
    tight = {
        "cpu": f"{rng.randint(3400, 3950)}m",
        "memory": f"{rng.randint(16_000, 24_000)}Mi",
        "ephemeral-storage": f"{rng.randint(60, 107)}Gi",
    }
    chosen = dict(rng.sample([*tight.items()], rng.randint(1, 3)))
    changes = {
        "requests": {"cpu": f"{rng.randint(1, 4) * 500}m", "memory": f"{rng.randint(1, 8)}Gi"},
        "tight": chosen,
        "toleration": {"key": "example.com/added", "operator": "Exists"},
        "labels": {"sidecar.example.com/injected": "true"},
    }
    return {"admission": dict(rng.sample([*changes.items()], rng.randint(1, 4)))}


def _dra(rng: Random) -> dict[str, Any]:
    """ResourceSlices come late and in parts; GPUs that fail are tainted as NVIDIA's driver does, or not at all."""
    return {
        "node_class": {"gpu": {"mode": "DRA"}},
        "nodes": {
            "dra_labels": GPUS_LABEL,
            "slice_seconds": rng.choice((0.0, 1.0, 20.0, 120.0)),
            "device_health": rng.choice(("off", "xid", "lost")),
        },
        "dra": {"claims": rng.random() < 0.5, "alternatives": rng.random() < 0.3},
    }


def claiming(plan: Plan, workload: Workload) -> Workload:
    """The workload, with a ResourceClaim or a long variable for each pod if the plan has it so."""
    if workload.name in plan.facts.get("large", {}):
        text = plan.facts["large"][workload.name]
        long = [{"name": "TEXT", "value": text["of"] * text["size"]}]
        return replace(workload, spec={**workload.spec, "containers": [{"name": "main", "image": "x", "env": long}]})
    if not plan.facts.get("dra", {}).get("claims"):
        return workload
    claims = [{"name": "gpu", "resourceClaimTemplateName": GPUS}]
    return replace(workload, gpus=0, spec={**workload.spec, "resourceClaims": claims})


async def begin(sim: Sim, plan: Plan) -> None:
    """Make them hold in this world, and create the node class; before the controller starts."""
    facts = plan.facts
    if facts.get("zones") is False:
        sim.cloud.compute.zones |= dict.fromkeys(catalogue(), ())
    sim.cloud.compute.absent |= set(facts.get("absent", ()))
    if "admission" in facts:
        sim.store.mutating_webhooks.append(_webhook(facts["admission"], plan.node_pools))
    for one in facts.get("daemon_sets", ()):
        asyncio.get_running_loop().call_later(one["at"], create_daemon_set, sim, one)
    for size, how in facts.get("refused", {}).items():
        sim.cloud.faults.append(_refusal(size, how))
    if "system_taint" in facts:
        for pool in sim.cloud.pools.values():
            pool.properties["nodeTaints"] = [f"{facts['system_taint']}=true:NoSchedule"]
    if "daemon_requests" in facts:
        sim.store.mutating_webhooks.append(_daemon_webhook(facts["daemon_requests"]))
    for name, one in facts.get("volumes", {}).items():
        create_volume(sim, name, **one)
    if "crds" in facts:
        create_crds(sim, **facts["crds"])
    if "dra" in facts:
        await _install_dra(sim, alternatives=facts["dra"].get("alternatives", False))
        if facts["dra"].get("shared"):
            await sim.apply(_shared_claim())
    if facts.get("nvsentinel"):
        for crd in nvsentinel.crds():
            await sim.apply(crd)
    for one in plan.node_pools:
        if one.node_class is not None:
            await sim.apply({**node_class(one.name), "spec": one.node_class})
    await sim.apply({**node_class(), "spec": facts.get("node_class", {})})


def _refusal(size: str, how: str) -> Fault:
    """How Azure refuses each creation of this size, until the end."""
    if how == "quota":
        return quota_preflight(size=size)
    if "capacity" in how:
        return capacity(size=size, after_seconds=300.0 if how == "slow-capacity" else 45.0)
    if how == "all-but-one":
        return replaced(capacity(size=size), skip=1)
    answers = {
        "policy": errors.gateway(403, "RequestDisallowedByPolicy", "Resource 'x' was disallowed by policy 'sizes'."),
        "invalid": errors.rp(400, "InvalidResourceReference", "the subnet does not exist"),
    }
    return Fault(verb="PUT", size=size, times=ALWAYS, answer=answers[how])


def _daemon_webhook(requests: dict[str, dict[str, str]]) -> Any:
    def change(resource: str, obj: Json) -> None:
        name = obj["metadata"].get("labels", {}).get("app", "")
        if resource == "pods" and obj["metadata"]["namespace"] == "kube-system" and name in requests:
            for container in obj["spec"]["containers"]:
                _raise(container, requests[name])

    return change


async def _install_dra(sim: Sim, *, alternatives: bool) -> None:
    """The class of NVIDIA's chart, which names the extended resource, and a template of tenants.

    With `alternatives`, pods prefer a GPU that no NodePool of a plan offers.
    """
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
    spec: Json = {"extendedResourceName": GPU, "selectors": [{"cel": {"expression": expression}}]}
    group = {"apiVersion": "resource.k8s.io/v1"}
    await sim.apply({**group, "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}, "spec": spec})
    request = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    preferred = {**request, "name": "first", "selectors": [{"cel": {"expression": PREFERRED}}]}
    listed = {"name": "gpu", "firstAvailable": [preferred, {**request, "name": "any"}]}
    claim = {"devices": {"requests": [listed if alternatives else {"name": "gpu", "exactly": request}]}}
    meta = {"name": GPUS, "namespace": "default"}
    await sim.apply({**group, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": {"spec": claim}})


def _shared_claim() -> Json:
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1},
    }
    meta = {"name": SHARED_CLAIM, "namespace": "default"}
    group = "resource.k8s.io/v1"
    return {
        "apiVersion": group,
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": [request]}},
    }


def _webhook(admission: dict[str, Any], node_pools: Sequence[NodePool]) -> Any:
    def change(resource: str, obj: Json) -> None:
        if resource == "pods" and obj["metadata"]["namespace"] == "default" and "nodeName" not in obj["spec"]:
            admit(obj, admission, node_pools)

    return change


def admit(pod: Json, admission: dict[str, Any], node_pools: Sequence[NodePool]) -> None:
    """Change a pod of a tenant as the webhook does."""
    larger = {one.name for one in node_pools if one.replicas is None and any(size != SMALLEST for size in one.sizes)}
    spec, meta = pod["spec"], pod["metadata"]
    wanted = dict(admission.get("requests", {}))
    if (spec.get("nodeSelector") or {}).get("karpenter.sh/nodepool") in larger:
        wanted |= admission.get("tight", {})
    for container in spec.get("containers") or ():
        _raise(container, wanted)
    if "toleration" in admission:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), admission["toleration"]]
    if "labels" in admission:
        meta["labels"] = {**(meta.get("labels") or {}), **admission["labels"]}


def _raise(container: Json, wanted: dict[str, str]) -> None:
    """To these requests, where they are more."""
    resources = container.get("resources") or {}
    for kind in ("requests", "limits"):
        before = resources.get(kind) or {}
        now, then = amounts(wanted), amounts(before)
        more = {name: value for name, value in wanted.items() if now[name] > then.get(name, 0)}
        if kind == "requests" or before:
            resources[kind] = {**before, **more}
    container["resources"] = resources
