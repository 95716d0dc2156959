"""The table of the controller of NodePools: from what is known of one to the next write."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from controllers.model.pool_steps import AnnotateNodeClaim, AnnotateNodePool, PatchNodePoolStatus, PoolStep
from controllers.nodepool import validation
from controllers.nodepool.counter import Usage
from controllers.nodepool.hash import HASH_VERSION, hash_annotations
from controllers.nodepool.nodepool import NodePoolFacts, plan
from provisioner.api.node import Node
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = "2026-03-01T12:00:00Z"
HASH, VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"
SIZE = "node.kubernetes.io/instance-type"
OURS = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
THEIRS = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}


def node_pool(
    *, hashed: bool = True, reference: dict[str, str] = OURS, template: dict[str, Any] | None = None, **fields: Any
) -> NodePool:
    """`hashed`: it has its annotations."""
    metadata = {"name": "gpu", "generation": 2, **fields.pop("metadata", {})}
    spec = {"template": {"spec": {"nodeClassRef": reference, **(template or {})}}, **fields.pop("spec", {})}
    found = msgspec.convert({"metadata": metadata, "spec": spec, **fields}, NodePool)
    if not hashed:
        return found
    meta = msgspec.structs.replace(
        found.metadata, annotations={**hash_annotations(found), **found.metadata.annotations}
    )
    return msgspec.structs.replace(found, metadata=meta)


def node_class(ready: str = "True", *, observed: int = 1, **metadata: Any) -> AgentPoolNodeClass:
    condition = {"type": "Ready", "status": ready, "reason": "NodeClassValidationFailed", "message": "spec.maxPods"}
    body = {
        "metadata": {"name": "default", "generation": 1, **metadata},
        "status": {"conditions": [{**condition, "observedGeneration": observed, "lastTransitionTime": MOMENT}]},
    }
    return msgspec.convert(body, AgentPoolNodeClass)


def claim(name: str, *, version: str = HASH_VERSION, drifted: bool = False, **metadata: Any) -> NodeClaim:
    condition = {"type": "Drifted", "status": "True", "lastTransitionTime": MOMENT}
    body = {
        "metadata": {"name": name, "annotations": {HASH: "old", VERSION: version}, **metadata},
        "status": {"conditions": [condition] if drifted else [], "capacity": {"cpu": "4", "nvidia.com/gpu": "1"}},
    }
    return msgspec.convert(body, NodeClaim)


class Sizes(AksCloud):
    """A cloud that has each size of the NC series."""

    @staticmethod
    def is_known_size(name: str) -> bool:
        return name.startswith("Standard_NC")


def planned(pool: NodePool, **facts: Any) -> PoolStep | None:
    given = {"node_class": node_class(), "cloud": Sizes(), **facts}
    claims = given.pop("machines", ())
    resources = Usage((one, None) for one in claims).resources()
    return plan(NodePoolFacts(node_pool=pool, now=NOW, resources=resources, claims=lambda: claims, **given))


NOTHING: list[tuple[str, NodePool]] = [
    ("of another controller", node_pool(reference=THEIRS, hashed=False)),
    ("being deleted", node_pool(hashed=False, metadata={"deletionTimestamp": MOMENT})),
]


@pytest.mark.parametrize("pool", [row[1] for row in NOTHING], ids=[row[0] for row in NOTHING])
def test_nodepools_that_are_not_written(pool: NodePool) -> None:
    assert planned(pool, machines=(claim("a", version="v3"),)) is None


def test_a_written_default_does_not_change_the_hash() -> None:
    """Such as the empty value of a taint, which `kubectl apply` may add or remove."""
    absent = {"taints": [{"key": "sku", "effect": "NoSchedule"}]}
    written = {"taints": [{"key": "sku", "value": "", "effect": "NoSchedule"}], "startupTaints": []}
    one, other = (node_pool(template=spec) for spec in (absent, written))
    assert hash_annotations(one) == hash_annotations(other)
    assert hash_annotations(one) != hash_annotations(node_pool())


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        ({"annotations": {"a": "b"}}, {}),
        ({"labels": {"a": "b"}}, {}),
        ({}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        ({}, {"startupTaints": [{"key": "a", "effect": "NoSchedule"}]}),
        ({}, {"nodeClassRef": {**OURS, "name": "other"}}),
        ({}, {"expireAfter": "1h"}),
        ({}, {"terminationGracePeriod": "1h"}),
    ],
    ids=" ".join,
)
def test_each_field_of_the_template_changes_the_hash(metadata: dict[str, Any], spec: dict[str, Any]) -> None:
    """What is outside of the template, and its requirements, do not."""
    template = {"metadata": metadata, "spec": {"nodeClassRef": OURS, **spec}}
    changed = msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"template": template}}, NodePool)
    assert hash_annotations(changed) != hash_annotations(node_pool())
    behavior = {
        "weight": 9,
        "limits": {"cpu": "9"},
        "disruption": {"consolidateAfter": "1h", "budgets": [{"nodes": "1"}]},
    }
    required = {"requirements": [{"key": "a", "operator": "Exists"}]}
    assert hash_annotations(node_pool(spec=behavior, template=required)) == hash_annotations(node_pool())


def test_the_hash_comes_first() -> None:
    """A new NodePool is annotated before its conditions are written."""
    pool = node_pool(hashed=False)
    step = planned(pool)
    assert isinstance(step, AnnotateNodePool)
    assert step.annotations == hash_annotations(pool)


OTHER: dict[str, Any] = {"metadata": {"annotations": {HASH: "123", VERSION: "v3"}}}
DELETED: dict[str, Any] = {"deletionTimestamp": MOMENT}
MIGRATION: list[tuple[str, tuple[NodeClaim, ...], str, set[str]]] = [
    ("claims by name", (claim("b", version="v3"), claim("a", version="v3")), "a", {HASH, VERSION}),
    ("a claim without a version", (claim("a"), claim("b", version="")), "b", {HASH, VERSION}),
    ("a Drifted claim keeps its hash", (claim("a", version="v3", drifted=True),), "a", {VERSION}),
    ("a claim that is being deleted is left", (claim("a", version="v3", **DELETED),), "", {HASH, VERSION}),
    ("the NodePool comes last", (claim("a"),), "", {HASH, VERSION}),
]


@pytest.mark.parametrize(
    ("machines", "name", "keys"), [row[1:] for row in MIGRATION], ids=[row[0] for row in MIGRATION]
)
def test_another_version_of_the_hash(machines: tuple[NodeClaim, ...], name: str, keys: set[str]) -> None:
    """Each claim gets the version and the hash, then the NodePool: no claim looks drifted because of the version."""
    pool = node_pool(**OTHER)
    step = planned(pool, machines=machines)
    if name:
        assert isinstance(step, AnnotateNodeClaim)
        assert step.claim.name == name
    else:
        assert isinstance(step, AnnotateNodePool)
    assert step.annotations == {key: value for key, value in hash_annotations(pool).items() if key in keys}


def test_a_claim_of_another_version_beside_a_hashed_nodepool() -> None:
    """Only a change of the version re-stamps claims; a claim keeps the hash of the template that it was made from."""
    assert isinstance(planned(node_pool(), machines=(claim("a", version="v3"),)), PatchNodePoolStatus)


def requires(*values: str) -> dict[str, Any]:
    return {"requirements": [{"key": SIZE, "operator": "In", "values": [*values]}]}


READY: dict[str, tuple[str, str]] = {
    "ValidationSucceeded": ("True", "ValidationSucceeded"),
    "NodeClassReady": ("True", "NodeClassReady"),
    "Ready": ("True", "Ready"),
    "NodeRegistrationHealthy": ("Unknown", "AwaitingRegistration"),
}


def unready(condition: str, reason: str) -> dict[str, tuple[str, str]]:
    return {**READY, condition: ("False", reason), "Ready": ("False", reason)}


INVALID = unready("ValidationSucceeded", "NodePoolValidationFailed")
CONDITIONS: list[tuple[str, NodePool, dict[str, Any], dict[str, tuple[str, str]], str]] = [
    ("ready", node_pool(), {}, READY, ""),
    ("no class", node_pool(), {"node_class": None}, unready("NodeClassReady", "NodeClassNotFound"), "create it"),
    (
        "class being deleted",
        node_pool(),
        {"node_class": node_class(**DELETED)},
        unready("NodeClassReady", "NodeClassTerminating"),
        "is being deleted",
    ),
    (
        "class not validated yet",
        node_pool(),
        {"node_class": node_class(observed=0)},
        unready("NodeClassReady", "NodeClassReadinessUnknown"),
        "",
    ),
    (
        "class not Ready",
        node_pool(),
        {"node_class": node_class("False")},
        unready("NodeClassReady", "NodeClassValidationFailed"),
        "AgentPoolNodeClass default is not Ready: spec.maxPods",
    ),
    ("unknown size", node_pool(template=requires("Standard_NX")), {}, INVALID, "Standard_NX: unknown sizes"),
    (
        "contradictory requirements",
        node_pool(
            template={
                "requirements": [*requires("Standard_NC1")["requirements"], *requires("Standard_NC2")["requirements"]]
            }
        ),
        {},
        INVALID,
        "no value satisfies all requirements",
    ),
    ("static", node_pool(spec={"replicas": 1}), {}, READY, ""),
    ("bad limit", node_pool(spec={"limits": {"cpu": "many"}}), {}, INVALID, "spec.limits[cpu]"),
    (
        "bad schedule",
        node_pool(spec={"disruption": {"budgets": [{"nodes": "0", "schedule": "0 25 * * *", "duration": "8h"}]}}),
        {},
        INVALID,
        "spec.disruption.budgets[0].schedule: 0 25 * * *: Bad hour",
    ),
    (
        "bad duration",
        node_pool(spec={"disruption": {"budgets": [{"nodes": "0", "schedule": "@daily", "duration": "8 hours"}]}}),
        {},
        INVALID,
        "spec.disruption.budgets[0].duration: 8 hours: no duration",
    ),
    ("limit of 0", node_pool(spec={"limits": {"cpu": 0}}), {}, READY, ""),
    (
        "failed launches",
        node_pool(),
        {"outcomes": ("failed", "registered", "failed")},
        {**READY, "NodeRegistrationHealthy": ("False", "RegistrationFailed")},
        "2 of the last 3 NodeClaims failed to launch",
    ),
    (
        "one failed launch",
        node_pool(),
        {"outcomes": ("failed", "registered")},
        {**READY, "NodeRegistrationHealthy": ("True", "NodeRegistrationHealthy")},
        "",
    ),
]


@pytest.mark.parametrize(
    ("pool", "facts", "expected", "event"), [row[1:] for row in CONDITIONS], ids=[row[0] for row in CONDITIONS]
)
def test_conditions(pool: NodePool, facts: dict[str, Any], expected: dict[str, tuple[str, str]], event: str) -> None:
    """Status and reason of each condition, and one Event for the cause of a condition that turned False."""
    step = planned(pool, **facts)
    assert isinstance(step, PatchNodePoolStatus)
    assert {one.type: (one.status, one.reason) for one in step.conditions} == expected
    assert all(one.observed_generation == 2 for one in step.conditions)
    assert len(step.events) == bool(event)
    assert all(event in one.message for one in step.events)


def after(pool: NodePool, step: PoolStep | None) -> NodePool:
    """The NodePool once its status was written."""
    assert isinstance(step, PatchNodePoolStatus)
    status = {"conditions": msgspec.to_builtins(step.conditions), **step.fields}
    return msgspec.structs.replace(pool, status=msgspec.convert(status, type(pool.status)))


@pytest.mark.parametrize("found", [None, node_class()], ids=["not Ready", "Ready"])
def test_nothing_is_written_twice(found: AgentPoolNodeClass | None) -> None:
    """The status that a plan writes leads to no further write, and to no further Event."""
    pool = node_pool()
    written = after(pool, planned(pool, node_class=found))
    assert planned(written, node_class=found) is None
    (again,) = [planned(written, node_class=found, machines=(claim("a"),))]
    assert isinstance(again, PatchNodePoolStatus)
    assert not again.events


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (("on-demand",), ""),
        (("spot",), ""),
        (("on-demand", "spott"), ""),
        (("spott",), "spott: unknown capacity types"),
        (("reserved",), "reserved: unknown capacity types"),
    ],
)
def test_capacity_types(terms: tuple[str, ...], why: str) -> None:
    """A NodePool of which no machine could be bought says so; one that is known is enough."""
    required = {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [*terms]}]}
    step = planned(node_pool(template=required))
    assert isinstance(step, PatchNodePoolStatus)
    (found,) = [one for one in step.conditions if one.type == "ValidationSucceeded"]
    assert found.status == ("False" if why else "True")
    assert why in found.message


def test_a_capacity_type_in_a_label_of_the_template() -> None:
    """It is a requirement, too."""
    for term, status in (("spot", "True"), ("spott", "False")):
        template = {"metadata": {"labels": {"karpenter.sh/capacity-type": term}}, "spec": {"nodeClassRef": OURS}}
        step = planned(node_pool(spec={"template": template}))
        assert isinstance(step, PatchNodePoolStatus)
        assert {one.status for one in step.conditions if one.type == "ValidationSucceeded"} == {status}


def test_a_node_counts_by_what_it_has() -> None:
    """Its NodeClaim counts by its estimate until then."""
    one, size = claim("a"), {"cpu": "8", "nvidia.com/gpu": "2"}
    found = msgspec.convert({"metadata": {"name": "n"}, "status": {"capacity": size}}, Node)
    usage = Usage([(one, None)])
    assert (usage.resources()["cpu"], usage.resources()["nodes"]) == ("4", "1")
    usage.count(one, found)
    assert (usage.resources()["cpu"], usage.resources()["nvidia.com/gpu"], usage.resources()["nodes"]) == (
        "8",
        "2",
        "1",
    )
    usage.forget("a")
    assert (usage.resources()["cpu"], usage.resources()["nodes"]) == ("0", "0")


@pytest.mark.parametrize("spec", [{}, {"replicas": 2}], ids=["dynamic", "static"])
def test_the_counter(spec: dict[str, Any]) -> None:
    """Claims count by their estimate; a resource that no machine has any longer is removed."""
    pool = node_pool(spec=spec)
    step = planned(pool, machines=(claim("a"), claim("b")))
    assert isinstance(step, PatchNodePoolStatus)
    assert step.fields["nodes"] == 2
    assert step.fields["resources"] == {
        "cpu": "8", "ephemeral-storage": "0", "memory": "0", "nodes": "2", "nvidia.com/gpu": "2", "pods": "0"
    }  # fmt: skip
    empty = planned(after(pool, step))
    assert isinstance(empty, PatchNodePoolStatus)
    resources = empty.fields["resources"]
    assert isinstance(resources, dict)
    assert (resources["nvidia.com/gpu"], resources["cpu"]) == (None, "0")


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "a", "operator": "Near", "values": ["1"]},
        {"key": "a", "operator": "Gt", "values": ["9" * 4301]},
        {"key": "a", "operator": "Lt", "values": []},
    ],
)
def test_a_requirement_that_cannot_be_read_is_one_error(requirement: dict[str, object]) -> None:
    """It is not compared with the others; the CRD of another version can accept it."""
    spec = {"template": {"spec": {"requirements": [requirement, {"key": "a", "operator": "Exists"}]}}}
    (error,) = validation.errors(msgspec.convert({"spec": spec}, NodePool), AksCloud())
    assert error.field == "spec.template.spec.requirements"
    assert len(str(error)) < 256
