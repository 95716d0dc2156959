"""The writes of the controllers of NodePools, AgentPoolNodeClasses and NodeOverlays, as frozen values.

Each has the object as the plan saw it; the write requires its version.
"""

from collections.abc import Mapping

import msgspec

from provisioner.api.meta import Condition
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass, Misfit, ObservedDaemonSet, ObservedType
from provisioner.api.nodeoverlay import NodeOverlay
from provisioner.api.nodepool import NodePool

from .steps import Event


class SetNodeClassFinalizers(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces the list of finalizers; adds or removes ours."""

    node_class: AgentPoolNodeClass
    finalizers: tuple[str, ...]


class PatchNodeClassStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`events` follow the write."""

    node_class: AgentPoolNodeClass
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...] = ()


class RecordMachines(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces what the status of the node class states of machines: which pods they did not take, what they offer.

    `observed_daemon_sets`: what daemon pods request.
    """

    node_class: AgentPoolNodeClass
    misfits: tuple[Misfit, ...]
    observed_types: tuple[ObservedType, ...]
    observed_daemon_sets: tuple[ObservedDaemonSet, ...]


class AnnotateNodePool(msgspec.Struct, frozen=True, kw_only=True):
    node_pool: NodePool
    annotations: Mapping[str, str]


class AnnotateNodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    claim: NodeClaim
    annotations: Mapping[str, str]


class PatchNodePoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`fields`: the status besides the conditions, in wire names. `events` follow the write."""

    node_pool: NodePool
    conditions: tuple[Condition, ...]
    fields: Mapping[str, object]
    events: tuple[Event, ...] = ()


class PatchNodeOverlayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`events` follow the write."""

    overlay: NodeOverlay
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...] = ()


PoolStep = (
    SetNodeClassFinalizers
    | PatchNodeClassStatus
    | RecordMachines
    | AnnotateNodePool
    | AnnotateNodeClaim
    | PatchNodePoolStatus
    | PatchNodeOverlayStatus
)
