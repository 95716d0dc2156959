"""Conditions and taints of Nodes, as the kubelet and the node controller write them.

Writes to a Node that does not exist are ignored. A condition's transition time changes only with its status. The taints
follow the Ready condition; other taints are kept.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions (`not-ready`
for False, `unreachable` for Unknown).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from provisioner.api import labels
from provisioner.simulator.kube.store import Store

Json = dict[str, Any]
HEALTHY = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}
NOT_READY_TAINTS = frozenset({labels.NOT_READY_TAINT, labels.UNREACHABLE_TAINT})


def health_taints(ready: bool | None) -> list[Json]:
    """The node controller's taints: none when Ready, `not-ready` when False, `unreachable` when Unknown."""
    if ready:
        return []
    key = labels.UNREACHABLE_TAINT if ready is None else labels.NOT_READY_TAINT
    return [{"key": key, "effect": "NoSchedule"}, {"key": key, "effect": "NoExecute"}]


class NodeWriter:
    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now

    def ready(self, name: str, ready: bool | None, reason: str = "", message: str = "") -> None:
        """Set the Ready condition and its taints; None: Unknown."""
        if ready is None:
            reason, message = reason or "NodeStatusUnknown", message or "Kubelet stopped posting node status."
        else:
            reason = reason or ("KubeletReady" if ready else "KubeletNotReady")
        word = {True: "True", False: "False", None: "Unknown"}[ready]
        self.condition(name, "Ready", word, reason, message)
        node = self._store.get("nodes", name)
        if node is not None:
            old = node["spec"].get("taints") or []
            kept = [taint for taint in old if taint["key"] not in NOT_READY_TAINTS]
            self._store.patch("nodes", name, {"spec": {"taints": [*kept, *health_taints(ready)] or None}})

    def is_ready(self, name: str) -> bool:
        """Whether the Node is Ready."""
        conditions = ((self._store.get("nodes", name) or {}).get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def healthy(self, name: str) -> None:
        """Set the three pressure conditions to False."""
        for kind, reason in HEALTHY.items():
            self.condition(name, kind, "False", reason, f"kubelet reports no {kind}")

    def condition(self, name: str, kind: str, word: str, reason: str, message: str) -> None:
        """Set one condition; `word`: True, False or Unknown."""
        node = self._store.get("nodes", name)
        if node is None:
            return
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        known = (node.get("status") or {}).get("conditions") or []
        since = next((c["lastTransitionTime"] for c in known if c["type"] == kind and c["status"] == word), now)
        condition = {
            "type": kind,
            "status": word,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": since,
        }
        self.status(name, {"conditions": [condition]})

    def status(self, name: str, status: Json) -> None:
        """Patch the Node's status."""
        if self._store.get("nodes", name) is not None:
            self._store.patch("nodes", name, {"status": status}, how="strategic", subresource="status")
