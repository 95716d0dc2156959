"""What is protected on a machine after its replacement was decided: the machine stays, and its pods run on."""

from collections.abc import Callable

import pytest

from tests.world.claims import condition
from tests.world.demand import node_class, node_pool, pod
from tests.world.harness import Json, Sim, simulate

from .common import (
    CLAIMS,
    T4_64,
    TRUE,
    annotate_claim,
    annotated,
    drift,
    live,
    marks,
    passes,
    ready,
    replica,
    running,
    sizes,
    stated,
)

pytestmark = pytest.mark.matrix(quick=1)


def bind_job(sim: Sim, node: str) -> None:
    """kube-scheduler binds the pod of a Job to the Node."""
    job = sim.store.create("jobs.batch", {"metadata": {"name": "train"}}, "default")
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    body = pod("train", nodeName=node)
    sim.store.create("pods", {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}}, "default")


def annotate_node(sim: Sim, node: str) -> None:
    sim.store.patch("nodes", node, {"metadata": {"annotations": TRUE}})


def annotate_pod(sim: Sim, _: str) -> None:
    name = next(one["metadata"]["name"] for one in sim.store.list("pods") if one["metadata"]["name"] != "train")
    sim.store.patch("pods", name, {"metadata": {"annotations": TRUE}}, namespace="default")


def bought(claim: Json) -> bool:
    """A replacement was created."""
    return "gpu-provisioner.sh/replaces" in (claim["metadata"].get("annotations") or {})


def came_up(claim: Json) -> bool:
    """The replacement is Initialized: the old machine is deleted now."""
    return bought(claim) and condition(claim, "Initialized").get("status") == "True"


def add_machine(sim: Sim, node: str) -> None:
    """AKS begins to upgrade the agent pool, with a further machine that has a Node within seconds."""
    sim.cloud.add_machine(next(name for name in sim.cloud.pools if f"-{name}-" in node))


@pytest.mark.parametrize("when", [annotated, stated, bought, came_up])
@pytest.mark.parametrize("protect", [bind_job, annotate_node, annotate_claim, annotate_pod])
def test_a_machine_that_is_protected_stays(protect: Callable[[Sim, str], None], when: Callable[[Json], bool]) -> None:
    """The machine has four GPUs and one pod, and is being replaced because it has drifted."""
    stays(protect, when)


def test_a_machine_whose_agent_pool_has_another_one_stays() -> None:
    """Both would go, and the pods of the other one have no place."""
    stays(add_machine, bought)


def stays(protect: Callable[[Sim, str], None], when: Callable[[Json], bool]) -> None:
    """The machine that is being replaced is kept, and its replacement removed."""

    async def story(sim: Sim) -> None:
        await sim.apply(node_class())
        disruption = {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}
        await sim.apply(node_pool(requirements=sizes(T4_64), disruption=disruption))
        await sim.start_controller()
        replica(sim, "web")
        await sim.until(lambda: ready(sim) and running(sim) == 1, 1800.0, "the machine")
        node = sim.claim("gpu-1")["status"]["nodeName"]
        done = list[str]()

        def look(_: str, resource: str, obj: Json, __: Json | None) -> None:
            if resource == CLAIMS and not done and when(obj):
                done.append(obj["metadata"]["name"])
                protect(sim, node)

        sim.store.subscribe(look)
        drift(sim, "gpu-1")
        await sim.until(lambda: done, 1800.0, "the machine is protected")
        await passes(sim, 1200.0)
        assert live(sim) == ["gpu-1"], "the replacement is removed as empty"
        assert not marks(sim)
        assert all("deletionTimestamp" not in one["metadata"] for one in sim.store.list("pods"))

    simulate(story)
