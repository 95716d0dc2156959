"""The table of the controller of AgentPoolNodeClasses: from what is known of one to the next write."""

import hashlib
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import pytest

from controllers.model.pool_steps import AnnotateNodeClaim, PatchNodeClassStatus, PoolStep, SetNodeClassFinalizers
from controllers.nodeclass.hash import HASH_VERSION, hash_annotations, spec_hash
from controllers.nodeclass.nodeclass import NodeClassFacts, concerned, plan
from provisioner.api import labels
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = "2026-03-01T12:00:00Z"
OURS, OTHERS = "gpu-provisioner.sh/termination", "example.com/other"
GONE: dict[str, Any] = {"deletionTimestamp": MOMENT}


def node_class(*finalizers: str, spec: dict[str, Any] | None = None, **metadata: Any) -> AgentPoolNodeClass:
    meta = {"name": "default", "generation": 3, "finalizers": [*finalizers], **metadata}
    return msgspec.convert({"metadata": meta, "spec": spec or {}}, AgentPoolNodeClass)


def planned(found: AgentPoolNodeClass, *claims: str) -> PoolStep | None:
    named = tuple(msgspec.convert({"metadata": {"name": name}}, NodeClaim) for name in claims)
    return plan(NodeClassFacts(node_class=found, now=NOW, claims=named))


FINALIZERS: list[tuple[str, AgentPoolNodeClass, tuple[str, ...], tuple[str, ...] | None]] = [
    ("a first claim refers to it", node_class(OTHERS), ("a",), (OTHERS, OURS)),
    ("claims refer to it", node_class(OURS), ("a", "b"), None),
    ("no claim refers to it any longer", node_class(OURS), (), None),
    ("deleting, with a claim", node_class(OURS, **GONE), ("a",), None),
    ("deleting, without a claim", node_class(OTHERS, OURS, **GONE), (), (OTHERS,)),
]


@pytest.mark.parametrize(
    ("found", "claims", "finalizers"), [row[1:] for row in FINALIZERS], ids=[row[0] for row in FINALIZERS]
)
def test_finalizers(found: AgentPoolNodeClass, claims: tuple[str, ...], finalizers: tuple[str, ...] | None) -> None:
    """Ours is there from the first claim on, and goes with the last one of a deleting class; others stay."""
    step = planned(found, *claims)
    if finalizers is None:
        assert isinstance(step, PatchNodeClassStatus)
    else:
        assert isinstance(step, SetNodeClassFinalizers)
        assert step.finalizers == finalizers


def test_a_deleting_class_without_our_finalizer() -> None:
    """It is another client's to release: nothing is written."""
    assert planned(node_class(OTHERS, **GONE)) is None


CONDITIONS: list[tuple[str, AgentPoolNodeClass, tuple[str, ...], dict[str, tuple[str, str]], str]] = [
    (
        "valid",
        node_class(),
        (),
        {"ValidationSucceeded": ("True", "ValidationSucceeded"), "Ready": ("True", "Ready")},
        "",
    ),
    (
        "invalid",
        node_class(spec={"maxPods": 1}),
        (),
        {
            "ValidationSucceeded": ("False", "NodeClassValidationFailed"),
            "Ready": ("False", "NodeClassValidationFailed"),
        },
        "spec.maxPods",
    ),
    (
        "unreadable",
        node_class(unreadable=["spec.tags: a number"]),
        (),
        {
            "ValidationSucceeded": ("False", "NodeClassValidationFailed"),
            "Ready": ("False", "NodeClassValidationFailed"),
        },
        "spec.tags",
    ),
    (
        "in use",
        node_class(OURS, **GONE),
        ("a", "b", "c", "d", "e"),
        {"ValidationSucceeded": ("True", "ValidationSucceeded"), "Ready": ("False", "WaitingForNodeClaims")},
        "",
    ),
]


@pytest.mark.parametrize(
    ("found", "claims", "expected", "event"), [row[1:] for row in CONDITIONS], ids=[row[0] for row in CONDITIONS]
)
def test_conditions(
    found: AgentPoolNodeClass, claims: tuple[str, ...], expected: dict[str, tuple[str, str]], event: str
) -> None:
    """Status and reason of each condition; the cause of an invalid one is an Event as well, once."""
    step = planned(found, *claims)
    assert isinstance(step, PatchNodeClassStatus)
    assert {one.type: (one.status, one.reason) for one in step.conditions} == expected
    assert len(step.events) == bool(event)
    assert all(event in one.message for one in step.events)
    status = msgspec.convert({"conditions": msgspec.to_builtins(step.conditions)}, type(found.status))
    assert planned(msgspec.structs.replace(found, status=status), *claims) is None


def test_the_claims_that_a_deleting_class_waits_for() -> None:
    """The message names the first ones."""
    step = planned(node_class(OURS, **GONE), "a", "b", "c", "d", "e")
    assert isinstance(step, PatchNodeClassStatus)
    (ready,) = [one for one in step.conditions if one.type == "Ready"]
    assert "a, b, c and 2 more" in ready.message


HASH, VERSION = "gpu-provisioner.sh/agentpoolnodeclass-hash", "gpu-provisioner.sh/agentpoolnodeclass-hash-version"


def hashed(version: str, *, drifted: bool = False, **metadata: Any) -> NodeClaim:
    annotations = {HASH: "123", VERSION: version} if version else {}
    condition = {"type": "Drifted", "status": "True", "lastTransitionTime": MOMENT}
    body = {"metadata": {"name": "a", "annotations": annotations, **metadata}, "status": {"conditions": [condition]}}
    return msgspec.convert(body if drifted else {"metadata": body["metadata"]}, NodeClaim)


@pytest.mark.parametrize(
    ("claim", "keys"),
    [
        (hashed("v0"), {HASH, VERSION}),
        (hashed("v0", drifted=True), {VERSION}),
        (hashed(HASH_VERSION), None),
        (hashed(""), None),
        (hashed("v0", deletionTimestamp=MOMENT), None),
    ],
    ids=["another version", "Drifted: the hash is kept", "this version", "without a hash", "being deleted"],
)
def test_another_version_of_the_hash(claim: NodeClaim, keys: set[str] | None) -> None:
    """No claim looks drifted because of the version."""
    found = node_class(OURS)
    step = plan(NodeClassFacts(node_class=found, now=NOW, claims=(claim,)))
    if keys is None:
        assert isinstance(step, PatchNodeClassStatus)
    else:
        assert isinstance(step, AnnotateNodeClaim)
        assert step.annotations == {key: value for key, value in hash_annotations(found).items() if key in keys}


def test_the_hash() -> None:
    """Equal for equal settings, however they are written; none if a field cannot be decoded."""
    same = node_class(spec={"tags": {"a": "1", "b": "2"}, "imageFamily": "Ubuntu"})
    assert spec_hash(same) == spec_hash(node_class(spec={"tags": {"b": "2", "a": "1"}}))
    assert spec_hash(same) != spec_hash(node_class(spec={"tags": {"a": "1", "b": "2"}, "maxPods": 30}))
    broken = msgspec.structs.replace(same, metadata=msgspec.structs.replace(same.metadata, unreadable=("spec.gpu",)))
    assert hash_annotations(broken) == hash_annotations(None) == {}


def test_a_new_field_does_not_change_the_hash() -> None:
    """Defaults are left out, and readiness rules are no part of it."""
    taint = {"key": "example.com/not-ready", "effect": "NoSchedule"}
    rule = {"taint": taint, "until": {"condition": {"type": "GPUReady"}}}
    empty = hashlib.sha256(b"{}").hexdigest()[:16]
    assert spec_hash(node_class(spec={"gpu": {"mode": "DevicePlugin"}, "readiness": [rule]})) == empty
    written = {"mode": "DevicePlugin", "migStrategy": "Single", "sharedReplicas": 1, "sharedResource": "nvidia.com/gpu"}
    plugin = {"migStrategy": "Mixed", "sharedReplicas": 4, "sharedResource": "nvidia.com/gpu.shared"}
    assert {spec_hash(node_class(spec={"gpu": gpu})) for gpu in (written, plugin)} == {empty}
    assert spec_hash(node_class(spec={"gpu": {"migProfile": "MIG1g"}})) != empty


def settled(found: AgentPoolNodeClass, claims: dict[str, NodeClaim]) -> AgentPoolNodeClass:
    """The node class after all writes about it, and its claims, in place."""
    for _ in range(20):
        match plan(NodeClassFacts(node_class=found, now=NOW, claims=tuple(claims[name] for name in sorted(claims)))):
            case SetNodeClassFinalizers(finalizers=finalizers):
                meta = msgspec.structs.replace(found.metadata, finalizers=finalizers)
                found = msgspec.structs.replace(found, metadata=meta)
            case PatchNodeClassStatus(conditions=conditions):
                status = msgspec.structs.replace(found.status, conditions=tuple(conditions))
                found = msgspec.structs.replace(found, status=status)
            case AnnotateNodeClaim(claim=claim, annotations=annotations):
                known = {**claim.metadata.annotations, **annotations}
                claims[claim.name] = with_annotations(claim, known)
            case _:
                return found
    raise AssertionError("its writes do not end")


def with_annotations(claim: NodeClaim, annotations: dict[str, str]) -> NodeClaim:
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations))


@pytest.mark.parametrize("seed", range(50))
def test_a_change_of_a_claim_that_leads_to_a_step(seed: int) -> None:
    """Drawn claims come, change and go: a change after which the node class is as it should be may be left out only."""
    rng = Random(seed)
    claims: dict[str, NodeClaim] = {}
    found = settled(node_class(*rng.choice(((), (OURS,), (OTHERS,))), **rng.choice(({}, GONE))), claims)
    for _ in range(100):
        name, new = rng.choice("abcde"), None
        old = claims.pop(name, None)
        if rng.random() < 0.7:
            version = rng.choice((HASH_VERSION, "old", None))
            annotations = {} if version is None else {labels.NODECLASS_HASH_VERSION: version}
            body = {"metadata": {"name": name, "annotations": annotations, **rng.choice(({}, {}, GONE))}}
            new = claims[name] = msgspec.convert(body, NodeClaim)
        if rng.random() < 0.05:
            meta = msgspec.structs.replace(found.metadata, deletion_timestamp=NOW)
            found = settled(msgspec.structs.replace(found, metadata=meta), claims)
        elif (old or new) and not concerned(found, old, new):
            facts = NodeClassFacts(node_class=found, now=NOW, claims=tuple(claims[one] for one in sorted(claims)))
            assert plan(facts) is None
        found = settled(found, claims)
