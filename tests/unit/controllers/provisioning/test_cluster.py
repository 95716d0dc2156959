"""The snapshot from the caches: what counts as capacity, what counts towards limits, and what is left out."""

from typing import Any

import msgspec
import pytest

from controllers.model.storage import DeviceClaims, Storage
from controllers.provisioning.solver.model import Decision
from controllers.provisioning.solver.solver import solve
from provisioner.api.deviceclaim import DeviceClass, ResourceClaim
from provisioner.api.labels import CAPACITY_TYPE, ZONE
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import NodeStatus
from provisioner.api.nodeclaim import NodeClaimSpec
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool, NodePoolStatus
from provisioner.api.pod import Pod
from provisioner.api.requirements import Requirement

from .observed import CONTROLLED, T4, TOLERATES, claim, node, node_pool, observe, pod

INITIALIZED = {"karpenter.sh/initialized": "true", "karpenter.sh/nodepool": "gpu"}
PENDING = pod("p", tolerations=TOLERATES)
GONE: dict[str, Any] = {"deletionTimestamp": "2026-03-01T12:00:00Z"}
OWNED: dict[str, Any] = {
    "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": "uid-gpu"}]
}


def with_conditions(pool: NodePool, *conditions: dict[str, str]) -> NodePool:
    found = [{"lastTransitionTime": "2026-03-01T12:00:00Z", **one} for one in conditions]
    return msgspec.structs.replace(pool, status=msgspec.convert({"conditions": found}, NodePoolStatus))


def deleted(name: str) -> ObjectMeta:
    return msgspec.convert({"name": name, **GONE}, ObjectMeta)


def decide(**parts: Any) -> Decision:
    found = observe(**{"pods": (PENDING,), **parts})
    assert not found.errors
    return solve(found.snapshot)


ROWS: list[tuple[str, dict[str, Any], str]] = [
    ("no machine", {}, "bought"),
    ("a NodeClaim on its way", {"claims": [claim("c")]}, "c"),
    ("a NodeClaim that is being deleted", {"claims": [claim("c", **GONE)]}, "bought"),
    ("a NodeClaim without GPUs", {"claims": [claim("c", size="Standard_D2s_v5")]}, "bought"),
    ("a free Node", {"nodes": [node("n", labels=INITIALIZED)]}, "n"),
    (
        "a Node whose GPU has not appeared yet",
        {"claims": [claim("c", node="n")], "nodes": [node("n", gpus=0)]},
        "n",
    ),
    (
        "an initialized Node without GPUs",
        {"claims": [claim("c", node="n")], "nodes": [node("n", gpus=0, labels=INITIALIZED)]},
        "bought",
    ),
    (
        "a Node that is matched by the UID on its labels",
        {"claims": [claim("c")], "nodes": [node("n", gpus=0, labels={"gpu-provisioner.sh/nodeclaim-uid": "uid-c"})]},
        "n",
    ),
    ("a Node that is being deleted", {"nodes": [node("n", labels=INITIALIZED, **GONE)]}, "bought"),
    (
        "a Node whose NodeClaim is being deleted",
        {"claims": [claim("c", node="n", **GONE)], "nodes": [node("n", labels=INITIALIZED)]},
        "bought",
    ),
    (
        "a Node that another pod uses",
        {"nodes": [node("n", labels=INITIALIZED)], "pods": [PENDING, pod("other", on="n")]},
        "bought",
    ),
]


@pytest.mark.parametrize(("parts", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_capacity(parts: dict[str, Any], expected: str) -> None:
    """A machine is bought only if no Node and no NodeClaim on its way takes the pod."""
    decision = decide(**parts)
    assert not decision.errors
    assert [*decision.existing] == ([] if expected == "bought" else [expected])
    assert len(decision.machines) == (expected == "bought")


RUNNING = pod("moved", on="n", tolerations=TOLERATES, meta=CONTROLLED)
REMOVED: dict[str, Any] = {"claims": [claim("c", node="n", **OWNED, **GONE)], "nodes": [node("n", labels=INITIALIZED)]}
DISPLACED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("its NodeClaim is being deleted", REMOVED, ("default/moved",)),
    (
        "its Node is being deleted",
        {"claims": [claim("c", node="n", **OWNED)], "nodes": [node("n", labels=INITIALIZED, **GONE)]},
        ("default/moved",),
    ),
    ("another Node has room", {**REMOVED, "nodes": [*REMOVED["nodes"], node("free", labels=INITIALIZED)]}, ()),
    ("a NodeClaim is on its way", {**REMOVED, "claims": [*REMOVED["claims"], claim("coming")]}, ()),
    ("nothing is removed", {**REMOVED, "claims": [claim("c", node="n", **OWNED)]}, ()),
    ("no NodePool owns the NodeClaim", {**REMOVED, "claims": [claim("c", node="n", **GONE)]}, ()),
    ("it is not created again", {**REMOVED, "pods": (pod("bare", on="n", tolerations=TOLERATES),)}, ()),
    (
        "its successor is pending",
        {**REMOVED, "pods": (pod("moved", on="n", meta={**CONTROLLED, **GONE}), pod("next", tolerations=TOLERATES))},
        ("default/next",),
    ),
]


@pytest.mark.parametrize(("parts", "expected"), [row[1:] for row in DISPLACED], ids=[row[0] for row in DISPLACED])
def test_pods_of_machines_that_are_removed(parts: dict[str, Any], expected: tuple[str, ...]) -> None:
    """A machine is bought for a running pod while its Node is drained, and one for it and its successor together."""
    decision = decide(**{"pods": (RUNNING,), **parts})
    assert not decision.errors
    assert tuple(name for machine in decision.machines for name in machine.pods) == expected


def test_limits_count_machines_that_are_being_removed() -> None:
    """A machine counts towards the limits of its NodePool until it is gone."""
    limited = node_pool(limits={"nodes": "1"})
    decision = decide(node_pools=(limited,), claims=[claim("c", **GONE)])
    assert "limits of the NodePool are exhausted" in decision.errors["default/p"]


BOTH = node_pool(requirements=[{"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]}])
SPOT_POD = pod("s", tolerations=[*TOLERATES, {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Exists"}])


@pytest.mark.parametrize(
    ("pool", "wanted", "expected"),
    [
        (node_pool(), SPOT_POD, {"on-demand"}),
        (BOTH, SPOT_POD, {"on-demand", "spot"}),
        (BOTH, pod("p", tolerations=TOLERATES), {"on-demand"}),
        (node_pool(labels={CAPACITY_TYPE: "spot"}), SPOT_POD, {"spot"}),
    ],
    ids=["the NodePool does not name spot", "both", "the pod does not tolerate the taint of spot Nodes", "label"],
)
def test_capacity_type(pool: NodePool, wanted: Pod, expected: set[str]) -> None:
    """Spot machines are bought only if the NodePool names them and the pod tolerates the taint that AKS gives them."""
    (machine,) = decide(pods=[wanted], node_pools=(pool,)).machines
    assert machine.requirements[CAPACITY_TYPE].values == expected


@pytest.mark.parametrize(("wanted", "taken"), [(SPOT_POD, True), (pod("p", tolerations=TOLERATES), False)])
def test_a_claim_that_may_become_a_spot_machine(wanted: Pod, taken: bool) -> None:
    """It is no capacity for a pod that does not tolerate the taint of spot Nodes."""
    terms = Requirement(key=CAPACITY_TYPE, operator="In", values=("spot", "on-demand"))
    made = claim("c")
    spec = msgspec.structs.replace(made.spec, requirements=(*made.spec.requirements, terms))
    may_be_spot = msgspec.structs.replace(made, spec=spec)
    decision = decide(pods=[wanted], claims=[may_be_spot], node_pools=(BOTH,))
    assert bool(decision.existing) is taken
    assert bool(decision.machines) is not taken


def test_capacity_type_of_a_claim_on_its_way() -> None:
    """Without a requirement on it, the machine is on demand."""
    selects = pod("p", tolerations=TOLERATES, nodeSelector={"karpenter.sh/capacity-type": "on-demand"})
    assert [*decide(pods=[selects], claims=[claim("c")]).existing] == ["c"]
    selects = pod("p", tolerations=TOLERATES, nodeSelector={"karpenter.sh/capacity-type": "spot"})
    assert not decide(pods=[selects], claims=[claim("c")]).existing


def test_zones() -> None:
    """Azure chooses the place of a machine, unless a pod or its NodePool requires a zone."""
    zone = "topology.kubernetes.io/zone"
    (machine,) = decide().machines
    assert zone not in machine.requirements
    bound = pod("p", tolerations=TOLERATES, nodeSelector={zone: "eastus-2"})
    (machine,) = decide(pods=[bound]).machines
    assert machine.requirements[zone].values == {"eastus-2"}
    assert not decide(pods=[bound], claims=[claim("c")]).existing


FREE = node("n", labels=INITIALIZED)
BAD_NODE = msgspec.structs.replace(
    node("bad"), status=NodeStatus(capacity={"cpu": "many"}, allocatable={"cpu": "many"})
)
BAD_CLAIM = msgspec.structs.replace(
    claim("bad"), spec=NodeClaimSpec(requirements=(Requirement(key="a", operator="Near", values=("b",)),))
)


@pytest.mark.parametrize(
    ("parts", "cause"),
    [({"nodes": [BAD_NODE, FREE]}, "many"), ({"claims": [BAD_CLAIM], "nodes": [FREE]}, "a: unknown operator 'Near'")],
    ids=["Node", "NodeClaim"],
)
def test_unreadable_machines_stop_nothing(parts: dict[str, Any], cause: str) -> None:
    """A Node or NodeClaim that cannot be read is left out with its cause, and the pod gets its place."""
    found = observe(pods=(PENDING,), **parts)
    ((about, why),) = found.unreadable
    assert about.name == "bad"
    assert cause in why
    assert [*solve(found.snapshot).existing] == ["n"]


NOT_FOUND = {"type": "NodeClassReady", "status": "False", "reason": "NodeClassNotFound", "message": "no class"}
UNUSABLE: list[tuple[str, NodePool, str]] = [
    ("invalid", node_pool("bad", limits={"cpu": "many"}), "NodePool bad: "),
    ("not Ready", node_pool("bad", ready="False"), "Ready is False"),
    ("static", node_pool("bad", replicas=1), "it is static"),
    ("with a cause", with_conditions(node_pool("bad", ready="False"), NOT_FOUND), "no class"),
    ("without conditions", with_conditions(node_pool("bad")), "not yet known whether it is Ready"),
    ("being deleted", msgspec.structs.replace(node_pool("bad"), metadata=deleted("bad")), "being deleted"),
]


@pytest.mark.parametrize(("pool", "cause"), [row[1:] for row in UNUSABLE], ids=[row[0] for row in UNUSABLE])
def test_unusable_nodepools_stop_nothing(pool: NodePool, cause: str) -> None:
    """A NodePool from which nothing can be bought is left out with its cause, and the pod gets its machine."""
    found = observe(pods=(PENDING,), node_pools=(pool, node_pool()))
    assert cause in found.unusable["bad"]
    assert [machine.node_pool for machine in solve(found.snapshot).machines] == ["gpu"]


def test_invalid_pod() -> None:
    """A pod that cannot be scheduled has its own error, and the others get their machines."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    found = observe(pods=(PENDING, pod("bad", affinity=affinity)))
    assert "matchFields" in found.errors["default/bad"]
    assert solve(found.snapshot).machines[0].pods == ("default/p",)


@pytest.mark.parametrize("own", [{"nodeSelector": {"a": "1"}}, {}], ids=["node selector", "node affinity"])
def test_contradictory_pod(own: dict[str, Any]) -> None:
    """A pod whose own requirements exclude each other gets no machine, not one that lacks the label."""
    expressions = [{"key": "a", "operator": "In", "values": [value]} for value in (("2",) if own else ("1", "2"))]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    found = observe(pods=(pod("bad", tolerations=TOLERATES, affinity=affinity, **own),))
    assert "exclude each other" in found.errors["default/bad"]


def test_unready_nodepool() -> None:
    """No machine is bought from a NodePool that is not Ready."""
    assert "no NodePool is ready" in decide(node_pools=(node_pool(ready="False"),)).errors["default/p"]


def test_cheapest_size() -> None:
    """Each pod with one GPU gets the cheapest machine with one GPU."""
    decision = decide(pods=[pod(f"p{n}", tolerations=TOLERATES) for n in range(8)])
    assert [machine.instance_types[0] for machine in decision.machines] == [T4] * 8


def test_a_shared_resource_claim_is_allocated_for_a_pod_that_a_machine_could_take() -> None:
    """The oldest pod of the claim can never run; the next one gets a machine, the last one waits for its allocation."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}
    shared = msgspec.convert({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}, ResourceClaim)
    selectors = [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]
    classes = {"gpu": msgspec.convert({"spec": {"selectors": selectors}}, DeviceClass)}
    devices = DeviceClaims(requested=frozenset(("",)), claims={"default/c": shared}, classes=classes)
    dra = {"metadata": {"name": "default"}, "spec": {"gpu": {"mode": "DRA"}}}
    uses: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}], "tolerations": TOLERATES}
    pods = (pod("a", gpus=0, nodeSelector={"no": "such"}, **uses), *(pod(name, gpus=0, **uses) for name in "bc"))
    found = observe(
        pods=pods,
        storage=Storage(devices=devices),
        node_classes={"default": msgspec.convert(dra, AgentPoolNodeClass)},
    )
    assert [one.pods for one in solve(found.snapshot).machines] == [("default/b",)]
    assert found.errors.keys() == {"default/a", "default/c"}
    assert "which is allocated for Pod default/b first" in found.errors["default/a"]


def test_a_spread_over_the_zones_of_a_region() -> None:
    """Machines outside all zones are offered too; their domain is none of the spread, so that no zone waits for it."""
    spread = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread = {**spread, "labelSelector": {"matchLabels": {"app": "a"}}}
    own: dict[str, Any] = {
        "meta": {"labels": {"app": "a"}},
        "topologySpreadConstraints": [spread],
        "tolerations": TOLERATES,
    }
    decision = solve(observe(pods=tuple(pod(f"p{number}", **own) for number in range(7))).snapshot)
    assert (len(decision.machines), dict(decision.errors)) == (7, {})


BY_LABELS = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}


@pytest.mark.parametrize(("terms", "why"), [([BY_LABELS, {}], "403 Forbidden"), ([{}], ""), ([], "")])
def test_namespaces_that_cannot_be_read(terms: list[dict[str, Any]], why: str) -> None:
    """Only a pod with a term that selects namespaces by their labels is not decided."""
    same = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**same, **one} for one in terms]}}
    asking = pod("asking", tolerations=TOLERATES, affinity=apart if terms else {})
    found = observe(pods=(asking,), namespaces_error="403 Forbidden")
    assert why in found.errors.get("default/asking", "")
    assert bool(found.errors) is bool(why)
