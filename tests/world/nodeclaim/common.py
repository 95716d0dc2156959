"""What the tests of NodeClaims share: classes of Nodes, rules of readiness, and what is launched."""

from itertools import pairwise
from typing import Any

from provisioner.api import labels
from provisioner.simulator.azure.settings import AzureSettings
from provisioner.simulator.nodes.machine import NodeSettings
from tests import gkm
from tests.world.azure_role import AZURE_ACTIONS, QUOTA_ACTIONS
from tests.world.claims import node_of, puts, ready
from tests.world.demand import node_class
from tests.world.harness import Sim, node_claim

Json = dict[str, Any]
EIGHT = "Standard_ND96isr_H100_v5"
OF_DRA = {"gpu": "dra"}
NODES = NodeSettings(dra_labels=OF_DRA)
SLICES = "resourceslices.resource.k8s.io"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
# What a claim's attempts are apart, for offerings that are short (docs/references/rules.md#unavailable-offerings).
STEPS = [30.0, 60.0, 120.0, 240.0, *[300.0] * 10]
HOUR_SECONDS = 3600.0
OTHER, THIRD = "Standard_NC48ads_A100_v4", "Standard_NC40ads_H100_v5"
EXHAUSTED = "all requested instance types were unavailable during launch"
FAMILY = "standardNCADSA100v4Family"
NO_QUOTA = AzureSettings(family_cores={FAMILY: 0}, actions=AZURE_ACTIONS | QUOTA_ACTIONS)
REFERENCE = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "rules"}
TAINT = {"key": "example.com/wait", "effect": "NoSchedule"}
HEALTHY = {"condition": {"type": "GPUHealthy"}}


def spot_claim(name: str) -> Json:
    made = node_claim(name)
    made["spec"]["requirements"].append({"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]})
    return made


async def spot_fleet(sim: Sim) -> list[str]:
    """A controller, eight Ready claims of spot machines, whose names it returns, and `steady` on demand."""
    spots = [f"spot{n}" for n in range(8)]
    await sim.start_controller(elect=False)
    for name in spots:
        await sim.apply(spot_claim(name))
    await sim.apply(node_claim("steady"))
    for name in (*spots, "steady"):
        await ready(sim, name)
    return spots


def dra_class() -> Json:
    return {**node_class("dra"), "spec": {"gpu": {"mode": "DRA"}}}


def dra_claim(name: str = "one", **options: Any) -> Json:
    reference = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "dra"}
    return node_claim(name, size=EIGHT, labels=OF_DRA, nodeClassRef=reference, **options)


async def begun(sim: Sim) -> None:
    """A controller, a class whose machines have a DRA driver, and a claim of it."""
    await sim.start_controller()
    await sim.apply(dra_class())
    await sim.apply(dra_claim())


async def usable(sim: Sim) -> str:
    """A Ready claim; the name of its Node."""
    await begun(sim)
    await ready(sim, "one")
    return str(sim.claim("one")["status"]["nodeName"])


def published(sim: Sim, **spec: Any) -> int:
    """The number of published devices."""
    return sum(len(one["spec"]["devices"]) for one in sim.store.list(SLICES))


async def label(sim: Sim, node: str, **labels: str | None) -> None:
    """Set labels of a Node, as GPU feature discovery and the MIG manager do; `__` stands for the domain's slash."""
    found = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    await sim.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": found}}, content_type=MERGE)


async def offer(sim: Sim, node: str, amounts: dict[str, str]) -> None:
    """Set amounts of extended resources in the status of a Node."""
    body = {"status": {"capacity": amounts, "allocatable": amounts}}
    await sim.request("PATCH", f"/api/v1/nodes/{node}/status", body, content_type=STRATEGIC)


def gpu_class(**gpu: Any) -> Json:
    return {**node_class(), "spec": {"gpu": gpu}}


def gaps(times):
    return [later - sooner for sooner, later in pairwise(times)]


def choosing(name: str, *sizes: str, **more: list[str]) -> dict[str, Any]:
    """A claim with these sizes in order of preference, and these values for other requirements."""
    keys = {"zones": labels.ZONE, "terms": labels.CAPACITY_TYPE}
    made = node_claim(name, size=sizes[0])
    made["spec"]["requirements"] = [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": list(sizes)},
        *({"key": keys[key], "operator": "In", "values": values} for key, values in more.items()),
    ]
    return made


def pool_size(sim: Sim, name: str) -> str:
    return sim.cloud.pools[name].properties["vmSize"]


def all_puts(sim: Sim, names: list[str]) -> list[float]:
    return sorted(at for name in names for at in puts(sim, name))


def rule(until: Json, taint: Json = TAINT, **more: Any) -> Json:
    return {"taint": taint, "until": until, **more}


async def start(sim: Sim, *rules: Json, crds: bool = False, **spec: Any) -> str:
    """A controller, a node class with these rules and a claim of it; returns the name of its Node."""
    await sim.start_controller()
    for crd in gkm.crds() if crds else ():
        await sim.apply(crd)
    await sim.apply(
        {
            "apiVersion": "gpu-provisioner.sh/v1alpha1",
            "kind": "AgentPoolNodeClass",
            "metadata": {"name": "rules"},
            "spec": {"readiness": list(rules)},
        }
    )
    await sim.apply(node_claim("gpu1", nodeClassRef=REFERENCE, **spec))
    return await node_of(sim, "gpu1")
