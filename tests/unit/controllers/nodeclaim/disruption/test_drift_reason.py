"""The table of drift: what differs between a machine and what its NodePool would create now."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cloudprovider.azure.cloud import AksCloud
from cloudprovider.interface import Cluster, Instance, InstanceState, Newest, ResourceSku
from controllers.nodeclaim.disruption.drift_reason import NO_DRIFT, DriftFacts, DriftReason, drift_reason
from controllers.nodeclass import hash as node_class_hash
from controllers.nodepool import hash as node_pool_hash
from controllers.provisioning.instances import InstanceTypeCache, InstanceTypes
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
T4, A100 = "Standard_NC4as_T4_v3", "Standard_NC24ads_A100_v4"
IMAGE = "AKSUbuntu-2204gen2containerd"
ZONE, CAPACITY, COUNT = "topology.kubernetes.io/zone", "karpenter.sh/capacity-type", "karpenter.azure.com/sku-gpu-count"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
TYPES = InstanceTypeCache(AksCloud()).in_region("westeurope")
REFERENCE = {"group": "gpu-provisioner.sh", "kind": "AgentPoolNodeClass", "name": "default"}
LAUNCHED = {"type": "Launched", "status": "True", "lastTransitionTime": "2026-03-09T12:00:00Z", "reason": "Launched"}
Requirement = dict[str, Any]


def requires(key: str, operator: str, *values: str) -> Requirement:
    return {"key": key, "operator": operator, "values": [*values]}


def node_pool(*requirements: Requirement, team: str = "ml", **metadata: Any) -> NodePool:
    template = {
        "metadata": {"labels": {"team": team}},
        "spec": {"nodeClassRef": REFERENCE, "requirements": [*requirements]},
    }
    meta = {"name": "gpu", "uid": "uid-gpu", **metadata}
    found = msgspec.convert({"metadata": meta, "spec": {"template": template}}, NodePool)
    annotations = {**node_pool_hash.hash_annotations(found), **found.metadata.annotations}
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=annotations))


def node_class(*, max_pods: int = 110, **metadata: Any) -> AgentPoolNodeClass:
    return msgspec.convert(
        {"metadata": {"name": "default", **metadata}, "spec": {"maxPods": max_pods}}, AgentPoolNodeClass
    )


POOL, CLASS = node_pool(), node_class()
HASHES = {**node_pool_hash.hash_annotations(POOL), **node_class_hash.hash_annotations(CLASS)}
LABELS = {INSTANCE_TYPE: T4, ZONE: "westeurope-1", CAPACITY: "on-demand", "team": "ml"}


def claim(
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    requirements: tuple[Requirement, ...] = (),
    launched: bool = True,
    drifted: str = "",
    age: timedelta = DAY,
    owner: str = "uid-gpu",
) -> NodeClaim:
    conditions = [LAUNCHED] if launched else []
    conditions += [{**LAUNCHED, "type": "Drifted", "reason": drifted}] if drifted else []
    body = {
        "metadata": {
            "name": "gpu-1",
            "uid": "uid-1",
            "creationTimestamp": NOW - age,
            "labels": LABELS if labels is None else labels,
            "annotations": HASHES if annotations is None else annotations,
            "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "gpu", "uid": owner}],
        },
        "spec": {"nodeClassRef": REFERENCE, "requirements": [*requirements]},
        "status": {"conditions": conditions},
    }
    return msgspec.convert(body, NodeClaim)


def expiring(drifted: str = "", after: str = "24h") -> NodeClaim:
    """A NodeClaim that is a day old."""
    made = claim(drifted=drifted)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, expire_after=after))


STATIC = msgspec.structs.replace(POOL, spec=msgspec.structs.replace(POOL.spec, replicas=1))


def instance(**facts: Any) -> Instance:
    known = {
        "name": "gpu1",
        "state": InstanceState.RUNNING,
        "raw_state": "Succeeded",
        "size": T4,
        "image_version": f"{IMAGE}-202602.10.0",
        "kubernetes_version": "1.33.2",
        "put_time": NOW - DAY,
    }
    return Instance(**{**known, **facts})


def image(release: str, since: datetime | None = NOW - HOUR, *, kind: str = IMAGE, **made: Any) -> dict[str, Any]:
    """The newest image, and a pool that was created with it at that time."""
    name = f"{kind}-{release}"
    return {
        "image": name,
        "pools": lambda: (instance(), instance(name="gpu2", image_version=name, put_time=since, **made)),
    }


def version(number: str, since: datetime = NOW - HOUR) -> Newest:
    return Newest(number, since)


def facts(**changes: Any) -> DriftFacts:
    known: dict[str, Any] = {
        "claim": claim(),
        "now": NOW,
        "pool": POOL,
        "new_class": CLASS,
        "node_class": CLASS,
        "instance": instance(),
        "cluster": Cluster(running=True),
        "kubernetes": version("1.33.2"),
        **image("202602.10.0"),
        "instance_types": TYPES,
        "skus": {},
    }
    return DriftFacts(**{**known, **changes})


OS, RACK = "kubernetes.io/os", claim(labels={**LABELS, "rack": "5"})
LACKED = "Standard_NC6"
LISTED = ResourceSku(name=LACKED, family="f", vcpus=6)
NEWER = image("202603.01.0")
UPGRADED = {"kubernetes": version("1.34.0")}
CHANGED = {"pool": node_pool(team="other")}
GONE: dict[str, Any] = {"deletionTimestamp": "2026-03-10T11:00:00Z"}
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("nothing differs", {}, ""),
    # the template
    ("another template", CHANGED, "NodePoolDrifted"),
    ("other requirements are not the template", {"pool": node_pool(requires(COUNT, "Gt", "0"))}, ""),
    ("a claim without hashes", {"claim": claim(annotations={}), **CHANGED}, ""),
    (
        "another version on the claim",
        {"claim": claim(annotations={**HASHES, "karpenter.sh/nodepool-hash-version": "v3"}), **CHANGED},
        "",
    ),
    (
        "another version on the NodePool",
        {"pool": node_pool(team="x", annotations={"karpenter.sh/nodepool-hash-version": "v3"})},
        "",
    ),
    (
        "the annotation of the NodePool is late",
        {"pool": node_pool(annotations={"karpenter.sh/nodepool-hash": "old"})},
        "",
    ),
    (
        "the NodePool has no annotations yet",
        {
            "pool": msgspec.structs.replace(
                node_pool(team="x"), metadata=msgspec.structs.replace(POOL.metadata, annotations={})
            )
        },
        "",
    ),
    # requirements
    ("fewer operating systems", {"pool": node_pool(requires(OS, "In", "windows"))}, "RequirementsDrifted"),
    ("more operating systems", {"pool": node_pool(requires(OS, "In", "linux", "windows"))}, ""),
    ("any operating system", {"pool": node_pool(requires(OS, "Exists"))}, ""),
    ("no operating system", {"pool": node_pool(requires(OS, "DoesNotExist"))}, "RequirementsDrifted"),
    ("the architecture of the size", {"pool": node_pool(requires("kubernetes.io/arch", "In", "amd64"))}, ""),
    (
        "a label that is too low",
        {"claim": RACK, "pool": node_pool(requires("rack", "Gt", "10"))},
        "RequirementsDrifted",
    ),
    (
        "a label that is too high",
        {"claim": RACK, "pool": node_pool(requires("rack", "Lt", "1"))},
        "RequirementsDrifted",
    ),
    (
        "a label in these bounds",
        {"claim": RACK, "pool": node_pool(requires("rack", "Gt", "2"), requires("rack", "Lt", "9"))},
        "",
    ),
    ("a size that is allowed", {"pool": node_pool(requires(INSTANCE_TYPE, "In", T4, A100))}, ""),
    ("another size", {"pool": node_pool(requires(INSTANCE_TYPE, "In", A100))}, "RequirementsDrifted"),
    ("a fact of the size", {"pool": node_pool(requires(COUNT, "Gt", "1"))}, "RequirementsDrifted"),
    ("a fact that the size lacks", {"pool": node_pool(requires(COUNT, "DoesNotExist"))}, "RequirementsDrifted"),
    ("another zone", {"pool": node_pool(requires(ZONE, "In", "westeurope-2"))}, "RequirementsDrifted"),
    ("another capacity type", {"pool": node_pool(requires(CAPACITY, "In", "spot"))}, "RequirementsDrifted"),
    (
        "a beta key",
        {"pool": node_pool(requires("failure-domain.beta.kubernetes.io/zone", "In", "westeurope-2"))},
        "RequirementsDrifted",
    ),
    ("labels that are not written yet", {"claim": claim(labels={}), "pool": node_pool(requires(ZONE, "In", "x"))}, ""),
    ("a custom key that the claim lacks", {"pool": node_pool(requires("rack", "In", "a"))}, "RequirementsDrifted"),
    ("a custom key that must be absent", {"pool": node_pool(requires("rack", "NotIn", "a"))}, ""),
    (
        "a custom key that the claim leaves open",
        {
            "claim": claim(requirements=(requires("rack", "In", "a", "b"),)),
            "pool": node_pool(requires("rack", "In", "a", "b")),
        },
        "",
    ),
    ("a custom key with other values", {"pool": node_pool(requires("team", "In", "other"))}, "RequirementsDrifted"),
    (
        "the case of the size",
        {
            "claim": claim(labels={**LABELS, INSTANCE_TYPE: T4.lower()}),
            "instance": instance(size=T4.lower()),
            "pool": node_pool(requires(INSTANCE_TYPE, "In", T4)),
        },
        "",
    ),
    ("an invalid requirement", {"pool": node_pool(requires(COUNT, "Gt", "many"))}, ""),
    (
        "instance types are unknown",
        {"instance_types": None, "pool": node_pool(requires(INSTANCE_TYPE, "In", A100))},
        "",
    ),
    # instance types
    ("a size that is no longer known", {"instance": instance(size="Standard_NC6")}, "InstanceTypeNotFound"),
    ("a size that this release lacks", {"instance": instance(size=LACKED), "skus": {LACKED.lower(): LISTED}}, ""),
    ("a size that it lacks, and no list of Azure's", {"instance": instance(size=LACKED), "skus": None}, ""),
    ("a young claim", {"instance": instance(size="Standard_NC6"), "claim": claim(age=HOUR / 2)}, ""),
    (
        "a region without prices",
        {
            "instance": instance(size="Standard_NC6"),
            "instance_types": InstanceTypes(types=(), well_known=TYPES.well_known, cloud=TYPES.cloud),
        },
        "",
    ),
    # the node class
    ("another node class spec", {"node_class": node_class(max_pods=30)}, "NodeClassDrift"),
    (
        "a claim without the hash of a class",
        {"claim": claim(annotations=node_pool_hash.hash_annotations(POOL)), "node_class": node_class(max_pods=30)},
        "",
    ),
    (
        "another version of the hash",
        {
            "claim": claim(annotations={**HASHES, "gpu-provisioner.sh/agentpoolnodeclass-hash-version": "v0"}),
            "node_class": node_class(max_pods=30),
        },
        "",
    ),
    ("the class of the claim is unknown", {"node_class": None}, ""),
    # versions
    ("an upgraded control plane", UPGRADED, "K8sVersionDrift"),
    ("numbers, not texts", {"kubernetes": version("1.33.10")}, "K8sVersionDrift"),
    ("an older control plane", {"kubernetes": version("1.32.9")}, ""),
    ("an unreadable version", {"kubernetes": version("latest")}, ""),
    ("an unknown version of the pool", {"instance": instance(kubernetes_version=""), **UPGRADED}, ""),
    ("created with the older version since", {"instance": instance(put_time=NOW - HOUR / 2), **UPGRADED}, ""),
    ("the cluster is being upgraded", {"cluster": Cluster(running=True, state="Upgrading"), **UPGRADED}, ""),
    ("the cluster is unknown", {"cluster": None, **UPGRADED, **NEWER}, ""),
    # images
    ("a newer image", NEWER, "ImageDrift"),
    (
        "a newer image with another name",
        image("202603.01.0", kind="AKSUbuntu-2404gen2containerd"),
        "ImageDrift",
    ),
    ("an older image from a slow read", image("202601.01.0"), ""),
    ("an image that is not known", {**NEWER, "image": ""}, ""),
    ("an image of another form", {**NEWER, "image": "custom"}, ""),
    ("an image that no pool was created with", {**NEWER, "pools": lambda: (instance(),)}, ""),
    ("an image of an older pool, which AKS upgraded", image("202603.01.0", NOW - 2 * DAY), ""),
    ("an image of a pool of others", image("202603.01.0", None), ""),
    ("the newest image of another kind of pools", {**image("202603.01.0", kind="x"), "image": NEWER["image"]}, ""),
    (
        "a pool with a later image than the one that was read",
        {**image("202604.01.0"), "image": NEWER["image"]},
        "ImageDrift",
    ),
    ("created with the older image since", {"instance": instance(put_time=NOW - HOUR / 2), **NEWER}, ""),
    ("a pool without the time of its creation", {"instance": instance(put_time=None), **NEWER}, "ImageDrift"),
    # expiration
    ("an old machine of a static NodePool", {"claim": expiring(), "pool": STATIC}, "Expired"),
    ("a younger one", {"claim": expiring(after="25h"), "pool": STATIC}, ""),
    ("one that never expires", {"claim": expiring(after="Never"), "pool": STATIC}, ""),
    ("an old machine of a dynamic NodePool", {"claim": expiring()}, ""),
    ("the clock was set", {"claim": expiring(), "pool": STATIC, "clock_set": True}, ""),
    ("Expired before the clock was set", {"claim": expiring("Expired"), "pool": STATIC, "clock_set": True}, None),
    # the first one counts
    ("the template comes first", {**CHANGED, **UPGRADED, **NEWER}, "NodePoolDrifted"),
    (
        "requirements before versions",
        {"pool": node_pool(requires(COUNT, "Gt", "1")), **UPGRADED},
        "RequirementsDrifted",
    ),
    ("the class before versions", {"node_class": node_class(max_pods=30), **UPGRADED}, "NodeClassDrift"),
    ("the version before the image", {**UPGRADED, **NEWER}, "K8sVersionDrift"),
    # what is not known changes nothing
    ("not Launched", {"claim": claim(launched=False), **CHANGED}, ""),
    ("Launched is False", {"claim": claim(drifted="NodePoolDrifted", launched=False), **CHANGED}, ""),
    ("the NodePool does not exist", {"pool": None}, None),
    ("the NodePool is being deleted", {"pool": node_pool(team="x", **GONE)}, None),
    (
        "the NodePool cannot be decoded",
        {
            "pool": msgspec.structs.replace(
                node_pool(team="x"), metadata=msgspec.structs.replace(POOL.metadata, unreadable=("spec",))
            )
        },
        None,
    ),
    ("another NodePool of that name", {"claim": claim(owner="uid-old"), **CHANGED}, None),
    ("the node class does not exist", {"new_class": None, **CHANGED}, None),
    ("the node class is being deleted", {"new_class": node_class(**GONE), **CHANGED}, None),
    ("the old class is gone, the NodePool has another one", {"node_class": None, **CHANGED}, "NodePoolDrifted"),
    ("the agent pool is unknown", {"instance": None, **CHANGED}, None),
    ("AKS upgrades the agent pool", {"instance": instance(raw_state="UpgradingNodeImageVersion"), **NEWER}, None),
    ("Drifted by an image that is not known now", {"claim": claim(drifted="ImageDrift"), "image": ""}, None),
    ("Drifted by a class that is not known now", {"claim": claim(drifted="NodeClassDrift"), "node_class": None}, None),
    ("Drifted by something that is known now", {"claim": claim(drifted="NodePoolDrifted"), "image": ""}, ""),
    (
        "Drifted, and another cause comes first",
        {"claim": claim(drifted="ImageDrift"), "image": "", **CHANGED},
        "NodePoolDrifted",
    ),
]


@pytest.mark.parametrize(("changes", "reason"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_drift(changes: dict[str, Any], reason: str | None) -> None:
    """None: the condition stays as it is."""
    found = drift_reason(facts(**changes))
    assert (found.reason if found is not None else None) == reason


def test_what_differs() -> None:
    """The detail names the objects and versions."""
    assert drift_reason(facts()) == NO_DRIFT
    newest = f"{IMAGE}-202603.01.0"
    assert drift_reason(facts(**NEWER)) == DriftReason("ImageDrift", f"{IMAGE}-202602.10.0, the newest is {newest}")
    assert drift_reason(facts(**UPGRADED)) == DriftReason("K8sVersionDrift", "1.33.2, the control plane has 1.34.0")
