"""DaemonSet pods take a part of each new machine, which counts when its size is chosen."""

from typing import Any

import pytest

from tests.world.demand import T4, TOLERATION, claims_of, node_class, node_pool, pending, pod, with_node_pool
from tests.world.harness import Json, Sim, simulated

SIZE = "node.kubernetes.io/instance-type"


def daemon_set(cpu: str, name: str = "agent", **spec: Any) -> Json:
    container = {"name": "agent", "image": "agent", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def running(sim: Sim) -> list[Json]:
    return [one for one in sim.store.list("pods") if one["status"]["phase"] == "Running"]


# A T4 machine has 4 vCPUs.
@pytest.mark.parametrize(
    ("cpu", "spec", "small"),
    [
        ("2500m", {"tolerations": [TOLERATION]}, False),
        ("100m", {"tolerations": [TOLERATION]}, True),
        ("2500m", {}, True),
        ("2500m", {"tolerations": [TOLERATION], "nodeSelector": {"disk": "fast"}}, True),
    ],
    ids=["large", "small", "does not tolerate the taint", "selects other Nodes"],
)
def test_requests_of_daemon_pods(cpu: str, spec: Json, small: bool) -> None:
    """Both run on the one machine that is bought: the daemon pod from the beginning, the pending pod beside it."""

    @simulated()
    async def story(sim: Sim) -> None:
        sim.store.create("daemonsets.apps", daemon_set(cpu, **spec), "kube-system")
        await sim.apply(node_class())
        await sim.apply(node_pool())
        await sim.start_controller()
        wanted = pod("trainer")
        wanted["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
        await pending(sim, wanted)
        (claim,) = await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
        bought = next(one["values"][0] for one in claim["spec"]["requirements"] if one["key"] == SIZE)
        assert (bought == T4) is small
        belongs = spec.get("tolerations") and "nodeSelector" not in spec

        def on_the_machine() -> set[str]:
            name = claims_of(sim)[0].get("status", {}).get("nodeName")
            return {
                one["metadata"]["name"].partition("-")[0] for one in running(sim) if one["spec"]["nodeName"] == name
            }

        expected = {"trainer", "agent"} if belongs else {"trainer"}
        await sim.until(lambda: on_the_machine() == expected, 1500.0, "the pods run")
        assert len(claims_of(sim)) == 1

    story()


def limit_range(sim: Sim, cpu: str) -> None:
    """A LimitRange gives containers without requests these."""
    create = sim.store.create

    def admitted(resource: str, body: Json, *place: Any, **options: Any) -> Json:
        if resource == "pods" and body["metadata"].get("ownerReferences"):
            containers = [{**one, "resources": {"requests": {"cpu": cpu}}} for one in body["spec"]["containers"]]
            body = {**body, "spec": {**body["spec"], "containers": containers}}
        return create(resource, body, *place, **options)

    sim.store.create = admitted  # type: ignore[assignment, method-assign]


@simulated()
async def test_daemon_pods_on_other_nodes_show_their_requests(sim: Sim) -> None:
    """The template states none: the machine is large enough for what a LimitRange gave the pods of other Nodes."""
    limit_range(sim, "2500m")
    sim.store.create("daemonsets.apps", daemon_set("0", tolerations=[{"operator": "Exists"}]), "kube-system")
    await sim.until(lambda: running(sim), 60.0, "a daemon pod runs on a Node of another pool")
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    wanted = pod("trainer")
    wanted["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    await pending(sim, wanted)
    (claim,) = await sim.until(lambda: claims_of(sim), 5.0, "a NodeClaim")
    assert next(one["values"][0] for one in claim["spec"]["requirements"] if one["key"] == SIZE) != T4
    await sim.until(lambda: "trainer" in {one["metadata"]["name"] for one in running(sim)}, 1500.0, "the pod runs")
    assert len(claims_of(sim)) == 1


@pytest.mark.parametrize(
    "cpus",
    [("1000",), ("95",), ("3500m", "3600m"), ("2", "2", "0.5")],
    ids=["any size", "T4", "together", "with a third"],
)
def test_daemon_pods_that_a_machine_cannot_take(cpus: tuple[str, ...]) -> None:
    """They stay pending on it, and a DaemonSet of any namespace keeps nobody's pods from their machine."""

    @simulated()
    async def story(sim: Sim) -> None:
        for number, cpu in enumerate(cpus):
            body = daemon_set(cpu, f"agent-{number}", tolerations=[TOLERATION])
            sim.store.create("daemonsets.apps", body, "default")
        await with_node_pool(sim, requirements=[{"key": SIZE, "operator": "In", "values": [T4]}])
        small = pod("trainer")
        small["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
        await pending(sim, small)
        await sim.until(lambda: "trainer" in {one["metadata"]["name"] for one in running(sim)}, 1500.0, "it runs")
        assert len(claims_of(sim)) == 1

    story()


@simulated()
async def test_daemon_pods_do_not_move(sim: Sim) -> None:
    """A machine on which only a DaemonSet pod runs is removed without another one."""
    selects = {"karpenter.sh/nodepool": "gpu"}
    sim.store.create(
        "daemonsets.apps", daemon_set("100m", tolerations=[TOLERATION], nodeSelector=selects), "kube-system"
    )
    await sim.apply(node_class())
    await sim.apply(node_pool())
    await sim.start_controller()
    await pending(sim, pod("trainer"))
    await sim.until(lambda: len(running(sim)) == 2, 1500.0, "both pods run")
    sim.store.delete("pods", "trainer", "default")
    await sim.until(lambda: len(running(sim)) == 1, 60.0, "the pod is gone")
    (claim,) = claims_of(sim)
    await sim.delete_claim(claim["metadata"]["name"])
    await sim.until(lambda: not claims_of(sim), 1500.0, "the machine is gone")
    await sim.until(lambda: not sim.store.list("pods"), 120.0, "its daemon pod is gone")
    await sim.settled()
    assert not claims_of(sim)
