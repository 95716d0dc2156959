"""Machines whose GPUs a DRA driver publishes: the gate, partial loss, and restarts of the driver."""

import asyncio

import pytest

from provisioner.simulator.nodes.machine import NodeSettings
from tests.world.claims import condition, message, ready, word
from tests.world.harness import Json, Sim, node_claim, simulated
from tests.world.metric_samples import Numbers
from tests.world.transcript import refuse

from .common import EIGHT, NODES, OF_DRA, SLICES, begun, dra_claim, dra_class, published, usable

pytestmark = pytest.mark.matrix(quick=0)

NOT_PUBLISHED = "DRADriverPoolsNotPublished"


@simulated(nodes=NODES)
async def test_a_claim_is_ready_once_its_driver_has_published_all_gpus(sim: Sim) -> None:
    """No nvidia.com/gpu is on the Node, and no request for ResourceSlices is sent before a class needs them."""
    node = await usable(sim)
    status = sim.store.get("nodes", node)["status"]
    assert "nvidia.com/gpu" not in status["allocatable"]
    assert published(sim) == 8
    first = next(call for call in sim.audit_log.calls() if call.target.kind == "resourceslices" and call.who == "ctl0")
    assert first.verb == "LIST"
    assert sim.condition("one", "Initialized") == "True"


@simulated(nodes=NODES)
async def test_published_gpus_count_as_offered(sim: Sim) -> None:
    """In the metric that alerts compare with the GPUs that are billed; a lost one does not."""
    numbers = Numbers()
    await sim.start_controller(metrics=numbers.metrics)
    await sim.apply(dra_class())
    await sim.apply(dra_claim())
    await ready(sim, "one")
    for state in ("expected", "allocatable"):
        assert numbers.one("gpu_provisioner_gpus", state=state).value == 8
    sim.nodes.set_unhealthy_gpus(sim.claim("one")["status"]["nodeName"], 1)
    await asyncio.sleep(30.0)
    assert numbers.one("gpu_provisioner_gpus", state="allocatable").value == 7


@simulated()
async def test_without_such_a_class_no_slice_is_read(sim: Sim) -> None:
    await sim.start_controller()
    await sim.apply(node_claim("one"))
    await ready(sim, "one")
    assert not [call for call in sim.audit_log.calls() if call.target.kind == "resourceslices"]


@simulated(nodes=NODES)
async def test_the_gate_names_the_driver_and_what_it_has_seen(sim: Sim) -> None:
    """0 of 8: after the usual start the condition has Karpenter's reason."""
    sim.nodes.plugin_delay_seconds = 900.0
    await begun(sim)
    await sim.until(lambda: word(sim.claim("one"), "Initialized") == ("Unknown", NOT_PUBLISHED), 900, "it is said")
    assert '"gpu.nvidia.com" has published 0 of 8 GPUs' in message(sim, "one", "Initialized")
    await ready(sim, "one", within_seconds=1800)


@simulated(nodes=NodeSettings(dra_labels=OF_DRA, slice_seconds=400.0))
async def test_an_incomplete_pool_is_not_ready(sim: Sim) -> None:
    """One of two slices: four devices can be seen, and none counts."""
    await begun(sim)
    await sim.until(lambda: published(sim) == 4, 900, "the first slice")
    await sim.until(lambda: word(sim.claim("one"), "Initialized") == ("Unknown", NOT_PUBLISHED), 300, "it is said")
    assert "1 of 2 ResourceSlices" in message(sim, "one", "Initialized")
    assert sim.condition("one", "Ready") != "True"
    await ready(sim, "one", within_seconds=900)


@simulated(nodes=NODES)
async def test_a_lost_gpu_is_reported_after_six_minutes(sim: Sim) -> None:
    """A device with the taint that NVIDIA's driver gives it; when the driver restarts, it does so without taints."""
    node = await usable(sim)
    lost_at = sim.now
    sim.nodes.set_unhealthy_gpus(node, 1)
    await sim.until(lambda: word(sim.claim("one"), "Initialized") == ("False", "GPUUnavailable"), 600, "it is lost")
    assert 360 <= sim.now - lost_at <= 366
    assert "has published 7 of 8 GPUs" in message(sim, "one", "Initialized")
    assert sim.condition("one", "Ready") == "False"
    sim.nodes.start_plugin(node)
    await ready(sim, "one", within_seconds=60)


@simulated(nodes=NODES)
async def test_a_machine_whose_gpus_are_all_lost_is_not_ready(sim: Sim) -> None:
    """The driver taints all GPUs of the Node when one no longer answers, and evicts no pod."""
    node = await usable(sim)
    sim.nodes.set_unhealthy_gpus(node, 8)
    await sim.until(lambda: word(sim.claim("one"), "Initialized") == ("False", "GPUUnavailable"), 400, "they are lost")
    assert "0 of 8 GPUs" in message(sim, "one", "Initialized")
    assert sim.condition("one", "Ready") == "False"


@simulated(nodes=NODES)
async def test_a_device_that_is_gone_from_the_newest_generation_is_lost(sim: Sim) -> None:
    node = await usable(sim)
    sim.nodes.set_gpus(node, 7)
    await sim.until(lambda: word(sim.claim("one"), "Initialized") == ("False", "GPUUnavailable"), 400, "it is lost")


@simulated(nodes=NODES)
async def test_restarts_of_the_driver_are_no_loss(sim: Sim) -> None:
    """20 restarts in an hour; each deletes the slices or writes a new generation, and no status changes."""
    node = await usable(sim)
    writes = sim.writes
    for number in range(20):
        sim.nodes.stop_plugin(node)
        await asyncio.sleep(5.0 if number % 2 else 60.0)
        sim.nodes.start_plugin(node)
        await asyncio.sleep(120.0)
        assert sim.condition("one", "Ready") == "True"
    assert sim.writes == writes


@simulated(nodes=NODES)
async def test_a_restart_of_the_kubelet_is_no_loss(sim: Sim) -> None:
    """It deletes all slices of its Node, and the driver publishes them anew."""
    node = await usable(sim)
    writes = sim.writes
    for _ in range(5):
        sim.nodes.restart_kubelet(node)
        await asyncio.sleep(180.0)
    assert sim.writes == writes


@simulated(nodes=NODES)
async def test_a_driver_that_is_gone_for_good_is_a_loss(sim: Sim) -> None:
    node = await usable(sim)
    sim.nodes.stop_plugin(node)
    await sim.until(lambda: word(sim.claim("one"), "Initialized") == ("False", "GPUUnavailable"), 420, "it is lost")
    assert published(sim) == 0


@simulated(nodes=NODES)
async def test_a_restart_of_the_controller_is_no_loss(sim: Sim) -> None:
    """Until the ResourceSlices are listed, nothing is known and nothing is lost."""
    await usable(sim)
    writes = sim.writes
    sim.replace_controller()
    await asyncio.sleep(900)
    assert sim.writes == writes
    assert sim.condition("one", "Ready") == "True"


@simulated(nodes=NODES)
async def test_node_classes_that_cannot_be_listed_after_a_restart(sim: Sim) -> None:
    """The mode of the class is not known: no device plugin is missed, and the claim stays as it is."""
    await usable(sim)
    refuse(sim, lambda call: call.target.kind == "agentpoolnodeclasses" and call.who == "ctl1", 500, "InternalError")
    sim.crash()
    await sim.start_controller("ctl1")
    await asyncio.sleep(3600)
    assert word(sim.claim("one"), "Initialized") == ("True", "Initialized")
    assert sim.condition("one", "Ready") == "True"


@simulated(nodes=NODES)
async def test_drivers_that_a_claim_names_must_have_published(sim: Sim) -> None:
    """Karpenter's annotation; the class says nothing of DRA."""
    await sim.start_controller()
    claim = node_claim("one", size=EIGHT, labels={})
    claim["metadata"]["annotations"] = {"karpenter.sh/requested-dra-drivers": "compute-domain.nvidia.com"}
    await sim.apply(claim)
    await sim.until(lambda: word(sim.claim("one"), "Initialized") == ("Unknown", NOT_PUBLISHED), 900, "it waits")
    assert '"compute-domain.nvidia.com" has published no complete pool' in message(sim, "one", "Initialized")
    node = sim.claim("one")["status"]["nodeName"]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "channel-0"}]
    spec = {"driver": "compute-domain.nvidia.com", "nodeName": node, "pool": pool, "devices": devices}
    sim.store.create(SLICES, {"metadata": {"name": "domain"}, "spec": spec})
    await ready(sim, "one", within_seconds=60)


def waiting_for(until: Json) -> Json:
    """The class, whose Nodes bear a taint until GPUs are there, and then another one until the cache is."""
    made = dra_class()
    taints = [{"key": f"example.com/{name}-not-ready", "effect": "NoSchedule"} for name in ("gpu", "cache")]
    ready_cache = {"condition": {"type": "CacheReady"}}
    made["spec"]["readiness"] = [{"taint": taints[0], "until": until}, {"taint": taints[1], "until": ready_cache}]
    return made


@simulated(nodes=NODES)
async def test_gpus_first_and_then_the_cache(sim: Sim) -> None:
    """A rule for devices of the driver; the one for a device plugin is refused, because it would never be satisfied."""
    with pytest.raises(Exception, match=r"use until\.devices in readiness"):
        await sim.apply(waiting_for({"resource": {"name": "nvidia.com/gpu"}}))
    sim.nodes.plugin_delay_seconds = 600.0
    await sim.start_controller()
    await sim.apply(waiting_for({"devices": {"driver": "gpu.nvidia.com", "count": 8}}))
    await sim.apply(dra_claim())
    await sim.until(lambda: word(sim.claim("one"), "Initialized")[1] == "StartupTaintsExist", 900, "it waits")
    assert "DRA driver gpu.nvidia.com: 0 of 8 usable devices published" in message(sim, "one", "Initialized")
    node = sim.nodes_of("one")[0]["metadata"]["name"]
    cached = [{"type": "CacheReady", "status": "True"}]
    conditions = [*sim.store.get("nodes", node)["status"]["conditions"], *cached]
    sim.store.patch("nodes", node, {"status": {"conditions": conditions}}, subresource="status")
    await asyncio.sleep(60)
    assert "0 of 8 usable devices" in message(sim, "one", "Initialized")
    await ready(sim, "one", within_seconds=1200)


@simulated(nodes=NODES)
async def test_two_owners_of_one_gpu_are_reported(sim: Sim) -> None:
    """A device plugin that registers besides the driver: a warning, and nothing is removed."""
    node = await usable(sim)
    status = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}
    sim.store.patch("nodes", node, {"status": status}, subresource="status")

    def warned() -> list[Json]:
        return [one for one in sim.store.list("events") if one["reason"] == "TwoGPUOwners"]

    await sim.until(warned, 60, "a warning")
    assert "gpu.nvidia.com has published 8 devices" in warned()[0]["message"]
    assert condition(sim.claim("one"), "Ready")["status"] == "True"


@simulated(nodes=NODES)
async def test_a_permission_that_is_revoked_leaves_gpus_unknown(sim: Sim) -> None:
    """What was cached is of an earlier time: a Ready machine stays so, a new one waits, and neither is replaced."""
    await usable(sim)
    allow_again = refuse(sim, lambda call: call.target.kind == "resourceslices", 403, "Forbidden")
    await asyncio.sleep(600.0)
    await sim.apply(dra_claim("two"))
    await asyncio.sleep(2 * 3600.0)
    assert sim.condition("one", "Ready") == "True"
    assert not sim.audit_log.calls(verb="DELETE", kind="nodeclaims")
    assert "Forbidden" in message(sim, "two", "Initialized")
    allow_again()
    await ready(sim, "two", within_seconds=1800)
