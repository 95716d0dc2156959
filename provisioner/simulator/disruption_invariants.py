"""Checks what a controller disrupts of NodePools: budgets, GPU models, and replacements.

It counts from the objects, and reads budgets and schedules independently of the controller. Only certain violations
are reported: a controller reads caches, so what changed in the last seconds is judged as before and after the change.

Source: docs/references/rules.md#invariants, https://karpenter.sh/docs/concepts/disruption/.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from cronsim import CronSim, CronSimError

from provisioner.api import labels

from .snapshot import Snapshot, annotations_of, condition, conditions, deleting, duration_seconds, labels_of

Json = dict[str, Any]
Violated = Callable[[str, str], None]

# So long a controller may act on what it read before a change.
CACHE_SECONDS = 15.0
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# Labels that name a model or a size.
NAMING = (
    "karpenter.azure.com/sku-gpu-name",
    "nvidia.com/gpu.product",
    "karpenter.azure.com/sku-name",
    labels.INSTANCE_TYPE,
)


class DisruptionInvariants:
    """`violated(invariant, what)` is called for each violation. `time`: the loop's; `now`: the wall clock."""

    def __init__(
        self, snapshot: Snapshot, violated: Violated, *, time: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._snapshot = snapshot
        self._violated = violated
        self._time = time
        self._now = now
        self._node_pools: dict[str, deque[tuple[float, Json]]] = {}
        self._pods: dict[str, Json] = {}
        # The UIDs of NodeClaims whose disruption a controller began.
        self._disrupted: dict[str, None] = {}
        # The controllers of the pods that each disrupted NodeClaim had, with its GPU model.
        self._moved: dict[str, tuple[str, dict[str, None]]] = {}

    # what changes

    def node_pool_changed(self, node_pool: Json, *, gone: bool) -> None:
        """A NodePool was created, changed or deleted."""
        uid = node_pool["metadata"]["uid"]
        versions = self._node_pools.setdefault(uid, deque())
        if not versions or versions[-1][1]["spec"] != node_pool["spec"]:
            versions.append((self._time(), node_pool))
        forget_old(versions, self._time())
        if gone:
            del self._node_pools[uid]

    def pod_changed(self, pod: Json, *, gone: bool) -> None:
        """A pod was created, bound, changed or deleted."""
        uid, before = pod["metadata"]["uid"], self._pods.get(pod["metadata"]["uid"])
        if gone or has_ended(pod) or is_of_daemon_set(pod):
            self._pods.pop(uid, None)
            return
        self._pods[uid] = pod
        if node_of(pod) and (before is None or not node_of(before)):
            self._check_model(pod)

    def claim_changed(self, claim: Json, before: Json | None, *, gone: bool, controller: bool) -> None:
        """A NodeClaim was created, changed or deleted; `controller`: by a controller. Call it before `gone` is seen."""
        uid = claim["metadata"]["uid"]
        leaves = deleting(claim) or gone
        if leaves and before is not None and not deleting(before) and controller:
            self._deleted(claim, before)
        elif not leaves and _is_marked(claim) and controller and uid not in self._disrupted:
            self._check_budget(claim, [_reason(claim)])
            self._begin(claim)
        elif not leaves and not _is_marked(claim):
            self._disrupted.pop(uid, None)
            self._moved.pop(uid, None)
        if gone:
            self._disrupted.pop(uid, None)

    # I15

    def _deleted(self, claim: Json, before: Json) -> None:
        uid = claim["metadata"]["uid"]
        node_pool = self._node_pool(claim)
        if uid in self._disrupted:
            if node_pool is not None and "replicas" in node_pool["spec"]:
                self._check_ready(claim)
            return
        possible = [
            reason
            for reason, holds in (
                ("Empty", self._snapshot.is_empty(uid)),
                ("Drifted", condition(before, "Drifted") == "True"),
                ("Underutilized", condition(before, "Consolidatable") == "True"),
            )
            if holds
        ]
        voluntary = self._snapshot.healthy(uid) and not self._snapshot.is_surplus(uid) and not self._may_expire(claim)
        if node_pool is None or "replicas" in node_pool["spec"] or not voluntary or not possible:
            return
        self._check_budget(claim, possible)
        if not self._snapshot.is_empty(uid):
            self._check_destination(claim)
        self._begin(claim)

    def _begin(self, claim: Json) -> None:
        uid = claim["metadata"]["uid"]
        self._disrupted[uid] = None
        owners = {_controller(pod): None for pod in self._pods_of(uid) if _gpus(pod) and not _names_several(pod)}
        self._moved[uid] = self._model_of(uid), {owner: None for owner in owners if owner}

    def _check_budget(self, claim: Json, reasons: list[str]) -> None:
        node_pool = self._node_pool(claim)
        if node_pool is None:
            return
        pool = node_pool["metadata"]["uid"]
        claims = [one for one in self._snapshot.claims.values() if owner_of(one) == pool]
        going = [one for one in claims if one["metadata"]["uid"] in self._disrupted]
        others = sum(condition(one, "InstanceTerminating") != "True" for one in going)
        machines = sum(condition(one, "Initialized") in ("True", "False") for one in claims)
        most = max(self._allowed(pool, reason, machines) for reason in reasons)
        if others >= most:
            name = node_pool["metadata"]["name"]
            self._violated(
                "I15",
                f"claim {claim['metadata']['name']} is disrupted ({' or '.join(reasons)}) while {others} others of "
                f"NodePool {name} are, and its budgets allow {most:g} of {machines}",
            )

    def _allowed(self, pool: str, reason: str, machines: int) -> float:
        """The most that any version of the NodePool, and any time in the last seconds, allowed."""
        forget_old(self._node_pools[pool], self._time())
        versions = [node_pool for _, node_pool in self._node_pools[pool]]
        times = [self._now() - timedelta(seconds=back) for back in (0.0, CACHE_SECONDS)]
        return max(allowed(node_pool, reason, machines, time) for node_pool in versions for time in times)

    # I14

    def _check_model(self, pod: Json) -> None:
        """The pod was bound: not to a replacement with another GPU model than the machine it replaces."""
        node = self._snapshot.nodes.get(node_of(pod))
        if node is None or not _gpus(pod) or _names_several(pod):
            return
        uid = self._snapshot.claim_of_node(node)
        old = annotations_of(self._snapshot.claims.get(uid) or pod).get(labels.REPLACES, "").split(",")
        models = {self._moved[one][0] for one in old if one in self._moved and _controller(pod) in self._moved[one][1]}
        if models and (found := model(node)) and found not in models:
            self._violated(
                "I14",
                f"pod {pod['metadata']['name']} ran on {' or '.join(sorted(models))} and was moved to {found}, "
                f"Node {node['metadata']['name']}",
            )

    def _check_destination(self, claim: Json) -> None:
        """A machine is deleted without a replacement: another one with the same GPU model can take its pods."""
        uid = claim["metadata"]["uid"]
        mine = self._model_of(uid)
        if not mine or not any(_gpus(pod) and not _names_several(pod) for pod in self._pods_of(uid)):
            return
        if not any(
            model(node) == mine and condition(node, "Ready") == "True"
            for node in self._snapshot.nodes.values()
            if self._snapshot.claim_of_node(node) != uid and not deleting(node)
        ):
            self._violated(
                "I14",
                f"claim {claim['metadata']['name']} was deleted with pods that use {mine}, which no other Node has",
            )

    # I16

    def _check_ready(self, claim: Json) -> None:
        """The Ready NodeClaims of a static NodePool do not become fewer because of a replacement."""
        name, uid = claim["metadata"]["name"], claim["metadata"]["uid"]
        for one in self._snapshot.replacements(uid):
            ready = next((found for found in conditions(one) if found["type"] == "Ready"), None)
            since = ready and ready.get("lastTransitionTime")
            late = since and (self._now() - datetime.fromisoformat(since)).total_seconds() > CACHE_SECONDS
            if condition(claim, "Ready") == "True" and ready and ready["status"] != "True" and late:
                self._violated("I16", f"claim {name} was deleted while its replacement {one['metadata']['name']} was "
                               f"not Ready since {since}")  # fmt: skip

    # helpers

    def _node_pool(self, claim: Json) -> Json | None:
        found = self._node_pools.get(owner_of(claim))
        return found[-1][1] if found else None

    def _nodes(self, uid: str) -> Iterator[Json]:
        return (node for node in self._snapshot.nodes.values() if self._snapshot.claim_of_node(node) == uid)

    def _pods_of(self, uid: str) -> list[Json]:
        names = {node["metadata"]["name"] for node in self._nodes(uid)}
        return [pod for pod in self._pods.values() if node_of(pod) in names and not deleting(pod)]

    def _model_of(self, uid: str) -> str:
        return next((model(node) for node in self._nodes(uid)), "")

    def _may_expire(self, claim: Json) -> bool:
        after = duration_seconds(claim["spec"].get("expireAfter", ""))
        created = datetime.fromisoformat(claim["metadata"]["creationTimestamp"])
        return after is not None and (self._now() - created).total_seconds() >= after


def forget_old(versions: deque[tuple[float, Json]], now: float) -> None:
    """Leave those that controllers may still have in their caches; each has the time from which it holds."""
    while len(versions) > 1 and versions[1][0] < now - CACHE_SECONDS:
        versions.popleft()


def allowed(node_pool: Json, reason: str, machines: int, now: datetime) -> float:
    """How many machines the budgets of a NodePool allow to be disrupted; infinite without one that applies."""
    counts = [float("inf")]
    for budget in (node_pool["spec"].get("disruption") or {}).get("budgets", [{"nodes": "10%"}]):
        nodes, reasons = str(budget.get("nodes", "10%")), budget.get("reasons")
        try:
            number = -(-machines * int(nodes[:-1]) // 100) if nodes.endswith("%") else int(nodes)
            applies = is_active(budget, now)
        except (ValueError, CronSimError, StopIteration):
            return 0.0  # one that cannot be read blocks the NodePool
        if applies and (not reasons or reason in reasons):
            counts.append(number)
    return min(counts)


def is_active(budget: Json, now: datetime) -> bool:
    """Whether the last time of the schedule is at most `duration` ago. Raises CronSimError, StopIteration."""
    schedule = str(budget.get("schedule") or "")
    if "schedule" not in budget:
        return True
    seconds = duration_seconds(budget.get("duration", ""))
    if not seconds:
        raise ValueError(budget)
    # Backwards: the controller looks forward from the beginning of the duration.
    last = max(next(CronSim(one, now + timedelta(seconds=1), reverse=True)) for one in _alternatives(schedule))
    return (now - last).total_seconds() <= seconds


def _alternatives(schedule: str) -> list[str]:
    """What `cronsim` is to read: if both days are restricted, also by a step, either of them suffices.

    Source: https://github.com/robfig/cron/blob/v3.0.1/parser.go, `getRange`.
    """
    plain = MACROS.get(schedule, schedule).replace("?", "*")
    fields = plain.split()
    if len(fields) != 5 or "*" in (fields[2], fields[4]):
        return [plain]
    return [" ".join([*fields[:4], "*"]), " ".join([*fields[:2], "*", *fields[3:]])]


def model(node: Json) -> str:
    """The GPU model in the name of a Node's VM size, else the size."""
    size = labels_of(node).get(labels.INSTANCE_TYPE, "")
    found = re.search(r"_(T4|A10|A100|H100|H200|GB200|GB300|MI300X|\w*RTXPRO6000\w*)_", size)
    return found[1] if found else size


def owner_of(claim: Json) -> str:
    """The UID of the NodePool that owns it."""
    owners = claim["metadata"].get("ownerReferences", ())
    return next((owner["uid"] for owner in owners if owner["kind"] == "NodePool"), "")


def _is_marked(claim: Json) -> bool:
    return condition(claim, "DisruptionReason") == "True"


def _reason(claim: Json) -> str:
    return next(str(found["reason"]) for found in conditions(claim) if found["type"] == "DisruptionReason")


def node_of(pod: Json) -> str:
    """The Node that a pod is bound to; "" if none."""
    return str((pod.get("spec") or {}).get("nodeName", ""))


def has_ended(pod: Json) -> bool:
    """Whether a pod has succeeded or failed."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def is_of_daemon_set(pod: Json) -> bool:
    """Whether a DaemonSet of Kubernetes owns a pod; those of other API groups may be anything."""
    owners = pod["metadata"].get("ownerReferences", ())
    return any(one["kind"] == "DaemonSet" and one.get("apiVersion", "apps/v1").startswith("apps/") for one in owners)


def _controller(pod: Json) -> str:
    return next((owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())), "")


def _gpus(pod: Json) -> bool:
    amounts = [one.get("resources") or {} for one in pod["spec"].get("containers", ())]
    return any("gpu" in key for one in amounts for key in (one.get("limits") or one.get("requests") or {}))


def _names_several(pod: Json) -> bool:
    """Whether the pod's own affinity lists several models or sizes."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    values = {
        value
        for term in required.get("nodeSelectorTerms", ())
        for one in term.get("matchExpressions", ())
        if one["key"] in NAMING and one["operator"] == "In"
        for value in one["values"]
    }
    return len(values) > 1
