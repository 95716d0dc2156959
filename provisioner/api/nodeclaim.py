"""The NodeClaim (`karpenter.sh/v1`).

Decodes every claim that the CRD of any release of Karpenter v1 accepts.

Source: docs/references/karpenter.md#nodeclaim-api.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from .meta import EMPTY, Condition, ObjectMeta, Struct, Taint, condition_of
from .requirements import Requirement


class Phase(StrEnum):
    """Where a claim is in its life. A metric label and a column of `try`: the values are part of the interface."""

    PENDING = "Pending"  # no agent pool was accepted yet
    LAUNCHING = "Launching"  # AKS creates the agent pool
    REGISTERING = "Registering"  # the machine runs, its Node is not registered
    INITIALIZING = "Initializing"  # the Node is not Ready, has startup taints, or lacks GPUs
    READY = "Ready"
    NOT_READY = "NotReady"  # was Ready before
    FAILED = "Failed"  # the last attempt failed, or the claim is invalid
    DRAINING = "Draining"
    DETACHING = "Detaching"
    INSTANCE_TERMINATING = "InstanceTerminating"
    TERMINATED = "Terminated"  # the agent pool is gone; the claim is, or its finalizers are being removed


class ResourceRequirements(Struct, frozen=True, kw_only=True):
    """Quantities as in the manifest: a string or a number, see `quantity.py`."""

    requests: Mapping[str, str | int | float] = EMPTY


class NodeClassReference(Struct, frozen=True, kw_only=True):
    """A reference to a node class, which need not exist."""

    group: str = ""
    kind: str = ""
    name: str = ""


class NodeClaimSpec(Struct, frozen=True, kw_only=True):
    requirements: tuple[Requirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    node_class_ref: NodeClassReference = NodeClassReference()
    termination_grace_period: str | None = None
    expire_after: str | None = None


class NodeClaimStatus(Struct, frozen=True, kw_only=True):
    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    image_id: str = msgspec.field(default="", name="imageID")
    capacity: Mapping[str, str | int | float] = EMPTY
    allocatable: Mapping[str, str | int | float] = EMPTY
    conditions: tuple[Condition, ...] = ()


class NodeClaim(Struct, frozen=True, kw_only=True):
    api_version: str = "karpenter.sh/v1"
    kind: str = "NodeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        return self.metadata.deleting

    def condition(self, kind: str, *statuses: str) -> Condition | None:
        """The condition of this type, if it has one of these statuses (any if none is given)."""
        return condition_of(self.status.conditions, kind, *statuses)
