"""The current state of the cluster and of Azure, with the simulator's own rules of ownership and health.

Pure look-ups over the claims, Nodes and pools that the checker has seen. The rules are implemented independently of the
controller, because the controller's rules are under test.

Source: docs/references/rules.md#ownership-marks, docs/references/kaito.md#its-agent-pools.
"""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from provisioner.api import labels

from .azure import sizes
from .azure.agentpool import Pool

Json = dict[str, Any]

GPU_RESOURCES = {sizes.NVIDIA: "nvidia.com/gpu", sizes.AMD: "amd.com/gpu"}
FAILED = frozenset({"Failed", "Canceled", "Canceling"})
# Conditions of a Node by which its machine is faulty, with the status that states so.
FAULTS = {
    **dict.fromkeys(("KubeletProblem", "ContainerRuntimeProblem", "GPUMissing", "UnhealthyNvidiaDevicePlugin"), "True"),
    **dict.fromkeys(("ReadonlyFilesystem", "FilesystemCorruptionProblem", "KernelDeadlock"), "True"),
    **dict.fromkeys(("PreemptionScheduled",), "True"),
    **dict.fromkeys(("kubernetes.azure.com/NodeHealthy", "AcceleratedHardwareReady"), "False"),
}
_TAG = labels.TAG_CLAIM_UID.lower()
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|h|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
# A machine whose Node is not registered, or does not show its GPUs, after so many seconds has failed to start.
REGISTRATION_SECONDS, INITIALIZATION_SECONDS = 900.0, 1200.0
# Pods of NodePools do not wait longer for a machine that is being created.
CREATING_SECONDS = 1800.0
MAINTENANCE_STATES = frozenset(
    {"Updating", "Upgrading", "UpgradingNodeImageVersion", "Starting", "Stopping", "Scaling"}
)


def pool_marks(pool: Pool) -> tuple[str, ...]:
    """The UIDs of the claims in the pool's marks: of its tag, then of its label."""
    # The exact key first, because this runs for every pool on every write; Azure may change the case of tag keys.
    tags, label = pool.tags, pool.labels.get(labels.CLAIM_UID, "")
    tag = tags.get(labels.TAG_CLAIM_UID, "") or next((value for key, value in tags.items() if key.lower() == _TAG), "")
    return tuple(filter(None, (tag, label)))


def pool_mark(pool: Pool) -> str:
    """The UID of the claim in the pool's first mark; "" without one."""
    return next(iter(pool_marks(pool)), "")


def pool_stamp(pool: Pool) -> str:
    """The creation timestamp on a pool of Azure/gpu-provisioner; "" on other pools."""
    if pool_mark(pool) or pool.properties.get("mode") == "System":
        return ""
    return digits(pool.labels.get(labels.KAITO_CREATION_TIMESTAMP, ""))


def of_node_pool(claim: Json) -> bool:
    """Whether a NodePool owns the claim."""
    return any(owner.get("kind") == "NodePool" for owner in claim["metadata"].get("ownerReferences") or ())


def owner_name(claim: Json) -> str:
    """The NodePool or the workspace of KAITO that creates another claim in the place of this one; "" without one."""
    owners = (owner["name"] for owner in claim["metadata"].get("ownerReferences") or () if owner["kind"] == "NodePool")
    workspace = labels_of(claim).get(labels.KAITO_WORKSPACE, "")
    return next((f"NodePool {name}" for name in owners), workspace and f"workspace {workspace}")


def digits(text: str) -> str:
    """A timestamp without punctuation, because label values cannot contain colons."""
    return "".join(char for char in text if char.isdigit())


def labels_of(obj: Json) -> dict[str, str]:
    """An object's labels."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Json) -> dict[str, str]:
    """An object's annotations."""
    return obj["metadata"].get("annotations") or {}


def has_finalizer(obj: Json | None) -> bool:
    """Whether the object has the controller's finalizer."""
    return obj is not None and labels.FINALIZER in (obj["metadata"].get("finalizers") or ())


def deleting(obj: Json) -> bool:
    """Whether the object has a deletionTimestamp."""
    return "deletionTimestamp" in obj["metadata"]


def conditions(obj: Json | None) -> list[Json]:
    """The conditions of an object; none without an object."""
    return list(((obj or {}).get("status") or {}).get("conditions") or ())


def condition(obj: Json | None, kind: str) -> str:
    """The status of a condition; "" if there is none of that type."""
    return next((str(found["status"]) for found in conditions(obj) if found["type"] == kind), "")


def is_disrupted(node: Json) -> bool:
    """Whether the Node has the taint of a removal or replacement."""
    return any(taint["key"] == labels.DISRUPTED_TAINT for taint in (node.get("spec") or {}).get("taints") or ())


def allocatable(node: Json | None, resource: str) -> int:
    """The allocatable count of an extended resource of a Node."""
    return int(((node or {}).get("status") or {}).get("allocatable", {}).get(resource, "0"))


def capacity(node: Json, resource: str) -> int:
    """The count of an extended resource of a Node with its unhealthy devices."""
    return int((node.get("status") or {}).get("capacity", {}).get(resource, "0"))


def has_no_gpus(node: Json, pool: Pool) -> bool:
    """Whether the Node offers none of the GPUs of its size."""
    size = sizes.find(pool.size) or sizes.Size()
    return allocatable(node, GPU_RESOURCES.get(size.vendor, "")) == 0


def lacks_gpus(node: Json, pool: Pool) -> bool:
    """Whether the Node offers fewer GPUs than its size has."""
    size = sizes.find(pool.size) or sizes.Size()
    # Devices that the kubelet finds unhealthy are in capacity only: of shared GPUs, too.
    resource = GPU_RESOURCES.get(size.vendor, "")
    return allocatable(node, resource) < max(size.gpus, capacity(node, resource))


class Snapshot:
    """`cluster_idle`: whether the managed cluster is Running, without an operation; `now`: the wall clock."""

    def __init__(self, cluster_idle: Callable[[], bool], now: Callable[[], datetime]) -> None:
        self.claims: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.pools: dict[str, Pool] = {}
        self.our_pool_names: dict[str, None] = {}
        self._replicas: dict[str, Json] = {}
        self._scheduled: dict[str, list[int]] = {}
        self._pods: dict[str, tuple[str, bool]] = {}
        self._deadlines: dict[str, list[tuple[str, str, float]]] = {}
        self._requested: set[str] = set()
        self._cluster_idle = cluster_idle
        self._now = now

    def belongs(self, pool: Pool, claim: Json) -> bool:
        meta, mark = claim["metadata"], pool_mark(pool)
        if mark:
            return bool(self.owner_of(pool) == meta["uid"])
        stamp = pool_stamp(pool)
        return bool(stamp and pool.name == meta["name"] and stamp == digits(meta["creationTimestamp"]))

    def owner(self, uid: str) -> str:
        """The UID of the claim that owns a mark: the marked one while it exists, else the one annotated to adopt it."""
        if uid in self.claims:
            return uid
        adopters = (one for one, claim in self.claims.items() if annotations_of(claim).get(labels.ADOPT) == uid)
        return next(adopters, uid) if uid else ""

    def owner_of(self, pool: Pool) -> str:
        """The owner of a pool by either of its marks; a mark with an existing claim comes first."""
        first = ""
        for mark in pool_marks(pool):
            uid = self.owner(mark)
            if uid in self.claims:
                return uid
            first = first or uid
        return first

    def legacy_claim(self, name: str, stamp: str) -> str:
        """The UID of the claim of that name that was created at that time; "" if there is none."""
        for uid, claim in self.claims.items():
            meta = claim["metadata"]
            if stamp and meta["name"] == name and digits(meta["creationTimestamp"]) == stamp:
                return uid
        return ""

    def claim_of_node(self, node: Json) -> str:
        found = labels_of(node)
        if uid := found.get(labels.CLAIM_UID, ""):
            return self.owner(uid)
        return self.legacy_claim(
            found.get(labels.AGENTPOOL, ""), digits(found.get(labels.KAITO_CREATION_TIMESTAMP, ""))
        )

    def pool_of_node(self, node: Json) -> Pool | None:
        """The pool that the Node is a machine of; not a later pool of the same name."""
        found = labels_of(node)
        pool = self.pools.get(found.get(labels.AKS_AGENTPOOL, "") or found.get(labels.AGENTPOOL, ""))
        if pool is None:
            return None
        if own := pool_marks(pool):
            return pool if found.get(labels.CLAIM_UID, "") in own else None
        return pool if pool_stamp(pool) == digits(found.get(labels.KAITO_CREATION_TIMESTAMP, "")) else None

    def is_ours(self, node: Json) -> bool:
        found = labels_of(node)
        name = found.get(labels.AKS_AGENTPOOL, "") or found.get(labels.AGENTPOOL, "")
        return labels.CLAIM_UID in found or name in self.our_pool_names

    def in_maintenance(self, pool: Pool) -> bool:
        """Whether an operation runs on the cluster or the pool, one of them is stopped, or the pool was scaled to 0."""
        emptied = pool.count == 0 and pool.priority != "Spot"
        return not self._cluster_idle() or pool.power != "Running" or pool.state in MAINTENANCE_STATES or emptied

    def is_outlived(self, node: Json, pool: Pool) -> bool:
        """Whether the machine of this Node is gone, and its pool has another one."""
        instance = int(node["metadata"]["name"][-6:], 36)
        return bool(pool.machines) and instance not in pool.machines

    def set_replicas(self, node_pool: Json, *, gone: bool) -> None:
        """Record a NodePool with `spec.replicas`; one without it is dynamic."""
        uid = node_pool["metadata"]["uid"]
        if gone or node_pool["spec"].get("replicas") is None:
            self._replicas.pop(uid, None)
        else:
            self._replicas[uid] = node_pool

    def least_replicas(self, node_pool: Json) -> int | None:
        """How many NodeClaims the NodePool has at any time of day; None for a dynamic one."""
        replicas = node_pool["spec"].get("replicas")
        node_class = node_pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
        return replicas if replicas is None else min([replicas, *self._scheduled.get(node_class, ())])

    def set_node_class(self, node_class: Json, *, gone: bool) -> None:
        """Record the readiness rules of a node class that let a machine be replaced: key and effect, seconds.

        And the fewest replicas that its schedules may leave a static NodePool.
        """
        name, spec = node_class["metadata"]["name"], {} if gone else node_class.get("spec") or {}
        self._scheduled[name] = [one.get("replicas", 0) for one in spec.get("replicaSchedules") or ()]
        rules = spec.get("readiness") or ()
        self._deadlines[name] = [
            (rule["taint"]["key"], rule["taint"]["effect"], rule.get("timeoutSeconds", 1800))
            for rule in rules
            if rule.get("onTimeout") == "Replace"
        ]

    def request_created(self, terminate_node: Json) -> None:
        """Record the claim of the Node that a new TerminateNode names."""
        name = (terminate_node.get("spec") or {}).get("nodeName", "")
        nodes = (node for node in self.nodes.values() if node["metadata"]["name"] == name)
        self._requested |= {self.claim_of_node(node) for node in nodes}

    def is_requested(self, uid: str) -> bool:
        """Whether a TerminateNode was created for the machine of this claim."""
        return uid in self._requested

    def is_surplus(self, uid: str) -> bool:
        """Whether the claim belongs to a static NodePool with more claims than replicas, at some time of day."""
        owners = {owner["uid"] for owner in self.claims[uid]["metadata"].get("ownerReferences", ())}
        pools = [pool for pool in self._replicas if pool in owners]
        return any(self._running(pool) > (self.least_replicas(self._replicas[pool]) or 0) for pool in pools)

    def set_pod(self, pod: Json, *, gone: bool) -> None:
        """Record the Node of a pod that has not ended and that no DaemonSet owns."""
        meta, name = pod["metadata"], (pod.get("spec") or {}).get("nodeName", "")
        ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        owners = {owner["kind"] for owner in meta.get("ownerReferences", ())}
        ended = ended or ("deletionTimestamp" in meta and "StatefulSet" not in owners)
        if gone or ended or not name or "DaemonSet" in owners:
            self._pods.pop(meta["uid"], None)
        else:
            self._pods[meta["uid"]] = name, _is_served(pod)

    def is_empty(self, uid: str) -> bool:
        """Whether the claim belongs to a dynamic NodePool, and no pod uses its Node. Served pods are no use of GPUs."""
        references = self.claims[uid]["metadata"].get("ownerReferences", ())
        owners = {owner["kind"] for owner in references if owner["uid"] not in self._replicas}
        nodes = {node["metadata"]["name"]: node for node in self.nodes.values() if self.claim_of_node(node) == uid}
        used = any(name in nodes and not (served and _has_gpus(nodes[name])) for name, served in self._pods.values())
        return "NodePool" in owners and bool(nodes) and not used

    def replacements(self, uid: str) -> list[Json]:
        """The claims that were created to replace this one."""
        return [
            claim
            for claim in self.claims.values()
            if uid in annotations_of(claim).get(labels.REPLACES, "").split(",") and not deleting(claim)
        ]

    def is_outdated(self, uid: str) -> bool:
        """Whether the claim may be deleted without a replacement: it has drifted, or its NodePool consolidates it."""
        claim = self.claims[uid]
        owners = {owner["uid"] for owner in claim["metadata"].get("ownerReferences", ()) if owner["kind"] == "NodePool"}
        dynamic = bool(owners) and owners.isdisjoint(self._replicas)
        return dynamic and "True" in (condition(claim, "Drifted"), condition(claim, "Consolidatable"))

    def _running(self, node_pool: str) -> int:
        """The claims of a NodePool, given by UID, that are neither being deleted nor replaced."""
        return sum(
            not deleting(claim)
            and condition(claim, "DisruptionReason") != "True"
            and any(owner["uid"] == node_pool for owner in claim["metadata"].get("ownerReferences", ()))
            for claim in self.claims.values()
        )

    def healthy(self, uid: str) -> bool:
        """Whether the claim exists and its machine is starting in time, or running and Ready with all its GPUs."""
        claim = self.claims.get(uid)
        if claim is None or deleting(claim):
            return False
        pools = [pool for pool in self.pools.values() if self.belongs(pool, claim)]
        if not pools or pools[0].state in FAILED or pools[0].state == "Deleting":
            return False
        if pools[0].count == 0 and pools[0].priority == "Spot":
            return False  # evicted for good; its Node may still state that it starts
        nodes = [node for node in self.nodes.values() if self.claim_of_node(node) == uid]
        if not nodes:
            slow = pools[0].state == "Creating" and (self._now() - pools[0].created).total_seconds() >= CREATING_SECONDS
            starting = condition(claim, "Registered") != "True" and not (slow and of_node_pool(claim))
            return starting and not self._longer("Launched", claim, REGISTRATION_SECONDS)
        return all(not deleting(node) and self._sound(node, claim, pools[0]) for node in nodes)

    def _sound(self, node: Json, claim: Json, pool: Pool) -> bool:
        missing = lacks_gpus(node, pool)
        if labels.INITIALIZED not in labels_of(node):
            taints = {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or ()}
            rules = self._deadlines.get((claim["spec"].get("nodeClassRef") or {}).get("name", ""), ())
            overdue = any((k, e) in taints and self._longer("Registered", claim, limit) for k, e, limit in rules)
            return not overdue and not (missing and self._longer("Registered", claim, INITIALIZATION_SECONDS))
        faulty = any(condition(node, kind) == word for kind, word in FAULTS.items())
        return condition(node, "Ready") == "True" and not missing and not faulty

    def _longer(self, kind: str, claim: Json, seconds: float) -> bool:
        """Whether this condition of the claim has been True for at least so long."""
        since = next(
            (c["lastTransitionTime"] for c in conditions(claim) if (c["type"], c["status"]) == (kind, "True")), ""
        )
        return bool(since) and (self._now() - datetime.fromisoformat(since)).total_seconds() >= seconds


def _is_served(pod: Json) -> bool:
    """Whether the pod requests no GPU, and a controller creates an equal one in its place."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", ()) if owner.get("controller")}
    return bool(owners & {"ReplicaSet", "StatefulSet"}) and not requests_gpus(pod)


def requests_gpus(pod: Json) -> bool:
    """Whether a container of the pod requests GPUs, or the pod claims devices."""
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    found = [one.get("resources") or {} for one in containers]
    names = (name for one in found for name in {**(one.get("requests") or {}), **(one.get("limits") or {})})
    return bool(spec.get("resourceClaims")) or any(_is_gpu(name) for name in names)


def _has_gpus(node: Json) -> bool:
    return any(_is_gpu(name) for name in (node.get("status") or {}).get("capacity") or {})


def _is_gpu(resource: str) -> bool:
    return resource.startswith(("nvidia.com/", "amd.com/"))


def duration_seconds(text: str) -> float | None:
    """A duration that the CRDs admit, in seconds; None for `Never` and for what is none."""
    if not text or _PART.sub("", text):
        return None
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))


def is_expired(claim: Json) -> bool:
    """Whether a NodePool's claim was deleted as late as its `expireAfter`, or later."""
    meta, after = claim["metadata"], duration_seconds(claim["spec"].get("expireAfter", ""))
    owned = any(owner["kind"] == "NodePool" for owner in meta.get("ownerReferences", ()))
    if after is None or not owned or "deletionTimestamp" not in meta:
        return False
    created, deleted = (datetime.fromisoformat(meta[key]) for key in ("creationTimestamp", "deletionTimestamp"))
    return (deleted - created).total_seconds() >= after
