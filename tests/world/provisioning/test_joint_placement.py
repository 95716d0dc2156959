"""Pods that affinity by hostname binds to one machine run: kube-scheduler places all on the machine that is bought."""

from collections.abc import Callable

import pytest

from provisioner.api import labels
from tests.world.demand import pending, pod, pod_events, with_node_pool
from tests.world.harness import Json, Sim, simulated

RUNNING_SECONDS = 2400.0


def near(**selected: str) -> Json:
    term = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": selected}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def labelled(body: Json, cpu: str = "1", **own: str) -> Json:
    body["metadata"]["labels"] = own
    resources = body["spec"]["containers"][0]["resources"]
    resources["requests"]["cpu"] = resources["limits"]["cpu"] = cpu
    return body


def follower() -> list[Json]:
    return [labelled(pod("server"), app="server"), labelled(pod("worker", **near(app="server")), app="worker")]


def two_shapes() -> list[Json]:
    return [labelled(pod(name, **near(job="x")), cpu, job="x") for name, cpu in (("launcher", "1"), ("worker", "2"))]


def chain() -> list[Json]:
    needed = {"a": "b", "b": "c", "c": ""}
    return [labelled(pod(name, **(near(app=other) if other else {})), app=name) for name, other in needed.items()]


@pytest.mark.parametrize("pods", [follower, two_shapes, chain])
def test_pods_of_one_machine_run(pods: Callable[[], list[Json]]) -> None:
    """One machine is large enough for all of them."""

    @simulated()
    async def story(sim: Sim) -> None:
        await with_node_pool(sim)
        wanted = pods()
        await pending(sim, *wanted)
        names = [one["metadata"]["name"] for one in wanted]

        def phases() -> list[str]:
            found = (sim.store.get("pods", name, "default") or {} for name in names)
            return [(one.get("status") or {}).get("phase", "") for one in found]

        await sim.until(lambda: phases() == ["Running"] * len(names), RUNNING_SECONDS, f"{pod_events(sim, names[-1])}")

    story()
