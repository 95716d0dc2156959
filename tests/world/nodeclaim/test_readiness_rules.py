"""Readiness rules: a new Node bears a startup taint until a condition, resource, pod or object says so."""

import asyncio

import pytest
import yaml

from controllers.model.policy import Policy
from provisioner.api.meta import Taint
from provisioner.api.readiness import SelectedReadinessRule, Until, UntilResource
from tests import gkm
from tests.world.claims import EXAMPLES, events, message, node_is_ready, node_of, ready, wait_for_condition, word
from tests.world.demand import pod
from tests.world.harness import Sim, node_claim, simulated
from tests.world.transcript import node_name, refuse

from .common import HEALTHY, REFERENCE, TAINT, Json, rule, start

pytestmark = pytest.mark.matrix(quick=0)

MERGE = "application/merge-patch+json"
SKU_TAINT = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
CACHE = {"group": gkm.GROUP, "version": gkm.VERSION, "resource": "gkmcachenodes", "namespace": "default"}


def taints(sim: Sim) -> list[str]:
    (node,) = sim.nodes_of("gpu1")
    return [taint["key"] for taint in node["spec"].get("taints") or ()]


async def held(sim: Sim, what: str, *, within_seconds: float = 600.0) -> None:
    """Wait until the condition says that a taint exists, and what is missing."""
    await sim.until(
        lambda: (
            word(sim.claim("gpu1"), "Initialized") == ("Unknown", "StartupTaintsExist")
            and what in message(sim, "gpu1", "Initialized")
        ),
        within_seconds,
        f"Initialized names {what!r}: {message(sim, 'gpu1', 'Initialized')}",
    )


def set_condition(sim: Sim, node: str, kind: str, status: str) -> None:
    condition = {"type": kind, "status": status, "reason": "Checked", "lastTransitionTime": "2026-03-01T12:00:00Z"}
    sim.store.patch("nodes", node, {"status": {"conditions": [condition]}}, how="strategic", subresource="status")


@simulated()
async def test_a_taint_is_born_with_the_node_and_removed_by_a_condition(sim: Sim) -> None:
    """The taint is on the Node before it is Ready, never in the pool, and goes when the condition is True."""
    node = await start(sim, rule(HEALTHY), taints=[SKU_TAINT])
    await sim.until(lambda: "example.com/wait" in taints(sim), 60, "the taint is on the Node")
    assert word(sim.nodes_of("gpu1")[0], "Ready")[0] == "False"
    await node_is_ready(sim, "gpu1")
    assert "example.com/wait" in taints(sim)
    assert sim.cloud.pools["gpu1"].taints == ("sku=gpu:NoSchedule",)
    await held(sim, "readiness[0]: the Node has no condition GPUHealthy")
    set_condition(sim, node, "GPUHealthy", "False")
    await held(sim, "condition GPUHealthy of the Node is False (Checked), not True", within_seconds=5)
    set_condition(sim, node, "GPUHealthy", "True")
    await ready(sim, "gpu1", within_seconds=2)
    assert taints(sim) == ["sku"]


@simulated()
async def test_a_rule_has_no_effect_once_the_node_is_initialized(sim: Sim) -> None:
    """Neither a condition that is lost nor a taint of that key that somebody adds later concerns the rule."""
    node = await start(sim, rule(HEALTHY))
    await node_is_ready(sim, "gpu1")
    set_condition(sim, node, "GPUHealthy", "True")
    await ready(sim, "gpu1")
    set_condition(sim, node, "GPUHealthy", "False")
    await sim.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [TAINT]}}, content_type=MERGE)
    set_condition(sim, node, "GPUHealthy", "True")
    await asyncio.sleep(600)
    assert taints(sim) == ["example.com/wait"]
    assert sim.condition("gpu1", "Ready") == "True"


@simulated()
async def test_rules_are_satisfied_in_their_order(sim: Sim) -> None:
    """The second taint stays while the first rule is not satisfied, although its own condition is."""
    first, second = {"key": "example.com/first", "effect": "NoSchedule"}, TAINT
    node = await start(sim, rule({"condition": {"type": "First"}}, first), rule(HEALTHY, second))
    await node_is_ready(sim, "gpu1")
    set_condition(sim, node, "GPUHealthy", "True")
    await held(sim, "readiness[0]")
    await asyncio.sleep(600)
    assert sorted(taints(sim)) == ["example.com/first", "example.com/wait"]
    set_condition(sim, node, "First", "True")
    await ready(sim, "gpu1", within_seconds=2)
    assert taints(sim) == []


@simulated()
async def test_a_rule_waits_for_a_ready_pod_on_the_node(sim: Sim) -> None:
    """A pod that matches on another Node does not count; the one on this Node does once it is Ready."""
    node = await start(sim, rule({"pod": {"namespace": "kube-system", "labelSelector": "app=agent"}}))
    agent: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent", "namespace": "kube-system", "labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "agent", "image": "agent"}], "tolerations": [{"operator": "Exists"}]},
    }
    await sim.apply(
        agent | {"metadata": {**agent["metadata"], "name": "far"}, "spec": {**agent["spec"], "nodeName": "x"}}
    )
    await node_is_ready(sim, "gpu1")
    await held(sim, "no pod app=agent of namespace kube-system is on the Node")
    await sim.apply({**agent, "spec": {**agent["spec"], "nodeName": node}})
    await ready(sim, "gpu1", within_seconds=30)


@simulated()
async def test_a_rule_whose_crd_is_missing_holds_and_says_so(sim: Sim) -> None:
    """The message names the resource; when the CRD, the object and the value come, the taint goes by itself."""
    path = {"object": {**CACHE, "jsonPath": "{.status.caches.vllm.*.compatibleGPUs[*]}"}}
    node = await start(sim, rule(path))
    await node_is_ready(sim, "gpu1")
    await held(sim, "the API server does not serve gkmcachenodes.gkm.io v1alpha1; is its CRD installed?")
    for crd in gkm.crds():
        await sim.apply(crd)
    await held(sim, f"gkmcachenodes.gkm.io default/{node} does not exist", within_seconds=60)
    await sim.apply(gkm.cache_node(node, "default", "vllm"))
    await held(sim, "matches nothing in", within_seconds=5)
    status = gkm.cache_status(node, "default", "vllm", "Extracted")
    sim.store.patch(gkm.CACHE_NODES, node, {"status": status}, "default", subresource="status")
    await ready(sim, "gpu1", within_seconds=2)


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ({}, "matches nothing"),
        (gkm.cache_status("n", "default", "vllm", "Pending"), "shows Pending, not Extracted or Running or Outdated"),
        (gkm.cache_status("n", "default", "vllm", "Error"), "shows Error, not Extracted"),
        (gkm.cache_status("n", "default", "vllm", "Extracted", gpus=()), "compatibleGPUs[*]} matches nothing"),
        (gkm.cache_status("n", "default", "another", "Extracted"), "matches nothing"),
    ],
)
def test_S3_2_a_cache_that_is_not_ready_keeps_the_taint(status: Json, says: str) -> None:  # noqa: N802
    """No status, a state that is not usable, no GPU that fits, and another cache: the taint stays, with the cause."""

    @simulated()
    async def story(sim: Sim) -> None:
        node = await start(sim, *gkm.rules("vllm", "default"), crds=True)
        await sim.apply(gkm.cache_node(node, "default", "vllm"))
        if status:
            sim.store.patch(gkm.CACHE_NODES, node, {"status": status}, "default", subresource="status")
        await held(sim, says)
        await asyncio.sleep(600)
        assert taints(sim) == ["gkm.io/cache-not-ready"]

    story()


@pytest.mark.parametrize("state", gkm.STATES)
def test_S3_2_a_usable_cache_removes_the_taint(state: str) -> None:  # noqa: N802
    """Extracted, Running and Outdated are usable."""

    @simulated()
    async def story(sim: Sim) -> None:
        node = await start(sim, *gkm.rules("vllm", "default"), crds=True)
        await sim.apply(gkm.cache_node(node, "default", "vllm"))
        status = gkm.cache_status(node, "default", "vllm", state)
        sim.store.patch(gkm.CACHE_NODES, node, {"status": status}, "default", subresource="status")
        await ready(sim, "gpu1")
        assert taints(sim) == []

    story()


@simulated()
async def test_S3_3_the_gpu_comes_before_the_cache(sim: Sim) -> None:  # noqa: N802
    """Of two taints, that of the GPU goes first, so that the agent's one scan sees a live driver."""
    sim.nodes.plugin_delay_seconds = 300.0
    node = await start(sim, *gkm.rules("vllm", "default"), crds=True)
    await sim.apply(gkm.cache_node(node, "default", "vllm"))
    status = gkm.cache_status(node, "default", "vllm", "Extracted")
    sim.store.patch(gkm.CACHE_NODES, node, {"status": status}, "default", subresource="status")
    await held(sim, "nvidia.com/gpu: 0 of 1 allocatable")
    assert taints(sim) == ["example.com/gpu-not-ready", "gkm.io/cache-not-ready"]
    await ready(sim, "gpu1")


@simulated()
async def test_an_object_of_a_former_machine_does_not_count(sim: Sim) -> None:
    """AKS reuses the names of Nodes: an object that is older than its Node is of a machine that is gone."""
    await start(sim, crds=True)
    await ready(sim, "gpu1")
    name = sim.nodes_of("gpu1")[0]["metadata"]["name"]
    await sim.apply(gkm.cache_node(name, "default", "vllm"))
    status = gkm.cache_status(name, "default", "vllm", "Extracted")
    sim.store.patch(gkm.CACHE_NODES, name, {"status": status}, "default", subresource="status")
    await sim.delete_claim("gpu1")
    await sim.until(lambda: sim.claim("gpu1") is None, 1200, "the claim is gone")
    classes = "/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses/rules"
    await sim.request("PATCH", classes, {"spec": {"readiness": gkm.rules("vllm", "default")}}, content_type=MERGE)
    await asyncio.sleep(1)
    await sim.apply(node_claim("gpu1", nodeClassRef=REFERENCE))
    await held(sim, "is older than the Node")
    assert (await node_of(sim, "gpu1")) == name


TIMEOUT: Json = {"timeoutSeconds": 600}


@simulated()
async def test_a_rule_with_keep_stays_overdue(sim: Sim) -> None:
    """At the timeout the message says so; the taint stays until the condition holds, however late."""
    node = await start(sim, rule(HEALTHY, onTimeout="Keep", **TIMEOUT))
    await node_is_ready(sim, "gpu1")
    await held(sim, "overdue: over 10 min (onTimeout Keep)", within_seconds=900)
    await asyncio.sleep(7200)
    assert taints(sim) == ["example.com/wait"]
    set_condition(sim, node, "GPUHealthy", "True")
    await ready(sim, "gpu1", within_seconds=2)


@simulated()
async def test_a_rule_with_release_gives_up(sim: Sim) -> None:
    """At the timeout the taint is removed, with a warning that says what is missing."""
    await start(sim, rule(HEALTHY, onTimeout="Release", **TIMEOUT))
    await ready(sim, "gpu1", within_seconds=900)
    assert taints(sim) == []
    await sim.until(lambda: events(sim, "gpu1", "ReadinessTimeout"), 5.0, "the Event is written")
    (event,) = events(sim, "gpu1", "ReadinessTimeout")
    assert event["type"] == "Warning"
    assert "readiness[0]: the Node has no condition GPUHealthy" in event["message"]


@simulated()
async def test_a_rule_with_replace_deletes_the_claim_once(sim: Sim) -> None:
    """At the timeout, repair deletes the claim, with an Event about what is missing."""
    await start(sim, rule(HEALTHY, onTimeout="Replace", **TIMEOUT))
    await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "ReadinessTimeout", within_seconds=1200)
    assert "onTimeout Replace" in message(sim, "gpu1", "Initialized")
    await sim.until(lambda: sim.claim("gpu1") is None, 1200, "the claim is replaced")
    (event,) = events(sim, "gpu1", "NodeRepair")
    assert "readiness[0]: the Node has no condition GPUHealthy" in event["message"]


@simulated()
async def test_a_rule_that_cannot_be_read_replaces_nothing(sim: Sim) -> None:
    """A CRD that nobody installed is no failure of the machine; once installed, the rule counts at once."""
    until = {"object": {**CACHE, "jsonPath": "{.status.caches.vllm.*.compatibleGPUs[*]}"}}
    await start(sim, rule(until, onTimeout="Replace", **TIMEOUT))
    await node_is_ready(sim, "gpu1")
    await asyncio.sleep(2 * 3600)
    assert "does not serve" in message(sim, "gpu1", "Initialized")
    assert sim.claim("gpu1") is not None
    for crd in gkm.crds():
        await sim.apply(crd)
    await sim.until(lambda: sim.claim("gpu1") is None, 1200, "the claim is replaced")


@simulated()
async def test_a_right_that_is_revoked_later_replaces_nothing(sim: Sim) -> None:
    """The objects are unknown then, not absent: the message says so, and the taint goes once the right is back."""
    until = {"object": {**CACHE, "jsonPath": "{.status.caches.vllm.*.compatibleGPUs[*]}"}}
    await start(sim, rule(until, onTimeout="Replace", timeoutSeconds=1800), crds=True)
    await node_is_ready(sim, "gpu1")
    await extracted(sim, "gpu1")
    await ready(sim, "gpu1")
    grant = refuse(
        sim, lambda call: call.target.kind == "gkmcachenodes" and call.who.startswith("ctl"), 403, "Forbidden"
    )
    await asyncio.sleep(1800)
    await sim.apply(node_claim("gpu2", nodeClassRef=REFERENCE))
    await node_is_ready(sim, "gpu2")
    await extracted(sim, "gpu2")
    await asyncio.sleep(2 * 3600)
    shown = message(sim, "gpu2", "Initialized")
    assert "failed to list gkmcachenodes.gkm.io" in shown
    assert "does not exist" not in shown
    grant()
    await ready(sim, "gpu2", within_seconds=120)


async def extracted(sim: Sim, name: str) -> None:
    """The cache of the claim's Node is extracted."""
    node = node_name(sim, name)
    await sim.apply(gkm.cache_node(node, "default", "vllm"))
    status = gkm.cache_status(node, "default", "vllm", "Extracted")
    sim.store.patch(gkm.CACHE_NODES, node, {"status": status}, "default", subresource="status")


@simulated()
async def test_replace_respects_the_pause_of_repair(sim: Sim) -> None:
    """With repair disabled on the claim, the taint stays and the condition is overdue."""
    await start(sim, rule(HEALTHY, onTimeout="Replace", **TIMEOUT))
    body = {"metadata": {"annotations": {"gpu-provisioner.sh/repair": "disabled"}}}
    await sim.request("PATCH", "/apis/karpenter.sh/v1/nodeclaims/gpu1", body, content_type=MERGE)
    await wait_for_condition(sim, "gpu1", "Initialized", "Unknown", "ReadinessTimeout", within_seconds=1200)
    await asyncio.sleep(3600)
    assert sim.claim("gpu1") is not None
    assert taints(sim) == ["example.com/wait"]


@simulated()
async def test_a_rule_that_is_removed_frees_its_nodes(sim: Sim) -> None:
    """A user who removes a rule from the node class does not have to remove taints by hand."""
    await start(sim, rule(HEALTHY))
    await node_is_ready(sim, "gpu1")
    await held(sim, "GPUHealthy")
    path = "/apis/gpu-provisioner.sh/v1alpha1/agentpoolnodeclasses/rules"
    await sim.request("PATCH", path, {"spec": {"readiness": []}}, content_type=MERGE)
    await ready(sim, "gpu1", within_seconds=5)
    assert taints(sim) == []


@simulated()
async def test_a_permanent_taint_of_the_claim_is_never_removed(sim: Sim) -> None:
    """A rule with the key of a taint of the claim has no effect."""
    await start(sim, rule(HEALTHY, {**SKU_TAINT}), taints=[SKU_TAINT])
    await ready(sim, "gpu1")
    assert taints(sim) == ["sku"]


@simulated()
async def test_S3_1_a_startup_taint_of_the_claim_is_removed_by_the_rule(sim: Sim) -> None:  # noqa: N802
    """A startup taint that the claim lists itself belongs to the rule with its key."""
    node = await start(sim, rule(HEALTHY), startupTaints=[TAINT])
    await held(sim, "GPUHealthy")
    set_condition(sim, node, "GPUHealthy", "True")
    await ready(sim, "gpu1", within_seconds=5)
    assert taints(sim) == []


@simulated()
async def test_the_example_of_kernel_caches_works(sim: Sim) -> None:
    """A pod gets a machine of the example, and is not counted as pending while the rules hold the machine back."""
    await sim.start_controller()
    for crd in gkm.crds():
        await sim.apply(crd)
    for document in yaml.safe_load_all((EXAMPLES / "gkm" / "machines.yaml").read_text(encoding="utf-8")):
        await sim.apply(document)
    await sim.apply(
        yaml.safe_load((EXAMPLES.parent / "docs" / "how-to" / "gkm-cache.yaml").read_text(encoding="utf-8"))
    )
    await sim.apply(pod("trainer"))

    def nodes() -> list[str]:
        return [node["metadata"]["name"] for node in sim.store.list("nodes", labels="karpenter.sh/nodepool=gkm")]

    await sim.until(nodes, 600, "a machine registers")
    (node,) = nodes()
    await asyncio.sleep(600)
    assert len(sim.store.list("nodeclaims.karpenter.sh")) == 1
    await sim.apply(gkm.cache_node(node, "default", "vllm"))
    status = gkm.cache_status(node, "default", "vllm", "Extracted")
    sim.store.patch(gkm.CACHE_NODES, node, {"status": status}, "default", subresource="status")

    def phase() -> str:
        return str((sim.store.get("pods", "trainer", "default") or {}).get("status", {}).get("phase"))

    await sim.until(lambda: phase() == "Running", 60, "the pod runs")
    assert nodes() == [node]


RULES = (
    SelectedReadinessRule(
        taint=Taint(key="example.com/wait", effect="NoSchedule"),
        until=Until(resource=UntilResource(name="example.com/fast-net", count=2)),
        claim_selector={"kaito.sh/workspace": "w"},
    ),
    SelectedReadinessRule(
        taint=Taint(key="example.com/never", effect="NoSchedule"),
        until=Until(resource=UntilResource(name="example.com/nothing")),
        node_selector={"example.com/no": "label"},
    ),
)


@simulated()
async def test_rules_of_the_settings_are_for_claims_of_any_node_class(sim: Sim) -> None:
    """A claim of KAITO, which has no node class, waits for the rules that select it."""
    await sim.start_controller(policy=Policy(readiness_rules=RULES))
    await sim.apply(node_claim("gpu1"))
    await node_is_ready(sim, "gpu1")
    await held(sim, "readinessRules[0]: example.com/fast-net: 0 of 2 allocatable")
    node = await node_of(sim, "gpu1")
    sim.store.patch("nodes", node, {"status": {"allocatable": {"example.com/fast-net": "2"}}}, subresource="status")
    await ready(sim, "gpu1", within_seconds=5)
    assert taints(sim) == []


@simulated()
async def test_a_restarted_controller_holds_the_same_taints(sim: Sim) -> None:
    """What was put on is written on the claim: a successor removes exactly that."""
    node = await start(sim, rule(HEALTHY))
    await node_is_ready(sim, "gpu1")
    sim.replace_controller()
    await held(sim, "GPUHealthy")
    await asyncio.sleep(60)
    assert taints(sim) == ["example.com/wait"]
    set_condition(sim, node, "GPUHealthy", "True")
    await ready(sim, "gpu1", within_seconds=5)


@simulated()
async def test_readiness_is_lost_with_the_claim(sim: Sim) -> None:
    """A claim whose rule is never satisfied is removed like any other."""
    await start(sim, rule(HEALTHY))
    await wait_for_condition(sim, "gpu1", "Registered", "True", "Registered")
    await sim.delete_claim("gpu1")
    await sim.until(lambda: sim.claim("gpu1") is None, 1200, "the claim is gone")
