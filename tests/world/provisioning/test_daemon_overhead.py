"""DaemonSet pods take a part of each new machine, which counts when its size is chosen."""

from typing import Any

import pytest

from tests.world.demand import T4, TOLERATION, claims_of, node_class, node_pool, pending, pod
from tests.world.harness import Json, Sim, simulated

SIZE = "node.kubernetes.io/instance-type"


def daemon_set(cpu: str, **spec: Any) -> Json:
    container = {"name": "agent", "image": "agent", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    return {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


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
