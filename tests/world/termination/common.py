"""What the tests of termination share: machines with pods, and what is observed of their removal."""

from typing import Any

from provisioner.runtime.metrics import Metrics
from provisioner.simulator.audit_log import Call
from provisioner.simulator.azure import errors, faults
from provisioner.simulator.azure.settings import AzureSettings
from tests.world.harness import Sim, node_claim
from tests.world.main_job import NAME, gone, ready
from tests.world.transcript import BUDGETS, claim_condition, events, run_pod

WHOLE = ["pool", "node", "claim"]
NO_NODE = ["pool", "claim"]
ELSEWHERE = [
    ("cluster", errors.cluster_not_found("rg", "aks")),
    ("cluster, on a read of a pool", errors.parent_not_found("read", AzureSettings().cluster_id)),
    ("group", errors.group_not_found("rg")),
    ("subscription", errors.subscription_not_found("s")),
]


async def up_with(sim: Sim, period: str, **options: Any) -> str:
    """Start a controller and wait until a claim with that terminationGracePeriod is Ready; its UID."""
    await sim.start_controller(**options)
    uid = (await sim.apply(node_claim(NAME, terminationGracePeriod=period)))["metadata"]["uid"]
    await sim.until(lambda: sim.condition(NAME, "Ready") == "True", 400, "the claim is Ready")
    return uid


def slow(sim: Sim, name: str, node: str, seconds: int, **meta: Any) -> None:
    """Create a pod that takes its whole grace period to terminate."""
    run_pod(sim, name, node, **meta)
    pod = sim.store.get("pods", name, "default")
    assert pod is not None
    sim.store.delete("pods", name, "default", grace=0)
    spec = {**pod["spec"], "terminationGracePeriodSeconds": seconds}
    kept = {"name": name, "labels": {"app": name}, "annotations": pod["metadata"].get("annotations") or {}}
    sim.store.create("pods", {"metadata": kept, "spec": spec}, "default")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    sim.store.patch("pods", name, {"status": status}, "default", subresource="status")


def budget(sim: Sim, name: str, app: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    sim.store.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, "default")


def evictions(sim: Sim, name: str | None = None) -> list[Call]:
    """The eviction requests of the controller for that pod."""
    return sim.audit_log.calls(who="ctl0", verb="POST", kind="pods", name=name)


def events_on(sim: Sim, reason: str) -> list[tuple[str, str]]:
    """The kind and name of the objects of the Events with that reason."""
    about = (event["involvedObject"] for event in events(sim, reason))
    return [(subject["kind"], subject["name"]) for subject in about]


def counted(metrics: Metrics, deadline: str) -> float | None:
    """How often that deadline has passed, from the metrics."""
    return metrics.registry.get_sample_value("gpu_provisioner_deadlines_exceeded_total", {"deadline": deadline})


async def applied(sim: Sim) -> str:
    """Start a controller and apply a claim; its UID."""
    await sim.start_controller()
    return (await sim.apply(node_claim(NAME)))["metadata"]["uid"]


async def up(sim: Sim) -> str:
    """Start a controller and wait until a claim is Ready; its UID."""
    await sim.start_controller()
    return await ready(sim)


async def went(sim: Sim, uid: str, order: list[str], within_seconds: float = 900.0) -> None:
    """Wait until the claim is deleted in this order; nothing is left and no further write is sent."""
    await gone(sim, within_seconds=within_seconds)
    assert sim.audit_log.deletion_order(uid) == order, sim.describe()
    assert not sim.nodes_of(NAME)
    assert sorted(sim.cloud.pools) == ["system", "theirs"]
    await sim.settled(quiet_seconds=70.0)


async def being_created(sim: Sim) -> None:
    await sim.until(lambda: claim_condition(sim, "Launched")[1] == "Creating", 30, "the pool is being created")


async def failed(sim: Sim) -> None:
    sim.cloud.faults.append(faults.capacity(times=1))
    await sim.until(lambda: NAME in sim.cloud.pools and sim.cloud.pools[NAME].state == "Failed", 60, "it failed")


def guard(sim: Sim, app: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    sim.store.create(BUDGETS, {"metadata": {"name": "guard"}, "spec": spec}, "default")
