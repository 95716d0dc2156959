"""The shipped examples, applied unchanged: the expected pool, Node and GPUs, and a complete removal.

`EXPECTED` has a row for each file; a file without one fails. The further purposes of examples (a second choice, a taint
that excludes pods, a Node that is kept) have tests below.
"""

import asyncio
import io
import json
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from provisioner.api import labels
from provisioner.api.time import rfc3339
from provisioner.cli.main import run_command
from provisioner.simulator.azure import faults
from provisioner.simulator.azure.settings import AzureSettings
from tests.world import predecessor as old
from tests.world.claims import EXAMPLES, example, message, node_is_ready, puts, ready, removed, wait_for_condition
from tests.world.harness import EPOCH, Sim, simulated
from tests.world.transcript import CLAIMS, run_pod

GPU_TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
SPOT_TAINT = {"key": labels.AKS_SPOT, "value": "spot", "effect": "NoSchedule"}
NVIDIA, AMD, SLICE = "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb"


class Expected(NamedTuple):
    """The expected request for the agent pool, and the GPUs of the Node; taints besides those of the boot."""

    size: str
    disk: int
    gpus: str = "1"
    resource: str = NVIDIA
    image: str = "Ubuntu"
    zones: list[str] | None = None
    terms: str = "on-demand"
    taints: tuple[dict[str, str], ...] = ()
    more: tuple[tuple[str, Any], ...] = ()


EXPECTED = {
    "a100-multi": Expected("Standard_NC96ads_A100_v4", 512, "4", taints=(GPU_TAINT,)),
    "amd": Expected("Standard_ND96isr_MI300X_v5", 1024, "8", AMD, more=(("gpuProfile", {"driver": "None"}),)),
    "azure-linux": Expected("Standard_NC24ads_A100_v4", 256, image="AzureLinux"),
    "cpu": Expected("Standard_D4s_v5", 64, ""),
    "first-gpu": Expected("Standard_NC4as_T4_v3", 128),
    "from-gpu-provisioner": Expected("Standard_NC24ads_A100_v4", 120, taints=(GPU_TAINT,)),
    "h100-multi": Expected("Standard_ND96isr_H100_v5", 2048, "8", taints=(GPU_TAINT,)),
    "kaito-ragengine": Expected("Standard_NV36ads_A10_v5", 200, taints=(GPU_TAINT,)),
    "kaito-workspace": Expected("Standard_NC24ads_A100_v4", 1024, taints=(GPU_TAINT,)),
    "keep-broken": Expected("Standard_ND96isr_H100_v5", 1024, "8"),
    "long-jobs": Expected("Standard_NC24ads_A100_v4", 512),
    "mig": Expected("Standard_NC24ads_A100_v4", 256, "7", SLICE),
    "several-sizes": Expected("Standard_NC24ads_A100_v4", 256, taints=(GPU_TAINT,)),
    "spot": Expected(
        "Standard_NC4as_T4_v3", 128, terms="spot", taints=(SPOT_TAINT,), more=(("scaleSetEvictionPolicy", "Delete"),)
    ),
    "startup-taint": Expected("Standard_NC4as_T4_v3", 128),
    "zones": Expected("Standard_NC24ads_A100_v4", 256, zones=["2"]),
}


def test_every_example_has_a_row() -> None:
    """The files and the table have the same names."""
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == sorted(EXPECTED)


# The examples for pods, and where `schedule` places each pod; tests/world/provisioning/test_article.py applies them.
PODS = {"intruder": "pending", "node-pool": "", "trainer": "Standard_NC4as_T4_v3"}


def test_schedule_places_the_pods_of_the_examples() -> None:
    """The folder is a valid input as it is; each file is in the table."""
    assert sorted(path.stem for path in (EXAMPLES / "pods").glob("*.yaml")) == sorted(PODS)
    out = io.StringIO()
    assert run_command(["schedule", "-f", str(EXAMPLES / "pods"), "-o", "json"], {}, out, io.StringIO()) == 1
    decided = json.loads(out.getvalue())
    placed = {name: claim["instanceTypes"][0] for claim in decided["newNodeClaims"] for name in claim["pods"]}
    pending = dict.fromkeys(decided["errors"], "pending")
    assert placed | pending == {f"default/{name}": place for name, place in PODS.items() if place}


def cut_in_slices(sim: Sim, name: str) -> None:
    """Act as the MIG manager on a Node with that label: seven slices are advertised instead of the whole GPU."""
    [node] = sim.nodes_of(name)
    sim.nodes.set_gpus(node["metadata"]["name"], 0)
    slices = {"capacity": {SLICE: "7"}, "allocatable": {SLICE: "7"}}
    sim.store.patch("nodes", node["metadata"]["name"], {"status": slices}, subresource="status")


def take_off(sim: Sim, name: str, key: str) -> None:
    """Remove the startup taint from the Node, as its owner does."""
    [node] = sim.nodes_of(name)
    kept = [taint for taint in node["spec"]["taints"] if taint["key"] != key]
    sim.store.patch("nodes", node["metadata"]["name"], {"spec": {"taints": kept}})


async def helped(sim: Sim, stem: str, name: str) -> None:
    """Do what others do before such a claim can become Ready, and check what the claim reports until then."""
    match stem:
        case "mig":
            await node_is_ready(sim, name)
            await wait_for_condition(sim, name, "Initialized", "Unknown", "ResourceNotRegistered")
            assert SLICE in message(sim, name, "Initialized")
            cut_in_slices(sim, name)
        case "startup-taint":
            await wait_for_condition(sim, name, "Initialized", "Unknown", "StartupTaintsExist")
            take_off(sim, name, "example.com/model-not-loaded")


@pytest.mark.matrix(quick=6)
@pytest.mark.parametrize("stem", EXPECTED)
@simulated()
async def test_each_example_becomes_ready_and_is_removed(sim: Sim, stem: str) -> None:
    """Every shipped example becomes Ready with one PUT of the expected pool, and nothing is left after its deletion."""
    expected = EXPECTED[stem]
    await sim.start_controller()
    claim = await sim.apply(example(stem))
    name = claim["metadata"]["name"]
    await helped(sim, stem, name)
    uid = await ready(sim, name)
    assert sim.store.list("kaitonodeclasses.kaito.sh") == []
    assert puts(sim, name) == [pytest.approx(0.4, abs=0.4)]
    requested = sim.cloud.pools[name].properties
    assert (requested["vmSize"], requested["osDiskSizeGB"], requested["osSKU"], requested["count"]) == (
        expected.size,
        expected.disk,
        expected.image,
        1,
    )
    assert requested.get("availabilityZones") == expected.zones
    assert requested.get("scaleSetPriority", "Regular") == ("Spot" if expected.terms == "spot" else "Regular")
    assert {key: requested.get(key) for key, _ in expected.more} == dict(expected.more)
    [node] = sim.nodes_of(name)
    assert [*node["spec"].get("taints", ())] == list(expected.taints)
    assert node["status"]["allocatable"].get(expected.resource, "") == expected.gpus
    own = {k: v for k, v in claim["metadata"].get("labels", {}).items() if k != labels.CAPACITY_TYPE}
    assert own.items() <= node["metadata"]["labels"].items()
    columns = (sim.claim(name) or {})["metadata"]["labels"]
    assert (columns[labels.INSTANCE_TYPE], columns[labels.CAPACITY_TYPE]) == (expected.size, expected.terms)
    await removed(sim, name)
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    await sim.settled()
    assert sorted(sim.cloud.pools) == ["system", "theirs"]


@simulated()
async def test_the_next_size_of_the_example_is_used_without_capacity_for_the_first(sim: Sim) -> None:
    """Without an A100 the claim gets the H100, the next size in the file."""
    sim.cloud.faults.append(faults.capacity(size="Standard_NC24ads_A100_v4"))
    await sim.start_controller()
    await sim.apply(example("several-sizes"))
    await ready(sim, "fallback", within_seconds=1800)
    assert sim.cloud.pools["fallback"].properties["vmSize"] == "Standard_NC40ads_H100_v5"


@simulated(azure=AzureSettings(low_priority_cores=0))
async def test_the_example_that_prefers_spot_gets_on_demand_without_spot_quota(sim: Sim) -> None:
    """The second capacity type of the file is requested."""
    await sim.start_controller()
    await sim.apply(example("spot"))
    await ready(sim, "cheapest", within_seconds=1800)
    assert "scaleSetPriority" not in sim.cloud.pools["cheapest"].properties
    assert (sim.claim("cheapest") or {})["metadata"]["labels"][labels.CAPACITY_TYPE] == "on-demand"


@simulated()
async def test_the_example_without_repair_keeps_its_node(sim: Sim) -> None:
    """After an hour without a Ready Node the machine is kept, and the claim states the cause."""
    await sim.start_controller()
    await sim.apply(example("keep-broken"))
    uid = await ready(sim, "keepbroken")
    [node] = sim.nodes_of("keepbroken")
    sim.nodes.set_ready(node["metadata"]["name"], False, "KubeletNotReady")
    await wait_for_condition(sim, "keepbroken", "Initialized", "False", "NodeNotReady")
    await asyncio.sleep(3600)
    assert (sim.claim("keepbroken") or {})["metadata"]["uid"] == uid
    assert "keepbroken" in sim.cloud.pools


@simulated()
async def test_the_example_for_long_jobs_keeps_a_protected_pod_until_its_deadline(sim: Sim) -> None:
    """A do-not-disrupt pod blocks the removal for six hours, or for the time in its annotation."""

    def in_seconds(sim: Sim, seconds: float) -> str:
        return rfc3339(EPOCH + timedelta(seconds=sim.now + seconds))

    await sim.start_controller()
    await sim.apply(example("long-jobs"))
    await ready(sim, "longjobs")
    [node] = sim.nodes_of("longjobs")
    run_pod(sim, "training", node["metadata"]["name"], annotations={labels.DO_NOT_DISRUPT: "true"})
    requested = in_seconds(sim, 6 * 3600)
    await sim.delete_claim("longjobs")
    await asyncio.sleep(600)
    assert (sim.claim("longjobs") or {})["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP] == requested
    assert sim.store.get("pods", "training", "default") is not None
    assert "longjobs" in sim.cloud.pools
    sooner = {labels.TERMINATION_TIMESTAMP: in_seconds(sim, 120)}
    sim.store.patch(CLAIMS, "longjobs", {"metadata": {"annotations": sooner}})
    await sim.until(lambda: sim.claim("longjobs") is None, 1200, "the claim is gone")
    assert sim.store.get("pods", "training", "default") is None
    assert "longjobs" not in sim.cloud.pools


@simulated()
async def test_the_example_for_the_predecessor_keeps_its_machine(sim: Sim) -> None:
    """Claim, pool and Node as Azure/gpu-provisioner left them stay Ready, and no pool is created."""
    made = sim.store.create(CLAIMS, {**example("from-gpu-provisioner")})
    old.pool(sim, made)
    old.launched(sim, made, node=await old.register(sim, made))
    await sim.start_controller()
    await asyncio.sleep(900)
    assert (sim.claim("fromgp") or {})["metadata"]["uid"] == made["metadata"]["uid"]
    assert sim.condition("fromgp", "Ready") == "True"
    assert puts(sim, "fromgp") == []
    await removed(sim, "fromgp")
    assert "fromgp" not in sim.cloud.pools
