"""The pods of a machine that is being removed: the next machine is created while they are drained, once."""

import pytest

from tests.world.demand import claims_of, node_class, node_pool, pod, pod_events, workload
from tests.world.harness import Json, Sim, simulated

CLAIMS = "nodeclaims.karpenter.sh"


class Created:
    """The NodeClaims that were ever created, in order."""

    def __init__(self, sim: Sim) -> None:
        self.names: list[str] = []
        sim.store.subscribe(self._changed)

    def _changed(self, event: str, resource: str, obj: Json, _: object) -> None:
        if resource == CLAIMS and event == "ADDED":
            self.names.append(obj["metadata"]["name"])


def running(sim: Sim) -> list[Json]:
    return [one for one in sim.store.list("pods") if one["status"]["phase"] == "Running"]


async def with_workload(sim: Sim, kind: str) -> Created:
    created = Created(sim)
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    workload(sim, kind, "trainer", terminationGracePeriodSeconds=30)
    await sim.until(lambda: running(sim), 1500.0, "the pod runs")
    return created


# A Node that is deleted by hand is looked at twice, 5 s apart, before its NodeClaim is deleted.
@pytest.mark.parametrize(("removed", "seconds"), [("NodeClaim", 1.5), ("Node", 7.0)])
@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_one_machine_replaces_another(kind: str, removed: str, seconds: float) -> None:
    """One NodeClaim is created before the next pod exists; that pod runs there, and no third NodeClaim is created."""

    @simulated()
    async def story(sim: Sim) -> None:
        created = await with_workload(sim, kind)
        (first,), (old,) = claims_of(sim), running(sim)
        if removed == "Node":
            await sim.delete_node(first["status"]["nodeName"])
        else:
            await sim.delete_claim(first["metadata"]["name"])
        began = sim.now
        await sim.until(lambda: len(created.names) == 2, 10.0, "the next NodeClaim")
        assert sim.now - began <= seconds

        def moved() -> bool:
            return any(one["metadata"]["uid"] != old["metadata"]["uid"] for one in running(sim))

        await sim.until(moved, 1500.0, "the next pod runs")
        end = sim.now + 120.0
        await sim.until(lambda: sim.now > end, 200.0, "some more passes")
        assert [claim["metadata"]["name"] for claim in claims_of(sim)] == created.names[1:]
        assert len(created.names) == 2

    story()


@simulated()
async def test_an_evicted_pod_that_fits_elsewhere_buys_nothing(sim: Sim) -> None:
    """Two NodeClaims, one is removed while the other one has no pod: nothing is created."""
    created = await with_workload(sim, "ReplicaSet")
    await sim.apply(pod("filler"))
    await sim.until(lambda: len(running(sim)) == 2, 1500.0, "both pods run")
    sim.store.delete("pods", "filler", "default")
    await sim.until(lambda: len(running(sim)) == 1, 60.0, "one pod is gone")
    (trainer,) = running(sim)
    (used,) = [one for one in claims_of(sim) if one["status"]["nodeName"] == trainer["spec"]["nodeName"]]
    await sim.delete_claim(used["metadata"]["name"])
    await sim.until(lambda: len(claims_of(sim)) == 1, 1500.0, "the machine is gone")
    assert len(created.names) == 2


@simulated()
async def test_a_pod_that_nobody_creates_again(sim: Sim) -> None:
    """A pod without a controller ends with its machine: no other machine is created for it."""
    created = Created(sim)
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    await sim.apply(pod("bare"))
    await sim.until(lambda: running(sim), 1500.0, "the pod runs")
    await sim.delete_claim(created.names[0])
    await sim.until(lambda: not claims_of(sim), 1500.0, "the machine is gone")
    assert len(created.names) == 1
    assert {reason for reason, _ in pod_events(sim, "bare")} == {"Nominated", "Evicted"}
