"""The fields of a Node that the program uses; others are dropped when decoding.

Decoding takes about 14 µs, against 2 ms for the model of the SDK.

Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/.
"""

from collections.abc import Mapping

import msgspec

from . import labels
from .meta import EMPTY, ObjectMeta, Struct, Taint, Time, condition_of


class NodeCondition(Struct, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None


class NodeSpec(Struct, frozen=True, kw_only=True):
    provider_id: str = msgspec.field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeInfo(Struct, frozen=True, kw_only=True):
    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Struct, frozen=True, kw_only=True):
    capacity: Mapping[str, str] = EMPTY
    allocatable: Mapping[str, str] = EMPTY
    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(Struct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        return self.metadata.deleting

    @property
    def cloud_uninitialized(self) -> bool:
        """Whether the cloud node manager has not yet set providerID, zone and size."""
        return any(taint.key == labels.UNINITIALIZED_TAINT for taint in self.spec.taints)

    @property
    def ready_condition(self) -> NodeCondition | None:
        """The Ready condition; None before the kubelet has posted a status."""
        return self.condition("Ready")

    def condition(self, kind: str, *statuses: str) -> NodeCondition | None:
        """The condition of this type, if it has one of these statuses (any if none is given)."""
        return condition_of(self.status.conditions, kind, *statuses)

    @property
    def ready(self) -> bool:
        """Whether the Ready condition is True; False and Unknown both count as not ready."""
        return self.condition("Ready", "True") is not None
